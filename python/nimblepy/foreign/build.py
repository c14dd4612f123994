"""Writes index files, which hold the sorted keys of Parquet files with their row numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import CorruptFileError, StaleFileError
from nimblepy.file.source import FileSource
from nimblepy.file.write import Writer
from nimblepy.foreign.listing import Paths
from nimblepy.foreign.records import (
    HASH,
    ROW,
    FileRecord,
    IndexRecord,
    file_version,
    key_hashes,
    schema_of,
)
from nimblepy.io.file_object import RemoteFileObject
from nimblepy.io.location import FileSystem
from nimblepy.io.progress import ProgressArg
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import Positions

_BATCH_ROWS = 1 << 17


def first_rows_of(files: Sequence[FileRecord]) -> Positions:
    """Returns the number of rows before each file, followed by the total."""
    counts = [record.num_rows for record in files]
    return np.cumsum(np.array([0, *counts], dtype=np.int64))


def row_numbers(stored: pa.Array, num_rows: int, path: str) -> Positions:
    """Returns the row numbers of index entries.

    Raises:
        CorruptFileError: a number is not below ``num_rows``.
    """
    numbers = stored.to_numpy(zero_copy_only=False)
    if stored.null_count or (len(numbers) and int(numbers.max()) >= num_rows):
        raise CorruptFileError(
            f"{path}: an entry names row {pc.max(stored).as_py()}, but the files have {num_rows} "
            "rows"
        )
    found: Positions = numbers.astype(np.int64)
    return found


def entry_schema(record: IndexRecord) -> pa.Schema:
    """Returns the columns of the index file itself."""
    if record.kind == "hash":
        return pa.schema([pa.field(HASH, pa.uint64()), pa.field(ROW, pa.uint64())])
    fields = [record.schema.field(name) for name in record.keys]
    return pa.schema([*fields, pa.field(ROW, pa.uint64())])


def write_index(
    target: str | os.PathLike[str],
    record: IndexRecord,
    paths: Paths,
    old: tuple[FileSource, IndexRecord] | None = None,
    *,
    filesystem: FileSystem | None = None,
    progress: ProgressArg = None,
) -> None:
    """Writes the index of ``record.files``.

    Args:
        old: an index with the same key. Files that it has in the same version are not read.

    Raises:
        StaleFileError: a file changed during the call.

    Cost: reads the key columns of new files and the whole old index, and sorts the keys.
    """
    schema = entry_schema(record)
    # Sort by the row too, so that equal keys are in row order, whatever the order of reading.
    keys = [HASH] if record.kind == "hash" else record.sort_keys
    with Writer(
        target,
        schema,
        cluster_by=[*keys, ROW],
        metadata=record.to_metadata(),
        filesystem=filesystem,
        progress=progress,
    ) as writer:
        first_rows = first_rows_of(record.files)
        known = {} if old is None else _unchanged(record, old[1])
        if old is not None and known:
            for batch in _kept(old[0], old[1], known, first_rows, os.fspath(target)):
                writer.write(batch)
        kept = set(known.values())
        for number, file in enumerate(record.files):
            if number not in kept:
                for batch in _keys_of(file, record, paths, int(first_rows[number])):
                    writer.write(batch)


def _unchanged(record: IndexRecord, old: IndexRecord) -> dict[int, int]:
    """Maps the old number of each unchanged file to its new number."""
    now = {(f.path, f.version, f.footer): i for i, f in enumerate(record.files)}
    pairs = ((i, now.get((f.path, f.version, f.footer))) for i, f in enumerate(old.files))
    return {before: after for before, after in pairs if after is not None}


def _kept(
    index: FileSource,
    old: IndexRecord,
    known: Mapping[int, int],
    first_rows: Positions,
    path: str,
) -> Iterator[pa.RecordBatch]:
    """Yields the entries of unchanged files, with their new row numbers."""
    before = first_rows_of(old.files)
    moved = np.full(len(old.files), -1, dtype=np.int64)
    for number, after in known.items():
        moved[number] = first_rows[after] - before[number]
    keeps = np.zeros(len(old.files), dtype=np.bool_)
    keeps[list(known)] = True
    everything = Where(None, index.everything)
    for batch in index.scan_batches(everything, None, batch_rows=_BATCH_ROWS, threads=1):
        rows = row_numbers(batch.column(batch.num_columns - 1), int(before[-1]), path)
        file = np.searchsorted(before, rows, side="right") - 1
        if not keeps.all():
            mask = keeps[file]
            batch = batch.filter(pa.array(mask))
            rows, file = rows[mask], file[mask]
        arrays = [*batch.columns[:-1], pa.array((rows + moved[file]).astype(np.uint64))]
        yield pa.RecordBatch.from_arrays(arrays, schema=index.schema)


def _keys_of(
    file: FileRecord, record: IndexRecord, paths: Paths, first_row: int
) -> Iterator[pa.RecordBatch]:
    """Yields the entries of a file, which it reads."""
    import pyarrow.parquet as pq

    location = paths.location(file.path)
    schema = entry_schema(record)
    source = location.path if location.is_local else RemoteFileObject(location.open())
    row = first_row
    try:
        with pq.ParquetFile(source, metadata=file.metadata, memory_map=False) as opened:
            if not schema_of(file).equals(record.schema):
                raise StaleFileError(f"{file.path}: its columns changed")
            for batch in opened.iter_batches(_BATCH_ROWS, columns=list(record.keys)):
                keys = pa.RecordBatch.from_arrays(
                    [batch.column(name) for name in record.keys],
                    schema=pa.schema([record.schema.field(name) for name in record.keys]),
                )
                numbers = pa.array(np.arange(row, row + len(keys), dtype=np.uint64))
                row += len(keys)
                if record.kind == "hash":
                    hashes = key_hashes(keys, record.sort_keys, record.hash_bits)
                    columns = [pa.array(hashes), numbers]
                else:
                    columns = [*keys.columns, numbers]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CorruptFileError(f"{file.path}: damaged Parquet file: {error}") from error
    if row - first_row != file.num_rows or file_version(paths, file.path) != file.version:
        raise StaleFileError(f"{file.path}: changed while it was indexed; try again")
