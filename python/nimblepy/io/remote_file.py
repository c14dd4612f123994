"""A remote file as the core reads it: rounds of ranges, tried again, all of one version."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from nimblepy.errors import NimbleError
from nimblepy.io.log import logger

_log = logger(__name__)

# Ranges of a remote file closer than this are one request: a round trip costs more than the bytes.
REMOTE_GAP = 64 * 1024
# What opening reads in one request: the core's first read is of these bytes.
TAIL_BYTES = 64 * 1024
# A longer range is fetched as several at once: one connection is slower than the store.
PART_BYTES = 8 << 20
CONNECTIONS = 32

A = TypeVar("A")
T = TypeVar("T")


class RangeSource(Protocol):
    """One object of a store. Whatever it raises names the object."""

    @property
    def name(self) -> str: ...

    def tail(self, size: int) -> tuple[int, bytes]:
        """The object's size and its last bytes, ``size`` or all; they fix the version."""
        ...

    def read(self, offset: int, size: int) -> Any:
        """These bytes of that version, fewer only if the answer was cut short.

        Raises:
            StaleFileError: the object has been replaced.
        """
        ...


@dataclass(frozen=True)
class Retries:
    """How often a request that failed for a passing reason is made, and how long in all."""

    attempts: int = 5
    first_delay: float = 0.05
    most_delay: float = 2.0
    seconds: float = 30.0

    def run(self, request: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
        """Delays double and are shortened at random, so that many readers do not come back at once.

        Raises:
            OSError: the last failure, with how often it was tried.
        """
        end = time.monotonic() + self.seconds
        delay = self.first_delay
        for attempt in range(1, self.attempts + 1):
            try:
                return request()
            except Exception as error:
                if is_permanent(error):
                    raise
                if attempt == self.attempts or time.monotonic() + delay > end:
                    raise OSError(f"{error} (tried {attempt} times)") from error
                _log.warning("attempt %d of %d failed: %s", attempt, self.attempts, error)
            sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, self.most_delay)
        raise AssertionError("attempts is at least 1")


_PERMANENT = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    NimbleError,
    ValueError,
    TypeError,
    RuntimeError,
    MemoryError,
)


def is_permanent(error: Exception) -> bool:
    """Whether the same request would fail again: what is missing, forbidden, replaced or wrong."""
    return isinstance(error, _PERMANENT)


class ShortReadError(OSError):
    """An answer ended before the range that was asked for; worth another try."""


class RemoteFile:
    """Positioned reads of one object, from any thread.

    Args:
        retries: for a source that does not try again itself.

    Cost: one request to open; a round of reads is one request per range, all at once. The last
    64 KiB and what was read first, up to 128 KiB, are held.
    """

    def __init__(self, source: RangeSource, retries: Retries | None = None) -> None:
        self._source = source
        self.retries = retries
        self._size, tail = self._run(lambda: source.tail(TAIL_BYTES))
        self._known: list[tuple[int, Any]] = [(self._size - len(tail), tail)]

    def size(self) -> int:
        return self._size

    def read_at(self, size: int, offset: int) -> Any:
        return self.read_many([(offset, size)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        """The bytes of each (offset, size)."""
        parts = [part for offset, size in ranges for part in _parts(offset, size)]
        if len(parts) == 1:
            return [self._read_one(*parts[0])]
        found = iter(list(connections().map(self._read, parts)))
        joined = []
        for _, size in ranges:
            pieces = [next(found) for _ in range(_count(size))]
            joined.append(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        return joined

    def _read_one(self, offset: int, size: int) -> Any:
        """The first read brings what lies before it: the key chunks of a group lie before its
        metadata, which is what a search reads first, so that this saves it a round.
        """
        found = self._held(offset, size)
        if found is None and len(self._known) == 1 and size <= REMOTE_GAP:
            begin = max(0, offset - REMOTE_GAP)
            block = self._run(lambda: self._request(begin, offset + size - begin))
            self._known.append((begin, block))
            found = self._held(offset, size)
        return self._read((offset, size)) if found is None else found

    def _read(self, part: tuple[int, int]) -> Any:
        offset, size = part
        found = self._held(offset, size)
        return self._run(lambda: self._request(offset, size)) if found is None else found

    def _held(self, offset: int, size: int) -> memoryview | None:
        for begin, data in self._known:
            if begin <= offset and size <= begin + len(data) - offset:
                return memoryview(data)[offset - begin : offset - begin + size]
        return None

    def _run(self, request: Callable[[], T]) -> T:
        return request() if self.retries is None else self.retries.run(request)

    def _request(self, offset: int, size: int) -> Any:
        found = self._source.read(offset, size)
        if len(found) != size:
            raise ShortReadError(
                f"{self._source.name}: got {len(found)} of {size} bytes at offset {offset}"
            )
        return found


def _count(size: int) -> int:
    return max(1, -(-size // PART_BYTES))


def _parts(offset: int, size: int) -> list[tuple[int, int]]:
    begins = range(offset, offset + max(size, 1), PART_BYTES)
    return [(begin, min(PART_BYTES, offset + size - begin)) for begin in begins]


_pool: ThreadPoolExecutor | None = None
_openers: ThreadPoolExecutor | None = None


def connections() -> ThreadPoolExecutor:
    """The threads that wait for stores, shared by all files of the process."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="nimblepy-remote")
    return _pool


def openers() -> ThreadPoolExecutor:
    """The threads that open files of stores; their reads wait for :func:`connections`."""
    global _openers
    if _openers is None:
        _openers = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="nimblepy-open")
    return _openers


def at_once(ask: Callable[[A], T], items: Sequence[A], threads: ThreadPoolExecutor) -> Iterator[T]:
    """The answers for some items, in their order; as many as there are connections are under way.

    The first are asked for before this returns.
    """
    left = iter(items)
    waiting = deque(threads.submit(ask, item) for item in itertools.islice(left, CONNECTIONS))

    def answers() -> Iterator[T]:
        try:
            while waiting:
                found = waiting.popleft().result()
                waiting.extend(threads.submit(ask, item) for item in itertools.islice(left, 1))
                yield found
        finally:
            for asked in waiting:
                asked.cancel()

    return answers()


def _after_fork() -> None:
    global _pool, _openers
    _pool = _openers = None  # their threads did not come along


os.register_at_fork(after_in_child=_after_fork)
