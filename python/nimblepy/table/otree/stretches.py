"""In which stretch between ascending edges many values lie: a table, and few searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Values that are worth a table, and cells that it has.
MANY, CELLS = 1 << 15, 1 << 13


def edges_below(
    values: Any, edges: Any, cells: Callable[[Any], Any], beyond: float | np.uint64
) -> Any:
    """How many ascending edges are no greater than each value.

    Args:
        cells: gives numbers below :data:`CELLS`, and of greater values no lesser ones.
        beyond: no value is as great.

    Cost: a comparison for each value, besides those in cells that have several edges: these are
        searched for.
    """
    if len(values) < MANY or not len(edges):
        return np.searchsorted(edges, values, side="right")
    mine = cells(edges)
    count = np.bincount(mine, minlength=CELLS)
    crowded = count > 1
    if np.count_nonzero(crowded[mine]) > len(edges) / 2:
        return np.searchsorted(edges, values, side="right")
    at = cells(values)
    found = (np.cumsum(count) - count)[at]
    found += values >= np.append(edges, beyond)[found]
    several = np.flatnonzero(crowded[at])
    found[several] = np.searchsorted(edges, values[several], side="right")
    return found
