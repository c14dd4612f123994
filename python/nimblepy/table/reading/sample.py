"""Samples of tables: by the weights that rows of an OTree have, and drawn where there are none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy.expr.filter import make_filter, parse_filter
from nimblepy.expr.nodes import Node, all_of
from nimblepy.files.mapped import MappedRows
from nimblepy.join.joinable import FixedRows
from nimblepy.rows.arguments import Columns, column_names, generator_seed
from nimblepy.rows.gather import rows_without_columns
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Filter, Projected
from nimblepy.schema.field_ids import field_id_of
from nimblepy.table.iceberg.pruning import Mask
from nimblepy.table.otree.blocks import Blocks, rebuilt
from nimblepy.table.otree.layouts import WEIGHT, WEIGHT_ID
from nimblepy.table.otree.tree import LEAST_WEIGHT, WEIGHTS, Numbers
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Member, Reading
from nimblepy.table.reading.plan import Members

_BATCH_ROWS = 1 << 16
# How the rows of a file are taken.
Taking: TypeAlias = Literal["weights", "all", "draws"]


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


@dataclass(frozen=True)
class SamplePlan:
    """The files of a sample, and which of their rows are taken; rows are read file by file.

    Attributes:
        fraction: the probability of each row.
        window: the weights of the rows that are taken.
        seed: of the draws of rows that have no weights.
        members: files some of whose rows may be taken.
        taking: by which rows of each are taken: their weights, draws, or not at all because all
            their weights are in the window.
    """

    reading: Reading
    fraction: float
    window: Window
    seed: int | None
    members: Sequence[Member]
    taking: Sequence[Taking]

    def read(
        self,
        file: int,
        filter: Filter,
        columns: Projected,
        *,
        threads: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file that are taken and pass.

        Args:
            columns: those of the result; ``None``: all of the table.
        """
        member, taking, reading = self.members[file], self.taking[file], self.reading
        parsed = None if filter is None else parse_filter(filter, reading.schema)
        wanted = columns
        if taking == "weights":
            if wanted is None:
                wanted = tuple((name,) for name in reading.schema.names)
            reading = reading.with_weights()
            test = self.window.node(reading.schema)
            node = test if parsed is None else all_of(parsed.node, test)
            parsed = make_filter(node, reading.schema)
        child, gone = reading.child(member.file), member.deleted()
        rows = child.all_rows() if gone is None else child.all_rows().minus(RowSet(gone))
        if taking == "draws":
            rows = rows.pick(self._drawn(member, rows.num_rows))
        yield from child.scan_batches(
            Where(parsed, rows), wanted, batch_rows=_BATCH_ROWS, threads=threads
        )

    def _drawn(self, member: Member, rows: int) -> RowNumbers:
        """Which live rows of a file are taken, by a generator of its own."""
        name = hashlib.sha256(member.file.path.encode()).digest()
        seed = None if self.seed is None else [self.seed, *name[:16]]
        drawn = np.random.default_rng(seed).random(rows) < self.fraction
        return np.flatnonzero(drawn).astype(np.uint64)


def plan_sample(
    rows: FileSet, cubes: Blocks, fraction: float, seed: int | None, filter: Filter
) -> SamplePlan:
    """Which rows of which files are taken, each with the same probability.

    Args:
        cubes: those of the files, as far as they are known.
    """
    seed = generator_seed(seed)
    parsed = None if filter is None else parse_filter(filter, rows.schema)
    window = Window.of(fraction, seed)
    members, taking = rows.members.take(np.zeros(0, np.int64)), list[Taking]()
    if fraction:
        members = rows.members if parsed is None else rows.plan.members(parsed.conjuncts)
        members, taking = _taken(members, rows.reading.with_weights(), cubes, window)
    return SamplePlan(rows.reading, fraction, window, seed, members, taking)


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
    names = column_names(columns)
    schema = rows.projected(names)
    plan = plan_sample(rows, cubes, fraction, seed, filter)
    found = (batch for file in range(len(plan.members)) for batch in plan.read(file, filter, names))
    if not len(schema):
        return pa.Table.from_batches([rows_without_columns(sum(b.num_rows for b in found))])
    return pa.Table.from_batches((batch.cast(schema) for batch in found), schema=schema)


def known_cubes(members: Members, reading: Reading, cubes: Blocks) -> tuple[Blocks, Blocks]:
    """The cubes of files, and of these those that no blob has, from the footers of the files."""

    def footer(number: int) -> Mapping[str, Any] | None:
        opened = _opened(reading.child(members[number].file))
        return getattr(opened, "metadata", None)

    again = rebuilt(cubes, members.files.paths, footer)
    return (Blocks.merged([again, cubes]) if len(again) else cubes), again


def _taken(
    members: Members, by_weight: Reading, cubes: Blocks, window: Window
) -> tuple[Members, list[Taking]]:
    """The files some of whose rows may be taken: first those with weights, then the others."""
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
    taking: list[Taking] = ["all" if all_of_it else "weights" for all_of_it in whole[known]]
    taking += ["draws"] * int(drawn.sum())
    return members.take(np.append(np.flatnonzero(known), np.flatnonzero(drawn))), taking


def _opened(child: FixedRows) -> FixedRows:
    """The file itself, as it is stored."""
    return child.child if isinstance(child, MappedRows) else child


def _has_weights(child: FixedRows) -> bool:
    return any(field_id_of(field) == WEIGHT_ID for field in _opened(child).schema)
