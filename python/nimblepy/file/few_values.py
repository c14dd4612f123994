"""Conditions over a column of few values, such as a category: what the core can ask of them.

``upper(mode) = 'RAIL'`` is computed for the values that the first rows have; those that fail are
what the core then leaves out, on encoded data. All other rows are asked the condition itself, so
that values which the first rows do not have cost time and change nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.evaluate import passing
from nimblepy.expr.nodes import And, In, IsNull, Node, Not, Opaque, any_of
from nimblepy.expr.pushdown import is_tested
from nimblepy.expr.terms import RowBatch
from nimblepy.file.handle import FileHandle
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.plain import plain_array

# Rows below which a sample does not pay, rows of it, and the values that count as few.
_LEAST_ROWS, _SAMPLED, _FEW = 1 << 17, 2048, 64


def without_failing(file: FileHandle, node: Node, ranges: np.ndarray[Any, Any]) -> list[Node]:
    """What is true wherever ``node`` is, in terms of values that fail it.

    Args:
        ranges: half-open ranges of rows that will be asked.

    Cost: decodes the first rows of columns of which ``node`` has a condition of its own.
    """
    if int((ranges[:, 1] - ranges[:, 0]).sum()) < _LEAST_ROWS:
        return []
    begin, end = (int(edge) for edge in ranges[0])
    parts = node.args if isinstance(node, And) else (node,)
    found = (
        _without(file, part, begin, min(end, begin + _SAMPLED))
        for part in parts
        if isinstance(part, Opaque) and not isinstance(part.expression, pc.Expression)
        and len(part.columns) == 1 and len(part.columns[0]) == 1
    )  # fmt: skip
    return [node for node in found if node is not None]


def _without(file: FileHandle, part: Opaque, begin: int, end: int) -> Node | None:
    """The column has none of the values that fail; ``None`` where that would leave most rows."""
    (path,) = part.columns
    column = resolve_column(file.schema, path)
    # Of floats -0.0 and 0.0 are equal, and may pass and fail.
    if pt.is_floating(column.value_type) or not is_tested(column.type):
        return None
    sample = file.projection((path,)).range_batch(begin, end, 1)
    try:
        values = plain_array(pa.RecordBatch._import_from_c_capsule(*sample).column(0))
        counts = pc.value_counts(values)
        if len(counts) > _FEW:
            return None
        distinct = counts.field("values")
        asked = pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])
        passes = passing(part, RowBatch(pa.RecordBatch.from_arrays([asked], [path[0]])))
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
