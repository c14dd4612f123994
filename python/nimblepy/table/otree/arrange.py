"""The rows of one commit in the order, or in the cubes, of a layout, in bounded memory."""

from __future__ import annotations

import os
import secrets
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.files.bounds import EncodedKeys
from nimblepy.files.source import key_order
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import SortKey
from nimblepy.table.base.model import Cube, FileCubes
from nimblepy.table.base.transforms import column_at
from nimblepy.table.otree.layouts import WEIGHT, WEIGHT_FIELD, OTree, Sorted, ZOrder
from nimblepy.table.otree.planned import Planned
from nimblepy.table.otree.space import SPACE_ROWS, Space, fit, space_columns
from nimblepy.table.otree.tree import (
    LEAF_SHARE,
    Estimate,
    Numbers,
    Tree,
    Weights,
    grow,
    new_weights,
    rows_held,
)

# Arrow arrays of text end at 2 GiB.
_MOST_MEMORY = 1 << 30

Order = np.ndarray[Any, np.dtype[np.int64]]


class Pieces:
    """Tables that are kept in memory as long as they fit, and then in files of a directory.

    They may be read any number of times. Cost: beyond the memory, a file is written and mapped for
    each piece.
    """

    def __init__(self, memory: int) -> None:
        self._memory = min(memory, _MOST_MEMORY)
        self._tables: list[pa.Table | str] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.bytes = 0
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        self.bytes += table.nbytes
        self._tables.append(table)
        if self.bytes > self._memory:
            for i, kept in enumerate(self._tables):
                if isinstance(kept, pa.Table):
                    self._tables[i] = self._write(kept, i)

    def _write(self, table: pa.Table, number: int) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="nimblepy-layout-")
        path = os.path.join(self._folder.name, f"{number}.arrow")
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        return path

    @property
    def in_memory(self) -> bool:
        return self._folder is None

    def __len__(self) -> int:
        return len(self._tables)

    def __getitem__(self, number: int) -> pa.Table:
        found = self._tables[number]
        if isinstance(found, pa.Table):
            return found
        return pa.ipc.open_file(pa.memory_map(found)).read_all()

    def __iter__(self) -> Iterator[pa.Table]:
        return (self[number] for number in range(len(self)))

    def close(self) -> None:
        self._tables = []
        if self._folder is not None:
            self._folder.cleanup()


def _gathered(pieces: Iterable[pa.Table], memory: int) -> Pieces:
    """All rows: one piece where they fit into memory."""
    found = Pieces(memory)
    try:
        for piece in pieces:
            found.add(piece)
    except BaseException:
        found.close()
        raise
    if found.in_memory and len(found):
        # Rows of one array are taken in any order; of many they would be put together each time.
        whole = Pieces(memory)
        whole.add(pa.concat_tables(list(found)).combine_chunks())
        return whole
    return found


def _sample(pieces: Pieces, take: Callable[[pa.Table], pa.Table], rng: Any) -> pa.Table:
    """Some rows, each with the same probability."""
    share = min(1.0, SPACE_ROWS / max(1, pieces.rows))
    found = []
    for piece in pieces:
        some = np.flatnonzero(rng.random(piece.num_rows) < share) if share < 1.0 else None
        found.append(take(piece if some is None else piece.take(pa.array(some))))
    return pa.concat_tables(found).combine_chunks()


# ------------------------------------------------------------------ rows in one order


