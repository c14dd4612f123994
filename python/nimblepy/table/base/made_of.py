"""MadeOf: a cache of values that were computed from immutable objects."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class MadeOf(Generic[T]):
    """Caches the result of ``make`` for each immutable object, by identity. Thread-safe.

    Objects are held weakly. A value is removed when its object is freed, so the value must not
    refer to the object.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._made: dict[int, tuple[weakref.ref[Any], T]] = {}

    def __call__(self, item: Any) -> T:
        key = id(item)
        cached = self._made.get(key)
        if cached is not None and cached[0]() is item:
            return cached[1]
        value = self._make(item)
        # Python runs the callback before it reuses the id of the freed object.
        self._made[key] = weakref.ref(item, lambda _: self._made.pop(key, None)), value
        return value

    def __len__(self) -> int:
        return len(self._made)
