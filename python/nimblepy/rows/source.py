"""RowSource: immutable rows that can be searched and read.

A file is a source. A group of files, and files with deleted rows, are sources too. Users have
handles (:class:`nimblepy.rows.rows.Rows`), and each handle reads a source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import parse_filter
from nimblepy.rows.arguments import (
    Inclusive,
    On,
    Projected,
    check_one,
    inclusive_sides,
    on_keys,
    row_bounds,
)
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.compiled import Compiled
from nimblepy.rows.keys import GivenKeys, KeyColumns, key_columns, read_keys, typed_keys
from nimblepy.rows.nearest import NearestPart, NearestRows
from nimblepy.rows.plan import LayoutNode, Plan
from nimblepy.rows.request import (
    KeyRange,
    Keys,
    Ordered,
    Prefix,
    Request,
    Where,
    in_key_order,
    key_prefix,
    key_range,
    leading_keys,
)
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.schema.columns import key_name, resolve_column
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.types import IndexInfo, IoStats, KeyColumn, SortKey, column_of

# Checked columns that select an index; ``None`` means the cluster key.
Names: TypeAlias = tuple[ColumnName, ...] | None
# Like Names, but a column may be a SortKey, which requires an index with that direction.
OnKeys: TypeAlias = tuple[KeyColumn, ...] | None
Filter: TypeAlias = pc.Expression | str | None

Reader = TypeVar("Reader")
# Maximum number of entries in each cache of prepared readers, filters or schemas.
MAX_PREPARED = 256


class RowSource(ABC):
    """Immutable rows that can be searched and read."""

    def __init__(self) -> None:
        # Caches the columns of keys, by `on`, or else by the names or the width of the keys.
        self._key_columns: dict[Any, tuple[tuple[ColumnName, ...], KeyColumns]] = {}

    @abstractmethod
    def close(self) -> None:
        """Releases the resources of the source. Returned results remain valid."""

    # ------------------------------------------------------------------ description

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns and types."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Stored size of all columns and indexes, in bytes."""

    @property
    @abstractmethod
    def metadata(self) -> dict[str, bytes]:
        """The key/value pairs that were stored with the rows."""

    @property
    @abstractmethod
    def cluster_by(self) -> list[SortKey]:
        """The cluster key; empty if the rows do not have one."""

    @property
    @abstractmethod
    def unique(self) -> bool:
        """Whether every cluster key is known to occur once."""

    @property
    @abstractmethod
    def indexes(self) -> list[IndexInfo]:
        """The cluster index, then the secondary indexes in the order of the file."""

    @property
    @abstractmethod
    def io_stats(self) -> IoStats:
        """Reads since the last reset. In a mapped file, the first access to a block is a read."""

    @abstractmethod
    def reset_io_stats(self) -> None:
        """Sets all counts of :attr:`io_stats` to zero."""

    @abstractmethod
    def layout(self) -> LayoutNode:
        """Returns files, stripe groups, stripes, columns and streams as a tree, with sizes.

        Cost: reads the metadata of every stripe group.
        """

    @abstractmethod
    def verify(self) -> None:
        """Checks every checksum, value and index entry.

        Raises:
            CorruptFileError: a part is damaged; the message has its place and the expected value.

        Cost: reads and decodes everything.
        """

    # ------------------------------------------------------------------ finding and reading

    @abstractmethod
    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        """Returns the sort keys of the index that searches for ``on`` would use.

        Args:
            on: the columns to search for; ``None`` means the cluster key. If ``ordered``, the index
                must have the same direction as the sort keys in ``on``.
            ordered: whether the index must support bounds and prefixes.

        Raises:
            IndexUnavailableError: no index fits; the message names the existing indexes.
        """

    @abstractmethod
    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        """Returns the rows that match a request, using indexes and statistics.

        The rows of :class:`Keys` are ordered by key, then in file order. The rows of a range or
        prefix are in index order. For :class:`Where`, returns all rows that may pass the filter.

        Args:
            limit: maximum number of rows.
            reverse: for a range or prefix, whether to return the last row first.

        Raises:
            IndexUnavailableError: no index has the columns of the request.
        """

    @abstractmethod
    def asof_keys(self, by: tuple[ColumnName, ...], on: ColumnName) -> tuple[SortKey, ...]:
        """Returns the leading sort keys of an index for as-of searches, in index order.

        These are the columns ``by`` in any order, then ``on``.

        Raises:
            IndexUnavailableError: no ordered index begins so; the message names the existing ones.
        """

    @abstractmethod
    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        """Returns at most one row for each key.

        Args:
            deleted: rows to ignore. Only for a source that is a single file.

        Raises:
            IndexUnavailableError: no index fits.
        """

    @property
    def is_many(self) -> bool:
        """Whether a row's address in this source is (file, row)."""
        return self.everything.file is not None

    @abstractmethod
    def vector_columns(self) -> tuple[ColumnName, ...]:
        """Returns the columns that have a vector index in at least one file."""

    @abstractmethod
    def vector_metrics(self, column: ColumnName) -> frozenset[str]:
        """Returns the metrics of the vector indexes that the files have on a column."""

    @abstractmethod
    def nearest_parts(
        self, request: NearestRows, rows: RowSet | None = None
    ) -> Iterator[NearestPart]:
        """Yields the part of a search for the nearest rows in each file.

        Args:
            rows: if set, search only these rows, and ignore ``request.within``. Only for a source
                that is a single file.
        """

    @abstractmethod
    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        """Reads the given columns of these rows, in the order of ``rows``."""

    @abstractmethod
    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows that pass, batch by batch in file order.

        Args:
            threads: number of decoding threads; 0 means one per processor.
        """

    def projected(self, columns: Projected) -> pa.Schema:
        """Returns the schema of these columns. Cached.

        Raises:
            InvalidArgumentError: a column does not exist.
        """
        if columns is None:
            return self.schema
        schema = self._projections.get(columns)
        if schema is None:
            schema = self._project(columns)
            if len(self._projections) > MAX_PREPARED:
                self._projections.clear()
            self._projections[columns] = schema
        return schema

    @cached_property
    def _projections(self) -> dict[tuple[ColumnName, ...], pa.Schema]:
        return {}

    def _project(self, columns: tuple[ColumnName, ...]) -> pa.Schema:
        return pa.schema([self._field(name) for name in columns])

    def _field(self, name: ColumnName) -> pa.Field:
        column = resolve_column(self.schema, name)
        if len(column.steps) == 1:
            return self.schema.field(column.steps[0])
        return pa.field(output_name(name), column.type)

    @abstractmethod
    def all_rows(self) -> RowSet:
        """Returns every row, in file order. The number of a row is its position in this set."""

    @cached_property
    def everything(self) -> RowSet:
        """The result of :meth:`all_rows`. Cached."""
        return self.all_rows()

    def numbered(self, rows: RowSet) -> RowSet:
        """Replaces (file, row) addresses by row numbers of the source."""
        return rows

    @abstractmethod
    def explain_request(self, request: Request, columns: Projected) -> Plan:
        """Returns the plan for finding and reading the rows of a request, without reading data."""

    # ------------------------------------------------------------------ requests

    def on_columns(self, on: On) -> Names:
        """Returns the normalized column names of ``on``; ``None`` means the cluster key."""
        keys = self.on_keys(on)
        return None if keys is None else tuple(map(column_of, keys))

    def on_keys(self, on: On) -> OnKeys:
        """Like :meth:`on_columns`, but keeps the sort keys that the caller gave."""
        keys = on_keys(on)
        if keys is None or all(isinstance(key, str) for key in keys):
            return keys
        return tuple(map(self._on_key, keys))

    def _on_key(self, key: KeyColumn) -> KeyColumn:
        name = key_name(self.schema, resolve_column(self.schema, column_of(key)))
        return replace(key, column=name) if isinstance(key, SortKey) else name

    def _leading(self, given: GivenKeys, one: bool) -> tuple[ColumnName, ...]:
        """Returns the first columns of the cluster key, as many as the keys have."""
        cluster = self.index_keys(None, ordered=False)
        if given.names is None:
            # For one scalar, return all columns: check_one() then requires a complete key.
            return tuple(k.column for k in leading_keys(cluster, None if one else given.width))
        leading = tuple(key.column for key in cluster[: given.width])
        names = [output_name(name) for name in leading]
        if set(given.names) == set(names):
            return leading
        whole = [output_name(key.column) for key in cluster]
        if given.exact or not set(whole) <= set(given.names):
            raise InvalidArgumentError(
                f"keys with the columns {', '.join(given.names)}: expected the columns "
                + ", ".join(whole)
                + (", or the first of them" if len(whole) > 1 else "")
                + "; to search by other columns, name them in on="
            )
        return tuple(key.column for key in cluster)

    def keys_request(
        self, keys: Any, on: On = None, null_equals: bool = False, *, one: bool = False
    ) -> Keys:
        """Converts the arguments of a lookup to a request.

        Args:
            one: whether the caller asked for a single key. ``keys`` then has exactly one key.
        """
        on_names = self.on_columns(on)
        given = read_keys(keys)
        whole = one and not isinstance(keys[0], (tuple, Mapping))
        cache_key: Any = on_names
        if on_names is None:
            cache_key = (given.width, whole) if given.names is None else (given.names, given.exact)
        key_columns_of = self._key_columns.get(cache_key)
        if key_columns_of is None:
            names = self._leading(given, whole) if on_names is None else on_names
            key_columns_of = names, key_columns(self.schema, [SortKey(name) for name in names])
            if len(self._key_columns) > MAX_PREPARED:
                self._key_columns.clear()
            self._key_columns[cache_key] = key_columns_of
        names, columns = key_columns_of
        if one:
            check_one(keys[0], columns.names)
        values, usable = typed_keys(given, columns)
        return Keys(names, values, usable, null_equals)

    def range_request(
        self, lower: Any, upper: Any, on: On = None, inclusive: Inclusive = "[)"
    ) -> KeyRange:
        """Converts the arguments of a range to a request."""
        sides = inclusive_sides(inclusive)
        keys = self._bound_keys(on)
        return key_range(lower, upper, sides, key_columns(self.schema, keys), keys)

    def key_of_row(self, row: Mapping[str, Any], on: On = None) -> Any:
        """Returns the key of ``row`` as a tuple; ``row`` itself if it has only key columns."""
        keys = [key.column for key in self._bound_keys(on)]
        if set(row) <= {*keys}:
            return row
        values = []
        for key in keys:
            value: Any = row.get(key, row) if isinstance(key, str) else row
            if value is row:  # a field of a struct
                for name in resolve_column(self.schema, key).path:
                    if not isinstance(value, Mapping) or name not in value:
                        return row
                    value = value[name]
            values.append(value)
        return tuple(values)

    def prefix_request(self, prefix: Any, on: On = None, null_equals: bool = False) -> Prefix:
        """Converts the arguments of a prefix search to a request."""
        keys = self._bound_keys(on)
        return key_prefix(prefix, key_columns(self.schema, keys), keys, null_equals)

    def _bound_keys(self, on: On) -> tuple[SortKey, ...]:
        on_columns = self.on_keys(on)
        keys = self.index_keys(on_columns, ordered=True)
        return keys if on_columns is None else in_key_order(on_columns, keys)

    def where_request(self, filter: Filter, row_range: tuple[int, int] | None = None) -> Where:
        """Converts a filter, and the range of row numbers to test, to a request."""
        rows = self.everything
        if row_range is not None:
            rows = rows.slice(*row_bounds(row_range, self.num_rows))
        return Where(None if filter is None else parse_filter(filter, self.schema), rows)

    def for_filter(self, filter: Filter) -> RowSource:
        """Returns a source to scan with this filter: this source, or a part with all matches."""
        return self

    # ------------------------------------------------------------------ finding and reading at once

    def compiled(self, reader: Compiled[Reader]) -> Reader | None:
        """Returns a compiled reader; ``None`` if the core cannot read this source directly.

        Raises:
            IndexUnavailableError: no index has the reader's key columns.
        """
        return None

    def for_reading(self, columns: Projected) -> RowSource:
        """Returns the same rows, for a caller that will read ``columns`` of the rows it finds."""
        return self

    def find_and_read(
        self, keys: Keys, columns: Projected, *, first: bool = False
    ) -> tuple[pa.Table, Positions]:
        """Returns the rows of each key, and for each row the position of its key.

        Args:
            first: whether the caller needs only the first row. More rows may be returned.
        """
        rows = self.find(keys, limit=1 if first else None).expand()
        assert rows.probe is not None
        return self.read(rows, columns), rows.probe

    def read_in_order(
        self,
        request: Ordered,
        columns: Projected,
        *,
        limit: int | None,
        reverse: bool,
        offset: int,
    ) -> pa.Table:
        """Returns the rows of a range or prefix in key order, without the first ``offset`` rows."""
        end = None if limit is None else offset + limit
        rows = self.find(request, limit=end, reverse=reverse)
        return self.read(rows.slice(offset, end) if offset else rows, columns)

    def take(self, numbers: RowNumbers, columns: Projected) -> pa.Table:
        """Returns rows by number, in the order of ``numbers``."""
        return self.read(self.all_rows().pick(numbers), columns)

    def count_matches(self, keys: Keys) -> Positions:
        """Returns the number of rows of each key."""
        return self.find(keys).counts

    def count_passing(self, where: Where, *, threads: int) -> int:
        """Returns the number of rows that pass a filter."""
        batches = self.scan_batches(where, (), batch_rows=1 << 16, threads=threads)
        return sum(batch.num_rows for batch in batches)
