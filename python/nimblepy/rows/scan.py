"""Scans: rows in file order, filtered, some columns, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Filter, make_filter, parse_filter
from nimblepy.expr.pushdown import split
from nimblepy.file.candidates import RowFilter, rows_for
from nimblepy.rows.plan import Plan
from nimblepy.schema.columns import resolve_column

if TYPE_CHECKING:
    from nimblepy.file.handle import FileBase as File


class _Native(NamedTuple):
    """A filter that the core evaluates on encoded data, and what it leaves to pyarrow."""

    rows: Any  # _core.RowFilter
    residual: Filter | None


class Scan:
    """A scan that has not run yet; made by :meth:`nimblepy.File.scan`.

    It may be run any number of times. It has ``__arrow_c_stream__``: polars, DuckDB and pyarrow
    read it directly.
    """

    def __init__(
        self,
        file: File,
        *,
        columns: Sequence[str] | None,
        filter: pc.Expression | str | None,
        row_range: tuple[int, int] | None,
        batch_rows: int,
        threads: int | None,
        limit: int | None,
    ) -> None:
        for name, value, least in (("batch_rows", batch_rows, 1), ("limit", limit, 0)):
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or value < least
            ):
                raise InvalidArgumentError(f"{name}: expected an int >= {least}, got {value!r}")
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise InvalidArgumentError(f"threads: expected an int >= 1, got {threads!r}")
        self._file = file
        self._columns = None if columns is None else list(columns)
        self._projection = file._projection(columns)
        self._filter: Filter | None = None if filter is None else parse_filter(filter, file.schema)
        self._begin, self._end = _checked_range(row_range, file.num_rows)
        self._batch_rows = batch_rows
        self._threads = threads or 0
        self._limit = limit

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return pa.schema(self._projection)

    def to_table(self) -> pa.Table:
        """All rows of the scan."""
        if self._filter is None:
            return stream_table(self._stream())
        return pa.Table.from_batches(self._filtered(), schema=self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream that decodes while it is read."""
        batches = stream_batches(self._stream()) if self._filter is None else self._filtered()
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch; a batch is empty only where the whole result is."""
        yield from self.to_reader()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def count(self) -> int:
        """Number of rows; reads only what the filter needs, and decodes little of that."""
        if self._filter is None:
            rows = max(0, self._end - self._begin)
            return rows if self._limit is None else min(rows, self._limit)
        native = self._native()
        if native is not None and native.residual is None:
            rows = int(native.rows.count(self.rows().ranges, self._threads))
            return rows if self._limit is None else min(rows, self._limit)
        counting = Scan(
            self._file,
            columns=[],
            filter=None,
            row_range=(self._begin, self._end),
            batch_rows=self._batch_rows,
            threads=self._threads or None,
            limit=self._limit,
        )
        counting._filter = self._filter
        return sum(batch.num_rows for batch in counting._filtered())

    def explain(self) -> Plan:
        """What running the scan touches, without reading data."""
        from nimblepy.rows.explain import explain_scan

        return explain_scan(self)

    def __repr__(self) -> str:
        columns = (
            "all columns" if self._columns is None else ", ".join(self._columns) or "no column"
        )
        where = "" if self._filter is None else f" where {self._filter}"
        return f"<nimblepy.Scan of {columns} of {self._file!r}{where}>"

    # ------------------------------------------------------------------ running

    def rows(self) -> RowFilter:
        """Rows that may pass, by the index and by zone maps."""
        if self._filter is None:
            whole = [[self._begin, self._end]] if self._begin < self._end else []
            return RowFilter(np.array(whole, dtype=np.uint64).reshape(-1, 2))
        if self._filter.matches_nothing:
            return RowFilter(np.empty((0, 2), dtype=np.uint64), ("no row can pass",))
        return rows_for(self._file, self._filter.conjuncts, self._begin, self._end)

    def _stream(self) -> Any:
        end = self._end
        if self._limit is not None:
            end = min(end, self._begin + self._limit)
        ranges = [[self._begin, end]] if self._begin < end else []
        return self._projection.scan(
            np.array(ranges, dtype=np.uint64).reshape(-1, 2), self._batch_rows, self._threads
        )

    def _native(self) -> _Native | None:
        """What the core evaluates of the filter; ``None`` where that is nothing."""
        assert self._filter is not None
        spec, residual = split(self._filter.node)
        if spec is None:
            return None
        left = None if residual is None else make_filter(residual, self._file.schema)
        return _Native(_core.RowFilter(self._file._open, spec), left)

    def _filtered(self) -> Iterator[pa.RecordBatch]:
        batches = self._passing_batches()
        left = self._limit
        if left is None:
            yield from batches
            return
        while left > 0 and (batch := next(batches, None)) is not None:
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)

    def _passing_batches(self) -> Iterator[pa.RecordBatch]:
        assert self._filter is not None
        found = self.rows()
        scattered = found.scattered_rows()
        if scattered is not None:
            # An index has named the rows: few of any block, so all is asked of just these.
            inputs = FilterColumns(self._file, self._filter)
            for at in range(0, len(scattered), self._batch_rows):
                rows = scattered[at : at + self._batch_rows]
                mask = self._filter.mask(inputs.read(rows, self._threads))
                yield from self._read_passing(rows[mask.to_numpy(zero_copy_only=False)])
            return
        ranges = found.ranges
        native = self._native()
        if native is not None and native.residual is None:
            yield from stream_batches(
                self._projection.scan(ranges, self._batch_rows, self._threads, native.rows)
            )
            return
        residual = self._filter if native is None else native.residual
        assert residual is not None
        inputs = FilterColumns(self._file, residual)
        for begin, end in _pieces(ranges, self._batch_rows):
            rows = np.arange(begin, end, dtype=np.uint64)
            if native is not None:
                piece = np.array([[begin, end]], dtype=np.uint64)
                rows = native.rows.rows(piece, self._threads)
            if len(rows):
                mask = residual.mask(inputs.read(rows, self._threads))
                yield from self._read_passing(rows[mask.to_numpy(zero_copy_only=False)])

    def _read_passing(self, rows: np.ndarray[Any, Any]) -> Iterator[pa.RecordBatch]:
        if len(rows) == 0:
            return
        if int(rows[-1]) - int(rows[0]) + 1 == len(rows):
            begin, end = int(rows[0]), int(rows[-1]) + 1
            yield from self._batches(self._projection.range_batch, begin, end)
        else:
            yield from self._batches(self._projection.take_batch, rows)

    def _batches(self, read: Any, *arguments: Any) -> Iterator[pa.RecordBatch]:
        try:
            yield pa.RecordBatch._import_from_c_capsule(*read(*arguments, self._threads))
        except InvalidArgumentError as error:
            if "do not fit in one array" not in str(error):
                raise
            rows = arguments[0] if len(arguments) == 1 else np.arange(*arguments, dtype=np.uint64)
            yield from stream_batches(
                self._projection.take(rows, max(1, len(rows) // 2), self._threads)
            )


def stream_table(stream: Any) -> pa.Table:
    """All batches of a core stream; what fails keeps its own exception type."""
    try:
        return pa.table(stream)
    except (OSError, pa.ArrowInvalid):
        stream.check_failure()
        raise


def stream_batches(stream: Any) -> Iterator[pa.RecordBatch]:
    """The batches of a core stream one by one."""
    try:
        yield from pa.RecordBatchReader.from_stream(stream)
    except (OSError, pa.ArrowInvalid):
        stream.check_failure()
        raise


class FilterColumns:
    """Reads what a filter needs; nested fields come back inside structs of only these fields."""

    def __init__(self, file: File, filter: Filter) -> None:
        self._paths = [resolve_column(file.schema, name).path for name in filter.columns]
        # A whole column makes fields of it that are named as well superfluous.
        whole = {path[0] for path in self._paths if len(path) == 1}
        self._paths = [p for p in self._paths if len(p) == 1 or p[0] not in whole]
        self._schema = file.schema
        self._projection = file._projection([".".join(path) for path in self._paths])

    def read(self, rows: np.ndarray[Any, Any], threads: int) -> pa.RecordBatch:
        """The columns at some ascending rows, at least one."""
        begin, end = int(rows[0]), int(rows[-1]) + 1
        whole = end - begin == len(rows)
        flat = pa.RecordBatch._import_from_c_capsule(
            *(
                self._projection.range_batch(begin, end, threads)
                if whole
                else self._projection.take_batch(rows, threads)
            )
        )
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


def _pieces(ranges: np.ndarray[Any, Any], batch_rows: int) -> Iterator[tuple[int, int]]:
    for begin, end in ranges.tolist():
        for at in range(begin, end, batch_rows):
            yield at, min(end, at + batch_rows)


def _checked_range(row_range: tuple[int, int] | None, num_rows: int) -> tuple[int, int]:
    if row_range is None:
        return 0, num_rows
    try:
        begin, end = (int(value) for value in row_range)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"row_range: expected (begin, end), got {row_range!r}") from None
    if not 0 <= begin <= end <= num_rows:
        raise InvalidArgumentError(
            f"row_range: expected 0 <= begin <= end <= {num_rows}, got ({begin}, {end})"
        )
    return begin, end
