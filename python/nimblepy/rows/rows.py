"""Rows: the reading methods of all handles, implemented once on top of a RowSource."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Parameters, with_params
from nimblepy.rows.arguments import (
    MOST_BATCH_ROWS,
    Columns,
    Inclusive,
    On,
    Projected,
    at_least,
    checked_fraction,
    column_names,
    generator_seed,
    inclusive_sides,
    is_many,
    on_keys,
    row_limit,
    row_numbers,
    row_offset,
    sample_size,
    thread_count,
)
from nimblepy.rows.as_numpy import numpy_columns, numpy_row
from nimblepy.rows.compiled import Getter, RangeReader, Ranges, SingleRows
from nimblepy.rows.gather import keep, lowest_weights, with_missing
from nimblepy.rows.nearest import (
    Metric,
    NearestRows,
    check_nearest,
    find_nearest,
    is_all,
    nearest_plan,
    read_queries,
    vector_column,
    with_distances,
)
from nimblepy.rows.nearest_finder import NearestFinder
from nimblepy.rows.page import Page, read_page
from nimblepy.rows.plan import Plan
from nimblepy.rows.request import Ordered, Request
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.scan import Scan
from nimblepy.rows.source import MAX_PREPARED, Filter, RowSource
from nimblepy.schema.protocols import Key, ManyKeys, RowIndices
from nimblepy.schema.types import IndexInfo, IoStats, SortKey

Version = TypeVar("Version", bound=RowSource)
_Method = TypeVar("_Method", bound=Callable[..., Any])
# Getters by key columns, then by the columns to read.
Getters: TypeAlias = dict[On, dict[Projected, Getter]]
# The arguments that a nearest-rows finder was prepared for: on, metric, columns and exact.
_NearestKey: TypeAlias = tuple[str | None, Metric | None, Projected, bool]
# What a lookup returns for keys without rows.
Missing: TypeAlias = Literal["drop", "null"]
# Maximum number of getters to prepare for a new source before a handle switches to it.
_CARRIED = 8


def _quick(method: _Method) -> _Method:
    """Makes the core answer calls that pass only a key. All other calls run ``method``.

    The core calls ``method.slow`` for keys that it cannot encode.
    """
    quick = _core.quick_get(method)
    functools.update_wrapper(quick, method)
    return quick


def _not_here(key: Any) -> Any:
    """The getter for sources without a compiled reader. Every key takes the general path."""
    return NotImplemented


@dataclass(frozen=True, slots=True, eq=False)
class Position(Generic[Version]):
    """The version that a handle reads. Immutable: to switch versions, a handle replaces it.

    Attributes:
        rows: the rows of the version.
    """

    rows: Version


class Rows(_core.PointBase, ABC):
    """The reading methods of :class:`nimblepy.File`, :class:`nimblepy.Dataset` and tables.

    Rows are numbered from 0 in file order. Results are :class:`pyarrow.Table`. ``columns`` is a
    list of names and dotted paths of struct fields (``location.lat``); ``None`` means all columns.
    Any number of threads may use the same handle.
    """

    _position: Position[Any]

    def __init__(self) -> None:
        # Compiled readers of the current source, by `on` and columns.
        self._getters: Getters = {}
        self._range_readers: dict[tuple[Projected, On], RangeReader | None] = {}
        self._nearest_finders: dict[_NearestKey, NearestFinder | None] = {}

    @property
    def _current(self) -> RowSource:
        """The current source. A call reads this once, so that its result is from one version."""
        source: RowSource = self._position.rows
        return source

    # ------------------------------------------------------------------ description

    @property
    def schema(self) -> pa.Schema:
        """Columns and types."""
        return self._current.schema

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._current.num_rows

    @property
    def size_bytes(self) -> int:
        """Stored size of all columns and indexes, in bytes."""
        return self._current.size_bytes

    @property
    def cluster_by(self) -> list[SortKey]:
        """The cluster key; empty if the rows do not have one."""
        return self._current.cluster_by

    @property
    def unique(self) -> bool:
        """Whether every cluster key is known to occur once."""
        return self._current.unique

    @property
    def indexes(self) -> list[IndexInfo]:
        """The cluster index, then the secondary indexes in the order of the file."""
        return self._current.indexes

    @property
    def io_stats(self) -> IoStats:
        """Reads since the last reset. In a mapped file, the first access to a block is a read."""
        return self._current.io_stats

    def reset_io_stats(self) -> None:
        """Sets all counts of :attr:`io_stats` to zero."""
        self._current.reset_io_stats()

    def verify(self) -> None:
        """Checks every checksum, value and index entry. For tables, also the delete files.

        Raises:
            CorruptFileError: a part is damaged; the message has its place and the expected value.
            FileNotFoundError: a file is missing. ``nimble verify`` lists all such files.

        Cost: reads and decodes everything.
        """
        self._current.verify()

    # ------------------------------------------------------------------ rows by key

    @_quick
    def get(
        self,
        key: Key,
        columns: Columns = None,
        *,
        on: On = None,
        default: Any = None,
        null_equals: bool = False,
        as_numpy: bool = False,
    ) -> dict[str, Any] | None:
        """Returns one row as a dict of Python values; ``default`` if no row has the key.

        If several rows match, returns the first in file order. This is the fastest way to read one
        row from Python.

        Args:
            key: a scalar; a tuple or dict for a key of several columns.
            null_equals: whether a null in ``key`` matches null keys. Otherwise, a key with a null
                does not match any row.
            as_numpy: whether to return lists of numbers, such as vectors, as numpy arrays.

        Raises:
            IndexUnavailableError: no index has the columns of ``on``.
            InvalidArgumentError: a value has the wrong type (text for a number, a naive time for a
                column with a zone), or is between two values of the column (1.5 for int64; the
                double 0.1 for float32). A value outside the column's range (300 for int8) is not an
                error, but does not match any row. These rules apply to all keys and prefixes.
                Bounds of ranges may be between two values. Text is accepted for a date, time or
                UUID, and is parsed as in filters.

        Cost: two binary searches and one block per column, without I/O if these blocks are in
            memory. With many files, also a binary search in the bounds of the files.
        """
        if type(columns) is list:
            columns = tuple(columns)
        elif columns is not None and type(columns) is not tuple:
            columns = column_names(columns)
        if on is not None and not isinstance(on, str):
            on = on_keys(on)
        try:
            getter = self._getters[on][columns]
        except KeyError:
            getter = self._prepare_getter(columns, on)
        except TypeError:  # an invalid column
            column_names(columns)
            raise
        row = NotImplemented if as_numpy else getter(key)
        if row is NotImplemented:
            row = self._first_row(key, columns, on, null_equals=null_equals, as_numpy=as_numpy)
        answer: dict[str, Any] | None = default if row is None else row
        return answer

    def _first_row(
        self,
        key: Key,
        columns: Columns = None,
        on: On = None,
        *,
        null_equals: bool = False,
        as_numpy: bool = False,
    ) -> dict[str, Any] | None:
        """Answers :meth:`get` without a compiled reader; ``None`` if no row has the key."""
        source = self._current
        request = source.keys_request([key], on, null_equals, one=True)
        rows, _ = source.find_and_read(request, column_names(columns), first=True)
        if not rows.num_rows:
            return None
        return numpy_row(rows) if as_numpy else rows.slice(0, 1).to_pylist()[0]

    get.slow = _first_row  # type: ignore[attr-defined]

    def lookup(
        self,
        keys: ManyKeys,
        *,
        on: On = None,
        columns: Columns = None,
        probe_row: str | None = None,
        null_equals: bool = False,
        missing: Missing = "drop",
        as_numpy: bool = False,
    ) -> pa.Table:
        """Returns all rows that match any of ``keys``, ordered by key position, then in file order.

        Args:
            keys: any iterable of scalars, tuples or dicts; an array of Arrow or numpy; a series or
                index of pandas or polars; or tabular data with the key's columns. If a key is given
                twice, its rows are returned twice. A key shorter than the cluster key matches every
                row whose key begins with it. A scalar is a key of one column.
            on: the indexed columns. The default is the primary key of a table that has one, and
                otherwise the cluster key. The leading columns of the cluster key are enough. The
                direction of a sort key is ignored.
            probe_row: name of an int64 column to add as the first column. It has the position of
                the key that the row matches.
            null_equals: whether nulls match null keys. Otherwise, a key with a null does not match
                any row.
            missing: what to return for a key without a row. ``"drop"`` returns no row. ``"null"``
                returns a row of nulls at the position of the key, so that rows of unique keys are
                aligned with the keys.
            as_numpy: whether to return a dict of numpy arrays by column. Nulls are NaN in floats,
                NaT in times, masked in integers, and ``None`` in arrays of objects, which all
                other types with nulls are. Vectors become the rows of a matrix.

        Raises:
            IndexUnavailableError, InvalidArgumentError: see :meth:`get`.

        Cost: sorts the keys once, and reads each key chunk and block once. Key columns are not
            read, because their values are in the matching keys. Uses one thread and releases the
            GIL. With many files, opens only the files whose bounds contain a key. With a secondary
            index, searches every file.
        """
        if missing not in get_args(Missing):
            raise InvalidArgumentError(f"missing: expected 'drop' or 'null', got {missing!r}")
        source, names = self._current, column_names(columns)
        schema = source.projected(names)
        if probe_row is not None:
            if not isinstance(probe_row, str):
                raise InvalidArgumentError(f"probe_row: expected a name, got {probe_row!r}")
            if probe_row in schema.names:
                raise InvalidArgumentError(f"probe_row: there is a column {probe_row!r} already")
        request = source.keys_request(keys, on, null_equals)
        table, probes = source.find_and_read(request, names)
        if missing == "null":
            table, probes = with_missing(table, probes, len(request))
        if probe_row is not None:
            field = pa.field(probe_row, pa.int64(), nullable=False)
            table = table.add_column(0, field, pa.array(probes))
        return numpy_columns(table) if as_numpy else table

    def contains(
        self, keys: ManyKeys, *, on: On = None, null_equals: bool = False
    ) -> pa.BooleanArray:
        """Returns for each key whether any row has the key.

        Cost: reads only the index. A hash index does not store keys, so with a hash index, the key
            columns of the candidate rows are read as well.
        """
        return pc.greater(self.count(keys, on=on, null_equals=null_equals), 0)

    def count(self, keys: ManyKeys, *, on: On = None, null_equals: bool = False) -> pa.Int64Array:
        """Returns for each key the number of rows that have the key. Cost: see :meth:`contains`."""
        source = self._current
        return pa.array(source.count_matches(source.keys_request(keys, on, null_equals)))

    def range(
        self,
        lower: Key = None,
        upper: Key = None,
        *,
        on: On = None,
        inclusive: Inclusive = "[)",
        columns: Columns = None,
        limit: int | None = None,
        reverse: bool = False,
        offset: int = 0,
        after: Key = None,
    ) -> pa.Table:
        """Returns the rows between two bounds, in key order.

        Bounds are compared in the order of the index. For a descending column, ``lower`` is the
        larger value. A side without a bound includes the nulls at that end. To select rows by
        value, whatever the direction, use ``scan(filter=...)``, which also uses the index. Rows
        with equal keys are ordered by file.

        Args:
            lower, upper: a scalar, tuple or dict. A bound shorter than the key includes or excludes
                all keys that begin with it. ``None`` means unbounded.
            on: the first columns of the index. If several indexes have the same columns, use
                :class:`nimblepy.SortKey` to choose a direction. The default is the cluster key,
                also for a table with another primary key.
            inclusive: ``"[)"``, ``"[]"``, ``"()"`` or ``"(]"``.
            limit: maximum number of rows to return.
            reverse: whether to return the last key first. With ``limit``, this returns the last
                rows of the range.
            offset: number of rows to skip. The index skips them without reading them.
            after: return only rows after this key. For the next page, pass the complete last key of
                the previous page, or its last row as a dict. If keys are unique, no row is skipped.
                ``after`` replaces ``upper`` if ``reverse`` is set, and otherwise ``lower``.

        Raises:
            IndexUnavailableError: no index has the columns and directions of ``on``.
            InvalidArgumentError: a bound has the wrong type or too many values.

        Cost: two searches in the index, then the blocks of the rows that are returned.
        """
        if after is not None:
            if isinstance(after, Mapping):
                after = self._current.key_of_row(after, on)
            sides = inclusive_sides(inclusive)
            if reverse:
                _only_one(upper=upper, after=after)
                upper, inclusive = after, "[)" if sides[0] else "()"
            else:
                _only_one(lower=lower, after=after)
                lower, inclusive = after, "(]" if sides[1] else "()"
        if offset == 0 and (reader := self._range_reader(columns, on)) is not None:
            rows = reader.range(lower, upper, inclusive, limit, reverse)
            if type(rows) is pa.Table:
                return rows
        source, names, limit = self._checked(columns, limit)
        offset = row_offset(offset)
        request = source.range_request(lower, upper, on, inclusive)
        return source.read_in_order(request, names, limit=limit, reverse=reverse, offset=offset)

    def prefix(
        self,
        prefix: Key,
        *,
        on: On = None,
        columns: Columns = None,
        limit: int | None = None,
        reverse: bool = False,
        offset: int = 0,
        null_equals: bool = False,
    ) -> pa.Table:
        """Returns the rows whose leading key columns equal ``prefix``, in key order.

        Args:
            prefix: a scalar, a tuple, or a dict of the first columns of the key. The last element
                may be :func:`nimblepy.starts_with`.
            on: see :meth:`range`.
            limit, reverse, offset: see :meth:`range`. To read the next page of a prefix, use
                ``range(upper=prefix, after=last_key, inclusive="[]")``.
            null_equals: whether a null in ``prefix`` matches null keys. Otherwise, a prefix with a
                null does not match any row.

        Raises:
            IndexUnavailableError, InvalidArgumentError: see :meth:`range`.
        """
        if offset == 0 and not null_equals:
            reader = self._range_reader(columns, on)
            if reader is not None:
                rows = reader.prefix(prefix, limit, reverse)
                if type(rows) is pa.Table:
                    return rows
        source, names, limit = self._checked(columns, limit)
        offset = row_offset(offset)
        request = source.prefix_request(prefix, on, null_equals)
        return source.read_in_order(request, names, limit=limit, reverse=reverse, offset=offset)

    def page(
        self,
        prefix: Key = None,
        *,
        lower: Key = None,
        upper: Key = None,
        on: On = None,
        inclusive: Inclusive = "[)",
        columns: Columns = None,
        limit: int = 200,
        reverse: bool = False,
        token: str | None = None,
    ) -> Page:
        """Returns one page of :meth:`prefix` or :meth:`range`, and the token of the next one.

        All pages together have all rows, even if keys occur several times. A page begins after the
        last key of the page before, so a token remains valid after a compaction or another change:
        :attr:`Page.moved` then says that the rows are from another snapshot. If the last key occurs
        several times and the page has moved, rows with this key may be repeated or missing, because
        their order may have changed.

        Args:
            prefix, lower, upper, on, inclusive, reverse: see :meth:`prefix` and :meth:`range`. Give
                the same values for all pages.
            limit: maximum number of rows of the page.
            token: ``next`` of the page before; ``None`` for the first page.

        Raises:
            InvalidArgumentError: the token is damaged, or belongs to other bounds; ``limit`` is
                below 1.
            IndexUnavailableError: see :meth:`range`.

        Cost: as :meth:`range` with ``limit + 1``, and a second search for all but the first page.
        """
        most = at_least("limit", limit, 1)
        _only_one(prefix=prefix, bounds=_both(lower, upper))
        state, source, names = self._page_state(), self._current, column_names(columns)
        request: Ordered
        if prefix is None:
            request = source.range_request(lower, upper, on, inclusive)
        else:
            request = source.prefix_request(prefix, on)
        return read_page(
            source, request, names, limit=most, reverse=reverse, token=token, state=state
        )

    def _page_state(self) -> str:
        """Identifies the snapshot. Files do not change."""
        return ""

    def _checked(
        self, columns: Columns, limit: int | None
    ) -> tuple[RowSource, Projected, int | None]:
        """Checks arguments of a range or prefix. Returns the source, the columns and the limit."""
        source, names = self._current, column_names(columns)
        source.projected(names)
        return source, names, row_limit(limit)

    def row_ranges(
        self,
        keys: ManyKeys | None = None,
        *,
        lower: Key = None,
        upper: Key = None,
        prefix: Key = None,
        on: On = None,
        inclusive: Inclusive = "[)",
        null_equals: bool = False,
    ) -> pa.Table:
        """Returns the numbers of matching rows, from the index alone.

        Give ``keys``, or ``lower`` / ``upper``, or ``prefix``. Each row of the result is a
        half-open range of row numbers for :meth:`take`, in the int64 columns ``probe_row`` (the
        position of the key), ``begin`` and ``end``. For a range or prefix, the result is in key
        order. Keys without rows are left out.
        """
        given = _only_one(keys=keys, bounds=_both(lower, upper), prefix=prefix)
        source = self._current
        request: Request
        if given == "keys":
            request = source.keys_request(keys, on, null_equals)
        elif given == "prefix":
            request = source.prefix_request(prefix, on, null_equals)
        else:
            request = source.range_request(lower, upper, on, inclusive)
        return _range_table(source.numbered(source.find(request)))

    # ------------------------------------------------------------------ nearest rows

    def nearest(
        self,
        query: object,
        k: int = 10,
        *,
        on: str | None = None,
        metric: Metric | None = None,
        columns: Columns = None,
        filter: Filter = None,
        params: Parameters = None,
        prefix: Key = None,
        lower: Key = None,
        upper: Key = None,
        recall: float = 0.95,
        exact: bool = False,
    ) -> pa.Table:
        """Returns the rows whose vectors are nearest to ``query``, nearest first, ties by row.

        With a :class:`~nimblepy.VectorIndex` and many rows, the search reads only the nearest lists
        of the index. If a file is small, or if a filter or a part of the cluster key leaves few
        rows, it compares all of these rows. Null vectors, vectors with a null, NaN or infinity, and
        zero vectors under cosine are never returned.

        Args:
            query: a vector: a list, a numpy array or an Arrow array. For several queries, pass a
                matrix or an Arrow column of lists. The result then begins with the column
                ``_query``, which has the position of each row's query.
            k: number of rows per query, 1 to 10,000. If fewer rows are allowed, all are returned.
            on: the column of vectors. It may be omitted if only one column has vectors, or if only
                one of them has an index.
            metric: ``"l2"``, ``"cosine"`` or ``"dot"``; ``None`` means the metric of the index, or
                ``"l2"`` without an index. A metric that differs from the index needs
                ``exact=True`` or ``recall=1``.
            columns: columns of the result; ``None`` means all columns.
            filter: return only rows that pass this filter; see :meth:`scan`.
            params: values of the filter's parameters.
            prefix, lower, upper: return only rows in this part of the cluster key; see
                :meth:`prefix` and :meth:`range`.
            recall: the share of the true nearest rows to find. It holds for queries that resemble
                the rows of the file, or the ``queries`` that the index was built with. With 1, the
                search compares all rows.
            exact: whether to compare all rows. This does not need an index.

        Returns:
            The columns and ``_distance`` (float32): the squared Euclidean distance, 1 - cosine, or
            minus the dot product.

        Raises:
            InvalidArgumentError: the query has another length than the vectors, has numbers that
                are not finite, or has only zeros under cosine; or the index has another metric.

        Cost: if the file is not mapped, three rounds of reads: for the index's lists, for the
            vectors of candidates, and for the columns of the result.
        """
        exact = bool(exact) or is_all(recall)
        part = filter is not None or prefix is not None or lower is not None or upper is not None
        finder = None
        # A finder opens all files. A part of the rows may need only some of them.
        if not part or not self._current.is_many:
            finder = self._nearest_finder(on, metric, columns, exact)
        if finder is not None:
            rows = finder.nearest(query, k, recall, filter, params, prefix, lower, upper)
            if rows is not NotImplemented:
                return rows
        names = column_names(columns)
        source, request, many = self._nearest_request(
            query, k, on, metric, filter, params, prefix, lower, upper, recall, exact
        )
        source.projected(names)
        found = find_nearest(request, source)
        rows = found.rows if source.is_many else found.rows.without_file()
        return with_distances(source.read(rows, names), found, many)

    def _nearest_request(
        self,
        query: object,
        k: int,
        on: str | None,
        metric: Metric | None,
        filter: Filter,
        params: Parameters,
        prefix: Key,
        lower: Key,
        upper: Key,
        recall: float,
        exact: bool,
    ) -> tuple[RowSource, NearestRows, bool]:
        check_nearest(k, recall, metric)
        source = self._current
        column, width = vector_column(source, on)
        queries, many = read_queries(query, width)
        within: Ordered | None = None
        if _only_one(prefix=prefix, bounds=_both(lower, upper)) == "prefix":
            within = source.prefix_request(prefix)
        elif lower is not None or upper is not None:
            within = source.range_request(lower, upper)
        bound = with_params(filter, params)
        node = None
        if bound is not None:
            node = source.where_request(bound, None).filter
        request = NearestRows(column, metric, queries, k, float(recall), exact, node, within)
        return source, request, many

    # ------------------------------------------------------------------ rows by number, or all

    def take(self, rows: RowIndices, columns: Columns = None) -> pa.Table:
        """Returns rows by number, in the given order, with repeats.

        Args:
            rows: non-negative integers as a list, numpy array or Arrow array. In a dataset, rows
                are numbered across all files, and the numbers are only valid for this handle.

        Raises:
            InvalidArgumentError: a number is out of range.
        """
        source = self._current
        return source.take(row_numbers(rows, source.num_rows), column_names(columns))

    def sample(
        self,
        fraction: float | None = None,
        *,
        n: int | None = None,
        seed: int | None = None,
        columns: Columns = None,
        filter: Filter = None,
        params: Parameters = None,
    ) -> pa.Table:
        """Returns rows drawn at random, in file order. Every row has the same probability.

        Args:
            fraction: the probability of each row, from 0 to 1.
            n: the number of rows to draw, instead of ``fraction``; all rows if there are fewer.
            seed: seed of the random generator. With the same seed and the same data, the same rows
                are drawn.
            filter, params: draw only from rows that pass this filter; see :meth:`scan`.

        Cost: like :meth:`take` of the drawn rows. Nearly every block is read, unless ``fraction``
            is well below one row per block. With ``filter``, like a scan.
        """
        if n is not None:
            return self._sample_rows(sample_size(fraction, n), seed, columns, filter, params)
        fraction = checked_fraction(fraction)
        generator = np.random.default_rng(generator_seed(seed))
        if filter is not None or params is not None:
            scan = self.scan(columns, filter=filter, params=params)
            drawn_rows = (keep(b, generator.random(b.num_rows) < fraction) for b in scan)
            return pa.Table.from_batches(drawn_rows, schema=scan.schema)
        source = self._current
        num_rows = source.num_rows
        drawn, last = [np.empty(0, dtype=np.int64)], -1 if fraction else num_rows
        while last < num_rows:  # the gaps between drawn rows have a geometric distribution
            count = int((num_rows - last) * fraction * 1.1) + 16
            next_rows = last + np.cumsum(generator.geometric(fraction, count))
            drawn.append(next_rows)
            last = int(next_rows[-1])
        rows = np.concatenate(drawn)
        return source.take(rows[rows < num_rows].astype(np.uint64), column_names(columns))

    def _sample_rows(
        self,
        size: int,
        seed: int | None,
        columns: Columns,
        filter: Filter,
        params: Parameters,
    ) -> pa.Table:
        """Returns ``size`` rows drawn at random, in file order."""
        generator = np.random.default_rng(generator_seed(seed))
        if filter is not None or params is not None:
            scan = self.scan(columns, filter=filter, params=params)
            return lowest_weights(scan, scan.schema, size, generator)
        source = self._current
        rows = generator.choice(source.num_rows, min(size, source.num_rows), replace=False)
        return source.take(np.sort(rows).astype(np.uint64), column_names(columns))

    def scan(
        self,
        columns: Columns = None,
        *,
        filter: Filter = None,
        params: Parameters = None,
        row_range: tuple[int, int] | None = None,
        batch_rows: int = 65536,
        threads: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Scan:
        """Returns a scan. Run it with ``to_table``, ``to_batches``, ``to_reader`` or ``count``.

        Args:
            filter: a pyarrow expression, in which NaN compares as in IEEE 754; or SQL text in
                DuckDB's dialect, in which NaN equals itself and is above all numbers. Indexes and
                zone maps exclude rows, and the filter is evaluated on the other rows. In SQL,
                ``a.b`` is the field ``b`` of ``a``, and ``"a.b"`` is the column named ``a.b``.
                See docs/reference/filters.md for the whole language.
            params: values of the filter's parameters: a dict for ``$name``, a list for ``?``.
            row_range: half-open range of row numbers to scan.
            batch_rows: maximum number of rows in a batch.
            threads: number of decoding threads; ``None`` means one per processor.
            limit: maximum number of rows to return.
            offset: number of passing rows to skip. With a filter, the skipped rows must still be
                found.

        Raises:
            InvalidArgumentError: a column does not exist, or the filter is not valid.
        """
        if params is not None:
            filter = with_params(filter, params)
        source = self._current if row_range is not None else self._current.for_filter(filter)
        return Scan(
            source,
            source.where_request(filter, row_range),
            columns=None if columns is None else column_names(columns),
            batch_rows=min(at_least("batch_rows", batch_rows, 1), MOST_BATCH_ROWS),
            threads=0 if threads is None else thread_count(threads),
            limit=None if limit is None else row_limit(limit),
            offset=row_offset(offset),
        )

    def to_table(
        self, columns: Columns = None, filter: Filter = None, params: Parameters = None
    ) -> pa.Table:
        """Returns all rows that pass ``filter``, in file order."""
        return self.scan(columns, filter=filter, params=params).to_table()

    def to_pandas(
        self, columns: Columns = None, filter: Filter = None, params: Parameters = None
    ) -> Any:
        """Returns all rows that pass ``filter`` as a pandas DataFrame."""
        return self.to_table(columns, filter, params).to_pandas()

    def head(
        self,
        rows: int = 5,
        columns: Columns = None,
        filter: Filter = None,
        params: Parameters = None,
    ) -> pa.Table:
        """Returns the first rows that pass ``filter``, in file order."""
        most = at_least("rows", rows, 0)
        return self.scan(columns, filter=filter, params=params, limit=most).to_table()

    def count_rows(self, filter: Filter = None, params: Parameters = None) -> int:
        """Returns the number of rows that pass ``filter``.

        Reads only the columns that the filter needs.
        """
        return self.scan((), filter=filter, params=params).count()

    def explain(
        self,
        keys: Key | ManyKeys = None,
        *,
        on: On = None,
        columns: Columns = None,
        lower: Key = None,
        upper: Key = None,
        inclusive: Inclusive = "[)",
        prefix: Key = None,
        filter: Filter = None,
        params: Parameters = None,
        row_range: tuple[int, int] | None = None,
        nearest: object = None,
        k: int = 10,
        metric: Metric | None = None,
        recall: float = 0.95,
        exact: bool = False,
    ) -> Plan:
        """Returns the plan of a lookup, range, prefix, scan or vector search. It prints as a tree.

        Give the arguments of one of these methods. ``keys`` may be a single key.

        Args:
            nearest: a query of :meth:`nearest`, with its other arguments. The search is run, and
                the plan says what it did: lists probed, rows scored from codes, rows compared by
                their vectors, and why.

        Cost: searches the index, so that row ranges are exact. Reads data only for ``nearest``.
            With many files, opens every file that may have matching rows.
        """
        if nearest is not None:
            if keys is not None or row_range is not None or not (on is None or isinstance(on, str)):
                raise InvalidArgumentError(
                    "explain: nearest= takes only the arguments of nearest(), not keys or row_range"
                )
            searched, asked, _ = self._nearest_request(
                nearest, k, on, metric, filter, params, prefix, lower, upper, recall, exact
            )
            before = searched.io_stats
            found = find_nearest(asked, searched)
            after = searched.io_stats
            return nearest_plan(
                asked, found, after.reads - before.reads, after.bytes_read - before.bytes_read
            )
        given = _only_one(
            keys=keys, bounds=_both(lower, upper), prefix=prefix, filter=_both(filter, row_range)
        )
        source = self._current
        request: Request
        if given == "filter" or (given is None and on is None):
            if on is not None:
                raise InvalidArgumentError(
                    "explain: on= does not apply to a filter, which chooses its indexes itself"
                )
            bound_filter = with_params(filter, params)
            source = source if row_range is not None else source.for_filter(bound_filter)
            request = source.where_request(bound_filter, row_range)
        elif given == "keys":
            many = is_many(keys)
            request = source.keys_request(keys if many else [keys], on, False, one=not many)
        elif given == "prefix":
            request = source.prefix_request(prefix, on)
        else:
            request = source.range_request(lower, upper, on, inclusive)
        names = column_names(columns)
        source.projected(names)
        return source.explain_request(request, names)

    # ------------------------------------------------------------------ compiled readers

    def _prepare_getter(self, columns: Projected, on: On) -> Getter:
        source = self._current
        getter = _getter_of(source, columns, on)
        self._keep(source, lambda: self._keep_getter(getter, columns, on))
        return getter

    def _keep_getter(self, getter: Getter, columns: Projected, on: On) -> None:
        if sum(map(len, self._getters.values())) > MAX_PREPARED:
            self._getters.clear()
        self._getters.setdefault(on, {})[columns] = getter
        if columns is None and on is None and getter is not _not_here:
            self._quick = getter

    def _range_reader(self, columns: Columns, on: On) -> RangeReader | None:
        """Returns the compiled reader of ranges; ``None`` if the source does not have one."""
        if columns is not None and type(columns) is not tuple:
            if type(columns) is not list:
                return None
            columns = tuple(columns)
        if type(on) is list:
            on = tuple(on)
        key: Any = columns, on
        try:
            return self._range_readers[key]
        except KeyError:
            return self._prepare_range_reader(key)
        except TypeError:  # an invalid column: the general path raises the error
            return None

    def _prepare_range_reader(self, key: tuple[Projected, On]) -> RangeReader | None:
        source = self._current
        reader = source.compiled(Ranges(column_names(key[0]), key[1]))

        def keep_reader() -> None:
            if len(self._range_readers) > MAX_PREPARED:
                self._range_readers.clear()
            self._range_readers[key] = reader

        self._keep(source, keep_reader)
        return reader

    def _nearest_finder(
        self, on: str | None, metric: Metric | None, columns: Columns, exact: bool
    ) -> NearestFinder | None:
        """Returns the finder of nearest rows; ``None`` if the general path must answer."""
        if columns is not None and type(columns) is not tuple:
            if type(columns) is not list:
                return None
            columns = tuple(columns)
        key: Any = on, metric, columns, exact
        try:
            return self._nearest_finders[key]
        except KeyError:
            return self._prepare_nearest_finder(key)
        except TypeError:  # an invalid argument: the general path raises the error
            return None

    def _prepare_nearest_finder(self, key: _NearestKey) -> NearestFinder | None:
        on, metric, columns, exact = key
        source = self._current
        finder = NearestFinder.of(source, on, metric, column_names(columns), bool(exact))

        def keep_finder() -> None:
            if len(self._nearest_finders) > MAX_PREPARED:
                self._nearest_finders.clear()
            self._nearest_finders[key] = finder

        self._keep(source, keep_finder)
        return finder

    def _keep(self, source: RowSource, keep: Callable[[], None]) -> None:
        """Calls ``keep``, which caches a reader of ``source``, if ``source`` is still current."""
        keep()

    def _release(self) -> None:
        """Drops all compiled readers."""
        self._quick = None
        self._getters.clear()
        self._range_readers.clear()
        self._nearest_finders.clear()

    # ------------------------------------------------------------------ as a Python object

    @abstractmethod
    def close(self) -> None:
        """Releases the resources of this handle. Returned results remain valid."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Returns an Arrow stream of all rows. Use :meth:`scan` for fewer columns or rows."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self.num_rows

    def __bool__(self) -> bool:
        """Returns True even if there are no rows, because a handle is not a list."""
        return True


