"""Opens what a server serves. Loads the catalogs, so a quick start imports it after it answers."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.files.dataset import Dataset, source_of_dataset
from nimblepy.files.resolve import as_rows
from nimblepy.table.base.places import has_catalog
from nimblepy.table.catalog import Catalog, connect

# At run time, this import would load pyiceberg.
if TYPE_CHECKING:
    from nimblepy.serving.manifest import Served


def open_served(
    source: Catalog | Served | str | os.PathLike[str], tables: Mapping[str, str] | str | None
) -> dict[str, Served]:
    """Opens separate handles on everything to serve, by their names in keys.

    Args:
        source: a lake, a file, a dataset or a table; or a path.
        tables: for a lake, its tables by their names in keys. Otherwise the name of the file,
            dataset or table.
    """
    if isinstance(source, (str, os.PathLike)) and isinstance(tables, Mapping):
        source = connect(source, create=False)
    elif isinstance(source, (str, os.PathLike)) and has_catalog(source):
        named = tables if isinstance(tables, str) else "NAMESPACE.TABLE"
        name = named.rpartition(".")[2]
        raise InvalidArgumentError(
            f"serve: {os.fspath(source)!r} is a lake; name the tables to serve: "
            f"serve({os.fspath(source)!r}, {{{name!r}: {named!r}}})"
        )
    if isinstance(source, Catalog):
        if not isinstance(tables, Mapping) or not tables:
            raise InvalidArgumentError(
                'serve: a lake needs the tables to serve, as in {"users": "shop.users"}'
            )
        return {_checked(name): source.table(table) for name, table in tables.items()}
    from nimblepy.table.table import Table

    if isinstance(tables, Mapping):
        raise InvalidArgumentError(
            "serve: a file, a dataset or a table needs one name, as in serve(source, 'users')"
        )
    if isinstance(source, Table):
        name = tables or source.name.rpartition(".")[2]
        lake = source.catalog
        assert isinstance(lake, Catalog)
        return {_checked(name): lake.table(source.name)}
    if isinstance(source, Dataset):
        directory = source_of_dataset(source).directory.path
        return {_checked(tables or _name_of(directory)): copy.copy(source)}
    if not isinstance(source, (str, os.PathLike)):
        if source.source is None:
            raise InvalidArgumentError("serve: a file that was opened from bytes is not served")
        source = source.source
    rows = as_rows(source)
    assert isinstance(rows, (File, Dataset))
    return {_checked(tables or _name_of(os.fspath(source))): rows}


def open_existing(
    source: Catalog | Served | str | os.PathLike[str], tables: Mapping[str, str]
) -> tuple[dict[str, Served], set[str]]:
    """Opens the tables of a lake that exist, and returns the names of the others."""
    if isinstance(source, (str, os.PathLike)):
        source = connect(source, create=False)
    if not isinstance(source, Catalog):
        return open_served(source, tables), set()
    opened: dict[str, Served] = {}
    for name, table in tables.items():
        with suppress(InvalidArgumentError):
            opened[name] = source.table(table)
    return opened, set(tables) - set(opened)


def _name_of(path: str) -> str:
    return os.path.basename(path.rstrip("/")).removesuffix(".nimble")


def _checked(name: str) -> str:
    # A key is NAME:KEY, and CURRENT has file names separated by spaces.
    if not name or any(c.isspace() or ord(c) <= 32 or c in ":/\\" for c in name):
        raise InvalidArgumentError(
            f"serve: the name {name!r} is empty, or has a space, a colon, a slash or a backslash"
        )
    return name
