"""Key arguments of lookups as Arrow columns of exactly the key's types.

A value that a column cannot hold but that lies beyond its values (300 for int8) matches nothing; a
value between two of them (1.5 for int64) is refused, because it is mostly a mistake.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.kinds import family, is_text, value_type
from nimblepy.schema.literals import Place, place
from nimblepy.schema.types import SortKey


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that keys or bounds are given for.

    Attributes:
        names: in the order in which tuples give them.
        types: their value types (dictionaries looked through).
        descending: their directions in the index; those of keys do not matter.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    descending: tuple[bool, ...]


def key_columns(schema: pa.Schema, keys: Sequence[SortKey]) -> KeyColumns:
    """The columns of ``keys``.

    Raises:
        InvalidArgumentError: ``schema`` has no such column.
    """
    return KeyColumns(
        names=tuple(key.column for key in keys),
        types=tuple(resolve_column(schema, key.column).value_type for key in keys),
        descending=tuple(key.descending for key in keys),
    )


def typed_keys(
    keys: Any, columns: KeyColumns
) -> tuple[tuple[pa.Array, ...], np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """``keys`` as one array per column, and which of them can match, ``None`` for all.

    Args:
        keys: Arrow array, numpy array, list of scalars, list of tuples or dicts, or tabular data
            whose columns are named as the key columns.

    Raises:
        InvalidArgumentError: a value of the wrong type, or between two values of the column.
    """
    raw = _columns_of(keys, columns)
    arrays: list[pa.Array] = []
    usable: np.ndarray[Any, np.dtype[np.bool_]] | None = None
    for name, data_type, values in zip(columns.names, columns.types, raw, strict=True):
        array, bad = _exact_array(name, data_type, values)
        arrays.append(array)
        if bad is not None and bad.any():
            usable = ~bad if usable is None else usable & ~bad
    return tuple(arrays), usable


def single_row(names: Sequence[str], scalars: Sequence[pa.Scalar]) -> pa.RecordBatch:
    """A batch of one row from typed scalars."""
    arrays = [pa.array([scalar], scalar.type) for scalar in scalars]
    return pa.RecordBatch.from_arrays(arrays, list(names))


def _columns_of(keys: Any, columns: KeyColumns) -> list[Any]:
    """Values of each key column, in key order; any form that :func:`_exact_array` takes."""
    width = len(columns.names)
    if isinstance(keys, (pa.Array, pa.ChunkedArray, np.ndarray)):
        if width != 1:
            if isinstance(keys, pa.StructArray):
                return [keys.field(name) for name in columns.names]
            raise InvalidArgumentError(
                f"keys: one array for a key of {width} columns ({', '.join(columns.names)}); "
                "pass a table or a list of tuples"
            )
        return [keys]
    if hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "__arrow_c_array__"):
        return _tabular_columns(keys, columns)
    if type(keys).__module__.startswith("pandas."):
        if hasattr(keys, "columns"):
            return _tabular_columns(pa.Table.from_pandas(keys, preserve_index=False), columns)
        return [pa.Array.from_pandas(keys)]
    if isinstance(keys, (str, bytes, Mapping)):
        raise InvalidArgumentError(f"keys: expected many keys, got one: {keys!r}; use get()")
    try:
        rows = list(keys)
    except TypeError:
        raise InvalidArgumentError(
            f"keys: expected many keys, got {keys!r}; for one key use get()"
        ) from None
    if width == 1 and not (rows and isinstance(rows[0], (tuple, Mapping))):
        return [rows]
    tuples = [_tuple_of(row, columns) for row in rows]
    return [[row[i] for row in tuples] for i in range(width)]


def _tabular_columns(keys: Any, columns: KeyColumns) -> list[Any]:
    if hasattr(keys, "__arrow_c_stream__"):
        chunked = pa.chunked_array(keys) if not isinstance(keys, pa.Table) else None
        if chunked is not None and not pa.types.is_struct(chunked.type):
            return [chunked]
        table = keys if isinstance(keys, pa.Table) else pa.table(keys)
    else:
        table = pa.Table.from_batches([pa.record_batch(keys)])
    missing = [name for name in columns.names if name not in table.column_names]
    if missing:
        raise InvalidArgumentError(
            f"keys: no column {missing[0]!r}; they have {', '.join(table.column_names)}"
        )
    return [table.column(name) for name in columns.names]


def _tuple_of(row: Any, columns: KeyColumns) -> tuple[Any, ...]:
    if isinstance(row, Mapping):
        if set(row) != set(columns.names):
            raise InvalidArgumentError(
                f"key {row!r}: expected the columns {', '.join(columns.names)}"
            )
        return tuple(row[name] for name in columns.names)
    if not isinstance(row, (tuple, list)):
        row = (row,)
    if len(row) != len(columns.names):
        raise InvalidArgumentError(
            f"key {row!r}: {len(row)} values for {len(columns.names)} columns "
            f"({', '.join(columns.names)})"
        )
    return tuple(row)


def _exact_array(
    name: str, data_type: pa.DataType, values: Any
) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """``values`` as an array of ``data_type``, and a mask of those the type cannot hold."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    try:
        if isinstance(values, pa.Array):
            array = values if value_type(values.type) == values.type else _decoded(values)
        else:
            array = _natural_array(values, data_type)
        if array.type == data_type:
            return array, None
        if _related(array.type, data_type):
            cast = array.cast(data_type)
            # Some casts round without a word; what comes back unchanged was exact.
            if cast.cast(array.type).equals(array):
                return cast, None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        pass
    return _one_by_one(name, data_type, values)


