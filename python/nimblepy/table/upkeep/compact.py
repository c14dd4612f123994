"""Compaction: files are replaced by fewer, larger ones with the same live rows.

Files are chosen and written in groups. A group whose files were changed by another commit meanwhile
is given up, or what was deleted of them is deleted of the new file as well; the others stay good.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import DuplicateKeyError, KeyOrderError
from nimblepy.expr.filter import parse_filter
from nimblepy.files.bounds import EncodedKeys
from nimblepy.io.progress import Progress, ProgressArg
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.kinds import is_bytes, is_text
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.row_changes import CommitChange, FilesOf, RowChange, listed_twice
from nimblepy.table.otree.tree import new_weights
from nimblepy.table.reading.deletes import merged as merged_rows
from nimblepy.table.reading.deletes import positions
from nimblepy.table.reading.fileset import FileSet, key_ends
from nimblepy.table.reading.members import Member, MemberRows
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.merging import Run, merged
from nimblepy.table.writing.settings import rewriting_target
from nimblepy.table.writing.write import Target, write_deletes, write_rows

# A file below this share of the target is small.
SMALL = 0.75
# A small file is merged with those that are smaller if they have this share of its bytes together,
# so that a file is not written again and again for the sake of a few rows.
_WORTH = 1 / 16
# A file is written again if this share of its rows is deleted.
MOST_DELETED = 0.1
# Files are merged where more than this many have the same key between their bounds.
MOST_DEEP = 8
# More delete files of a partition than this are merged.
_MOST_DELETES = 4
# Files of a group have some times the bytes of a new file, so that few new ones are small.
_GROUP_TARGETS = 8
# Arrow bytes of files that are merged, held at the same time; Arrow bytes of a byte of a file.
_MERGE_BYTES = 64 << 20
_UNPACKED = 4
_LEAST_BATCH, _MOST_BATCH = 1 << 10, 1 << 16
# How often groups are planned again that were given up.
_MOST_PASSES = 5


@dataclass(eq=False)
class Group:
    """Files that are replaced together.

    Attributes:
        members: in the order of their first keys.
        lower, upper: encoded keys that no key of each comes before and after; empty where the
            table has no cluster key.
        added: the new files, once they are written.
    """

    members: list[Member]
    lower: list[bytes] = field(default_factory=list)
    upper: list[bytes] = field(default_factory=list)
    added: list[DataFile] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(member.file.bytes for member in self.members)

    def live_rows(self) -> int:
        gone = (member.gone() for member in self.members)
        deleted = sum(0 if rows is None else len(rows) for rows in gone)
        return sum(member.file.rows for member in self.members) - deleted


# ------------------------------------------------------------------ which files


def choose(rows: FileSet, filter: Filter, target: Target, *, where_needed: bool) -> list[Group]:
    """Groups of files that are to be replaced.

    Where it is needed, each of them is so by their replacement: what is chosen again and again
    has an end.

    Args:
        filter: only files that may have rows that pass.
        target: what new files are like; files of other partition specs than theirs are merged
            across partitions.
        where_needed: only small files, files with many deleted rows, and such that overlap.
    """
    spec_id, target_bytes, ordered = target.spec_id, target.target_bytes, bool(rows.cluster_by)
    members = list(rows.members)
    wanted = may_pass(rows, filter)
    repeated = listed_twice(rows, wanted)
    if repeated:  # both listings have rows, which other readers see as well
        wanted = [i for i in wanted if rows.name_of(i) not in repeated]
    lower = upper = [b""] * len(members)
    if rows.cluster_by and members:
        lower, upper = (ends.to_pylist() for ends in key_ends(rows.reading, rows.members))
    partitions: dict[object, list[int]] = {}
    for i in wanted:
        file = members[i].file
        current = file.spec_id == spec_id
        partitions.setdefault((spec_id, file.partition) if current else None, []).append(i)
    groups: list[Group] = []
    for files in partitions.values():
        everything = Group(
            [members[i] for i in files], [lower[i] for i in files], [upper[i] for i in files]
        )
        parts = _needed(everything, rows, target) if where_needed else [set(range(len(files)))]
        for part in parts:
            groups += _cut(everything, sorted(part), target_bytes, ordered=ordered)
    return groups


def may_pass(rows: FileSet, filter: Filter) -> Sequence[int]:
    """Numbers of the files that may have rows that pass."""
    if filter is None:
        return range(len(rows.members))
    parsed = parse_filter(filter, rows.schema)
    return [] if parsed.matches_nothing else rows.prune(parsed.conjuncts)


def _needed(files: Group, rows: FileSet, target: Target) -> list[set[int]]:
    """Sets of files of one partition that had better be merged."""
    sizes = [member.file.bytes for member in files.members]
    small = [i for i, size in enumerate(sizes) if size < SMALL * target.target_bytes]
    parts = _by_size(files, small)
    mergeable = [
        part for part in parts if _files_of(sum(sizes[i] for i in part), target) < len(part)
    ]
    rest: set[int] = set()
    for i, member in enumerate(files.members):
        gone = member.gone()
        if gone is not None and len(gone) >= MOST_DELETED * member.file.rows:
            rest.add(i)
    if rows.cluster_by and target.layout is None:
        deep = _deep(files, mergeable)
        rest |= _deep(_exact(files, deep, rows), mergeable) if deep else deep
    # What is written anyway takes the small files with it that it belongs to.
    alone: list[set[int]] = []
    for part in parts:
        if part & rest:
            rest |= part
        elif part in mergeable:
            alone.append(part)
    return [*alone, rest] if rest else alone


def _by_size(files: Group, small: Sequence[int]) -> list[set[int]]:
    """Small files, parted where one is much larger than all those before together."""
    parts: list[set[int]] = []
    total = 0
    for i in sorted(small, key=lambda i: files.members[i].file.bytes):
        size = files.members[i].file.bytes
        if not parts or total < size * _WORTH:
            parts.append(set())
            total = 0
        parts[-1].add(i)
        total += size
    return parts


def _files_of(size: int, target: Target) -> int:
    """Most files that are written of files of some bytes together."""
    return max(1, -(-size // target.target_bytes))


def _exact(files: Group, some: set[int], rows: FileSet) -> Group:
    """The files with the first and last keys of some, where their bounds may be cut."""
    names = tuple(key.column for key in rows.cluster_by)
    kinds = [resolve_column(rows.schema, name).type for name in names]
    if not any(is_text(kind) or is_bytes(kind) for kind in kinds):
        return files
    lower, upper = list(files.lower), list(files.upper)
    for i in some:
        member = files.members[i]
        if member.file.rows and _is_sorted(member, rows):
            ends = RowSet(np.array([0, member.file.rows - 1], dtype=np.uint64))
            found = rows.reading.child(member.file).read(ends, names)
            keys = EncodedKeys(found.combine_chunks().to_batches()[0], rows.cluster_by)
            lower[i], upper[i] = keys.to_list()
    return Group(files.members, lower, upper)


def _deep(files: Group, parts: Sequence[set[int]]) -> set[int]:
    """Files that have a key between their bounds that too many others have there as well.

    What begins where another ends does not overlap it: in order, there are rows of one key in both.

    Args:
        parts: files that will be one, so that they count as one.
    """
    together = {i for part in parts for i in part}
    alone = [{i} for i in range(len(files.members)) if i not in together]
    spans = [
        (min(files.lower[i] for i in span), max(files.upper[i] for i in span), span)
        for span in [*parts, *alone]
    ]
    found: set[int] = set()
    reaching: list[tuple[bytes, int]] = []  # a heap: by upper bound, those that reach this far
    new: dict[int, set[int]] = {}  # of these, what has not been found yet
    for number, (first, last, files_of) in enumerate(sorted(spans, key=lambda span: span[0])):
        while reaching and reaching[0][0] <= first:
            new.pop(heapq.heappop(reaching)[1], None)
        heapq.heappush(reaching, (last, number))
        new[number] = files_of
        if len(reaching) > MOST_DEEP:
            found.update(*new.values())
            new.clear()
    return found


def _cut(files: Group, part: Sequence[int], target_bytes: int, *, ordered: bool) -> Iterator[Group]:
    """Groups of some of the files: cut, once they are large, where no key is on both sides."""
    order = sorted(part, key=lambda i: (files.lower[i], files.upper[i], files.members[i].file.path))
    group, size, reach = Group([]), 0, b""
    for i in order:
        apart = not ordered or files.lower[i] > reach
        if group.members and apart and size >= _GROUP_TARGETS * target_bytes:
            yield group
            group, size = Group([]), 0
        group.members.append(files.members[i])
        group.lower.append(files.lower[i])
        group.upper.append(files.upper[i])
        size += files.members[i].file.bytes
        reach = max(reach, files.upper[i])
    if group.members:
        yield group


# ------------------------------------------------------------------ writing


def write(group: Group, rows: MemberRows, target: Target, progress: Progress) -> None:
    """Writes the new files of a group.

    Args:
        rows: how the files of the table are read.

    Cost: reads its files once; sorted files are merged, others are sorted, on disk if need be.
    """
    try:
        _write(group, rows, target, progress)
    except DuplicateKeyError:  # of another engine, which does not ask whether a key is there
        _write(group, rows, replace(target, unique=False), progress)


def _write(group: Group, rows: MemberRows, target: Target, progress: Progress) -> None:
    keys = rows.cluster_by
    sorted_files = (
        bool(keys)
        and target.layout is None
        and all(_is_sorted(member, rows) for member in group.members)
    )
    batch_rows = _batch_rows(group)
    # By rows, so that there are no more new files than were counted upon.
    live = group.live_rows()
    size = group.bytes * live / max(1, sum(member.file.rows for member in group.members))
    target = replace(target, file_rows=max(1, math.ceil(live * target.target_bytes / max(1, size))))

    def opened(member: Member) -> Callable[[], Iterator[pa.RecordBatch]]:
        return lambda: _live(member, rows, target, batch_rows, progress)

    if sorted_files:
        runs = [
            Run(lower, opened(member))
            for lower, member in zip(group.lower, group.members, strict=True)
        ]
        try:
            group.added = _written(merged(runs, target.row_schema, keys), target, presorted=True)
            return
        except KeyOrderError:
            # What another writer said of the order of its files is not so.
            pass
    batches = (batch for member in group.members for batch in opened(member)())
    group.added = _written(batches, target, presorted=False)


def write_each(
    groups: Sequence[Group], rows: MemberRows, target: Target, progress: Progress
) -> None:
    """Writes the new files of groups, one after another."""
    for group in groups:
        write(group, rows, target, progress)


# Has the new files of groups written.
Writing = Callable[[Sequence[Group], MemberRows, Target, Progress], None]


def _written(
    batches: Iterator[pa.RecordBatch], target: Target, *, presorted: bool
) -> list[DataFile]:
    reader = pa.RecordBatchReader.from_batches(target.row_schema, batches)
    return write_rows(reader, target, presorted=presorted)


def _is_sorted(member: Member, rows: MemberRows) -> bool:
    """Whether the rows of a file are in the order of the cluster key, as far as is known."""
    if member.file.format == "NIMBLEPY":
        return rows.reading.child(member.file).cluster_by == rows.cluster_by
    return bool(member.file.sort_order_id)


def _batch_rows(group: Group) -> int:
    """Rows of a batch, so that those of all files that overlap are not too much for memory."""
    depth = open_files = 0
    ends = [(key, 0) for key in group.lower] + [(key, 1) for key in group.upper]
    for _, is_end in sorted(ends):
        open_files += -1 if is_end else 1
        depth = max(depth, open_files)
    row_bytes = _UNPACKED * group.bytes / max(1, sum(m.file.rows for m in group.members))
    wanted = int(_MERGE_BYTES / max(1, depth) / max(1.0, row_bytes))
    return min(max(wanted, _LEAST_BATCH), _MOST_BATCH)


def _live(
    member: Member, rows: MemberRows, target: Target, batch_rows: int, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """The live rows of a file, in its order; with weights if the target wants them."""
    reading = rows.reading.with_weights() if target.weighted else rows.reading
    child = reading.child(member.file)
    gone = member.gone()
    live = child.all_rows() if gone is None else child.all_rows().minus(gone)
    where = Where(None, live)
    generator = np.random.default_rng()
    for batch in child.scan_batches(where, None, batch_rows=batch_rows, threads=1):
        progress.advance(batch.num_rows)
        columns = batch.columns
        if target.weighted and columns[-1].null_count:
            columns[-1] = pa.array(new_weights(batch.num_rows, generator))
        yield pa.RecordBatch.from_arrays(columns, schema=target.row_schema)


# ------------------------------------------------------------------ committing


class Compaction(RowChange):
    """Groups of files are replaced by the files that were written of them.

    It gives way to every other commit. Rows that were deleted meanwhile are found in the new files
    by their primary key, and deleted there; without one, or if a file is gone, the group is given
    up.

    Attributes:
        given_up: groups that were given up in the last attempt.
    """

    def __init__(self, groups: Sequence[Group], files_of: FilesOf, target: Target) -> None:
        super().__init__("replace", (), files_of)
        self._groups = list(groups)
        self._target = target
        self._carried: list[DataFile] = []
        self.given_up = 0

    def plan(self, metadata: ice.Metadata) -> bool:
        rows = self.files_of(metadata)
        members = {member.file.path: member for member in rows.members}
        repeated = (
            set()
            if len(members) == len(rows.members)
            else listed_twice(rows, range(len(rows.members)))
        )
        self.remove(self._carried)
        self._carried = []
        kept = []
        for group in self._groups:
            is_repeated = any(member.file.path in repeated for member in group.members)
            carried = None if is_repeated else self._followed(group, members, rows)
            if carried is None:
                self.remove(group.added)
                self.given_up += 1
            else:
                kept.append(group)
                self._carried += carried
        self._groups = kept
        self.added = [file for group in kept for file in group.added]
        removed = {member.file.path for group in kept for member in group.members}
        self.files_removed = len(removed)
        useless, rest = _sifted_deletes(rows, members, removed)
        left = [member for member in rows.members if member.file.path not in removed]
        # What applies to one listing of a path only would apply to all of them once it is merged.
        kept_deletes = {
            path for item in left if item.file.path in repeated for path in item.delete_paths
        }
        for (spec_id, partition), deletes in rest.items():
            deletes = [file for file in deletes if file.path not in kept_deletes]
            if len(deletes) > _MOST_DELETES:
                target = replace(self._target, spec_id=spec_id)
                together = _positions(deletes, left)
                self._carried.append(write_deletes(together, target, partition))
                useless |= {file.path for file in deletes}
        self.commit.added = [*self.added, *self._carried]
        self.commit.removed = removed | useless
        self.describe(metadata)
        return bool(self.commit.removed or len(self.commit.rebuilt))

    def _followed(
        self, group: Group, members: dict[str, Member], rows: FileSet
    ) -> list[DataFile] | None:
        """Delete files for what was deleted of a group meanwhile; ``None``: it is given up."""
        found: dict[str, RowNumbers] = {}
        for before in group.members:
            now = members.get(before.file.path)
            if now is None:
                return None
            if now.deletes == before.deletes:
                continue
            gone, known = now.deleted(), before.deleted()
            if known is not None and (gone is None or len(np.setdiff1d(known, gone))):
                return None  # rows are back: it was rolled back
            new = gone if known is None or gone is None else np.setdiff1d(gone, known)
            if new is not None and len(new):
                if not rows.reading.primary_key:
                    return None
                found[before.file.path] = new
        return self._carry(group, found, rows) if found else []

    def _carry(
        self, group: Group, deleted: dict[str, RowNumbers], rows: FileSet
    ) -> list[DataFile] | None:
        """Deletes the same rows of the new files; ``None``: more rows than these have their keys.

        Other engines do not ask whether a primary key is there.
        """
        files = {member.file.path: member.file for member in group.members}
        primary = rows.reading.primary_key
        keys = pa.concat_tables(
            rows.reading.child(files[path]).read(RowSet(gone), primary)
            for path, gone in deleted.items()
        )
        partitions: dict[tuple[object, ...], dict[str, RowNumbers]] = {}
        left = keys.num_rows
        for file in group.added:
            child = rows.reading.child(file)
            found = np.unique(child.find(child.keys_request(keys, primary)).expand().begin)
            left -= len(found)
            if len(found):
                partitions.setdefault(file.partition, {})[file.path] = found
        if left:
            return None
        return [
            write_deletes(positions_of, self._target, partition)
            for partition, positions_of in partitions.items()
        ]

    def rebase(self, base: ice.Metadata, newest: ice.Metadata) -> bool:
        self.commit.added_again(newest)
        return self.plan(newest)

    def discard(self) -> None:
        self.remove(self._carried)
        for group in self._groups:
            self.remove(group.added)


def _sifted_deletes(
    rows: FileSet, members: dict[str, Member], removed: set[str]
) -> tuple[set[str], dict[tuple[int, tuple[Any, ...]], list[DataFile]]]:
    """Delete files that name no file that stays, and the others by partition.

    Cost: those are read, if they were not before, that may name a file that is removed.
    """
    near = {file.path for path in removed for file in members[path].deletes}
    used = {
        file.path
        for member in rows.members
        if member.file.path not in removed
        for file in member.deletes
        if file.path not in near or member.file.path in positions(file)
    }
    useless: set[str] = set()
    rest: dict[tuple[int, tuple[Any, ...]], list[DataFile]] = {}
    for entry in rows.plan.delete_files():
        file = entry.file
        if file.path in used:
            rest.setdefault((file.spec_id, file.partition), []).append(file)
        else:
            useless.add(file.path)
    return useless, rest


def _positions(deletes: Sequence[DataFile], left: Sequence[Member]) -> dict[str, RowNumbers]:
    """What some delete files say of files that are left.

    A file that they were meant for may have gone, and come again under its path since: what is
    merged is newer than that, so it has only what each delete file says of files older than it.
    """
    wanted = {file.path for file in deletes}
    found: dict[str, RowNumbers] = {}
    for member in left:
        path = member.file.path
        parts = [positions(file).get(path) for file in member.deletes if file.path in wanted]
        some = [part for part in parts if part is not None]
        if some:
            found[path] = merged_rows(some)
    return found


# ------------------------------------------------------------------ both


@dataclass(frozen=True, kw_only=True)
class Compacting:
    """What the caller says of a compaction.

    Attributes:
        filter: files that may have rows that pass; ``None``: all.
        target_bytes: of a new file.
        where_needed: see :func:`choose`.
        write: who writes.
    """

    filter: Filter
    target_bytes: int
    where_needed: bool
    progress: ProgressArg = None
    write: Writing = write_each


def repeated(
    prepare: Callable[[ice.Metadata, FilesOf], Compaction], commit: CommitChange
) -> Commit:
    """Commits what is prepared, and again what was given up, as one commit."""
    done: Commit | None = None
    made: list[Compaction] = []

    def make(metadata: ice.Metadata, files_of: FilesOf) -> Compaction:
        made.append(prepare(metadata, files_of))
        return made[-1]

    for _ in range(_MOST_PASSES):
        now = commit(make)
        done = now if done is None else _sum(done, now)
        if not made.pop().given_up:
            break
    assert done is not None
    return done


def prepared(wanted: Compacting, metadata: ice.Metadata, files_of: FilesOf) -> Compaction:
    """Files of a table written anew, by their sizes and keys."""
    rows = files_of(metadata)
    target = replace(rewriting_target(metadata), target_bytes=wanted.target_bytes)
    groups = choose(rows, wanted.filter, target, where_needed=wanted.where_needed)
    change = Compaction(groups, files_of, target)
    write_all(change, groups, rows, target, wanted, "compacting")
    return change


def write_all(
    change: Compaction,
    groups: Sequence[Group],
    rows: FileSet,
    target: Target,
    wanted: Compacting,
    stage: str,
) -> None:
    """Writes the new files of groups; after an error none of them is left."""
    shown = Progress(wanted.progress, sum(map(Group.live_rows, groups)), stage=stage)
    try:
        wanted.write(groups, rows, target, shown)
    except BaseException:
        change.discard()
        raise
    finally:
        shown.finish()


def _sum(one: Commit, other: Commit) -> Commit:
    """Of two commits as if they were one."""
    return Commit(
        snapshot=other.snapshot,
        files_added=one.files_added + other.files_added,
        files_removed=one.files_removed + other.files_removed,
        bytes_written=one.bytes_written + other.bytes_written,
        retries=one.retries + other.retries,
        seconds=one.seconds + other.seconds,
    )
