"""`python -m bench.indexes.thread_lookups`: many threads, one file, a small cache.

Every answer is compared with what was written. Memory is what the process gained since the file
was opened, at its most; pages of a mapped file are not counted, with `--read` it is read, so that
all of it is nimblepy's. Modules, pools and most of what asking takes the process has before: the
same threads first compare answers that come from no file.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb

STEP = 3  # keys are its multiples: two of three that are asked for are absent
BATCH = 1_000
Numbers = np.ndarray[Any, Any]


def amounts(keys: Numbers) -> Numbers:
    """What a key's row holds; as good as random, so that the file does not shrink."""
    with np.errstate(over="ignore"):
        mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(20)).astype(np.int64)


def write(path: Path, rows: int) -> None:
    options = nb.WriteOptions(stripe_rows=16_384, group_rows=32_768, key_chunk_rows=256)
    schema = pa.schema({"key": pa.int64(), "amount": pa.int64(), "name": pa.utf8()})
    with nb.Writer(path, schema, cluster_by="key", presorted=True, options=options) as writer:
        for begin in range(0, rows, 1 << 17):
            keys = np.arange(begin, min(rows, begin + (1 << 17)), dtype=np.int64) * STEP
            values = amounts(keys)
            names = [f"name {v}" for v in values.tolist()]
            writer.write(pa.table({"key": keys, "amount": values, "name": names}))


class Expected:
    """Answers as `File` does, without a file."""

    def lookup(self, keys: Numbers, columns: list[str], probe_row: str) -> pa.Table:
        present = np.flatnonzero(keys % STEP == 0)
        values = amounts(keys[present])
        names = [f"name {v}" for v in values.tolist()]
        return pa.table({"amount": values, "name": names, probe_row: present})

    def get(self, key: int, columns: list[str]) -> dict[str, int] | None:
        return {"amount": int(amounts(np.array([key]))[0])} if key % STEP == 0 else None


def wrong_in_batches(file: nb.File | Expected, keys: Numbers) -> int:
    """How many answers of `lookup` differ from what was written."""
    wrong = 0
    for begin in range(0, len(keys), BATCH):
        asked = keys[begin : begin + BATCH]
        got = file.lookup(asked, columns=["amount", "name"], probe_row="probe")
        present = np.flatnonzero(asked % STEP == 0)
        if not np.array_equal(got["probe"].to_numpy(), present):
            wrong += len(asked)
            continue
        want = amounts(asked[present])
        wrong += int((got["amount"].to_numpy() != want).sum())
        names = got["name"].to_pylist()
        wrong += sum(n != f"name {v}" for n, v in zip(names, want.tolist(), strict=True))
    return wrong


def wrong_one_by_one(file: nb.File | Expected, keys: Numbers) -> int:
    """How many answers of `get` differ from what was written."""
    wrong = 0
    for key, value in zip(keys.tolist(), amounts(keys).tolist(), strict=True):
        want = {"amount": value} if key % STEP == 0 else None
        wrong += file.get(key, ["amount"]) != want
    return wrong


class Memory:
    """Most anonymous memory of this process, looked at every two milliseconds."""

    def __init__(self, file: nb.File) -> None:
        self._file = file
        self._done = threading.Event()
        self.before = self.most = self._resident()
        self.most_counted = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.most = max(self.most, self._resident())
            self.most_counted = max(self.most_counted, self._file._file.handle.core.memory_bytes)

    @staticmethod
    def _resident() -> int:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def measure(
    path: Path, rows: int, threads: int, lookups: int, cache: int, *, mmap: bool
) -> dict[str, Any]:
    """Each thread makes so many lookups: half by `lookup` in batches, half by `get`."""

    def run(source: nb.File | Expected, seed: int, lookups: int) -> int:
        ways: list[Callable[[nb.File | Expected, Numbers], int]]
        ways = [wrong_in_batches, wrong_one_by_one]
        random, wrong, done = np.random.default_rng(seed), 0, 0
        while done < lookups:  # both ways by turns: some threads do one, some the other
            count = min(10 * BATCH, lookups - done)
            keys = random.integers(0, rows * STEP, count)
            wrong += ways[(seed + done // (10 * BATCH)) % 2](source, keys)
            done += count
        return wrong

    with (
        nb.open(path, mmap=mmap, cache_bytes=cache) as file,
        ThreadPoolExecutor(threads) as pool,
    ):
        # Python's and Arrow's own first: modules, pools, one of each answer, all of the asking
        wrong_in_batches(file, np.arange(BATCH))
        wrong_one_by_one(file, np.arange(BATCH))
        wrong = sum(pool.map(lambda seed: run(Expected(), seed, 40 * BATCH), range(threads)))
        memory = Memory(file)
        start = time.perf_counter()
        wrong += sum(pool.map(lambda seed: run(file, seed, lookups), range(threads)))
        seconds = time.perf_counter() - start
        memory.stop()
        return {
            "file bytes": os.path.getsize(path),
            "mapped": mmap,
            "threads": threads,
            "lookups": threads * lookups,
            "wrong": wrong,
            "cache bytes": cache,
            "most counted": memory.most_counted,
            "gained": memory.most - memory.before,
            "reads": file.io_stats.reads,
            "seconds": round(seconds, 1),
        }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.indexes.thread_lookups", description=__doc__
    )
    add = parser.add_argument
    add("path", type=Path, help="where the file is made, if it is not there")
    add("--rows", type=int, default=4_000_000)
    add("--threads", type=int, default=8)
    add("--lookups", type=int, default=1_000_000, help="of each thread (1,000,000)")
    add("--cache", type=int, default=4 << 20, help="cache_bytes (4 MiB)")
    add("--read", action="store_true", help="read the file, do not map it")
    arguments = parser.parse_args()
    if not arguments.path.exists():
        write(arguments.path, arguments.rows)
    found = measure(
        arguments.path,
        arguments.rows,
        arguments.threads,
        arguments.lookups,
        arguments.cache,
        mmap=not arguments.read,
    )
    print(json.dumps(found))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
