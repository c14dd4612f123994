"""The events and the probes of the as-of benchmark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import nimblepy as nb

START_US = 1_767_225_600_000_000  # 1 January 2026
SPAN_US = 90 * 86_400 * 10**6
EVENTS_PER_USER = 200
COLUMNS = ["amount", "kind", "score"]
STAMP = pa.timestamp("us")


def times(rng: np.random.Generator, count: int) -> pa.Array:
    return pa.array(START_US + rng.integers(0, SPAN_US, count)).cast(STAMP)


def make_events(count: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "user": rng.integers(0, count // EVENTS_PER_USER, count),
            "ts": times(rng, count),
            "amount": rng.random(count),
            "kind": rng.integers(0, 50, count).astype(np.int32),
            "score": rng.random(count).astype(np.float32),
        }
    )


def make_probe(count: int, users: int, seed: int = 2) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"user": rng.integers(0, users, count), "ts": times(rng, count)})


def write_events(path: Path, count: int) -> None:
    if not path.exists():
        nb.write(make_events(count), path, cluster_by=["user", "ts"])
