"""Changes of a table's rows: what an append, a delete or an overwrite removes and adds."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import ConflictError, DuplicateKeyError, InvalidArgumentError
from nimblepy.expr.filter import parse_filter
from nimblepy.files.bounds import EncodedKeys
from nimblepy.join.joinable import FixedRows
from nimblepy.rows.passing import passing_rows
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import column_paths
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.names import show_path
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.key_positions import KeyPositions, ascending
from nimblepy.table.changing.keyed_rows import show_key
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Member, MemberRows
from nimblepy.table.writing.batches import (
    Batch,
    batch_is_done,
    batch_record,
    staged_record,
    were_staged,
)
from nimblepy.table.writing.commit import Change, Commit
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import discard, write_deletes

# Gives the newest rows of a table as its metadata has them.
FilesOf = Callable[[ice.Metadata], FileSet]


# Rows of each file by path, by partition spec and partition.
Groups = dict[tuple[int, tuple[Any, ...]], dict[str, RowNumbers]]

_NO_ROWS: RowNumbers = np.empty(0, dtype=np.uint64)


class RowChange(Change):
    """A change of rows; ``added`` are its files with new rows.

    Attributes:
        inserted, updated, deleted: rows, once it is planned.
        batch: what it adds, where that is to be added once.
        owned: the new files were written for this change, and go with it.
        staged: the files that others wrote and the caller gave.
        named: gives paths that the table names by now; such files do not go. ``None``: no others
            than this change know its files.
        uses_names: it has filters or conditions, whose columns have names.
        begun: the metadata that it was made for.
    """

    owned = True
    uses_names = False
    begun: ice.Metadata | None = None
    batch: Batch | None = None
    staged: Sequence[DataFile] = ()
    named: Callable[[], Container[str]] | None = None

    def __init__(self, operation: str, added: Sequence[DataFile], files_of: FilesOf) -> None:
        self.commit = ice.SnapshotCommit(operation)
        self.files_of = files_of
        self.added = list(added)
        self.commit.added = list(added)
        self.inserted = sum(file.rows for file in added)
        self.updated = 0
        self.deleted = 0
        self.files_removed = 0
        self._newest: tuple[str, FileSet] | None = None

    def rows_of(self, metadata: ice.Metadata) -> FileSet:
        """The newest rows of a table, which are planned once for each of its states."""
        if self._newest is None or self._newest[0] != metadata.metadata_file:
            self._newest = metadata.metadata_file, self.files_of(metadata)
        return self._newest[1]

    def check_names(self, metadata: ice.Metadata) -> None:
        """Raises ConflictError if names of columns mean other columns than when it was made."""
        if not self.uses_names or self.begun is None:
            return
        before, now = self.begun.schema(), metadata.schema()
        if now.equals(before, check_metadata=True):
            return
        kept = set(column_paths(now)) & set(column_paths(before))
        for path in sorted(kept):
            if field_id_at(before, path) != field_id_at(now, path):
                base, winner = self.begun.head(), metadata.head()
                raise ConflictError(
                    f"{'.'.join(metadata.name)}: {show_path(path)!r} was another column when the "
                    "change was made",
                    kind="schema",
                    base=None if base is None else base.id,
                    winner=None if winner is None else winner.id,
                )

    def describe(self, metadata: ice.Metadata) -> None:
        """Says in the history who did what, and in the table what is not to be done again."""
        self.commit.summary = {
            "engine-name": "nimblepy",
            "nimblepy.user": ice.who(),
            "nimblepy.rows-inserted": str(self.inserted),
            "nimblepy.rows-updated": str(self.updated),
            "nimblepy.rows-deleted": str(self.deleted),
        }
        if self.batch is not None:
            batch = batch_record(metadata, self.batch, self.commit.snapshot)
            self.commit.summary |= batch
            self.commit.properties |= batch
        if self.staged:
            self.commit.properties |= staged_record(metadata, self.staged, self.commit.snapshot)

    def is_done(self, metadata: ice.Metadata) -> bool:
        if self.batch is not None and batch_is_done(metadata, self.batch):
            return True
        if not self.staged:
            return False
        return were_staged(metadata, self.staged) or self._are_live(metadata)

    def _are_live(self, metadata: ice.Metadata) -> bool:
        """Whether the newest snapshot has all the files that others wrote."""
        return len(self._listed(self.rows_of(metadata), self.staged)) == len(self.staged)

    def refuse_again(self, rows: FileSet) -> None:
        """Raises InvalidArgumentError if some files that others wrote are part of the table."""
        given, name = (self.staged, "commit_files") if self.owned else (self.added, "add_files")
        listed = self._listed(rows, given)
        if listed:
            rest = "" if len(listed) == len(given) else "; commit the other files without it"
            raise InvalidArgumentError(
                f"{name}: {listed[0]} is part of {rows.reading.name} already{rest}"
            )

    @staticmethod
    def _listed(rows: FileSet, files: Sequence[DataFile]) -> list[str]:
        """The paths of those files that a snapshot lists."""
        given = pa.array([file.path for file in files], pa.string())
        if not len(given):
            return []
        # Without any files the paths have the type null.
        listed = pc.is_in(given, value_set=rows.members.files.paths.cast(pa.string()))
        paths: list[str] = given.filter(listed).to_pylist()
        return paths

    def needed(self, metadata: ice.Metadata) -> bool:
        """Plans it; false: there is nothing to commit, not even which batch it was."""
        return self.plan(metadata) or self.batch is not None

    @abstractmethod
    def plan(self, metadata: ice.Metadata) -> bool:
        """Finds what the change is for this metadata; false: nothing."""

    def discard(self) -> None:
        if self.owned:
            self.remove(self.commit.added)

    def remove(self, files: Sequence[DataFile]) -> None:
        """Removes files that were written for it, unless its commit is ``doubtful``.

        Files that others may know stay if the table is gone: it may have been renamed, and have
        them.
        """
        if files and not self.commit.doubtful:
            with contextlib.suppress(ConflictError):
                known = () if self.named is None else self.named()
                discard([file for file in files if file.path not in known])


# Makes a change for the newest metadata, and commits it.
CommitChange = Callable[[Callable[[ice.Metadata, FilesOf], RowChange]], Commit]


class Append(RowChange):
    """New rows; of a table with a primary key only such whose keys are not there."""

    def __init__(self, added: Sequence[DataFile], files_of: FilesOf, keys: NewKeys | None) -> None:
        super().__init__("append", added, files_of)
        self._keys = keys
        # Files, with their deletes: a rollback brings rows back.
        self._seen: set[tuple[str, ...]] = set()

    def plan(self, metadata: ice.Metadata) -> bool:
        self.describe(metadata)
        if self._keys is None and self.owned and not self.staged:
            return bool(self.added)
        rows = self.rows_of(metadata)
        if not self.owned:
            self.refuse_again(rows)
        if self._keys is not None:
            states = [_state(member) for member in rows.members]
            new = [i for i, state in enumerate(states) if state not in self._seen]
            self._keys.refuse_known(rows.part(new))
            self._seen.update(states)
        if self.staged:
            self.refuse_again(rows)
        return bool(self.added)

    def rebase(self, base: ice.Metadata, newest: ice.Metadata) -> bool:
        return self.needed(newest)


def _state(member: Member) -> tuple[str, ...]:
    """What its live rows depend on."""
    return (member.file.path, *(file.path for file in member.deletes))


class NewKeys:
    """The primary keys of rows that are to be inserted.

    Raises:
        DuplicateKeyError: one occurs twice among them.
    """

    def __init__(self, names: Sequence[str], table: pa.Table) -> None:
        self.names = tuple(names)
        self.table = table.select(list(names)).combine_chunks()
        batches = self.table.to_batches()
        if not batches:
            return
        encoded = EncodedKeys(batches[0], [SortKey(name) for name in names])
        octets = pa.array(encoded.to_list(), pa.binary()).dictionary_encode()
        if len(octets.dictionary) == len(octets):
            return
        codes = octets.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        at = int(np.flatnonzero(np.diff(codes[order]) == 0)[0])
        first, second = int(order[at]), int(order[at + 1])
        shown = show_key(self.table.slice(first))
        raise DuplicateKeyError(
            f"the key {shown} is in row {first} and in row {second} of the data"
        )

    def refuse_known(self, rows: FixedRows) -> None:
        """Raises DuplicateKeyError if any of the keys is there."""
        if not self.table.num_rows:
            return
        counts = rows.count_matches(rows.keys_request(self.table, self.names))
        known = np.flatnonzero(counts)
        if len(known):
            raise DuplicateKeyError(
                f"the key {show_key(self.table.slice(int(known[0])))} is in the table already"
                + (f", and {len(known) - 1} more" if len(known) > 1 else "")
                + "; upsert() replaces rows"
            )

    def refuse_kept(self, rows: MemberRows, gone: Mapping[int, RowNumbers | None]) -> None:
        """Raises DuplicateKeyError if any of the keys is that of a row that stays."""
        if not self.table.num_rows:
            return
        known = rows.find(rows.keys_request(self.table, self.names)).expand()
        for number in () if known.file is None else np.unique(known.file).tolist():
            going = gone.get(number, _NO_ROWS)
            if going is None:
                continue
            positions = known.begin[known.file == number]
            left = positions[~np.isin(positions, going)]
            if len(left):
                shown = show_key(rows.child(number).read(RowSet(left[:1]), self.names))
                raise DuplicateKeyError(f"the key {shown} is in a row that stays")


class Replacement(RowChange):
    """Deletes rows, and optionally inserts others.

    After each lost race it is planned again for the newest snapshot, whatever the commits in
    between call themselves. So the order of the snapshots is a serial order of the commits.
    """

    def __init__(self, operation: str, added: Sequence[DataFile], files_of: FilesOf) -> None:
        super().__init__(operation, added, files_of)
        self._deletes: list[DataFile] = []
        self._named: Groups = {}

    @abstractmethod
    def gone(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        """Ascending live rows of each file that go; ``None``: all that are left of it."""

    def count(self, gone: int) -> None:
        """Says what happened; ``gone``: rows that go."""
        self.deleted = gone

    def plan(self, metadata: ice.Metadata) -> bool:
        self.check_names(metadata)
        self.metadata, self.target = metadata, target_of(metadata)
        rows = self.rows_of(metadata)
        if self.staged:
            self.refuse_again(rows)
        try:
            going = self.gone(rows)
        except InvalidArgumentError as error:
            if self.begun is None or self.begun.schema_id == metadata.schema_id:
                raise
            raise ConflictError(
                f"{'.'.join(metadata.name)}: the change no longer fits the table: {error}",
                kind="schema",
            ) from error
        repeated = listed_twice(rows, going)
        if repeated:
            going = _of_all_copies(rows, going, repeated)
        removed: set[str] = set()
        groups: Groups = {}
        gone = 0
        for number, positions in going.items():
            file = rows.members[number].file
            before = int(rows.first_rows[number + 1] - rows.first_rows[number])
            if positions is None or (len(positions) == before and file.path not in repeated):
                removed.add(file.path)
                gone += before
            elif len(positions):
                group = groups.setdefault((file.spec_id, file.partition), {})
                known = group.get(file.path)
                group[file.path] = positions if known is None else np.union1d(known, positions)
                gone += len(positions)
        self.files_removed = len(removed)
        self.commit.repeated = removed & repeated
        removed |= _useless_deletes(rows.members, removed)
        self._write_deletes(groups)
        self.commit.added = [*self.added, *self._deletes]
        self.commit.removed = removed
        self.count(gone)
        self.describe(metadata)
        return bool(self.commit.added or removed)

    def _write_deletes(self, groups: Groups) -> None:
        """One delete file for each partition; those of an attempt that lost are kept if right."""
        if _same_rows(groups, self._named):
            return
        if not self.commit.doubtful:
            discard(self._deletes)  # nobody else knows them
        self._deletes, self._named = [], {}
        for (spec_id, partition), positions_of in groups.items():
            target = replace(self.target, spec_id=spec_id)
            self._deletes.append(write_deletes(positions_of, target, partition))
        self._named = groups

    def rebase(self, base: ice.Metadata, newest: ice.Metadata) -> bool:
        before = [file.path for file in self.commit.added]
        something = self.needed(newest)
        if [file.path for file in self.commit.added] != before:
            self.commit.added_again(newest)
        return something

    def discard(self) -> None:
        self.remove([*self.added, *self._deletes])


def listed_twice(rows: FileSet, files: Iterable[int]) -> set[str]:
    """The paths of some files that a snapshot lists more than once, as other engines may."""
    if not rows.num_files:
        return set()
    paths = rows.members.files.paths
    some = pc.unique(paths.take(pa.array(list(files), pa.int64())))
    listed = pc.is_in(paths, value_set=some)
    if listed.true_count == len(some):
        return set()
    counts = Counter(paths.filter(listed).to_pylist())
    return {path for path, count in counts.items() if count > 1}


def _of_all_copies(
    rows: FileSet, going: dict[int, RowNumbers | None], repeated: set[str]
) -> dict[int, RowNumbers | None]:
    """The rows to delete, if some files are listed more than once.

    A delete file applies to each listing of a path, and a path is removed from all. So a row goes
    from all listings, and a path is removed only if no listing has rows that stay.
    """
    live: dict[str, dict[int, RowSet]] = {path: {} for path in repeated}
    for number, path in enumerate(rows.members.files.paths.to_pylist()):
        if path in repeated:
            everything, deleted = rows.child(number).all_rows(), rows.deleted(number)
            live[path][number] = everything if deleted is None else everything.minus(deleted)
    found = {n: some for n, some in going.items() if rows.name_of(n) not in repeated}
    for copies in live.values():
        parts = [
            left.rows if (some := going[number]) is None else some
            for number, left in copies.items()
            if number in going
        ]
        every = RowSet(np.unique(np.concatenate(parts)))
        stays = any(left.minus(every).num_rows for left in copies.values())
        for number, left in copies.items():
            found[number] = left.minus(left.minus(every)).rows if stays else None
    return found


def _same_rows(one: Groups, other: Groups) -> bool:
    if one.keys() != other.keys():
        return False
    return all(
        one[group].keys() == other[group].keys()
        and all(np.array_equal(rows, other[group][path]) for path, rows in one[group].items())
        for group in one
    )


def _useless_deletes(members: Sequence[Member], removed: set[str]) -> set[str]:
    """Delete files that name only files that are removed, as far as that is seen."""
    if not removed:
        return set()
    used: set[str] = set()
    useless: set[str] = set()
    for member in members:
        (useless if member.file.path in removed else used).update(member.delete_paths)
    return useless - used


class DeleteWhere(Replacement):
    """Rows that pass a filter go; ``None``: all rows."""

    def __init__(
        self, operation: str, added: Sequence[DataFile], files_of: FilesOf, filter: Filter
    ) -> None:
        super().__init__(operation, added, files_of)
        self._filter = filter
        self.uses_names = filter is not None
        self.keys: NewKeys | None = None
        # Of files that were read: the deletes that were applied, and the rows that pass.
        self._looked_at: dict[tuple[str, int], tuple[frozenset[str], RowNumbers]] = {}
        self._schema = pa.schema([])

    def gone(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        if self._filter is None:
            return dict.fromkeys(range(rows.num_files))
        found = self._passing(rows)
        if self.keys is not None:
            self.keys.refuse_kept(rows, found)
        return found

    def _passing(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        try:
            parsed = parse_filter(self._filter, rows.schema)
        except InvalidArgumentError as error:
            raise ConflictError(
                f"the filter no longer fits the table: {error}", kind="schema"
            ) from error
        if parsed.matches_nothing:
            return {}
        if not rows.schema.equals(self._schema, check_metadata=True):
            self._looked_at, self._schema = {}, rows.schema
        found: dict[int, RowNumbers | None] = {}
        numbers = rows.prune(parsed.conjuncts)
        whole = rows.plan.whole(rows.members.take(numbers), parsed.node)
        for number, is_whole in zip(numbers, whole, strict=True):
            member = rows.members[number]
            if is_whole:
                found[number] = None
                continue
            before = self._looked_at.get(member.identity)
            if before is not None and before[0] == member.delete_paths:
                passing = before[1]
            else:
                live = rows.child(number).all_rows()
                deleted = rows.deleted(number)
                if deleted is not None:
                    live = live.minus(deleted)
                passing = passing_rows(rows.child(number), Where(parsed, live)).rows
                self._looked_at[member.identity] = member.delete_paths, passing
            if len(passing):
                found[number] = passing
        return found


class DeleteKeys(Replacement):
    """Rows that have one of some keys go."""

    def __init__(self, files_of: FilesOf, positions: KeyPositions) -> None:
        super().__init__("delete", (), files_of)
        self._positions = positions

    def gone(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        return ascending(self._positions.find(rows))


class Conversion(RowChange):
    """All files are replaced by others with the same rows, and properties say of what kind."""

    def __init__(
        self,
        added: Sequence[DataFile],
        files_of: FilesOf,
        base: ice.Metadata,
        properties: Mapping[str, str],
    ) -> None:
        super().__init__("replace", added, files_of)
        self.commit.properties = dict(properties)
        self._base = base
        self.commit.forget = True

    def plan(self, metadata: ice.Metadata) -> bool:
        before, now = self._base.head(), metadata.head()
        if (before and before.id) != (now and now.id):
            return self.rebase(self._base, metadata)
        rows = self.files_of(metadata)
        members = rows.members
        self.commit.repeated = listed_twice(rows, range(len(members)))
        deletes = {file.path for member in members for file in member.deletes}
        self.commit.removed = {member.file.path for member in members} | deletes
        self.files_removed = len(members)
        self.inserted = 0
        self.describe(metadata)
        return bool(members)

    def rebase(self, base: ice.Metadata, newest: ice.Metadata) -> bool:
        before, winner = base.head(), newest.head()
        raise ConflictError(
            "the table was changed while it was converted; convert it again",
            base=None if before is None else before.id,
            winner=None if winner is None else winner.id,
        )
