"""Names of columns: text, or a path of names if the text would be ambiguous."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
# A column in ``columns=``, ``on=`` and keys: text, or an exact path.
ColumnName: TypeAlias = str | Path


def output_name(name: str | Sequence[str]) -> str:
    """Returns the name of a result column that was requested as ``name``."""
    return name if isinstance(name, str) else ".".join(name)


def show_names(names: Iterable[ColumnName]) -> str:
    """Returns the names for a message, separated by commas; names of a path are quoted."""
    return ", ".join(
        name if isinstance(name, str) else ".".join(f'"{part}"' for part in name) for name in names
    )


def show_path(path: Path) -> str:
    """Returns a path as SQL: dots between names, quotes around names that contain dots."""
    return ".".join(f'"{name}"' if "." in name else name for name in path)
