"""Commits a change of rows: plans it, writes files, swaps the metadata, and retries lost races."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.io.log import logger
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.delete_files import (
    Groups,
    deletion_of,
    in_groups,
    same_positions,
    write_deletion,
)
from nimblepy.table.changing.new_columns import Fit, WiderTable, with_new_columns
from nimblepy.table.changing.row_change import Effect, RowChange, Rule
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Reading
from nimblepy.table.reading.reachable import reachable_files
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.batches import (
    Batch,
    batch_is_done,
    batch_record,
    checked_batch,
    staged_record,
    were_staged,
)
from nimblepy.table.writing.commit import Change, Commit, reloaded, report, run
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import discard

_log = logger(__name__)


class CountedChange(Change, Protocol):
    """A change that counts its rows.

    Attributes:
        inserted, updated, deleted: number of rows, known after :meth:`plan`.
        files_removed: number of data files.
    """

    inserted: int
    updated: int
    deleted: int
    files_removed: int


@dataclass(frozen=True, eq=False)
class Call:
    """A call that changes a table. Made by :func:`begin`.

    Attributes:
        what: the name of the method, for the log.
        metadata: the newest metadata when the call began.
        batch: name and number of a batch that is committed at most once.
        reading: how files are
            read with the current columns.
        is_done: the table already has this batch or a later one.
        start: the time of the call, by :func:`time.perf_counter`.
        rules: rules about other commits, in addition to those of the change.
    """

    table: TableAccess
    what: str
    metadata: ice.Metadata
    reading: Reading
    batch: Batch | None
    is_done: bool
    start: float
    rules: Sequence[Rule] = ()

    def widened(self, data: Any, fit: Fit, not_added: Sequence[str] = ()) -> tuple[Call, Any]:
        """Returns this call on a table widened by the data's new columns, and the data.

        Args:
            not_added: columns of the data that are not added.
        """
        table, data = with_new_columns(self.table, data, self.metadata, fit, not_added)
        if not isinstance(table, WiderTable):
            return self, data
        metadata = table.newest()
        reading = table.reading(metadata)
        call = replace(self, table=table, metadata=metadata, reading=reading, rules=(table.check,))
        table.check(metadata, table.rows(metadata))
        return call, data

    def commit(self, change: RowChange[Any]) -> Commit:
        """Commits a change of rows; see :class:`RowCommit`."""
        return self.run(RowCommit(self, change))

    def run(self, change: CountedChange) -> Commit:
        """Plans and commits a change for the newest snapshot, and moves the handle."""
        try:
            metadata = self.metadata
            # Writing files may have taken long, so look for commits of others first. In an object
            # store, looking costs as much as a lost race, so it is not worth it.
            if not ice.is_lake_in_a_store(metadata):
                metadata = self.table.newest()
        except BaseException:
            change.discard()
            raise
        outcome = run(change, metadata, self.table.reload)
        if outcome is None:
            return self.nothing(reloaded(metadata, self.table.reload))
        newest, retries = outcome
        self.table.show_commit(newest)
        done = Commit(
            snapshot=change.commit.snapshot,
            rows_inserted=change.inserted,
            rows_updated=change.updated,
            rows_deleted=change.deleted,
            files_added=len(change.commit.added),
            files_removed=change.files_removed,
            bytes_written=sum(file.bytes for file in change.commit.added),
            retries=retries,
            seconds=time.perf_counter() - self.start,
        )
        report(self.table.name, self.what, done)
        return done

    def nothing(self, newest: ice.Metadata | None = None) -> Commit:
        """Returns the result of a call that changes nothing; moves the handle to the newest
        snapshot.
        """
        metadata = self.metadata if newest is None else newest
        self.table.show(metadata)
        _log.info("%s: %s: nothing to change", self.table.name, self.what)
        head = metadata.head()
        return Commit(
            snapshot=None if head is None else head.id, seconds=time.perf_counter() - self.start
        )


def begin(table: TableAccess, what: str, batch: Batch | None = None) -> Call:
    """Begins a call that changes a table: reads the newest metadata.

    Args:
        batch: name and number of a batch that is added only once.
    """
    start = time.perf_counter()
    named = None if batch is None else checked_batch(batch)
    metadata = table.newest()
    is_done = named is not None and batch_is_done(metadata, named)
    return Call(table, what, metadata, table.reading(metadata), named, is_done, start)


# Summary entry of a snapshot whose commit removed no primary key from the table.
KEEPS_KEYS = {"nimblepy.keeps-keys": "true"}


def summary_of(change: CountedChange) -> dict[str, str]:
    """Returns the counts that the snapshot's summary records about a change."""
    return {
        "engine-name": "nimblepy",
        "nimblepy.user": ice.who(),
        "nimblepy.rows-inserted": str(change.inserted),
        "nimblepy.rows-updated": str(change.updated),
        "nimblepy.rows-deleted": str(change.deleted),
    }


