"""Some of many rows, each kept with the same probability, in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

Part = TypeVar("Part")
Draws = np.ndarray[Any, np.dtype[np.uint64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Thinned(ABC, Generic[Part]):
    """All rows that were added, or every row whose draw is small enough.

    What is kept of parts of the rows is merged in any order.

    Args:
        most: rows that are kept.

    Attributes:
        rows: that were added.
        halvings: of all rows one in two to this power is kept.
        parts: what is kept.
    """

    def __init__(self, most: int) -> None:
        self.rows = 0
        self.halvings = 0
        self.parts: list[Part] = []
        self._most = most
        self._held = 0

    @abstractmethod
    def draws(self, part: Part) -> Draws:
        """A number at random for each row, always the same one."""

    @abstractmethod
    def some(self, part: Part, kept: Mask) -> Part:
        """Some rows of a part."""

    @abstractmethod
    def count(self, part: Part) -> int:
        """Rows of a part."""

    def add_part(self, part: Part, rows: int) -> None:
        """Adds rows of which no others than these were seen."""
        self.rows += rows
        self._take(part)
        self._thin()

    def merge(self, other: Thinned[Part]) -> None:
        """Adds what another one has seen."""
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
