"""Filters the rows of a file: candidate rows from indexes, then exact evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.filter import Filter, make_filter
from nimblepy.expr.pushdown import split
from nimblepy.file.candidates import CandidateRows, candidate_rows
from nimblepy.file.few_values import without_failing
from nimblepy.file.handle import FileHandle
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Projected
from nimblepy.rows.streams import stream_batches
from nimblepy.schema.columns import resolve_column

# Batch size for counting rows: larger than for scans, so that there are fewer calls.
_COUNTED_ROWS = 1 << 17

Ranges: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]


class _Native(NamedTuple):
    """The part of a filter that the core evaluates on encoded data, and the residual."""

    rows: Any  # _core.RowFilter
    residual: Filter | None


def scan_file(
    file: FileHandle, where: Where, columns: Projected, batch_rows: int, threads: int
) -> Iterator[pa.RecordBatch]:
    """Yields batches of the rows that pass, in file order."""
    projection = file.projection(columns)
    if where.filter is None:
        yield from _all(projection, where.rows, batch_rows, threads)
        return
    candidates = candidate_rows(file, where)
    native = None if candidates.secondary else _native(file, where.filter, candidates.rows.ranges)
    if native is not None and native.residual is None:
        ranges = candidates.rows.ranges
        yield from stream_batches(projection.scan(ranges, batch_rows, threads, native.rows))
        return
    reader = _BatchReader(projection, threads)
    for rows, mask in _asked(file, where.filter, native, candidates, batch_rows, threads):
        yield from reader.read(rows.rows[mask.to_numpy(zero_copy_only=False)])


def _all(
    projection: _core.Projection, rows: RowSet, batch_rows: int, threads: int
) -> Iterator[pa.RecordBatch]:
    """Yields batches of all these rows. A single batch is faster without a stream."""
    begin, end = rows.as_range or (0, 0)
    if 0 < end - begin <= batch_rows:
        batch = projection.stripe_batch(begin, end, threads)
        if batch is not None:
            yield pa.RecordBatch._import_from_c_capsule(*batch)
            return
    yield from stream_batches(projection.scan(rows.ranges, batch_rows, threads))


def _asked(
    file: FileHandle,
    filter: Filter,
    native: _Native | None,
    candidates: CandidateRows,
    batch_rows: int,
    threads: int,
) -> Iterator[tuple[RowSet, pa.BooleanArray]]:
    """Yields candidate rows and a mask of the rows that pass, in file order."""
    residual = filter if native is None or native.residual is None else native.residual
    inputs = FilterColumns(file, residual)
    if candidates.secondary:
        # An index found the rows, so they are few in each block. Read only these rows.
        for at in range(0, candidates.rows.num_rows, batch_rows):
            rows = candidates.rows.slice(at, at + batch_rows)
            yield rows, residual.mask(inputs.read(rows.rows, threads))
    elif native is None:
        # Evaluate all rows; decode their columns ahead.
        at = 0
        for batch in inputs.stream(candidates.rows.ranges, batch_rows, threads):
            yield candidates.rows.slice(at, at + batch.num_rows), residual.mask(batch)
            at += batch.num_rows
    else:
        for begin, end in _slices(candidates.rows.ranges, batch_rows):
            passing = native.rows.rows(np.array([[begin, end]], dtype=np.uint64), threads)
            if len(passing):
                yield RowSet(passing), residual.mask(inputs.read(passing, threads))


def count_passing(file: FileHandle, where: Where, threads: int) -> int:
    """Counts the rows that pass, decoding as little as possible."""
    assert where.filter is not None
    candidates = candidate_rows(file, where)
    native = None if candidates.secondary else _native(file, where.filter, candidates.rows.ranges)
    if native is not None and native.residual is None:
        return int(native.rows.count(candidates.rows.ranges, threads))
    masks = _asked(file, where.filter, native, candidates, _COUNTED_ROWS, threads)
    return sum(mask.true_count for _, mask in masks)


def _native(file: FileHandle, filter: Filter, ranges: Ranges) -> _Native | None:
    """Splits the filter for these rows; ``None`` if the core cannot evaluate any part of it."""
    spec, residual = split(filter.node)
    if residual is not None:
        more = [split(node).spec for node in without_failing(file, residual, ranges)]
        specs = [part for part in (spec, *more) if part is not None]
        spec = ("and", specs) if specs else None
    if spec is None:
        return None
    residual_filter = None if residual is None else make_filter(residual, file.schema)
    return _Native(_core.RowFilter(file.core, spec), residual_filter)


class _BatchReader:
    """Reads ascending rows, usually as one batch."""

    def __init__(self, projection: Any, threads: int) -> None:
        self._projection = projection
        self._threads = threads

    def read(self, rows: RowNumbers) -> Iterator[pa.RecordBatch]:
        if len(rows) == 0:
            return
        begin, end = int(rows[0]), int(rows[-1]) + 1
        try:
            if end - begin == len(rows):
                batch = self._projection.range_batch(begin, end, self._threads)
            else:
                batch = self._projection.take_batch(rows, self._threads)
            yield pa.RecordBatch._import_from_c_capsule(*batch)
        except _core.ArrayTooLargeError:
            half = max(1, len(rows) // 2)
            yield from stream_batches(self._projection.take(rows, half, self._threads))


class FilterColumns:
    """Reads the columns of a filter. Nested fields are returned in structs of only these fields."""

    def __init__(self, file: FileHandle, filter: Filter) -> None:
        self._paths = list(filter.columns)
        # If a whole column is read, its fields need not be read separately.
        whole = {path[0] for path in self._paths if len(path) == 1}
        self._paths = [p for p in self._paths if len(p) == 1 or p[0] not in whole]
        outputs = [(resolve_column(file.schema, path).steps, path[-1]) for path in self._paths]
        self._projection = _core.Projection(file.core, outputs)

    def read(self, rows: np.ndarray[Any, Any], threads: int) -> pa.RecordBatch:
        """Reads the columns of ascending rows. There must be at least one row."""
        begin, end = int(rows[0]), int(rows[-1]) + 1
        whole = end - begin == len(rows)
        flat = pa.RecordBatch._import_from_c_capsule(
            *(
                self._projection.range_batch(begin, end, threads)
                if whole
                else self._projection.take_batch(rows, threads)
            )
        )
        return self._nested(flat)

    def stream(self, ranges: Ranges, batch_rows: int, threads: int) -> Iterator[pa.RecordBatch]:
        """Reads the columns of all rows in ranges, decoding ahead."""
        for batch in stream_batches(self._projection.scan(ranges, batch_rows, threads)):
            yield self._nested(batch)

    def _nested(self, flat: pa.RecordBatch) -> pa.RecordBatch:
        """Rebuilds the structs that the filter's paths refer to."""
        if all(len(path) == 1 for path in self._paths):
            return flat
        tree: dict[str, Any] = {}
        for path, column in zip(self._paths, flat.columns, strict=True):
            at = tree
            for step in path[:-1]:
                at = at.setdefault(step, {})
            at[path[-1]] = column
        arrays = [_nest(value) for value in tree.values()]
        return pa.RecordBatch.from_arrays(arrays, list(tree))


def _nest(value: Any) -> pa.Array:
    if not isinstance(value, dict):
        return value
    return pa.StructArray.from_arrays([_nest(v) for v in value.values()], list(value))


def _slices(ranges: np.ndarray[Any, Any], batch_rows: int) -> Iterator[tuple[int, int]]:
    for begin, end in ranges.tolist():
        for at in range(begin, end, batch_rows):
            yield at, min(end, at + batch_rows)
