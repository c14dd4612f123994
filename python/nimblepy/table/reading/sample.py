"""Samples tables: by the weights of an OTree's rows, and by random draws in other files."""

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
from nimblepy.rows.arguments import Columns, Projected, column_names, generator_seed
from nimblepy.rows.gather import rows_without_columns
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Filter, RowSource
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.lineage import names_lineage
from nimblepy.table.iceberg.pruning import Mask
from nimblepy.table.otree.blocks import Blocks, rebuilt
from nimblepy.table.otree.layouts import WEIGHT, WEIGHT_ID
from nimblepy.table.otree.tree import LEAST_WEIGHT, WEIGHTS, Numbers
from nimblepy.table.reading.fileset import FileSet, in_metadata
from nimblepy.table.reading.members import Member, Reading
from nimblepy.table.reading.plan import Members

_BATCH_ROWS = 1 << 16
# How to select rows of a file.
Taking: TypeAlias = Literal["weights", "all", "draws"]


@dataclass(frozen=True)
class Window:
    """A range of weights on a circle: ``count`` weights from ``begin``."""

    begin: int
    count: int

    @classmethod
    def of(cls, fraction: float, seed: int | None) -> Window:
        """Returns the window of a sample.

        Without a seed, it has the lowest weights, which the fewest files contain.
        """
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
        """Returns which files may have weights in the window, by their bounds of weights."""
        mask = np.zeros(len(least), np.bool_)
        for a, b in self.ranges:
            mask |= (a <= most) & (least < b)
        return mask

    def holds(self, least: Numbers, most: Numbers) -> Mask:
        """Returns which files have only weights in the window, by their bounds of weights."""
        mask = np.zeros(len(least), np.bool_)
        for a, b in self.ranges:
            mask |= (a <= least) & (most < b)
        return mask

    def node(self, schema: pa.Schema) -> Node:
        """Returns the test of a row's weight, as a filter."""
        column = f'"{WEIGHT}"'
        tests = [f"({column} >= {a} AND {column} <= {b - 1})" for a, b in self.ranges]
        return parse_filter(" OR ".join(tests) or "FALSE", schema).node


@dataclass(frozen=True)
class SamplePlan:
    """The files of a sample, and how to select their rows.

    Attributes:
        fraction: the probability of each row.
        window: the weights of selected rows.
        seed: seed of the draws for rows without weights.
        members: files that may have selected rows.
        taking: how to select the rows of each file: by weight, by draws, or all rows because all
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
        """Yields the selected rows of one file that pass the filter.

        Args:
            columns: columns of the result; ``None`` means all columns of the table.
        """
        member, taking, reading = self.members[file], self.taking[file], self.reading
        parsed = None if filter is None else reading.parsed(filter)
        tested = () if parsed is None else parsed.columns
        has_lineage = reading.has_row_ids and (names_lineage(columns) or names_lineage(tested))
        weighted = taking == "weights"
        read_columns = columns
        if read_columns is None and (weighted or has_lineage):
            read_columns = tuple((name,) for name in reading.schema.names)
        reading = reading.variant(lineage=has_lineage, weighted=weighted)
        if weighted:
            test = self.window.node(reading.schema)
            node = test if parsed is None else all_of(parsed.node, test)
            parsed = make_filter(node, reading.schema)
        child, deleted = reading.child_of(member), reading.deleted(member)
        rows = child.all_rows() if deleted is None else child.all_rows().minus(RowSet(deleted))
        if taking == "draws":
            rows = rows.pick(self._drawn(member, rows.num_rows))
        yield from child.scan_batches(
            Where(parsed, rows), read_columns, batch_rows=_BATCH_ROWS, threads=threads
        )

    def _drawn(self, member: Member, rows: int) -> RowNumbers:
        """Draws live rows of a file, with a separate random generator."""
        name = hashlib.sha256(member.file.path.encode()).digest()
        seed = None if self.seed is None else [self.seed, *name[:16]]
        drawn = np.random.default_rng(seed).random(rows) < self.fraction
        return np.flatnonzero(drawn).astype(np.uint64)


def plan_sample(
    rows: FileSet, cubes: Blocks, fraction: float, seed: int | None, filter: Filter
) -> SamplePlan:
    """Plans a sample in which each row has the same probability.

    Args:
        cubes: the known cubes of the files.
    """
    seed = generator_seed(seed)
    parsed = None if filter is None else rows.parsed(filter)
    window = Window.of(fraction, seed)
    members, taking = rows.members.take(np.zeros(0, np.int64)), list[Taking]()
    if fraction:
        members = (
            rows.members if parsed is None else rows.plan.members(in_metadata(parsed.conjuncts))
        )
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
    """Returns rows drawn at random, each with the same probability.

    Args:
        cubes: the known cubes of the files.
    """
    names = column_names(columns)
    schema = rows.projected(names)
    plan = plan_sample(rows, cubes, fraction, seed, filter)
    batches = (
        batch for file in range(len(plan.members)) for batch in plan.read(file, filter, names)
    )
    if not len(schema):
        return pa.Table.from_batches([rows_without_columns(sum(b.num_rows for b in batches))])
    return pa.Table.from_batches((batch.cast(schema) for batch in batches), schema=schema)


def known_cubes(members: Members, reading: Reading, cubes: Blocks) -> tuple[Blocks, Blocks]:
    """Returns all known cubes of files, and those of them that are in no blob but were read from
    file footers.
    """

    def footer(number: int) -> Mapping[str, Any] | None:
        opened = _opened(reading.child(members[number].file))
        return getattr(opened, "metadata", None)

    again = rebuilt(cubes, members.files.paths, footer)
    return (Blocks.merged([again, cubes]) if len(again) else cubes), again


def _taken(
    members: Members, by_weight: Reading, cubes: Blocks, window: Window
) -> tuple[Members, list[Taking]]:
    """Returns the files that may have selected rows: first files with weights, then the others."""
    paths = members.files.paths
    numbers = cubes.find(paths)
    if len(numbers) and int(numbers.min()) < 0:
        cubes, _ = known_cubes(members, by_weight, cubes)
        numbers = cubes.find(paths)
    ends = cubes.weights_at(numbers)
    weighted = (numbers >= 0) & window.meets(*ends)
    whole = (numbers >= 0) & window.holds(*ends)
    drawn = np.zeros(len(members), np.bool_)
    for i in np.flatnonzero(numbers < 0).tolist():
        mask = weighted if _has_weights(by_weight.child(members[i].file)) else drawn
        mask[i] = True
    taking: list[Taking] = ["all" if all_of_it else "weights" for all_of_it in whole[weighted]]
    taking += ["draws"] * int(drawn.sum())
    return members.take(np.append(np.flatnonzero(weighted), np.flatnonzero(drawn))), taking


def _opened(child: RowSource) -> RowSource:
    """Returns the file in its stored form."""
    return child.child if isinstance(child, MappedRows) else child


def _has_weights(child: RowSource) -> bool:
    return any(field_id_of(field) == WEIGHT_ID for field in _opened(child).schema)
