"""Reads and writes statistics files: Puffin files that the metadata names, one per snapshot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

from nimblepy.table.base.model import MAIN, Distinct, Snapshot
from nimblepy.table.base.puffin import Blob, puffin_bytes, read_puffin
from nimblepy.table.iceberg.metadata import Metadata

# The kind of blobs with sketches, and the metadata property with the distinct count.
SKETCH = "apache-datasketches-theta-v1"
_VALUES = "ndv"


def distinct_values(metadata: Metadata, snapshot: Snapshot | None) -> dict[int, Distinct]:
    """Returns distinct counts by field id, from the newest statistics of this snapshot or its
    ancestors.

    Cost: no reads, because the metadata repeat the counts of the files.
    """
    by_id: dict[int, Distinct] = {}
    for item in _files_of(metadata, snapshot):
        for blob in item.blob_metadata:
            text = (blob.properties or {}).get(_VALUES, "")
            if blob.type == SKETCH and len(blob.fields) == 1 and text.isdecimal():
                by_id.setdefault(blob.fields[0], Distinct(int(text), blob.snapshot_id))
    return by_id


def _files_of(metadata: Metadata, snapshot: Snapshot | None) -> list[Any]:
    """Returns the statistics files of a snapshot and of its ancestors, the newest first."""
    by_snapshot = {item.snapshot_id: item for item in metadata.ice.metadata.statistics}
    if not by_snapshot:
        return []
    return [by_snapshot[item.id] for item in metadata.ancestors(snapshot) if item.id in by_snapshot]


def read_sketches(metadata: Metadata, snapshot: Snapshot | None) -> list[Blob]:
    """Returns the blobs with sketches that :func:`distinct_values` describes; empty if the file is
    lost.
    """
    blobs: dict[int, Blob] = {}
    for item in _files_of(metadata, snapshot):
        with suppress(OSError, ValueError):
            for blob in read_puffin(metadata.read(item.statistics_path)):
                if blob.kind == SKETCH and len(blob.fields) == 1:
                    blobs.setdefault(blob.fields[0], blob)
    return list(blobs.values())


def sketch_blob(number: int, values: int, payload: bytes, snapshot: Snapshot) -> Blob:
    """Returns the blob of a column's sketch."""
    return Blob(
        kind=SKETCH,
        payload=payload,
        fields=(number,),
        snapshot=snapshot.id,
        sequence=snapshot.sequence,
        properties={_VALUES: str(values)},
    )


def write_statistics(
    metadata: Metadata, snapshot: Snapshot, path: str, blobs: Sequence[Blob]
) -> Any:
    """Writes a statistics file, and returns its entry for the metadata."""
    octets, footer = puffin_bytes(blobs)
    with metadata.ice.io.new_output(path).create() as sink:
        sink.write(octets)
    return StatisticsFile(
        snapshot_id=snapshot.id,
        statistics_path=path,
        file_size_in_bytes=len(octets),
        file_footer_size_in_bytes=footer,
        blob_metadata=[
            BlobMetadata(
                type=blob.kind,
                snapshot_id=blob.snapshot,
                sequence_number=blob.sequence,
                fields=list(blob.fields),
                properties=dict(blob.properties),
            )
            for blob in blobs
        ],
    )


def moved_statistics(metadata: Metadata, gone: Collection[int]) -> Any | None:
    """Returns the new entry for the newest sketches after some snapshots are removed.

    The sketches move to the oldest remaining snapshot after the removed ones. Each blob names the
    snapshot that it was computed from. ``None`` if there are no sketches or they need not move.
    """
    by_snapshot = {item.snapshot_id: item for item in metadata.ice.metadata.statistics}
    left = None
    for snapshot in metadata.ancestors(metadata.head(MAIN)) if by_snapshot else ():
        item = by_snapshot.get(snapshot.id)
        if item is not None and any(blob.type == SKETCH for blob in item.blob_metadata):
            if left is None or snapshot.id not in gone:
                return None
            return item.model_copy(update={"snapshot_id": left.id})
        if snapshot.id not in gone and item is None:
            left = snapshot
    return None
