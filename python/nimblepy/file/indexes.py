"""The indexes of an open file: choosing an index for a request, and searching it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import IndexUnavailableError
from nimblepy.rows.request import KeyRange, Keys, Ordered, leads, leads_to
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import OnKeys
from nimblepy.schema.columns import Column, column_at, key_name, resolve_column
from nimblepy.schema.names import ColumnName, show_names
from nimblepy.schema.types import SortKey, agrees, column_of

CLUSTER = -1


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a file.

    Attributes:
        number: number of the secondary index; :data:`CLUSTER` for the cluster index.
        kind: ``"cluster"``, ``"sorted"`` or ``"hash"``.
        keys: the sort keys in key order.
        columns: the columns of the keys.
        names: the names of the columns.
        ordered: whether it supports ranges, prefixes and positions. False for hash indexes.
    """

    number: int
    kind: str
    keys: tuple[SortKey, ...]
    columns: tuple[Column, ...]
    names: tuple[ColumnName, ...] = field(init=False, repr=False, compare=False)
    ordered: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(key.column for key in self.keys))
        object.__setattr__(self, "ordered", self.kind != "hash")

    @property
    def is_cluster(self) -> bool:
        """Whether this is the cluster index, in which positions are row numbers."""
        return self.number == CLUSTER

    def __str__(self) -> str:
        return f"{self.kind} ({', '.join(str(key) for key in self.keys)})"


class OpenIndex:
    """Searches one index of an open file.

    A place is the position of an entry in an ordered index. The keys in a range, or with a common
    prefix, have a range of places. In the cluster index, a place is a row number.
    """

    def __init__(self, index: Index, file: Any) -> None:
        self.index = index
        self.core = _core.Index(file, None if index.is_cluster else index.number)
        self._num_rows = int(file.num_rows)

    def batch(self, keys: Keys) -> pa.RecordBatch:
        """Returns the keys as a batch of the leading columns of the index."""
        return keys.batch(self.index.names[: len(keys.names)])

    def find(self, keys: Keys) -> RowSet:
        """Returns the rows of each key; the rows of one key are in ascending order."""
        if keys.between is not None:
            return self._find_between(keys)
        find = self.core.find if self.index.is_cluster else self.core.rows
        rows, probe = find(self.batch(keys), keys.null_equals, keys.impossible)
        if self.index.is_cluster:
            return RowSet(rows[:, 0], rows[:, 1], probe, len(keys))
        return RowSet(rows, None, probe, len(keys))

    def _find_between(self, keys: Keys) -> RowSet:
        low, high = keys.ends(self.index.keys[: len(keys.columns)])
        # `places` returns the range of rows whose key equals a bound; it may be empty. The result
        # reaches from the beginning of the range for `low` to the end of the range for `high`.
        first = self.core.places(low, keys.null_equals)[:, 0]
        ranges = np.stack([first, self.core.places(high, keys.null_equals)[:, 1]], axis=1)
        if keys.usable is not None:
            ranges[~keys.usable] = 0
        return RowSet.of_ranges(ranges, np.arange(len(keys), dtype=np.int64), len(keys))

    def find_first(self, keys: Keys) -> RowSet:
        """Returns the first row of a single key."""
        if keys.usable is not None and not keys.usable[0]:
            row = None
        else:
            row = self.core.find_first(self.batch(keys), keys.null_equals)
        rows = np.array([] if row is None else [row], dtype=np.uint64)
        return RowSet(rows, None, np.zeros(len(rows), dtype=np.int64), 1)

    def count(self, keys: Keys) -> Positions:
        """Returns the number of rows of each key."""
        if keys.between is not None:
            return self._find_between(keys).counts
        return self.core.count(self.batch(keys), keys.null_equals, keys.impossible)

    def places(self, request: Ordered) -> tuple[int, int]:
        """Returns the range of places of the keys in a range, or with a prefix."""
        if request.nothing:
            return 0, 0
        if isinstance(request, KeyRange):
            low, high = request.ends
            return self.core.range(low, request.lower.inclusive, high, request.upper.inclusive)
        batch = request.batch
        return (
            (0, self._num_rows) if batch is None else self.core.prefix(batch, request.starts_with)
        )

    def rows_at(self, places: tuple[int, int]) -> RowSet:
        """Returns the rows at a range of places, in index order."""
        if self.index.is_cluster:
            return RowSet.of_range(*places)
        return RowSet(self.core.rows_at(np.array([places], dtype=np.uint64)))


