"""Nearest vectors in tables: deleted and changed rows, filters, partitions and old snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

DIMENSIONS = 8
SCHEMA = pa.schema(
    [("id", pa.int64()), ("color", pa.string()), ("v", pa.list_(pa.float32(), DIMENSIONS))]
)
Rows = dict[int, tuple[str, list[float] | None]]


def _table(rows: Rows) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "id": list(rows),
        "color": [group for group, _ in rows.values()],
        "v": [vector for _, vector in rows.values()],
    }
    return pa.table(columns, schema=SCHEMA)


def _nearest(rows: Rows, query: np.ndarray[Any, Any], k: int) -> list[tuple[int, float]]:
    """The oracle: sorts all rows by their distance."""
    distances = [
        (float(((np.float32(vector) - query).astype(np.float64) ** 2).sum()), id)
        for id, (_, vector) in rows.items()
        if vector is not None
    ]
    return [(id, distance) for distance, id in sorted(distances)[:k]]


def _check(table: nb.Table, rows: Rows, rng: np.random.Generator) -> None:
    query = rng.normal(size=DIMENSIONS).astype(np.float32)
    even = {id: row for id, row in rows.items() if id % 2 == 0}
    blue = {id: row for id, row in rows.items() if row[0] == "blue"}
    for expected, arguments in (
        (rows, {}),
        (even, {"filter": "id % 2 = 0"}),
        (blue, {"filter": "color = 'blue'"}),
    ):
        for exact in (False, True):
            hits = table.nearest(query, k=5, columns=["id"], exact=exact, **arguments)
            wanted = _nearest(expected, query, 5)
            assert hits["id"].to_pylist() == [id for id, _ in wanted]
            distances = [distance for _, distance in wanted]
            assert hits["_distance"].to_pylist() == pytest.approx(distances, rel=1e-4, abs=1e-5)


def _random_rows(rng: np.random.Generator, ids: np.ndarray[Any, Any]) -> Rows:
    return {
        int(id): (
            ["red", "blue"][int(rng.integers(2))],
            None if rng.random() < 0.05 else rng.normal(size=DIMENSIONS).astype("f4").tolist(),
        )
        for id in ids
    }


@pytest.mark.parametrize("partitions", [[], ["color"]])
def test_nearest_rows_of_every_snapshot(tmp_path: Path, partitions: list[str]) -> None:
    rng = np.random.default_rng(39)
    lake = nb.connect(tmp_path)
    table = lake.create_table("a.b", SCHEMA, primary_key=["id"], partition_by=partitions)
    rows: Rows = {}
    states: list[tuple[int | None, Rows]] = []
    for step in range(12):
        if step % 4 == 3:
            table.delete(f"id % 7 = {step % 7}")
            rows = {id: row for id, row in rows.items() if id % 7 != step % 7}
        else:
            changed = _random_rows(rng, rng.choice(600, 120, replace=False))
            table.upsert(_table(changed))
            rows = {**rows, **changed}
        if step == 8:
            table.compact()
        states.append((table.snapshot, dict(rows)))
        _check(table, rows, rng)
    for snapshot, old in states[::3]:
        _check(table.at(snapshot=snapshot), old, rng)
