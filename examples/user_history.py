"""Histories written by Spark and served to plain Python: the last events of a user, by key.

python examples/user_history.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import nimblepy as nb
import nimblepy.spark as ns


def main(spark: Any, folder: str, rows: int = 200_000, users: int = 1000) -> dict[str, Any]:
    """Writes events clustered by user and time, newest first, then answers from the files."""
    events = spark.range(rows).select(
        (F.col("id") * 48271 % users).alias("user"),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id")).alias("at"),
        F.concat(F.lit("page "), F.col("id") % 50).alias("page"),
    )
    ns.write(events, f"{folder}/events", cluster_by=["user", nb.SortKey("at", descending=True)])

    ds = nb.open_dataset(f"{folder}/events")
    latest = ds.prefix(7, limit=10)  # ten newest events of a user
    begin = time.perf_counter()
    for user in range(100):
        ds.prefix(user, limit=10)
    micros = (time.perf_counter() - begin) / 100 * 1e6
    print(f"{latest.num_rows} newest events of user 7; {micros:.0f} µs a user")

    # What did these users see in the hour before they bought something?
    bought = latest.column("at")[3]
    purchases = pa.table(
        {
            "user": [7],
            "from": pa.array([bought.as_py()], bought.type),
            "to": pa.array([latest.column("at")[0].as_py()], bought.type),
        }
    )
    seen = nb.index_join(purchases, ds, on="user", between={"at": ("from", "to")})
    print(seen.select(["user", "at", "page"]).to_pylist())
    return {"latest": latest, "seen": seen, "dataset": ds}


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # this one, be it activated or not
    with tempfile.TemporaryDirectory() as scratch:
        main(SparkSession.builder.master("local[2]").getOrCreate(), scratch)
