"""Writing from Spark: ranges, modes, and that a failure leaves the old data or the new."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")

import nimblepy.spark as ns
from nimblepy.spark.writing.write import NimbleWriter, WrittenFile


def visible(path: Path) -> list[int]:
    return sorted(nb.open_dataset(path).to_table(["k"]).column("k").to_pylist())


def test_write_gives_disjoint_sorted_files(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(20_000).selectExpr("id % 5000 AS k", "id AS v", "repeat('x', 50) AS s")
    ns.write(frame, tmp_path / "d", cluster_by="k", files=4)
    ds = nb.open_dataset(tmp_path / "d")
    assert len(ds.paths) == 4
    assert ds._current.files.bounds.disjoint
    assert ds.count([0, 4999, 5000]).to_pylist() == [4, 4, 0]
    assert ds.range().column("k").to_pylist() == sorted(i % 5000 for i in range(20_000))
    for i in range(len(ds.paths)):
        ds._current.child(i).verify()
    assert not (tmp_path / "d" / "_temporary").exists()


@pytest.mark.parametrize(
    "key", ["k", nb.SortKey("k", descending=True), nb.SortKey("k", nulls_first=True)], ids=str
)
def test_write_puts_equal_keys_in_one_file(spark: Any, tmp_path: Path, key: Any) -> None:
    values = [0.0, -0.0, float("nan"), None, float("inf"), 1.5, -1.5] * 40
    frame = spark.createDataFrame([(v, i) for i, v in enumerate(values)], "k double, v long")
    ns.write(frame.repartition(3), tmp_path / "d", cluster_by=[key], files=5)
    ds = nb.open_dataset(tmp_path / "d")
    assert ds._current.files.bounds.disjoint
    assert len(ds.paths) > 1
    keys = [0.0, float("nan"), None, float("inf"), 1.5]
    assert ds.count(keys, null_equals=True).to_pylist() == [80, 40, 40, 40, 40]


def test_append_overwrite_and_the_modes_that_spark_has(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    directory = tmp_path / "d"
    one = spark.range(3).withColumnRenamed("id", "k")
    writer = one.write.format("nimble").option("cluster_by", "k desc")
    writer.mode("append").save(str(directory))
    assert nb.open_dataset(directory).cluster_by == [nb.SortKey("k", descending=True)]
    one.selectExpr("k + 10 AS k").write.format("nimble").mode("append").save(str(directory))
    assert visible(directory) == [0, 1, 2, 10, 11, 12]
    assert nb.open_dataset(directory).get(11) == {"k": 11}
    with pytest.raises(PySparkException, match="clustered by"):
        writer.option("cluster_by", "k").mode("append").save(str(directory))
    with pytest.raises(PySparkException):
        one.selectExpr("k AS other").write.format("nimble").mode("append").save(str(directory))
    assert visible(directory) == [0, 1, 2, 10, 11, 12]
    ns.write(one.selectExpr("k", "'x' AS s"), directory, cluster_by="k")
    assert nb.open_dataset(directory).to_table().column("s").to_pylist() == ["x"] * 3
    ns.write(one.selectExpr("k", "'x' AS s").filter("k < 0"), directory, cluster_by="k")
    assert nb.open_dataset(directory).num_rows == 0
    assert spark.read.format("nimble").load(str(directory)).count() == 0


def test_written_types_come_back(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT id AS k, timestamp'2024-01-01 01:02:03' AS t, array(struct(1 AS a, 'x' AS b)) AS l,"
        " map('m', CAST(1.5 AS DECIMAL(5,2))) AS m, date'1960-01-01' AS d FROM range(2)"
    )
    ns.write(frame, tmp_path / "d", cluster_by="k", options=nb.WriteOptions(stripe_rows=10))
    back = spark.read.format("nimble").load(str(tmp_path / "d"))
    assert [f.dataType for f in back.schema] == [f.dataType for f in frame.schema]
    assert sorted(back.collect()) == sorted(frame.collect())


def test_failed_task_leaves_the_old_data(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    directory = tmp_path / "d"
    ns.write(spark.range(3).selectExpr("nullif(id, 9) AS k"), directory, cluster_by="k")
    failing = spark.range(0, 1000, 1, 4).selectExpr(
        "IF(id = 900, CAST(raise_error('boom') AS BIGINT), id) AS k"
    )
    for mode in ("overwrite", "append"):
        with pytest.raises(PySparkException, match="boom"):
            failing.write.format("nimble").option("cluster_by", "k").mode(mode).save(str(directory))
        assert visible(directory) == [0, 1, 2]


def test_unknown_columns_and_collations_are_refused_before_any_task(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    frame = spark.range(3).selectExpr("id AS k", "CAST(id AS STRING) COLLATE UNICODE_CI AS s")
    for key, message in (("q", "unknown column 'q'"), ("s", "collation")):
        with pytest.raises(PySparkException, match=message):
            frame.write.format("nimble").option("cluster_by", key).mode("append").save(
                str(tmp_path / "d")
            )
    with pytest.raises(nb.InvalidArgumentError, match="cluster_by"):
        ns.write(frame, tmp_path / "d", cluster_by=[])


def job(directory: Path, overwrite: bool = True) -> NimbleWriter:
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([StructField("k", LongType())])
    return NimbleWriter(schema, {"path": str(directory), "cluster_by": "k"}, overwrite)


def batches(*values: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"k": pa.array(values, pa.int64())})


def test_speculated_and_late_attempts_stay_invisible(spark: Any, tmp_path: Path) -> None:
    writer = job(tmp_path)
    won = writer.write(batches(1, 2))
    writer.write(batches(1, 2))  # a speculated attempt of the same task: its message is dropped
    writer.commit([won])
    assert visible(tmp_path) == [1, 2]
    late = job(tmp_path)
    late.abort([None])
    late.write(batches(7, 8))  # Spark may start a retry after abort() was called
    writer.write(batches(9))  # or finish an attempt after the commit
    assert visible(tmp_path) == [1, 2]
    assert isinstance(won, WrittenFile)
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".nimble")]) == 1


def test_commit_that_dies_halfway_leaves_the_old_data(spark: Any, tmp_path: Path) -> None:
    first = job(tmp_path)
    first.commit([first.write(batches(1))])
    second = job(tmp_path)
    messages = [second.write(batches(2)), WrittenFile("missing.nimble")]
    with pytest.raises(FileNotFoundError, match="missing"):
        second.commit(messages)
    second.abort(messages)
    assert visible(tmp_path) == [1]
    third = job(tmp_path, overwrite=False)
    third.commit([third.write(batches(3))])
    assert visible(tmp_path) == [1, 3]
    assert sorted(os.listdir(tmp_path))[0] != "_temporary"


def test_mode_error_refuses_files(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(3).withColumnRenamed("id", "k")
    ns.write(frame, tmp_path / "d", cluster_by="k", mode="error")
    assert visible(tmp_path / "d") == [0, 1, 2]
    with pytest.raises(nb.InvalidArgumentError, match="has files"):
        ns.write(frame, tmp_path / "d", cluster_by="k", mode="error")
    for wrong in ({"mode": "upsert"}, {"batch": ("a", 1)}, {"filter": "k = 1"}):
        with pytest.raises(nb.InvalidArgumentError):
            ns.write(frame, tmp_path / "d", cluster_by="k", **wrong)


def test_failed_batch_leaves_no_file_of_the_attempt(spark: Any, tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(1)
        raise RuntimeError("the task was killed")

    writer = job(tmp_path)
    with pytest.raises(RuntimeError, match="killed"):
        writer.write(broken())
    found = [name for _, _, names in os.walk(tmp_path) for name in names]
    assert found == []
