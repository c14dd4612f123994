"""Reading files: :func:`open` gives a :class:`File`."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.columns import resolve_column
from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.explain import explain_keys, explain_rows, explain_scan
from nimblepy.keys import (
    KeyColumns,
    as_tuple,
    key_columns,
    probe_batch,
    single_row,
    typed_bound,
    typed_prefix,
)
from nimblepy.layout import file_layout
from nimblepy.scan import Scan
from nimblepy.storage import REMOTE_GAP, resolve
from nimblepy.tree_types import LayoutNode, Plan
from nimblepy.types import IndexInfo, IoStats, SortKey

_INCLUSIVE = {"[)": (True, False), "[]": (True, True), "()": (False, False), "(]": (False, True)}
# Rows of one record batch of a lookup's result.
_RESULT_ROWS = 1 << 20

Ranges = np.ndarray[Any, np.dtype[np.uint64]]


def open(
    source: Any,
    *,
    filesystem: Any = None,
    mmap: bool = True,
    cache_bytes: int = 256 << 20,
    verify: str = "lazy",
) -> File:
    """Opens a file for scans and lookups.

    Args:
        source: a path, a URI (``s3://...``), bytes, memoryview, :class:`pyarrow.Buffer`, or a
            seekable binary file object.
        filesystem: :class:`pyarrow.fs.FileSystem` or fsspec file system of ``source``.
        mmap: map a local file into memory; otherwise it is read with ``pread``. A mapped file must
            not be truncated in place while it is open (replacing it by renaming is safe).
        cache_bytes: bound on index groups and on blocks of files that are not mapped.
        verify: ``"lazy"`` checks the checksum of every part when it is first used; ``"full"``
            checks the whole file now.

    Raises:
        CorruptFileError: not a nimblepy file, or a damaged one.
        UnsupportedVersionError: written by a newer version.
        OSError: the file is missing or cannot be read.

    Cost: one read of the file's last 64 KiB (footers larger than that: one more).
    """
    if verify not in ("lazy", "full"):
        raise InvalidArgumentError(f"verify: expected 'lazy' or 'full', got {verify!r}")
    if isinstance(cache_bytes, bool) or not isinstance(cache_bytes, int) or cache_bytes < 0:
        raise InvalidArgumentError(f"cache_bytes: expected an int >= 0, got {cache_bytes!r}")
    core = _open_core(source, filesystem, mmap, cache_bytes)
    file = File(core, source, {"filesystem": filesystem, "mmap": mmap, "cache_bytes": cache_bytes})
    if verify == "full":
        file.verify()
    return file


def _open_core(source: Any, filesystem: Any, mmap: bool, cache_bytes: int) -> Any:
    if isinstance(source, (str, os.PathLike)):
        remote, path = resolve(source, filesystem)
        if remote is None:
            return _core.open_path(path, mmap, cache_bytes)
        return _core.open_python(remote.open_input_file(path), path, REMOTE_GAP, cache_bytes)
    if isinstance(source, (bytes, bytearray, memoryview, pa.Buffer)):
        return _core.open_buffer(source, cache_bytes)
    if hasattr(source, "read") and hasattr(source, "seek"):
        name = getattr(source, "name", None)
        shown = name if isinstance(name, str) else f"<{type(source).__name__}>"
        return _core.open_python(source, shown, 4096, cache_bytes)
    raise InvalidArgumentError(
        "source: expected a path, URI, bytes, pyarrow.Buffer or a seekable binary file, "
        f"got {type(source).__name__}"
    )


class File:
    """An open file. Any number of threads may use one; it pickles by reopening its source.

    Rows are numbered from 0 in file order. Results are :class:`pyarrow.Table`; ``columns`` takes
    names and dotted paths of struct fields (``location.lat``), ``None`` is all columns.
    """

    def __init__(self, core: Any, source: Any, arguments: dict[str, Any]) -> None:
        self._core = core
        self._source = source
        self._arguments = arguments
        self._schema: pa.Schema = pa.schema(core)
        self._keys = tuple(
            SortKey(name, descending=descending, nulls_first=nulls_first)
            for name, descending, nulls_first in core.key_columns
        )
        self._key_types = tuple(resolve_column(self._schema, k.column).type for k in self._keys)
        self._projections: dict[tuple[str, ...] | None, Any] = {}
        self._points: dict[tuple[str, ...] | None, Any] = {}

    # ------------------------------------------------------------------ what the file is

    @property
    def schema(self) -> pa.Schema:
        """Columns, types and metadata as they were written."""
        return self._schema

    @property
    def num_rows(self) -> int:
        return int(self._open.num_rows)

    @property
    def size_bytes(self) -> int:
        return int(self._open.size_bytes)

    @property
    def metadata(self) -> dict[str, bytes]:
        """The user's key/value pairs."""
        return dict(self._open.metadata)

    @property
    def format_version(self) -> tuple[int, int]:
        """(major, minor) version of the format the file is written in."""
        major, minor = self._open.version
        return int(major), int(minor)

    @property
    def cluster_by(self) -> list[SortKey]:
        """The cluster key, empty where the file has none."""
        return list(self._keys)

    @property
    def unique(self) -> bool:
        """No cluster key occurs twice; verified while the file was written."""
        return bool(self._open.unique)

    @property
    def indexes(self) -> list[IndexInfo]:
        core = self._open
        if not self._keys:
            return []
        return [
            IndexInfo(
                kind="cluster",
                columns=self._keys,
                size_bytes=int(core.index_bytes),
                num_keys=self.num_rows,
                has_bloom=bool(core.has_bloom),
            )
        ]

    @property
    def io_stats(self) -> IoStats:
        """What has been read since open. In a mapped file a read is a block's first touch."""
        return IoStats(**self._open.stats)

    def reset_io_stats(self) -> None:
        self._open.reset_stats()

    def layout(self) -> LayoutNode:
        """Stripe groups, stripes, columns, streams, encodings and bytes, as a printable tree.

        Cost: reads the metadata of every stripe group.
        """
        return file_layout(self)

    def verify(self) -> None:
        """Checks every checksum, value and index entry.

        Raises:
            CorruptFileError: names the place and what was expected there.

        Cost: reads and decodes the whole file.
        """
        _core.verify(self._open)

    # ------------------------------------------------------------------ point lookups

    def get(
        self,
        key: Any,
        columns: Sequence[str] | None = None,
        *,
        on: str | Sequence[str] | None = None,
        default: Any = None,
        null_equals: bool = False,
    ) -> Any:
        """One row as a dict of Python values, ``default`` where no row has the key.

        Of several matches the first in file order. The fastest way to read one row from Python.

        Args:
            key: a scalar; a tuple or dict for a key of several columns.
            null_equals: a null in ``key`` matches null keys instead of nothing.

        Raises:
            IndexUnavailableError: no index on the columns of ``on``.
            InvalidArgumentError: a value of the wrong type, an unknown column.

        Cost: two binary searches and one block a column, without I/O once these are in memory.
        """
        point = self._points.get(None if columns is None else tuple(columns))
        if point is None:
            point = self._make_point(columns)
        if on is None:
            row = point.get(key)
            if row is not NotImplemented:
                return default if row is None else row
        ranges, _ = self._find([key], on, null_equals, one=True)
        begin, end = int(ranges[0, 0]), int(ranges[0, 1])
        return point.read(begin) if begin < end else default

    def lookup(
        self,
        keys: Any,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        probe_row: str | None = None,
        null_equals: bool = False,
    ) -> pa.Table:
        """All rows that match any of ``keys``, by probe position, then file order.

        Args:
            keys: Arrow array, numpy array, list of scalars or of tuples, or tabular data whose
                columns are the key columns. A key given twice answers twice.
            on: the indexed columns; the default is the cluster key. Leading columns of it match
                every row that begins with these values.
            probe_row: name of an int64 column to put first: position of the key that matched.
            null_equals: nulls match null keys; otherwise a key with a null matches nothing.

        Raises:
            IndexUnavailableError, InvalidArgumentError: as :meth:`get`.

        Cost: keys are sorted once; every key chunk and block they touch is read once.
        """
        ranges, _ = self._find(keys, on, null_equals)
        rows, probes = _core.expand(ranges)
        table = self._take(rows, columns)
        if probe_row is None:
            return table
        if probe_row in table.column_names:
            raise InvalidArgumentError(f"probe_row: there is a column {probe_row!r} already")
        return table.add_column(0, pa.field(probe_row, pa.int64(), nullable=False), pa.array(probes))

    def contains(
        self, keys: Any, *, on: str | Sequence[str] | None = None, null_equals: bool = False
    ) -> pa.BooleanArray:
        """For each key whether any row has it. Reads the index only."""
        ranges, _ = self._find(keys, on, null_equals)
        return pa.array(ranges[:, 1] > ranges[:, 0])

    def count(
        self, keys: Any, *, on: str | Sequence[str] | None = None, null_equals: bool = False
    ) -> pa.Int64Array:
        """For each key how many rows have it. Reads the index only."""
        ranges, _ = self._find(keys, on, null_equals)
        return pa.array((ranges[:, 1] - ranges[:, 0]).astype(np.int64))

    def row_ranges(
        self,
        keys: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
        prefix: Any = None,
        on: str | Sequence[str] | None = None,
        inclusive: str = "[)",
        null_equals: bool = False,
    ) -> pa.Table:
        """The index's own answer: ``probe_row``, ``begin``, ``end`` (half-open file rows).

        Give ``keys``, or ``lower`` / ``upper``, or ``prefix``. Keys that match nothing are left
        out.
        """
        if keys is not None:
            if lower is not None or upper is not None or prefix is not None:
                raise InvalidArgumentError("row_ranges: give keys, or bounds, or a prefix")
            ranges, _ = self._find(keys, on, null_equals)
        elif prefix is not None:
            if lower is not None or upper is not None:
                raise InvalidArgumentError("row_ranges: give bounds or a prefix, not both")
            ranges = np.array([self._prefix_rows(prefix, on)], dtype=np.uint64)
        else:
            found = self._range_rows(lower, upper, on, inclusive)
            ranges = np.array([found], dtype=np.uint64)
        hits = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
        return pa.table(
            {
                "probe_row": pa.array(hits.astype(np.int64)),
                "begin": pa.array(ranges[hits, 0].astype(np.int64)),
                "end": pa.array(ranges[hits, 1].astype(np.int64)),
            }
        )

    def take(self, rows: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their file position, in the given order, repeats included.

        Args:
            rows: non-negative integers: list, numpy array or Arrow array.

        Raises:
            InvalidArgumentError: a row that the file does not have.
        """
        return self._take(_row_numbers(rows, self.num_rows), columns)

    # ------------------------------------------------------------------ ranges and scans

    def range(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        on: str | Sequence[str] | None = None,
        inclusive: str = "[)",
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        """Rows between two bounds in key order, in key order.

        Bounds are places in the order of the key: for a descending column ``lower`` is the larger
        value, and an unbounded side takes in the nulls at that end. For rows by the values of a
        column whatever its direction, use ``scan(filter=...)``; the index answers that as well.

        Args:
            lower, upper: a scalar or tuple; one shorter than the key stands for all keys that
                begin with it; ``None`` is unbounded.
            inclusive: ``"[)"``, ``"[]"``, ``"()"`` or ``"(]"``.
            limit: most rows to return.
            reverse: largest key first; with ``limit`` the last rows of the range.
        """
        return self._rows(self._range_rows(lower, upper, on, inclusive), columns, limit, reverse)

    def prefix(
        self,
        prefix: Any,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> pa.Table:
        """Rows whose leading key columns equal ``prefix``, in key order.

        Args:
            prefix: a scalar or tuple; the last element may be :func:`nimblepy.starts_with`.
        """
        return self._rows(self._prefix_rows(prefix, on), columns, limit, reverse)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        filter: pc.Expression | str | None = None,
        row_range: tuple[int, int] | None = None,
        batch_rows: int = 65536,
        threads: int | None = None,
        limit: int | None = None,
    ) -> Scan:
        """A scan, to be run by its ``to_table``, ``to_batches``, ``to_reader`` or ``count``.

        Args:
            filter: a pyarrow expression or SQL text; answered by the cluster index, then zone
                maps, then exact evaluation of what is left.
            row_range: half-open file rows to look at.
            batch_rows: most rows of a batch.
            threads: threads that decode; ``None`` is one a processor.
            limit: most rows to return.
        """
        return Scan(
            self,
            columns=columns,
            filter=filter,
            row_range=row_range,
            batch_rows=batch_rows,
            threads=threads,
            limit=limit,
        )

    def to_table(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | str | None = None,
    ) -> pa.Table:
        """All rows, or those that pass ``filter``, in file order."""
        return self.scan(columns, filter=filter).to_table()

    def to_pandas(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | str | None = None
    ) -> Any:
        """:meth:`to_table` as a pandas DataFrame."""
        return self.to_table(columns, filter).to_pandas()

    def explain(
        self,
        keys: Any = None,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        lower: Any = None,
        upper: Any = None,
        inclusive: str = "[)",
        prefix: Any = None,
        filter: pc.Expression | str | None = None,
        row_range: tuple[int, int] | None = None,
    ) -> Plan:
        """What a lookup (``keys``), range, prefix or scan would touch. Prints as a tree.

        Cost: the index is really searched, so that row ranges are exact; no data is read.
        """
        if keys is not None:
            many = keys if _is_many(keys) else [keys]
            ranges, found = self._find(many, on, False, one=many is not keys)
            return explain_keys(self, ranges, found, columns)
        if prefix is not None:
            rows = self._prefix_rows(prefix, on)
            return explain_rows(self, "prefix", rows, columns)
        if lower is not None or upper is not None:
            rows = self._range_rows(lower, upper, on, inclusive)
            return explain_rows(self, "range", rows, columns)
        return explain_scan(self.scan(columns, filter=filter, row_range=row_range))

    # ------------------------------------------------------------------ housekeeping

    def close(self) -> None:
        """Lets go of the file; results that were handed out stay valid."""
        self._core = None
        self._projections.clear()
        self._points.clear()

    def __enter__(self) -> File:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.num_rows

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self._source, (str, os.PathLike, bytes)):
            raise TypeError(
                f"a File over {type(self._source).__name__} cannot be pickled: only paths and "
                "bytes can be opened again"
            )
        source = self._source
        if isinstance(source, (str, os.PathLike)) and self._arguments["filesystem"] is None:
            source = _absolute(os.fspath(source))
        return _reopen, (source, self._arguments)

    def __repr__(self) -> str:
        if self._core is None:
            return "<nimblepy.File, closed>"
        key = f", cluster by {', '.join(map(str, self._keys))}" if self._keys else ""
        return (
            f"<nimblepy.File {self._core.name!r}: {self.num_rows:,} rows, "
            f"{len(self._schema)} columns{key}>"
        )

    @property
    def _open(self) -> Any:
        if self._core is None:
            raise InvalidArgumentError("this file is closed")
        return self._core

    def _projection(self, columns: Sequence[str] | None) -> Any:
        if isinstance(columns, str):
            raise InvalidArgumentError(f"columns: expected a list of names, got {columns!r}")
        name = None if columns is None else tuple(columns)
        projection = self._projections.get(name)
        if projection is None:
            for column in name or ():
                resolve_column(self._schema, column)
            if name is not None and len(set(name)) != len(name):
                raise InvalidArgumentError(f"columns: a name is given twice: {list(name)}")
            projection = _core.Projection(self._open, None if name is None else list(name))
            self._projections[name] = projection
        return projection

    def _make_point(self, columns: Sequence[str] | None) -> Any:
        projection = self._projection(columns)

        def fallback(row: int, names: list[str]) -> Any:
            return self._take(np.array([row], dtype=np.uint64), names).to_pylist()[0]

        point = _core.PointReader(projection, fallback)
        self._points[None if columns is None else tuple(columns)] = point
        return point

    def _take(self, rows: np.ndarray[Any, Any], columns: Sequence[str] | None) -> pa.Table:
        projection = self._projection(columns)
        if len(rows) <= _RESULT_ROWS:
            try:
                batch = projection.take_batch(rows, 0)
                return pa.Table.from_batches([pa.RecordBatch._import_from_c_capsule(*batch)])
            except InvalidArgumentError as error:
                if "do not fit in one array" not in str(error):
                    raise
        return pa.table(projection.take(rows, _RESULT_ROWS, 0))

    def _rows(
        self,
        rows: tuple[int, int],
        columns: Sequence[str] | None,
        limit: int | None,
        reverse: bool,
    ) -> pa.Table:
        begin, end = rows
        if limit is not None:
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
                raise InvalidArgumentError(f"limit: expected an int >= 0, got {limit!r}")
            if reverse:
                begin = max(begin, end - limit)
            else:
                end = min(end, begin + limit)
        if reverse:
            return self._take(np.arange(begin, end, dtype=np.uint64)[::-1].copy(), columns)
        projection = self._projection(columns)
        if end - begin <= 65536:
            try:
                batch = projection.range_batch(begin, end, 1)
                return pa.Table.from_batches([pa.RecordBatch._import_from_c_capsule(*batch)])
            except InvalidArgumentError as error:
                if "do not fit in one array" not in str(error):
                    raise
        return pa.table(projection.scan(np.array([[begin, end]], dtype=np.uint64), 65536, 0))

    def _find(
        self,
        keys: Any,
        on: str | Sequence[str] | None,
        null_equals: bool,
        *,
        one: bool = False,
    ) -> tuple[Ranges, KeyColumns]:
        """Row ranges of each key, and the key columns they were found by."""
        self._check_names(on)
        columns = key_columns(self._keys, self._key_types, on, _width(keys, on, self._keys))
        if one and len(columns.names) > 1 and not isinstance(keys[0], (tuple, list, Mapping)):
            raise InvalidArgumentError(
                f"key {keys[0]!r}: the key has {len(columns.names)} columns "
                f"({', '.join(columns.names)}); pass a tuple or a dict"
            )
        probes = probe_batch(keys, columns)
        ranges = _core.find_keys(self._open, probes.batch, null_equals)
        if probes.impossible is not None and probes.impossible.any():
            ranges[probes.impossible] = 0
        return ranges, columns

    def _range_rows(
        self, lower: Any, upper: Any, on: str | Sequence[str] | None, inclusive: str
    ) -> tuple[int, int]:
        if inclusive not in _INCLUSIVE:
            raise InvalidArgumentError(
                f"inclusive: expected one of {', '.join(map(repr, _INCLUSIVE))}, got {inclusive!r}"
            )
        columns = self._bound_columns(on, lower, upper)
        low_inclusive, high_inclusive = _INCLUSIVE[inclusive]
        low = typed_bound(lower, low_inclusive, columns, lower=True)
        high = typed_bound(upper, high_inclusive, columns, lower=False)
        if low is None or high is None:
            return 0, 0
        begin, end = _core.find_range(
            self._open,
            single_row(columns.names[: len(low.values)], low.values) if low.values else None,
            low.inclusive,
            single_row(columns.names[: len(high.values)], high.values) if high.values else None,
            high.inclusive,
            False,
        )
        return int(begin), int(end)

    def _prefix_rows(self, prefix: Any, on: str | Sequence[str] | None) -> tuple[int, int]:
        columns = self._bound_columns(on, prefix)
        typed = typed_prefix(prefix, columns)
        if typed is None:
            return 0, 0
        values, starts_with = typed
        if not values:
            return 0, self.num_rows
        batch = single_row(columns.names[: len(values)], values)
        begin, end = _core.find_prefix(self._open, batch, starts_with)
        return int(begin), int(end)

    def _check_names(self, on: str | Sequence[str] | None) -> None:
        for name in [on] if isinstance(on, str) else on or ():
            resolve_column(self._schema, name)

    def _bound_columns(self, on: str | Sequence[str] | None, *bounds: Any) -> KeyColumns:
        self._check_names(on)
        columns = key_columns(self._keys, self._key_types, on)
        if columns.given != tuple(builtins.range(len(columns.given))):
            raise IndexUnavailableError(
                f"bounds need the columns in key order: {', '.join(columns.names)}"
            )
        for bound in bounds:
            n = 0 if bound is None else len(as_tuple(bound))
            if n > len(columns.names):
                raise InvalidArgumentError(
                    f"bound {bound!r}: {n} values for the key ({', '.join(columns.names)})"
                )
        return columns


def _reopen(source: Any, arguments: dict[str, Any]) -> File:
    return open(source, **arguments)


def _absolute(path: str) -> str:
    from nimblepy.storage import is_uri

    return path if is_uri(path) else os.path.abspath(path)


def _is_many(keys: Any) -> bool:
    if isinstance(keys, (str, bytes, tuple, Mapping)):
        return False
    return isinstance(keys, Sequence) or hasattr(keys, "__len__") or hasattr(keys, "__iter__")


def _width(keys: Any, on: Any, key: Sequence[SortKey]) -> int | None:
    """Key columns that tuples name, where ``on`` does not say it: shorter ones are prefixes."""
    if on is not None or not key:
        return None
    if isinstance(keys, (list, tuple)) and keys and isinstance(keys[0], (tuple, Mapping)):
        return len(keys[0])
    return None


def _row_numbers(rows: Any, num_rows: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    if isinstance(rows, (pa.Array, pa.ChunkedArray)):
        if rows.null_count:
            raise InvalidArgumentError("rows: nulls are no row numbers")
        rows = rows.to_numpy(zero_copy_only=False) if isinstance(rows, pa.Array) else rows.to_numpy()
    array = np.asarray(rows)
    if array.size == 0:
        return np.empty(0, dtype=np.uint64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgumentError(f"rows: expected integers in one dimension, got {array.dtype}")
    if array.dtype.kind == "i" and int(array.min()) < 0:
        raise InvalidArgumentError(f"rows: {int(array.min())} is below 0")
    if int(array.max()) >= num_rows:
        raise InvalidArgumentError(f"rows: {int(array.max())} of a file of {num_rows} rows")
    return array.astype(np.uint64)
