"""Immutable values that are used again, by name or by what they were made of."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

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


class MadeOf(Generic[T]):
    """What was made of immutable objects, by their identity, to make it once. Thread-safe."""

    def __init__(self, most: int, make: Callable[[Any], T]) -> None:
        self._most = most
        self._make = make
        # The object is kept beside what was made of it, so that its identity stays its own.
        self._made: dict[int, tuple[Any, T]] = {}

    def __call__(self, item: Any) -> T:
        known = self._made.get(id(item))
        if known is None:
            known = item, self._make(item)
            if len(self._made) >= self._most:
                self._made.clear()
            self._made[id(item)] = known
        return known[1]
