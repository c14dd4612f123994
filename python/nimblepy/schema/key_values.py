"""Values of key columns: single keys, arrays of keys, and the columns of joins.

A single key is compared with the column's type like any other literal (``values.py``). An array is
cast as a whole if that keeps the meaning of every value. Otherwise each value is converted.
"""

from __future__ import annotations

import datetime
import math
from decimal import Context, Decimal
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.convert import same_values
from nimblepy.schema.kinds import family, is_text, value_type, widens
from nimblepy.schema.plain import plain_array
from nimblepy.schema.values import (
    LiteralPosition,
    is_nan,
    is_null,
    place,
    place_tick,
    show,
    tick_of,
)
from nimblepy.schema.zones import has_zone, localize

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
# Before version 24, pyarrow's casts to views omit a buffer, and exporting the result crashes.
_VIEWS_LOSE_A_BUFFER = int(pa.__version__.split(".")[0]) < 24


_WIDE = Context(prec=100)
# Integer types by bits: signed and unsigned.
_INTEGERS = {
    8: (pa.int8(), pa.uint8()),
    16: (pa.int16(), pa.uint16()),
    32: (pa.int32(), pa.uint32()),
    64: (pa.int64(), pa.uint64()),
}


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def place_key(
    name: str, data_type: pa.DataType, value: object, what: str = "key"
) -> LiteralPosition:
    """Returns where a non-null key value falls among the values of column ``name``.

    As a key, NaN equals NaN, although it does not as a number. For dates, times and durations,
    integers are accepted as stored values, as in pyarrow.

    Raises:
        InvalidArgumentError: a value of the wrong kind.
    """
    if is_nan(value) and pt.is_floating(data_type):
        return LiteralPosition(exact=pa.scalar(math.nan, data_type))
    if pt.is_temporal(data_type) and _is_integer(value):
        return place_tick(data_type, int(value) * tick_of(data_type))
    try:
        return place(data_type, value)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{what} {show(value)} does not fit column {name!r} ({data_type}): {error}"
        ) from None


def exact_key(
    name: str, data_type: pa.DataType, value: object, what: str = "key"
) -> tuple[pa.Scalar | None, bool]:
    """Converts ``value`` to ``data_type``, and returns whether the type can represent the value.

    A null value becomes ``None``.

    Args:
        what: what the value is, for messages.

    Raises:
        InvalidArgumentError: a value of the wrong kind, or between two values of the type.
    """
    if is_null(value):
        return None, True
    position = place_key(name, data_type, value, what)
    if position.exact is not None:
        return position.exact, True
    if position.below is not None and position.above is not None:
        raise InvalidArgumentError(
            f"{what} {show(value)} cannot be converted to column {name!r} ({data_type})"
        )
    return None, False


def exact_keys(name: str, data_type: pa.DataType, values: Any) -> tuple[pa.Array, Mask | None]:
    """Converts the values of a key column to ``data_type``, with a mask of inexact values.

    The mask is true for values that ``data_type`` cannot represent.

    Args:
        values: an Arrow or numpy array, or a sequence of values as :func:`exact_key` takes them.

    Raises:
        InvalidArgumentError: a value of the wrong kind, or between two values of the type.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    try:
        array = values if isinstance(values, pa.Array) else _natural(values, data_type)
        if array.type == data_type:
            return array, None
        array = plain_array(array)
        if pt.is_timestamp(array.type) and has_zone(data_type) and not has_zone(array.type):
            array = localize(array, data_type.tz)
        # Arrow also casts a float to a decimal that is only close to it, so convert value by value.
        rounds = pt.is_floating(array.type) and pt.is_decimal(data_type)
        if _related(array.type, data_type) and not rounds:
            cast, bad = key_array(array, data_type)
            if bad is None:
                return cast, None
            if pt.is_integer(array.type) and pt.is_integer(data_type):  # never between
                return pc.if_else(pa.array(bad), pa.scalar(None, data_type), cast), bad
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # Arrow has no common type for these values, or would drop a part of a value.
    try:
        items = values if isinstance(values, pa.Array) else list(values)
    except TypeError:
        raise InvalidArgumentError(f"keys: expected many values, got {show(values)}") from None
    out: list[pa.Scalar] = []
    bad = np.zeros(len(items), dtype=np.bool_)
    null = pa.scalar(None, data_type)
    for i, item in enumerate(items):
        scalar, fits = exact_key(name, data_type, item)
        bad[i] = not fits
        out.append(null if scalar is None else scalar)
    return pa.array(out, data_type), bad


def _natural(values: Any, data_type: pa.DataType) -> pa.Array:
    """Converts values to the type that pyarrow infers, or to ``data_type`` to keep all digits."""
    array = pa.array(values)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return array
    if pt.is_temporal(array.type):
        if getattr(data_type, "unit", None) == "ns" and _related(array.type, data_type):
            # pyarrow infers microseconds for pandas' values
            return pa.array(values, data_type)
        zoned = has_zone(array.type)
        if any(_has_more(value, zoned) for value in values):
            raise pa.ArrowInvalid("values have nanoseconds or time zones that pyarrow would drop")
    if isinstance(array, pa.ExtensionArray) and is_text(data_type):
        raise pa.ArrowInvalid("pyarrow converts UUIDs to bytes, not to text")
    return array


def _has_more(value: object, zoned: bool) -> bool:
    """Returns whether a value has more precision than the type that pyarrow inferred."""
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        return True
    if not isinstance(value, (datetime.datetime, datetime.time)):
        return False
    return (value.tzinfo is not None) != zoned


def _related(have: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether casts between the types keep the meaning of every value."""
    if pt.is_null(have):
        return True
    if pt.is_timestamp(have) and pt.is_timestamp(target):
        return (have.tz is None) == (target.tz is None)
    kind = family(have)
    return kind == family(target) and kind != "none"


