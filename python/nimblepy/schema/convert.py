"""Conversion of columns to the types of a schema, checked value by value.

A conversion is lossless if the value that is stored, converted back, is the value that was given.
Such conversions are always made. With ``cast=True`` values may also be rounded or truncated; a
value that is out of range is an error in any case.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import family, is_bytes, is_list, is_text, value_type, widens
from nimblepy.schema.plain import plain_array
from nimblepy.schema.reshape import Convert, Leaf, UnfitError
from nimblepy.schema.text import is_uuid, is_uuid_size, parse_text, uuid_of
from nimblepy.schema.zones import has_zone, localize, skipped, wall_clock

_UUID_BYTES = 16
_UUID_DIGITS = 32
_TEMPORAL = ("date", "instant", "time")
_ROUND, _TRUNCATE = "round it", "truncate it"


def stored(*, cast: bool = False, literals: bool = False, checked: bool = False) -> Leaf:
    """The rule for values that are to be stored.

    Args:
        cast: round and truncate values that the type does not have.
        checked: also make the other casts of Arrow, which refuse values that do not fit: of text
            to numbers, for example.
        literals: the values were written in Python or as text, so a float for a ``float32`` column
            means the nearest one.
    """

    def leaf(have: pa.DataType, wanted: pa.DataType, place: str) -> Convert:
        convert = _conversion(value_type(have), have, wanted, cast, literals)
        if convert is None and (cast or checked) and not pt.is_nested(have):
            convert = _checked(wanted)
        if convert is None:
            hint = "convert the column" if cast else "convert the column, or pass cast=True"
            raise InvalidArgumentError(f"{place} is {have}; the table has {wanted}; {hint}")
        return lambda array: convert(plain_array(array))

    return leaf


def _conversion(
    plain: pa.DataType, have: pa.DataType, wanted: pa.DataType, cast: bool, literals: bool
) -> Convert | None:
    """The conversion of values of a type; ``None``: they have another meaning."""
    if is_uuid(wanted):
        return _to_uuid(plain, wanted)
    if is_text(plain) and is_uuid_size(wanted):
        return _bytes_of_texts
    if is_uuid(have):
        return _of_uuid(wanted)
    if getattr(have, "extension_name", "").startswith("pandas."):
        return None  # periods and intervals are not the integers that they are stored as
    kinds = family(plain), family(wanted)
    if "number" in kinds and kinds[0] == kinds[1]:
        return _number(plain, wanted, cast, literals)
    if "none" not in kinds and (
        kinds[0] == kinds[1] != "text" or set(kinds) == {"date", "instant"}
    ):
        return _time(plain, wanted, cast) if kinds[0] != "bool" else _checked(wanted)
    if is_text(plain) and kinds[1] in _TEMPORAL:
        return _parsed(wanted)
    if is_text(plain) and is_text(wanted):
        return _checked(wanted)
    if is_bytes(plain) and is_bytes(wanted):
        return _checked(wanted)
    return None


def _raise_unfit(array: pa.Array, index: int, why: str, cast: str = "") -> NoReturn:
    """Reports a value that cannot be stored, and what ``cast=True`` would do with it."""
    raise UnfitError(index, f"{_shown(array[index])} {why}", cast)


def _refuse(array: pa.Array, bad: pa.BooleanArray, why: str, cast: str = "") -> None:
    """Reports the first bad value, if there is one."""
    index = pc.index(bad, True).as_py()
    if index >= 0:
        _raise_unfit(array, index, why, cast)


def _shown(scalar: pa.Scalar) -> str:
    if pt.is_temporal(scalar.type):
        return str(scalar)  # finer and further than Python's datetime
    value = scalar.as_py()
    text = repr(value) if isinstance(value, (str, bytes)) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _not_in(wanted: pa.DataType) -> str:
    return f"is not a value of {wanted}"


def _checked(wanted: pa.DataType) -> Convert:
    """Arrow's own cast, which refuses values that do not fit."""

    def convert(array: pa.Array) -> pa.Array:
        return _cast(array, wanted)

    return convert


def _cast(array: pa.Array, wanted: pa.DataType, why: str | None = None, cast: str = "") -> pa.Array:
    return _attempt(array, lambda part: part.cast(wanted), why or f"does not fit {wanted}", cast)


