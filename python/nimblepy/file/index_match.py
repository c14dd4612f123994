"""Uses indexes for filters: chooses secondary indexes by cost, and finds their rows.

An index finds candidate rows, and the scan evaluates the whole filter on them. Costs are estimated
from the indexes, before any row is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.expr.nodes import And, Compare, In, IsNull, Node, Or, StartsWith
from nimblepy.file.handle import FileHandle
from nimblepy.file.index_costs import SCANNED_ROW, read_cost, search_cost
from nimblepy.file.indexes import Index
from nimblepy.file.key_ranges import ranges_of

Rows = np.ndarray[Any, np.dtype[np.uint64]]
Ranges = np.ndarray[Any, np.dtype[np.uint64]]  # of positions, shape (n, 2), half-open

# Maximum number of keys to look up: the values of IN lists, or their combinations over several
# columns. Also the maximum number of key prefixes to combine with a range.
MAX_KEYS = 100_000
MAX_RANGES = 1_000
# Maximum number of alternatives of an OR to search.
MAX_ALTERNATIVES = 64


@dataclass(frozen=True, slots=True)
class IndexMatch:
    """The part of a filter that one index answers.

    Attributes:
        used: the conjuncts that the index answers.
        positions: for an ordered index, the position ranges of matching keys; else ``None``.
        batch: for a hash index, the keys to look up; else ``None``.
        rows: number of matching rows; an estimate for a hash index.
    """

    index: Index
    used: tuple[Node, ...]
    positions: Ranges | None
    batch: pa.RecordBatch | None
    rows: float

    @property
    def cost(self) -> float:
        """The cost of finding the rows with the index, without reading them."""
        return search_cost(self.rows, ordered=self.positions is not None)


def rows_by_indexes(
    file: FileHandle, conjuncts: Sequence[Node], rows_left: int
) -> tuple[Rows, tuple[IndexMatch, ...]] | None:
    """Finds candidate rows, in ascending order, with one or two secondary indexes.

    Returns ``None`` if no index helps, or if scanning the ``rows_left`` rows is cheaper.
    """
    best = rows_left * SCANNED_ROW
    if best < 1:
        return None  # reading a single row through an index would cost more
    matches: list[IndexMatch] = []
    most = best
    # Hash indexes are first, because their estimates do not need a search. A sorted index is then
    # searched only if the search costs less than the best estimate so far.
    for index in sorted((i for i in file.indexes if i.number >= 0), key=lambda i: i.ordered):
        match = match_index(file, index, conjuncts, most)
        if match is not None:
            matches.append(match)
            most = min(most, _cost([match], file.num_rows))
    chosen: tuple[IndexMatch, ...] = ()
    for combination in [*combinations(matches, 1), *combinations(matches, 2)]:
        cost = _cost(combination, file.num_rows)
        if cost < best:
            chosen, best = combination, cost
    if not chosen:
        return None
    rows = _rows_of(file, chosen[0])
    for other in chosen[1:]:
        rows = np.intersect1d(rows, _rows_of(file, other), assume_unique=True)
    return rows, chosen


def _cost(matches: Sequence[IndexMatch], num_rows: int) -> float:
    """Returns the cost of searching these indexes and of reading the rows that all of them find."""
    return sum(m.cost for m in matches) + read_cost([m.rows for m in matches], num_rows)


def _rows_of(file: FileHandle, match: IndexMatch) -> Rows:
    core = file.opened(match.index).core
    if match.positions is not None:
        return np.unique(core.rows_at(match.positions))
    return core.candidates(match.batch)


def match_index(
    file: FileHandle, index: Index, conjuncts: Sequence[Node], most: float = math.inf
) -> IndexMatch | None:
    """Matches an index with conjuncts, or with the alternatives of a conjunct that is an OR.

    Returns ``None`` if the index does not help, or if it needs more than ``most`` searches.
    """
    best = _match_columns(file, index, conjuncts, most)
    if not index.ordered:
        return best
    for node in conjuncts:
        if isinstance(node, Or) and len(node.args) <= MAX_ALTERNATIVES:
            rest = [other for other in conjuncts if not isinstance(other, Or)]
            either = _match_either(file, index, node, rest, most)
            if either is not None and (best is None or either.rows < best.rows):
                best = either
    return best


def _match_either(
    file: FileHandle, index: Index, node: Or, rest: Sequence[Node], most: float
) -> IndexMatch | None:
    """Matches an index with an OR; ``None`` if the index does not help for every alternative.

    For example, ``a < 1 OR (a = 1 AND b < 2)`` is one range of keys in an index on (a, b).
    """
    parts: list[Ranges] = []
    for arg in node.args:
        alternative = arg.args if isinstance(arg, And) else (arg,)
        match = match_index(file, index, [*alternative, *rest], most - len(parts))
        if match is None or match.positions is None:
            return None
        parts.append(match.positions.reshape(-1, 2))
    return _match(index, (node,), _core.merge(np.concatenate(parts)))


def _match_columns(
    file: FileHandle, index: Index, conjuncts: Sequence[Node], most: float
) -> IndexMatch | None:
    """Matches equality conjuncts with the leading columns, then a range with the next column."""
    prefixes: list[tuple[pa.Scalar, ...]] = [()]
    used: list[Node] = []
    for column in index.columns:
        nodes = [
            node
            for node in conjuncts
            if isinstance(node, (Compare, In, StartsWith, IsNull))
            and node.column.path == column.path
        ]
        values = values_of(nodes) if nodes else None
        is_null = next((node for node in nodes if isinstance(node, IsNull)), None)
        if values is None and index.ordered and is_null is not None:
            values = [pa.scalar(None, column.value_type)], is_null
        if values is not None and len(prefixes) * len(values[0]) <= MAX_KEYS:
            prefixes = [(*prefix, value) for prefix in prefixes for value in values[0]]
            used.append(values[1])
            continue
        if not index.ordered or len(prefixes) > MAX_RANGES:
            break
        if len(prefixes) > most:
            return None
        last = _last_column(file, index, nodes, prefixes) if nodes else None
        if last is None:
            break
        return _match(index, (*used, *last[1]), last[0])
    if not used or (not index.ordered and len(used) < len(index.keys)):
        return None
    if not prefixes:
        return _match(index, tuple(used), np.empty((0, 2), dtype=np.uint64))
    batch = _key_batch(prefixes)
    if index.ordered:
        if len(prefixes) > most:
            return None
        # A prefix contains a null only because of IS NULL, so null must equal null.
        positions = file.opened(index).core.places(batch, null_equals=True)
        return _match(index, tuple(used), positions)
    keys = file.core.indexes[index.number][2]
    return IndexMatch(index, tuple(used), None, batch, len(prefixes) * file.num_rows / max(1, keys))


def _match(index: Index, used: tuple[Node, ...], positions: Ranges) -> IndexMatch:
    rows = int((positions[:, 1] - positions[:, 0]).sum())
    return IndexMatch(index, used, positions, None, rows)


def values_of(nodes: Sequence[Node]) -> tuple[list[pa.Scalar], Node] | None:
    """Returns the values allowed by the first == or IN among a column's conjuncts, and that node.

    Returns ``None`` if there is no such conjunct.
    """
    for node in nodes:
        if isinstance(node, Compare) and node.op == "==":
            return [node.value], node
        if isinstance(node, In):
            return list(node.values), node
    return None


def _last_column(
    file: FileHandle,
    index: Index,
    nodes: Sequence[Node],
    prefixes: list[tuple[pa.Scalar, ...]],
) -> tuple[Ranges, tuple[Node, ...]] | None:
    """Returns the positions of keys with one of the prefixes and a range in the next column.

    Also returns the conjuncts that define the range; ``None`` if no conjunct does.
    """
    parts: Ranges | None = None
    used: list[Node] = []
    core = file.opened(index).core
    for node in nodes:
        ranges: list[tuple[int, int]] = []
        if isinstance(node, StartsWith):
            value = pa.scalar(node.prefix, node.column.value_type)
            ranges = [core.prefix(_key_batch([[*prefix, value]]), True) for prefix in prefixes]
        elif isinstance(node, Compare) and node.op != "!=":
            ((lower, includes_lower, upper, includes_upper),) = ranges_of(node)
            for prefix in prefixes:
                # On a side without a bound, the leading columns still limit the range.
                low = _key_batch([prefix if lower is None else [*prefix, lower]])
                high = _key_batch([prefix if upper is None else [*prefix, upper]])
                sides = lower is None or includes_lower, upper is None or includes_upper
                ranges.append(core.range(low, sides[0], high, sides[1], True))
        else:
            continue
        positions = _core.merge(np.array(ranges, dtype=np.uint64).reshape(-1, 2))
        parts = positions if parts is None else _core.intersect(parts, positions)
        used.append(node)
    return None if parts is None else (parts, tuple(used))


def _key_batch(keys: Sequence[Sequence[pa.Scalar]]) -> pa.RecordBatch | None:
    """Returns keys as a batch of the leading key columns, named by position; ``None`` if empty."""
    columns = [pa.array(values, values[0].type) for values in zip(*keys, strict=True)]
    if not columns:
        return None
    return pa.RecordBatch.from_arrays(columns, [str(at) for at in range(len(columns))])
