"""Prepares the scan of a file for the core: candidate rows, and the filter in two parts.

The core reads the batches (``nimble/scan/scan.h``). It tests the first part of the filter on
encoded data, and calls back for the other part, the residual.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.filter import Filter, make_filter
from nimblepy.file.candidates import candidate_rows
from nimblepy.file.domain import settle
from nimblepy.file.few_values import without_failing
from nimblepy.file.handle import FileHandle
from nimblepy.file.pushdown import split
from nimblepy.rows.arguments import Projected
from nimblepy.rows.request import Where
from nimblepy.schema.columns import resolve_column

Ranges: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]


def scan_part(file: FileHandle, where: Where, columns: Projected) -> _core.ScanPart:
    """What a scan reads of a file: the rows that pass, and some of their columns."""
    output = file.projection(columns)
    if where.filter is None:
        return _core.ScanPart(output, where.rows.ranges)
    candidates = candidate_rows(file, where)
    ranges = candidates.rows.ranges
    # An index leaves few rows, so evaluating the whole filter on them is the fastest way.
    native, residual = (
        (None, where.filter) if candidates.secondary else _split(file, where.filter, ranges)
    )
    if residual is None:
        return _core.ScanPart(output, ranges, native)
    inputs = FilterColumns(file, residual)
    return _core.ScanPart(output, ranges, native, inputs.projection, inputs.mask)


def _split(
    file: FileHandle, filter: Filter, ranges: Ranges
) -> tuple[_core.RowFilter | None, Filter | None]:
    """The part of a filter that the core evaluates on encoded data, and the residual."""
    spec, residual = split(settle(filter.node))
    if residual is not None:
        more = [split(node).spec for node in without_failing(file, residual, ranges)]
        specs = [part for part in (spec, *more) if part is not None]
        spec = ("and", specs) if specs else None
    native = None if spec is None else _core.RowFilter(file.core, spec)
    return native, None if residual is None else make_filter(residual, file.schema)


class FilterColumns:
    """Reads the columns of a filter. Nested fields are returned in structs of only these fields.

    Attributes:
        projection: reads the columns, without structs around nested fields.
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
        """Which rows of a batch of ``projection`` pass the filter. Thread-safe."""
        return self._filter.mask(self._nested(flat))

    def _nested(self, flat: pa.RecordBatch) -> pa.RecordBatch:
        """Rebuilds the structs that the filter's paths refer to."""
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
