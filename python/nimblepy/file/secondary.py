"""Questions that a secondary index answers: rows by key, by range, by prefix.

Its rows lie anywhere in the file. What comes back is rows in probe order, or in the order of the
index's key; the file then takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.handle import FileBase, limited
from nimblepy.file.indexes import CLUSTER, Index, choose
from nimblepy.rows.key_bounds import check_bound_widths, typed_bound, typed_prefix
from nimblepy.rows.keys import KeyColumns, Probes, key_columns, probe_batch, single_row

Rows = np.ndarray[Any, np.dtype[np.uint64]]
Names = str | Sequence[str] | None

_INCLUSIVE = {"[)": (True, False), "[]": (True, True), "()": (False, False), "(]": (False, True)}


def probes_of(index: Index, keys: Any, on: Names) -> Probes:
    """``keys`` as the columns of the index that ``on`` names."""
    return probe_batch(keys, key_columns(index.keys, index.types, on))


def find_rows(file: FileBase, index: Index, probes: Probes, null_equals: bool) -> tuple[Rows, Rows]:
    """Rows of each probe, ascending: those of probe i are ``rows[ends[i - 1]:ends[i]]``."""
    ends, rows = _core.index_find(file._open, index.number, probes.batch, null_equals, False)
    impossible = probes.impossible
    if null_equals and impossible is not None and impossible.any():
        counts = np.diff(ends, prepend=np.uint64(0))
        rows = rows[np.repeat(~impossible, counts.astype(np.int64))]
        ends = np.cumsum(np.where(impossible, 0, counts), dtype=np.uint64)
    return ends, rows


def candidates(
    file: FileBase, index: Index, probes: Probes, null_equals: bool
) -> tuple[Rows, Rows]:
    """The same through an index without keys, rows of other keys still among them."""
    return _core.index_find(file._open, index.number, probes.batch, null_equals, True)


def count_rows(file: FileBase, index: Index, probes: Probes, null_equals: bool) -> Rows:
    """How many rows each probe has."""
    counts = _core.index_count(file._open, index.number, probes.batch, null_equals)
    if null_equals and probes.impossible is not None:
        counts[probes.impossible] = 0
    return counts


def probe_numbers(ends: Rows) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each row of :func:`find_rows` the probe that it answers."""
    counts = np.diff(ends, prepend=np.uint64(0)).astype(np.int64)
    return np.repeat(np.arange(len(ends), dtype=np.int64), counts)


def range_places(
    file: FileBase, index: Index, on: Names, lower: Any, upper: Any, inclusive: tuple[bool, bool]
) -> tuple[int, int]:
    """Places of the keys between two bounds, in the order of the index."""
    columns = _bound_columns(index, on, lower, upper)
    low = typed_bound(lower, inclusive[0], columns, lower=True)
    high = typed_bound(upper, inclusive[1], columns, lower=False)
    if low is None or high is None:
        return 0, 0
    begin, end = _core.index_range(
        file._open,
        index.number,
        single_row(columns.names[: len(low.values)], low.values) if low.values else None,
        low.inclusive,
        single_row(columns.names[: len(high.values)], high.values) if high.values else None,
        high.inclusive,
        False,
    )
    return begin, end


def prefix_places(file: FileBase, index: Index, on: Names, prefix: Any) -> tuple[int, int]:
    """Places of the keys that begin with ``prefix``."""
    columns = _bound_columns(index, on, prefix)
    typed = typed_prefix(prefix, columns)
    if typed is None:
        return 0, 0
    values, starts_with = typed
    if not values:
        return 0, file.num_rows
    batch = single_row(columns.names[: len(values)], values)
    begin, end = _core.index_prefix(file._open, index.number, batch, starts_with)
    return begin, end


def rows_at(file: FileBase, index: Index, places: tuple[int, int], reverse: bool = False) -> Rows:
    """The rows at these places, in the order of the index, or backwards."""
    rows = _core.index_rows(file._open, index.number, np.array([places], dtype=np.uint64))
    return np.ascontiguousarray(rows[::-1]) if reverse else rows


def as_ranges(rows: Rows, probes: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], Rows]:
    """Runs of neighbouring rows of one probe: (probe, half-open ranges) of each."""
    if not len(rows):
        return probes, np.empty((0, 2), dtype=np.uint64)
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(probes) != 0)) + 1
    begins = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(rows)])) - 1
    return probes[begins], np.column_stack((rows[begins], rows[ends] + np.uint64(1)))


def _bound_columns(index: Index, on: Names, *bounds: Any) -> KeyColumns:
    columns = key_columns(index.keys, index.types, on)
    check_bound_widths(columns, *bounds)
    return columns


