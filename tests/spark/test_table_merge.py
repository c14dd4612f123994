"""Merges of DataFrames into tables: the same as of one process, whoever does them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns
from nimblepy.spark.writing import merge as merging

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us", "UTC"), "v": pa.int32()})
COLUMNS = ("timestamp_seconds(id * 60) AS ts", "CAST(id AS INT) AS v")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> nb.Catalog:
    return nb.connect(tmp_path_factory.mktemp("merges") / "lake")


def stock(spark: Any, lake: nb.Catalog, name: str, **more: Any) -> nb.Table:
    table = lake.create_table(f"a.{name}", SCHEMA, **({"primary_key": "k"} | more))
    rows = spark.range(600).selectExpr("id AS k", *COLUMNS).toArrow()
    table.append(rows.slice(0, 300))
    table.append(rows.slice(300))
    return table


def changes(spark: Any) -> Any:
    """Rows of which half are new; of others, some are to go."""
    return spark.range(1, 1200, 7).selectExpr(
        "id AS k", *COLUMNS, "CASE WHEN id % 3 = 0 THEN 'd' ELSE 'u' END AS op"
    )


def with_clauses(merge: Any) -> Any:
    return (
        merge.when_matched(delete=True, condition="source.op = 'd'")
        .when_matched(update={"v": "target.v + source.v"}, condition=pc.field("target", "v") > 9)
        .when_not_matched(condition="source.op = 'u'")
        .when_not_matched_by_source(condition="target.k BETWEEN 100 AND 110")
    )


def left(table: nb.Table) -> int:
    return len(table.remove_orphans(older_than=dt.timedelta(0), dry_run=True).files)


@pytest.mark.parametrize("where", ["driver", "tasks"])
def test_merges_are_those_of_one_process(
    spark: Any, lake: nb.Catalog, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stock(spark, lake, f"one_{where}")
    other = stock(spark, lake, f"other_{where}", partition_by=["bucket(2, k)"])
    wanted = with_clauses(one.merge(changes(spark).toArrow())).execute()
    if where == "tasks":
        monkeypatch.setattr(merging, "ALONE_BYTES", 100)
    done = with_clauses(ns.merge(changes(spark), other, files=3, batch=("x", 1))).execute()
    assert one.to_table().sort_by("k") == other.to_table().sort_by("k")
    for name in ("rows_inserted", "rows_updated", "rows_deleted"):
        assert getattr(done, name) == getattr(wanted, name)
    assert left(other) == 0
    assert other.snapshots().num_rows == 3
    again = with_clauses(ns.merge(changes(spark), other, batch=("x", 1))).execute()
    assert (again.snapshot, other.snapshots().num_rows) == (other.snapshot, 3)
    # A DataFrame without rows has no matches.
    ns.merge(changes(spark).where("false"), other).when_not_matched_by_source().execute()
    assert other.num_rows == 0


def test_another_commit_between(
    spark: Any, lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stock(spark, lake, "between")
    beside = lake.table("a.between")
    monkeypatch.setattr(merging, "ALONE_BYTES", 100)
    worked = []

    class Tasks(merging._Tasks):
        def outcomes(self, parts: Any, rows: Any, target: Any) -> Any:
            found = super().outcomes(parts, rows, target)
            worked.append(len(parts))
            if len(worked) == 1:
                beside.upsert(pa.table({"k": [8], "v": pa.array([1000], pa.int32())}))
            return found

    monkeypatch.setattr(merging, "_Tasks", Tasks)
    merge = ns.merge(changes(spark), table, files=3)
    merge.when_matched(update={"v": "target.v + source.v"}).execute()
    assert worked == [3, 1]
    assert [table.get(k)["v"] for k in (1, 8, 9, 15)] == [2, 1008, 9, 30]
    assert left(table) == 0


def test_what_does_not_fit(spark: Any, lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stock(spark, lake, "fit")
    before = table.snapshot
    some = changes(spark)
    with pytest.raises(nb.InvalidArgumentError, match="no clause"):
        ns.merge(some, table).execute()
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'w'"):
        ns.merge(some, table).when_matched(update={"w": "1"}).execute()
    with pytest.raises(nb.InvalidArgumentError, match="expected a Table"):
        ns.merge(some, "dir")  # type: ignore[arg-type]
    with pytest.raises(nb.InvalidArgumentError, match="files: expected an int >= 1"):
        ns.merge(some, table, files=0)
    twice = some.union(changes(spark).where("k = 8"))
    with pytest.raises(nb.DuplicateKeyError, match="the key k=8 is in two rows"):
        ns.merge(twice, table, files=3).when_not_matched().execute()
    monkeypatch.setattr(merging, "ALONE_BYTES", 100)
    with pytest.raises(nb.InvalidArgumentError, match="column 'k' is missing"):
        ns.merge(some.selectExpr("k AS x", "v"), table, {"x": "v"}).when_not_matched().execute()
    assert table.refresh().snapshot == before
    table.remove_orphans(older_than=dt.timedelta(0))
    assert left(table) == 0
