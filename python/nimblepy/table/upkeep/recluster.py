"""Files of an OTree written anew, subtree by subtree, where boxes gain the most by it."""

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
from nimblepy.table.changing.row_changes import CommitChange, FilesOf
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
    may_pass,
    prepared,
    repeated,
    write_all,
)
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.settings import rewriting_target
from nimblepy.table.writing.write import Target

# The part of all rows that a typical box has, by rank.
BOX_SHARE = 0.01
# Files are worth writing anew where boxes read this part less of them, at least.
_LEAST_GAIN = 0.2
# What a file costs besides its rows, as a part of a cube.
_FILE_COST = 1 / 8
# Files belong to a cube that they are not longer than this many times.
_LONGEST = 2.0
# Rows by which the places of all rows are found.
_SAMPLED = 1 << 16
# Files most of whose rows are of one commit were laid out together already.
_MOST_OF_ONE = 0.5
# Parts of a budget that are tried for the files that are the widest for what they have.
_SPLITS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Extents:
    """Where files lie in a space.

    Attributes:
        lower, upper: coordinates, one row for each file and one column for each axis.
        rows, sizes: of each file, in rows and bytes.
        commits: by which each was laid out; below 0 of files that no commit did.
        staying: rows that are where they belong however wide the file is: those of inner cubes.
        least: the part of typical boxes that would meet a leaf there, if all rows lay in cubes.
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
        """Whether they were not laid out together, as one commit does."""
        mine = self.commits >= 0
        _, commit = np.unique(self.commits[mine], return_inverse=True)
        most = float(np.bincount(commit, self.rows[mine]).max(initial=0))
        several = len(self.rows) > 1 or not mine.all()
        return several and most <= _MOST_OF_ONE * float(self.rows.sum())

    def take(self, files: Numbers) -> Extents:
        return Extents(*(getattr(self, field.name)[files] for field in fields(self)))

    def read(self) -> float:
        """Rows of the files that a typical box reads, on average."""
        return float(self.rows @ _met(self.sides))

    def costs(self, cube_rows: int) -> Floats:
        """What each file costs a typical box, in rows."""
        found: Floats = (self.rows + _FILE_COST * cube_rows) * _met(self.sides)
        return found

    def ideal(self, cube_rows: int, share: float) -> float:
        """What all would cost together, if they were written anew.

        Args:
            share: the part that they are of all rows that lie where they do; where that is small
                leaves are larger than those of all rows, so that they have some rows.
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
        """Rows of all files that lie where some of the files do, if they are spread evenly."""
        low, high = part.lower.min(axis=0), part.upper.max(axis=0)
        inside = np.minimum(self.upper, high) - np.maximum(self.lower, low)
        shares = np.clip(inside / np.maximum(self.sides, 2.0**-30), 0.0, 1.0)
        shares[(inside >= 0) & (self.sides < 2.0**-30)] = 1.0
        return float(self.rows @ shares.prod(axis=1))


def _met(sides: Floats) -> Floats:
    """The part of all typical boxes that meet something with such sides."""
    box = BOX_SHARE ** (1.0 / sides.shape[1])
    found: Floats = np.minimum(1.0, sides + box).prod(axis=1)
    return found


