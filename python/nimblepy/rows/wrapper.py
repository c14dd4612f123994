"""SourceWrapper: a source that forwards all calls to another source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import pyarrow as pa

from nimblepy import _core
from nimblepy.rows.arguments import Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.nearest import NearestPart, NearestRows
from nimblepy.rows.plan import LayoutNode, Plan
from nimblepy.rows.request import Request, Where
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import OnKeys, RowSource
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import IndexInfo, IoStats, SortKey

Wrapped = TypeVar("Wrapped", bound=RowSource)


class SourceWrapper(RowSource, Generic[Wrapped]):
    """Forwards all calls to ``wrapped``, except that it does not offer compiled readers.

    So every query calls the wrapper, and subclasses can change it.

    Attributes:
        wrapped: the source that has the rows.
    """

    def __init__(self, wrapped: Wrapped) -> None:
        super().__init__()
        self.wrapped = wrapped

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        return self.wrapped.find(request, limit=limit, reverse=reverse)

    def asof_keys(self, by: tuple[ColumnName, ...], on: ColumnName) -> tuple[SortKey, ...]:
        return self.wrapped.asof_keys(by, on)

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        return self.wrapped.find_asof(keys, deleted)

    def vector_columns(self) -> tuple[ColumnName, ...]:
        return self.wrapped.vector_columns()

    def vector_metrics(self, column: ColumnName) -> frozenset[str]:
        return self.wrapped.vector_metrics(column)

    def nearest_parts(
        self, request: NearestRows, rows: RowSet | None = None
    ) -> Iterator[NearestPart]:
        return self.wrapped.nearest_parts(request, rows)

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        return self.wrapped.read(rows, columns)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        return self.wrapped.scan_batches(where, columns, batch_rows=batch_rows, threads=threads)

    def count_passing(self, where: Where, *, threads: int) -> int:
        return self.wrapped.count_passing(where, threads=threads)

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        return self.wrapped.index_keys(on, ordered=ordered)

    def _project(self, columns: tuple[ColumnName, ...]) -> pa.Schema:
        return self.wrapped.projected(columns)

    def all_rows(self) -> RowSet:
        return self.wrapped.all_rows()

    def numbered(self, rows: RowSet) -> RowSet:
        return self.wrapped.numbered(rows)

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        return self.wrapped.explain_request(request, columns)

    @property
    def schema(self) -> pa.Schema:
        return self.wrapped.schema

    @property
    def num_rows(self) -> int:
        return self.wrapped.num_rows

    @property
    def size_bytes(self) -> int:
        return self.wrapped.size_bytes

    @property
    def metadata(self) -> dict[str, bytes]:
        return self.wrapped.metadata

    @property
    def cluster_by(self) -> list[SortKey]:
        return self.wrapped.cluster_by

    @property
    def unique(self) -> bool:
        return self.wrapped.unique

    @property
    def indexes(self) -> list[IndexInfo]:
        return self.wrapped.indexes

    @property
    def io_stats(self) -> IoStats:
        return self.wrapped.io_stats

    def reset_io_stats(self) -> None:
        self.wrapped.reset_io_stats()

    def layout(self) -> LayoutNode:
        return self.wrapped.layout()

    def verify(self) -> None:
        self.wrapped.verify()

    def close(self) -> None:
        self.wrapped.close()
