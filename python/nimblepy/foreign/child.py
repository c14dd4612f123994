"""One indexed Parquet file as a source of rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, StaleFileError
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.foreign.listing import Paths
from nimblepy.foreign.pages import PageReader
from nimblepy.foreign.records import FileRecord, file_version
from nimblepy.io.lru_cache import LruCache
from nimblepy.rows.arguments import Projected
from nimblepy.rows.gather import gather_array, rows_without_columns
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import RowSource
from nimblepy.schema.columns import Column, resolve_column

# If a read needs more than 1 row in this many, pyarrow decodes whole row groups.
_DENSE = 8


class FileChangedError(StaleFileError):
    """A file was changed or replaced after it was indexed.

    Attributes:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: the file changed after it was indexed; refresh() indexes it again"
        )
        self.path = path

    def __reduce__(self) -> tuple[type[FileChangedError], tuple[str]]:
        return type(self), (self.path,)


class IndexedParquet(ParquetRows):
    """An indexed Parquet file in its indexed version. Reads single pages if the core supports them.

    Raises:
        FileChangedError: raised by reads after the file was changed or replaced.
        StaleFileError: raised by reads after the file was removed.
    """

    def __init__(
        self,
        record: FileRecord,
        schema: pa.Schema,
        paths: Paths,
        pages: _core.ParquetPages,
        readers: LruCache[PageReader],
    ) -> None:
        """
        Args:
            pages: the cache of pages, shared by all files.
            readers: the cache of open files, shared by all files. Each open file uses a descriptor.
        """
        from pyarrow import parquet

        RowSource.__init__(self)
        self.record = record
        self._paths = paths
        self._location = paths.location(record.path)
        self._path = record.path
        self._parquet = parquet
        self._schema = schema
        self._pages = pages
        self._readers = readers
        self._columns_of: dict[Projected, tuple[list[Column], list[int]]] = {}

    @cached_property
    def _parquet_metadata(self) -> Any:
        return self.record.metadata

    @property
    def num_rows(self) -> int:
        return self.record.num_rows

    @property
    def size_bytes(self) -> int:
        return self.record.size_bytes

    # ------------------------------------------------------------------ changes

    def check(self) -> None:
        """Raises an error if the file was changed or replaced after it was indexed.

        Cost: one ``stat``. In a store, one request for the first check only, because reads of an
            open object always return the version that was opened.
        """
        if self._location.is_local or not self._is_checked:
            self._check_now()
            self._is_checked = True

    _is_checked = False

    def _check_now(self) -> None:
        """Like :meth:`check`, but also repeats the check of an object in a store.

        If it returns, objects that were opened before the call have the indexed version.
        """
        try:
            if self._location.is_local:
                status = os.stat(self._location.path)
                parts = (status.st_ino, status.st_size, status.st_mtime_ns)
                if parts == self._same_version:
                    return
                version = repr(parts)
            else:
                version = file_version(self._paths, self._path)
        except FileNotFoundError:
            raise self.missing() from None
        if version != self.record.version:
            raise self.changed()
        if self._location.is_local:
            self._same_version = parts

    # The version of a local file as numbers, after the first check.
    _same_version: tuple[int, int, int] | None = None

    def missing(self) -> OSError:
        """The error of a read after the file was removed."""
        return StaleFileError(
            f"{self._path}: the file was removed after it was indexed; refresh() forgets it"
        )

    def changed(self) -> StaleFileError:
        """The error of a read after the file was changed or replaced."""
        return FileChangedError(self._path)

    # ------------------------------------------------------------------ reading

    def _reader(self) -> PageReader | None:
        """Opens the file if it is not open; ``None`` if only pyarrow can read it."""
        reader = self._readers.get(self._path)
        described = self.record.described
        if reader is None and described is not None:
            self.check_footer()
            reader = PageReader(self._location, described, self._schema, self._pages)
            self._check_now()
            self._readers.put(self._path, reader)
        return reader

    def check_footer(self) -> None:
        """Compares the footer with the indexed one, because modification times can be coarse."""
        footer = self.record.footer
        if not self._location.is_local:
            remote = self._location.open()
            size = remote.size()
            found = bytes(remote.read_at(len(footer) + 8, max(0, size - len(footer) - 8)))
        else:
            with open(self._location.path, "rb") as file:
                file.seek(0, os.SEEK_END)
                size = file.tell()
                file.seek(max(0, size - len(footer) - 8))
                found = file.read(len(footer) + 8)
        if found != footer + len(footer).to_bytes(4, "little") + b"PAR1":
            raise self.changed()

    def _resolved(self, columns: Projected) -> tuple[list[Column], list[int]]:
        """Returns the columns, and the positions of the top-level columns that contain them."""
        known = self._columns_of.get(columns)
        if known is None:
            names = self._schema.names if columns is None else columns
            resolved = [resolve_column(self._schema, name) for name in names]
            tops = list(dict.fromkeys(column.steps[0] for column in resolved))
            known = self._columns_of[columns] = resolved, tops
        return known

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        schema = self.projected(columns)
        wanted = rows.rows
        if not len(schema):
            return pa.Table.from_batches([rows_without_columns(len(wanted))])
        if not len(wanted):
            return schema.empty_table()
        try:
            table = self._read(wanted, rows, columns, schema)
        except (CorruptFileError, StaleFileError, OSError):
            self._check_now()  # report a replaced file as changed, not as damaged
            raise
        self.check()
        return table

    def _read(self, wanted: Any, rows: RowSet, columns: Projected, schema: pa.Schema) -> pa.Table:
        if len(wanted) > 1 and len(wanted) * _DENSE > self.num_rows:
            return self._read_groups(rows, columns)
        reader = self._reader()
        if reader is None:
            return self._read_groups(rows, columns)
        resolved, tops = self._resolved(columns)
        ascending, back = wanted, None
        if len(wanted) > 1 and not (wanted[1:] > wanted[:-1]).all():
            ascending, back = np.unique(wanted, return_inverse=True)
        found = reader.read(tops, ascending)
        if found is None:
            return self._read_groups(rows, columns)
        arrays = []
        for column in resolved:
            array = found.column(tops.index(column.steps[0])).chunk(0)
            for step in column.steps[1:]:
                array = pc.struct_field(array, [step])
            arrays.append(array if back is None else gather_array(array, pa.array(back)))
        return pa.Table.from_arrays(arrays, schema=schema)

    def _read_groups(self, rows: RowSet, columns: Projected) -> pa.Table:
        """Reads whole row groups with pyarrow, which opens the file again."""
        self.check_footer()
        table = super().read(rows, columns)
        self._check_now()
        return table

    def row(self, row: int, tops: tuple[int, ...]) -> dict[str, Any] | None:
        """Reads columns of one row as Python values; ``None`` if pyarrow must read them."""
        try:
            reader = self._reader()
            values = None if reader is None else reader.row(tops, row)
        except (CorruptFileError, StaleFileError, OSError):
            self._check_now()
            raise
        self.check()
        return values
