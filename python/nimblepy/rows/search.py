"""Finds the rows of a request without an index, by reading all keys. Slow, but always possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.rows.request import KeyRange, Keys, Prefix
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.types import SortKey
from nimblepy.schema.values import successor

# Reads all rows of the given columns. The names are those in the request.
ReadColumns = Callable[[tuple[ColumnName, ...]], pa.Table]


def search_keys(keys: Keys, read: ReadColumns) -> RowSet:
    """Returns the rows that have one of the keys, by key, then by row."""
    names = keys.columns
    table = read(names)
    order = [SortKey(name) for name in names]
    rows = _encoded(table, order[: len(keys.names)])
    encoded_keys = _encoded_batch(keys.batch(keys.names), order[: len(keys.names)])
    distinct_keys = encoded_keys.unique()
    row_codes = _codes(rows, distinct_keys)
    code_of_key = _codes(encoded_keys, distinct_keys)
    # Row numbers grouped by key.
    matching_rows = np.flatnonzero(row_codes >= 0)
    codes = row_codes[matching_rows]
    by_code = matching_rows[np.argsort(codes, kind="stable")]
    counts = np.bincount(codes, minlength=len(distinct_keys))
    first_of_code = np.cumsum(counts) - counts
    matches_per_key = counts[code_of_key] * _can_match(keys)
    probe = np.repeat(np.arange(len(encoded_keys), dtype=np.int64), matches_per_key)
    within = np.arange(len(probe)) - np.repeat(
        np.cumsum(matches_per_key) - matches_per_key, matches_per_key
    )
    at = (
        by_code[np.repeat(first_of_code[code_of_key], matches_per_key) + within]
        if len(probe)
        else matching_rows[:0]
    )
    if keys.between is not None and len(at):
        kept = _between(keys, table, at, probe)
        at, probe = at[kept], probe[kept]
    return RowSet(at.astype(np.uint64), None, probe, len(keys))


def search_ordered(
    request: KeyRange | Prefix, order: Sequence[SortKey], read: ReadColumns
) -> RowSet:
    """Returns the rows of a range or prefix, sorted by ``order``, then by row number.

    Args:
        order: the sort keys of all columns of the key. The request restricts the first of these
            columns.
    """
    if request.nothing:
        return RowSet.of_range(0, 0)
    table = read(tuple(key.column for key in order))
    encoded = _encoded(table, order)
    mask: Any = pa.repeat(True, len(encoded))
    lower, upper = _range_ends(request) if isinstance(request, KeyRange) else _prefix_ends(request)
    if lower is not None:
        mask = pc.and_(mask, pc.greater_equal(encoded, pa.scalar(lower, encoded.type)))
    if upper is not None:
        mask = pc.and_(mask, pc.less(encoded, pa.scalar(upper, encoded.type)))
    if isinstance(request, Prefix) and request.starts_with:
        text = table.column(len(request.values) - 1).combine_chunks()
        octets = text.cast(pa.large_binary())
        starts = pc.starts_with(octets, pattern=request.values[-1].as_py())
        mask = pc.and_(mask, pc.fill_null(starts, False))
    rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
    kept = encoded.take(pa.array(rows))
    return RowSet(rows[pc.array_sort_indices(kept).to_numpy()].astype(np.uint64))


def _range_ends(request: KeyRange) -> tuple[bytes | None, bytes | None]:
    """Returns the bounds of the range as encoded keys: lower inclusive, upper exclusive."""
    low, high = request.ends
    lower = None if low is None else _one(low, request.keys)
    upper = None if high is None else _one(high, request.keys)
    if lower is not None and not request.lower.inclusive:
        lower = successor(lower)
    if upper is not None and request.upper.inclusive:
        upper = successor(upper)
    return lower, upper


def _prefix_ends(request: Prefix) -> tuple[bytes | None, bytes | None]:
    row, _ = request.ends
    if row is None:
        return None, None
    encoded = _one(row, request.keys)
    return encoded, successor(encoded)


def _one(row: pa.RecordBatch, keys: Sequence[SortKey]) -> bytes:
    encoded: bytes = _encoded_batch(row, keys)[0].as_py()
    return encoded


def _between(keys: Keys, table: pa.Table, at: Any, probe: Positions) -> Any:
    column = table.column(table.num_columns - 1).combine_chunks().take(pa.array(at))
    assert keys.lower is not None
    assert keys.upper is not None
    chosen = pa.array(probe)
    above = pc.greater_equal(column, keys.lower.take(chosen))
    below = pc.less_equal(column, keys.upper.take(chosen))
    return pc.fill_null(pc.and_(above, below), False).to_numpy(zero_copy_only=False)


def _codes(values: pa.Array, different: pa.Array) -> Positions:
    """Returns the position of each value in ``different``; -1 if it does not occur."""
    positions = pc.fill_null(pc.index_in(values, value_set=different), -1)
    codes: Positions = positions.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _can_match(keys: Keys) -> Any:
    can = np.ones(len(keys), dtype=np.bool_)
    if keys.usable is not None:
        can &= keys.usable
    if not keys.null_equals:
        for values in keys.values:
            if values.null_count:
                can &= values.is_valid().to_numpy(zero_copy_only=False)
    return can


def _encoded(table: pa.Table, keys: Sequence[SortKey]) -> pa.Array:
    """Returns the keys of all rows as binary values that compare like the keys."""
    columns = [column.combine_chunks() for column in table.columns[: len(keys)]]
    names = [output_name(key.column) for key in keys]
    return _encoded_batch(pa.RecordBatch.from_arrays(columns, names=names), keys)


def _encoded_batch(batch: pa.RecordBatch, keys: Sequence[SortKey]) -> pa.Array:
    orders = [(key.descending, key.nulls_first) for key in keys[: batch.num_columns]]
    octets, offsets = _core.encode_keys(batch, orders)
    return pa.Array.from_buffers(
        pa.large_binary(),
        batch.num_rows,
        [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(octets)],
    )
