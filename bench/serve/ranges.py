"""Ranges of rows: encoded blocks beside Arrow, from the same server in turns."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb
from bench.serve.peers import Peer

COLUMNS = 20


def events(rows: int) -> pa.Table:
    """20 columns, 1,000 rows a user: 3 texts, 6 floats, 2 times, booleans and integers."""
    rng = np.random.default_rng(4)
    agents = np.array([f"agent/{i}.0 (linux; build {i * 37})" for i in range(40)])
    kinds = np.array(["view", "click", "cart", "buy", "leave"])
    columns: dict[str, Any] = {
        "user": np.arange(rows, dtype=np.int64) // 1000,
        "n": np.arange(rows, dtype=np.int64) % 1000,
        "at": pa.array(
            1_700_000_000_000_000 + np.cumsum(rng.integers(1, 10**7, rows)), pa.timestamp("us")
        ),
        "kind": kinds[rng.integers(0, 5, rows)],
        "agent": agents[rng.integers(0, 40, rows)],
        "url": [f"/shop/item/{i}" for i in rng.integers(0, 5000, rows)],
        "ok": rng.integers(0, 2, rows) == 1,
        "day": pa.array(np.arange(rows, dtype=np.int32) // 5000, pa.date32()),
    }
    for i in range(6):
        columns[f"price_{i}"] = rng.random(rows).round(2)
    for i in range(6):
        columns[f"count_{i}"] = rng.integers(0, 1 << (4 + 2 * i), rows)
    assert len(columns) == COLUMNS
    return pa.table(columns)


def compare(peer: Peer, table: nb.RemoteTable, rows: int, rounds: int) -> list[dict[str, Any]]:
    """CPU of the server, of the server and this process, and bytes, raw to Arrow."""
    rng = np.random.default_rng(5)
    found = []
    for count in (1000, 5000, 50_000):
        begins = [int(b) for b in rng.integers(0, rows - count, 12)]

        def read(accept: str, begins: list[int] = begins, count: int = count) -> pa.Table:
            for begin in begins:
                lower = (begin // 1000, begin % 1000)
                part = table.range(lower, None, limit=count, accept=accept)
            return part

        assert read("raw").equals(read("arrow"))  # also asks for metadata
        costs: dict[str, list[tuple[float, float]]] = {"raw": [], "arrow": []}
        for _ in range(rounds):
            for accept, cost in costs.items():
                server, client = peer.cpu(), time.process_time_ns()
                for _ in range(max(1, 10_000 // count)):
                    read(accept)
                server, client = peer.cpu() - server, time.process_time_ns() - client
                calls = len(begins) * max(1, 10_000 // count)
                cost.append((server / 1e3 / calls, client / 1e3 / calls))
        pairs = list(zip(costs["raw"], costs["arrow"], strict=True))
        lower = (begins[0] // 1000, begins[0] % 1000)
        sizes = [sent_bytes(table, lower, count, form) for form in ("RAW", "ARROW")]
        found.append(
            {
                "rows": count,
                "server us": {
                    k: round(statistics.median(s for s, _ in c)) for k, c in costs.items()
                },
                "client us": {
                    k: round(statistics.median(s for _, s in c)) for k, c in costs.items()
                },
                "server ratio": round(statistics.median(a[0] / b[0] for a, b in pairs), 3),
                "both ratio": round(statistics.median(sum(a) / sum(b) for a, b in pairs), 3),
                "bytes": sizes,
                "bytes ratio": round(sizes[0] / sizes[1], 3),
            }
        )
    return found


def sent_bytes(table: nb.RemoteTable, lower: tuple[int, int], count: int, form: str) -> int:
    """Bytes of the rows in a reply. Metadata is sent once for each file, and not counted."""
    command = ["NB.RANGE", table.name, f"{lower[0]}:{lower[1]}", "+"]
    reply = table._connection.ask(*command, "AS", form, "LIMIT", str(count))
    return len(reply[1])
