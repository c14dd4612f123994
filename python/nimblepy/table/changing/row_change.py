"""Describes a change of rows by a plan, a writer, and rules about other commits.

The plan finds the affected rows of a snapshot. The writer writes new rows, and tells which of the
found rows are deleted. The rules raise an error if another commit conflicts with the change.
:mod:`nimblepy.table.changing.row_commit` runs all three for the newest snapshot, and again after
each lost race. So the result is the same as if the commits had run one after another, in the order
of the snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from nimblepy.errors import ConflictError, DuplicateKeyError
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.schema.columns import column_paths
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.names import show_path
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.key_positions import KeyPositions
from nimblepy.table.changing.keyed_rows import show_key
from nimblepy.table.changing.new_keys import NewKeys
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.writing.write import Target

# For each file number: its ascending live rows. ``None`` stands for all live rows.
Rows: TypeAlias = dict[int, RowNumbers | None]
# For each file number: live rows, each with the number of its key.
Matches: TypeAlias = dict[int, RowSet]
# Checks the newest snapshot, and raises an error if the change cannot be applied to it.
Rule: TypeAlias = Callable[[ice.Metadata, FileSet], None]

Found = TypeVar("Found")
FoundIn = TypeVar("FoundIn", contravariant=True)
FoundOut = TypeVar("FoundOut", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a change does to the rows of one snapshot.

    Attributes:
        added: files with new rows.
        deleted: rows to delete, including replaced ones.
        inserted, updated: number of new rows that do not, and that do, replace a row.
        moved: number of deleted rows that new files contain unchanged.
    """

    added: Sequence[DataFile] = ()
    deleted: Rows = field(default_factory=dict)
    inserted: int = 0
    updated: int = 0
    moved: int = 0


class Plan(Protocol[FoundOut]):
    """Finds the rows of a snapshot that a change affects."""

    def find(self, rows: FileSet) -> FoundOut:
        """Searches a snapshot. Later calls may reuse results for unchanged files."""


class Writer(Protocol[FoundIn]):
    """Writes the new rows of a change.

    The caller removes files of an earlier effect that the latest effect does not add.
    """

    @property
    def files(self) -> Sequence[DataFile]:
        """The files with new rows that were written so far."""

    def write(self, rows: FileSet, matches: FoundIn, target: Target) -> Effect:
        """Writes new rows for a snapshot, unless the rows of an earlier call are still correct."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowChange(Generic[Found]):
    """A change of rows that is not committed yet.

    Attributes:
        operation: the operation in the snapshot. ``None`` means ``overwrite`` if rows are deleted,
            and ``append`` otherwise.
        owns_files: the new files belong to this change, and are removed if it fails.
        keeps_keys: each row that it removes is replaced by a row of the same primary key.
    """

    operation: str | None
    plan: Plan[Found]
    writer: Writer[Found]
    rules: Sequence[Rule] = ()
    owns_files: bool = True
    keeps_keys: bool = False

    def effect(self, rows: FileSet, target: Target) -> Effect:
        """Finds old rows and writes new ones."""
        return self.writer.write(rows, self.plan.find(rows), target)


# ------------------------------------------------------------------ plans


class NoRows:
    """Finds nothing: the change only adds rows."""

    def find(self, rows: FileSet) -> Rows:
        return {}


class AllRows:
    """Finds all rows."""

    def find(self, rows: FileSet) -> Rows:
        return dict.fromkeys(range(rows.num_files))


@dataclass(frozen=True, eq=False)
class RowsWithKeys:
    """Finds the rows that have one of the keys.

    Attributes:
        refuses: raise an error if a row has one of the keys.
    """

    positions: KeyPositions
    refuses: bool = False

    def find(self, rows: MemberRows) -> Matches:
        """Raises: DuplicateKeyError: ``refuses`` is set, and a row has one of the keys."""
        matches = self.positions.find(rows)
        if self.refuses and matches:
            number, some = next(iter(matches.items()))
            row = rows.child(number).read(some.entries(slice(1)), rows.reading.primary_key)
            count = sum(len(rows.begin) for rows in matches.values())
            raise DuplicateKeyError(
                f"the key {show_key(row)} is in the table already"
                + (f", and {count - 1} more" if count > 1 else "")
            )
        return matches


# ------------------------------------------------------------------ writers


@dataclass(eq=False)
class GivenFiles:
    """Adds given files, and deletes all rows that the plan found.

    Attributes:
        keys: primary keys of the new rows, which no remaining row may have.
        are_copies: the files contain exactly the deleted rows.
    """

    files: Sequence[DataFile] = ()
    keys: NewKeys | None = None
    are_copies: bool = False

    def write(self, rows: FileSet, matches: Rows, target: Target) -> Effect:
        """
        Raises:
            DuplicateKeyError: a remaining row has the primary key of a new one.
        """
        if self.keys is not None:
            self.keys.refuse_kept(rows, matches)
        count = sum(file.rows for file in self.files)
        if self.are_copies:
            return Effect(added=self.files, deleted=matches, moved=count)
        return Effect(added=self.files, deleted=matches, inserted=count)


# ------------------------------------------------------------------ rules


@dataclass(frozen=True, eq=False)
class SameColumns:
    """Checks that column names in filters and conditions still mean the same columns."""

    begun: ice.Metadata

    def __call__(self, metadata: ice.Metadata, rows: FileSet) -> None:
        before, now = self.begun.schema(), metadata.schema()
        if now.equals(before, check_metadata=True):
            return
        for path in sorted(set(column_paths(now)) & set(column_paths(before))):
            if field_id_at(before, path) != field_id_at(now, path):
                raise conflict(
                    self.begun,
                    metadata,
                    f"another commit changed which column {show_path(path)!r} names; make the "
                    "change again",
                    kind="schema",
                )


def conflict(
    begun: ice.Metadata,
    newest: ice.Metadata,
    why: str,
    *,
    kind: str,
    files: Sequence[str] = (),
    keys: Sequence[object] = (),
) -> ConflictError:
    """Returns the error for a change that no longer fits the newest snapshot."""
    base, winner = begun.head(), newest.head()
    return ConflictError(
        f"{'.'.join(newest.name)}: {why}",
        kind=kind,
        base=None if base is None else base.id,
        winner=None if winner is None else winner.id,
        files=tuple(files),
        keys=tuple(keys),
    )
