"""Opens the tables that options of the data source name."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nimblepy.errors import InvalidArgumentError
from nimblepy.spark.base.inputs import SparkInput, find_input

if TYPE_CHECKING:
    from nimblepy.table.table import Table

_PROPERTY = "catalog."


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(
            f"option {name!r}: got {text!r}; expected a snapshot id"
        ) from None


def _instant(name: str, text: str) -> datetime.datetime:
    try:
        instant = datetime.datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise InvalidArgumentError(
            f"option {name!r}: got {text!r}; expected a time with a zone, such as "
            "'2024-05-01T12:00:00+00:00'"
        )
    return instant


def _text(name: str, text: str) -> str:
    return text


_PAST: dict[str, Callable[[str, str], Any]] = {
    "snapshot": _number,
    "tag": _text,
    "branch": _text,
    "time": _instant,
}


def table_of_options(options: Mapping[str, Any]) -> SparkInput:
    """Returns the snapshot that ``catalog``, ``table`` and ``snapshot`` or similar options name.

    Raises:
        InvalidArgumentError: an option is missing or invalid.
    """
    table = named_table(options)
    past = {name: read(name, options[name]) for name, read in _PAST.items() if name in options}
    return find_input(table.at(**past) if past else table)


def named_table(options: Mapping[str, Any]) -> Table:
    """Returns the table that the options ``catalog`` and ``table`` name, at its newest snapshot."""
    from nimblepy.table.catalog import connect

    missing = [name for name in ("catalog", "table") if name not in options]
    if missing:
        raise InvalidArgumentError(
            f"nimble: a table needs the options 'catalog' and 'table'; {missing[0]!r} is missing"
        )
    properties = {
        name.removeprefix(_PROPERTY): value
        for name, value in options.items()
        if name.startswith(_PROPERTY)
    }
    return connect(options["catalog"], properties=properties or None).table(options["table"])


def written_table(options: Mapping[str, Any]) -> Table:
    """Returns the table to write to, at the branch that the option ``branch`` names."""
    table = named_table(options)
    return table.at(branch=options["branch"]) if "branch" in options else table
