"""Samples of tables: by the weights that rows of an OTree have, and drawn where there are none."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Filter as ParsedFilter
from nimblepy.expr.filter import make_filter, parse_filter
from nimblepy.expr.nodes import Node, all_of
from nimblepy.files.mapped import MappedRows
from nimblepy.join.joinable import FixedRows
from nimblepy.rows.arguments import Columns, column_names, generator_seed
from nimblepy.rows.gather import rows_without_columns
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import Filter, RowSource
from nimblepy.schema.field_ids import field_id_of
from nimblepy.table.iceberg.pruning import Mask
from nimblepy.table.otree.blocks import Blocks, rebuilt
from nimblepy.table.otree.layouts import WEIGHT, WEIGHT_ID
from nimblepy.table.otree.tree import LEAST_WEIGHT, WEIGHTS, Numbers
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Reading
from nimblepy.table.reading.plan import Members

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Window:
    """Weights of the rows that are taken: from ``begin`` as many as ``count``, in a circle."""

    begin: int
    count: int

    @classmethod
    def of(cls, fraction: float, seed: int | None) -> Window:
        """Without a seed the rows of lowest weight, which the fewest files have."""
        count = min(WEIGHTS, max(0, round(fraction * WEIGHTS)))
        begin = 0
        if seed is not None:
            begin = int(np.random.default_rng(seed).integers(0, WEIGHTS))
        return cls(begin, count)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Half-open ranges of weights."""
        end = self.begin + self.count
        parts = [(self.begin, min(end, WEIGHTS)), (0, end - WEIGHTS)]
        return [(a + LEAST_WEIGHT, b + LEAST_WEIGHT) for a, b in parts if b > a]

    def meets(self, least: Numbers, most: Numbers) -> Mask:
        """Where weights between these, both included, may be taken."""
        found = np.zeros(len(least), np.bool_)
        for a, b in self.ranges:
            found |= (a <= most) & (least < b)
        return found

    def holds(self, least: Numbers, most: Numbers) -> Mask:
        """Where all weights between these are taken."""
        found = np.zeros(len(least), np.bool_)
        for a, b in self.ranges:
            found |= (a <= least) & (most < b)
        return found

    def node(self, schema: pa.Schema) -> Node:
        """The test of a row's weight."""
        column = f'"{WEIGHT}"'
        tests = [f"({column} >= {a} AND {column} <= {b - 1})" for a, b in self.ranges]
        return parse_filter(" OR ".join(tests) or "FALSE", schema).node


def checked_fraction(fraction: float) -> float:
    """A fraction from 0 to 1.

    Raises:
        InvalidArgumentError: it is none.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise InvalidArgumentError(f"fraction: expected a number from 0 to 1, got {fraction!r}")
    if not 0 <= fraction <= 1:
        raise InvalidArgumentError(f"fraction: expected a number from 0 to 1, got {fraction!r}")
    return float(fraction)


def sample(
    rows: FileSet,
    cubes: Blocks,
    fraction: float,
    seed: int | None,
    columns: Columns,
    filter: Filter,
) -> pa.Table:
    """Rows drawn at random, each with the same probability.

    Args:
        cubes: those of the files, as far as they are known.
    """
    seed = generator_seed(seed)
    names = column_names(columns)
    schema = rows.projected(names)
    parsed = None if filter is None else parse_filter(filter, rows.schema)
    if fraction == 0:
        return schema.empty_table()
    rows = rows.for_filter(filter)
    by_weight = rows.reading.with_weights()
    members = rows.plan.members(parsed.conjuncts) if parsed is not None else rows.members
    window = Window.of(fraction, seed)
    known, whole, drawn = _with_weights(members, by_weight, cubes, window)
    tables = []
    if len(known):
        test = window.node(by_weight.schema)
        node = test if parsed is None else all_of(parsed.node, test)
        taken = make_filter(node, by_weight.schema)
        for i, member in enumerate(known):
            child, gone = by_weight.child(member.file), member.deleted()
            live = child.all_rows() if gone is None else child.all_rows().minus(RowSet(gone))
            tables.append(_read(child, Where(parsed if whole[i] else taken, live), schema, names))
    for i in range(len(drawn)):
        part = FileSet(rows.reading, rows.plan, drawn.take([i]))
        tables.append(_read(part, _drawn(part, parsed, fraction, seed), schema, names))
    if not len(schema):
        return pa.Table.from_batches([rows_without_columns(sum(t.num_rows for t in tables))])
    return pa.concat_tables([schema.empty_table(), *tables])


def _read(rows: RowSource, where: Where, schema: pa.Schema, names: Any) -> pa.Table:
    wanted = tuple((name,) for name in schema.names) if names is None else names
    found = rows.filtered(where, wanted, batch_rows=_BATCH_ROWS, threads=0)
    if not wanted:
        return pa.Table.from_batches([rows_without_columns(sum(b.num_rows for b in found))])
    return pa.Table.from_batches((batch.cast(schema) for batch in found), schema=schema)


def known_cubes(members: Members, reading: Reading, cubes: Blocks) -> tuple[Blocks, Blocks]:
    """The cubes of files, and of these those that no blob has, from the footers of the files."""

    def footer(number: int) -> Mapping[str, Any] | None:
        opened = _opened(reading.child(members[number].file))
        return getattr(opened, "metadata", None)

    again = rebuilt(cubes, members.files.paths, footer)
    return (Blocks.merged([again, cubes]) if len(again) else cubes), again


def _with_weights(
    members: Members, by_weight: Reading, cubes: Blocks, window: Window
) -> tuple[Members, Mask, Members]:
    """(files with weights, some of which may be taken; of which all are; files without any)."""
    paths = members.files.paths
    numbers = cubes.find(paths)
    if len(numbers) and int(numbers.min()) < 0:
        cubes, _ = known_cubes(members, by_weight, cubes)
        numbers = cubes.find(paths)
    ends = cubes.weights_at(numbers)
    known = (numbers >= 0) & window.meets(*ends)
    whole = (numbers >= 0) & window.holds(*ends)
    drawn = np.zeros(len(members), np.bool_)
    for i in np.flatnonzero(numbers < 0).tolist():
        mine = known if _has_weights(by_weight.child(members[i].file)) else drawn
        mine[i] = True
    return members.take(np.flatnonzero(known)), whole[known], members.take(np.flatnonzero(drawn))


def _opened(child: FixedRows) -> FixedRows:
    """The file itself, as it is stored."""
    return child.child if isinstance(child, MappedRows) else child


def _has_weights(child: FixedRows) -> bool:
    return any(field_id_of(field) == WEIGHT_ID for field in _opened(child).schema)


def _drawn(files: FileSet, parsed: ParsedFilter | None, fraction: float, seed: int | None) -> Where:
    """Live rows of one file, drawn by a generator of its own."""
    rows = files.num_rows
    name = hashlib.sha256(files.members[0].file.path.encode()).digest()
    generator = np.random.default_rng(None if seed is None else [seed, *name[:16]])
    taken = np.flatnonzero(generator.random(rows) < fraction).astype(np.uint64)
    return Where(parsed, files.all_rows().pick(taken))
