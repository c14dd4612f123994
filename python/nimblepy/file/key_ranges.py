"""Rows between two bounds, or with a prefix, in the order of an index."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.file.indexes import CLUSTER, Index, choose
from nimblepy.file.key_probes import KeyProbes
from nimblepy.file.secondary import inclusive_sides, prefix_places
from nimblepy.rows.key_bounds import check_bound_widths, typed_bound, typed_prefix
from nimblepy.rows.keys import KeyColumns, key_columns, single_row
from nimblepy.schema.types import StartsWith


class KeyRanges(KeyProbes):
    """The part of File that answers ranges and prefixes."""

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
        reader, index = self._range_reader(columns, on)
        if reader is not None:
            found = reader.range(lower, upper, inclusive, limit, reverse)
            if type(found) is pa.Table:
                return found
            if found is not NotImplemented:
                return self._many(index, found, columns, reverse)
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
        reader, index = self._range_reader(columns, on)
        if reader is not None:
            found = reader.prefix(prefix, limit, reverse)
            if type(found) is pa.Table:
                return found
            if found is not NotImplemented:
                return self._many(index, found, columns, reverse)
        index = self._secondary(on, ordered=True)
        if index is not None:
            places = prefix_places(self, index, on, prefix)
            return self._rows_in(index, places, columns, limit, reverse)
        return self._rows(self._prefix_rows(prefix, on), columns, limit, reverse)

    def _many(
        self,
        index: Index | None,
        places: tuple[int, int],
        columns: Sequence[str] | None,
        reverse: bool,
    ) -> pa.Table:
        """Rows at places that are too many for one batch."""
        if index is None:
            return self._rows(places, columns, None, reverse)
        return self._rows_in(index, places, columns, None, reverse)

    def _range_reader(
        self, columns: Sequence[str] | None, on: str | Sequence[str] | None
    ) -> tuple[_core.RangeReader | None, Index | None]:
        """The prepared way from plain Python bounds to a table, and its index if secondary.

        It says NotImplemented to what needs coercing, and is ``None`` where no index has the order
        of ``on``: the way below through Arrow scalars then answers, or says what is wrong.
        """
        if isinstance(columns, str):
            return None, None
        names = None if columns is None else tuple(columns)
        wanted = on if on is None or isinstance(on, str) else tuple(on)
        try:
            return self._range_readers[names, wanted]
        except KeyError:
            pass
        if self._core is None:
            return None, None
        try:
            chosen = choose(self, wanted, ordered=True)
        except (IndexUnavailableError, InvalidArgumentError):
            return None, None
        width = (
            len(chosen.keys) if wanted is None else 1 if isinstance(wanted, str) else len(wanted)
        )
        projection = self._projection(columns)
        reader = _core.RangeReader(projection, chosen.number, width, StartsWith)
        index = None if chosen.number == CLUSTER else chosen
        self._range_readers[names, wanted] = reader, index
        return reader, index

    def _range_rows(
        self, lower: Any, upper: Any, on: str | Sequence[str] | None, inclusive: str
    ) -> tuple[int, int]:
        low_inclusive, high_inclusive = inclusive_sides(inclusive)
        reader, index = self._range_reader((), on)
        if reader is not None and index is None:
            found = reader.range_places(lower, upper, inclusive)
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
        reader, index = self._range_reader((), on)
        if reader is not None and index is None:
            found = reader.prefix_places(prefix)
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
        check_bound_widths(columns, *bounds)
        return columns
