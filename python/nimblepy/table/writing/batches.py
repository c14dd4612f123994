"""Recognizes batches and files that were committed before, so that they are added only once."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable
from typing import TypeAlias

from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import BATCH_PREFIX, DataFile

Batch: TypeAlias = tuple[str, int]


def checked_batch(batch: object) -> Batch:
    """Returns a batch as the caller names it: (name, number)."""
    if not isinstance(batch, tuple) or len(batch) != 2 or not isinstance(batch[0], str):
        raise InvalidArgumentError(f"batch: expected (name, number), got {batch!r}")
    name, number = batch
    try:  # also accepts numpy's integers
        whole = None if isinstance(number, bool) else operator.index(number)
    except TypeError:
        whole = None
    if not name or whole is None:
        raise InvalidArgumentError(f"batch: expected (name, number), got {batch!r}")
    return name, whole


def batch_record(metadata: ice.Metadata, batch: Batch, snapshot: int) -> dict[str, str]:
    """Returns the record of a batch, which the snapshot's summary and, on ``main``, a property
    store.
    """
    return {BATCH_PREFIX + batch[0]: ice.record(metadata, str(batch[1]), snapshot)}


def batch_is_done(metadata: ice.Metadata, batch: Batch) -> bool:
    """Returns whether this batch, or a later one of its name, is part of the newest snapshot."""
    record = ice.batch_records(metadata, metadata.head()).get(BATCH_PREFIX + batch[0])
    if record is None:
        return False
    try:
        return int(ice.value_of(record)) >= batch[1]
    except ValueError:
        raise CorruptFileError(
            f"{'.'.join(metadata.name)}: the property {BATCH_PREFIX}{batch[0]} is {record!r}; "
            "expected NUMBER@SNAPSHOT/SEQUENCE"
        ) from None


def staged_record(
    metadata: ice.Metadata, files: Iterable[DataFile], snapshot: int
) -> dict[str, str]:
    """Returns the table property that records the files of other writers that a snapshot adds."""
    return ice.with_staged(metadata, _hash(files), snapshot)


def were_staged(metadata: ice.Metadata, files: Iterable[DataFile]) -> bool:
    """Returns whether exactly these files were committed by a recent snapshot in the history."""
    digest = _hash(files)
    records = ice.staged_records(metadata, metadata.head())
    return any(ice.value_of(record) == digest for record in records)


def _hash(files: Iterable[DataFile]) -> str:
    paths = "\n".join(sorted(file.path for file in files))
    return hashlib.sha256(paths.encode()).hexdigest()[:32]
