"""Names of columns: text, or a path of names where text could mean another column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
# How a column is named in ``columns=``, ``on=`` and keys: as text, or exactly.
ColumnName: TypeAlias = str | Path


def output_name(name: str | Sequence[str]) -> str:
    """What a column is called in a result, asked for as ``name``."""
    return name if isinstance(name, str) else ".".join(name)


def show_names(names: Iterable[ColumnName]) -> str:
    """Names for a message, with commas between them; those of a path have quotes."""
    return ", ".join(
        name if isinstance(name, str) else ".".join(f'"{part}"' for part in name) for name in names
    )


def show_path(path: Path) -> str:
    """A path as SQL writes it: dots between names, quotes around a name that has dots."""
    return ".".join(f'"{name}"' if "." in name else name for name in path)
