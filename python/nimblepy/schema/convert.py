"""Conversion of columns to the types of a schema, checked value by value.

A conversion is lossless if converting the stored value back gives the original value. Lossless
conversions are always allowed. With ``cast=True``, values may also be rounded or truncated. A value
that is out of range always raises an error.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import family, is_bytes, is_list, is_text, value_type, widens
from nimblepy.schema.number_text import exact_numbers
from nimblepy.schema.plain import plain_array
from nimblepy.schema.reshape import Convert, Leaf, UnfitError
from nimblepy.schema.text import is_uuid, is_uuid_size, parse_text, uuid_of
from nimblepy.schema.zones import has_zone, localize, skipped, wall_clock

_UUID_BYTES = 16
_UUID_DIGITS = 32
_TEMPORAL = ("date", "instant", "time")
# A time of day with a zone. The first group is the part before the zone.
_ZONE = r"(:[0-9][0-9](?:\.[0-9]+)?)(?:[Zz]|[+-][0-9][0-9](?::?[0-9][0-9])?)$"
# A time of day with digits beyond the microsecond.
_FINER_TIME = r"\.[0-9]{6}[0-9]*[1-9]"
_ROUND, _TRUNCATE = "round it", "truncate it"


def stored(*, cast: bool = False, literals: bool = False, checked: bool = False) -> Leaf:
    """Returns the rule that converts values before they are stored.

    Args:
        cast: round or truncate values that the type cannot represent.
        checked: also allow Arrow's other casts, such as text to numbers. They reject values that
            do not fit.
        literals: whether the values come from Python code or text. If so, a float for a
            ``float32`` column is rounded to the nearest ``float32``.
    """

    def leaf(have: pa.DataType, target: pa.DataType, place: str) -> Convert:
        if pt.is_null(target):
            return _only_nulls
        convert = _conversion(value_type(have), have, target, cast, literals)
        if convert is None and (cast or checked) and not pt.is_nested(have):
            convert = _checked(target)
        if convert is None:
            hint = "convert the column" if cast else "convert the column, or pass cast=True"
            raise InvalidArgumentError(f"{place} is {have}; the table has {target}; {hint}")
        return lambda array: convert(plain_array(array))

    return leaf


def _only_nulls(array: pa.Array) -> pa.Array:
    _refuse(array, pc.is_valid(array), "is not null, and the column has no type; drop the column")
    return pa.nulls(len(array))


def _conversion(
    plain: pa.DataType, have: pa.DataType, target: pa.DataType, cast: bool, literals: bool
) -> Convert | None:
    """Returns the conversion between two types; ``None`` if their values differ in meaning."""
    if is_uuid(target):
        return _to_uuid(plain, target)
    if is_text(plain) and is_uuid_size(target):
        return _bytes_of_texts
    if is_uuid(have):
        return _of_uuid(target)
    if getattr(have, "extension_name", "").startswith("pandas."):
        return None  # pandas stores periods and intervals as integers, but they are not numbers
    kinds = family(plain), family(target)
    if "number" in kinds and kinds[0] == kinds[1]:
        return _number(plain, target, cast, literals)
    if "none" not in kinds and (
        kinds[0] == kinds[1] != "text" or set(kinds) == {"date", "instant"}
    ):
        return _time(plain, target, cast) if kinds[0] != "bool" else _checked(target)
    if is_text(plain) and kinds[1] in _TEMPORAL:
        return partial(_times if kinds[1] == "time" else _moments, target=target, cast=cast)
    if is_text(plain) and pt.is_decimal(target):
        return partial(_decimals, target=target, cast=cast)
    if is_text(plain) and is_text(target):
        return _checked(target)
    if is_bytes(plain) and is_bytes(target):
        return _checked(target)
    return None


def _raise_unfit(array: pa.Array, index: int, why: str, cast: str = "") -> NoReturn:
    """Reports a value that cannot be stored, and what ``cast=True`` would do with it."""
    shown = _shown(array[index])
    if shown == "nan":
        raise UnfitError(index, f"{shown} {why}; a missing value is None")
    raise UnfitError(index, f"{shown} {why}", cast)


def _refuse(array: pa.Array, bad: pa.BooleanArray, why: str, cast: str = "") -> None:
    """Raises an error for the first bad value, if there is one."""
    index = pc.index(bad, True).as_py()
    if index >= 0:
        _raise_unfit(array, index, why, cast)


def _shown(scalar: pa.Scalar) -> str:
    if pt.is_temporal(scalar.type):
        return str(scalar)  # Python's datetime has no nanoseconds and a smaller range
    value = scalar.as_py()
    text = repr(value) if isinstance(value, (str, bytes)) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _not_in(target: pa.DataType) -> str:
    return f"is not a value of {target}"


def _checked(target: pa.DataType) -> Convert:
    """Converts with Arrow's cast, which rejects values that do not fit."""

    def convert(array: pa.Array) -> pa.Array:
        return _arrow_cast(array, target)

    return convert


