"""Plans which rows of which files a scan reads, and splits them into parts for the tasks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.filter import parse_filter
from nimblepy.file.source import FileSource
from nimblepy.files.mapped import MappedRows
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.files.source import FilesSource
from nimblepy.rows.request import KeyRange, Where
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import RowSource
from nimblepy.spark.base.inputs import SparkInput

# Up to this many files, parts are cut at stripes; with more files, parts are whole files.
MOST_OPENED = 32
# Target bytes of a part, assuming columns of equal size, and the minimum rows of a part: fewer are
# not worth a task.
PART_BYTES = 64 << 20
LEAST_ROWS = 65_536
_NO_ROWS = RowSet.of_range(0, 0)
# Up to this many rows and files, the driver reads them itself, which costs less than one task.
FEW_ROWS = 8_192
FEW_FILES = 4


@dataclass(frozen=True)
class ScanSpec:
    """A scan, as it is sent to the workers.

    Attributes:
        columns: names, in the order of the result.
        filter: SQL text or a pyarrow expression.
        key_range: (lower, upper, inclusive), as for ``File.range``.
        keys: one row per key, with the names of the key columns.
        parts: requested number of parts; ``None`` to choose it by processors and size.
    """

    files: SparkInput
    columns: tuple[str, ...]
    filter: Any = None
    key_range: tuple[Any, Any, str] | None = None
    keys: pa.Table | None = None
    parts: int | None = None


@dataclass(frozen=True)
class RowSlice:
    """A range of rows of one file, deleted rows included; or some rows of the dataset.

    Attributes:
        rows: the live rows of the dataset; ``None`` for the rows from ``begin`` to ``end`` of
            ``file``.
    """

    file: int
    begin: int
    end: int
    rows: RowSet | None = None


def plan_parts(spec: ScanSpec, dataset: FilesSource) -> list[list[RowSlice]]:
    """The slices of each part. The index and zone maps have removed rows that cannot match."""
    if spec.keys is not None:
        return _parts_of_keys(spec, dataset)
    slices = _row_slices(spec, dataset)
    rows = sum(row_slice.end - row_slice.begin for row_slice in slices)
    if not rows:
        return []
    # As for Spark's own formats: one task per processor, more only if parts would be too large. An
    # empty task in a Python worker takes 0.1 s of processor time.
    stored = sum(dataset.stored_rows(i) for i in range(dataset.num_files))
    size_bytes = dataset.size_bytes * rows / max(1, stored)
    size_bytes *= len(spec.columns) / max(1, len(dataset.schema))
    num_parts = spec.parts or max(processors(), math.ceil(size_bytes / PART_BYTES))
    most = rows if spec.parts else max(LEAST_ROWS, math.ceil(rows / num_parts))
    size = max(1, math.ceil(rows / num_parts)) if spec.parts else most
    exact = dataset.num_files <= MOST_OPENED
    cut = [
        small
        for row_slice in slices
        for small in _cut(row_slice, size, dataset.child(row_slice.file) if exact else None)
    ]
    return _packed(cut, size)


def few_rows(spec: ScanSpec, dataset: FilesSource) -> list[RowSlice] | None:
    """The slices of a scan if the index and zone maps leave few rows in few files.

    ``None`` if they leave more, or if only reading the rows could tell.
    """
    if spec.keys is not None:
        rows = _rows_of_keys(spec, dataset)
        return [RowSlice(0, 0, rows.num_rows, rows)] if rows.num_rows <= FEW_ROWS else None
    if spec.key_range is not None:
        files = len(dataset.candidates(_range_of(spec, dataset)))
    elif spec.filter is not None:
        files = len(dataset.candidates(_where_of(spec, dataset)))
    else:
        return None
    if files > FEW_FILES:
        return None
    slices = _row_slices(spec, dataset)
    return (
        slices if sum(row_slice.end - row_slice.begin for row_slice in slices) <= FEW_ROWS else None
    )


def read_slice(
    spec: ScanSpec, dataset: FilesSource, row_slice: RowSlice
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice that pass the filter, in the columns of the scan."""
    parsed = None if spec.filter is None else parse_filter(spec.filter, dataset.schema)
    if row_slice.rows is None:
        rows = RowSet.of_range(row_slice.begin, row_slice.end).in_file(row_slice.file)
        yield from dataset.scan_batches(
            Where(parsed, rows), spec.columns, batch_rows=LEAST_ROWS, threads=1
        )
        return
    if parsed is None:
        yield from dataset.read(row_slice.rows, spec.columns).to_batches()
        return
    columns = tuple(dict.fromkeys([*spec.columns, *(path[0] for path in parsed.columns)]))
    for batch in dataset.read(row_slice.rows, columns).to_batches():
        yield parsed.apply(batch).select(list(spec.columns))


def _range_of(spec: ScanSpec, dataset: FilesSource) -> KeyRange:
    assert spec.key_range is not None
    lower, upper, inclusive = spec.key_range
    return dataset.range_request(lower, upper, inclusive=inclusive)  # type: ignore[arg-type]


