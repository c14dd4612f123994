"""`python -m bench.tables.lookup`: finding and reading rows of a table of many files.

Tables of one size in one file and in many, the keys of these apart or overlapping, and a table
after upserts. Every measure is processor time of this process; what is compared is asked in turn,
and medians are shown. Answers are compared with what was written.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb

BATCH = 10_000
COLUMNS = 8
Numbers = np.ndarray[Any, Any]


def rows_of(keys: Numbers) -> pa.Table:
    """Rows of these keys: half of the columns hardly shrink, half of them do."""
    columns: dict[str, Any] = {"key": keys}
    for i in range(1, COLUMNS):
        mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15 + 2 * i)
        columns[f"c{i}"] = (mixed >> np.uint64(20 if i % 2 else 50)).astype(np.int64)
    return pa.table(columns)


def parts(rows: int, files: int, apart: bool) -> list[pa.Table]:
    """All even keys below ``2 * rows``, as the rows of some files."""
    keys = 2 * np.arange(rows, dtype=np.int64)
    if not apart:
        np.random.default_rng(1).shuffle(keys)
    return [rows_of(np.sort(part)) for part in np.array_split(keys, files)]


def table_of(lake: nb.Catalog, name: str, found: list[pa.Table]) -> nb.Table:
    table = lake.create_table(f"bench.{name}", found[0].schema, cluster_by="key", primary_key="key")
    for part in found:
        table.append(part)
    return table


def in_turn(asked: dict[str, Callable[[], Any]], times: int) -> dict[str, float]:
    """Processor milliseconds of each call, medians of interleaved runs."""
    taken: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(times + 2):
        for name, ask in asked.items():
            begin = time.process_time()
            ask()
            if turn >= 2:  # the first are not warm
                taken[name].append(1e3 * (time.process_time() - begin))
    return {name: statistics.median(values) for name, values in taken.items()}


def show(title: str, found: dict[str, float]) -> None:
    first = next(iter(found.values()))
    print(title)
    for name, took in found.items():
        print(f"  {name:28}{took:10.3f} ms{took / first:8.2f}x", flush=True)


def many_files(rows: int, files: int, times: int) -> None:
    """One file, and the same rows in many: `get` and `lookup`."""
    with tempfile.TemporaryDirectory() as folder:
        made: dict[str, Any] = {}
        lake = nb.connect(f"{folder}/lake")
        kinds = (("one", 1, True), ("apart", files, True), ("mixed", files, False))
        for name, count, apart in kinds:
            found = parts(rows, count, apart)
            if count == 1:
                nb.write(found[0], f"{folder}/one.nimble", cluster_by="key")
                made["File"] = nb.open(f"{folder}/one.nimble")
            made[name] = table_of(lake, name, found)
        rng = np.random.default_rng(2)
        keys = 2 * rng.permutation(rows)[:BATCH]
        half = np.where(np.arange(BATCH) % 2, keys, keys + 1)
        expected = rows_of(keys)
        for name, asked in made.items():
            found = asked.lookup(keys).select(expected.column_names)
            assert found.columns == expected.columns, name
            assert asked.count(keys).to_pylist() == [1] * BATCH, name
        single = keys[:1000].tolist()

        def gets(asked: Any) -> Callable[[], Any]:
            return lambda: [asked.get(key) for key in single]

        show(
            f"get, 1,000 keys, {rows:,} rows, {files} files",
            in_turn({name: gets(asked) for name, asked in made.items()}, times),
        )
        hot = [single[0]] * 1000
        calls: dict[str, Callable[[Any], Any]] = {
            "get, one key 1,000 times": lambda rows: [rows.get(key) for key in hot],
            "lookup of 10,000": lambda rows: rows.lookup(keys),
            "lookup, half of them absent": lambda rows: rows.lookup(half),
            "contains, half of them absent": lambda rows: rows.contains(half),
        }
        for title, call in calls.items():
            show(title, in_turn({n: partial(call, a) for n, a in made.items()}, times))


def locating(rows: int, files: int, times: int) -> None:
    """Positions of keys, half of them absent, in overlapping files."""
    with tempfile.TemporaryDirectory() as folder:
        for i, part in enumerate(parts(rows, files, False)):
            # As tables with a primary key have them.
            options = nb.WriteOptions(cluster_bloom_bits_per_key=10)
            nb.write(part, Path(folder, f"{i:05}.nimble"), cluster_by="key", options=options)
        opened = nb.open_dataset(folder, max_open_files=files)
        keys = 2 * np.random.default_rng(3).permutation(rows)[:BATCH]
        half = np.where(np.arange(BATCH) % 2, keys, keys + 1)
        source = opened._current
        request = source.keys_request(half)
        assert source.find(request).num_rows == BATCH // 2
        show(
            f"positions of 10,000 keys, half of them absent, {files} overlapping files",
            in_turn({"find": lambda: source.find(request)}, times),
        )


def upserts(rows: int, files: int, times: int, apart: bool) -> None:
    """A table before and after ten upserts of 10,000 keys, half of them new."""
    with tempfile.TemporaryDirectory() as folder:
        lake = nb.connect(f"{folder}/lake")
        after = table_of(lake, "upserts", parts(rows, files, apart))
        before = lake.table("bench.upserts")  # stays at its snapshot
        rng = np.random.default_rng(4)
        for _ in range(10):
            keys = 2 * rng.permutation(rows)[:BATCH]
            after.upsert(rows_of(np.where(np.arange(BATCH) % 2, keys, keys + 1)))
        made = {"before": before, "after": after}
        print(f"{before.num_rows:,} rows, then {after.num_rows:,}; {files} files")
        keys = 2 * rng.permutation(rows)[:BATCH]
        single = keys[:1000].tolist()
        where = f"c1 > {1 << 43}"
        assert after.to_table(["key"]).num_rows == after.num_rows
        assert after.lookup(keys).equals(before.lookup(keys))
        calls: dict[str, Callable[[Any], Any]] = {
            "scan of 2 columns": lambda t: [None for _ in t.scan(["c1", "c2"]).to_reader()],
            "count of a filter": lambda t: t.count_rows(where),
            "get of 1,000 keys": lambda t: [t.get(key) for key in single],
            "lookup of 10,000 keys": lambda t: t.lookup(keys),
        }
        for title, call in calls.items():
            show(title, in_turn({n: partial(call, a) for n, a in made.items()}, times))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tables.lookup", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--located-rows", type=int, default=20_000_000)
    parser.add_argument("--located-files", type=int, default=1_000)
    parser.add_argument("--upsert-rows", type=int, default=20_000_000)
    parser.add_argument("--upsert-files", type=int, default=20)
    parser.add_argument("--mixed", action="store_true", help="upsert in overlapping files")
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--only", choices=("files", "locate", "upserts"))
    arguments = parser.parse_args()
    if arguments.only in (None, "files"):
        many_files(arguments.rows, arguments.files, arguments.times)
    if arguments.only in (None, "locate"):
        locating(arguments.located_rows, arguments.located_files, arguments.times)
    if arguments.only in (None, "upserts"):
        upserts(arguments.upsert_rows, arguments.upsert_files, arguments.times, not arguments.mixed)


if __name__ == "__main__":
    main()
