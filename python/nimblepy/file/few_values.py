"""Speeds up conditions over a column with few values, such as a category.

``upper(mode) = 'RAIL'`` is evaluated for the values in the first rows. The core then excludes the
failing values on encoded data. The condition itself is evaluated for all other rows, so values that
do not occur in the first rows cost time but do not change the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.evaluate import RowBatch, passing
from nimblepy.expr.nodes import And, In, IsNull, Node, Not, Opaque, any_of
from nimblepy.file.handle import FileHandle
from nimblepy.file.pushdown import is_tested
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.plain import plain_array

# Minimum rows for which a sample pays off, rows of the sample, and maximum number of few values.
_LEAST_ROWS, _SAMPLED, _FEW = 1 << 17, 2048, 64


def without_failing(file: FileHandle, node: Node, ranges: np.ndarray[Any, Any]) -> list[Node]:
    """Weaker conditions that ``node`` implies: columns do not have certain values that fail.

    Args:
        ranges: half-open ranges of rows on which the filter will be evaluated.

    Cost: decodes the first rows of each column that has a separate condition in ``node``.
    """
    if int((ranges[:, 1] - ranges[:, 0]).sum()) < _LEAST_ROWS:
        return []
    begin, end = (int(edge) for edge in ranges[0])
    parts = node.args if isinstance(node, And) else (node,)
    nodes = (
        _without(file, part, begin, min(end, begin + _SAMPLED))
        for part in parts
        if isinstance(part, Opaque) and not isinstance(part.expression, pc.Expression)
        and len(part.columns) == 1 and len(part.columns[0]) == 1
    )  # fmt: skip
    return [node for node in nodes if node is not None]


def _without(file: FileHandle, part: Opaque, begin: int, end: int) -> Node | None:
    """A node that excludes failing values; ``None`` if that would keep most rows."""
    (path,) = part.columns
    column = resolve_column(file.schema, path)
    # Not for floats: -0.0 and 0.0 are equal, but one may pass and the other fail.
    if pt.is_floating(column.value_type) or not is_tested(column.type):
        return None
    sample = file.projection((path,)).range_batch(begin, end, 1)
    try:
        values = plain_array(pa.RecordBatch._import_from_c_capsule(*sample).column(0))
        counts = pc.value_counts(values)
        if len(counts) > _FEW:
            return None
        distinct = counts.field("values")
        values_and_null = pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])
        passes = passing(part, RowBatch(pa.RecordBatch.from_arrays([values_and_null], [path[0]])))
    except (InvalidArgumentError, pa.ArrowException):
        return None
    fails = pc.invert(passes[: len(distinct)])
    if 2 * (pc.sum(counts.field("counts").filter(fails)).as_py() or 0) < len(values):
        return None
    failing = distinct.filter(pc.and_(fails, pc.is_valid(distinct)))
    try:
        literals = tuple(failing.cast(column.value_type))
    except pa.ArrowException:
        return None
    others = Not(In(column, literals))
    return any_of(others, IsNull(column)) if passes[-1].as_py() else others
