"""MadeOf: a cache of values that were computed from immutable objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class MadeOf(Generic[T]):
    """Caches what ``make`` returns for immutable objects, by their identity. Thread-safe."""

    def __init__(self, most: int, make: Callable[[Any], T]) -> None:
        self._most = most
        self._make = make
        # Keeps the object alive, so that its identity is not reused.
        self._made: dict[int, tuple[Any, T]] = {}

    def __call__(self, item: Any) -> T:
        cached = self._made.get(id(item))
        if cached is None:
            cached = item, self._make(item)
            if len(self._made) >= self._most:
                self._made.clear()
            self._made[id(item)] = cached
        return cached[1]
