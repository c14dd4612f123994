"""Plans layouts for rows that several processes write, from samples, before any row is written.

Each process samples its rows. The samples are merged in any order, and one process plans all cubes.
The part of the curve that a row belongs to depends only on its values, so a process that is
restarted sends its rows to the same parts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nimblepy.cached import cached_property
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import Path
from nimblepy.table.base.model import DataFile
from nimblepy.table.otree.layouts import OTree, ZOrder
from nimblepy.table.otree.space import SPACE_ROWS, Space, fit, space_columns
from nimblepy.table.otree.thinned import Draws, Mask, Thinned
from nimblepy.table.otree.tree import Estimate, Numbers, Places, Tree, grow, new_weights

_DRAWS = "draws"
_FACTS = b"sampled"
# Minimum rows in a part of a Z-order curve; smaller parts are not worth a process.
_LEAST_ROWS = 1 << 16
# Minimum cubes in a part of an OTree's curve.
_CUBES_OF_A_PART = 2


class RowSample(Thinned[pa.Table]):
    """A sample of the layout's columns, as :func:`space_columns` returns them."""

    def add(self, columns: pa.Table, generator: np.random.Generator) -> None:
        draws = generator.integers(0, 1 << 64, columns.num_rows, np.uint64)
        self.add_part(columns.append_column(_DRAWS, pa.array(draws)), columns.num_rows)

    def draws(self, part: pa.Table) -> Draws:
        draws: Draws = part.column(_DRAWS).to_numpy()
        return draws

    def some(self, part: pa.Table, kept: Mask) -> pa.Table:
        return part.filter(pa.array(kept))

    def count(self, part: pa.Table) -> int:
        return int(part.num_rows)

    def table(self) -> pa.Table:
        """Returns the sampled rows in random order."""
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
        """Reads the bytes that :meth:`to_bytes` made.

        Raises:
            ValueError: the bytes have another format.
        """
        table = pa.ipc.open_stream(octets).read_all()
        table.validate(full=True)
        sample = cls(most)
        rows, sample.halvings = map(int, json.loads(table.schema.metadata[_FACTS]))
        sample.add_part(table.replace_schema_metadata(None), rows)
        return sample


@dataclass(frozen=True)
class Planned:
    """A plan: the cube and the part of the curve for every row.

    Attributes:
        space: the mapping from values to places.
        tree: the cubes; a single leaf for a Z-order.
        edges: the places at which the parts of the curve begin, without the first part.
    """

    space: Space
    tree: Tree
    edges: Places

    @property
    def parts(self) -> int:
        return len(self.edges) + 1

    def part(self, table: pa.Table, paths: Sequence[Path]) -> Numbers:
        """Returns the part of the curve that contains each row."""
        places = self.space.places(space_columns(table, paths))
        parts: Numbers = np.searchsorted(self.edges, places, side="right")
        return parts

    def pieces(self, files: Sequence[DataFile]) -> list[list[DataFile]]:
        """Returns the groups of files that hold pieces of the same inner cube and can be merged.

        Only cubes that were split over several parts of the curve are returned.
        """
        files_by_cube: dict[tuple[int, int], list[DataFile]] = {}
        for file in files:
            for cube in () if file.cubes is None else file.cubes.cubes:
                bound = self._bounds.get((cube.bits, cube.prefix))
                if bound is not None and cube.most < bound:
                    files_by_cube.setdefault((cube.bits, cube.prefix), []).append(file)
        return [group for group in files_by_cube.values() if len(group) > 1]

    @cached_property
    def _bounds(self) -> dict[tuple[int, int], int]:
        return {
            (bits, prefix): bound
            for bits, prefixes, bounds in self.tree.inner
            for prefix, bound in zip(prefixes.tolist(), bounds.tolist(), strict=True)
        }


def layout_paths(layout: OTree | ZOrder, schema: pa.Schema) -> list[Path]:
    """Returns the paths of a layout's columns."""
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
    """Plans the layout of all rows from a sample of them.

    Args:
        schema: the schema of the table.
        rows_before: number of rows in the table before this commit.
        known: the space of the newest rows of the table. It is reused if it fits these rows.
        most_parts: number of processes that write the rows.
    """
    table = sample.table()
    space = fit(layout, table.slice(0, SPACE_ROWS), schema, known)
    places = np.sort(space.places(table))
    if isinstance(layout, ZOrder):
        parts = min(most_parts, -(-sample.rows // _LEAST_ROWS))
        return Planned(space, Tree(), _edges(places, places, parts))
    estimate = Estimate(max(1, len(places)))
    # Only the places of new rows matter here. Their real weights are drawn when they are written.
    estimate.add(places, new_weights(len(places), np.random.default_rng(0)))
    estimate.rows = sample.rows
    share = sample.rows / max(1, sample.rows + rows_before)
    tree = grow(estimate, len(layout.columns), layout.cube_rows, 1 << 62, share)
    parts = min(most_parts, -(-len(tree.leaves) // _CUBES_OF_A_PART))
    return Planned(space, tree, _edges(places, tree.leaves, parts))


def _edges(places: Places, begins: Places, parts: int) -> Places:
    """Returns the places in ``begins`` at which to cut the curve into parts of about equal size."""
    if parts < 2 or not len(places):
        return np.zeros(0, np.uint64)
    targets = places[len(places) * np.arange(1, parts) // parts]
    at = np.searchsorted(begins, targets, side="right") - 1
    edges = np.unique(begins[at])
    return edges[edges > 0]
