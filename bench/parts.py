"""What a run measures beside its questions: fresh processes, writes, threads, growth, reads."""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from bench import datasets
from bench.process import Process, Settings, WorkerFailedError
from bench.run import Results, checked, say, summary
from bench.workloads import BY_NAME

FRESH_ROUNDS = 3
THREADS = (1, 2, 4, 8)
THREAD_ROUNDS = 4
THREADED = {"lookup_10k": 10_000, "get": 1}  # keys of one question
GROWTH_QUESTIONS = ("get_hot", "get", "get_absent", "lookup_10k", "range_1000")
GROWTH_CHECK = "arrow_mmap"


def measure_fresh(names: list[str], settings: Settings, results: Results) -> None:
    say("first lookup in a fresh process")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(FRESH_ROUNDS):
        for name in names:
            with Process(name, settings) as process:
                reply = process.ask("fresh")
                if "open" in reply:
                    found[name].append(reply)
    results.fresh = {name: medians(replies) for name, replies in found.items() if replies}


def medians(replies: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(r[key] for r in replies) for key in replies[0]}


def measure_cold(processes: dict[str, Process], results: Results) -> None:
    """Reads of a lookup by a process that has nothing in memory but the kernel's page cache."""
    say("reads of cold lookups")
    if "nimblepy" in processes:
        reply = processes["nimblepy"].ask("cold", count=100)
        results.cold = {} if "unsupported" in reply else reply
    for name, process in processes.items():
        reply = process.ask("reads", count=20)
        if "calls" in reply:
            results.reads[name] = reply


def measure_threads(processes: dict[str, Process], settings: Settings, results: Results) -> None:
    """Lookups a second of several threads on one open file; the best of some rounds."""
    if "nimblepy" not in processes:
        return
    say("lookups of several threads on one handle")
    process = processes["nimblepy"]
    for workload, keys in THREADED.items():
        best: dict[str, float] = {}
        for _ in range(THREAD_ROUNDS):
            for threads in THREADS:
                reply = process.ask("threads", workload=workload, threads=threads, seconds=0.5)
                rate = reply["questions"] * keys / reply["seconds"]
                best[str(threads)] = max(rate, best.get(str(threads), 0))
        results.threads[workload] = best
    _two_processes(process, settings, results)


def _two_processes(first: Process, settings: Settings, results: Results) -> None:
    """What the machine has for two that share nothing: the ceiling of two threads."""
    with Process("nimblepy", settings) as second, ThreadPoolExecutor(2) as pool:
        second.ask("open")
        both = (first, second)
        for workload, keys in THREADED.items():
            ask = partial(Process.ask, do="threads", workload=workload, threads=1, seconds=0.5)
            rates = [
                sum(r["questions"] * keys / r["seconds"] for r in pool.map(ask, both))
                for _ in range(THREAD_ROUNDS + 1)
            ]
            # the first warms the second process
            results.threads[workload]["2 processes"] = max(rates[1:])


def measure_growth(settings: Settings, results: Results) -> None:
    """The same lookups in a small and a large file of the same kind."""
    say("lookups in files that grow")
    with ExitStack() as stack:
        ours: dict[str, Process] = {}
        for rows in settings.growth_rows:
            dataset = datasets.known("numbers", rows=rows)
            datasets.prepare(dataset)
            each = replace(settings, dataset=dataset)
            found = {n: stack.enter_context(Process(n, each)) for n in ("nimblepy", GROWTH_CHECK)}
            for name, process in found.items():
                process.ask("build", rebuild=name == "nimblepy")
                process.ask("open")
            for question in GROWTH_QUESTIONS:
                label = f"{dataset.label}: {question}"
                answers = checked(BY_NAME[question], found, each, results, label)
                if len(answers) < 2 or len(set(answers.values())) > 1:
                    results.problems.append(f"{label}: answers differ or are missing: {answers}")
                    return
            found[GROWTH_CHECK].close()
            ours[dataset.label] = found["nimblepy"]
        for question in GROWTH_QUESTIONS:
            results.growth[question] = _in_turns(question, ours, settings)


def _in_turns(question: str, processes: dict[str, Process], settings: Settings) -> dict[str, Any]:
    times: dict[str, list[int]] = {label: [] for label in processes}
    processor: dict[str, list[float]] = {label: [] for label in processes}
    for _ in range(settings.rounds):
        for label, process in processes.items():
            reply = process.ask("time", workload=question, budget=settings.budget)
            times[label] += reply["times"]
            processor[label].append(reply["cpu"])
    keys = BY_NAME[question].keys
    return {label: summary(times[label], processor[label], keys) for label in processes}


# label, peer, threads, how; a compact file is written once, for its size
def write_cases(names: list[str], cores: int) -> list[tuple[str, str, int, dict[str, Any]]]:
    cases: list[tuple[str, str, int, dict[str, Any]]] = []
    if "nimblepy" in names:
        cases.append(("nimblepy", "nimblepy", 1, {"how": "indexed"}))
        cases.append(("nimblepy, no index", "nimblepy", 1, {"how": "plain"}))
        if cores > 1:
            cases.append((f"nimblepy, {cores} threads", "nimblepy", cores, {"how": "indexed"}))
        cases.append(("nimblepy, compact", "nimblepy", cores, {"how": "compact"}))
    cases += [(n, n, 1, {"how": "peer"}) for n in ("parquet", "vortex", "lance") if n in names]
    if "vortex" in names:
        cases.append(("vortex, compact", "vortex", cores, {"how": "peer_compact"}))
    return cases


def measure_write(names: list[str], settings: Settings, results: Results) -> None:
    """Rows in memory to a finished, synced file; nimblepy also without its index."""
    say("write")
    cases = write_cases(names, os.cpu_count() or 1)
    cases = [case for case in cases if not settings.writers or case[0] in settings.writers]
    found: dict[str, list[dict[str, float]]] = {label: [] for label, *_ in cases}
    with ExitStack() as stack:
        processes = {}
        for label, name, threads, _ in cases:
            processes[label] = stack.enter_context(Process(name, settings, threads))
            processes[label].ask("touch")
        for turn in range(settings.write_rounds):
            for label, _, _, options in cases:
                if turn and "compact" in options["how"]:
                    continue
                try:
                    found[label].append(processes[label].ask("write", **options))
                except WorkerFailedError as error:
                    if not turn:
                        results.problems.append(f"write: {error}")
                time.sleep(0.2)  # lets the disk settle between writers
    results.write = {
        label: {
            **medians(replies),
            "fastest": min(r["seconds"] for r in replies),
            "least_cpu": min(r["cpu"] for r in replies),
        }
        for label, replies in found.items()
        if replies
    }
