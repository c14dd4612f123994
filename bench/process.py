"""A worker process with one peer, asked line by line in JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.datasets import Dataset

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Settings:
    dataset: Dataset
    rounds: int = 7
    threads: tuple[int, ...] = (1,)  # the first for all workloads, the others for scans
    budget: float = 0.15  # seconds of one peer's turn, for questions that are quick
    build: Path | None = None
    rebuild: bool = False
    write_rounds: int = 5
    writers: tuple[str, ...] = ()  # labels of parts.write_cases; none: all
    growth_rows: tuple[int, ...] = (1_000_000, 100_000_000)
    patience: float | None = None  # seconds of one quick question; a slower peer is left out


class WorkerFailedError(RuntimeError):
    """A peer broke; the message is its own traceback."""


class Process:
    def __init__(self, peer: str, settings: Settings, threads: int | None = None) -> None:
        threads = threads or settings.threads[0]
        command = [sys.executable, "-m", "bench.worker", "--peer", peer]
        command += [*settings.dataset.arguments, "--threads", str(threads)]
        if settings.build and peer.startswith("nimblepy"):
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
