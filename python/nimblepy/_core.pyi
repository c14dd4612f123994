"""The compiled core; private. Arrow data is passed as PyCapsules or through the stream protocol."""

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
    """One index of a file. The cluster index and secondary indexes have the same methods.

    ``Index(file)`` is the cluster index. ``Index(file, i)`` is entry ``i`` of ``file.indexes``. If
    the index does not exist, raises IndexUnavailableError. Creating one is cheap, but it is not
    cached: keep it if you use it often. It keeps the file open.

    Keys are a record batch with the first columns of the index, in the same order and with the
    types of the file. If the batch has fewer columns than the index, a key matches every stored key
    that begins with its values; this requires an ordered index. A key does not match any row if
    ``impossible`` is set for it, because the column's type cannot represent a value of it. A key
    with a null does not match any row either, unless ``null_equals``. Keys may be in any order, and
    may repeat.

    Ranges of rows and places are half-open. Rows are rows of the file. A place is a position in the
    order of the index; in the cluster index, it is a row. Methods that read release the GIL.
    """

    def __init__(self, file: File, number: int | None = None) -> None: ...
    ordered: bool
    """Whether the index supports bounds, prefixes and places. Hash indexes only find whole keys."""

    def find(
        self, keys: object, null_equals: bool = False, impossible: _Flags | None = None
    ) -> tuple[_Ranges, NDArray[np.int64]]:
        """Returns the row ranges of all keys, and the position in ``keys`` of each range's key.

        No range is empty. Ranges are ordered by key position, then by row.
        """
    def rows(
        self, keys: object, null_equals: bool = False, impossible: _Flags | None = None
    ) -> tuple[_Rows, NDArray[np.int64]]:
        """Like :meth:`find`, but returns each row, and the position of its key."""
    def count(
        self, keys: object, null_equals: bool = False, impossible: _Flags | None = None
    ) -> NDArray[np.int64]:
        """Returns the number of rows of each key."""
    def find_first(self, key: object, null_equals: bool = False) -> int | None:
        """Returns the first row of the file with a key, which is a batch of one row.

        For a whole key, the cost does not depend on the number of rows with the key.
        """
    def lookup(
        self,
        projection: Projection,
        keys: object,
        null_equals: bool,
        impossible: _Flags | None,
        max_rows: int,
    ) -> tuple[object, object, NDArray[np.int64]] | None:
        """Reads the rows of :meth:`rows`. Returns schema and array capsules, and key positions.

        Columns of the key are not read. Returns ``None`` if the result does not fit in one batch:
        it has more than ``max_rows`` rows, or too many bytes for one array.
        """
    def candidates(self, keys: object) -> _Rows:
        """Returns ascending rows that include all rows of the keys. Cheaper than exact rows."""
    def places(self, keys: object, null_equals: bool = False) -> _Ranges:
        """Returns the range of places of each key, shape (n, 2).

        For an absent key, returns the empty range at its place. For a key that cannot match any
        row, returns (0, 0). This method and those below require an ordered index.
        """
    def range(
        self,
        lower: object | None,
        lower_inclusive: bool,
        upper: object | None,
        upper_inclusive: bool,
        by_value: bool = False,
    ) -> tuple[int, int]:
        """Returns the places between two bounds.

        A bound is a batch of one row with the first columns; ``None`` means no bound. Bounds are in
        the order of the index. With ``by_value``, they are in ascending order of the last given
        column, whatever its direction.
        """
    def prefix(self, values: object, starts_with: bool = False) -> tuple[int, int]:
        """Returns the places of keys whose first columns equal ``values``, a batch of one row.

        With ``starts_with``, the last value is a prefix of a text or binary value.
        """
    def rows_at(self, places: _Ranges) -> _Rows:
        """Returns the rows at these ranges of places, one after the other, in index order."""

