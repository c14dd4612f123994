"""Scans whose filter calls back into Python for the part that the core cannot evaluate."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from nimblepy import _core

ROWS = 400_000


def rows() -> pa.Table:
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, 1000, ROWS)
    return pa.table(
        {
            "k": np.arange(ROWS),
            "a": pa.array(numbers, mask=rng.random(ROWS) < 0.1),
            "s": pa.array([f"text {n % 97}" for n in numbers.tolist()]),
            "d": pa.array([f"{n % 7}" for n in numbers.tolist()]).dictionary_encode(),
        }
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    path = tmp_path_factory.mktemp("residual") / "a.nimble"
    table = rows()
    nb.write(table, path, cluster_by="k", options=nb.WriteOptions(stripe_rows=150_000))
    return path, table


def odd(batch: pa.RecordBatch) -> pa.BooleanArray:
    """True, false or null, by the first column."""
    return pc.equal(pc.bit_wise_and(batch.column(0), 1), 1)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("native", [None, ("test", (0,), "<", pa.array([300_000]), False)])
@pytest.mark.parametrize("columns", [None, ("a",), ("s", "k"), ("d", "s", "a"), ()])
def test_rows_that_pass_both_parts(
    stored: Any, columns: Any, native: Any, mmap: bool, threads: int
) -> None:
    path, table = stored
    mask = odd(table.select(["a"]).combine_chunks().to_batches()[0])
    if native is not None:
        mask = pc.and_(mask, pc.less(table["k"].combine_chunks(), 300_000))
    wanted = table.filter(mask)
    names = table.column_names if columns is None else list(columns)
    with nb.open(path, mmap=mmap) as file:
        paths = None if columns is None else tuple((name,) for name in columns)
        core = file._file.handle.core
        parts = [
            _core.ScanPart(
                file._file.handle.projection(paths),
                np.array([[0, 7], [100, ROWS]], dtype=np.uint64),
                None if native is None else _core.RowFilter(core, native),
                file._file.handle.projection((("a",), ("s",), ("d",))),
                odd,
            )
        ]
        skipped = wanted.filter(pc.or_(pc.less(wanted["k"], 7), pc.greater_equal(wanted["k"], 100)))
        batches = list(_core.scan(parts, file._file.projected(paths), 10_000, threads))
        assert all(0 < batch.num_rows <= 10_000 for batch in batches)
        assert _core.count(parts, threads) == skipped.num_rows
        found = pa.Table.from_batches(batches, file._file.projected(paths))
        found.validate(full=True)
        assert found.num_rows == skipped.num_rows
        assert found.to_pylist() == skipped.select(names).to_pylist()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_ends_the_scan(stored: Any, threads: int) -> None:
    class OwnError(Exception):
        pass

    def fail(batch: pa.RecordBatch) -> pa.BooleanArray:
        if batch.column(0)[0].as_py() is None or batch.num_rows:
            raise OwnError("no")
        return odd(batch)

    path, _ = stored
    with nb.open(path) as file:
        everything = np.array([[0, ROWS]], dtype=np.uint64)
        projection = file._file.handle.projection((("a",),))
        part = _core.ScanPart(projection, everything, None, projection, fail)
        scan = _core.scan([part], file._file.projected((("a",),)), 1000, threads)
        with pytest.raises(OwnError, match="no"):
            next(scan)
        assert list(scan) == []
        with pytest.raises(OwnError):
            _core.count([part], threads)


@pytest.mark.parametrize("answer", [pa.array([True]), pa.array([1] * ROWS), "text"])
def test_masks_of_another_kind_are_refused(stored: Any, answer: Any) -> None:
    path, _ = stored
    with nb.open(path) as file:
        everything = np.array([[0, ROWS]], dtype=np.uint64)
        projection = file._file.handle.projection((("a",),))
        part = _core.ScanPart(projection, everything, None, projection, lambda _: answer)
        with pytest.raises((nb.InvalidArgumentError, AttributeError)):
            next(_core.scan([part], file._file.projected((("a",),)), 1000, 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_test_may_read_the_same_file(stored: Any, threads: int) -> None:
    path, table = stored
    with nb.open(path) as file:

        def read(batch: pa.RecordBatch) -> pa.BooleanArray:
            row = file.get(5)
            assert row is not None
            assert file.count_rows("k < 10") == 10
            assert file.to_table(["s"], filter="k < 3 and upper(s) like 'TEXT%'").num_rows == 3
            return odd(batch)

        everything = np.array([[0, ROWS]], dtype=np.uint64)
        projection = file._file.handle.projection((("a",),))
        part = _core.ScanPart(projection, everything, None, projection, read)
        wanted = pc.sum(odd(table.select(["a"]).combine_chunks().to_batches()[0])).as_py()
        assert _core.count([part], threads) == wanted


def test_an_abandoned_scan_stops_its_threads(stored: Any) -> None:
    path, _ = stored
    calls: list[int] = []
    began = threading.Event()

    def slow(batch: pa.RecordBatch) -> pa.BooleanArray:
        calls.append(batch.num_rows)
        began.set()
        return odd(batch)

    with nb.open(path) as file:
        everything = np.array([[0, ROWS]], dtype=np.uint64)
        projection = file._file.handle.projection((("a",),))
        part = _core.ScanPart(projection, everything, None, projection, slow)
        for _ in range(20):
            scan = _core.scan([part], file._file.projected((("a",),)), 1000, 4)
            next(scan)
            del scan
    count = len(calls)
    assert began.wait(1)
    assert len(calls) == count


def test_limits_are_hints_for_every_task(stored: Any) -> None:
    path, table = stored
    with nb.open(path) as file:
        query = "upper(s) <> 'TEXT 5' and a >= 0"
        found = file.scan(filter=query, limit=10, offset=3).to_table()
        passing = table.filter(
            pc.and_(pc.not_equal(table["s"], "text 5"), pc.greater_equal(table["a"], 0))
        )
        assert found.to_pylist() == passing.slice(3, 10).to_pylist()


def test_the_interpreter_ends_with_a_scan_that_runs(stored: Any) -> None:
    """Threads of the core that want the GIL do not delay the end."""
    path, _ = stored
    script = f"""
import pyarrow as pa, pyarrow.compute as pc, numpy as np, time
import nimblepy as nb
from nimblepy import _core
file = nb.open({str(path)!r})
def slow(batch):
    time.sleep(0.02)
    return pc.is_valid(batch.column(0))
p = file._file.handle.projection((("a",),))
part = _core.ScanPart(p, np.array([[0, {ROWS}]], dtype=np.uint64), None, p, slow)
scans = [_core.scan([part], file._file.projected((("a",),)), 1000, 4) for _ in range(3)]
for scan in scans:
    next(scan)
print("end")
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, text=True, check=False
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "end"), ended.stderr
