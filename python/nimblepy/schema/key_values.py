"""Values of key columns: single keys, many at once, and the columns of joins.

A key is placed among the values of its column as every literal is (``values.py``). Whole arrays are
cast where that changes how values are written but not what they mean; else each is looked at.
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
from nimblepy.schema.conform import same_values
from nimblepy.schema.kinds import family, is_text, value_type, widens
from nimblepy.schema.plain import plain_array
from nimblepy.schema.values import (
    LiteralPosition,
    has_zone,
    is_nan,
    is_null,
    place,
    place_tick,
    show,
    tick_of,
)

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
# A cast to views leaves a buffer out in pyarrow before 24, whose export then crashes.
_VIEWS_LOSE_A_BUFFER = int(pa.__version__.split(".")[0]) < 24


_WIDE = Context(prec=100)
# By bits: signed and unsigned.
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
    """Where a value of a key, which is not null, falls among those of the column ``name``.

    NaN is one key value, though it equals nothing as a number; raw integers stand for dates,
    times and the like, as pyarrow accepts them.

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
            f"{what} {show(value)} does not fit column {name!r}, which is {data_type}: {error}"
        ) from None


def exact_key(
    name: str, data_type: pa.DataType, value: object, what: str = "key"
) -> tuple[pa.Scalar | None, bool]:
    """``value`` in ``data_type``, ``None`` for null; and whether the type can hold it at all.

    Args:
        what: the value is, for messages.

    Raises:
        InvalidArgumentError: a value of the wrong kind, or between two values of the type.
    """
    if is_null(value):
        return None, True
    found = place_key(name, data_type, value, what)
    if found.exact is not None:
        return found.exact, True
    if found.below is not None and found.above is not None:
        raise InvalidArgumentError(
            f"{what} {show(value)} is no value of column {name!r}, which is {data_type}"
        )
    return None, False


def exact_keys(name: str, data_type: pa.DataType, values: Any) -> tuple[pa.Array, Mask | None]:
    """Values of a key column as an array of ``data_type``, and a mask of those it cannot hold.

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
        # A float may be next to a decimal and still be cast to it.
        rounds = pt.is_floating(array.type) and pt.is_decimal(data_type)
        if _related(array.type, data_type) and not rounds:
            cast, bad = key_array(array, data_type)
            if bad is None:
                return cast, None
            if pt.is_integer(array.type) and pt.is_integer(data_type):  # beyond, never between
                return pc.if_else(pa.array(bad), pa.scalar(None, data_type), cast), bad
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # Arrow has no one type for them, or drops a part of one: each is looked at
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
    """Python values in the type pyarrow infers, or in the column's where that one loses digits."""
    array = pa.array(values)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return array
    if pt.is_temporal(array.type):
        if getattr(data_type, "unit", None) == "ns" and _related(array.type, data_type):
            # pandas' values, which are inferred as microseconds
            return pa.array(values, data_type)
        zoned = has_zone(array.type)
        if any(_has_more(value, zoned) for value in values):
            raise pa.ArrowInvalid("nanoseconds or time zones, which pyarrow drops")
    if isinstance(array, pa.ExtensionArray) and is_text(data_type):
        raise pa.ArrowInvalid("UUIDs, which are text in another form than bytes")
    return array


def _has_more(value: object, zoned: bool) -> bool:
    """Whether a value says more than what pyarrow has inferred of it and of others."""
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        return True
    if not isinstance(value, (datetime.datetime, datetime.time)):
        return False
    return (value.tzinfo is not None) != zoned


def _related(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Casts between these change how a value is written, not what it means."""
    if pt.is_null(found):
        return True
    if pt.is_timestamp(found) and pt.is_timestamp(wanted):
        return (found.tz is None) == (wanted.tz is None)
    kind = family(found)
    return kind == family(wanted) and kind != "none"


# ------------------------------------------------------------------ columns of joins


def comparable(probe: pa.DataType, build: pa.DataType) -> bool:
    """Whether equality between the types means equal values, without rounding on the way."""
    found, wanted = value_type(probe), value_type(build)
    if found == wanted or pt.is_null(found):
        return True
    if pt.is_integer(found) and pt.is_floating(wanted):
        return bool(found.bit_width <= 32 and wanted.bit_width == 64)
    if pt.is_floating(found) or pt.is_floating(wanted):
        return bool(pt.is_floating(found) and pt.is_floating(wanted))
    if family(found) == "text":
        return family(wanted) == "text" and is_text(found) == is_text(wanted)
    return _related(found, wanted)


def key_array(values: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """``values`` as ``wanted``, and which of them that type does not have, ``None`` for none.

    Args:
        values: of a type that is :func:`comparable` with ``wanted``.
    """
    array = values if values.type == wanted else plain_array(values)
    if array.type == wanted:
        return array, None
    if pt.is_null(array.type):
        return pa.nulls(len(array), wanted), None
    try:
        if _VIEWS_LOSE_A_BUFFER and (pt.is_string_view(wanted) or pt.is_binary_view(wanted)):
            return pa.array(array.to_pylist(), wanted), None
        cast = array.cast(wanted, safe=False)
        if widens(array.type, wanted):
            return cast, None
        same = same_values(array, cast.cast(array.type, safe=False))
        bad = ~same.to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return _one_by_one(array, wanted)
    # Wrapping around is undone by the way back, except where a sign changes with it.
    if pt.is_signed_integer(array.type) and pt.is_unsigned_integer(wanted):
        bad |= _negative(array)
    if pt.is_unsigned_integer(array.type) and pt.is_signed_integer(wanted):
        bad |= _negative(cast)
    if pt.is_floating(array.type) and pt.is_integer(wanted):
        bad |= _at_least(array, 2.0 ** (wanted.bit_width - pt.is_signed_integer(wanted)))
    return (cast, bad) if bad.any() else (cast, None)


def _at_least(array: pa.Array, limit: float) -> Mask:
    """Floats that are too large for an integer; on some processors they become the largest."""
    mask: Mask = pc.fill_null(pc.greater_equal(array, limit), False).to_numpy(zero_copy_only=False)
    return mask


def value_range(data_type: pa.DataType, nan_greatest: bool) -> tuple[pa.Scalar, pa.Scalar | None]:
    """The least and the greatest value of a type; texts and bytes have no greatest one.

    Args:
        nan_greatest: NaN is the greatest float, and not outside of all ranges.
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
        found = pa.array([0 if unsigned else -most, most - 1], kind).view(data_type)
        return found[0], found[1]
    return pa.scalar(ends[0], data_type), pa.scalar(ends[1], data_type)


def _negative(array: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(pc.less(array, pa.scalar(0, array.type)), False).to_numpy(
        zero_copy_only=False
    )
    return mask


def _one_by_one(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mask]:
    """For values that pyarrow cannot cast as a whole, such as decimals of too many digits."""
    bad = np.zeros(len(array), dtype=np.bool_)
    null = pa.scalar(None, wanted)
    out = [null] * len(array)
    for i, item in enumerate(array):
        if item.is_valid:
            exact = place_key("key", wanted, item).exact
            bad[i] = exact is None
            out[i] = null if exact is None else exact
    return pa.array(out, wanted), bad