def _getter_of(source: RowSource, columns: Projected, on: On) -> Getter:
    names = column_names(columns)
    source.projected(names)
    reader = source.compiled(SingleRows(names, on))
    return _not_here if reader is None else reader.getter()


def getters_for(handle: Rows, source: RowSource) -> Getters:
    """Prepares getters of a new source, for the keys and columns that the handle used last."""
    used = [(on, columns) for on, some in handle._getters.items() for columns in some]
    getters: Getters = {}
    for on, columns in used[-_CARRIED:]:
        getters.setdefault(on, {})[columns] = _getter_of(source, columns, on)
    return getters


def keep_getters(handle: Rows, getters: Getters) -> None:
    """Stores getters of the current source in a handle."""
    for on, some in getters.items():
        for columns, getter in some.items():
            handle._keep_getter(getter, columns, on)


def source_of(handle: Rows) -> RowSource:
    """Returns the current source of a handle, for other modules of nimblepy."""
    return handle._current


def _both(a: Any, b: Any) -> Any:
    return None if a is None and b is None else (a, b)


def _only_one(**arguments: Any) -> str | None:
    """Returns the name of the argument that is not ``None``; ``None`` if there is none.

    Raises:
        InvalidArgumentError: more than one argument is given.
    """
    given = [name for name, value in arguments.items() if value is not None]
    if len(given) > 1:
        raise InvalidArgumentError(f"give {' or '.join(given)}, not both")
    return given[0] if given else None


def _range_table(rows: RowSet) -> pa.Table:
    """Returns the rows as a table of ranges. Adjacent rows of one probe are merged."""
    begin, end = rows.begin.astype(np.int64), rows.ends.astype(np.int64)
    probe = np.zeros(len(begin), dtype=np.int64) if rows.probe is None else rows.probe
    if len(begin):
        breaks = np.flatnonzero((begin[1:] != end[:-1]) | (np.diff(probe) != 0)) + 1
        first, last = np.concatenate(([0], breaks)), np.concatenate((breaks, [len(begin)])) - 1
        probe, begin, end = probe[first], begin[first], end[last]
    return pa.table({"probe_row": probe, "begin": begin, "end": end})
