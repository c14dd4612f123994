"""`python -m bench.tables.claims`: what checks of claims cost on a large table.

A table of many files gets 100 claims. Measured are the first check in a process, the next one, the
check after an upsert, and a commit with and without the claims. Data files are hidden during the
first two, which shows that checks do not open them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import nimblepy as nb
from nimblepy.table.distributed import commit_files, write_rows, write_target

CODES = 10  # columns of codes, of numbers, and of keys of other tables
NUMBERS = 8
PARENTS = 4
PARENT_ROWS = 100_000
RUNS, COMMITS = 5, 21
FULL = 10  # columns with long texts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tables.claims", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--upserted", type=int, default=10_000)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return check_once(options.child)
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options)
    return 0


def rows_of(first: int, count: int) -> pa.Table:
    random = np.random.default_rng(first)
    keys = np.arange(first, first + count)
    columns: dict[str, object] = {"key": keys}
    for i in range(CODES):
        codes = pa.array([f"code {i} {j}" for j in range(5 + i)])
        columns[f"code{i}"] = codes.take(pa.array(random.integers(0, 5 + i, count)))
    for i in range(NUMBERS):
        columns[f"number{i}"] = random.integers(0, 1000 * (i + 1), count)
    for i in range(PARENTS):
        columns[f"parent{i}"] = random.integers(0, PARENT_ROWS, count)
    return pa.table(columns)


def make(lake: nb.Catalog, rows: int, files: int) -> nb.Table:
    for i in range(PARENTS):
        name = f"b.parent{i}"
        parent = lake.create_table(name, pa.table({"id": range(PARENT_ROWS)}), primary_key="id")
        parent.analyze()
    each = rows // files
    table = lake.create_table("b.rows", rows_of(0, 1).schema, primary_key="key")
    target = write_target(table)
    new_files = []
    for number in range(files):
        new_files += write_rows(rows_of(number * each, each), target)
    commit_files(table, new_files)
    table.refresh()
    table.analyze()
    return table


def describe(table: nb.Table) -> int:
    """100 claims, all of them true."""
    columns: dict[str, list[object]] = {}
    for i in range(CODES):
        codes = {f"code {i} {j}": f"meaning {j}" for j in range(5 + i)}
        samples = nb.Samples(list(codes)[:2])
        columns[f"code{i}"] = ["what it is", nb.Values(codes), nb.NotNull(), samples]
    for i in range(NUMBERS):
        top = 1000 * (i + 1)
        limits = nb.Range(0, top), nb.Unit("piece", range=(0, top))
        columns[f"number{i}"] = ["how many", *limits, nb.NotNull()]
    for i in range(PARENTS):
        columns[f"parent{i}"] = ["a key", nb.References(f"b.parent{i}"), nb.NotNull()]
    done = table.describe(  # 84 claims of columns, and 16 of the table
        "Rows of a benchmark.",
        columns=columns,
        unique=["key"],
        fresh="7d",
        rows=table.num_rows,
        synonyms=["measure"],
        rules=[f"number{i} >= 0" for i in range(NUMBERS)] + ["key >= 0"] * 3,
    )
    return len(done.claims)


def check_once(place: str) -> int:
    """In a process of its own: prints the milliseconds of two checks, and the statuses."""
    with tempfile.TemporaryDirectory() as folder:  # loads modules, and no metadata of the table
        other = nb.connect(folder).create_table("b.other", pa.table({"key": [1]}))
        other.describe("Loads modules.", columns={"key": nb.Range(0, 1)}).checks.of("verified")
    lake = nb.connect(place)
    begin = time.perf_counter()
    checks = lake.table("b.rows").check()
    first = time.perf_counter()
    again = lake.table("b.rows").check()
    end = time.perf_counter()
    assert len(checks) == len(again)
    verified = len(checks.of("verified")) + len(checks.of("unverifiable"))
    print(1000 * (first - begin), 1000 * (end - first), verified, len(checks))
    return 0


def measured_check(place: Path, label: str) -> None:
    command = [sys.executable, "-m", "bench.tables.claims", "--child", str(place)]
    runs = [
        [float(text) for text in subprocess.check_output(command, text=True).split()]
        for _ in range(RUNS)
    ]
    first, again = (statistics.median(run[i] for run in runs) for i in (0, 1))
    verified, count = int(runs[0][2]), int(runs[0][3])
    print(
        f"{label}: first {first:7.1f} ms, again {again:6.1f} ms, {verified} of {count} verified or "
        "for people",
        flush=True,
    )


def measure(place: Path, options: argparse.Namespace) -> None:
    lake = nb.connect(place / "lake")
    begin = time.perf_counter()
    table = make(lake, options.rows, options.files)
    print(f"{table.num_rows:,} rows in {options.files:,} files made in", end=" ")
    print(f"{time.perf_counter() - begin:,.0f} s", flush=True)
    begin = time.perf_counter()
    count = describe(table)
    print(f"{count} claims described in {1000 * (time.perf_counter() - begin):.1f} ms")
    data = Path(table.location.removeprefix("file://")) / "data"
    os.rename(data, data.with_name("hidden"))
    measured_check(place / "lake", "data files hidden")
    os.rename(data.with_name("hidden"), data)
    table.upsert(rows_of(0, options.upserted))
    measured_check(place / "lake", f"after an upsert of {options.upserted:,} rows")
    for i in range(FULL):  # texts, until the claims have about 64 KiB
        table.describe(columns={f"code{i}": "x" * 4_000})
    keys = itertools.count(10**9)
    with_claims = median(lambda: append(table, keys), COMMITS)
    claimed = {name: text for name, text in table.properties.items() if "nimblepy.claims" in name}
    with table.alter() as a:
        a.store_claims(dict.fromkeys(claimed))
        for i in range(FULL):
            a.set_doc(f"code{i}", None)
    plain = median(lambda: append(table, keys), COMMITS)
    print(f"commit of one row: {plain:.1f} ms without claims, {with_claims:.1f} ms with them")


def append(table: nb.Table, keys: Iterator[int]) -> None:
    table.append(rows_of(next(keys), 1))


def median(run: Callable[[], None], runs: int) -> float:
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
