"""A uniform random sample of many rows, in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

Part = TypeVar("Part")
Draws = np.ndarray[Any, np.dtype[np.uint64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Thinned(ABC, Generic[Part]):
    """A sample of all rows that were added: the rows whose random number is small enough.

    Samples of different rows can be merged in any order.

    Args:
        most: maximum number of rows in the sample.

    Attributes:
        rows: number of rows that were added.
        halvings: the sample holds about one row in ``2**halvings``.
        parts: the sampled rows.
    """

    def __init__(self, most: int) -> None:
        self.rows = 0
        self.halvings = 0
        self.parts: list[Part] = []
        self._most = most
        self._held = 0

    @abstractmethod
    def draws(self, part: Part) -> Draws:
        """Returns a random number for each row. Repeated calls return the same numbers."""

    @abstractmethod
    def some(self, part: Part, kept: Mask) -> Part:
        """Returns the rows of a part that the mask selects."""

    @abstractmethod
    def count(self, part: Part) -> int:
        """Returns the number of rows in a part."""

    def add_part(self, part: Part, rows: int) -> None:
        """Adds rows that were not sampled before."""
        self.rows += rows
        self._take(part)
        self._thin()

    def merge(self, other: Thinned[Part]) -> None:
        """Adds the rows of another sample."""
        self.rows += other.rows
        self._again(max(self.halvings, other.halvings), [*self.parts, *other.parts])
        self._thin()

    def _take(self, part: Part) -> None:
        if self.halvings:
            kept = self.draws(part) < np.uint64(1 << (64 - self.halvings))
            part = self.some(part, kept)
        self.parts.append(part)
        self._held += self.count(part)

    def _thin(self) -> None:
        while self._held > self._most:
            self._again(self.halvings + 1, self.parts)

    def _again(self, halvings: int, parts: list[Part]) -> None:
        self.halvings, self.parts, self._held = halvings, [], 0
        for part in parts:
            self._take(part)
