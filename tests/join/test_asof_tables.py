"""As-of joins of tables: late rows, corrections, deletes, snapshots, evolved and foreign files."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from asof_oracle import check_join

import nimblepy as nb

pytest.importorskip("pyiceberg")
pytestmark = pytest.mark.model

START = datetime.datetime(2026, 5, 1)
DIRECTIONS = ("backward", "forward", "nearest")
SCHEMA = pa.schema(
    [
        ("user", pa.int32()),
        ("t", pa.timestamp("us")),
        ("created", pa.timestamp("us")),
        ("id", pa.int64()),
    ]
)


def draw_events(r: random.Random, count: int, first: int, batch: int) -> pa.Table:
    """Events of which most become known soon, and some late."""

    def time(hours: int) -> datetime.datetime | None:
        return None if r.random() < 0.03 else START + datetime.timedelta(hours=hours)

    rows = []
    for i in range(count):
        hours = r.randrange(4 * batch + 6)
        delay = r.choice([0, 0, 1, 12])
        user = None if r.random() < 0.03 else r.randrange(5)
        rows.append(
            {"user": user, "t": time(hours), "created": time(hours + delay), "id": first + i}
        )
    return pa.Table.from_pylist(rows, SCHEMA)


def draw_probe(r: random.Random, count: int, batches: int) -> pa.Table:
    def times() -> pa.Array:
        hours = [r.randrange(4 * batches + 12) for _ in range(count)]
        values = [START + datetime.timedelta(hours=h, minutes=r.choice([0, 30])) for h in hours]
        return pa.array([None if r.random() < 0.05 else v for v in values], pa.timestamp("us"))

    users = [None if r.random() < 0.05 else r.randrange(6) for _ in range(count)]
    return pa.table({"user": pa.array(users, pa.int64()), "t": times(), "seen": times()})


def check_all(r: random.Random, source: Any, live: list[dict[str, Any]], probes: int = 12) -> None:
    for direction in DIRECTIONS:
        check_join(
            source,
            live,
            draw_probe(r, probes, 5),
            on="t",
            by="user",
            direction=direction,
            known_at=r.choice([None, {"seen": "created"}]),
            allow_exact_matches=r.random() < 0.7,
            tolerance=r.choice([None, datetime.timedelta(hours=5)]),
            one_file=False,
        )


def run_history(r: random.Random, lake: nb.Catalog, name: str, batches: int) -> None:
    """Appends, corrections and deletes in random order, with a check after some of them."""
    key = ["user", nb.SortKey("t", descending=r.random() < 0.3)]
    table = lake.create_table(name, SCHEMA, cluster_by=key, primary_key=["id"])
    live: dict[int, dict[str, Any]] = {}
    past = []
    for batch in range(batches):
        events = draw_events(r, r.randrange(1, 25), 1000 * batch, batch)
        table.append(events)
        live.update({row["id"]: row for row in events.to_pylist()})
        if live and r.random() < 0.6:  # corrections: new rows with keys that exist
            ids = r.sample(sorted(live), min(len(live), 4))
            fixed = draw_events(r, len(ids), 0, batch)
            fixed = fixed.set_column(3, SCHEMA.field(3), pa.array(ids, pa.int64()))
            table.upsert(fixed)
            live.update({row["id"]: row for row in fixed.to_pylist()})
        if live and r.random() < 0.6:
            gone = r.sample(sorted(live), min(len(live), 5))
            table.delete(keys=gone)
            for number in gone:
                del live[number]
        if r.random() < 0.2:
            table.compact()
        past.append((table.snapshot, list(live.values())))
    check_all(r, table, past[-1][1])
    snapshot, rows = r.choice(past)
    check_all(r, table.at(snapshot=snapshot), rows, probes=6)
    row = next(iter(live.values()), None)
    if row is not None and row["user"] is not None and row["t"] is not None:
        single = table.asof((row["user"], row["t"]), ["t"])
        assert single == {"t": row["t"]}


def test_histories(lake: nb.Catalog) -> None:
    for seed in range(3):
        run_history(random.Random(seed), lake, f"h.t{seed}", batches=3)


@pytest.mark.slow
def test_many_histories(lake: nb.Catalog) -> None:
    for seed in range(1000):
        run_history(random.Random(1000 + seed), lake, f"h.t{seed}", batches=4)
        lake.drop_table(f"h.t{seed}")


def test_files_of_an_earlier_schema(lake: nb.Catalog) -> None:
    r = random.Random("schema")
    narrow = SCHEMA.set(0, pa.field("who", pa.int32())).remove(2)
    table = lake.create_table("a.b", narrow, cluster_by=["who", "t"])
    first = draw_events(r, 60, 0, 3)
    table.append(first.drop_columns(["created"]).rename_columns(narrow.names))
    with table.alter() as change:
        change.rename_column("who", "user")
        change.widen("user", pa.int64())
        change.add_column("created", pa.timestamp("us"))
    with pytest.raises(nb.IndexUnavailableError, match=r"indexes: \(user, t\)"):
        table.asof_join(draw_probe(r, 1, 1), on="t", by={"user": "id"})
    second = draw_events(r, 60, 100, 3)
    wide = second.set_column(0, "user", second["user"].cast(pa.int64()))
    table.append(wide)
    live = [{**row, "created": None} for row in first.to_pylist()] + second.to_pylist()
    check_all(r, table, live)
    check_all(r, table, live)


def test_parquet_files(lake: nb.Catalog, tmp_path: Path) -> None:
    r = random.Random("parquet")
    table = lake.create_table("a.b", SCHEMA, cluster_by=["user", "t"])
    live = []
    for i in range(3):
        events = draw_events(r, 40, 100 * i, 3)
        live += events.to_pylist()
        if i == 1:
            table.append(events)
            continue
        pq.write_table(events, tmp_path / f"{i}.parquet")
        table.add_files([str(tmp_path / f"{i}.parquet")])
    check_all(r, table, live)
    gone = {row["id"] for row in live if row["id"] % 3 == 0}
    table.delete(filter="id % 3 = 0")
    check_all(r, table, [row for row in live if row["id"] not in gone])


def test_transactions_note_what_they_read(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", SCHEMA, cluster_by=["user", "t"], primary_key=["id"])
    other = lake.table("a.b")
    row = {"user": 1, "t": START, "created": START, "id": 1}
    table.append(pa.Table.from_pylist([row], SCHEMA))
    probe = pa.table({"user": pa.array([1]), "t": pa.array([START], pa.timestamp("us"))})

    def change() -> None:
        with table.transaction() as transaction:
            assert transaction.asof_join(probe, on="t", by="user")["id"].to_pylist() == [1]
            other.refresh()
            other.append(pa.Table.from_pylist([{**row, "id": 2}], SCHEMA))
            transaction.upsert(pa.Table.from_pylist([{**row, "id": 3}], SCHEMA))

    with pytest.raises(nb.ConflictError):
        change()


@pytest.mark.parametrize("kind", [pa.int32(), pa.date32()])
def test_files_without_column_bounds(lake: nb.Catalog, kind: pa.DataType) -> None:
    schema = pa.schema([("user", pa.int32()), ("t", kind), ("id", pa.int64())])
    metrics = {"write.metadata.metrics.column.t": "none"}
    table = lake.create_table("a.b", schema, cluster_by=["user", "t"], properties=metrics)
    for i in range(3):
        days = pa.array([20 * i + 10, 20 * i + 20], pa.int32()).view(kind)
        columns = [pa.array([1, 1], pa.int32()), days, pa.array([i, i])]
        table.iceberg.append(pa.table(columns, schema=schema))
    table.refresh()
    days = pa.array([5, 10, 31, 45, 99], pa.int32()).view(kind)
    probe = pa.table({"user": [1] * 5, "t": days})
    before = table.asof_join(probe, on="t", by="user")["id"].to_pylist()
    after = table.asof_join(probe, on="t", by="user", direction="forward")["id"].to_pylist()
    assert before == [None, 0, 1, 1, 2]
    assert after == [0, 0, 1, 2, None]
