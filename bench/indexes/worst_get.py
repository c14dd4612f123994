"""`python -m bench.indexes.worst_get`: a `get` that much of a file could be in the way of.

Processor time in microseconds, the least of some turns: of a key that all rows of an index share
(bar: 10), and of the first key that is asked for in a group, with few and with many other groups
in memory (bar: many cost no more than few), where there is room for one more and where one of
them has to go. Many rounds are needed on a busy machine: look at the least.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb

GROUP_ROWS = 1024  # the fewest
ASKED = 100  # groups that are timed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.indexes.worst_get", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="with one key (1,000,000)")
    parser.add_argument("--groups", type=int, default=4_000, help="in memory (4,000)")
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind, micros in of_equal_keys(Path(folder), asked.rows, asked.turns).items():
            print(f"get, {kind} index, {asked.rows:,} equal keys: {micros:.2f} us")
        for groups in (100, asked.groups):
            for full in (False, True):
                micros = first_of_a_group(Path(folder), groups, asked.groups, full, asked.turns)
                room = "full" if full else "with room"
                print(f"first get in a group, {groups:,} in a cache {room}: {micros:.2f} us")
    return 0


def least(turns: Iterable[Callable[[], Any]], asked: int) -> float:
    """Microseconds of one of the `asked` gets that each turn makes."""
    times = []
    for turn in turns:
        begin = time.process_time()
        turn()
        times.append(time.process_time() - begin)
    return min(times) / asked * 1e6


def of_equal_keys(folder: Path, rows: int, turns: int) -> dict[str, float]:
    path = folder / "equal.nimble"
    table = pa.table({"id": np.arange(rows), "hash": np.full(rows, 7), "sorted": np.full(rows, 7)})
    indexes = [nb.HashIndex("hash"), nb.SortedIndex("sorted")]
    nb.write(table, path, cluster_by="id", indexes=indexes)
    with nb.open(path) as file:

        def ask(on: str) -> None:
            for _ in range(2_000):
                assert file.get(7, on=on) is not None

        return {on: least([lambda on=on: ask(on)] * turns, 2_000) for on in ("hash", "sorted")}


def first_of_a_group(folder: Path, cached: int, groups: int, full: bool, turns: int) -> float:
    """With so many groups in memory; `full`: there is no room for another."""
    path = folder / "groups.nimble"
    if not path.exists():
        keys = np.arange((groups + ASKED) * GROUP_ROWS)
        options = nb.WriteOptions(stripe_rows=GROUP_ROWS, group_rows=GROUP_ROWS)
        nb.write(pa.table({"id": keys, "v": keys * 3}), path, cluster_by="id", options=options)

    def ask(file: nb.File, begin: int, end: int) -> None:
        for group in range(begin, end):
            assert file.get(group * GROUP_ROWS + 5) is not None

    def prepared(cache_bytes: int) -> nb.File:
        file = nb.open(path, cache_bytes=cache_bytes)
        ask(file, 0, cached)
        return file

    capacity = 1 << 30
    if full:
        with prepared(capacity) as file:
            capacity = file._file.handle.core.memory_bytes
    files = [prepared(capacity) for _ in range(turns)]
    asks = [lambda file=file: ask(file, groups, groups + ASKED) for file in files]
    micros = least(asks, ASKED)
    for file in files:
        file.close()
    return micros


if __name__ == "__main__":
    raise SystemExit(main())
