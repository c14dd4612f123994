"""Finds candidate rows for a filter: with indexes first, then with zone maps and Bloom filters.

All of them exclude only rows that provably fail the filter. The scan evaluates the filter on the
remaining rows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.filter import Filter
from nimblepy.expr.nodes import And, Compare, In, Node, Or
from nimblepy.file.handle import FileHandle
from nimblepy.file.index_match import match_index, rows_by_indexes
from nimblepy.file.indexes import Index
from nimblepy.file.zones import prune_by_zones
from nimblepy.io.log import logger
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowSet
from nimblepy.schema.columns import Column
from nimblepy.schema.names import show_path

_log = logger(__name__)

Ranges = np.ndarray[Any, np.dtype[np.uint64]]
# Bloom filters have about 1 % false positives. With more values, at least one of them would often
# pass by chance, and no stripe would be skipped.
MAX_BLOOM_VALUES = 64


@dataclass(frozen=True, slots=True)
class CandidateRows:
    """Rows that may pass a filter, and how they were found.

    Attributes:
        rows: disjoint ranges in ascending order. Rows from a secondary index are listed one by one,
            because they are few and mostly not adjacent.
        index_used: the conjuncts that the cluster index answered.
        zones_used: the conjuncts for which zone maps excluded rows.
        secondary: the secondary indexes that were used, each with the conjuncts that it answered.
        blooms_used: the conjuncts for which Bloom filters excluded stripes.
    """

    rows: RowSet
    index_used: tuple[Node, ...] = ()
    zones_used: tuple[Node, ...] = ()
    secondary: tuple[tuple[Index, tuple[Node, ...]], ...] = ()
    blooms_used: tuple[Node, ...] = ()


def candidate_rows(file: FileHandle, where: Where) -> CandidateRows:
    """Returns the rows that may pass the filter, found with indexes, zone maps, Bloom filters."""
    if where.filter is None:
        return CandidateRows(where.rows)
    if where.filter.matches_nothing:
        return CandidateRows(RowSet.of_range(0, 0))
    conjuncts = where.filter.conjuncts
    cluster = match_index(file, file.indexes[0], conjuncts) if file.cluster_by else None
    ranges = where.rows.ranges
    used: tuple[Node, ...] = ()
    if cluster is not None and cluster.positions is not None:
        # Positions in the cluster index are row numbers.
        used, ranges = cluster.used, _core.intersect(ranges, _core.merge(cluster.positions))
    has_others = len(file.indexes) > bool(file.cluster_by)
    secondary = rows_by_indexes(file, conjuncts, _count(ranges)) if has_others else None
    if secondary is not None:
        rows, chosen = secondary
        single = np.column_stack((rows, rows + np.uint64(1)))
        ranges = _core.intersect(ranges, _core.merge(single))
        few = RowSet.of_ranges(ranges).expand()
        chosen_indexes = tuple((match.index, match.used) for match in chosen)
        return _logged(file, where.filter, CandidateRows(few, used, (), chosen_indexes))
    zones: list[Node] = []
    prune = partial(_core.prune, file.core)
    for node in conjuncts:
        if len(ranges) == 0:
            break
        pruned = prune_by_zones(node, prune)
        if pruned is None:
            continue
        narrowed = _core.intersect(ranges, pruned)
        if _count(narrowed) < _count(ranges):
            zones.append(node)
        ranges = narrowed
    blooms: list[Node] = []
    for node in conjuncts if file.core.has_column_blooms else ():
        narrowed = _by_blooms(file, node, ranges)
        if _count(narrowed) < _count(ranges):
            blooms.append(node)
        ranges = narrowed
    left = RowSet.of_ranges(ranges)
    candidates = CandidateRows(left, used, tuple(zones), blooms_used=tuple(blooms))
    return _logged(file, where.filter, candidates)


def _count(ranges: Ranges) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def _logged(file: FileHandle, filter: Filter, candidates: CandidateRows) -> CandidateRows:
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug(
            "%s: filter on %s leaves %d of %d rows (%s)",
            file.core.name,
            ", ".join(map(show_path, filter.columns)),
            candidates.rows.num_rows,
            file.num_rows,
            ", ".join(
                ["cluster index"] * bool(candidates.index_used)
                + [str(index) for index, _ in candidates.secondary]
                + ["zone maps"] * bool(candidates.zones_used)
                + ["Bloom filters"] * bool(candidates.blooms_used)
            )
            or "all are read",
        )
    return candidates


# --------------------------------------------------- Bloom filters of columns


def _by_blooms(file: FileHandle, node: Node, ranges: Ranges) -> Ranges:
    """Removes the stripes whose Bloom filters exclude all values of ``node`` from ``ranges``."""
    match node:
        case And(args):
            for arg in args:
                ranges = _by_blooms(file, arg, ranges)
        case Or(args) if args:
            parts = [_by_blooms(file, arg, ranges) for arg in args]
            return _core.merge(np.concatenate(parts))
        case Compare(column, "==", value):
            return _prune_equal(file, column, [value], ranges)
        case In(column, values):
            return _prune_equal(file, column, values, ranges)
    return ranges


def _prune_equal(
    file: FileHandle, column: Column, values: Sequence[pa.Scalar], ranges: Ranges
) -> Ranges:
    if not 0 < len(values) <= MAX_BLOOM_VALUES or len(ranges) == 0:
        return ranges
    batch = pa.RecordBatch.from_arrays([pa.array(values, values[0].type)], ["value"])
    return _core.prune_equal(file.core, column.steps, batch, ranges)
