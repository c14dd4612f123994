"""Suites: several runs, one after the other, as one command.

`python -m bench --suite bars` measures every bar that bars.py knows; `--prepare` builds the files
of all peers beforehand, which takes longer than the measuring.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import bars, charts, datasets, markdown, report
from bench.process import Settings
from bench.run import run, say
from bench.workloads import BY_NAME

POINTS = ("open", "get_hot", "get", "get_absent", "lookup_10k", "lookup_100k", "range_1000")
SCANS = ("scan", "scan_table", "scan_two", "filtered_sum")


@dataclass(frozen=True)
class Step:
    """One run of a suite."""

    dataset: str
    size: float | None = None  # scale factor or rows; None: the usual
    workloads: tuple[str, ...] = (*POINTS, "prefix", *SCANS)
    parts: tuple[str, ...] = ("questions",)
    rounds: int = 5
    threads: tuple[int, ...] = (1,)
    write_rounds: int = 1
    writers: tuple[str, ...] = ()
    growth_rows: tuple[int, ...] = (1_000_000, 100_000_000)
    patience: float = 0.5
    without: tuple[str, ...] = ()  # peers that would cost more time than they tell

    def known(self) -> datasets.Dataset:
        return datasets.known(self.dataset, self.size, int(self.size) if self.size else None)


COMPACT = ("nimblepy, compact", "vortex, compact")
SMALL = 100_000
SUITES = {
    # everything once on little data: does the benchmark itself work?
    "smoke": (
        Step(
            "orders",
            0.1,
            parts=("questions", "cold", "threads", "fresh", "write", "growth"),
            threads=(1, 2),
            rounds=1,
            growth_rows=(SMALL, 10 * SMALL),
        ),
        Step("events", SMALL, parts=("questions", "write"), rounds=1, threads=(1, 2)),
        Step("uuids", SMALL, rounds=1),
        Step("unsorted", SMALL, rounds=1),
        Step("lineitem", 0.01, rounds=1),
    ),
    # some 15 minutes on two idle cores, the files of peers built before
    "bars": (
        Step(
            "orders",
            10,
            workloads=(*POINTS, "scan", "scan_two", "filtered_sum"),
            parts=("questions", "cold", "threads", "fresh", "write", "growth"),
            threads=(1, 2),
            rounds=3,
            write_rounds=2,
            writers=("nimblepy", "nimblepy, 2 threads", "parquet"),
            patience=0.1,
            without=("polars", "duckdb_parquet"),
        ),
        Step(
            "events",
            parts=("questions", "write"),
            rounds=3,
            threads=(1, 2),
            writers=COMPACT,
            patience=0.1,
        ),
        Step("uuids", workloads=POINTS, parts=("questions", "write"), rounds=3, writers=COMPACT),
        Step("orders", 1, parts=("questions", "write"), threads=(1, 2), rounds=3, write_rounds=5),
        Step("unsorted", workloads=POINTS, rounds=3, patience=0.1),
        Step("lineitem", workloads=(*POINTS, "prefix"), rounds=3, patience=0.1),
    ),
}


def go(
    name: str,
    wanted: list[str],
    build: Path | None,
    out: Path,
    *,
    prepare: bool,
    budget: float,
    only: list[str],
) -> int:
    """Runs the steps; results of each go to `out`, an overview of all to `out`/NAME.md."""
    found: list[dict[str, Any]] = []
    for step in SUITES[name]:
        dataset = step.known()
        if only and dataset.label not in only:
            continue
        start = time.perf_counter()
        datasets.prepare(dataset)
        settings = Settings(
            dataset=dataset,
            rounds=step.rounds,
            threads=step.threads,
            budget=budget,
            build=build,
            write_rounds=step.write_rounds,
            writers=step.writers,
            growth_rows=step.growth_rows,
            patience=step.patience,
        )
        names = [n for n in wanted if n not in step.without]
        if prepare:
            run(settings, names, [], set())
        else:
            workloads = [BY_NAME[w] for w in step.workloads]
            found.append(run(settings, names, workloads, set(step.parts)).as_dict())
            keep(found[-1], out / f"{dataset.label}.json")
        say(f"{dataset.label}: {time.perf_counter() - start:.0f} s")
    if not found:
        return 0
    for each in found:
        report.show(each)
        charts.draw(each, out / "charts")
    (out / f"{name}.md").write_text(overview(found), "utf-8")
    return 1 if any(each["problems"] for each in found) else 0


def keep(found: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def overview(found: list[dict[str, Any]]) -> str:
    """The bars of all runs first, then each run."""
    parts = ["## Bars\n"]
    for each in found:
        if reached := markdown.reached(list(bars.bars(each))):
            parts.append(f"{each['config']['dataset']}:\n\n{reached}\n")
    parts += [f"## {each['config']['dataset']}\n\n{markdown.overview(each)}" for each in found]
    return "\n".join(parts)
