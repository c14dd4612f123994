"""Converts Parquet, CSV and Arrow IPC files to nimble, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.options import HashIndex, SortedIndex, WriteOptions
from nimblepy.file.write import ClusterBy, write
from nimblepy.io.location import FileSystem
from nimblepy.io.progress import ProgressArg
from nimblepy.io.tabular import CountedReader
from nimblepy.schema.columns import unknown_column_message
from nimblepy.schema.types import FileSummary

Format: TypeAlias = Literal["parquet", "csv", "tsv", "arrow"]

_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
}


def convert(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    columns: Sequence[str] | None = None,
    cluster_by: ClusterBy = None,
    unique: bool = False,
    presorted: bool = False,
    indexes: Sequence[HashIndex | SortedIndex] = (),
    options: WriteOptions | None = None,
    metadata: Mapping[str, str | bytes] | None = None,
    progress: ProgressArg = None,
    filesystem: FileSystem | None = None,
) -> FileSummary:
    """Writes the rows of ``source`` to the nimble file ``path``, in constant memory.

    Args:
        source: a local file.
        path: the nimble file to make; it appears only when complete.
        format: ``"parquet"``, ``"csv"``, ``"tsv"`` or ``"arrow"`` (IPC file or stream, Feather
            V2). ``None`` tells from the first bytes and the name.
        columns: columns to keep, in this order; ``None`` keeps all.
        progress: ``True`` for a bar, or a function of rows done and rows in all. A CSV file or
            an Arrow stream does not say how many rows it has.

    The other arguments are those of :func:`nimblepy.write`.

    Raises:
        InvalidArgumentError: unknown format or column.
        OSError: a file cannot be read or written.
    """
    with ExitStack() as stack:
        return write(
            open_batches(source, format=format, columns=columns, stack=stack),
            path,
            cluster_by=cluster_by,
            unique=unique,
            presorted=presorted,
            indexes=indexes,
            options=options,
            metadata=metadata,
            progress=progress,
            filesystem=filesystem,
        )


def open_batches(
    source: str | os.PathLike[str],
    *,
    format: Format | None,
    columns: Sequence[str] | None,
    stack: ExitStack,
) -> CountedReader:
    """A stream over ``source`` with the number of its rows where the format tells it.

    What has to be closed after the stream is registered with ``stack``.
    """
    kind = format or detect_format(source)
    num_rows = None
    batches: Iterable[pa.RecordBatch]
    if kind == "parquet":
        from pyarrow.parquet import ParquetFile

        file = stack.enter_context(ParquetFile(source))
        schema, num_rows = file.schema_arrow, file.metadata.num_rows
        # A row group at a time: pyarrow makes no batch of two whose nested dictionaries differ.
        batches = (
            batch
            for group in range(file.num_row_groups)
            for batch in file.iter_batches(row_groups=[group], columns=columns)
        )
    elif kind in ("csv", "tsv"):
        from pyarrow import csv

        reader = csv.open_csv(
            os.fspath(source),
            parse_options=csv.ParseOptions(
                delimiter="\t" if kind == "tsv" else ",", newlines_in_values=True
            ),
            # Column types are settled by the first block, so it is made large.
            read_options=csv.ReadOptions(block_size=16 << 20),
        )
        schema, batches = reader.schema, stack.enter_context(reader)
    elif kind == "arrow":
        reader = _open_arrow(source, stack)
        schema, batches = reader.schema, reader
    else:
        raise InvalidArgumentError(
            f"convert: format must be parquet, csv, tsv or arrow, got {kind!r}"
        )
    if columns is not None:
        for name in columns:
            if schema.get_field_index(name) < 0:
                raise InvalidArgumentError(f"convert: {unknown_column_message(schema, name)}")
        names = list(columns)
        schema = pa.schema([schema.field(name) for name in names], metadata=schema.metadata)
        batches = (batch.select(names) for batch in batches)
    return CountedReader(pa.RecordBatchReader.from_batches(schema, batches), num_rows)


def detect_format(source: str | os.PathLike[str]) -> Format:
    """The format of a local file, from its first bytes or else its name."""
    with open(source, "rb") as file:
        start = file.read(6)
    if start[:4] == b"PAR1":
        return "parquet"
    if start == b"ARROW1":
        return "arrow"
    suffixes = [suffix.lower() for suffix in Path(source).suffixes]
    if suffixes and suffixes[-1] in (".gz", ".bz2", ".zst", ".lz4"):
        suffixes.pop()
    name = _FORMATS.get(suffixes[-1] if suffixes else "")
    if name is None or name == "parquet":
        expected = "; ".join(sorted(_FORMATS))
        raise InvalidArgumentError(
            f"convert: cannot tell the format of {os.fspath(source)!r}: it starts with {start!r}. "
            f"Pass format=, or use one of the names {expected}"
        )
    return name


def _open_arrow(source: str | os.PathLike[str], stack: ExitStack) -> pa.RecordBatchReader:
    memory = stack.enter_context(pa.memory_map(os.fspath(source)))
    if memory.read(6) != b"ARROW1":
        memory.seek(0)
        return stack.enter_context(pa.ipc.open_stream(memory))
    memory.seek(0)
    file = stack.enter_context(pa.ipc.open_file(memory))
    batches = (file.get_batch(number) for number in range(file.num_record_batches))
    return pa.RecordBatchReader.from_batches(file.schema, batches)
