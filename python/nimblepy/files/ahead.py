"""Decodes small files in parallel, because one small file cannot keep several threads busy."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias, TypeVar

from nimblepy.errors import InvalidArgumentError

T = TypeVar("T")

# Decodes one part; the argument is the number of threads.
Decode = Callable[[int], Iterable[T]]
# The results of the parts of one task, and the error that stopped it, if any.
_Decoded: TypeAlias = tuple[list[T], Exception | None]
# Number of values in one task, about two milliseconds of work for one thread. With smaller tasks
# the overhead per task is higher. With larger tasks the first batch is late.
_TASK_VALUES = 1 << 20


def in_turn(parts: Iterable[tuple[int | None, Decode[T]]], threads: int) -> Iterator[T]:
    """Decodes the parts and yields their results in the order of the parts.

    Args:
        parts: for each part, the maximum number of its values (``None`` for a large part) and a
            function that decodes it. One thread decodes each small part, in parallel with the
            following parts. All threads together decode the large parts, one part after another.
        threads: number of threads; 0 means one thread per processor.

    Cost: keeps the results of a few small parts per thread in memory.
    """
    count = threads or os.cpu_count() or 1
    ahead = 1  # grows with each result, so that a caller who stops early wastes little work
    failed: Exception | None = None
    left = _tasks(parts)
    pool = ThreadPoolExecutor(count, thread_name_prefix="nimblepy-scan")
    process = os.getpid()
    waiting: deque[Future[_Decoded[T]] | Decode[T]] = deque()
    try:
        while True:
            if os.getpid() != process:  # the pool's threads do not exist in a forked child
                raise InvalidArgumentError("a scan that was begun before fork(): begin it again")
            while failed is None and len(waiting) <= ahead:
                try:
                    task = next(left, None)
                except Exception as error:  # raised after the results of earlier parts
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
    """Yields a list of functions for each group of small parts, and one function per large part."""
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
    except Exception:  # a part could not be opened: decode the earlier parts first
        if together:
            yield together
        raise
    if together:
        yield together


def _decoded(task: Sequence[Decode[T]]) -> _Decoded[T]:
    results: list[T] = []
    try:
        for decode in task:
            results.extend(decode(1))  # keeps the results that precede an error
    except Exception as error:
        return results, error
    return results, None
