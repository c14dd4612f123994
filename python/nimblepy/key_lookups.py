"""Lookups by key: one row as a dict, many keys as a table, ranges and prefixes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.key_probes import KeyProbes
from nimblepy.keys import (
    KeyColumns,
    as_tuple,
    key_columns,
    single_row,
    typed_bound,
    typed_prefix,
)
from nimblepy.secondary import (
    inclusive_sides,
    prefix_places,
    range_table,
)
from nimblepy.types import StartsWith


class KeyLookups(KeyProbes):
    """The part of File that answers by key."""

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

    def range(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        on: str | Sequence[str] | None = None,
        inclusive: str = "[)",
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        """Rows between two bounds in key order, in key order.

        Bounds are places in the order of the key: for a descending column ``lower`` is the larger
        value, and an unbounded side takes in the nulls at that end. For rows by the values of a
        column whatever its direction, use ``scan(filter=...)``; the index answers that as well.

        Args:
            lower, upper: a scalar or tuple; one shorter than the key stands for all keys that
                begin with it; ``None`` is unbounded.
            inclusive: ``"[)"``, ``"[]"``, ``"()"`` or ``"(]"``.
            limit: most rows to return.
            reverse: largest key first; with ``limit`` the last rows of the range.
        """
        reader = self._range_reader(columns, on)
        if reader is not None:
            found = reader.range(lower, upper, inclusive, limit, reverse)
            if type(found) is pa.Table:
                return found
            if found is not NotImplemented:
                return self._rows(found, columns, None, reverse)
        index = self._secondary(on, ordered=True)
        if index is not None:
            places = self._range_places(index, on, lower, upper, inclusive)
            return self._rows_in(index, places, columns, limit, reverse)
        return self._rows(self._range_rows(lower, upper, on, inclusive), columns, limit, reverse)

    def prefix(
        self,
        prefix: Any,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        """Rows whose leading key columns equal ``prefix``, in key order.

        Args:
            prefix: a scalar or tuple; the last element may be :func:`nimblepy.starts_with`.
        """
        reader = self._range_reader(columns, on)
        if reader is not None:
            found = reader.prefix(prefix, limit, reverse)
            if type(found) is pa.Table:
                return found
            if found is not NotImplemented:
                return self._rows(found, columns, None, reverse)
        index = self._secondary(on, ordered=True)
        if index is not None:
            places = prefix_places(self, index, on, prefix)
            return self._rows_in(index, places, columns, limit, reverse)
        return self._rows(self._prefix_rows(prefix, on), columns, limit, reverse)

    def _range_reader(
        self, columns: Sequence[str] | None, on: str | Sequence[str] | None
    ) -> _core.RangeReader | None:
        """The prepared way from plain Python bounds to a table.

        It says NotImplemented to what needs coercing, and is ``None`` where ``on`` is anything but
        the first columns of the cluster key in key order: the way below through Arrow scalars then
        answers, or says what is wrong.
        """
        if isinstance(columns, str):
            return None
        names = None if columns is None else tuple(columns)
        wanted = on if on is None or isinstance(on, str) else tuple(on)
        try:
            return self._range_readers[names, wanted]
        except KeyError:
            pass
        reader = None
        key = tuple(k.column for k in self._keys)
        leading = key if wanted is None else (wanted,) if isinstance(wanted, str) else wanted
        if self._core is not None and leading and leading == key[: len(leading)]:
            projection = self._projection(columns)
            reader = _core.RangeReader(projection, len(leading), StartsWith)
        self._range_readers[names, wanted] = reader
        return reader

    def _range_rows(
        self, lower: Any, upper: Any, on: str | Sequence[str] | None, inclusive: str
    ) -> tuple[int, int]:
        low_inclusive, high_inclusive = inclusive_sides(inclusive)
        reader = self._range_reader((), on)
        if reader is not None:
            found = reader.range_rows(lower, upper, inclusive)
            if found is not NotImplemented:
                return int(found[0]), int(found[1])
        columns = self._bound_columns(on, lower, upper)
        low = typed_bound(lower, low_inclusive, columns, lower=True)
        high = typed_bound(upper, high_inclusive, columns, lower=False)
        if low is None or high is None:
            return 0, 0
        begin, end = _core.find_range(
            self._open,
            single_row(columns.names[: len(low.values)], low.values) if low.values else None,
            low.inclusive,
            single_row(columns.names[: len(high.values)], high.values) if high.values else None,
            high.inclusive,
            False,
        )
        return int(begin), int(end)

    def _prefix_rows(self, prefix: Any, on: str | Sequence[str] | None) -> tuple[int, int]:
        reader = self._range_reader((), on)
        if reader is not None:
            found = reader.prefix_rows(prefix)
            if found is not NotImplemented:
                return int(found[0]), int(found[1])
        columns = self._bound_columns(on, prefix)
        typed = typed_prefix(prefix, columns)
        if typed is None:
            return 0, 0
        values, starts_with = typed
        if not values:
            return 0, self.num_rows
        batch = single_row(columns.names[: len(values)], values)
        begin, end = _core.find_prefix(self._open, batch, starts_with)
        return int(begin), int(end)

    def _bound_columns(self, on: str | Sequence[str] | None, *bounds: Any) -> KeyColumns:
        self._check_names(on)
        columns = key_columns(self._keys, self._key_types, on)
        if columns.given != tuple(builtins.range(len(columns.given))):
            raise IndexUnavailableError(
                f"bounds need the columns in key order: {', '.join(columns.names)}"
            )
        for bound in bounds:
            n = 0 if bound is None else len(as_tuple(bound))
            if n > len(columns.names):
                raise InvalidArgumentError(
                    f"bound {bound!r}: {n} values for the key ({', '.join(columns.names)})"
                )
        return columns
