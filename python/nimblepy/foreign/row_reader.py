"""Reads one row by key: finds its entry in the index, then reads its pages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nimblepy.file.source import FileSource
from nimblepy.foreign.build import first_rows_of
from nimblepy.foreign.child import IndexedParquet
from nimblepy.foreign.records import ROW, IndexRecord, key_hasher
from nimblepy.rows.arguments import Projected
from nimblepy.rows.compiled import RangeReader, Ranges
from nimblepy.rows.source import Names
from nimblepy.schema.columns import resolve_column

_ROW = (ROW,)


@dataclass(frozen=True, slots=True)
class Indexed:
    """The index and the files that a reader of single rows uses."""

    record: IndexRecord
    index: FileSource
    children: Sequence[IndexedParquet]


def row_reader(source: Indexed, columns: Projected, on: Names) -> RowReader | None:
    """Returns a reader of single rows; ``None`` if only the general path can read them."""
    record, schema = source.record, source.record.schema
    resolved = [
        resolve_column(schema, name) for name in (schema.names if columns is None else columns)
    ]
    if not resolved or any(len(column.steps) > 1 for column in resolved):
        return None
    tops = tuple(column.steps[0] for column in resolved)
    if len(set(tops)) < len(tops) or len(set(schema.names)) < len(schema):
        return None
    is_hash = record.kind == "hash"
    names = record.keys if on is None else on
    if names != (record.keys if is_hash else record.keys[: len(names)]):
        return None
    kinds = [schema.field(name).type for name in record.keys[: len(names)]]
    exact = [_exact_type(kind) for kind in kinds]
    if None in exact or (is_hash and float in exact):
        return None
    entries = source.index.compiled(Ranges(_ROW, None))
    if entries is None:
        return None
    return (_HashReader if is_hash else RowReader)(source, entries, tops, exact)


class RowReader:
    """Reads the first row with a key, using a sorted index.

    Keys whose types differ from the stored types take the general path.
    """

    def __init__(
        self,
        source: Indexed,
        entries: RangeReader,
        tops: tuple[int, ...],
        types: Sequence[type | None],
    ) -> None:
        """
        Args:
            entries: finds the entries of a key.
            tops: positions of the columns to read.
            types: the Python type of each value of a key.
        """
        self._children = source.children
        self._entries = entries
        self._tops = tops
        self._types = types
        self._starts = first_rows_of(source.record.files).tolist()

    def getter(self) -> Any:
        return self._get

    def asof_getter(self, backward: bool, exclusive: bool) -> Any:
        """As-of searches take the general path."""
        return lambda key: NotImplemented

    def _get(self, key: Any) -> Any:
        values = key if type(key) is tuple else (key,)
        return self._first(values) if self._is_exact(values) else NotImplemented

    def _is_exact(self, values: tuple[Any, ...]) -> bool:
        types = self._types
        if len(values) != len(types):
            return False
        return all(type(value) is kind for value, kind in zip(values, types, strict=True))

    def _first(self, values: tuple[Any, ...]) -> Any:
        """Returns the first row whose entry begins with ``values``."""
        found = self._entries.prefix(values, 1, False)
        if found is NotImplemented:
            return found
        if not found.num_rows:
            return None
        number = found.column(0)[0].as_py()
        if number is None or number >= self._starts[-1]:
            return NotImplemented  # the general path reports the damage
        file = bisect_right(self._starts, number) - 1
        row = self._children[file].row(number - self._starts[file], self._tops)
        return NotImplemented if row is None else row


class _HashReader(RowReader):
    """Reads the first row with a key, using a hash index.

    If two keys have the same hash, both take the general path.
    """

    def __init__(
        self,
        source: Indexed,
        entries: RangeReader,
        tops: tuple[int, ...],
        types: Sequence[type | None],
    ) -> None:
        record, schema = source.record, source.record.schema
        keys = [schema.get_field_index(name) for name in record.keys]
        extra = tuple(key for key in keys if key not in tops)
        super().__init__(source, entries, (*tops, *extra), types)
        self._names = list(record.keys)
        self._hasher = key_hasher(record)
        self._extra = [schema.names[key] for key in extra]

    def _get(self, key: Any) -> Any:
        values = key if type(key) is tuple else (key,)
        if not self._is_exact(values):
            return NotImplemented
        hashed = self._hasher.hash(values[0] if len(values) == 1 else values)
        if hashed is NotImplemented:
            return NotImplemented
        row = self._first((hashed,))
        if row is None or row is NotImplemented:
            return row
        if any(row[name] != value for name, value in zip(self._names, values, strict=True)):
            return NotImplemented
        for name in self._extra:
            del row[name]
        return row


def _exact_type(kind: pa.DataType) -> type | None:
    """Returns the Python type whose values are equal if and only if their keys are equal."""
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes
    if pa.types.is_float64(kind):
        return float
    return None
