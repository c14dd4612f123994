"""Converts constants of SQL text to values that compare exactly as in DuckDB.

DuckDB converts the two sides of a comparison to a common type. :func:`fit` returns a value only if
an exact comparison with the column gives the same answer. Otherwise it raises :class:`Inexact`, and
DuckDB evaluates the comparison.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import Column
from nimblepy.schema.kinds import family, is_bytes, is_text, value_type
from nimblepy.schema.many import as_many, values_of_column
from nimblepy.schema.plain import plain_array
from nimblepy.schema.text import is_uuid, parse_text, spelled_uuid
from nimblepy.schema.values import exact_of, place, raw_range, show, tick_of
from nimblepy.schema.zones import has_zone


class Inexact(Exception):
    """Raised if only DuckDB can compare the column with the constant.

    Attributes:
        error: why the constant is probably wrong, or ``None``.
    """

    def __init__(self, error: InvalidArgumentError | None = None) -> None:
        super().__init__()
        self.error = error


class Quoted(NamedTuple):
    """Quoted text, which a comparison converts to the type of the other side."""

    text: str


_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.(?P<fraction>\d{1,9}))?)?"
_INSTANT = re.compile(rf"\d{{4}}-\d\d-\d\d(?:[ T]{_CLOCK}(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?")
_FORMS: dict[str, re.Pattern[str]] = {
    "bool": re.compile("true|false", re.IGNORECASE),
    "number": re.compile(r"-?\d{1,18}(\.\d{1,18})?"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "time": re.compile(_CLOCK),
    "instant": _INSTANT,
}
_BYTES = re.compile(r"(?:\\x[0-9a-fA-F]{2}|[ -\[\]-~])*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SPECIAL = ("nan", "inf", "-inf", "infinity", "-infinity")
_TYPES = {
    "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "double": pa.float64(), "uuid": pa.uuid(),
}  # fmt: skip
_MOST_DIGITS = 38


def number(text: str) -> int | Decimal | float:
    """Returns the value of a number in SQL text. As in DuckDB, an exponent makes it a float."""
    if "e" in text.lower():
        return float(text)
    if "." not in text:
        return int(text) if len(text) < 39 else float(text)
    return Decimal(text) if sum(map(str.isdigit, text)) <= _MOST_DIGITS else float(text)


def typed(text: str, name: str) -> object:
    """Returns the value of a literal such as ``DATE '2024-01-01'``."""
    if name == "blob":
        return octets(text)
    value = _read(_TYPES[name], text)
    if name == "timestamptz" and not _INSTANT.fullmatch(text)["zone"]:  # type: ignore[index]
        raise Inexact  # DuckDB uses the session's time zone
    return value


def octets(text: str) -> bytes:
    """Returns the bytes of text such as ``\\x00ab``."""
    if not _BYTES.fullmatch(text):
        raise Inexact
    return re.sub(rb"\\x(..)", lambda m: bytes.fromhex(m[1].decode()), text.encode())


def parameter(value: object) -> object:
    """Returns the value of a parameter as a Python value, a :class:`Quoted` text or a temporal
    scalar.

    Raises:
        InvalidArgumentError: no column type can hold the value.
    """
    if isinstance(value, pa.Scalar):
        scalar = plain_array(pa.array([value], value.type))[0]
        if pt.is_temporal(scalar.type):
            return scalar
        if pt.is_float32(scalar.type) or pt.is_float16(scalar.type):
            return np.float32(scalar.as_py())
        value = scalar.as_py()
    if isinstance(value, str):
        return Quoted(value)
    if value is None or isinstance(value, (bool, int, Decimal, bytes, uuid.UUID, list)):
        if isinstance(value, Decimal) and not value.is_finite():
            return float(value)
        return value
    if as_many(value) is not None:
        return [value]
    exact = exact_of(value)
    if exact.kind == "number" and not isinstance(value, (np.float32, np.float16)):
        if isinstance(value, (float, np.floating)) or not isinstance(exact.value, Fraction):
            return float(value)  # type: ignore[arg-type]
        return int(exact.value) if exact.value.denominator == 1 else value
    if exact.kind in ("bool", "text"):
        return Quoted(exact.value) if isinstance(exact.value, str) else exact.value
    return value


def fit(column: Column, value: object) -> object:
    """Returns a value whose exact comparison with the column is DuckDB's comparison with ``value``.

    Raises:
        Inexact: there is no such value.
    """
    if value is None:
        return None
    data_type = column.value_type
    kind = family(data_type)
    if isinstance(value, Quoted):
        return _read(column.type, value.text)
    if isinstance(value, bool) or kind == "bool":
        if isinstance(value, bool) and kind == "bool":
            return value
        raise Inexact
    if isinstance(value, (int, Decimal, float, np.floating)) and kind != "none":
        if kind != "number":
            raise _mismatch(column, value)
        return _number(data_type, value)
    if isinstance(value, list) or kind == "none":
        raise Inexact
    if isinstance(value, bytes) and is_text(data_type):
        raise _mismatch(column, value)
    exact = exact_of(value)
    if {exact.kind, kind} <= {"date", "instant"}:
        if exact.has_zone and not has_zone(data_type):
            raise InvalidArgumentError(
                f"type mismatch: cannot compare a {data_type} column with {show(value)}: "
                "the value has a time zone, and the column does not; remove it from the value"
            )
    elif exact.kind != kind:
        raise _mismatch(column, value)
    return value


def check_together(column: Column, values: Sequence[object]) -> None:
    """Checks the values of an ``IN`` or ``BETWEEN``, which DuckDB converts to one common type.

    Raises:
        Inexact: with the common type, a comparison gives another answer than with the value alone.
    """
    data_type = column.value_type
    if family(data_type) != "number":
        return
    numbers = [v for v in values if isinstance(v, (int, Decimal, float, np.floating))]
    floats = [v for v in numbers if isinstance(v, (float, np.floating))]
    if floats and not pt.is_float64(data_type) and len(floats) < len(numbers):
        raise Inexact


def _mismatch(column: Column, value: object) -> InvalidArgumentError:
    shown = repr(value.text) if isinstance(value, Quoted) else show(value)
    return InvalidArgumentError(
        f"type mismatch: cannot compare a {column.value_type} column with {shown}; cast one of them"
    )


def _number(data_type: pa.DataType, value: Any) -> object:
    if isinstance(value, (float, np.floating)):
        # DuckDB converts the column to floats, which is exact for small integers.
        bound = 2.0**24 if isinstance(value, np.float32) else 2.0**53
        small = abs(float(value)) < bound and not pt.is_decimal(data_type)
        if not (pt.is_floating(data_type) or small or _is_outside(data_type, float(value))):
            raise Inexact
        return float(value)
    if pt.is_floating(data_type):
        return _nearest(data_type, Decimal(value))
    return value


def _is_outside(data_type: pa.DataType, value: float) -> bool:
    """Returns whether a number is outside of the type's range, even after rounding to floats."""
    low, high = (float(end * tick_of(data_type)) for end in raw_range(data_type))
    return not low <= value <= high


