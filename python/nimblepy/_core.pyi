"""The compiled core; private. Arrow data crosses as PyCapsules or through the stream protocol."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nimblepy.errors import InvalidArgumentError

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Ranges = NDArray[np.uint64]  # shape (n, 2): half-open file row ranges
_Rows = NDArray[np.uint64]
_Flags = NDArray[np.bool_]

class ArrayTooLargeError(InvalidArgumentError): ...

class Writer:
    def __init__(
        self, target: str | object, schema: object, options: dict[str, Any], sort: bool
    ) -> None: ...
    def write(self, batch: object) -> None: ...
    def finish(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

def estimate_index(
    file: File, spec: dict[str, Any], key_chunk_rows: int, restart_interval: int
) -> tuple[int, int, int]: ...

class IndexRewriter:
    def __init__(
        self, file: File, target: str | object, drop: list[int], options: dict[str, Any]
    ) -> None: ...
    def step(self) -> int: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...

class File:
    num_rows: int
    size_bytes: int
    name: str
    version: tuple[int, int]
    identity: int
    writer: str
    is_mapped: bool
    metadata: list[tuple[str, bytes]]
    key_columns: list[tuple[tuple[int, ...], bool, bool]]
    unique: bool
    has_bloom: bool
    has_column_blooms: bool
    index_bytes: int
    indexes: list[tuple[str, list[tuple[tuple[int, ...], bool, bool]], int, int, bool]]
    stats: dict[str, int]
    memory_bytes: int
    def reset_stats(self) -> None: ...
    def __arrow_c_schema__(self) -> object: ...

class Projection:
    def __init__(self, file: File, columns: list[tuple[tuple[int, ...], str]] | None) -> None: ...
    def __arrow_c_schema__(self) -> object: ...
    def take_batch(self, rows: NDArray[np.uint64], threads: int) -> tuple[object, object]: ...
    def range_batch(self, begin: int, end: int, threads: int) -> tuple[object, object]: ...
    def plan_reads(self, ranges: _Ranges) -> list[tuple[int, int, int, int, int]]: ...

class RowFilter:
    def __init__(self, file: File, spec: tuple[Any, ...]) -> None: ...

class Index:
    """One index of a file. The cluster index and secondary ones answer the same questions.

    ``Index(file)`` is the cluster index, ``Index(file, i)`` entry ``i`` of ``file.indexes``;
    IndexUnavailableError where the file has none such. Cheap to make and kept by nobody: keep it
    where it is asked often. It keeps the file open.

    Keys are a record batch with the first columns of the index, in their order and in the types of
    the file. Fewer columns than the index has match every key that begins with their values; only
    an ordered index answers that. A key matches nothing where its flag in ``impossible`` is set
    (a value that the column cannot hold), and, unless ``null_equals``, where it has a null. Keys
    may be in any order and repeated.

    Row ranges and places are half-open. Rows are those of the file; places are positions in the
    order of the index, which for the cluster index are the rows. What reads does so without the
    GIL.
    """

    def __init__(self, file: File, number: int | None = None) -> None: ...
    ordered: bool
    """It has bounds, prefixes and places; a hash index answers whole keys only."""

    def find(
        self, keys: object, null_equals: bool = False, impossible: _Flags | None = None
    ) -> tuple[_Ranges, NDArray[np.int64]]:
        """Row ranges with each key, none empty, and for each the position of its key in ``keys``.

        Ordered by key position, then by row.
        """
    def rows(
        self, keys: object, null_equals: bool = False, impossible: _Flags | None = None
    ) -> tuple[_Rows, NDArray[np.int64]]:
        """The same row by row: rows, and for each the position of its key."""
    def count(
        self, keys: object, null_equals: bool = False, impossible: _Flags | None = None
    ) -> NDArray[np.int64]:
        """How many rows each key has."""
    def find_first(self, key: object, null_equals: bool = False) -> int | None:
        """The first row of the file with a key, a batch of one row.

        Costs the same however many rows have the key, if it is a whole one.
        """
    def lookup(
        self,
        projection: Projection,
        keys: object,
        null_equals: bool,
        impossible: _Flags | None,
        max_rows: int,
    ) -> tuple[object, object, NDArray[np.int64]] | None:
        """The rows of :meth:`rows`, read: schema and array capsules, and the key positions.

        Columns of the key are not read. ``None`` where the result is too large for one batch: more
        than ``max_rows``, or more bytes than one array holds.
        """
    def candidates(self, keys: object) -> _Rows:
        """Ascending rows among which are all that have one of the keys; cheaper than exact ones."""
    def places(self, keys: object, null_equals: bool = False) -> _Ranges:
        """The place range of each key, (n, 2); of an absent one the empty range where it would be.

        Ordered indexes only, as everything below. A key that matches nothing has (0, 0).
        """
    def range(
        self,
        lower: object | None,
        lower_inclusive: bool,
        upper: object | None,
        upper_inclusive: bool,
        by_value: bool = False,
    ) -> tuple[int, int]:
        """The places between two bounds: batches of one row of the first columns; None: no bound.

        Bounds are in the order of the index; with ``by_value`` in that of the values of the last
        column given, whatever its direction.
        """
    def prefix(self, values: object, starts_with: bool = False) -> tuple[int, int]:
        """The places of keys whose first columns equal ``values``, a batch of one row.

        With ``starts_with`` the last of them is the beginning of a text or binary value.
        """
    def rows_at(self, places: _Ranges) -> _Rows:
        """The rows at these place ranges, one after the other, each in the order of the index."""

class RowBitmap:
    """A set of rows of one file that does not change, given in any order."""

    def __init__(self, rows: _Rows) -> None: ...
    def __len__(self) -> int: ...
    last: int
    """The greatest row, of a set that is not empty."""
    nbytes: int
    def rows(self) -> _Rows:
        """All rows, ascending."""
    def plus(self, rows: _Rows) -> RowBitmap:
        """A set with these rows as well, which are given in any order."""
    def contains(self, rows: _Rows) -> NDArray[np.bool_]:
        """Which of these rows are in the set."""
    def absent(self, begin: _Rows, end: _Rows) -> tuple[_Ranges, NDArray[np.int64]]:
        """The parts of half-open ranges that are not in the set, and of which range each is."""

class KeyBounds:
    """The first and the last key that each of many files may have.

    ``bounds`` has two columns of encoded keys (:func:`encode_keys`), without nulls.
    """

    def __init__(self, bounds: object) -> None: ...

class KeyProbes:
    """Keys that many files are asked for: encoded, sorted and hashed once.

    ``keys`` and the rest as for :class:`Index`; ``orders`` has (descending, nulls first) of each
    column.
    """

    def __init__(
        self,
        keys: object,
        orders: list[tuple[bool, bool]],
        null_equals: bool = False,
        impossible: _Flags | None = None,
    ) -> None: ...
    def fits(self, index: Index) -> bool:
        """Whether the columns of the keys are the first of the index, in type and order."""
    def files(self, bounds: KeyBounds) -> NDArray[np.int64]:
        """Files, ascending, that may have one of the keys."""
    def locate(
        self,
        files: NDArray[np.int64],
        indexes: list[Index],
        deleted: list[RowBitmap | None],
        bounds: KeyBounds | None = None,
    ) -> tuple[_Rows, _Rows | None, NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the keys in these files, ascending numbers, each asked by its index.

        Rows that are ``deleted`` of a file are left out.

        Returns:
            First rows and the ends of ranges (``None``: each is one row), the positions of their
            keys and the numbers of their files; ordered by key position, then by file.
        """

