"""What is measured: each workload gives its ways, functions that return the same answer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import nimblepy as nb
import nimblepy.spark as ns

Ways = dict[str, Callable[[], Any]]
BATCH = 1_000_000


class Setting:
    """The dimension k, v1, v2, v3 (16 characters), sorted by k, as nimble and as Parquet; and
    probes with uniformly random keys that are there.
    """

    def __init__(self, spark: Any, folder: Path, rows: int) -> None:
        self.spark = spark
        self.rows = rows
        self.folder = folder / str(rows)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.nimble = str(self.folder / "dim.nimble")
        self.parquet = str(self.folder / "dim.parquet")
        if not Path(self.nimble).exists():
            self._make()

    def _make(self) -> None:
        rng = np.random.default_rng(1)
        first = self._batch(0, 1, rng)
        with (
            pq.ParquetWriter(self.parquet, first.schema) as parquet,
            nb.Writer(self.nimble, first.schema, cluster_by="k", presorted=True) as nimble,
        ):
            for begin in range(0, self.rows, BATCH):
                table = self._batch(begin, min(BATCH, self.rows - begin), rng)
                parquet.write_table(table)
                nimble.write(table)

    def _batch(self, begin: int, n: int, rng: np.random.Generator) -> pa.Table:
        text = rng.integers(0, 2**62, n)
        return pa.table(
            {
                "k": np.arange(begin, begin + n),
                "v1": rng.integers(0, 1_000_000, n),
                "v2": rng.random(n),
                "v3": [f"{value:016x}" for value in text.tolist()],
            }
        )

    def probes(self, n: int, extra: int = 1) -> Any:
        """`n` random keys and `extra` columns beside them, from Parquet."""
        path = str(self.folder / f"probes-{n}-{extra}.parquet")
        if not Path(path).exists():
            rng = np.random.default_rng(2)
            columns = {"k": rng.integers(0, self.rows, n)}
            columns |= {f"p{i}": rng.integers(0, 1 << 40, n) for i in range(extra)}
            pq.write_table(pa.table(columns), path, row_group_size=max(1, n // 8))
        return self.spark.read.parquet(path)

    def dimension(self) -> Any:
        return self.spark.read.parquet(self.parquet)


def answer(frame: Any) -> tuple[int, int]:
    """A count and a sum that need every column of the joined row."""
    row = frame.agg(
        F.count("*"), F.sum(F.col("v1") + F.floor(F.col("v2") * 1000) + F.length("v3"))
    ).first()
    return int(row[0]), int(row[1])


def _join(setting: Setting, n: int) -> Ways:
    probe, dim = setting.probes(n), setting.dimension()
    return {
        "nimble index join": lambda: answer(ns.index_join(probe, setting.nimble, on="k")),
        "parquet, Spark's choice": lambda: answer(probe.join(dim, "k")),
        "parquet, broadcast(fact)": lambda: answer(F.broadcast(probe).join(dim, "k")),
    }


def join_1k(setting: Setting) -> Ways:
    """1,000 uniform probes"""
    return _join(setting, 1000)


def join_100k(setting: Setting) -> Ways:
    """100,000 uniform probes"""
    return _join(setting, 100_000)


def join_1m(setting: Setting) -> Ways:
    """1,000,000 uniform probes"""
    return _join(setting, 1_000_000)


def join_all(setting: Setting) -> Ways:
    """as many probes as rows, strategy="auto" """
    probe, dim = setting.probes(setting.rows), setting.dimension()
    path = setting.nimble
    return {
        'nimble, strategy="auto"': lambda: answer(
            ns.index_join(probe, path, on="k", strategy="auto")
        ),
        "nimble index join": lambda: answer(ns.index_join(probe, path, on="k")),
        "parquet, Spark's choice": lambda: answer(probe.join(dim, "k")),
    }


def engines(setting: Setting) -> Ways:
    """engines with 10 probe columns, 1,000,000 probes"""
    probe = setting.probes(1_000_000, 9)
    total = sum((F.col(f"p{i}") for i in range(9)), F.lit(0))

    def run(engine: str) -> tuple[int, int]:
        joined = ns.index_join(probe, setting.nimble, on="k", engine=engine)
        row = joined.agg(F.sum(total % 1000), F.sum("v1")).first()
        return int(row[0]), int(row[1])

    return {
        "arrow": lambda: run("arrow"),
        "map_in_arrow": lambda: run("map_in_arrow"),
    }


def _wide(setting: Setting) -> tuple[str, str]:
    """Ten million rows of eight columns in both formats."""
    nimble, parquet = (str(setting.folder / f"wide.{kind}") for kind in ("nimble", "parquet"))
    if not Path(nimble).exists():
        rng = np.random.default_rng(3)
        n = setting.rows
        table = pa.table(
            {
                "k": np.arange(n),
                **{f"i{i}": rng.integers(0, 1 << 20, n) for i in range(4)},
                **{f"d{i}": np.round(rng.random(n), 4) for i in range(2)},
                "s": pa.array(rng.integers(0, 1000, n)).cast(pa.string()),
            }
        )
        pq.write_table(table, parquet)
        nb.write(table, nimble, cluster_by="k", presorted=True)
    return nimble, parquet


def _sums(frame: Any, columns: list[str]) -> tuple[int, ...]:
    def summed(name: str) -> Any:
        return F.sum(F.length(name)) if name == "s" else F.sum(F.floor(F.col(name) * 10))

    parts = [summed(name) for name in columns]
    return tuple(int(value) for value in frame.agg(*parts).first())


def _scan(setting: Setting, columns: list[str]) -> Ways:
    nimble, parquet = _wide(setting)
    spark = setting.spark
    return {
        "nimble": lambda: _sums(
            spark.read.format("nimble").option("columns", ",".join(columns)).load(nimble), columns
        ),
        "parquet": lambda: _sums(spark.read.parquet(parquet), columns),
    }


def scan_2(setting: Setting) -> Ways:
    """aggregate of 2 of 8 columns"""
    return _scan(setting, ["i0", "d0"])


def scan_8(setting: Setting) -> Ways:
    """aggregate of all 8 columns"""
    return _scan(setting, ["k", "i0", "i1", "i2", "i3", "d0", "d1", "s"])


def point(setting: Setting) -> Ways:
    """k = ?"""
    nimble, parquet = _wide(setting)
    k = setting.rows // 3
    return {
        "nimble": lambda: ns.scan(setting.spark, nimble, filter=f"k = {k}").count(),
        "parquet": lambda: setting.spark.read.parquet(parquet).filter(F.col("k") == k).count(),
    }


def key_range(setting: Setting) -> Ways:
    """a range of 1,000 keys"""
    nimble, parquet = _wide(setting)
    k = setting.rows // 3
    frame = setting.spark.read.parquet(parquet)
    return {
        "nimble": lambda: _sums(
            ns.scan(setting.spark, nimble, key_range=(k, k + 1000)), ["i0", "s"]
        ),
        "parquet": lambda: _sums(frame.filter(F.col("k").between(k, k + 999)), ["i0", "s"]),
    }


def write(setting: Setting) -> Ways:
    """clustered write of 8 columns"""
    _, parquet = _wide(setting)
    frame = setting.spark.read.parquet(parquet)
    out = setting.folder / "written"

    def nimble() -> int:
        shutil.rmtree(out, ignore_errors=True)
        ns.write(frame, out, cluster_by="i0", files=8)
        return setting.rows

    def own() -> int:
        ranged = frame.repartitionByRange(8, "i0").sortWithinPartitions("i0")
        ranged.write.mode("overwrite").parquet(f"{out}.parquet")
        return setting.rows

    return {"nimble": nimble, "parquet": own}


ALL: dict[str, Callable[[Setting], Ways]] = {
    function.__name__: function
    for function in (
        join_1k, join_100k, join_1m, join_all, engines, scan_2, scan_8, point, key_range, write
    )
}  # fmt: skip
