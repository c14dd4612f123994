"""Many processes on one file: spawned, forked beside running threads, and while it is replaced."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.cached import cached_property
from nimblepy.io import fork

# A sanitizer sees one process; and a child inherits the locks of ASan's allocator (gcc 12) as
# another thread held them.
pytestmark = pytest.mark.no_sanitizer

N = 20_000
LOOKUPS = 1_000
# caches of less than a group: nearly every lookup loads one, under a lock
HOWS: list[dict[str, Any]] = [{}, {"mmap": False}, {"mmap": False, "cache_bytes": 20_000}]


def table(mark: str) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(0, 2 * N, 2), pa.int64()),
            "s": [f"{mark} {i}" for i in range(N)],
            "d": pa.array([f"{mark} {i % 50}" for i in range(N)]).dictionary_encode(),
        }
    )


def write(path: str, mark: str) -> None:
    options = nb.WriteOptions(stripe_rows=1_000, group_rows=2_000, key_chunk_rows=100)
    indexes = [nb.HashIndex("s"), nb.SortedIndex(["d", "k"])]
    nb.write(table(mark), path, cluster_by="k", presorted=True, options=options, indexes=indexes)


@pytest.fixture
def written(path: str) -> str:
    write(path, "old")
    return path


@pytest.fixture(scope="module", autouse=True)
def everything_imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A module that a thread imports at the fork cannot be imported in the child: CPython's locks
    of modules stay locked there."""
    path = str(tmp_path_factory.mktemp("imports") / "t.nimble")
    write(path, "old")
    for how in HOWS:
        ask(pickle.loads(pickle.dumps(nb.open(path, **how))), 0, 1)


def ask(file: Any, seed: int, lookups: int, mark: str = "old") -> None:
    """Every way to a row by key, each answer checked."""
    rng = np.random.default_rng(seed)
    for row in rng.integers(0, N, lookups).tolist():
        assert file.get(2 * row, ["s"]) == {"s": f"{mark} {row}"}
    rows = rng.integers(0, N, lookups)
    texts = [f"{mark} {row}" for row in rows.tolist()]
    assert file.lookup(2 * rows, columns=["s"]).column("s").to_pylist() == texts
    assert file.lookup(texts[:50], on="s", columns=["k"]).column("k").to_pylist() == [
        2 * row for row in rows[:50].tolist()
    ]
    assert file.get(2 * int(rows[0]) + 1) is None
    assert file.prefix(f"{mark} 7", on=["d", "k"]).num_rows == N // 50
    assert file.scan(["k"], filter=f"d = '{mark} 3'", threads=2).count() == N // 50


def ask_all(handles: list[bytes], seed: int) -> None:
    for handle in handles:
        with pickle.loads(handle) as file:
            ask(file, seed, LOOKUPS)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_four_processes_look_up_in_one_file(written: str, method: str) -> None:
    files = [nb.open(written, **how) for how in HOWS]
    for file in files:
        ask(file, 9, 10)
    handles = [pickle.dumps(file) for file in files]
    context = multiprocessing.get_context(method)
    with quiet_fork():
        workers = [context.Process(target=ask_all, args=(handles, seed)) for seed in range(4)]
        for worker in workers:
            worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    for file in files:
        ask(file, 10, 10)


