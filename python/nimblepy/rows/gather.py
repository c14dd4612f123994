"""Gathers rows of Arrow columns by position, for every type, nulls for missing rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.schema.plain import plain_array


def gather(batch: pa.RecordBatch, positions: pa.Array) -> pa.RecordBatch:
    """The rows of ``batch`` at ``positions``; a null position gives a row of nulls.

    Args:
        positions: int64 array; repeats are allowed.
    """
    arrays = [gather_array(column, positions) for column in batch.columns]
    if not arrays:
        return rows_without_columns(len(positions))
    fields = [field.with_nullable(True) for field in batch.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def gather_array(column: pa.Array, positions: pa.Array) -> pa.Array:
    """One column of :func:`gather`."""
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
    """The rows for which ``mask`` is true; the batch itself if all rows pass."""
    if mask.all():
        return batch
    kept = gather(batch, pa.array(np.flatnonzero(mask)))
    if not batch.num_columns:
        return kept
    return pa.RecordBatch.from_arrays(kept.columns, schema=batch.schema)


def _piece_by_piece(column: pa.Array, positions: pa.Array) -> pa.Array:
    """Slow, for nested types that pyarrow cannot gather."""
    if not len(positions):
        return column.slice(0, 0)
    null = pa.nulls(1, column.type) if positions.null_count else None
    pieces = [null if at is None else column.slice(at, 1) for at in positions.to_pylist()]
    return pa.concat_arrays(pieces)


def rows_without_columns(count: int) -> pa.RecordBatch:
    """A batch with ``count`` rows and no columns."""
    empty = pa.StructArray.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(empty)
