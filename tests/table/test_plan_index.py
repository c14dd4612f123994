"""A plan index answers as the manifests do, whatever became of it; manifests are rewritten."""

from __future__ import annotations

import datetime
import json
import math
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bench.tables import files as table_files
from catalog_kinds import needs_sqlite
from pyiceberg.catalog.sql import SqlCatalog
from tests.table.test_pruning import random_filters, random_table

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.base.places import readable_path
from nimblepy.table.reading import plan, plan_index
from nimblepy.table.reading.plan import SnapshotPlan
from nimblepy.table.table import Table


def _planned(table: Table, conjuncts: Any = ()) -> dict[str, tuple[Any, ...]]:
    metadata = table._metadata
    members = SnapshotPlan(metadata, metadata.head(), None).members(conjuncts)
    found = {}
    for member in members:
        file = member.file
        found[file.path] = (file.rows, file.bytes, file.format, file.partition, file.spec_id,
                            member.entry.sequence, dict(file.metrics.nulls))  # fmt: skip
    assert len(found) == len(members)
    return found


def _index_path(table: Table) -> str:
    (path,) = plan_index.paths_of(table._metadata, table._metadata.head())
    return readable_path(path)


_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(300, 350)]


@pytest.mark.parametrize("seed", [*range(20, 26), *_SEEDS])
def test_the_index_and_the_manifests_agree(lake: nb.Catalog, seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(lake, rng)
    filters = random_filters(table, rng, 20)
    before = _planned(table)
    expected = [_planned(table, filter.conjuncts) for filter in filters]
    done = table.rewrite_manifests()
    assert (done.manifests_before, done.manifests_after, done.files) == (4, 1, 40)
    plan.clear_caches()
    assert _planned(table) == before
    reads = table._metadata.reads
    for filter, files in zip(filters, expected, strict=True):
        assert _planned(table, filter.conjuncts) == files, filter
    assert len(plan_index.parts_of(table._metadata, table._metadata.head())) == 1
    assert table._metadata.reads - reads <= 2 * len(filters) + 1  # no manifest is among them


def _many(lake: nb.Catalog, count: int = 6, **keywords: Any) -> Table:
    """A table of one file a day."""
    table = lake.create_table(
        "a.b",
        pa.schema([("ts", pa.timestamp("us")), ("n", pa.int64())]),
        cluster_by=["n"],
        partition_by=["day(ts)"],
        **keywords,
    )
    for day in range(count):
        table.append(_day(day))
    return table


def _day(day: int) -> pa.Table:
    stamps = [datetime.datetime(2024, 1, 1 + day, hour) for hour in range(3)]
    return pa.table({"ts": stamps, "n": [10 * day, 10 * day + 1, 10 * day + 2]})


def _rows(table: Table) -> list[int]:
    return sorted(table.to_table(["n"]).column(0).to_pylist())


@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "text", "flipped", "another"])
def test_a_damaged_index_costs_time_only(lake: nb.Catalog, damage: str, tmp_path: Path) -> None:
    table = _many(lake)
    table.rewrite_manifests()
    path = _index_path(table)
    whole = Path(path).read_bytes()
    rng = random.Random(damage)
    for _ in range(12 if damage == "flipped" else 1):
        if damage == "missing":
            os.remove(path)
        elif damage == "cut":
            Path(path).write_bytes(whole[: len(whole) // 2])
        elif damage == "empty":
            Path(path).write_bytes(b"")
        elif damage == "text":
            Path(path).write_text("no index")
        elif damage == "flipped":
            flipped = bytearray(whole)
            for at in rng.sample(range(len(whole)), 20):
                flipped[at] ^= 0xFF
            Path(path).write_bytes(flipped)
        else:
            other = nb.connect(tmp_path / "other")
            other_table = _many(other)
            other_table.rewrite_manifests()
            Path(path).write_bytes(Path(_index_path(other_table)).read_bytes())
        plan.clear_caches()
        again = lake.table("a.b")
        assert _rows(again) == _rows(_unindexed(again))
        filter = "ts >= TIMESTAMP '2024-01-03' AND n < 33"
        assert sorted(again.to_table(["n"], filter=filter)["n"].to_pylist()) == [
            20,
            21,
            22,
            30,
            31,
            32,
        ]


def _unindexed(table: Table) -> Table:
    return table.at(snapshot=table.snapshots()["snapshot_id"][-2].as_py())


_Change = Callable[[pa.Table], pa.Table]


def _set(name: str, change: Callable[[list[Any]], list[Any]]) -> _Change:
    def changed(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        return rows.set_column(at, field, pa.array(change(rows[name].to_pylist()), field.type))

    return changed


_HEADERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "deep": lambda said: "[" * 100_000,
    "no end": lambda said: json.dumps(
        {**said, "manifests": [[path, math.inf, *rest] for path, _, *rest in said["manifests"]]}
    ),
    "a number": lambda said: json.dumps({**said, "manifests": 5}),
    "a list": lambda said: "[]",
}


@pytest.mark.parametrize("lie", _HEADERS)
def test_an_index_whose_header_is_none_is_not_believed(lake: nb.Catalog, lie: str) -> None:
    table = _many(lake)
    table.rewrite_manifests()
    path = _index_path(table)
    expected = _planned(_unindexed(table))
    with nb.open(path) as file:
        rows, said = file.to_table(), json.loads(file.metadata["nimblepy.plan-index"])
    nb.write(rows, path, metadata={"nimblepy.plan-index": _HEADERS[lie](said)})
    plan.clear_caches()
    again = lake.table("a.b")
    assert _planned(again) == expected
    assert plan_index.parts_of(again._metadata, again._metadata.head()) == []
    again.rewrite_manifests()
    assert _planned(again) == expected


_LIES: dict[str, _Change] = {
    "a file too few": lambda rows: rows.slice(1),
    "a file too many": lambda rows: pa.concat_tables([rows, rows.slice(4, 1)]),
    "a manifest that is not there": _set("manifest", lambda old: [99, *old[1:]]),
    "a manifest below zero": _set("manifest", lambda old: [-1, *old[1:]]),
    "more rows": _set("rows", lambda old: [old[0] + 1, *old[1:]]),
    "no path": _set("path", lambda old: [None, *old[1:]]),
    "no rows": _set("rows", lambda old: [None, *old[1:]]),
    "another spec": _set("spec", lambda old: [7, *old[1:]]),
    "no spec": lambda rows: rows.drop_columns(["spec"]),
    "no partition": lambda rows: rows.drop_columns(["p1000"]),
    "rows as text": lambda rows: rows.set_column(
        rows.schema.get_field_index("rows"), "rows", rows["rows"].cast(pa.string())
    ),
}


@pytest.mark.parametrize("lie", _LIES)
def test_an_index_that_lies_is_not_believed(lake: nb.Catalog, lie: str) -> None:
    """Its checksums are right: another program, or an error in this one, has written it."""
    table = _many(lake)
    table.rewrite_manifests()
    path = _index_path(table)
    expected = _planned(_unindexed(table))
    file = nb.open(path)
    rows, said = _LIES[lie](file.to_table()), file.metadata
    file.close()
    nb.write(rows, path, metadata=dict(said))
    plan.clear_caches()
    again = lake.table("a.b")
    assert _planned(again) == expected
    assert plan_index.parts_of(again._metadata, again._metadata.head()) == []


@needs_sqlite
def test_a_new_part_is_written_for_what_is_new(
    lake: nb.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    plain = plan_index.write

    def counted(rows: pa.Table, *arguments: Any, **keywords: Any) -> Any:
        written.append(rows.num_rows)
        return plain(rows, *arguments, **keywords)

    monkeypatch.setattr(plan_index, "write", counted)
    table = table_files.make_table(str(tmp_path / "lake"), 1100, per_day=10, per_manifest=1100)
    table.rewrite_manifests()
    assert written == []  # of one manifest, an index would be no help
    table = lake.table("bench.events")
    day = 200
    sizes = []
    for _ in range(12):
        for _ in range(4):
            day += 1
            table.append(_event(day))
        expected = _paths(table)
        before = len(written)
        assert table.rewrite_manifests().files == len(expected)
        assert len(written) == before + 1
        plan.clear_caches()
        assert _paths(lake.table("bench.events")) == expected
        parts = plan_index.parts_of(table._metadata, table._metadata.head())
        sizes = [part.file.num_rows for part in parts]
        assert len(expected) <= sum(sizes) < 2 * len(expected)
        assert len(sizes) <= 4
    assert sum(written) < 1104 + 5 * 48  # and not twelve times some 1,100
    assert table.health().uncovered_manifests == 0
    table.expire(keep=1, older_than=datetime.timedelta(0))
    assert table.remove_orphans(older_than=datetime.timedelta(0)).files == ()
    assert table.census()["kind"].to_pylist().count("plan index") == len(sizes)
    os.remove(readable_path(parts[-1].path))
    plan.clear_caches()
    again = lake.table("bench.events")
    assert _paths(again) == expected
    kept = plan_index.parts_of(again._metadata, again._metadata.head())
    assert [part.path for part in kept] == [part.path for part in parts[:-1]]


def _paths(table: Table) -> list[str]:
    metadata = table._metadata
    members = SnapshotPlan(metadata, metadata.head(), None).members()
    return sorted(members.files.paths.to_pylist())


def _event(day: int) -> list[dict[str, Any]]:
    stamp = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=table_files.FIRST_DAY + day)
    return [{"event_ts": stamp, "user_id": day, "region": "eu", "action": "view", "price": 1.0,
             "session": "0", "page": "/", "count": 1}]  # fmt: skip


def test_commits_after_an_index_are_seen(lake: nb.Catalog) -> None:
    table = _many(lake)
    table.rewrite_manifests()
    path = _index_path(table)
    before = table.snapshot
    table.append(_day(9))
    table.delete("n >= 10 AND n < 20")  # a whole file
    table.delete("n = 21")  # a row
    table.overwrite(_day(3), filter="n >= 30 AND n < 40")
    plan.clear_caches()
    again = lake.table("a.b")
    assert _index_path(again) == path
    expected = [0, 1, 2, 20, 22, 30, 31, 32, 40, 41, 42, 50, 51, 52, 90, 91, 92]
    assert _rows(again) == expected
    assert _rows(again.at(snapshot=before)) == [10 * day + i for day in range(6) for i in range(3)]
    table.rewrite_manifests()
    assert _index_path(table) != path
    assert _rows(table) == expected
    table.rollback(before)
    plan.clear_caches()
    assert _rows(lake.table("a.b")) == [10 * day + i for day in range(6) for i in range(3)]


@needs_sqlite
def test_an_engine_that_knows_no_index(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", _day(0).schema, data_format="parquet")
    for day in range(6):
        table.append(_day(day))
    table.rewrite_manifests()
    path = _index_path(table)
    foreign = SqlCatalog("nimble", uri=f"sqlite:///{tmp_path}/lake/catalog.db")
    foreign.load_table("a.b").append(_day(9).cast(table.schema))
    table.refresh()
    assert plan_index.PLAN_INDEX not in table._metadata.head().summary
    assert _index_path(table) == path
    assert _rows(table) == [10 * day + i for day in (*range(6), 9) for i in range(3)]
    assert table.iceberg.inspect.files().num_rows == 7


def test_changed_columns_and_partitions(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.schema([("n", pa.int32()), ("s", pa.string())]))
    for i in range(3):
        table.append(pa.table({"n": pa.array([i, i + 10], pa.int32()), "s": ["a", "b"]}))
    table.rewrite_manifests()
    with table.alter() as a:
        a.widen("n", pa.int64())
        a.rename_column("n", "m")
        a.add_column("x", pa.int64(), default=7)
        a.partition_by("bucket(4, m)")
    table.append(pa.table({"m": [1, 1 << 40], "s": ["c", "d"], "x": [1, 2]}))
    for _ in range(2):
        plan.clear_caches()
        again = lake.table("a.b")
        for filter, expected in (
            ("m >= 11", [11, 12, 1 << 40]),
            ("m = 1", [1, 1]),
            ("x = 7", [0, 1, 2, 10, 11, 12]),
            ("x = 1", [1]),
            ("m < 0", []),
        ):
            assert sorted(again.to_table(filter=filter)["m"].to_pylist()) == expected, filter
        table.rewrite_manifests()
    with table.alter() as a:
        a.drop_column("s")
        a.add_column("s", pa.string())
    plan.clear_caches()
    assert lake.table("a.b").to_table(filter="s = 'a'").num_rows == 0


def test_manifests_are_merged_and_clustered(lake: nb.Catalog) -> None:
    table = _many(lake, 12)
    table.delete("n = 5")  # a delete file, whose manifest stays
    table.delete("n = 31")
    done = table.rewrite_manifests()
    assert (done.manifests_before, done.manifests_after, done.rewritten) == (12, 1, 12)
    assert table._metadata.head().operation == "replace"
    assert table._metadata.head().summary["manifests-replaced"] == "12"
    again = table.rewrite_manifests()
    assert (again.rewritten, again.snapshot) == (0, done.snapshot)
    assert len(_rows(table)) == 35
    removed = table.expire(keep=1, older_than=datetime.timedelta(0))
    assert removed.files
    left = table.census()
    assert left.filter(pa.compute.invert(left["reachable"])).num_rows == 0
    assert "plan index" in left["kind"].to_pylist()
    assert table.remove_orphans(older_than=datetime.timedelta(0)).files == ()
    assert len(_rows(lake.table("a.b"))) == 35
    entries = [
        entry for one in table._metadata.manifests(table._metadata.head())
        for entry in table._metadata.entries(one)
    ]  # fmt: skip
    assert sorted(entry.sequence for entry in entries) == [*range(1, 13), 13, 14][: len(entries)]


def test_a_rewrite_beside_other_commits(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _many(lake)
    other = lake.table("a.b")
    kept = ice.ManifestsCommit.attempt
    waiting = [lambda: other.append(_day(9)), lambda: other.delete("n >= 20 AND n < 30")]

    def late(self: Any, metadata: Any) -> Any:
        if waiting:
            waiting.pop(0)()
        return kept(self, metadata)

    monkeypatch.setattr(ice.ManifestsCommit, "attempt", late)
    done = table.rewrite_manifests()
    assert done.retries == 2
    expected = [10 * day + i for day in (0, 1, 3, 4, 5, 9) for i in range(3)]
    plan.clear_caches()
    assert _rows(lake.table("a.b")) == expected
    table.remove_orphans(older_than=datetime.timedelta(0))
    assert _rows(lake.table("a.b")) == expected


@pytest.mark.parametrize(("files", "aligned"), [(8_000, True), (100_000, False)])
def test_plans_of_many_files_read_few(tmp_path: Path, files: int, aligned: bool) -> None:
    days = files // 200
    table = table_files.make_table(str(tmp_path), files, per_day=200, aligned=aligned)
    expected = _paths(table)
    assert len(set(expected)) == files
    week = (
        "ts >= TIMESTAMP '2024-10-10' AND ts < TIMESTAMP '2024-10-17' AND user_id = 50000001"
    ).replace("ts", "event_ts")
    users = "user_id = 50000001"
    plans = {text: _files_for(table, text) for text in (week, users)}
    assert [len(found) for found in plans.values()] == [7, days]
    table.rewrite_manifests()
    for text, found in plans.items():
        plan.clear_caches()
        one = nb.connect(str(tmp_path)).table("bench.events")
        assert _files_for(one, text) == found
        assert one._metadata.reads <= 3  # metadata, list, index
    assert _paths(table) == expected
    assert one.num_rows == files * table_files.ROWS


def _files_for(table: Table, filter: str) -> list[str]:
    return sorted(member.file.path for member in table._current.for_filter(filter).members)


@pytest.mark.parametrize("indexed", [False, True])
def test_all_columns_of_a_key_leave_files_out(lake: nb.Catalog, indexed: bool) -> None:
    schema = pa.schema([("ts", pa.timestamp("us")), ("n", pa.int64()), ("s", pa.string())])
    table = lake.create_table("a.b", schema, cluster_by=["n", "ts", "s"], partition_by=["day(ts)"])
    for day in range(1, 9):
        stamps = [datetime.datetime(2024, 1, day, hour) for hour in range(4)]
        table.append(pa.table({"ts": stamps, "n": [1, 5, 9, None], "s": ["x"] * 4}))
    if indexed:
        table.rewrite_manifests()
    plan.clear_caches()
    table = lake.table("a.b")
    key = (5, datetime.datetime(2024, 1, 4, 1), "x")
    assert dict(table.explain(key).details)["files opened"] == 1
    assert table.get(key) == {"ts": key[1], "n": 5, "s": "x"}
    assert len(table._current.reading.open_files) == 1
    assert table.get((5, datetime.datetime(2024, 1, 4, 2), "x")) is None
    keys = [(9, datetime.datetime(2024, 1, day, 2), "x") for day in (2, 7)]
    assert table.lookup(keys).num_rows == 2
    assert table.lookup([(5,)]).num_rows == 8
    assert table.lookup([(5, None, "x")]).num_rows == 0
