"""`python -m bench.tables.commits`: what a commit to a table costs while its history grows.

Two tables with all snapshots kept: one is appended to, one with a primary key is upserted, half of
the rows with new keys, and compacted where it has many files. Printed is the processor time of
commits, the median of those around each number: it should not grow. The rows of both are compared
with what was written.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import nimblepy as nb

SHOWN = (1, 20, 50, 100, 200, 300, 400, 500, 1000)
AROUND = 9  # commits of which the median is taken
MOST_FILES = 8  # data files and delete files that are left alone


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tables.commits", description=__doc__)
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--rows", type=int, default=1_000, help="of a commit")
    parser.add_argument("--base", type=int, default=1_000_000, help="rows that are there before")
    parser.add_argument("--only", default="append,upsert")
    asked = parser.parse_args()
    for name in asked.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            RUNS[name](Path(folder), asked)
    return 0


def batch(keys: np.ndarray[tuple[int], np.dtype[np.int64]], number: int) -> pa.Table:
    """8 columns; all but the key are as good as random, and follow from the key and ``number``."""
    noise = np.random.default_rng(number)
    columns = {f"c{i}": noise.random(len(keys)) for i in range(6)}
    return pa.table({"key": keys, "commit": np.full(len(keys), number), **columns})


def files_of(folder: Path) -> int:
    return sum(path.is_file() and not path.name.startswith("catalog") for path in folder.rglob("*"))


def shown(title: str, costs: list[float]) -> None:
    print(f"{title}: milliseconds of processor time")
    for number in SHOWN:
        if number <= len(costs):
            near = costs[max(0, number - 1 - AROUND // 2) : number + AROUND // 2]
            print(f"  commit {number:5,}: {statistics.median(near):8.1f}", flush=True)


def timed(change: Callable[[], object], costs: list[float]) -> None:
    begin = time.process_time()
    change()
    costs.append((time.process_time() - begin) * 1000)


def appends(folder: Path, asked: argparse.Namespace) -> None:
    table = nb.connect(folder).create_table(
        "bench.appends", batch(np.arange(0), 0).schema, cluster_by="key"
    )
    costs: list[float] = []
    written = []
    for number in range(asked.commits):
        rows = batch(np.arange(asked.rows) * asked.commits + number, number)
        before = files_of(folder) if number in (0, asked.commits - 1) else 0
        timed(lambda rows=rows: table.append(rows), costs)  # type: ignore[misc]
        if before:
            written.append(files_of(folder) - before)
    shown(f"append of {asked.rows:,} rows", costs)
    print(f"  files of a commit: {written[-1]}; snapshots: {len(table.snapshots()):,}")
    if table.num_rows != asked.rows * asked.commits:
        raise SystemExit(f"{table.num_rows:,} rows, expected {asked.rows * asked.commits:,}")


def upserts(folder: Path, asked: argparse.Namespace) -> None:
    lake = nb.connect(folder)
    table = lake.create_table("bench.upserts", batch(np.arange(0), 0).schema, primary_key="key")
    table.append(batch(np.arange(asked.base, dtype=np.int64) * 2, 0))
    ends = 2 * max(asked.base, asked.commits * asked.rows)  # new keys for every commit
    last = np.full(ends, -1, dtype=np.int64)  # the commit of each key
    last[: 2 * asked.base : 2] = 0
    choose = np.random.default_rng(1)
    costs: list[float] = []
    compactions: list[float] = []
    most = 0
    for number in range(1, asked.commits + 1):
        half = asked.rows // 2
        old = choose.choice(np.flatnonzero(last >= 0), half, replace=False)
        new = choose.choice(np.flatnonzero(last < 0), half, replace=False)
        keys = np.concatenate([old, new])
        last[keys] = number
        rows = batch(keys, number)
        timed(lambda rows=rows: table.upsert(rows), costs)  # type: ignore[misc]
        count = table._current.num_files + len(table._current.plan.delete_files())
        most = max(most, count)
        if count > 2 * MOST_FILES:
            timed(table.compact, compactions)
    shown(f"upsert of {asked.rows:,} rows into {asked.base:,}", costs)
    each = sum(compactions) / asked.commits
    print(f"  compactions: {len(compactions)}, {each:.1f} ms of each commit, the longest ", end="")
    print(f"{max(compactions, default=0):,.0f} ms; files at most {most}")
    found = table.to_table(["key", "commit"]).sort_by("key")
    keys = np.flatnonzero(last >= 0)
    if not (
        np.array_equal(found["key"].to_numpy(), keys)
        and np.array_equal(found["commit"].to_numpy(), last[keys])
    ):
        raise SystemExit("the rows are not those that were written")


RUNS = {"append": appends, "upsert": upserts}

if __name__ == "__main__":
    sys.exit(main())
