"""Small immutable values that the public API accepts and returns. They do not read or write.

The trees of plans and layouts are in ``rows/plan.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.names import ColumnName, show_names


def format_bytes(size: int) -> str:
    """Formats bytes with binary units: ``512 B``, ``1.5 KiB``, ``3.0 GiB``."""
    value = float(size)
    if abs(value) < 1024:
        return f"{size} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if abs(value) < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} PiB"


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column of a cluster key or of a sorted index, with its direction.

    Args:
        column: column name; a dotted path (``location.lat``) for a field of a struct, or a tuple of
            names (``("location", "lat")``), which is taken exactly.
        descending: largest value first.
        nulls_first: nulls first, for both directions. The default is nulls last.

    Example:
        >>> SortKey("ts", descending=True)
        SortKey('ts', descending=True)
    """

    column: ColumnName
    descending: bool = field(default=False, kw_only=True)
    nulls_first: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        parts = self.column if isinstance(self.column, tuple) else (self.column,)
        if not parts or not all(isinstance(part, str) and part for part in parts):
            raise InvalidArgumentError(
                f"SortKey: column must be a non-empty str or a path of them, got {self.column!r}"
            )
        for name in ("descending", "nulls_first"):
            flag = getattr(self, name)
            if not isinstance(flag, bool):
                raise InvalidArgumentError(
                    f"SortKey {self.column!r}: {name} must be bool, got {flag!r}"
                )

    def __repr__(self) -> str:
        flags = [f"{n}=True" for n in ("descending", "nulls_first") if getattr(self, n)]
        return f"SortKey({', '.join([repr(self.column), *flags])})"

    def __str__(self) -> str:
        words = [show_names([self.column])]
        words += ["desc"] * self.descending + ["nulls first"] * self.nulls_first
        return " ".join(words)


KeyColumn: TypeAlias = ColumnName | SortKey


def column_of(key: KeyColumn) -> ColumnName:
    """Returns the column of a key, without its direction."""
    return key.column if isinstance(key, SortKey) else key


def agrees(columns: Sequence[KeyColumn], keys: Sequence[SortKey]) -> bool:
    """Returns whether ``keys`` begin with these columns in this order and these directions."""
    return len(columns) <= len(keys) and all(
        key == column if isinstance(column, SortKey) else key.column == column
        for column, key in zip(columns, keys, strict=False)
    )


def as_sort_keys(value: str | SortKey | Sequence[KeyColumn] | None) -> tuple[SortKey, ...]:
    """Returns sort keys from every form that ``cluster_by`` and ``SortedIndex`` accept; empty for
    ``None``.

    Raises:
        InvalidArgumentError: an element is not a name, path or SortKey, or a column repeats.
    """
    if value is None:
        return ()
    items: Iterable[object] = [value] if isinstance(value, (str, SortKey)) else value
    if not isinstance(items, Iterable):
        raise InvalidArgumentError(f"sort keys: expected str, SortKey or a list, got {value!r}")
    keys: list[SortKey] = []
    for item in items:
        if not isinstance(item, (str, tuple, SortKey)):
            raise InvalidArgumentError(f"sort key {item!r}: expected a column name or nb.SortKey")
        keys.append(item if isinstance(item, SortKey) else SortKey(item))
    names = [key.column for key in keys]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidArgumentError(f"sort keys: column {repeated[0]!r} is given more than once")
    return tuple(keys)


def parse_sort_keys(text: str) -> tuple[SortKey, ...]:
    """Parses sort keys such as ``"a, b desc nulls first"``, as the CLI and Spark options take them.

    Raises:
        InvalidArgumentError: the text after a name is not asc, desc, nulls first or nulls last.
    """
    keys = []
    for part in text.split(","):
        name, *words = part.split() or [""]
        rest = " ".join(words).lower()
        descending = rest.startswith("desc")
        rest = rest.removeprefix("desc" if descending else "asc").strip()
        if not name or rest not in ("", "nulls first", "nulls last"):
            raise InvalidArgumentError(
                f"sort key {part.strip()!r}: expected `name [asc|desc] [nulls first|nulls last]`"
            )
        keys.append(SortKey(name, descending=descending, nulls_first=rest == "nulls first"))
    return as_sort_keys(keys)


def pack_sort_keys(keys: Iterable[SortKey]) -> str:
    """Serializes sort keys as JSON text for :func:`unpack_sort_keys`."""
    return json.dumps([[key.column, key.descending, key.nulls_first] for key in keys])


