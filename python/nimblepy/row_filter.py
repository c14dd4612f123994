"""From a filter's conjuncts to file rows: the cluster index first, then zone maps.

Both may only drop rows that provably fail; what is left is evaluated exactly by the scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.keys import single_row
from nimblepy.predicate_ast import (
    And,
    Compare,
    In,
    IsNull,
    IsValid,
    Node,
    Or,
    StartsWith,
)
from nimblepy.predicate_bounds import bounds_for

if TYPE_CHECKING:
    from nimblepy.file_base import FileBase as File

Ranges = np.ndarray[Any, np.dtype[np.uint64]]
# Key values of an IN list (or products of several) that are looked up one by one.
MAX_KEYS = 100_000


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Rows that may pass, and what said so.

    Attributes:
        ranges: disjoint ascending file row ranges, shape (n, 2).
        index_used: the conjuncts that the cluster index answered, as text.
        zones_used: the conjuncts that dropped rows through zone maps, as text.
    """

    ranges: Ranges
    index_used: tuple[str, ...] = ()
    zones_used: tuple[str, ...] = ()


def rows_for(file: File, conjuncts: tuple[Node, ...], begin: int, end: int) -> RowFilter:
    """Rows in [begin, end) that may satisfy all ``conjuncts``."""
    ranges = np.array([[begin, end]] if begin < end else [], dtype=np.uint64).reshape(-1, 2)
    found = _by_index(file, conjuncts)
    used: tuple[str, ...] = ()
    if found is not None:
        index_ranges, used = found
        ranges = _core.intersect(ranges, index_ranges)
    zones: list[str] = []
    for node in conjuncts:
        if len(ranges) == 0:
            break
        pruned = _by_zones(file, node)
        if pruned is None:
            continue
        narrowed = _core.intersect(ranges, pruned)
        if _count(narrowed) < _count(ranges):
            zones.append(str(node))
        ranges = narrowed
    return RowFilter(ranges, used, tuple(zones))


def _count(ranges: Ranges) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())


# ------------------------------------------------------------------ cluster index


def _by_index(file: File, conjuncts: tuple[Node, ...]) -> tuple[Ranges, tuple[str, ...]] | None:
    """Rows by the leading key columns that conjuncts pin down; ``None``: the key is no help."""
    prefixes: list[tuple[pa.Scalar, ...]] = [()]
    used: list[str] = []
    core = file._open
    for key, data_type in zip(file._keys, file._key_types, strict=True):
        mine = [
            node
            for node in conjuncts
            if isinstance(node, (Compare, In, StartsWith)) and node.column.name == key.column
        ]
        values = _values_of(mine)
        if values is not None and len(prefixes) * len(values[0]) <= MAX_KEYS:
            prefixes = [(*prefix, value) for prefix in prefixes for value in values[0]]
            used.append(values[1])
            continue
        last = _last_column(file, mine, data_type, prefixes, len(used))
        if last is None:
            break
        return last[0], (*used, *last[1])
    if not used:
        return None
    if not prefixes:
        return np.empty((0, 2), dtype=np.uint64), tuple(used)
    names = [key.column for key in file._keys[: len(used)]]
    arrays = [
        pa.array([prefix[i] for prefix in prefixes], prefixes[0][i].type) for i in range(len(used))
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names)
    return _core.merge(_core.find_keys(core, batch, False)), tuple(used)


def _values_of(nodes: Sequence[Node]) -> tuple[list[pa.Scalar], str] | None:
    """The values a column must have, from its equality conjuncts."""
    for node in nodes:
        if isinstance(node, Compare) and node.op == "==":
            return [node.value], str(node)
        if isinstance(node, In):
            return list(node.values), str(node)
    return None


