"""Changes between snapshots that several processes read, each some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from nimblepy.rows.source import Projected
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Snapshot
from nimblepy.table.reading.changes import changes
from nimblepy.table.reading.fileset import reading_of
from nimblepy.table.reading.holding import MetadataFile
from nimblepy.table.reading.members import Reading

# Files that a snapshot added, for each share of it; and its most shares.
_FILES_OF_SHARE = 8
_MOST_SHARES = 64


@dataclass(frozen=True)
class WantedChanges:
    """The changes that some snapshots made.

    Attributes:
        schema_id: of the columns.
        snapshots: oldest first.
        columns: those that are read.
        schema: of the changes.
    """

    metadata: ice.Metadata
    schema_id: int
    reading: Reading
    snapshots: Sequence[Snapshot]
    columns: Projected
    schema: pa.Schema

    def reader(self) -> pa.RecordBatchReader:
        """All of them, snapshot by snapshot."""
        batches = changes(self.metadata, self.reading, self.snapshots, self.columns, self.schema)
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def shares(self) -> list[ChangesShare]:
        """Shares that have all of them together, oldest first. Cost: none."""
        file = MetadataFile(self.metadata.metadata_file, self.metadata.io_properties)
        found = []
        for snapshot in self.snapshots:
            many = (snapshot.figure("added-data-files") or 0) // _FILES_OF_SHARE
            count = min(max(many, 1), _MOST_SHARES)
            for i in range(count):
                share = (snapshot.id, (i, count))
                found.append(ChangesShare(file, self.schema_id, *share, self.columns, self.schema))
        return found


@dataclass(frozen=True)
class ChangesShare:
    """Some of the changes that one snapshot made. It pickles.

    Attributes:
        share: (i, n): which of how many.
    """

    file: MetadataFile
    schema_id: int
    snapshot: int
    share: tuple[int, int]
    columns: Projected
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows.

        Raises:
            FileNotFoundError: the snapshot expired meanwhile.

        Cost: as of :func:`changes`; every share of a snapshot reads its manifests.
        """
        metadata = self.file.open()
        snapshot = metadata.snapshot(self.snapshot)
        assert snapshot is not None
        reading = reading_of(metadata, self.schema_id)
        try:
            yield from changes(metadata, reading, [snapshot], self.columns, self.schema, self.share)
        finally:
            reading.close()