def check_one(key: Any, names: Sequence[str]) -> None:
    if len(names) > 1 and not isinstance(key, (tuple, list, Mapping)):
        raise InvalidArgumentError(
            f"key {key!r}: the key has {len(names)} columns ({', '.join(names)}); "
            "pass a tuple or a dict"
        )


def inclusive_sides(text: str) -> tuple[bool, bool]:
    if text not in _INCLUSIVE:
        raise InvalidArgumentError(
            f"inclusive: expected one of {', '.join(map(repr, _INCLUSIVE))}, got {text!r}"
        )
    return _INCLUSIVE[text]


def range_table(probes: np.ndarray[Any, Any], ranges: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table(
        {
            "probe_row": pa.array(probes.astype(np.int64)),
            "begin": pa.array(ranges[:, 0].astype(np.int64)),
            "end": pa.array(ranges[:, 1].astype(np.int64)),
        }
    )


class SecondaryLookups(FileBase):
    """The part of File that asks secondary indexes."""

    def _secondary(self, on: Names, *, ordered: bool = False) -> Index | None:
        """The secondary index that answers for ``on``; ``None``: the cluster index does."""
        if on is None and self._keys:
            return None
        index = choose(self, on, ordered=ordered)
        return None if index.number == CLUSTER else index

    def _find_in(
        self, index: Index, keys: Any, on: Names, null_equals: bool, *, one: bool = False
    ) -> tuple[Rows, Rows]:
        if one:
            check_one(keys[0], index.names if on is None else [on] if isinstance(on, str) else on)
        probes = probes_of(index, keys, on)
        return find_rows(self, index, probes, null_equals)

    def _lookup_in(
        self,
        index: Index,
        keys: Any,
        on: Names,
        columns: Sequence[str] | None,
        null_equals: bool,
        *,
        one: bool = False,
    ) -> tuple[pa.Table, np.ndarray[Any, np.dtype[np.int64]]]:
        """The rows of :meth:`lookup`, and for each the position of its key."""
        if index.ordered or self._open.is_mapped or null_equals:
            ends, rows = self._find_in(index, keys, on, null_equals, one=one)
            return self._take(rows, columns), probe_numbers(ends)
        # What settles a candidate comes with the row itself: one round of reads, not two.
        if one:
            check_one(keys[0], index.names)
        probes = probes_of(index, keys, on)
        ends, rows = candidates(self, index, probes, null_equals)
        names = self._schema.names if columns is None else list(columns)
        self._projection(columns)  # says what is wrong with them
        both = [*names, *(name for name in index.names if name not in names)]
        table = self._take(rows, both)
        if not len(rows):
            return table.select(names), probe_numbers(ends)
        (batch,) = table.select(list(index.names)).combine_chunks().to_batches()
        same = _core.index_settle(self._open, index.number, probes.batch, ends, batch)
        numbers = probe_numbers(ends)
        if same.all():
            return table.select(names), numbers
        return self._take(rows[same], columns), numbers[same]

    def _count_in(self, index: Index, keys: Any, on: Names, null_equals: bool) -> Rows:
        probes = probes_of(index, keys, on)
        return count_rows(self, index, probes, null_equals)

    def _range_places(
        self, index: Index, on: Names, lower: Any, upper: Any, inclusive: str
    ) -> tuple[int, int]:
        return range_places(self, index, on, lower, upper, inclusive_sides(inclusive))

    def _ranges_in(
        self,
        index: Index,
        keys: Any,
        bounds: tuple[Any, Any, str],
        prefix: Any,
        on: Names,
        null_equals: bool,
    ) -> pa.Table:
        """:meth:`row_ranges` of a secondary index; those of bounds in key order."""
        if keys is not None:
            ends, rows = self._find_in(index, keys, on, null_equals)
            return range_table(*as_ranges(rows, probe_numbers(ends)))
        if prefix is not None:
            if bounds[0] is not None or bounds[1] is not None:
                raise InvalidArgumentError("row_ranges: give bounds or a prefix, not both")
            places = prefix_places(self, index, on, prefix)
        else:
            places = self._range_places(index, on, *bounds)
        rows = rows_at(self, index, places)
        return range_table(*as_ranges(rows, np.zeros(len(rows), dtype=np.int64)))

    def _rows_in(
        self,
        index: Index,
        places: tuple[int, int],
        columns: Sequence[str] | None,
        limit: int | None,
        reverse: bool,
    ) -> pa.Table:
        """Rows at places of a secondary index; a limit is applied before any is read."""
        places = limited(places, limit, reverse)
        return self._take(rows_at(self, index, places, reverse), columns)
