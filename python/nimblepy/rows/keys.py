"""Key arguments of lookups as Arrow columns of exactly the key's types.

A value that a column cannot hold but that lies beyond its values (300 for int8) matches nothing; a
value between two of them (1.5 for int64) is refused, because it is mostly a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.key_values import exact_keys
from nimblepy.schema.kinds import is_text, value_type
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.text import is_spelled, parse_text
from nimblepy.schema.types import SortKey
from nimblepy.schema.values import show


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that keys or bounds are given for.

    Attributes:
        names: what dicts and tables call them, in the order in which tuples give them.
        types: their value types (dictionaries looked through).
        spelled: the declared types of those whose values may be given as text; otherwise ``None``.
        descending, nulls_first: their directions in the index; those of keys do not matter.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    descending: tuple[bool, ...]
    nulls_first: tuple[bool, ...]
    spelled: tuple[pa.DataType | None, ...]

    def read(self, column: int, value: object) -> object:
        """``value``, given for one of the columns, with text that spells a time or UUID read.

        Raises:
            InvalidArgumentError: the text spells none.
        """
        spelled = self.spelled[column]
        if spelled is None or not isinstance(value, (str, pa.StringScalar)):
            return value
        try:
            return parse_text(spelled, value if isinstance(value, str) else value.as_py())
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"key {show(value)} does not fit column {self.names[column]!r}: {error}"
            ) from None


def key_columns(schema: pa.Schema, keys: Sequence[SortKey]) -> KeyColumns:
    """The columns of ``keys``.

    Raises:
        InvalidArgumentError: ``schema`` has no such column.
    """
    columns = [resolve_column(schema, key.column) for key in keys]
    return KeyColumns(
        names=tuple(output_name(key.column) for key in keys),
        types=tuple(column.value_type for column in columns),
        descending=tuple(key.descending for key in keys),
        nulls_first=tuple(key.nulls_first for key in keys),
        spelled=tuple(column.type if is_spelled(column.type) else None for column in columns),
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
    for i, values in enumerate(raw):
        if columns.spelled[i] is not None:
            values = _read_all(columns, i, values)
        array, bad = exact_keys(columns.names[i], columns.types[i], values)
        arrays.append(array)
        if bad is not None and bad.any():
            usable = ~bad if usable is None else usable & ~bad
    return tuple(arrays), usable


def _read_all(columns: KeyColumns, column: int, values: Any) -> Any:
    """Values for one of the columns with the text among them read."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        if not is_text(value_type(values.type)):
            return values
        values = values.to_pylist()
    elif isinstance(values, np.ndarray) and values.dtype.kind not in "OUT":
        return values
    return [columns.read(column, value) for value in values]


def single_row(names: Sequence[ColumnName], scalars: Sequence[pa.Scalar]) -> pa.RecordBatch:
    """A batch of one row from typed scalars."""
    return key_batch(names, [pa.array([scalar], scalar.type) for scalar in scalars])


def key_batch(names: Sequence[ColumnName], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
    """Key columns as a batch; the core knows them by their places."""
    return pa.RecordBatch.from_arrays(arrays, [output_name(name) for name in names])


def _columns_of(keys: Any, columns: KeyColumns) -> list[Any]:
    """Values of each key column, in key order; any form that :func:`exact_keys` takes."""
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
            f"keys: expected many keys, got {show(keys)}; for one key use get()"
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
            f"({', '.join(columns.names)}); for keys of fewer columns name these in on="
        )
    return tuple(row)
