"""Adds indexes to tables of Parquet files, extends them, and drops them.

The data files stay as they are. A commit sets a table property, and makes no snapshot.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from nimblepy.errors import (
    ConflictError,
    CorruptFileError,
    IndexUnavailableError,
    InvalidArgumentError,
)
from nimblepy.file.options import HashIndex, SortedIndex, VectorIndex
from nimblepy.file.source import FileSource
from nimblepy.foreign.build import write_index
from nimblepy.foreign.records import (
    HASH,
    ROW,
    FileRecord,
    IndexRecord,
    file_version,
    hash_bits_for,
    record_of,
    schema_of,
)
from nimblepy.io.location import locate
from nimblepy.io.log import logger
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import as_sort_keys, column_of
from nimblepy.table import iceberg as ice
from nimblepy.table.base.places import readable_path, remove_file
from nimblepy.table.changing.row_commit import begin
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.parquet_index import (
    KEYS,
    PARQUET_INDEXES,
    PATHS,
    CoveringFile,
    KeyIndex,
    StoredIndex,
    ids_of_files,
    list_of_indexes,
    open_index_file,
    readable_indexes,
)
from nimblepy.table.reading.plan import SnapshotPlan
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.properties import set_properties
from nimblepy.table.writing.settings import TableIndex, asked_indexes, changed_indexes

_log = logger(__name__)

# Returns the new indexes: (metadata, rows, old indexes).
Changed = Callable[[ice.Metadata, FileSet, list[StoredIndex]], list[StoredIndex]]

# How often a call starts again because another call changed the indexes.
_MOST_PASSES = 5


def add_parquet_index(table: TableAccess, indexes: Sequence[TableIndex]) -> Commit:
    """See :meth:`nimblepy.Table.add_index`."""

    def changed(metadata: ice.Metadata, rows: FileSet, old: list[StoredIndex]) -> list[StoredIndex]:
        new = [stored_index(rows.schema, index) for index in indexes]
        known = {(index.kind, index.columns) for index in old}
        added = [index for index in new if (index.kind, index.columns) not in known]
        return _covering_now(metadata, rows, [*old, *added])

    return _change(table, "add_index", changed)


@dataclass(frozen=True, eq=False)
class IndexFiles:
    """New files of indexes that no table names yet.

    Attributes:
        properties: the table property that names them.
    """

    properties: dict[str, str] = field(default_factory=dict)
    discard: Callable[[], None] = lambda: None


def index_new_files(
    metadata: ice.Metadata, rows: FileSet, indexes: Sequence[TableIndex]
) -> IndexFiles:
    """Writes the first indexes of a table.

    Args:
        rows: the rows that the indexes cover.
    """
    stored = [stored_index(rows.schema, index) for index in indexes]
    folder = locate(readable_path(metadata.blob_path("")))
    if folder.is_local:
        os.makedirs(folder.path, exist_ok=True)
    new = _covering_now(metadata, rows, list(dict.fromkeys(stored)))
    try:
        name = _write_list(metadata, new)
    except BaseException:
        _discard(metadata, new, (), "")
        raise
    return IndexFiles({PARQUET_INDEXES: name}, lambda: _discard(metadata, new, (), name))


def extend_parquet_indexes(table: TableAccess) -> Commit:
    """Makes the indexes cover all data files."""
    return _change(table, "add_index", _covering_now)


def index_as_declared(table: TableAccess) -> None:
    """Adds the indexes that nimble files of the table had to its Parquet files.

    Logs the indexes that Parquet files cannot have.
    """
    metadata = table.newest()
    rows, usable = table.rows(metadata), list[TableIndex]()
    for index in asked_indexes(metadata):
        try:
            stored_index(rows.schema, index)
        except InvalidArgumentError as error:
            _log.warning(
                "%s: %s is not an index of the table any more: %s", table.name, index, error
            )
        else:
            usable.append(index)
    if usable:
        add_parquet_index(table, usable)


def declare_indexes(table: TableAccess) -> None:
    """Makes the indexes of a Parquet table those of the nimble files that replace its files."""
    rows = table.rows(table.newest())
    primary = {*rows.reading.primary_key}
    indexes = [
        HashIndex(index.names) if index.kind == "hash" else SortedIndex(index.keys)
        for index in _resolved(rows)
        if {*index.names} != primary
    ]
    if indexes:
        set_properties(table, lambda newest: changed_indexes(newest, indexes, ()))


def drop_parquet_index(
    table: TableAccess, index: ColumnName | Sequence[ColumnName] | TableIndex
) -> Commit:
    """See :meth:`nimblepy.Table.drop_index`."""

    def changed(metadata: ice.Metadata, rows: FileSet, old: list[StoredIndex]) -> list[StoredIndex]:
        kept = old
        if not isinstance(index, VectorIndex):  # Parquet tables have none
            given = isinstance(index, (HashIndex, SortedIndex))
            dropped = stored_index(rows.schema, index if given else HashIndex(index))  # type: ignore[arg-type]
            kept = [
                item
                for item in old
                if item.columns != dropped.columns or (given and item.kind != dropped.kind)
            ]
        if len(kept) == len(old):
            shown = ", ".join(map(str, _resolved(rows))) or "no index"
            raise IndexUnavailableError(
                f"drop_index: {table.name} has no such index; it has {shown}"
            )
        return kept

    return _change(table, "drop_index", changed)


class Coverage(NamedTuple):
    """The part of a table that has an index.

    Attributes:
        files: number of files.
        share: their share of the rows.
        without_lists: how many of the files are too small for lists of a vector index.
    """

    files: int
    share: float
    without_lists: int = 0


def parquet_coverage(rows: FileSet) -> dict[str, Coverage]:
    """Returns the number of files and the share of the rows that each index covers.

    Cost: opens the index files, and asks for the status of each covered file.
    """
    parquet = rows.reading.parquet
    shares = {}
    for index in [] if parquet is None else parquet.indexes:
        there = index.covered()
        rows_of = [
            (member.file.rows, (readable_path(member.file.path), member.file.bytes) in there)
            for member in rows.members
        ]
        total = sum(count for count, _ in rows_of)
        covered = sum(count for count, is_covered in rows_of if is_covered)
        files = sum(is_covered for _, is_covered in rows_of)
        shares[str(index)] = Coverage(files, covered / total if total else 1.0)
    return shares


def _resolved(rows: FileSet) -> list[KeyIndex]:
    parquet = rows.reading.parquet
    return [] if parquet is None else parquet.indexes


def stored_index(schema: pa.Schema, index: TableIndex) -> StoredIndex:
    """Returns the description of an index without files.

    Raises:
        InvalidArgumentError: Parquet tables do not have such indexes.
    """
    if not isinstance(index, (HashIndex, SortedIndex)):
        raise InvalidArgumentError(
            f"indexes: Parquet tables have hash and sorted indexes, got {index!r}; only tables of "
            'nimble files have vector indexes: data_format="nimble", or convert("nimble")'
        )
    columns: list[int] = []
    for key in as_sort_keys(index.columns):
        column = resolve_column(schema, key.column)
        if len(column.path) > 1:
            raise InvalidArgumentError(
                f"indexes: column {column_of(key)!r} is a part of a struct; an index of Parquet "
                "files needs top-level columns"
            )
        if key.descending or key.nulls_first:
            raise InvalidArgumentError(
                f"indexes: {key}: indexes of Parquet files are ascending, nulls last"
            )
        number = field_id_of(schema.field(column.path[0]))
        assert number is not None
        columns.append(number)
    return StoredIndex("hash" if isinstance(index, HashIndex) else "sorted", tuple(columns))


def _change(
    table: TableAccess,
    what: str,
    changed: Changed,
) -> Commit:
    """Writes index files and commits them. Starts again if another call was faster."""
    for attempt in range(_MOST_PASSES):
        call = begin(table, what)
        metadata = call.metadata
        old = readable_indexes(metadata)
        before = metadata.properties.get(PARQUET_INDEXES, "")
        new: list[StoredIndex] = []
        name = ""
        try:
            new = changed(metadata, table.rows(metadata), old)
            if new == old:
                return call.nothing()
            if new:
                name = _write_list(metadata, new)
            set_properties(table, _replacing(before, name))
        except BaseException as error:
            landed = getattr(error, "kind", "") == "unknown" or not isinstance(error, Exception)
            if not landed and table.reload().properties.get(PARQUET_INDEXES, "") != name:
                _discard(metadata, new, old, name)
            if isinstance(error, _IndexesChanged) and attempt + 1 < _MOST_PASSES:
                continue
            raise
        return call.nothing(table.newest())
    raise AssertionError("the last pass returns or raises")


def _write_list(metadata: ice.Metadata, indexes: Sequence[StoredIndex]) -> str:
    """Writes the list of a table's indexes, and returns its name."""
    name = f"{KEYS}{uuid.uuid4()}.json"
    with metadata.ice.io.new_output(metadata.blob_path(name)).create() as sink:
        sink.write(list_of_indexes(indexes, metadata.location))
    return name


