"""Places a literal among the values of a column type, exactly.

A comparison such as ``x > 1.5`` on an int64 column, ``x = 300`` on int8, or of a date column with
a timestamp has an exact answer, yet converting either side may round or overflow. So the literal
is located between two neighbouring values of the column's own type, in exact arithmetic, and the
comparison is rewritten to one of them: ``x > 1.5`` becomes ``x >= 2``.

Semantics of floats are IEEE, as in pyarrow.compute: NaN equals nothing, and -0.0 equals 0.0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import family, is_text, value_type

Exact: TypeAlias = Fraction | float | bool | str | bytes

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9
_FLOATS: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a literal falls in a type: on a value, or strictly between two neighbours.

    ``below`` or ``above`` is ``None`` when the type has no value on that side.
    """

    exact: pa.Scalar | None = None
    below: pa.Scalar | None = None
    above: pa.Scalar | None = None
    is_nan: bool = False


def show(scalar: pa.Scalar) -> str:
    """A scalar for messages: strings quoted, everything else as Arrow prints it."""
    if isinstance(scalar, (pa.StringScalar, pa.BinaryScalar)):
        return repr(scalar.as_py())
    try:
        return str(scalar)
    except (ValueError, OverflowError):  # finer or further than Python's datetime
        return str(pa.array([scalar], scalar.type)).strip("[ \n]")


def as_scalar(value: object) -> pa.Scalar:
    """``value`` as an Arrow scalar of its natural type; integers beyond int64 become decimals."""
    if isinstance(value, pa.Scalar):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        if len(str(abs(value))) > 76:
            raise InvalidArgumentError(f"number {value} has more than 76 digits")
        return pa.scalar(Decimal(value), type=pa.decimal256(76, 0))
    try:
        if isinstance(value, Decimal) and value.is_finite() and not -76 < value.adjusted() < 76:
            return pa.scalar(float(value))
        return pa.scalar(value)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"cannot use {value!r} as a literal: {error}") from error


def place(data_type: pa.DataType, literal: object) -> Place:
    """Where ``literal`` falls among the values of ``data_type``.

    Args:
        data_type: type of the column; dictionary and run-end encoding are looked through.
        literal: a Python value or Arrow scalar that is not null.

    Raises:
        InvalidArgumentError: the two cannot be compared, such as a number with a string.
    """
    data_type, scalar = value_type(data_type), as_scalar(literal)
    literal_type = value_type(scalar.type)
    if scalar.type == data_type and not pt.is_floating(data_type):
        return Place(exact=scalar)
    _check_comparable(data_type, literal_type, scalar)
    value = _exact_value(scalar, literal_type)
    if isinstance(value, (str, bytes)):
        return _place_text(data_type, value)
    if isinstance(value, Fraction) and pt.is_floating(data_type) and pt.is_decimal(literal_type):
        # A decimal such as 0.1 is seldom a float: as in SQL it means the nearest one.
        return Place(exact=_nearest_float(data_type, value))
    if isinstance(value, bool):
        return Place(exact=pa.scalar(value))
    if isinstance(value, float) and math.isnan(value):
        return Place(is_nan=True)
    if pt.is_floating(data_type):
        # Steps to infinity and to subnormals are meant, not faults to warn of.
        with np.errstate(all="ignore"):
            return _place_float(data_type, value)
    return _place_tick(data_type, value)


def _check_comparable(data_type: pa.DataType, literal_type: pa.DataType, shown: pa.Scalar) -> None:
    wanted, found = family(data_type), family(literal_type)
    if {wanted, found} == {"date", "instant"}:
        wanted = found = "instant"
    if wanted != found or wanted == "none":
        raise InvalidArgumentError(
            f"type mismatch: cannot compare a {data_type} column with {show(shown)} "
            f"of type {literal_type}"
        )
    if wanted == "instant" and _zone(data_type) != _zone(literal_type):
        raise InvalidArgumentError(
            f"type mismatch: cannot compare {data_type} with {literal_type}: "
            "one has a time zone and the other has none"
        )


def _zone(data_type: pa.DataType) -> bool:
    return bool(pt.is_timestamp(data_type) and data_type.tz is not None)


