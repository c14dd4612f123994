"""A local Spark session, and the processor time and memory of what it runs."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import psutil


def start() -> Any:
    """``local[2]``, all keys of one task in one process a core, as a cluster would have them."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "8g",
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("nimblepy bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Processors:
    """Processor seconds of this process and all below it, from one reading to the next.

    A worker that ends takes its time along where nobody waited for it; what it had used before
    must not be counted back.
    """

    def __init__(self) -> None:
        self._before = _times()

    def seconds(self) -> float:
        """User and system time since the reading before."""
        before, now = self._before, _times()
        self._before = now
        own = sum(t - before.get(key, (0.0, 0.0))[0] for key, (t, _) in now.items())
        waited = sum(w - before.get(key, (0.0, 0.0))[1] for key, (_, w) in now.items())
        ended = sum(t + w for key, (t, w) in before.items() if key not in now)
        return own + max(0.0, waited - ended)


def _times() -> dict[tuple[int, float], tuple[float, float]]:
    """(own seconds, seconds of children that were waited for) of every process."""
    found = {}
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
            key = process.pid, process.create_time()
        except psutil.NoSuchProcess:
            continue
        found[key] = (times.user + times.system, times.children_user + times.children_system)
    return found


class WorkerMemory:
    """The most memory that one Python worker has had, asked every few milliseconds.

    Attributes:
        own: bytes that are the worker's alone.
        mapped: bytes of mapped files among its pages: the page cache's, shared by all workers.
    """

    def __init__(self, interval: float = 0.02) -> None:
        self.own = self.mapped = 0
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._interval):
            for process in psutil.Process().children(recursive=True):
                self._look(process)

    def _look(self, process: psutil.Process) -> None:
        try:
            if "java" in process.name():
                return
            text = Path(f"/proc/{process.pid}/status").read_text("ascii")
        except (OSError, psutil.Error):
            return
        found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        if "RssAnon" in found:
            self.own = max(self.own, 1024 * int(found["RssAnon"].split()[0]))
            self.mapped = max(self.mapped, 1024 * int(found["RssFile"].split()[0]))
