"""Batches that are added once: which were is kept in the summaries of snapshots."""

from __future__ import annotations

from typing import TypeAlias

from nimblepy.errors import InvalidArgumentError
from nimblepy.table import _iceberg as ice
from nimblepy.table.model import BATCH_PREFIX

Batch: TypeAlias = tuple[str, int]


def checked_batch(batch: object) -> Batch:
    """A batch as the caller names it: (name, number)."""
    if not isinstance(batch, tuple) or len(batch) != 2 or not isinstance(batch[0], str):
        raise InvalidArgumentError(f"batch: expected (name, number), got {batch!r}")
    name, number = batch
    if not name or isinstance(number, bool) or not isinstance(number, int):
        raise InvalidArgumentError(f"batch: expected (name, number), got {batch!r}")
    return name, number


def batch_summary(batch: Batch) -> dict[str, str]:
    """What the snapshot that adds a batch says of it; later ones keep it."""
    return {BATCH_PREFIX + batch[0]: str(batch[1])}


def batch_is_done(metadata: ice.Metadata, batch: Batch) -> bool:
    """Whether this batch, or a later one of its name, is part of the newest snapshot.

    Cost: one look where nimblepy made that snapshot; else at those before it.
    """
    name = BATCH_PREFIX + batch[0]
    for snapshot in metadata.ancestors(metadata.head()):
        done = snapshot.summary.get(name)
        if done is not None:
            return int(done) >= batch[1]
    return False
