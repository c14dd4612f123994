"""The kinds of claims about tables and columns, and how their values are stored as JSON."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from nimblepy.errors import InvalidArgumentError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")


@dataclass(frozen=True)
class Values:
    """All values of the column, each with its meaning. Nulls do not count.

    Args:
        meanings: ``{value: meaning}``, or a list of values.
    """

    meanings: Mapping[Any, str | None] | Iterable[Any]
    kind: Literal["values"] = field(default="values", init=False, repr=False)

    def stored(self) -> Any:
        given = self.meanings
        pairs = given.items() if isinstance(given, Mapping) else ((code, None) for code in given)
        stored = [[json_value(code), meaning] for code, meaning in pairs]
        if not stored:
            raise InvalidArgumentError("Values: expected at least one value")
        for code, meaning in stored:
            if meaning is not None and not isinstance(meaning, str):
                raise InvalidArgumentError(
                    f"Values: the meaning of {code!r} must be text, got {meaning!r}"
                )
        return stored


@dataclass(frozen=True)
class References:
    """The values of the column are keys of another table.

    Args:
        table: ``"namespace.name"``.
        column: the key column of that table; the default is its primary key.
        orphans: share of the distinct values that the other table may lack, from 0 to 1.
        fan_out: average number of rows for each value.
    """

    table: str
    column: str | None = None
    orphans: float = 0.0
    fan_out: float | None = None
    kind: Literal["references"] = field(default="references", init=False, repr=False)

    def stored(self) -> Any:
        if not isinstance(self.table, str) or "." not in self.table:
            raise InvalidArgumentError(
                f"References: expected the name of a table, got {self.table!r}"
            )
        if not 0 <= self.orphans <= 1:
            raise InvalidArgumentError(f"References: orphans: expected 0 to 1, got {self.orphans}")
        stored = {"table": self.table, "column": self.column, "orphans": float(self.orphans)}
        return stored if self.fan_out is None else stored | {"fan_out": float(self.fan_out)}


@dataclass(frozen=True)
class Unit:
    """The unit of the numbers in the column.

    Args:
        name: the unit, such as ``"cent"`` or ``"m/s"``.
        range: (lower, upper), the rough range of the values in this unit. A maximum far outside
            shows that the unit is wrong.
    """

    name: str
    range: tuple[Any, Any] | None = None
    kind: Literal["unit"] = field(default="unit", init=False, repr=False)

    def stored(self) -> Any:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgumentError(f"Unit: expected the name of a unit, got {self.name!r}")
        if self.range is None:
            return {"unit": self.name}
        return {"unit": self.name, "range": _ends("Unit", *self.range)}


@dataclass(frozen=True)
class Range:
    """All values are from ``lower`` to ``upper``, inclusive. Nulls and NaN do not count."""

    lower: Any
    upper: Any
    kind: Literal["range"] = field(default="range", init=False, repr=False)

    def stored(self) -> Any:
        return _ends("Range", self.lower, self.upper)


@dataclass(frozen=True)
class NotNull:
    """The column has no nulls. With ``False``: nulls occur, and have a meaning."""

    value: bool = True
    kind: Literal["not_null"] = field(default="not_null", init=False, repr=False)

    def stored(self) -> Any:
        return bool(self.value)


@dataclass(frozen=True)
class Samples:
    """Some values that occur in the column."""

    values: Sequence[Any]
    kind: Literal["samples"] = field(default="samples", init=False, repr=False)

    def stored(self) -> Any:
        return [json_value(value) for value in self.values]


@dataclass(frozen=True)
class SnapshotOf:
    """The table repeats all its rows for each value of the column, such as a day."""

    kind: Literal["snapshot_of"] = field(default="snapshot_of", init=False, repr=False)

    def stored(self) -> Any:
        return True


@dataclass(frozen=True)
class Reconcile:
    """An aggregate of this table equals an aggregate of another table.

    Args:
        expression: a SQL aggregate over this table, such as ``"sum(net)"``.
        table: the other table.
        other_expression: a SQL aggregate over the other table.
        within: the accepted relative difference.
    """

    expression: str
    table: str
    other_expression: str
    within: float = 0.0
    kind: Literal["reconcile"] = field(default="reconcile", init=False, repr=False)

    def stored(self) -> Any:
        return {
            "expression": self.expression,
            "table": self.table,
            "other_expression": self.other_expression,
            "within": float(self.within),
        }


ColumnClaim: TypeAlias = (
    str | Values | References | Unit | Range | NotNull | Samples | SnapshotOf | None
)
COLUMN_CLAIMS = (Values, References, Unit, Range, NotNull, Samples, SnapshotOf)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim about a table or a column.

    Attributes:
        kind: the kind, such as ``"values"``. Newer versions of nimblepy may store other kinds.
        column: name of the column; ``None`` if the claim is about the table.
        value: the content, as plain values: a text, a list, a dict.
        at: id of the snapshot for which it was last stated; ``None`` if another tool stored it.
        by: the user who stated it.
    """

    kind: str
    column: str | None
    value: Any
    at: int | None = None
    by: str | None = None

    def __str__(self) -> str:
        return f"{self.column or 'table'}: {self.kind} {self.value}"


def json_value(value: Any) -> Any:
    """Converts a value of a column to JSON types. Dates, decimals and UUIDs become text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (dt.date, dt.datetime, dt.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if hasattr(value, "as_py"):
        return json_value(value.as_py())
    if hasattr(value, "item"):
        return json_value(value.item())
    raise InvalidArgumentError(f"claims: a value of type {type(value).__name__} is not supported")


def _ends(what: str, lower: Any, upper: Any) -> list[Any]:
    if lower is None or upper is None:
        raise InvalidArgumentError(f"{what}: expected both ends of a range")
    try:
        ordered = not upper < lower
    except TypeError as error:
        raise InvalidArgumentError(f"{what}: {error}") from None
    if not ordered:
        raise InvalidArgumentError(f"{what}: {lower!r} is greater than {upper!r}")
    return [json_value(lower), json_value(upper)]


def age_text(value: str | dt.timedelta) -> str:
    """Checks a promise of freshness such as ``"26h"``, and returns it as text."""
    if isinstance(value, dt.timedelta):
        value = f"{value.total_seconds():g}s"
    if not isinstance(value, str) or _AGE.fullmatch(value.strip()) is None:
        raise InvalidArgumentError(
            f"fresh: expected a duration such as '26h', '30m' or '7d', got {value!r}"
        )
    return value.strip()


def age_seconds(text: str) -> float:
    """Converts a promise of freshness to seconds."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(f"fresh: {text!r} is not a duration such as '26h'")
    return float(match[1]) * _UNITS[match[2]]
