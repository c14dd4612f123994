"""The index join is Spark's own join, whatever keys, nulls, duplicates, ranges and conditions."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nimblepy as nb

pytest.importorskip("pyspark")
from dataset_files import make_dataset

import nimblepy.spark as ns
from nimblepy.spark.base.schemas import spark_schema

HOWS = ("inner", "left", "semi", "anti")
NAN, INF = float("nan"), float("inf")
FLOATS = [0.0, -0.0, NAN, INF, -INF, 0.5, 1.5, -2.0]
DAYS = [dt.date(1969, 12, 31) + dt.timedelta(days=i) for i in range(8)]
TEXTS = ["", "a", "a\0", "b", "é", "𝄞", "\uffff", "x" * 40]
# Around the night when clocks are put forward where clocks are.
TIMES = [dt.datetime(2024, 3, 31, i % 4, 59 * (i % 2), i) for i in range(8)]
DECIMALS = [decimal.Decimal(i) / 8 for i in range(-4, 4)]
# Types of the key in the probe and in the files, and its values; the probe's are a part of them.
KINDS: dict[str, tuple[pa.DataType, pa.DataType, list[Any]]] = {
    "int": (pa.int32(), pa.int32(), [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1]),
    "long of ints": (pa.int64(), pa.int32(), [-3, -1, 0, 1, 2, 3, 2**31 - 1]),
    "short of longs": (pa.int16(), pa.int64(), [-(2**15), -1, 0, 1, 2, 3, 2**15 - 1]),
    "bigint": (pa.int64(), pa.int64(), [-(2**63), -1, 0, 1, 10**15, 2**63 - 1]),
    "string": (pa.string(), pa.string(), TEXTS),
    "dictionary": (pa.string(), pa.dictionary(pa.int8(), pa.string()), TEXTS),
    "binary": (pa.binary(), pa.binary(), [text.encode() for text in TEXTS] + [b"\xff\0"]),
    "date": (pa.date32(), pa.date32(), DAYS),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        pa.timestamp("us", "UTC"),
        [time.replace(tzinfo=dt.UTC) for time in TIMES],
    ),
    "local time": (pa.timestamp("us"), pa.timestamp("us"), TIMES),
    "double": (pa.float64(), pa.float64(), FLOATS),
    "float of doubles": (pa.float32(), pa.float64(), FLOATS),
    "decimal": (pa.decimal128(20, 3), pa.decimal128(20, 3), DECIMALS),
    "decimal of other": (pa.decimal128(12, 4), pa.decimal128(9, 3), DECIMALS),
    "boolean": (pa.bool_(), pa.bool_(), [False, True]),
}
CONDITIONS = (
    None,
    "f < g",
    "NOT (f >= g)",
    "f = g OR w > u",
    "f != g AND w <= u",
    "f + 1 > g * 2",
    "f BETWEEN -2 AND g",
    "f IN (0, 1.5) OR f > 0.5",
    "w IS NULL OR u IS NULL",
    "u > 5",
)
RANGES: tuple[dict[str, tuple[str, str]] | None, ...] = (
    None,
    None,
    {"f": ("g", "h")},
    {"w": ("u", "p")},
)
# Columns of the equality, the cluster key of the files, and indexes of theirs.
LAYOUTS: tuple[tuple[list[str], list[str], list[Any]], ...] = (
    (["k"], ["k"], []),
    (["k"], ["k", "f"], []),
    (["k"], ["row"], [nb.HashIndex("k")]),
    (["k"], ["row"], [nb.SortedIndex("k")]),
    (["k", "k2"], ["k", "k2"], []),
    (["k", "k2"], ["k2", "k", "f"], []),
)


@dataclass(frozen=True)
class Case:
    """A join of two small tables.

    Attributes:
        cluster_by: of the files; ``indexes`` are on the key alone.
        arguments: of ``ns.index_join``.
    """

    build: pa.Table
    probe: pa.Table
    cluster_by: list[str]
    indexes: list[Any]
    files: int
    parts: int
    arguments: dict[str, Any]


def nullable(rng: np.random.Generator, pool: list[Any], n: int, data_type: pa.DataType) -> pa.Array:
    """Values of a pool, some of them null; most pools are small, so there are duplicates."""
    values = [None if rng.random() < 0.15 else pool[rng.integers(len(pool))] for _ in range(n)]
    if pa.types.is_dictionary(data_type):
        return pa.array(values, data_type.value_type).dictionary_encode().cast(data_type)
    return pa.array(values, data_type)


def case_of(kind: str, seed: int) -> Case:
    """All choices by the seed: hypothesis would begin every kind with the least of each."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    probe_type, build_type, pool = KINDS[kind]
    n, m = (0 if rng.random() < 0.1 else int(rng.integers(20, 50)) for _ in range(2))
    ints = list(range(10))
    build = pa.table(
        {
            "k": nullable(rng, pool[1:] if len(pool) > 2 else pool, n, build_type),
            "k2": nullable(rng, [1, 2], n, pa.int32()),
            "f": nullable(rng, FLOATS, n, pa.float64()),
            "w": nullable(rng, ints, n, pa.int64()),
            "row": pa.array(range(n), pa.int64()),
        }
    )
    probe = pa.table(
        {
            "k": nullable(rng, pool[:-1] if len(pool) > 2 else pool, m, probe_type),
            "k2": nullable(rng, [1, 2, 3], m, pa.int32()),
            "g": nullable(rng, FLOATS, m, pa.float64()),
            "h": nullable(rng, [0.5, INF, NAN], m, pa.float64()),
            "u": nullable(rng, ints, m, pa.int64()),
            "p": pa.array(range(m), pa.int64()),
        }
    )
    on, keys, indexes = LAYOUTS[rng.integers(len(LAYOUTS))]
    arguments = {
        "on": on,
        "columns": ["f", "w", "row"],
        "null_equals": bool(rng.random() < 0.5),
        "condition": CONDITIONS[rng.integers(len(CONDITIONS))],
        "between": RANGES[rng.integers(len(RANGES))],
    }
    files, parts = (1, 1, 3)[rng.integers(3)], (1, 3)[rng.integers(2)]
    return Case(build, probe, keys, indexes, files, parts, arguments)


