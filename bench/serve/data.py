"""The tables that both servers serve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

FEATURES = 94
USER_COLUMNS = ["name", "city", "age"]


def users(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    cities = np.array(["Paris", "Lagos", "Lima", "Osaka", "Pune"])
    return pa.table(
        {
            "id": np.arange(rows, dtype=np.int64),
            "name": [f"user {i * 7919 % 1_000_003}" for i in range(rows)],
            "city": cities[rng.integers(0, 5, rows)],
            "age": rng.integers(18, 90, rows),
            "score": rng.random(rows).round(6),
            "visits": rng.integers(0, 1 << 20, rows),
            "balance": rng.integers(0, 1 << 30, rows) / 100,
            "active": rng.integers(0, 2, rows) == 1,
            "seen": pa.array(rng.integers(1 << 50, 1 << 51, rows), pa.timestamp("us")),
        }
    )


def features(rows: int) -> pa.Table:
    rng = np.random.default_rng(2)
    columns: dict[str, Any] = {"id": np.arange(rows, dtype=np.int64)}
    for i in range(FEATURES):
        columns[f"feature_{i:02}"] = (
            rng.random(rows).round(4) if i % 2 else rng.integers(0, 1000, rows)
        )
    return pa.table(columns)