def _attempt(array: pa.Array, convert: Convert, why: str, cast: str = "") -> pa.Array:
    """Converts an array, or reports the first value that fails."""
    try:
        return convert(array)
    except pa.ArrowNotImplementedError as error:
        raise UnfitError(None, f"{array.type} {why}") from error
    except pa.ArrowException as error:
        begin, end = 0, len(array)
        while end - begin > 1:  # the first value that fails is in [begin, end)
            middle = (begin + end) // 2
            try:
                convert(array.slice(begin, middle - begin))
                begin = middle
            except pa.ArrowException:
                end = middle
        if begin >= len(array):
            raise UnfitError(None, f"{array.type} {why}") from error
        _raise_unfit(array, begin, why, cast)


# ------------------------------------------------------------------ numbers


def _number(have: pa.DataType, wanted: pa.DataType, cast: bool, literals: bool) -> Convert:
    if widens(have, wanted):
        return _checked(wanted)
    if pt.is_decimal(wanted):
        return _to_decimal(have, wanted, cast)
    if pt.is_floating(wanted):
        rounds = cast or (literals and pt.is_floating(have))
        return _to_float(have, wanted, rounds)
    return _to_integer(have, wanted, cast)


def _to_integer(have: pa.DataType, wanted: pa.DataType, cast: bool) -> Convert:
    if pt.is_integer(have):
        return _checked(wanted)
    limit = 2.0 ** (wanted.bit_width - pt.is_signed_integer(wanted))

    def convert(array: pa.Array) -> pa.Array:
        if pt.is_floating(have):  # some processors turn such values into the largest integer
            too_large = pc.greater_equal(array, pa.scalar(limit, have))
            _refuse(array, too_large, f"does not fit {wanted}")
        if cast:
            return _cast(pc.trunc(array), wanted)
        return _cast(array, wanted, _not_in(wanted), _TRUNCATE)

    return convert


def _to_float(have: pa.DataType, wanted: pa.DataType, rounds: bool) -> Convert:
    def to_wanted(array: pa.Array) -> pa.Array:
        if pt.is_decimal(have):  # Arrow's own cast is one step off for some values
            array = array.cast(pa.string()).cast(pa.float64())
        return array.cast(wanted, safe=False)

    def convert(array: pa.Array) -> pa.Array:
        if pt.is_integer(have):
            try:
                return array.cast(wanted)  # small integers are all exact
            except pa.ArrowInvalid:
                pass
        made = to_wanted(array)
        overflows = pc.and_not(pc.is_inf(made), _is_infinite(array))
        _refuse(array, overflows, f"does not fit {wanted}")
        if not rounds:
            _refuse(array, pc.invert(_same_number(array, made)), _not_in(wanted), _ROUND)
        return made

    return convert


def _is_infinite(array: pa.Array) -> pa.BooleanArray:
    if pt.is_floating(array.type):
        return pc.is_inf(array)
    return pa.repeat(pa.scalar(False), len(array))


def _same_number(array: pa.Array, floats: pa.Array) -> pa.BooleanArray:
    """Where floats, converted back, are the numbers that they were made of."""
    kind = array.type
    if pt.is_floating(kind):
        return same_values(array, floats.cast(kind))
    if pt.is_decimal(kind):
        back = [
            number is None or float(number) != float(number) or _equal(number, made)
            for number, made in zip(array.to_pylist(), floats.to_pylist(), strict=True)
        ]
        return pa.array(back, pa.bool_())
    limit = 2.0 ** (kind.bit_width - pt.is_signed_integer(kind))
    fits = pc.less(floats.cast(pa.float64()), limit)
    back = pc.if_else(fits, floats.cast(pa.float64()), 0.0).cast(kind, safe=False)
    return pc.fill_null(pc.and_(fits, pc.equal(array, back)), True)


def _equal(number: Any, made: float) -> bool:
    """Whether a decimal is what the shortest form of a float says, to its own digits."""
    return bool(round(type(number)(repr(made)), -number.as_tuple().exponent) == number)


