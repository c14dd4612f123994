"""Requests for rows: keys, a range of keys, a prefix, or a filter.

A request does not depend on a file. Its values are converted to the column types once, and the same
request is sent to every file that may have matching rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.expr.filter import Filter
from nimblepy.rows.gather import gather_array
from nimblepy.rows.key_bounds import TypedBound, as_tuple, in_order, typed_bound, typed_prefix
from nimblepy.rows.keys import KeyColumns, key_batch, single_row
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.schema.names import ColumnName, show_names
from nimblepy.schema.types import KeyColumn, SortKey, agrees

Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Requests the rows of the given keys. The answer has the position of each row's key.

    Attributes:
        names: the columns, in any order.
        values: the keys' values, one array per column.
        usable: whether each key can match. ``None`` means that every key can match.
        null_equals: whether a null equals null. Otherwise a null does not match any row.
        between: if set, the next column of the cluster key. A row matches a key only if its value
            is from the key's ``lower`` to the key's ``upper``, inclusive.
    """

    names: tuple[ColumnName, ...]
    values: tuple[pa.Array, ...]
    usable: Mask | None = None
    null_equals: bool = False
    between: ColumnName | None = None
    lower: pa.Array | None = None
    upper: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.lower if self.lower is not None else self.values[0])

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """The columns that an index must begin with, in any order."""
        return self.names if self.between is None else (*self.names, self.between)

    @property
    def impossible(self) -> Mask | None:
        """The negation of ``usable``: for each key, whether it cannot match."""
        return None if self.usable is None else ~self.usable

    def take(self, probes: Positions) -> Keys:
        """Returns the keys at the positions ``probes``."""
        at = pa.array(probes)
        return replace(
            self,
            values=tuple(gather_array(value, at) for value in self.values),
            usable=None if self.usable is None else self.usable[probes],
            lower=None if self.lower is None else gather_array(self.lower, at),
            upper=None if self.upper is None else gather_array(self.upper, at),
        )

    def batch(self, names: Sequence[ColumnName], bound: pa.Array | None = None) -> pa.RecordBatch:
        """Returns the keys as columns in the order ``names``.

        Args:
            bound: values of the column ``between``; then ``between`` must be the last of ``names``.
        """
        arrays = dict(zip(self.names, self.values, strict=True))
        if bound is not None:
            assert self.between is not None
            arrays[self.between] = bound
        return key_batch(names, [arrays[name] for name in names])

    def ends(self, keys: Sequence[SortKey]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Returns the first and the last key that can match, for each key of the request.

        Args:
            keys: the sort keys of the columns, in the order of the result.
        """
        names = [key.column for key in keys]
        if self.between is None:
            batch = self.batch(names)
            return batch, batch
        low, high = self.batch(names, self.lower), self.batch(names, self.upper)
        return (high, low) if keys[-1].descending else (low, high)


@dataclass(frozen=True, slots=True, eq=False)
class KeyRange:
    """Requests the rows between two bounds, in the order of an index.

    Attributes:
        keys: the sort keys of the index that the bounds have values for.
        nothing: whether the range is empty, whatever the data.
    """

    keys: tuple[SortKey, ...]
    lower: TypedBound
    upper: TypedBound
    nothing: bool = False

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        return tuple(key.column for key in self.keys)

    def batch(self, bound: TypedBound) -> pa.RecordBatch | None:
        """Returns a bound as one row; ``None`` if this side is unbounded."""
        return _row(self.columns, bound.values)

    @property
    def ends(self) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
        """Leading columns of the first key and of the last key that can be in the range."""
        return self.batch(self.lower), self.batch(self.upper)


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """Requests the rows whose leading key columns equal ``values``, in the order of an index.

    Attributes:
        starts_with: whether the last column must begin with the last value, not equal it.
        nothing: whether no row can have the prefix, whatever the data.
    """

    keys: tuple[SortKey, ...]
    values: tuple[pa.Scalar, ...]
    starts_with: bool = False
    nothing: bool = False

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        return tuple(key.column for key in self.keys)

    @property
    def batch(self) -> pa.RecordBatch | None:
        return _row(self.columns, self.values)

    @property
    def ends(self) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
        """Leading columns of the first and last key with the prefix, which are the same."""
        # Leaves out a starts_with value, because encoded keys cannot be compared with it.
        row = _row(self.columns, self.values[:-1] if self.starts_with else self.values)
        return row, row


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """Requests the rows that pass a filter, in file order.

    Attributes:
        filter: the filter; ``None`` if all rows pass.
        rows: the rows to test.
        limit: maximum number of rows that the caller reads. A scan may stop after as many rows.
    """

    filter: Filter | None
    rows: RowSet
    limit: int | None = None


Ordered: TypeAlias = KeyRange | Prefix
Request: TypeAlias = Keys | KeyRange | Prefix | Where


def key_range(
    lower: Any, upper: Any, sides: tuple[bool, bool], columns: KeyColumns, keys: Sequence[SortKey]
) -> KeyRange:
    """Returns a request for the rows between two bounds, in the form that the caller gave them.

    Args:
        sides: whether the lower bound and whether the upper bound belong to the range.
    """
    lower, upper = in_order(lower, columns), in_order(upper, columns)
    _check_widths(columns, lower, upper)
    low = typed_bound(lower, sides[0], columns, lower=True)
    high = typed_bound(upper, sides[1], columns, lower=False)
    if low is None or high is None:
        return KeyRange(tuple(keys), TypedBound((), True), TypedBound((), True), nothing=True)
    return KeyRange(tuple(keys), low, high)


def key_prefix(
    prefix: Any, columns: KeyColumns, keys: Sequence[SortKey], null_equals: bool = False
) -> Prefix:
    """Returns a request for the rows with a prefix, in the form that the caller gave it."""
    prefix = in_order(prefix, columns)
    _check_widths(columns, prefix)
    typed = typed_prefix(prefix, columns, null_equals)
    if typed is None:
        return Prefix(tuple(keys), (), nothing=True)
    return Prefix(tuple(keys), *typed)


def leading_keys(keys: Sequence[SortKey], width: int | None) -> tuple[SortKey, ...]:
    """Returns the first ``width`` columns of the cluster key; all columns if it is ``None``.

    Raises:
        InvalidArgumentError: the cluster key has fewer columns.
    """
    if width is not None and width > len(keys):
        names = show_names(key.column for key in keys)
        raise InvalidArgumentError(
            f"the key has {width} values; the cluster key has {len(keys)} columns: {names}"
        )
    return tuple(keys if width is None else keys[:width])


def in_key_order(names: Sequence[KeyColumn], keys: Sequence[SortKey]) -> tuple[SortKey, ...]:
    """Returns the leading sort keys of an index that has the columns ``names`` in this order.

    Raises:
        IndexUnavailableError: the index has the columns in another order.
    """
    if not agrees(names, keys):
        shown = show_names(key.column for key in keys)
        raise IndexUnavailableError(f"bounds need the columns in key order: {shown}")
    return tuple(keys[: len(names)])


def leads(names: Sequence[ColumnName], keys: Sequence[SortKey]) -> bool:
    """Returns whether ``names`` are the first columns of a key, in any order."""
    return bool(names) and {key.column for key in keys[: len(names)]} == set(names)


def leads_to(keys: Sequence[SortKey], by: Sequence[ColumnName], on: ColumnName) -> bool:
    """Returns whether a key begins with the columns ``by`` in any order, then ``on``."""
    width = len(by)
    if len(keys) <= width or keys[width].column != on:
        return False
    return {key.column for key in keys[:width]} == set(by)


def _row(names: Sequence[ColumnName], values: tuple[pa.Scalar, ...]) -> pa.RecordBatch | None:
    return single_row(names[: len(values)], values) if values else None


def _check_widths(columns: KeyColumns, *bounds: Any) -> None:
    for bound in bounds:
        n = 0 if bound is None else len(as_tuple(bound))
        if n > len(columns.names):
            raise InvalidArgumentError(
                f"bound {bound!r}: {n} values for the key ({', '.join(columns.names)})"
            )
