"""Records the queries of a file in a log, for :func:`nimblepy.advise_indexes`.

``nimblepy.open(path, record="questions.jsonl")`` wraps the source of the file in a
:class:`RecordedSource`, which reports each query to a :class:`WorkloadLog`. A line of the log
describes one shape of query: the operation, the tested columns, the kinds of tests, and the columns
read. It also has counts since the last line of this shape: queries, keys, and rows found. Values of
keys and filters are never written.

The log remains small. A shape is written at its first, second, fourth, eighth ... occurrence, and
when the file is closed. A log has at most :data:`MAX_SHAPES` shapes per open file and at most
:data:`MAX_BYTES` bytes. Many threads and processes may append to the same log, because each line is
one write.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.filter import Filter
from nimblepy.expr.nodes import Compare, In, Node, StartsWith
from nimblepy.io.fork import renew_after_fork
from nimblepy.rows.arguments import Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.request import KeyRange, Keys, Ordered, Prefix, Request, Where
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.rows.source import Names, RowSource
from nimblepy.rows.wrapper import SourceWrapper
from nimblepy.schema.names import output_name

MAX_BYTES = 1 << 20
MAX_SHAPES = 1_000

# (column, kind, number of values); kind is "equal", "range" or "starts" (a text prefix)
TestShape = tuple[str, str, int]
# (operation, tests, columns read)
Shape = tuple[str, tuple[TestShape, ...], Names]


class WorkloadLog:
    """Appends to a log file. Thread-safe. If writing fails, warns once and stops recording."""

    def __init__(self, path: str, num_rows: int) -> None:
        self._path = path
        self._num_rows = num_rows
        self._lock = threading.Lock()
        # For each shape: number of queries, then queries, keys and rows since the last line.
        self._seen: dict[Shape, list[int]] = {}
        self._full = False
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Resets the counts, because the parent process writes the queries from before the fork."""
        self._lock = threading.Lock()
        for counts in self._seen.values():
            counts[1:] = [0, 0, 0]

    def found(self, request: Request, columns: Projected, rows: int) -> None:
        """Records a request and the number of rows that it found."""
        if isinstance(request, Keys):
            tests = [(output_name(name), "equal", 1) for name in request.names]
            if request.between is not None:
                tests.append((output_name(request.between), "range", 1))
            self.add(("lookup", tuple(tests), _names(columns)), len(request), rows)
        elif isinstance(request, (KeyRange, Prefix)):
            op, last = ("range", "range") if isinstance(request, KeyRange) else ("prefix", "starts")
            names = [output_name(name) for name in request.columns]
            tests = [(name, "equal", 1) for name in names[:-1]] + [(names[-1], last, 1)]
            self.add((op, tuple(tests), _names(columns)), 1, rows)
        elif request.filter is not None:
            # Round up the lengths of IN lists, so that similar lists have the same shape.
            tests = [
                (name, kind, 1 << (values - 1).bit_length())
                for name, kind, values, _ in filter_tests(request.filter)
            ]
            self.add(("filter", tuple(tests), _names(columns)), 1, rows)

    def taken(self, columns: Projected, rows: int) -> None:
        """Records rows that were read by number, without an index."""
        self.add(("take", (), _names(columns)), 1, rows)

    def add(self, shape: Shape, keys: int, rows: int) -> None:
        """Records one query of a shape, with its number of keys and rows."""
        if self._full:
            return
        with self._lock:
            counts = self._seen.get(shape)
            if counts is None:
                if len(self._seen) >= MAX_SHAPES:
                    return
                counts = self._seen[shape] = [0, 0, 0, 0]
            counts[0] += 1
            counts[1] += 1
            counts[2] += keys
            counts[3] += rows
            if counts[0] & (counts[0] - 1):
                return
            line = self._line(shape, counts)
        self._write(line)

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkloadLog, (self._path, self._num_rows)

    def flush(self) -> None:
        """Writes the counts that are not yet in the log."""
        with self._lock:
            pending = [self._line(shape, c) for shape, c in self._seen.items() if c[1]]
        for line in pending:
            self._write(line)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.flush()

    def _line(self, shape: Shape, counts: list[int]) -> bytes:
        op, tests, columns = shape
        line = {
            "op": op,
            "tests": [list(test) for test in tests],
            "columns": None if columns is None else list(columns),
            "times": counts[1],
            "keys": counts[2],
            "rows": counts[3],
            "of": self._num_rows,
        }
        counts[1:] = [0, 0, 0]
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"

    def _write(self, line: bytes) -> None:
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                if os.fstat(file).st_size + len(line) > MAX_BYTES:
                    self._full = True
                else:
                    os.write(file, line)
            finally:
                os.close(file)
        except OSError as error:
            self._full = True
            warnings.warn(f"questions are no longer recorded: {error}", stacklevel=4)