def _to_decimal(have: pa.DataType, wanted: pa.DataType, cast: bool) -> Convert:
    why = f"does not fit {wanted}"

    def of_integer(array: pa.Array) -> pa.Array:
        whole = pa.decimal128(20, 0) if have.bit_width == 64 else pa.decimal128(10, 0)
        return _attempt(array, lambda part: part.cast(whole).cast(wanted), why)

    def of_decimal(array: pa.Array) -> pa.Array:
        if cast and have.scale > wanted.scale:
            rounded = pc.round(array, ndigits=wanted.scale, round_mode="half_to_even")
            return _cast(rounded, wanted)
        return _cast(array, wanted, why, _ROUND if have.scale > wanted.scale else "")

    def of_float(array: pa.Array) -> pa.Array:
        made = _cast(array, wanted)
        if cast:
            return made
        back = made.cast(pa.string()).cast(pa.float64()).cast(have, safe=False)
        _refuse(array, pc.invert(same_values(array, back)), _not_in(wanted), _ROUND)
        return made

    if pt.is_integer(have):
        return of_integer
    return of_decimal if pt.is_decimal(have) else of_float


def same_values(before: pa.Array, after: pa.Array) -> pa.BooleanArray:
    """Where two arrays of one type have the same value; nulls and NaN are the same as themselves.

    Args:
        after: null wherever ``before`` is.
    """
    equal = pc.fill_null(pc.equal(before, after), True)
    if pt.is_floating(before.type):
        both = pc.and_(pc.is_nan(before), pc.is_nan(after))
        equal = pc.or_(equal, pc.fill_null(both, True))
    return equal


# ------------------------------------------------------------------ times


def _time(have: pa.DataType, wanted: pa.DataType, cast: bool) -> Convert | None:
    """Dates, timestamps, times of day and durations."""
    if has_zone(have) and not has_zone(wanted) and not cast:
        return _refused(
            f"has the time zone {have.tz!r}, the column has none; convert the values to the wall "
            "clock that is meant",
            "drop their zone",
        )

    def convert(array: pa.Array) -> pa.Array:
        if has_zone(have) and not has_zone(wanted):
            array = wall_clock(array)
        elif has_zone(wanted) and not has_zone(have):
            array = _in_zone(array, wanted, cast)
        return _in_ticks(array, wanted, cast)

    return convert


def _refused(why: str, cast: str) -> Convert:
    """Refuses every value, but not nulls."""

    def convert(array: pa.Array) -> pa.Array:
        _refuse(array, array.is_valid(), why, cast)
        return array

    return convert


def _in_zone(array: pa.Array, wanted: pa.TimestampType, cast: bool) -> pa.Array:
    if pt.is_date(array.type):
        array = array.cast(pa.timestamp("s" if pt.is_date32(array.type) else "ms"))
    instants = localize(array, wanted.tz)
    if not cast:
        why = f"does not exist in {wanted.tz}, where clocks skip it"
        _refuse(array, skipped(array, instants), why, "move it on")
    return instants


def _in_ticks(array: pa.Array, wanted: pa.DataType, cast: bool) -> pa.Array:
    """The same times in other units."""
    have = array.type
    if have == wanted:
        return array
    cut = _cut(array, wanted)
    if cut is None:
        return _cast(array, wanted)
    if cast:
        return cut
    _refuse(array, pc.not_equal(array, _cast(cut, have)), _not_in(wanted), _TRUNCATE)
    return cut


