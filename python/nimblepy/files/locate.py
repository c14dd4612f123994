"""Finds keys in many files: selects the files that may contain them, and searches these together.

Keys are encoded, sorted and hashed once, not once per file. Files that the core cannot search, such
as Parquet files, are searched one by one, and the results are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nimblepy import _core
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.files.open_files import most_together
from nimblepy.rows.compiled import KeyIndex
from nimblepy.rows.request import Keys
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import RowSource
from nimblepy.schema.types import SortKey

# If there are at least this many files per key, a binary search for each key is cheaper than a pass
# over the bounds of all files.
_FEW = 1024

Child = Callable[[int], RowSource]
Deleted = Callable[[int], _core.RowBitmap | None]
Prepare = Callable[[Sequence[int]], None]
# Files that are searched in one call: their numbers, indexes and deleted rows.
_Together = tuple[list[int], list[_core.Index], list[_core.RowBitmap | None]]


class AskedKeys:
    """A search for keys in many files.

    Attributes:
        files: the files that may contain at least one of the keys, ascending.
    """

    def __init__(
        self,
        keys: Keys,
        child: Child,
        deleted: Deleted,
        prepare: Prepare,
        num_files: int,
        cluster_by: Sequence[SortKey] | None,
        bounds: FileBounds | None,
    ) -> None:
        """
        Args:
            cluster_by: the sort keys of the searched columns, if these are the first columns of the
                cluster key; else ``None``.
            bounds: key bounds of the files; ignored if ``cluster_by`` is ``None``.
        """
        self._keys = keys
        self._child = child
        self._deleted = deleted
        self._prepare = prepare
        self._bounds = None if bounds is None or cluster_by is None else bounds.core
        self._order = None if cluster_by is None else tuple(cluster_by)
        self._by_order: dict[tuple[SortKey, ...], _core.KeyProbes] = {}
        self.files: Positions
        if self._bounds is None or cluster_by is None:
            self.files = np.arange(num_files, dtype=np.int64)
        elif bounds is not None and len(keys) * _FEW <= num_files:
            encoded = EncodedKeys(keys.batch([key.column for key in cluster_by]), cluster_by)
            files = bounds.candidates(encoded, encoded)[1]
            self.files = files if len(keys) == 1 else np.unique(files)
        else:
            self.files = self._probes(tuple(cluster_by)).files(self._bounds)

    def _probes(self, order: tuple[SortKey, ...]) -> _core.KeyProbes:
        """Returns the keys, encoded for an index with these sort keys."""
        probes = self._by_order.get(order)
        if probes is None:
            keys = self._keys
            probes = self._by_order[order] = _core.KeyProbes(
                keys.batch([key.column for key in order]),
                [(key.descending, key.nulls_first) for key in order],
                keys.null_equals,
                keys.impossible,
            )
        return probes

    def find(self) -> RowSet:
        """Returns the live rows of the keys, ordered by key, then by file."""
        together = most_together()  # one call keeps the indexes of all its files open
        parts = [
            part
            for at in range(0, len(self.files), together)
            for part in self._find_in(self.files[at : at + together])
        ]
        none = np.empty(0, dtype=np.int64)
        if not parts:
            return RowSet(none.astype(np.uint64), None, none, len(self._keys), none)
        rows = RowSet.joined(parts)
        if len(parts) == 1:
            return rows
        assert rows.probe is not None
        assert rows.file is not None
        return rows.entries(np.lexsort((rows.file, rows.probe)))

    def _find_in(self, files: Positions) -> Iterator[RowSet]:
        together: dict[tuple[SortKey, ...], _Together] = {}
        self._prepare(files.tolist())
        order: tuple[SortKey, ...] | None = None
        for file in files.tolist():
            child, deleted_rows = self._child(file), self._deleted(file)
            opened = child.compiled(KeyIndex(self._keys.names))
            if opened is not None and opened[1] != order:  # most files have the same order
                order = opened[1]
                group = together.setdefault(order, ([], [], []))
                probes = self._probes(order)
            if opened is None or not probes.fits(opened[0]):
                rows = child.find(self._keys)
                yield (rows if deleted_rows is None else rows.minus(deleted_rows)).in_file(file)
                continue
            group[0].append(file)
            group[1].append(opened[0])
            group[2].append(deleted_rows)
        for order, (numbers, indexes, deleted) in together.items():
            # The bounds are encoded with the table's sort keys. A file's index may have others.
            bounds = self._bounds if order == self._order else None
            begin, end, key, file_of = self._probes(order).locate(
                np.array(numbers, dtype=np.int64), indexes, deleted, bounds
            )
            yield RowSet(begin, end, key, len(self._keys), file_of)