def _exact_value(scalar: pa.Scalar, data_type: pa.DataType) -> Exact:
    """The literal as an exact number (temporal ones in nanoseconds), bool, text or bytes."""
    if pt.is_dictionary(scalar.type):
        scalar = scalar.value
    if pt.is_temporal(data_type):
        return Fraction(scalar.value) * _tick(data_type)
    value = scalar.as_py()
    if isinstance(value, (bool, str, bytes)):
        return value
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        return float(value)
    return Fraction(value) if not isinstance(value, np.floating) else Fraction(float(value))


def _tick(data_type: pa.DataType) -> Fraction:
    """What a raw integer of the type counts: nanoseconds, or units for numbers."""
    if pt.is_date32(data_type):
        return Fraction(_DAY)
    if pt.is_date64(data_type):
        return Fraction(10**6)
    if pt.is_decimal(data_type):
        scale = data_type.scale
        return Fraction(10 ** max(-scale, 0), 10 ** max(scale, 0))
    if pt.is_integer(data_type):
        return Fraction(1)
    return Fraction(_NANOSECONDS[data_type.unit])


def _raw_range(data_type: pa.DataType) -> tuple[int, int]:
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


def _place_tick(data_type: pa.DataType, value: Fraction | float) -> Place:
    low, high = _raw_range(data_type)
    if isinstance(value, float):  # infinity: NaN was handled before
        above_all = value > 0
    else:
        quotient = value / _tick(data_type)
        floor = math.floor(quotient)
        if low <= floor <= high and quotient == floor:
            return Place(exact=_from_raw(data_type, floor))
        if low <= floor < high:
            below, above = _from_raw(data_type, floor), _from_raw(data_type, floor + 1)
            return Place(below=below, above=above)
        above_all = floor >= high
    if above_all:
        return Place(below=_from_raw(data_type, high))
    return Place(above=_from_raw(data_type, low))


def _place_float(data_type: pa.DataType, value: Fraction | float) -> Place:
    kind = _FLOATS[data_type.bit_width]

    def scalar(number: object) -> pa.Scalar:
        return pa.scalar(kind(number), type=data_type)

    if isinstance(value, float):
        return Place(exact=scalar(value))
    most = kind(np.finfo(kind).max)
    if value > Fraction(float(most)):
        return Place(below=scalar(most), above=scalar(math.inf))
    if value < -Fraction(float(most)):
        return Place(below=scalar(-math.inf), above=scalar(-most))
    # Rounding twice (to double, then to the type) may land one step off: walk to the floor.
    # A value that rounds past the largest finite number starts from that number instead.
    floor = kind(max(min(float(value), float(most)), -float(most)))
    while Fraction(float(floor)) > value:
        floor = np.nextafter(floor, kind(-math.inf))
    following = np.nextafter(floor, kind(math.inf))
    while math.isfinite(following) and Fraction(float(following)) <= value:
        floor, following = following, np.nextafter(following, kind(math.inf))
    if Fraction(float(floor)) == value:
        return Place(exact=scalar(floor))
    return Place(below=scalar(floor), above=scalar(following))


def _nearest_float(data_type: pa.DataType, value: Fraction) -> pa.Scalar:
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    return pa.scalar(nearest).cast(data_type, safe=False)


def _place_text(data_type: pa.DataType, value: str | bytes) -> Place:
    if is_text(data_type):
        try:
            text = value if isinstance(value, str) else value.decode()
        except UnicodeDecodeError as error:
            message = f"type mismatch: {value!r} is not UTF-8, the column is {data_type}"
            raise InvalidArgumentError(message) from error
        return Place(exact=pa.scalar(text, type=data_type))
    octets = value.encode() if isinstance(value, str) else value
    if not pt.is_fixed_size_binary(data_type) or len(octets) == data_type.byte_width:
        return Place(exact=pa.scalar(octets, type=data_type))
    return _place_fixed(data_type, octets)


def _place_fixed(data_type: pa.DataType, octets: bytes) -> Place:
    """Neighbours of a byte string of another length: such strings order as big-endian numbers."""
    width = data_type.byte_width
    number = int.from_bytes(octets[:width].ljust(width, b"\0"), "big")
    # A longer string follows its cut; a shorter one precedes itself padded with zeros.
    below, above = (number, number + 1) if len(octets) > width else (number - 1, number)

    def scalar(position: int) -> pa.Scalar | None:
        if not 0 <= position < 256**width:
            return None
        return pa.scalar(position.to_bytes(width, "big"), type=data_type)

    return Place(below=scalar(below), above=scalar(above))