def unpack_sort_keys(text: str | bytes) -> tuple[SortKey, ...]:
    """Parses the result of :func:`pack_sort_keys`.

    Raises:
        TypeError, ValueError: the text has another form.
    """
    return tuple(
        SortKey(
            column if isinstance(column, str) else tuple(column),
            descending=descending,
            nulls_first=nulls_first,
        )
        for column, descending, nulls_first in json.loads(text)
    )


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The last element of a prefix lookup, as a string prefix. Made by :func:`starts_with`."""

    prefix: str | bytes


def starts_with(prefix: str | bytes) -> StartsWith:
    """Marks ``prefix`` as a string prefix. A bare value would mean equality.

    Example:
        >>> starts_with("ab")
        StartsWith(prefix='ab')
    """
    if not isinstance(prefix, (str, bytes)):
        raise InvalidArgumentError(f"starts_with: expected str or bytes, got {prefix!r}")
    return StartsWith(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """How one column was stored: its most frequent outer encoding, and its size in bytes."""

    name: str
    encoding: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FileSummary:
    """The result of a write. Prints as a table with one line per column.

    Attributes:
        num_rows: rows in the file.
        size_bytes: bytes of the whole file.
        index_bytes: bytes of all indexes, included in ``size_bytes``.
        stripes: number of stripes.
        columns: one summary per top-level column, in schema order.
        write_seconds: time spent in the writer, without waiting for the data.
        index_seconds: the part of ``write_seconds`` that built secondary indexes.
    """

    num_rows: int
    size_bytes: int
    index_bytes: int
    stripes: int
    columns: tuple[ColumnSummary, ...] = ()
    index_seconds: float = 0.0
    write_seconds: float = 0.0

    @property
    def index_share(self) -> float:
        """The fraction of the write's time that built secondary indexes."""
        return self.index_seconds / self.write_seconds if self.write_seconds else 0.0

    def __str__(self) -> str:
        per_row = f", {self.size_bytes / self.num_rows:.2f} bytes per row" if self.num_rows else ""
        index_share = f", of which {format_bytes(self.index_bytes)} index" * bool(self.index_bytes)
        head = (
            f"{self.num_rows:,} rows in {self.stripes} stripe{'s' * (self.stripes != 1)}, "
            f"{format_bytes(self.size_bytes)}{index_share}{per_row}"
        )
        if self.index_seconds and self.index_share >= 0.005:
            head += f"; secondary indexes took {self.index_share:.0%} of {self.write_seconds:.1f} s"
        if not self.columns:
            return head
        width = max(len(column.name) for column in self.columns)
        lines = [
            f"  {column.name:<{width}}  {format_bytes(column.size_bytes):>10}  {column.encoding}"
            for column in self.columns
        ]
        return "\n".join([head, *lines])

    def __repr__(self) -> str:
        return f"FileSummary: {self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IoStats:
    """Reads since a file was opened or its counters were reset.

    A read is one ``read_at`` that misses the cache. Reads that are issued together, without waiting
    for each other, form one round. ``rounds`` counts the rounds.
    """

    reads: int = 0
    bytes_read: int = 0
    index_reads: int = 0
    data_reads: int = 0
    metadata_reads: int = 0
    rounds: int = 0

    def __add__(self, other: IoStats) -> IoStats:
        """Adds the reads of two files."""
        return IoStats(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in fields(self)
            }
        )

    def __sub__(self, earlier: IoStats) -> IoStats:
        """Returns the reads between two states of the same file."""
        return IoStats(
            **{
                field.name: getattr(self, field.name) - getattr(earlier, field.name)
                for field in fields(self)
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """One index of a file.

    Attributes:
        kind: ``"cluster"``, ``"hash"``, ``"sorted"`` or ``"vector"``.
        columns: indexed columns in key order, with their sort order.
        size_bytes: bytes of the index with its Bloom filter.
        num_keys: entries in the index (rows; for a hash index, distinct keys; for a vector index,
            rows in lists).
        has_bloom: whether a Bloom filter answers most misses without reading the index.
        metric: of a vector index; ``None`` if this version does not know it.
    """

    kind: str
    columns: tuple[SortKey, ...]
    size_bytes: int
    num_keys: int
    has_bloom: bool = False
    metric: str | None = None
