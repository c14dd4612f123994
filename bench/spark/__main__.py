"""python -m bench.spark: nimblepy in Spark beside Spark's own joins, scans and writes over Parquet.

python -m bench.spark --list                 the workloads, one line each
python -m bench.spark --prepare              makes the data only: 5 GB, some minutes
python -m bench.spark                        all: 15 minutes; writes bench/results/spark.{json,md}
python -m bench.spark --scale 0.01 --out out quickly, on little data
python -m bench.spark --only join_10m_1k,write --turns 5

Each workload is run by all its ways in turns, A B C A B C, after one turn that warms up (short
ones: 8 s of turns). A turn's cost is the wall time and the processor time of the whole process tree
(driver, JVM, Python workers). The answers of the ways must be equal before any of them is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.spark import measure, report
from bench.spark.data import Data
from bench.spark.session import start
from bench.spark.workloads import BY_NAME

RESULTS = Path(__file__).parent.parent / "results"
EXTRA = {
    "memory": "memory of Python workers as the dimension grows",
    "files": "dataset of 10,000 files: open and one lookup",
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    folder = Path(os.environ.get("NIMBLEPY_DATA", "~/.cache/nimblepy")).expanduser() / "bench"
    add = parser.add_argument
    add("--list", action="store_true", help="list the workloads")
    add("--prepare", action="store_true", help="make the data and stop")
    add("--scale", type=float, default=1.0, help="factor on all numbers of rows (1)")
    add("--only", default="", help="workloads, divided by commas (all)")
    add("--turns", type=int, default=3, help="least turns of every way (3)")
    add("--data", type=Path, default=folder, help="where data are kept (NIMBLEPY_DATA/bench)")
    add("--out", type=Path, help="folder of spark.json and spark.md (all at scale 1: results)")
    add("--memory-of", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.list:
        for name, workload in BY_NAME.items():
            print(f"{name:14} {workload.meaning}")
        for name, meaning in EXTRA.items():
            print(f"{name:14} {meaning}")
        return
    data = Data(arguments.data, arguments.scale)
    if arguments.memory_of is not None:
        print(json.dumps(measure.memory_of(data, arguments.memory_of)))
        return
    every = [*BY_NAME, *EXTRA]
    chosen = [name for name in arguments.only.split(",") if name] or every
    unknown = [name for name in chosen if name not in every]
    if unknown:
        sys.exit(f"bench: no workload {unknown[0]!r}; there are {', '.join(every)}")
    prepare(data, chosen)
    if arguments.prepare:
        return
    results = run(data, chosen, arguments)
    out = arguments.out
    if out is None and arguments.scale == 1 and chosen == every:
        out = RESULTS
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "spark.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        (out / "spark.md").write_text(report.page(results), "utf-8")


def prepare(data: Data, chosen: list[str]) -> None:
    for name in chosen:
        if name in BY_NAME:
            BY_NAME[name].prepare(data)
        elif name == "files":
            data.many_files(data.rows(10_000))
        else:
            for join in ("join_10m_1m", "join_50m_1m"):
                BY_NAME[join].prepare(data)


def run(data: Data, chosen: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    config = report.configuration(arguments.scale, arguments.turns)
    results: dict[str, Any] = {"config": config, "workloads": {}}
    extra = {"memory": lambda: measure.memory(data, arguments.data)}
    extra["files"] = lambda: measure.many_files(data)
    for name, measured in extra.items():  # before there is a session to share the machine with
        if name in chosen:
            results["workloads"][name] = measured()
            print(report.lines(name, results["workloads"][name]), flush=True)
    compared = [BY_NAME[name] for name in chosen if name in BY_NAME]
    spark = start() if compared else None
    for workload in compared:
        costs = measure.in_turns(workload.ways(spark, data), arguments.turns)
        found = {"meaning": workload.meaning, "ways": costs}
        found["bar"] = measure.bar_of(workload, costs)
        results["workloads"][workload.name] = found
        print(report.lines(workload.name, found), flush=True)
    if spark is not None:
        spark.stop()
    config["load_average"].append(round(os.getloadavg()[0], 2))
    return results


if __name__ == "__main__":
    main()
