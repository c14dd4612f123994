"""Functions of lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.expr.arrays import Value, full, plain
from nimblepy.expr.numbers import compare


def contains(values: Value, wanted: Value) -> Value:
    """Whether a list has an element equal to a value; null where either is null."""
    if isinstance(values, pa.Scalar):
        values = full(values, len(wanted))
    rows = len(values)
    items = plain(pc.list_flatten(values))
    parents = np.asarray(pc.list_parent_indices(values))
    at = wanted if isinstance(wanted, pa.Scalar) else wanted.take(pa.array(parents))
    found = np.zeros(rows, dtype=np.bool_)
    equal = np.asarray(pc.fill_null(compare("==", items, at), False))
    found[parents[equal]] = True
    known = pc.and_(pc.is_valid(values), pc.is_valid(wanted))
    return pc.if_else(known, pa.array(found), pa.scalar(None, pa.bool_()))


def extract(values: Value, at: Value) -> Value:
    """The element at a position from 1 on, or from the end where negative; null beyond."""
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
