"""Requests for rows: keys, a range of keys, a prefix, or a filter. Values are typed once.

A request does not depend on a file. The same request is sent to every file that may have an answer.
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
    """Requests the rows of some keys. The answer tells the key of each row.

    Attributes:
        names: the columns, in any order.
        values: one array per column.
        usable: whether each key can match. ``None`` means that every key can.
        null_equals: whether a null equals null. Otherwise it equals nothing.
        between: the next column of the cluster key. Its value must be from ``lower`` to ``upper``
            of the same key, inclusive.
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
        """All columns that an index must have."""
        return self.names if self.between is None else (*self.names, self.between)

    @property
    def impossible(self) -> Mask | None:
        """Whether each key cannot match; ``None`` if every key can."""
        return None if self.usable is None else ~self.usable

    def take(self, probes: Positions) -> Keys:
        """Returns some of the keys."""
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
            bound: values of the column ``between``, which is the last of ``names``.
        """
        arrays = dict(zip(self.names, self.values, strict=True))
        if bound is not None:
            assert self.between is not None
            arrays[self.between] = bound
        return key_batch(names, [arrays[name] for name in names])

    def ends(self, keys: Sequence[SortKey]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """First and last key of each answer, in the order of ``keys``."""
        names = [key.column for key in keys]
        if self.between is None:
            batch = self.batch(names)
            return batch, batch
        low, high = self.batch(names, self.lower), self.batch(names, self.upper)
        return (high, low) if keys[-1].descending else (low, high)


@dataclass(frozen=True, slots=True, eq=False)
class KeyRange:
    """Rows between two bounds in the order of an index, in that order.

    Attributes:
        keys: the leading columns of the index that the bounds are about.
        nothing: whether no row can be between them, for any data.
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
        """Leading columns of the first and of the last key that can be in the range."""
        return self.batch(self.lower), self.batch(self.upper)


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """Rows whose leading key columns equal some values, in the order of an index.

    Attributes:
        starts_with: whether the last value is the beginning of a text or binary value.
        nothing: whether no row can have the prefix.
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
        """Leading columns that all keys with the prefix have."""
        # Keys cannot be compared with the beginning of a text.
        row = _row(self.columns, self.values[:-1] if self.starts_with else self.values)
        return row, row


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """Rows that pass a filter, in file order.

    Attributes:
        filter: ``None`` if all rows pass.
        rows: the rows to test.
        limit: the caller reads at most this many rows, so a scan may end then.
    """

    filter: Filter | None
    rows: RowSet
    limit: int | None = None


Ordered: TypeAlias = KeyRange | Prefix
Request: TypeAlias = Keys | KeyRange | Prefix | Where


def key_range(
    lower: Any, upper: Any, sides: tuple[bool, bool], columns: KeyColumns, keys: Sequence[SortKey]
) -> KeyRange:
    """Returns the range between two bounds as the caller gave them.

    ``sides`` tells which of the bounds are included.
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
    """Returns the prefix as the caller gave it."""
    prefix = in_order(prefix, columns)
    _check_widths(columns, prefix)
    typed = typed_prefix(prefix, columns, null_equals)
    if typed is None:
        return Prefix(tuple(keys), (), nothing=True)
    return Prefix(tuple(keys), *typed)


def leading_keys(keys: Sequence[SortKey], width: int | None) -> tuple[SortKey, ...]:
    """Returns the first ``width`` columns of the cluster key, or all.

    Raises:
        InvalidArgumentError: it has fewer.
    """
    if width is not None and width > len(keys):
        names = show_names(key.column for key in keys)
        raise InvalidArgumentError(
            f"a key of {width} values; the cluster key has {len(keys)}: {names}"
        )
    return tuple(keys if width is None else keys[:width])


def in_key_order(names: Sequence[KeyColumn], keys: Sequence[SortKey]) -> tuple[SortKey, ...]:
    """Returns the leading columns of an index that bounds on ``names`` are about.

    Raises:
        IndexUnavailableError: these are the columns, but in another order.
    """
    if not agrees(names, keys):
        shown = show_names(key.column for key in keys)
        raise IndexUnavailableError(f"bounds need the columns in key order: {shown}")
    return tuple(keys[: len(names)])


def leads(names: Sequence[ColumnName], keys: Sequence[SortKey]) -> bool:
    """Returns whether the columns are the first ones of a key, in any order."""
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
