"""The files of a snapshot as one source of rows, read by the engine that reads datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import CorruptFileError, UnsupportedVersionError
from nimblepy.expr.filter import parse_filter
from nimblepy.expr.nodes import Node
from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.files.mapped import MappedRows, fits_as_it_is
from nimblepy.files.open_files import OpenFiles
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.files.source import FilesSource
from nimblepy.join.joinable import FixedRows
from nimblepy.rows.arguments import On
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.rows.source import Filter, Getter, OnKeys, Projected
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_at, field_id_of, has_field_ids, with_field_ids
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.types import IoStats, SortKey, column_of
from nimblepy.table import _iceberg as ice
from nimblepy.table.model import DataFile, PartitionField
from nimblepy.table.places import readable_path
from nimblepy.table.plan import Member, SnapshotPlan

# Files that a table keeps open.
MOST_OPEN_FILES = 512
# Below and above every encoded key, which begins with 00 or 01.
_BELOW, _ABOVE = b"", b"\xff"


@dataclass(eq=False)
class Reading:
    """How the files of a table are read: what all its snapshots with one schema share.

    Attributes:
        schema: columns as they are read, with field ids.
        cluster_by: the order of rows in each file.
        primary_key: names of its columns.
        defaults: what columns are read as in files that do not have them, by field id.
        specs: partition specs by number.
        names: field ids by path, for files that have none.
    """

    name: str
    schema: pa.Schema
    cluster_by: tuple[SortKey, ...]
    primary_key: tuple[str, ...]
    defaults: dict[int, pa.Scalar]
    specs: Callable[[int], list[PartitionField]]
    names: dict[tuple[str, ...], int]
    open_files: OpenFiles[FixedRows] = field(init=False)

    def __post_init__(self) -> None:
        self.open_files = OpenFiles(self._open, MOST_OPEN_FILES)
        self._files: dict[str, DataFile] = {}

    def child(self, file: DataFile) -> FixedRows:
        self._files[file.path] = file
        return self.open_files.get(file.path, None)

    def _open(self, path: str) -> FixedRows:
        file = self._files[path]
        opened: FixedRows
        if file.format == "NIMBLEPY":
            opened = open_file(readable_path(path))
        elif file.format == "PARQUET":
            opened = ParquetRows(readable_path(path))
        else:
            raise UnsupportedVersionError(
                f"{self.name}: {path} is in the format {file.format}; nimblepy reads NIMBLEPY and "
                "PARQUET"
            )
        if opened.num_rows != file.rows:
            raise CorruptFileError(
                f"{path}: {opened.num_rows} rows, the table's metadata says {file.rows}"
            )
        as_it_is = isinstance(opened, File) and fits_as_it_is(opened.schema, self.schema)
        if as_it_is and tuple(opened.cluster_by) == self.cluster_by and self._finds_key(opened):
            return opened
        keys = [self.cluster_by, tuple(SortKey(name) for name in self.primary_key)]
        constants = self._constants(file)

        def missing(column: pa.Field, place: str) -> pa.Scalar:
            number = field_id_of(column)
            known = constants.get(number) if number is not None else None
            if known is None and number is not None:
                known = self.defaults.get(number)
            return pa.scalar(None, column.type) if known is None else known

        have = opened.schema
        if self.names and not has_field_ids(have):
            have = with_field_ids(have, self.names)
        return MappedRows(opened, self.schema, keys, missing, have)

    def _finds_key(self, opened: FixedRows) -> bool:
        """Whether the file has an index that answers for the primary key."""
        wanted = list(self.primary_key)
        return not wanted or any(
            set(wanted) == {k.column for k in info.columns[: len(wanted)]}
            and (info.kind != "hash" or len(info.columns) == len(wanted))
            for info in opened.indexes
        )

    def _constants(self, file: DataFile) -> dict[int, pa.Scalar]:
        """Values of columns that are the same in the whole file, by field id."""
        found = {}
        by_id = {field_id_of(item): item.type for item in self.schema}
        for item, value in zip(self.specs(file.spec_id), file.partition, strict=True):
            kind = by_id.get(item.source_id)
            if item.transform == "identity" and kind is not None:
                found[item.source_id] = ice.constant(kind, value)
        return found


class FileSet(FilesSource):
    """Some data files of a snapshot, without the rows that are deleted of them."""

    def __init__(
        self, reading: Reading, plan: SnapshotPlan, members: Sequence[Member] | None = None
    ) -> None:
        """``members`` of ``None`` is all files of the snapshot, planned when first needed."""
        super().__init__()
        self.reading = reading
        self.plan = plan
        self._given = members
        self._deleted: dict[int, RowSet | None] = {}

    @cached_property
    def _sorted(self) -> tuple[list[Member], FileBounds | None]:
        return _ordered(self.reading, self.plan.members() if self._given is None else self._given)

    @property
    def members(self) -> Sequence[Member]:
        """The files in the order in which they are read."""
        return self._sorted[0]

    @property
    def bounds(self) -> FileBounds | None:  # type: ignore[override]
        return self._sorted[1]

    @property
    def num_files(self) -> int:  # type: ignore[override]
        return len(self.members)

    def for_filter(self, filter: Filter) -> FileSet:
        if filter is None or self._given is not None or self.plan.is_complete:
            return self
        conjuncts = parse_filter(filter, self.schema).conjuncts
        if not conjuncts:
            return self
        return FileSet(self.reading, self.plan, self.plan.members(conjuncts))

    @property
    def schema(self) -> pa.Schema:
        return self.reading.schema

    @property
    def cluster_by(self) -> list[SortKey]:
        return list(self.reading.cluster_by)

    @property
    def size_bytes(self) -> int:
        return sum(member.file.bytes for member in self.members)

    @property
    def io_stats(self) -> IoStats:
        return self.reading.open_files.io_stats

    def reset_io_stats(self) -> None:
        self.reading.open_files.reset_io_stats()

    @cached_property
    def _live_rows(self) -> Positions:
        before = np.zeros(len(self.members) + 1, dtype=np.int64)
        counts = []
        for i, member in enumerate(self.members):
            gone = self.deleted(i)
            counts.append(member.file.rows - (0 if gone is None else gone.num_rows))
        np.cumsum(counts, out=before[1:])
        return before

    @property
    def first_rows(self) -> Positions:
        return self._live_rows

    def child(self, file: int) -> FixedRows:
        return self.reading.child(self.members[file].file)

    def deleted(self, file: int) -> RowSet | None:
        if file not in self._deleted:
            member = self.members[file]
            rows = member.deleted()
            if rows is not None and len(rows) and int(rows[-1]) >= member.file.rows:
                raise CorruptFileError(
                    f"{member.file.path}: row {int(rows[-1])} is deleted, but there are "
                    f"{member.file.rows}"
                )
            self._deleted[file] = None if rows is None else _row_set(rows)
        return self._deleted[file]

    def prune(self, conjuncts: Sequence[Node]) -> Sequence[int]:
        if not conjuncts:
            return range(self.num_files)
        left = {id(member.entry) for member in self.plan.members(conjuncts)}
        return [i for i, member in enumerate(self.members) if id(member.entry) in left]

    def name_of(self, file: int) -> str:
        return self.members[file].file.path

    # ------------------------------------------------------------------ keys

    def always_finds(self, names: Sequence[ColumnName]) -> bool:
        return bool(names) and set(names) == set(self.reading.primary_key)

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        primary = self.reading.primary_key
        names = None if on is None else tuple(map(column_of, on))
        if not ordered and primary and (names is None or self.always_finds(names)):
            return tuple(SortKey(name) for name in primary)
        return super().index_keys(on, ordered=ordered)

    def getter(self, columns: Projected, on: On) -> Getter:
        return super().getter(columns, self.reading.primary_key or None if on is None else on)

    def close(self) -> None:
        self.release()


def _row_set(rows: RowNumbers) -> RowSet:
    return RowSet.of_ranges(_core.merge(np.column_stack((rows, rows + np.uint64(1)))))


def _ordered(reading: Reading, members: Sequence[Member]) -> tuple[list[Member], FileBounds | None]:
    """Members by the first key that they can have, with the bounds of their keys."""
    if not reading.cluster_by or not members:
        return sorted(members, key=lambda member: member.file.path), None
    lower = _encoded_ends(reading, members, first=True)
    upper = _encoded_ends(reading, members, first=False)
    order = sorted(range(len(members)), key=lambda i: (lower[i], upper[i], members[i].file.path))
    bounds = FileBounds(
        pa.array([lower[i] for i in order], pa.binary()),
        pa.array([upper[i] for i in order], pa.binary()),
    )
    return [members[i] for i in order], bounds


def _encoded_ends(reading: Reading, members: Sequence[Member], *, first: bool) -> list[bytes]:
    """An encoded key that no key of each file comes before, or after."""
    fields = []
    for key in reading.cluster_by:
        column = resolve_column(reading.schema, key.column)
        fields.append((key, column.type, field_id_at(reading.schema, column.path)))
    columns: list[list[Any]] = [[] for _ in fields]
    known: list[bool] = []
    for member in members:
        ends = [_end(member.file, *item, first=first) for item in fields]
        known.append(all(found for found, _ in ends))
        for values, (found, value) in zip(columns, ends, strict=True):
            values.append(value if found else None)
    arrays = [pa.array(values, kind) for values, (_, kind, _) in zip(columns, fields, strict=True)]
    batch = pa.RecordBatch.from_arrays(
        arrays, names=[output_name(key.column) for key in reading.cluster_by]
    )
    encoded = EncodedKeys(batch, reading.cluster_by).to_list()
    unknown = _BELOW if first else _ABOVE
    return [key if is_known else unknown for key, is_known in zip(encoded, known, strict=True)]


def _end(
    file: DataFile, key: SortKey, kind: pa.DataType, number: int, *, first: bool
) -> tuple[bool, pa.Scalar | None]:
    """(is it known, the value of a key column that a file begins or ends with at most)."""
    metrics = file.metrics
    nulls = metrics.nulls.get(number)
    if nulls is None:
        return False, None
    if nulls and key.nulls_first == first:
        return True, pa.scalar(None, kind)
    wants_least = first != key.descending
    if not wants_least and pa.types.is_floating(kind):
        nans = metrics.nans.get(number)
        if nans is None:
            return False, None
        if nans:
            return True, pa.scalar(float("nan"), kind)
    stored = (metrics.lower if wants_least else metrics.upper).get(number)
    if stored is not None:
        return True, ice.bound_value(kind, stored)
    if nulls == metrics.values.get(number):
        return True, pa.scalar(None, kind)
    # All values are NaN, or there is no bound.
    if wants_least and metrics.nans.get(number) and pa.types.is_floating(kind):
        return True, pa.scalar(float("nan"), kind)
    return False, None
