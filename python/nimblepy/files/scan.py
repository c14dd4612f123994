"""Scans of a dataset: those of its files, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.expr.filter import parse_filter
from nimblepy.files.pruning import files_for
from nimblepy.rows.plan import Plan
from nimblepy.rows.scan import Scan, _checked_range

if TYPE_CHECKING:
    from nimblepy.files.base import DatasetBase

# Files whose plans are shown one by one.
_SHOWN = 8


class DatasetScan:
    """A scan that has not run yet; made by :meth:`nimblepy.Dataset.scan`, used like a Scan."""

    def __init__(
        self,
        dataset: DatasetBase,
        *,
        columns: Sequence[str] | None,
        filter: pc.Expression | str | None,
        row_range: tuple[int, int] | None,
        batch_rows: int,
        threads: int | None,
        limit: int | None,
    ) -> None:
        self._dataset = dataset
        self._columns = None if columns is None else list(columns)
        self._filter = filter
        self._files: set[int] | None = None
        if filter is not None:  # what is wrong is refused before anything is read
            parsed = parse_filter(filter, dataset.schema)
            self._files = files_for(dataset, parsed.conjuncts)
            if parsed.matches_nothing:
                self._files = set()
        self._begin, self._end = _checked_range(row_range, dataset.num_rows)
        self._batch_rows = batch_rows
        self._threads = threads
        self._limit = limit
        self.schema: pa.Schema = dataset._joined([], columns).schema

    def to_table(self) -> pa.Table:
        """All rows of the scan."""
        return pa.Table.from_batches(self._batches(), schema=self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream; a file is opened when the stream reaches it."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch."""
        yield from self._batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def count(self) -> int:
        """Number of rows; reads only what the filter needs."""
        if self._filter is None:
            rows = self._end - self._begin
            return rows if self._limit is None else min(rows, self._limit)
        found = 0
        for scan in self._scans():
            if self._limit is not None:
                scan._limit = self._limit - found
            found += scan.count()
            if found == self._limit:
                break
        return found

    def explain(self) -> Plan:
        """What running the scan touches, without reading data."""
        scans = list(self._scans())
        plans = [scan.explain() for scan in scans[:_SHOWN]]
        return self._dataset._plan("scan", list(range(len(scans))), plans)

    def __repr__(self) -> str:
        return f"<nimblepy.DatasetScan of {self._dataset!r}>"

    def _batches(self) -> Iterator[pa.RecordBatch]:
        left = self._limit
        for scan in self._scans():
            scan._limit = left
            for batch in scan.to_batches():
                if left is not None:
                    left -= batch.num_rows
                if batch.num_rows:
                    yield batch
            if left == 0:
                return

    def _left(self) -> list[int]:
        """Files that the filter leaves."""
        return (
            sorted(self._files) if self._files is not None else list(range(self._dataset.num_files))
        )

    def _scans(self) -> Iterator[Scan]:
        """The scans of the files that the rows lie in, without a limit."""
        firsts = self._dataset._manifest.first_rows.tolist()
        for i, (begin, end) in enumerate(pairwise(firsts)):
            first, last = max(begin, self._begin), min(end, self._end)
            if first >= last or (self._files is not None and i not in self._files):
                continue
            yield Scan(
                self._dataset._file(i),
                columns=self._columns,
                filter=self._filter,
                row_range=(first - begin, last - begin),
                batch_rows=self._batch_rows,
                threads=self._threads,
                limit=None,
            )
