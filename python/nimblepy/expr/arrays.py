"""Converts arrays to the few types that the SQL kernels support.

Dictionaries, runs, extensions and views are decoded, and narrow variants are widened. Decimals of
up to 18 digits become :func:`pyarrow.decimal64`, which kernels process with integer arithmetic.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.schema import plain as plainer

Value: TypeAlias = Any  # pa.Array | pa.Scalar: an argument of a kernel; at least one is an array
# Every decimal integer of this many digits fits in 64 bits.
NARROW = 18


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type to which :func:`plain` converts arrays of ``data_type``."""
    data_type = plainer.plain_type(data_type)
    if pt.is_float16(data_type):
        return pa.float32()
    if pt.is_fixed_size_binary(data_type):
        return pa.binary()
    if pt.is_date64(data_type):
        return pa.date32()
    if pt.is_time32(data_type):
        return pa.time64("us")
    if pt.is_decimal(data_type):
        precision, scale = data_type.precision, data_type.scale
        if scale < 0:
            precision, scale = precision - scale, 0
        if precision <= NARROW:
            return pa.decimal64(precision, scale)
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    return data_type


def plain(array: pa.Array) -> pa.Array:
    """Converts ``array`` to its :func:`plain_type`."""
    array = plainer.plain_array(array)
    target = plain_type(array.type)
    if array.type == target:
        return array
    if pt.is_decimal(target):
        if array.type.scale < 0 or array.type.bit_width < 128:
            array = array.cast(pa.decimal128(target.precision, target.scale))
        return narrowed(array) if target.bit_width == 64 else array.cast(target)
    return array.cast(target)


def evaluable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts the columns of ``batch`` to types that pyarrow's expressions support."""
    for position, item in enumerate(batch.schema):
        column = plainer.plain_array(batch.column(position))
        if column.type != item.type:
            batch = batch.set_column(position, item.with_type(column.type), column)
    return batch


def plain_scalar(value: pa.Scalar) -> pa.Scalar:
    return value if value.type == plain_type(value.type) else plain(pa.array([value]))[0]


def empty(data_type: pa.DataType) -> pa.Array:
    return pa.array([], data_type)


def full(value: Value, rows: int) -> pa.Array:
    """``value`` as an array."""
    if not isinstance(value, pa.Scalar):
        return value
    if not pt.is_nested(value.type):
        return pa.repeat(value, rows)
    # pyarrow repeats lists slowly, and cannot repeat one zero times
    return pa.repeat(value, 1).take(pa.array(np.zeros(rows, dtype=np.int64)))


def rows_of(*values: Value) -> int:
    """The number of rows of the arrays in ``values``; 1 if all are scalars."""
    return next((len(value) for value in values if not isinstance(value, pa.Scalar)), 1)


# ------------------------------------------------------------------ decimals and integers


def narrowed(array: pa.Array) -> pa.Array:
    """Converts decimal128 to decimal64 by taking the low word of each value."""
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset :][: 2 * len(array)]
    data_type = pa.decimal64(min(array.type.precision, NARROW), array.type.scale)
    return from_ints(pa.array(words[::2]), data_type, _validity(array))


def widened(value: Value) -> Value:
    """Converts decimal64 to decimal128 with 19 digits, since the integers may have that many."""
    if value.type.bit_width > 64:
        return value
    target = pa.decimal128(NARROW + 1, value.type.scale)
    if isinstance(value, pa.Scalar):
        number = value.as_py()
        return pa.scalar(None if number is None else number, target)
    ints = np.asarray(to_ints(value).fill_null(0))
    words = np.empty(2 * len(ints), np.int64)
    words[::2] = ints
    words[1::2] = ints >> 63
    return pa.Array.from_buffers(target, len(ints), [_validity(value), pa.py_buffer(words)])


def to_ints(value: Value) -> Value:
    """The unscaled integers of a decimal64."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(to_ints(pa.array([value]))[0].as_py(), pa.int64())
    return pa.Array.from_buffers(pa.int64(), len(value), value.buffers()[:2], offset=value.offset)


def from_ints(ints: Value, data_type: pa.DataType, validity: pa.Buffer | None = None) -> Value:
    """A decimal64 with these unscaled integers."""
    if isinstance(ints, pa.Scalar):
        return from_ints(pa.array([ints]), data_type)[0]
    buffers = ints.buffers()
    return pa.Array.from_buffers(
        data_type, len(ints), [validity or buffers[0], buffers[1]], offset=ints.offset
    )


def _validity(array: pa.Array) -> pa.Buffer | None:
    """The validity bitmap, starting at the first row; ``None`` if there are no nulls."""
    if array.null_count == 0:
        return None
    return pc.is_valid(array).buffers()[1]
