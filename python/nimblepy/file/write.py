"""Writes files: :func:`write` for complete data, :class:`Writer` for data in batches."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import DuplicateKeyError, InvalidArgumentError, KeyOrderError
from nimblepy.file.key_errors import readable
from nimblepy.file.options import (
    HashIndex,
    KnownVectorIndex,
    SortedIndex,
    VectorIndex,
    WriteOptions,
)
from nimblepy.input.tabular import as_reader, check_column, slices
from nimblepy.io.location import FileSystem, locate
from nimblepy.io.log import logger
from nimblepy.io.progress import Progress, ProgressArg
from nimblepy.rows.arguments import check_keywords, passes_on_to
from nimblepy.rows.nearest import vector_type
from nimblepy.schema.columns import Column, resolve_column
from nimblepy.schema.conform import conform
from nimblepy.schema.protocols import Tabular
from nimblepy.schema.types import ColumnSummary, FileSummary, KeyColumn, SortKey, as_sort_keys

_log = logger(__name__)

_T = TypeVar("_T")
ClusterBy: TypeAlias = str | SortKey | Sequence[KeyColumn] | None


class WriteKeywords(TypedDict, total=False):
    """Keyword arguments of :class:`Writer`, except ``progress``."""

    cluster_by: ClusterBy
    unique: bool
    presorted: bool
    indexes: Sequence[HashIndex | SortedIndex | VectorIndex]
    options: WriteOptions | None
    metadata: Mapping[str, str | bytes] | None
    filesystem: FileSystem | None


class Writer:
    """Writes one file, batch by batch. Use it as a context manager.

    Leaving the block finishes the file and makes it visible at ``path`` atomically. If an exception
    leaves the block, no file is created, and an existing file at ``path`` does not change. If
    :meth:`write` fails, the writer rejects further rows and :meth:`close`, and no file is created.

    Threads may share a writer: calls are serialized, and the rows of each call remain together. A
    child of ``fork()`` cannot use the writer, and does not affect the file when it exits.

    Args:
        path: path of the file; a URI, or a path in ``filesystem``.
        schema: columns and types; an object with ``__arrow_c_schema__``.
        cluster_by: the cluster key: a column name, a :class:`SortKey`, or a list of them.
        unique: whether a duplicate cluster key is an error. The message has the key, and the
            positions of both rows in key order.
        presorted: whether rows are already in key order. The writer verifies this. Otherwise it
            sorts the rows with a stable sort, on disk if they exceed
            ``WriteOptions.sort_memory_bytes``.
        indexes: secondary indexes.
        options: options for the layout of the file.
        metadata: key/value pairs to store in the file.
        progress: ``True`` for a progress bar, or a function ``progress(rows_done, None)``.
        filesystem: :class:`pyarrow.fs.FileSystem` or fsspec file system of ``path``.
        cast: whether to also make conversions that fail for some values. A value that cannot be
            converted is an error. See :meth:`write`.

    Raises:
        InvalidArgumentError: a column does not exist, a type is not supported (the message has its
            path), or an argument is not valid.
        KeyOrderError: ``presorted`` rows are not in order; the message names both rows.
        DuplicateKeyError: ``unique`` is set and a key occurs twice.
        OSError: the file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema,
        *,
        cluster_by: ClusterBy = None,
        unique: bool = False,
        presorted: bool = False,
        indexes: Sequence[HashIndex | SortedIndex | VectorIndex] = (),
        options: WriteOptions | None = None,
        metadata: Mapping[str, str | bytes] | None = None,
        progress: ProgressArg = None,
        filesystem: FileSystem | None = None,
        cast: bool = False,
    ) -> None:
        self._cast = cast
        self._schema = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
        self._summary: FileSummary | None = None
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._busy = False  # whether a call is running
        self._ended = ""  # why the writer does not accept more rows
        self._progress = Progress(progress, None)
        self._seconds = 0.0
        keys = self._keys = as_sort_keys(cluster_by)
        for name, given in (("unique", unique), ("presorted", presorted)):
            if given and not keys:
                raise InvalidArgumentError(f"{name}=True needs a cluster key: pass cluster_by")
        location = locate(path, filesystem)
        self._path = location.path
        core_options = _core_options(
            self._schema, keys, unique, options or WriteOptions(), metadata
        )
        core_options["indexes"] = index_specs(self._schema, indexes)
        self._indexed = bool(core_options["indexes"])
        core_options["spill_directory"] = location.spill_folder
        self._core: Any = _core.Writer(
            location.sink(), self._schema, core_options, bool(keys) and not presorted
        )

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def summary(self) -> FileSummary:
        """The summary of the file, available after it is finished."""
        if self._summary is None:
            raise InvalidArgumentError("the file is not finished yet")
        return self._summary

    def write(self, data: Tabular, *, cast: bool | None = None) -> None:
        """Appends a batch, a table, or any other data that :func:`write` accepts.

        Columns are matched by name. Types that differ from the schema are converted if the
        conversion is lossless:

        * integers, floats and decimals to wider types;
        * times to finer units;
        * text, binary and lists to other layouts;
        * dictionaries to values, and values to dictionaries;
        * columns of the null type to any type.

        Args:
            cast: also convert other types if no value of the batch changes; the default is the
                ``cast`` of the writer.

        Raises:
            InvalidArgumentError: a column is missing or unknown, or has a type or value that cannot
                be converted to the schema's type.
        """
        chosen = self._cast if cast is None else cast
        self._step(lambda core: self._write(core, data, chosen))

    def _write(self, core: Any, data: Any, cast: bool) -> None:
        reader, _ = as_reader(data)
        for batch in reader:
            batch = conform(batch, self._schema, cast=cast)
            self._check_data(batch)
            for piece in slices(batch):
                begin = time.perf_counter()
                core.write(piece)
                self._seconds += time.perf_counter() - begin
                self._progress.advance(piece.num_rows)

    def _check_data(self, batch: pa.RecordBatch) -> None:
        """Runs Arrow's cheap checks, and rejects nulls in columns that are not nullable."""
        for field, column in zip(self._schema, batch.columns, strict=True):
            check_column(field.name, column)
            if not field.nullable and column.null_count:
                raise InvalidArgumentError(
                    f"column {field.name!r} is declared without nulls but has {column.null_count}"
                )

    def close(self) -> FileSummary:
        """Finishes the file and makes it visible. Leaving the ``with`` block does this.

        Raises:
            InvalidArgumentError: a :meth:`write` has failed, or :meth:`abort` was called; no file
                is created.
        """
        self._check_process()
        with self._lock:
            if self._summary is None:
                self._summary = self._step(self._finish)
            return self._summary

    def _finish(self, core: Any) -> FileSummary:
        self._progress.stage("building indexes" if self._indexed else "finishing")
        begin = time.perf_counter()
        done = core.finish()
        self._end("is closed")
        self._seconds += time.perf_counter() - begin
        summary = _summary(self._schema, done, self._seconds)
        _log.info(
            "wrote %s: %d rows, %d bytes, %.1f s",
            self._path,
            summary.num_rows,
            summary.size_bytes,
            summary.write_seconds,
        )
        return summary

    def abort(self) -> None:
        """Discards the file. Does nothing in a child of ``fork()``."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._end("was aborted")

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise InvalidArgumentError(
                f"the writer of {self._path} belongs to process {self._process}; a child of fork() "
                "must create its own writer"
            )

    def _step(self, call: Callable[[Any], _T]) -> _T:
        """Calls ``call`` with the core.

        An exception ends the writer. A reentrant call, from the input data or the target file,
        raises an error and does not end the writer.
        """
        self._check_process()
        with self._lock:
            if self._core is None:
                raise InvalidArgumentError(f"the writer of {self._path} {self._ended}")
            if self._busy:
                raise InvalidArgumentError(
                    f"the writer of {self._path} is busy: it cannot be called from its own input "
                    "or output"
                )
            self._busy = True
            try:
                return call(self._core)
            except (DuplicateKeyError, KeyOrderError) as error:
                shown = readable(error, self._schema, self._keys)
                self._end(f"has failed before: {type(shown).__name__}: {shown}")
                raise shown from None
            except BaseException as error:
                self._end(f"has failed before: {type(error).__name__}: {error}")
                raise
            finally:
                self._busy = False

    def _end(self, reason: str) -> None:
        if self._core is not None:
            core, self._core = self._core, None
            self._ended = reason
            core.close()
            self._progress.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.close()
        else:
            self.abort()

    def __repr__(self) -> str:
        state = "open" if self._core is not None else "finished" if self._summary else "ended"
        return f"<nimblepy.Writer {self._path!r}, {len(self._schema)} columns, {state}>"


@passes_on_to(Writer)
def write(
    data: Tabular,
    path: str | os.PathLike[str],
    *,
    progress: ProgressArg = None,
    **how: Unpack[WriteKeywords],
) -> FileSummary:
    """Writes ``data`` to the file ``path`` and returns a summary of it.

    Args:
        data: an object with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pyarrow, polars,
            DuckDB, pandas, files and scans of nimblepy); a polars LazyFrame; a dataset or scanner
            of pyarrow; a dict of columns (numpy arrays of two dimensions are vectors); an iterable
            of batches, frames or rows as dicts; or a path, directory, glob or list of these, as for
            :func:`convert`.
        progress: ``True`` for a progress bar on a terminal, and in Jupyter if ipywidgets is
            installed; or a function ``progress(rows_done, rows_total)``. The total is ``None`` if
            it is unknown.

    The other arguments are those of :class:`Writer`.

    Returns:
        A summary with the number of rows, the size of the file and of its indexes in bytes, and the
        encoding and size of every column.

    Raises:
        The errors of :class:`Writer`. After an error, the file at ``path`` has not changed.

    Example:
        >>> import pyarrow as pa
        >>> nb.write(pa.table({"k": [2, 1], "v": ["b", "a"]}), path, cluster_by="k").num_rows
        2
    """
    check_keywords(write, how)
    reader, total = as_reader(data)
    with Writer(path, reader.schema, **how) as writer:
        writer._progress = Progress(progress, total)
        writer.write(reader)
    return writer.summary


def _core_options(
    schema: pa.Schema,
    keys: Sequence[SortKey],
    unique: bool,
    options: WriteOptions,
    metadata: Mapping[str, str | bytes] | None,
) -> dict[str, Any]:
    if not isinstance(options, WriteOptions):
        raise InvalidArgumentError(
            f"options: expected nb.WriteOptions, such as nb.WriteOptions(compression='compact'), "
            f"got {options!r}"
        )
    return {
        "compression": options.compression,
        "stripe_rows": options.stripe_rows,
        "stripe_bytes": options.stripe_bytes,
        "group_rows": options.group_rows,
        "group_bytes": options.group_bytes,
        "key_chunk_rows": options.key_chunk_rows,
        "restart_interval": min(options.restart_interval, 2**31 - 1),
        "cluster_bloom_bits": options.cluster_bloom_bits_per_key or 0.0,
        "zone_rows": min(options.zone_rows, 2**31 - 1),
        "statistics": options.statistics is not False and options.statistics != (),
        "statistics_columns": []
        if isinstance(options.statistics, bool)
        else [resolve_column(schema, name).steps[0] for name in options.statistics],
        "bloom_columns": [resolve_column(schema, name).steps for name in options.bloom_columns],
        "bloom_bits_per_key": options.bloom_bits_per_key,
        "sort_memory_bytes": options.sort_memory_bytes,
        "threads": options.threads or 0,
        "unique": unique,
        "index_memory_bytes": options.index_memory_bytes,
        "cluster_by": _key_columns(schema, keys),
        "metadata": [_metadata_item(name, value) for name, value in (metadata or {}).items()],
    }


def _key_columns(
    schema: pa.Schema, keys: Sequence[SortKey]
) -> list[tuple[tuple[int, ...], bool, bool]]:
    return [
        (column.steps, key.descending, key.nulls_first)
        for key, column in zip(keys, _columns(schema, keys), strict=True)
    ]


def _columns(schema: pa.Schema, keys: Sequence[SortKey]) -> list[Column]:
    columns = [resolve_column(schema, key.column) for key in keys]
    for i, column in enumerate(columns):
        if column in columns[:i]:
            raise InvalidArgumentError(f"sort keys: column {column} is given more than once")
    return columns


def index_specs(
    schema: pa.Schema, indexes: Sequence[HashIndex | SortedIndex | VectorIndex]
) -> list[dict[str, Any]]:
    """Returns the index specifications for the core. Raises an error for duplicate indexes."""
    if not isinstance(indexes, Iterable) or isinstance(indexes, str):
        indexes = (indexes,)  # the loop below rejects what is no index
    seen: set[Any] = set()
    metrics: dict[str, str] = {}
    specs = []
    for index in indexes:
        if isinstance(index, VectorIndex):
            if metrics.get(index.column, index.metric) != index.metric:
                raise InvalidArgumentError(
                    f"indexes: column {index.column!r} has two vector indexes, of the metrics "
                    f"{metrics[index.column]!r} and {index.metric!r}; a column can have one. To "
                    "search by another metric, pass exact=True to nearest"
                )
            if index.column in metrics:
                raise InvalidArgumentError(f"indexes: {index!r} is given twice")
            metrics[index.column] = index.metric
            specs.append(_vector_spec(schema, index))
            continue
        if not isinstance(index, (HashIndex, SortedIndex)):
            raise InvalidArgumentError(
                f"indexes: expected nb.HashIndex, nb.SortedIndex or nb.VectorIndex, got {index!r}"
            )
        is_hash = isinstance(index, HashIndex)
        keys = as_sort_keys(index.columns)
        if (is_hash, keys) in seen:
            raise InvalidArgumentError(f"indexes: {index!r} is given twice")
        seen.add((is_hash, keys))
        specs.append(
            {
                "kind": "hash" if is_hash else "sorted",
                "columns": _key_columns(schema, keys),
                "load_factor": index.load_factor if isinstance(index, HashIndex) else 0.7,
                "bloom_bits": (index.bloom_bits_per_key or 0.0)
                if isinstance(index, HashIndex)
                else 0.0,
            }
        )
    return specs


def _vector_spec(schema: pa.Schema, index: VectorIndex) -> dict[str, Any]:
    column = resolve_column(schema, index.column)
    width = vector_type(column.type)
    if width is None or len(column.steps) != 1:
        raise InvalidArgumentError(
            f"VectorIndex: column {index.column!r} is {column.type}; expected a top-level column "
            "of fixed-size lists of float16, float32, float64, int8, uint8 or int32"
        )
    queries = index.queries or ()
    if queries and len(queries[0]) != width:
        raise InvalidArgumentError(
            f"VectorIndex: queries have {len(queries[0])} numbers; the vectors of "
            f"{index.column!r} have {width}"
        )
    return {
        "kind": "vector",
        "columns": [(list(column.steps), False, False)],
        "metric": index.metric,
        "lists": index.lists or 0,
        "queries": [x for query in queries for x in query],
        "known": _known(index),
    }


def _known(index: VectorIndex) -> tuple[Any, Any]:
    """Returns the known centroids of an index, and the number of rows of each."""
    parts = index.known if isinstance(index, KnownVectorIndex) else ()
    if not parts:
        return np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.float32)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _metadata_item(name: object, value: object) -> tuple[str, bytes]:
    if not isinstance(name, str) or not isinstance(value, (str, bytes)):
        raise InvalidArgumentError(
            f"metadata: expected str keys and str or bytes values, got {name!r}: {value!r}"
        )
    return name, value.encode() if isinstance(value, str) else value


def _summary(schema: pa.Schema, done: Mapping[str, Any], seconds: float) -> FileSummary:
    columns = tuple(
        ColumnSummary(name=name, encoding=encoding or "none", size_bytes=size)
        for name, encoding, size in zip(
            schema.names, done["column_encodings"], done["column_bytes"], strict=True
        )
    )
    return FileSummary(
        num_rows=done["num_rows"],
        size_bytes=done["size_bytes"],
        index_bytes=done["index_bytes"],
        stripes=done["stripes"],
        index_seconds=done["index_seconds"],
        write_seconds=seconds,
        columns=columns,
    )
