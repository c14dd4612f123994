"""RemoteFile: parallel range reads with retries. All reads are of the same version of the file."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from nimblepy.io.retries import Retries
from nimblepy.io.time_limit import call_within

# Ranges closer than this are merged: a round trip costs more than reading the gap.
REMOTE_GAP = 64 * 1024
# Opening a file reads this many bytes at its end, which usually include the core's first read.
TAIL_BYTES = 64 * 1024
# Longer ranges are split into parallel requests, because several connections are faster than one.
PART_BYTES = 8 << 20
CONNECTIONS = 32

A = TypeVar("A")
T = TypeVar("T")


class RangeSource(Protocol):
    """One object of a store. All errors name the object."""

    @property
    def name(self) -> str: ...

    def tail(self, size: int) -> tuple[int, bytes]:
        """Opens the current version. Returns the object's size and its last ``size`` bytes."""
        ...

    def read(self, offset: int, size: int) -> Any:
        """Reads bytes of the opened version. The result is too short if the answer was truncated.

        Raises:
            StaleFileError: the object has been replaced.
        """
        ...


class ShortReadError(OSError):
    """An answer was shorter than the requested range. A retry may succeed."""


class RemoteFile:
    """Positioned reads of one object. Thread-safe.

    Args:
        retries: how to retry requests; ``None`` if the source retries by itself.
        timeout: time limit of one request including its retries, in seconds.

    Cost: one request to open. Reads send one request per range, in parallel. The last 64 KiB and
    the first read, up to 128 KiB, are kept in memory.
    """

    def __init__(
        self,
        source: RangeSource,
        retries: Retries | None = None,
        timeout: float | None = None,
    ) -> None:
        self._source = source
        self.retries = retries
        self._timeout = timeout
        self._size, tail = self._run(lambda: source.tail(TAIL_BYTES))
        self._known: list[tuple[int, Any]] = [(self._size - len(tail), tail)]

    def size(self) -> int:
        return self._size

    def read_at(self, size: int, offset: int) -> Any:
        return self.read_many([(offset, size)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        """Returns the bytes of each (offset, size)."""
        parts = [part for offset, size in ranges for part in _parts(offset, size)]
        if len(parts) == 1:
            return [self._read_one(*parts[0])]
        answers = iter(list(connections().map(self._read, parts)))
        joined = []
        for _, size in ranges:
            pieces = [next(answers) for _ in range(_count(size))]
            joined.append(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        return joined

    def _read_one(self, offset: int, size: int) -> Any:
        """Reads one range. The first read also fetches up to 64 KiB before it.

        A search first reads the metadata of a group, then its key chunks, which are stored just
        before. Fetching both saves a round trip.
        """
        held = self._held(offset, size)
        if held is None and len(self._known) == 1 and size <= REMOTE_GAP:
            begin = max(0, offset - REMOTE_GAP)
            block = self._run(lambda: self._request(begin, offset + size - begin))
            self._known.append((begin, block))
            held = self._held(offset, size)
        return self._read((offset, size)) if held is None else held

    def _read(self, part: tuple[int, int]) -> Any:
        offset, size = part
        held = self._held(offset, size)
        return self._run(lambda: self._request(offset, size)) if held is None else held

    def _held(self, offset: int, size: int) -> memoryview | None:
        for begin, data in self._known:
            if begin <= offset and size <= begin + len(data) - offset:
                return memoryview(data)[offset - begin : offset - begin + size]
        return None

    def _run(self, request: Callable[[], T]) -> T:
        run = None if self.retries is None else self.retries.run
        return call_within(self._timeout, self._source.name, request, run)

    def _request(self, offset: int, size: int) -> Any:
        answer = self._source.read(offset, size)
        if len(answer) != size:
            raise ShortReadError(
                f"{self._source.name}: got {len(answer)} of {size} bytes at offset {offset}"
            )
        return answer


def _count(size: int) -> int:
    return max(1, -(-size // PART_BYTES))


def _parts(offset: int, size: int) -> list[tuple[int, int]]:
    begins = range(offset, offset + max(size, 1), PART_BYTES)
    return [(begin, min(PART_BYTES, offset + size - begin)) for begin in begins]


_pool: ThreadPoolExecutor | None = None
_openers: ThreadPoolExecutor | None = None


def connections() -> ThreadPoolExecutor:
    """Returns the thread pool for requests, shared by all files of the process."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="nimblepy-remote")
    return _pool


def openers() -> ThreadPoolExecutor:
    """Returns the thread pool for opening remote files. Their reads use :func:`connections`."""
    global _openers
    if _openers is None:
        _openers = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="nimblepy-open")
    return _openers


def at_once(ask: Callable[[A], T], items: Sequence[A], threads: ThreadPoolExecutor) -> Iterator[T]:
    """Calls ``ask`` for all items in parallel, and yields the answers in the order of the items.

    At most ``CONNECTIONS`` calls run at a time. The first ones start before this returns.
    """
    remaining = iter(items)
    waiting = deque(threads.submit(ask, item) for item in itertools.islice(remaining, CONNECTIONS))

    def answers() -> Iterator[T]:
        try:
            while waiting:
                answer = waiting.popleft().result()
                waiting.extend(threads.submit(ask, item) for item in itertools.islice(remaining, 1))
                yield answer
        finally:
            for future in waiting:
                future.cancel()

    return answers()


def _after_fork() -> None:
    global _pool, _openers
    _pool = _openers = None  # a child process does not have their threads


os.register_at_fork(after_in_child=_after_fork)
