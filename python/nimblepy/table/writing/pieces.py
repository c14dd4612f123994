"""Merges cubes that several processes wrote in parts, one file per part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from nimblepy.rows.request import Where
from nimblepy.table.base.model import DataFile
from nimblepy.table.reading.members import Reading
from nimblepy.table.writing.write import Target, write_rows

_BATCH_ROWS = 1 << 16


def join_pieces(pieces: Sequence[DataFile], target: Target) -> list[DataFile]:
    """Writes the rows of the pieces to new files, by the same plan as the pieces.

    Keeps the old files. The caller removes them when no task can need them any more.

    Cost: holds the rows in memory or in temporary files.
    """
    target = replace(target, weighted=True)
    reading = Reading(
        name=target.location,
        schema=target.file_schema,
        cluster_by=(),
        primary_key=(),
        defaults={},
        specs=lambda _: [],
        names={},
    )

    def rows() -> Iterator[pa.RecordBatch]:
        for file in pieces:
            child = reading.child(file)
            where = Where(None, child.all_rows())
            for batch in child.scan_batches(where, None, batch_rows=_BATCH_ROWS, threads=1):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=target.file_schema)

    try:
        return write_rows(pa.RecordBatchReader.from_batches(target.file_schema, rows()), target)
    finally:
        reading.close()
