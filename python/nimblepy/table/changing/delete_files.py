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
from nimblepy.table.reading.deletes import is_of_one_file, merged
from nimblepy.table.reading.deletes import positions as positions_in
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Member
from nimblepy.table.writing.write import Target, write_deletes, write_vectors

# For each (partition spec, partition): the deleted rows of each file, by path.
Groups: TypeAlias = dict[tuple[int, tuple[Any, ...]], dict[str, RowNumbers]]


@dataclass
class Deletion:
    """The files that a change removes, and the positions that it deletes from other files.

    Attributes:
        removed: paths of data files without remaining rows.
        useless: identities of delete files that are no longer needed, because they apply only to
            removed files, or because a new deletion vector replaces them.
        repeated: removed paths that the snapshot lists more than once.
        groups: positions for new delete files.
        vectors: (data file, all its deleted positions) for new deletion vectors.
        rows: number of deleted rows.
    """

    removed: set[str] = field(default_factory=set)
    useless: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    groups: Groups = field(default_factory=dict)
    vectors: list[tuple[DataFile, RowNumbers]] = field(default_factory=list)
    rows: int = 0


def deletion_of(rows: FileSet, deleted: Rows, *, vectors: bool) -> Deletion:
    """Sorts deleted rows into files to remove and positions to delete.

    Args:
        vectors: whether the positions are for deletion vectors, and not for delete files.
    """
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
    if vectors and done.groups:
        done.vectors, replaced = vectors_of(rows.members, done.groups)
        done.useless |= replaced
    return done


def vectors_of(
    members: Sequence[Member], groups: Groups
) -> tuple[list[tuple[DataFile, RowNumbers]], set[str]]:
    """Merges deleted positions with those in existing delete files.

    Returns:
        (data file, all its positions) of each file in ``groups``, and the identities of the
        vectors and delete files that these replace.
    """
    new = {path: rows for group in groups.values() for path, rows in group.items()}
    vectors: dict[str, tuple[DataFile, RowNumbers]] = {}
    replaced: set[str] = set()
    for member in members:
        path = member.file.path
        rows = new.get(path)
        if rows is None or path in vectors:
            continue
        lists = [file for file in member.deletes if file.content == "position deletes"]
        listed = [some for file in lists if (some := positions_in(file).get(path)) is not None]
        vectors[path] = member.file, merged([rows, *listed]) if listed else rows
        replaced |= {file.identity for file in lists if is_of_one_file(file)}
    return list(vectors.values()), replaced


def write_delete_files(
    groups: Groups, target: Target, members: Sequence[Member] = ()
) -> tuple[list[DataFile], set[str]]:
    """Writes deleted positions as the target wants them.

    Args:
        members: the data files with their delete files, if the target wants vectors.

    Returns:
        The new files, and the identities of the older ones that they replace.
    """
    if not target.vectors:
        return write_position_deletes(groups, target), set()
    vectors, replaced = vectors_of(members, groups)
    return write_vectors(vectors, target), replaced


def write_deletion(deletion: Deletion, target: Target) -> list[DataFile]:
    """Writes the deleted positions of a change as the target wants them."""
    if target.vectors:
        return write_vectors(deletion.vectors, target)
    return write_position_deletes(deletion.groups, target)


def write_position_deletes(groups: Groups, target: Target) -> list[DataFile]:
    """Writes one delete file for each partition."""
    return [
        write_deletes(positions, replace(target, spec_id=spec_id), partition)
        for (spec_id, partition), positions in groups.items()
    ]


def in_groups(vectors: Sequence[tuple[DataFile, RowNumbers]]) -> Groups:
    """Returns the positions of deletion vectors by partition and path."""
    groups: Groups = {}
    for file, rows in vectors:
        groups.setdefault((file.spec_id, file.partition), {})[file.path] = rows
    return groups


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
    """Returns the identities of the delete files that apply only to removed files, according to
    the manifests.
    """
    if not removed:
        return set()
    used: set[str] = set()
    useless: set[str] = set()
    for member in members:
        (useless if member.file.path in removed else used).update(member.delete_ids)
    return useless - used
