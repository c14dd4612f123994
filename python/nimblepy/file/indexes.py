"""The indexes of an open file: which of them answers a request, and how each is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import IndexUnavailableError
from nimblepy.rows.request import KeyRange, Keys, Ordered
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import Names
from nimblepy.schema.columns import Column, column_at, resolve_column
from nimblepy.schema.types import SortKey

CLUSTER = -1


class Index(ABC):
    """An index of an open file.

    An ordered index has its keys at positions, which are numbered in key order; a range or prefix
    is a range of positions. In the cluster index a position is a row.

    Attributes:
        number: place among the secondary indexes; :data:`CLUSTER` is the cluster index.
        kind: ``"cluster"``, ``"sorted"`` or ``"hash"``.
        keys: its sort keys in key order.
        columns: the columns of these.
    """

    def __init__(
        self, number: int, kind: str, keys: tuple[SortKey, ...], columns: tuple[Column, ...]
    ) -> None:
        self.number = number
        self.kind = kind
        self.keys = keys
        self.columns = columns

    @property
    def ordered(self) -> bool:
        """It has bounds and prefixes; a hash answers whole keys only."""
        return self.kind != "hash"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key.column for key in self.keys)

    @abstractmethod
    def find(self, core: Any, keys: Keys) -> RowSet:
        """The rows of each key, those of one key ascending."""

    @abstractmethod
    def count(self, core: Any, keys: Keys) -> Positions:
        """How many rows each key has."""

    @abstractmethod
    def rows_at(self, core: Any, positions: np.ndarray[Any, np.dtype[np.uint64]]) -> RowSet:
        """The rows at half-open ranges of positions, in the order of the index."""

    def positions(self, core: Any, request: Ordered) -> tuple[int, int]:
        """Positions of the keys in a range or with a prefix."""
        if request.nothing:
            return 0, 0
        if isinstance(request, KeyRange):
            return _core.index_range(
                core,
                self.number,
                request.batch(request.lower),
                request.lower.inclusive,
                request.batch(request.upper),
                request.upper.inclusive,
                False,
            )
        batch = request.batch
        if batch is None:
            return 0, int(core.num_rows)
        return _core.index_prefix(core, self.number, batch, request.starts_with)

    def __str__(self) -> str:
        return f"{self.kind} ({', '.join(str(key) for key in self.keys)})"


class ClusterIndex(Index):
    """The order of the rows themselves: the rows of a key are neighbours."""

    def find(self, core: Any, keys: Keys) -> RowSet:
        ranges = self._ranges(core, keys)
        probe = np.arange(len(ranges), dtype=np.int64)
        return RowSet.of_ranges(ranges, probe, len(ranges))

    def count(self, core: Any, keys: Keys) -> Positions:
        ranges = self._ranges(core, keys)
        return np.maximum(ranges[:, 1].astype(np.int64) - ranges[:, 0].astype(np.int64), 0)

    def rows_at(self, core: Any, positions: np.ndarray[Any, np.dtype[np.uint64]]) -> RowSet:
        return RowSet.of_ranges(positions)

    def _ranges(self, core: Any, keys: Keys) -> np.ndarray[Any, np.dtype[np.uint64]]:
        names = self.names[: len(keys.columns)]
        if keys.between is None:
            ranges = _core.find_keys(core, keys.batch(names), keys.null_equals)
        else:
            low, high = keys.ends(self.keys[: len(names)])
            # A bound that no row has is an empty range at its place; what equals the upper one
            # ends where the second range does.
            first = _core.find_keys(core, low, keys.null_equals, places=True)
            last = _core.find_keys(core, high, keys.null_equals, places=True)
            ranges = np.stack([first[:, 0], last[:, 1]], axis=1)
        if keys.usable is not None:
            ranges[~keys.usable] = 0
        return ranges


class SecondaryIndex(Index):
    """A hash or sorted index: the rows of a key may lie anywhere."""

    def find(self, core: Any, keys: Keys) -> RowSet:
        asked, at = _usable(keys)
        batch = asked.batch(self.names[: len(keys.names)])
        ends, rows = _core.index_find(core, self.number, batch, keys.null_equals, False)
        probe = probe_numbers(ends)
        return RowSet(rows, None, probe, len(ends)).for_probes(at, len(keys))

    def count(self, core: Any, keys: Keys) -> Positions:
        asked, at = _usable(keys)
        batch = asked.batch(self.names[: len(keys.names)])
        found = _core.index_count(core, self.number, batch, keys.null_equals).astype(np.int64)
        if at is None:
            return found
        counts = np.zeros(len(keys), dtype=np.int64)
        counts[at] = found
        return counts

    def rows_at(self, core: Any, positions: np.ndarray[Any, np.dtype[np.uint64]]) -> RowSet:
        return RowSet(_core.index_rows(core, self.number, positions))

    def candidates(self, core: Any, batch: pa.RecordBatch) -> tuple[Any, Any]:
        """Rows that may have each key, ``(ends, rows)``: a hash index has no keys to compare."""
        return _core.index_find(core, self.number, batch, False, True)


def probe_numbers(ends: np.ndarray[Any, Any]) -> Positions:
    """For each row the probe that it answers; those of probe i end at ``ends[i]``."""
    counts = np.diff(ends, prepend=np.uint64(0)).astype(np.int64)
    return np.repeat(np.arange(len(ends), dtype=np.int64), counts)


def _usable(keys: Keys) -> tuple[Keys, Positions | None]:
    """The keys that can match, and their positions where these are not all."""
    if keys.usable is None or keys.usable.all():
        return keys, None
    at = np.flatnonzero(keys.usable)
    return keys.take(at), at


def indexes_of(core: Any, schema: pa.Schema) -> tuple[Index, ...]:
    """All indexes of a core file, the cluster index first."""

    def make(number: int, kind: str, parts: Sequence[tuple[Sequence[int], bool, bool]]) -> Index:
        columns = tuple(column_at(schema, steps) for steps, _, _ in parts)
        keys = tuple(
            SortKey(column.name, descending=descending, nulls_first=nulls_first)
            for column, (_, descending, nulls_first) in zip(columns, parts, strict=True)
        )
        index = ClusterIndex if number == CLUSTER else SecondaryIndex
        return index(number, kind, keys, columns)

    found = [make(CLUSTER, "cluster", core.key_columns)] if core.key_columns else []
    found += [make(number, kind, parts) for number, (kind, parts, *_) in enumerate(core.indexes)]
    return tuple(found)


def choose(indexes: Sequence[Index], schema: pa.Schema, on: Names, *, ordered: bool) -> Index:
    """The cheapest index on the columns ``on``; ``None`` is the cluster key.

    The cluster index comes first, since the rows of its keys are neighbours; then a hash index on
    just these columns; then the sorted index with the fewest columns that begins with them.

    Args:
        ordered: it must have bounds, and its first columns must be ``on`` in this order.

    Raises:
        IndexUnavailableError: there is none; the message names those that exist.
        InvalidArgumentError: a column that the file does not have.
    """
    if on is None:
        if indexes and indexes[0].number == CLUSTER:
            return indexes[0]
        if not indexes:
            raise IndexUnavailableError("this file has no index; scan with a filter instead")
        raise IndexUnavailableError(
            f"this file has no cluster key; pass on= with the columns of one of {names_of(indexes)}"
        )
    for name in on:
        resolve_column(schema, name)
    able = [index for index in indexes if _answers(index, on)]
    if ordered:
        in_order = [i for i in able if i.ordered and i.names[: len(on)] == on]
        if not in_order and any(i.ordered for i in able):
            names = ", ".join(next(i for i in able if i.ordered).names)
            raise IndexUnavailableError(f"bounds need the columns in key order: {names}")
        able = in_order
    if not able:
        raise IndexUnavailableError(
            f"no index on ({', '.join(on)})"
            + (" with an order" if ordered else "")
            + f"; indexes of this file: {names_of(indexes)}"
        )
    rank = {"cluster": 0, "hash": 1, "sorted": 2}
    return min(able, key=lambda i: (rank[i.kind], len(i.keys), i.number))


def _answers(index: Index, on: tuple[str, ...]) -> bool:
    leading = index.names[: len(on)]
    whole = len(on) == len(index.keys)
    return sorted(leading) == sorted(on) and (index.ordered or whole)


def names_of(indexes: Sequence[Index]) -> str:
    """The indexes for a message."""
    return ", ".join(map(str, indexes)) or "none"
