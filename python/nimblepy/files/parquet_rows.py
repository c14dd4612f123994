"""ParquetRows: reads a Parquet file with pyarrow, without an index."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, IndexUnavailableError, InvalidArgumentError
from nimblepy.io.file_object import RemoteFileObject
from nimblepy.io.location import FileSystem, locate
from nimblepy.rows.arguments import Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.gather import gather_array, rows_without_columns
from nimblepy.rows.nearest import NearestPart, NearestRows
from nimblepy.rows.plan import LayoutNode, Plan
from nimblepy.rows.request import Keys, Request, Where
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import OnKeys, RowSource
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName, show_names
from nimblepy.schema.types import IndexInfo, IoStats, SortKey, column_of


class ParquetRows(RowSource):
    """An open Parquet file. Thread-safe: every read opens the file again with cached metadata."""

    def __init__(self, path: str, filesystem: FileSystem | None = None) -> None:
        from pyarrow import parquet

        super().__init__()
        self._location = locate(path, filesystem)
        self._path = path
        self._parquet = parquet
        try:
            file = self._open(None)
            self._schema = file.schema_arrow.remove_metadata()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise CorruptFileError(f"{path}: not a Parquet file, or damaged: {error}") from error
        self._parquet_metadata = file.metadata

    def _open(self, metadata: Any) -> Any:
        location = self._location
        source = location.path if location.is_local else RemoteFileObject(location.open())
        return self._parquet.ParquetFile(source, metadata=metadata, memory_map=False)

    # ------------------------------------------------------------------ properties

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def num_rows(self) -> int:
        return int(self._parquet_metadata.num_rows)

    @property
    def size_bytes(self) -> int:
        groups = range(self._parquet_metadata.num_row_groups)
        metadata = self._parquet_metadata
        data = sum(
            metadata.row_group(g).column(c).total_compressed_size
            for g in groups
            for c in range(metadata.num_columns)
        )
        return int(data + metadata.serialized_size)

    @property
    def metadata(self) -> dict[str, bytes]:
        pairs = self._parquet_metadata.metadata or {}
        return {key.decode("utf-8", "replace"): value for key, value in pairs.items()}

    @property
    def cluster_by(self) -> list[SortKey]:
        return []

    @property
    def unique(self) -> bool:
        return False

    @property
    def indexes(self) -> list[IndexInfo]:
        return []

    @property
    def io_stats(self) -> IoStats:
        return IoStats()

    def reset_io_stats(self) -> None:
        """Does nothing, because reads of Parquet files are not counted."""

    def layout(self) -> LayoutNode:
        return LayoutNode(
            name=self._path, kind="file", rows=self.num_rows, size_bytes=self.size_bytes
        )

    def verify(self) -> None:
        self.read(self.all_rows(), None)

    def close(self) -> None:
        """Does nothing, because the file is open only during reads."""

    # ------------------------------------------------------------------ finding

    def all_rows(self) -> RowSet:
        return RowSet.of_range(0, self.num_rows)

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        shown = "" if on is None else f" on ({show_names(map(column_of, on))})"
        raise IndexUnavailableError(f"{self._path}: no index{shown}: it is a Parquet file")

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        if isinstance(request, Where):
            return request.rows
        names = request.names if isinstance(request, Keys) else request.columns
        raise IndexUnavailableError(
            f"{self._path}: no index on ({show_names(names)}): it is a Parquet file"
        )

    def asof_keys(self, by: tuple[ColumnName, ...], on: ColumnName) -> tuple[SortKey, ...]:
        return self.index_keys((*by, on), ordered=True)

    def vector_columns(self) -> tuple[ColumnName, ...]:
        return ()

    def vector_metrics(self, column: ColumnName) -> frozenset[str]:
        return frozenset()

    def nearest_parts(
        self, request: NearestRows, rows: RowSet | None = None
    ) -> Iterator[NearestPart]:
        raise InvalidArgumentError(
            f"{self._path}: nearest() searches nimble files, and this is a Parquet file; compact "
            "the table, which writes nimble files"
        )

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        self.asof_keys(keys.by, keys.on)
        raise AssertionError("a Parquet file has no index")

    # ------------------------------------------------------------------ reading

    @cached_property
    def group_ends(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        metadata = self._parquet_metadata
        counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        return np.cumsum(np.array([0, *counts], dtype=np.int64))

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        schema = self.projected(columns)
        row_numbers = rows.rows.astype(np.int64)
        if not len(schema):
            return pa.Table.from_batches([rows_without_columns(len(row_numbers))])
        if not len(row_numbers):
            return schema.empty_table()
        ends = self.group_ends
        group_of = np.searchsorted(ends, row_numbers, side="right") - 1
        needed = np.unique(group_of)
        table = self._columns(needed.tolist(), columns, schema)
        counts = (ends[1:] - ends[:-1])[needed]
        first = np.zeros(len(ends), dtype=np.int64)
        first[needed] = np.cumsum(counts) - counts
        at = first[group_of] + row_numbers - ends[group_of]
        if len(at) == table.num_rows and (at == np.arange(len(at))).all():
            return table
        positions = pa.array(at)
        arrays = [gather_array(column.combine_chunks(), positions) for column in table.columns]
        return pa.Table.from_arrays(arrays, schema=table.schema)

    def _columns(self, groups: list[int], columns: Projected, schema: pa.Schema) -> pa.Table:
        paths = [
            resolve_column(self._schema, name)
            for name in (self._schema.names if columns is None else columns)
        ]
        tops = list(dict.fromkeys(path.path[0] for path in paths))
        try:
            table = self._open(self._parquet_metadata).read_row_groups(groups, columns=tops)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise CorruptFileError(f"{self._path}: damaged Parquet file: {error}") from error
        arrays = []
        for path in paths:
            array = table.column(path.path[0])
            for name in path.path[1:]:
                array = pc.struct_field(array, [array.type.get_field_index(name)])
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=schema)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        schema = self.projected(columns)
        for part in self._by_group(where.rows):
            rows = part
            if where.filter is not None:
                tops = tuple(dict.fromkeys((path[0],) for path in where.filter.columns))
                inputs = self.read(part, tops).combine_chunks().to_batches()
                if not inputs:
                    continue
                mask = where.filter.mask(inputs[0]).to_numpy(zero_copy_only=False)
                rows = part.expand().entries(np.flatnonzero(mask))
            if not rows.num_rows:
                continue
            table = self.read(rows, columns)
            if not len(schema):
                yield from table.to_batches()
                continue
            yield from table.combine_chunks().to_batches(max_chunksize=batch_rows)

    def _by_group(self, rows: RowSet) -> Iterator[RowSet]:
        """Splits ``rows`` by row group. Skips row groups without any of the rows."""
        ends = self.group_ends.astype(np.uint64)
        for begin, end in pairwise(ends):
            group = np.array([[begin, end]], dtype=np.uint64)
            part = _core.intersect(rows.ranges, group)
            if len(part):
                yield RowSet.of_ranges(part)

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        return Plan(
            text=f"read Parquet: {self._path}",
            details=(("rows", self.num_rows),),
            reads=self._parquet_metadata.num_row_groups,
            bytes=self.size_bytes,
        )
