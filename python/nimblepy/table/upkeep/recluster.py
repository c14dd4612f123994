"""Rewrites files of an OTree, subtree by subtree, if this makes box queries cheaper.

A "typical box" is a box query that selects ``BOX_SHARE`` of all rows, at a random place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.progress import ProgressArg
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import FIELD_ID, field_id_at
from nimblepy.table import iceberg as ice
from nimblepy.table.changing.row_commit import begin
from nimblepy.table.iceberg.pruning import End, Mask, original
from nimblepy.table.otree.arrange import Whole
from nimblepy.table.otree.blocks import Blocks
from nimblepy.table.otree.layouts import OTree
from nimblepy.table.otree.space import Floats, fit, interleaved
from nimblepy.table.otree.tree import (
    BITS,
    LEAST_SHARE,
    Estimate,
    Numbers,
    Places,
    Tree,
    grow,
    new_weights,
)
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.sample import known_cubes, sample
from nimblepy.table.upkeep.compact import (
    MOST_DELETED,
    Compacting,
    Compaction,
    Group,
    commit_repeatedly,
    may_pass,
    prepared,
    write_all,
)
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.settings import rewriting_target
from nimblepy.table.writing.write import Target

# Fraction of the ranks that a typical box selects.
BOX_SHARE = 0.01
# Files are rewritten only if this reduces the cost of boxes by at least this fraction.
_LEAST_GAIN = 0.2
# Fixed cost of opening a file, in rows, as a fraction of `cube_rows`.
_FILE_COST = 1 / 8
# A file belongs to a cube if its sides are at most this many times those of the cube.
_LONGEST = 2.0
# Sample size for the distribution of the rows.
_SAMPLED = 1 << 16
# Files are already laid out together if one commit wrote more than this fraction of their rows.
_MOST_OF_ONE = 0.5
# Fractions of the budget that are tried for the widest files; see `choose`.
_SPLITS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Extents:
    """Bounding boxes and sizes of files in a space.

    Attributes:
        lower, upper: coordinates; one row per file, one column per axis.
        rows, sizes: rows and bytes of each file.
        commits: sequence number of the commit that laid out each file; negative if no commit did.
        staying: number of rows that belong to inner cubes. These rows are in the right place,
            however wide the file is.
        least: the fraction of typical boxes that would intersect a leaf at the place of the file,
            if all rows were laid out together.
    """

    lower: Floats
    upper: Floats
    rows: Numbers
    sizes: Numbers
    commits: Numbers
    staying: Numbers
    least: Floats

    @property
    def sides(self) -> Floats:
        return self.upper - self.lower

    @property
    def is_mixed(self) -> bool:
        """Whether the files come from several commits, so that laying them out together helps."""
        laid_out = self.commits >= 0
        _, commit = np.unique(self.commits[laid_out], return_inverse=True)
        most = float(np.bincount(commit, self.rows[laid_out]).max(initial=0))
        several = len(self.rows) > 1 or not laid_out.all()
        return several and most <= _MOST_OF_ONE * float(self.rows.sum())

    def take(self, files: Numbers) -> Extents:
        return Extents(*(getattr(self, field.name)[files] for field in fields(self)))

    def read(self) -> float:
        """Returns the number of rows in the files that a typical box reads, on average."""
        return float(self.rows @ _met(self.sides))

    def costs(self, cube_rows: int) -> Floats:
        """Returns the expected cost of each file for a typical box, in rows."""
        costs: Floats = (self.rows + _FILE_COST * cube_rows) * _met(self.sides)
        return costs

    def ideal(self, cube_rows: int, share: float) -> float:
        """Returns the expected cost of all files for a typical box after a rewrite, in rows.

        Args:
            share: the fraction of all rows in the region that these rows make up. If the fraction
                is small, the new leaves cover larger boxes than the leaves of all rows, so that
                they are not nearly empty.
        """
        moving = (self.rows - self.staying).astype(np.float64)
        leaf_share = min(1.0, max(LEAST_SHARE, share))
        count = self.lower.shape[1]
        box = BOX_SHARE ** (1.0 / count)
        longer = max(1.0, leaf_share / max(share, 1e-9)) ** (1.0 / count)
        sides = np.minimum(1.0, (self.least ** (1.0 / count) - box) * longer + box)
        moving *= 1.0 + _FILE_COST / leaf_share
        return float(moving @ sides**count) + float(self.staying @ _met(self.sides))

    def around(self, part: Extents) -> float:
        """Returns the rows of all files inside the bounding box of ``part``, if rows are evenly
        distributed.
        """
        low, high = part.lower.min(axis=0), part.upper.max(axis=0)
        inside = np.minimum(self.upper, high) - np.maximum(self.lower, low)
        shares = np.clip(inside / np.maximum(self.sides, 2.0**-30), 0.0, 1.0)
        shares[(inside >= 0) & (self.sides < 2.0**-30)] = 1.0
        return float(self.rows @ shares.prod(axis=1))


def _met(sides: Floats) -> Floats:
    """Returns the fraction of typical boxes that intersect a box with these sides."""
    box = BOX_SHARE ** (1.0 / sides.shape[1])
    shares: Floats = np.minimum(1.0, sides + box).prod(axis=1)
    return shares


def choose(files: Extents, cube_rows: int, budget: int) -> list[Numbers]:
    """Chooses groups of files to rewrite, with the highest gain for boxes per byte.

    The first group may hold files from anywhere: the widest files for their rows. These are inner
    cubes of many commits, and leaves from the time when the table was small. Each other group holds
    all files of one cube.

    Args:
        budget: maximum bytes of all groups.
    """
    best, chosen = 0.0, list[Numbers]()
    subtrees = list(_subtrees(files))
    for share in _SPLITS:
        wide = _widest(files, cube_rows, share * budget)
        gained, groups = _gain_of_wide(files, wide, cube_rows), [wide]
        if gained <= 0.0:
            if share:
                continue
            groups = []
        taken = np.zeros(len(files.rows), np.bool_)
        left = budget
        for group in groups:
            taken[group] = True
            left -= int(files.sizes[group].sum())
        for gain, group in _in_cubes(files, subtrees, taken, cube_rows):
            size = int(files.sizes[group].sum())
            if size <= left and not taken[group].any():
                taken[group] = True
                left -= size
                gained += gain
                groups.append(group)
        if gained > best:
            best, chosen = gained, groups
    return chosen


def _widest(files: Extents, cube_rows: int, budget: float) -> Numbers:
    """Returns the files that boxes read much more often than necessary, with the most waste per
    byte.
    """
    moving = files.rows - files.staying + _FILE_COST * cube_rows
    met = _met(files.sides)
    order = np.argsort(-moving * (met - files.least) / np.maximum(1, files.sizes), kind="stable")
    order = order[((1 - _LEAST_GAIN) * met > files.least)[order]]
    chosen: Numbers = np.sort(order[np.cumsum(files.sizes[order]) <= budget])
    return chosen


def _gain_of_wide(files: Extents, wide: Numbers, cube_rows: int) -> float:
    """Returns the gain from rewriting the widest files; 0 if it is not worth the cost."""
    part = files.take(wide)
    if not part.is_mixed:
        return 0.0
    share = float((part.rows - part.staying).sum()) / max(1.0, files.around(part))
    now = float(part.costs(cube_rows).sum())
    gain = now - part.ideal(cube_rows, share)
    return gain if gain > _LEAST_GAIN * now else 0.0


def _in_cubes(
    files: Extents, subtrees: Sequence[Numbers], taken: Mask, cube_rows: int
) -> list[tuple[float, Numbers]]:
    """Returns (gain, files) of each cube worth rewriting, sorted by descending gain per byte."""
    candidates: list[tuple[float, float, Numbers]] = []
    costs = files.costs(cube_rows)
    for group in subtrees:
        if taken[group].any():
            group = group[~taken[group]]
        part = files.take(group)
        if not part.is_mixed:
            continue
        now = float(costs[group].sum())
        gain = now - part.ideal(cube_rows, 1.0)
        if gain > _LEAST_GAIN * now:
            candidates.append((gain / max(1.0, float(files.sizes[group].sum())), gain, group))
    candidates.sort(key=lambda item: -item[0])
    return [(gain, group) for _, gain, group in candidates]


def _worth(
    rows: FileSet, files: Extents, selected: Numbers, cube_rows: int, budget: int | None
) -> list[Numbers]:
    """Returns the groups of files to rewrite, and a last group of files with many deleted rows."""
    part = files.take(selected)
    left = int(part.sizes.sum()) if budget is None else budget
    groups = [selected[group] for group in choose(part, cube_rows, left)]
    left -= sum(int(files.sizes[group].sum()) for group in groups)
    taken = {int(i) for group in groups for i in group}
    with_deletes = []
    for i in selected.tolist():
        member = rows.members[i]
        is_left = i not in taken and member.file.bytes <= left
        deleted = rows.reading.deleted_bitmap(member) if is_left else None
        if deleted is not None and len(deleted) >= MOST_DELETED * member.file.rows:
            with_deletes.append(i)
            left -= member.file.bytes
    return [*groups, np.array(with_deletes, np.int64)] if with_deletes else groups


def _subtrees(files: Extents) -> Iterator[Numbers]:
    """Yields, for each cube, the files that belong to it, if there are several."""
    places, deepest = _places(files.lower, files.upper, _LONGEST)
    seen: set[bytes] = set()
    for bits in range(int(deepest.max(initial=0)) + 1):
        fits = np.flatnonzero(deepest >= bits)
        prefixes = places[fits] >> np.uint64(BITS - bits)
        order = np.argsort(prefixes, kind="stable")
        cuts = np.flatnonzero(np.diff(prefixes[order])) + 1
        groups = [np.sort(group) for group in np.split(fits[order], cuts)]
        for group in groups:
            if len(group) > 1 and group.tobytes() not in seen:
                seen.add(group.tobytes())
                yield group


def _places(lower: Floats, upper: Floats, longest: float) -> tuple[Places, Numbers]:
    """Returns the place of each file's centre, and the bits of the deepest cube that the file fits
    into.

    Args:
        longest: how many times longer than the cube a file may be.
    """
    columns = lower.shape[1]
    middles = (lower + upper) / 2
    places = interleaved([middles[:, i] for i in range(columns)])
    halvings = np.floor(np.log2(longest / np.maximum(upper - lower, 2.0**-20))).astype(np.int64)
    return places, np.clip(halvings, 0, BITS // columns).min(axis=1) * columns


# ------------------------------------------------------------------ extents of a table


def extents(rows: FileSet, layout: OTree, surveyed: Survey, cubes: Blocks) -> Extents:
    """Returns the extents of a table's files, from the bounds in manifests.

    Args:
        surveyed: the distribution of the rows in the layout's columns.
        cubes: the cubes of the files, as far as they are known.
    """
    space = surveyed.whole.space
    files = rows.members.files
    lower: list[Floats] = []
    upper: list[Floats] = []
    for axis, name in zip(space.axes, layout.columns, strict=True):
        kind = resolve_column(rows.schema, name).type
        sides: list[tuple[End, list[Floats], float]] = [
            ("lower", lower, 0.0),
            ("upper", upper, 1.0),
        ]
        for end, ends, unknown in sides:
            coordinates = np.full(len(files), unknown)
            bounds = [part.bound(end, axis.column, kind) for part in files.parts]
            for i, bound in enumerate(bounds):
                rows_of_part = np.flatnonzero(files.part == i)
                if bound is None or axis.transform == "hash" or not len(rows_of_part):
                    continue
                values = original(bound.take(pa.array(files.row[rows_of_part])), kind, end)
                valid = values.is_valid().to_numpy(zero_copy_only=False)
                coordinates[rows_of_part[valid]] = axis.coordinates(values.drop_null())
            ends.append(coordinates)
    low, high = np.stack(lower, axis=1), np.stack(upper, axis=1)
    high = np.maximum(low, high)
    commits = files.gather([part.sequences for part in files.parts], np.int64)
    numbers = cubes.find(files.paths)
    commits[numbers < 0] = -1
    tree = surveyed.tree(layout)
    places, bits = _places(low, high, 1.0)
    inside = tree.bounds(places, bits)
    weights = cubes.weights_at(numbers)
    below = np.clip(np.minimum(inside - 1, weights[1]) - weights[0] + 1, 0, None)
    return Extents(
        low,
        high,
        files.rows,
        files.sizes,
        commits,
        files.rows * below // np.maximum(1, weights[1] - weights[0] + 1),
        surveyed.met(tree, places, bits),
    )


@dataclass(frozen=True)
class Survey:
    """The distribution of a table's rows, from a sample.

    Attributes:
        points: coordinates, one row per sampled row, in the order of the curve.
        places: the places of the points.
    """

    whole: Whole
    points: Floats
    places: Places

    def tree(self, layout: OTree) -> Tree:
        """Returns the cubes of all rows, if they were written in one commit."""
        all_rows = self.whole.estimate
        return grow(all_rows, len(layout.columns), layout.cube_rows, 1 << 62, 1.0, all_rows)

    def met(self, tree: Tree, places: Places, bits: Numbers) -> Floats:
        """Returns the fraction of typical boxes that intersect a leaf, averaged over the leaves in
        cubes.

        Args:
            places, bits: a place in each cube, and the bits of its prefix.
        """
        if not len(self.places):
            return np.ones(len(places))
        begins = np.searchsorted(self.places, tree.leaves)
        sides = np.maximum.reduceat(self.points, begins) - np.minimum.reduceat(self.points, begins)
        rows = np.diff(begins, append=len(self.places))
        before = np.concatenate(([0], np.cumsum(rows)))
        sums = np.concatenate(([0.0], np.cumsum(rows * _met(sides))))
        shift = (BITS - bits).astype(np.uint64)
        least = (places >> shift) << shift
        most = least + ((np.uint64(1) << shift) - np.uint64(1))
        first = np.searchsorted(tree.leaves, least, side="right") - 1
        end = np.searchsorted(tree.leaves, most, side="right")
        averages: Floats = (sums[end] - sums[first]) / np.maximum(1, before[end] - before[first])
        return averages


def sampled(rows: FileSet, layout: OTree, cubes: Blocks, most: int) -> pa.Table:
    """Returns a sample of about ``most`` rows: the columns of a layout, each with its field id.

    Raises:
        InvalidArgumentError: a column of the layout does not exist.
    """
    paths = [resolve_column(rows.schema, name).path for name in layout.columns]
    sampled_rows = sample(rows, cubes, min(1.0, most / max(1, rows.num_rows)), None, paths, None)
    fields = [
        pa.field(
            str(i),
            sampled_rows.column(i).type,
            metadata={FIELD_ID: str(field_id_at(rows.schema, path)).encode()},
        )
        for i, path in enumerate(paths)
    ]
    return pa.table(sampled_rows.columns, schema=pa.schema(fields))


def survey(rows: FileSet, layout: OTree, cubes: Blocks) -> Survey:
    """Samples the distribution of the rows. Cost: reads a sample of the layout's columns."""
    sample_columns = sampled(rows, layout, cubes, _SAMPLED)
    space = fit(layout, sample_columns, rows.schema)
    points = space.coordinates(sample_columns)
    places = interleaved(points)
    estimate = Estimate()
    # Draw new weights: a sample holds only the rows with the lowest weights.
    estimate.add(places, new_weights(sample_columns.num_rows, np.random.default_rng(0)))
    estimate.rows = rows.num_rows
    order = np.argsort(places)
    return Survey(Whole(space, estimate), np.column_stack(points)[order], places[order])


