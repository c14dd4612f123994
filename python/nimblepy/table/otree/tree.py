"""Trees of cubes: planned from where rows lie, and which cube a row belongs to.

A place is a number of :data:`BITS` bits, the interleaved binary digits of all coordinates, and a
cube is a prefix of it. An inner cube holds a random sample of its box, the rows of lowest weight
that no cube above it holds; the others lie in leaves, which have a stretch of the curve each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Bits of a place, and places that an estimate keeps at most.
BITS = 60
_MOST_PLACES = 1 << 24
# An inner cube holds at most this part of the rows that come to it.
_LEAST_FILLS = 8
# Rows of a leaf, as parts of a cube: most of them, and those below which it joins a neighbour. A
# small commit has smaller leaves than its table, down to the floor.
LEAF_SHARE = 1.0
_FLOOR_SHARE = 0.25
# Weights are int32; as fractions they run from 0 to 1.
LEAST_WEIGHT = -(1 << 31)
WEIGHTS = 1 << 32

Places = np.ndarray[Any, np.dtype[np.uint64]]
Weights = np.ndarray[Any, np.dtype[np.int32]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


def weight_of(fraction: float) -> int:
    """The weight below which this fraction of all weights lies."""
    return LEAST_WEIGHT + min(WEIGHTS, max(0, round(fraction * WEIGHTS)))


def step_of(columns: int) -> int:
    """Bits by which a cube is longer than the one above it: whole halvings of all columns."""
    return columns * max(1, round(4 / columns))


class Estimate:
    """Where rows lie: the places of all, or of those with a weight below a bound.

    Estimates of parts of the rows are merged in any order.
    """

    def __init__(self, most: int = _MOST_PLACES) -> None:
        self.rows = 0
        self._most = most
        self._bound = WEIGHTS
        self._held = 0
        self._parts: list[tuple[Places, Numbers]] = []

    def add(self, places: Places, weights: Weights) -> None:
        self.rows += len(places)
        self._take(places, weights.astype(np.int64) - LEAST_WEIGHT)
        self._thin()

    def merge(self, other: Estimate) -> None:
        """Adds what another one has seen."""
        self.rows += other.rows
        self._bound = min(self._bound, other._bound)
        parts, self._parts, self._held = [*self._parts, *other._parts], [], 0
        for places, weights in parts:
            self._take(places, weights)
        self._thin()

    def _take(self, places: Places, weights: Numbers) -> None:
        if self._bound < WEIGHTS:
            low = weights < self._bound
            places, weights = places[low], weights[low]
        self._parts.append((places, weights))
        self._held += len(places)

    def _thin(self) -> None:
        while self._held > self._most:
            self._bound //= 2
            parts, self._parts, self._held = self._parts, [], 0
            for places, weights in parts:
                self._take(places, weights)

    def places(self) -> tuple[Places, float]:
        """Ascending places, and how many rows each stands for."""
        found = np.concatenate([places for places, _ in self._parts] or [np.empty(0, np.uint64)])
        found.sort()
        return found, self.rows / max(1, len(found))


@dataclass
class Tree:
    """The cubes of the rows of one commit.

    Attributes:
        inner: for each level with inner cubes: bits of their prefixes, the prefixes, ascending,
            and the bound of their weights.
        leaves: the place at which each leaf begins, ascending from 0.
    """

    inner: list[tuple[int, Places, Numbers]] = field(default_factory=list)
    leaves: Places = field(default_factory=lambda: np.zeros(1, np.uint64))

    @property
    def cubes(self) -> int:
        return sum(len(prefixes) for _, prefixes, _ in self.inner) + len(self.leaves)

    def assign(self, places: Places, weights: Weights) -> Numbers:
        """The number of each row's cube: inner cubes level by level, then leaves."""
        first = sum(len(prefixes) for _, prefixes, _ in self.inner)
        found = first - 1 + np.searchsorted(self.leaves, places, side="right")
        for bits, prefixes, bounds in reversed(self.inner):
            first -= len(prefixes)
            mine = places >> np.uint64(BITS - bits)
            at = np.minimum(np.searchsorted(prefixes, mine), len(prefixes) - 1)
            inside = (prefixes[at] == mine) & (weights < bounds[at])
            found[inside] = first + at[inside]
        return found

    def prefix(self, cube: int) -> tuple[int, int]:
        """(bits, prefix) of a cube: of a leaf, the smallest one that has all of it."""
        for bits, prefixes, _ in self.inner:
            if cube < len(prefixes):
                return bits, int(prefixes[cube])
            cube -= len(prefixes)
        begin = int(self.leaves[cube])
        last = cube + 1 == len(self.leaves)
        end = (1 << BITS) if last else int(self.leaves[cube + 1])
        bits = BITS - (begin ^ (end - 1)).bit_length()
        return bits, begin >> (BITS - bits)