def _arrow_cast(
    array: pa.Array, target: pa.DataType, why: str | None = None, cast: str = ""
) -> pa.Array:
    return _attempt(array, lambda part: part.cast(target), why or f"does not fit {target}", cast)


def _attempt(array: pa.Array, convert: Convert, why: str, cast: str = "") -> pa.Array:
    """Converts an array. Raises an error that names the first value that fails."""
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


def _number(have: pa.DataType, target: pa.DataType, cast: bool, literals: bool) -> Convert:
    if widens(have, target):
        return _checked(target)
    if pt.is_decimal(target):
        return _to_decimal(have, target, cast)
    if pt.is_floating(target):
        rounds = cast or (literals and pt.is_floating(have))
        return _to_float(have, target, rounds)
    return _to_integer(have, target, cast)


def _to_integer(have: pa.DataType, target: pa.DataType, cast: bool) -> Convert:
    if pt.is_integer(have):
        return _checked(target)
    limit = 2.0 ** (target.bit_width - pt.is_signed_integer(target))

    def convert(array: pa.Array) -> pa.Array:
        if pt.is_floating(have):  # some processors convert too large values to the largest integer
            too_large = pc.greater_equal(array, pa.scalar(limit, have))
            _refuse(array, too_large, f"does not fit {target}")
        if cast:
            return _arrow_cast(pc.trunc(array), target)
        return _arrow_cast(array, target, _not_in(target), _TRUNCATE)

    return convert


def _to_float(have: pa.DataType, target: pa.DataType, rounds: bool) -> Convert:
    def to_wanted(array: pa.Array) -> pa.Array:
        if pt.is_decimal(have):  # for some values, Arrow's cast misses the nearest float by one
            array = array.cast(pa.string()).cast(pa.float64())
        return array.cast(target, safe=False)

    def convert(array: pa.Array) -> pa.Array:
        if pt.is_integer(have) and not pt.is_float16(target):
            try:
                return array.cast(target)  # small integers are all exact
            except pa.ArrowInvalid:
                pass
        made = to_wanted(array)
        overflows = pc.and_not(pc.is_inf(made), _is_infinite(array))
        _refuse(array, overflows, f"does not fit {target}")
        if not rounds:
            _refuse(array, pc.invert(_same_number(array, made)), _not_in(target), _ROUND)
        return made

    return convert


def _is_infinite(array: pa.Array) -> pa.BooleanArray:
    if pt.is_floating(array.type):
        return pc.is_inf(array)
    return pa.repeat(pa.scalar(False), len(array))


def _same_number(array: pa.Array, floats: pa.Array) -> pa.BooleanArray:
    """Returns whether each float, converted back, equals the number that it was made from."""
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
    """Returns whether a decimal equals a float's shortest text, rounded to its number of digits."""
    return bool(round(type(number)(repr(made)), -number.as_tuple().exponent) == number)


def _to_decimal(have: pa.DataType, target: pa.DataType, cast: bool) -> Convert:
    why = f"does not fit {target}"

    def of_integer(array: pa.Array) -> pa.Array:
        whole = pa.decimal128(20, 0) if have.bit_width == 64 else pa.decimal128(10, 0)
        return _attempt(array, lambda part: part.cast(whole).cast(target), why)

    def of_decimal(array: pa.Array) -> pa.Array:
        if cast and have.scale > target.scale:
            rounded = pc.round(array, ndigits=target.scale, round_mode="half_to_even")
            return _arrow_cast(rounded, target)
        return _arrow_cast(array, target, why, _ROUND if have.scale > target.scale else "")

    def of_float(array: pa.Array) -> pa.Array:
        made = _arrow_cast(array, target)
        if cast:
            return made
        back = made.cast(pa.string()).cast(pa.float64()).cast(have, safe=False)
        _refuse(array, pc.invert(same_values(array, back)), _not_in(target), _ROUND)
        return made

    if pt.is_integer(have):
        return of_integer
    return of_decimal if pt.is_decimal(have) else of_float


