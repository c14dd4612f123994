"""Limits the time of a read call to a store."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from nimblepy.errors import InvalidArgumentError

T = TypeVar("T")

# Limits that nb.connect() set, in seconds, by the directory of a lake or table.
_limits: dict[str, float] = {}


def checked_timeout(timeout: float | None) -> float | None:
    """Returns ``timeout`` after checking that it is a positive number of seconds or ``None``."""
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < timeout <= threading.TIMEOUT_MAX):
        raise InvalidArgumentError(
            f"timeout: expected seconds above 0, or None for no limit, got {timeout!r}"
        )
    return timeout


def limit_reads_below(place: str, seconds: float) -> None:
    """Limits the reads of all files below a directory of a store, in this process."""
    _limits[place.rstrip("/") + "/"] = seconds


def limit_of(path: str) -> float | None:
    """Returns the limit of the innermost directory that contains ``path``; ``None`` without one."""
    if not _limits:
        return None
    # Iterate over a copy, because another thread may add a limit.
    places = [place for place in list(_limits) if path.startswith(place) or path == place[:-1]]
    return _limits[max(places, key=len)] if places else None


def call_within(seconds: float | None, name: str, request: Callable[[], T], run: Any = None) -> T:
    """Calls ``request``, and waits at most ``seconds`` for the answer.

    Args:
        name: the path or URI, for the error.
        run: a function that calls a request and retries it if it fails.

    Raises:
        TimeoutError: the answer did not arrive in time. A thread may still wait for it.
    """
    if seconds is None:
        return request() if run is None else run(request)
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    attempts = 0
    is_late = False

    def attempt() -> T:
        nonlocal attempts
        if is_late:
            raise ValueError("the time limit has passed")  # a ValueError is not retried
        attempts += 1
        return request()

    def work() -> None:
        try:
            answers.put((True, attempt() if run is None else run(attempt)))
        except BaseException as error:
            answers.put((False, error))

    # A daemon thread, because a request that hangs must not delay the end of the process.
    threading.Thread(target=work, name="nimblepy-timed-read", daemon=True).start()
    try:
        is_answer, answer = answers.get(timeout=seconds)
    except queue.Empty:
        is_late = True
        times = "attempt" if attempts == 1 else "attempts"
        raise TimeoutError(
            f"{name}: no answer within {seconds:g} s ({attempts} {times}); timeout= of open, "
            "open_dataset or connect sets the limit"
        ) from None
    if not is_answer:
        raise answer
    return answer  # type: ignore[no-any-return]  # of request
