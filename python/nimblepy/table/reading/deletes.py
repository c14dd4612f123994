"""Position deletes: which rows of which data files are gone, written and read.

A delete file has the columns ``file_path`` and ``pos``, ordered by both. It belongs to one
partition, and applies to the data files that it names and that are not younger than it is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import CorruptFileError, UnsupportedVersionError
from nimblepy.file.open import open as open_file
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.io.fork import renew_after_fork
from nimblepy.io.lru_cache import LruCache
from nimblepy.rows.rowset import RowNumbers, ascending_once
from nimblepy.schema.field_ids import FIELD_ID
from nimblepy.table.base.model import DELETED_PATH_ID, DELETED_POSITION_ID, DataFile
from nimblepy.table.base.places import readable_path

# A path is stored once, however many rows of its file are named. Parquet has such columns as text.
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
# Data files whose deleted rows a process keeps.
_KEPT_FILES = 256
# Bytes of positions that a process keeps, of delete files that are read again and again.
_KEPT_BYTES = 256 << 20


def deletes_table(rows: Mapping[str, RowNumbers]) -> pa.Table:
    """The rows of a delete file.

    Args:
        rows: ascending rows of each data file.
    """
    paths = sorted(path for path, positions in rows.items() if len(positions))
    codes = np.repeat(np.arange(len(paths), dtype=np.int32), [len(rows[path]) for path in paths])
    names = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string()))
    found = [rows[path].astype(np.int64) for path in paths]
    positions = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    return pa.Table.from_arrays([names, pa.array(positions)], schema=SCHEMA)


class _Cache:
    """Positions by delete file: they never change. Thread-safe."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, Mapping[str, RowNumbers]] = OrderedDict()
        self._bytes = 0
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, file: DataFile) -> Mapping[str, RowNumbers]:
        with self._lock:
            known = self._files.get(file.path)
            if known is not None:
                self._files.move_to_end(file.path)
                return known
        found = _read(file)
        self.put(file.path, found)
        return found

    def put(self, path: str, found: Mapping[str, RowNumbers]) -> None:
        with self._lock:
            if path not in self._files:
                self._files[path] = found
                self._bytes += _size(found)
            while self._bytes > _KEPT_BYTES and len(self._files) > 1:
                self._bytes -= _size(self._files.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._files.clear()
            self._bytes = 0


def _size(positions: Mapping[str, RowNumbers]) -> int:
    return sum(rows.nbytes for rows in positions.values())


_cache = _Cache()


def positions(file: DataFile) -> Mapping[str, RowNumbers]:
    """Ascending rows of each data file that a delete file names.

    Raises:
        UnsupportedVersionError: it is of a kind that nimblepy does not read.

    Cost: the file is read once in a process, and not by the one that wrote it.
    """
    return _cache.get(file)


def keep_positions(path: str, rows: Mapping[str, RowNumbers]) -> None:
    """Keeps what a delete file that was written says, so that it is not read."""
    _cache.put(path, {name: some for name, some in rows.items() if len(some)})


def forget_deletes() -> None:
    """Forgets what delete files say, so that they are read again."""
    _cache.clear()
    _deleted.clear()


def check_readable(file: DataFile, table: str) -> None:
    """Refuses a delete file of a kind that nimblepy does not read."""
    if file.content != "position deletes" or file.format not in ("NIMBLEPY", "PARQUET"):
        raise UnsupportedVersionError(
            f"{table}: {file.content} in {file.format} ({file.path}); nimblepy reads "
            "position deletes in NIMBLEPY and PARQUET; compact the table with what wrote them"
        )


def _read(file: DataFile) -> dict[str, RowNumbers]:
    path = readable_path(file.path)
    with open_file(path) if file.format == "NIMBLEPY" else ParquetRows(path) as rows:
        kinds = {field.name: field.type for field in rows.schema}
        if "file_path" not in kinds or not pa.types.is_integer(kinds.get("pos", pa.null())):
            raise CorruptFileError(
                f"{path}: a delete file without file_path, or without numbers pos"
            )
        table = rows.to_table(["file_path", "pos"])
    if table.num_rows != file.rows:
        raise CorruptFileError(
            f"{path}: {table.num_rows} deletes, the table's metadata says {file.rows}"
        )
    try:
        names = _with_codes(table.column("file_path"))
        numbers = table.column("pos").cast(pa.int64())
    except pa.ArrowException as error:
        raise CorruptFileError(f"{path}: not a file of position deletes: {error}") from error
    if names.null_count or numbers.null_count:
        raise CorruptFileError(f"{path}: a delete without a path or a position")
    codes = names.indices.to_numpy().astype(np.int64)  # differences of unsigned ones wrap around
    rows_of = numbers.to_numpy()
    if len(rows_of) and int(rows_of.min()) < 0:
        raise CorruptFileError(f"{path}: position {int(rows_of.min())}, which is below 0")
    files_apart, rows_apart = np.diff(codes), np.diff(rows_of)
    if not ((files_apart > 0) | ((files_apart == 0) & (rows_apart > 0))).all():
        # Not in the order that writers have to keep, or a row twice.
        order = np.lexsort((rows_of, codes))
        codes, rows_of = codes[order], rows_of[order]
        once = np.ones(len(order), dtype=np.bool_)
        once[1:] = (np.diff(codes) != 0) | (np.diff(rows_of) != 0)
        codes, rows_of = codes[once], rows_of[once]
    cuts = np.searchsorted(codes, np.arange(len(names.dictionary) + 1)).tolist()
    rows_of = rows_of.astype(np.uint64)
    paths = names.dictionary.to_pylist()
    return {name: rows_of[cuts[i] : cuts[i + 1]] for i, name in enumerate(paths)}


def _with_codes(names: pa.ChunkedArray) -> pa.DictionaryArray:
    """The paths of deletes with a code for each, the same wherever the path is."""
    whole = names.combine_chunks()
    if pa.types.is_dictionary(whole.type):
        known = whole.dictionary
        if known.null_count == 0 and len(known.unique()) == len(known):
            return whole
    return whole.cast(pa.string()).dictionary_encode()


def merged(parts: Sequence[RowNumbers]) -> RowNumbers:
    """The rows of several delete files, each once and ascending."""
    if len(parts) == 1:
        return parts[0].copy()  # of a view, which would keep the whole delete file
    return ascending_once(np.concatenate(parts))


# By data file: paths of delete files, and the rows of it that they name.
_deleted: LruCache[tuple[frozenset[str], _core.RowBitmap | None]] = LruCache(_KEPT_FILES)


def deleted_rows(
    path: str, deletes: Sequence[DataFile], names: frozenset[str]
) -> _core.RowBitmap | None:
    """The rows of a data file that delete files name; ``None``: they name none.

    Args:
        names: paths of the delete files.

    Cost: delete files are read once in a process; what an earlier snapshot had is not merged again.
    """
    if not deletes:
        return None
    known, gone = _deleted.get(path) or (frozenset(), None)
    if known == names:
        return gone
    if not known <= names:
        known, gone = frozenset(), None
    new = [rows for d in deletes if d.path not in known and len(rows := _rows_of(d, path))]
    if new:
        rows = new[0] if len(new) == 1 else np.concatenate(new)
        gone = _core.RowBitmap(rows) if gone is None else gone.plus(rows)
    _deleted.put(path, (names, gone))
    return gone


def _rows_of(file: DataFile, path: str) -> RowNumbers:
    return positions(file).get(path, _NONE)