class _IndexesChanged(ConflictError):
    """Another call changed the indexes of the table."""


def _replacing(before: str, name: str) -> Callable[[ice.Metadata], dict[str, str]]:
    """Returns the property that names the list of the indexes, if it still names ``before``."""

    def properties(metadata: ice.Metadata) -> dict[str, str]:
        if metadata.properties.get(PARQUET_INDEXES, "") not in (before, name):
            raise _IndexesChanged(
                f"{'.'.join(metadata.name)}: another call changed the indexes of the table; call "
                "add_index() or drop_index() again",
                kind="files",
            )
        return {PARQUET_INDEXES: name}

    return properties


def _discard(
    metadata: ice.Metadata, new: Sequence[StoredIndex], old: Sequence[StoredIndex], name: str
) -> None:
    """Removes files that no commit names."""
    known = {file.name for index in old for file in index.files}
    names = [file.name for index in new for file in index.files if file.name not in known]
    for unused in [*names, *([name] if name else [])]:
        with contextlib.suppress(OSError):
            remove_file(metadata.blob_path(unused))


@dataclass(frozen=True, slots=True)
class _Covered:
    """A data file as an index file describes it, and the name of the index file."""

    record: FileRecord
    within: str


def _covering_now(
    metadata: ice.Metadata, rows: FileSet, indexes: Sequence[StoredIndex]
) -> list[StoredIndex]:
    """Returns the indexes with files that cover all data files which have the key columns.

    Leaves out indexes on columns that were dropped.

    Cost: reads the footers, and the keys, of files that an index does not cover.
    """
    sizes = {
        readable_path(member.file.path): member.file.bytes
        for of_branch in _branches(metadata, rows)
        for member in of_branch.members
        if member.file.format == "PARQUET"
    }
    columns = {field_id_of(field) for field in rows.schema}
    read: dict[str, FileRecord] = {}
    made: list[StoredIndex] = []
    try:
        for index in indexes:
            if set(index.columns) <= columns:
                made.append(_extended(rows, metadata, index, sizes, read))
    except BaseException:
        _discard(metadata, made, indexes, "")
        raise
    return made