def _last_column(
    file: File,
    nodes: Sequence[Node],
    data_type: pa.DataType,
    prefixes: list[tuple[pa.Scalar, ...]],
    depth: int,
) -> tuple[Ranges, tuple[str, ...]] | None:
    """Rows by a range on the next key column, for each of few prefixes."""
    if len(prefixes) > 1000:
        return None
    parts: Ranges | None = None
    used: list[str] = []
    names = [key.column for key in file._keys[: depth + 1]]
    for node in nodes:
        if isinstance(node, Compare) and node.op == "!=":
            continue
        found = [_range_of(file, names, prefix, node, data_type) for prefix in prefixes]
        ranges = _core.merge(
            np.array(found, dtype=np.uint64).reshape(-1, 2)
            if found
            else np.empty((0, 2), dtype=np.uint64)
        )
        parts = ranges if parts is None else _core.intersect(parts, ranges)
        used.append(str(node))
    return None if parts is None else (parts, tuple(used))


def _range_of(
    file: File, names: list[str], prefix: tuple[pa.Scalar, ...], node: Node, data_type: pa.DataType
) -> tuple[int, int]:
    core = file._open
    if isinstance(node, StartsWith):
        value = pa.scalar(node.prefix, node.column.value_type)
        begin, end = _core.find_prefix(core, single_row(names, [*prefix, value]), True)
        return int(begin), int(end)
    assert isinstance(node, Compare)
    (bound,) = bounds_for(node.column.value_type, node.op, node.value)
    # An open side still ends where the leading columns change.
    low = [*prefix] if bound.lower is None else [*prefix, bound.lower]
    high = [*prefix] if bound.upper is None else [*prefix, bound.upper]
    begin, end = _core.find_range(
        core,
        single_row(names[: len(low)], low) if low else None,
        bound.lower is None or bound.lower_inclusive,
        single_row(names[: len(high)], high) if high else None,
        bound.upper is None or bound.upper_inclusive,
        True,
    )
    return int(begin), int(end)


# ------------------------------------------------------------------ zone maps


def _by_zones(file: File, node: Node) -> Ranges | None:
    """Rows of zones that may satisfy ``node``; ``None`` where zone maps say nothing of it."""
    match node:
        case And(args):
            ranges: Ranges | None = None
            for arg in args:
                part = _by_zones(file, arg)
                if part is not None:
                    ranges = part if ranges is None else _core.intersect(ranges, part)
            return ranges
        case Or(args):
            parts = [_by_zones(file, arg) for arg in args]
            if any(part is None for part in parts):
                return None
            return _core.merge(np.concatenate([p for p in parts if p is not None]))
        case IsNull():
            return _prune(file, node, "null")
        case IsValid():
            return _prune(file, node, "valid")
        case Compare(column, op, value):
            if op == "!=":
                return _prune(file, node, "valid")
            bounds = bounds_for(column.value_type, op, value)
            return _union(
                _prune(
                    file,
                    node,
                    "range",
                    (b.lower, b.lower_inclusive),
                    (b.upper, b.upper_inclusive),
                )
                for b in bounds
            )
        case In(_, values) if len(values) <= 64:
            return _union(
                _prune(file, node, "range", (value, True), (value, True)) for value in values
            )
        case In(_, values):
            # Long lists: what lies between the smallest and the largest value.
            items = sorted(values, key=lambda scalar: scalar.as_py())
            return _prune(file, node, "range", (items[0], True), (items[-1], True))
        case StartsWith(column, prefix):
            low = pa.scalar(prefix, column.value_type)
            return _prune(file, node, "range", (low, True), (None, True))
    return None


def _union(parts: Any) -> Ranges:
    found = list(parts)
    if not found:
        return np.empty((0, 2), dtype=np.uint64)
    return _core.merge(np.concatenate(found))


def _prune(
    file: File,
    node: Any,
    kind: str,
    lower: tuple[pa.Scalar | None, bool] = (None, True),
    upper: tuple[pa.Scalar | None, bool] = (None, True),
) -> Ranges:
    def array(value: pa.Scalar | None) -> pa.Array | None:
        return None if value is None else pa.array([value], value.type)

    return _core.prune(
        file._open, node.column.name, kind, array(lower[0]), lower[1], array(upper[0]), upper[1]
    )
