"""Runs workloads over peers, each in its own process, in turns: A B C A B C ..."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench import peers
from bench.datasets import Dataset
from bench.workloads import Workload

ROOT = Path(__file__).resolve().parent.parent
FRESH_ROUNDS = 5


@dataclass(frozen=True)
class Settings:
    dataset: Dataset
    rounds: int
    threads: int
    budget: float  # seconds of one peer's turn, for questions that are quick
    build: Path | None
    rebuild: bool
    write_rounds: int


class WorkerFailedError(RuntimeError):
    """A peer broke; the message is its own traceback."""


class Process:
    """A worker process with one peer."""

    def __init__(self, peer: str, settings: Settings, threads: int | None = None) -> None:
        dataset = settings.dataset
        threads = threads or settings.threads
        command = [sys.executable, "-m", "bench.worker", "--peer", peer, "--dataset", dataset.name]
        if dataset.name == "orders":
            command += ["--sf", f"{dataset.size:g}"]
        else:
            command += ["--rows", f"{dataset.size:.0f}"]
        command += ["--threads", str(threads)]
        if settings.build and peer == "nimblepy":
            command += ["--build", str(settings.build)]
        # Polars and Lance take the size of their thread pools from here only
        pools = {"POLARS_MAX_THREADS": str(threads), "LANCE_CPU_THREADS": str(threads)}
        self.peer = peer
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **pools},
        )

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailedError(f"{self.peer}: the process is gone") from None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailedError(f"{self.peer}: died of {do} (status {self._process.wait()})")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerFailedError(f"{self.peer}: {do}: {reply['error']}")
        return reply

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Results:
    """Everything a run found out; `as_dict` is the JSON."""

    config: dict[str, Any]
    workloads: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    built: dict[str, dict[str, Any]] = field(default_factory=dict)
    write: dict[str, dict[str, Any]] = field(default_factory=dict)
    fresh: dict[str, dict[str, float]] = field(default_factory=dict)
    cold: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def configuration(settings: Settings, names: list[str]) -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        model = next((s.split(":")[1].strip() for s in lines if s.startswith("model name")), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = {peers.peer_class(name).package for name in names} | {"pyarrow"}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {model}, {memory >> 30} GiB",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in sorted(packages)},
        "commit": _commit(),
        "nimblepy_build": "release" if settings.build else "installed",
        "dataset": settings.dataset.label,
        "rows": settings.dataset.table().num_rows,
        "columns": settings.dataset.table().num_columns,
        "threads": settings.threads,
        "rounds": settings.rounds,
        "state": "warm: files in the page cache, every question asked before it is timed",
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


def summary(times: list[int], processor: list[float], keys: int = 1) -> dict[str, float]:
    """Median, tail and spread of one question, in nanoseconds (of one key, for batches)."""
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
    }


def run(settings: Settings, names: list[str], chosen: list[Workload], parts: set[str]) -> Results:
    results = Results(configuration(settings, names))
    processes: dict[str, Process] = {}
    try:
        for name in names:
            process = Process(name, settings)
            try:
                say(f"{name}: building and opening")
                results.built[name] = process.ask(
                    "build",
                    # its writer changes from one commit to the next
                    rebuild=settings.rebuild or name == "nimblepy",
                )
                opened = process.ask("open")
            except WorkerFailedError as error:
                results.problems.append(str(error))
                say(f"{name} is left out: {error}")
                process.close()
                continue
            if "unsupported" in results.built[name] or "unsupported" in opened:
                say(f"{name} is left out: not made for {settings.dataset.name}")
                del results.built[name]
                process.close()
                continue
            processes[name] = process
        if "questions" in parts:
            for workload in chosen:
                measure(workload, processes, settings, results)
        if "cold" in parts and "nimblepy" in processes:
            say("cold reads")
            results.cold = processes["nimblepy"].ask("cold", count=100)
    finally:
        for process in processes.values():
            process.close()
    if "fresh" in parts:
        measure_fresh(list(processes), settings, results)
    if "write" in parts:
        measure_write(list(processes), settings, results)
    results.config["load_average"].append(round(os.getloadavg()[0], 2))
    return results


def measure(
    workload: Workload, processes: dict[str, Process], settings: Settings, results: Results
) -> None:
    if workload.needs_prefix and len(settings.dataset.key) < 2:
        return
    say(f"{workload.name}: {workload.meaning}")
    answers: dict[str, str] = {}
    for name, process in processes.items():
        try:
            found = process.ask("check", workload=workload.name).get("answer")
        except WorkerFailedError as error:
            results.problems.append(f"{workload.name}: {error}")
            say(f"{workload.name}: left out: {error}")
            continue
        if found is not None:
            answers[name] = found
    if len(set(answers.values())) > 1:
        # without equal answers the times mean nothing
        problem = f"{workload.name}: answers differ: {answers}"
        results.problems.append(problem)
        say(problem)
        return
    times: dict[str, list[int]] = {name: [] for name in answers}
    processor: dict[str, list[float]] = {name: [] for name in answers}
    for _ in range(settings.rounds):
        for name in answers:
            reply = processes[name].ask("time", workload=workload.name, budget=settings.budget)
            times[name] += reply["times"]
            processor[name].append(reply["cpu"])
    results.workloads[workload.name] = {
        name: summary(times[name], processor[name], workload.keys) for name in answers
    }


def measure_fresh(names: list[str], settings: Settings, results: Results) -> None:
    say("first lookup in a fresh process")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(FRESH_ROUNDS):
        for name in names:
            with Process(name, settings) as process:
                reply = process.ask("fresh")
                if "open" in reply:
                    found[name].append(reply)
    results.fresh = {
        name: {key: statistics.median(r[key] for r in replies) for key in replies[0]}
        for name, replies in found.items()
        if replies
    }


def measure_write(names: list[str], settings: Settings, results: Results) -> None:
    """Presorted rows in memory to a finished, synced file; nimblepy also without its index."""
    say("write")
    cores = os.cpu_count() or 1
    cases: list[tuple[str, str, int, dict[str, Any]]] = []
    if "nimblepy" in names:
        cases.append(("nimblepy", "nimblepy", 1, {"indexed": True}))
        cases.append(("nimblepy, no index", "nimblepy", 1, {"indexed": False}))
        if cores > 1:
            cases.append((f"nimblepy, {cores} threads", "nimblepy", cores, {"indexed": True}))
    cases += [(n, n, 1, {}) for n in ("parquet", "vortex", "lance") if n in names]
    processes = {label: Process(name, settings, threads) for label, name, threads, _ in cases}
    found: dict[str, list[dict[str, float]]] = {label: [] for label in processes}
    try:
        for process in processes.values():
            process.ask("touch")
        for _ in range(settings.write_rounds):
            for label, _, _, options in cases:
                found[label].append(processes[label].ask("write", **options))
                time.sleep(0.2)  # lets the disk settle between writers
    finally:
        for process in processes.values():
            process.close()
    results.write = {
        label: {
            **{key: statistics.median(r[key] for r in replies) for key in replies[0]},
            "fastest": min(r["seconds"] for r in replies),
            "least_cpu": min(r["cpu"] for r in replies),
        }
        for label, replies in found.items()
    }
