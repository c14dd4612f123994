"""TPC-H joins: lineitem probes against orders and customer, three ways.

python examples/tpch_join.py --scale 1 --probes 1000 100000 6000000 --turns 3
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import nimblepy as nb
import nimblepy.spark as ns

WAYS = ("index", "scan", "parquet")


def main(
    spark: Any, tables: dict[str, str], folder: str, probes: Sequence[int], turns: int = 1
) -> list[Any]:
    """Joins some lineitem rows with their orders and customers; returns a row for every way.

    Args:
        tables: Parquet paths of lineitem, orders and customer.
        folder: where the nimble files go.
        probes: numbers of lineitem rows.
        turns: how often each way is run; the least time is printed.
    """
    dimensions = write_dimensions(spark, tables, folder)
    lineitem = spark.read.parquet(tables["lineitem"]).select("l_orderkey", "l_extendedprice")
    results = []
    for count in probes:
        some = lineitem.limit(count).repartition(spark.sparkContext.defaultParallelism).cache()
        some.count()
        print(ns.explain_join(some, dimensions["orders"], on={"l_orderkey": "o_orderkey"}))
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        answers = {}
        for _ in range(turns):
            for way in WAYS:
                begin = time.perf_counter()
                answers[way] = segments(spark, some, tables, dimensions, way)
                seconds[way].append(time.perf_counter() - begin)
        for way, answer in answers.items():
            results.append((count, way, answer))
            assert answer == answers["parquet"], f"{way} gives another answer"
            print(f"{count:>9,} probes, {way:<7} {min(seconds[way]):8.2f} s  {answer[:1]} ...")
        some.unpersist()
    return results


def segments(
    spark: Any, lineitem: Any, tables: dict[str, str], dimensions: dict[str, str], way: str
) -> list[Any]:
    """Rows and prices of every market segment."""
    if way == "parquet":
        joined = sparks_own(spark, lineitem, tables)
    else:
        joined = with_customers(lineitem, dimensions, way)
    totals = joined.groupBy("c_mktsegment").agg(
        F.count("*").alias("n"), F.round(F.sum("l_extendedprice"), 2).alias("price")
    )
    return sorted((tuple(row) for row in totals.collect()), key=repr)


def write_dimensions(spark: Any, tables: dict[str, str], folder: str) -> dict[str, str]:
    """orders by its key; customer by nation, with a hash index that finds a customer by its key."""
    paths = {name: f"{folder}/{name}" for name in ("orders", "customer")}
    ns.write(spark.read.parquet(tables["orders"]), paths["orders"], cluster_by="o_orderkey")
    ns.write(
        spark.read.parquet(tables["customer"]),
        paths["customer"],
        cluster_by=["c_nationkey", "c_custkey"],
        indexes=[nb.HashIndex(["c_custkey"])],
    )
    for path in paths.values():
        print(nb.open_dataset(path))
    return paths


def with_customers(lineitem: Any, dimensions: dict[str, str], strategy: str) -> Any:
    """Each row with its order's customer and that one's market segment, if there is one."""
    with_order = ns.index_join(
        lineitem,
        dimensions["orders"],
        on={"l_orderkey": "o_orderkey"},
        columns=["o_custkey"],
        strategy=strategy,
    )
    return ns.index_join(
        with_order,
        dimensions["customer"],
        on={"o_custkey": "c_custkey"},
        how="left",
        columns=["c_mktsegment"],
        strategy=strategy,
    )


def sparks_own(spark: Any, lineitem: Any, tables: dict[str, str]) -> Any:
    """The same by Spark alone, from the Parquet files."""
    orders, customer = (spark.read.parquet(tables[name]) for name in ("orders", "customer"))
    with_order = lineitem.join(orders, F.col("l_orderkey") == F.col("o_orderkey"))
    return with_order.join(customer, F.col("o_custkey") == F.col("c_custkey"), "left")


def _tables(scale: float) -> dict[str, str]:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from bench import data

    return {name: str(data.tpch_path(name, scale)) for name in ("lineitem", "orders", "customer")}


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # this one, be it activated or not
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--probes", type=int, nargs="+", default=[1000, 100_000, 6_000_000])
    parser.add_argument("--turns", type=int, default=1, help="of each way; the least is printed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        session = SparkSession.builder.master("local[2]").getOrCreate()
        main(session, _tables(arguments.scale), scratch, arguments.probes, arguments.turns)