class ParquetPages:
    """Cache and counters of the pages that the files of one handle share."""

    def __init__(self, cache_bytes: int) -> None: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def stats(self) -> tuple[int, int, int, int]:
        """Reads, bytes, rounds, and pages that were decompressed."""

    def reset_stats(self) -> None: ...

class ParquetFile:
    """Rows of a Parquet file by their numbers.

    Args:
        file: a local path, or an object with ``read_at``.
        footer, page_table: what :func:`describe_parquet` returned.
        schema: Arrow types of all top-level columns.
        decompress: called as ``decompress(codec, bytes, size)``; returns a buffer, or ``None`` for
            damaged bytes.
    """

    def __init__(
        self,
        file: object,
        name: str,
        coalesce_gap: int,
        footer: bytes,
        page_table: bytes,
        schema: object,
        pages: ParquetPages,
        decompress: object,
    ) -> None: ...
    @property
    def num_rows(self) -> int: ...
    def unsupported(self, column: int) -> str:
        """Why a column cannot be read; empty if it can, as far as metadata tells."""

    def read(
        self, columns: Sequence[int], rows: NDArray[np.uint64]
    ) -> tuple[object, object] | None:
        """Arrow capsules of a batch of ascending rows; ``None`` if it needs another reader."""

def describe_parquet(file: object, name: str, coalesce_gap: int) -> tuple[bytes, bytes] | None:
    """Footer and page table of a file; ``None`` if the footer is encrypted."""

