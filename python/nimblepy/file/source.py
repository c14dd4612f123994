"""FileSource: one open file as a RowSource."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import NimbleError
from nimblepy.file.candidates import candidate_rows
from nimblepy.file.explain import explain_keys, explain_ordered, explain_where
from nimblepy.file.handle import RESULT_ROWS, FileHandle, batch_table
from nimblepy.file.indexes import Index
from nimblepy.file.layout import file_layout
from nimblepy.file.scan import scan_part
from nimblepy.rows.arguments import On, Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.compiled import (
    AsofIndex,
    ColumnReader,
    Compiled,
    FileScan,
    KeyIndex,
    NearestReader,
    Ranges,
    RowForm,
    RowsOfFile,
    SingleRows,
)
from nimblepy.rows.nearest import NearestPart, NearestRows, make_reader
from nimblepy.rows.plan import LayoutNode, Plan
from nimblepy.rows.request import Keys, Ordered, Request, Where
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import MAX_PREPARED, OnKeys, Reader, RowSource
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import IndexInfo, IoStats, SortKey, StartsWith

# How to open a file again: the function, its first argument and its keyword arguments.
Reopen = tuple[Callable[..., "FileSource"], Any, dict[str, Any]]


class FileSource(RowSource):
    """An open file. Thread-safe. Unpickling opens it again.

    Attributes:
        handle: the open core file.
        reopen: how to open the file again.
    """

    def __init__(self, core: Any, reopen: Reopen) -> None:
        super().__init__()
        self.handle = FileHandle(core)
        self.reopen = reopen
        self._range_readers: dict[Ranges, _core.RangeReader] = {}

    # ------------------------------------------------------------------ description

    @cached_property
    def schema(self) -> pa.Schema:
        _ = self.handle.core  # raises if the file is closed
        return self.handle.schema

    @property
    def num_rows(self) -> int:
        return self.handle.num_rows

    @property
    def size_bytes(self) -> int:
        return int(self.handle.core.size_bytes)

    @property
    def metadata(self) -> dict[str, bytes]:
        return dict(self.handle.core.metadata)

    @property
    def cluster_by(self) -> list[SortKey]:
        _ = self.handle.core
        return list(self.handle.cluster_by)

    @property
    def unique(self) -> bool:
        """Whether the cluster key was declared unique. The writer verified that it is."""
        return bool(self.handle.core.unique)

    @property
    def indexes(self) -> list[IndexInfo]:
        core = self.handle.core
        stored = [i for i in self.handle.indexes if not i.is_cluster]
        infos = [
            IndexInfo(
                kind=index.kind,
                columns=index.keys,
                size_bytes=size_bytes,
                num_keys=num_keys,
                has_bloom=has_bloom,
            )
            for index, (_, _, num_keys, size_bytes, has_bloom) in zip(
                stored, core.indexes, strict=True
            )
        ]
        infos += [
            IndexInfo(
                kind="vector",
                columns=(SortKey(name),),
                size_bytes=size_bytes,
                num_keys=num_rows,
                metric=self._known_metric(name),
            )
            for name, (_, num_rows, size_bytes) in self.handle.vectors.items()
        ]
        if self.handle.cluster_by:
            cluster_bytes = int(core.index_bytes) - sum(info.size_bytes for info in infos)
            cluster = IndexInfo(
                kind="cluster",
                columns=self.handle.cluster_by,
                size_bytes=cluster_bytes,
                num_keys=self.num_rows,
                has_bloom=bool(core.has_bloom),
            )
            infos.insert(0, cluster)
        return infos

    def _known_metric(self, column: str) -> str | None:
        try:
            return self.handle.vector_metric(column)
        except (NimbleError, NotImplementedError):
            return None

    @property
    def io_stats(self) -> IoStats:
        return IoStats(**self.handle.core.stats)

    def reset_io_stats(self) -> None:
        self.handle.core.reset_stats()

    def layout(self) -> LayoutNode:
        return file_layout(self.handle)

    def verify(self) -> None:
        _core.verify(self.handle.core)

    # ------------------------------------------------------------------ finding and reading

    def _project(self, columns: tuple[ColumnName, ...]) -> pa.Schema:
        return self.handle.projected(columns)

    def all_rows(self) -> RowSet:
        return RowSet.of_range(0, self.num_rows)

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        return self.handle.choose(on, ordered=ordered).keys

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        return self.handle.read(rows, columns)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        part = scan_part(self.handle, where, columns)
        schema = self.handle.projected(columns)
        return _core.scan([part], schema, batch_rows, threads, where.limit)

    def count_passing(self, where: Where, *, threads: int) -> int:
        return _core.count([scan_part(self.handle, where, ())], threads)

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        if isinstance(request, Where):
            return candidate_rows(self.handle, request).rows
        if isinstance(request, Keys):
            index = self.handle.opened(self._index_for(request))
            if limit == 1 and len(request) == 1 and request.between is None:
                return index.find_first(request)
            return index.find(request).slice(0, limit)
        index = self.handle.opened(self._index_in_order(request))
        begin, end = index.places(request)
        if limit is not None and reverse:
            begin = max(begin, end - limit)
        elif limit is not None:
            end = min(end, begin + limit)
        rows = index.rows_at((begin, end))
        return rows.backwards() if reverse else rows

    def asof_keys(self, by: tuple[ColumnName, ...], on: ColumnName) -> tuple[SortKey, ...]:
        return self.handle.choose_for_asof(by, on).keys[: len(by) + 1]

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        index, order, known_steps = self._asof_index(AsofIndex(keys.by, keys.on, keys.known))
        search = keys.search(order)
        search.search(0, index, search.wanted(0), deleted, known_steps, is_only=True)
        rows, probes, _ = search.matches()
        return RowSet(rows, None, probes, len(keys))

    def _asof_index(
        self, asked: AsofIndex
    ) -> tuple[_core.Index, tuple[SortKey, ...], tuple[int, ...] | None]:
        index = self.handle.choose_for_asof(asked.by, asked.on)
        known_steps = None
        if asked.known is not None:
            known_steps = resolve_column(self.schema, asked.known).steps
        return self.handle.opened(index).core, index.keys[: len(asked.by) + 1], known_steps

    def vector_columns(self) -> tuple[ColumnName, ...]:
        return tuple(self.handle.vectors)

    def vector_metrics(self, column: ColumnName) -> frozenset[str]:
        assert isinstance(column, str)
        metric = self.handle.vector_metric(column)
        return frozenset() if metric is None else frozenset([metric])

    def nearest_parts(
        self, request: NearestRows, rows: RowSet | None = None
    ) -> Iterator[NearestPart]:
        assert isinstance(request.column, str)
        lists = None if request.compares_all else self.handle.vector_index(request.column)
        if rows is None and request.within is None:
            # Searches of many files would spend most of their time in making parts.
            scans, key = self.handle.vector_scans, (request.column, request.filter)
            scan = scans.get(key)
            if scan is None:
                where = Where(request.filter, self.everything)
                if len(scans) > MAX_PREPARED:
                    scans.clear()
                scan = scans[key] = scan_part(self.handle, where, (request.column,))
            yield NearestPart(0, scan, lists, None)
            return
        if rows is None:
            rows = self.everything if request.within is None else self.find(request.within)
        part = scan_part(self.handle, Where(request.filter, rows), (request.column,))
        yield NearestPart(0, part, lists, None)

    def _index_for(self, keys: Keys) -> Index:
        if keys.between is not None:
            return self.handle.indexes[0]
        return self.handle.choose(keys.names)

    def _index_in_order(self, request: Ordered) -> Index:
        """Returns the ordered index for the columns of the request."""
        return self.handle.choose(request.keys, ordered=True)

    # ------------------------------------------------------------------ compiled readers

    def compiled(self, reader: Compiled[Reader]) -> Reader | None:
        made: Any = None
        match reader:
            case SingleRows(columns, on):
                made = self._key_reader(columns, on, None, None)
            case RowsOfFile(columns, on, deleted, form):
                made = self._key_reader(columns, on, deleted, form)
            case Ranges():
                made = self._range_readers.get(reader) or self._range_reader(reader)
            case KeyIndex(names):
                index = self.handle.choose(names)
                made = self.handle.opened(index).core, index.keys[: len(names)]
            case AsofIndex():
                made = self._asof_index(reader)
            case NearestReader():
                made = make_reader(reader, self, lambda _: self.handle.projection(reader.columns))
            case ColumnReader(columns):
                made = self.handle.projection(columns)
            case FileScan(where, columns):
                made = scan_part(self.handle, where, columns)
        return made  # type: ignore[no-any-return]

    def _key_reader(
        self,
        columns: Projected,
        on: On,
        deleted: _core.RowBitmap | None,
        form: RowForm | None,
    ) -> _core.PointReader:
        names = self.on_columns(on)
        index = self.handle.choose(names)
        key_names = index.names if names is None else names
        order = (
            [key_names.index(name) for name in index.names]
            if len(key_names) == len(index.keys)
            else []
        )
        core = self.handle.opened(index).core
        if form is None:
            return _core.PointReader(self.handle.projection(columns), core, order, deleted)
        paths = [(name,) for name in self.schema.names] if columns is None else columns
        projection = self.handle.renamed(paths, form.names)
        return _core.PointReader(projection, core, order, deleted, form.blank)

    def _range_reader(self, reader: Ranges) -> _core.RangeReader:
        keys = self.on_keys(reader.on)
        index = self.handle.choose(keys, ordered=True)
        width = len(index.keys if keys is None else keys)
        projection = self.handle.projection(reader.columns)
        made = _core.RangeReader(projection, self.handle.opened(index).core, width, StartsWith)
        if len(self._range_readers) > MAX_PREPARED:
            self._range_readers.clear()
        self._range_readers[reader] = made
        return made

    def find_and_read(
        self, keys: Keys, columns: Projected, *, first: bool = False
    ) -> tuple[pa.Table, Positions]:
        index = self._index_for(keys)
        if keys.between is None and not first:
            opened = self.handle.opened(index)
            result = opened.core.lookup(
                self.handle.projection(columns),
                opened.batch(keys),
                keys.null_equals,
                keys.impossible,
                RESULT_ROWS,
            )
            if result is not None:
                return batch_table(result[:2]), result[2]
        return super().find_and_read(keys, columns, first=first)

    def count_matches(self, keys: Keys) -> Positions:
        return self.handle.opened(self._index_for(keys)).count(keys)

    # ------------------------------------------------------------------ explaining

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        if isinstance(request, Where):
            return explain_where(self.handle, request, columns)
        rows = self.find(request)
        if isinstance(request, Keys):
            return explain_keys(self.handle, self._index_for(request), request, rows, columns)
        index = self._index_in_order(request)
        return explain_ordered(self.handle, index, request, rows, columns)

    # ------------------------------------------------------------------ housekeeping

    def close(self) -> None:
        self._range_readers.clear()
        for cached in ("schema", "everything", "_projections"):
            vars(self).pop(cached, None)
        self.handle.close()

    def __reduce__(self) -> tuple[Any, ...]:
        open_again, source, arguments = self.reopen
        if not isinstance(source, (str, os.PathLike, bytes)):
            raise TypeError(
                f"a File over {type(source).__name__} cannot be pickled: only paths and "
                "bytes can be opened again"
            )
        return _reopened, (open_again, source, arguments)

    def __repr__(self) -> str:
        if self.handle.is_closed:
            return "<nimblepy.File, closed>"
        key = f", cluster by {', '.join(map(str, self.handle.cluster_by))}"
        return (
            f"<nimblepy.File {self.handle.core.name!r}: {self.num_rows:,} rows, "
            f"{len(self.schema)} columns{key if self.handle.cluster_by else ''}>"
        )


def _reopened(
    open_file: Callable[..., FileSource], source: Any, arguments: dict[str, Any]
) -> FileSource:
    return open_file(source, **arguments)