class RowBitmap:
    """An immutable set of rows of one file. The rows may be given in any order."""

    def __init__(self, rows: _Rows) -> None: ...
    def __len__(self) -> int: ...
    last: int
    """The greatest row. The set must not be empty."""
    nbytes: int
    def rows(self) -> _Rows:
        """Returns all rows, ascending."""
    def plus(self, rows: _Rows) -> RowBitmap:
        """Returns a set with these additional rows, which may be given in any order."""
    def roaring(self) -> bytes:
        """Returns the set as a 64-bit Roaring bitmap, with the bytes that Java writes."""
    def contains(self, rows: _Rows) -> NDArray[np.bool_]:
        """Returns which of these rows are in the set."""
    def absent(self, begin: _Rows, end: _Rows) -> tuple[_Ranges, NDArray[np.int64]]:
        """Returns the parts of half-open ranges that are not in the set, and each part's range."""

class KeyBounds:
    """The first and the last key that each of many files may have.

    ``bounds`` has two columns of encoded keys (:func:`encode_keys`), without nulls.
    """

    def __init__(self, bounds: object) -> None: ...

class KeyProbes:
    """Keys to find in many files. They are encoded, sorted and hashed once.

    ``orders`` has (descending, nulls first) for each column. See :class:`Index` for the other
    arguments.
    """

    def __init__(
        self,
        keys: object,
        orders: list[tuple[bool, bool]],
        null_equals: bool = False,
        impossible: _Flags | None = None,
    ) -> None: ...
    def fits(self, index: Index) -> bool:
        """Returns whether the index begins with the columns of the keys, with equal types."""
    def files(self, bounds: KeyBounds) -> NDArray[np.int64]:
        """Returns the files, ascending, that may have one of the keys."""
    def locate(
        self,
        files: NDArray[np.int64],
        indexes: list[Index],
        deleted: list[RowBitmap | None],
        bounds: KeyBounds | None = None,
    ) -> tuple[_Rows, _Rows | None, NDArray[np.int64], NDArray[np.int64]]:
        """Finds the rows of the keys in files, given by ascending numbers, with an index of each.

        Rows in ``deleted`` are not found.

        Returns:
            The first rows and the ends of ranges (``None`` if each range is one row), the positions
            of their keys, and the numbers of their files. Ordered by key position, then by file.
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
    """Reads rows of a Parquet file by their numbers.

    Args:
        file: a local path, or an object with ``read_at``.
        footer, page_table: the result of :func:`describe_parquet`.
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
        """Returns why a column cannot be read; empty if the metadata shows no reason."""

    def read(
        self, columns: Sequence[int], rows: NDArray[np.uint64]
    ) -> tuple[object, object] | None:
        """Returns Arrow capsules of ascending rows; ``None`` if another reader must read them."""

    def rows(self, columns: Sequence[int]) -> ParquetRows | None:
        """Returns a reader of single rows; ``None`` if pyarrow must convert their values."""

class ParquetRows:
    """Reads columns of single rows of a Parquet file as dicts."""

    def read(self, row: int) -> dict[str, Any] | None:
        """Returns the row; ``None`` if another reader must read it."""

def describe_parquet(file: object, name: str, coalesce_gap: int) -> tuple[bytes, bytes] | None:
    """Returns the footer and page table of a file; ``None`` if the footer is encrypted."""

