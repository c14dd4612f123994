"""Options for writing: indexes and :class:`WriteOptions`.

Values are checked in the constructors, so errors are reported before a long write.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import KeyColumn, SortKey, as_sort_keys

Compression: TypeAlias = Literal["balanced", "fast", "compact"]


def _check_count(owner: str, name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgumentError(f"{owner}: {name} must be an int >= {least}, got {value!r}")


def _check_number(owner: str, name: str, value: object, least: float, most: float) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type, operator]
        raise InvalidArgumentError(
            f"{owner}: {name} must be a number from {least:g} to {most:g}, got {value!r}"
        )


def _check_bloom(owner: str, name: str, value: object) -> None:
    # With less than 1 bit per key, nearly every probe passes. With more than 64 bits per key, the
    # filter is often larger than the keys.
    if value is not None:
        _check_number(owner, name, value, 1, 64)


@dataclass(frozen=True, slots=True, init=False)
class HashIndex:
    """A secondary index that finds the rows with given values of all its columns, in O(1).

    Args:
        columns: one name or a list of names. Dotted paths and tuples of names refer to struct
            fields.
        load_factor: keys per bucket slot, 0.1 to 0.95. With a higher value, the index is smaller
            and slower.
        bloom_bits_per_key: bits of the Bloom filter per key, 1 to 64; ``None`` stores no filter.

    Raises:
        InvalidArgumentError: an argument is out of range, or a column is given twice.
    """

    columns: tuple[ColumnName, ...]
    load_factor: float
    bloom_bits_per_key: float | None

    def __init__(
        self,
        columns: str | Sequence[ColumnName],
        *,
        load_factor: float = 0.7,
        bloom_bits_per_key: float | None = 10.0,
    ) -> None:
        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            if isinstance(name, SortKey):
                raise InvalidArgumentError(
                    f"HashIndex: a hash has no order; pass the name {name.column!r}, not a SortKey"
                )
        if not names:
            raise InvalidArgumentError("HashIndex: needs at least one column, got none")
        _check_number("HashIndex", "load_factor", load_factor, 0.1, 0.95)
        _check_bloom("HashIndex", "bloom_bits_per_key", bloom_bits_per_key)
        object.__setattr__(self, "columns", tuple(key.column for key in as_sort_keys(names)))
        object.__setattr__(self, "load_factor", float(load_factor))
        bits = None if bloom_bits_per_key is None else float(bloom_bits_per_key)
        object.__setattr__(self, "bloom_bits_per_key", bits)


@dataclass(frozen=True, slots=True, init=False)
class SortedIndex:
    """A secondary index for lookups, prefixes, ranges and sorted reads by its columns.

    Args:
        columns: a name or :class:`~nimblepy.schema.types.SortKey`, or a list of them, in key order.

    Raises:
        InvalidArgumentError: there is no column, or a column is given twice.
    """

    columns: tuple[SortKey, ...]

    def __init__(self, columns: str | SortKey | Sequence[KeyColumn]) -> None:
        keys = as_sort_keys(columns)
        if not keys:
            raise InvalidArgumentError("SortedIndex: needs at least one column, got none")
        object.__setattr__(self, "columns", keys)


@dataclass(frozen=True, slots=True, init=False, eq=False)
class VectorIndex:
    """A secondary index that finds the rows whose vectors are nearest to a given vector.

    The column has fixed-size lists of float16, float32, float64, int8, uint8 or int32. The index
    groups near rows into lists, and stores one bit per dimension of each row. If a column has fewer
    than 2^16 numbers (rows times dimensions), the file stores only the metric, because comparing
    all rows is as fast.

    Args:
        column: the name of the column.
        metric: ``"l2"`` (squared Euclidean distance), ``"cosine"`` (1 - cosine) or ``"dot"`` (minus
            the dot product).
        lists: number of lists; ``None`` means twice the square root of the number of rows, or fewer
            so that they have 32 rows on average.
        queries: a matrix of typical query vectors, one per row. They are used to measure how many
            lists a search must probe for a given recall. ``None`` uses rows of the file instead.

    Raises:
        InvalidArgumentError: an argument is out of range.
    """

    column: str
    metric: str
    lists: int | None
    queries: tuple[tuple[float, ...], ...] | None

    def __init__(
        self,
        column: str,
        *,
        metric: Literal["l2", "cosine", "dot"] = "l2",
        lists: int | None = None,
        queries: Any = None,
    ) -> None:
        if not isinstance(column, str):
            raise InvalidArgumentError(
                f"VectorIndex: expected the name of a column, got {column!r}"
            )
        if metric not in ("l2", "cosine", "dot"):
            raise InvalidArgumentError(
                f"VectorIndex: metric must be 'l2', 'cosine' or 'dot', got {metric!r}"
            )
        if lists is not None:
            _check_count("VectorIndex", "lists", lists, 1)
            if lists > 1 << 24:
                raise InvalidArgumentError(f"VectorIndex: lists must be at most {1 << 24:,}")
        rows = None
        if queries is not None:
            import numpy as np

            try:
                given = queries.to_pylist() if hasattr(queries, "to_pylist") else queries
                if np.iscomplexobj(np.asarray(given)):
                    raise TypeError("got complex numbers")
                matrix = np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError) as e:
                raise InvalidArgumentError(
                    f"VectorIndex: queries must be vectors of one length: {e}"
                ) from e
            if matrix.ndim != 2 or not np.isfinite(matrix).all():
                raise InvalidArgumentError(
                    "VectorIndex: queries must be a matrix of finite numbers, one row per query"
                )
            rows = tuple(map(tuple, matrix.tolist()))
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "lists", lists)
        object.__setattr__(self, "queries", rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column as a tuple, like the attribute ``columns`` of the other indexes."""
        return (self.column,)


