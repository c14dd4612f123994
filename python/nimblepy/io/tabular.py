"""Tabular input of any kind as record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError

# Batches handed to the core: large enough to amortise a call, small enough for steady progress.
BATCH_ROWS = 131_072


class CountedReader(NamedTuple):
    """A stream whose number of rows is known beforehand."""

    reader: pa.RecordBatchReader
    num_rows: int | None


def as_reader(data: Any) -> tuple[pa.RecordBatchReader, int | None]:
    """Batches of ``data`` and its number of rows, ``None`` where that is not known beforehand.

    Args:
        data: an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, a pandas DataFrame,
            or an iterable of :class:`pyarrow.RecordBatch`.

    Raises:
        InvalidArgumentError: ``data`` is none of these.
    """
    if isinstance(data, CountedReader):
        return data
    if isinstance(data, pa.RecordBatchReader):
        return data, None
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data]), data.num_rows
    if isinstance(data, pa.Table):
        return _table_reader(data), data.num_rows
    if hasattr(data, "__arrow_c_stream__"):
        return _import_stream(data), _length(data)
    if hasattr(data, "__arrow_c_array__"):
        return as_reader(pa.record_batch(data))
    if type(data).__module__.startswith("pandas.") and hasattr(data, "columns"):
        return as_reader(pa.Table.from_pandas(data))
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)):
        return _batches_reader(iter(data)), None
    raise InvalidArgumentError(
        "data: expected Arrow data (pyarrow, polars, duckdb, ...), a pandas DataFrame or an "
        f"iterable of pyarrow.RecordBatch, got {type(data).__name__}"
    )


def _import_stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"{_unsupported_column(data)}: a type that Arrow does not have: {error}"
        ) from error


def _unsupported_column(data: Any) -> str:
    """The column of a frame, and its type, whose Arrow schema pyarrow refuses."""
    if hasattr(data, "get_column"):  # of polars; Arrow's own error names no column
        for name in data.columns:
            try:
                pa.RecordBatchReader.from_stream(data.select(name).clear())
            except pa.ArrowException:
                return f"column {name!r} of type {data.schema[name]}"
    return "data"


def _length(data: Any) -> int | None:
    # len() of a DuckDB relation would run its query: only frames that know their height count.
    height = getattr(data, "height", None)
    return height if isinstance(height, int) else None


def check_column(name: str, column: pa.Array | pa.ChunkedArray) -> None:
    """Refuses what Arrow's own cheap checks find wrong."""
    try:
        column.validate()
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"column {name!r}: invalid data: {error}") from error


def _table_reader(table: pa.Table) -> pa.RecordBatchReader:
    for name, column in zip(table.column_names, table.columns, strict=True):
        check_column(name, column)
    if table.num_columns == 0 and table.num_rows > 0:
        # Batches of a table without columns lose the number of rows.
        empty = pa.StructArray.from_buffers(pa.struct([]), table.num_rows, [None])
        batch = pa.RecordBatch.from_struct_array(empty).replace_schema_metadata(
            table.schema.metadata
        )
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    return table.to_reader(max_chunksize=BATCH_ROWS)


def _batches_reader(batches: Iterator[Any]) -> pa.RecordBatchReader:
    first = next(batches, None)
    if not isinstance(first, pa.RecordBatch):
        found = "no batch at all" if first is None else type(first).__name__
        raise InvalidArgumentError(
            f"data: an iterable must give pyarrow.RecordBatch objects, got {found}"
        )

    def chain() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, chain())


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """``batch`` in pieces of at most ``BATCH_ROWS`` rows, without a copy."""
    if batch.num_rows <= BATCH_ROWS:
        yield batch
        return
    for begin in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(begin, BATCH_ROWS)
