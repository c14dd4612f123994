"""From a filter's conjuncts to file rows: indexes first, then zone maps and Bloom filters.

They may only drop rows that provably fail; what is left is evaluated exactly by the scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.bounds import bounds_for
from nimblepy.expr.nodes import (
    And,
    Compare,
    In,
    IsNull,
    IsValid,
    Node,
    Or,
    StartsWith,
)
from nimblepy.file.index_match import pin, rows_by_indexes

if TYPE_CHECKING:
    from nimblepy.file.handle import FileBase as File
    from nimblepy.file.indexes import Index

Ranges = np.ndarray[Any, np.dtype[np.uint64]]
# A filter lets about 1 in 100 absent values pass: of more than these, some do in every stripe.
MAX_BLOOM_VALUES = 64


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Rows that may pass, and what said so.

    Attributes:
        ranges: disjoint ascending file row ranges, shape (n, 2).
        index_used: the conjuncts that the cluster index answered, as text.
        zones_used: the conjuncts that dropped rows through zone maps, as text.
        blooms_used: the conjuncts that dropped stripes through Bloom filters, as text.
        secondary: secondary indexes that were asked, and the conjuncts that each answered.
    """

    ranges: Ranges
    index_used: tuple[str, ...] = ()
    zones_used: tuple[str, ...] = ()
    secondary: tuple[tuple[Index, tuple[str, ...]], ...] = ()
    blooms_used: tuple[str, ...] = ()

    def scattered_rows(self) -> Ranges | None:
        """The rows one by one where a secondary index found them: few, and mostly alone."""
        return _core.expand(self.ranges)[0] if self.secondary else None


def rows_for(file: File, conjuncts: tuple[Node, ...], begin: int, end: int) -> RowFilter:
    """Rows in [begin, end) that may satisfy all ``conjuncts``."""
    ranges = np.array([[begin, end]] if begin < end else [], dtype=np.uint64).reshape(-1, 2)
    found = _by_index(file, conjuncts)
    used: tuple[str, ...] = ()
    if found is not None:
        index_ranges, used = found
        ranges = _core.intersect(ranges, index_ranges)
    secondary = rows_by_indexes(file, conjuncts, _count(ranges))
    if secondary is not None:
        rows, chosen = secondary
        single = np.column_stack((rows, rows + np.uint64(1)))
        ranges = _core.intersect(ranges, _core.merge(single))
        return RowFilter(ranges, used, (), tuple((f.index, f.used) for f in chosen))
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
    blooms: list[str] = []
    for node in conjuncts if file._open.has_column_blooms else ():
        narrowed = _by_blooms(file, node, ranges)
        if _count(narrowed) < _count(ranges):
            blooms.append(str(node))
        ranges = narrowed
    return RowFilter(ranges, used, tuple(zones), blooms_used=tuple(blooms))


def _count(ranges: Ranges) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def _by_index(file: File, conjuncts: tuple[Node, ...]) -> tuple[Ranges, tuple[str, ...]] | None:
    """Rows by the leading key columns that conjuncts pin down; ``None``: the key is no help."""
    if not file._keys:
        return None
    found = pin(file, file._indexes[0], conjuncts)
    if found is None or found.places is None:
        return None
    return _core.merge(found.places), found.used  # places of the cluster index are rows


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


# --------------------------------------------------- Bloom filters of columns


def _by_blooms(file: File, node: Node, ranges: Ranges) -> Ranges:
    """What is left of ``ranges`` without stripes that have none of the values asked for."""
    match node:
        case And(args):
            for arg in args:
                ranges = _by_blooms(file, arg, ranges)
        case Or(args) if args:
            parts = [_by_blooms(file, arg, ranges) for arg in args]
            return _core.merge(np.concatenate(parts))
        case Compare(column, "==", value):
            return _prune_equal(file, column.name, [value], ranges)
        case In(column, values):
            return _prune_equal(file, column.name, values, ranges)
    return ranges


def _prune_equal(file: File, name: str, values: Sequence[pa.Scalar], ranges: Ranges) -> Ranges:
    if not 0 < len(values) <= MAX_BLOOM_VALUES or len(ranges) == 0:
        return ranges
    batch = pa.RecordBatch.from_arrays([pa.array(values, values[0].type)], ["value"])
    return _core.prune_equal(file._open, name, batch, ranges)


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
