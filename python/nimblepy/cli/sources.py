"""Resolves the sources of commands: a file, a directory, or a table ``catalog#namespace.name``."""

from __future__ import annotations

import datetime
import os
import re
from typing import TYPE_CHECKING

from nimblepy.cli.arguments import NEWEST, Version
from nimblepy.cli.catalogs import existing_catalog as existing_catalog
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.files.resolve import as_rows
from nimblepy.foreign.marker import is_index
from nimblepy.foreign.open import open as open_file_or_index
from nimblepy.join.joinable import Joinable
from nimblepy.table.base.places import has_catalog

if TYPE_CHECKING:
    from nimblepy.table.catalog import Catalog
    from nimblepy.table.table import Table

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
# Maximum number of tables in an error message.
_SHOWN = 8


def open_rows(text: str, version: Version = NEWEST) -> Joinable:
    """Opens the rows that ``text`` names, in a version if they are a table.

    Of an index of Parquet files, these are the rows of the Parquet files.
    """
    rows = open_stored(text, version)
    if isinstance(rows, File) and is_index(rows.metadata):
        rows.close()
        return open_file_or_index(text)
    return rows


def open_stored(text: str, version: Version = NEWEST) -> Joinable:
    """Opens what ``text`` names, as it is stored: an index of Parquet files is a file of keys."""
    if has_catalog(text):
        raise no_table(text)
    if "#" not in text or os.path.exists(text):
        if version.given:
            raise not_a_table(text, version)
        return as_rows(text)
    return open_table(text, version)


def open_table(text: str, version: Version = NEWEST) -> Table:
    """Opens a version of the table ``catalog#namespace.name``."""
    lake, name = open_lake(text)
    table = lake.table(name)
    if not version.given:
        return table
    given = version.given
    if version.time is not None:
        given["time"] = parse_time(version.time)
    return table.at(**given)


def open_lake(text: str, *, create: bool = False) -> tuple[Catalog, str]:
    """Opens the catalog of ``catalog#namespace.name``, and returns the name too."""
    from nimblepy.table.catalog import connect

    catalog, mark, name = text.rpartition("#")
    if not mark:
        raise no_table(text)
    return connect(catalog if create else existing_catalog(catalog), create=create), name


def snapshot_of(table: Table, text: str) -> int | str:
    """Returns a snapshot by its id, a tag or a branch."""
    if text in table.tags:
        return text
    return int(text) if text.isdecimal() else table.branches.get(text, text)


def parse_age(text: str) -> datetime.timedelta:
    """Parses an age such as ``"12h"``."""
    match = re.fullmatch(r"(\d+)([smhd])", text.strip())
    if match is None:
        raise InvalidArgumentError(f"age {text!r}: expected a number and s, m, h or d, as in 3d")
    try:
        age = datetime.timedelta(**{_UNITS[match[2]]: int(match[1])})
        datetime.datetime.now(datetime.UTC) - age
    except (OverflowError, ValueError):  # ValueError: too many digits
        raise InvalidArgumentError(f"age {text!r}: that is before the year 1") from None
    return age


def parse_time(text: str) -> datetime.timedelta | datetime.datetime:
    """Parses an age, or a time in ISO 8601. A time without a zone is in UTC."""
    if re.fullmatch(r"\d+[smhd]", text.strip()):
        return parse_age(text)
    try:
        time = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidArgumentError(
            f"time {text!r}: expected a time as in 2026-11-24T06:00+00:00, or an age as in 2h"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)


def is_table(text: str) -> bool:
    """Returns whether ``text`` names a table, and not a file with ``#`` in its name."""
    catalog, mark, _ = text.rpartition("#")
    if not mark or os.path.exists(text):
        return False
    return ":" in catalog or has_catalog(catalog)


def only_file(text: str, command: str, instead: str) -> str:
    """Returns ``text``, which must not name a table.

    Raises:
        InvalidArgumentError: it names a table.
    """
    if is_table(text):
        raise InvalidArgumentError(f"{command}: {text} is a table; {instead}")
    return text


def no_table(text: str) -> InvalidArgumentError:
    """Returns the error message for ``text`` that names no table.

    For a catalog, it lists the tables.
    """
    message = f"{text}: expected CATALOG#NAMESPACE.NAME"
    if has_catalog(text):
        from nimblepy.table.catalog import connect

        tables = connect(text).tables()
        shown = ", ".join(f"{text}#{name}" for name in tables[:_SHOWN])
        shown += ", ..." * (len(tables) > _SHOWN)
        message += f"; this is a catalog, whose tables are {shown or 'none'}"
    return InvalidArgumentError(message)


def not_a_table(text: str, version: Version) -> InvalidArgumentError:
    """Returns the error for a version of something that has only one."""
    options = ", ".join(f"--{name}" for name in version.given)
    return InvalidArgumentError(f"{options}: {text} is not a table; only tables have versions")