def _natural_array(values: Any, data_type: pa.DataType) -> pa.Array:
    """Python values in the type pyarrow infers, or in the column's where that one loses digits."""
    array = pa.array(values)
    nanoseconds = getattr(data_type, "unit", None) == "ns" and pa.types.is_temporal(array.type)
    if nanoseconds and _related(array.type, data_type):
        return pa.array(values, data_type)  # pandas' values, which are inferred as microseconds
    if pa.types.is_temporal(array.type) and any(getattr(v, "nanosecond", 0) for v in values):
        raise pa.ArrowInvalid("nanoseconds in a column of coarser units")
    return array


def _decoded(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _related(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Casts between these change how a value is written, not what it means."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return (found.tz is None) == (wanted.tz is None)
    kind = family(found)
    return kind == family(wanted) and kind != "none"


def _one_by_one(
    name: str, data_type: pa.DataType, values: Any
) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.bool_]]]:
    items = values if isinstance(values, pa.Array) else list(values)
    out: list[Any] = []
    impossible = np.zeros(len(items), dtype=np.bool_)
    for i, item in enumerate(items):
        scalar, fits = exact_scalar(name, data_type, item)
        impossible[i] = not fits
        out.append(scalar)
    return _array_of(out, data_type), impossible


def _array_of(scalars: Sequence[pa.Scalar | None], data_type: pa.DataType) -> pa.Array:
    null = pa.scalar(None, data_type)
    return pa.array([null if s is None else s for s in scalars], data_type)


def exact_scalar(name: str, data_type: pa.DataType, value: Any) -> tuple[pa.Scalar | None, bool]:
    """``value`` in ``data_type``, ``None`` for null; and whether the type can hold it at all.

    Raises:
        InvalidArgumentError: wrong kind of value, or between two values of the type.
    """
    if value is None or (isinstance(value, pa.Scalar) and not value.is_valid):
        return None, True
    if isinstance(value, np.generic):
        value = value.item()
    if is_nan(value) and pa.types.is_floating(data_type):
        return pa.scalar(math.nan, data_type), True
    found = place_of(name, data_type, value)
    if found.exact is not None:
        return found.exact, True
    if found.below is not None and found.above is not None:
        raise InvalidArgumentError(
            f"key {value!r} is no value of column {name!r}, which is {data_type}"
        )
    return None, False


def is_nan(value: Any) -> bool:
    """NaN is one key value, though it equals nothing as a number."""
    if isinstance(value, pa.Scalar) and pa.types.is_floating(value.type):
        value = value.as_py()
    return isinstance(value, (float, np.floating)) and bool(value != value)


def place_of(name: str, data_type: pa.DataType, value: Any) -> Any:
    quick = _plain_scalar(data_type, value)
    if quick is not None:
        return Place(exact=quick)
    try:
        return place(data_type, _temporal(data_type, value))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"key {value!r} does not fit column {name!r}, which is {data_type}: {error}"
        ) from None


def _plain_scalar(data_type: pa.DataType, value: Any) -> pa.Scalar | None:
    """Ints of integer columns and text of text columns, which need no placing: the usual keys."""
    plain = (type(value) is int and pa.types.is_integer(data_type)) or (
        type(value) is str and is_text(data_type)
    )
    try:
        return pa.scalar(value, data_type) if plain else None
    except (pa.ArrowInvalid, OverflowError):  # beyond the column's values
        return None


def _temporal(data_type: pa.DataType, value: Any) -> Any:
    """Raw integers are accepted for dates, times and the like, as pyarrow accepts them."""
    raw = isinstance(value, int) and not isinstance(value, bool)
    if raw and pa.types.is_temporal(data_type):
        try:
            return pa.scalar(value, data_type)
        except (pa.ArrowInvalid, OverflowError):
            return value
    return value
