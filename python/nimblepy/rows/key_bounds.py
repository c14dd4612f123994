"""Converts bounds and prefixes of keys to Arrow scalars of the key's types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.keys import KeyColumns
from nimblepy.schema.key_values import exact_key, place_key
from nimblepy.schema.kinds import is_bytes, is_text
from nimblepy.schema.types import StartsWith
from nimblepy.schema.values import is_null


@dataclass(frozen=True, slots=True)
class TypedBound:
    """One end of a range: typed values of the first key columns. Without values, no limit."""

    values: tuple[pa.Scalar, ...]
    inclusive: bool


def typed_bound(
    bound: Any, inclusive: bool, columns: KeyColumns, *, lower: bool
) -> TypedBound | None:
    """Converts ``bound`` to values of the key's types; ``None`` if no row can satisfy it.

    A value between two column values (``1.5`` for int64) becomes its neighbor inside the range.
    Later elements of the tuple are then ignored.
    """
    if bound is None:
        return TypedBound((), True)
    values: list[pa.Scalar] = []
    for i, value in enumerate(as_tuple(bound)):
        name, data_type = columns.names[i], columns.types[i]
        if is_null(value):
            values.append(pa.scalar(None, data_type))
            continue
        place = place_key(name, data_type, columns.read(i, value))
        if place.exact is not None:
            values.append(place.exact)
            continue
        # In key order, the range is above its lower bound. But if the column is descending, the
        # values in the range are below the value of the lower bound.
        inner = place.above if lower != columns.descending[i] else place.below
        if inner is None:
            if lower != columns.nulls_first[i]:  # nulls follow all values
                return TypedBound((*values, pa.scalar(None, data_type)), True)
            if not values:
                return None
            # Rows that have these leading values are not in the range.
            return TypedBound(tuple(values), False)
        return TypedBound((*values, inner), True)
    return TypedBound(tuple(values), inclusive)


def as_tuple(bound: Any) -> tuple[Any, ...]:
    """Returns a bound or prefix as a tuple. A scalar becomes a tuple with one element."""
    return tuple(bound) if isinstance(bound, (tuple, list)) else (bound,)


def in_order(bound: Any, columns: KeyColumns) -> Any:
    """Converts a bound or prefix from a dict to a tuple in key order. Returns others unchanged.

    Raises:
        InvalidArgumentError: the names in the dict are not the first columns of the key.
    """
    if not isinstance(bound, Mapping):
        return bound
    leading = columns.names[: len(bound)]
    if not bound or set(bound) != set(leading):
        raise InvalidArgumentError(
            f"bound {bound!r}: expected the first columns of the key ({', '.join(columns.names)})"
        )
    return tuple(bound[name] for name in leading)


def typed_prefix(
    prefix: Any, columns: KeyColumns, null_equals: bool
) -> tuple[tuple[pa.Scalar, ...], bool] | None:
    """Returns (typed values, whether the last is a string prefix); ``None`` if no row can match."""
    values: list[pa.Scalar] = []
    items = as_tuple(prefix)
    starts = False
    for i, value in enumerate(items):
        name, data_type = columns.names[i], columns.types[i]
        if isinstance(value, StartsWith):
            if i != len(items) - 1:
                raise InvalidArgumentError("starts_with() must be the last element of a prefix")
            starts = True
            values.append(_starts_with_scalar(name, data_type, value))
            continue
        scalar, fits = exact_key(name, data_type, columns.read(i, value))
        if not fits or (scalar is None and not null_equals):  # the value does not match any row
            return None
        values.append(pa.scalar(None, data_type) if scalar is None else scalar)
    return tuple(values), starts


def _starts_with_scalar(name: str, data_type: pa.DataType, value: StartsWith) -> pa.Scalar:
    text = is_text(data_type)
    if not text and not is_bytes(data_type):
        raise InvalidArgumentError(
            f"starts_with() needs a text or binary column; {name!r} is {data_type}"
        )
    if text != isinstance(value.prefix, str):
        raise InvalidArgumentError(
            f"starts_with({value.prefix!r}) does not fit column {name!r}, which is {data_type}"
        )
    # Bytes for every type of column, because a prefix may end within a character or fixed width.
    prefix = value.prefix
    return pa.scalar(prefix.encode() if isinstance(prefix, str) else prefix, pa.binary())
