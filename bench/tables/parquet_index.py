"""What an index brings to a Parquet table: upserts by key, and lookups of one key.

python -m bench.tables.parquet_index [--rows 2000000] [--files 20] [--keys 10000] [--rounds 5]
python -m bench.tables.parquet_index --pyiceberg

Every file has keys from all over the table. Half of the keys of an upsert are new. The systems take
turns, and each upsert is rolled back. Prints one JSON object per measurement; times are processor
time of all threads in milliseconds, the median of all rounds. All answers are compared.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb


def rows_of(keys: np.ndarray[Any, Any]) -> pa.Table:
    rng = np.random.default_rng(len(keys))
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "amount": rng.random(len(keys)),
            "quantity": rng.integers(0, 1000, len(keys)),
            "region": pa.array(rng.integers(0, 9, len(keys))).cast(pa.string()),
            "note": pa.array([f"note {key % 9973}" for key in keys.tolist()]),
        }
    )


def make(lake: nb.Catalog, name: str, args: argparse.Namespace, data_format: Any) -> nb.Table:
    # Clustered by another column, so that each file may have every key.
    schema = rows_of(np.arange(1)).schema
    table = lake.create_table(
        name, schema, primary_key="id", cluster_by="note", data_format=data_format
    )
    keys = np.random.default_rng(38).permutation(args.rows)
    for part in np.array_split(keys, args.files):
        table.append(rows_of(part))
    return table


def timed(run: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    start = time.process_time()
    answer = run(*arguments)
    return (time.process_time() - start) * 1000, answer


def say(what: str, times: dict[str, list[float]]) -> None:
    medians = {name: float(np.median(values)) for name, values in times.items()}
    base = medians["none"]
    for name, value in medians.items():
        print(json.dumps({"what": what, "index": name, "ms": value, "ratio": value / base}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pyiceberg", action="store_true", help="one upsert by pyiceberg too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = nb.connect(Path(folder) / "lake")
        tables = {name: make(lake, f"a.{name}", args, "parquet") for name in ("none", "sorted")}
        tables["hash"] = make(lake, "a.hash", args, "parquet")
        tables["nimble"] = make(lake, "a.nimble", args, "nimble")
        for name, index in (("sorted", nb.SortedIndex(["id"])), ("hash", nb.HashIndex(["id"]))):
            spent, _ = timed(tables[name].add_index, index)
            size = tables[name].indexes[0].size_bytes
            print(json.dumps({"what": "build", "index": name, "ms": spent, "bytes": size}))
        peer = make(lake, "a.peer", args, "parquet") if args.pyiceberg else None
        measure(tables, peer, args)


def measure(tables: dict[str, nb.Table], peer: nb.Table | None, args: argparse.Namespace) -> None:
    rng = np.random.default_rng(7)
    lookups: dict[str, list[float]] = {name: [] for name in tables}
    upserts: dict[str, list[float]] = {name: [] for name in tables}
    for turn in range(args.rounds + 1):  # the first round opens files and is not counted
        keys = rng.integers(0, args.rows, 20).tolist()
        found = {}
        for name, table in tables.items():
            # Without an index, one lookup reads all keys.
            asked = keys[:2] if name == "none" else keys
            spent, rows = timed(list, map(table.get, asked))
            found[name] = rows[:2]
            if turn:
                lookups[name].append(spent / len(asked))
        assert all(rows == found["none"] for rows in found.values())
        half = args.keys // 2
        old = rng.choice(args.rows, half, replace=False)
        batch = rows_of(np.concatenate((old, args.rows + np.arange(half) + turn * half)))
        for name, table in tables.items():
            before = table.snapshot
            spent, done = timed(table.upsert, batch)
            assert (done.rows_updated, done.rows_inserted) == (half, half)
            assert before is not None
            table.rollback(before)
            if turn:
                upserts[name].append(spent)
        if turn == 1 and peer is not None:
            iceberg = peer.iceberg
            spent, done = timed(iceberg.upsert, batch.cast(iceberg.schema().as_arrow()))
            assert (done.rows_updated, done.rows_inserted) == (half, half)
            upserts["pyiceberg"] = [spent]
    say("get one key", lookups)
    say(f"upsert {args.keys:,} keys", upserts)


if __name__ == "__main__":
    main()
