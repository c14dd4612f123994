"""RowSet: a selection of the rows of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nimblepy import _core

RowNumbers = np.ndarray[Any, np.dtype[np.uint64]]
Positions = np.ndarray[Any, np.dtype[np.int64]]

_NO_ROWS: RowNumbers = np.empty(0, dtype=np.uint64)


def ascending_once(rows: RowNumbers) -> RowNumbers:
    """Returns the rows in ascending order, without repeats. Fast if there are few sorted runs."""
    if len(rows) < 2 or (rows[1:] > rows[:-1]).all():
        return rows
    ordered = np.sort(rows, kind="stable")
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


@dataclass(frozen=True, slots=True, eq=False)
class RowSet:
    """A selection of the rows of one source, in order. A row may occur more than once.

    An entry is a half-open range of adjacent rows, or a single row. In a source with many files, a
    row's address is (file, row), and each file's rows are numbered from 0.

    Attributes:
        begin: first row of each entry.
        end: the row after the last row of each entry. ``None`` if every entry is a single row.
        probe: the position of each entry's key in the request, ascending. ``None`` if the request
            has no keys.
        num_probes: number of requested keys.
        file: number of the file of each entry. ``None`` if the source is one file.
    """

    begin: RowNumbers
    end: RowNumbers | None = None
    probe: Positions | None = None
    num_probes: int = 0
    file: Positions | None = None

    @classmethod
    def of_range(cls, begin: int, end: int) -> RowSet:
        """Returns the rows from ``begin`` to before ``end``; no rows if ``begin >= end``."""
        if begin >= end:
            return cls(_NO_ROWS)
        both = np.array((begin, end), dtype=np.uint64)
        return cls(both[:1], both[1:])

    @classmethod
    def of_ranges(
        cls, ranges: np.ndarray[Any, Any], probe: Positions | None = None, num_probes: int = 0
    ) -> RowSet:
        """Returns the rows of half-open ranges, shape (n, 2). Empty ranges are left out."""
        begin, end = ranges[:, 0], ranges[:, 1]
        hit = end > begin
        if not hit.all():
            begin, end, probe = begin[hit], end[hit], None if probe is None else probe[hit]
        return cls(begin, end, probe, num_probes)

    @classmethod
    def joined(cls, parts: Sequence[RowSet]) -> RowSet:
        """Concatenates sets. Either all of them have probes, or none does."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls(_NO_ROWS)

        def all_of(name: str) -> Any:
            columns = [getattr(part, name) for part in parts]
            return None if columns[0] is None else np.concatenate(columns)

        single = all(part.end is None for part in parts)
        end = None if single else np.concatenate([part.ends for part in parts])
        return cls(all_of("begin"), end, all_of("probe"), parts[0].num_probes, all_of("file"))

    # ------------------------------------------------------------------ content

    @property
    def ends(self) -> RowNumbers:
        return self.begin + np.uint64(1) if self.end is None else self.end

    @property
    def sizes(self) -> Positions:
        """Number of rows of each entry."""
        if self.end is None:
            return np.ones(len(self.begin), dtype=np.int64)
        return (self.end - self.begin).astype(np.int64)

    @property
    def ranges(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The entries as half-open ranges, shape (n, 2), in the order of the set."""
        ranges = np.empty((len(self.begin), 2), dtype=np.uint64)
        ranges[:, 0] = self.begin
        ranges[:, 1] = self.ends
        return ranges

    @property
    def num_rows(self) -> int:
        if self.end is None:
            return len(self.begin)
        return int((self.end - self.begin).sum())

    @property
    def counts(self) -> Positions:
        """Number of rows of each probe."""
        assert self.probe is not None
        if self.end is None:
            return np.bincount(self.probe, minlength=self.num_probes).astype(np.int64)
        weights = self.sizes
        return np.bincount(self.probe, weights=weights, minlength=self.num_probes).astype(np.int64)

    @property
    def rows(self) -> RowNumbers:
        """The number of every row, in the order of the set."""
        return self.expand().begin

    @property
    def as_range(self) -> tuple[int, int] | None:
        """``(begin, end)`` if the set has at most one entry; otherwise ``None``."""
        if not len(self.begin):
            return 0, 0
        if len(self.begin) == 1:
            return int(self.begin[0]), int(self.ends[0])
        return None

    # ------------------------------------------------------------------ derived sets

    def entries(self, which: Any) -> RowSet:
        """Returns the entries that a mask, a slice, or positions in any order select."""
        return RowSet(
            self.begin[which],
            None if self.end is None else self.end[which],
            None if self.probe is None else self.probe[which],
            self.num_probes,
            None if self.file is None else self.file[which],
        )

    def expand(self) -> RowSet:
        """Returns the same rows with one entry per row."""
        if self.end is None:
            return self
        sizes = self.sizes
        if len(sizes) == 1:
            begin = np.arange(self.begin[0], self.end[0], dtype=np.uint64)
        else:
            offsets = np.cumsum(sizes) - sizes
            within = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(offsets, sizes)
            begin = np.repeat(self.begin, sizes) + within.astype(np.uint64)
        return RowSet(
            begin,
            None,
            None if self.probe is None else np.repeat(self.probe, sizes),
            self.num_probes,
            None if self.file is None else np.repeat(self.file, sizes),
        )

    def slice(self, first: int, last: int | None) -> RowSet:
        """Returns the rows from ``first`` to before ``last``, counted in the order of the set."""
        if self.end is None:
            return self.entries(slice(first, last))
        total = self.num_rows
        last = total if last is None else min(last, total)
        if first <= 0 and last >= total:
            return self
        if first >= last:
            return self.entries(slice(0, 0))
        if len(self.begin) == 1:
            begin = self.begin + np.uint64(max(first, 0))
            return replace(self, begin=begin, end=self.begin + np.uint64(last))
        ends = np.cumsum(self.sizes)
        at, after = np.searchsorted(ends, first, "right"), np.searchsorted(ends, last, "left") + 1
        part = self.entries(slice(int(at), int(after)))
        begin, end = part.begin.copy(), part.ends.copy()
        begin[0] = end[0] - np.uint64(int(ends[at]) - first)
        end[-1] -= np.uint64(int(ends[after - 1]) - last)
        return replace(part, begin=begin, end=end)

    def pick(self, numbers: RowNumbers) -> RowSet:
        """Returns the rows at these positions of the set, in the given order, with repeats."""
        if self.end is None:
            return self.entries(numbers.astype(np.int64))
        if len(self.begin) == 1 and self.probe is None and self.file is None:
            return RowSet(numbers + self.begin[0] if self.begin[0] else numbers)
        ends = np.cumsum(self.sizes).astype(np.uint64)
        entry = np.searchsorted(ends, numbers, side="right")
        rows = self.end[entry] - (ends[entry] - numbers)
        return replace(self.entries(entry), begin=rows, end=None)

    def backwards(self) -> RowSet:
        """Returns the same rows in reverse order."""
        return self.expand().entries(slice(None, None, -1))

    def intersect(self, other: RowSet) -> RowSet:
        """Returns the rows that are also in ``other``, in the order of this set."""
        ranges = _core.merge(other.ranges)
        first = np.searchsorted(ranges[:, 1], self.begin, side="right")
        last = np.searchsorted(ranges[:, 0], self.ends, side="left")
        counts = np.maximum(last - first, 0)
        entry = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        piece = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts - first, counts)
        kept = self.entries(entry)
        if self.end is None:
            return kept
        begin = np.maximum(kept.begin, ranges[piece, 0])
        return replace(kept, begin=begin, end=np.minimum(kept.ends, ranges[piece, 1]))

    def minus(self, other: RowSet | _core.RowBitmap) -> RowSet:
        """Returns the rows that are not in ``other``, in the order of this set.

        If ``other`` is a bitmap of one file, all rows of this set must be in that file.
        """
        if isinstance(other, _core.RowBitmap):
            if self.end is None:
                is_excluded = other.contains(self.begin)
                return self.entries(~is_excluded) if is_excluded.any() else self
            left, entry = other.absent(self.begin, self.end)
            return replace(self.entries(entry), begin=left[:, 0], end=left[:, 1])
        ranges = _core.merge(other.ranges)
        begin = np.concatenate((np.zeros(1, dtype=np.uint64), ranges[:, 1]))
        end = np.append(ranges[:, 0], np.uint64(2**64 - 1))
        return self.intersect(RowSet.of_ranges(np.column_stack((begin, end))))

    def merged(self) -> RowSet:
        """Returns the rows in ascending order without repeats, with as few ranges as possible.

        The rows must be in one file.
        """
        return RowSet.of_ranges(_core.merge(self.ranges))

    def in_file(self, file: int) -> RowSet:
        """Returns these rows as rows of the given file, in a source with many files."""
        return replace(self, file=np.full(len(self.begin), file, dtype=np.int64))

    def by_file(self) -> list[tuple[int, RowSet]]:
        """Returns pairs of a file and its rows. The set must be ordered by file."""
        assert self.file is not None
        if not len(self.file):
            return []
        cuts = (np.flatnonzero(self.file[1:] != self.file[:-1]) + 1).tolist()
        alone = RowSet(self.begin, self.end, self.probe, self.num_probes)
        return [
            (int(self.file[begin]), alone.entries(slice(begin, end)))
            for begin, end in zip([0, *cuts], [*cuts, len(self.file)], strict=True)
        ]

    def without_file(self) -> RowSet:
        """Returns these rows without their file number. All rows must be in one file."""
        return replace(self, file=None)

    def for_probes(self, probes: Positions | None, num_probes: int) -> RowSet:
        """Returns these rows with renumbered probes: probe i becomes ``probes[i]``."""
        if probes is None:
            return self
        assert self.probe is not None
        return replace(self, probe=probes[self.probe], num_probes=num_probes)
