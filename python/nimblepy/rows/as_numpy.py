"""Converts rows to numpy arrays, without creating a Python object per value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.schema.plain import plain_array


def numpy_row(row: pa.Table) -> dict[str, Any]:
    """Returns the first row of a table as a dict. Lists are arrays; other values are Python's."""
    return {
        name: _numpy_value(column[0])
        for name, column in zip(row.column_names, row.columns, strict=True)
    }


def _numpy_value(scalar: pa.Scalar) -> Any:
    data_type = scalar.type
    if isinstance(data_type, pa.BaseExtensionType):  # for example, a tensor
        data_type = data_type.storage_type
    if not _is_list(data_type) or not scalar.is_valid:
        return scalar.as_py()
    values = scalar.value.values if isinstance(scalar, pa.ExtensionScalar) else scalar.values
    return _numpy(values)


def _numpy(array: pa.Array) -> np.ndarray[Any, Any]:
    if isinstance(array.type, pa.UuidType):
        return _objects(array)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pt.is_fixed_size_list(array.type):
        return _matrix(array)
    array = plain_array(array)
    if _is_list(array.type):
        # pyarrow would make integers floats in all rows if one list has a null.
        values, offsets, valid = array.values, array.offsets.to_pylist(), array.is_valid()
        rows = np.empty(len(array), dtype=object)
        for i, is_valid in enumerate(valid.to_pylist()):
            if is_valid:
                rows[i] = _numpy(values.slice(offsets[i], offsets[i + 1] - offsets[i]))
        return rows
    if pt.is_nested(array.type):
        return _objects(array)
    if pt.is_integer(array.type) and array.null_count:  # to_numpy() would make them floats
        mask = array.is_null().to_numpy(zero_copy_only=False)
        return np.ma.MaskedArray(array.fill_null(0).to_numpy(), mask)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _objects(array: pa.Array) -> np.ndarray[Any, Any]:
    objects = np.empty(len(array), dtype=object)
    objects[:] = array.to_pylist()
    return objects


def _matrix(array: pa.FixedSizeListArray) -> np.ndarray[Any, Any]:
    """Returns vectors as the rows of a matrix. The row of a null is NaN, ``None`` or masked."""
    size = array.type.list_size
    mask = array.is_null().to_numpy(zero_copy_only=False)
    flat = array.values.slice(array.offset * size, len(array) * size)
    if array.null_count:  # the values of null rows are arbitrary
        plain = flat if isinstance(flat.type, pa.UuidType) else plain_array(flat)
        flat = plain.take(pa.array(np.arange(len(flat)), mask=np.repeat(mask, size)))
    values = _numpy(flat)
    return values.reshape(len(array), size, *values.shape[1:])


def _is_list(data_type: pa.DataType) -> bool:
    return bool(
        pt.is_list(data_type) or pt.is_large_list(data_type) or pt.is_fixed_size_list(data_type)
    )


def numpy_columns(table: pa.Table) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the columns as numpy arrays. Nulls are NaN, ``None`` or, for integers, masked.

    Vectors are the rows of a matrix. Other lists are arrays in an array of objects.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        arrays[name] = _numpy(array)
    return arrays