class RecordedSource(SourceWrapper[RowSource]):
    """Reports every query to a log, with the number of rows that it found.

    Args:
        columns: the columns that the caller reads from the rows that :meth:`find` returns.
    """

    def __init__(self, wrapped: RowSource, log: WorkloadLog, columns: Projected = ()) -> None:
        super().__init__(wrapped)
        self._log = log
        self._columns = columns

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordedSource, (self.wrapped, self._log, self._columns)

    def for_reading(self, columns: Projected) -> RecordedSource:
        return RecordedSource(self.wrapped, self._log, columns)

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        rows = self.wrapped.find(request, limit=limit, reverse=reverse)
        self._log.found(request, self._columns, rows.num_rows)
        return rows

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        rows = self.wrapped.find_asof(keys, deleted)
        searched = Keys(keys.by, keys.values, between=keys.on, lower=keys.at, upper=keys.at)
        self._log.found(searched, self._columns, rows.num_rows)
        return rows

    def find_and_read(
        self, keys: Keys, columns: Projected, *, first: bool = False
    ) -> tuple[pa.Table, Positions]:
        table, probes = self.wrapped.find_and_read(keys, columns, first=first)
        self._log.found(keys, columns, table.num_rows)
        return table, probes

    def read_in_order(
        self,
        request: Ordered,
        columns: Projected,
        *,
        limit: int | None,
        reverse: bool,
        offset: int,
    ) -> pa.Table:
        table = self.wrapped.read_in_order(
            request, columns, limit=limit, reverse=reverse, offset=offset
        )
        self._log.found(request, columns, table.num_rows)
        return table

    def take(self, numbers: RowNumbers, columns: Projected) -> pa.Table:
        self._log.taken(columns, len(numbers))
        return self.wrapped.take(numbers, columns)

    def count_matches(self, keys: Keys) -> Positions:
        counts = self.wrapped.count_matches(keys)
        self._log.found(keys, (), int(counts.sum()))
        return counts

    def count_passing(self, where: Where, *, threads: int) -> int:
        rows = self.wrapped.count_passing(where, threads=threads)
        self._log.found(where, (), rows)
        return rows

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            for batch in super().scan_batches(
                where, columns, batch_rows=batch_rows, threads=threads
            ):
                rows += batch.num_rows
                yield batch
        finally:
            self._log.found(where, columns, rows)

    def close(self) -> None:
        self._log.flush()
        super().close()


def filter_tests(filter: Filter) -> list[tuple[str, str, int, Node]]:
    """Returns the tests of a filter that an index may answer.

    Each is (column, kind, number of values, node); :data:`TestShape` lists the kinds.
    """
    tests: list[tuple[str, str, int, Node]] = []
    for node in filter.conjuncts:
        match node:
            case Compare(column, "==", _):
                tests.append((column.name, "equal", 1, node))
            case Compare(column, op, _) if op != "!=":
                tests.append((column.name, "range", 1, node))
            case In(column, values):
                tests.append((column.name, "equal", max(1, len(values)), node))
            case StartsWith(column, _):
                tests.append((column.name, "starts", 1, node))
    return tests


def _names(columns: Projected) -> Names:
    return None if columns is None else tuple(map(output_name, columns))
