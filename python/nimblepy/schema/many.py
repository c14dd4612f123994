"""Reads collections of values in every form that callers may pass."""

from __future__ import annotations

import array
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import is_text
from nimblepy.schema.plain import plain_array

# Named columns, one column, or single Python values.
Many: TypeAlias = "pa.Table | pa.Array | pa.ChunkedArray | np.ndarray[Any, Any] | list[Any]"


def as_many(values: Any) -> Many | None:
    """Converts ``values`` to one of four forms; ``None`` if they are one value or a mapping.

    Accepts Arrow arrays, batches and tables, numpy arrays, frames and series of polars and pandas,
    other objects that export Arrow data or a numpy array, and any iterable, which is consumed.
    """
    if type(values) is list:
        return values
    try:
        return _as_many(values)
    except pa.ArrowException as error:
        reason = "; ".join(map(str, error.args))
        raise InvalidArgumentError(f"values cannot be converted to Arrow: {reason}") from error


def _as_many(values: Any) -> Many | None:
    if isinstance(values, pa.Table):
        return values
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return _columns(values) if pt.is_struct(values.type) else values
    if isinstance(values, np.ndarray):
        return None if values.ndim == 0 else _fields(values)
    if isinstance(values, pa.ListScalar):
        return [] if values.values is None else values.values
    if isinstance(values, (str, bytes, bytearray, Mapping, pa.Scalar)):
        return None
    package = type(values).__module__.partition(".")[0]
    if package == "pandas":
        return _of_pandas(values)
    if package == "polars":
        return _of_polars(values)
    # If one of these fails, do not iterate instead: a stream that failed halfway would look empty.
    if hasattr(values, "__arrow_c_stream__"):
        return as_many(pa.chunked_array(values))
    if hasattr(values, "__arrow_c_array__"):
        return as_many(pa.array(values))
    if isinstance(values, memoryview) and values.format in ("B", "b", "c"):
        return None
    if isinstance(values, (array.array, memoryview)) or hasattr(values, "__array__"):
        return as_many(np.asarray(values))
    try:
        items = iter(values)
    except TypeError:
        return None
    return list(items)


def _of_polars(values: Any) -> Many | None:
    """Reads columns of Python objects as objects, because polars exports their addresses."""
    if hasattr(values, "collect"):
        values = values.collect()
    if hasattr(values, "iter_rows"):
        objects = any(str(kind) == "Object" for kind in values.dtypes)
        return values.to_dicts() if objects else pa.table(values)
    if not hasattr(values, "to_list"):
        return None
    if str(values.dtype) == "Object":
        items: list[Any] = values.to_list()
        return items
    return as_many(pa.chunked_array(values))


def _of_pandas(values: Any) -> Many | None:
    """Returns a pandas frame, with its index if the index has names; or a series, index or array of
    pandas.
    """
    if hasattr(values, "columns") and hasattr(values, "index"):
        named = any(name is not None for name in values.index.names)
        try:
            table = pa.Table.from_pandas(values, preserve_index=named)
            # Periods and intervals differ from the integers that store them.
            for field in table.schema:
                if getattr(field.type, "extension_name", "").startswith("pandas."):
                    raise InvalidArgumentError(
                        f"column {field.name!r}: values of {field.type} cannot be compared"
                    )
            return table
        except pa.ArrowException:
            raise
        except ValueError as error:  # duplicate names
            raise InvalidArgumentError(str(error)) from error
    if not hasattr(values, "__len__"):  # a single timestamp, period or NA
        return None
    if hasattr(values, "levels"):  # an index with several columns
        return list(values)
    try:
        array = pa.Array.from_pandas(values)
    except (pa.ArrowException, TypeError, ValueError):
        return list(values)
    # Periods and intervals differ from the integers that store them.
    foreign = isinstance(array.type, pa.ExtensionType)
    return list(values) if foreign else as_many(array)


def _columns(values: Any) -> pa.Table:
    """Converts structs to a table with their fields as columns. A null struct has null fields."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    schema = pa.schema(list(values.type))
    batches = [pa.RecordBatch.from_arrays(chunk.flatten(), schema=schema) for chunk in chunks]
    return pa.Table.from_batches(batches, schema=schema)


def _fields(values: np.ndarray[Any, Any]) -> Many:
    # pyarrow truncates numpy strings at their first NUL.
    if values.dtype.kind in "OSU" and values.ndim == 1:
        return values.tolist()
    names = values.dtype.names
    if names is None or values.ndim != 1:
        return values
    columns = {name: _fields(values[name]) for name in names}
    # Copying a masked array keeps its mask; np.ascontiguousarray() loses it.
    return pa.table(
        {n: c if isinstance(c, list) else pa.array(c.copy()) for n, c in columns.items()}
    )


def values_of_column(many: Many) -> Sequence[Any]:
    """Returns the values of one column, as Python values or Arrow scalars.

    Raises:
        InvalidArgumentError: more than one column or dimension.
    """
    if isinstance(many, list):
        return many
    if isinstance(many, pa.Table):
        if many.num_columns != 1:
            raise InvalidArgumentError(f"expected one column, got {many.num_columns}")
        many = many.column(0)
    if isinstance(many, pa.ChunkedArray):
        many = many.combine_chunks()
    if isinstance(many, np.ndarray) and many.ndim != 1:
        raise InvalidArgumentError(f"expected one dimension, got {many.ndim}")
    if isinstance(many, pa.Array) and not isinstance(many.type, pa.UuidType):
        many = plain_array(many)
        # For these types, Python values are faster and lossless.
        if pt.is_integer(many.type) or pt.is_float64(many.type) or is_text(many.type):
            return many.to_pylist()  # type: ignore[no-any-return]
    return list(many)
