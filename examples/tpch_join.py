"""TPC-H joins: lineitem probes against orders and customer, looked up in their index.

python examples/tpch_join.py --scale 1 --probes 1000 100000 6000000
"""

from __future__ import annotations

import argparse
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


def main(spark: Any, tables: dict[str, str], folder: str, probes: Sequence[int]) -> list[Any]:
    """Joins some lineitem rows with their orders and customers; returns a row for every way.

    Args:
        tables: Parquet paths of lineitem, orders and customer.
        folder: where the nimble files go.
        probes: numbers of lineitem rows.
    """
    orders, customer = f"{folder}/orders", f"{folder}/customer"
    ns.write(spark.read.parquet(tables["orders"]), orders, cluster_by="o_orderkey")
    ns.write(spark.read.parquet(tables["customer"]), customer, cluster_by="c_custkey")
    print(nb.open_dataset(orders))
    lineitem = spark.read.parquet(tables["lineitem"]).select("l_orderkey", "l_extendedprice")
    results = []
    for count in probes:
        some = lineitem.limit(count).cache()
        some.count()
        print(ns.explain_join(some, orders, on={"l_orderkey": "o_orderkey"}))
        for strategy in ("index", "scan", "auto"):
            begin = time.perf_counter()
            with_order = ns.index_join(
                some, orders, on={"l_orderkey": "o_orderkey"}, columns=["o_custkey"],
                strategy=strategy,
            )  # fmt: skip
            joined = ns.index_join(
                with_order, customer, on={"o_custkey": "c_custkey"}, how="left",
                columns=["c_mktsegment"], strategy=strategy,
            )  # fmt: skip
            totals = joined.groupBy("c_mktsegment").agg(
                F.count("*").alias("n"), F.round(F.sum("l_extendedprice"), 2).alias("price")
            )
            answer = sorted((tuple(row) for row in totals.collect()), key=repr)
            seconds = time.perf_counter() - begin
            results.append((count, strategy, answer))
            print(f"{count:>9,} probes, {strategy:<5} {seconds:8.2f} s  {answer[:1]} ...")
        some.unpersist()
    return results


def _tables(scale: float) -> dict[str, str]:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from bench import data

    return {name: str(data.tpch(name, scale)) for name in ("lineitem", "orders", "customer")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--probes", type=int, nargs="+", default=[1000, 100_000, 6_000_000])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        session = SparkSession.builder.master("local[2]").getOrCreate()
        main(session, _tables(arguments.scale), scratch, arguments.probes)
