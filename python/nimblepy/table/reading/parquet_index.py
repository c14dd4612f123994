"""Indexes of the Parquet files of a table.

A table property names a list of the indexes, a JSON file below ``metadata/``. An index consists of
index files like those of :func:`nimblepy.index_files`, one for each form that the data files have.
An index file covers the data files that the list names. Rows of other data files are searched in
these files themselves.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import (
    CorruptFileError,
    NimbleError,
    StaleFileError,
)
from nimblepy.file.open import open_source
from nimblepy.file.source import FileSource
from nimblepy.files.mapped import MappedRows
from nimblepy.files.open_files import most_together
from nimblepy.foreign.build import entry_schema
from nimblepy.foreign.child import IndexedParquet
from nimblepy.foreign.listing import Paths
from nimblepy.foreign.pages import PageReader
from nimblepy.foreign.records import IndexRecord, file_version
from nimblepy.foreign.source import IndexedFiles
from nimblepy.io.fork import ForkLock
from nimblepy.io.location import is_uri, locate
from nimblepy.io.log import logger
from nimblepy.io.lru_cache import LruCache
from nimblepy.io.remote_file import at_once, openers
from nimblepy.rows.request import leads_to
from nimblepy.schema.field_ids import field_id_of, has_field_ids, with_field_ids
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import IndexInfo, IoStats, SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.moved import as_root, below, translation_of
from nimblepy.table.base.places import readable_path

# Names the list of the indexes, below the metadata directory. Empty if there are no indexes.
PARQUET_INDEXES = "nimblepy.parquet-indexes"
# Beginning of the names of lists and index files.
KEYS = "keys-"

_FORMAT = 1
_CACHE_BYTES = 256 << 20
_log = logger(__name__)

# Records of a table need no paths, because their files are not listed again.
PATHS = Paths(())


@dataclass(frozen=True, slots=True)
class CoveringFile:
    """An index file.

    Attributes:
        name: its name below the metadata directory.
        covers: readable paths and sizes in bytes of the data files that it covers, in its order.
    """

    name: str
    covers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """An index as the list describes it.

    Attributes:
        kind: ``"hash"`` or ``"sorted"``.
        columns: field ids of the key columns.
        lacking: paths and sizes in bytes of data files that lack a key column.
    """

    kind: str
    columns: tuple[int, ...]
    files: tuple[CoveringFile, ...] = ()
    lacking: tuple[tuple[str, int], ...] = ()


def list_of_indexes(indexes: Sequence[StoredIndex], location: str) -> bytes:
    """Serializes indexes. Paths below the location of the table are stored relative to it."""
    root = as_root(location)

    def stored(files: Sequence[tuple[str, int]]) -> list[list[Any]]:
        return [[below(path, root) or path, size] for path, size in files]

    return json.dumps({"format": _FORMAT, "indexes": plain_indexes(indexes, stored)}).encode()


# The paths and sizes of data files as JSON, and back.
_Listed = Sequence[tuple[str, int]]


def plain_indexes(
    indexes: Iterable[StoredIndex], stored: Callable[[_Listed], list[list[Any]]]
) -> list[dict[str, Any]]:
    """Returns indexes as values of JSON."""
    return [
        {
            "kind": index.kind,
            "columns": list(index.columns),
            "files": [{"name": file.name, "covers": stored(file.covers)} for file in index.files],
            "lacking": stored(index.lacking),
        }
        for index in indexes
    ]


def indexes_of(
    items: Iterable[Mapping[str, Any]], files_of: Callable[[Any], tuple[tuple[str, int], ...]]
) -> list[StoredIndex]:
    """Parses the result of :func:`plain_indexes`."""
    return [
        StoredIndex(
            _kind(item["kind"]),
            tuple(map(int, item["columns"])),
            tuple(
                CoveringFile(_plain_name(file["name"]), files_of(file["covers"]))
                for file in item["files"]
            ),
            files_of(item["lacking"]),
        )
        for item in items
    ]


def stored_indexes(metadata: ice.Metadata) -> list[StoredIndex]:
    """Reads the list of the indexes.

    Raises:
        CorruptFileError: the list is damaged, or a newer version wrote it.
        FileNotFoundError: the list was removed.

    Cost: one read if the table has indexes.
    """
    name = metadata.properties.get(PARQUET_INDEXES)
    if not name:
        return []
    path = metadata.blob_path(name)
    translation = translation_of(path)

    def current(stored: str) -> str:
        if not is_uri(stored) and not stored.startswith(("/", "file:")):
            return readable_path(f"{metadata.location}/{stored}")
        return readable_path(stored if translation is None else translation.path(stored))

    def files_of(stored: Any) -> tuple[tuple[str, int], ...]:
        return tuple((current(str(path)), int(size)) for path, size in stored)

    try:
        content = json.loads(metadata.read(path))
        if content["format"] != _FORMAT:
            raise CorruptFileError(
                f"{path}: list of indexes in format {content['format']}; this version reads "
                f"{_FORMAT}"
            )
        return indexes_of(content["indexes"], files_of)
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise CorruptFileError(f"{path}: damaged list of indexes: {error!r}") from error


def _kind(kind: object) -> str:
    if kind not in ("hash", "sorted"):
        raise ValueError(f"unknown kind {kind!r}")
    return str(kind)


def _plain_name(name: object) -> str:
    if not isinstance(name, str) or not name.startswith(KEYS) or any(c in name for c in "/\\\0"):
        raise ValueError(f"invalid name {name!r}")
    return name


def readable_indexes(metadata: ice.Metadata) -> list[StoredIndex]:
    """Like :func:`stored_indexes`; no indexes if the list cannot be read, which is logged."""
    try:
        return stored_indexes(metadata)
    except (CorruptFileError, FileNotFoundError, IsADirectoryError) as error:
        _log.warning("%s: its indexes are not used: %s", ".".join(metadata.name), error)
        return []


def _with_list(metadata: ice.Metadata) -> ice.Metadata:
    """Returns the newest metadata if the list of the indexes was replaced and removed since.

    The indexes of the newest version also cover the older files that are still in use.
    """
    try:
        stored_indexes(metadata)
    except FileNotFoundError:
        with contextlib.suppress(NimbleError, OSError, ice.NoSuchTable):
            newest = ice.load_table(metadata.ice.catalog, metadata.name)
            return newest if newest.uuid == metadata.uuid else metadata
    except (CorruptFileError, IsADirectoryError):
        pass  # readable_indexes() logs it
    return metadata


def index_paths(metadata: ice.Metadata) -> list[str]:
    """Returns the paths of the list and of all index files."""
    name = metadata.properties.get(PARQUET_INDEXES)
    names = [name] if name else []
    for index in readable_indexes(metadata):
        names += [file.name for file in index.files]
    return [metadata.blob_path(name) for name in names]


def superseded_paths(metadata: ice.Metadata) -> list[str]:
    """Returns the paths of lists and index files that the table does not use any more.

    Cost: lists the metadata directory if the table has or had indexes.
    """
    if PARQUET_INDEXES not in metadata.properties:
        return []
    folder = metadata.blob_path("")
    names = locate(readable_path(folder)).names()
    paths = {metadata.blob_path(name) for name in names if name.startswith(KEYS)}
    return sorted(paths - set(index_paths(metadata)))


class _DataFile(IndexedParquet):
    """A data file of a table that an index covers."""

    def missing(self) -> OSError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.record.path)

    def check_footer(self) -> None:
        """Does nothing: data files never change, so the version of the file is enough."""

    def changed(self) -> StaleFileError:
        return StaleFileError(
            f"{self.record.path}: the data file changed while the table was open; data files of a "
            "table must not change. Open the table again"
        )


def open_index_file(path: str, covers: Sequence[tuple[str, int]]) -> tuple[FileSource, IndexRecord]:
    """Opens an index file. Its record has the current paths of the data files.

    Raises:
        CorruptFileError: it is damaged, or covers other files.
        FileNotFoundError: it was removed.
    """
    index = open_source(readable_path(path))
    record = IndexRecord.from_metadata(index.metadata, path)
    if record is None or len(record.files) != len(covers):
        raise CorruptFileError(f"{path}: not an index of the {len(covers)} listed data files")
    files = []
    for file, (current, _) in zip(record.files, covers, strict=True):
        if os.path.basename(file.path) != os.path.basename(current):
            raise CorruptFileError(f"{path}: covers {file.path}, but {current} is listed")
        files.append(replace(file, path=current))
    return index, record.with_files(files)


def ids_of_files(record: IndexRecord, names: Mapping[tuple[str, ...], int]) -> pa.Schema:
    """Returns the columns of the covered files, with their field ids."""
    schema = record.files[0].metadata.schema.to_arrow_schema().remove_metadata()
    return schema if has_field_ids(schema) or not names else with_field_ids(schema, names)


class Opened:
    """An open index file.

    Attributes:
        source: finds keys of the covered files, under the names in these files.
        rows: the same under the names of the table.
        entries: the entries of the index, with the key columns of the table.
        valid: for each covered file, whether it has not changed.
    """

    def __init__(self, path: str, covers: Sequence[tuple[str, int]], schemas: Schemas) -> None:
        index, record = open_index_file(path, covers)
        record = replace(record, schema=ids_of_files(record, schemas.names))
        pickled = open_index_file, (path, covers)
        self.source = IndexedFiles(
            path, index, record, PATHS, schemas.pages, pickled, _DataFile, schemas.readers
        )
        self.rows = MappedRows(self.source, schemas.schema)
        stored = entry_schema(record)
        self.entries = MappedRows(index, schemas.schema, have=stored)
        files = record.files
        if is_uri(files[0].path):
            unchanged = at_once(_is_unchanged, files, openers())
        else:
            unchanged = map(_is_unchanged, files)
        self.valid = np.fromiter(unchanged, np.bool_, len(files))


def _is_unchanged(file: Any) -> bool:
    """Returns whether a file has the version that was indexed.

    Cost: one request in a store. Objects of stores are checked again when they are read.
    """
    try:
        return bool(file_version(PATHS, file.path) == file.version)
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Schemas:
    """What index files need to know of the table.

    Attributes:
        schema: the columns of the table, with field ids.
        names: field ids by path, for files without field ids.
        pages: a cache of pages.
        readers: open data files; each has a file descriptor.
    """

    schema: pa.Schema
    names: Mapping[tuple[str, ...], int]
    pages: _core.ParquetPages
    readers: LruCache[PageReader]


class IndexFile:
    """An index file that is opened when it is first needed. Thread-safe."""

    def __init__(self, path: str, covers: Sequence[tuple[str, int]], schemas: Schemas) -> None:
        self.path = path
        self.covers = covers
        self._schemas = schemas
        self._lock = ForkLock()
        self._opened: Opened | None = None
        self._is_damaged = False

    def open(self) -> Opened | None:
        """Returns the open file; ``None`` if it is missing or damaged, which is logged."""
        with self._lock.native:
            if self._opened is None and not self._is_damaged:
                try:
                    self._opened = Opened(self.path, self.covers, self._schemas)
                except (NimbleError, FileNotFoundError, IsADirectoryError) as error:
                    self._is_damaged = True
                    _log.warning("%s: the index file is not used: %s", self.path, error)
            return self._opened

    @property
    def io_stats(self) -> IoStats:
        return IoStats() if self._opened is None else self._opened.source.index.io_stats

    def reset_io_stats(self) -> None:
        if self._opened is not None:
            self._opened.source.index.reset_io_stats()


@dataclass(frozen=True, eq=False)
class KeyIndex:
    """An index of the table under the current names of its columns.

    Attributes:
        lacking: paths and sizes in bytes of data files that lack a key column.
    """

    kind: str
    names: tuple[str, ...]
    files: tuple[IndexFile, ...]
    lacking: frozenset[tuple[str, int]]

    @property
    def keys(self) -> tuple[SortKey, ...]:
        return tuple(SortKey(name) for name in self.names)

    def finds(self, names: Sequence[ColumnName]) -> bool:
        """Returns whether it finds keys of these columns."""
        leading = self.names if self.kind == "hash" else self.names[: len(names)]
        return bool(names) and {*names} == {*leading} and len(names) == len(leading)

    def covered(self) -> set[tuple[str, int]]:
        """Returns paths and sizes of the data files that add_index() need not read.

        It covers them, and they have not changed; or they lack a key column.
        """
        there = set(self.lacking)
        for file in self.files:
            opened = file.open()
            if opened is not None:
                there.update(c for c, valid in zip(file.covers, opened.valid, strict=True) if valid)
        return there

    @property
    def info(self) -> IndexInfo:
        opened = [file for item in self.files if (file := item.open()) is not None]
        return IndexInfo(
            kind=self.kind,
            columns=self.keys,
            size_bytes=sum(file.source.index.size_bytes for file in opened),
            num_keys=sum(file.source.index.num_rows for file in opened),
        )

    def __str__(self) -> str:
        return f"{self.kind} ({', '.join(self.names)})"


class ParquetIndexes:
    """The indexes of a table, read with one schema."""

    def __init__(
        self,
        load: Callable[[], Sequence[tuple[StoredIndex, Sequence[str]]]],
        schema: pa.Schema,
        names: Mapping[tuple[str, ...], int],
    ) -> None:
        """
        Args:
            load: reads the stored indexes, each with the paths of its index files.
        """
        self._load = load
        self._schemas = Schemas(
            schema, names, _core.ParquetPages(_CACHE_BYTES), LruCache(most_together())
        )

    @cached_property
    def stored(self) -> Sequence[tuple[StoredIndex, Sequence[str]]]:
        """The stored indexes, each with the paths of its index files. Cost: as ``indexes``."""
        return self._load()

    @cached_property
    def indexes(self) -> list[KeyIndex]:
        """The indexes whose columns all exist. Cost: one read at the first use."""
        names = {field_id_of(field): field.name for field in self._schemas.schema}
        made = []
        for index, paths in self.stored:
            columns = [names.get(number) for number in index.columns]
            if None in columns:
                continue
            files = [
                IndexFile(path, file.covers, self._schemas)
                for file, path in zip(index.files, paths, strict=True)
            ]
            made.append(
                KeyIndex(
                    index.kind, tuple(map(str, columns)), tuple(files), frozenset(index.lacking)
                )
            )
        return made

    def choose_ordered(self, order: Sequence[SortKey]) -> KeyIndex | None:
        """Returns a sorted index whose order begins with these sort keys."""
        return self._shortest(lambda keys: keys[: len(order)] == tuple(order))

    def choose_for_asof(
        self, by: Sequence[ColumnName], on: ColumnName, known: ColumnName | None = None
    ) -> KeyIndex | None:
        """Returns a sorted index that begins with the columns ``by`` in any order, then ``on``.

        Args:
            known: a column that the index must have too.
        """
        return self._shortest(
            lambda keys: (
                leads_to(keys, by, on)
                and (known is None or any(key.column == known for key in keys))
            )
        )

    def _shortest(self, fits: Callable[[tuple[SortKey, ...]], bool]) -> KeyIndex | None:
        fitting = [index for index in self.indexes if index.kind == "sorted" and fits(index.keys)]
        return min(fitting, key=lambda index: len(index.names), default=None)

    def choose(self, names: Sequence[ColumnName]) -> KeyIndex | None:
        """Returns the index that finds keys of these columns best.

        A sorted index need not read keys from data files.
        """
        fitting = [index for index in self.indexes if index.finds(names)]
        fitting.sort(key=lambda index: (len(index.names), index.kind != "sorted"))
        return fitting[0] if fitting else None

    @cached_property
    def _covered(self) -> dict[str, tuple[IndexFile, int, int]]:
        """Index file, number in it, and size in bytes of each covered data file, by path."""
        return {
            path: (file, number, size)
            for index in self.indexes
            for file in index.files
            for number, (path, size) in enumerate(file.covers)
        }

    def child(self, path: str, size: int) -> IndexedParquet | None:
        """Returns a covered data file, whose columns have field ids; ``None`` for other files.

        Reading its rows needs no footer.
        """
        file, number, bytes_ = self._covered.get(readable_path(path), (None, 0, 0))
        opened = None if file is None or bytes_ != size else file.open()
        if opened is None or not opened.valid[number]:
            return None
        return opened.source.child(number)

    @property
    def io_stats(self) -> IoStats:
        reads, size, rounds, _ = self._schemas.pages.stats
        stats = IoStats(reads=reads, bytes_read=size, data_reads=reads, rounds=rounds)
        return sum((file.io_stats for file in self._files()), stats)

    def reset_io_stats(self) -> None:
        self._schemas.pages.reset_stats()
        for file in self._files():
            file.reset_io_stats()

    def _files(self) -> Iterator[IndexFile]:
        if "indexes" in self.__dict__:
            for index in self.indexes:
                yield from index.files


def parquet_indexes(
    metadata: ice.Metadata, schema: pa.Schema, names: Mapping[tuple[str, ...], int]
) -> ParquetIndexes | None:
    """Returns the indexes of the Parquet files of a table; ``None`` if there are none."""
    if not metadata.properties.get(PARQUET_INDEXES):
        return None

    def load() -> list[tuple[StoredIndex, list[str]]]:
        listing = _with_list(metadata)
        return [
            (index, [listing.blob_path(file.name) for file in index.files])
            for index in readable_indexes(listing)
        ]

    return ParquetIndexes(load, schema, names)
