"""Rows of a snapshot with uncommitted changes, and the difference between two such states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Reading
from nimblepy.table.reading.plan import Members, SnapshotPlan


class ChangedRows(FileSet):
    """The files of a snapshot, optionally with additional files and with other deleted rows.

    Args:
        deletions: for each path, all deleted rows of the file.
    """

    def __init__(
        self,
        reading: Reading,
        plan: SnapshotPlan,
        members: Members,
        deletions: Mapping[str, _core.RowBitmap],
    ) -> None:
        super().__init__(reading, plan, members)
        self._deletions = deletions

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("rows of an open transaction cannot be pickled; read them in this process")

    def part(self, files: Sequence[int]) -> ChangedRows:
        return ChangedRows(self.reading, self.plan, self.members.take(files), self._deletions)

    def read_by(self, reading: Reading) -> ChangedRows:
        return ChangedRows(reading, self.plan, self.members, self._deletions)

    def deleted(self, file: int) -> _core.RowBitmap | None:
        deletion = self._deletions.get(self.name_of(file)) if self._deletions else None
        return super().deleted(file) if deletion is None else deletion

    @cached_property
    def _before(self) -> Positions:
        counts = self.members.files.rows
        for i in range(len(counts)):
            deleted = self.deleted(i)
            counts[i] -= 0 if deleted is None else len(deleted)
        return np.concatenate(([0], np.cumsum(counts)))

    @property
    def first_rows(self) -> Positions:
        return self._before


def with_rows(deleted: _core.RowBitmap | None, rows: RowNumbers) -> _core.RowBitmap:
    """Returns the union of ``deleted`` and ``rows``."""
    return _core.RowBitmap(rows if deleted is None else np.concatenate((deleted.rows(), rows)))


def differences(
    before: FileSet, after: FileSet, *, lineage: bool = False
) -> tuple[ChangedRows, ChangedRows]:
    """Compares two states. Returns (rows only in ``before``, rows only in ``after``).

    A row that was moved to another file, for example by a compaction, is in both results.

    Args:
        lineage: the rows of a file also differ if they inherit other row ids.
    """
    old, new = _numbers(before), _numbers(after)
    only_before: dict[str, tuple[int, RowSet]] = {}
    only_after: dict[str, tuple[int, RowSet]] = {}
    for path, number in old.items():
        other = new.get(path)
        if other is None:
            only_before[path] = number, _live(before, number)
        elif lineage and before.members[number].inherited != after.members[other].inherited:
            only_before[path] = number, _live(before, number)
            only_after[path] = other, _live(after, other)
        elif before.members[number].delete_ids != after.members[other].delete_ids:
            old_rows, new_rows = _live(before, number), _live(after, other)
            if (difference := old_rows.minus(new_rows)).num_rows:
                only_before[path] = number, difference
            if (difference := new_rows.minus(old_rows)).num_rows:
                only_after[path] = other, difference
    for path, number in new.items():
        if path not in old:
            only_after[path] = number, _live(after, number)
    return _only(before, only_before), _only(after, only_after)


def _numbers(rows: FileSet) -> dict[str, int]:
    """Returns the positions of the files, by path."""
    return {path: number for number, path in enumerate(rows.members.files.paths.to_pylist())}


def _only(rows: FileSet, shown: Mapping[str, tuple[int, RowSet]]) -> ChangedRows:
    """Returns only the given rows of the given files."""
    members = rows.members.take(sorted(number for number, _ in shown.values()))
    deletions = {
        path: _core.RowBitmap(RowSet.of_range(0, rows.stored_rows(number)).minus(left).rows)
        for path, (number, left) in shown.items()
    }
    return ChangedRows(rows.reading, rows.plan, members, deletions)


def _live(rows: FileSet, number: int) -> RowSet:
    all_rows, deleted = RowSet.of_range(0, rows.stored_rows(number)), rows.deleted(number)
    return all_rows if deleted is None else all_rows.minus(deleted)