def _nearest(data_type: pa.DataType, value: Decimal) -> float:
    """Returns the float to which DuckDB converts an exact number.

    For numbers with many digits, this is not always the nearest float.
    """
    _, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0")
    places = -int(exponent)
    double = pt.is_float64(data_type)
    if not value:
        return 0.0
    if unscaled <= 2 ** (53 if double else 24) and 0 <= places <= (22 if double else 10):
        return float(value) if double else float(np.float32(float(value)))
    if not double or unscaled >= 10**18 or not 0 <= places <= 18:
        raise Inexact
    whole, rest = divmod(unscaled, 10**places)
    number = float(whole) + float(rest) / 10.0**places
    return -number if value < 0 else number


# ------------------------------------------------------------------ quoted text


def _read(data_type: pa.DataType, text: str) -> object:
    """Converts quoted text to a value. Accepts only forms that DuckDB reads as the same value."""
    kind = value_type(data_type)
    if is_text(kind):
        return text
    if is_bytes(kind) and not is_uuid(data_type):
        return spelled_uuid(data_type, text) or octets(text)
    if pt.is_floating(kind) and text.lower() in _SPECIAL:
        return float(text)
    try:
        value = parse_text(data_type, text)
    except InvalidArgumentError as error:
        raise Inexact(error) from None
    form = _UUID if is_uuid(data_type) else _FORMS.get(family(kind))
    match = None if form is None else form.fullmatch(text)
    if match is None:
        raise Inexact
    if pt.is_floating(kind):
        number = float(text)
        exact = pt.is_float64(kind) or float(np.float32(number)) == number
        if not exact or sum(map(str.isdigit, text)) > 15:
            raise Inexact
        return number
    groups = match.groupdict()
    if len(groups.get("fraction") or "") > 6 or place(data_type, value).exact is None:
        raise Inexact
    return value


# ------------------------------------------------------------------ values as SQL


_NAMES = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER",
    "int64": "BIGINT", "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER",
    "uint64": "UBIGINT", "float": "FLOAT", "double": "DOUBLE", "date32[day]": "DATE",
    "time64[us]": "TIME",
}  # fmt: skip


def type_name(data_type: pa.DataType) -> str | None:
    """Returns DuckDB's name of a type; ``None`` if DuckDB cannot cast to it and pyarrow must."""
    if pt.is_decimal(data_type) and data_type.precision <= 38 and data_type.scale >= 0:
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    if pt.is_timestamp(data_type):
        if data_type.tz is not None:
            return "TIMESTAMPTZ"
        return "TIMESTAMP_NS" if data_type.unit == "ns" else "TIMESTAMP"
    if isinstance(data_type, pa.UuidType):
        return "UUID"
    if is_text(data_type) or is_bytes(data_type):
        return "VARCHAR" if is_text(data_type) else None
    return _NAMES.get(str(data_type))


def written_items(value: object) -> list[str] | None:
    """Returns the values of a list as SQL texts; ``None`` if it is one value."""
    many = None if isinstance(value, (pa.Scalar, str, bytes)) else as_many(value)
    if isinstance(value, pa.ListScalar):
        many = value.values if value.is_valid else None
    return None if many is None else [written(item) for item in values_of_column(many)]


def written(value: object) -> str:
    """Returns the value of a parameter as SQL text for DuckDB."""
    many = written_items(value)
    if many is not None:
        return f"[{', '.join(many)}]"
    value = parameter(value)
    if isinstance(value, Quoted):
        return quoted(value.text)
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{octet:02X}" for octet in value) + "'::BLOB"
    if isinstance(value, uuid.UUID):
        return f"'{value}'::UUID"
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    if not scalar.is_valid:
        return "NULL"
    data_type = scalar.type
    if pt.is_duration(data_type):
        return f"'{scalar.cast(pa.duration('us')).value} microseconds'::INTERVAL"
    if has_zone(data_type):
        utc = scalar.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        return f"'{utc.cast(pa.string())}+00'::TIMESTAMPTZ"
    name = type_name(pa.date32() if pt.is_date(data_type) else data_type)
    if name is None:
        raise InvalidArgumentError(f"a value of type {data_type} cannot be a parameter here")
    return f"{quoted(scalar.cast(pa.string()).as_py())}::{name}"


def quoted(text: str) -> str:
    """Returns text as a quoted SQL literal."""
    return "'" + text.replace("'", "''") + "'"
