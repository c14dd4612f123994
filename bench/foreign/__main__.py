"""Lookups by key in Parquet files of others: nb.index_files, DuckDB and DataFusion.

python -m bench.foreign [--files 100] [--rows 200000] [--pages 65536] [--rounds 20]

Writes the files with pyarrow (zstd, 9 columns, its default pages unless --pages), builds the four
indexes, and then asks all systems the same questions in turn. Times are processor time of all
threads, so that a busy machine does not matter much. Prints one JSON object per measurement. All
answers are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import nimblepy as nb
from bench.foreign.files import make_files
from bench.foreign.systems import collected, datafusion_session, rows_of, table_of


def say(what: str, **figures: Any) -> None:
    print(json.dumps({"what": what, **figures}), flush=True)


def timed(run: Callable[..., Any], *arguments: Any, **keywords: Any) -> tuple[float, Any]:
    start = time.process_time()
    answer = run(*arguments, **keywords)
    return time.process_time() - start, answer


def median(values: list[float]) -> float:
    return float(np.median(values))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.foreign", description=__doc__)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--pages", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory, "lake")
        folder.mkdir()
        make_files(folder, given.files, given.rows, given.pages)
        run(folder, Path(directory), given.files * given.rows, given.rounds)


def run(folder: Path, directory: Path, n: int, rounds: int) -> None:
    for key in ("id", "key"):
        for kind in ("sorted", "hash"):
            target = directory / f"{key}-{kind}.nbx"
            start = time.process_time()
            nb.index_files(folder, target, key=key, kind=kind)  # type: ignore[arg-type]
            cpu = time.process_time() - start
            say(
                "build",
                key=key,
                kind=kind,
                rows=n,
                cpu_seconds_per_10m=round(cpu / n * 1e7, 2),
                bytes_per_row=round(os.path.getsize(target) / n, 2),
            )
    duck = duckdb.connect()
    glob = str(folder / "*.parquet")
    fusion = datafusion_session(folder)
    rng = np.random.default_rng(1)
    for kind in ("sorted", "hash"):
        src = nb.open(directory / f"id-{kind}.nbx")
        src.get(int(rng.integers(n)))
        new: list[float] = []
        seen: list[float] = []
        ducks: list[float] = []
        fusions: list[float] = []
        src.reset_io_stats()
        for _ in range(rounds):
            key = int(rng.integers(n))
            seconds, row = timed(src.get, key)
            new.append(seconds)
            seen.append(median([timed(src.get, key)[0] for _ in range(20)]))
            query = f"select * from '{glob}' where id = {key}"
            seconds, other = timed(rows_of, duck, query)
            ducks.append(seconds)
            assert [tuple(row.values())] == other, (row, other)
            if fusion is not None:
                query = f"select * from lake where id = {key}"
                seconds, batches = timed(collected, fusion, query)
                fusions.append(seconds)
                assert sum(batch.num_rows for batch in batches) == 1
        stats = src.io_stats
        say(
            "one row",
            kind=kind,
            columns=9,
            new_cpu_ms=round(median(new) * 1e3, 3),
            seen_cpu_us=round(median(seen) * 1e6, 1),
            duckdb_cpu_ms=round(median(ducks) * 1e3, 1),
            of_duckdb=round(median(new) / median(ducks), 3),
            datafusion_cpu_ms=round(median(fusions) * 1e3, 1) if fusions else None,
            page_reads_per_row=round(stats.data_reads / rounds, 1),
            kb_per_row=round(stats.bytes_read / rounds / 1e3, 1),
        )
    for count in (100, 10_000):
        src = nb.open(directory / "id-sorted.nbx")
        ours: list[float] = []
        joins: list[float] = []
        for _ in range(max(2, rounds // 8)):
            keys = rng.choice(n, min(count, n), replace=False)
            columns = ["id", "amount", "note"]
            seconds, table = timed(src.lookup, keys, columns=columns)
            ours.append(seconds)
            probe = pa.table({"id": keys})
            duck.register("probe", probe)
            query = f"select id, amount, note from '{glob}' join probe using (id)"
            seconds, other = timed(table_of, duck, query)
            joins.append(seconds)
            assert table.sort_by("id").equals(other.cast(table.schema).sort_by("id"))
        say(
            "keys",
            keys=count,
            columns=3,
            cpu_ms=round(median(ours) * 1e3, 1),
            duckdb_cpu_ms=round(median(joins) * 1e3, 1),
            of_duckdb=round(median(ours) / median(joins), 3),
        )


if __name__ == "__main__":
    main()