@dataclass(eq=False)
class RowCommit:
    """Commits a change of rows. A :class:`CountedChange`.

    Attributes:
        rows_of: returns the rows of the newest snapshot of given metadata; by default
            ``call.table.rows``.
        staged: files that the caller's workers wrote. They are added at most once, and after a
            failure removed only if the table does not name them.
        properties: properties of the table that the commit sets.
        replaces: the files of the new snapshot contain the rows of all earlier files, so no
            manifest needs to list the earlier files as removed.
    """

    call: Call
    change: RowChange[Any]
    rows_of: Callable[[ice.Metadata], FileSet] | None = None
    staged: Sequence[DataFile] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    replaces: bool = False

    def __post_init__(self) -> None:
        operation = self.change.operation
        self.commit = ice.SnapshotCommit(operation or "append", forget=self.replaces)
        self.commit.properties = dict(self.properties)
        self.inserted = self.updated = self.deleted = self.files_removed = 0
        self._effect = Effect()
        self._deletes: list[DataFile] = []
        self._positions: Groups = {}
        self._has_vectors = False
        self._planned: tuple[str, FileSet] | None = None

    def rows(self, metadata: ice.Metadata) -> FileSet:
        """Returns the rows of the newest snapshot of ``metadata``, which is planned once."""
        if self._planned is None or self._planned[0] != metadata.metadata_file:
            rows = (self.rows_of or self.call.table.rows)(metadata)
            self._planned = metadata.metadata_file, rows
        return self._planned[1]

    def is_done(self, metadata: ice.Metadata) -> bool:
        if self.call.batch is not None and batch_is_done(metadata, self.call.batch):
            return True
        if not self.staged:
            return False
        if were_staged(metadata, self.staged):
            return True
        return len(listed(self.rows(metadata), self.staged)) == len(self.staged)

    def plan(self, metadata: ice.Metadata) -> bool:
        """Finds old rows, writes new rows and delete files, and prepares the snapshot."""
        rows, target = self.rows(metadata), target_of(metadata)
        for rule in (*self.call.rules, *self.change.rules):
            rule(metadata, rows)
        try:
            effect = self.change.effect(rows, target)
        except InvalidArgumentError as error:
            if self.call.metadata.schema_id == metadata.schema_id:
                raise
            raise ConflictError(
                f"{'.'.join(metadata.name)}: the change no longer fits the table: {error}",
                kind="schema",
            ) from error
        self._replace_effect(effect)
        deletion = deletion_of(rows, effect.deleted, vectors=target.vectors)
        if target.vectors:
            deletion.groups = in_groups(deletion.vectors)
        if target.vectors != self._has_vectors or not same_positions(
            deletion.groups, self._positions
        ):
            self._remove(self._deletes)
            self._deletes, self._positions = [], {}
            self._deletes = write_deletion(deletion, target)
            self._positions, self._has_vectors = deletion.groups, target.vectors
        self.inserted, self.updated = effect.inserted, effect.updated
        self.deleted = deletion.rows - effect.updated - effect.moved
        self.files_removed = len(deletion.removed)
        self.commit.added = [*effect.added, *self._deletes]
        self.commit.removed = deletion.removed | deletion.useless
        self.commit.removed_deletes = deletion.useless
        self.commit.repeated = deletion.repeated
        if self.change.operation is None:
            self.commit.operation = "overwrite" if deletion.rows else "append"
        self.describe(metadata)
        return bool(self.commit.added or self.commit.removed or self.call.batch)

    def describe(self, metadata: ice.Metadata) -> None:
        """Sets the snapshot summary and the table properties of the commit."""
        self.commit.summary = summary_of(self) | ice.key_record(metadata)
        if self.change.keeps_keys and not self.deleted:
            self.commit.summary |= KEEPS_KEYS
        if self.call.batch is not None:
            record = batch_record(metadata, self.call.batch, self.commit.snapshot)
            self.commit.summary |= record
            if metadata.branch == ice.MAIN:
                self.commit.properties |= record
        if self.staged:
            self.commit.properties |= staged_record(metadata, self.staged, self.commit.snapshot)

    def _replace_effect(self, effect: Effect) -> None:
        """Replaces the effect, and removes files of the last attempt that it does not reuse.

        Keeps staged files: a later attempt may read or add them.
        """
        used = {file.path for file in (*effect.added, *self.staged)}
        self._remove([file for file in self._effect.added if file.path not in used])
        self._effect = effect

    def discard(self) -> None:
        self._remove(self._deletes)
        if self.change.owns_files:
            files = {file.path: file for file in self._effect.added}
            files |= {file.path: file for file in (*self.change.writer.files, *self.staged)}
            self._remove(list(files.values()))

    def _remove(self, files: Sequence[DataFile]) -> None:
        if not files or self.commit.doubtful:
            return
        if self.staged:
            discard_unnamed(files, self.call.table)
        else:
            discard(files)


def discard_unnamed(files: Sequence[DataFile], table: TableAccess) -> None:
    """Removes files of the caller's workers, unless the table names them.

    If the table does not exist, keeps all files: it may have been renamed and still use them.
    """
    with contextlib.suppress(ConflictError, InvalidArgumentError):
        newest = table.reload()
        named = {path for part in reachable_files(newest) for path in part.to_pylist()}
        discard([file for file in files if file.path not in named])


def listed(rows: FileSet, files: Sequence[DataFile]) -> list[str]:
    """Returns the paths of those of ``files`` that a snapshot lists."""
    given = pa.array([file.path for file in files], pa.string())
    if not len(given):
        return []
    # Without files, pyarrow infers the type null for the paths.
    is_listed = pc.is_in(given, value_set=rows.members.files.paths.cast(pa.string()))
    paths: list[str] = given.filter(is_listed).to_pylist()
    return paths


@dataclass(frozen=True, eq=False)
class FilesAreNew:
    """Checks that files of other writers are not part of the table yet.

    Attributes:
        what: the method that adds them, for the error.
    """

    files: Sequence[DataFile]
    what: str

    def __call__(self, metadata: ice.Metadata, rows: FileSet) -> None:
        paths = listed(rows, self.files)
        if paths:
            rest = "" if len(paths) == len(self.files) else "; commit the other files without it"
            raise InvalidArgumentError(
                f"{self.what}: {paths[0]} is already part of {rows.reading.name}{rest}"
            )