def _where_of(spec: ScanSpec, dataset: FilesSource, rows: RowSet = _NO_ROWS) -> Where:
    """The filter of a scan, over some rows of a file."""
    return Where(None if spec.filter is None else parse_filter(spec.filter, dataset.schema), rows)


def _row_slices(spec: ScanSpec, dataset: FilesSource) -> list[RowSlice]:
    slices: list[RowSlice] = []
    if spec.key_range is not None:
        request = _range_of(spec, dataset)
        for i in dataset.candidates(request):
            rows = dataset.child(i).find(request)
            if rows.as_range is not None:
                slices.append(RowSlice(i, *rows.as_range))
                continue
            # The file is not sorted by the key or has no index on it.
            deleted = dataset.deleted(i)
            remaining = rows if deleted is None else rows.minus(deleted)
            slices.append(RowSlice(i, 0, remaining.num_rows, remaining.in_file(i)))
    else:
        files = dataset.candidates(_where_of(spec, dataset))
        slices = [RowSlice(i, 0, dataset.stored_rows(i)) for i in files]
    slices = [row_slice for row_slice in slices if row_slice.begin < row_slice.end]
    if spec.filter is None or len(slices) > MOST_OPENED:
        return slices
    return [narrow for row_slice in slices for narrow in _narrowed(spec, dataset, row_slice)]


def _narrowed(spec: ScanSpec, dataset: FilesSource, row_slice: RowSlice) -> list[RowSlice]:
    """The part of a slice that the index and zone maps leave, without large gaps."""
    if row_slice.rows is not None:
        return [row_slice]
    where = _where_of(spec, dataset, RowSet.of_range(row_slice.begin, row_slice.end))
    ranges = dataset.child(row_slice.file).find(where).merged().ranges.tolist()
    merged: list[list[int]] = []
    for begin, end in ranges:
        if merged and begin - merged[-1][1] < LEAST_ROWS:
            merged[-1][1] = end
        else:
            merged.append([begin, end])
    return [RowSlice(row_slice.file, begin, end) for begin, end in merged]


def _parts_of_keys(spec: ScanSpec, dataset: FilesSource) -> list[list[RowSlice]]:
    rows = _rows_of_keys(spec, dataset)
    count = rows.num_rows
    if not count:
        return []
    num_parts = spec.parts or min(2 * processors(), math.ceil(count / LEAST_ROWS))
    edges = [count * i // num_parts for i in range(num_parts + 1)]
    return [
        [RowSlice(0, 0, end - begin, rows.slice(begin, end))]
        for begin, end in pairwise(edges)
        if begin < end
    ]


def _rows_of_keys(spec: ScanSpec, dataset: FilesSource) -> RowSet:
    """The rows that have one of the keys, without repetition, in the order of the files."""
    assert spec.keys is not None
    rows = dataset.find(dataset.keys_request(spec.keys, spec.keys.column_names)).expand()
    if rows.file is None or not rows.num_rows:
        return rows
    _, at = np.unique(
        np.column_stack((rows.file, rows.begin.astype(np.int64))), axis=0, return_index=True
    )
    return rows.entries(at)


def _stripe_ends(file: RowSource) -> list[int]:
    """Row numbers at which stripes, or the row groups of Parquet, end."""
    if isinstance(file, MappedRows):
        return _stripe_ends(file.child)
    if isinstance(file, ParquetRows):
        return [int(end) for end in file.group_ends]
    if not isinstance(file, FileSource):
        return []
    return [first + rows for group in _core.layout(file.handle.core) for first, rows, _ in group[1]]


def _cut(row_slice: RowSlice, size: int, file: RowSource | None) -> list[RowSlice]:
    """Splits a slice into slices of about ``size`` rows that end at stripe ends."""
    if file is None or row_slice.end - row_slice.begin <= size:
        return [row_slice]
    if row_slice.rows is not None:
        cuts = range(0, row_slice.end, size)
        parts = [row_slice.rows.slice(at, at + size) for at in cuts]
        return [RowSlice(row_slice.file, 0, part.num_rows, part) for part in parts]
    out = []
    begin = row_slice.begin
    ends = _stripe_ends(file)
    for end in (*(e for e in ends if row_slice.begin < e < row_slice.end), row_slice.end):
        if end == row_slice.end or end - begin >= size:
            while end - begin > 2 * size:  # stripes larger than a part
                out.append(RowSlice(row_slice.file, begin, begin + size))
                begin += size
            out.append(RowSlice(row_slice.file, begin, end))
            begin = end
    return out


def _packed(slices: Sequence[RowSlice], size: int) -> list[list[RowSlice]]:
    """Combines small slices into parts of about ``size`` rows."""
    parts: list[list[RowSlice]] = []
    held = 0
    for row_slice in slices:
        rows = row_slice.end - row_slice.begin
        if not parts or held + rows > size * 5 // 4:
            parts.append([])
            held = 0
        parts[-1].append(row_slice)
        held += rows
    return parts


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
