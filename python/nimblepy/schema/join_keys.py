"""Probe columns as values of the key's types: equal by value, or matching nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.keys import exact_scalar
from nimblepy.schema.kinds import family, is_bytes, is_text, value_type

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def comparable(probe: pa.DataType, build: pa.DataType) -> bool:
    """Whether equality between the types means equal values, without rounding on the way."""
    found, wanted = value_type(_storage(probe)), value_type(_storage(build))
    if found == wanted or pt.is_null(found):
        return True
    if pt.is_integer(found) and pt.is_floating(wanted):
        return bool(found.bit_width <= 32 and wanted.bit_width == 64)
    if pt.is_floating(found) or pt.is_floating(wanted):
        return bool(pt.is_floating(found) and pt.is_floating(wanted))
    if pt.is_timestamp(found) and pt.is_timestamp(wanted):
        return (found.tz is None) == (wanted.tz is None)
    if is_text(found) or is_bytes(found):
        return is_text(found) == is_text(wanted) and is_bytes(found) == is_bytes(wanted)
    kind = family(found)
    return kind != "none" and kind == family(wanted)


def key_array(values: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """``values`` as ``wanted``, and which of them that type cannot hold, ``None`` for none.

    Args:
        values: of a type that is :func:`comparable` with ``wanted``.
    """
    array = _decoded(values)
    if array.type == wanted:
        return array, None
    if pt.is_null(array.type):
        return pa.nulls(len(array), wanted), None
    if pt.is_integer(array.type) and pt.is_integer(wanted):
        return _integers(array, wanted)
    try:
        cast = array.cast(wanted, safe=False)
        same = _same(array, cast.cast(array.type, safe=False))
        return (cast, None) if same.all() else (cast, ~same)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _one_by_one(array, wanted)


def widens(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of ``found`` is a value of ``wanted``."""
    found = value_type(_storage(found))
    if found == wanted:
        return True
    if pt.is_integer(found) and pt.is_integer(wanted):
        signs = pt.is_signed_integer(found) == pt.is_signed_integer(wanted)
        wider = bool(found.bit_width < wanted.bit_width)
        return wider and (signs or pt.is_unsigned_integer(found))
    if pt.is_floating(found) and pt.is_floating(wanted):
        return bool(found.bit_width < wanted.bit_width)
    return (is_text(found) and is_text(wanted)) or (
        is_bytes(found) and is_bytes(wanted) and not pt.is_fixed_size_binary(wanted)
    )


def _storage(data_type: pa.DataType) -> pa.DataType:
    return data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type


def _decoded(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pt.is_dictionary(values.type):
        return values.dictionary_decode()
    return pc.run_end_decode(values) if pt.is_run_end_encoded(values.type) else values


def _integers(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """Integers outside the wanted type are equal to none of its values."""
    cast = array.cast(wanted, safe=False)
    found = array.type
    if found.bit_width < wanted.bit_width and (
        pt.is_signed_integer(wanted) or pt.is_unsigned_integer(found)
    ):
        return cast, None
    # Wrapping around is undone by the way back, except for a sign: that changes with it.
    same = _same(array, cast.cast(found, safe=False))
    if pt.is_signed_integer(found) != pt.is_signed_integer(wanted):
        signed = array if pt.is_signed_integer(found) else cast
        negative = pc.fill_null(pc.less(signed, pa.scalar(0, signed.type)), False)
        same &= ~negative.to_numpy(zero_copy_only=False)
    return (cast, None) if same.all() else (cast, ~same)


def _same(before: pa.Array, after: pa.Array) -> Mask:
    equal = pc.fill_null(pc.equal(before, after), True)
    if pt.is_floating(before.type):
        equal = pc.or_(equal, pc.fill_null(pc.is_nan(before), True))
    mask: Mask = equal.to_numpy(zero_copy_only=False)
    return mask


def _one_by_one(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mask]:
    """For values that pyarrow cannot cast as a whole, such as decimals of too many digits."""
    bad = np.zeros(len(array), dtype=np.bool_)
    out: list[Any] = []
    for i, item in enumerate(array):
        try:
            scalar, fits = exact_scalar("key", wanted, item)
        except InvalidArgumentError:  # between two values of the type
            scalar, fits = None, False
        bad[i] = not fits
        out.append(pa.scalar(None, wanted) if scalar is None else scalar)
    return pa.array(out, wanted), bad
