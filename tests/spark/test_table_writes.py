"""Writing to tables from Spark: tasks describe their files, the driver commits them once."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns
from nimblepy.spark.base.schemas import spark_schema
from nimblepy.spark.writing import merge
from nimblepy.spark.writing.table import TableWriter
from nimblepy.spark.writing.write import NimbleWriter
from nimblepy.table.distributed import commit_files, write_target

Rows = Callable[[Any], list[Any]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> nb.Catalog:
    return nb.connect(tmp_path_factory.mktemp("writes") / "lake")


def frame(spark: Any, keys: range, v: int) -> Any:
    return spark.range(keys.start, keys.stop, keys.step).selectExpr(
        "id AS k",
        "concat('g', id % 3) AS g",
        "timestamp_seconds(id * 3600 - 100000) AS ts",
        f"CAST({v} AS INT) AS v",
    )


SCHEMA = pa.schema(
    {"k": pa.int64(), "g": pa.string(), "ts": pa.timestamp("us", "UTC"), "v": pa.int32()}
)


def values(table: nb.Table) -> dict[int, int]:
    found = table.to_table(["k", "v"]).to_pylist()
    assert len({row["k"] for row in found}) == len(found)
    return {row["k"]: row["v"] for row in found}


def orphans(table: nb.Table) -> int:
    return len(table.remove_orphans(older_than=dt.timedelta(0), dry_run=True).files)


def test_append_and_overwrite(spark: Any, lake: nb.Catalog) -> None:
    table = lake.create_table(
        "a.b", SCHEMA, cluster_by="k", partition_by=["g", "bucket(2, k)", "month(ts)"]
    )
    done = ns.write(frame(spark, range(3000), 1), table, mode="append")
    assert done is not None
    assert (done.rows_inserted, done.snapshot) == (3000, table.snapshot)
    # Rows of a partition are together, but for those where one of the two tasks ends.
    partitions = {member.file.partition for member in table._current.members}
    assert len(partitions) <= done.files_added <= len(partitions) + 1
    assert values(table) == dict.fromkeys(range(3000), 1)
    assert table.get(17)["ts"] == dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
        seconds=17 * 3600 - 100000
    )
    # Some partitions anew: all of g1, and nothing of others.
    changed = frame(spark, range(1, 30, 3), 2)
    with table.alter() as a:
        a.partition_by("g")
    done = ns.write(changed, table, mode="overwrite", partition_overwrite="dynamic")
    expected = {k: 1 for k in range(3000) if k % 3 != 1} | dict.fromkeys(range(1, 30, 3), 2)
    assert values(table) == expected
    done = ns.write(changed, table, filter="k < 1000 AND g = 'g2'")
    assert done is not None
    assert done.rows_deleted == 333
    ns.write(frame(spark, range(5), 3), table)
    assert values(table) == dict.fromkeys(range(5), 3)
    assert orphans(table) == 0


def test_batches_are_added_once(spark: Any, lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.once", SCHEMA)
    other = lake.table("a.once")
    for number in (0, 1, 1, 0):
        ns.write(
            frame(spark, range(number, 20, 2), number), table, mode="append", batch=("x", number)
        )
    assert table.num_rows == 20
    # The record outlives the snapshot that made it, and other writers.
    other.append(table.to_table().slice(0, 1))
    other.expire(keep=1)
    target = write_target(table)
    from nimblepy.table.writing.write import write_rows

    files = write_rows(other.to_table(), target)
    assert commit_files(table, files, batch=("x", 1)).rows_inserted == 0
    assert orphans(table) == 0
    assert commit_files(table, write_rows(other.to_table(), target), batch=("y", 1)).snapshot
    assert table.num_rows == 42


@pytest.mark.parametrize(("where", "version"), [("driver", 2), ("tasks", 2), ("driver", 3)])
def test_upsert(
    spark: Any, lake: nb.Catalog, where: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "tasks":
        monkeypatch.setattr(merge, "ALONE_BYTES", 0)
    table = lake.create_table(
        f"a.keyed_{where}_{version}",
        SCHEMA,
        primary_key="k",
        partition_by=["bucket(2, k)"],
        format_version=version,
    )
    ns.write(frame(spark, range(100), 1), table, mode="append")
    if version == 3:
        ids = {row["k"]: row["_row_id"] for row in table.to_table(["k", "_row_id"]).to_pylist()}
    done = ns.write(frame(spark, range(90, 120), 2), table, mode="upsert")
    if version == 3:
        now = {row["k"]: row["_row_id"] for row in table.to_table(["k", "_row_id"]).to_pylist()}
        assert {key: now[key] for key in ids} == ids
        assert len({*now.values()}) == 120
    assert done is not None
    assert (done.rows_inserted, done.rows_updated) == (20, 10)
    assert values(table) == dict.fromkeys(range(90), 1) | dict.fromkeys(range(90, 120), 2)
    before = table.snapshot
    with pytest.raises(nb.DuplicateKeyError, match="in the table already"):
        ns.write(frame(spark, range(3), 9), table, mode="append")
    twice = frame(spark, range(3), 9).union(frame(spark, range(2, 4), 9))
    with pytest.raises(nb.DuplicateKeyError, match=r"same key|k=2"):
        ns.write(twice, table, mode="upsert")
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'w'"):
        ns.write(frame(spark, range(3), 9).selectExpr("k", "v AS w"), table, mode="upsert")
    assert table.refresh().snapshot == before
    lacking = frame(spark, range(119, 122), 9).select("k")
    for _ in range(2):  # the second is the same batch
        ns.write(lacking, table, mode="upsert", batch=("some", 1))
    assert table.num_rows == 122
    assert [table.get(key) for key in (119, 121)] == [
        dict.fromkeys(table.schema.names) | {"k": key} for key in (119, 121)
    ]


def test_failed_tasks_leave_nothing_that_is_reachable(spark: Any, lake: nb.Catalog) -> None:
    table = lake.create_table("a.failed", SCHEMA, cluster_by="k")
    ns.write(frame(spark, range(10), 1), table, mode="append")
    bad = frame(spark, range(100), 2).withColumn("v", spark_error("k", "v"))
    with pytest.raises(Exception, match="boom"):
        ns.write(bad.repartition(2), table, mode="append")
    assert values(table.refresh()) == dict.fromkeys(range(10), 1)
    table.remove_orphans(older_than=dt.timedelta(0))
    there = Path(table.location.removeprefix("file://")).rglob("*")
    reachable = {row["path"] for row in table.census().to_pylist() if row["reachable"]}
    assert {str(path) for path in there if path.is_file()} == reachable


def spark_error(key: str, value: str) -> Any:
    from pyspark.sql import functions as F

    return F.when(F.col(key) == 99, F.raise_error(F.lit("boom")).cast("int")).otherwise(
        F.col(value)
    )


def test_data_frame_writers(spark: Any, lake: nb.Catalog) -> None:
    table = lake.create_table("a.writer", SCHEMA)
    writer = frame(spark, range(10), 1).write.format("nimble").option("table", "a.writer")
    writer.option("catalog", lake.__reduce__()[1][0]).mode("append").save()
    assert values(table.refresh()) == dict.fromkeys(range(10), 1)


def test_options_of_data_frame_writers_are_heeded_or_refused(
    lake: nb.Catalog, tmp_path: Path
) -> None:
    table = lake.create_table("a.options", SCHEMA, partition_by="g")
    place = {"catalog": lake.__reduce__()[1][0], "table": "a.options"}
    schema = spark_schema(SCHEMA)

    def save(keys: range, v: int, *, overwrite: bool = True, **options: str) -> None:
        rows = [{"k": k, "g": f"g{k % 3}", "v": v} for k in keys]
        writer = TableWriter(schema, place | options, overwrite)
        writer.commit([writer.write(iter(pa.Table.from_pylist(rows, SCHEMA).to_batches()))])
        table.refresh()

    save(range(6), 1)
    table.branch("dev")
    before = table.snapshot
    takes = "'catalog', 'catalog.NAME', 'table', 'branch', 'filter', 'partition_overwrite'"
    for name in ("tag", "snapshot", "time", "cluster_by", "batch", "path"):
        message = f"option '{name}': a write to a table has no such option; it takes {takes}"
        with pytest.raises(nb.InvalidArgumentError, match=message):
            save(range(3), 2, **{name: "dev"})
    with pytest.raises(nb.InvalidArgumentError, match="allowed only with mode='overwrite'"):
        save(range(3), 2, overwrite=False, filter="k = 1")
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'nope'"):
        save(range(3), 2, filter="nope = 1")
    with pytest.raises(nb.InvalidArgumentError, match="'static' or 'dynamic'"):
        save(range(3), 2, partition_overwrite="all")
    assert (table.refresh().snapshot, orphans(table)) == (before, 0)
    save(range(9), 3, branch="dev")
    assert table.snapshot == before
    assert values(table.at(branch="dev")) == dict.fromkeys(range(9), 3)
    save(range(1, 2), 2, partition_overwrite="dynamic")
    assert values(table) == {0: 1, 1: 2, 2: 1, 3: 1, 5: 1}
    save(range(2, 4), 2, filter="k IN (2, 3)")
    assert values(table) == {0: 1, 1: 2, 2: 2, 3: 2, 5: 1}
    for name in ("branch", "catalog", "filter", "cluster"):
        with pytest.raises(nb.InvalidArgumentError, match=f"option '{name}': a write to a dir"):
            NimbleWriter(schema, {"path": str(tmp_path / "d"), name: "k"}, overwrite=True)


def test_numbers_of_files_that_are_none(spark: Any, lake: nb.Catalog, tmp_path: Path) -> None:
    some, table = frame(spark, range(3), 1), lake.create_table("a.files", SCHEMA)
    for files in (0, -1, 1.5, "x", True):
        for where in (table, tmp_path / "d"):
            with pytest.raises(nb.InvalidArgumentError, match="files: expected an int >= 1"):
                ns.write(some, where, files=files)  # type: ignore[arg-type]


def test_what_does_not_fit(spark: Any, lake: nb.Catalog) -> None:
    table = lake.create_table("a.fit", SCHEMA)
    some = frame(spark, range(3), 1)
    for arguments, message in (
        ({"mode": "merge"}, "mode: expected one of"),
        ({"mode": "append", "filter": "k = 1"}, "mode='overwrite'"),
        ({"partition_overwrite": "dynamic", "filter": "k = 1"}, "not both"),
        ({"partition_overwrite": "all"}, "'static' or 'dynamic'"),
        ({"cluster_by": "k"}, "the table defines it"),
        ({"batch": "x"}, r"batch: expected \(name, number\)"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            ns.write(some, table, **arguments)
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'w'"):
        ns.write(some.withColumnRenamed("v", "w"), table)
    with pytest.raises(nb.InvalidArgumentError, match="read-only"):
        ns.write(some, table.at(snapshot=table.append(pa.table({"k": [1]})).snapshot))
    with pytest.raises(nb.InvalidArgumentError, match="no primary key"):
        ns.write(some, table, mode="upsert")
    assert table.num_rows == 1
    assert orphans(table) == 0


def test_an_abort_leaves_files_of_a_commit_in_doubt(
    spark: Any, lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("a.aborted", SCHEMA)
    some = frame(spark, range(3), 1)
    options = {"catalog": lake.__reduce__()[1][0], "table": "a.aborted"}
    writer = TableWriter(some.schema, options, overwrite=False)
    message = writer.write(iter(some.toArrow().to_batches()))
    other = writer.write(iter(some.toArrow().to_batches()))
    assert orphans(table) == 2
    writer.abort([message])  # Spark calls it after a commit that raised an error
    assert orphans(table) == 2
    writer.abort([message, None])
    assert orphans(table) == 1
    writer.commit([other])
    assert values(table.refresh()) == dict.fromkeys(range(3), 1)


@pytest.mark.parametrize("layout", [None, nb.OTree(["a.b", "v"], cube_rows=50)])
def test_names_with_dots_and_columns_of_fixed_length(
    spark: Any, lake: nb.Catalog, layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nimblepy.spark.writing.merge.ALONE_BYTES", 0)
    table = lake.create_table(
        f"a.dots{layout is None}",
        pa.schema({"a.b": pa.int64(), "c`.d": pa.uuid(), "v": pa.int64()}),
        primary_key="c`.d",
        **({"layout": layout} if layout else {"partition_by": ["bucket(2, c`.d)"]}),
    )

    def rows(first: int, last: int, text: str = "md5(CAST(id AS STRING))") -> Any:
        made = spark.range(first, last).selectExpr("id", f"unhex({text}) AS u", "id * 2 AS v")
        return made.toDF("a.b", "c`.d", "v")

    assert ns.write(rows(0, 200), table, mode="append").rows_inserted == 200
    done = ns.merge(rows(150, 250), table, files=2).when_matched(update={"v": "1"})
    done = done.when_not_matched().execute()
    assert (done.rows_updated, done.rows_inserted) == (50, 50)
    wanted = rows(0, 250).toArrow().to_pylist()
    for row in wanted[150:200]:
        row["v"] = 1
    for row in wanted:
        row["c`.d"] = uuid.UUID(bytes=row["c`.d"])
    assert sorted(table.to_table().to_pylist(), key=lambda row: row["a.b"]) == wanted
    back = ns.scan(spark, table)
    assert ns.write(back, table, mode="overwrite").rows_inserted == 250
    for change in (
        lambda some: ns.write(some, table, mode="append"),
        lambda some: ns.merge(some, table, files=2).when_not_matched().execute(),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=r"'c`\.d'.*is not a UUID"):
            change(rows(300, 310, "CASE WHEN id = 305 THEN 'ff' ELSE md5(CAST(id AS STRING)) END"))
    assert table.num_rows == 250
    changed = ns.changes(spark, table, None).toArrow()
    assert set(changed.column_names) >= {"a.b", "c`.d", "v"}
