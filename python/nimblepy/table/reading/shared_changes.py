"""Divides the changes between snapshots among several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from nimblepy.errors import StaleFileError
from nimblepy.rows.arguments import Projected
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Snapshot
from nimblepy.table.reading.changes import changes
from nimblepy.table.reading.fileset import reading_of
from nimblepy.table.reading.holding import MetadataFile
from nimblepy.table.reading.members import Reading

# Number of a snapshot's added files for each share, and the maximum number of shares.
_FILES_OF_SHARE = 8
_MOST_SHARES = 64


@dataclass(frozen=True)
class WantedChanges:
    """The changes of some snapshots.

    Attributes:
        schema_id: schema of the columns.
        snapshots: oldest first.
        columns: columns to read.
        schema: schema of the changes.
        reload: reads the newest metadata, which explains missing files.
    """

    metadata: ice.Metadata
    schema_id: int
    reading: Reading
    snapshots: Sequence[Snapshot]
    columns: Projected
    schema: pa.Schema
    reload: Callable[[], ice.Metadata]

    def reader(self) -> pa.RecordBatchReader:
        """Returns all changes, snapshot by snapshot."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from changes(
                self.metadata, self.reading, self.snapshots, self.columns, self.schema
            )
        except FileNotFoundError as error:
            newest = self.reload()
            for snapshot in self.snapshots:
                if newest.snapshot(snapshot.id) is None:
                    raise StaleFileError(
                        f"{'.'.join(self.metadata.name)}: snapshot {snapshot.id} expired while its "
                        "changes were read"
                    ) from error
            raise

    def shares(self) -> list[ChangesShare]:
        """Divides the changes into shares, oldest first. Cost: no reads."""
        file = MetadataFile(self.metadata.metadata_file, self.metadata.io_properties)
        shares = []
        for snapshot in self.snapshots:
            many = (snapshot.figure("added-data-files") or 0) // _FILES_OF_SHARE
            count = min(max(many, 1), _MOST_SHARES)
            for i in range(count):
                share = (snapshot.id, (i, count))
                shares.append(ChangesShare(file, self.schema_id, *share, self.columns, self.schema))
        return shares


@dataclass(frozen=True)
class ChangesShare:
    """A part of the changes of one snapshot. It can be pickled.

    Attributes:
        share: (i, n): the i-th of n shares.
    """

    file: MetadataFile
    schema_id: int
    snapshot: int
    share: tuple[int, int]
    columns: Projected
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows.

        Raises:
            FileNotFoundError: the snapshot has expired.

        Cost: as :func:`changes`; every share reads the manifests of its snapshot.
        """
        metadata = self.file.open()
        snapshot = metadata.snapshot(self.snapshot)
        assert snapshot is not None
        reading = reading_of(metadata, self.schema_id)
        try:
            yield from changes(metadata, reading, [snapshot], self.columns, self.schema, self.share)
        finally:
            reading.close()
