"""Adds indexes to the files of a table and drops them, without encoding rows again.

Each file is replaced by a copy with other indexes. Rows keep their positions, so the deleted rows
of a file are the same in its copy, even if another commit deletes them meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from nimblepy.errors import ConflictError, IndexUnavailableError, InvalidArgumentError
from nimblepy.file.add_index import rewrite_indexes
from nimblepy.file.indexes import CLUSTER, Index
from nimblepy.file.open import open_source
from nimblepy.file.options import HashIndex, SortedIndex, VectorIndex
from nimblepy.file.source import FileSource
from nimblepy.file.write import index_specs
from nimblepy.schema.columns import column_paths, resolve_column
from nimblepy.schema.field_ids import field_id_of, has_field_ids, with_field_ids
from nimblepy.schema.names import ColumnName, Path
from nimblepy.schema.types import IndexInfo, as_sort_keys
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile, FileCubes
from nimblepy.table.base.places import readable_path
from nimblepy.table.changing.delete_files import Groups, write_delete_files
from nimblepy.table.changing.row_commit import begin
from nimblepy.table.otree.blocks import CUBES
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Member, member_of
from nimblepy.table.upkeep.compact import Compaction, Group, summed
from nimblepy.table.upkeep.index_parquet import (
    Coverage,
    add_parquet_index,
    drop_parquet_index,
    parquet_coverage,
)
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.properties import set_properties
from nimblepy.table.writing.settings import (
    IndexIdentity,
    TableIndex,
    asked_indexes,
    changed_indexes,
    data_format_of,
    declared_indexes,
    identity_of,
    rewriting_target,
)
from nimblepy.table.writing.write import Target, discard

# Bytes of the smallest list of a vector index: a centroid and 32 codes, of 64 numbers. An index
# without lists has about 110 bytes.
_LEAST_LIST = 896
# Maximum number of searches for files that another commit added without the index.
_MOST_PASSES = 5


def add_index(table: TableAccess, indexes: TableIndex | Sequence[TableIndex]) -> Commit:
    """See :meth:`nimblepy.Table.add_index`."""
    metadata = table.newest()
    one = isinstance(indexes, (HashIndex, SortedIndex, VectorIndex))
    new = [cast(TableIndex, indexes)] if one else list(cast(Sequence[TableIndex], indexes))
    if not new:
        raise InvalidArgumentError("add_index: expected at least one index")
    schema = metadata.schema()
    index_specs(schema, new)  # raises if their columns do not exist
    if data_format_of(metadata) == "parquet":
        return add_parquet_index(table, new)
    existing = _declared(metadata)
    again = [index for index in new if identity_of(schema, index) in existing]
    for index in again:
        metric = existing[identity_of(schema, index)].metric
        if isinstance(index, VectorIndex) and index.metric != metric:
            raise InvalidArgumentError(
                f"add_index: {table.name} has a vector index on {index.column!r} of metric "
                f"{metric!r} already; call drop_index({index.column!r}) before adding one of "
                f"{index.metric!r}"
            )
    if len(again) == len(new) and not _unfinished(table, metadata, again, set()):
        return begin(table, "add_index").nothing()
    return _run(table, "add_index", new, set())


def drop_index(table: TableAccess, index: ColumnName | Sequence[ColumnName] | TableIndex) -> Commit:
    """See :meth:`nimblepy.Table.drop_index`."""
    metadata = table.newest()
    if metadata.branch != ice.MAIN:
        raise InvalidArgumentError(
            f"drop_index: branch {metadata.branch!r} shares its indexes with all branches of "
            f"{table.name}; drop the index on {ice.MAIN!r}"
        )
    if data_format_of(metadata) == "parquet":
        done = drop_parquet_index(table, index)
        schema = metadata.schema()
        declared = {identity_of(schema, item) for item in asked_indexes(metadata)}
        dropped = _meant(schema, index, declared)
        if dropped:  # or else a conversion to nimble files would make it again
            set_properties(table, lambda newest: changed_indexes(newest, [], dropped))
        return done
    existing = _declared(metadata)
    dropped = _meant(metadata.schema(), index, existing)
    if not dropped:
        shown = ", ".join(
            f"{info.kind} ({', '.join(map(str, info.columns))})" for info in existing.values()
        )
        raise IndexUnavailableError(
            f"drop_index: {table.name} has no such index; it has {shown or 'no secondary index'}"
        )
    primary = metadata.primary_key()
    clustered = {key.column for key in metadata.cluster_by()[: len(primary)]}
    on_primary = identity_of(metadata.schema(), HashIndex(primary)) if primary else None
    if primary and clustered != {*primary} and on_primary in dropped:
        raise InvalidArgumentError(
            f"drop_index: the index of {table.name} on its primary key cannot be dropped, because "
            "writes look up keys in it"
        )
    return _run(table, "drop_index", [], dropped)


def _meant(
    schema: pa.Schema,
    index: ColumnName | Sequence[ColumnName] | TableIndex,
    existing: Iterable[IndexIdentity],
) -> set[IndexIdentity]:
    """Returns the existing indexes that an argument of ``drop_index`` means."""
    if isinstance(index, (HashIndex, SortedIndex, VectorIndex)):
        return {identity_of(schema, index)} & {*existing}
    columns = [column for column, _, _ in identity_of(schema, HashIndex(index))[1]]
    return {item for item in existing if [column[0] for column in item[1]] == columns}


def _declared(metadata: ice.Metadata) -> dict[IndexIdentity, IndexInfo]:
    """Returns the secondary indexes of new files."""
    schema = metadata.schema()
    return {
        identity_of(schema, info): info
        for info in declared_indexes(metadata, metadata.schema_id)
        if info.kind != "cluster"
    }


def coverage(rows: FileSet, metadata: ice.Metadata) -> dict[str, Coverage]:
    """Returns the part of the table that has each secondary index.

    Cost: opens every file of a table with secondary indexes. For a Parquet table, opens the index
    files.
    """
    if data_format_of(metadata) == "parquet":
        return parquet_coverage(rows)
    declared = _declared(metadata)
    counts = dict.fromkeys(declared, 0)
    files = dict.fromkeys(declared, 0)
    without_lists = dict.fromkeys(declared, 0)
    total = 0
    for member in rows.members if declared else ():
        total += member.file.rows
        child = rows.reading.child(member.file, keep=False)
        there = {
            identity: info
            for info in child.indexes
            if info.kind != "cluster"
            and (identity := identity_of(rows.schema, info)) in declared
            and info.metric == declared[identity].metric
        }
        for item, info in there.items():
            counts[item] += member.file.rows
            files[item] += 1
            without_lists[item] += info.kind == "vector" and info.size_bytes < _LEAST_LIST
    return {
        f"{info.kind} ({', '.join(map(str, info.columns))})": Coverage(
            files[item], counts[item] / total if total else 1.0, without_lists[item]
        )
        for item, info in declared.items()
    }


def _run(
    table: TableAccess, what: str, add: Sequence[TableIndex], drop: set[IndexIdentity]
) -> Commit:
    """Replaces files until all of them have the indexes, usually in one commit."""

    def indexes(metadata: ice.Metadata) -> dict[str, str]:
        return changed_indexes(metadata, add, drop)

    done: Commit | None = None
    for _ in range(_MOST_PASSES):
        call = begin(table, what)
        rows, target = table.rows(call.metadata), rewriting_target(call.metadata)
        change = _Reindexing(rows, table, target, add, drop)
        if not change.groups:
            if done is None:
                set_properties(table, indexes)
                done = call.nothing(table.newest())
            return done
        now = call.run(change)
        done = now if done is None else summed(done, now)
        if not change.groups:
            # Other commits replaced all these files. From now on they write files that need no
            # change, so a later pass finds fewer files.
            set_properties(table, indexes)
    assert done is not None
    metadata = table.newest()
    left = _unfinished(table, metadata, add, drop)
    if left:
        base, winner = call.metadata.head(), metadata.head()
        raise ConflictError(
            f"{table.name}: {what}: other commits replaced files during {_MOST_PASSES} passes, and "
            f"{left} files are unchanged; call {what} again",
            kind="files",
            base=None if base is None else base.id,
            winner=None if winner is None else winner.id,
        )
    return done


def _unfinished(
    table: TableAccess,
    metadata: ice.Metadata,
    add: Sequence[TableIndex],
    drop: Collection[IndexIdentity],
) -> int:
    """Returns the number of files that lack an index to add, or have one to drop."""
    rows = table.rows(metadata)
    count = 0
    for member in rows.members:
        if member.file.format == "NIMBLEPY":
            with closing(open_source(readable_path(member.file.path))) as file:
                there = _positions(file, _ids(file, rows))
                count += bool(_missing_specs(file, rows, add)) or not there.keys().isdisjoint(drop)
    return count


def _missing_specs(
    file: FileSource, rows: FileSet, indexes: Sequence[TableIndex]
) -> list[dict[str, Any]]:
    """The indexes that a file lacks, unless it lacks a column of them."""
    ids = _ids(file, rows)
    there = _positions(file, ids)
    specs: list[dict[str, Any]] = []
    for index in indexes:
        identity = identity_of(rows.schema, index)
        paths = [ids[number] for number, _, _ in identity[1] if number in ids]
        if len(paths) != len(identity[1]):
            continue
        if identity not in there or _has_other_metric(file, rows, index, ids):
            specs += index_specs(file.schema, [_renamed(index, paths)])
    return specs


def _has_other_metric(
    file: FileSource, rows: FileSet, index: TableIndex, ids: dict[int, Path]
) -> bool:
    """Returns whether the file has a vector index on the same column, but of another metric."""
    if not isinstance(index, VectorIndex):
        return False
    ((number, _, _),) = identity_of(rows.schema, index)[1]
    name = ids[number][0]
    return any(
        info.kind == "vector" and info.columns[0].column == name and info.metric != index.metric
        for info in file.indexes
    )


class _Reindexing(Compaction):
    """Replaces files by copies with other indexes, and sets the indexes of new files."""

    def __init__(
        self,
        rows: FileSet,
        table: TableAccess,
        target: Target,
        add: Sequence[TableIndex],
        drop: set[IndexIdentity],
    ) -> None:
        self._add, self._drop = add, drop
        groups: list[Group] = []
        try:
            for member in rows.members:
                if member.file.format == "NIMBLEPY":
                    copy = _copy(member, rows, target, add, drop)
                    if copy is not None:
                        groups.append(Group([member], added=[copy]))
        except BaseException:
            discard([file for group in groups for file in group.added])
            raise
        super().__init__(groups, table, target)

    def plan(self, metadata: ice.Metadata) -> bool:
        self.commit.properties = changed_indexes(metadata, self._add, self._drop)
        return super().plan(metadata)

    def _followed(
        self, group: Group, members: dict[str, Member], rows: FileSet
    ) -> list[DataFile] | None:
        (member,), (copy,) = group.members, group.added
        now = members.get(member.file.path)
        if now is None:
            return None
        copy = _with_lineage(copy, now)
        group.added = [copy]
        deleted = rows.reading.deleted(now)
        if deleted is None or not len(deleted):
            return []
        groups: Groups = {(copy.spec_id, copy.partition): {copy.path: deleted}}
        return write_delete_files(groups, self.target, [member_of(copy)])[0]


def _copy(
    member: Member,
    rows: FileSet,
    target: Target,
    add: Sequence[TableIndex],
    drop: set[IndexIdentity],
) -> DataFile | None:
    """Writes the copy of a file; ``None`` if the file needs no change or lacks a column."""
    path = readable_path(member.file.path)
    with closing(open_source(path)) as file:
        ids = _ids(file, rows)
        there = _positions(file, ids)
        specs = _missing_specs(file, rows, add)
        # A new vector index replaces one of another metric.
        replaced = {
            identity
            for index in add
            if (identity := identity_of(rows.schema, index)) in there
            and _has_other_metric(file, rows, index, ids)
        }
        dropped = [number for item, number in there.items() if item in drop or item in replaced]
        if not dropped and not specs:
            return None
        new_path = target.new_path()
        try:
            rewrite_indexes(
                file, path, readable_path(new_path), dropped, specs, target.options, None, None
            )
            with closing(open_source(readable_path(new_path))) as copy:
                size = copy.size_bytes
        except BaseException:
            discard([replace(member.file, path=new_path)])
            raise
        text = file.metadata.get(CUBES)
        cubes = None if text is None else FileCubes.from_json(text)
        copied = replace(member.file, path=new_path, bytes=size, cubes=cubes)
        return _with_lineage(copied, member)


def _with_lineage(copy: DataFile, member: Member) -> DataFile:
    """Returns the copy of a file. Its rows have the ids and sequence numbers of the file's rows."""
    first_row_id, sequence = member.inherited
    if first_row_id is None:
        return replace(copy, first_row_id=None, sequence=None)
    return replace(copy, first_row_id=first_row_id, sequence=sequence)


