"""Trees of cubes: plans a tree for the distribution of rows, and assigns rows to cubes.

A place is a number of :data:`BITS` bits: the interleaved bits of all coordinates. A cube is a
prefix of places. An inner cube holds a random sample of its box: the rows of lowest weight that no
cube above it holds. The other rows are in leaves. A leaf is a contiguous interval of the curve.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nimblepy.table.otree.stretches import CELLS, edges_below
from nimblepy.table.otree.thinned import Draws, Mask, Thinned

# Bits of a place, sampled rows per cube in an estimate, and the limits of the total sample size.
BITS = 60
_OF_A_CUBE = 1 << 12
_LEAST_HELD, _MOST_HELD = 1 << 17, 1 << 22
# A box needs at least this many times the capacity of a cube to get an inner cube.
_LEAST_FILLS = 8
# Rows of a leaf, as fractions of `cube_rows`: the maximum; a lower limit of the maximum, for small
# commits to a large table; and the size below which a leaf joins its neighbour.
LEAF_SHARE = 1.0
LEAST_SHARE = 0.125
_FLOOR_SHARE = 0.25
# Weights are int32 and uniformly distributed.
LEAST_WEIGHT = -(1 << 31)
WEIGHTS = 1 << 32

Places = np.ndarray[Any, np.dtype[np.uint64]]
Weights = np.ndarray[Any, np.dtype[np.int32]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


def weight_of(fraction: float) -> int:
    """Returns the quantile of the weights: this fraction of all weights is less than the result."""
    return LEAST_WEIGHT + min(WEIGHTS, max(0, round(fraction * WEIGHTS)))


def new_weights(rows: int, generator: np.random.Generator) -> Weights:
    """Draws random weights."""
    return generator.integers(LEAST_WEIGHT, LEAST_WEIGHT + WEIGHTS, rows, dtype=np.int32)


def step_of(columns: int) -> int:
    """Returns the number of bits that each tree level adds to the prefix.

    It is chosen so that all columns are halved equally often.
    """
    return columns * max(1, round(4 / columns))


def mixed(numbers: Places) -> Places:
    """Mixes the bits of numbers with SplitMix64's finalizer."""
    with np.errstate(over="ignore"):
        x = numbers + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def rows_held(rows: int, cube_rows: int) -> int:
    """Returns the sample size of an estimate.

    It is large enough to fill inner cubes to within a few per cent.
    """
    return min(max(_LEAST_HELD, _OF_A_CUBE * rows // cube_rows), _MOST_HELD)


class Estimate(Thinned[tuple[Places, Weights]]):
    """The distribution of rows: the places and weights of all rows or of a random sample."""

    def __init__(self, most: int = _MOST_HELD) -> None:
        super().__init__(most)

    def add(self, places: Places, weights: Weights) -> None:
        self.add_part((places, weights), len(places))

    def draws(self, part: tuple[Places, Weights]) -> Draws:
        places, weights = part
        return mixed(places ^ weights.astype(np.uint64))

    def some(self, part: tuple[Places, Weights], kept: Mask) -> tuple[Places, Weights]:
        return part[0][kept], part[1][kept]

    def count(self, part: tuple[Places, Weights]) -> int:
        return len(part[0])

    def found(self) -> tuple[Places, Weights, float]:
        """Returns the sampled places in ascending order, their weights, and how many rows each
        represents.
        """
        places = np.concatenate([part for part, _ in self.parts] or [np.empty(0, np.uint64)])
        weights = np.concatenate([part for _, part in self.parts] or [np.empty(0, np.int32)])
        order = np.argsort(places)
        return places[order], weights[order], self.rows / max(1, len(places))


def _cells(places: Places) -> Numbers:
    """Returns the numbers of equal intervals of the curve, for :func:`edges_below`."""
    return (places >> np.uint64(BITS - (CELLS - 1).bit_length())).astype(np.int64)


@dataclass
class Tree:
    """The cubes of the rows of one commit.

    Attributes:
        inner: for each level with inner cubes: the number of bits in their prefixes, the prefixes
            in ascending order, and the exclusive upper bounds of their weights.
        leaves: the place at which each leaf begins, ascending from 0.
    """

    inner: list[tuple[int, Places, Numbers]] = field(default_factory=list)
    leaves: Places = field(default_factory=lambda: np.zeros(1, np.uint64))

    @property
    def cubes(self) -> int:
        return sum(len(prefixes) for _, prefixes, _ in self.inner) + len(self.leaves)

    def assign(self, places: Places, weights: Weights) -> Numbers:
        """Returns the cube number of each row.

        Inner cubes are numbered level by level, then leaves.
        """
        first = sum(len(prefixes) for _, prefixes, _ in self.inner)
        cubes: Numbers = edges_below(places, self.leaves, _cells, np.uint64((1 << 64) - 1))
        cubes += first - 1
        for bits, prefixes, bounds in reversed(self.inner):
            first -= len(prefixes)
            prefixes_of_rows = places >> np.uint64(BITS - bits)
            at = np.minimum(np.searchsorted(prefixes, prefixes_of_rows), len(prefixes) - 1)
            inside = (prefixes[at] == prefixes_of_rows) & (weights < bounds[at])
            cubes[inside] = first + at[inside]
        return cubes

    def bounds(self, places: Places, bits: Numbers) -> Numbers:
        """Returns the weight bound of the smallest inner cube that contains each box.

        The result is ``LEAST_WEIGHT`` for boxes that no inner cube contains.

        Args:
            places: one place in each box.
            bits: the number of bits in each box's prefix.
        """
        bounds_of_boxes = np.full(len(places), LEAST_WEIGHT, np.int64)
        for level, prefixes, bounds in self.inner:
            prefixes_of_boxes = places >> np.uint64(BITS - level)
            at = np.minimum(np.searchsorted(prefixes, prefixes_of_boxes), len(prefixes) - 1)
            inside = (prefixes[at] == prefixes_of_boxes) & (bits >= level)
            bounds_of_boxes[inside] = bounds[at[inside]]
        return bounds_of_boxes

    def prefix(self, cube: int) -> tuple[int, int]:
        """Returns (bits, prefix) of a cube.

        For a leaf, returns those of the smallest cube that contains the leaf.
        """
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
    estimate: Estimate,
    columns: int,
    cube_rows: int,
    limit_rows: int,
    share: float = 1.0,
    whole: Estimate | None = None,
    *,
    new: bool = True,
) -> Tree:
    """Plans the cubes for the rows of an estimate.

    Args:
        cube_rows: rows of an inner cube, over the whole table.
        limit_rows: maximum rows of a leaf.
        share: the fraction of the table's rows that these rows make up. They fill this fraction of
            each inner cube.
        whole: the distribution of all rows of the table, if only a part of them is planned. The
            cubes then fit the whole table, as far as the planned rows fill them.
        new: whether the weights were newly drawn for these rows, so that the weights are uniformly
            distributed.
    """
    return _Growing(estimate, columns, cube_rows, limit_rows, share, whole, new).tree()


class _Growing:
    """Plans a tree recursively, from the root."""

    def __init__(
        self,
        estimate: Estimate,
        columns: int,
        cube_rows: int,
        limit_rows: int,
        share: float,
        whole: Estimate | None,
        new: bool,
    ) -> None:
        self._places, self._weights, self._scale = estimate.found()
        self._all, self._all_scale = self._places, self._scale
        if whole is not None:
            self._all, _, self._all_scale = whole.found()
        self._is_part = whole is not None
        self._new = new
        self._step = step_of(columns)
        self._cube_rows = cube_rows
        self._capacity = cube_rows * share
        self._least = LEAST_SHARE * cube_rows
        self._limit = max(1.0, min(limit_rows, max(LEAST_SHARE, LEAF_SHARE * share) * cube_rows))
        self._levels: dict[int, list[tuple[int, int]]] = {}
        self._leaves: list[tuple[int, float]] = []

    def tree(self) -> Tree:
        if len(self._places):
            self._visit(self._places, self._weights, self._all, 0, 0, 0.0)
        inner = [
            (
                bits,
                np.array([prefix for prefix, _ in cubes_of_level], np.uint64),
                np.array([bound for _, bound in cubes_of_level], np.int64),
            )
            for bits, cubes_of_level in sorted(self._levels.items())
        ]
        floor = self._least if self._is_part else _FLOOR_SHARE * self._cube_rows
        return Tree(inner, _rolled_up(self._leaves, min(floor, self._limit), self._limit))

    def _visit(
        self, places: Places, weights: Weights, others: Places, bits: int, prefix: int, taken: float
    ) -> None:
        """Plans a cube and the cubes below it.

        Args:
            places, weights: places and weights of the rows that are not in a cube above.
            others: places of all rows in the box, from the whole table or only the planned rows.
            taken: the fraction of ``others`` that cubes above hold.
        """
        bound = None
        if bits + self._step <= BITS and places[0] != places[-1]:
            bound, taken = self._bound(weights, len(others), taken)
        if bound is None:
            self._split(places, others, bits, prefix, taken)
            return
        kept = weights >= bound
        if (len(kept) - np.count_nonzero(kept)) * self._scale >= (self._least / 2):
            self._levels.setdefault(bits, []).append((prefix, bound))
            places, weights = places[kept], weights[kept]
        below = bits + self._step
        firsts = ((prefix << self._step) + np.arange(1, 1 << self._step)).astype(np.uint64)
        firsts <<= np.uint64(BITS - below)
        edges = [0, *np.searchsorted(places, firsts).tolist(), len(places)]
        ends = [0, *np.searchsorted(others, firsts).tolist(), len(others)]
        for child in range(1 << self._step):
            rows_of_child = slice(edges[child], edges[child + 1])
            if rows_of_child.start < rows_of_child.stop:
                number = (prefix << self._step) + child
                others_of_child = others[ends[child] : ends[child + 1]]
                self._visit(
                    places[rows_of_child],
                    weights[rows_of_child],
                    others_of_child,
                    below,
                    number,
                    taken,
                )

    def _bound(self, weights: Weights, others: int, taken: float) -> tuple[int | None, float]:
        """Returns (weight bound of an inner cube, or ``None`` for a leaf; the new ``taken``)."""
        capacity = float(self._cube_rows) if self._is_part else self._capacity
        if capacity < _FLOOR_SHARE * self._cube_rows:
            return None, taken
        if self._is_part or self._new:
            rows = others * self._all_scale
            if rows * (1 - taken) < _LEAST_FILLS * capacity:
                return None, taken
            taken += capacity / rows
            return weight_of(taken), taken
        count = round(capacity / self._scale)
        if len(weights) < _LEAST_FILLS * count:
            return None, taken
        return int(np.partition(weights, count)[count]), taken

    def _split(self, places: Places, others: Places, bits: int, prefix: int, taken: float) -> None:
        """Splits the remaining rows of a cube into leaves, in the order of the curve."""
        rows = len(places) * self._scale
        around = len(others) * self._all_scale * (1 - taken) if self._is_part else 0.0
        large = rows > self._limit or (around > self._limit and rows >= 2 * self._least)
        if not large or bits == BITS or places[0] == places[-1]:
            self._leaves.append((prefix << (BITS - bits), rows))
            return
        middle = np.uint64(((prefix << 1) | 1) << (BITS - bits - 1))
        cut, end = int(np.searchsorted(places, middle)), int(np.searchsorted(others, middle))
        if cut:
            self._split(places[:cut], others[:end], bits + 1, prefix << 1, taken)
        if cut < len(places):
            self._split(places[cut:], others[end:], bits + 1, (prefix << 1) | 1, taken)


def _rolled_up(leaves: list[tuple[int, float]], floor: float, limit: float) -> Places:
    """Merges small leaves with their neighbours and returns the places at which leaves begin."""
    kept: list[tuple[int, float]] = []
    for begin, rows in leaves:
        if kept and min(rows, kept[-1][1]) < floor and rows + kept[-1][1] <= 1.5 * limit:
            kept[-1] = kept[-1][0], kept[-1][1] + rows
        else:
            kept.append((begin, rows))
    begins = [begin for begin, _ in kept] or [0]
    begins[0] = 0
    return np.array(begins, np.uint64)
