"""Records which batches and files were applied to a table, so that each is applied once.

A record is ``VALUE@SNAPSHOT/SEQUENCE`` in a property of the table: the id and the sequence number
of the snapshot that added the rows. The same swap writes both. Neither expiry nor the commits of
other engines remove properties.

A rollback undoes a record with its rows. A record only counts as undone if the history of the
newest snapshot proves it: the history reaches a snapshot that is not younger than the record's, and
does not contain the record's. Expiry removes snapshots from the middle of a history if tags or
branches keep older ones, and pyiceberg then says that the next snapshot has no parent. So a gap
proves nothing. Therefore nimblepy's rollbacks and expiries record which records are undone, while
the history still shows it.

For batches, the summary of each nimblepy snapshot repeats the records. If the history of the newest
snapshot has such a summary, the summary decides.

The properties describe ``main``. A commit to another branch records its batch only in its summary,
and its files as undone. The files count as applied for snapshots whose history contains that
commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nimblepy.table.base.model import BATCH_PREFIX, MAIN, Snapshot
from nimblepy.table.iceberg.metadata import Metadata

# Hashes of committed sets of files, newest first.
STAGED_FILES = "nimblepy.staged-files"
_MOST_STAGED = 32
# Marks an undone record of files. It counts again after a rollback to its snapshot.
_UNDONE = "undone:"


def record(metadata: Metadata, value: str, snapshot: int) -> str:
    """Returns the record of a value that the next snapshot after ``metadata`` adds."""
    return f"{value}@{snapshot}/{metadata.ice.metadata.last_sequence_number + 1}"


def value_of(text: str) -> str:
    """Returns the value of a record."""
    return text.rpartition("@")[0]


def batch_records(metadata: Metadata, head: Snapshot | None) -> dict[str, str]:
    """Returns the records of batches whose rows are part of a snapshot, by property name."""
    history = _History()
    for snapshot in metadata.ancestors(head):
        if snapshot.summary.get("engine-name") == "nimblepy":
            return _batches(snapshot.summary)
        history.add(snapshot)
    records = _batches(metadata.properties)
    return {k: text for k, text in records.items() if not history.is_without(metadata, text)}


def staged_records(metadata: Metadata, head: Snapshot | None) -> list[str]:
    """Returns the records of files in the history of a snapshot, newest first."""
    return [text for text in _staged(metadata, head) if not text.startswith(_UNDONE)]


def with_staged(metadata: Metadata, value: str, snapshot: int) -> dict[str, str]:
    """Returns the property that also records one more set of files, committed to the branch of
    ``metadata``.
    """
    new_record = record(metadata, value, snapshot)
    if metadata.branch != MAIN:
        new_record = f"{_UNDONE}{new_record}"
    records = [new_record, *_staged(metadata, metadata.head(MAIN))]
    return {STAGED_FILES: " ".join(records[:_MOST_STAGED])}


def settled(
    metadata: Metadata, head: Snapshot | None, gone: Collection[int] = ()
) -> tuple[dict[str, str], list[str]]:
    """Returns the properties to set and to remove, so that they are correct for ``head`` without
    its history.

    Args:
        gone: snapshots that are being removed. Their undone records of files are removed, too.
    """
    left = [
        text
        for text in _staged(metadata, head)
        if not text.startswith(_UNDONE) or _is_kept(metadata, text, gone)
    ]
    records = batch_records(metadata, head) | ({STAGED_FILES: " ".join(left)} if left else {})
    now = {
        name: text
        for name, text in metadata.properties.items()
        if name.startswith(BATCH_PREFIX) or name == STAGED_FILES
    }
    changed = {name: text for name, text in records.items() if now.get(name) != text}
    return changed, [name for name in now if name not in records]


def _batches(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name.startswith(BATCH_PREFIX)}


def _staged(metadata: Metadata, head: Snapshot | None) -> list[str]:
    """Returns all records of files, marked if they are undone in the history of a snapshot."""
    records = metadata.properties.get(STAGED_FILES, "").split()
    if not records:
        return []
    history = _History()
    for snapshot in metadata.ancestors(head):
        history.add(snapshot)
    made = []
    for marked in records:
        text = marked.removeprefix(_UNDONE)
        is_applied = history.has(text)
        undone = not is_applied and (marked != text or history.is_without(metadata, text))
        made.append(f"{_UNDONE}{text}" if undone else text)
    return made


@dataclass
class _History:
    """The known ancestors of a snapshot, and the sequence number of the oldest."""

    ids: set[int] = field(default_factory=set)
    sequence: int = 0

    def add(self, snapshot: Snapshot) -> None:
        """Adds the parent of the oldest known ancestor."""
        self.ids.add(snapshot.id)
        if snapshot.parent is not None:  # it may have expired
            self.ids.add(snapshot.parent)
        self.sequence = snapshot.sequence

    def has(self, text: str) -> bool:
        """Returns whether the snapshot of a record is an ancestor."""
        return _numbers(text)[0] in self.ids

    def is_without(self, metadata: Metadata, text: str) -> bool:
        """Returns whether the snapshot of a record is certainly not an ancestor."""
        number, sequence = _numbers(text)
        if number is None or number in self.ids:
            return False
        snapshot = metadata.snapshot(number)
        if snapshot is not None:
            sequence = snapshot.sequence
        return sequence is not None and self.sequence <= sequence


def _is_kept(metadata: Metadata, text: str, gone: Collection[int]) -> bool:
    number, _ = _numbers(text)
    return number is not None and number not in gone and metadata.snapshot(number) is not None


def _numbers(text: str) -> tuple[int | None, int | None]:
    """Returns (id, sequence number) of the snapshot of a record; ``None`` for what is missing."""
    number, _, sequence = text.rpartition("@")[2].partition("/")
    return (
        int(number) if number.isdecimal() else None,
        int(sequence) if sequence.isdecimal() else None,
    )