def in_order(
    pieces: Iterable[pa.Table], layout: Sorted | ZOrder, memory: int, *, step_bytes: int
) -> Iterator[pa.Table]:
    """All rows in the order of a layout; equal ones keep theirs.

    Args:
        memory: bytes of rows that are held; more goes to files.
        step_bytes: Arrow bytes that are handed on at a time.
    """
    held = _gathered(pieces, memory)
    try:
        if not len(held):
            return
        if isinstance(layout, Sorted):
            orderer: _BySorted | _ByCurve = _BySorted(layout)
        else:
            orderer = _ByCurve(layout, held)
        if held.in_memory:
            yield from _slices(held[0], orderer.order(held[0]), step_bytes)
            return
        parts = -(-2 * held.bytes // min(memory, _MOST_MEMORY))
        edges = orderer.edges(held, parts)
        split = _split(held, lambda piece: orderer.part(piece, edges), parts, memory)
        held.close()
        try:
            for part in range(parts):
                rows = split.rows(part)
                if rows.num_rows:
                    yield from _slices(rows, orderer.order(rows), step_bytes)
        finally:
            split.close()
    finally:
        held.close()


def _slices(table: pa.Table, order: Order, step_bytes: int) -> Iterator[pa.Table]:
    """Rows in an order, some at a time."""
    step = max(1, len(order) * step_bytes // max(1, table.nbytes))
    for begin in range(0, len(order), step):
        yield table.take(pa.array(order[begin : begin + step]))


class _BySorted:
    """The order of sort keys."""

    def __init__(self, layout: Sorted) -> None:
        self._keys = [
            SortKey(str(i), descending=key.descending, nulls_first=key.nulls_first)
            for i, key in enumerate(layout.columns)
        ]
        self._names = layout.names

    def _columns(self, table: pa.Table) -> pa.Table:
        paths = [resolve_column(table.schema, name).path for name in self._names]
        return pa.table(
            [column_at(table, path) for path in paths], names=[key.column for key in self._keys]
        )

    def order(self, table: pa.Table) -> Order:
        return key_order(self._columns(table).combine_chunks(), self._keys, False)

    def _encoded(self, table: pa.Table) -> list[bytes]:
        batches = self._columns(table).combine_chunks().to_batches()
        return [key for batch in batches for key in EncodedKeys(batch, self._keys).to_list()]

    def edges(self, pieces: Pieces, parts: int) -> Any:
        sample = _sample(pieces, self._columns, np.random.default_rng(0))
        sample = sample.rename_columns([str(i) for i in range(sample.num_columns)])
        batches = sample.combine_chunks().to_batches()
        keys = sorted(k for b in batches for k in EncodedKeys(b, self._keys).to_list())
        at = np.linspace(0, len(keys), parts + 1).astype(np.int64)[1:-1]
        return [keys[i] for i in at]

    def part(self, table: pa.Table, edges: Any) -> Numbers:
        return np.array([bisect_right(edges, key) for key in self._encoded(table)], np.int64)


class _ByCurve:
    """The order along a curve through the ranks of columns."""

    def __init__(self, layout: ZOrder, pieces: Pieces) -> None:
        schema = pieces[0].schema
        self._paths = [resolve_column(schema, name).path for name in layout.names]
        self._space = _fitted(layout, pieces, self._paths, np.random.default_rng(0))

    def _places(self, table: pa.Table) -> Any:
        return self._space.places(space_columns(table, self._paths))

    def order(self, table: pa.Table) -> Order:
        return np.argsort(self._places(table), kind="stable")

    def edges(self, pieces: Pieces, parts: int) -> Any:
        def take(table: pa.Table) -> pa.Table:
            return pa.table({"place": self._places(table)})

        places = np.sort(_sample(pieces, take, np.random.default_rng(0)).column(0).to_numpy())
        at = np.linspace(0, len(places), parts + 1).astype(np.int64)[1:-1]
        return places[at]

    def part(self, table: pa.Table, edges: Any) -> Numbers:
        found: Numbers = np.searchsorted(edges, self._places(table), side="right")
        return found


def _fitted(
    layout: OTree | ZOrder, pieces: Pieces, paths: Any, rng: Any, known: str | None = None
) -> Space:
    sample = _sample(pieces, lambda piece: space_columns(piece, paths), rng)
    return fit(layout, sample, pieces[0].schema, known)


# ------------------------------------------------------------------ rows in parts


@dataclass
class _Split:
    """Pieces whose rows lie part by part, and where the parts begin."""

    pieces: Pieces
    bounds: list[Numbers]

    def rows(self, part: int) -> pa.Table:
        found = [
            piece.slice(int(bounds[part]), int(bounds[part + 1] - bounds[part]))
            for piece, bounds in zip(self.pieces, self.bounds, strict=True)
        ]
        return pa.concat_tables(found).combine_chunks()

    def close(self) -> None:
        self.pieces.close()


def _split(
    pieces: Iterable[pa.Table], part_of: Callable[[pa.Table], Numbers], parts: int, memory: int
) -> _Split:
    """Rows by the number of their part."""
    split = _Split(Pieces(memory), [])
    try:
        for piece in pieces:
            order, bounds = _in_turn(part_of(piece), parts)
            split.pieces.add(piece.take(pa.array(order)))
            split.bounds.append(bounds)
    except BaseException:
        split.close()
        raise
    return split


def _in_turn(numbers: Numbers, count: int) -> tuple[Order, Numbers]:
    """Rows by the number of their part, and where each part begins."""
    # Numbers of two bytes are sorted by counting them.
    small = numbers.astype(np.uint16) if count <= 1 << 16 else numbers
    edges = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=count), out=edges[1:])
    return np.argsort(small, kind="stable"), edges


# ------------------------------------------------------------------ rows in cubes


@dataclass(frozen=True)
class CubeRows:
    """Rows of one file, in the order of their weights, which are the last column."""

    rows: pa.Table
    cubes: FileCubes


@dataclass(frozen=True)
class Whole:
    """Where all rows of a table lie, for some of them that are written anew.

    Attributes:
        space: how values became the places of the estimate.
    """

    space: Space
    estimate: Estimate


