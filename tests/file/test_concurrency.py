"""One handle serves many threads; handles survive pickling and fork, and refuse use after close."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from dataset_files import make_dataset
from exact import assert_same_table

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

N = 40_000
TABLE = pa.table(
    {
        "k": pa.array(range(0, 2 * N, 2), pa.int64()),
        "s": [f"value {i}" for i in range(N)],
        "l": [[i] * (i % 3) for i in range(N)],
    }
)


@pytest.fixture
def written(path: str) -> str:
    options = nb.WriteOptions(stripe_rows=3_000, group_rows=9_000, key_chunk_rows=100)
    nb.write(TABLE, path, cluster_by="k", presorted=True, options=options)
    return path


def work(file: Any, seed: int) -> None:
    """A random mix of every read path, each answer checked."""
    rng = np.random.default_rng(seed)
    for _ in range(15):
        row = int(rng.integers(0, N))
        assert file.get(2 * row, ["s"]) == {"s": f"value {row}"}
        assert file.get(2 * row + 1) is None
        rows = rng.integers(0, N, 50)
        assert file.lookup(2 * rows, columns=["s"]).column("s").to_pylist() == [
            f"value {i}" for i in rows
        ]
        assert file.take(rows, ["k"]).column("k").to_pylist() == (2 * rows).tolist()
        begin = int(rng.integers(0, N - 100))
        assert_same_table(file.range(2 * begin, 2 * begin + 200), TABLE.slice(begin, 100))
        assert file.count([2 * begin, 1]).to_pylist() == [1, 0]
        assert file.scan(["k"], row_range=(begin, begin + 90)).to_table().num_rows == 90
        _ = (file.io_stats, file.schema, file.num_rows)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"mmap": False},
        {"mmap": False, "cache_bytes": 0},
        {"mmap": False, "cache_bytes": 20_000},
    ],
    ids=str,
)
def test_file_eight_threads_on_one_handle_get_right_answers(
    written: str, how: dict[str, Any]
) -> None:
    file = nb.open(written, **how)
    start = threading.Barrier(8)

    def run(seed: int) -> None:
        start.wait()
        work(file, seed)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))


def test_file_object_source_eight_threads_get_right_answers(written: str) -> None:
    # seek and read on one Python object must not interleave
    with open(written, "rb") as source, ThreadPoolExecutor(8) as pool:
        file = nb.open(source, cache_bytes=0)
        list(pool.map(lambda seed: work(file, seed), range(8)))


def test_scan_iterator_of_many_threads_loses_no_rows(written: str) -> None:
    # the core's iterator was not protected: batches were lost
    file = nb.open(written)
    for _ in range(20):
        batches = iter(file.scan(["k"], batch_rows=100))
        rows: list[int] = []
        errors: list[Exception] = []

        def run() -> None:
            while True:
                try:
                    rows.append(next(batches).num_rows)  # noqa: B023
                except StopIteration:
                    return
                except nb.InvalidArgumentError as e:
                    errors.append(e)  # noqa: B023

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(rows) == N
        assert all("one call at a time" in str(e) for e in errors)


def test_file_reads_release_the_gil(written: str) -> None:
    file = nb.open(written)
    done = threading.Event()
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            done.wait(0.0005)

    ticker = threading.Thread(target=tick)
    ticker.start()
    keys = np.random.default_rng(0).integers(0, 2 * N, 400_000)
    file.lookup(keys)
    done.set()
    ticker.join()
    assert ticks >= 3


def test_scan_readers_interleaved_do_not_disturb_each_other(written: str) -> None:
    file = nb.open(written)
    readers = [file.scan(batch_rows=1_000 + i, threads=2).to_reader() for i in range(4)]
    rows = [0] * 4
    for _ in range(30):
        for i, reader in enumerate(readers):
            batch = reader.read_next_batch()
            assert_same_table(pa.Table.from_batches([batch]), TABLE.slice(rows[i], batch.num_rows))
            rows[i] += batch.num_rows


def test_file_pickled_by_path_reopens_with_its_settings(written: str) -> None:
    for how in ({}, {"mmap": False, "cache_bytes": 1 << 20}):
        file = nb.open(written, **how)
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            copy = pickle.loads(pickle.dumps(file, protocol))
            assert copy.get(10) == file.get(10)
            assert copy.num_rows == N
    assert len(pickle.dumps(nb.open(written))) < 4_096


def test_file_opened_by_a_relative_path_pickles_from_another_directory(
    written: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The path was resolved against the working directory of the pickling, not of the opening.
    monkeypatch.chdir(os.path.dirname(written))
    with nb.open(os.path.basename(written)) as file:
        monkeypatch.chdir(tmp_path.parent)
        assert pickle.loads(pickle.dumps(file)).num_rows == file.num_rows


def test_file_pickled_is_readable_in_another_process(written: str, tmp_path: Any) -> None:
    handle = tmp_path / "handle.pickle"
    handle.write_bytes(pickle.dumps(nb.open(written)))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).get(20)['s'])"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(handle)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "value 10"


def test_file_pickled_from_a_python_file_object_is_refused_or_works(written: str) -> None:
    with open(written, "rb") as source:
        file = nb.open(source)
        with pytest.raises((nb.NimbleError, TypeError)):
            pickle.dumps(file)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.get(2),
        lambda f: f.lookup([2]),
        lambda f: f.contains([2]),
        lambda f: f.count([2]),
        lambda f: f.range(0, 10),
        lambda f: f.prefix(2),
        lambda f: f.take([0]),
        lambda f: f.to_table(),
        lambda f: f.scan().to_table(),
        lambda f: f.row_ranges([2]),
        lambda f: f.verify(),
        lambda f: f.layout(),
    ],
)
def test_file_use_after_close_is_an_error(written: str, call: Callable[[Any], Any]) -> None:
    with nb.open(written) as file:
        call(file)
    with pytest.raises((nb.NimbleError, ValueError), match="closed"):
        call(file)


def test_file_closed_twice_and_opened_twice_is_fine(written: str) -> None:
    file = nb.open(written)
    file.close()
    file.close()
    first, second = nb.open(written), nb.open(written)
    first.close()
    assert second.get(4) is not None


def test_file_closed_under_a_running_scan_does_not_crash(written: str) -> None:
    file = nb.open(written)
    reader = file.scan(batch_rows=500).to_reader()
    first = reader.read_next_batch()
    file.close()
    assert_same_table(pa.Table.from_batches([first]), TABLE.slice(0, 500))
    try:
        rest = reader.read_all()
    except (nb.NimbleError, ValueError, OSError):
        return
    assert_same_table(rest, TABLE.slice(500))


def test_file_closed_while_threads_read_gives_answers_or_errors(written: str) -> None:
    file = nb.open(written, mmap=False, cache_bytes=0)

    def run(seed: int) -> None:
        try:
            for _ in range(50):
                work(file, seed)
        except (nb.NimbleError, ValueError, OSError) as error:
            assert "closed" in str(error)  # noqa: PT017

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(run, seed) for seed in range(4)]
        file.close()
        for future in running:
            future.result()


@pytest.mark.parametrize("mmap", [True, False])
def test_file_used_in_a_forked_child_gives_right_answers(written: str, mmap: bool) -> None:
    file = nb.open(written, mmap=mmap)
    file.scan(threads=2).count()
    assert file.get(6) is not None
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12+ warns about fork with threads
        child = os.fork()
    if child == 0:
        try:
            work(file, 3)
            file.scan(["k"], threads=2).to_table()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    work(file, 4)


def _version(v: int) -> list[pa.Table]:
    """The files of a version: how many there are, their bounds and their rows all depend on it."""
    keys = np.repeat(np.arange(240), 1 + v % 3)
    table = pa.table({"k": keys, "v": np.full(len(keys), v), "i": np.arange(len(keys))})
    files = 1 + v % 4
    return [table.slice(len(keys) * f // files).slice(0, len(keys) // files) for f in range(files)]


def _ask(ds: Any, rng: np.random.Generator) -> None:
    """Every answer has to be that of one version, whichever it is."""
    keys = rng.integers(0, 240, 60)
    pick = int(rng.integers(0, 8))
    if pick == 0:
        row = ds.get(int(keys[0]))
        assert row["i"] == int(keys[0]) * (1 + row["v"] % 3)
        return
    if pick == 1:
        assert len(set(ds.count(keys).to_pylist())) == 1
        return
    if pick == 2:
        assert ds.count_rows("k >= 0") in (240, 480, 720)
        return
    low = int(rng.integers(0, 200))
    asked: dict[int, tuple[Callable[[], pa.Table], int]] = {
        3: (lambda: ds.lookup(keys), 60),
        4: (lambda: ds.range(low, low + 40), 40),
        5: (lambda: ds.to_table(), 240),
        6: (lambda: ds.scan(filter=f"k >= {low} AND k < {low + 40}").to_table(), 40),
        7: (lambda: ds.index_join(pa.table({"k": keys}), on="k"), 60),
    }
    ask, count = asked[pick]
    table = ask()
    (v,) = set(table.column("v").to_pylist())
    assert table.num_rows == count * (1 + v % 3)
    assert pc.all(pc.equal(pc.divide(table["i"], 1 + v % 3), table["k"])).as_py()


def test_answers_beside_refresh_are_of_one_version(tmp_path: Any) -> None:
    """Files, bounds and statistics used to be replaced one by one under a running request."""
    ds = make_dataset(tmp_path, _version(0), "k")
    done = threading.Event()

    def work(seed: int) -> int:
        rng = np.random.default_rng(seed)
        calls = 0
        while not done.is_set():
            with contextlib.suppress(FileNotFoundError):  # an overwrite removed the old files
                _ask(ds, rng)
            calls += 1
        return calls

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(work, seed) for seed in range(4)]
        try:
            for v in range(1, 25):
                make_dataset(tmp_path, _version(v), "k", overwrite=True).close()
                ds.refresh()
                assert ds.get(7)["v"] == ds.range(7, 8)["v"][0].as_py() == v
        finally:
            done.set()
        assert min(future.result() for future in running) > 0


def test_refresh_keeps_files_open_that_are_still_named(tmp_path: Any) -> None:
    ds = make_dataset(tmp_path, _version(3), "k")
    assert ds.to_table().num_rows == 240
    read, opened = ds.io_stats, ds._current.open_files.opened
    make_dataset(tmp_path, [t.set_column(0, "k", pc.add(t["k"], 500)) for t in _version(0)], "k")
    ds.refresh()
    assert ds.io_stats == read
    assert (ds.get(3)["v"], ds.get(503)["v"]) == (3, 0)
    assert ds._current.open_files.opened == opened + 1
    ds.close()
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        ds.get(3)
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        ds.refresh()
