"""MadeOf: caches what was computed from immutable objects, by their identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


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
