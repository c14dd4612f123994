"""Simplifies conditions on a column with few possible values, by evaluating them for each value.

In ``year(d) = 1995 AND month(d) = 3``, the first condition leaves 365 possible values of ``d``.
Evaluating the second condition for each of them gives ``d BETWEEN '1995-03-01' AND '1995-03-31'``.
Indexes and tests of encoded data can answer this condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.evaluate import RowBatch, passing
from nimblepy.expr.nodes import And, Compare, In, Node, Opaque, all_of, any_of
from nimblepy.schema.columns import Column

# Maximum number of values to evaluate, and maximum number of ranges in the result. With more
# ranges, the result is an In node.
_MOST_VALUES, _MOST_RANGES = 4096, 8


def settle(node: Node) -> Node:
    """Returns a simpler node that is true for the same rows.

    For other rows, the two nodes may differ between false and unknown.
    """
    parts = node.args if isinstance(node, And) else (node,)
    return _settled(node) if any(isinstance(part, Opaque) for part in parts) else node


@lru_cache(maxsize=64)
def _settled(node: Node) -> Node:
    parts = list(node.args) if isinstance(node, And) else [node]
    for column in dict.fromkeys(p.column for p in parts if isinstance(p, (Compare, In))):
        about = [part for part in parts if _is_about(part, column)]
        if not any(isinstance(part, Opaque) for part in about):
            continue
        values = _values(column, [p for p in about if not isinstance(p, Opaque)])
        if values is None:
            continue
        rows = RowBatch(pa.RecordBatch.from_arrays([values], [column.path[0]]))
        try:
            passing_values = values.filter(passing(all_of(*about), rows))
        except InvalidArgumentError:
            continue  # evaluation failed for a value that may not even be in the column
        parts = [part for part in parts if not _is_about(part, column)]
        parts.append(_any_of_values(column, passing_values))
    return all_of(*parts)


def _is_about(part: Node, column: Column) -> bool:
    """Returns whether a condition depends only on this column."""
    if isinstance(part, (Compare, In)):
        return part.column == column
    return isinstance(part, Opaque) and part.columns == (column.path,)


def _values(column: Column, facts: Sequence[Node]) -> pa.Array | None:
    """Returns the ascending values that may satisfy ``facts``; ``None`` if there are too many."""
    data_type = column.type
    if len(column.path) > 1 or not (pt.is_integer(data_type) or pt.is_date32(data_type)):
        return None
    bits = data_type.bit_width
    signed = not pt.is_unsigned_integer(data_type)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    ticks = pa.int32() if pt.is_date32(data_type) else data_type
    for fact in facts:
        if isinstance(fact, In):
            ends = [value.cast(ticks).as_py() for value in fact.values] or [high + 1]
            low, high = max(low, min(ends)), min(high, max(ends))
        elif isinstance(fact, Compare):
            at = fact.value.cast(ticks).as_py()
            if fact.op in ("==", ">", ">="):
                low = max(low, at + (fact.op == ">"))
            if fact.op in ("==", "<", "<="):
                high = min(high, at - (fact.op == "<"))
    if high - low >= _MOST_VALUES:
        return None
    return pa.array(range(low, high + 1), ticks).cast(data_type)


def _any_of_values(column: Column, values: pa.Array) -> Node:
    """Returns the condition that the column has one of these values, given in ascending order."""
    if not len(values):
        return In(column, ())
    ticks = values.cast(pa.int32()) if pt.is_date32(values.type) else values
    gaps = np.flatnonzero(np.diff(np.asarray(ticks)) != 1) + 1
    if len(gaps) + 1 > _MOST_RANGES:
        return In(column, tuple(values))
    begins, ends = [0, *gaps.tolist()], [*gaps.tolist(), len(values)]
    return any_of(
        *(
            all_of(Compare(column, ">=", values[a]), Compare(column, "<=", values[b - 1]))
            if b - a > 1
            else Compare(column, "==", values[a])
            for a, b in zip(begins, ends, strict=True)
        )
    )
