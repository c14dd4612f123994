"""Changes: the rows that commits inserted, updated and deleted, read
from the files they touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.files.bounds import EncodedKeys
from nimblepy.rows.arguments import Projected
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import MAX_AGE, MIN_SNAPSHOTS, DataFile, Entry, Snapshot
from nimblepy.table.reading.deletes import check_readable, check_vector, merged, positions
from nimblepy.table.reading.members import Member, Reading, SomeRows
from nimblepy.table.reading.plan import Deletes, SnapshotPlan

CHANGE = "_change"
SNAPSHOT = "_snapshot"

_BATCH_ROWS = 1 << 16
_NO_ROWS: RowNumbers = np.empty(0, dtype=np.uint64)


def steps(
    metadata: ice.Metadata, since: int | str | None, until: int | str | None
) -> list[Snapshot]:
    """Returns the snapshots after ``since``, up to and including ``until``, oldest first.

    Args:
        since: an id or a tag; ``None`` is before the first snapshot.
        until: an id or a tag; ``None`` means a table without snapshots.

    Raises:
        InvalidArgumentError: a snapshot or tag does not exist, or ``since`` is not an ancestor of
            ``until``.
    """
    start = _known(metadata, "since", since)
    last = _known(metadata, "until", until)
    snapshots: list[Snapshot] = []
    for snapshot in metadata.ancestors(last):
        if start is not None and snapshot.id == start.id:
            return snapshots[::-1]
        snapshots.append(snapshot)
    # The oldest remaining snapshot may have had a parent that the metadata no longer names.
    if start is None and (not snapshots or _is_first(snapshots[-1])):
        return snapshots[::-1]
    if start is None:
        raise InvalidArgumentError(
            f"changes: the snapshots before {snapshots[-1].id} have expired; name a later snapshot "
            "in since="
        )
    reverse = last is not None and any(
        snapshot.id == last.id for snapshot in metadata.ancestors(start)
    )
    # If snapshots are missing, the ancestors of ``until`` end at a snapshot after ``since``.
    broken = bool(snapshots) and not reverse and not _is_first(snapshots[-1])
    if broken and start.timestamp_ms <= snapshots[-1].timestamp_ms:
        raise InvalidArgumentError(
            f"changes: snapshots between {since} and {snapshots[-1].id} have expired; a tag keeps "
            f"only its own snapshot. Set {MIN_SNAPSHOTS!r} or {MAX_AGE!r} to keep more"
        )
    raise InvalidArgumentError(
        f"changes: snapshot {since} is not an ancestor of {until}"
        + (", but comes after it" if reverse else "")
    )


def _is_first(snapshot: Snapshot) -> bool:
    """Returns whether a snapshot has no predecessor.

    Snapshots of format version 1 have no sequence numbers, so their row counts decide.
    """
    if snapshot.sequence:
        return snapshot.sequence == 1
    summary = snapshot.summary
    added = summary.get("added-records")
    removals = {"deleted-records", "deleted-data-files"} & set(summary)
    return added is not None and added == summary.get("total-records") and not removals


def _known(metadata: ice.Metadata, name: str, given: int | str | None) -> Snapshot | None:
    snapshot = None if given is None else metadata.named(given)
    if snapshot is not None or given is None:
        return snapshot
    if not isinstance(given, str):
        raise InvalidArgumentError(
            f"changes: {name}: snapshot {given!r} not found (expired or never existed); "
            "see snapshots()"
        )
    tags = (tag for tag, reference in metadata.references.items() if reference.kind == "tag")
    raise InvalidArgumentError(
        f"changes: {name}: tag {given!r} not found; tags: {', '.join(sorted(tags)) or 'none'}"
    )


def changes_schema(reading: Reading, columns: pa.Schema) -> pa.Schema:
    """Returns the columns of changes.

    Raises:
        InvalidArgumentError: the table has a column with the name of an added column.
    """
    taken = {CHANGE, SNAPSHOT} & set(columns.names)
    if taken:
        raise InvalidArgumentError(
            f"changes: {reading.name} has a column {taken.pop()!r}; exclude it with columns="
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
    """Yields the rows that the given snapshots changed, one snapshot after another.

    Args:
        share: (i, n): reads only the i-th of n shares of the files of each snapshot.

    Cost: for each snapshot, reads the manifests and files that it added or removed. If the snapshot
    deleted rows of other files, also reads these rows and the manifests of the snapshot before. If
    a table with a primary key has old and new rows, the keys are held in memory.
    """
    for snapshot in snapshots:
        if snapshot.operation == "replace":
            continue  # such commits only move rows to other files
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
    """Ascending rows of one file; ``None`` means all rows."""

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
    """The changes of one snapshot."""

    def __init__(self, metadata: ice.Metadata, reading: Reading, snapshot: Snapshot) -> None:
        self._reading = reading
        added, removed = metadata.added_and_removed(snapshot)
        parent = None if snapshot.parent is None else metadata.snapshot(snapshot.parent)
        before = SnapshotPlan(metadata, parent, None)
        _check_vectors(added, before)
        named = _named([entry.file for entry in added], reading.name)
        keyed = [entry for entry in added if entry.file.content == "equality deletes"]
        self.inserted = [
            _Part(entry.file, _without(entry.file, named.pop(entry.file.path, None)))
            for entry in added
            if entry.file.content == "data"
        ]
        removed_files = [entry for entry in removed if entry.file.content == "data"]
        self.deleted: list[_Part] = []
        if removed_files or named or keyed:
            for path, rows in _rows_with_keys(before, reading, Deletes(keyed, metadata.spec)):
                named[path] = merged([named[path], rows]) if path in named else rows
            self.deleted = list(_deleted(before, reading, removed_files, named))
        self.inserted = [part for part in self.inserted if part.num_rows]

    def changes(
        self, columns: Projected, number: int = 0, shares: int = 1
    ) -> Iterator[tuple[str | pa.Array, pa.RecordBatch]]:
        """Yields (the kind of change of each row or of all rows, the rows).

        Old and new rows that must be matched are all in the first share.
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
        """Returns the positions of the old and of the new rows with equal keys.

        Positions count over all parts.
        """
        old, new = self._keys(self.deleted), self._keys(self.inserted)
        old_places = pc.index_in(new, value_set=old)
        matched = np.flatnonzero(old_places.is_valid().to_numpy(zero_copy_only=False))
        places = old_places.drop_null().to_numpy().astype(np.int64)
        return places, matched

    def _keys(self, parts: Sequence[_Part]) -> pa.Array:
        """Returns the encoded primary key of each row."""
        keys = [SortKey(name) for name in self._reading.primary_key]
        encoded = []
        for _, batch in self._rows("", parts, self._reading.primary_key):
            encoded += EncodedKeys(batch, keys).to_list()
        return pa.array(encoded, pa.large_binary())

    def _updates(
        self, old: Positions, new: Positions, columns: Projected
    ) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """Yields each updated row: the old version, then the new version."""
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
    """Reads rows by position, counted over all rows of its parts."""

    def __init__(self, reading: Reading, parts: Sequence[_Part]) -> None:
        members = [Member(Entry(part.file, 0, "")) for part in parts]
        self._files = SomeRows(reading, members)
        counts = [part.num_rows for part in parts]
        self._file = np.repeat(np.arange(len(parts), dtype=np.int64), counts)
        self._row = np.concatenate([part.row_numbers() for part in parts])

    def read(self, places: Positions, columns: Projected) -> pa.Table:
        rows = RowSet(self._row[places], file=self._file[places])
        return self._files.read(rows, columns)


