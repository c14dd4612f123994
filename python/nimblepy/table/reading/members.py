"""The data files of a table and the rows that are deleted of them, as one source of rows.

Nothing in here knows how the files were found: a snapshot that was planned has them
(:mod:`nimblepy.table.reading.fileset`), or a description that was sent
(:mod:`nimblepy.table.reading.shipped`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, UnsupportedVersionError
from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.files.bounds import FileBounds
from nimblepy.files.mapped import MappedRows, fits_as_it_is
from nimblepy.files.open_files import OpenFiles
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.files.source import FilesSource
from nimblepy.io.location import is_uri
from nimblepy.io.remote_file import at_once, openers
from nimblepy.join.joinable import FixedRows
from nimblepy.rows.arguments import On
from nimblepy.rows.plan import DetailValue
from nimblepy.rows.rowset import Positions, RowNumbers
from nimblepy.rows.source import Filter, Getter, OnKeys, Projected
from nimblepy.schema.field_ids import field_id_of, has_field_ids, with_field_ids
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import IndexInfo, IoStats, SortKey, column_of
from nimblepy.table.base.model import DataFile, Entry, PartitionField
from nimblepy.table.base.places import readable_path
from nimblepy.table.base.values import constant
from nimblepy.table.otree.layouts import WEIGHT_FIELD
from nimblepy.table.reading.deletes import deleted_rows, positions

# Files of a set that answers from those that it has open without asking for each again.
_FEW_FILES = 512
# Files that are opened before it is worth to look which of all open ones have left the table.
_MANY_MORE = 32


@dataclass(frozen=True, eq=False)
class Member:
    """A data file of a snapshot.

    Attributes:
        deletes: delete files that may name rows of it.
    """

    entry: Entry
    deletes: tuple[DataFile, ...] = ()

    @property
    def identity(self) -> tuple[str, int]:
        """Tells listings apart: other engines may list a path again, in a later snapshot."""
        return self.entry.file.path, self.entry.sequence

    @cached_property
    def delete_paths(self) -> frozenset[str]:
        """Paths of the delete files."""
        return frozenset(file.path for file in self.deletes)

    @property
    def file(self) -> DataFile:
        return self.entry.file

    def gone(self) -> _core.RowBitmap | None:
        """The rows that are gone; ``None``: none is. Cost: delete files are read once."""
        return deleted_rows(self.file.path, self.deletes, self.delete_paths)

    def deleted(self) -> RowNumbers | None:
        """The same rows, ascending."""
        gone = self.gone()
        return None if gone is None else gone.rows()


def member_of(file: DataFile, deletes: Sequence[DataFile] = ()) -> Member:
    """A file that no manifest lists."""
    return Member(Entry(file=file, sequence=0, manifest="", raw=None), tuple(deletes))


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
        indexes: what new files have, without keys.
    """

    name: str
    schema: pa.Schema
    cluster_by: tuple[SortKey, ...]
    primary_key: tuple[str, ...]
    defaults: dict[int, pa.Scalar]
    specs: Callable[[int], list[PartitionField]]
    names: dict[tuple[str, ...], int]
    indexes: Sequence[IndexInfo] = ()
    open_files: OpenFiles[FixedRows] = field(init=False)

    def __post_init__(self) -> None:
        self.open_files = OpenFiles("table")
        self._weighted: Reading | None = None
        self._left_open = 0

    def with_weights(self) -> Reading:
        """The same files with the weights that rows of an OTree have as the last column."""
        if self._weighted is None:
            self._weighted = replace(self, schema=self.schema.append(WEIGHT_FIELD))
        return self._weighted

    @property
    def io_stats(self) -> IoStats:
        """What has been read of all files."""
        found = self.open_files.io_stats
        return found if self._weighted is None else found + self._weighted.io_stats

    def reset_io_stats(self) -> None:
        self.open_files.reset_io_stats()
        if self._weighted is not None:
            self._weighted.reset_io_stats()

    def close(self) -> None:
        """Lets go of open files."""
        self.open_files.close()
        if self._weighted is not None:
            self._weighted.close()

    def child(self, file: DataFile, *, keep: bool = True) -> FixedRows:
        """The rows of a file; with ``keep`` the file stays open for the next one who asks."""
        return self.open_files.get(file.path, None, partial(self._open, file), keep=keep)

    def close_unless(self, wanted: Callable[[list[str]], Iterable[bool]]) -> None:
        """Closes files that are no longer wanted; ``wanted`` tells which of some paths are."""
        self.open_files.close_unless(lambda keys: wanted([path for path, _ in keys]))
        if self._weighted is not None:
            self._weighted.close_unless(wanted)

    def close_left(self, have: Callable[[list[str]], Iterable[bool]]) -> None:
        """Closes files that have left the table; ``have`` tells which of some paths it has."""
        self.close_unless(have)
        self._left_open = len(self.open_files)

    @property
    def has_many_more(self) -> bool:
        """Whether many files were opened since the last :meth:`close_left`."""
        return len(self.open_files) > 2 * self._left_open + _MANY_MORE

    def is_open(self, file: DataFile) -> bool:
        return (file.path, None) in self.open_files

    def _open(self, file: DataFile) -> FixedRows:
        path = file.path
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
        # Not of `self`, which keeps the file open: the two would keep each other alive.
        constants, defaults = self._constants(file), self.defaults

        def missing(column: pa.Field, place: str) -> pa.Scalar:
            number = field_id_of(column)
            known = constants.get(number) if number is not None else None
            if known is None and number is not None:
                known = defaults.get(number)
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
                found[item.source_id] = constant(kind, value)
        return found


