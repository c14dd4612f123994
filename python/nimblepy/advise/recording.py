"""A log of what is asked of a file, for :func:`nimblepy.advise_indexes`.

``nimblepy.open(path, record="questions.jsonl")`` gives a :class:`RecordingFile`. A line of the log
is one shape of question: operation, tested columns and how, columns read, and since the last such
line how often, with how many keys, and how many rows it found. No value of a key or filter is ever
written.

The log stays small: a shape is written the first, second, fourth, eighth ... time it is asked, and
when the file is closed; at most :data:`MAX_SHAPES` shapes a file and :data:`MAX_BYTES` in all.
Any number of threads and processes may append to one log: a line is one write.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.advise.workload import tests_of
from nimblepy.file.file import File
from nimblepy.io.fork import renew_after_fork
from nimblepy.rows.scan import Scan

MAX_BYTES = 1 << 20
MAX_SHAPES = 1_000

Shape = tuple[str, tuple[tuple[str, str, int], ...], tuple[str, ...] | None]
_ABSENT: Any = object()


class WorkloadLog:
    """Appends to a log file; thread-safe. A log that cannot be written warns once and stops."""

    def __init__(self, path: str, num_rows: int) -> None:
        self._path = path
        self._num_rows = num_rows
        self._lock = threading.Lock()
        # Of each shape: times in all, then since the last line times, keys, rows.
        self._seen: dict[Shape, list[int]] = {}
        self._full = False
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """What was asked before the fork is for the parent to write."""
        self._lock = threading.Lock()
        for counts in self._seen.values():
            counts[1:] = [0, 0, 0]

    def add(self, shape: Shape, keys: int, rows: int) -> None:
        """One question of a shape, and what it found."""
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

    def flush(self) -> None:
        """Writes what has been counted since the last lines."""
        with self._lock:
            pending = [self._line(shape, c) for shape, c in self._seen.items() if c[1]]
        for line in pending:
            self._write(line)

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


class RecordingFile(File):
    """A :class:`File` that logs the shape of every question. Made by ``open(record=...)``."""

    def __init__(self, core: Any, source: Any, arguments: dict[str, Any]) -> None:
        super().__init__(core, source, arguments)
        self._log = WorkloadLog(arguments["record"], self.num_rows)

    def close(self) -> None:
        self._log.flush()
        super().close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._log.flush()

    def get(
        self,
        key: Any,
        columns: Sequence[str] | None = None,
        *,
        on: str | Sequence[str] | None = None,
        default: Any = None,
        null_equals: bool = False,
    ) -> Any:
        row = super().get(key, columns, on=on, default=_ABSENT, null_equals=null_equals)
        self._keyed("lookup", on, columns, 1, row is not _ABSENT)
        return default if row is _ABSENT else row

    def lookup(
        self,
        keys: Any,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        probe_row: str | None = None,
        null_equals: bool = False,
    ) -> pa.Table:
        table = super().lookup(
            keys, on=on, columns=columns, probe_row=probe_row, null_equals=null_equals
        )
        self._keyed("lookup", on, columns, _length(keys), table.num_rows)
        return table

    def contains(
        self, keys: Any, *, on: str | Sequence[str] | None = None, null_equals: bool = False
    ) -> pa.BooleanArray:
        found = super().contains(keys, on=on, null_equals=null_equals)
        self._keyed("lookup", on, (), len(found), found.true_count)
        return found

    def count(
        self, keys: Any, *, on: str | Sequence[str] | None = None, null_equals: bool = False
    ) -> pa.Int64Array:
        found = super().count(keys, on=on, null_equals=null_equals)
        self._keyed("lookup", on, (), len(found), pc.sum(found).as_py() or 0)
        return found

    def range(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        on: str | Sequence[str] | None = None,
        inclusive: str = "[)",
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        table = super().range(
            lower, upper, on=on, inclusive=inclusive, columns=columns, limit=limit, reverse=reverse
        )
        self._keyed("range", on, columns, 1, table.num_rows)
        return table

    def prefix(
        self,
        prefix: Any,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        table = super().prefix(prefix, on=on, columns=columns, limit=limit, reverse=reverse)
        self._keyed("prefix", on, columns, 1, table.num_rows)
        return table

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        filter: pc.Expression | str | None = None,
        row_range: tuple[int, int] | None = None,
        batch_rows: int = 65536,
        threads: int | None = None,
        limit: int | None = None,
    ) -> Scan:
        kind = Scan if filter is None else RecordingScan
        return kind(
            self,
            columns=columns,
            filter=filter,
            row_range=row_range,
            batch_rows=batch_rows,
            threads=threads,
            limit=limit,
        )

    def _keyed(
        self,
        op: str,
        on: str | Sequence[str] | None,
        columns: Sequence[str] | None,
        keys: int,
        rows: int,
    ) -> None:
        names = (
            [k.column for k in self._keys] if on is None else [on] if isinstance(on, str) else on
        )
        last = {"range": "range", "prefix": "starts"}.get(op, "equal")
        tests = (*((name, "equal", 1) for name in names[:-1]), (names[-1], last, 1))
        self._log.add((op, tests, None if columns is None else tuple(columns)), keys, rows)


class RecordingScan(Scan):
    """Logs a filtered scan when it has run to its end."""

    def count(self) -> int:
        rows = super().count()
        self._record((), rows)
        return rows

    def _passing_batches(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in super()._passing_batches():
            rows += batch.num_rows
            yield batch
        self._record(None if self._columns is None else tuple(self._columns), rows)

    def _record(self, columns: tuple[str, ...] | None, rows: int) -> None:
        file = self._file
        assert isinstance(file, RecordingFile)
        assert self._filter is not None
        tests = tuple(
            # Lists of about one length are one shape.
            (test.column, test.kind, 1 << (test.values - 1).bit_length())
            for test in tests_of(self._filter)
        )
        file._log.add(("filter", tests, columns), 1, rows)


def _length(keys: Any) -> int:
    try:
        return len(keys)
    except TypeError:
        return 1