def choose(files: Extents, cube_rows: int, budget: int) -> list[Numbers]:
    """Groups of files to be written anew, by which boxes gain the most for the bytes.

    One group may have files of anywhere, those that are the widest for the rows they have: the
    inner cubes of many commits, and the leaves of the time when the table was small. The others
    have all files of a cube.

    Args:
        budget: most bytes of all of them.
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
    """The files that boxes meet more often than their rows deserve, the worst for their bytes."""
    moving = files.rows - files.staying + _FILE_COST * cube_rows
    met = _met(files.sides)
    order = np.argsort(-moving * (met - files.least) / np.maximum(1, files.sizes), kind="stable")
    order = order[((1 - _LEAST_GAIN) * met > files.least)[order]]
    found: Numbers = np.sort(order[np.cumsum(files.sizes[order]) <= budget])
    return found


def _gain_of_wide(files: Extents, wide: Numbers, cube_rows: int) -> float:
    """What boxes gain, or 0 where it is not worth it."""
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
    """(gain, files) of each cube that is worth it, those first that gain the most a byte."""
    found: list[tuple[float, float, Numbers]] = []
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
            found.append((gain / max(1.0, float(files.sizes[group].sum())), gain, group))
    found.sort(key=lambda item: -item[0])
    return [(gain, group) for _, gain, group in found]


def _worth(
    rows: FileSet, files: Extents, some: Numbers, cube_rows: int, budget: int | None
) -> list[Numbers]:
    """Groups among some of the files, and one of those many of whose rows are deleted."""
    part = files.take(some)
    left = int(part.sizes.sum()) if budget is None else budget
    groups = [some[group] for group in choose(part, cube_rows, left)]
    left -= sum(int(files.sizes[group].sum()) for group in groups)
    taken = {int(i) for group in groups for i in group}
    more = []
    for i in some.tolist():
        member = rows.members[i]
        gone = member.gone() if i not in taken and member.file.bytes <= left else None
        if gone is not None and len(gone) >= MOST_DELETED * member.file.rows:
            more.append(i)
            left -= member.file.bytes
    return [*groups, np.array(more, np.int64)] if more else groups


def _subtrees(files: Extents) -> Iterator[Numbers]:
    """Files that lie in one cube, for all cubes."""
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
    """The place of each file's middle, and bits of the deepest cube that it fits.

    Args:
        longest: how many times longer than the cube a file may be.
    """
    columns = lower.shape[1]
    middles = (lower + upper) / 2
    places = interleaved([middles[:, i] for i in range(columns)])
    halvings = np.floor(np.log2(longest / np.maximum(upper - lower, 2.0**-20))).astype(np.int64)
    return places, np.clip(halvings, 0, BITS // columns).min(axis=1) * columns


# ------------------------------------------------------------------ of a table


def extents(rows: FileSet, layout: OTree, found: Survey, cubes: Blocks) -> Extents:
    """Where the files of a table lie, by the bounds that manifests have.

    Args:
        found: where the rows lie by these columns.
        cubes: those of the files, as far as they are known.
    """
    space = found.whole.space
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
            known = np.full(len(files), unknown)
            bounds = [part.bound(end, axis.column, kind) for part in files.parts]
            for i, bound in enumerate(bounds):
                mine = np.flatnonzero(files.part == i)
                if bound is None or axis.transform == "hash" or not len(mine):
                    continue
                values = original(bound.take(pa.array(files.row[mine])), kind, end)
                there = values.is_valid().to_numpy(zero_copy_only=False)
                known[mine[there]] = axis.coordinates(values.drop_null())
            ends.append(known)
    low, high = np.stack(lower, axis=1), np.stack(upper, axis=1)
    high = np.maximum(low, high)
    commits = files.gather([part.sequences for part in files.parts], np.int64)
    numbers = cubes.find(files.paths)
    commits[numbers < 0] = -1
    tree = found.tree(layout)
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
        found.met(tree, places, bits),
    )


@dataclass(frozen=True)
class Survey:
    """Where the rows of a table lie, as a sample of them says.

    Attributes:
        points: coordinates, one row for each sampled row, along the curve.
        places: those of the points.
    """

    whole: Whole
    points: Floats
    places: Places

    def tree(self, layout: OTree) -> Tree:
        """The cubes in which all rows would lie, if they were written at once."""
        all_rows = self.whole.estimate
        return grow(all_rows, len(layout.columns), layout.cube_rows, 1 << 62, 1.0, all_rows)

    def met(self, tree: Tree, places: Places, bits: Numbers) -> Floats:
        """The part of typical boxes that meet a leaf, on average over those in each cube.

        Args:
            places, bits: of the cubes.
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
        found: Floats = (sums[end] - sums[first]) / np.maximum(1, before[end] - before[first])
        return found


def sampled(rows: FileSet, layout: OTree, cubes: Blocks, most: int) -> pa.Table:
    """About ``most`` of the rows: the columns of a layout, each with its field id.

    Raises:
        InvalidArgumentError: there is no such column.
    """
    paths = [resolve_column(rows.schema, name).path for name in layout.columns]
    found = sample(rows, cubes, min(1.0, most / max(1, rows.num_rows)), None, paths, None)
    fields = [
        pa.field(
            str(i),
            found.column(i).type,
            metadata={FIELD_ID: str(field_id_at(rows.schema, path)).encode()},
        )
        for i, path in enumerate(paths)
    ]
    return pa.table(found.columns, schema=pa.schema(fields))


