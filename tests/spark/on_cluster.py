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
from conftest import builder


def session(kind: str) -> Any:
    from pyspark.sql import SparkSession

    if kind == "connect":
        os.environ["PYSPARK_PYTHON"] = sys.executable
        made = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
        return made.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    made = builder("local-cluster[2,1,1024]").config("spark.executor.memory", "512m")
    return made.getOrCreate()


def main(kind: str, folder: str) -> None:
    spark = session(kind)
    path = os.path.join(folder, "dim.nimble")
    nb.write(pa.table({"k": [1, 1, 2], "v": ["a", "b", "c"]}), path, cluster_by="k")
    assert spark.read.format("nimble").load(path).count() == 3  # found without a register call
    probe = spark.range(0, 5, 1, 2).withColumnRenamed("id", "k")
    engines = ("arrow", "map_in_arrow") + (("rdd",) if kind == "cluster" else ())
    for engine in engines:
        joined = ns.index_join(probe, path, on="k", how="left", engine=engine)
        found = sorted((tuple(row) for row in joined.collect()), key=repr)
        assert found == [(0, None), (1, "a"), (1, "b"), (2, "c"), (3, None), (4, None)], found
    ns.register_lookup(spark, "dim", path)
    probe.createOrReplaceTempView("fact")
    assert spark.sql("SELECT * FROM fact f, LATERAL dim(f.k) d").count() == 3
    assert ns.index_join(probe, path, on="k", strategy="auto").count() == 3
    assert ns.explain_join(probe, path, on="k").probe_rows is not None
    ns.write(probe, os.path.join(folder, "out"), cluster_by="k")
    assert nb.open_dataset(os.path.join(folder, "out")).num_rows == 5
    assert ns.scan(spark, os.path.join(folder, "out"), keys=[3]).count() == 1
    spark.stop()
    print("all is well")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
