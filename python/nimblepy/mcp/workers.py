"""Runs jobs that read rows in worker processes, and ends a process that exceeds its time."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from nimblepy.errors import InvalidArgumentError, NimbleError

# Maximum number of processes. Further jobs wait.
_MOST_PROCESSES = 3
# Seconds for a process to start, and to answer after its time limit.
_START_SECONDS, _GRACE_SECONDS = 60.0, 1.0
_LONGEST_ANSWER = 64 << 20


class QueryError(NimbleError):
    """A job has no result: it is not valid, or it exceeded a limit."""


class _Gone(Exception):
    """The process has ended or did not answer in time."""


class _Worker:
    """One worker process. Not thread-safe."""

    def __init__(self, catalog: str) -> None:
        # -P: do not import modules from the working directory.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nimblepy.mcp.worker", catalog],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._rest = b""
        try:
            self._read(_START_SECONDS)
        except _Gone:
            self.end()
            raise QueryError("the process that reads rows did not start") from None

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a job and returns its answer.

        Raises:
            _Gone: the process did not answer. The caller must end it.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
        except OSError:
            raise _Gone from None
        return self._read(job["milliseconds"] / 1000 + _GRACE_SECONDS)

    def _read(self, seconds: float) -> dict[str, Any]:
        stream = self._process.stdout
        assert stream is not None
        until = time.monotonic() + seconds
        pieces = [self._rest]
        size = len(self._rest)
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in pieces[-1]:
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise _Gone
                piece = os.read(stream.fileno(), 1 << 20)
                size += len(piece)
                if not piece or size > _LONGEST_ANSWER:
                    raise _Gone
                pieces.append(piece)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


class Workers:
    """A pool of worker processes that run jobs. Thread-safe."""

    def __init__(self, catalog: str) -> None:
        self._catalog = catalog
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_MOST_PROCESSES)

    def start(self) -> None:
        """Starts a process in the background, so that the first job does not wait for it."""

        def begin() -> None:
            with contextlib.suppress(QueryError):
                worker = _Worker(self._catalog)
                with self._lock:
                    self._idle.append(worker)

        threading.Thread(target=begin, daemon=True).start()

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a job and returns its result.

        Args:
            job: ``tool``, ``milliseconds``, and the arguments of the tool.

        Raises:
            QueryError: the job is rejected, or exceeds a limit.
        """
        tool, milliseconds = job["tool"], job["milliseconds"]
        if not self._slots.acquire(timeout=_START_SECONDS):
            raise QueryError(f"{tool}: other calls are running; ask again later")
        try:
            worker = self._idle_worker() or _Worker(self._catalog)
            try:
                answer = worker.run(job)
            except BaseException as error:
                worker.end()
                if isinstance(error, _Gone):
                    limits = f"{milliseconds:,} ms or its memory"
                    raise QueryError(
                        f"{tool}: stopped, because it exceeded {limits}; ask for less"
                    ) from None
                raise
            if answer.get("kind") == "memory":
                worker.end()
            else:
                with self._lock:
                    self._idle.append(worker)
        finally:
            self._slots.release()
        if "error" in answer:
            hint = "; ask for less, or raise max_ms" if answer["kind"] == "time" else ""
            message = answer["error"].removeprefix(f"{tool}: ")
            raise QueryError(f"{tool}: {message}{hint}")
        return answer

    def _idle_worker(self) -> _Worker | None:
        """Takes an idle process that still runs; ``None`` if there is none."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None or worker.is_running:
                return worker
            worker.end()

    def close(self) -> None:
        """Ends all idle processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()


def checked_limit(name: str, value: int, most: int) -> int:
    """Checks a limit that a client asks for.

    Raises:
        InvalidArgumentError: the limit is out of bounds.
    """
    if not 1 <= value <= most:
        raise InvalidArgumentError(f"{name}: expected 1 to {most:,}, got {value}")
    return value