# ------------------------------------------------------------------ columns of joins


def comparable(probe: pa.DataType, build: pa.DataType) -> bool:
    """Returns whether values of the types can be compared for equality without rounding."""
    probe_type, build_type = value_type(probe), value_type(build)
    if probe_type == build_type or pt.is_null(probe_type):
        return True
    if pt.is_integer(probe_type) and pt.is_floating(build_type):
        return bool(probe_type.bit_width <= 32 and build_type.bit_width == 64)
    if pt.is_floating(probe_type) or pt.is_floating(build_type):
        return bool(pt.is_floating(probe_type) and pt.is_floating(build_type))
    if family(probe_type) == "text":
        return family(build_type) == "text" and is_text(probe_type) == is_text(build_type)
    return _related(probe_type, build_type)


def key_array(values: pa.Array, target: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """Converts ``values`` to ``target``, with a mask of inexact values; ``None`` if all are exact.

    The mask is true for values that ``target`` cannot represent.

    Args:
        values: of a type that is :func:`comparable` with ``target``.
    """
    array = values if values.type == target else plain_array(values)
    if array.type == target:
        return array, None
    if pt.is_null(array.type):
        return pa.nulls(len(array), target), None
    try:
        if _VIEWS_LOSE_A_BUFFER and (pt.is_string_view(target) or pt.is_binary_view(target)):
            return pa.array(array.to_pylist(), target), None
        cast = array.cast(target, safe=False)
        if widens(array.type, target):
            return cast, None
        same = same_values(array, cast.cast(array.type, safe=False))
        bad = ~same.to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return _one_by_one(array, target)
    # A cast back would undo a wrap-around, so also compare the signs.
    if pt.is_signed_integer(array.type) and pt.is_unsigned_integer(target):
        bad |= _negative(array)
    if pt.is_unsigned_integer(array.type) and pt.is_signed_integer(target):
        bad |= _negative(cast)
    if pt.is_floating(array.type) and pt.is_integer(target):
        bad |= _at_least(array, 2.0 ** (target.bit_width - pt.is_signed_integer(target)))
    return (cast, bad) if bad.any() else (cast, None)


def _at_least(array: pa.Array, limit: float) -> Mask:
    """Returns a mask of floats too large for an integer.

    On some processors they become the maximum.
    """
    mask: Mask = pc.fill_null(pc.greater_equal(array, limit), False).to_numpy(zero_copy_only=False)
    return mask


def value_range(data_type: pa.DataType, nan_greatest: bool) -> tuple[pa.Scalar, pa.Scalar | None]:
    """Returns the minimum and maximum of a type. Text and bytes have no maximum: ``None``.

    Args:
        nan_greatest: whether NaN is the greatest float. Otherwise NaN is in no range.
    """
    if pt.is_boolean(data_type):
        ends: tuple[Any, Any] = (False, True)
    elif pt.is_floating(data_type):
        ends = (-math.inf, math.nan if nan_greatest else math.inf)
    elif pt.is_decimal(data_type):
        largest = Decimal(10**data_type.precision - 1).scaleb(-data_type.scale, _WIDE)
        ends = (largest.copy_negate(), largest)
    elif pt.is_fixed_size_binary(data_type):
        ends = (bytes(data_type.byte_width), b"\xff" * data_type.byte_width)
    elif family(data_type) == "text":
        return pa.scalar("" if is_text(data_type) else b"", data_type), None
    else:
        unsigned = pt.is_unsigned_integer(data_type)
        most = 1 << (data_type.bit_width - (not unsigned))
        kind = _INTEGERS[data_type.bit_width][unsigned]
        ends = pa.array([0 if unsigned else -most, most - 1], kind).view(data_type)
        return ends[0], ends[1]
    return pa.scalar(ends[0], data_type), pa.scalar(ends[1], data_type)


def _negative(array: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(pc.less(array, pa.scalar(0, array.type)), False).to_numpy(
        zero_copy_only=False
    )
    return mask


def _one_by_one(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, Mask]:
    """Converts value by value, for arrays that pyarrow cannot cast, such as long decimals."""
    bad = np.zeros(len(array), dtype=np.bool_)
    null = pa.scalar(None, target)
    out = [null] * len(array)
    for i, item in enumerate(array):
        if item.is_valid:
            exact = place_key("key", target, item).exact
            bad[i] = exact is None
            out[i] = null if exact is None else exact
    return pa.array(out, target), bad
