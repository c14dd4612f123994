"""LruCache: a bounded cache that evicts the least recently used value."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from nimblepy.io.fork import renew_after_fork

T = TypeVar("T")


class LruCache(Generic[T]):
    """Caches values by key and evicts the least recently used ones. Thread-safe.

    Args:
        capacity: maximum number of values.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
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
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Removes all values."""
        with self._lock:
            self._values.clear()
