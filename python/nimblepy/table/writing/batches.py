"""Batches and files that are added once: which were is kept in the summaries of snapshots."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

from nimblepy.errors import InvalidArgumentError
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import BATCH_PREFIX, DataFile

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


_STAGED = "nimblepy.staged-files"


def staged_summary(files: Iterable[DataFile]) -> dict[str, str]:
    """What the snapshot says that was given files others wrote: which they were, as a hash."""
    paths = "\n".join(sorted(file.path for file in files))
    return {_STAGED: hashlib.sha256(paths.encode()).hexdigest()}


def were_staged(metadata: ice.Metadata, files: Iterable[DataFile]) -> bool:
    """Whether just these files were committed by the newest snapshot or one before it.

    Cost: none beyond the metadata that is in memory.
    """
    wanted = staged_summary(files)[_STAGED]
    before = metadata.ancestors(metadata.head())
    return any(snapshot.summary.get(_STAGED) == wanted for snapshot in before)
