"""Lookups by key: one row as a dict, many keys as a table, and what the index alone says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.key_ranges import KeyRanges
from nimblepy.file.secondary import range_table

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _quick(method: _Method) -> _Method:
    """``method`` called only where the core cannot answer without it."""
    quick = _core.quick_get(method)
    functools.update_wrapper(quick, method)
    return quick


class KeyLookups(KeyRanges):
    """The part of File that answers by key."""

    @_quick
    def get(
        self,
        key: Any,
        columns: Sequence[str] | None = None,
        *,
        on: str | Sequence[str] | None = None,
        default: Any = None,
        null_equals: bool = False,
    ) -> Any:
        """One row as a dict of Python values, ``default`` where no row has the key.

        Of several matches the first in file order. The fastest way to read one row from Python.

        Args:
            key: a scalar; a tuple or dict for a key of several columns.
            null_equals: a null in ``key`` matches null keys instead of nothing.

        Raises:
            IndexUnavailableError: no index on the columns of ``on``.
            InvalidArgumentError: a value of the wrong type, an unknown column.

        Cost: two binary searches and one block a column, without I/O once these are in memory.
        """
        place: Any = None if columns is None else tuple(columns)
        if on is not None:
            place = (place, on if isinstance(on, str) else tuple(on))
        try:
            get, read = self._points[place]
        except KeyError:
            get, read = self._points[place] = self._make_point(columns, on)
            if place is None:
                self._quick = get
        row = get(key)
        if row is not NotImplemented:
            return default if row is None else row
        index = self._secondary(on)
        if index is not None and read is None:
            found, _ = self._lookup_in(index, [key], on, columns, null_equals, one=True)
            return found.slice(0, 1).to_pylist()[0] if found.num_rows else default
        if index is not None:
            _, rows = self._find_in(index, [key], on, null_equals, one=True)
            return read(int(rows[0])) if len(rows) else default
        ranges, _ = self._find([key], on, null_equals, one=True)
        begin, end = int(ranges[0, 0]), int(ranges[0, 1])
        return read(begin) if begin < end else default

    def lookup(
        self,
        keys: Any,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        probe_row: str | None = None,
        null_equals: bool = False,
    ) -> pa.Table:
        """All rows that match any of ``keys``, by probe position, then file order.

        Args:
            keys: Arrow array, numpy array, list of scalars or of tuples, or tabular data whose
                columns are the key columns. A key given twice answers twice.
            on: the indexed columns; the default is the cluster key. Leading columns of it match
                every row that begins with these values.
            probe_row: name of an int64 column to put first: position of the key that matched.
            null_equals: nulls match null keys; otherwise a key with a null matches nothing.

        Raises:
            IndexUnavailableError, InvalidArgumentError: as :meth:`get`.

        Cost: keys are sorted once; every key chunk and block they touch is read once. Columns
        of the key are not read: matching keys have their values. One thread; the GIL is free.
        """
        index = self._secondary(on)
        if index is not None:
            table, probes = self._lookup_in(index, keys, on, columns, null_equals)
        else:
            table, probes = self._matches(keys, on, columns, null_equals)
        if probe_row is None:
            return table
        if probe_row in table.column_names:
            raise InvalidArgumentError(f"probe_row: there is a column {probe_row!r} already")
        return table.add_column(
            0, pa.field(probe_row, pa.int64(), nullable=False), pa.array(probes)
        )

    def contains(
        self, keys: Any, *, on: str | Sequence[str] | None = None, null_equals: bool = False
    ) -> pa.BooleanArray:
        """For each key whether any row has it.

        Cost: the index only; a hash index holds no keys, so the key columns of rows that it names
        are read as well.
        """
        index = self._secondary(on)
        if index is not None:
            return pa.array(self._count_in(index, keys, on, null_equals) > 0)
        ranges, _ = self._find(keys, on, null_equals)
        return pa.array(ranges[:, 1] > ranges[:, 0])

    def count(
        self, keys: Any, *, on: str | Sequence[str] | None = None, null_equals: bool = False
    ) -> pa.Int64Array:
        """For each key how many rows have it. Cost: as :meth:`contains`."""
        index = self._secondary(on)
        if index is not None:
            return pa.array(self._count_in(index, keys, on, null_equals).astype(np.int64))
        ranges, _ = self._find(keys, on, null_equals)
        return pa.array((ranges[:, 1] - ranges[:, 0]).astype(np.int64))

    def row_ranges(
        self,
        keys: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
        prefix: Any = None,
        on: str | Sequence[str] | None = None,
        inclusive: str = "[)",
        null_equals: bool = False,
    ) -> pa.Table:
        """The index's own answer: ``probe_row``, ``begin``, ``end`` (half-open file rows).

        Give ``keys``, or ``lower`` / ``upper``, or ``prefix``. Keys that match nothing are left
        out.
        """
        bounded = lower is not None or upper is not None or prefix is not None
        index = self._secondary(on, ordered=keys is None)
        if keys is not None and bounded:
            raise InvalidArgumentError("row_ranges: give keys, or bounds, or a prefix")
        if index is not None:
            return self._ranges_in(index, keys, (lower, upper, inclusive), prefix, on, null_equals)
        if keys is not None:
            ranges, _ = self._find(keys, on, null_equals)
        elif prefix is not None:
            if lower is not None or upper is not None:
                raise InvalidArgumentError("row_ranges: give bounds or a prefix, not both")
            ranges = np.array([self._prefix_rows(prefix, on)], dtype=np.uint64)
        else:
            found = self._range_rows(lower, upper, on, inclusive)
            ranges = np.array([found], dtype=np.uint64)
        hits = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
        return range_table(hits, ranges[hits])
