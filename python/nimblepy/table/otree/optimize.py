"""Files of an OTree written anew, subtree by subtree, where boxes gain the most by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.progress import Progress, ProgressArg
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import FIELD_ID, field_id_at
from nimblepy.table import _iceberg as ice
from nimblepy.table.commit import Commit
from nimblepy.table.compact import Compaction, Group, write
from nimblepy.table.fileset import FileSet
from nimblepy.table.otree.blocks import Blocks
from nimblepy.table.otree.layouts import OTree
from nimblepy.table.otree.sample import sample
from nimblepy.table.otree.space import Floats, Space, fit, interleaved
from nimblepy.table.otree.tree import BITS, Numbers
from nimblepy.table.pruning import original
from nimblepy.table.row_changes import FilesOf, RowChange
from nimblepy.table.settings import target_of

# The part of all rows that a typical box has, by rank.
BOX_SHARE = 0.01
# A group of files is worth writing anew where boxes read this part less of its rows, at least.
_LEAST_GAIN = 0.2
# Files belong to a cube that they are not longer than this many times.
_LONGEST = 2.0
# Rows by which the places of files are found.
_SAMPLED = 20_000


@dataclass(frozen=True)
class Extents:
    """Where files lie in a space.

    Attributes:
        lower, upper: coordinates, one row for each file and one column for each axis.
        rows, sizes: of each file, in rows and bytes.
        commits: by which each was written.
    """

    lower: Floats
    upper: Floats
    rows: Numbers
    sizes: Numbers
    commits: Numbers

    @property
    def sides(self) -> Floats:
        return self.upper - self.lower

    def take(self, files: Numbers) -> Extents:
        return Extents(
            self.lower[files],
            self.upper[files],
            self.rows[files],
            self.sizes[files],
            self.commits[files],
        )

    def read(self) -> float:
        """Rows of the files that a typical box reads, on average."""
        return float(self.rows @ _met(self.sides))

    def ideal(self, cube_rows: int) -> float:
        """The same, if the rows lay in cubes."""
        if not len(self.rows):
            return 0.0
        sides = self.upper.max(axis=0) - self.lower.min(axis=0)
        cubes = max(1.0, float(self.rows.sum()) / cube_rows)
        # Halved along the longest side again and again, as the curve does.
        while cubes > 1.0:
            at = int(np.argmax(sides))
            part = min(2.0, cubes)
            sides[at] /= part
            cubes /= part
        return float(self.rows.sum()) * float(_met(sides[None, :])[0])


def _met(sides: Floats) -> Floats:
    """The part of all typical boxes that meet something with such sides."""
    box = BOX_SHARE ** (1.0 / sides.shape[1])
    found: Floats = np.minimum(1.0, sides + box).prod(axis=1)
    return found


def choose(files: Extents, cube_rows: int, budget: int) -> list[Numbers]:
    """Groups of files to be written anew, those first by which boxes gain the most a byte.

    Args:
        budget: most bytes of all of them.
    """
    found: list[tuple[float, Numbers]] = []
    for group in _subtrees(files):
        part = files.take(group)
        if (part.commits == part.commits[0]).all():
            continue  # they were laid out together
        now = part.read()
        gain = now - part.ideal(cube_rows)
        if gain > _LEAST_GAIN * now:
            found.append((gain / max(1.0, float(part.sizes.sum())), group))
    found.sort(key=lambda item: -item[0])
    taken = np.zeros(len(files.rows), np.bool_)
    chosen = []
    for _, group in found:
        size = int(files.sizes[group].sum())
        if size <= budget and not taken[group].any():
            taken[group] = True
            budget -= size
            chosen.append(group)
    return chosen


def _subtrees(files: Extents) -> Iterator[Numbers]:
    """Files that lie in one cube, for all cubes; and those of each size alone."""
    columns = files.lower.shape[1]
    middles = (files.lower + files.upper) / 2
    places = interleaved([middles[:, i] for i in range(columns)])
    # Bits of the deepest cube that each file fits.
    halvings = np.floor(np.log2(_LONGEST / np.maximum(files.sides, 2.0**-20))).astype(np.int64)
    deepest = np.clip(halvings, 0, BITS // columns).min(axis=1) * columns
    seen: set[bytes] = set()
    for bits in range(int(deepest.max(initial=0)) + 1):
        fits = np.flatnonzero(deepest >= bits)
        prefixes = places[fits] >> np.uint64(BITS - bits)
        order = np.argsort(prefixes, kind="stable")
        cuts = np.flatnonzero(np.diff(prefixes[order])) + 1
        groups = [np.sort(group) for group in np.split(fits[order], cuts)]
        for group in (*groups, np.flatnonzero(deepest == bits)):
            if len(group) > 1 and group.tobytes() not in seen:
                seen.add(group.tobytes())
                yield group


# ------------------------------------------------------------------ of a table


def extents(rows: FileSet, layout: OTree, space: Space) -> Extents:
    """Where the files of a table lie, by the bounds that manifests have.

    Args:
        space: of these columns; see :func:`current_space`.
    """
    files = rows.members.files
    lower: list[Floats] = []
    upper: list[Floats] = []
    for axis, name in zip(space.axes, layout.columns, strict=True):
        kind = resolve_column(rows.schema, name).type
        for end, found, unknown in (("lower", lower, 0.0), ("upper", upper, 1.0)):
            known = np.full(len(files), unknown)
            bounds = [part.bound(end, axis.column, kind) for part in files.parts]  # type: ignore[arg-type]
            for i, bound in enumerate(bounds):
                mine = np.flatnonzero(files.part == i)
                if bound is None or axis.transform == "hash" or not len(mine):
                    continue
                values = original(bound.take(pa.array(files.row[mine])), kind)
                there = values.is_valid().to_numpy(zero_copy_only=False)
                known[mine[there]] = axis.coordinates(values.drop_null())
            found.append(known)
    low, high = np.stack(lower, axis=1), np.stack(upper, axis=1)
    commits = files.gather([part.sequences for part in files.parts], np.int64)
    return Extents(low, np.maximum(low, high), files.rows, files.sizes, commits)


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


def current_space(rows: FileSet, layout: OTree, cubes: Blocks) -> Space:
    """The space of the rows as they are now, from a sample of them."""
    return fit(layout, sampled(rows, layout, cubes, _SAMPLED), rows.schema)


def optimize(
    newest: Callable[[], ice.Metadata],
    files_of: FilesOf,
    commit: Callable[[RowChange], Commit],
    *,
    budget: int | None = None,
    progress: ProgressArg = None,
) -> Commit:
    """Writes files of an OTree anew where boxes gain the most a byte, and commits that.

    It gives way to every other commit, as a compaction does.

    Args:
        newest: gives the newest metadata.
        files_of: gives the rows of some metadata.
        commit: commits a change, planned for what is the newest then.
        budget: most bytes of files that are written anew; ``None``: as many as are worth it.

    Raises:
        InvalidArgumentError: the layout of the table is no OTree.
    """
    metadata = newest()
    target = replace(target_of(metadata), rows_before=0)
    layout = target.layout
    if not isinstance(layout, OTree):
        raise InvalidArgumentError(
            f"optimize: the layout of {'.'.join(metadata.name)} is {layout!r}, no nb.OTree"
        )
    rows = files_of(metadata)
    groups: list[Group] = []
    if len(rows.members):
        space = current_space(rows, layout, metadata.cubes(metadata.head()))
        found = extents(rows, layout, space)
        most = int(found.sizes.sum()) if budget is None else budget
        groups = [
            Group([rows.members[int(i)] for i in group])
            for group in choose(found, layout.cube_rows, most)
        ]
    shown = Progress(progress, sum(map(Group.live_rows, groups)), stage="optimizing")
    change = Compaction(groups, files_of, target)
    try:
        for group in groups:
            write(group, rows, replace(target, space=None), shown)
    except BaseException:
        change.discard()
        raise
    finally:
        shown.finish()
    return commit(change)
