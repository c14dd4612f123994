"""Changes of rows as values: a plan, a writer and rules about other commits.

The plan finds the rows of a snapshot that the change concerns. The writer writes new rows, and says
which of the found rows are deleted. The rules say which commits of others the change tolerates.
:mod:`nimblepy.table.changing.row_commit` runs the three for the newest snapshot, and again after
each lost race. So the order of the snapshots is a serial order of the commits.
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

# Ascending live rows by number of their file; ``None`` stands for all live rows of the file.
Rows: TypeAlias = dict[int, RowNumbers | None]
# Live rows with the numbers of the keys that they have, by number of their file.
Matches: TypeAlias = dict[int, RowSet]
# Raises an error if a change is not possible for a snapshot, which is the newest one.
Rule: TypeAlias = Callable[[ice.Metadata, FileSet], None]

Found = TypeVar("Found")
FoundIn = TypeVar("FoundIn", contravariant=True)
FoundOut = TypeVar("FoundOut", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a change does to the rows of one snapshot.

    Attributes:
        added: files with new rows.
        deleted: rows that are deleted, replaced ones included.
        inserted, updated: number of new rows without and with a predecessor.
        moved: number of deleted rows that are in new files unchanged.
    """

    added: Sequence[DataFile] = ()
    deleted: Rows = field(default_factory=dict)
    inserted: int = 0
    updated: int = 0
    moved: int = 0


class Plan(Protocol[FoundOut]):
    """Finds the rows of a snapshot that a change concerns."""

    def find(self, rows: FileSet) -> FoundOut:
        """Searches a snapshot; a later call may reuse what did not change since."""


class Writer(Protocol[FoundIn]):
    """Writes the new rows of a change. The caller removes files that an effect no longer adds."""

    @property
    def files(self) -> Sequence[DataFile]:
        """The files with new rows so far."""

    def write(self, rows: FileSet, matches: FoundIn, target: Target) -> Effect:
        """Writes new rows for a snapshot, unless those of an earlier call are still right."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowChange(Generic[Found]):
    """A change of rows that is not committed yet.

    Attributes:
        operation: what snapshots call it; ``None`` for ``overwrite`` if it deletes rows, and
            ``append`` otherwise.
        owns_files: the new files belong to this change, and are removed if it fails.
    """

    operation: str | None
    plan: Plan[Found]
    writer: Writer[Found]
    rules: Sequence[Rule] = ()
    owns_files: bool = True

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
    """Finds the rows that have some keys.

    Attributes:
        refuses: a row with one of the keys is an error.
    """

    positions: KeyPositions
    refuses: bool = False

    def find(self, rows: MemberRows) -> Matches:
        """
        Raises:
            DuplicateKeyError: ``refuses``, and there is such a row.
        """
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
    """New rows that are in files already; rows that were found are deleted.

    Attributes:
        keys: primary keys of the new rows, which no remaining row may have.
        are_copies: the files have the deleted rows, and no others.
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
    """Names of columns in filters and conditions must mean what they meant at the beginning."""

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
                    f"{show_path(path)!r} was another column when the change was made",
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
    """Returns the error for a change that does not fit the newest snapshot any more."""
    base, winner = begun.head(), newest.head()
    return ConflictError(
        f"{'.'.join(newest.name)}: {why}",
        kind=kind,
        base=None if base is None else base.id,
        winner=None if winner is None else winner.id,
        files=tuple(files),
        keys=tuple(keys),
    )
