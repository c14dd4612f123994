"""Finding keys in many files at once: which files can have them, and one call of the core for all.

Keys are encoded, sorted and hashed once. Files that the core cannot ask, such as Parquet, are asked
one by one, and the answers are put together.
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

# Files for each key from which on a search for each costs less than a look at all bounds.
_FEW = 1024

Child = Callable[[int], RowSource]
Deleted = Callable[[int], _core.RowBitmap | None]
Prepare = Callable[[Sequence[int]], None]
# Files that are asked in one call: their numbers, their indexes, what is deleted of each.
_Together = tuple[list[int], list[_core.Index], list[_core.RowBitmap | None]]


class AskedKeys:
    """Keys on their way to many files.

    Attributes:
        files: those that may have one of the keys, ascending.
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
        """``cluster_by``: the first columns of the cluster key, where the keys are of these;
        ``bounds`` are of use only then.
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
            found = bounds.candidates(encoded, encoded)[1]
            self.files = found if len(keys) == 1 else np.unique(found)
        else:
            self.files = self._probes(tuple(cluster_by)).files(self._bounds)

    def _probes(self, order: tuple[SortKey, ...]) -> _core.KeyProbes:
        """The keys in the order of an index."""
        known = self._by_order.get(order)
        if known is None:
            keys = self._keys
            known = self._by_order[order] = _core.KeyProbes(
                keys.batch([key.column for key in order]),
                [(key.descending, key.nulls_first) for key in order],
                keys.null_equals,
                keys.impossible,
            )
        return known

    def find(self) -> RowSet:
        """The rows of each key that are not deleted, key by key, those of one key by file."""
        together = most_together()  # their indexes are held open for one call
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
            child, gone = self._child(file), self._deleted(file)
            found = child.compiled(KeyIndex(self._keys.names))
            if found is not None and found[1] != order:  # of most files it is the same
                order = found[1]
                asked = together.setdefault(order, ([], [], []))
                probes = self._probes(order)
            if found is None or not probes.fits(found[0]):
                rows = child.find(self._keys)
                yield (rows if gone is None else rows.minus(gone)).in_file(file)
                continue
            asked[0].append(file)
            asked[1].append(found[0])
            asked[2].append(gone)
        for order, (numbers, indexes, deleted) in together.items():
            # Bounds are encoded in the table's order, which a file's own index may not have.
            bounds = self._bounds if order == self._order else None
            begin, end, key, file_of = self._probes(order).locate(
                np.array(numbers, dtype=np.int64), indexes, deleted, bounds
            )
            yield RowSet(begin, end, key, len(self._keys), file_of)