class AsofSearch:
    """A search for the nearest row at or before, or at or after, each of many keys.

    Args:
        keys: a batch with the first columns of indexes. The last one is compared.
        orders: (descending, nulls first) of each column.
        exclusive: for each key, whether rows that equal the key do not match.
        impossible: for each key, whether it cannot match any row. Keys with nulls never match.
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
        """Returns whether an ordered index begins with columns of the same types and orders."""
    def files(self, bounds: KeyBounds, ends: KeyBounds | None = None) -> NDArray[np.int64]:
        """Returns the files that may have a row for one of the keys, ascending.

        Args:
            bounds: the first and last key of each file.
            ends: the first and last encoded value of the last column in each file.
        """
    def wanted(
        self, file: int, bounds: KeyBounds | None = None, ends: KeyBounds | None = None
    ) -> NDArray[np.int64]:
        """Returns the keys that may have a nearer row in a file, as positions in ``keys``."""
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
            file: the number of the file, for :meth:`matches`.
            known: path of the known column. Rows with a null, or a value above the key's limit, are
                not found.
            is_only: no other file is searched for these keys.
        """
    def offer(self, file: int, keys: NDArray[np.int64], rows: _Rows, on: object) -> None:
        """Proposes a row of a file for each of some keys, with its values of the last column."""
    def matches(self) -> tuple[_Rows, NDArray[np.int64], NDArray[np.int64]]:
        """Returns the matching rows, the positions of their keys (ascending), and their files."""

class ScanPart:
    """The part of a scan that is in one file.

    Args:
        output: the columns to return.
        ranges: the rows to test.
        filter: tests encoded values; ``None`` if all rows pass.
        inputs: the columns that ``test`` reads.
        test: an additional test. Returns which rows of a batch of ``inputs`` pass, as a boolean
            array. Several threads may call it at the same time.
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
    def rows_needed(self, recall: float, k: int) -> float | None: ...
    def known_centroids(
        self,
    ) -> tuple[
        np.ndarray[Any, np.dtype[np.float32]],
        np.ndarray[Any, np.dtype[np.float32]],
    ]: ...

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

class NearestReader:
    """Finds the rows nearest to a query in files, and reads their columns.

    Args:
        parts: for each file, all rows, the vector index, and the deleted rows.
        projections: the columns of the result, for each file.
        dimensions: the length of the vectors.
        exact: whether to compare all rows.
    """

    def __init__(
        self,
        parts: list[tuple[ScanPart, VectorIndex | None, RowBitmap | None]],
        projections: list[Projection],
        metric: str,
        dimensions: int,
        exact: bool,
    ) -> None: ...
    @property
    def can_read(self) -> bool:
        """Whether the projections have the same types, so that their rows fit in one table."""
    @property
    def num_parts(self) -> int: ...
    def reads(self, projection: Projection) -> bool:
        """Whether the rows are of the projection's file, and of no other file."""
    def search(
        self, query: object, k: object, recall: object, within: tuple[int, int] | ScanPart | None
    ) -> Any:
        """Returns a table: the columns, and ``_distance``.

        Args:
            within: if there is one part, the rows that may be returned. ``None`` means all rows.

        Returns ``NotImplemented`` for arguments that are invalid or not of the usual types, if the
        rows do not fit in one batch, and if ``within`` is of another opening of the file.
        """