def same_values(before: pa.Array, after: pa.Array) -> pa.BooleanArray:
    """Returns for each row whether two arrays of one type have the same value.

    Null equals null, and NaN equals NaN.

    Args:
        after: null wherever ``before`` is.
    """
    equal = pc.fill_null(pc.equal(before, after), True)
    if pt.is_floating(before.type):
        both = pc.and_(pc.is_nan(before), pc.is_nan(after))
        equal = pc.or_(equal, pc.fill_null(both, True))
    return equal


# ------------------------------------------------------------------ times


def _time(have: pa.DataType, target: pa.DataType, cast: bool) -> Convert | None:
    """Returns the conversion of dates, timestamps, times of day or durations."""
    if has_zone(have) and not has_zone(target) and not cast:
        return _refused(
            f"has the time zone {have.tz!r}, the column has none; convert the values to the wall "
            "clock that is meant",
            "drop their zone",
        )

    def convert(array: pa.Array) -> pa.Array:
        if has_zone(have) and not has_zone(target):
            array = wall_clock(array)
        elif has_zone(target) and not has_zone(have):
            array = _in_zone(array, target, cast)
        return _in_ticks(array, target, cast)

    return convert


def _refused(why: str, cast: str) -> Convert:
    """Returns a conversion that rejects every value except null."""

    def convert(array: pa.Array) -> pa.Array:
        _refuse(array, array.is_valid(), why, cast)
        return array

    return convert


def _in_zone(array: pa.Array, target: pa.TimestampType, cast: bool) -> pa.Array:
    if pt.is_date(array.type):
        array = array.cast(pa.timestamp("s" if pt.is_date32(array.type) else "ms"))
    instants = localize(array, target.tz)
    if not cast:
        why = f"does not exist in {target.tz}, where clocks skip it"
        _refuse(array, skipped(array, instants), why, "move it on")
    return instants


def _in_ticks(array: pa.Array, target: pa.DataType, cast: bool) -> pa.Array:
    """Returns the same times in other units."""
    have = array.type
    if have == target:
        return array
    cut = _cut(array, target)
    if cut is None:
        return _arrow_cast(array, target)
    if cast:
        return cut
    _refuse(array, pc.not_equal(array, _arrow_cast(cut, have)), _not_in(target), _TRUNCATE)
    return cut


