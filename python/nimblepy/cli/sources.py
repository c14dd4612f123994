"""What a command names: a file, a directory of files, or a table as ``catalog#namespace.name``."""

from __future__ import annotations

import os

from nimblepy.errors import InvalidArgumentError
from nimblepy.files.resolve import as_rows
from nimblepy.join.joinable import Joinable

# Tables that a message names.
_SHOWN = 8


def open_rows(text: str) -> Joinable:
    """The rows that ``text`` names, opened."""
    catalog, mark, name = text.rpartition("#")
    if is_catalog(text):
        raise no_table(text)
    if not mark or os.path.exists(text):
        return as_rows(text)
    from nimblepy.table.catalog import connect

    return connect(existing_catalog(catalog)).table(name)


def is_catalog(text: str) -> bool:
    """Whether ``text`` is the directory of a catalog."""
    return os.path.exists(os.path.join(text, "catalog.db"))


def is_table(text: str) -> bool:
    """Whether ``text`` names a table, and not a file with ``#`` in its name."""
    catalog, mark, _ = text.rpartition("#")
    if not mark or os.path.exists(text):
        return False
    return ":" in catalog or is_catalog(catalog)


def only_file(text: str, command: str, instead: str) -> str:
    """``text``, which must not name a table.

    Raises:
        InvalidArgumentError: it does.
    """
    if is_table(text):
        raise InvalidArgumentError(f"{command}: {text} is a table; {instead}")
    return text


def no_table(text: str) -> InvalidArgumentError:
    """What is wrong with ``text``, which names no table: of a catalog, which there are."""
    message = f"{text}: expected CATALOG#NAMESPACE.NAME"
    if is_catalog(text):
        from nimblepy.table.catalog import connect

        tables = connect(text).tables()
        shown = ", ".join(f"{text}#{name}" for name in tables[:_SHOWN])
        shown += ", ..." * (len(tables) > _SHOWN)
        message += f"; this is a catalog, whose tables are {shown or 'none'}"
    return InvalidArgumentError(message)


def existing_catalog(text: str) -> str:
    """A catalog's directory or URI; a directory has to be one already."""
    if ":" not in text and not is_catalog(text):
        if not os.path.exists(text):
            raise InvalidArgumentError(f"{text}: no catalog of tables: there is no such directory")
        raise InvalidArgumentError(f"{text}: no catalog of tables is in this directory")
    return text
