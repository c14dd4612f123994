"""Compaction: replaces files by fewer, larger files with the same live rows.

Files are chosen and written in groups. If another commit deleted rows of a group's files, these
rows are also deleted in the new files, or the group is dropped. Other groups are not affected.
"""

from __future__ import annotations

import contextlib
import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import (
    CorruptFileError,
    DuplicateKeyError,
    KeyOrderError,
    UnsupportedVersionError,
)
from nimblepy.file.options import KnownVectorIndex, VectorIndex
from nimblepy.files.bounds import EncodedKeys
from nimblepy.io.progress import Progress, ProgressArg
from nimblepy.rows.nearest import NearestRows, vector_type
from nimblepy.rows.passing import passing_rows
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.kinds import is_bytes, is_text
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.delete_files import Groups, listed_twice, write_delete_files
from nimblepy.table.changing.row_commit import begin, summary_of
from nimblepy.table.otree.blocks import Blocks
from nimblepy.table.otree.tree import new_weights
from nimblepy.table.reading.deletes import merged as merged_rows
from nimblepy.table.reading.deletes import positions
from nimblepy.table.reading.fileset import FileSet, key_ends
from nimblepy.table.reading.members import Member, MemberRows, Reading, member_of
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.merging import Run, merged
from nimblepy.table.writing.settings import TableIndex, rewriting_target, target_of
from nimblepy.table.writing.write import Target, discard, write_deletes, write_rows

# A file below this share of the target size is small.
SMALL = 0.75
# Small files are merged with a larger small file only if they have this share of its bytes. So a
# large file is not rewritten again and again for a few rows.
_WORTH = 1 / 16
# Rewrites a file if at least this share of its rows is deleted.
MOST_DELETED = 0.1
# Merges files if more than this many of them may contain the same key.
MOST_DEEP = 8
# Merges the delete files of a partition if there are more than this.
_MOST_DELETES = 4
# Maximum size of a group, in multiples of the target file size. Large groups leave few small files.
_GROUP_TARGETS = 8
# Arrow bytes of merged files in memory at a time, and Arrow bytes per byte of a file.
_MERGE_BYTES = 64 << 20
_UNPACKED = 4
_LEAST_BATCH, _MOST_BATCH = 1 << 10, 1 << 16
# Stops collecting centroids of vector indexes after this many numbers, 64 MiB.
_MOST_KNOWN = 1 << 24
# Maximum number of times that dropped groups are planned again.
_MOST_PASSES = 5


@dataclass(eq=False)
class Group:
    """Files that are replaced together.

    Attributes:
        members: in the order of their first keys.
        lower, upper: bounds of the encoded keys of each file; empty without a cluster key.
        added: the new files, after they are written.
    """

    members: list[Member]
    lower: list[bytes] = field(default_factory=list)
    upper: list[bytes] = field(default_factory=list)
    added: list[DataFile] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(member.file.bytes for member in self.members)

    def live_rows(self, reading: Reading) -> int:
        bitmaps = (reading.deleted_bitmap(member) for member in self.members)
        deleted = sum(0 if rows is None else len(rows) for rows in bitmaps)
        return sum(member.file.rows for member in self.members) - deleted


# ------------------------------------------------------------------ which files


def choose(rows: FileSet, filter: Filter, target: Target, *, where_needed: bool) -> list[Group]:
    """Chooses the groups of files to replace.

    With ``where_needed``, replacing a group removes the reason to replace it, so repeated calls
    find nothing to do in the end.

    Args:
        filter: only files that may have passing rows.
        target: settings of the new files. Files of other partition specs are merged across
            partitions.
        where_needed: only small files, files with many deleted rows, and overlapping files.
    """
    spec_id, target_bytes, ordered = target.spec_id, target.target_bytes, bool(rows.cluster_by)
    members = list(rows.members)
    candidates = may_pass(rows, filter)
    repeated = listed_twice(rows, candidates)
    if repeated:  # Other readers see the rows of both listings.
        candidates = [i for i in candidates if rows.name_of(i) not in repeated]
    lower = upper = [b""] * len(members)
    if rows.cluster_by and members:
        lower, upper = (ends.to_pylist() for ends in key_ends(rows.reading, rows.members))
    partitions: dict[object, list[int]] = {}
    for i in candidates:
        file = members[i].file
        current = file.spec_id == spec_id
        partitions.setdefault((spec_id, file.partition) if current else None, []).append(i)
    groups: list[Group] = []
    for files in partitions.values():
        partition_files = Group(
            [members[i] for i in files], [lower[i] for i in files], [upper[i] for i in files]
        )
        parts = _needed(partition_files, rows, target) if where_needed else [set(range(len(files)))]
        for part in parts:
            groups += _cut(partition_files, sorted(part), target_bytes, ordered=ordered)
    return groups


