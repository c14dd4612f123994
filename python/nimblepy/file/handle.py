"""What a file says of itself, and how its rows are fetched: the base of File's lookups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.indexes import Index, indexes_of
from nimblepy.file.layout import file_layout
from nimblepy.rows.plan import LayoutNode
from nimblepy.rows.scan import stream_table
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import IndexInfo, IoStats, SortKey

# Rows of one record batch of a lookup's result.
RESULT_ROWS = 1 << 20
# A range of so many rows is one batch, which costs less than a stream.
RANGE_ROWS = 65536


class FileBase(_core.PointBase):
    """An open core file with its prepared projections."""

    def __init__(self, core: Any, source: Any, arguments: dict[str, Any]) -> None:
        self._core = core
        self._source = source
        self._arguments = arguments
        self._schema: pa.Schema = pa.schema(core)
        self._keys = tuple(
            SortKey(name, descending=descending, nulls_first=nulls_first)
            for name, descending, nulls_first in core.key_columns
        )
        self._key_types = tuple(resolve_column(self._schema, k.column).type for k in self._keys)
        self._indexes: tuple[Index, ...] = indexes_of(core, self._schema, self._keys)
        # What the registry chose, by columns and whether bounds were wanted.
        self._chosen: dict[tuple[tuple[str, ...] | None, bool], Index] = {}
        self._projections: dict[tuple[str, ...] | None, Any] = {}
        # By columns, or by columns and `on`.
        self._points: dict[Any, Any] = {}
        # By columns and `on`; with the index, None for the cluster index.
        self._range_readers: dict[tuple[Any, Any], tuple[_core.RangeReader, Index | None]] = {}

    @property
    def schema(self) -> pa.Schema:
        """Columns, types and metadata as they were written."""
        return self._schema

    @property
    def num_rows(self) -> int:
        return int(self._open.num_rows)

    @property
    def size_bytes(self) -> int:
        return int(self._open.size_bytes)

    @property
    def metadata(self) -> dict[str, bytes]:
        """The user's key/value pairs."""
        return dict(self._open.metadata)

    @property
    def format_version(self) -> tuple[int, int]:
        """(major, minor) version of the format the file is written in."""
        major, minor = self._open.version
        return int(major), int(minor)

    @property
    def cluster_by(self) -> list[SortKey]:
        """The cluster key, empty where the file has none."""
        return list(self._keys)

    @property
    def unique(self) -> bool:
        """No cluster key occurs twice; verified while the file was written."""
        return bool(self._open.unique)

    @property
    def indexes(self) -> list[IndexInfo]:
        """The cluster index, then the secondary ones in the order they were written in."""
        core = self._open
        found = [
            IndexInfo(
                kind=index.kind,
                columns=index.keys,
                size_bytes=size_bytes,
                num_keys=num_keys,
                has_bloom=has_bloom,
            )
            for index, (_, _, num_keys, size_bytes, has_bloom) in zip(
                (i for i in self._indexes if i.number >= 0), core.indexes, strict=True
            )
        ]
        if self._keys:
            mine = int(core.index_bytes) - sum(info.size_bytes for info in found)
            cluster = IndexInfo(
                kind="cluster",
                columns=self._keys,
                size_bytes=mine,
                num_keys=self.num_rows,
                has_bloom=bool(core.has_bloom),
            )
            found.insert(0, cluster)
        return found

    @property
    def io_stats(self) -> IoStats:
        """What has been read since open. In a mapped file a read is a block's first touch."""
        return IoStats(**self._open.stats)

    def reset_io_stats(self) -> None:
        self._open.reset_stats()

    def layout(self) -> LayoutNode:
        """Stripe groups, stripes, columns, streams, encodings and bytes, as a printable tree.

        Cost: reads the metadata of every stripe group.
        """
        return file_layout(self)

    def verify(self) -> None:
        """Checks every checksum, value and index entry.

        Raises:
            CorruptFileError: names the place and what was expected there.

        Cost: reads and decodes the whole file.
        """
        _core.verify(self._open)

    @property
    def _open(self) -> Any:
        if self._core is None:
            raise InvalidArgumentError("this file is closed")
        return self._core

    def _projection(self, columns: Sequence[str] | None) -> Any:
        if isinstance(columns, str):
            raise InvalidArgumentError(f"columns: expected a list of names, got {columns!r}")
        name = None if columns is None else tuple(columns)
        projection = self._projections.get(name)
        if projection is None:
            for column in name or ():
                resolve_column(self._schema, column)
            if name is not None and len(set(name)) != len(name):
                raise InvalidArgumentError(f"columns: a name is given twice: {list(name)}")
            projection = _core.Projection(self._open, None if name is None else list(name))
            self._projections[name] = projection
        return projection

    def _take(self, rows: np.ndarray[Any, Any], columns: Sequence[str] | None) -> pa.Table:
        projection = self._projection(columns)
        if len(rows) <= RESULT_ROWS:
            try:
                batch = projection.take_batch(rows, 0)
                return pa.Table.from_batches([pa.RecordBatch._import_from_c_capsule(*batch)])
            except InvalidArgumentError as error:
                if "do not fit in one array" not in str(error):
                    raise
        return stream_table(projection.take(rows, RESULT_ROWS, 0))

    def _rows(
        self,
        rows: tuple[int, int],
        columns: Sequence[str] | None,
        limit: int | None,
        reverse: bool,
    ) -> pa.Table:
        begin, end = limited(rows, limit, reverse)
        if reverse:
            return self._take(np.arange(begin, end, dtype=np.uint64)[::-1].copy(), columns)
        projection = self._projection(columns)
        if end - begin <= RANGE_ROWS:
            try:
                batch = projection.range_batch(begin, end, 1)
                return pa.Table.from_batches([pa.RecordBatch._import_from_c_capsule(*batch)])
            except InvalidArgumentError as error:
                if "do not fit in one array" not in str(error):
                    raise
        rows_wanted = np.array([[begin, end]], dtype=np.uint64)
        return stream_table(projection.scan(rows_wanted, RANGE_ROWS, 0))


def limited(rows: tuple[int, int], limit: int | None, reverse: bool) -> tuple[int, int]:
    """The first ``limit`` of a range, or the last ones."""
    begin, end = rows
    if limit is None:
        return rows
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidArgumentError(f"limit: expected an int >= 0, got {limit!r}")
    return (max(begin, end - limit), end) if reverse else (begin, min(end, begin + limit))