class KnownVectorIndex(VectorIndex):
    """A vector index whose training starts from centroids of indexes of the same rows.

    Args:
        known: what ``_core.VectorIndex.known_centroids`` returns, for each of these indexes.
    """

    __slots__ = ("known",)
    known: tuple[tuple[Any, Any], ...]

    def __init__(self, index: VectorIndex, known: Sequence[tuple[Any, Any]]) -> None:
        for name in ("column", "metric", "lists", "queries"):
            object.__setattr__(self, name, getattr(index, name))
        object.__setattr__(self, "known", tuple(known))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options for the layout of a file. The defaults suit most data.

    Attributes:
        compression: ``"balanced"``, ``"fast"`` (faster lookups and writes) or ``"compact"``
            (smaller files).
        stripe_rows: maximum rows of a stripe, the unit of encoding choice and of memory.
        stripe_bytes: maximum Arrow bytes of a stripe. A stripe ends at the first limit it reaches.
        group_rows: maximum rows of an index group, which a cold lookup loads as a unit.
        group_bytes: encoded bytes after which a stripe group ends.
        key_chunk_rows: keys in a key chunk, the unit that a cold lookup reads from the index.
        restart_interval: every n-th key of a chunk is stored in full. With 1, lookups are fastest
            and the index is largest.
        cluster_bloom_bits_per_key: Bloom filter bits per cluster key; ``None`` for no filter.
        bloom_columns: columns with a Bloom filter in every stripe. Scans that filter by single
            values skip stripes without these values. Dotted paths reach struct fields.
        bloom_bits_per_key: bits of the filters of ``bloom_columns`` per distinct value of a stripe.
        statistics: columns with zone maps: all (True), no columns (False), or a list of names.
        zone_rows: rows per zone-map entry.
        sort_memory_bytes: memory limit for sorting; beyond it, rows spill to disk. Stripes of a
            sorted file have at most an eighth of this size.
        index_memory_bytes: memory limit for building secondary indexes; beyond it, keys spill to
            disk.
        threads: number of encoding threads; ``None`` for one per core.

    Raises:
        InvalidArgumentError: a value is out of range; the message has the value and the range.
    """

    compression: Compression = "balanced"
    stripe_rows: int = 131_072
    stripe_bytes: int = 64 << 20
    group_rows: int = 1 << 20
    group_bytes: int = 64 << 20
    key_chunk_rows: int = 2048
    restart_interval: int = 16
    cluster_bloom_bits_per_key: float | None = None
    bloom_columns: Sequence[ColumnName] = ()
    bloom_bits_per_key: float = 10.0
    statistics: bool | Sequence[ColumnName] = True
    zone_rows: int = 8192
    sort_memory_bytes: int = 512 << 20
    index_memory_bytes: int = 256 << 20
    threads: int | None = None

    def __post_init__(self) -> None:
        owner = "WriteOptions"
        if self.compression not in get_args(Compression):
            expected = ", ".join(map(repr, get_args(Compression)))
            raise InvalidArgumentError(
                f"{owner}: compression must be one of {expected}, got {self.compression!r}"
            )
        for name in ("stripe_rows", "group_rows", "key_chunk_rows", "restart_interval"):
            _check_count(owner, name, getattr(self, name), 1)
        _check_count(owner, "zone_rows", self.zone_rows, 1)
        for name in ("stripe_bytes", "group_bytes"):
            _check_count(owner, name, getattr(self, name), 1024)
        # Less than 1 MiB would create a spill file every few rows.
        for name in ("sort_memory_bytes", "index_memory_bytes"):
            _check_count(owner, name, getattr(self, name), 1 << 20)
        if self.threads is not None:
            _check_count(owner, "threads", self.threads, 1)
        _check_bloom(owner, "cluster_bloom_bits_per_key", self.cluster_bloom_bits_per_key)
        _check_number(owner, "bloom_bits_per_key", self.bloom_bits_per_key, 1, 64)
        self._keep_names("bloom_columns", self.bloom_columns, "a list of column names")
        if not isinstance(self.statistics, bool):
            self._keep_names("statistics", self.statistics, "True, False or a list of column names")

    def _keep_names(self, field: str, names: Sequence[ColumnName], expected: str) -> None:
        listed = not isinstance(names, str) and isinstance(names, Sequence)
        if not listed or not all(isinstance(name, (str, tuple)) for name in names):
            raise InvalidArgumentError(f"WriteOptions: {field} must be {expected}, got {names!r}")
        # A tuple, so that this object is hashable and later changes to the list have no effect.
        object.__setattr__(self, field, tuple(names))
