"""Converts the key arguments of lookups to Arrow columns of the key's types.

A value outside the range of its column (300 for int8) matches nothing. A value between two column
values (1.5 for int64) is rejected, because it is usually a mistake.
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
from nimblepy.schema.many import as_many
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.text import is_spelled, parse_text
from nimblepy.schema.types import SortKey
from nimblepy.schema.values import show


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns of keys or bounds.

    Attributes:
        names: names of the columns in dicts and tables. Tuples have the same order.
        types: value types of the columns. For a dictionary column, the type of its values.
        spelled: the declared type of each column that accepts text, such as a date. ``None`` for
            other columns.
        descending, nulls_first: directions of the columns in the index. Only bounds use them.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    descending: tuple[bool, ...]
    nulls_first: tuple[bool, ...]
    spelled: tuple[pa.DataType | None, ...]

    def read(self, column: int, value: object) -> object:
        """Parses ``value`` if it is text and the column is not, such as a date or UUID.

        Returns other values unchanged.

        Raises:
            InvalidArgumentError: the text cannot be parsed.
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
    """Returns the columns of ``keys``.

    Raises:
        InvalidArgumentError: ``schema`` does not have one of the columns.
    """
    columns = [resolve_column(schema, key.column) for key in keys]
    return KeyColumns(
        names=tuple(output_name(key.column) for key in keys),
        types=tuple(column.value_type for column in columns),
        descending=tuple(key.descending for key in keys),
        nulls_first=tuple(key.nulls_first for key in keys),
        spelled=tuple(column.type if is_spelled(column.type) else None for column in columns),
    )


@dataclass(frozen=True, slots=True)
class GivenKeys:
    """Keys as the caller gave them, column by column.

    Attributes:
        columns: values of each column, in any form that :func:`exact_keys` accepts.
        names: names of the columns. ``None`` means that the columns are in key order.
        exact: whether the keys must have no other columns than the key. Otherwise, extra columns
            are ignored.
    """

    columns: tuple[Any, ...]
    names: tuple[str, ...] | None = None
    exact: bool = False

    @property
    def width(self) -> int:
        """Number of values in each key."""
        return len(self.columns)

    def columns_of(self, names: Sequence[str]) -> Sequence[Any]:
        """Returns the values of the columns ``names``.

        Raises:
            InvalidArgumentError: the keys have other columns.
        """
        if self.names is None:
            if self.width != len(names):
                raise InvalidArgumentError(
                    f"keys: {self.width} values for {len(names)} columns ({', '.join(names)}); "
                    "to search by fewer columns, name them in on="
                )
            return self.columns
        missing = [name for name in names if name not in self.names]
        if missing or (self.exact and len(names) < self.width):
            problem = f"no column {missing[0]!r}; " if missing else ""
            raise InvalidArgumentError(
                f"keys: {problem}expected the columns {', '.join(names)}; "
                f"they have {', '.join(self.names)}"
            )
        return [self.columns[self.names.index(name)] for name in names]


def read_keys(keys: Any) -> GivenKeys:
    """Splits many keys, in any supported form, into columns.

    Args:
        keys: any form that :func:`nimblepy.schema.many.as_many` accepts, or a dict of columns. A
            list contains scalars, tuples or dicts. A numpy array may have one column for each
            column of the key.

    Raises:
        InvalidArgumentError: ``keys`` is a single key, or the keys have different columns.
    """
    if isinstance(keys, GivenKeys):
        return keys
    many = _of_columns(keys) if isinstance(keys, Mapping) else as_many(keys)
    if isinstance(many, GivenKeys):
        return many
    if many is None:
        raise InvalidArgumentError(
            f"keys: expected many keys, got {show(keys)}; put one key in a list: [{show(keys)}]"
        )
    if isinstance(many, pa.Table):
        names = tuple(many.column_names)
        if len(set(names)) < len(names):
            raise InvalidArgumentError(f"keys: a column occurs twice: {', '.join(names)}")
        return GivenKeys(tuple(many.columns), names)
    if isinstance(many, np.ndarray) and many.ndim > 1:
        if many.ndim > 2 or not many.shape[1]:
            raise InvalidArgumentError(
                f"keys: expected a numpy array of one or two dimensions, got the shape {many.shape}"
            )
        # A copy of a masked array keeps its mask; np.ascontiguousarray() loses it.
        return GivenKeys(tuple(column.copy() for column in many.T))
    if not isinstance(many, list) or not many or not isinstance(many[0], (tuple, list, Mapping)):
        return GivenKeys((many,))
    if isinstance(many[0], list) and len(many[0]) == 1:  # exact_keys() rejects this value
        return GivenKeys((many,))
    if isinstance(many[0], Mapping):
        return _of_dicts(many)
    rows = [row if isinstance(row, (tuple, list)) else (row,) for row in many]
    width = len(rows[0])
    for row in rows:
        if isinstance(row, Mapping) or len(row) != width:
            raise InvalidArgumentError(
                f"key {row!r}: {len(row)} values, but the first key {rows[0]!r} has {width}"
            )
    if not width:
        raise InvalidArgumentError(f"key {many[0]!r}: it has no value")
    return GivenKeys(tuple([row[i] for row in rows] for i in range(width)))


