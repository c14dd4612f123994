"""Changes: rows that commits inserted, updated and deleted, from the files that they touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.files.bounds import EncodedKeys
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.rows.source import Projected
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import MAX_AGE, MIN_SNAPSHOTS, DataFile, Entry, Snapshot
from nimblepy.table.reading.deletes import check_readable, merged, positions
from nimblepy.table.reading.members import Member, Reading, SomeRows
from nimblepy.table.reading.plan import SnapshotPlan

CHANGE = "_change"
SNAPSHOT = "_snapshot"

_BATCH_ROWS = 1 << 16
_NO_ROWS: RowNumbers = np.empty(0, dtype=np.uint64)


def steps(
    metadata: ice.Metadata, since: int | str | None, until: int | str | None
) -> list[Snapshot]:
    """The snapshots after ``since``, up to and with ``until``, oldest first.

    Args:
        since: an id or a tag; ``None`` is before the first one.
        until: an id or a tag; ``None`` is before the first one, too: a table that never had rows.

    Raises:
        InvalidArgumentError: one of them is not known, or does not come before the other.
    """
    start = _known(metadata, "since", since)
    last = _known(metadata, "until", until)
    found: list[Snapshot] = []
    for snapshot in metadata.ancestors(last):
        if start is not None and snapshot.id == start.id:
            return found[::-1]
        found.append(snapshot)
    # The oldest that is left may have had a parent, which the metadata does not say any more.
    if start is None and (not found or _is_first(found[-1])):
        return found[::-1]
    if start is None:
        raise InvalidArgumentError(
            f"changes: the snapshots before {found[-1].id} have expired; give since="
        )
    reverse = last is not None and any(
        snapshot.id == last.id for snapshot in metadata.ancestors(start)
    )
    # The line back from ``until`` ends after ``since``, where snapshots are missing.
    broken = bool(found) and not reverse and not _is_first(found[-1])
    if broken and start.timestamp_ms <= found[-1].timestamp_ms:
        raise InvalidArgumentError(
            f"changes: snapshots between {since} and {found[-1].id} have expired; a tag keeps its "
            f"own alone. The properties {MIN_SNAPSHOTS!r} and {MAX_AGE!r} of a table keep more"
        )
    raise InvalidArgumentError(
        f"changes: snapshot {since} is no ancestor of {until}"
        + (", but comes after it" if reverse else "")
    )


def _is_first(snapshot: Snapshot) -> bool:
    """Whether none came before; those of version 1 have no numbers, so their figures must tell."""
    if snapshot.sequence:
        return snapshot.sequence == 1
    said = snapshot.summary
    added = said.get("added-records")
    gone = {"deleted-records", "deleted-data-files"} & set(said)
    return added is not None and added == said.get("total-records") and not gone


def _known(metadata: ice.Metadata, name: str, given: int | str | None) -> Snapshot | None:
    found = None if given is None else metadata.named(given)
    if found is not None or given is None:
        return found
    if not isinstance(given, str):
        raise InvalidArgumentError(
            f"changes: {name}: there is no snapshot {given!r}: it has expired, or never was; "
            "snapshots() lists the ids"
        )
    tags = (tag for tag, reference in metadata.references.items() if reference.kind == "tag")
    raise InvalidArgumentError(
        f"changes: {name}: there is no tag {given!r}; tags: {', '.join(sorted(tags)) or 'none'}"
    )


def changes_schema(reading: Reading, columns: pa.Schema) -> pa.Schema:
    """The columns of changes.

    Raises:
        InvalidArgumentError: the table has a column of one of their names.
    """
    taken = {CHANGE, SNAPSHOT} & set(columns.names)
    if taken:
        raise InvalidArgumentError(
            f"changes: {reading.name} has a column {taken.pop()!r} itself; leave it out by columns="
        )
    fields = [
        pa.field(CHANGE, pa.string(), nullable=False),
        pa.field(SNAPSHOT, pa.int64(), nullable=False),
    ]
    return pa.schema([*columns, *fields], columns.metadata)


def changes(
    metadata: ice.Metadata,
    reading: Reading,
    snapshots: Sequence[Snapshot],
    columns: Projected,
    schema: pa.Schema,
    share: tuple[int, int] = (0, 1),
) -> Iterator[pa.RecordBatch]:
    """The rows that some snapshots changed, one after another.

    Args:
        share: (i, n): only the i-th of n shares of the files of each snapshot.

    Cost: of each snapshot, the manifests that it added; the files that it added or removed; of
        files that it deleted rows of, these rows, for which the manifests before it are read. With
        a primary key, the keys of its rows are held in memory if there are both old and new ones.
    """
    for snapshot in snapshots:
        if snapshot.operation == "replace":
            continue  # the same rows in other files
        step = _Step(metadata, reading, snapshot)
        for kind, batch in step.changes(columns, *share):
            count = batch.num_rows
            arrays = [
                *batch.columns,
                kind if isinstance(kind, pa.Array) else pa.array([kind] * count, pa.string()),
                pa.array(np.full(count, snapshot.id, dtype=np.int64)),
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of one file, ascending; ``None``: all."""

    file: DataFile
    rows: RowNumbers | None

    @property
    def num_rows(self) -> int:
        return self.file.rows if self.rows is None else len(self.rows)

    def row_numbers(self) -> RowNumbers:
        if self.rows is not None:
            return self.rows
        return np.arange(self.file.rows, dtype=np.uint64)


