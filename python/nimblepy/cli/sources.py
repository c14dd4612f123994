"""Resolves the sources of commands: a file, a directory, or a table ``catalog#namespace.name``."""

from __future__ import annotations

import os

from nimblepy.errors import InvalidArgumentError
from nimblepy.files.resolve import as_rows
from nimblepy.join.joinable import Joinable

# Maximum number of tables in an error message.
_SHOWN = 8


def open_rows(text: str) -> Joinable:
    """Opens the rows that ``text`` names."""
    catalog, mark, name = text.rpartition("#")
    if is_catalog(text):
        raise no_table(text)
    if not mark or os.path.exists(text):
        return as_rows(text)
    from nimblepy.table.catalog import connect

    return connect(existing_catalog(catalog)).table(name)


def is_catalog(text: str) -> bool:
    """Whether ``text`` is a catalog directory."""
    places = ("catalog.db", "nimble.catalog")
    return any(os.path.exists(os.path.join(text, name)) for name in places)


def is_table(text: str) -> bool:
    """Whether ``text`` names a table, and not a file with ``#`` in its name."""
    catalog, mark, _ = text.rpartition("#")
    if not mark or os.path.exists(text):
        return False
    return ":" in catalog or is_catalog(catalog)


def only_file(text: str, command: str, instead: str) -> str:
    """``text``, which must not name a table.

    Raises:
        InvalidArgumentError: it names a table.
    """
    if is_table(text):
        raise InvalidArgumentError(f"{command}: {text} is a table; {instead}")
    return text


def no_table(text: str) -> InvalidArgumentError:
    """The error message for ``text`` that names no table. For a catalog, it lists the tables."""
    message = f"{text}: expected CATALOG#NAMESPACE.NAME"
    if is_catalog(text):
        from nimblepy.table.catalog import connect

        tables = connect(text).tables()
        shown = ", ".join(f"{text}#{name}" for name in tables[:_SHOWN])
        shown += ", ..." * (len(tables) > _SHOWN)
        message += f"; this is a catalog, whose tables are {shown or 'none'}"
    return InvalidArgumentError(message)


def existing_catalog(text: str) -> str:
    """A catalog's directory or URI. A directory must already be a catalog."""
    if ":" not in text and not is_catalog(text):
        if not os.path.exists(text):
            raise InvalidArgumentError(
                f"{text}: not a catalog of tables: the directory does not exist"
            )
        raise InvalidArgumentError(f"{text}: not a catalog of tables")
    return text
