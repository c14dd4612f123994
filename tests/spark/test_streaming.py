"""Structured Streaming: the join in a stream, and writing batches that may come again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Any:
    source = tmp_path / "in"
    for i in range(2):
        spark.range(i * 5, i * 5 + 5).selectExpr("id AS k").coalesce(1).write.mode(
            "append"
        ).parquet(str(source))
    return spark.readStream.schema("k bigint").option("maxFilesPerTrigger", 1).parquet(str(source))


def test_index_join_in_a_stream(stream: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1, 7, 7], "v": ["a", "b", "c"]}), path, cluster_by="k")
    found: list[Any] = []

    def collect(batch: Any, _: int) -> None:
        found.extend(tuple(row) for row in batch.collect())

    joined = ns.index_join(stream, path, on="k")
    query = joined.writeStream.foreachBatch(collect).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(found) == [(1, "a"), (7, "b"), (7, "c")]


def test_batches_written_twice_are_there_once(stream: Any, tmp_path: Path) -> None:
    lake = nb.connect(str(tmp_path / "lake"))
    table = lake.create_table("a.out", pa.schema([("k", pa.int64())]), cluster_by="k")

    def write(batch: Any, number: int) -> None:
        for _ in range(2):  # as after a failure between our commit and Spark's
            ns.write(batch, table, mode="append", batch=("ingest", number), files=1)

    query = stream.writeStream.foreachBatch(write).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(table.to_table().column("k").to_pylist()) == list(range(10))
