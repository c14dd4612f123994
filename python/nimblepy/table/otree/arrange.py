"""Arranges the rows of one commit by the table's layout (sorted or in cubes), in bounded memory."""

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

# Offsets of Arrow text arrays are 32 bits wide, so one array holds at most 2 GiB.
_MOST_MEMORY = 1 << 30

Order = np.ndarray[Any, np.dtype[np.int64]]


class Pieces:
    """A list of tables that spills to a temporary directory when it exceeds its memory limit.

    Pieces can be read any number of times. Cost: after spilling, each piece is one file, which is
    mapped when it is read.
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
        piece = self._tables[number]
        if isinstance(piece, pa.Table):
            return piece
        return pa.ipc.open_file(pa.memory_map(piece)).read_all()

    def __iter__(self) -> Iterator[pa.Table]:
        return (self[number] for number in range(len(self)))

    def close(self) -> None:
        self._tables = []
        if self._folder is not None:
            self._folder.cleanup()


def _gathered(pieces: Iterable[pa.Table], memory: int) -> Pieces:
    """Collects all rows, as a single piece if they fit into memory."""
    gathered = Pieces(memory)
    try:
        for piece in pieces:
            gathered.add(piece)
    except BaseException:
        gathered.close()
        raise
    if gathered.in_memory and len(gathered):
        # `take` on a chunked array would concatenate the chunks on every call.
        whole = Pieces(memory)
        whole.add(pa.concat_tables(list(gathered)).combine_chunks())
        return whole
    return gathered


def _sample(pieces: Pieces, take: Callable[[pa.Table], pa.Table], rng: Any) -> pa.Table:
    """Returns a uniform random sample of about ``SPACE_ROWS`` rows."""
    share = min(1.0, SPACE_ROWS / max(1, pieces.rows))
    sampled = []
    for piece in pieces:
        chosen = np.flatnonzero(rng.random(piece.num_rows) < share) if share < 1.0 else None
        sampled.append(take(piece if chosen is None else piece.take(pa.array(chosen))))
    return pa.concat_tables(sampled).combine_chunks()


# ------------------------------------------------------------------ rows in one order


def in_order(
    pieces: Iterable[pa.Table], layout: Sorted | ZOrder, memory: int, *, step_bytes: int
) -> Iterator[pa.Table]:
    """Yields all rows in the order of a layout. The sort is stable.

    Args:
        memory: bytes of rows to hold in memory; the rest spills to temporary files.
        step_bytes: approximate Arrow bytes of each yielded table.
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
    """Yields the rows of ``table`` in ``order``, about ``step_bytes`` at a time."""
    step = max(1, len(order) * step_bytes // max(1, table.nbytes))
    for begin in range(0, len(order), step):
        yield table.take(pa.array(order[begin : begin + step]))


class _BySorted:
    """Orders rows by the sort keys of a layout."""

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
    """Orders rows along a Z-order curve through the ranks of the columns."""

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
        parts: Numbers = np.searchsorted(edges, self._places(table), side="right")
        return parts


def _fitted(
    layout: OTree | ZOrder, pieces: Pieces, paths: Any, rng: Any, previous_space: str | None = None
) -> Space:
    sample = _sample(pieces, lambda piece: space_columns(piece, paths), rng)
    return fit(layout, sample, pieces[0].schema, previous_space)


# ------------------------------------------------------------------ rows in parts


@dataclass
class _Split:
    """Pieces whose rows are grouped by part, with the offsets of the parts in each piece."""

    pieces: Pieces
    bounds: list[Numbers]

    def rows(self, part: int) -> pa.Table:
        slices = [
            piece.slice(int(bounds[part]), int(bounds[part + 1] - bounds[part]))
            for piece, bounds in zip(self.pieces, self.bounds, strict=True)
        ]
        return pa.concat_tables(slices).combine_chunks()

    def close(self) -> None:
        self.pieces.close()


def _split(
    pieces: Iterable[pa.Table], part_of: Callable[[pa.Table], Numbers], parts: int, memory: int
) -> _Split:
    """Groups the rows of each piece by part number."""
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
    """Returns the stable order of rows by part number, and each part's offset in that order."""
    # NumPy sorts 16-bit integers with a radix sort, which is faster.
    small = numbers.astype(np.uint16) if count <= 1 << 16 else numbers
    edges = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=count), out=edges[1:])
    return np.argsort(small, kind="stable"), edges


# ------------------------------------------------------------------ rows in cubes


@dataclass(frozen=True)
class CubeRows:
    """Rows of one file, sorted by weight. The last column holds the weights."""

    rows: pa.Table
    cubes: FileCubes


@dataclass(frozen=True)
class Whole:
    """The distribution of all rows of a table, used when only some of them are rewritten.

    Attributes:
        space: the mapping from values to the places in ``estimate``.
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
    """Plans a tree of cubes for the rows and yields the rows of each cube, with weights.

    If the last column holds weights, rows keep them; otherwise they get random weights.

    Args:
        memory: bytes of rows to hold in memory; the rest spills to temporary files.
        rows_before: number of rows in the table before this commit.
        file_bytes: maximum Arrow bytes of a file.
        space: the space of the newest rows of the table. It is reused if it fits these rows.
        whole: the distribution of the whole table, if the rows are an existing part of it. The rows
            are then placed by its space and tree.
        planned: cubes that were planned in advance for these rows and for rows of other processes.
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
    previous_space: str | None,
    whole: Whole | None,
    planned: Planned | None,
) -> Iterator[CubeRows]:
    rng = np.random.default_rng(secrets.randbits(128))
    paths = [resolve_column(held[0].schema, name).path for name in layout.names]
    if planned is not None:
        space = planned.space
    else:
        space = _fitted(layout, held, paths, rng, previous_space) if whole is None else whole.space
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
            cube_rows = rows.slice(begin, end - begin)
            last = cube_rows.column(cube_rows.num_columns - 1)
            bits, prefix = tree.prefix(cube)
            facts_of_cube = Cube(
                bits, prefix, last[0].as_py(), last[-1].as_py(), cube_rows.num_rows
            )
            yield CubeRows(cube_rows, FileCubes(text, (facts_of_cube,)))


def _by_cube(
    held: Pieces, facts: list[tuple[Any, Weights]], tree: Tree, memory: int
) -> Iterator[tuple[int, pa.Table]]:
    """Yields (cube number, its rows sorted by weight)."""
    if held.in_memory:
        places, weights = facts.pop()
        cubes = tree.assign(places, weights)
        order, edges = _in_turn(cubes, tree.cubes)
        table = held[0]
        for cube, (begin, end) in enumerate(pairwise(edges.tolist())):
            if begin < end:
                rows_of_cube = order[begin:end]
                rows_of_cube = rows_of_cube[np.argsort(weights[rows_of_cube])]
                yield cube, _weighted(table.take(pa.array(rows_of_cube)), weights[rows_of_cube])
        return
    facts.reverse()

    def weighted() -> Iterator[pa.Table]:
        for piece in held:
            places, weights = facts.pop()
            cubes = pa.array(tree.assign(places, weights))
            yield _weighted(piece, weights).append_column("cube", cubes)

    def cube_of(piece: pa.Table) -> Numbers:
        cubes: Numbers = piece.column(piece.num_columns - 1).to_numpy()
        return cubes

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