def scan(
    parts: list[ScanPart],
    schema: pa.Schema,
    batch_rows: int,
    threads: int,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows that pass, file by file, in batches that are not empty.

    Args:
        schema: the columns of each part's output.
        threads: number of threads; 0 means one per processor.
        limit: maximum number of rows that the caller reads.

    Raises:
        Exception: any exception that a test raises, unchanged.
    """

def count(parts: list[ScanPart], threads: int) -> int:
    """Returns the number of rows that pass. Decodes only the columns that tests read."""

def take_files(
    projections: list[Projection],
    files: NDArray[np.int64],
    rows: NDArray[np.uint64],
    threads: int,
) -> tuple[object, object] | None:
    """Reads rows of many files, in the given order. ``files`` are indexes into ``projections``.

    Returns ``None`` if the columns of the files cannot be combined (their types differ, or they
    have dictionaries), or if the result does not fit in one batch.
    """

class PointBase:
    _quick: Callable[[object], Any] | None

def quick_get(method: _Method) -> _Method: ...

class PointReader:
    """Reads one row as a dict.

    The dict has the names of ``blank``, then the other names of the projection. A name that the
    projection does not have keeps its value of ``blank``.
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
    """Finds the first row of a key in many files, which are sorted by their first keys.

    ``keys`` is a batch of the key columns, and ``orders`` has (descending, nulls first) for each of
    them. See :class:`PointReader` for ``order``. ``ends`` has columns of the key, by number, with
    the minimum and maximum that each file may have. ``open_files`` returns the reader of each file,
    or ``None`` if the core cannot read the file.
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
    @property
    def projection(self) -> Projection: ...
    def range_rows(self, lower: object, upper: object, inclusive: object) -> Any:
        """Returns (begin, end) of the rows, or ``NotImplemented``. Needs the cluster index."""
    def prefix_rows(self, prefix: object) -> Any:
        """Returns (begin, end) of the rows, or ``NotImplemented``. Needs the cluster index."""

def open_path(path: str, mmap: bool, cache_bytes: int) -> File: ...
def open_buffer(buffer: object, cache_bytes: int) -> File: ...
def open_python(file: object, name: str, coalesce_gap: int, cache_bytes: int) -> File: ...
def encode_keys(
    batch: object, orders: list[tuple[bool, bool]]
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]: ...
def hash_keys(batch: object, orders: list[tuple[bool, bool]]) -> NDArray[np.uint64]: ...

class KeyHasher:
    """Hashes the key of one row: the upper ``bits`` bits of its hash by :func:`hash_keys`.

    Args:
        batch: a batch of the key columns, for their types.
        orders: (descending, nulls first) of each column.
    """

    def __init__(self, batch: object, orders: list[tuple[bool, bool]], bits: int) -> None: ...
    def hash(self, key: object) -> Any:
        """Returns the hash; ``NotImplemented`` if Python code must convert the key."""

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
def feature_vectors(batch: Any, numbers: list[int], rows: list[int], rest: bytes) -> bytes:
    """Encodes the columns of a batch as fields of a Feast response, which is parsed at once.

    Args:
        numbers: for each column, the field of a value that holds it; 0 for serialized values.
        rows: the row of each entity; -1 if it is missing.
        rest: the other fields of each vector.
    """

class ServedFiles:
    """The files that servers keep open, by path."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...

class ServedTable:
    """A serving manifest and its files."""

    def __init__(self, manifest: bytes, files: ServedFiles, open_ahead: int) -> None: ...
    num_rows: int
    snapshot: int | None
    name: str
    """The name of the table, or the file name."""
    paths: list[str]

class RawFrame:
    """Rows of a reply ``AS RAW``: encoded blocks of a file, or an Arrow IPC stream."""

    is_raw: bool
    arrow: memoryview
    file: tuple[int, int]
    """The checksum of the file's footer, and its size."""
    columns: list[int]
    """Positions in the file's schema."""
    num_rows: int
    def read(self, projection: Projection) -> tuple[object, object]: ...

def raw_frames(reply: bytes) -> list[RawFrame]: ...

class SparseFile:
    """A file with only some parts in memory. Parts are (offset, size)."""

    def __init__(self, size: int, name: str) -> None: ...
    filled_bytes: int
    def missing(self, frame: RawFrame) -> list[tuple[int, int]]:
        """The parts of metadata that the frame needs and that are not filled in."""
    def fill(self, parts: list[tuple[int, int]], bytes: bytes) -> None: ...
    def fill_frame(self, frame: RawFrame) -> None: ...
    def open(self, cache_bytes: int) -> File: ...

class Server:
    """Answers Redis clients with its own threads."""

    def __init__(
        self,
        *,
        tables: dict[str, ServedTable],
        unix: str,
        host: str,
        port: int,
        token: str,
        page_secret: bytes,
        max_keys: int,
        max_rows: int,
        max_reply_bytes: int,
        max_clients: int,
        idle_seconds: int,
        threads: int,
        allow_raw: bool,
    ) -> None: ...
    port: int
    def swap(self, tables: dict[str, ServedTable]) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def stop(self, seconds: float) -> None: ...
