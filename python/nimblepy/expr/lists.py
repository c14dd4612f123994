"""Functions of lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.expr.arrays import Value, full, plain, rows_of
from nimblepy.expr.numbers import Op, compare


def contains(values: Value, wanted: Value) -> Value:
    """Whether a list contains a value; null if either is null."""
    if isinstance(values, pa.Scalar):
        values = full(values, len(wanted))
    rows = len(values)
    items = plain(pc.list_flatten(values))
    parents = np.asarray(pc.list_parent_indices(values))
    at = wanted if isinstance(wanted, pa.Scalar) else wanted.take(pa.array(parents))
    has_match = np.zeros(rows, dtype=np.bool_)
    equal = np.asarray(pc.fill_null(compare("==", items, at), False))
    has_match[parents[equal]] = True
    both_valid = pc.and_(pc.is_valid(values), pc.is_valid(wanted))
    return pc.if_else(both_valid, pa.array(has_match), pa.scalar(None, pa.bool_()))


def extract(values: Value, at: Value) -> Value:
    """The element at a 1-based position; negative positions count from the end. Null if missing."""
    if isinstance(values, pa.Scalar):
        values = full(values, len(at))
    lengths = np.asarray(pc.list_value_length(values).fill_null(0)).astype(np.int64)
    ends = np.cumsum(lengths)
    index = full(at, len(values))
    nulls = np.asarray(pc.is_null(index))
    index = np.asarray(index.cast(pa.int64()).fill_null(0))
    offset = np.where(index < 0, lengths + index, index - 1)
    missing = nulls | (index == 0) | (offset < 0) | (offset >= lengths)
    positions = pa.array(ends - lengths + offset, mask=missing)
    return plain(pc.list_flatten(values).take(positions))


def length(values: Value) -> Value:
    return pc.list_value_length(values).cast(pa.int64())


# ------------------------------------------------------------------ comparisons

_Signs = np.ndarray[Any, np.dtype[np.int8]]
_HOLDS: dict[Op, Any] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def ordered(op: Op, left: Value, right: Value) -> Value:
    """Compares lists element by element; null if either list is null.

    As in DuckDB, null elements are equal to each other and greater than all other values.
    """
    left, right = _of_rows(left, right)
    result = _HOLDS[op](_signs(left, right), 0)
    both_valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    return pc.if_else(both_valid, pa.array(result), pa.scalar(None, pa.bool_()))


def same(left: Value, right: Value) -> Value:
    """``IS NOT DISTINCT FROM`` for lists."""
    return pa.array(_item_signs(*_of_rows(left, right)) == 0)


def _of_rows(*values: Value) -> list[pa.Array]:
    return [full(value, rows_of(*values)) for value in values]


def _signs(left: pa.Array, right: pa.Array) -> _Signs:
    """Compares two lists in each row: -1, 0 or 1. A null list counts as empty."""
    sizes = [_sizes(left), _sizes(right)]
    shared = np.minimum(*sizes)
    row = np.repeat(np.arange(len(shared)), shared)
    place = np.arange(len(row)) - np.repeat(np.cumsum(shared) - shared, shared)
    items = []
    for values, size in zip((left, right), sizes, strict=True):
        begin = np.cumsum(size) - size
        items.append(plain(pc.list_flatten(values)).take(pa.array(begin[row] + place)))
    signs = np.sign(sizes[0] - sizes[1]).astype(np.int8)
    item_signs = _item_signs(*items)
    differing = np.flatnonzero(item_signs)
    rows, first = np.unique(row[differing], return_index=True)
    signs[rows] = item_signs[differing[first]]
    return signs


def _item_signs(left: pa.Array, right: pa.Array) -> _Signs:
    """Compares pairs of values: -1, 0 or 1. Nulls are equal to each other and greatest."""
    if pt.is_null(left.type) or pt.is_null(right.type):
        signs = np.zeros(len(left), dtype=np.int8)
    elif pt.is_nested(left.type):
        signs = _signs(left, right)
    else:
        above, below = (np.asarray(pc.fill_null(compare(op, left, right), False))
                        for op in (">", "<"))  # fmt: skip
        signs = above.astype(np.int8) - below.astype(np.int8)
    nulls = [np.asarray(pc.is_null(values)) for values in (left, right)]
    return np.where(nulls[0] | nulls[1], nulls[0].astype(np.int8) - nulls[1], signs)


def _sizes(values: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    sizes = pc.if_else(pc.is_valid(values), pc.list_value_length(values), 0)
    return np.asarray(sizes.fill_null(0)).astype(np.int64)