def _branches(metadata: ice.Metadata, rows: FileSet) -> list[FileSet]:
    """Returns ``rows``, and the rows of all other branches, which share the indexes."""
    head = metadata.head()
    heads = {
        reference.snapshot
        for reference in metadata.references.values()
        if reference.kind == "branch" and (head is None or reference.snapshot != head.id)
    }
    snapshots = [item for item in metadata.snapshots if item.id in heads]
    plans = [SnapshotPlan(metadata, item, metadata.schema_id) for item in snapshots]
    return [rows, *(FileSet(rows.reading, plan) for plan in plans)]


def _extended(
    rows: FileSet,
    metadata: ice.Metadata,
    index: StoredIndex,
    sizes: dict[str, int],
    read: dict[str, FileRecord],
) -> StoredIndex:
    """Returns an index whose files cover the given data files.

    Args:
        sizes: bytes of each data file, by path.
        read: records that were read before, by path; extended.
    """
    opened: dict[str, tuple[FileSource, IndexRecord]] = {}
    known: dict[str, _Covered] = {}
    for file in index.files:
        try:
            opened[file.name] = open_index_file(metadata.blob_path(file.name), file.covers)
        except (CorruptFileError, FileNotFoundError):
            continue  # the index file is written again
        records = opened[file.name][1].files
        for (path, size), record in zip(file.covers, records, strict=True):
            is_same = sizes.get(path) == size and record.version == _version(record.path)
            if is_same:
                known[path] = _Covered(record, file.name)
    # Data files of one form share an index file: these have the same columns and field ids.
    forms: dict[bytes, list[str]] = {}
    records_by_path: dict[str, FileRecord] = {}
    lacking: list[tuple[str, int]] = []
    before = set(index.lacking)
    for path in sizes:
        if (path, sizes[path]) in before:  # a file cannot get the column later
            lacking.append((path, sizes[path]))
            continue
        if path in known:
            record = known[path].record
        else:
            record = read.get(path) or record_of(PATHS, path)
            read[path] = record
        if _names_in_file(rows, record, index.columns) is None:
            lacking.append((path, sizes[path]))
        else:
            records_by_path[path] = record
            forms.setdefault(_form(rows, record), []).append(path)
    files: list[CoveringFile] = []
    try:
        for paths in forms.values():
            files.append(
                _written(rows, metadata, index, paths, records_by_path, known, opened, sizes)
            )
    except BaseException:
        _discard(metadata, [replace(index, files=tuple(files))], [index], "")
        raise
    return replace(index, files=tuple(files), lacking=tuple(sorted(lacking)))


