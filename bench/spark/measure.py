"""Takes turns, and what a turn costs."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nimblepy.spark as ns
from bench.spark.data import ROWS_PER_FILE, Data
from bench.spark.session import Processors, WorkerMemory, start
from bench.spark.workloads import BIG, MEDIUM, Ways, Workload, _answer, one_lookup

# Short workloads get more turns, so that one hiccup of the machine decides nothing, and are warmed
# up as long: after three calls the JVM still interprets most of a plan that takes 0.1 s.
LEAST_SECONDS = 8.0
MOST_TURNS = 9


def in_turns(ways: Ways, turns: int) -> dict[str, dict[str, float]]:
    """Wall and processor seconds of every way: A B C A B C, after turns that warm up.

    Raises:
        AssertionError: their answers differ.
    """
    began = time.perf_counter()
    answers = {name: way() for name, way in ways.items()}
    first = next(iter(answers.values()))
    assert all(answer == first for answer in answers.values()), f"answers differ: {answers}"
    while time.perf_counter() - began < LEAST_SECONDS:
        for way in ways.values():
            way()
    turn_began = time.perf_counter()
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    done = 0
    while done < turns or (done < MOST_TURNS and time.perf_counter() - turn_began < LEAST_SECONDS):
        for name, way in ways.items():
            processors, began = Processors(), time.perf_counter()
            way()
            wall = time.perf_counter() - began
            costs[name].append((wall, processors.seconds()))
        done += 1
    return {name: _summary(found) for name, found in costs.items()}


def _summary(costs: list[tuple[float, float]]) -> dict[str, float]:
    walls, cpus = [wall for wall, _ in costs], [cpu for _, cpu in costs]
    return {
        "wall_min": min(walls),
        "wall_median": statistics.median(walls),
        "cpu_min": min(cpus),
        "cpu_median": statistics.median(cpus),
        "turns": len(costs),
    }


def bar_of(workload: Workload, costs: dict[str, dict[str, float]]) -> dict[str, Any]:
    """How the least cost of ours compares with the least of the others."""
    key = f"{workload.measure}_min"
    peers = {
        n: c[key] for n, c in costs.items() if not n.startswith("nimble") and n != workload.ours
    }
    best = min(peers, key=lambda name: peers[name])
    ratio = costs[workload.ours][key] / peers[best]
    return {
        "text": f"{workload.measure} of {workload.ours} / {best}",
        "value": ratio,
        "limit": workload.limit,
        "met": ratio <= workload.limit,
    }


def memory(data: Data, folder: Path) -> dict[str, Any]:
    """Memory of Python workers in joins with either dimension, each in a session of its own."""
    found = {}
    for rows in (MEDIUM, BIG):
        command = [sys.executable, "-m", "bench.spark", "--memory-of", str(data.rows(rows))]
        command += ["--data", str(folder), "--scale", str(data.scale)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[rows] = json.loads(done.stdout.splitlines()[-1])
    growth = found[BIG]["own"] / found[MEDIUM]["own"]
    return {
        "meaning": "most memory of a Python worker, 1M probes, 50M rows against 10M",
        "bytes": {f"{rows:,} rows": sizes for rows, sizes in found.items()},
        "bar": {
            "text": "own memory at 50M / at 10M rows",
            "value": growth,
            "limit": 1.1,
            "met": growth <= 1.1,
        },
    }


def memory_of(data: Data, rows: int) -> dict[str, int]:
    """For a process of its own: the memory of workers that join with one dimension."""
    spark = start()
    nimble, _ = data.dimension(rows)
    probe = spark.read.parquet(data.probes(data.rows(1_000_000), rows))
    with WorkerMemory() as found:
        for _ in range(4):
            _answer(ns.index_join(probe, nimble, on="k"))
    spark.stop()
    return {"own": found.own, "mapped": found.mapped}


def many_files(data: Data) -> dict[str, Any]:
    """Open and one lookup in a dataset of 10,000 files, in plain Python."""
    number = data.rows(10_000)
    directory = data.many_files(number)
    seconds, opened = [], 0
    for i in range(20):
        key = (i * 7919 + 13) % number * ROWS_PER_FILE + i
        began = time.perf_counter()
        value, files = one_lookup(directory, key)
        seconds.append(time.perf_counter() - began)
        assert value == key * 3
        opened = max(opened, files)
    return {
        "meaning": "dataset of 10,000 files: open and one lookup",
        "ways": {
            "nimble": {
                "wall_min": min(seconds),
                "wall_median": statistics.median(seconds),
                "files_opened": opened,
            }
        },
        "bar": {
            "text": f"median ms ({opened} files opened of 3 allowed)",
            "value": statistics.median(seconds) * 1e3,
            "limit": 50,
            "met": statistics.median(seconds) <= 0.05 and opened <= 3,
        },
    }
