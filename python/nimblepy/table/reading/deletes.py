"""Finds the deleted rows of data files. Reads and writes position deletes, which list them.

A delete file has the columns ``file_path`` and ``pos``, ordered by both. It belongs to one
partition. It applies to the data files that it names, unless a data file is newer than the delete
file.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import CorruptFileError, UnsupportedVersionError
from nimblepy.file.open import open_source
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.io.file_object import RemoteFileObject
from nimblepy.io.fork import renew_after_fork
from nimblepy.io.location import locate
from nimblepy.io.lru_cache import LruCache
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.rowset import RowNumbers, ascending_once
from nimblepy.schema.field_ids import FIELD_ID
from nimblepy.table.base.deletion_vector import deleted_positions
from nimblepy.table.base.model import DELETED_PATH_ID, DELETED_POSITION_ID, DataFile, Vector
from nimblepy.table.base.moved import translation_of
from nimblepy.table.base.places import readable_path
from nimblepy.table.reading.equality import forget_keys

# A dictionary stores each path once, however many rows of the file are listed. In Parquet the
# column is text.
SCHEMA = pa.schema(
    [
        pa.field(
            "file_path",
            pa.dictionary(pa.int32(), pa.string()),
            False,
            {FIELD_ID: str(DELETED_PATH_ID).encode()},
        ),
        pa.field("pos", pa.int64(), False, {FIELD_ID: str(DELETED_POSITION_ID).encode()}),
    ]
)
_NONE: RowNumbers = np.empty(0, dtype=np.uint64)
# Number of data files whose deleted rows a process caches.
_KEPT_FILES = 256
# Bytes of rows found by equality deletes that a process caches.
_KEPT_SEARCHES = 64 << 20
# Bytes of positions from delete files that a process caches, and the number of these files. Most
# older delete files are in no recent snapshot, and have few positions.
_KEPT_BYTES = 256 << 20
_KEPT_DELETES = 1024


def deletes_table(rows: Mapping[str, RowNumbers]) -> pa.Table:
    """Returns the rows of a delete file.

    Args:
        rows: ascending rows of each data file.
    """
    paths = sorted(path for path, positions in rows.items() if len(positions))
    codes = np.repeat(np.arange(len(paths), dtype=np.int32), [len(rows[path]) for path in paths])
    names = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string()))
    row_arrays = [rows[path].astype(np.int64) for path in paths]
    positions = np.concatenate(row_arrays) if row_arrays else np.empty(0, dtype=np.int64)
    return pa.Table.from_arrays([names, pa.array(positions)], schema=SCHEMA)


class _Cache:
    """Caches the positions in delete files, which never change. Thread-safe."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, Mapping[str, RowNumbers]] = OrderedDict()
        self._bytes = 0
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, file: DataFile) -> Mapping[str, RowNumbers]:
        with self._lock:
            cached = self._files.get(key := file.identity)
            if cached is not None:
                self._files.move_to_end(key)
                return cached
        positions = _stored_positions(file)
        self.put(key, positions)
        return positions

    def put(self, path: str, positions: Mapping[str, RowNumbers]) -> None:
        with self._lock:
            if path not in self._files:
                self._files[path] = positions
                self._bytes += _size(positions)
            while (self._bytes > _KEPT_BYTES or len(self._files) > _KEPT_DELETES) and (
                len(self._files) > 1
            ):
                self._bytes -= _size(self._files.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._files.clear()
            self._bytes = 0


def _size(positions: Mapping[str, RowNumbers]) -> int:
    return sum(rows.nbytes for rows in positions.values())


_cache = _Cache()


def positions(file: DataFile) -> Mapping[str, RowNumbers]:
    """Returns ascending rows of each data file that a delete file names.

    Raises:
        UnsupportedVersionError: nimblepy does not support this kind of delete file.

    Cost: a process reads the file once. The process that wrote it does not read it.
    """
    return _cache.get(file)


def verify_positions(file: DataFile) -> Mapping[str, RowNumbers]:
    """Checks a file of position deletes in storage, and returns its rows. Uses no cache."""
    if file.format == "NIMBLEPY":
        with SourceHandle(open_source(readable_path(file.path))) as source:
            source.verify()
    return _stored_positions(file)


def _stored_positions(file: DataFile) -> Mapping[str, RowNumbers]:
    read = _read(file) if file.vector is None else _read_vector(file, file.vector)
    return _translated(file, read)


def keep_positions(path: str, rows: Mapping[str, RowNumbers]) -> None:
    """Caches the positions of a delete file that this process wrote."""
    _cache.put(path, {name: some for name, some in rows.items() if len(some)})


def forget_deletes() -> None:
    """Clears the cache of delete files."""
    _cache.clear()
    _deleted.clear()
    _deleted_by_key.clear()
    forget_keys()


def check_readable(file: DataFile, table: str) -> None:
    """Raises if nimblepy does not support this kind of delete file."""
    if file.format == "PUFFIN" and file.content == "position deletes":
        if file.vector is None:
            raise CorruptFileError(
                f"{table}: the manifest lacks the data file, offset or size of the deletion vector "
                f"in {file.path}"
            )
        return
    if file.format not in ("NIMBLEPY", "PARQUET"):
        raise UnsupportedVersionError(
            f"{table}: {file.content} in {file.format} ({file.path}); nimblepy reads deletes in "
            "NIMBLEPY and PARQUET; compact the table with the engine that wrote them"
        )
    if file.content == "equality deletes" and not file.equality_ids:
        raise CorruptFileError(
            f"{table}: the manifest does not say which columns the equality delete file "
            f"{file.path} compares"
        )


def _read(file: DataFile) -> dict[str, RowNumbers]:
    path = readable_path(file.path)
    source = open_source(path) if file.format == "NIMBLEPY" else ParquetRows(path)
    with SourceHandle(source) as rows:
        kinds = {field.name: field.type for field in rows.schema}
        if "file_path" not in kinds or not pa.types.is_integer(kinds.get("pos", pa.null())):
            raise CorruptFileError(
                f"{path}: a delete file needs the columns file_path and pos (integers)"
            )
        table = rows.to_table(["file_path", "pos"])
    if table.num_rows != file.rows:
        raise CorruptFileError(
            f"{path}: {table.num_rows} deletes, but the table's metadata says {file.rows}; the "
            "file is damaged"
        )
    try:
        names = _with_codes(table.column("file_path"))
        numbers = table.column("pos").cast(pa.int64())
    except pa.ArrowException as error:
        raise CorruptFileError(f"{path}: not a file of position deletes: {error}") from error
    if names.null_count or numbers.null_count:
        raise CorruptFileError(f"{path}: null in file_path or pos; every delete needs both")
    codes = names.indices.to_numpy().astype(np.int64)  # unsigned differences wrap around
    rows_of = numbers.to_numpy()
    if len(rows_of) and int(rows_of.min()) < 0:
        raise CorruptFileError(f"{path}: position {int(rows_of.min())} is negative")
    files_apart, rows_apart = np.diff(codes), np.diff(rows_of)
    if not ((files_apart > 0) | ((files_apart == 0) & (rows_apart > 0))).all():
        # The writer broke the required order or listed a row twice.
        order = np.lexsort((rows_of, codes))
        codes, rows_of = codes[order], rows_of[order]
        once = np.ones(len(order), dtype=np.bool_)
        once[1:] = (np.diff(codes) != 0) | (np.diff(rows_of) != 0)
        codes, rows_of = codes[once], rows_of[once]
    cuts = np.searchsorted(codes, np.arange(len(names.dictionary) + 1)).tolist()
    rows_of = rows_of.astype(np.uint64)
    paths = names.dictionary.to_pylist()
    return {name: rows_of[cuts[i] : cuts[i + 1]] for i, name in enumerate(paths)}


def check_vector(file: DataFile, rows: int) -> None:
    """Raises CorruptFileError if a deletion vector has more positions than a file has rows.

    So a damaged vector, which is compressed, cannot fill the memory.
    """
    if file.vector is not None and file.rows > rows:
        raise CorruptFileError(
            f"{file.path}: a deletion vector of {file.rows} positions, but {file.vector.data_file} "
            f"has only {rows} rows"
        )


def _read_vector(file: DataFile, vector: Vector) -> dict[str, RowNumbers]:
    """Returns the positions of a deletion vector by the path of its data file."""
    path = readable_path(file.path)
    location = locate(path)
    if location.is_local:
        with open(location.path, "rb") as local:
            octets = _range(local, os.fstat(local.fileno()).st_size, vector, path)
    else:
        remote = location.open()
        octets = _range(RemoteFileObject(remote), remote.size(), vector, path)
    try:
        return {vector.data_file: deleted_positions(octets, file.rows)}
    except ValueError as error:
        raise CorruptFileError(
            f"{path}: no deletion vector at offset {vector.offset}, or damaged: {error}"
        ) from error


def _range(source: IO[bytes] | RemoteFileObject, size: int, vector: Vector, path: str) -> bytes:
    if not 0 <= vector.offset <= size or not 0 <= vector.size <= size - vector.offset:
        raise CorruptFileError(
            f"{path}: a deletion vector of {vector.size} bytes at offset {vector.offset}, but the "
            f"file has {size} bytes"
        )
    source.seek(vector.offset)
    octets = source.read(vector.size)
    return octets or b""


def _translated(file: DataFile, rows: dict[str, RowNumbers]) -> dict[str, RowNumbers]:
    """Returns the deleted rows by the current paths of the data files."""
    translation = translation_of(file.path)
    if translation is None:
        return rows
    made: dict[str, RowNumbers] = {}
    for name, some in rows.items():
        path = translation.path(name)
        made[path] = merged([made[path], some]) if path in made else some
    return made


def is_of_one_file(file: DataFile) -> bool:
    """Returns whether a file of position deletes lists rows of a single data file."""
    lower = file.metrics.lower.get(DELETED_PATH_ID)
    return file.vector is not None or (
        lower is not None and lower == file.metrics.upper.get(DELETED_PATH_ID)
    )


def names_old_places(file: DataFile) -> bool:
    """Returns whether a delete file names data files by paths that they had before the lake moved.

    Cost: reads the file if its lake was moved.
    """
    translation = translation_of(file.path)
    return translation is not None and any(translation.path(p) != p for p in _read(file))


def _with_codes(names: pa.ChunkedArray) -> pa.DictionaryArray:
    """Returns the paths of deletes as codes, one code per distinct path."""
    whole = names.combine_chunks()
    if pa.types.is_dictionary(whole.type):
        dictionary = whole.dictionary
        if dictionary.null_count == 0 and len(dictionary.unique()) == len(dictionary):
            return whole
    return whole.cast(pa.string()).dictionary_encode()


def merged(parts: Sequence[RowNumbers]) -> RowNumbers:
    """Returns the rows of several delete files, without duplicates and ascending."""
    if len(parts) == 1:
        return parts[0].copy()  # Copy: a view would keep the whole delete file in memory.
    return ascending_once(np.concatenate(parts))


# For each data file: the identities of its delete files, and the rows that they delete.
_Deleted: TypeAlias = tuple[frozenset[str], _core.RowBitmap | None]
_deleted: LruCache[_Deleted] = LruCache(_KEPT_FILES)
# The same for data files with equality deletes, whose rows are expensive to find again.
_deleted_by_key: LruCache[_Deleted] = LruCache(_KEPT_SEARCHES, lambda kept: _bytes(*kept))


def _bytes(names: frozenset[str], deleted: _core.RowBitmap | None) -> int:
    return 300 * (1 + len(names)) + (0 if deleted is None else deleted.nbytes)


def deleted_rows(
    path: str,
    deletes: Sequence[DataFile],
    names: frozenset[str],
    find: Callable[[Sequence[DataFile]], RowNumbers],
    rows_of_file: int,
) -> _core.RowBitmap | None:
    """Returns the rows of a data file that delete files delete, or ``None``.

    Args:
        names: identities of the delete files.
        find: returns the rows that equality delete files delete.
        rows_of_file: number of rows of the data file.

    Cost: a process reads each delete file once, and merges only delete files that are new since the
    last call.
    """
    if not deletes:
        return None
    has_keys = any(file.content == "equality deletes" for file in deletes)
    cache = _deleted_by_key if has_keys else _deleted
    merged_ids, deleted = cache.get(path) or (frozenset(), None)
    if merged_ids == names:
        return deleted
    if not merged_ids <= names:
        merged_ids, deleted = frozenset(), None
    unread = [file for file in deletes if file.identity not in merged_ids]
    lists = [file for file in unread if file.content == "position deletes"]
    for file in lists:
        check_vector(file, rows_of_file)
    new = [rows for file in lists if len(rows := _rows_of(file, path))]
    if len(lists) < len(unread):
        by_key = find([file for file in unread if file.content == "equality deletes"])
        new += [by_key] if len(by_key) else []
    if new:
        rows = new[0] if len(new) == 1 else np.concatenate(new)
        deleted = _core.RowBitmap(rows) if deleted is None else deleted.plus(rows)
    cache.put(path, (names, deleted))
    return deleted


def _rows_of(file: DataFile, path: str) -> RowNumbers:
    return positions(file).get(path, _NONE)