def survey(rows: FileSet, layout: OTree, cubes: Blocks) -> Survey:
    """Where the rows lie as they are now. Cost: a sample of the layout's columns is read."""
    some = sampled(rows, layout, cubes, _SAMPLED)
    space = fit(layout, some, rows.schema)
    points = space.coordinates(some)
    places = interleaved(points)
    estimate = Estimate()
    # A sample has the lowest weights of all rows; which cubes there are says chance as well.
    estimate.add(places, new_weights(some.num_rows, np.random.default_rng(0)))
    estimate.rows = rows.num_rows
    order = np.argsort(places)
    return Survey(Whole(space, estimate), np.column_stack(points)[order], places[order])


@dataclass(frozen=True)
class Drift:
    """How far the files of an OTree are from those that all rows would have at once.

    Attributes:
        read: the part of the rows that a typical box reads.
        ideal: the same, if the rows were written at once.
        files, bytes: that had better be written anew.
    """

    read: float
    ideal: float
    files: int
    bytes: int


def drift(rows: FileSet, layout: OTree, blobs: Blocks) -> Drift | None:
    """What typical boxes read; ``None`` of a table without rows. Cost: as :func:`survey`."""
    if not len(rows.members) or not rows.num_rows:
        return None
    cubes, _ = known_cubes(rows.members, rows.reading, blobs)
    found = extents(rows, layout, survey(rows, layout, cubes), cubes)
    worth = _worth(rows, found, np.arange(len(found.rows)), layout.cube_rows, None)
    stored = max(1, int(found.rows.sum()))
    ideal = (found.rows - found.staying) @ found.least + found.staying @ _met(found.sides)
    return Drift(
        read=found.read() / stored,
        ideal=float(ideal) / stored,
        files=sum(map(len, worth)),
        bytes=sum(int(found.sizes[group].sum()) for group in worth),
    )


def optimize(
    commit: CommitChange,
    *,
    budget: int | None = None,
    progress: ProgressArg = None,
) -> Commit:
    """Writes files of an OTree anew where boxes gain the most a byte, and commits that.

    It gives way to every other commit, as a compaction does.

    Args:
        budget: most bytes of files that are written anew; ``None``: as many as are worth it.

    Raises:
        InvalidArgumentError: the layout of the table is no OTree.
    """

    def prepare(metadata: ice.Metadata, files_of: FilesOf) -> Compaction:
        target = rewriting_target(metadata)
        if not isinstance(target.layout, OTree):
            name = ".".join(metadata.name)
            raise InvalidArgumentError(
                f"optimize: the layout of {name} is {target.layout!r}, no nb.OTree"
            )
        wanted = Compacting(
            filter=None, target_bytes=target.target_bytes, where_needed=True, progress=progress
        )
        return _prepared(wanted, metadata, files_of, target, target.layout, budget)

    return commit(prepare)


def compact(wanted: Compacting, commit: CommitChange) -> Commit:
    """Compacts a table; what was given up for the sake of other commits is tried again.

    Files of an OTree stay those of cubes: what is needed is what :func:`optimize` does, and all
    files together are laid out as if they were written at once.
    """

    def prepare(metadata: ice.Metadata, files_of: FilesOf) -> Compaction:
        target = rewriting_target(metadata)
        if isinstance(target.layout, OTree):
            return _prepared(wanted, metadata, files_of, target, target.layout, None)
        return prepared(wanted, metadata, files_of)

    return repeated(prepare, commit)


def _prepared(
    wanted: Compacting,
    metadata: ice.Metadata,
    files_of: FilesOf,
    target: Target,
    layout: OTree,
    budget: int | None,
) -> Compaction:
    rows = files_of(metadata)
    some = np.array(may_pass(rows, wanted.filter), np.int64)
    target = replace(target, target_bytes=wanted.target_bytes)
    chosen: list[Numbers] = [some] if len(some) else []
    again = Blocks.of_files(())
    # All files make a tree of their own; some are put into that of all rows.
    if len(some) and (wanted.where_needed or len(some) < len(rows.members)):
        cubes, again = known_cubes(rows.members, rows.reading, metadata.cubes(metadata.head()))
        seen = survey(rows, layout, cubes)
        target = replace(target, whole=seen.whole)
        if wanted.where_needed:
            found = extents(rows, layout, seen, cubes)
            chosen = _worth(rows, found, some, layout.cube_rows, budget)
    groups = [Group([rows.members[int(i)] for i in group]) for group in chosen]
    change = Compaction(groups, files_of, target)
    change.commit.rebuilt = again
    write_all(change, groups, rows, target, wanted, "optimizing")
    return change
