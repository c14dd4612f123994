"""Rows of a snapshot with changes that are not committed, and what has changed between two."""

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
    """Files of a snapshot, and maybe others, of which other rows are deleted than it says.

    Args:
        deletions: by path, all rows that are deleted of a file.
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
        raise TypeError("rows of a transaction that has not ended do not pickle")

    def part(self, files: Sequence[int]) -> ChangedRows:
        return ChangedRows(self.reading, self.plan, self.members.take(files), self._deletions)

    def deleted(self, file: int) -> _core.RowBitmap | None:
        found = self._deletions.get(self.name_of(file)) if self._deletions else None
        return super().deleted(file) if found is None else found

    @cached_property
    def _before(self) -> Positions:
        counts = self.members.files.rows
        for i in range(len(counts)):
            gone = self.deleted(i)
            counts[i] -= 0 if gone is None else len(gone)
        return np.concatenate(([0], np.cumsum(counts)))

    @property
    def first_rows(self) -> Positions:
        return self._before


def with_rows(gone: _core.RowBitmap | None, rows: RowNumbers) -> _core.RowBitmap:
    """Deleted rows, and some more."""
    return _core.RowBitmap(rows if gone is None else np.concatenate((gone.rows(), rows)))


def differences(before: FileSet, after: FileSet) -> tuple[ChangedRows, ChangedRows]:
    """(rows that are only in the first, rows that are only in the second) of two states.

    A row that was written anew, as by a compaction, is in both.
    """
    old, new = _numbers(before), _numbers(after)
    gone: dict[str, tuple[int, RowSet]] = {}
    come: dict[str, tuple[int, RowSet]] = {}
    for path, number in old.items():
        other = new.get(path)
        if other is None:
            gone[path] = number, _live(before, number)
        elif before.members[number].delete_paths != after.members[other].delete_paths:
            here, there = _live(before, number), _live(after, other)
            if (left := here.minus(there)).num_rows:
                gone[path] = number, left
            if (left := there.minus(here)).num_rows:
                come[path] = other, left
    for path, number in new.items():
        if path not in old:
            come[path] = number, _live(after, number)
    return _only(before, gone), _only(after, come)


def _numbers(rows: FileSet) -> dict[str, int]:
    """Of the files, by path."""
    return {path: number for number, path in enumerate(rows.members.files.paths.to_pylist())}


def _only(rows: FileSet, shown: Mapping[str, tuple[int, RowSet]]) -> ChangedRows:
    """Some rows of some files, and no others."""
    members = rows.members.take(sorted(number for number, _ in shown.values()))
    deletions = {
        path: _core.RowBitmap(RowSet.of_range(0, rows.stored_rows(number)).minus(left).rows)
        for path, (number, left) in shown.items()
    }
    return ChangedRows(rows.reading, rows.plan, members, deletions)


def _live(rows: FileSet, number: int) -> RowSet:
    everything, gone = RowSet.of_range(0, rows.stored_rows(number)), rows.deleted(number)
    return everything if gone is None else everything.minus(gone)
