"""Finds the interval between ascending edges for many values, with a lookup table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Minimum number of values for which the lookup table pays off, and its number of cells.
MANY, CELLS = 1 << 15, 1 << 13


def edges_below(
    values: Any, edges: Any, cells: Callable[[Any], Any], beyond: float | np.uint64
) -> Any:
    """Returns the number of edges that are less than or equal to each value.

    Args:
        edges: in ascending order.
        cells: a monotonic function from values to cell numbers below :data:`CELLS`.
        beyond: greater than every value.

    Cost: one comparison per value. Values in cells with several edges need a binary search.
    """
    if len(values) < MANY or not len(edges):
        return np.searchsorted(edges, values, side="right")
    edge_cells = cells(edges)
    count = np.bincount(edge_cells, minlength=CELLS)
    crowded = count > 1
    if np.count_nonzero(crowded[edge_cells]) > len(edges) / 2:
        return np.searchsorted(edges, values, side="right")
    at = cells(values)
    counts = (np.cumsum(count) - count)[at]
    counts += values >= np.append(edges, beyond)[counts]
    several = np.flatnonzero(crowded[at])
    counts[several] = np.searchsorted(edges, values[several], side="right")
    return counts