class MemberRows(FilesSource):
    """The rows of some data files of a table, without those that are deleted of them."""

    kind = "table"

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self.reading = reading
        self._deleted: dict[int, _core.RowBitmap | None] = {}
        self._children: dict[int, FixedRows] = {}

    @property
    @abstractmethod
    def members(self) -> Sequence[Member]:
        """The files in the order in which they are read."""

    @abstractmethod
    def part(self, files: Sequence[int]) -> MemberRows:
        """Some of the files, by number."""

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
            gone = self.deleted(i)
            counts.append(member.file.rows - (0 if gone is None else len(gone)))
        np.cumsum(counts, out=before[1:])
        return before

    @property
    def first_rows(self) -> Positions:
        return self._live_rows

    def child(self, file: int) -> FixedRows:
        known = self._children.get(file)
        if known is None:
            known = self.reading.child(self.members[file].file, keep=not self.is_past)
            if self.num_files <= _FEW_FILES:  # they stay open as long as this does
                if not self._children:
                    self.reading.open_files.holders.add(self)
                self._children[file] = known
            return known
        self.reading.open_files.check_open()
        return known

    @property
    def is_past(self) -> bool:
        """Whether the handle that these rows are of has moved on: then no file is kept open."""
        return False

    def release(self) -> None:
        super().release()
        self._children.clear()

    def deleted(self, file: int) -> _core.RowBitmap | None:
        if file not in self._deleted:
            member = self.members[file]
            gone = member.gone()
            if gone is not None and gone.last >= member.file.rows:
                raise CorruptFileError(
                    f"{member.file.path}: row {gone.last} is deleted, but there are "
                    f"{member.file.rows}"
                )
            self._deleted[file] = gone
        return self._deleted[file]

    def prepare(self, files: Sequence[int]) -> None:
        """Opens files of a store, and reads what is deleted of them, all at once."""
        if not self._distant:
            return
        unknown = [self.members[i] for i in files if i not in self._deleted]
        deletes = {file.path: file for member in unknown for file in member.deletes}
        tasks: list[Callable[[], object]] = [partial(positions, file) for file in deletes.values()]
        for i in files:
            if not self.reading.is_open(self.members[i].file):
                tasks.append(partial(self.child, i))
        for _ in at_once(lambda task: task(), tasks, openers()):
            pass

    @cached_property
    def _distant(self) -> bool:
        """Whether the files lie in a store; those of a table lie in one place."""
        return bool(len(self.members)) and is_uri(readable_path(self.members[0].file.path))

    def stored_rows(self, file: int) -> int:
        return self.members[file].file.rows

    def name_of(self, file: int) -> str:
        return self.members[file].file.path

    def plan_details(self, files: Sequence[int]) -> tuple[tuple[str, DetailValue], ...]:
        """The files that are asked: path, rows, bytes and deleted rows of each."""
        found: list[dict[str, str | int]] = []
        for number in files:
            file, gone = self.members[number].file, self.deleted(number)
            found.append(
                {
                    "path": file.path,
                    "rows": file.rows,
                    "bytes": file.bytes,
                    "deleted_rows": 0 if gone is None else len(gone),
                }
            )
        return ("files", tuple(found)), ("files opened", len(found))

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
        return super().index_keys(on, ordered=ordered)

    def getter(self, columns: Projected, on: On) -> Getter:
        return super().getter(columns, self.reading.primary_key or None if on is None else on)

    def close(self) -> None:
        self.release()


class SomeRows(MemberRows):
    """Rows of files that were named, or that another process has planned."""

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
