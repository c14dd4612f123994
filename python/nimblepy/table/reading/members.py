"""The data files of a table and their deleted rows, as one source of rows.

The files come from the plan of a snapshot (:mod:`nimblepy.table.reading.fileset`) or from a
description that another process sent (:mod:`nimblepy.table.reading.shipped`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, StaleFileError, UnsupportedVersionError
from nimblepy.expr.filter import Filter as Parsed
from nimblepy.expr.filter import parse_filter
from nimblepy.file.open import open_source
from nimblepy.file.source import FileSource
from nimblepy.files.bounds import FileBounds
from nimblepy.files.mapped import MappedRows, MissingValue, fits_as_it_is
from nimblepy.files.numbered import NumberedRows
from nimblepy.files.open_files import OpenFiles
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.files.source import FilesSource
from nimblepy.io.location import is_uri
from nimblepy.io.remote_file import at_once, openers
from nimblepy.rows.arguments import Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.compiled import AsofIndex, Compiled, SingleRows
from nimblepy.rows.nearest import NearestPart, NearestRows
from nimblepy.rows.plan import DetailValue, Plan
from nimblepy.rows.request import Keys, Ordered, Request, Where, leads_to
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.rows.source import Filter, OnKeys, Reader, RowSource
from nimblepy.schema.field_ids import field_id_of, has_field_ids, with_field_ids
from nimblepy.schema.lineage import LINEAGE, NAMES, ROW_ID_FIELD, names_lineage
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import IndexInfo, IoStats, SortKey, agrees, column_of
from nimblepy.table.base.model import DataFile, Entry, PartitionField
from nimblepy.table.base.places import readable_path
from nimblepy.table.base.values import constant
from nimblepy.table.otree.layouts import WEIGHT_FIELD
from nimblepy.table.reading.deletes import deleted_rows, merged, positions, verify_positions
from nimblepy.table.reading.equality import (
    FindColumns,
    keys_of,
    no_columns,
    rows_with_keys,
    verify_keys,
)
from nimblepy.table.reading.parquet_index import Opened, ParquetIndexes
from nimblepy.table.reading.parquet_search import Search, search

# Maximum number of files of a set that keeps references to its open files.
_FEW_FILES = 512
# After opening this many files, close open files that are no longer in the table.
_MANY_MORE = 32


@dataclass(frozen=True, eq=False)
class Member:
    """A data file of a snapshot.

    Attributes:
        deletes: delete files that may list rows of this file.
    """

    entry: Entry
    deletes: tuple[DataFile, ...] = ()

    @property
    def identity(self) -> tuple[str, int]:
        """The path and sequence number of a listing.

        Another engine may list the same path again in a later snapshot.
        """
        return self.entry.file.path, self.entry.sequence

    @property
    def inherited(self) -> tuple[int | None, int]:
        """The first row id and the sequence number, which rows without stored lineage inherit.

        A file from before an upgrade to format version 3 has no row ids until the next commit.
        """
        return self.entry.file.first_row_id, self.entry.sequence

    @cached_property
    def delete_ids(self) -> frozenset[str]:
        """The identities of the delete files."""
        return frozenset(file.identity for file in self.deletes)

    @property
    def file(self) -> DataFile:
        return self.entry.file

    @cached_property
    def equality_deletes(self) -> tuple[DataFile, ...]:
        """The equality delete files among the delete files."""
        return tuple(file for file in self.deletes if file.content == "equality deletes")


def member_of(file: DataFile, deletes: Sequence[DataFile] = ()) -> Member:
    """Returns a member for a file that no manifest lists."""
    return Member(Entry(file=file, sequence=0, manifest="", raw=None), tuple(deletes))


@dataclass(eq=False)
class Reading:
    """Settings to read the files of a table, shared by all snapshots with one schema.

    Attributes:
        schema: columns as they are read, with field ids.
        cluster_by: the order of rows in each file.
        primary_key: names of its columns.
        defaults: values of columns that a file does not have, by field id.
        specs: partition specs by number.
        names: field ids by path, for files without field ids.
        indexes: the indexes of new files, without keys.
        columns_of: finds the columns that equality deletes compare.
        parquet: the indexes of Parquet files, if there are any.
        has_row_ids: whether the columns of row lineage can be read by name.
        lineage: whether ``schema`` has the columns of row lineage.
    """

    name: str
    schema: pa.Schema
    cluster_by: tuple[SortKey, ...]
    primary_key: tuple[str, ...]
    defaults: dict[int, pa.Scalar]
    specs: Callable[[int], list[PartitionField]]
    names: dict[tuple[str, ...], int]
    indexes: Sequence[IndexInfo] = ()
    columns_of: FindColumns = no_columns
    parquet: ParquetIndexes | None = None
    has_row_ids: bool = False
    lineage: bool = False
    open_files: OpenFiles[RowSource] = field(init=False)

    def __post_init__(self) -> None:
        self.open_files = OpenFiles("table")
        self._variants: dict[tuple[bool, bool], Reading] = {}
        self._row_id_columns: WeakKeyDictionary[RowSource, str | None] = WeakKeyDictionary()
        self._left_open = 0

    def with_weights(self) -> Reading:
        """Returns the same settings, with the weights of an OTree's rows as the last column."""
        return self.variant(lineage=False, weighted=True)

    def with_lineage(self) -> Reading:
        """Returns the same settings, with the columns of row lineage as the last ones."""
        return self.variant(lineage=True, weighted=False)

    def variant(self, *, lineage: bool, weighted: bool) -> Reading:
        """Returns the same settings, with columns that the table's schema does not have: first
        those of row lineage, then the weights.
        """
        if not (lineage or weighted):
            return self
        made = self._variants.get((lineage, weighted))
        if made is None:
            fields = [*(LINEAGE if lineage else ()), *([WEIGHT_FIELD] if weighted else ())]
            schema = pa.schema([*self.schema, *fields], self.schema.metadata)
            made = replace(self, schema=schema, lineage=lineage)
            self._variants[lineage, weighted] = made
        return made

    def parsed(self, filter: Filter) -> Parsed:
        """Parses a filter, which may name columns of row lineage."""
        schema = self.schema
        if self.has_row_ids and any(name in str(filter) for name in NAMES):
            schema = self.with_lineage().schema
        return parse_filter(filter, schema)

    @property
    def io_stats(self) -> IoStats:
        """Counts of all reads of files."""
        stats = self.open_files.io_stats
        if self.parquet is not None:
            stats = stats + self.parquet.io_stats
        for variant in list(self._variants.values()):
            stats = stats + variant.io_stats
        return stats

    def reset_io_stats(self) -> None:
        self.open_files.reset_io_stats()
        if self.parquet is not None:
            self.parquet.reset_io_stats()
        for variant in list(self._variants.values()):
            variant.reset_io_stats()

    def close(self) -> None:
        """Closes all files."""
        self.open_files.close()
        for variant in list(self._variants.values()):
            variant.close()

    def child_of(self, member: Member, *, keep: bool = True) -> RowSource:
        """Opens the rows of a file of a snapshot, with the columns of :attr:`schema`."""
        if not self.lineage:
            return self.child(member.file, keep=keep)
        opening = partial(self._open_numbered, member)
        child = self.open_files.get(member.file.path, None, opening, keep=keep)
        assert isinstance(child, NumberedRows)
        if child.inherited == member.inherited:
            return child
        # Another snapshot lists the file with other numbers.
        return self._numbered(child.child, member)

    def _open_numbered(self, member: Member) -> NumberedRows:
        return self._numbered(self.opened(member.file), member)

    def _numbered(self, opened: RowSource, member: Member) -> NumberedRows:
        file = member.file
        return NumberedRows(
            opened,
            self.schema,
            self.searched_keys(),
            self._missing_values(file, self.schema, self.defaults),
            self._stored_schema(opened),
            first_row_id=file.first_row_id,
            sequence=member.entry.sequence,
        )

    def child(self, file: DataFile, *, keep: bool = True) -> RowSource:
        """Opens the rows of a file. With ``keep``, later calls use the same open file."""
        return self.open_files.get(file.path, None, partial(self._open, file), keep=keep)

    def close_unless(self, is_wanted: Callable[[list[str]], Iterable[bool]]) -> None:
        """Closes all files except those for which ``is_wanted`` is true."""
        self.open_files.close_unless(lambda keys: is_wanted([path for path, _ in keys]))
        for variant in list(self._variants.values()):
            variant.close_unless(is_wanted)

    def close_left(self, have: Callable[[list[str]], Iterable[bool]]) -> None:
        """Closes files that have left the table.

        ``have`` tells which paths the table still has.
        """
        self.close_unless(have)
        self._left_open = len(self.open_files)

    @property
    def has_many_more(self) -> bool:
        """Whether many files were opened since the last :meth:`close_left`."""
        return len(self.open_files) > 2 * self._left_open + _MANY_MORE

    def is_open(self, file: DataFile) -> bool:
        return (file.path, None) in self.open_files

    def opened(self, file: DataFile, *, use_index: bool = True) -> RowSource:
        """Opens a file, with its own columns.

        Args:
            use_index: whether an index of Parquet files may answer for the file.
        """
        path = file.path
        opened: RowSource
        if file.format == "NIMBLEPY":
            opened = open_source(readable_path(path))
        elif file.format == "PARQUET":
            parquet = self.parquet if use_index else None
            child = None if parquet is None else parquet.child(path, file.bytes)
            opened = ParquetRows(readable_path(path)) if child is None else child
        else:
            raise UnsupportedVersionError(
                f"{self.name}: {path} is in the format {file.format}; nimblepy reads NIMBLEPY and "
                "PARQUET"
            )
        if opened.num_rows != file.rows:
            raise CorruptFileError(
                f"{path}: {opened.num_rows} rows, but the table's metadata says {file.rows}; the "
                "file was replaced or damaged"
            )
        return opened

    def _open(self, file: DataFile) -> RowSource:
        opened = self.opened(file)
        indexes = [] if self.parquet is None else self.parquet.indexes
        as_it_is = isinstance(opened, FileSource) and fits_as_it_is(opened.schema, self.schema)
        searched = [self.primary_key, *(index.names for index in indexes)]
        finds_keys = as_it_is and all(_finds_key(opened, key) for key in searched)
        if finds_keys and tuple(opened.cluster_by) == self.cluster_by:
            return opened
        keys = self.searched_keys()
        equal = [index.keys for index in indexes if index.kind == "hash"]
        mapped = self._mapped(opened, file, self.schema, keys, self.defaults, equal)
        # A file from before a column was added or widened has no index on it as it is now.
        lacking = [
            info
            for info in self.indexes
            if info.kind in ("hash", "sorted")
            and not all(mapped.can_search(k.column) for k in info.columns)
        ]
        if not lacking:
            return mapped
        keys += [info.columns for info in lacking if info.kind == "sorted"]
        equal += [info.columns for info in lacking if info.kind == "hash"]
        return self._mapped(opened, file, self.schema, keys, self.defaults, equal)

    def searched_keys(self) -> list[tuple[SortKey, ...]]:
        """Returns the keys that can be searched in each file, the cluster key first."""
        indexes = [] if self.parquet is None else self.parquet.indexes
        keys = [self.cluster_by, tuple(SortKey(name) for name in self.primary_key)]
        return keys + [tuple(index.keys) for index in indexes if index.kind == "sorted"]

    def _mapped(
        self,
        opened: RowSource,
        file: DataFile,
        schema: pa.Schema,
        keys: Sequence[Sequence[SortKey]],
        defaults: Mapping[int, pa.Scalar],
        equal: Sequence[Sequence[SortKey]] = (),
    ) -> MappedRows:
        """Returns the rows of a file with the columns of ``schema``."""
        missing = self._missing_values(file, schema, defaults)
        return MappedRows(opened, schema, keys, missing, self._stored_schema(opened), equal)

    def _stored_schema(self, opened: RowSource) -> pa.Schema:
        """Returns the columns of a file with their field ids."""
        have = opened.schema
        if self.names and not has_field_ids(have):
            have = with_field_ids(have, self.names)
        return have

    def row_id_column(self, opened: RowSource) -> str | None:
        """Returns the name of the column in which a file stores row ids; ``None`` if it stores
        none.

        The column is found by its field id, because a column of the table may have had the name
        before the table was upgraded.
        """
        if opened not in self._row_id_columns:
            number = field_id_of(ROW_ID_FIELD)
            stored = self._stored_schema(opened)
            names = (item.name for item in stored if field_id_of(item) == number)
            self._row_id_columns[opened] = next(names, None)
        return self._row_id_columns[opened]

    def _missing_values(
        self, file: DataFile, schema: pa.Schema, defaults: Mapping[int, pa.Scalar]
    ) -> MissingValue:
        # Must not refer to `self`: because it holds the open file, that would be a reference cycle.
        constants = self.constants(file, schema)

        def missing(column: pa.Field, place: str) -> pa.Scalar:
            number = field_id_of(column)
            value = constants.get(number) if number is not None else None
            if value is None and number is not None:
                value = defaults.get(number)
            return pa.scalar(None, column.type) if value is None else value

        return missing

    def deleted_bitmap(self, member: Member) -> _core.RowBitmap | None:
        """Returns the deleted rows of a file; ``None`` if no row is deleted.

        Cost: each delete file is read once. For new equality deletes, looks their keys up in the
        data file, or reads its key columns if it has no index on them.
        """
        find = partial(self.rows_with_keys, member.file)
        file = member.file
        return deleted_rows(file.path, member.deletes, member.delete_ids, find, file.rows)

    def deleted(self, member: Member) -> RowNumbers | None:
        """Returns the deleted rows of a file, ascending."""
        bitmap = self.deleted_bitmap(member)
        return None if bitmap is None else bitmap.rows()

    def rows_with_keys(self, file: DataFile, deletes: Sequence[DataFile]) -> RowNumbers:
        """Returns the rows of a data file that equality delete files delete, ascending."""
        found: list[RowNumbers] = []
        sets: dict[tuple[int, ...], list[DataFile]] = {}
        for item in deletes:
            if item.rows:  # Java's library does not create a file without rows.
                sets.setdefault(item.equality_ids, []).append(item)
        if not sets:
            return np.empty(0, dtype=np.uint64)
        child = self.child(file)
        opened = child.child if isinstance(child, MappedRows) else child
        for ids, files in sets.items():
            columns = self.columns_of(ids)
            keys = pa.concat_tables([keys_of(item, columns, self.names) for item in files])
            rows = self._mapped(opened, file, columns.schema, [columns.sort_keys], columns.defaults)
            found.append(rows_with_keys(rows, columns, keys))
        return merged(found)

    def constants(self, file: DataFile, schema: pa.Schema) -> dict[int, pa.Scalar]:
        """Returns the partition values that hold for all rows of the file, by field id."""
        values = {}
        by_id = {field_id_of(item): item.type for item in schema}
        for item, value in zip(self.specs(file.spec_id), file.partition, strict=True):
            kind = by_id.get(item.source_id)
            if item.transform == "identity" and kind is not None:
                values[item.source_id] = constant(kind, value)
        return values