def _check_vectors(added: Sequence[Entry], before: SnapshotPlan) -> None:
    """Raises CorruptFileError if a new deletion vector has more positions than a file has rows."""
    vectors = [entry.file for entry in added if entry.file.vector is not None]
    if not vectors:
        return
    rows = {entry.file.path: entry.file.rows for entry in added if entry.file.content == "data"}
    files = before.members().files
    rows |= dict(zip(files.paths.to_pylist(), files.rows.tolist(), strict=True))
    most = max(rows.values(), default=0)
    for file in vectors:
        assert file.vector is not None
        check_vector(file, rows.get(file.vector.data_file, most))


def _named(files: Sequence[DataFile], table: str) -> dict[str, RowNumbers]:
    """Returns the rows of each data file that delete files list."""
    rows_by_path: dict[str, list[RowNumbers]] = {}
    for file in files:
        if file.content == "data":
            continue
        check_readable(file, table)
        if file.content == "equality deletes":
            continue
        for path, rows in positions(file).items():
            rows_by_path.setdefault(path, []).append(rows)
    return {path: merged(parts) for path, parts in rows_by_path.items()}


def _without(file: DataFile, deleted: RowNumbers | None) -> RowNumbers | None:
    """Returns the rows of a file except ``deleted``; ``None`` means all rows."""
    if deleted is None or not len(deleted):
        return None
    return np.setdiff1d(np.arange(file.rows, dtype=np.uint64), deleted, assume_unique=True)


def _rows_with_keys(
    before: SnapshotPlan, reading: Reading, deletes: Deletes
) -> Iterator[tuple[str, RowNumbers]]:
    """Yields (path, rows) of the files in which new equality deletes find rows."""
    if deletes.is_empty:
        return
    for member in before.members():
        applying = deletes.of(member.entry)
        if applying:
            rows = reading.rows_with_keys(member.file, applying)
            if len(rows):
                yield member.file.path, rows


def _deleted(
    before: SnapshotPlan,
    reading: Reading,
    removed: Sequence[Entry],
    named: dict[str, RowNumbers],
) -> Iterator[_Part]:
    """Yields the rows that were live in the previous snapshot: all rows of removed files, and the
    rows ``named`` of other files.
    """
    for entry in removed:
        named.pop(entry.file.path, None)
        member = Member(entry, before.deletes_of(entry))
        part = _Part(entry.file, _without(entry.file, reading.deleted(member)))
        if part.num_rows:
            yield part
    if not named:
        return
    members = before.members()
    places = pc.index_in(pa.array(list(named), pa.string()), value_set=members.files.paths)
    for path, place in zip(named, places.to_pylist(), strict=True):
        if place is None:
            continue  # The file was already removed.
        member = members[place]
        deleted_before = reading.deleted(member)
        rows = named[path] if deleted_before is None else np.setdiff1d(named[path], deleted_before)
        if len(rows):
            yield _Part(member.file, rows)


def _left(parts: Sequence[_Part], taken: Positions) -> list[_Part]:
    """Returns the parts without the rows at the positions ``taken``, which count over all parts."""
    remaining: list[_Part] = []
    sorted_places = np.sort(taken)
    first = 0
    for part in parts:
        end = first + part.num_rows
        places = (
            sorted_places[
                np.searchsorted(sorted_places, first) : np.searchsorted(sorted_places, end)
            ]
            - first
        )
        first = end
        if not len(places):
            remaining.append(part)
        elif len(places) < part.num_rows:
            remaining.append(_Part(part.file, np.delete(part.row_numbers(), places)))
    return remaining
