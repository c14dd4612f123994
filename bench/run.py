"""Runs workloads over peers, each in its own process, in turns: A B C A B C ..."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.peers import peer as peers
from bench.process import ROOT, Process, Settings, WorkerFailedError
from bench.workloads import BY_NAME, Workload


@dataclass
class Results:
    """Everything a run found out; `as_dict` is the JSON."""

    config: dict[str, Any]
    workloads: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    left_out: dict[str, dict[str, float]] = field(default_factory=dict)
    built: dict[str, dict[str, Any]] = field(default_factory=dict)
    write: dict[str, dict[str, Any]] = field(default_factory=dict)
    fresh: dict[str, dict[str, float]] = field(default_factory=dict)
    cold: dict[str, Any] = field(default_factory=dict)
    reads: dict[str, dict[str, float]] = field(default_factory=dict)
    threads: dict[str, dict[str, float]] = field(default_factory=dict)
    growth: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)  # the digest all peers agree on

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def configuration(settings: Settings, names: list[str]) -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        model = next((s.split(":")[1].strip() for s in lines if s.startswith("model name")), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {peers.peer_class(name).package: peers.installed_version(name) for name in names}
    table = settings.dataset.table()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {model}, {memory >> 30} GiB",
        "python": platform.python_version(),
        "versions": {"pyarrow": _version("pyarrow"), **versions, "nimblepy": _version("nimblepy")},
        "commit": _commit(),
        "nimblepy_build": "release" if settings.build else "installed",
        "dataset": settings.dataset.label,
        "rows": table.num_rows,
        "columns": table.num_columns,
        "threads": settings.threads[0],
        "rounds": settings.rounds,
        "state": "warm: files in the page cache, every question asked before it is timed, "
        "quick ones 20,000 times with other keys or for 2 s",
        "settings": {name: peers.peer_class(name).settings for name in names},
        "load_average": [round(os.getloadavg()[0], 2)],
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def _commit() -> str:
    # the benchmark's own files do not change what is measured
    command = ["git", "describe", "--always", "--abbrev=9", "--exclude=*"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "cpp", "python"], cwd=ROOT)
    return (found or "unknown") + (" with changes" if changed.returncode == 1 else "")


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def summary(
    times: list[int], processor: list[float], keys: int = 1, asking: Sequence[float] = (0.0,)
) -> dict[str, float]:
    """Median, tail and spread of one question, in nanoseconds (of one key, for batches).

    asking: what of it is the clock and the way to the peer; it is in the other figures.
    """
    ordered = sorted(t / keys for t in times)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {
        "median": statistics.median(ordered),
        "p99": at(0.99),
        "p10": at(0.10),
        "p90": at(0.90),
        "min": ordered[0],
        "count": len(ordered),
        "cpu": statistics.median(processor) * 1e9 / keys,
        "asking": statistics.median(asking) / keys,
    }


def run(settings: Settings, names: list[str], chosen: list[Workload], parts: set[str]) -> Results:
    from bench import parts as extra

    results = Results(configuration(settings, names))
    with started(names, settings, results, settings.threads[0]) as processes:
        working = list(processes)
        if "questions" in parts:
            for workload in chosen:
                measure(workload, processes, settings, results, workload.name)
        if "cold" in parts:
            extra.measure_cold(processes, results)
        if "threads" in parts:
            extra.measure_threads(processes, settings, results)
    for threads in settings.threads[1:] if "questions" in parts else ():
        measure_scans(working, chosen, threads, settings, results)
    if "fresh" in parts:
        extra.measure_fresh(working, settings, results)
    if "write" in parts:
        extra.measure_write(working, settings, results)
    if "growth" in parts:
        extra.measure_growth(settings, results)
    results.config["load_average"].append(round(os.getloadavg()[0], 2))
    return results


def measure_scans(
    names: list[str], chosen: list[Workload], threads: int, settings: Settings, results: Results
) -> None:
    """The workloads that can use several threads, once more."""
    workloads = [w for w in chosen if w.unit == "ms"]
    if not workloads:
        return
    # only those that had an answer with one thread, so that nobody starts for nothing
    able = {n for w in workloads for n in results.workloads.get(w.name, {})}
    with started([n for n in names if n in able], settings, results, threads) as processes:
        for workload in workloads:
            measure(workload, processes, settings, results, f"{workload.name}@{threads}")


@contextmanager
def started(
    names: list[str], settings: Settings, results: Results, threads: int
) -> Iterator[dict[str, Process]]:
    """A process for each peer that suits the dataset, its files built and open."""
    with ExitStack() as stack:
        processes: dict[str, Process] = {}
        for name in names:
            process = stack.enter_context(Process(name, settings, threads))
            if start(process, settings, results, again=threads == settings.threads[0]):
                processes[name] = process
            else:
                process.close()
        yield processes


def start(process: Process, settings: Settings, results: Results, *, again: bool) -> bool:
    name = process.peer
    say(f"{name}: building and opening")
    # nimblepy's writer changes from one commit to the next
    rebuild = again and (settings.rebuild or name.startswith("nimblepy"))
    try:
        built = process.ask("build", rebuild=rebuild)
        opened = process.ask("open")
    except WorkerFailedError as error:
        results.problems.append(str(error))
        say(f"{name} is left out: {error}")
        return False
    if "unsupported" in built or "unsupported" in opened:
        say(f"{name} is left out: not made for {settings.dataset.name}")
        return False
    results.built[name] = built
    return True


def measure(
    workload: Workload,
    processes: dict[str, Process],
    settings: Settings,
    results: Results,
    label: str,
) -> None:
    if workload.needs_prefix and len(settings.dataset.key) < 2:
        return
    say(f"{label}: {workload.meaning}")
    # with more threads nimblepy is held against what all agreed on with one
    first = label == workload.name
    answers = checked(workload, processes, settings, results, label, everyone=first)
    agreed = set(answers.values()) - {""}
    if len(agreed) == 1 and first:
        results.answers[label] = min(agreed)
    if len(agreed | set(filter(None, [results.answers.get(workload.name)]))) > 1:
        # without equal answers the times mean nothing
        problem = f"{label}: answers differ: {answers}"
        results.problems.append(problem)
        say(problem)
        return
    times: dict[str, list[int]] = {name: [] for name in answers}
    processor: dict[str, list[float]] = {name: [] for name in answers}
    asking: dict[str, list[float]] = {name: [] for name in answers}
    for _ in range(settings.rounds):
        for name in answers:
            reply = processes[name].ask("time", workload=workload.name, budget=settings.budget)
            times[name] += reply["times"]
            processor[name].append(reply["cpu"])
            asking[name].append(reply["asking"])
    if times:
        results.workloads[label] = {
            name: summary(times[name], processor[name], workload.keys, asking[name])
            for name in answers
        }


def checked(
    workload: Workload,
    processes: dict[str, Process],
    settings: Settings,
    results: Results,
    label: str,
    *,
    everyone: bool = True,
) -> dict[str, str]:
    """Digests of the answers; who has none, or takes too long for one, is left out.

    everyone: False takes no digest of peers, whose answers have been compared before.
    """
    answers: dict[str, str] = {}
    for name, process in processes.items():
        only = peers.peer_class(name).only
        if only is not None and workload.name not in only:
            continue
        digest = everyone or name.startswith("nimblepy")
        try:
            reply = process.ask(
                "check", workload=workload.name, patience=settings.patience, digest=digest
            )
        except WorkerFailedError as error:
            results.problems.append(f"{label}: {error}")
            say(f"{label}: left out: {error}")
            continue
        if "slow" in reply:
            results.left_out.setdefault(label, {})[name] = reply["slow"]
            say(f"{label}: {name} is left out: {reply['slow']:.1f} s for one question")
        elif reply.get("answer") is not None:
            answers[name] = reply["answer"]
    return answers


def workload_of(label: str) -> tuple[Workload, int]:
    """The workload of a label of the results, and its threads."""
    name, _, threads = label.partition("@")
    return BY_NAME[name], int(threads or 1)