class _Step:
    """What one snapshot changed."""

    def __init__(self, metadata: ice.Metadata, reading: Reading, snapshot: Snapshot) -> None:
        self._reading = reading
        added, removed = metadata.added_and_removed(snapshot)
        named = _named([entry.file for entry in added], reading.name)
        self.inserted = [
            _Part(entry.file, _without(entry.file, named.pop(entry.file.path, None)))
            for entry in added
            if entry.file.content == "data"
        ]
        gone = [entry for entry in removed if entry.file.content == "data"]
        self.deleted: list[_Part] = []
        if gone or named:
            parent = None if snapshot.parent is None else metadata.snapshot(snapshot.parent)
            before = SnapshotPlan(metadata, parent, None)
            self.deleted = list(_deleted(before, gone, named))
        self.inserted = [part for part in self.inserted if part.num_rows]

    def changes(
        self, columns: Projected, number: int = 0, shares: int = 1
    ) -> Iterator[tuple[str | pa.Array, pa.RecordBatch]]:
        """(what happened to each row or all of them, rows).

        Rows that are looked for among each other are all in the first share.
        """
        inserted, deleted = self.inserted, self.deleted
        if self._reading.primary_key and inserted and deleted:
            if number:
                return
            old, new = self._matched()
            yield from self._rows("delete", _left(deleted, old), columns)
            yield from self._updates(old, new, columns)
            yield from self._rows("insert", _left(inserted, new), columns)
        else:
            yield from self._rows("delete", deleted[number::shares], columns)
            yield from self._rows("insert", inserted[number::shares], columns)

    def _rows(
        self, kind: str, parts: Sequence[_Part], columns: Projected
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        for part in parts:
            child = self._reading.child(part.file)
            rows = child.all_rows()
            if part.rows is not None:
                rows = rows.intersect(RowSet(part.rows))
            where = Where(None, rows)
            for batch in child.scan_batches(where, columns, batch_rows=_BATCH_ROWS, threads=1):
                if batch.num_rows:
                    yield kind, batch

    def _matched(self) -> tuple[Positions, Positions]:
        """Places, over all parts, of the old and the new rows that have one key."""
        old, new = self._keys(self.deleted), self._keys(self.inserted)
        found = pc.index_in(new, value_set=old)
        matched = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        places = found.drop_null().to_numpy().astype(np.int64)
        return places, matched

    def _keys(self, parts: Sequence[_Part]) -> pa.Array:
        """The encoded primary key of each row."""
        keys = [SortKey(name) for name in self._reading.primary_key]
        found = []
        for _, batch in self._rows("", parts, self._reading.primary_key):
            found += EncodedKeys(batch, keys).to_list()
        return pa.array(found, pa.large_binary())

    def _updates(
        self, old: Positions, new: Positions, columns: Projected
    ) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """Each row as it was, and then as it is."""
        before, after = _Places(self._reading, self.deleted), _Places(self._reading, self.inserted)
        for begin in range(0, len(old), _BATCH_ROWS // 2):
            chunk = slice(begin, begin + _BATCH_ROWS // 2)
            both = pa.concat_tables(
                [before.read(old[chunk], columns), after.read(new[chunk], columns)]
            ).combine_chunks()
            count = both.num_rows // 2
            turn = np.arange(2 * count).reshape(2, count).T.reshape(-1)
            kinds = pa.array(["update_before", "update_after"] * count, pa.string())
            for batch in both.take(pa.array(turn)).to_batches():
                yield kinds.slice(0, batch.num_rows), batch
                kinds = kinds.slice(batch.num_rows)


class _Places:
    """Rows by their place over all rows of some parts."""

    def __init__(self, reading: Reading, parts: Sequence[_Part]) -> None:
        members = [Member(Entry(part.file, 0, "")) for part in parts]
        self._files = SomeRows(reading, members)
        counts = [part.num_rows for part in parts]
        self._file = np.repeat(np.arange(len(parts), dtype=np.int64), counts)
        self._row = np.concatenate([part.row_numbers() for part in parts])

    def read(self, places: Positions, columns: Projected) -> pa.Table:
        rows = RowSet(self._row[places], file=self._file[places])
        return self._files.read(rows, columns)


def _named(files: Sequence[DataFile], table: str) -> dict[str, RowNumbers]:
    """The rows of each data file that delete files name."""
    found: dict[str, list[RowNumbers]] = {}
    for file in files:
        if file.content == "data":
            continue
        check_readable(file, table)
        for path, rows in positions(file).items():
            found.setdefault(path, []).append(rows)
    return {path: merged(parts) for path, parts in found.items()}


def _without(file: DataFile, gone: RowNumbers | None) -> RowNumbers | None:
    """The rows of a file without some of them; ``None``: all."""
    if gone is None or not len(gone):
        return None
    return np.setdiff1d(np.arange(file.rows, dtype=np.uint64), gone, assume_unique=True)


def _deleted(
    before: SnapshotPlan, removed: Sequence[Entry], named: dict[str, RowNumbers]
) -> Iterator[_Part]:
    """Rows that were live in the snapshot before: all of files that went, and those named."""
    for entry in removed:
        named.pop(entry.file.path, None)
        member = Member(entry, before.deletes_of(entry))
        part = _Part(entry.file, _without(entry.file, member.deleted()))
        if part.num_rows:
            yield part
    if not named:
        return
    members = before.members()
    places = pc.index_in(pa.array(list(named), pa.string()), value_set=members.files.paths)
    for path, place in zip(named, places.to_pylist(), strict=True):
        if place is None:
            continue  # a file that was gone before
        member = members[place]
        known = member.deleted()
        rows = named[path] if known is None else np.setdiff1d(named[path], known)
        if len(rows):
            yield _Part(member.file, rows)


def _left(parts: Sequence[_Part], taken: Positions) -> list[_Part]:
    """The parts without the rows at some places over all of them."""
    found: list[_Part] = []
    gone = np.sort(taken)
    first = 0
    for part in parts:
        end = first + part.num_rows
        mine = gone[np.searchsorted(gone, first) : np.searchsorted(gone, end)] - first
        first = end
        if not len(mine):
            found.append(part)
        elif len(mine) < part.num_rows:
            found.append(_Part(part.file, np.delete(part.row_numbers(), mine)))
    return found
