"""`python -m bench.remote`: lookups in an S3 bucket, its server on loopback and each request slow.

Counts requests and rounds, and shows that failures that pass cost one request each and no answer.
Times are those of a server in Python on the same machine: what is added by distance is stated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb
from bench.s3_server import Server, serve

ROWS = 2_000_000
NAME = "remote.nimble"


def table(rows: int) -> pa.Table:
    generator = np.random.default_rng(1)
    return pa.table(
        {
            "id": np.arange(rows, dtype=np.int64) * 3,
            "price": generator.integers(0, 1 << 30, rows) / 100,
            "count": generator.integers(0, 1 << 20, rows),
            "name": [f"name {i % 9973}" for i in range(rows)],
        }
    )


def ask(server: Server, keys: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> dict[str, Any]:
    """One column of one row a key; nothing but the index stays in the cache."""
    server.faults.methods.clear()
    wrong, times = 0, []
    with nb.open(NAME, filesystem=server.obstore(), cache_bytes=4 << 20) as file:
        for key in keys.tolist():
            start = time.perf_counter()
            row = file.get(key, columns=["count"])
            times.append(time.perf_counter() - start)
            wrong += row is None or row["count"] != counts[key // 3]
        stats = file.io_stats
    return {
        "lookups": len(keys),
        "wrong": int(wrong),
        "requests": len(server.faults.methods),
        "failed requests": server.faults.failed,
        "rounds": stats.rounds,
        "median ms": round(1e3 * statistics.median(times), 2),
        "p99 ms": round(1e3 * sorted(times)[len(times) * 99 // 100], 2),
    }


def batch(server: Server, keys: np.ndarray[Any, Any]) -> dict[str, Any]:
    """All keys in one call, all columns, on a file just opened."""
    server.faults.methods.clear()
    server.faults.most_at_once = 0
    with nb.open(NAME, filesystem=server.obstore()) as file:
        start = time.perf_counter()
        file.lookup(keys)
        took = time.perf_counter() - start
        return {
            "keys": len(keys),
            "requests": len(server.faults.methods),
            "most at once": server.faults.most_at_once,
            "rounds": file.io_stats.rounds,
            "ms": round(1e3 * took, 1),
        }


def measure(rows: int, lookups: int, delay: float, fail: float) -> dict[str, Any]:
    data = table(rows)
    counts = data["count"].to_numpy()
    keys = np.random.default_rng(2).integers(0, rows, lookups) * 3
    with serve() as server:
        nb.write(data, NAME, cluster_by="id", presorted=True, filesystem=server.obstore())
        clean = ask(server, keys, counts)
        server.faults.reset()
        server.faults.fail = fail
        faulty = ask(server, keys, counts)
        server.faults.reset()
        server.faults.delay = delay
        few = keys[: min(200, lookups)]
        return {
            "rows": rows,
            "delay ms": 1e3 * delay,
            "share failed": fail,
            "clean": clean,
            "failures": faulty,
            "requests, failures to clean": round(faulty["requests"] / clean["requests"], 4),
            "slow": ask(server, few, counts),
            "slow, batches": [batch(server, keys[:n]) for n in (1, 10, 100, 1000)],
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.remote", description=__doc__)
    add = parser.add_argument
    add("--rows", type=int, default=ROWS)
    add("--lookups", type=int, default=10_000)
    add("--delay", type=float, default=0.02, help="seconds of each request (0.02)")
    add("--fail", type=float, default=0.01, help="share of requests that are refused (0.01)")
    add("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.rows, arguments.lookups, arguments.delay, arguments.fail)
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", "utf-8")
    return 1 if found["clean"]["wrong"] or found["failures"]["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