class AsofSearch:
    """A search for the nearest row at or before, or at or after, each of many keys.

    Args:
        keys: a batch with the first columns of indexes. The last one is compared.
        orders: (descending, nulls first) of each column.
        exclusive: for which keys rows that equal the key do not match.
        impossible: keys that match nothing. So do keys with nulls.
        limits: a batch with one column: the upper limit of the known column for each key.
    """

    def __init__(
        self,
        keys: object,
        orders: list[tuple[bool, bool]],
        backward: bool,
        exclusive: _Flags | None = None,
        impossible: _Flags | None = None,
        limits: object | None = None,
    ) -> None: ...
    def fits(self, index: Index) -> bool:
        """Whether an ordered index begins with columns of the same types and orders."""
    def files(self, bounds: KeyBounds, ends: KeyBounds | None = None) -> NDArray[np.int64]:
        """The files that may have a row for one of the keys, ascending.

        Args:
            bounds: the first and last key of each file.
            ends: the first and last encoded value of the last column in each file.
        """
    def wanted(
        self, file: int, bounds: KeyBounds | None = None, ends: KeyBounds | None = None
    ) -> NDArray[np.int64]:
        """The keys that may have a better row in a file, as positions in ``keys``."""
    def search(
        self,
        file: int,
        index: Index,
        keys: NDArray[np.int64],
        deleted: RowBitmap | None = None,
        known: tuple[int, ...] | None = None,
        is_only: bool = False,
    ) -> None:
        """Searches a file for some keys.

        Args:
            file: the number of the file in the answer.
            known: path of the known column. Rows with a null, or a value above the key's limit, are
                not found.
            is_only: no other file is searched for these keys.
        """
    def offer(self, file: int, keys: NDArray[np.int64], rows: _Rows, on: object) -> None:
        """Proposes a row of a file for each of some keys, with its values of the last column."""
    def matches(self) -> tuple[_Rows, NDArray[np.int64], NDArray[np.int64]]:
        """Rows, the positions of their keys in ascending order, and their files."""

class ScanPart:
    """What a scan reads of one file.

    Args:
        output: the columns to return.
        ranges: the rows to test.
        filter: tests encoded values; ``None``: all rows pass.
        inputs: the columns that ``test`` reads.
        test: which rows of a batch of ``inputs`` pass as well, as a boolean array. Threads may call
            it at the same time.
    """

    def __init__(
        self,
        output: Projection,
        ranges: _Ranges,
        filter: RowFilter | None = None,
        inputs: Projection | None = None,
        test: Callable[[pa.RecordBatch], pa.BooleanArray] | None = None,
    ) -> None: ...