def _ids(file: FileSource, rows: FileSet) -> dict[int, Path]:
    """Returns the paths of the columns of a file, by field id."""
    schema = file.schema
    if not has_field_ids(schema):
        schema = with_field_ids(schema, rows.reading.names)
    ids: dict[int, Path] = {}
    for path in column_paths(schema):
        number = field_id_of(_field(schema, path))
        if number is not None:  # a column of the table
            ids[number] = path
    return ids


def _field(schema: pa.Schema, path: Path) -> pa.Field:
    field = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    return field


def _renamed(index: TableIndex, paths: Sequence[Path]) -> TableIndex:
    """Returns the index under the names of the columns in a file."""
    if isinstance(index, HashIndex):
        return replace(index, columns=tuple(paths))
    if isinstance(index, VectorIndex):
        return VectorIndex(
            paths[0][0],
            metric=index.metric,  # type: ignore[arg-type]
            lists=index.lists,
            queries=index.queries,
        )
    keys = zip(as_sort_keys(index.columns), paths, strict=True)
    return replace(index, columns=tuple(replace(key, column=path) for key, path in keys))


def _positions(file: FileSource, ids: dict[int, Path]) -> dict[IndexIdentity | None, int]:
    """Returns the positions of the indexes of a file. Vector indexes are counted last."""
    positions = {_stored(file, index, ids): index.number for index in file.handle.indexes}
    others = len(file.handle.core.indexes)
    numbers = {path: number for number, path in ids.items()}
    for name, (position, _, _) in file.handle.vectors.items():
        number = numbers.get((name,))
        if number is not None:
            positions["vector", ((number, False, False),)] = others + position
    return positions


def _stored(file: FileSource, index: Index, ids: dict[int, Path]) -> IndexIdentity | None:
    """Returns the identity of an index of a file; ``None`` for the cluster index and unknown
    columns.
    """
    if index.number == CLUSTER:
        return None
    numbers = {path: number for number, path in ids.items()}
    ordered = index.kind == "sorted"
    columns = []
    for key in index.keys:
        number = numbers.get(resolve_column(file.schema, key.column).path)
        if number is None:
            return None
        columns.append((number, ordered and key.descending, ordered and key.nulls_first))
    return index.kind, tuple(columns)
