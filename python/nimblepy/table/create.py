"""Creates a table together with its first rows, in one commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nimblepy.cached import cached_property
from nimblepy.io.log import logger
from nimblepy.table import iceberg as ice
from nimblepy.table.base.creations import forget_creation, record_creation, remove_empty_folders
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.append import append_change
from nimblepy.table.changing.new_keys import NewKeys
from nimblepy.table.changing.row_commit import RowCommit, begin
from nimblepy.table.iceberg.manifests import new_files
from nimblepy.table.reading.fileset import FileSet, reading_of
from nimblepy.table.reading.members import Reading
from nimblepy.table.reading.plan import SnapshotPlan
from nimblepy.table.upkeep.index_parquet import IndexFiles, index_new_files
from nimblepy.table.writing.commit import swapped
from nimblepy.table.writing.settings import TableIndex, target_of
from nimblepy.table.writing.write import discard, write_rows

_log = logger(__name__)


@dataclass(frozen=True, eq=False)
class NewTable:
    """A table that its first commit creates. A :class:`TableAccess`.

    Attributes:
        staged: the table before the commit.
        load: loads the table of this name from the catalog.
        shown: the metadata of the commit, once it was made.
    """

    staged: ice.Metadata
    load: Callable[[], ice.Metadata]
    shown: list[ice.Metadata] = field(default_factory=list)

    @property
    def name(self) -> str:
        return ".".join(self.staged.name)

    @property
    def location(self) -> str:
        return self.staged.location

    def newest(self) -> ice.Metadata:
        return self.staged

    def reload(self) -> ice.Metadata:
        """Returns the table of this name, which another writer may have created."""
        try:
            return self.load()
        except ice.NoSuchTable:
            return self.staged

    def rows(self, metadata: ice.Metadata) -> FileSet:
        plan = SnapshotPlan(metadata, metadata.head(), metadata.schema_id, self.reload)
        return FileSet(self.reading(metadata), plan)

    def reading(self, metadata: ice.Metadata) -> Reading:
        return self._reading

    @cached_property
    def _reading(self) -> Reading:
        return reading_of(self.staged, self.staged.schema_id)

    def rows_with(self, files: Sequence[DataFile]) -> FileSet:
        """Returns the rows of new files that are in no snapshot yet."""
        rows = self.rows(self.staged)
        if not files:
            return rows
        part = new_files(files, self.staged.spec_id, "", 1)
        return FileSet(rows.reading, rows.plan, rows.plan.members().beside(part))

    def show(self, metadata: ice.Metadata) -> None:
        self.shown.append(metadata)

    def show_commit(self, metadata: ice.Metadata) -> None:
        """Moves to the new table, which has no snapshots to expire."""
        self.show(metadata)

    def check(self, metadata: ice.Metadata, rows: FileSet | None = None) -> None:
        """Raises TableExists if another table has the name."""
        if metadata.uuid != self.staged.uuid:
            raise ice.TableExists

    def is_made(self, metadata: ice.Metadata) -> bool:
        """Returns whether metadata that the catalog has is that of the new table."""
        return metadata.uuid == self.staged.uuid and not metadata.is_staged

    def is_missing(self) -> bool:
        """Returns whether the catalog certainly does not have the table."""
        with contextlib.suppress(Exception):
            return not self.is_made(self.reload())
        return False


def create_with_rows(
    table: NewTable, data: Any, parquet_indexes: Sequence[TableIndex]
) -> ice.Metadata:
    """Creates a table with its first rows, and returns its metadata.

    Data files are written first. Then one commit adds the table to the catalog. If the process is
    killed before, the table does not exist, and ``remove_orphans`` of a table beside it finds the
    files by the record of the creation.

    Args:
        data: tabular data; ``None`` or no rows create an empty table.
        parquet_indexes: indexes of Parquet files, which cover the rows.

    Raises:
        TableExists: another writer was first.
        Exception: any error of reading the data, of writing it, or of the catalog. The table does
            not exist, and its files are removed, unless the outcome of the commit is unknown.
    """
    owner = ice.creator(table.staged)
    creation = _Creation(table, data, parquet_indexes)
    try:
        if owner is not None:
            record_creation(table.location, owner)
        made = creation.run()
    except BaseException:
        if not creation.is_doubtful and table.is_missing():
            creation.indexes.discard()
            with contextlib.suppress(OSError):
                if owner is not None:
                    forget_creation(table.location)
                remove_empty_folders(table.location)
        raise
    finally:
        table.reading(table.staged).close()
    if owner is not None:
        try:
            forget_creation(table.location)
        except OSError as error:
            _log.warning("%s: the record of its creation is left: %s", table.name, error)
    return made


class _Creation:
    """One call that creates a table.

    Attributes:
        is_doubtful: whether the catalog may still create the table.
        indexes: files of the table's indexes.
    """

    def __init__(self, table: NewTable, data: Any, indexes: Sequence[TableIndex]) -> None:
        self._table = table
        self._data = data
        self._asked = indexes
        self.indexes = IndexFiles()
        self.is_doubtful = False

    def run(self) -> ice.Metadata:
        call = begin(self._table, "create_table")
        staged = call.metadata
        files = [] if self._data is None else write_rows(self._data, target_of(staged))
        try:
            keys = NewKeys.of_files(files, call.reading)
            if self._asked:
                rows = self._table.rows_with(files)
                self.indexes = index_new_files(staged, rows, self._asked)
        except BaseException:
            discard(files)
            raise
        if not files:
            return self._without_rows()
        change = RowCommit(
            call,
            append_change(files, keys, [self._table.check]),
            properties=self.indexes.properties,
        )
        try:
            call.run(change)
        finally:
            self.is_doubtful = change.commit.doubtful
        return self._table.shown[-1]

    def _without_rows(self) -> ice.Metadata:
        table = self._table

        def attempt(metadata: ice.Metadata) -> ice.Metadata:
            table.check(metadata)
            return ice.create_staged(metadata, self.indexes.properties)

        try:
            return swapped(
                table.staged, table.reload, attempt, table.is_made, operation="create_table"
            )
        except BaseException as error:
            is_taken = isinstance(error, ice.TableExists)
            self.is_doubtful = not is_taken and ice.may_land_later(table.staged, error)
            raise
