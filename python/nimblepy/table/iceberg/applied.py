"""Which batches and files were applied to a table, so that none is applied twice.

Each is a record ``VALUE@SNAPSHOT`` in a property of the table, written by the swap that adds the
rows. Neither expiry nor the commits of other engines remove properties. A rollback removes a batch
together with its rows: the summary of each of our snapshots repeats the records of batches, and
these are what counts as long as there is one in the history of the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from nimblepy.table.base.model import BATCH_PREFIX, Snapshot
from nimblepy.table.iceberg.metadata import Metadata

# Hashes of sets of files that were committed, newest first.
STAGED_FILES = "nimblepy.staged-files"
_MOST_STAGED = 32


def record(value: str, snapshot: int) -> str:
    return f"{value}@{snapshot}"


def value_of(text: str) -> str:
    """The value of a record."""
    return text.rpartition("@")[0]


def batch_records(metadata: Metadata, head: Snapshot | None) -> dict[str, str]:
    """The records of batches whose rows are part of a snapshot, by property name."""
    known: set[int] = set()
    for snapshot in metadata.ancestors(head):
        if snapshot.summary.get("engine-name") == "nimblepy":
            return _batches(snapshot.summary)
        known.add(snapshot.id)
    records = _batches(metadata.properties)
    return {k: text for k, text in records.items() if not _is_undone(metadata, known, text)}


def staged_records(metadata: Metadata, head: Snapshot | None) -> list[str]:
    """The records of files that are part of the history of a snapshot, newest first."""
    records = metadata.properties.get(STAGED_FILES, "").split()
    if not records:
        return []
    known = {snapshot.id for snapshot in metadata.ancestors(head)}
    return [text for text in records if not _is_undone(metadata, known, text)]


def with_staged(records: list[str], value: str, snapshot: int) -> dict[str, str]:
    """The property after one more commit of files."""
    return {STAGED_FILES: " ".join([record(value, snapshot), *records][:_MOST_STAGED])}


def settled(
    metadata: Metadata, head: Snapshot | None, *, staged: bool
) -> tuple[dict[str, str], list[str]]:
    """Properties to set and to remove, so that they are right for ``head`` without any history.

    Args:
        staged: also forgets files that are no longer part of the history. They may be again as
            long as their snapshot is kept.
    """
    wanted = batch_records(metadata, head)
    if staged and STAGED_FILES in metadata.properties:
        left = " ".join(staged_records(metadata, head))
        wanted |= {STAGED_FILES: left} if left else {}
    now = {
        name: text
        for name, text in metadata.properties.items()
        if name.startswith(BATCH_PREFIX) or (staged and name == STAGED_FILES)
    }
    changed = {name: text for name, text in wanted.items() if now.get(name) != text}
    return changed, [name for name in now if name not in wanted]


def _batches(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name.startswith(BATCH_PREFIX)}


def _is_undone(metadata: Metadata, history: Container[int], text: str) -> bool:
    """Whether the snapshot of a record is kept, but was rolled back."""
    number = text.rpartition("@")[2]
    if not number.isdecimal():
        return False
    return metadata.snapshot(int(number)) is not None and int(number) not in history
