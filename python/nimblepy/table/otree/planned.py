"""Layouts of rows that several processes write: planned from samples, before any row is written.

Each process samples the rows that it has; the samples are merged in any order, and one process
plans the cubes of all. Which part of the curve a row lies in depends on its values alone, so that a
process which runs again sends its rows to where they went before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import Path
from nimblepy.table.base.model import DataFile
from nimblepy.table.otree.layouts import OTree, ZOrder
from nimblepy.table.otree.space import SPACE_ROWS, Space, fit, space_columns
from nimblepy.table.otree.thinned import Draws, Mask, Thinned
from nimblepy.table.otree.tree import Estimate, Numbers, Places, Tree, grow, new_weights

_DRAWS = "draws"
_FACTS = b"sampled"
# Rows for which a part of the curve is worth a process, where no cube says how many.
_LEAST_ROWS = 1 << 16
# Cubes that a part of the curve should have.
_CUBES_OF_A_PART = 2


class RowSample(Thinned[pa.Table]):
    """The columns of a layout of some rows, as :func:`space_columns` gives them."""

    def add(self, columns: pa.Table, generator: np.random.Generator) -> None:
        draws = generator.integers(0, 1 << 64, columns.num_rows, np.uint64)
        self.add_part(columns.append_column(_DRAWS, pa.array(draws)), columns.num_rows)

    def draws(self, part: pa.Table) -> Draws:
        found: Draws = part.column(_DRAWS).to_numpy()
        return found

    def some(self, part: pa.Table, kept: Mask) -> pa.Table:
        return part.filter(pa.array(kept))

    def count(self, part: pa.Table) -> int:
        return int(part.num_rows)

    def table(self) -> pa.Table:
        """What is kept, in an order of chance."""
        rows = pa.concat_tables(self.parts).combine_chunks()
        return rows.sort_by(_DRAWS).drop_columns(_DRAWS)

    def to_bytes(self) -> bytes:
        table = pa.concat_tables(self.parts)
        facts = {_FACTS: json.dumps([self.rows, self.halvings])}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema.with_metadata(facts)) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, octets: bytes, most: int) -> RowSample:
        """What :meth:`to_bytes` made.

        Raises:
            ValueError: it is something else.
        """
        table = pa.ipc.open_stream(octets).read_all()
        table.validate(full=True)
        found = cls(most)
        rows, found.halvings = map(int, json.loads(table.schema.metadata[_FACTS]))
        found.add_part(table.replace_schema_metadata(None), rows)
        return found


@dataclass(frozen=True)
class Planned:
    """Where rows go.

    Attributes:
        space: how values become places.
        tree: the cubes; of a curve alone, one leaf.
        edges: the places at which the parts of the curve begin, without the first.
    """

    space: Space
    tree: Tree
    edges: Places

    @property
    def parts(self) -> int:
        return len(self.edges) + 1

    def part(self, table: pa.Table, paths: Sequence[Path]) -> Numbers:
        """The part of the curve that each row lies in."""
        places = self.space.places(space_columns(table, paths))
        found: Numbers = np.searchsorted(self.edges, places, side="right")
        return found

    def pieces(self, files: Sequence[DataFile]) -> list[list[DataFile]]:
        """Files that have parts of the same inner cube, of each that lies in several parts."""
        found: dict[tuple[int, int], list[DataFile]] = {}
        for file in files:
            for cube in () if file.cubes is None else file.cubes.cubes:
                bound = self._bounds.get((cube.bits, cube.prefix))
                if bound is not None and cube.most < bound:
                    found.setdefault((cube.bits, cube.prefix), []).append(file)
        return [group for group in found.values() if len(group) > 1]

    @cached_property
    def _bounds(self) -> dict[tuple[int, int], int]:
        return {
            (bits, prefix): bound
            for bits, prefixes, bounds in self.tree.inner
            for prefix, bound in zip(prefixes.tolist(), bounds.tolist(), strict=True)
        }


def layout_paths(layout: OTree | ZOrder, schema: pa.Schema) -> list[Path]:
    """The columns of a layout."""
    return [resolve_column(schema, name).path for name in layout.names]


def plan(
    sample: RowSample,
    layout: OTree | ZOrder,
    schema: pa.Schema,
    *,
    rows_before: int,
    known: str | None,
    most_parts: int,
) -> Planned:
    """Plans where all rows go of which there is a sample.

    Args:
        schema: of the table.
        rows_before: those of the table that the rows come to.
        known: the space of the newest rows of the table, which is kept where it fits these.
        most_parts: processes that are to write them.
    """
    table = sample.table()
    space = fit(layout, table.slice(0, SPACE_ROWS), schema, known)
    places = np.sort(space.places(table))
    if isinstance(layout, ZOrder):
        parts = min(most_parts, -(-sample.rows // _LEAST_ROWS))
        return Planned(space, Tree(), _edges(places, places, parts))
    estimate = Estimate(max(1, len(places)))
    # Of new rows only the places matter: their weights will be drawn when they are written.
    estimate.add(places, new_weights(len(places), np.random.default_rng(0)))
    estimate.rows = sample.rows
    share = sample.rows / max(1, sample.rows + rows_before)
    tree = grow(estimate, len(layout.columns), layout.cube_rows, 1 << 62, share)
    parts = min(most_parts, -(-len(tree.leaves) // _CUBES_OF_A_PART))
    return Planned(space, tree, _edges(places, tree.leaves, parts))


def _edges(places: Places, begins: Places, parts: int) -> Places:
    """Where parts with about as many rows begin, at some of these places."""
    if parts < 2 or not len(places):
        return np.zeros(0, np.uint64)
    wanted = places[len(places) * np.arange(1, parts) // parts]
    at = np.searchsorted(begins, wanted, side="right") - 1
    found = np.unique(begins[at])
    return found[found > 0]