def in_cubes(
    pieces: Iterable[pa.Table],
    layout: OTree,
    memory: int,
    *,
    rows_before: int,
    file_bytes: int,
    space: str | None = None,
    whole: Whole | None = None,
    planned: Planned | None = None,
) -> Iterator[CubeRows]:
    """All rows with weights, by the cubes of the tree that fits them.

    Rows whose last column is that of weights keep theirs; others get new ones.

    Args:
        memory: bytes of rows that are held; more goes to files.
        rows_before: those of the table that the rows come to.
        file_bytes: most Arrow bytes of a file.
        space: that of the newest rows of the table, which is kept where it fits these.
        whole: the table that the rows are part of, in whose space and tree they are laid out.
        planned: the cubes, where they were planned for more rows than these.
    """
    held = _gathered(pieces, memory)
    try:
        if len(held):
            most_rows = max(1, file_bytes * held.rows // max(1, held.bytes))
            yield from _in_cubes(
                held, layout, memory, rows_before, most_rows, space, whole, planned
            )
    finally:
        held.close()


def _in_cubes(
    held: Pieces,
    layout: OTree,
    memory: int,
    rows_before: int,
    most_rows: int,
    known: str | None,
    whole: Whole | None,
    planned: Planned | None,
) -> Iterator[CubeRows]:
    rng = np.random.default_rng(secrets.randbits(128))
    paths = [resolve_column(held[0].schema, name).path for name in layout.names]
    if planned is not None:
        space = planned.space
    else:
        space = _fitted(layout, held, paths, rng, known) if whole is None else whole.space
    estimate = Estimate(rows_held(held.rows, layout.cube_rows))
    new = held[0].schema.names[-1] != WEIGHT
    facts: list[tuple[Any, Weights]] = []
    for piece in held:
        places = space.places(space_columns(piece, paths))
        given = piece.column(piece.num_columns - 1)
        weights = new_weights(piece.num_rows, rng) if new else given.to_numpy()
        if planned is None:
            estimate.add(places, weights)
        facts.append((places, weights))
    if planned is not None:
        tree = planned.tree
    else:
        share = held.rows / (held.rows + rows_before)
        around = None if whole is None else whole.estimate
        tree = grow(estimate, len(paths), layout.cube_rows, most_rows, share, around, new=new)
    ceiling = min(most_rows, round(1.5 * LEAF_SHARE * layout.cube_rows))
    text = space.to_json()
    for cube, rows in _by_cube(held, facts, tree, memory):
        parts = -(-rows.num_rows // ceiling)
        edges = np.linspace(0, rows.num_rows, parts + 1).astype(np.int64)
        for begin, end in pairwise(edges.tolist()):
            some = rows.slice(begin, end - begin)
            last = some.column(some.num_columns - 1)
            bits, prefix = tree.prefix(cube)
            made = Cube(bits, prefix, last[0].as_py(), last[-1].as_py(), some.num_rows)
            yield CubeRows(some, FileCubes(text, (made,)))


def _by_cube(
    held: Pieces, facts: list[tuple[Any, Weights]], tree: Tree, memory: int
) -> Iterator[tuple[int, pa.Table]]:
    """(cube, its rows in the order of their weights)."""
    if held.in_memory:
        places, weights = facts.pop()
        cubes = tree.assign(places, weights)
        order, edges = _in_turn(cubes, tree.cubes)
        table = held[0]
        for cube, (begin, end) in enumerate(pairwise(edges.tolist())):
            if begin < end:
                mine = order[begin:end]
                mine = mine[np.argsort(weights[mine])]
                yield cube, _weighted(table.take(pa.array(mine)), weights[mine])
        return
    facts.reverse()

    def weighted() -> Iterator[pa.Table]:
        for piece in held:
            places, weights = facts.pop()
            cubes = pa.array(tree.assign(places, weights))
            yield _weighted(piece, weights).append_column("cube", cubes)

    def cube_of(piece: pa.Table) -> Numbers:
        found: Numbers = piece.column(piece.num_columns - 1).to_numpy()
        return found

    split = _split(weighted(), cube_of, tree.cubes, memory)
    try:
        for cube in range(tree.cubes):
            rows = split.rows(cube)
            rows = rows.remove_column(rows.num_columns - 1)
            if rows.num_rows:
                order = np.argsort(rows.column(rows.num_columns - 1).to_numpy(), kind="stable")
                yield cube, rows.take(pa.array(order))
    finally:
        split.close()


def _weighted(table: pa.Table, weights: Weights) -> pa.Table:
    if table.schema.names[-1] == WEIGHT:
        return table
    return table.append_column(WEIGHT_FIELD, pa.array(weights))
