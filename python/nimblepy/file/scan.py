"""Prepares the scan of a file for the core: candidate rows, and the filter in two parts.

The core reads the batches (``nimble/scan/scan.h``). It tests the first part of the filter on
encoded data, and calls Python to evaluate the other part, the residual.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.filter import Filter, make_filter
from nimblepy.file.candidates import candidate_rows
from nimblepy.file.domain import settle
from nimblepy.file.few_values import answered_by_values
from nimblepy.file.handle import FileHandle
from nimblepy.file.pushdown import split
from nimblepy.rows.arguments import Projected
from nimblepy.rows.request import Where
from nimblepy.rows.source import MAX_PREPARED
from nimblepy.schema.columns import resolve_column

# With at least this many rows, taking a sample of the values makes the filter faster.
_MANY_ROWS = 1 << 17


class _Prepared(NamedTuple):
    """A filter in two parts. An empty part is ``None``.

    Attributes:
        native: the part that the core tests on encoded data.
        residual: the part that pyarrow or DuckDB evaluates.
    """

    native: _core.RowFilter | None
    residual: FilterColumns | None


def scan_part(file: FileHandle, where: Where, columns: Projected) -> _core.ScanPart:
    """Returns a scan of a file that reads the given columns of the rows that pass the filter."""
    if where.filter is None:
        return _core.ScanPart(file.projection(columns), where.rows.ranges)
    candidates = candidate_rows(file, where)
    output, ranges = file.projection(columns), candidates.rows.ranges
    if candidates.secondary:
        # An index leaves few rows, so evaluating the whole filter on them is the fastest way.
        prepared = _Prepared(None, FilterColumns(file, where.filter))
    else:
        many_rows = candidates.rows.num_rows >= _MANY_ROWS
        prepared = file.filters.get((where.filter, many_rows)) or _prepare(
            file, where.filter, many_rows
        )
    native, residual = prepared
    if residual is None:
        return _core.ScanPart(output, ranges, native)
    return _core.ScanPart(output, ranges, native, residual.projection, residual.mask)


def _prepare(file: FileHandle, filter: Filter, many_rows: bool) -> _Prepared:
    """Splits a filter, and caches the result because a filter is often used again.

    Args:
        many_rows: whether the scan has so many rows that a sample of the values makes it faster.
    """
    node = settle(filter.node)
    spec, rest = split(answered_by_values(file, node) if many_rows else node)
    prepared = _Prepared(
        None if spec is None else _core.RowFilter(file.core, spec),
        None if rest is None else FilterColumns(file, make_filter(rest, file.schema)),
    )
    if len(file.filters) > MAX_PREPARED:
        file.filters.clear()
    file.filters[filter, many_rows] = prepared
    return prepared


class FilterColumns:
    """Reads the columns of a filter. A struct contains only the fields that the filter uses.

    Attributes:
        projection: reads the columns, with nested fields as separate columns.
    """

    def __init__(self, file: FileHandle, filter: Filter) -> None:
        self._filter = filter
        self._paths = list(filter.columns)
        # If a whole column is read, its fields need not be read separately.
        whole = {path[0] for path in self._paths if len(path) == 1}
        self._paths = [p for p in self._paths if len(p) == 1 or p[0] not in whole]
        outputs = [(resolve_column(file.schema, path).steps, path[-1]) for path in self._paths]
        self.projection = _core.Projection(file.core, outputs)

    def read(self, rows: np.ndarray[Any, Any], threads: int) -> pa.RecordBatch:
        """Reads the columns of ascending rows. There must be at least one row."""
        return self._nested(
            pa.RecordBatch._import_from_c_capsule(*self.projection.take_batch(rows, threads))
        )

    def mask(self, flat: pa.RecordBatch) -> pa.BooleanArray:
        """Returns which rows of ``flat``, a batch of ``projection``, pass. Thread-safe."""
        return self._filter.mask(self._nested(flat))

    def _nested(self, flat: pa.RecordBatch) -> pa.RecordBatch:
        """Puts nested fields back into structs, as the filter's paths expect."""
        if all(len(path) == 1 for path in self._paths):
            return flat
        tree: dict[str, Any] = {}
        for path, column in zip(self._paths, flat.columns, strict=True):
            at = tree
            for step in path[:-1]:
                at = at.setdefault(step, {})
            at[path[-1]] = column
        arrays = [_nest(value) for value in tree.values()]
        return pa.RecordBatch.from_arrays(arrays, list(tree))


def _nest(value: Any) -> pa.Array:
    if not isinstance(value, dict):
        return value
    return pa.StructArray.from_arrays([_nest(v) for v in value.values()], list(value))
