"""Small files decoded beside each other: one of few batches has no work for a second thread."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias, TypeVar

from nimblepy.errors import InvalidArgumentError

T = TypeVar("T")

# Turns one part into results, with some threads.
Decode = Callable[[int], Iterable[T]]
# What came of some parts, and the error that ended them.
_Decoded: TypeAlias = tuple[list[T], Exception | None]
# Values that one thread decodes before it hands them on: some two milliseconds of work. With less,
# handing over costs more; with more, the first batch comes late, and the last task is waited for.
_TASK_VALUES = 1 << 20


def in_turn(parts: Iterable[tuple[int | None, Decode[T]]], threads: int) -> Iterator[T]:
    """The results of some parts, in their order.

    Args:
        parts: how many values a part has at most, ``None`` where they are many, and how it is
            decoded: those of few by one thread, some of the next beside each other; those of many
            by all threads when it is their turn.
        threads: 0 is one per processor.

    Cost: for each thread the results of some parts of few values are held.
    """
    count = threads or os.cpu_count() or 1
    ahead = 1  # more with each that is asked for: who stops early has little done for nothing
    failed: Exception | None = None
    left = _tasks(parts)
    pool = ThreadPoolExecutor(count, thread_name_prefix="nimblepy-scan")
    process = os.getpid()
    waiting: deque[Future[_Decoded[T]] | Decode[T]] = deque()
    try:
        while True:
            if os.getpid() != process:  # its threads are not in the child of a fork
                raise InvalidArgumentError("a scan that was begun before fork(): begin it again")
            while failed is None and len(waiting) <= ahead:
                try:
                    task = next(left, None)
                except Exception as error:  # its turn is behind what waits
                    failed = error
                    break
                if task is None:
                    break
                waiting.append(pool.submit(_decoded, task) if isinstance(task, list) else task)
            if not waiting:
                if failed is not None:
                    raise failed
                return
            ahead = min(2 * ahead, count)
            first = waiting.popleft()
            if not isinstance(first, Future):
                yield from first(threads)
                continue
            found, ended = first.result()
            yield from found
            if ended is not None:
                raise ended
    finally:
        if os.getpid() == process:
            pool.shutdown(wait=False, cancel_futures=True)


def _tasks(parts: Iterable[tuple[int | None, Decode[T]]]) -> Iterator[list[Decode[T]] | Decode[T]]:
    """Parts of few values together, others alone."""
    together: list[Decode[T]] = []
    total = 0
    try:
        for values, decode in parts:
            if values is not None:
                together.append(decode)
                total += values
            if together and (values is None or total >= _TASK_VALUES):
                yield together
                together, total = [], 0
            if values is None:
                yield decode
    except Exception:  # of opening a part, behind those before it
        if together:
            yield together
        raise
    if together:
        yield together


def _decoded(task: Sequence[Decode[T]]) -> _Decoded[T]:
    found: list[T] = []
    try:
        for decode in task:
            found.extend(decode(1))  # keeps what comes before an error
    except Exception as error:
        return found, error
    return found, None
