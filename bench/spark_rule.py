"""python -m bench.spark_rule: joins that Spark's optimizer turns into lookups, beside other ways.

python -m bench.spark_rule                     5M rows; 1,000, 100,000 and 1M probes
python -m bench.spark_rule --scale 0.1         a tenth of all rows
python -m bench.spark_rule --cells             16 cells of files and probes, by processor time
python -m bench.spark_rule --scans             plain loads and what the rule adds to planning
python -m bench.spark_rule --asof              10,000 and 200,000 as-of probes into 2M events

Each join counts its rows and sums columns. The ways take turns, A B C A B C, after one turn that
warms up. All ways must return the same answer. It also measures the start of a session, and what
the rule costs in a query with and without nimble files.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nimblepy as nb
import nimblepy.spark as ns
from bench.spark.session import Processors, start

ROWS = 5_000_000
PROBES = (1_000, 100_000, 1_000_000)
CELL_ROWS = (20_000, 200_000, 1_000_000, 5_000_000)
CELL_PROBES = (1_000, 100_000, 1_000_000, 3_000_000)
SETTING = "spark.nimblepy.indexJoin"
Way = Callable[[], Any]


def dimension(folder: Path, rows: int) -> tuple[str, str]:
    """Paths of the same rows as a nimble file and as Parquet. Keys are multiples of 3."""
    paths = folder / f"dim{rows}.nimble", folder / f"dim{rows}.parquet"
    if not paths[1].exists():
        rng = np.random.default_rng(rows)
        table = pa.table(
            {
                "k": np.arange(rows, dtype=np.int64) * 3,
                "a": rng.integers(0, 1000, rows),
                "b": rng.random(rows),
                "c": rng.integers(0, 10**9, rows),
            }
        )
        nb.write(table, paths[0], cluster_by="k")
        pq.write_table(table, paths[1])
    return str(paths[0]), str(paths[1])


def probes(folder: Path, count: int, rows: int) -> str:
    """The path of random probes, a third of which match."""
    path = folder / f"probe{count}of{rows}.parquet"
    if not path.exists():
        rng = np.random.default_rng(count)
        keys = rng.integers(0, rows * 3, count)
        table = pa.table({"k": keys, "x": rng.integers(0, 100, count)})
        pq.write_table(table, path, row_group_size=1 << 19)
    return str(path)


def answer(joined: Any) -> tuple[Any, ...]:
    from pyspark.sql import functions as F

    row = joined.agg(F.count("*"), F.sum("a"), F.sum("c"), F.sum("x")).first()
    return tuple(row)


def join_ways(spark: Any, folder: Path, rows: int, count: int) -> dict[str, Way]:
    nimble, parquet = dimension(folder, rows)
    path = probes(folder, count, rows)

    def plain(setting: str, format: str, at: str) -> Way:
        def run() -> Any:
            spark.conf.set(SETTING, setting)
            dim = spark.read.format(format).load(at)
            return answer(spark.read.parquet(path).join(dim, "k"))

        return run

    def explicit() -> Any:
        return answer(ns.index_join(spark.read.parquet(path), nimble, on="k", columns=["a", "c"]))

    return {
        "Spark, nimble scan": plain("off", "nimble", nimble),
        "Spark, Parquet": plain("off", "parquet", parquet),
        "ns.index_join": explicit,
        "rule, always": plain("always", "nimble", nimble),
        "rule, auto": plain("auto", "nimble", nimble),
    }


def scan_ways(spark: Any, folder: Path, rows: int) -> dict[str, Way]:
    nimble, _ = dimension(folder, rows)

    def plain() -> Any:
        spark.conf.set(SETTING, "auto")
        return sums(spark.read.format("nimble").load(nimble).where(f"k < {rows}"))

    def scan() -> Any:
        return sums(ns.scan(spark, nimble, columns=["k", "a"], filter=f"k < {rows}"))

    def sums(frame: Any) -> Any:
        return tuple(frame.agg({"k": "sum", "a": "sum"}).first())

    def point() -> Any:
        spark.conf.set(SETTING, "auto")
        return spark.read.format("nimble").load(nimble).where("k = 3000").select("a").collect()

    def point_scan() -> Any:
        return ns.scan(spark, nimble, columns=["a"], filter="k = 3000").collect()

    return {
        "plain load, a third": plain,
        "ns.scan, a third": scan,
        "plain load, a key": point,
        "ns.scan, a key": point_scan,
    }


def load_ways(spark: Any, folder: Path, rows: int) -> dict[str, Way]:
    """Spark asks a Python process for the schema of a source, before there is a query."""
    nimble, _ = dimension(folder, rows)
    return {"plain load, no query": lambda: spark.read.format("nimble").load(nimble).isStreaming}


def events(folder: Path, rows: int) -> tuple[str, str]:
    """Paths of the same events as a nimble file and as Parquet: 20,000 users, random times."""
    paths = folder / f"events{rows}.nimble", folder / f"events{rows}.parquet"
    if not paths[1].exists():
        rng = np.random.default_rng(rows)
        times = rng.permutation(rows * 4)[:rows]  # without ties
        table = pa.table(
            {
                "user": rng.integers(0, 20_000, rows),
                "t": pa.array(times.astype(np.int64) * 1_000_000, pa.timestamp("us", "UTC")),
                "a": rng.integers(0, 1000, rows),
                "b": rng.random(rows),
                "c": rng.integers(0, 10**9, rows),
            }
        )
        nb.write(table, paths[0], cluster_by=["user", "t"])
        pq.write_table(table, paths[1])
    return str(paths[0]), str(paths[1])


def asof_ways(spark: Any, folder: Path, rows: int, count: int) -> dict[str, Way]:
    from pyspark.sql import functions as F

    nimble, parquet = events(folder, rows)
    path = folder / f"asof{count}of{rows}.parquet"
    if not path.exists():
        rng = np.random.default_rng(count)
        times = rng.integers(0, rows * 4, count) * 1_000_000
        table = pa.table(
            {
                "p_user": rng.integers(0, 20_000, count),
                "p_t": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, path)
    spark.read.parquet(str(path)).createOrReplaceTempView("labels")
    for switch in ("asofJoin", "sortMergeAsOfJoin"):
        spark.conf.set(f"spark.sql.join.{switch}.enabled", "true")

    def sums(joined: Any) -> Any:
        return tuple(joined.agg(F.count("a"), F.sum("a"), F.sum("c")).first())

    def plain(setting: str, format: str, at: str) -> Way:
        def run() -> Any:
            spark.conf.set(SETTING, setting)
            spark.read.format(format).load(at).createOrReplaceTempView("events")
            text = "SELECT a, b, c FROM labels LEFT ASOF JOIN events MATCH_CONDITION (p_t >= t)"
            return sums(spark.sql(f"{text} ON p_user = user"))

        return run

    def explicit() -> Any:
        keys: dict[str, Any] = {"on": {"p_t": "t"}, "by": {"p_user": "user"}}
        return sums(ns.asof_join(spark.table("labels"), nimble, columns=["a", "c"], **keys))

    return {
        "Spark, Parquet": plain("off", "parquet", parquet),
        "ns.asof_join": explicit,
        "rule, always": plain("always", "nimble", nimble),
        "rule, auto": plain("auto", "nimble", nimble),
    }


def measured(ways: dict[str, Way], turns: int) -> dict[str, tuple[float, float]]:
    """The least wall and processor seconds of each way."""
    best: dict[str, tuple[float, float]] = {}
    answers = {}
    for turn in range(turns + 1):
        for name, way in ways.items():
            processors, begin = Processors(), time.perf_counter()
            answers[name] = way()
            wall, cpu = time.perf_counter() - begin, processors.seconds()
            if turn:
                before = best.get(name, (wall, cpu))
                best[name] = min(before[0], wall), min(before[1], cpu)
    return best if len(set(answers.values())) == 1 else _differ(answers)


def _differ(answers: dict[str, Any]) -> Any:
    raise AssertionError(f"the ways disagree: {answers}")


def planning(spark: Any, folder: Path, rows: int, turns: int) -> None:
    """What the rule adds to planning."""
    nimble, parquet = dimension(folder, rows)
    small = spark.range(1000).withColumnRenamed("id", "k")
    dims = {
        "without nimble files": spark.read.parquet(parquet),
        "with a nimble join": spark.read.format("nimble").load(nimble),
    }
    for name, dim in dims.items():
        best = {}
        for _ in range(turns * 10):
            for setting in ("off", "auto"):
                spark.conf.set(SETTING, setting)
                query = small.join(dim, "k")._jdf.queryExecution()
                begin = time.perf_counter()
                query.optimizedPlan()
                seconds = time.perf_counter() - begin
                best[setting] = min(best.get(setting, seconds), seconds)
        added = (best["auto"] - best["off"]) * 1e3
        print(f"planning {name}: off {best['off'] * 1e3:.2f} ms, rule adds {added:.3f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark_rule",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    data = Path(os.environ.get("NIMBLEPY_DATA", "~/.cache/nimblepy")).expanduser() / "bench"
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all numbers of rows")
    parser.add_argument("--turns", type=int, default=3, help="turns of each way (3)")
    parser.add_argument("--cells", action="store_true", help="the 16 cells")
    parser.add_argument("--asof", action="store_true", help="as-of joins")
    parser.add_argument("--scans", action="store_true", help="plain loads and planning, no joins")
    parser.add_argument("--data", type=Path, default=data, help="where data are kept")
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    spark = start()
    session = time.perf_counter() - begin
    begin = time.perf_counter()
    # The first call of a session makes Spark's own catalog, with and without nimblepy.
    ns.register(spark, optimizer=False)
    registered = time.perf_counter() - begin
    begin = time.perf_counter()
    ns.register(spark)
    rule = time.perf_counter() - begin
    print(f"session {session:.2f} s, Spark's register {registered:.2f} s, the rule {rule:.2f} s")
    if arguments.asof:
        number = int(2_000_000 * arguments.scale)
        for count in (10_000, 200_000):
            count = int(count * arguments.scale)
            ways = asof_ways(spark, arguments.data, number, count)
            title = f"as-of, {number:,} events, {count:,} probes"
            report(title, measured(ways, arguments.turns))
        spark.stop()
        return
    rows = CELL_ROWS if arguments.cells else (ROWS,)
    for number in () if arguments.scans else rows:
        scaled = int(number * arguments.scale)
        for count in CELL_PROBES if arguments.cells else PROBES:
            count = int(count * arguments.scale)
            ways = join_ways(spark, arguments.data, scaled, count)
            if arguments.cells:
                ways = {name: ways[name] for name in ("Spark, nimble scan", "rule, auto")}
            report(f"{scaled:,} rows, {count:,} probes", measured(ways, arguments.turns))
    scaled = int(ROWS * arguments.scale)
    if not arguments.cells:
        ways = scan_ways(spark, arguments.data, scaled)
        for pair in (list(ways)[:2], list(ways)[2:]):
            some = {name: (lambda way=ways[name]: repr(way())) for name in pair}
            report(f"scan of {scaled:,} rows", measured(some, arguments.turns))
        report("load", measured(load_ways(spark, arguments.data, scaled), arguments.turns))
        planning(spark, arguments.data, scaled, arguments.turns)
    spark.stop()


def report(title: str, best: dict[str, tuple[float, float]]) -> None:
    print(title)
    for name, (wall, cpu) in best.items():
        print(f"  {name:22} wall {wall:7.3f} s  cpu {cpu:7.3f} s", flush=True)


if __name__ == "__main__":
    main()
