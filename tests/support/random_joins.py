"""Random joins over nimble files, each as a function of the session that makes its DataFrame."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dataset_files import make_dataset

import nimblepy as nb
from nimblepy.spark.base.schemas import spark_schema

NAN = float("nan")
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [-128, -1, 0, 1, 2, 3, 127]),
    "small": (pa.int32(), [-(2**31), -1, 0, 1, 2, 3, 4, 127, 128]),
    "big": (pa.int64(), [-(2**63), -1, 0, 1, 2, 3, 4, 5, 2**31, 2**40]),
    "text": (pa.string(), ["", "a", "ab", "b", "é", "1", "2"]),
    "day": (pa.date32(), [dt.date(1969, 12, 30) + dt.timedelta(days=i) for i in range(6)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 3, 31, i, 7 * i, tzinfo=dt.UTC) for i in range(6)],
    ),
    "price": (pa.decimal128(9, 2), [decimal.Decimal(i) / 4 for i in range(-3, 4)]),
    "real": (pa.float64(), [0.0, -0.0, NAN, 0.5, 1.0, -2.0, 3.0]),
    "flag": (pa.bool_(), [True, False]),
    "pair": (pa.struct([("a", pa.int32())]), [{"a": 1}, {"a": None}, {"a": 3}]),
    "items": (pa.list_(pa.int32()), [[], [1], [1, None]]),
}
# Types whose values an index and Spark compare alike.
KEYS = ["tiny", "small", "big", "text", "day", "at", "price", "flag"]
LAYOUTS: list[tuple[list[str], list[Any]]] = [
    (["big"], []),
    (["small", "big"], []),
    (["text"], []),
    (["day", "small", "at"], []),
    (["tiny", "text", "big"], []),
    (["at"], []),
    (["price", "day"], []),
    (["flag", "small", "price"], []),
    (["real"], [nb.HashIndex("big"), nb.HashIndex(["small", "text"])]),
    (["day", "at"], [nb.SortedIndex(["text", "small"])]),
]


@dataclass
class Files:
    """Files of one layout, and the columns that their indexes lead with."""

    spark: Any
    options: dict[str, str]
    indexed: tuple[list[str], ...]

    @cached_property
    def frame(self) -> Any:
        return self.spark.read.format("nimble").options(**self.options).load()


def random_table(rng: np.random.Generator, rows: int) -> pa.Table:
    columns = {}
    for name, (data_type, pool) in TYPES.items():
        values = [
            None if rng.random() < 0.1 else pool[rng.integers(len(pool))] for _ in range(rows)
        ]
        columns[name] = pa.array(values, data_type)
    return pa.table(columns)


class Joins:
    """Makes random joins of a few probes with files of many layouts."""

    def __init__(self, spark: Any, folder: Path, seed: int, layouts: Sequence[int]) -> None:
        self.spark = spark
        self.rng = np.random.default_rng(seed)
        self.files = [self._files(folder, i) for i in layouts]
        self.files.append(self._table(folder))
        self.probes = self._probes(folder)

    def _files(self, folder: Path, number: int) -> Files:
        cluster_by, indexes = LAYOUTS[number]
        rows = random_table(self.rng, 0 if number == 7 and self.rng.random() < 0.3 else 60)
        keywords: dict[str, Any] = {"cluster_by": cluster_by, "indexes": indexes}
        path = folder / f"files{number}"
        if number % 3 == 0:
            make_dataset(path, [rows.slice(i, 20) for i in (0, 20, 40)], **keywords)
        else:
            path = folder / f"files{number}.nimble"
            nb.write(rows, path, **keywords)
        options = {"path": str(path)}
        if number % 4 == 1:
            options["filter"] = "small > -2 OR text IS NULL"
        others = tuple([str(key.column) for key in index_keys(index)] for index in indexes)
        return Files(self.spark, options, (cluster_by, *others))

    def _table(self, folder: Path) -> Files:
        table = nb.connect(folder / "lake").create_table(
            "a.joined", random_table(self.rng, 40), cluster_by=["big", "text"]
        )
        table.append(random_table(self.rng, 30))
        table.delete("small = 2")
        options = {"catalog": str(folder / "lake"), "table": "a.joined"}
        return Files(self.spark, options, (["big", "text"],))

    def _probes(self, folder: Path) -> list[Any]:
        tables = [
            random_table(self.rng, 50).rename_columns([f"p_{n}" for n in TYPES]) for _ in "abc"
        ]
        pq.write_table(tables[0], folder / "probe.parquet")
        nb.write(tables[1], folder / "probe.nimble", cluster_by="p_text")
        frames = [
            self.spark.read.parquet(str(folder / "probe.parquet")),
            self.spark.read.format("nimble").load(str(folder / "probe.nimble")),
            self.spark.createDataFrame(tables[2], spark_schema(tables[2].schema)),
        ]
        frames[2].cache()
        return frames

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def next(self) -> tuple[str, Callable[[], Any]]:
        """A description of a join, and a function that makes its DataFrame."""
        files, probe = self.pick(self.files), self.pick(self.probes)
        leading = self.pick(files.indexed)
        columns = list(leading[: 1 + int(self.rng.integers(len(leading)))])
        if self.chance(0.15):
            columns = [self.pick(list(TYPES)[:9])]
        condition = [self._equality(name) for name in columns]
        if len(leading) > len(columns) and self.chance(0.4):
            condition += self._range(leading[len(columns)])
        if self.chance(0.5):
            condition.append(self._residual())
        self.rng.shuffle(condition)
        how = self.pick(
            ["inner", "inner", "inner", "left", "left", "right", "semi", "anti", "full", "exists"]
        )
        swapped = how in ("inner", "right", "left") and self.chance(0.5 if how != "left" else 0.1)
        swapped = swapped or (how == "right" and self.chance(0.6))
        build_where = self._filter() if self.chance(0.3) else None
        build_columns = self._projection() if self.chance(0.3) else None
        above = self.pick([None, None, "few", "aggregate", "filter"])
        on = " AND ".join(condition)
        text = f"{files.options} {how} swapped={swapped} ON {on} WHERE {build_where} " + (
            f"SELECT {build_columns} ABOVE {above}"
        )

        def make() -> Any:
            build = files.frame
            if build_where is not None:
                build = build.filter(build_where)
            if build_columns is not None:
                build = build.selectExpr("*", *build_columns)
            probe.createOrReplaceTempView("probe")
            build.createOrReplaceTempView("build")
            if how == "exists":
                query = (
                    f"SELECT p_big, p_text FROM probe WHERE EXISTS (SELECT 1 FROM build WHERE {on})"
                )
                return self.spark.sql(f"{query} OR p_small = 1")
            kind = {"semi": "LEFT SEMI", "anti": "LEFT ANTI"}.get(how, how.upper())
            sides = "build JOIN probe" if swapped else "probe JOIN build"
            frame = self.spark.sql(f"SELECT * FROM {sides.replace('JOIN', f'{kind} JOIN')} ON {on}")
            if above == "few":
                return frame.select(*frame.columns[::3])
            if above == "filter":
                return frame.filter("p_small IS NULL OR p_small < 3").select("p_small", "p_at")
            if above == "aggregate":
                return frame.groupBy("p_text").agg({"p_big": "max", "*": "count"})
            return frame

        return text, make

    def _equality(self, name: str) -> str:
        sign = "<=>" if self.chance(0.15) else "="
        if self.chance(0.12):
            return f"{name} {sign} {CONSTANTS[name]}"
        other = f"p_{name}"
        if name in ("tiny", "small", "big"):
            other = self.pick([other, "p_tiny", "p_small", "p_big", f"p_{name} + 1"])
            if "+" in other:
                other = f"CAST(p_small % 100 AS INT) + {self.rng.integers(3)}"
        elif name == "text" and self.chance(0.2):
            other = "lower(p_text)"
        sides = [name, other]
        self.rng.shuffle(sides)
        return f"{sides[0]} {sign} {sides[1]}"

    def _range(self, name: str) -> list[str]:
        bounds = {"big": ("p_small", "p_big"), "small": ("p_tiny", "p_small")}
        lower, upper = bounds.get(name, (f"p_{name}", f"p_{name}"))
        return self.pick(
            [
                [f"{name} >= {lower}"],
                [f"{name} < {upper}"],
                [f"{name} BETWEEN {lower} AND {upper}"],
                [f"{upper} > {name}", f"{lower} <= {name}"],
            ]
        )

    def _residual(self) -> str:
        return self.pick(
            [
                "small > p_small",
                "p_real < real",
                "NOT (price <= p_price)",
                "coalesce(text, 'x') <> p_text",
                "p_flag",
                "flag OR p_flag IS NULL",
                "pair.a = p_pair.a OR size(items) < size(p_items)",
                "real = p_real",
                "tiny IS NOT NULL",
            ]
        )

    def _filter(self) -> str:
        return self.pick(
            [
                "small >= 0",
                "big IS NOT NULL",
                "text IN ('a', 'b', '1')",
                "real > 0 OR flag",
                "isnull(price)",
                "day <= DATE '1970-01-01'",
                "size(items) = 1",
                "tiny = 1",
            ]
        )

    def _projection(self) -> list[str]:
        return self.pick(
            [
                ["1 AS one"],
                ["coalesce(small, 0) + 1 AS plus", "upper(text) AS upper"],
                ["isnull(real) AS missing"],
                ["big * 1.0 AS wide", "pair.a AS inner_a"],
            ]
        )


CONSTANTS = {
    "tiny": "1Y",
    "small": "2",
    "big": "3L",
    "text": "'a'",
    "day": "DATE '1970-01-01'",
    "at": "TIMESTAMP '2024-03-31 09:00:00'",
    "price": "CAST(0.25 AS DECIMAL(9, 2))",
    "real": "1.0D",
    "flag": "true",
}


def index_keys(index: Any) -> list[Any]:
    """Sort keys of a hash or sorted index."""
    from nimblepy.schema.types import SortKey

    return [key if isinstance(key, SortKey) else SortKey(key) for key in index.columns]
