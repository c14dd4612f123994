"""Requests for the nearest row at or before (or at or after) a value of an ordered column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.rows.gather import gather_array
from nimblepy.rows.keys import key_batch
from nimblepy.rows.rowset import Positions
from nimblepy.schema.key_values import key_array, place_key
from nimblepy.schema.names import ColumnName
from nimblepy.schema.plain import plain_array
from nimblepy.schema.types import SortKey
from nimblepy.schema.values import raw_range, tick_of

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, eq=False)
class AsofKeys:
    """Requests one row for each key: the row with equal ``by`` columns and the nearest ``on``.

    Attributes:
        by: columns that must be equal, in any order; may be empty.
        on: the ordered column.
        values: the keys' values of ``by``, one array for each column.
        at: the keys' values of ``on``.
        backward: whether to find the greatest value at or below ``at``. Otherwise, finds the
            smallest value at or above ``at``.
        usable: whether each key can match. ``None`` means that every key can match.
        exclusive: for each key, whether a row whose ``on`` equals ``at`` does not match. ``None``
            means that such rows match for all keys.
        known: if set, rows are ignored if this column is null or greater than the key's limit.
        limits: the limit of each key, in the type of ``known``.
    """

    by: tuple[ColumnName, ...]
    on: ColumnName
    values: tuple[pa.Array, ...]
    at: pa.Array
    backward: bool
    usable: Mask | None = None
    exclusive: Mask | None = None
    known: ColumnName | None = None
    limits: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.at)

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """The columns that an index must begin with: ``by`` in any order, then ``on``."""
        return (*self.by, self.on)

    def take(self, probes: Positions) -> AsofKeys:
        """Returns the keys at the positions ``probes``."""
        at = pa.array(probes)
        return replace(
            self,
            values=tuple(gather_array(value, at) for value in self.values),
            at=gather_array(self.at, at),
            usable=None if self.usable is None else self.usable[probes],
            exclusive=None if self.exclusive is None else self.exclusive[probes],
            limits=None if self.limits is None else gather_array(self.limits, at),
        )

    def renamed(self, names: Mapping[ColumnName, ColumnName]) -> AsofKeys:
        """Returns the same keys with other column names. ``names`` maps old names to new names."""
        return replace(
            self,
            by=tuple(names[name] for name in self.by),
            on=names[self.on],
            known=None if self.known is None else names[self.known],
        )

    def search(self, order: Sequence[SortKey]) -> _core.AsofSearch:
        """Returns a search for these keys in indexes that begin with the sort keys ``order``."""
        arrays = dict(zip(self.columns, (*self.values, self.at), strict=True))
        names = [key.column for key in order]
        limits = None if self.limits is None else key_batch(["limit"], [self.limits])
        return _core.AsofSearch(
            key_batch(names, [arrays[name] for name in names]),
            [(key.descending, key.nulls_first) for key in order],
            self.backward,
            self.exclusive,
            None if self.usable is None else ~self.usable,
            limits,
        )


@dataclass(frozen=True, slots=True, eq=False)
class NearestValues:
    """Values converted to another type, exactly or to the nearest neighbour on one side.

    Attributes:
        values: the converted values; null if the type has no value on that side.
        usable: whether each value is valid (not null); ``None`` if all values are valid.
        exact: whether each value was converted exactly; ``None`` if all values were.
    """

    values: pa.Array
    usable: Mask | None
    exact: Mask | None


def nearest_values(array: pa.Array, target: pa.DataType, *, below: bool) -> NearestValues:
    """Converts ``array`` to the type ``target``.

    A value that ``target`` cannot represent becomes the next lower value if ``below``, otherwise
    the next higher value.

    Args:
        array: values of a type that is comparable with ``target``.
    """
    values, inexact = key_array(array, target)
    if inexact is not None:
        values = _neighbours(plain_array(array), values, inexact, target, below)
    usable = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    return NearestValues(values, usable, None if inexact is None else ~inexact)


def _neighbours(
    array: pa.Array, cast: pa.Array, inexact: Mask, target: pa.DataType, below: bool
) -> pa.Array:
    """Returns ``cast`` with its inexact values replaced by neighbours."""
    at = np.flatnonzero(inexact)
    rest = gather_array(array, pa.array(at))
    if _is_signed_count(rest.type) and _is_signed_count(target):
        neighbours = _neighbour_counts(rest, target, below)
    else:
        neighbours = pa.array([_neighbour(item, target, below) for item in rest], target)
    positions = np.arange(len(cast), dtype=np.int64)
    positions[at] = len(cast) + np.arange(len(at), dtype=np.int64)
    return gather_array(pa.concat_arrays([cast, neighbours]), pa.array(positions))


def _neighbour(item: pa.Scalar, target: pa.DataType, below: bool) -> pa.Scalar:
    if item.is_valid:
        position = place_key("on", target, item)
        scalar = position.exact
        if scalar is None:
            scalar = position.below if below else position.above
        if scalar is not None:
            return scalar
    return pa.scalar(None, target)


def _is_signed_count(data_type: pa.DataType) -> bool:
    """Returns whether values of the type are stored as signed integers."""
    types = pa.types
    return bool(types.is_signed_integer(data_type) or types.is_temporal(data_type))


def _neighbour_counts(array: pa.Array, target: pa.DataType, below: bool) -> pa.Array:
    """Like :func:`_neighbour`, for many values that are stored as signed integers."""
    raw = array.view(f"int{array.type.bit_width}")
    counts = pc.fill_null(raw, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ratio = tick_of(array.type) / tick_of(target)
    up, down = ratio.numerator, ratio.denominator  # at least one of them is 1
    low, high = raw_range(target)
    # Counts from `least` to `most` fit in the target type.
    most = min(high * down // up, 2**63 - 1)
    least = max(-(-low * down // up), -(2**63))
    inner = np.clip(counts, least, most) * up
    whole = inner // down
    if not below:
        whole += inner % down != 0
    is_null = np.zeros(len(counts), dtype=np.bool_)
    if array.null_count:
        is_null |= array.is_null().to_numpy(zero_copy_only=False)
    is_null |= counts < least if below else counts > most
    whole = np.where(counts > most, high, np.where(counts < least, low, whole))
    kept = pa.array(whole.astype(f"int{target.bit_width}"), mask=is_null)
    return kept.view(target)
