"""Snapshots, tags, branches and rollback; expiry, orphans and the census."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import (
    SetPartitionStatisticsUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
)

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.upkeep import maintain
from nimblepy.table.writing import adding


def rows(first: int, count: int = 10) -> pa.Table:
    return pa.table({"k": range(first, first + count)})


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    table = lake.create_table("a.b", rows(0), cluster_by="k")
    table.append(rows(10))
    table.delete("k < 5")
    return table


def test_the_past(table: nb.Table) -> None:
    history = table.snapshots().to_pylist()
    assert [row["operation"] for row in history] == ["append", "append", "delete"]
    counts = [table.at(snapshot=row["snapshot_id"]).num_rows for row in history]
    assert counts == [10, 20, 15]
    assert [table.at(time=row["timestamp"]).num_rows for row in history] == counts
    before = history[0]["timestamp"] - dt.timedelta(milliseconds=1)
    with pytest.raises(nb.InvalidArgumentError, match="has no snapshot as old"):
        table.at(time=before)
    with pytest.raises(nb.InvalidArgumentError, match="time zone"):
        table.at(time=dt.datetime(2024, 1, 1))
    with pytest.raises(nb.InvalidArgumentError, match="snapshot 5 not found"):
        table.at(snapshot=5)
    with pytest.raises(nb.InvalidArgumentError, match="one of"):
        table.at()
    old = table.at(snapshot=history[0]["snapshot_id"])
    assert old.get(3) == {"k": 3}
    with pytest.raises(nb.InvalidArgumentError, match="read-only"):
        old.append(rows(0))
    with pytest.raises(nb.InvalidArgumentError, match="cannot move it"):
        old.refresh()


def test_tags_and_branches(table: nb.Table) -> None:
    first = table.snapshots().column("snapshot_id")[0].as_py()
    table.tag("v1", first)
    table.tag("now")
    table.branch("trial", first)
    assert table.tags == {"now": table.snapshot, "v1": first}
    assert table.branches == {"main": table.snapshot, "trial": first}
    assert table.at(tag="v1").num_rows == table.at(branch="trial").num_rows == 10
    for name in ("v1", "trial", "main"):
        with pytest.raises(nb.InvalidArgumentError, match="already"):
            table.tag(name)
    with pytest.raises(nb.InvalidArgumentError, match="no tag 'v2'; it has now, v1"):
        table.at(tag="v2")
    table.drop_reference("v1")
    assert table.tags == {"now": table.snapshot}
    with pytest.raises(nb.InvalidArgumentError, match="cannot be dropped"):
        table.drop_reference("main")


def test_the_schema_of_the_past(table: nb.Table) -> None:
    was = table.snapshot
    with table.alter() as a:
        a.rename_column("k", "key").add_column("v", pa.string(), default="x")
    assert table.snapshot == was
    table.append(pa.table({"key": [99], "v": ["y"]}))
    assert table.at(snapshot=was).schema.names == ["k"]
    assert table.at(snapshot=was).get(7) == {"k": 7}
    table.rollback(was)
    assert table.schema.names == ["key", "v"]
    assert table.get(7) == {"key": 7, "v": "x"}
    assert table.get(99) is None
    table.append(pa.table({"key": [100], "v": ["z"]}))
    assert table.num_rows == 16


def test_rollback_and_conflict(lake: nb.Catalog, table: nb.Table) -> None:
    first = table.snapshots().column("snapshot_id")[0].as_py()
    other = lake.table("a.b")
    assert table.rollback(first).num_rows == 10
    assert other.num_rows == 15
    assert other.refresh().num_rows == 10
    with pytest.raises(nb.InvalidArgumentError, match="snapshot 1 not found"):
        table.rollback(1)
    table.tag("was")
    assert table.rollback("was").num_rows == 10


def test_rollback_takes_back_only_what_its_handle_shows(lake: nb.Catalog, table: nb.Table) -> None:
    first, seen = table.snapshots().column("snapshot_id")[0].as_py(), table.snapshot
    newest = lake.table("a.b").append(rows(500)).snapshot
    with pytest.raises(nb.ConflictError, match="refresh") as caught:
        table.rollback(first)
    assert (caught.value.kind, caught.value.base, caught.value.winner) == (
        "reference",
        seen,
        newest,
    )
    assert lake.table("a.b").num_rows == 25
    assert table.refresh().rollback(first).num_rows == 10


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_nothing_is_left_of_rows_that_must_be_gone(lake: nb.Catalog, data_format: Any) -> None:
    """As docs/reference/maintenance.md says, in "Rows that must be gone"."""
    people = pa.table({"no": range(3000), "mail": [f"person{i}@b" for i in range(3000)]})
    table = lake.create_table("s.p", people, primary_key="no", data_format=data_format)
    table.upsert(pa.table({"no": [1, 2], "mail": ["AAERASEME", "zz"]}))
    table.rewrite_manifests()
    table.tag("before")

    def left() -> list[str]:
        kept = [path for path in files(table) if not path.endswith(".db")]
        return [path for path in kept if b"AAERASEME" in Path(path).read_bytes()]

    assert any("plan-" in path for path in left())
    gone = "no = 1"
    table.delete(gone)
    table.compact(filter=gone, where_needed=False)
    table.rewrite_manifests(whole=True)
    table.drop_reference("before")
    assert left()
    table.expire(keep=1)
    assert left() == []
    assert table.num_rows == 2999
    assert lake.table("s.p").get(2) == {"no": 2, "mail": "zz"}
    assert table.rewrite_manifests(whole=True).files == lake.table("s.p").health().files


def files(table: nb.Table) -> set[str]:
    root = table.location.removeprefix("file://")
    return {os.path.join(d, name) for d, _, names in os.walk(root) for name in names}


def reachable(table: nb.Table) -> set[str]:
    found = table.census().to_pylist()
    return {row["path"] for row in found if row["reachable"]}


def test_expire_removes_exactly_the_unreachable(table: nb.Table) -> None:
    for i in range(6):
        table.append(rows(100 * (i + 1)))
        table.overwrite(rows(50 * i), filter=f"k >= {100 * (i + 1)}")
    keep = table.snapshots().column("snapshot_id")[2].as_py()
    table.tag("kept", keep)
    before = table.to_table()
    done = table.expire(keep=2)
    assert len(done.snapshots) == 15 - 3
    assert done.files
    assert done.bytes > 0
    assert table.snapshots().num_rows == 3
    assert table.refresh().to_table().equals(before)
    assert table.at(tag="kept").num_rows == 15
    table.remove_orphans(older_than=dt.timedelta(0))
    assert files(table) == reachable(table)
    assert table.at(tag="kept").num_rows == 15
    with pytest.raises(nb.InvalidArgumentError, match="expired"):
        table.at(snapshot=done.snapshots[0])
    assert table.expire(keep=2).snapshots == ()


def test_properties_ask_for_more_history(table: nb.Table) -> None:
    with table.alter() as a:
        a.set_properties({"history.expire.min-snapshots-to-keep": "2"})
    assert len(table.expire(keep=1).snapshots) == 1
    with table.alter() as a:
        a.set_properties({"history.expire.max-snapshot-age-ms": str(10**9)})
    table.append(rows(500))
    assert table.expire(keep=1).snapshots == ()
    assert table.expire().snapshots == ()


def test_orphans(table: nb.Table) -> None:
    stray = Path(table.location.removeprefix("file://")) / "data" / "data-stray.nimble"
    stray.write_bytes(b"x" * 10)
    no_text = Path(os.fsdecode(os.fsencode(stray) + b"-\xff"))
    no_text.write_bytes(b"y")
    assert table.remove_orphans().files == ()
    found = table.remove_orphans(older_than=dt.timedelta(0), dry_run=True)
    assert str(stray) in found.files
    row = next(r for r in table.census().to_pylist() if r["path"] == str(stray))
    assert (row["reachable"], row["kind"], row["bytes"]) == (False, "data", 10)
    done = table.remove_orphans(older_than=dt.timedelta(0))
    assert set(done.files) == set(found.files)
    assert not stray.exists()
    assert not no_text.exists()
    assert files(table) == reachable(table)
    assert table.refresh().num_rows == 15


def _instants(table: nb.Table, steps: int) -> list[dt.datetime]:
    """A time at which each of some appends was the newest."""
    found = []
    for step in range(steps):
        table.append(rows(100 * step, 1))
        found.append(table.snapshots().column("timestamp")[-1].as_py())
    return found


def test_a_time_whose_snapshot_expired_has_no_answer(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(0, 1))
    begin = table.snapshots().column("timestamp")[0].as_py()
    table.tag("first")
    times = _instants(table, 4)
    table.expire(keep=2)
    assert table.at(tag="first").num_rows == 1
    for gone in (begin, *times[:2]):
        with pytest.raises(nb.InvalidArgumentError, match="or the snapshot has expired"):
            table.at(time=gone)
    assert [table.at(time=time).num_rows for time in times[2:]] == [4, 5]


def test_a_time_in_a_log_that_another_writer_filtered(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nimblepy.table import iceberg as ice

    table = lake.create_table("a.b", rows(0, 1))
    begin = table.snapshots().column("timestamp")[0].as_py()
    table.tag("first")
    times = _instants(table, 3)
    monkeypatch.setattr(
        ice.catalogs, "_log_after", lambda log, gone: [e for e in log if e.snapshot_id not in gone]
    )
    table.expire(keep=2)
    assert len(table._metadata.ice.metadata.snapshot_log) == 3
    for gone in (begin, times[0]):
        with pytest.raises(nb.InvalidArgumentError, match="or the snapshot has expired"):
            table.at(time=gone)
    assert [table.at(time=time).num_rows for time in times[1:]] == [3, 4]


def test_times_before_a_rollback(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(0, 1))
    first = table.snapshot
    assert first is not None
    times = _instants(table, 2)
    table.rollback(first)
    times += _instants(table, 1)
    assert [table.at(time=time).num_rows for time in times] == [2, 3, 2]


def _describe(lake: nb.Catalog, table: nb.Table) -> set[str]:
    """Statistics of the newest snapshot, as other engines write them; gives their paths."""
    folder = table.location.removeprefix("file://") + "/metadata"
    paths = [f"{folder}/{table.snapshot}{end}" for end in (".stats", "-partitions.parquet")]
    for path in paths:
        Path(path).write_bytes(b"PFA1 and so on")
    common = {"snapshot-id": table.snapshot, "file-size-in-bytes": 14}
    common = {**common, "file-footer-size-in-bytes": 4, "blob-metadata": []}
    whole = StatisticsFile(**common, **{"statistics-path": f"file://{paths[0]}"})
    by_partition = PartitionStatisticsFile(**common, **{"statistics-path": f"file://{paths[1]}"})
    lake.iceberg.commit_table(
        lake.iceberg.load_table(("a", "b")),
        (),
        (
            SetStatisticsUpdate(statistics=whole),
            SetPartitionStatisticsUpdate(**{"partition-statistics": by_partition}),
        ),
    )
    return set(paths)


def test_statistics_of_other_engines_go_with_their_snapshot(
    lake: nb.Catalog, table: nb.Table
) -> None:
    old = _describe(lake, table)
    table.append(rows(50))
    new = _describe(lake, table)
    assert not table.remove_orphans(older_than=dt.timedelta(0)).files
    found = table.census().to_pylist()
    assert {r["path"] for r in found if r["kind"] == "statistics" and r["reachable"]} == old | new
    planned = table.expire(keep=1, dry_run=True)
    done = table.expire(keep=1)
    assert old <= set(planned.files)
    assert set(planned.files) <= set(done.files)  # which has old metadata as well
    assert not new & set(done.files)
    assert all(os.path.exists(path) for path in new)
    assert not table.remove_orphans(older_than=dt.timedelta(0)).files


def _retain(lake: nb.Catalog, table: nb.Table, name: str, kind: str, **fields: int) -> None:
    """Says how long snapshots stay, as other engines do; there is such a reference."""
    known = lake.iceberg.load_table(("a", "b"))
    number = known.metadata.refs[name].snapshot_id
    update = SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=number, **fields)
    lake.iceberg.commit_table(known, (), (update,))
    table.refresh()


def test_what_a_branch_says_of_its_snapshots_stays_and_holds(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(0, 1))
    first = table.snapshot
    assert first is not None
    said = {"min_snapshots_to_keep": 3, "max_snapshot_age_ms": 1, "max_ref_age_ms": 10**12}
    _retain(lake, table, "main", "branch", **said)

    def now() -> dict[str, int | None]:
        main = lake.iceberg.load_table(("a", "b")).metadata.refs["main"]
        return {name: getattr(main, name) for name in said}

    _instants(table, 5)
    assert now() == said
    assert len(table.expire(keep=1).snapshots) == 3
    table.rollback(table.snapshots().column("snapshot_id")[0].as_py())
    assert now() == said


def test_a_branch_says_how_long_its_snapshots_stay(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(0, 1))
    _retain(lake, table, "main", "branch", max_snapshot_age_ms=10**9)
    _instants(table, 3)
    assert table.expire(keep=1).snapshots == ()
    with table.alter() as a:
        a.set_properties({"history.expire.max-snapshot-age-ms": str(10**9)})
    _retain(lake, table, "main", "branch", max_snapshot_age_ms=1)
    assert len(table.expire(keep=1).snapshots) == 3


def test_a_tag_goes_when_it_is_as_old_as_it_says(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(0, 1))
    table.tag("short").tag("long")
    _instants(table, 2)
    table.tag("later")
    table.append(rows(50, 1))
    _retain(lake, table, "short", "tag", max_ref_age_ms=1)
    _retain(lake, table, "long", "tag", max_ref_age_ms=10**9)
    _retain(lake, table, "later", "tag", max_ref_age_ms=1)
    assert len(table.expire(keep=1).snapshots) == 2
    assert set(table.tags) == {"short", "long"}


def test_a_clock_that_goes_back(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.table import update as ice_update

    from nimblepy.table import iceberg as ice

    class Clock:
        """An hour late."""

        sleep = staticmethod(time.sleep)

        @staticmethod
        def time() -> float:
            return time.time() - 3600

    class Datetime(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Datetime:
            return super().now(tz) - dt.timedelta(hours=1)

    table = lake.create_table("a.b", rows(0, 1))
    first = table.snapshot
    assert first is not None
    table.append(rows(10, 1))

    def metadata() -> Any:
        return lake.iceberg.load_table(("a", "b")).metadata

    before = metadata().last_updated_ms
    monkeypatch.setattr(ice.snapshot_commit, "time", Clock)
    monkeypatch.setattr(ice.private, "time", Clock)
    monkeypatch.setattr(ice_update, "datetime", Datetime)
    steps: list[Callable[[], object]] = [
        lambda: table.tag("one"),
        lambda: table.append(rows(20, 1)),
        lambda: table.rollback(first),
        lambda: table.append(rows(30, 1)),
    ]
    for step in steps:
        step()
        now = metadata()
        times = [entry.timestamp_ms for entry in now.snapshot_log]
        assert times == sorted(set(times))
        assert times[-1] <= now.last_updated_ms
        assert before < now.last_updated_ms < before + 1000
        before = now.last_updated_ms
    instants = [dt.datetime.fromtimestamp(t / 1000, dt.UTC) for t in times]
    assert [table.at(time=at).num_rows for at in instants] == [1, 2, 3, 1, 2]


def _old_file(table: nb.Table, name: str) -> str:
    """A file below the table that nothing names, a month old."""
    path = os.path.join(ice.local_path(table.location) or "", "data", name)
    nb.write(table.to_table().slice(0, 1), path)
    then = time.time() - 30 * 86_400
    os.utime(path, (then, then))
    return path


@pytest.mark.parametrize("when", ["before the last look", "after it"])
def test_old_files_that_are_added_meanwhile_stay(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    table = lake.create_table("a.b", pa.table({"n": range(4)}))
    adopted, orphan = _old_file(table, "adopted.nimble"), _old_file(table, "orphan.nimble")
    other = lake.table("a.b")
    if when == "after it":
        plain, steps = maintain._remove_all, [lambda: other.add_files([adopted])]

        def late(*arguments: Any) -> Any:
            while steps:
                steps.pop()()
            return plain(*arguments)

        monkeypatch.setattr(maintain, "_remove_all", late)
    else:  # by an engine that does not make it young
        monkeypatch.setattr(adding, "_make_young", lambda *_: None)
        listed = maintain._files_below

        def listing(location: str) -> Any:
            found = listed(location)
            if location == table.location:
                other.add_files([adopted])
            return found

        monkeypatch.setattr(maintain, "_files_below", listing)
    assert table.remove_orphans().files == (orphan,)
    assert not os.path.exists(orphan)
    assert sorted(lake.table("a.b").to_table()["n"].to_pylist()) == [0, 0, 1, 2, 3]


def test_the_past_has_the_columns_of_its_snapshot(lake: nb.Catalog) -> None:
    """Of when that was committed: a change of columns alone makes no snapshot."""
    table = lake.create_table("a.b", pa.table({"k": [1]}))
    table.tag("then").branch("side")
    with table.alter() as a:
        a.add_column("n", pa.int64(), default=7)
    newest = table.snapshot
    past = [
        table.at(tag="then"),
        table.at(snapshot=newest),
        table.at(time=dt.timedelta(0)),
    ]
    for then in past:
        assert then.schema.names == pickle.loads(pickle.dumps(then)).schema.names == ["k"]
    table.append(pa.table({"k": [2], "n": [3]}))
    assert sorted(table.at(branch="main").to_table()["n"].to_pylist()) == [3, 7]
    assert table.at(branch="side").to_table()["n"].to_pylist() == [7]


def test_ids_survive_pandas(lake: nb.Catalog) -> None:
    # Ids of snapshots became floats beside a null, and lost their last digits.
    table = lake.create_table("a.ids", pa.table({"x": [1]}))
    table.append({"x": [2]})
    history = table.snapshots()
    frame = history.to_pandas()
    for name in ("snapshot_id", "parent_id", "rows_inserted", "rows_updated"):
        assert frame[name].dtype == "Int64"
    assert frame["parent_id"][0] is pd.NA
    assert int(frame["parent_id"][1]) == history["parent_id"][1].as_py()
    assert table.at(snapshot=frame["parent_id"][1]).num_rows == 1
    assert history.slice(0, 1).to_pandas()["parent_id"].dtype == "Int64"


@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("partition_by", [[], ["name"]], ids=["unpartitioned", "partitioned"])
@pytest.mark.usefixtures("library_reads_nimble")
def test_manifests_forget_what_must_be_gone(
    lake: nb.Catalog, partition_by: list[str], left: int
) -> None:
    """A manifest was kept, with an entry that has the values of a removed file."""
    schema = pa.schema({"no": pa.int64(), "name": pa.string()})
    table = lake.create_table("s.gone", schema, partition_by=partition_by)
    for no in range(left):
        table.append({"no": [no], "name": ["anna"]})
    table.append({"no": [4711], "name": ["ZZSECRET"]})
    table.delete("no = 4711")
    table.compact(filter="no = 4711", where_needed=False)
    table.rewrite_manifests(whole=True)
    table.expire(keep=1)
    io = table.iceberg.io
    snapshot = table.iceberg.current_snapshot()
    assert snapshot is not None
    for manifest in snapshot.manifests(io):
        entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
        assert not any("ZZSECRET" in str(entry) for entry in entries)
        assert not any(b"ZZSECRET" in (entry.data_file.upper_bounds or {}).get(2, b"")
                       for entry in entries)  # fmt: skip
    assert table.to_table().num_rows == left
