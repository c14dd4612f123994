"""A day's rows appended every day, with lookups between; a day that comes twice is added once.

python examples/daily_load.py
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import tempfile
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import nimblepy as nb
import nimblepy.spark as ns

START = dt.date(2024, 1, 1)


def day_of_sales(spark: Any, number: int, rows: int) -> Any:
    """What arrives on one day: sales of some products."""
    day = START + dt.timedelta(days=number)
    return spark.range(rows).select(
        F.lit(day).alias("day"),
        (F.col("id") * 7919 % 1000).alias("product"),
        (F.col("id") % 100 / 4).alias("price"),
    )


def main(spark: Any, folder: str, days: int = 5, rows: int = 20_000) -> nb.Table:
    """Loads some days and looks at the table after each."""
    lake = nb.connect(folder)
    schema = pa.schema([("day", pa.date32()), ("product", pa.int64()), ("price", pa.float64())])
    sales = lake.create_table("shop.sales", schema, cluster_by=["day", "product"])
    for number in [*range(days), days - 1]:  # the last day is loaded twice by accident
        ns.write(
            day_of_sales(spark, number, rows),
            sales,
            mode="append",
            batch=("daily", number),
        )
        print(f"day {number}: snapshot {sales.snapshot}, {sales.num_rows:,} rows")
    last = START + dt.timedelta(days=days - 1)
    print(sales.explain([(last, 7)]))  # one file can have the key
    print(sales.lookup([(last, 7)]).num_rows, "sales of product 7 on the last day")
    print(ns.scan(spark, sales, filter=f"day = DATE '{last}'").count(), "sales on the last day")
    return sales


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # this one, be it activated or not
    with tempfile.TemporaryDirectory() as scratch:
        main(SparkSession.builder.master("local[2]").getOrCreate(), scratch)