@dataclass(frozen=True)
class Drift:
    """How much worse the files of an OTree are than if all rows were written in one commit.

    Attributes:
        read: the fraction of the rows that a typical box reads.
        ideal: the fraction that a typical box would read if all rows were written in one commit.
        files, bytes: number and bytes of the files that are worth rewriting.
    """

    read: float
    ideal: float
    files: int
    bytes: int


def drift(rows: FileSet, layout: OTree, blobs: Blocks) -> Drift | None:
    """Measures the drift of a table; ``None`` if it has no rows. Cost: as for :func:`survey`."""
    if not len(rows.members) or not rows.num_rows:
        return None
    cubes, _ = known_cubes(rows.members, rows.reading, blobs)
    file_extents = extents(rows, layout, survey(rows, layout, cubes), cubes)
    worth = _worth(rows, file_extents, np.arange(len(file_extents.rows)), layout.cube_rows, None)
    stored = max(1, int(file_extents.rows.sum()))
    ideal = (
        file_extents.rows - file_extents.staying
    ) @ file_extents.least + file_extents.staying @ _met(file_extents.sides)
    return Drift(
        read=file_extents.read() / stored,
        ideal=float(ideal) / stored,
        files=sum(map(len, worth)),
        bytes=sum(int(file_extents.sizes[group].sum()) for group in worth),
    )