def written(case: Case, folder: Path) -> str:
    size = max(1, -(-case.build.num_rows // case.files))
    tables = [case.build.slice(i, size) for i in range(0, max(1, case.build.num_rows), size)]
    keywords = {"cluster_by": case.cluster_by, "indexes": case.indexes}
    if case.files > 1:
        make_dataset(folder / "d", tables, **keywords)
        return str(folder / "d")
    nb.write(case.build, folder / "dim.nimble", **keywords)
    return str(folder / "dim.nimble")


@pytest.mark.parametrize("kind", KINDS)
def test_join_is_sparks_own(
    spark: Any, rows: Any, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    from pyspark.sql import functions as F

    @settings(max_examples=settings.default.max_examples // 10)
    @given(seed=st.integers(0, 2**32 - 1))
    def check(seed: int) -> None:
        case = case_of(kind, seed)
        path = written(case, tmp_path_factory.mktemp("join"))
        probe = spark.createDataFrame(case.probe, spark_schema(case.probe.schema)).repartition(
            case.parts
        )

        def joins(strategy: str) -> list[Any]:
            run = functools.partial(ns.index_join, probe, path, strategy=strategy)
            found = [run(how=how, **case.arguments).withColumn("how", F.lit(how)) for how in HOWS]
            return [frame.withColumn("by", F.lit(strategy)) for frame in found]

        own, ours = joins("scan"), joins("index")
        assert [join.columns for join in ours] == [join.columns for join in own]
        assert [[field.dataType for field in join.schema] for join in ours] == [
            [field.dataType for field in join.schema] for join in own
        ]
        unite = functools.partial(functools.reduce, lambda a, b: a.unionByName(b, True))
        found = rows(unite([*own, *ours]))
        by_spark, by_index = (
            [row[:-1] for row in found if row[-1] == by] for by in ("scan", "index")
        )
        assert by_index == by_spark, case.arguments

    check()