def _row_outside(path: str, row: int, rows: int) -> str:
    return f"{path}: a delete file lists row {row}, but the data file has only {rows} rows"


def _finds_key(opened: RowSource, key: Sequence[str]) -> bool:
    """Returns whether a file has an index that answers lookups by a key."""
    return not key or any(
        set(key) == {k.column for k in info.columns[: len(key)]}
        and (info.kind != "hash" or len(info.columns) == len(key))
        for info in opened.indexes
    )


def _answers(request: Keys | Ordered | AsofKeys, opened: Opened) -> bool:
    """Returns whether an index file has the columns of a request; else may raise
    IndexUnavailableError.
    """
    if isinstance(request, Keys):
        return bool(opened.rows.index_keys(tuple(request.names), ordered=False))
    if isinstance(request, AsofKeys):
        return opened.entries.compiled(AsofIndex(request.by, request.on, request.known)) is not None
    return bool(opened.entries.index_keys(request.keys, ordered=True))


class MemberRows(FilesSource):
    """The rows of some data files of a table, without their deleted rows."""

    kind = "table"

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self.reading = reading
        self._deleted: dict[int, _core.RowBitmap | None] = {}
        self._children: dict[int, RowSource] = {}
        self._searches: dict[tuple[object, ...], Search | None] = {}

    @property
    @abstractmethod
    def members(self) -> Sequence[Member]:
        """The files in reading order."""

    @abstractmethod
    def part(self, files: Sequence[int]) -> MemberRows:
        """Returns some of the files, by number."""

    @abstractmethod
    def read_by(self, reading: Reading) -> MemberRows:
        """Returns the same files, read with other columns."""

    @cached_property
    def with_lineage(self) -> MemberRows:
        """The same rows, with the columns of row lineage as the last ones."""
        return self.read_by(self.reading.with_lineage())

    def _numbered(self, columns: Projected, where: Where | None = None) -> MemberRows | None:
        """Returns the rows to read if a call names columns of row lineage that are not in the
        schema.
        """
        if not self.reading.has_row_ids or self.reading.lineage:
            return None
        filter = None if where is None else where.filter
        tested = () if filter is None else filter.columns
        return self.with_lineage if names_lineage(columns) or names_lineage(tested) else None

    def projected(self, columns: Projected) -> pa.Schema:
        numbered = self._numbered(columns)
        return super().projected(columns) if numbered is None else numbered.projected(columns)

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        numbered = self._numbered(columns)
        if numbered is not None:
            return numbered.read(rows, columns)
        return super().read(rows, columns)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        numbered = self._numbered(columns, where)
        if numbered is not None:
            shown = tuple(self.schema.names) if columns is None else columns
            return numbered.scan_batches(where, shown, batch_rows=batch_rows, threads=threads)
        return super().scan_batches(where, columns, batch_rows=batch_rows, threads=threads)

    def count_passing(self, where: Where, *, threads: int) -> int:
        numbered = self._numbered((), where)
        if numbered is not None:
            return numbered.count_passing(where, threads=threads)
        return super().count_passing(where, threads=threads)

    def where_request(self, filter: Filter, row_range: tuple[int, int] | None = None) -> Where:
        where = super().where_request(None, row_range)
        return where if filter is None else replace(where, filter=self.parsed(filter))

    def parsed(self, filter: Filter) -> Parsed:
        """Parses a filter, which may name columns of row lineage."""
        return self.reading.parsed(filter)

    def with_columns_of(self, filter: Parsed) -> MemberRows:
        """Returns the same rows, with the columns of row lineage if a filter names one."""
        return self._numbered(filter.columns) or self

    def nearest_parts(
        self, request: NearestRows, rows: RowSet | None = None
    ) -> Iterator[NearestPart]:
        tested = () if request.filter is None else request.filter.columns
        numbered = self._numbered(tested)
        if numbered is not None:
            return numbered.nearest_parts(request, rows)
        return super().nearest_parts(request, rows)

    def row_ids(self, matches: Mapping[int, RowSet]) -> dict[int, pa.Array]:
        """Returns the ids of rows of each file. Cost: reads them from the files that store them."""
        ids = {}
        for number, rows in matches.items():
            child = self.child(number)
            opened = child.child if isinstance(child, MappedRows) else child
            first = self.members[number].file.first_row_id
            inherited = pa.nulls(rows.num_rows, pa.int64())
            if first is not None:
                inherited = pa.array(rows.expand().begin.astype(np.int64) + first)
            name = self.reading.row_id_column(opened)
            if name is not None:
                stored = opened.read(rows, (name,)).column(0).combine_chunks()
                inherited = pc.coalesce(stored, inherited) if stored.null_count else stored
            ids[number] = inherited
        return ids

    @property
    def num_files(self) -> int:  # type: ignore[override]
        return len(self.members)

    @property
    def schema(self) -> pa.Schema:
        return self.reading.schema

    @property
    def cluster_by(self) -> list[SortKey]:
        return list(self.reading.cluster_by)

    @property
    def declared(self) -> Sequence[IndexInfo]:
        return self.reading.indexes

    @property
    def size_bytes(self) -> int:
        return sum(member.file.bytes for member in self.members)

    @property
    def io_stats(self) -> IoStats:
        return self.reading.io_stats

    def reset_io_stats(self) -> None:
        self.reading.reset_io_stats()

    @cached_property
    def _live_rows(self) -> Positions:
        before = np.zeros(len(self.members) + 1, dtype=np.int64)
        counts = []
        for i, member in enumerate(self.members):
            deleted = self.deleted(i)
            counts.append(member.file.rows - (0 if deleted is None else len(deleted)))
        np.cumsum(counts, out=before[1:])
        return before

    @property
    def first_rows(self) -> Positions:
        return self._live_rows

    def child(self, file: int) -> RowSource:
        rows = self._children.get(file)
        if rows is None:
            rows = self.reading.child_of(self.members[file], keep=not self.is_past)
            if self.num_files <= _FEW_FILES:  # Keeps the files open as long as this object exists.
                if not self._children:
                    self.reading.open_files.add_holder(self.release)
                self._children[file] = rows
            return rows
        self.reading.open_files.check_open()
        return rows

    @property
    def is_past(self) -> bool:
        """Whether the handle has moved to another version.

        If so, no file is kept open.
        """
        return False

    def release(self) -> None:
        """Drops the references that keep files open for the next call."""
        self._children.clear()

    def deleted(self, file: int) -> _core.RowBitmap | None:
        if file not in self._deleted:
            member = self.members[file]
            deleted = self.reading.deleted_bitmap(member)
            if deleted is not None and deleted.last >= member.file.rows:
                raise CorruptFileError(
                    _row_outside(member.file.path, deleted.last, member.file.rows)
                )
            self._deleted[file] = deleted
        return self._deleted[file]

    def damage(self) -> Iterator[Exception]:
        """Yields an error for each data file or delete file that is damaged or missing."""
        yield from super().damage()
        checked: set[str] = set()
        for file in range(self.num_files):
            for delete in self.members[file].deletes:
                if delete.identity in checked:
                    continue
                checked.add(delete.identity)
                try:
                    self.verify_deletes(delete)
                except (CorruptFileError, FileNotFoundError, StaleFileError) as error:
                    yield error

    def verify_file(self, file: int) -> None:
        """Verifies a data file as it is in storage now, not the open one."""
        opened = self.reading.opened(self.members[file].file, use_index=False)
        try:
            opened.verify()
        finally:
            opened.close()

    def verify_deletes(self, file: DataFile) -> None:
        """Verifies a delete file as it is in storage now, not the cached one."""
        if file.content == "equality deletes":
            columns = self.reading.columns_of(file.equality_ids)
            verify_keys(file, columns, self.reading.names)
            return
        most_rows = {member.file.path: member.file.rows for member in self.members}
        for path, rows in verify_positions(file).items():
            if len(rows) and rows[-1] >= most_rows.get(path, math.inf):
                raise CorruptFileError(_row_outside(path, int(rows[-1]), most_rows[path]))

    def prepare(self, files: Sequence[int]) -> None:
        """Opens files of a store and reads their delete files, all at once."""
        if not self._distant:
            return
        unknown = [self.members[i] for i in files if i not in self._deleted]
        deletes = {file.path: file for member in unknown for file in member.deletes}
        tasks: list[Callable[[], object]] = [
            partial(positions, file)
            for file in deletes.values()
            if file.content == "position deletes" and file.vector is None
        ]
        for i in files:
            if not self.reading.is_open(self.members[i].file):
                tasks.append(partial(self.child, i))
        for _ in at_once(lambda task: task(), tasks, openers()):
            pass

    @cached_property
    def _distant(self) -> bool:
        """Whether the files are in a store. All files of a table are in one place."""
        return bool(len(self.members)) and is_uri(readable_path(self.members[0].file.path))

    def stored_rows(self, file: int) -> int:
        return self.members[file].file.rows

    def name_of(self, file: int) -> str:
        return self.members[file].file.path

    def plan_details(self, files: Sequence[int]) -> tuple[tuple[str, DetailValue], ...]:
        """Returns the path, rows, bytes and deleted rows of each file that is read."""
        details: list[dict[str, str | int]] = []
        for number in files:
            file, deleted = self.members[number].file, self.deleted(number)
            details.append(
                {
                    "path": file.path,
                    "rows": file.rows,
                    "bytes": file.bytes,
                    "deleted_rows": 0 if deleted is None else len(deleted),
                }
            )
        return ("files", tuple(details)), ("files opened", len(details))

    def for_filter(self, filter: Filter) -> MemberRows:
        return self

    # ------------------------------------------------------------------ keys

    def distinct_keys(self, names: Sequence[ColumnName]) -> float | None:
        primary = self.reading.primary_key
        return float(self.num_rows) if primary and set(primary) <= set(names) else None

    def always_finds(self, names: Sequence[ColumnName]) -> bool:
        return bool(names) and set(names) == set(self.reading.primary_key)

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        primary = self.reading.primary_key
        names = None if on is None else tuple(map(column_of, on))
        if not ordered and primary and (names is None or self.always_finds(names)):
            return tuple(SortKey(name) for name in primary)
        parquet = self.reading.parquet
        if not ordered and names and parquet is not None:
            index = parquet.choose(names)
            if index is not None:
                return index.keys
        return super().index_keys(on, ordered=ordered)

    def asof_keys(self, by: tuple[ColumnName, ...], on: ColumnName) -> tuple[SortKey, ...]:
        parquet = self.reading.parquet
        if parquet is not None and not leads_to(self.cluster_by, by, on):
            index = parquet.choose_for_asof(by, on)
            if index is not None:
                return index.keys[: len(by) + 1]
        return super().asof_keys(by, on)

    def paths_and_sizes(self) -> Iterable[tuple[str, int]]:
        """Returns the path of each file, and its size in bytes."""
        return ((member.file.path, member.file.bytes) for member in self.members)

    def _search(self, request: Keys | Ordered | AsofKeys) -> Search | None:
        """Returns a search by an index of Parquet files; ``None`` if no such index helps."""
        parquet = self.reading.parquet
        if parquet is None:
            return None
        key, is_usable = self._searched(request), partial(_answers, request)
        if key is None:
            return None
        if key not in self._searches:
            if isinstance(request, Keys):
                index = parquet.choose(request.names)
            elif isinstance(request, AsofKeys):
                index = parquet.choose_for_asof(request.by, request.on, request.known)
            else:
                index = parquet.choose_ordered(self._order(request))
            self._searches[key] = search(index, self.paths_and_sizes(), is_usable)
        return self._searches[key]

    def _searched(self, request: Keys | Ordered | AsofKeys) -> tuple[object, ...] | None:
        """Returns what an index must have to answer; ``None`` if no index can."""
        if isinstance(request, Keys):
            return request.names if request.between is None else None
        if isinstance(request, AsofKeys):
            return "as-of", request.by, request.on, request.known
        return None if request.nothing else ("in order", *self._order(request))

    def _order(self, request: Ordered) -> tuple[SortKey, ...]:
        """Returns the sort keys that order the rows of a range or prefix."""
        keys = self.reading.searched_keys()
        return next((key for key in keys if agrees(request.keys, key)), request.keys)

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        numbered = self._numbered((), request if isinstance(request, Where) else None)
        if numbered is not None:
            return numbered.find(request, limit=limit, reverse=reverse)
        by_index = None if isinstance(request, Where) else self._search(request)
        if by_index is None or isinstance(request, Where):
            return super().find(request, limit=limit, reverse=reverse)
        try:
            if isinstance(request, Keys):
                return self._find_keys_by(by_index, request).slice(0, limit)
            return by_index.find_in_order(
                request,
                self._order(request),
                self._not_covered(by_index),
                self.deleted,
                limit=limit,
                reverse=reverse,
            )
        except (FileNotFoundError, StaleFileError):
            # An index file was removed because newer ones replaced it.
            self._searches[self._searched(request) or ()] = None
            return super().find(request, limit=limit, reverse=reverse)

    def _find_keys_by(self, by_index: Search, keys: Keys) -> RowSet:
        parts = by_index.find(keys, self.deleted)
        others = self._not_covered(by_index)
        if others is not None:
            rows = others.find(keys)
            if len(rows.begin):
                assert rows.file is not None
                numbers = np.array(by_index.others, dtype=np.int64)
                parts.append(replace(rows, file=numbers[rows.file]))
        rows = RowSet.joined(parts)
        assert rows.probe is not None
        assert rows.file is not None
        return rows.entries(np.lexsort((rows.file, rows.probe)))

    def _not_covered(self, by_index: Search) -> MemberRows | None:
        return self.part(by_index.others) if by_index.others else None

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        by_index = self._search(keys)
        if by_index is None:
            return super().find_asof(keys, deleted)
        try:
            return by_index.find_asof(
                keys, self._not_covered(by_index), self.num_files, self.deleted
            )
        except (FileNotFoundError, StaleFileError):
            self._searches[self._searched(keys) or ()] = None
            return super().find_asof(keys, deleted)

    def find_and_read(
        self, keys: Keys, columns: Projected, *, first: bool = False
    ) -> tuple[pa.Table, Positions]:
        if self._search(keys) is None and self._numbered(columns) is None:
            return super().find_and_read(keys, columns, first=first)
        return RowSource.find_and_read(self, keys, columns, first=first)

    def count_matches(self, keys: Keys) -> Positions:
        if self._search(keys) is None:
            return super().count_matches(keys)
        return self.find(keys).counts

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        numbered = self._numbered(columns, request if isinstance(request, Where) else None)
        if numbered is not None:
            shown = tuple(self.schema.names) if columns is None else columns
            return numbered.explain_request(request, shown)
        by_index = None if isinstance(request, Where) else self._search(request)
        if by_index is None:
            return super().explain_request(request, columns)
        index = str(by_index.index)
        children = [
            Plan(
                text=f"read {opened.source.path}",
                details=(("entries", opened.source.index.num_rows),),
                index=index,
            )
            for opened, _ in by_index.covering
        ]
        if by_index.others:
            children.append(self.part(by_index.others).explain_request(request, columns))
        what = "lookup" if isinstance(request, Keys) else "range"
        return Plan(
            text=f"{what} in an index of Parquet files",
            details=(
                ("files", self.num_files),
                ("files covered", by_index.num_covered),
                ("files searched without the index", len(by_index.others)),
            ),
            children=tuple(children),
            reads=sum(plan.reads for plan in children),
            bytes=sum(plan.bytes for plan in children),
            index=index,
        )

    @property
    def indexes(self) -> list[IndexInfo]:
        """The indexes that every file has, and those of Parquet files, which may not cover all."""
        parquet = self.reading.parquet
        if parquet is None:
            return super().indexes
        return [*super().indexes, *(index.info for index in parquet.indexes)]

    def compiled(self, reader: Compiled[Reader]) -> Reader | None:
        if isinstance(reader, SingleRows) and reader.on is None and self.reading.primary_key:
            reader = cast("Compiled[Reader]", replace(reader, on=self.reading.primary_key))
        if self._numbered(getattr(reader, "columns", ())) is not None:
            return None
        return super().compiled(reader)

    def close(self) -> None:
        self.release()


class SomeRows(MemberRows):
    """Rows of given files, or of files that another process planned."""

    def __init__(
        self, reading: Reading, members: Sequence[Member], bounds: FileBounds | None = None
    ) -> None:
        super().__init__(reading)
        self._members = members
        self.bounds = bounds

    @property
    def members(self) -> Sequence[Member]:
        return self._members

    def part(self, files: Sequence[int]) -> SomeRows:
        bounds = None if self.bounds is None else self.bounds.take(files)
        return SomeRows(self.reading, [self._members[i] for i in files], bounds)

    def read_by(self, reading: Reading) -> SomeRows:
        return SomeRows(reading, self._members, self.bounds)
