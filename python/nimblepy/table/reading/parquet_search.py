"""Searches in the Parquet files of a table by the indexes of the table.

Rows of files that an index does not cover are searched in these files themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import IndexUnavailableError
from nimblepy.files.asof import FilesSearch
from nimblepy.files.bounds import EncodedKeys
from nimblepy.files.source import key_order
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.request import Keys, Ordered
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import RowSource
from nimblepy.schema.types import SortKey
from nimblepy.table.base.places import readable_path
from nimblepy.table.reading.parquet_index import KeyIndex, Opened

# Returns the deleted rows of a file; ``None`` if it has none.
Deleted: TypeAlias = Callable[[int], _core.RowBitmap | None]
# Returns whether an open index file can answer.
Usable: TypeAlias = Callable[[Opened], bool]

# Number of entries that are read in addition to a limit, because some may be deleted, or have the
# same key as the last one.
_MORE_ENTRIES = 64
# How many times more entries are read if these were too few.
_GROWTH = 4


@dataclass(frozen=True, eq=False)
class Search:
    """A search in some data files by an index.

    Attributes:
        index: the index.
        covering: each index file, with the number of each of its data files. Numbers count the
            searched files; -1 is a file that is not searched.
        others: numbers of the searched files that the index does not cover.
    """

    index: KeyIndex
    covering: Sequence[tuple[Opened, Positions]]
    others: Sequence[int]
    _ignored: dict[int, _core.RowBitmap | None] = field(default_factory=dict)

    @property
    def num_covered(self) -> int:
        return sum(int((numbers >= 0).sum()) for _, numbers in self.covering)

    def find(self, keys: Keys, deleted: Deleted) -> list[RowSet]:
        """Returns the live rows of the covered files, one entry per row."""
        parts = []
        for opened, numbers in self.covering:
            asked = opened.rows.in_child(keys)
            assert asked is not None
            rows = opened.source.find_among(asked, numbers >= 0)
            assert rows.file is not None
            rows = replace(rows, file=numbers[rows.file], num_probes=len(keys))
            parts.append(_live(rows, deleted))
        return parts

    def find_in_order(
        self,
        request: Ordered,
        order: Sequence[SortKey],
        others: RowSource | None,
        deleted: Deleted,
        *,
        limit: int | None,
        reverse: bool,
    ) -> RowSet:
        """Returns the live rows of a range or prefix, ordered by key, then by file and row; exactly
        the opposite if ``reverse``.

        Args:
            order: the sort keys of the result.
            others: the rows of the files that the index does not cover.
        """
        names = tuple(key.column for key in order)
        parts = []
        for opened, numbers in self.covering:
            parts.append(_in_order(opened, numbers, request, order, deleted, limit, reverse))
        if others is not None:
            rows = others.find(request, limit=limit, reverse=reverse).expand()
            if rows.num_rows:
                assert rows.file is not None
                numbers = np.array(self.others, dtype=np.int64)
                parts.append((replace(rows, file=numbers[rows.file]), others.read(rows, names)))
        rows = RowSet.joined([some for some, _ in parts])
        keys = pa.concat_tables([table for _, table in parts])
        assert rows.file is not None
        by_place = np.lexsort((rows.begin, rows.file))
        if reverse:
            by_place = by_place[::-1]
        by_key = key_order(keys.take(pa.array(by_place)), order, reverse)
        return rows.entries(by_place[by_key]).slice(0, limit)

    def find_asof(
        self, keys: AsofKeys, others: RowSource | None, num_files: int, deleted: Deleted
    ) -> RowSet:
        """Returns at most one live row for each key.

        Args:
            others: the rows of the files that the index does not cover.

        Cost: if covered rows are deleted, the first search reads the row numbers of all entries.
        """
        width = len(keys.by) + 1
        search = FilesSearch(keys, self.index.keys[:width])
        is_only = others is None and len(self.covering) == 1
        for at, (opened, _) in enumerate(self.covering):
            # Entries of an index count as rows of one more file.
            number = num_files + at
            ignored = self._ignored_entries(at, deleted)
            search.search(number, opened.entries, search.wanted(number), ignored, is_only=is_only)
        if others is not None:
            search.offer(others.find_asof(keys), others, self.others)
        rows = search.rows()
        assert rows.file is not None
        assert rows.probe is not None
        parts = []
        for at, (opened, numbers) in enumerate(self.covering):
            entries = rows.entries(rows.file == num_files + at)
            located = opened.source.located(replace(entries, file=None), numbers >= 0)
            assert located.file is not None
            parts.append(replace(located, file=numbers[located.file]))
        parts.append(rows.entries(rows.file < num_files))
        rows = RowSet.joined([replace(part, num_probes=len(keys)) for part in parts])
        assert rows.probe is not None
        return rows.entries(np.argsort(rows.probe, kind="stable"))

    def _ignored_entries(self, at: int, deleted: Deleted) -> _core.RowBitmap | None:
        """Returns the entries of an index file whose rows are deleted or not searched."""
        if at not in self._ignored:
            opened, numbers = self.covering[at]
            source = opened.source
            ignored = np.zeros(source.num_rows, dtype=np.bool_)
            for file, (begin, end) in enumerate(pairwise(source.first_rows.tolist())):
                number = int(numbers[file])
                bitmap = None if number < 0 else deleted(number)
                if number < 0:
                    ignored[begin:end] = True
                elif bitmap is not None:
                    ignored[begin + bitmap.rows().astype(np.int64)] = True
            self._ignored[at] = source.entries_of(ignored) if ignored.any() else None
        return self._ignored[at]


def _in_order(
    opened: Opened,
    numbers: Positions,
    request: Ordered,
    order: Sequence[SortKey],
    deleted: Deleted,
    limit: int | None,
    reverse: bool,
) -> tuple[RowSet, pa.Table]:
    """Returns the live rows of the covered files in an index file, and their keys.

    With a limit, these are at least the first rows, and all rows with the key of the last of these.
    """
    names = tuple(key.column for key in order)
    most = None if limit is None else limit + _MORE_ENTRIES
    while True:
        found = opened.entries.find(request, limit=most, reverse=reverse).expand()
        found = replace(found, probe=np.arange(len(found.begin), dtype=np.int64))
        rows = opened.source.located(found, numbers >= 0)
        assert rows.file is not None
        rows = _live(replace(rows, file=numbers[rows.file]), deleted)
        assert rows.probe is not None
        if limit is None or most is None or len(found.begin) < most:
            break
        if len(rows.begin) >= limit > 0:
            ends = found.entries(np.array([rows.probe[limit - 1], len(found.begin) - 1]))
            batch = opened.entries.read(ends, names).combine_chunks().to_batches()[0]
            last, end = EncodedKeys(batch, order).to_list()
            if last != end:
                break
        most *= _GROWTH
    keys = opened.entries.read(found.entries(rows.probe), names)
    return replace(rows, probe=None, num_probes=0), keys


def _live(rows: RowSet, deleted: Deleted) -> RowSet:
    assert rows.file is not None
    keep = np.ones(len(rows.begin), dtype=np.bool_)
    for file in np.unique(rows.file).tolist():
        deleted_rows = deleted(file)
        if deleted_rows is not None:
            at = np.flatnonzero(rows.file == file)
            keep[at] = ~deleted_rows.contains(rows.begin[at])
    return rows if keep.all() else rows.entries(keep)


def search(
    index: KeyIndex | None, files: Iterable[tuple[str, int]], is_usable: Usable
) -> Search | None:
    """Returns a search by an index; ``None`` if it covers none of the files.

    Args:
        files: path and size in bytes of each file.
        is_usable: whether an index file has the requested columns in a type that fits.
    """
    if index is None:
        return None
    listed = list(files)
    # Of two entries with one path, the second one is found here; the first is searched by itself.
    by_path = {readable_path(path): (i, size) for i, (path, size) in enumerate(listed)}
    left = set(range(len(listed)))
    covering: list[tuple[Opened, Positions]] = []
    for file in index.files:
        numbers = np.full(len(file.covers), -1, dtype=np.int64)
        for at, (path, size) in enumerate(file.covers):
            number, bytes_ = by_path.get(path, (-1, 0))
            if number in left and bytes_ == size:
                numbers[at] = number
        opened = file.open() if (numbers >= 0).any() else None
        if opened is None or not answers(opened, is_usable):
            continue
        numbers[~opened.valid] = -1
        if (numbers >= 0).any():
            left -= set(numbers.tolist())
            covering.append((opened, numbers))
    return Search(index, covering, sorted(left)) if covering else None


def answers(opened: Opened, is_usable: Usable) -> bool:
    """Returns whether keys of the table can be converted to keys of the files."""
    try:
        return is_usable(opened)
    except IndexUnavailableError:
        return False
