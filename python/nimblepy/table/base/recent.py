"""Immutable values that are used again, by name."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

from nimblepy.io.fork import renew_after_fork

T = TypeVar("T")


class Recent(Generic[T]):
    """The values that were used last, by key. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, T] = OrderedDict()
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: str, value: T) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            self._values.clear()