def _cut(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Returns times truncated to the unit of ``target``; ``None`` if it is not a coarser unit."""
    have = array.type
    units = ("s", "ms", "us", "ns")
    if pt.is_timestamp(have) and pt.is_date(target):
        return _arrow_cast(pc.floor_temporal(array, unit="day"), target)
    if pt.is_date64(have) and pt.is_date32(target):
        return array.cast(target, safe=False)
    coarser = (
        hasattr(have, "unit")
        and hasattr(target, "unit")
        and units.index(have.unit) > units.index(target.unit)
    )
    return array.cast(target, safe=False) if coarser else None


# ------------------------------------------------------------------ text and UUIDs


def _decimals(texts: pa.Array, target: pa.DataType, cast: bool) -> pa.Array:
    return exact_numbers(pc.utf8_trim_whitespace(texts), target, cast)


def _times(texts: pa.Array, target: pa.DataType, cast: bool) -> pa.Array:
    """Converts texts of times of day."""
    if not cast:
        bad = pc.fill_null(pc.match_substring_regex(texts, _FINER_TIME), False)
        _refuse(texts, bad, _not_in(target), _TRUNCATE)  # Python truncates these digits
    return each(texts, target)


def _moments(texts: pa.Array, target: pa.DataType, cast: bool) -> pa.Array:
    """Converts texts of dates and times, each with or without a zone."""
    texts = pc.utf8_trim_whitespace(texts)
    zoned = pc.fill_null(pc.match_substring_regex(texts, _ZONE), False)
    if not pc.any(zoned).as_py():
        return _read_moments(texts, target, None, cast)
    if not has_zone(target):
        if not cast:
            _refuse(texts, zoned, "has a time zone, the column has none", "drop the zone")
        without = pc.replace_substring_regex(texts, _ZONE, r"\1")
        return _read_moments(without, target, None, cast)
    nothing = pa.scalar(None, texts.type)
    instants = _read_moments(pc.if_else(zoned, texts, nothing), target, "UTC", cast)
    without = pc.if_else(zoned, nothing, texts)
    return pc.coalesce(instants, _read_moments(without, target, None, cast))


def _read_moments(texts: pa.Array, target: pa.DataType, zone: str | None, cast: bool) -> pa.Array:
    unit = target.unit if pt.is_timestamp(target) else "us"
    for finer in dict.fromkeys((unit, "us", "ns") if cast else (unit,)):
        kind = pa.timestamp(finer, zone)
        try:
            array = texts.cast(kind)
        except pa.ArrowException:
            continue
        convert = _time(kind, target, cast)
        return array if convert is None else convert(array)
    return each(texts, target)


def each(values: Sequence[Any] | pa.Array, target: pa.DataType) -> pa.Array:
    """Converts values one by one to ``target``, which is not a nested type.

    Raises:
        UnfitError: the type cannot represent a value.
    """
    from nimblepy.schema.values import is_nan, is_null, place, show

    made: list[Any] = []
    for row, item in enumerate(values):
        value = item.as_py() if isinstance(item, pa.Scalar) and is_text(item.type) else item
        if is_null(value):
            made.append(None)
            continue
        try:
            if isinstance(value, str) and (is_uuid(target) or family(target) in _TEMPORAL):
                value = parse_text(target, value)
            if is_nan(value) and pt.is_floating(target):
                made.append(float("nan"))
                continue
            if isinstance(value, float) and pt.is_floating(target):
                made.append(stored_float(value, target))
                continue
            if isinstance(value, str) and pt.is_decimal(target):
                made += _decimals(pa.array([value]), target, False).to_pylist()
                continue
            is_float = isinstance(value, (float, np.floating)) and pt.is_decimal(target)
            # The shortest digits of a float, as in columns of floats.
            position = place(target, Decimal(str(value)) if is_float else value)
        except InvalidArgumentError as error:
            raise UnfitError(row, f"{show(value)} cannot be stored as {target}: {error}") from None
        if position.exact is None:
            raise UnfitError(row, f"{show(value)} is not a value of {target}")
        made.append(position.exact)
    storage = target.storage_type if is_uuid(target) else target
    array = pa.array(made, storage)
    return target.wrap_array(array) if is_uuid(target) else array


def stored_float(value: float, target: pa.DataType) -> float:
    """Returns a Python float, rounded to the nearest value of a float type.

    Raises:
        InvalidArgumentError: it is out of range.
    """
    made: float = pa.scalar(value, pa.float64()).cast(target, safe=False).as_py()
    if np.isinf(made) and not np.isinf(value):
        raise InvalidArgumentError(f"{value} is out of range of {target}")
    return made


def _to_uuid(plain: pa.DataType, target: pa.DataType) -> Convert | None:
    if is_text(plain):
        return lambda array: target.wrap_array(_bytes_of_texts(array))
    if is_bytes(plain):
        why = "is not a UUID, which has 16 bytes"
        return lambda array: target.wrap_array(_arrow_cast(array, pa.binary(_UUID_BYTES), why))
    return None


def _bytes_of_texts(array: pa.Array) -> pa.Array:
    """Converts UUIDs from text to their 16 bytes."""
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
    identities: list[bytes | None] = []
    for row, text in enumerate(array.to_pylist()):
        try:
            identities.append(None if text is None else uuid_of(text).bytes)
        except InvalidArgumentError:
            _raise_unfit(array, row, "is not a UUID")
    return pa.array(identities, pa.binary(_UUID_BYTES))


def _of_uuid(target: pa.DataType) -> Convert | None:
    if is_bytes(target):
        return _checked(target)
    if is_text(target):
        return lambda array: pa.array(
            [None if v is None else str(uuid.UUID(bytes=v)) for v in array.to_pylist()], target
        )
    return None


# ------------------------------------------------------------------ Python values


def mixes_times(values: Sequence[Any]) -> bool:
    """Returns whether pyarrow would lose the zone, time of day or nanoseconds of a value."""
    zoned = naive = dates = False
    for value in values:
        # pandas' subclasses of datetime and timedelta also have nanoseconds.
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
    """Returns whether a type contains times, at any depth."""
    if pt.is_struct(data_type):
        return any(has_times(item.type) for item in data_type)
    if pt.is_map(data_type):
        return has_times(data_type.key_type) or has_times(data_type.item_type)
    if is_list(data_type):
        return has_times(data_type.value_type)
    return bool(pt.is_temporal(data_type))