def may_pass(rows: FileSet, filter: Filter) -> Sequence[int]:
    """Returns the numbers of the files that may have passing rows."""
    if filter is None:
        return range(len(rows.members))
    parsed = rows.parsed(filter)
    if parsed.matches_nothing:
        return []
    numbers = rows.prune(parsed.conjuncts)
    tested = rows.with_columns_of(parsed)
    if tested is rows:
        return numbers
    passing = []  # columns of row lineage have no statistics, so test the rows
    for number in numbers:
        child = tested.child(number)
        live, deleted = child.all_rows(), rows.deleted(number)
        if deleted is not None:
            live = live.minus(deleted)
        if passing_rows(child, Where(parsed, live)).num_rows:
            passing.append(number)
    return passing


def _needed(files: Group, rows: FileSet, target: Target) -> list[set[int]]:
    """Returns sets of files of one partition that should be merged."""
    sizes = [member.file.bytes for member in files.members]
    small = [i for i, size in enumerate(sizes) if size < SMALL * target.target_bytes]
    parts = _by_size(files, small)
    mergeable = [
        part for part in parts if _files_of(sum(sizes[i] for i in part), target) < len(part)
    ]
    rest: set[int] = set()
    for i, member in enumerate(files.members):
        deleted = rows.reading.deleted_bitmap(member)
        if deleted is not None and len(deleted) >= MOST_DELETED * member.file.rows:
            rest.add(i)
    if rows.cluster_by and target.layout is None:
        deep = _deep(files, mergeable)
        rest |= _deep(_exact(files, deep, rows), mergeable) if deep else deep
    # If a file is rewritten anyway, the small files of its set are rewritten with it.
    alone: list[set[int]] = []
    for part in parts:
        if part & rest:
            rest |= part
        elif part in mergeable:
            alone.append(part)
    return [*alone, rest] if rest else alone


