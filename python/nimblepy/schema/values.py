"""Finds where a Python, numpy, pandas, uuid or pyarrow value falls among the values of a column.

Filter literals, keys, bounds and join columns all use this module. It first converts a value to an
exact form without an Arrow type: numbers and times become fractions. It then compares the fraction
with the column's type. The type may have the value, or have only its two neighbours, or the value
is out of range. So ``x > 1.5`` on an int64 column can become ``x >= 2``, and ``x = 300`` on int8 is
false. No conversion rounds, overflows or drops nanoseconds.

Floats follow IEEE 754: NaN compares false with everything, and -0.0 equals 0.0.
"""

from __future__ import annotations

import datetime
import enum
import math
import sys
import uuid
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import Family, family, is_text, value_type
from nimblepy.schema.text import is_uuid, spelled_uuid, uuid_of
from nimblepy.schema.zones import has_zone, localize

_DAY = 86_400 * 10**9
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_TICKS = {
    "W": Fraction(7 * _DAY),
    "D": Fraction(_DAY),
    "h": Fraction(3600 * 10**9),
    "m": Fraction(60 * 10**9),
    "s": Fraction(10**9),
    "ms": Fraction(10**6),
    "us": Fraction(1000),
    "ns": Fraction(1),
    "ps": Fraction(1, 10**3),
    "fs": Fraction(1, 10**6),
    "as": Fraction(1, 10**9),
}
_FLOATS: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}
# Decimals with more digits than this before or after the point are out of every type's range, or
# between zero and its neighbour. Converting them to fractions would only waste memory.
_MOST_DIGITS = 5000


@dataclass(frozen=True, slots=True)
class Exact:
    """A value without a type.

    Attributes:
        kind: the family of types that the value can be compared with.
        value: numbers as fractions (infinities and NaN as floats), times as nanoseconds, other
            values unchanged.
        has_zone: whether the offset to UTC of a time is known.
        is_decimal: whether it is a decimal number. Compared with a column of floats, it is rounded
            to the nearest float, as in SQL, because floats represent few decimals exactly.
    """

    kind: Family
    value: Fraction | float | bool | str | bytes | uuid.UUID
    has_zone: bool = False
    is_decimal: bool = False


@dataclass(frozen=True, slots=True)
class LiteralPosition:
    """The position of a literal in a type: at a value, or strictly between two neighbours.

    ``below`` or ``above`` is ``None`` if the type has no value on that side.
    """

    exact: pa.Scalar | None = None
    below: pa.Scalar | None = None
    above: pa.Scalar | None = None
    is_nan: bool = False


# ------------------------------------------------------------------ from Python to exact


def is_null(value: object) -> bool:
    """Returns whether a value is None, an Arrow null, or NaT or NA. NaN is not null."""
    if value is None:
        return True
    if isinstance(value, pa.Scalar):
        return not value.is_valid
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    # Another thread may be importing pandas; then no value is one of its values yet.
    pandas = sys.modules.get("pandas")
    return value is getattr(pandas, "NaT", None) or value is getattr(pandas, "NA", None)


def is_nan(value: object) -> bool:
    """Returns whether a value is a NaN of a Python, numpy or Arrow float type."""
    if isinstance(value, pa.Scalar) and pt.is_floating(value.type):
        value = value.as_py()
    return isinstance(value, (float, np.floating)) and bool(value != value)


def exact_of(value: object) -> Exact:
    """Converts a non-null ``value`` to an Exact, which has no column type.

    Raises:
        InvalidArgumentError: no column type can hold the value.
    """
    try:
        exact = _exact_of(value)
    except (ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException) as error:
        raise InvalidArgumentError(f"cannot use {show(value)} as a value: {error}") from error
    if exact is None:
        raise InvalidArgumentError(
            f"cannot use {show(value)}, of type {type(value).__name__}, as a value"
        )
    return exact


def _exact_of(value: object) -> Exact | None:
    # Subclasses first: bool is an int, a datetime is a date.
    match value:
        case pa.Scalar():
            return _exact_of_arrow(value)
        case enum.Enum():
            return _exact_of(value.value)
        case np.ndarray() if value.ndim == 0:
            return _exact_of(value[()])
        case np.generic():
            return _exact_of_numpy(value)
        case bool():
            return Exact("bool", value)
        case int() | Fraction():
            return Exact("number", Fraction(value))
        case float():
            return Exact("number", Fraction(value) if math.isfinite(value) else value)
        case Decimal():
            return Exact("number", _exact_decimal(value), is_decimal=True)
        case str():
            return Exact("text", str(value))
        case bytes() | bytearray() | memoryview():
            return Exact("text", bytes(value))
        case uuid.UUID():
            return Exact("text", value)
        case datetime.datetime():
            return _exact_datetime(value)
        case datetime.date():
            return Exact("date", Fraction((value.toordinal() - _EPOCH) * _DAY))
        case datetime.time():
            if value.tzinfo is not None:
                raise ValueError("the time has a UTC offset, which time columns cannot store")
            return Exact("time", Fraction(_clock(value)))
        case datetime.timedelta():
            micros = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
            # pandas' subclass also has nanoseconds.
            nanos = micros * 1000 + int(getattr(value, "nanoseconds", 0))
            return Exact("duration", Fraction(nanos))
    return None


