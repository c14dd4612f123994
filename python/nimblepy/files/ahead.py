"""Decodes small files in parallel, because a file of few batches does not use several threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias, TypeVar

from nimblepy.errors import InvalidArgumentError

T = TypeVar("T")

# Decodes one part with a number of threads.
Decode = Callable[[int], Iterable[T]]
# The results of some parts, and the error that ended them.
_Decoded: TypeAlias = tuple[list[T], Exception | None]
# Values that one thread decodes before it passes them on, about two milliseconds of work. With
# fewer values the transfer costs more. With more values the first batch is late.
_TASK_VALUES = 1 << 20


def in_turn(parts: Iterable[tuple[int | None, Decode[T]]], threads: int) -> Iterator[T]:
    """Yields the results of some parts, in the order of the parts.

    Args:
        parts: for each part the maximum number of its values (``None`` if there are many), and a
            function that decodes it. Each small part is decoded by one thread, in parallel with the
            next parts. Large parts are decoded one after another by all threads.
        threads: 0 means one thread per processor.

    Cost: holds the results of a few small parts per thread.
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
            if os.getpid() != process:  # its threads do not exist in the child of a fork
                raise InvalidArgumentError("a scan that was begun before fork(): begin it again")
            while failed is None and len(waiting) <= ahead:
                try:
                    task = next(left, None)
                except Exception as error:  # other parts are waiting before this one
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
    """Groups small parts; large parts remain alone."""
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
    except Exception:  # for opening a part while earlier parts are decoded
        if together:
            yield together
        raise
    if together:
        yield together


def _decoded(task: Sequence[Decode[T]]) -> _Decoded[T]:
    results: list[T] = []
    try:
        for decode in task:
            results.extend(decode(1))  # keeps the results before an error
    except Exception as error:
        return results, error
    return results, None
