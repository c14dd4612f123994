"""Filters answered by secondary indexes: which of them, whether it pays, and the rows.

An index may only say which rows can pass; the scan evaluates the whole filter on them. The cost
of each way is estimated from what the indexes themselves say, before a row is read.
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
from nimblepy.expr.bounds import ranges_of
from nimblepy.expr.nodes import And, Compare, In, IsNull, Node, Or, StartsWith
from nimblepy.file.handle import FileHandle
from nimblepy.file.indexes import Index
from nimblepy.rows.keys import key_batch, single_row
from nimblepy.schema.names import ColumnName

Rows = np.ndarray[Any, np.dtype[np.uint64]]
Ranges = np.ndarray[Any, np.dtype[np.uint64]]  # of positions, shape (n, 2), half-open

# Key values (of an IN list, or products of several) that are looked up one by one, and prefixes
# with a range behind them.
MAX_KEYS = 100_000
MAX_RANGES = 1_000
# Sides of an OR that are looked for one by one.
MAX_ALTERNATIVES = 64
# Costs in units of one row read by its number. A scan pays for every row, an index for every
# entry that it decodes: a filter that more than about 1.5 % of the rows pass is scanned.
SCANNED_ROW = 0.015
ENTRY = 0.02


@dataclass(frozen=True, slots=True)
class IndexMatch:
    """What one index can say about a filter.

    Attributes:
        used: the conjuncts it answers, as text.
        positions: of the keys that may pass, for an ordered index.
        batch: the keys, for a hash index.
        rows: how many rows these are; an estimate for a hash index.
    """

    index: Index
    used: tuple[str, ...]
    positions: Ranges | None
    batch: pa.RecordBatch | None
    rows: float

    @property
    def cost(self) -> float:
        """Of finding the rows, without reading them."""
        return self.rows * (ENTRY if self.positions is not None else 1.0)


def rows_by_indexes(
    file: FileHandle, conjuncts: Sequence[Node], rows_left: int
) -> tuple[Rows, tuple[IndexMatch, ...]] | None:
    """Ascending rows that may pass, by one or two secondary indexes.

    ``None`` where no index helps, or reading the ``rows_left`` rows that are left without one is
    cheaper.
    """
    best = rows_left * SCANNED_ROW
    if best < 1:
        return None  # reading a single row through an index would cost more
    found: list[IndexMatch] = []
    most = best
    # What a hash index would find is known without asking it: these come first, so that a sorted
    # one is searched only where that alone costs less.
    for index in sorted((i for i in file.indexes if i.number >= 0), key=lambda i: i.ordered):
        named = match_index(file, index, conjuncts, most)
        if named is not None:
            found.append(named)
            most = min(most, _cost([named], file.num_rows))
    chosen: tuple[IndexMatch, ...] = ()
    for way in [*combinations(found, 1), *combinations(found, 2)]:
        cost = _cost(way, file.num_rows)
        if cost < best:
            chosen, best = way, cost
    if not chosen:
        return None
    rows = _rows_of(file, chosen[0])
    for other in chosen[1:]:
        rows = np.intersect1d(rows, _rows_of(file, other), assume_unique=True)
    return rows, chosen


def _cost(way: Sequence[IndexMatch], num_rows: int) -> float:
    """Of finding the rows and reading those that all indexes name, were they independent."""
    expected = float(max(num_rows, 1))
    for found in way:
        expected *= min(1.0, found.rows / max(num_rows, 1))
    return sum(found.cost for found in way) + expected


def _rows_of(file: FileHandle, found: IndexMatch) -> Rows:
    core = file.opened(found.index).core
    if found.positions is not None:
        return np.unique(core.rows_at(found.positions))
    return core.candidates(found.batch)


def match_index(
    file: FileHandle, index: Index, conjuncts: Sequence[Node], most: float = math.inf
) -> IndexMatch | None:
    """What ``index`` says of conjuncts, or of the alternatives of one that is an OR.

    ``None`` as well where finding it in an ordered index costs more than ``most``, a unit a search.
    """
    found = _match_columns(file, index, conjuncts, most)
    if not index.ordered:
        return found
    for node in conjuncts:
        if isinstance(node, Or) and len(node.args) <= MAX_ALTERNATIVES:
            rest = [other for other in conjuncts if not isinstance(other, Or)]
            either = _match_either(file, index, node, rest, most)
            if either is not None and (found is None or either.rows < found.rows):
                found = either
    return found


def _match_either(
    file: FileHandle, index: Index, node: Or, rest: Sequence[Node], most: float
) -> IndexMatch | None:
    """What the index says of each alternative, together; ``None`` where of one it says nothing.

    So ``a < 1 OR (a = 1 AND b < 2)``, which is how a row is below another, is a range of its keys.
    """
    parts: list[Ranges] = []
    for arg in node.args:
        alternative = arg.args if isinstance(arg, And) else (arg,)
        found = match_index(file, index, [*alternative, *rest], most - len(parts))
        if found is None or found.positions is None:
            return None
        parts.append(found.positions.reshape(-1, 2))
    return _match(index, (str(node),), _core.merge(np.concatenate(parts)))


def _match_columns(
    file: FileHandle, index: Index, conjuncts: Sequence[Node], most: float
) -> IndexMatch | None:
    """Values of its leading columns, then a range of the next one."""
    prefixes: list[tuple[pa.Scalar, ...]] = [()]
    used: list[str] = []
    for column in index.columns:
        mine = [
            node
            for node in conjuncts
            if isinstance(node, (Compare, In, StartsWith, IsNull))
            and node.column.path == column.path
        ]
        values = values_of(mine)
        if values is None and index.ordered and any(isinstance(node, IsNull) for node in mine):
            values = [pa.scalar(None, column.value_type)], f"{column} is null"
        if values is not None and len(prefixes) * len(values[0]) <= MAX_KEYS:
            prefixes = [(*prefix, value) for prefix in prefixes for value in values[0]]
            used.append(values[1])
            continue
        if not index.ordered or len(prefixes) > MAX_RANGES:
            break
        if len(prefixes) > most:
            return None
        last = _last_column(file, index, mine, prefixes, len(used))
        if last is None:
            break
        return _match(index, (*used, *last[1]), last[0])
    if not used or (not index.ordered and len(used) < len(index.keys)):
        return None
    if not prefixes:
        return _match(index, tuple(used), np.empty((0, 2), dtype=np.uint64))
    names = index.names[: len(used)]
    arrays = [
        pa.array([prefix[i] for prefix in prefixes], prefixes[0][i].type) for i in range(len(used))
    ]
    batch = key_batch(names, arrays)
    if index.ordered:
        if len(prefixes) > most:
            return None
        # A null among the prefixes is asked for by IS NULL.
        positions = file.opened(index).core.places(batch, null_equals=True)
        return _match(index, tuple(used), positions)
    keys = file.core.indexes[index.number][2]
    return IndexMatch(index, tuple(used), None, batch, len(prefixes) * file.num_rows / max(1, keys))


def _match(index: Index, used: tuple[str, ...], positions: Ranges) -> IndexMatch:
    rows = int((positions[:, 1] - positions[:, 0]).sum())
    return IndexMatch(index, used, positions, None, rows)


def values_of(nodes: Sequence[Node]) -> tuple[list[pa.Scalar], str] | None:
    """The values a column must have, from its equality conjuncts."""
    for node in nodes:
        if isinstance(node, Compare) and node.op == "==":
            return [node.value], str(node)
        if isinstance(node, In):
            return list(node.values), str(node)
    return None


def _last_column(
    file: FileHandle,
    index: Index,
    nodes: Sequence[Node],
    prefixes: list[tuple[pa.Scalar, ...]],
    depth: int,
) -> tuple[Ranges, tuple[str, ...]] | None:
    """Positions of a range on the next key column, for each of few prefixes."""
    parts: Ranges | None = None
    used: list[str] = []
    names = index.names[: depth + 1]
    for node in nodes:
        if not isinstance(node, (Compare, StartsWith)):
            continue
        if isinstance(node, Compare) and node.op == "!=":
            continue
        found = [_range_of(file, index, names, prefix, node) for prefix in prefixes]
        positions = _core.merge(np.array(found, dtype=np.uint64).reshape(-1, 2))
        parts = positions if parts is None else _core.intersect(parts, positions)
        used.append(str(node))
    return None if parts is None else (parts, tuple(used))


def _range_of(
    file: FileHandle,
    index: Index,
    names: Sequence[ColumnName],
    prefix: tuple[pa.Scalar, ...],
    node: Compare | StartsWith,
) -> tuple[int, int]:
    core = file.opened(index).core
    if isinstance(node, StartsWith):
        value = pa.scalar(node.prefix, node.column.value_type)
        return core.prefix(single_row(names, [*prefix, value]), True)
    (bound,) = ranges_of(node)
    # An open side still ends where the leading columns change.
    low = [*prefix] if bound.lower is None else [*prefix, bound.lower]
    high = [*prefix] if bound.upper is None else [*prefix, bound.upper]
    return core.range(
        single_row(names[: len(low)], low) if low else None,
        bound.lower is None or bound.lower_inclusive,
        single_row(names[: len(high)], high) if high else None,
        bound.upper is None or bound.upper_inclusive,
        True,
    )
