"""Turns deleted rows into delete files, and into data files to remove as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.row_change import Rows
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Member
from nimblepy.table.writing.write import Target, write_deletes

# For each (partition spec, partition): the deleted rows of each file, by path.
Groups: TypeAlias = dict[tuple[int, tuple[Any, ...]], dict[str, RowNumbers]]


@dataclass
class Deletion:
    """The files that a change removes, and the positions that it deletes from other files.

    Attributes:
        removed: paths of data files without remaining rows.
        useless: paths of delete files that are no longer needed, because they apply only to removed
            files.
        repeated: removed paths that the snapshot lists more than once.
        groups: positions for new delete files.
        rows: number of deleted rows.
    """

    removed: set[str] = field(default_factory=set)
    useless: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    groups: Groups = field(default_factory=dict)
    rows: int = 0


def deletion_of(rows: FileSet, deleted: Rows) -> Deletion:
    """Sorts deleted rows into files to remove and positions to delete."""
    done = Deletion()
    if not deleted:
        return done
    repeated = listed_twice(rows, deleted)
    if repeated:
        deleted = _from_all_listings(rows, deleted, repeated)
    for number, positions in deleted.items():
        file = rows.members[number].file
        live = int(rows.first_rows[number + 1] - rows.first_rows[number])
        if positions is None or (len(positions) == live and file.path not in repeated):
            done.removed.add(file.path)
            done.rows += live
        elif len(positions):
            group = done.groups.setdefault((file.spec_id, file.partition), {})
            before = group.get(file.path)
            group[file.path] = positions if before is None else np.union1d(before, positions)
            done.rows += len(positions)
    done.repeated = done.removed & repeated
    done.useless = _useless_deletes(rows.members, done.removed)
    return done


def write_delete_files(groups: Groups, target: Target) -> list[DataFile]:
    """Writes one delete file for each partition."""
    return [
        write_deletes(positions, replace(target, spec_id=spec_id), partition)
        for (spec_id, partition), positions in groups.items()
    ]


def same_positions(one: Groups, other: Groups) -> bool:
    """Returns whether two sets of deleted positions are equal."""
    if one.keys() != other.keys():
        return False
    return all(
        one[group].keys() == other[group].keys()
        and all(np.array_equal(rows, other[group][path]) for path, rows in one[group].items())
        for group in one
    )


def listed_twice(rows: FileSet, files: Iterable[int]) -> set[str]:
    """Returns the paths of files that a snapshot lists more than once.

    Other engines may list a file twice.
    """
    if not rows.num_files:
        return set()
    paths = rows.members.files.paths
    some = pc.unique(paths.take(pa.array(list(files), pa.int64())))
    listed = pc.is_in(paths, value_set=some)
    if listed.true_count == len(some):
        return set()
    counts = Counter(paths.filter(listed).to_pylist())
    return {path for path, count in counts.items() if count > 1}


def _from_all_listings(rows: FileSet, deleted: Rows, repeated: set[str]) -> Rows:
    """Returns the rows to delete from every listing of a file, if some files are listed more than
    once.

    A delete file applies to all listings of a path, and removing a path removes all of its
    listings. So a row is deleted from all listings, and the path is removed only if no listing has
    rows left.
    """
    live: dict[str, dict[int, RowSet]] = {path: {} for path in repeated}
    for number, path in enumerate(rows.members.files.paths.to_pylist()):
        if path in repeated:
            all_rows, deleted_before = rows.child(number).all_rows(), rows.deleted(number)
            live[path][number] = (
                all_rows if deleted_before is None else all_rows.minus(deleted_before)
            )
    result = {n: some for n, some in deleted.items() if rows.name_of(n) not in repeated}
    for copies in live.values():
        parts = [
            left.rows if (some := deleted[number]) is None else some
            for number, left in copies.items()
            if number in deleted
        ]
        every = RowSet(np.unique(np.concatenate(parts)))
        remains = any(left.minus(every).num_rows for left in copies.values())
        for number, left in copies.items():
            result[number] = left.minus(left.minus(every)).rows if remains else None
    return result


def _useless_deletes(members: Sequence[Member], removed: set[str]) -> set[str]:
    """Returns the delete files that, according to the manifests, apply only to removed files."""
    if not removed:
        return set()
    used: set[str] = set()
    useless: set[str] = set()
    for member in members:
        (useless if member.file.path in removed else used).update(member.delete_paths)
    return useless - used