def indexes_of(core: Any, schema: pa.Schema) -> tuple[Index, ...]:
    """Returns all indexes of a core file, the cluster index first."""

    def make(number: int, kind: str, parts: Sequence[tuple[Sequence[int], bool, bool]]) -> Index:
        columns = tuple(column_at(schema, steps) for steps, _, _ in parts)
        keys = tuple(
            SortKey(key_name(schema, column), descending=descending, nulls_first=nulls_first)
            for column, (_, descending, nulls_first) in zip(columns, parts, strict=True)
        )
        return Index(number, kind, keys, columns)

    indexes = [make(CLUSTER, "cluster", core.key_columns)] if core.key_columns else []
    indexes += [make(number, kind, parts) for number, (kind, parts, *_) in enumerate(core.indexes)]
    return tuple(indexes)


def choose(indexes: Sequence[Index], schema: pa.Schema, on: OnKeys, *, ordered: bool) -> Index:
    """Chooses the cheapest index on the columns ``on``; ``None`` means the cluster key.

    The cluster index is preferred, because the rows of a key are adjacent in the file. The second
    choice is a hash index on exactly these columns. The last choice is the sorted index with the
    fewest columns that begins with these columns.

    Args:
        ordered: requires an ordered index that begins with ``on`` in this order. Sort keys in
            ``on`` must have the same direction in the index.

    Raises:
        IndexUnavailableError: no index has these columns; the message lists the existing indexes.
        InvalidArgumentError: a column does not exist.
    """
    if on is None:
        if indexes and indexes[0].is_cluster:
            return indexes[0]
        if not indexes:
            raise IndexUnavailableError("there is no index; scan with a filter instead")
        raise IndexUnavailableError(
            f"there is no cluster key; pass on= with the columns of one of {names_of(indexes)}"
        )
    names = tuple(map(column_of, on))
    for name in names:
        resolve_column(schema, name)
    able = [index for index in indexes if _answers(index, names)]
    if ordered:
        in_order = [i for i in able if i.ordered and agrees(on, i.keys)]
        if not in_order and any(i.ordered for i in able):
            orders = " or ".join(", ".join(map(str, i.keys[: len(on)])) for i in able if i.ordered)
            raise IndexUnavailableError(f"bounds need the columns in key order: {orders}")
        able = in_order
    if not able:
        raise IndexUnavailableError(
            f"no index on ({show_names(names)})"
            + (" with an order" if ordered else "")
            + f"; indexes: {names_of(indexes)}"
        )
    rank = {"cluster": 0, "hash": 1, "sorted": 2}
    return min(able, key=lambda i: (rank[i.kind], len(i.keys), i.number))


def choose_for_asof(
    indexes: Sequence[Index], schema: pa.Schema, by: Sequence[ColumnName], on: ColumnName
) -> Index:
    """Chooses an ordered index that begins with the columns ``by`` in any order, then ``on``.

    Raises:
        IndexUnavailableError: no index begins with these columns; the message lists the existing
            ones.
        InvalidArgumentError: a column does not exist.
    """
    for name in (*by, on):
        resolve_column(schema, name)
    able = [index for index in indexes if index.ordered and leads_to(index.keys, by, on)]
    if not able:
        raise IndexUnavailableError(
            f"no index begins with ({show_names((*by, on))}); an as-of search needs a cluster key "
            f"or sorted index on them, with {show_names([on])} after the others; "
            f"indexes: {names_of(indexes)}"
        )
    return min(able, key=lambda index: (not index.is_cluster, len(index.keys), index.number))


def _answers(index: Index, on: tuple[ColumnName, ...]) -> bool:
    return leads(on, index.keys) and (index.ordered or len(on) == len(index.keys))


def names_of(indexes: Sequence[Index]) -> str:
    """Returns a list of the indexes for messages."""
    return ", ".join(map(str, indexes)) or "none"
