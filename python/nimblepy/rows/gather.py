"""Gathers rows of Arrow columns by position, for every type. A null position gives nulls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.rows.rowset import Positions
from nimblepy.schema.plain import plain_array


def gather(batch: pa.RecordBatch, positions: pa.Array) -> pa.RecordBatch:
    """Returns the rows of ``batch`` at ``positions``; a null position gives a row of nulls.

    Args:
        positions: int64 array; repeats are allowed.
    """
    arrays = [gather_array(column, positions) for column in batch.columns]
    if not arrays:
        return rows_without_columns(len(positions))
    fields = [field.with_nullable(True) for field in batch.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def gather_array(column: pa.Array, positions: pa.Array) -> pa.Array:
    """Returns the values of ``column`` at ``positions``, like :func:`gather` for one column."""
    try:
        return column.take(positions)
    except pa.ArrowNotImplementedError:
        pass
    column_type = column.type
    if pt.is_string_view(column_type) or pt.is_binary_view(column_type):
        return plain_array(column).take(positions).cast(column_type)
    if pt.is_run_end_encoded(column_type):
        values = gather_array(pc.run_end_decode(column), positions)
        return pc.run_end_encode(values, run_end_type=column_type.run_end_type)
    return _piece_by_piece(column, positions)


def keep(batch: pa.RecordBatch, mask: np.ndarray[Any, Any]) -> pa.RecordBatch:
    """Returns the rows for which ``mask`` is true; ``batch`` itself if it is true for all rows."""
    if mask.all():
        return batch
    kept = gather(batch, pa.array(np.flatnonzero(mask)))
    if not batch.num_columns:
        return kept
    return pa.RecordBatch.from_arrays(kept.columns, schema=batch.schema)


def _piece_by_piece(column: pa.Array, positions: pa.Array) -> pa.Array:
    """Gathers values one by one. Slow; for nested types that pyarrow cannot gather."""
    if not len(positions):
        return column.slice(0, 0)
    null = pa.nulls(1, column.type) if positions.null_count else None
    pieces = [null if at is None else column.slice(at, 1) for at in positions.to_pylist()]
    return pa.concat_arrays(pieces)


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Returns a batch with ``count`` rows and no columns."""
    empty = pa.StructArray.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(empty)


def with_missing(table: pa.Table, probes: Positions, num_keys: int) -> tuple[pa.Table, Positions]:
    """Adds a row of nulls to the rows of a lookup for each key that has no row.

    Args:
        table: the rows that the lookup found.
        probes: the position of each row's key, ascending.

    Returns:
        The rows in the order of their keys, and the position of each row's key.
    """
    has_row = np.zeros(num_keys, dtype=bool)
    has_row[probes] = True
    missing = np.flatnonzero(~has_row)
    fields = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    if not len(missing):
        columns = table.columns  # cast() converts each of them
        return (pa.Table.from_arrays(columns, schema=fields) if columns else table), probes
    all_probes = np.concatenate((probes, missing))
    order = np.argsort(all_probes, kind="stable")
    positions = pa.array(order, mask=order >= len(probes))
    if not table.num_columns:
        return pa.Table.from_batches([rows_without_columns(len(order))]), all_probes[order]
    batch = pa.RecordBatch.from_arrays(
        [_one_array(column) for column in table.columns], schema=table.schema
    )
    rows = gather(batch, positions)
    return pa.Table.from_batches([rows.replace_schema_metadata(fields.metadata)]), all_probes[order]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def lowest_weights(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    size: int,
    generator: np.random.Generator,
) -> pa.Table:
    """Draws ``size`` rows at random and returns them in their order; all rows if there are fewer.

    Each row gets a random weight, and the rows with the lowest weights are drawn.
    """
    held = pa.Table.from_batches([], schema=schema)
    weights = np.empty(0)
    for batch in batches:
        drawn = generator.random(batch.num_rows)
        if len(weights) >= size and size:
            below = drawn < weights.max()
            batch, drawn = keep(batch, below), drawn[below]
        if not size or not batch.num_rows:
            continue
        held = pa.concat_tables([held, pa.Table.from_batches([batch])])
        weights = np.concatenate((weights, drawn))
        if len(weights) > size:
            lowest = np.sort(np.argpartition(weights, size - 1)[:size])
            held, weights = _taken(held, lowest), weights[lowest]
    return held


def _taken(table: pa.Table, rows: np.ndarray[Any, Any]) -> pa.Table:
    if not table.num_columns:
        return table.slice(0, len(rows))
    one = table.combine_chunks().to_batches()
    batch = gather(one[0], pa.array(rows))
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(batch.columns, schema=table.schema)])
