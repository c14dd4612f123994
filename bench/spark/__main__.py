"""python -m bench.spark: nimblepy in Spark beside Spark's own joins, scans and writes over Parquet.

python -m bench.spark --list                the workloads, one line each
python -m bench.spark                       a dimension of 10M rows: some minutes
python -m bench.spark --rows 50000000       needs 5 GB of disk
python -m bench.spark --only join_1k,write --rounds 5 --json out.json

Each workload is run by all its ways in turns, after one warm-up turn: A B C A B C. A turn's cost is
the wall time and the processor time of the whole process tree (driver, JVM, Python workers). The
answers of the ways (a count and a sum) must be equal before any of them is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.spark import workloads
from bench.spark.session import processor_seconds, start


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = parser.add_argument
    add("--list", action="store_true", help="list the workloads")
    add("--rows", type=int, default=10_000_000, help="rows of the dimension (10M)")
    add("--only", default="", help="workloads, divided by commas (all)")
    add("--rounds", type=int, default=3, help="turns of every way (3)")
    add("--data", type=Path, help="where the data are kept (NIMBLEPY_DATA/spark)")
    add("--json", type=Path, help="write all results there")
    return parser.parse_args()


def measure(ways: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    answers = {name: way() for name, way in ways.items()}  # the warm-up turn
    if len(set(answers.values())) != 1:
        sys.exit(f"bench: the answers differ: {answers}")
    wall: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            before, began = processor_seconds(), time.perf_counter()
            way()
            wall[name].append(time.perf_counter() - began)
            cpu[name].append(processor_seconds() - before)
    return {
        name: {
            "wall_min": min(wall[name]),
            "wall_median": statistics.median(wall[name]),
            "cpu_min": min(cpu[name]),
            "cpu_median": statistics.median(cpu[name]),
        }
        for name in ways
    }


def main() -> None:
    arguments = parse()
    if arguments.list:
        for name, workload in workloads.ALL.items():
            print(f"{name:14} {workload.__doc__}")
        return
    chosen = [name for name in arguments.only.split(",") if name] or list(workloads.ALL)
    unknown = [name for name in chosen if name not in workloads.ALL]
    if unknown:
        sys.exit(f"bench: no workload {unknown[0]!r}; there are {', '.join(workloads.ALL)}")
    data = arguments.data or Path(os.environ.get("NIMBLEPY_DATA", "build/bench-data")) / "spark"
    spark = start()
    setting = workloads.Setting(spark, data, arguments.rows)
    results: dict[str, Any] = {"rows": arguments.rows, "rounds": arguments.rounds}
    for name in chosen:
        results[name] = measure(workloads.ALL[name](setting), arguments.rounds)
        print(f"\n{name}: {workloads.ALL[name].__doc__}")
        for way, cost in results[name].items():
            print(
                f"  {way:26} wall {cost['wall_min']:8.2f} s (median {cost['wall_median']:.2f})"
                f"   cpu {cost['cpu_min']:8.2f} s (median {cost['cpu_median']:.2f})"
            )
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