def optimize(
    table: TableAccess, *, budget: int | None = None, progress: ProgressArg = None
) -> Commit:
    """Rewrites files of an OTree where boxes gain the most per byte, and commits the result.

    As in a compaction, concurrent commits take precedence.

    Args:
        budget: maximum bytes of files to rewrite; ``None`` rewrites all files that are worth it.

    Raises:
        InvalidArgumentError: the layout of the table is not an OTree.
    """
    call = begin(table, "optimize_layout")
    target = rewriting_target(call.metadata)
    if not isinstance(target.layout, OTree):
        raise InvalidArgumentError(
            f"optimize: the layout of {table.name} is {target.layout!r}; expected nb.OTree"
        )
    options = Compacting(
        filter=None, target_bytes=target.target_bytes, where_needed=True, progress=progress
    )
    return call.run(_prepared(options, table, call.metadata, target, target.layout, budget))


def compact(table: TableAccess, options: Compacting) -> Commit:
    """Compacts a table. Groups that lost to concurrent commits are tried again.

    The files of an OTree remain files of cubes. With ``where_needed``, this does the same as
    :func:`optimize`; otherwise all files are laid out together, as if written in one commit.
    """

    def prepare(table: TableAccess, metadata: ice.Metadata) -> Compaction:
        target = rewriting_target(metadata)
        if isinstance(target.layout, OTree):
            return _prepared(options, table, metadata, target, target.layout, None)
        return prepared(options, table, metadata)

    return commit_repeatedly(table, "compact", prepare)


def _prepared(
    options: Compacting,
    table: TableAccess,
    metadata: ice.Metadata,
    target: Target,
    layout: OTree,
    budget: int | None,
) -> Compaction:
    rows = table.rows(metadata)
    selected = np.array(may_pass(rows, options.filter), np.int64)
    target = replace(target, target_bytes=options.target_bytes)
    chosen: list[Numbers] = [selected] if len(selected) else []
    rebuilt = Blocks.of_files(())
    # If only some files are rewritten, their rows are placed in the tree that fits all rows.
    if len(selected) and (options.where_needed or len(selected) < len(rows.members)):
        cubes, rebuilt = known_cubes(rows.members, rows.reading, metadata.cubes(metadata.head()))
        surveyed = survey(rows, layout, cubes)
        target = replace(target, whole=surveyed.whole)
        if options.where_needed:
            file_extents = extents(rows, layout, surveyed, cubes)
            chosen = _worth(rows, file_extents, selected, layout.cube_rows, budget)
    groups = [Group([rows.members[int(i)] for i in group]) for group in chosen]
    change = Compaction(groups, table, target, rebuilt)
    write_all(change, groups, rows, target, options, "optimizing")
    return change