def _written(
    rows: FileSet,
    metadata: ice.Metadata,
    index: StoredIndex,
    paths: Sequence[str],
    records: dict[str, FileRecord],
    known: dict[str, _Covered],
    opened: dict[str, tuple[FileSource, IndexRecord]],
    sizes: dict[str, int],
) -> CoveringFile:
    """Returns an index file of some data files: the old one if it covers exactly these."""
    covers = tuple((path, sizes[path]) for path in sorted(paths))
    old_names = {known[path].within for path in paths if path in known}
    old_file = next((file for file in index.files if file.name in old_names), None)
    old = None if old_file is None else opened[old_file.name]
    is_same = old_file is not None and old_file.covers == covers
    if old_file is not None and is_same and all(path in known for path in paths):
        return old_file
    files = [records[path] for path, _ in covers]
    names = _names_in_file(rows, files[0], index.columns)
    assert names is not None
    bits = hash_bits_for(sum(file.num_rows for file in files))
    if old is not None:
        bits = old[1].hash_bits
    record = IndexRecord(names, index.kind, bits, (), tuple(files), schema_of(files[0]))
    name = f"{KEYS}{uuid.uuid4()}.nbx"
    target = readable_path(metadata.blob_path(name))
    try:
        write_index(target, record, PATHS, old)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_file(target)
        raise
    return CoveringFile(name, covers)


def _version(path: str) -> str | None:
    try:
        return file_version(PATHS, path)
    except OSError:
        return None


def _form(rows: FileSet, record: FileRecord) -> bytes:
    form: bytes = ids_of_files(_of_one(record), rows.reading.names).serialize().to_pybytes()
    return form


def _of_one(record: FileRecord) -> IndexRecord:
    return IndexRecord((), "sorted", 0, (), (record,), schema_of(record))


def _names_in_file(
    rows: FileSet, record: FileRecord, columns: Sequence[int]
) -> tuple[str, ...] | None:
    """Returns the names of columns in a file; ``None`` if the file cannot be indexed by them."""
    schema = ids_of_files(_of_one(record), rows.reading.names)
    by_id = {field_id_of(field): field.name for field in schema}
    names = [by_id.get(number) for number in columns]
    has_clash = len(set(schema.names)) < len(schema.names) or {ROW, HASH} & set(schema.names)
    if None in names or has_clash:
        return None
    return tuple(map(str, names))
