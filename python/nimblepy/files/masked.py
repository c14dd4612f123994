"""Rows of which some are deleted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from nimblepy.rows.plan import LayoutNode, Plan
from nimblepy.rows.request import Request, Where
from nimblepy.rows.rows import Rows
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import Names, Projected
from nimblepy.schema.types import IndexInfo, IoStats, SortKey


class Masked(Rows):
    """A source without some of its rows. What is left is numbered anew, from 0 and without gaps."""

    def __init__(self, source: Rows, deleted: RowSet) -> None:
        super().__init__()
        self._source = source
        self._deleted = deleted.merged()
        self._live = source.all_rows().minus(self._deleted)

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    @property
    def num_rows(self) -> int:
        return self._live.num_rows

    @property
    def size_bytes(self) -> int:
        return self._source.size_bytes

    @property
    def metadata(self) -> dict[str, bytes]:
        return self._source.metadata

    @property
    def cluster_by(self) -> list[SortKey]:
        return self._source.cluster_by

    @property
    def unique(self) -> bool:
        return self._source.unique

    @property
    def indexes(self) -> list[IndexInfo]:
        return self._source.indexes

    @property
    def io_stats(self) -> IoStats:
        return self._source.io_stats

    def reset_io_stats(self) -> None:
        self._source.reset_io_stats()

    def layout(self) -> LayoutNode:
        return self._source.layout()

    def verify(self) -> None:
        self._source.verify()

    def projected(self, columns: Projected) -> pa.Schema:
        return self._source.projected(columns)

    def index_keys(self, on: Names, *, ordered: bool) -> tuple[SortKey, ...]:
        return self._source.index_keys(on, ordered=ordered)

    def all_rows(self) -> RowSet:
        return self._live

    def numbered(self, rows: RowSet) -> RowSet:
        deleted = np.concatenate(([0], np.cumsum(self._deleted.sizes))).astype(np.uint64)
        before = deleted[np.searchsorted(self._deleted.ends, rows.begin, side="right")]
        return RowSet(rows.begin - before, rows.ends - before, rows.probe, rows.num_probes)

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        return self._source.read(rows, columns)

    def filtered(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        live = self._only_live(where)
        return self._source.filtered(live, columns, batch_rows=batch_rows, threads=threads)

    def count_passing(self, where: Where, *, threads: int) -> int:
        return self._source.count_passing(self._only_live(where), threads=threads)

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        if isinstance(request, Where):
            request = self._only_live(request)
        return self._source.explain_request(request, columns)

    def close(self) -> None:
        self.release()
        self._source.close()

    def find_unobserved(self, request: Request, limit: int | None, reverse: bool) -> RowSet:
        if isinstance(request, Where):
            return self._source.find(self._only_live(request))
        return self._source.find(request, reverse=reverse).minus(self._deleted).slice(0, limit)

    def _only_live(self, where: Where) -> Where:
        return Where(where.filter, where.rows.minus(self._deleted))
