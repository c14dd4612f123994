"""Finds the row numbers, not the values, of the rows that pass a filter."""

from __future__ import annotations

import numpy as np

from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import RowSource

_BATCH_ROWS = 1 << 16


def passing_rows(source: RowSource, where: Where) -> RowSet:
    """Returns the rows that pass, ascending, one entry per row. The source must be a single file.

    Cost: reads the filter's columns of the rows that indexes and statistics do not exclude.
    """
    if where.filter is None:
        return where.rows.expand()
    left = source.find(where)
    columns = tuple(dict.fromkeys((path[0],) for path in where.filter.columns))
    parts = []
    for at in range(0, left.num_rows, _BATCH_ROWS):
        part = left.slice(at, at + _BATCH_ROWS).expand()
        batch = source.read(part, columns).combine_chunks().to_batches()[0]
        mask = where.filter.mask(batch)
        parts.append(part.entries(np.flatnonzero(mask.to_numpy(zero_copy_only=False))))
    return RowSet.joined(parts)