def grow(
    estimate: Estimate, columns: int, cube_rows: int, limit_rows: int, share: float = 1.0
) -> Tree:
    """Plans the cubes of some rows.

    Args:
        cube_rows: rows of an inner cube of the whole table.
        limit_rows: most rows of a leaf.
        share: these rows' part of all of the table, whose inner cubes they help to fill.
    """
    places, scale = estimate.places()
    capacity = cube_rows * share
    floor = _FLOOR_SHARE * cube_rows
    step = step_of(columns)
    levels: dict[int, list[tuple[int, int]]] = {}
    leaves: list[tuple[int, float]] = []
    limit = max(1.0, min(limit_rows, max(_FLOOR_SHARE, LEAF_SHARE * share) * cube_rows))

    def split(begin: int, end: int, bits: int, prefix: int, taken: float) -> None:
        """Leaves of what is left of a cube, in the order of the curve."""
        rows = (end - begin) * scale * (1 - taken)
        if rows <= limit or bits == BITS or places[begin] == places[end - 1]:
            leaves.append((prefix << (BITS - bits), rows))
            return
        middle = ((prefix << 1) | 1) << (BITS - bits - 1)
        cut = begin + int(np.searchsorted(places[begin:end], np.uint64(middle)))
        if cut > begin:
            split(begin, cut, bits + 1, prefix << 1, taken)
        if cut < end:
            split(cut, end, bits + 1, (prefix << 1) | 1, taken)

    def visit(begin: int, end: int, bits: int, prefix: int, taken: float) -> None:
        rows = (end - begin) * scale
        whole = capacity >= floor and rows * (1 - taken) >= _LEAST_FILLS * capacity
        if not whole or bits + step > BITS or places[begin] == places[end - 1]:
            split(begin, end, bits, prefix, taken)
            return
        taken += capacity / rows
        levels.setdefault(bits, []).append((prefix, weight_of(taken)))
        below = bits + step
        firsts = ((prefix << step) + np.arange(1, 1 << step)).astype(np.uint64)
        cuts = begin + np.searchsorted(places[begin:end], firsts << np.uint64(BITS - below))
        edges = [begin, *cuts.tolist(), end]
        for child in range(1 << step):
            if edges[child] < edges[child + 1]:
                number = (prefix << step) + child
                visit(edges[child], edges[child + 1], below, number, taken)

    if len(places):
        visit(0, len(places), 0, 0, 0.0)
    inner = [
        (
            bits,
            np.array([prefix for prefix, _ in found], np.uint64),
            np.array([bound for _, bound in found], np.int64),
        )
        for bits, found in sorted(levels.items())
    ]
    return Tree(inner, _rolled_up(leaves, min(floor, limit), limit))


def _rolled_up(leaves: list[tuple[int, float]], floor: float, limit: float) -> Places:
    """Where leaves begin, once those with few rows are part of a neighbour."""
    kept: list[tuple[int, float]] = []
    for begin, rows in leaves:
        if kept and min(rows, kept[-1][1]) < floor and rows + kept[-1][1] <= 1.5 * limit:
            kept[-1] = kept[-1][0], kept[-1][1] + rows
        else:
            kept.append((begin, rows))
    begins = [begin for begin, _ in kept] or [0]
    begins[0] = 0
    return np.array(begins, np.uint64)