def _by_size(files: Group, small: Sequence[int]) -> list[set[int]]:
    """Divides small files into sets of similar sizes.

    In each set, no file is much larger than all smaller files together.
    """
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
    """Returns the maximum number of files for ``size`` bytes."""
    return max(1, -(-size // target.target_bytes))


def _exact(files: Group, some: set[int], rows: FileSet) -> Group:
    """Returns the same files, with exact first and last keys for files whose bounds may be
    truncated.
    """
    names = tuple(key.column for key in rows.cluster_by)
    kinds = [resolve_column(rows.schema, name).type for name in names]
    if not any(is_text(kind) or is_bytes(kind) for kind in kinds):
        return files
    lower, upper = list(files.lower), list(files.upper)
    for i in some:
        member = files.members[i]
        if member.file.rows and _is_sorted(member, rows):
            ends = RowSet(np.array([0, member.file.rows - 1], dtype=np.uint64))
            first_and_last = rows.reading.child(member.file).read(ends, names)
            keys = EncodedKeys(first_and_last.combine_chunks().to_batches()[0], rows.cluster_by)
            lower[i], upper[i] = keys.to_list()
    return Group(files.members, lower, upper)


def _deep(files: Group, parts: Sequence[set[int]]) -> set[int]:
    """Returns the files that share a possible key with too many other files.

    Files that only meet at a bound do not overlap: rows of one key may end one file and begin the
    next.

    Args:
        parts: sets of files to merge, each of which counts as one file.
    """
    together = {i for part in parts for i in part}
    alone = [{i} for i in range(len(files.members)) if i not in together]
    spans = [
        (min(files.lower[i] for i in span), max(files.upper[i] for i in span), span)
        for span in [*parts, *alone]
    ]
    deep_files: set[int] = set()
    reaching: list[tuple[bytes, int]] = []  # a heap, by upper bound
    new: dict[int, set[int]] = {}  # files of them that are not in deep_files yet
    for number, (first, last, files_of) in enumerate(sorted(spans, key=lambda span: span[0])):
        while reaching and reaching[0][0] <= first:
            new.pop(heapq.heappop(reaching)[1], None)
        heapq.heappush(reaching, (last, number))
        new[number] = files_of
        if len(reaching) > MOST_DEEP:
            deep_files.update(*new.values())
            new.clear()
    return deep_files


def _cut(files: Group, part: Sequence[int], target_bytes: int, *, ordered: bool) -> Iterator[Group]:
    """Divides files into groups. Large groups are cut between keys."""
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
        rows: rows of the table, with the settings to read its files.

    Cost: reads each file once. Sorted files are merged; others are sorted, on disk if needed.
    """
    try:
        _write(group, rows, target, progress)
    except DuplicateKeyError:  # another engine added duplicate keys
        _write(group, rows, replace(target, unique=False), progress)


def _write(group: Group, rows: MemberRows, target: Target, progress: Progress) -> None:
    keys = rows.cluster_by
    sorted_files = (
        bool(keys)
        and target.layout is None
        and all(_is_sorted(member, rows) for member in group.members)
    )
    batch_rows = _batch_rows(group)
    # Limits files by rows, so that no more new files are written than planned.
    live = group.live_rows(rows.reading)
    size = group.bytes * live / max(1, sum(member.file.rows for member in group.members))
    target = replace(
        target,
        file_rows=max(1, math.ceil(live * target.target_bytes / max(1, size))),
        indexes=tuple(_with_known(index, group, rows) for index in target.indexes),
    )

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
            # Another writer declared a sort order that its rows do not have.
            pass
    batches = (batch for member in group.members for batch in opened(member)())
    group.added = _written(batches, target, presorted=False)


def _with_known(index: TableIndex, group: Group, rows: MemberRows) -> TableIndex:
    """Returns a vector index with the centroids of the files' indexes, and other indexes as they
    are.
    """
    if not isinstance(index, VectorIndex):
        return index
    width = vector_type(resolve_column(rows.schema, index.column).type)
    nothing = np.empty((0, width or 0))
    request = NearestRows(index.column, None, nothing, 1, recall=0.5, exact=False)
    known: list[Any] = []
    for member in group.members:
        source = rows.reading.child(member.file)
        if sum(centroids.size for centroids, _ in known) >= _MOST_KNOWN:
            break
        # Damaged indexes, and those of later versions, are replaced like files without an index.
        with contextlib.suppress(CorruptFileError, UnsupportedVersionError, NotImplementedError):
            if index.metric in source.vector_metrics(index.column):
                parts = source.nearest_parts(request)
                lists = [part.lists for part in parts if part.lists is not None]
                known += [each.known_centroids() for each in lists if each.num_lists]
    return KnownVectorIndex(index, known) if known else index


def write_each(
    groups: Sequence[Group], rows: MemberRows, target: Target, progress: Progress
) -> None:
    """Writes the new files of groups, one group after another."""
    for group in groups:
        write(group, rows, target, progress)


# Writes the new files of groups.
Writing = Callable[[Sequence[Group], MemberRows, Target, Progress], None]


def _written(
    batches: Iterator[pa.RecordBatch], target: Target, *, presorted: bool
) -> list[DataFile]:
    reader = pa.RecordBatchReader.from_batches(target.row_schema, batches)
    return write_rows(reader, target, presorted=presorted)


def _is_sorted(member: Member, rows: MemberRows) -> bool:
    """Returns whether the rows of a file are known to be in the order of the cluster key."""
    if member.file.format == "NIMBLEPY":
        return rows.reading.child(member.file).cluster_by == rows.cluster_by
    return bool(member.file.sort_order_id)


def _batch_rows(group: Group) -> int:
    """Returns the rows of a batch, limited so that the batches of all overlapping files fit into
    memory.
    """
    depth = open_files = 0
    ends = [(key, 0) for key in group.lower] + [(key, 1) for key in group.upper]
    for _, is_end in sorted(ends):
        open_files += -1 if is_end else 1
        depth = max(depth, open_files)
    row_bytes = _UNPACKED * group.bytes / max(1, sum(m.file.rows for m in group.members))
    batch_rows = int(_MERGE_BYTES / max(1, depth) / max(1.0, row_bytes))
    return min(max(batch_rows, _LEAST_BATCH), _MOST_BATCH)


def _live(
    member: Member, rows: MemberRows, target: Target, batch_rows: int, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """Yields the live rows of a file, in file order, with weights if the target needs them."""
    reading = rows.reading.variant(lineage=bool(target.lineage), weighted=target.weighted)
    child = reading.child_of(member)
    deleted = rows.reading.deleted_bitmap(member)
    live = child.all_rows() if deleted is None else child.all_rows().minus(deleted)
    where = Where(None, live)
    generator = np.random.default_rng()
    for batch in child.scan_batches(where, None, batch_rows=batch_rows, threads=1):
        progress.advance(batch.num_rows)
        columns = batch.columns
        if target.weighted and columns[-1].null_count:
            columns[-1] = pa.array(new_weights(batch.num_rows, generator))
        yield pa.RecordBatch.from_arrays(columns, schema=target.row_schema)


# ------------------------------------------------------------------ committing


class Compaction:
    """Replaces groups of files by the files that were written from them.

    Other commits take precedence. Rows that another commit deleted meanwhile are found in the new
    files by their primary key, and deleted there. A group is dropped if the table has no primary
    key, or if another commit removed one of its files or gave row ids to its rows.

    Attributes:
        groups: the groups that are not dropped.
        target: settings of new delete files.
        given_up: number of groups that were dropped in the last attempt.
    """

    inserted = updated = deleted = 0

    def __init__(
        self,
        groups: Sequence[Group],
        table: TableAccess,
        target: Target,
        rebuilt: Blocks | None = None,
    ) -> None:
        self.commit = ice.SnapshotCommit("replace")
        if rebuilt is not None:
            self.commit.rebuilt = rebuilt
        self.files_removed = 0
        self.given_up = 0
        self.groups = list(groups)
        self._table = table
        self.target = target
        self._carried: list[DataFile] = []

    def is_done(self, metadata: ice.Metadata) -> bool:
        return False

    def plan(self, metadata: ice.Metadata) -> bool:
        rows = self._table.rows(metadata)
        # Another commit may have upgraded the table to format version 3.
        self.target = replace(self.target, vectors=target_of(metadata).vectors)
        members = {member.file.path: member for member in rows.members}
        repeated = (
            set()
            if len(members) == len(rows.members)
            else listed_twice(rows, range(len(rows.members)))
        )
        self._remove(self._carried)
        self._carried = []
        kept = []
        for group in self.groups:
            is_repeated = any(member.file.path in repeated for member in group.members)
            carried = None if is_repeated else self._followed(group, members, rows)
            if carried is None:
                self._remove(group.added)
                self.given_up += 1
            else:
                kept.append(group)
                self._carried += carried
        self.groups = kept
        added = [file for group in kept for file in group.added]
        removed = {member.file.path for group in kept for member in group.members}
        self.files_removed = len(removed)
        useless, rest = _sifted_deletes(rows, members, removed)
        left = [member for member in rows.members if member.file.path not in removed]
        # After a merge, deletes of one listing of a path would apply to all its listings.
        kept_deletes = {
            name for item in left if item.file.path in repeated for name in item.delete_ids
        }
        new_positions: Groups = {}
        converted = _convertible(rows, left, repeated)
        if converted:
            new_positions = _positions_of_keys(rows, left, repeated)
            useless |= converted
        if self.target.vectors:
            # Version 3 still reads the position deletes of version 2, but no commit adds to them.
            old = [file for of in rest.values() for file in of if file.vector is None]
            old = [file for file in old if file.identity not in kept_deletes]
            for path, listed in _positions(old, left).items():
                file = members[path].file
                of_place = new_positions.setdefault((file.spec_id, file.partition), {})
                parts = [of_place[path], listed] if path in of_place else [listed]
                of_place[path] = merged_rows(parts)
            useless |= {file.identity for file in old}
            rest = {}
        written, replaced = write_delete_files(new_positions, self.target, left)
        self._carried += written
        useless |= replaced
        for (spec_id, partition), deletes in rest.items():
            deletes = [file for file in deletes if file.path not in kept_deletes]
            if len(deletes) > _MOST_DELETES:
                target = replace(self.target, spec_id=spec_id)
                together = _positions(deletes, left)
                self._carried.append(write_deletes(together, target, partition))
                useless |= {file.path for file in deletes}
        self.commit.added = [*added, *self._carried]
        self.commit.removed = removed | useless
        self.commit.removed_deletes = useless
        self.commit.summary = summary_of(self) | ice.key_record(metadata)
        return bool(self.commit.removed or len(self.commit.rebuilt))

    def _followed(
        self, group: Group, members: dict[str, Member], rows: FileSet
    ) -> list[DataFile] | None:
        """Returns delete files for rows of a group that were deleted meanwhile.

        ``None`` drops the group.
        """
        new_deletes: dict[str, RowNumbers] = {}
        for before in group.members:
            now = members.get(before.file.path)
            if now is None or now.inherited != before.inherited:
                return None
            if now.deletes == before.deletes:
                continue
            current, old = rows.reading.deleted(now), rows.reading.deleted(before)
            if old is not None and (current is None or len(np.setdiff1d(old, current))):
                return None  # a rollback restored rows
            new = current if old is None or current is None else np.setdiff1d(current, old)
            if new is not None and len(new):
                if not rows.reading.primary_key:
                    return None
                new_deletes[before.file.path] = new
        return self._carry(group, new_deletes, rows) if new_deletes else []

    def _carry(
        self, group: Group, deleted: dict[str, RowNumbers], rows: FileSet
    ) -> list[DataFile] | None:
        """Deletes the same rows in the new files.

        Returns ``None`` if a key has several rows, because other engines do not enforce primary
        keys.
        """
        files = {member.file.path: member.file for member in group.members}
        primary = rows.reading.primary_key
        keys = pa.concat_tables(
            rows.reading.child(files[path]).read(RowSet(rows_of_path), primary)
            for path, rows_of_path in deleted.items()
        )
        partitions: dict[tuple[object, ...], dict[str, RowNumbers]] = {}
        left = keys.num_rows
        for file in group.added:
            child = rows.reading.child(file)
            matching_rows = np.unique(child.find(child.keys_request(keys, primary)).expand().begin)
            left -= len(matching_rows)
            if len(matching_rows):
                partitions.setdefault(file.partition, {})[file.path] = matching_rows
        if left:
            return None
        groups: Groups = {
            (self.target.spec_id, partition): rows_of for partition, rows_of in partitions.items()
        }
        return write_delete_files(groups, self.target, [member_of(file) for file in group.added])[0]

    def discard(self) -> None:
        self._remove(self._carried)
        for group in self.groups:
            self._remove(group.added)

    def _remove(self, files: Sequence[DataFile]) -> None:
        if not self.commit.doubtful:
            discard(files)


def _sifted_deletes(
    rows: FileSet, members: dict[str, Member], removed: set[str]
) -> tuple[set[str], dict[tuple[int, tuple[Any, ...]], list[DataFile]]]:
    """Returns position deletes that apply to no remaining file, and all others by partition.

    Cost: reads delete files that may list rows of removed files, unless they are cached.
    """
    near = {file.identity for path in removed for file in members[path].deletes}
    used = {
        file.identity
        for member in rows.members
        if member.file.path not in removed
        for file in member.deletes
        if file.content == "position deletes"
        and (file.identity not in near or member.file.path in positions(file))
    }
    useless: set[str] = set()
    rest: dict[tuple[int, tuple[Any, ...]], list[DataFile]] = {}
    for entry in rows.plan.delete_files():
        file = entry.file
        if file.identity in used:
            rest.setdefault((file.spec_id, file.partition), []).append(file)
        elif file.content == "position deletes":
            useless.add(file.identity)
    return useless, rest


def _convertible(rows: FileSet, left: Sequence[Member], repeated: set[str]) -> set[str]:
    """Returns the paths of the equality delete files that position deletes can replace.

    Args:
        left: the remaining data files.
        repeated: paths that are listed more than once. Position deletes would apply to all of their
            listings, and equality deletes only to the older ones.
    """
    kept = {
        item.path
        for member in left
        if member.file.path in repeated
        for item in member.equality_deletes
    }
    deletes = (entry.file for entry in rows.plan.delete_files())
    return {f.path for f in deletes if f.content == "equality deletes" and f.path not in kept}


def _positions_of_keys(rows: FileSet, left: Sequence[Member], repeated: set[str]) -> Groups:
    """Returns the rows that equality deletes, and no position deletes, delete."""
    groups: Groups = {}
    for member in left:
        file = member.file
        if file.path in repeated or not member.equality_deletes:
            continue
        deleted = rows.reading.deleted(member)
        if deleted is None:
            continue
        lists = [item for item in member.deletes if item.content == "position deletes"]
        listed = [some for item in lists if (some := positions(item).get(file.path)) is not None]
        if listed:
            deleted = np.setdiff1d(deleted, merged_rows(listed), assume_unique=True)
        if len(deleted):
            groups.setdefault((file.spec_id, file.partition), {})[file.path] = deleted
    return groups


def _positions(deletes: Sequence[DataFile], left: Sequence[Member]) -> dict[str, RowNumbers]:
    """Returns the rows of remaining files that the delete files list.

    A delete file applies only to older files. The merged delete file is newer, and would apply to a
    path that was removed and added again. So only positions for the listed files are kept.
    """
    names = {file.identity for file in deletes}
    rows_by_path: dict[str, RowNumbers] = {}
    for member in left:
        path = member.file.path
        parts = [positions(file).get(path) for file in member.deletes if file.identity in names]
        some = [part for part in parts if part is not None]
        if some:
            rows_by_path[path] = merged_rows(some)
    return rows_by_path


# ------------------------------------------------------------------ both


@dataclass(frozen=True, kw_only=True)
class Compacting:
    """Settings of a compaction.

    Attributes:
        filter: only files that may have passing rows; ``None`` means all files.
        target_bytes: target size of new files.
        where_needed: see :func:`choose`.
        write: writes the new files.
    """

    filter: Filter
    target_bytes: int
    where_needed: bool
    progress: ProgressArg = None
    write: Writing = write_each


def convert_deletes(table: TableAccess) -> Commit:
    """See :meth:`nimblepy.Table.convert_deletes`."""
    call = begin(table, "convert_deletes")
    return call.run(Compaction([], table, rewriting_target(call.metadata)))


# Chooses and writes groups of files for the metadata of a call.
Prepare = Callable[[TableAccess, ice.Metadata], Compaction]


def commit_repeatedly(table: TableAccess, what: str, prepare: Prepare) -> Commit:
    """Commits a compaction, and repeats it for dropped groups. Returns the sum of the commits."""
    done: Commit | None = None
    for _ in range(_MOST_PASSES):
        call = begin(table, what)
        change = prepare(table, call.metadata)
        now = call.run(change)
        done = now if done is None else summed(done, now)
        if not change.given_up:
            break
    assert done is not None
    return done


def prepared(settings: Compacting, table: TableAccess, metadata: ice.Metadata) -> Compaction:
    """Plans a compaction and writes its files."""
    rows = table.rows(metadata)
    target = replace(rewriting_target(metadata), target_bytes=settings.target_bytes)
    groups = choose(rows, settings.filter, target, where_needed=settings.where_needed)
    change = Compaction(groups, table, target)
    write_all(change, groups, rows, target, settings, "compacting")
    return change


def write_all(
    change: Compaction,
    groups: Sequence[Group],
    rows: FileSet,
    target: Target,
    settings: Compacting,
    stage: str,
) -> None:
    """Writes the new files of groups. Removes them after an error."""
    live = sum(group.live_rows(rows.reading) for group in groups)
    shown = Progress(settings.progress, live, stage=stage)
    try:
        settings.write(groups, rows, target, shown)
    except BaseException:
        change.discard()
        raise
    finally:
        shown.finish()


def summed(one: Commit, other: Commit) -> Commit:
    """Adds two commits."""
    return Commit(
        snapshot=other.snapshot,
        files_added=one.files_added + other.files_added,
        files_removed=one.files_removed + other.files_removed,
        bytes_written=one.bytes_written + other.bytes_written,
        retries=one.retries + other.retries,
        seconds=one.seconds + other.seconds,
    )