def _of_columns(columns: Mapping[Any, Any]) -> GivenKeys | None:
    """Returns the keys in a dict of columns; ``None`` if it is a single key."""
    if not all(isinstance(name, (str, tuple)) for name in columns):
        raise InvalidArgumentError(f"keys {show(columns)}: expected names of columns")
    given = {name: as_many(column) for name, column in columns.items()}
    if not given or any(column is None for column in given.values()):
        return None
    for name, column in given.items():
        if isinstance(column, pa.Table) or getattr(column, "ndim", 1) != 1:
            raise InvalidArgumentError(f"keys: {name!r} has more than one dimension")
    lengths = {name: len(column) for name, column in given.items() if column is not None}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise InvalidArgumentError(f"keys: columns of different lengths: {shown}")
    return GivenKeys(tuple(given.values()), tuple(given), exact=True)


def _of_dicts(rows: Sequence[Any]) -> GivenKeys:
    names = tuple(rows[0])
    if not names or not all(isinstance(name, (str, tuple)) for name in names):
        raise InvalidArgumentError(f"key {rows[0]!r}: expected names of columns")
    for row in rows:
        if not isinstance(row, Mapping) or set(row) != set(names):
            raise InvalidArgumentError(f"key {row!r}: expected the columns {', '.join(names)}")
    return GivenKeys(tuple([row[name] for row in rows] for name in names), names, exact=True)


def typed_keys(
    keys: GivenKeys, columns: KeyColumns
) -> tuple[tuple[pa.Array, ...], np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """Converts keys to one array per column of the column's type.

    Returns:
        The arrays, and whether each key can match; ``None`` if all keys can match.

    Raises:
        InvalidArgumentError: a value has the wrong type, or is between two values of the column.
    """
    arrays: list[pa.Array] = []
    usable: np.ndarray[Any, np.dtype[np.bool_]] | None = None
    for i, values in enumerate(keys.columns_of(columns.names)):
        if columns.spelled[i] is not None:
            values = _read_all(columns, i, values)
        array, bad = exact_keys(columns.names[i], columns.types[i], values)
        arrays.append(array)
        if bad is not None and bad.any():
            usable = ~bad if usable is None else usable & ~bad
    return tuple(arrays), usable


def _read_all(columns: KeyColumns, column: int, values: Any) -> Any:
    """Returns the values of one column, after parsing the texts among them."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        if not is_text(value_type(values.type)):
            return values
        values = values.to_pylist()
    elif isinstance(values, np.ndarray) and values.dtype.kind not in "OUT":
        return values
    return [columns.read(column, value) for value in values]


def single_row(names: Sequence[ColumnName], scalars: Sequence[pa.Scalar]) -> pa.RecordBatch:
    """Returns a batch with one row of typed scalars."""
    return key_batch(names, [pa.array([scalar], scalar.type) for scalar in scalars])


def key_batch(names: Sequence[ColumnName], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
    """Returns key columns as a batch. The core identifies them by position, not by name."""
    return pa.RecordBatch.from_arrays(arrays, [output_name(name) for name in names])
