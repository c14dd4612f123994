"""An open core file, and what is prepared to read it: what everything in this folder works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.indexes import Index, OpenIndex, choose, indexes_of
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import MOST_PREPARED, OnKeys, Projected
from nimblepy.rows.streams import stream_table
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.types import SortKey

# Rows of one record batch of a lookup's result.
RESULT_ROWS = 1 << 20
# A range of at most this many rows is one batch, which costs less than a stream.
RANGE_ROWS = 65536


class FileHandle:
    """A core file with its schema, its indexes and prepared projections.

    Attributes:
        schema: columns, types and metadata as they were written.
        cluster_by: the cluster key, empty where the file has none.
        indexes: all of them, the cluster index first.
    """

    def __init__(self, core: Any) -> None:
        self._core = core
        self.schema: pa.Schema = pa.schema(core)
        self.indexes: tuple[Index, ...] = indexes_of(core, self.schema)
        has_cluster = bool(self.indexes) and self.indexes[0].is_cluster
        self.cluster_by: tuple[SortKey, ...] = self.indexes[0].keys if has_cluster else ()
        self._chosen: dict[tuple[OnKeys, bool], Index] = {}
        self._opened: dict[int, OpenIndex] = {}
        self._projections: dict[Projected, tuple[_core.Projection, pa.Schema]] = {}
        self._all_rows: RowSet | None = None

    @property
    def core(self) -> Any:
        """The file of the core.

        Raises:
            InvalidArgumentError: it is closed.
        """
        if self._core is None:
            raise InvalidArgumentError("this file is closed")
        return self._core

    @property
    def is_closed(self) -> bool:
        return self._core is None

    @property
    def num_rows(self) -> int:
        return int(self.core.num_rows)

    def all_rows(self) -> RowSet:
        """Made once, as every scan begins with it."""
        if self._all_rows is None or self.is_closed:
            self._all_rows = RowSet.of_range(0, self.num_rows)
        return self._all_rows

    def close(self) -> None:
        self._core = None
        self._projections.clear()
        self._opened.clear()

    def opened(self, index: Index) -> OpenIndex:
        """An index, to be asked."""
        known = self._opened.get(index.number)
        if known is None:
            known = self._opened[index.number] = OpenIndex(index, self.core)
        return known

    def choose(self, on: OnKeys, *, ordered: bool = False) -> Index:
        """The index that answers for the columns ``on``; see :func:`nimblepy.file.indexes.choose`.

        Cost: a dictionary lookup from the second time on.
        """
        known = self._chosen.get((on, ordered))
        if known is None:
            known = choose(self.indexes, self.schema, on, ordered=ordered)
            self._chosen[on, ordered] = known
        return known

    def projection(self, columns: Projected) -> _core.Projection:
        """The core's reader of some columns."""
        return self._projected(columns)[0]

    def projected(self, columns: Projected) -> pa.Schema:
        """Schema of some columns."""
        return self._projected(columns)[1]

    def _projected(self, columns: Projected) -> tuple[_core.Projection, pa.Schema]:
        known = self._projections.get(columns)
        if known is None:
            if columns is None:
                made = _core.Projection(self.core, None)
            else:
                made = self.renamed(columns, list(map(output_name, columns)))
            if len(self._projections) > MOST_PREPARED:
                self._projections.clear()
            known = self._projections[columns] = made, pa.schema(made)
        return known

    def renamed(self, columns: Sequence[ColumnName], names: Sequence[str]) -> _core.Projection:
        """The core's reader of some columns under other names."""
        steps = [resolve_column(self.schema, column).steps for column in columns]
        return _core.Projection(self.core, list(zip(steps, names, strict=True)))

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        """Some columns of these rows, in their order."""
        neighbours = rows.as_range
        if neighbours is None:
            return self.take(rows.rows, columns)
        begin, end = neighbours
        projection = self.projection(columns)
        if end - begin <= RANGE_ROWS:
            try:
                return batch_table(projection.range_batch(begin, end, 1))
            except _core.ArrayTooLargeError:
                pass
        wanted = np.array([[begin, end]], dtype=np.uint64)
        return stream_table(projection.scan(wanted, RANGE_ROWS, 0))

    def take(self, rows: RowNumbers, columns: Projected) -> pa.Table:
        """Some columns of these rows, one by one."""
        rows = np.ascontiguousarray(rows)
        projection = self.projection(columns)
        if len(rows) <= RESULT_ROWS:
            try:
                return batch_table(projection.take_batch(rows, 0))
            except _core.ArrayTooLargeError:
                pass
        return stream_table(projection.take(rows, RESULT_ROWS, 0))


def batch_table(capsules: tuple[object, object]) -> pa.Table:
    """A batch of the core as a table."""
    return pa.Table.from_batches([pa.RecordBatch._import_from_c_capsule(*capsules)])