class VectorIndex:
    def __init__(self, file: Any, number: int) -> None: ...
    @property
    def metric(self) -> str: ...
    @property
    def num_lists(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def left_out(self) -> int: ...
    def rows_needed(self, recall: float, k: int) -> float: ...

def vector_metric(file: Any, number: int) -> str: ...
def vector_indexes(file: Any) -> list[tuple[list[int], int, int]]: ...
def nearest(
    parts: list[tuple[ScanPart, VectorIndex | None, RowBitmap | None]],
    queries: np.ndarray[Any, np.dtype[np.float64]],
    metric: str,
    k: int,
    recall: float,
    exact: bool,
    threads: int,
) -> tuple[
    np.ndarray[Any, np.dtype[np.uint64]],
    np.ndarray[Any, np.dtype[np.int64]],
    np.ndarray[Any, np.dtype[np.int64]],
    np.ndarray[Any, np.dtype[np.float32]],
    dict[str, int],
]: ...
def scan(
    parts: list[ScanPart],
    schema: pa.Schema,
    batch_rows: int,
    threads: int,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of files that pass, file by file, in batches that are not empty.

    Args:
        schema: the columns of each part's output.
        threads: 0 is one per processor.
        limit: the caller reads at most this many rows.

    Raises:
        Exception: what a test raises, unchanged.
    """

def count(parts: list[ScanPart], threads: int) -> int:
    """The number of rows that pass; decodes only what tests read."""

def take_files(
    projections: list[Projection],
    files: NDArray[np.int64],
    rows: NDArray[np.uint64],
    threads: int,
) -> tuple[object, object] | None:
    """Rows of many files, of each row the place of its file among ``projections``, in this order.

    ``None`` where the columns of the files cannot be one (types differ, or each has a dictionary
    of its own), or the result is too large for one batch.
    """

class PointBase:
    _quick: Callable[[object], Any] | None

def quick_get(method: _Method) -> _Method: ...

class PointReader:
    """One row as a dict: the names of ``blank``, then those of the projection that are not in it;
    values of ``blank`` stay where the projection has no such column.
    """

    def __init__(
        self,
        projection: Projection,
        index: Index,
        order: list[int],
        deleted: RowBitmap | None = None,
        blank: dict[str, Any] = ...,
    ) -> None: ...
    def getter(self) -> Callable[[object], Any]: ...
    def asof_getter(self, backward: bool, exclusive: bool) -> Callable[[object], Any]: ...
    def read(self, row: int) -> dict[str, Any]: ...

class FilesPointReader:
    """The first row of a key in many files, which are sorted by their first keys.

    ``keys`` is a batch of the key columns, ``orders`` their (descending, nulls first), ``order``
    as for :class:`PointReader`. ``ends``: columns of the key, as their numbers in it, with the
    least and the greatest value that each file may have there. ``open_files`` gives the readers of
    files, ``None`` for those that have to be asked in another way.
    """

    def __init__(
        self,
        keys: object,
        orders: list[tuple[bool, bool]],
        order: list[int],
        bounds: KeyBounds,
        ends: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]],
        open_files: Callable[[list[int]], list[PointReader | None]],
    ) -> None: ...
    def getter(self) -> Callable[[object], Any]: ...
    def asof_getter(self, backward: bool, exclusive: bool) -> Callable[[object], Any]: ...

class RangeReader:
    def __init__(
        self, projection: Projection, index: Index, width: int, starts_with: type
    ) -> None: ...
    def range(
        self, lower: object, upper: object, inclusive: object, limit: object, reverse: object
    ) -> Any: ...
    def prefix(self, prefix: object, limit: object, reverse: object) -> Any: ...

def open_path(path: str, mmap: bool, cache_bytes: int) -> File: ...
def open_buffer(buffer: object, cache_bytes: int) -> File: ...
def open_python(file: object, name: str, coalesce_gap: int, cache_bytes: int) -> File: ...
def encode_keys(
    batch: object, orders: list[tuple[bool, bool]]
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]: ...
def hash_keys(batch: object, orders: list[tuple[bool, bool]]) -> NDArray[np.uint64]: ...
def key_order(
    batches: list[Any], orders: list[tuple[bool, bool]], reverse: bool
) -> NDArray[np.int64]: ...
def prune_equal(file: File, path: tuple[int, ...], values: object, within: _Ranges) -> _Ranges: ...
def prune(
    file: File,
    path: tuple[int, ...],
    kind: str,
    lower: object | None,
    lower_inclusive: bool,
    upper: object | None,
    upper_inclusive: bool,
    nan: bool,
) -> _Ranges: ...

class ZoneValues:
    """The values of one column in a file, from its zone map."""

def zone_values(file: File, path: tuple[int, ...]) -> ZoneValues | None: ...
def prune_files(
    files: list[ZoneValues | None],
    kind: str,
    lower: object | None,
    lower_inclusive: bool,
    upper: object | None,
    upper_inclusive: bool,
    nan: bool,
) -> _Ranges: ...
def intersect(a: _Ranges, b: _Ranges) -> _Ranges: ...
def merge(ranges: _Ranges) -> _Ranges: ...
def layout(file: File) -> list[Any]: ...
def sections(file: File) -> list[tuple[str, int, int]]: ...
def nodes(file: File) -> list[tuple[str, str, int]]: ...
def verify(file: File) -> None: ...

_ServedKey = tuple[list[tuple[list[int], bool, bool]], list[bytes], list[bytes]]
_ServedConstants = tuple[list[int], Any]
_ServedFile = tuple[str, int, int, _ServedConstants, RowBitmap | None]

def serving_manifest(
    *,
    name: str,
    uuid: str,
    snapshot: int | None,
    created_ms: int,
    schema: Any,
    defaults: _ServedConstants,
    lookup_key: _ServedKey | None,
    cluster_key: _ServedKey | None,
    has_primary_key: bool,
    files: list[_ServedFile],
) -> bytes: ...

class ServedFiles:
    """Files that servers have open, by path."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...

class ServedTable:
    """A serving manifest with its files."""

    def __init__(self, manifest: bytes, files: ServedFiles, open_ahead: int) -> None: ...
    num_rows: int
    snapshot: int | None

class Server:
    """Threads that answer clients of Redis."""

    def __init__(
        self,
        *,
        tables: dict[str, ServedTable],
        unix: str,
        host: str,
        port: int,
        token: str,
        max_keys: int,
        max_rows: int,
        max_reply_bytes: int,
        max_clients: int,
        idle_seconds: int,
        threads: int,
    ) -> None: ...
    port: int
    def swap(self, tables: dict[str, ServedTable]) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def stop(self, seconds: float) -> None: ...
