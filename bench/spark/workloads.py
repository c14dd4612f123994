"""What is measured: each workload gives its ways, functions that return the same answer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import functions as F

import nimblepy as nb
import nimblepy.spark as ns
from bench.spark.data import Data, short

Ways = dict[str, Callable[[], Any]]
INDEX, AUTO, OURS = "nimble index join", 'nimble, strategy="auto"', "nimble"
COLUMNS = ["k", "i0", "i1", "i2", "i3", "d0", "d1", "s"]
BIG, MEDIUM = 50_000_000, 10_000_000


@dataclass(frozen=True)
class Workload:
    """One line of the table of results.

    Attributes:
        ways: makes the ways, given a session and the data.
        prepare: makes the data.
        ours: the way that the bar is about.
        limit: most that it may cost, as a multiple of the cheapest other way.
        measure: ``wall`` or ``cpu``.
    """

    name: str
    meaning: str
    ways: Callable[[Any, Data], Ways]
    prepare: Callable[[Data], Any]
    limit: float
    ours: str = OURS
    measure: str = "wall"


def _answer(frame: Any) -> tuple[int, int]:
    """A count and a sum that need every column of the joined row."""
    row = frame.agg(
        F.count("*"), F.sum(F.col("v1") + F.floor(F.col("v2") * 1000) + F.length("v3"))
    ).first()
    return int(row[0]), int(row[1])


def _join(spark: Any, data: Data, rows: int, probes: int) -> Ways:
    rows, probes = data.rows(rows), data.rows(probes)
    nimble, parquet = data.dimension(rows)
    probe, dim = spark.read.parquet(data.probes(probes, rows)), spark.read.parquet(parquet)
    return {
        INDEX: lambda: _answer(ns.index_join(probe, nimble, on="k")),
        "parquet, Spark's choice": lambda: _answer(probe.join(dim, "k")),
        "parquet, broadcast(fact)": lambda: _answer(F.broadcast(probe).join(dim, "k")),
    }


def _prepare_join(data: Data, rows: int, probes: int) -> None:
    data.dimension(data.rows(rows))
    data.probes(data.rows(probes), data.rows(rows))


def _join_all(spark: Any, data: Data) -> Ways:
    rows = data.rows(MEDIUM)
    nimble, parquet = data.dimension(rows)
    probe, dim = spark.read.parquet(data.probes(rows, rows)), spark.read.parquet(parquet)
    return {
        AUTO: lambda: _answer(ns.index_join(probe, nimble, on="k", strategy="auto")),
        INDEX: lambda: _answer(ns.index_join(probe, nimble, on="k")),
        'nimble, strategy="scan"': lambda: _answer(
            ns.index_join(probe, nimble, on="k", strategy="scan")
        ),
        "parquet, Spark's choice": lambda: _answer(probe.join(dim, "k")),
    }


def _sums(frame: Any, columns: list[str]) -> tuple[int, ...]:
    def summed(name: str) -> Any:
        return F.sum(F.length(name)) if name == "s" else F.sum(F.floor(F.col(name) * 10))

    return tuple(int(v) for v in frame.agg(*(summed(name) for name in columns)).first())


def _scan(spark: Any, data: Data, columns: list[str]) -> Ways:
    nimble, parquet = data.wide(data.rows(MEDIUM))
    ours = spark.read.format("nimble").option("columns", ",".join(columns))
    return {
        OURS: lambda: _sums(ours.load(nimble), columns),
        "parquet": lambda: _sums(spark.read.parquet(parquet), columns),
    }


def _wide(data: Data) -> None:
    data.wide(data.rows(MEDIUM))


def _point(spark: Any, data: Data) -> Ways:
    nimble, parquet = data.wide(data.rows(MEDIUM))
    k = data.rows(MEDIUM) // 3
    return {
        OURS: lambda: ns.scan(spark, nimble, filter=f"k = {k}").collect(),
        "parquet": lambda: spark.read.parquet(parquet).filter(F.col("k") == k).collect(),
    }


def _key_range(spark: Any, data: Data) -> Ways:
    nimble, parquet = data.wide(data.rows(MEDIUM))
    k = data.rows(MEDIUM) // 3
    between = F.col("k").between(k, k + 999)
    return {
        OURS: lambda: _sums(ns.scan(spark, nimble, key_range=(k, k + 1000)), COLUMNS),
        "parquet": lambda: _sums(spark.read.parquet(parquet).filter(between), COLUMNS),
    }


def _write(spark: Any, data: Data) -> Ways:
    _, parquet = data.wide(data.rows(MEDIUM))
    frame = spark.read.parquet(parquet)
    out = data.scratch("written")

    def nimble() -> None:
        shutil.rmtree(out, ignore_errors=True)
        ns.write(frame, out, cluster_by="i0", files=8)

    def own() -> None:
        shutil.rmtree(out, ignore_errors=True)
        ranged = frame.repartitionByRange(8, "i0").sortWithinPartitions("i0")
        ranged.write.parquet(str(out))

    return {OURS: nimble, "parquet": own}


JOINS = [
    Workload(
        f"join_{short(rows)}_{short(probes)}".lower(),
        f"{short(rows)} rows, {short(probes)} uniform probes",
        partial(_join, rows=rows, probes=probes),
        partial(_prepare_join, rows=rows, probes=probes),
        limit,
        INDEX,
    )
    for rows, limits in ((MEDIUM, (0.25, 0.35, 0.7)), (BIG, (0.1, 0.12, 0.3)))
    for probes, limit in zip((1_000, 100_000, 1_000_000), limits, strict=True)
]
ALL = [
    *JOINS,
    Workload(
        "join_all",
        "10M rows, 10M uniform probes",
        _join_all,
        partial(_prepare_join, rows=MEDIUM, probes=MEDIUM),
        1.1,
        AUTO,
    ),
    Workload(
        "scan_2",
        "aggregate of 2 of 8 columns",
        partial(_scan, columns=["i0", "d0"]),
        _wide,
        3,
        measure="cpu",
    ),
    Workload(
        "scan_8",
        "aggregate of 8 columns",
        partial(_scan, columns=COLUMNS),
        _wide,
        1.7,
        measure="cpu",
    ),
    Workload("point", "rows with k = ?", _point, _wide, 0.3),
    Workload("key_range", "rows of 1,000 keys", _key_range, _wide, 0.3),
    Workload("write", "clustered write, 8 columns", _write, _wide, 1.2),
]  # fmt: skip
BY_NAME = {workload.name: workload for workload in ALL}


def one_lookup(directory: str, key: int) -> tuple[int, int]:
    """Opens a dataset, looks one key up; returns its value and how many files were opened."""
    with nb.open_dataset(directory) as dataset:
        row = dataset.get(key)
        return int(row["v"]), 1 + dataset._current.open_files.opened