def _cut(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Times as ``wanted``, which is coarser; ``None``: it is not."""
    have = array.type
    units = ("s", "ms", "us", "ns")
    if pt.is_timestamp(have) and pt.is_date(wanted):
        return _cast(pc.floor_temporal(array, unit="day"), wanted)
    if pt.is_date64(have) and pt.is_date32(wanted):
        return array.cast(wanted, safe=False)
    coarser = (
        hasattr(have, "unit")
        and hasattr(wanted, "unit")
        and units.index(have.unit) > units.index(wanted.unit)
    )
    return array.cast(wanted, safe=False) if coarser else None


# ------------------------------------------------------------------ text and UUIDs


def _parsed(wanted: pa.DataType) -> Convert:
    """Text of dates and times."""

    def convert(array: pa.Array) -> pa.Array:
        try:
            return array.cast(wanted)
        except pa.ArrowException:
            return each(array, wanted)

    return convert


def each(values: Sequence[Any] | pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values one by one as ``wanted``, which has no fields or elements.

    Raises:
        UnfitError: a value that the type does not have.
    """
    from nimblepy.schema.values import is_nan, is_null, place, show

    made: list[Any] = []
    for row, item in enumerate(values):
        value = item.as_py() if isinstance(item, pa.Scalar) and is_text(item.type) else item
        if is_null(value):
            made.append(None)
            continue
        try:
            if isinstance(value, str) and (is_uuid(wanted) or family(wanted) in _TEMPORAL):
                value = parse_text(wanted, value)
            if is_nan(value) and pt.is_floating(wanted):
                made.append(float("nan"))
                continue
            if isinstance(value, float) and pt.is_floating(wanted):
                made.append(stored_float(value, wanted))
                continue
            position = place(wanted, value)
        except InvalidArgumentError as error:
            raise UnfitError(row, f"{show(value)} cannot be stored as {wanted}: {error}") from None
        if position.exact is None:
            raise UnfitError(row, f"{show(value)} is not a value of {wanted}")
        made.append(position.exact)
    storage = wanted.storage_type if is_uuid(wanted) else wanted
    array = pa.array(made, storage)
    return wanted.wrap_array(array) if is_uuid(wanted) else array


def stored_float(value: float, wanted: pa.DataType) -> float:
    """A Python float, rounded to the nearest value of a float type.

    Raises:
        InvalidArgumentError: it is out of range.
    """
    made: float = pa.scalar(value, pa.float64()).cast(wanted, safe=False).as_py()
    if np.isinf(made) and not np.isinf(value):
        raise InvalidArgumentError(f"{value} is out of range of {wanted}")
    return made


def _to_uuid(plain: pa.DataType, wanted: pa.DataType) -> Convert | None:
    if is_text(plain):
        return lambda array: wanted.wrap_array(_bytes_of_texts(array))
    if is_bytes(plain):
        why = "is not a UUID, which has 16 bytes"
        return lambda array: wanted.wrap_array(_cast(array, pa.binary(_UUID_BYTES), why))
    return None


def _bytes_of_texts(array: pa.Array) -> pa.Array:
    """The 16 bytes of UUIDs that are spelled out."""
    digits = pc.replace_substring(array.cast(pa.large_string()), "-", "")
    filled = pc.fill_null(digits, "0" * _UUID_DIGITS)
    lengths = pc.binary_length(filled)
    if len(array) and pc.all(pc.equal(lengths, _UUID_DIGITS)).as_py():
        joined = "".join(filled.to_pylist())
        try:
            octets = bytes.fromhex(joined)
        except ValueError:
            octets = b""  # some text is not hexadecimal
        if len(octets) == _UUID_BYTES * len(array) and joined.isascii() and " " not in joined:
            made = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(_UUID_BYTES), len(array), [None, pa.py_buffer(octets)]
            )
            if not array.null_count:
                return made
            return pc.if_else(array.is_valid(), made, pa.scalar(None, made.type))
    found: list[bytes | None] = []
    for row, text in enumerate(array.to_pylist()):
        try:
            found.append(None if text is None else uuid_of(text).bytes)
        except InvalidArgumentError:
            _raise_unfit(array, row, "is not a UUID")
    return pa.array(found, pa.binary(_UUID_BYTES))


def _of_uuid(wanted: pa.DataType) -> Convert | None:
    if is_bytes(wanted):
        return _checked(wanted)
    if is_text(wanted):
        return lambda array: pa.array(
            [None if v is None else str(uuid.UUID(bytes=v)) for v in array.to_pylist()], wanted
        )
    return None


# ------------------------------------------------------------------ Python values


def mixes_times(values: Sequence[Any]) -> bool:
    """Whether pyarrow would lose a part of some times: a zone, the time of day, or nanoseconds."""
    zoned = naive = dates = False
    for value in values:
        # Subclasses of pandas have nanoseconds.
        if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
            return True
        if isinstance(value, datetime.time) and value.tzinfo is not None:
            return True
        if isinstance(value, datetime.datetime):
            zoned |= value.tzinfo is not None
            naive |= value.tzinfo is None
        elif isinstance(value, datetime.date):
            dates = True
    return zoned + naive + dates > 1


def has_times(data_type: pa.DataType) -> bool:
    """Whether values have times in them, at any depth."""
    if pt.is_struct(data_type):
        return any(has_times(item.type) for item in data_type)
    if pt.is_map(data_type):
        return has_times(data_type.key_type) or has_times(data_type.item_type)
    if is_list(data_type):
        return has_times(data_type.value_type)
    return bool(pt.is_temporal(data_type))
