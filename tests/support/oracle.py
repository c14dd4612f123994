"""The trivially right model: rows are tuples, the index is sorted() with a comparator, every
answer is a for-loop.

Values are "plain" Python values (see `plain_values`): times are integers in the column's unit,
text is str, so that `<` is the order of the type. A key is a tuple with one plain value (or None)
per key column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
from pyarrow import types as pat

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Order:
    """Sort order of one key column. Null placement does not depend on the direction."""

    descending: bool = False
    nulls_first: bool = False


ASCENDING = Order()


def compare_values(a: Any, b: Any, order: Order = ASCENDING) -> int:
    """Negative, zero or positive. -0.0 equals 0.0; NaN equals NaN and is greater than every
    number.
    """
    if a is None and b is None:
        return 0
    if a is None:
        return -1 if order.nulls_first else 1
    if b is None:
        return 1 if order.nulls_first else -1
    if a != a or b != b:  # a NaN
        sign = int(a != a) - int(b != b)
        return -sign if order.descending else sign
    sign = int(a > b) - int(a < b)
    return -sign if order.descending else sign


def compare_keys(a: Key, b: Key, orders: Sequence[Order]) -> int:
    """Compares the columns both have: a shorter tuple equals every key that starts with it."""
    for x, y, order in zip(a, b, orders, strict=False):
        sign = compare_values(x, y, order)
        if sign != 0:
            return sign
    return 0


def file_order(keys: Sequence[Key], orders: Sequence[Order]) -> list[int]:
    """Input rows in the order in which a clustered file stores them; equal keys keep their
    input order.
    """
    return sorted(
        range(len(keys)), key=cmp_to_key(lambda i, j: compare_keys(keys[i], keys[j], orders))
    )


def matches(key: Key, probe: Key, *, null_equals: bool = False) -> bool:
    """Whether the key starts with the probe. A null matches nothing, or only a null if
    `null_equals`.
    """
    for value, wanted in zip(key, probe, strict=False):
        if (value is None or wanted is None) and not null_equals:
            return False
        if compare_values(value, wanted) != 0:
            return False
    return True


def lookup(
    keys: Sequence[Key], probes: Sequence[Key], *, null_equals: bool = False
) -> list[tuple[int, int]]:
    """(probe, row) pairs: by probe position, then by row."""
    pairs = []
    for p, probe in enumerate(probes):
        for row, key in enumerate(keys):
            if matches(key, probe, null_equals=null_equals):
                pairs.append((p, row))
    return pairs


def count(keys: Sequence[Key], probes: Sequence[Key], *, null_equals: bool = False) -> list[int]:
    counts = [0] * len(probes)
    for p, _ in lookup(keys, probes, null_equals=null_equals):
        counts[p] += 1
    return counts


def join(
    probe_keys: Sequence[Key],
    build_keys: Sequence[Key],
    how: str,
    *,
    null_equals: bool = False,
    passes: Callable[[int, int], bool | None] = lambda p, b: True,
) -> list[tuple[int, int | None]]:
    """(probe row, build row) of every joined row; the build row is None where there is none."""
    joined: list[tuple[int, int | None]] = []
    for p, probe in enumerate(probe_keys):
        found = [
            b
            for b, key in enumerate(build_keys)
            if matches(key, probe, null_equals=null_equals) and passes(p, b) is True
        ]
        if how == "inner":
            joined += [(p, b) for b in found]
        elif how == "left":
            joined += [(p, b) for b in found] or [(p, None)]
        elif bool(found) == (how == "semi"):
            joined.append((p, None))
    return joined


def range_rows(
    keys: Sequence[Key],
    lower: Key | None,
    upper: Key | None,
    inclusive: str,
    orders: Sequence[Order],
) -> list[int]:
    """Rows between two bounds, in key order: for a descending column `lower` is the larger value.

    A short tuple is a prefix bound: as an included bound it includes every key that starts with
    it, as an excluded bound it excludes them all.
    """
    rows = []
    for row, key in enumerate(keys):
        if lower is not None:
            sign = compare_keys(key, lower, orders)
            if sign < 0 or (sign == 0 and inclusive[0] == "("):
                continue
        if upper is not None:
            sign = compare_keys(key, upper, orders)
            if sign > 0 or (sign == 0 and inclusive[1] == ")"):
                continue
        rows.append(row)
    return rows


def prefix_rows(
    keys: Sequence[Key], equal: Key, starts_with: str | bytes | None = None
) -> list[int]:
    """Rows whose leading columns equal `equal` and whose next column starts with `starts_with`."""
    rows = []
    for row, key in enumerate(keys):
        if not matches(key, equal):
            continue
        if starts_with is not None:
            value = key[len(equal)]
            if value is None or value[: len(starts_with)] != starts_with:
                continue
        rows.append(row)
    return rows


def filter_rows(
    rows: Iterable[dict[str, Any]], predicate: Callable[[dict[str, Any]], bool | None]
) -> list[int]:
    """Rows for which the predicate is true; false and unknown (None) drop the row."""
    return [row for row, values in enumerate(rows) if predicate(values) is True]


def plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python values whose `<` is the order of the column's type; None for null."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in plain_values(chunk)]
    type_ = column.type
    if pat.is_dictionary(type_):
        return plain_values(column.dictionary_decode())
    if pat.is_temporal(type_) and not pat.is_interval(type_):
        return column.view(pa.int32() if type_.bit_width == 32 else pa.int64()).to_pylist()
    if pat.is_floating(type_):
        return [None if value is None else float(value) for value in column.to_pylist()]
    return column.to_pylist()


def table_keys(table: pa.Table, columns: Sequence[str]) -> list[Key]:
    """One key per row. A dotted name is a struct leaf; a null struct makes a null key."""
    values = []
    for name in columns:
        head, *path = name.split(".")
        column = table.column(head)
        if path:
            leaves = column.to_pylist()
            for step in path:
                leaves = [None if leaf is None else leaf[step] for leaf in leaves]
            values.append(leaves)
        else:
            values.append(plain_values(column))
    return list(zip(*values, strict=True))
