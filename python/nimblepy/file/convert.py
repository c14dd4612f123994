"""Converts Parquet, CSV, JSON lines, Arrow IPC and nimble files to nimble, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.write import WriteKeywords, write
from nimblepy.input.foreign import CountedReader, Format, Paths, is_paths, open_files, selected
from nimblepy.input.tabular import as_reader
from nimblepy.io.progress import ProgressArg
from nimblepy.rows.arguments import passes_on_to
from nimblepy.schema.types import FileSummary


@passes_on_to(write)
def convert(
    source: Paths | Any,
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    columns: Sequence[str] | None = None,
    progress: ProgressArg = None,
    **how: Unpack[WriteKeywords],
) -> FileSummary:
    """Writes the rows of ``source`` to the nimble file ``path``, in constant memory.

    Args:
        source: a file, a directory, a glob such as ``"data/**/*.parquet"``, or a list of these, as
            local paths or URIs. A directory with nimble files is read as one dataset. Directory
            names such as ``year=2024`` become columns. If a column has different types in different
            files, it gets a common type. Missing columns are filled with nulls. In-memory data can
            have any form that :func:`nimblepy.write` accepts.
        path: the nimble file to write. It becomes visible when it is complete.
        format: ``"parquet"``, ``"csv"``, ``"tsv"``, ``"json"`` (one object per line), ``"arrow"``
            (IPC file or stream, Feather V2) or ``"nimble"``. ``None`` detects it from the first
            bytes and the name of each file.
        columns: columns to keep, in this order; ``None`` keeps all.
        progress: ``True`` for a progress bar, or a function ``progress(rows_done, rows_total)``.
            The total is ``None`` for CSV, JSON lines and Arrow streams.

    The other arguments are those of :func:`nimblepy.write`.

    Raises:
        InvalidArgumentError: unknown format or column.
        OSError: a file cannot be read or written.
    """
    data: Any
    if is_paths(source):
        data = open_files(source, format=format, columns=columns)
    elif format is not None:
        raise InvalidArgumentError("convert: format is only allowed for files, not for data")
    else:
        data = source if columns is None else _columns_of(source, columns)
    return write(data, path, progress=progress, **how)


def _columns_of(source: Any, columns: Sequence[str]) -> CountedReader:
    reader, total = as_reader(source)
    schema = selected(reader.schema, columns)
    batches = (batch.select(schema.names) for batch in reader)
    return CountedReader(pa.RecordBatchReader.from_batches(schema, batches), total)
