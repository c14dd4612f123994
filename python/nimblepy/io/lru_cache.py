"""LruCache: a bounded cache that evicts the least recently used value."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from nimblepy.io.fork import renew_after_fork

T = TypeVar("T")


class LruCache(Generic[T]):
    """Caches values by key and evicts the least recently used ones. Thread-safe.

    Args:
        capacity: maximum number of values, or the maximum sum of their sizes. A single value may
            be larger.
        size_of: the size of a value; by default each counts as one.
    """

    def __init__(self, capacity: int, size_of: Callable[[T], int] = lambda _: 1) -> None:
        self._capacity = capacity
        self._size_of = size_of
        self._used = 0
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """Returns the cached value; ``None`` if the key is not cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Hashable, value: T) -> None:
        with self._lock:
            before = self._values.pop(key, None)
            self._used -= 0 if before is None else self._size_of(before)
            self._values[key] = value
            self._used += self._size_of(value)
            while self._used > self._capacity and (len(self._values) > 1 or self._capacity < 1):
                self._used -= self._size_of(self._values.popitem(last=False)[1])

    def clear(self) -> None:
        """Removes all values."""
        with self._lock:
            self._values.clear()
            self._used = 0
