"""Which rows of a source pass a filter: their places, not their values."""

from __future__ import annotations

import numpy as np

from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import RowSource

_BATCH_ROWS = 1 << 16


def passing_rows(source: RowSource, where: Where) -> RowSet:
    """Returns the rows of a source that is one file that pass, ascending, one by one.

    Cost: reads the columns of the filter where indexes and statistics leave rows.
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