@contextmanager
def quiet_fork() -> Iterator[None]:
    with warnings.catch_warnings():
        # Python 3.12 and newer warn of every fork beside threads
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def in_child(work: Callable[[], None], seconds: int = 20) -> int:
    """Runs it in a forked child: 0, or how it failed; a child that hangs is ended by a signal."""
    with quiet_fork():
        child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def running(work: Callable[[int], None], threads: int) -> Iterator[None]:
    """Threads that do something over and over, until the block is left."""
    ended = threading.Event()
    failed: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            while not ended.is_set():
                work(seed)
                seed += threads
        except BaseException as error:
            failed.append(error)

    started = [threading.Thread(target=run, args=(seed,)) for seed in range(threads)]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in started:
            thread.join()
    assert not failed


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_handle_is_usable_in_children_forked_beside_reading_threads(
    written: str, how: dict[str, Any]
) -> None:
    file = nb.open(written, **how)

    def child() -> None:
        ask(file, 5, 50)
        readers = [threading.Thread(target=ask, args=(file, i, 20)) for i in range(3)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        ask(pickle.loads(pickle.dumps(file)), 6, 20)

    with running(lambda seed: ask(file, seed, 20), threads=3):
        assert [in_child(child) for _ in range(6)] == [0] * 6
    ask(file, 7, 50)


class Slow(io.FileIO):
    """A source whose reads wait in the process that made it, once they are to."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.waits = False
        self.reading = threading.Event()
        self.go_on = threading.Event()
        self.maker = os.getpid()

    def read_at(self, size: int, offset: int) -> bytes:
        if self.waits and os.getpid() == self.maker:
            self.reading.set()
            self.go_on.wait()
        return os.pread(self.fileno(), size, offset)


def test_child_forked_in_the_middle_of_a_read_does_not_wait_for_it(written: str) -> None:
    # the thread that holds the locks of the file is for sure in a read when the process forks
    with Slow(written) as source, warnings.catch_warnings():
        file = nb.open(source, cache_bytes=20_000)
        source.waits = True
        reader = threading.Thread(target=ask, args=(file, 1, 5))
        reader.start()
        assert source.reading.wait(20)
        assert in_child(lambda: ask(file, 2, 20)) == 0
        source.go_on.set()
        reader.join()
        ask(file, 3, 5)


class Waiting:
    """Its value is computed once it may be."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()

    @cached_property
    def value(self) -> object:
        self.begun.set()
        assert self.go_on.wait(20)
        return object()


def test_cached_properties_of_a_child_do_not_wait_for_those_of_the_parent() -> None:
    # Up to Python 3.11 all objects share a lock in functools, and a thread had it at the fork.
    waiting, other = Waiting(), Waiting()
    thread = threading.Thread(target=lambda: waiting.value)
    thread.start()
    assert waiting.begun.wait(20)
    other.go_on.set()
    assert in_child(lambda: setattr(other, "seen", other.value), seconds=5) == 0
    waiting.go_on.set()
    thread.join()
    assert waiting.value is waiting.value


def test_threads_get_the_same_value_of_a_cached_property() -> None:
    waiting, found = Waiting(), []
    threads = [threading.Thread(target=lambda: found.append(waiting.value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    waiting.go_on.set()
    for thread in threads:
        thread.join()
    assert found == [waiting.value] * 3


def test_a_fork_is_made_beside_threads_that_delay_it_in_turns() -> None:
    # At any time one of them was inside, so the fork waited until it no longer did, and was made
    # in the middle of a block.
    inside = threading.Event()

    def work(_: int) -> None:
        with fork.no_fork():
            inside.set()
            with fork.no_fork():  # does not wait for a fork that waits for it
                time.sleep(0.02)

    begun = time.monotonic()
    with running(work, threads=4):
        assert inside.wait(20)
        assert in_child(lambda: None) == 0
    assert time.monotonic() - begun < 5


def test_first_use_of_everything_in_a_child_forked_while_the_parent_opens_it(written: str) -> None:
    # indexes, dictionaries and Bloom filters are opened under locks, once
    for _ in range(6):
        file = nb.open(written, mmap=False)
        with running(lambda seed, file=file: ask(file, seed, 1), threads=2):
            assert in_child(lambda file=file: ask(file, 8, 20)) == 0


def test_scan_begun_before_fork_ends_in_the_child_and_goes_on_in_the_parent(tmp_path: Path) -> None:
    rows = 150_000  # of text: enough that threads are worth starting
    path = tmp_path / "text.nimble"
    nb.write(pa.table({"s": [f"{i * 7919} of {i % 977}" for i in range(rows)]}), path)
    file = nb.open(path)
    reader = file.scan(batch_rows=500, threads=2).to_reader()
    first = reader.read_next_batch().num_rows

    def child() -> None:
        nonlocal reader
        with pytest.raises(Exception, match="fork"):
            reader.read_all()  # batches that were decoded before the fork come first
        del reader  # waits for no thread that is not there
        assert file.scan(batch_rows=500, threads=2).to_table().num_rows == rows

    assert in_child(child) == 0
    assert first + reader.read_all().num_rows == rows


def test_scan_that_costs_less_than_threads_goes_on_in_a_child_of_fork(written: str) -> None:
    file = nb.open(written)
    reader = file.scan(["k"], batch_rows=500, threads=8).to_reader()
    first = reader.read_next_batch().num_rows

    def child() -> None:
        assert first + reader.read_all().num_rows == N

    assert in_child(child) == 0
    assert first + reader.read_all().num_rows == N


def test_questions_asked_before_fork_are_logged_once(written: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    file = nb.open(written, record=log)
    for _ in range(3):
        file.get(0)

    def child() -> None:
        file.get(0)
        file.close()

    with file._log._lock:  # as another thread might
        assert in_child(child) == 0
    file.close()
    assert sum(json.loads(line)["times"] for line in log.read_text().splitlines()) == 4


def read_until(path: str, stop: Any, results: Any) -> None:
    """Opens the file anew and anew; the rows of one handle are of one file."""
    seen: dict[str, int] = {}
    while not stop.is_set() or len(seen) < 2:
        with nb.open(path) as file:
            mark = file.get(0)["s"].split()[0]
            ask(file, len(seen), 20, mark)
            seen[mark] = seen.get(mark, 0) + 1
    results.put(seen)


def test_processes_read_one_file_or_the_other_while_it_is_replaced(
    written: str, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    stop, results = context.Event(), context.Queue()
    held = nb.open(written)
    workers = [context.Process(target=read_until, args=(written, stop, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for i in range(8):
        write(written, ["new", "old"][i % 2])
        time.sleep(0.02)
    stop.set()
    # each goes on until it has seen both
    for _ in range(100):
        if not any(worker.is_alive() for worker in workers) or results.qsize() == len(workers):
            break
        write(written, "new")
        time.sleep(0.02)
        write(written, "old")
        time.sleep(0.02)
    seen = [results.get(timeout=20) for _ in workers]
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert all(set(marks) == {"old", "new"} for marks in seen)
    ask(held, 1, 50)  # a handle keeps the file that it opened