def _exact_decimal(value: Decimal) -> Fraction | float:
    if not value.is_finite():
        return math.nan if value.is_nan() else float(value)
    if value and not -_MOST_DIGITS < value.adjusted() < _MOST_DIGITS:
        scale = Fraction(10) ** (_MOST_DIGITS if value.adjusted() > 0 else -_MOST_DIGITS)
        return -scale if value.is_signed() else scale
    return Fraction(value)


def _exact_datetime(value: datetime.datetime) -> Exact:
    nanos = (value.toordinal() - _EPOCH) * _DAY + _clock(value)
    nanos += int(getattr(value, "nanosecond", 0))  # pandas' subclass
    offset = value.utcoffset()
    if offset is not None:
        nanos -= (offset // datetime.timedelta(microseconds=1)) * 1000
    return Exact("instant", Fraction(nanos), has_zone=offset is not None)


def _clock(value: datetime.datetime | datetime.time) -> int:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return seconds * 10**9 + value.microsecond * 1000


def _exact_of_numpy(value: np.generic) -> Exact | None:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        unit, count = np.datetime_data(value.dtype)
        if isinstance(value, np.datetime64):
            # A month has no fixed length, but a first day.
            dates = unit in ("Y", "M", "W", "D")
            if unit in ("Y", "M"):
                value, unit, count = value.astype("datetime64[D]"), "D", 1
            kind: Family = "date" if dates else "instant"
        else:
            kind = "duration"
        if unit not in _TICKS:
            raise ValueError(f"numpy's unit {unit!r} has no fixed length")
        return Exact(kind, int(value.astype(np.int64)) * count * _TICKS[unit])
    if isinstance(value, np.floating):
        finite = bool(np.isfinite(value))
        return Exact("number", Fraction(*value.as_integer_ratio()) if finite else float(value))
    item = value.item()
    return None if isinstance(item, np.generic) else _exact_of(item)


def _exact_of_arrow(scalar: pa.Scalar) -> Exact | None:
    data_type = scalar.type
    if isinstance(data_type, pa.BaseExtensionType) or pt.is_dictionary(data_type):
        return _exact_of_arrow(scalar.value)
    if pt.is_run_end_encoded(data_type):
        return _exact_of(scalar.as_py())
    kind = family(data_type)
    if kind == "none":
        return None
    if pt.is_temporal(data_type):
        return Exact(kind, scalar.value * tick_of(data_type), has_zone=has_zone(data_type))
    value = scalar.as_py()
    if isinstance(value, np.generic):  # as_py() of a half float returns a numpy scalar
        value = float(value)
    return _exact_of(value)


def show(value: object) -> str:
    """Formats a value for messages: quotes strings, and prints Arrow scalars as Arrow does."""
    if not isinstance(value, pa.Scalar):
        try:
            text = repr(value)
        except ValueError:  # Python refuses to print an int with very many digits
            return f"a value of type {type(value).__name__}"
        return text if len(text) <= 80 else text[:77] + "..."
    if isinstance(value, (pa.StringScalar, pa.BinaryScalar)):
        return repr(value.as_py())
    try:
        return str(value)
    except (ValueError, OverflowError):  # Python's datetime cannot represent it
        return str(pa.array([value], value.type)).strip("[ \n]")


def as_scalar(value: object) -> pa.Scalar:
    """Returns ``value`` as an Arrow scalar of its natural type.

    Raises:
        InvalidArgumentError: Arrow has no type for it.
    """
    if isinstance(value, pa.Scalar):
        return value
    try:
        return pa.scalar(value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"cannot use {show(value)} as a value: {error}") from error


# ------------------------------------------------------------------ from exact to a type


def place(data_type: pa.DataType, literal: object) -> LiteralPosition:
    """Returns where ``literal`` falls among the values of ``data_type``.

    Args:
        data_type: type of the column, or of its dictionary's or runs' values.
        literal: a Python, numpy, pandas or Arrow value that is not null.

    Raises:
        InvalidArgumentError: the literal cannot be compared with the type, such as a number with a
            string.
    """
    plain_type = value_type(data_type)
    if isinstance(literal, pa.Scalar):
        if literal.type == plain_type and not pt.is_floating(plain_type):
            return LiteralPosition(exact=literal)
    elif (quick := _plain_scalar(plain_type, literal)) is not None:
        return LiteralPosition(exact=quick)
    exact = exact_of(literal)
    value = _value_in(plain_type, exact, literal)
    if isinstance(value, (str, bytes, uuid.UUID)):
        if isinstance(value, str) and is_uuid(data_type):
            return _place_text(plain_type, uuid_of(value))
        if isinstance(value, str):
            value = spelled_uuid(plain_type, value) or value
        return _place_text(plain_type, value)
    if isinstance(value, bool):
        return LiteralPosition(exact=pa.scalar(value))
    if isinstance(value, float) and math.isnan(value):
        return LiteralPosition(is_nan=True)
    if pt.is_floating(plain_type):
        if exact.is_decimal and isinstance(value, Fraction):
            return LiteralPosition(exact=_nearest_float(plain_type, value))
        # A neighbour may be infinite or subnormal: suppress numpy's warnings.
        with np.errstate(all="ignore"):
            return _place_float(plain_type, value)
    return place_tick(plain_type, value)


def exact_value(data_type: pa.DataType, literal: object) -> Fraction | float:
    """Returns the exact number of a literal for a column: a number, or nanoseconds for a time.

    Raises:
        InvalidArgumentError: ``literal`` is neither a number nor a time, or cannot be compared with
            the type.
    """
    value = _value_in(value_type(data_type), exact_of(literal), literal)
    if not isinstance(value, (Fraction, float)):
        raise InvalidArgumentError(f"expected a number or a time, got {show(literal)}")
    return value


def _value_in(data_type: pa.DataType, exact: Exact, literal: object) -> Any:
    """Returns the exact value, after a check that the type can be compared with it.

    If the column has a time zone, a naive time is read as a time in that zone.
    """
    _check_comparable(data_type, exact, literal)
    if has_zone(data_type) and not exact.has_zone and isinstance(exact.value, Fraction):
        return _in_zone(exact.value, data_type.tz)
    return exact.value


def _plain_scalar(data_type: pa.DataType, value: object) -> pa.Scalar | None:
    """Fast path for the most common keys: ints for integer columns and text for text columns."""
    plain = (type(value) is int and pt.is_integer(data_type)) or (
        type(value) is str and is_text(data_type)
    )
    try:
        return pa.scalar(value, data_type) if plain else None
    except (pa.ArrowInvalid, OverflowError, UnicodeError):  # the column's type cannot hold it
        return None


_NOUNS = {
    "number": "a number",
    "bool": "a boolean",
    "date": "a date",
    "instant": "a timestamp",
    "time": "a time",
    "duration": "a duration",
    "text": "text",
}


def _check_comparable(data_type: pa.DataType, exact: Exact, literal: object) -> None:
    column_kind, kind = family(data_type), exact.kind
    if {column_kind, kind} == {"date", "instant"}:
        column_kind = kind = "instant"
    if column_kind != kind:
        raise InvalidArgumentError(
            f"type mismatch: cannot compare a {data_type} column with {show(literal)}, "
            f"which is {_NOUNS[exact.kind]}"
        )
    if column_kind == "instant" and exact.has_zone and not has_zone(data_type):
        raise InvalidArgumentError(
            f"type mismatch: cannot compare a {data_type} column with {show(literal)}: "
            "the value has a time zone, and the column does not; remove it from the value"
        )


def _in_zone(naive: Fraction, zone: str) -> Fraction:
    """Converts a wall-clock time in a zone to an instant. Both are in nanoseconds."""
    second = math.floor(naive / _TICKS["s"])
    instant = localize(pa.scalar(second, pa.timestamp("s")), zone)
    return naive + Fraction(instant.value - second) * _TICKS["s"]


def tick_of(data_type: pa.DataType) -> Fraction:
    """Returns what one unit of the type's stored integers means: for times, in nanoseconds."""
    if pt.is_date32(data_type):
        return _TICKS["D"]
    if pt.is_date64(data_type):
        return _TICKS["ms"]
    if pt.is_decimal(data_type):
        scale = data_type.scale
        return Fraction(10 ** max(-scale, 0), 10 ** max(scale, 0))
    if pt.is_integer(data_type):
        return Fraction(1)
    return _TICKS[data_type.unit]


def raw_range(data_type: pa.DataType) -> tuple[int, int]:
    if pt.is_decimal(data_type):
        most = 10**data_type.precision - 1
        return -most, most
    if pt.is_unsigned_integer(data_type):
        return 0, 2**data_type.bit_width - 1
    half = 2 ** (data_type.bit_width - 1)
    return -half, half - 1


def _from_raw(data_type: pa.DataType, raw: int) -> pa.Scalar:
    if pt.is_decimal(data_type):
        digits = tuple(int(digit) for digit in str(abs(raw)))
        return pa.scalar(Decimal((raw < 0, digits, -data_type.scale)), type=data_type)
    return pa.scalar(raw, type=data_type)


def place_tick(data_type: pa.DataType, value: Fraction | float) -> LiteralPosition:
    """Returns where a number, or a time in nanoseconds, falls in a type that stores integers."""
    low, high = raw_range(data_type)
    if isinstance(value, float):  # infinite: the caller has handled fractions and NaN
        above_all = value > 0
    else:
        quotient = value / tick_of(data_type)
        floor = math.floor(quotient)
        if low <= floor <= high and quotient == floor:
            return LiteralPosition(exact=_from_raw(data_type, floor))
        if low <= floor < high:
            below, above = _from_raw(data_type, floor), _from_raw(data_type, floor + 1)
            return LiteralPosition(below=below, above=above)
        above_all = floor >= high
    if above_all:
        return LiteralPosition(below=_from_raw(data_type, high))
    return LiteralPosition(above=_from_raw(data_type, low))


def _place_float(data_type: pa.DataType, value: Fraction | float) -> LiteralPosition:
    kind = _FLOATS[data_type.bit_width]

    def scalar(number: object) -> pa.Scalar:
        return pa.scalar(kind(number), type=data_type)

    if isinstance(value, float):
        return LiteralPosition(exact=scalar(value))
    most = kind(np.finfo(kind).max)
    if value > Fraction(float(most)):
        return LiteralPosition(below=scalar(most), above=scalar(math.inf))
    if value < -Fraction(float(most)):
        return LiteralPosition(below=scalar(-math.inf), above=scalar(-most))
    # Rounding to double and then to the type may miss the floor by one: step down or up to it.
    # Start from the largest finite number if the value rounds past it.
    floor = kind(max(min(float(value), float(most)), -float(most)))
    while Fraction(float(floor)) > value:
        floor = np.nextafter(floor, kind(-math.inf))
    following = np.nextafter(floor, kind(math.inf))
    while math.isfinite(following) and Fraction(float(following)) <= value:
        floor, following = following, np.nextafter(following, kind(math.inf))
    if Fraction(float(floor)) == value:
        return LiteralPosition(exact=scalar(floor))
    return LiteralPosition(below=scalar(floor), above=scalar(following))


def _nearest_float(data_type: pa.DataType, value: Fraction) -> pa.Scalar:
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    return pa.scalar(nearest).cast(data_type, safe=False)


def _place_text(data_type: pa.DataType, value: str | bytes | uuid.UUID) -> LiteralPosition:
    if isinstance(value, uuid.UUID):
        value = str(value) if is_text(data_type) else value.bytes
    try:
        if is_text(data_type):
            text = value if isinstance(value, str) else value.decode()
            return LiteralPosition(exact=pa.scalar(text, type=data_type))
        octets = value.encode() if isinstance(value, str) else value
    except UnicodeError as error:
        message = f"type mismatch: {show(value)} is not UTF-8, the column is {data_type}"
        raise InvalidArgumentError(message) from error
    if not pt.is_fixed_size_binary(data_type) or len(octets) == data_type.byte_width:
        return LiteralPosition(exact=pa.scalar(octets, type=data_type))
    return _place_fixed(data_type, octets)


def _place_fixed(data_type: pa.DataType, octets: bytes) -> LiteralPosition:
    """Returns the neighbours of a byte string whose length differs from the type's.

    Byte strings of the type's length are ordered like big-endian numbers.
    """
    width = data_type.byte_width
    number = int.from_bytes(octets[:width].ljust(width, b"\0"), "big")
    # A longer string sorts after its first `width` bytes. A shorter string sorts before itself
    # padded with zeros.
    below, above = (number, number + 1) if len(octets) > width else (number - 1, number)

    def scalar(position: int) -> pa.Scalar | None:
        if not 0 <= position < 256**width:
            return None
        return pa.scalar(position.to_bytes(width, "big"), type=data_type)

    return LiteralPosition(below=scalar(below), above=scalar(above))


def successor(key: bytes) -> bytes | None:
    """Returns the smallest byte string above all strings that begin with ``key``, if one exists."""
    stripped = key.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
