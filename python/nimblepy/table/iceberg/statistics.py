"""Files of statistics: Puffin files that the metadata names, each for one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

from nimblepy.table.base.model import Distinct, Snapshot
from nimblepy.table.base.puffin import Blob, puffin_bytes, read_puffin
from nimblepy.table.iceberg.metadata import Metadata

# The blobs that have sketches, and what the metadata says of each: the different values.
SKETCH = "apache-datasketches-theta-v1"
_VALUES = "ndv"


def distinct_values(metadata: Metadata, snapshot: Snapshot | None) -> dict[int, Distinct]:
    """By field id, what the newest statistics say that are of this snapshot or one before it.

    Cost: nothing is read: the metadata repeats the figures of the files.
    """
    found: dict[int, Distinct] = {}
    for item in _files_of(metadata, snapshot):
        for blob in item.blob_metadata:
            text = (blob.properties or {}).get(_VALUES, "")
            if blob.type == SKETCH and len(blob.fields) == 1 and text.isdecimal():
                found.setdefault(blob.fields[0], Distinct(int(text), blob.snapshot_id))
    return found


def _files_of(metadata: Metadata, snapshot: Snapshot | None) -> list[Any]:
    """Files of statistics of a snapshot and of those before it, the newest first."""
    known = {item.snapshot_id: item for item in metadata.ice.metadata.statistics}
    if not known:
        return []
    return [known[item.id] for item in metadata.ancestors(snapshot) if item.id in known]


def read_sketches(metadata: Metadata, snapshot: Snapshot | None) -> list[Blob]:
    """Blobs with sketches that :func:`distinct_values` tells of; of a file that is lost, none."""
    found: dict[int, Blob] = {}
    for item in _files_of(metadata, snapshot):
        with suppress(OSError, ValueError):
            for blob in read_puffin(metadata.read(item.statistics_path)):
                if blob.kind == SKETCH and len(blob.fields) == 1:
                    found.setdefault(blob.fields[0], blob)
    return list(found.values())


def sketch_blob(number: int, values: int, payload: bytes, snapshot: Snapshot) -> Blob:
    """The blob of a column's sketch."""
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
    """Writes a file of statistics, and returns what the metadata is to say of it."""
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
    """What the newest sketches are to be described as once some snapshots are gone.

    They are then of the oldest snapshot after theirs that stays; each blob says which one it was
    made from. ``None``: they stay where they are, or there are none.
    """
    known = {item.snapshot_id: item for item in metadata.ice.metadata.statistics}
    left = None
    for snapshot in metadata.ancestors(metadata.head()) if known else ():
        item = known.get(snapshot.id)
        if item is not None and any(blob.type == SKETCH for blob in item.blob_metadata):
            if left is None or snapshot.id not in gone:
                return None
            return item.model_copy(update={"snapshot_id": left.id})
        if snapshot.id not in gone and item is None:
            left = snapshot
    return None
