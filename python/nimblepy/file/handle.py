"""FileHandle: an open core file with its indexes and cached projections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.indexes import Index, OpenIndex, choose, choose_for_asof, indexes_of
from nimblepy.rows.arguments import Projected
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import MAX_PREPARED, OnKeys
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.types import SortKey

# Maximum number of rows in one record batch of a lookup's result.
RESULT_ROWS = 1 << 20
# A range of at most this many rows is one batch, which costs less than a stream.
RANGE_ROWS = 65536


class FileHandle:
    """A core file with its schema, indexes and cached projections.

    Attributes:
        core: the core file. After :meth:`close`, reading this attribute raises
            InvalidArgumentError.
        schema: the columns, types and metadata of the file.
        cluster_by: the cluster key; empty if the file does not have one.
        indexes: all indexes; the cluster index is first.
    """

    def __init__(self, core: Any) -> None:
        self.core = core
        self.schema: pa.Schema = pa.schema(core)
        self.indexes: tuple[Index, ...] = indexes_of(core, self.schema)
        has_cluster = bool(self.indexes) and self.indexes[0].is_cluster
        self.cluster_by: tuple[SortKey, ...] = self.indexes[0].keys if has_cluster else ()
        self._chosen: dict[tuple[OnKeys, bool], Index] = {}
        self._opened: dict[int, OpenIndex] = {}
        # Vector indexes by column name: (index number, number of rows in its lists, bytes).
        self.vectors: dict[str, tuple[int, int, int]] = {
            self.schema.names[path[0]]: (number, num_rows, size)
            for number, (path, num_rows, size) in enumerate(_core.vector_indexes(core))
            if len(path) == 1
        }
        self._opened_vectors: dict[str, _core.VectorIndex] = {}
        self._vector_metrics: dict[str, str] = {}
        # Scans of a column of vectors for searches, by column and filter.
        self.vector_scans: dict[Any, _core.ScanPart] = {}
        self._projections: dict[Projected, tuple[_core.Projection, pa.Schema]] = {}
        # Prepared filters (file/scan.py).
        self.filters: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """Raises an InvalidArgumentError for ``core`` after :meth:`close` has removed it."""
        if name == "core":
            raise InvalidArgumentError("this file is closed")
        raise AttributeError(name)

    @property
    def is_closed(self) -> bool:
        return "core" not in vars(self)

    @property
    def num_rows(self) -> int:
        return int(self.core.num_rows)

    def close(self) -> None:
        vars(self).pop("core", None)
        self._projections.clear()
        self._opened.clear()
        self._opened_vectors.clear()
        self.vector_scans.clear()
        self.filters.clear()

    def opened(self, index: Index) -> OpenIndex:
        """Opens an index. Cached."""
        open_index = self._opened.get(index.number)
        if open_index is None:
            open_index = self._opened[index.number] = OpenIndex(index, self.core)
        return open_index

    def vector_number(self, column: str) -> int | None:
        """Returns the number of the vector index on a column; ``None`` if it does not exist."""
        entry = self.vectors.get(column)
        return None if entry is None else entry[0]

    def vector_metric(self, column: str) -> str | None:
        """Returns the metric of the vector index on a column; ``None`` if it does not exist."""
        number = self.vector_number(column)
        if number is None:
            return None
        metric = self._vector_metrics.get(column)
        if metric is None:
            metric = self._vector_metrics[column] = _core.vector_metric(self.core, number)
        return metric

    def vector_index(self, column: str) -> _core.VectorIndex | None:
        """Returns the vector index on a column, opened. Cached."""
        index = self._opened_vectors.get(column)
        number = self.vector_number(column)
        if index is None and number is not None:
            index = self._opened_vectors[column] = _core.VectorIndex(self.core, number)
        return index

    def choose(self, on: OnKeys, *, ordered: bool = False) -> Index:
        """Returns the best index on the columns, from a cache.

        See :func:`nimblepy.file.indexes.choose`.
        """
        index = self._chosen.get((on, ordered))
        if index is None:
            index = choose(self.indexes, self.schema, on, ordered=ordered)
            self._chosen[on, ordered] = index
        return index

    def choose_for_asof(self, by: tuple[ColumnName, ...], on: ColumnName) -> Index:
        """Returns the best index for an as-of search.

        See :func:`nimblepy.file.indexes.choose_for_asof`.
        """
        return choose_for_asof(self.indexes, self.schema, by, on)

    def projection(self, columns: Projected) -> _core.Projection:
        """Returns the core's reader of the given columns. Cached."""
        entry = self._projections.get(columns)
        return self._projected(columns)[0] if entry is None else entry[0]

    def projected(self, columns: Projected) -> pa.Schema:
        """Returns the schema of the given columns."""
        return self._projected(columns)[1]

    def _projected(self, columns: Projected) -> tuple[_core.Projection, pa.Schema]:
        entry = self._projections.get(columns)
        if entry is None:
            if columns is None:
                projection = _core.Projection(self.core, None)
            else:
                projection = self.renamed(columns, list(map(output_name, columns)))
            if len(self._projections) > MAX_PREPARED:
                self._projections.clear()
            entry = self._projections[columns] = projection, pa.schema(projection)
        return entry

    def renamed(self, columns: Sequence[ColumnName], names: Sequence[str]) -> _core.Projection:
        """Returns a core reader of the given columns that gives them the names ``names``."""
        steps = [resolve_column(self.schema, column).steps for column in columns]
        return _core.Projection(self.core, list(zip(steps, names, strict=True)))

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        """Reads the given columns of these rows, in the order of ``rows``."""
        row_range = rows.as_range
        if row_range is None:
            return self.take(rows.rows, columns)
        begin, end = row_range
        projection, schema = self._projected(columns)
        if end - begin <= RANGE_ROWS:
            try:
                return batch_table(projection.range_batch(begin, end, 1))
            except _core.ArrayTooLargeError:
                pass
        part = _core.ScanPart(projection, np.array([[begin, end]], dtype=np.uint64))
        return pa.Table.from_batches(_core.scan([part], schema, RANGE_ROWS, 0), schema)

    def take(self, rows: RowNumbers, columns: Projected) -> pa.Table:
        """Reads the given columns of rows by number, in the order of ``rows``."""
        projection, schema = self._projected(columns)
        rows = np.ascontiguousarray(rows)
        if len(rows) <= RESULT_ROWS:
            try:
                return batch_table(projection.take_batch(rows, 0))
            except _core.ArrayTooLargeError:
                pass
        return pa.Table.from_batches(_taken(projection, rows, RESULT_ROWS), schema)


def _taken(
    projection: _core.Projection, rows: RowNumbers, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Reads rows in batches. Halves a batch whose bytes do not fit in one array."""
    for at in range(0, len(rows), batch_rows):
        part = rows[at : at + batch_rows]
        try:
            yield pa.RecordBatch._import_from_c_capsule(*projection.take_batch(part, 0))
        except _core.ArrayTooLargeError:
            if len(part) == 1:
                raise
            yield from _taken(projection, part, (len(part) + 1) // 2)


def batch_table(capsules: tuple[object, object]) -> pa.Table:
    """Converts a record batch of the core to a table."""
    return pa.Table.from_batches([pa.RecordBatch._import_from_c_capsule(*capsules)])
