"""Run by test_cluster.py in a process of its own: the same checks on a cluster and on Connect.

python on_cluster.py cluster|connect DIRECTORY
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pyarrow as pa

import nimblepy as nb
import nimblepy.spark as ns
from conftest import SETTINGS, builder
from nimblepy.spark.writing import merge as merging
from nimblepy.spark.writing import upkeep


def session(kind: str) -> Any:
    from pyspark.sql import SparkSession

    if kind == "connect":
        os.environ["PYSPARK_PYTHON"] = sys.executable
        made = SparkSession.builder.remote("local[2]")
        for name, value in SETTINGS.items():
            made = made.config(name, value)
        return made.getOrCreate()
    made = builder("local-cluster[2,1,1024]").config("spark.executor.memory", "512m")
    return made.getOrCreate()


def main(kind: str, folder: str) -> None:
    spark = session(kind)
    path = os.path.join(folder, "dim.nimble")
    nb.write(pa.table({"k": [1, 1, 2], "v": ["a", "b", "c"]}), path, cluster_by="k")
    assert spark.read.format("nimble").load(path).count() == 3  # found without a register call
    probe = spark.range(0, 5, 1, 2).withColumnRenamed("id", "k")
    engines = ("arrow",) + (("rdd",) if kind == "cluster" else ())
    for engine in engines:
        joined = ns.index_join(probe, path, on="k", how="left", engine=engine)
        found = sorted((tuple(row) for row in joined.collect()), key=repr)
        assert found == [(0, None), (1, "a"), (1, "b"), (2, "c"), (3, None), (4, None)], found
    # On Connect every kind of join is rewritten; the rule has its own tests on one machine.
    hows = ("inner", "left", "semi", "anti") if kind == "connect" else ("left", "anti")
    check_plain_joins(spark, probe, path, hows)
    ns.register_lookup(spark, "dim", path)
    probe.createOrReplaceTempView("fact")
    assert spark.sql("SELECT * FROM fact f, LATERAL dim(f.k) d").count() == 3
    assert ns.index_join(probe, path, on="k", strategy="auto").count() == 3
    assert ns.explain_join(probe, path, on="k").probe_rows is not None
    ns.write(probe, os.path.join(folder, "out"), cluster_by="k")
    assert nb.open_dataset(os.path.join(folder, "out")).num_rows == 5
    assert ns.scan(spark, os.path.join(folder, "out"), keys=[3]).count() == 1
    change_table(spark, os.path.join(folder, "lake"))
    spark.stop()
    print("all is well")


def check_plain_joins(spark: Any, probe: Any, path: str, hows: tuple[str, ...]) -> None:
    """Joins as Spark's users write them: the rule, or ``ns.optimize`` on Connect."""
    ns.register(spark)
    dim = spark.read.format("nimble").load(path)
    for how in hows:
        plain = probe.join(dim, "k", how)
        for frame in (plain, plain.filter("k > 0").select(plain.k, "k").limit(9)):
            made = ns.optimize(frame)
            assert made.schema == frame.schema
            assert "nimble" in explained(made)
            assert "BatchScan" not in explained(made), explained(made)
            assert sorted(made.collect(), key=repr) == sorted(frame.collect(), key=repr)
    by_condition = probe.join(dim, probe.k == dim.k)
    assert ns.optimize(by_condition) is by_condition
    full = probe.join(dim, "k", "full")
    assert ns.optimize(full) is full
    named = probe.join(dim, "k").select(dim.v)
    assert sorted(ns.optimize(named).collect()) == [("a",), ("b",), ("c",)]


def explained(frame: Any) -> str:
    if "connect" in type(frame).__module__:
        return str(frame._explain_string(mode="simple"))
    return str(frame._jdf.queryExecution().executedPlan().toString())


def change_table(spark: Any, folder: str) -> None:
    """Everything that changes a table, in tasks however little there is to do."""
    merging.ALONE_BYTES = upkeep.ALONE_BYTES = 0
    lake = nb.connect(folder)
    table = lake.create_table("a.b", pa.schema({"k": pa.int64(), "v": pa.int64()}), primary_key="k")
    some = spark.range(0, 40, 1, 2).selectExpr("id AS k", "id AS v")
    ns.write(some, table, mode="append")
    first = table.snapshot
    ns.write(some.selectExpr("k + 30 AS k", "-v AS v"), table, mode="upsert")
    merge = ns.merge(some.selectExpr("k + 65 AS k", "v"), table)
    merge.when_matched(delete=True).when_not_matched().execute()
    assert ns.changes(spark, table, first).count() == 20 + 30 + 5 + 35
    assert ns.analyze(spark, table, ["k"]).distinct == {"k": table.num_rows}
    assert ns.compact(spark, table, where_needed=False).files_added
    assert sorted(table.to_table()["k"].to_pylist()) == [*range(65), *range(70, 105)]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
