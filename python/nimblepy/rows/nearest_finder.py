"""NearestFinder: searches for nearest rows in which the core does nearly all of the work."""

from __future__ import annotations

from typing import Any

import numpy as np

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.expr.filter import Parameters, with_params
from nimblepy.rows.arguments import Projected
from nimblepy.rows.compiled import NearestReader, Ranges
from nimblepy.rows.nearest import (
    Metric,
    NearestRows,
    check_nearest,
    search_metric,
    vector_column,
)
from nimblepy.rows.source import Filter, RowSource
from nimblepy.schema.names import ColumnName
from nimblepy.schema.protocols import Key

_NO_QUERIES = np.empty((0, 0))


class NearestFinder:
    """Finds the nearest rows of a source, for one column of vectors and one list of columns.

    A search by the general path (:meth:`nimblepy.File.nearest`) spends about as much time in Python
    as in the core.
    """

    def __init__(
        self,
        source: RowSource,
        reader: _core.NearestReader,
        names: Projected,
        column: ColumnName,
        exact: bool,
    ) -> None:
        self._source = source
        self._reader = reader
        self._names = names
        self._column = column
        self._exact = exact

    @classmethod
    def of(
        cls, source: RowSource, on: str | None, metric: Metric | None, names: Projected, exact: bool
    ) -> NearestFinder | None:
        """Returns a finder; ``None`` if the core cannot read the rows of the source.

        Raises:
            InvalidArgumentError: see :meth:`nimblepy.File.nearest`.
        """
        check_nearest(1, 1, metric)
        # The general path raises an error for a column whose name the result needs, and reads
        # results without columns.
        if "_distance" in source.projected(names).names or names == ():
            return None
        column, width = vector_column(source, on)
        chosen = search_metric(metric, exact, column, source)
        reader = source.compiled(NearestReader(names, column, width, chosen, exact))
        return None if reader is None else cls(source, reader, names, column, exact)

    def nearest(
        self,
        query: object,
        k: object,
        recall: object,
        filter: Filter,
        params: Parameters,
        prefix: Key,
        lower: Key,
        upper: Key,
    ) -> Any:
        """Returns a table. ``NotImplemented`` means that the general path must answer."""
        if isinstance(query, np.ma.MaskedArray):  # the core reads arrays without their masks
            return NotImplemented
        within: Any = None
        if filter is not None or params is not None:
            within = NotImplemented
            if prefix is None and lower is None and upper is None and self._reader.num_parts == 1:
                within = self._passing(filter, params)
        elif prefix is not None or lower is not None or upper is not None:
            within = self._between(prefix, lower, upper)
        if within is NotImplemented:
            return NotImplemented
        return self._reader.search(query, k, recall, within)

    @cached_property
    def _ranges(self) -> _core.RangeReader | None:
        """Finds the rows of a part of the cluster key, if all rows are in one file."""
        if self._reader.num_parts > 1 or not self._source.cluster_by:
            return None
        ranges: Any = self._source.compiled(Ranges(self._names, None))
        # The file may have been opened again since the reader was made.
        is_same = type(ranges) is _core.RangeReader and self._reader.reads(ranges.projection)
        return ranges if is_same else None

    def _between(self, prefix: Key, lower: Key, upper: Key) -> Any:
        if self._ranges is None:
            return NotImplemented
        if prefix is None:
            return self._ranges.range_rows(lower, upper, "[)")
        if lower is not None or upper is not None:
            return NotImplemented
        return self._ranges.prefix_rows(prefix)

    def _passing(self, filter: Filter, params: Parameters) -> Any:
        where = self._source.where_request(with_params(filter, params))
        request = NearestRows(self._column, None, _NO_QUERIES, 1, 0.5, self._exact, where.filter)
        parts = list(self._source.nearest_parts(request))
        return parts[0].scan if len(parts) == 1 else NotImplemented
