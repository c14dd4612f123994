"""Writes rows to data files: splits them by partition, sorts them, and collects statistics."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError, KeyOrderError
from nimblepy.file.options import HashIndex, SortedIndex, VectorIndex, WriteOptions
from nimblepy.file.write import Writer
from nimblepy.files.source import key_order
from nimblepy.input.tabular import as_reader
from nimblepy.io.location import locate
from nimblepy.io.progress import Progress, ProgressArg
from nimblepy.rows.rowset import RowNumbers
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.kinds import is_list
from nimblepy.schema.names import Path
from nimblepy.schema.types import SortKey
from nimblepy.schema.variant import STORED, is_variant, split
from nimblepy.schema.zones import has_zone
from nimblepy.table.base.deletion_vector import deletion_vector
from nimblepy.table.base.file_names import name_in_files
from nimblepy.table.base.model import (
    DELETED_PATH_ID,
    FILE_FORMATS,
    ROW_POSITION_ID,
    SUFFIXES,
    DataFile,
    DataFormat,
    FileCubes,
    Metrics,
    PartitionField,
    Vector,
)
from nimblepy.table.base.places import readable_path, remove_file
from nimblepy.table.base.puffin import FIRST_BLOB, VECTOR_PATH, Blob, puffin_bytes
from nimblepy.table.base.transforms import Apply, column_at, split_rows, transform
from nimblepy.table.base.types import Conformer
from nimblepy.table.base.values import internal_value
from nimblepy.table.otree.arrange import CubeRows, Whole, in_cubes, in_order
from nimblepy.table.otree.blocks import CUBES
from nimblepy.table.otree.layouts import WEIGHT_FIELD, Layout, OTree
from nimblepy.table.otree.planned import Planned
from nimblepy.table.reading.deletes import deletes_table, keep_positions
from nimblepy.table.writing.metrics import MetricsCollector

# Arrow bytes to collect before rows are split by partition.
_SPLIT_BYTES = 64 << 20
# Maximum number of open files. With more partitions, the least recently used file is finished.
_MOST_OPEN = 32
_TARGET_BYTES = 256 << 20
# A file of a layout is filled in this many steps. It is finished after the step that reaches the
# target size.
_STEPS = 8
_ROW_GROUP_ROWS = 1 << 17
# Estimated Arrow bytes per byte of a file, used until a file was written.
_LEAST_PACKING = 1.5
# Rows per row group in Parquet files that are sorted by weight. Samples read only the first groups.
_GROUPS_BY_WEIGHT, _LEAST_GROUP = 16, 1 << 13
# Write options for delete files, which are read as a whole and need no indexes.
_DELETES = WriteOptions(statistics=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """The settings of new files of a table. It can be pickled for processes that write files.

    Attributes:
        schema: the table's columns, with field ids.
        unique: whether cluster keys must be unique in a file.
        rows_before: number of existing rows of the table, which the plan of an OTree needs.
        space: the space of the newest rows of an OTree.
        weighted: the last column of the rows has the weights of an OTree, which are kept.
        whole: the distribution of all rows of the table, if rows of an OTree are rewritten.
        planned: the plan for rows that several processes write. Each process writes a part of the
            curve.
        file_rows: maximum rows of a file; ``None`` uses ``target_bytes``.
        vectors: whether deleted rows are stored in deletion vectors, as in format version 3.
        file_names: names of columns in Parquet files that differ from the table's, by field id.
        lineage: columns of row lineage that the rows have, and that are stored with them.
    """

    location: str
    schema: pa.Schema
    data_format: DataFormat
    cluster_by: tuple[SortKey, ...]
    unique: bool
    spec_id: int
    spec: tuple[PartitionField, ...]
    sort_order_id: int
    indexes: tuple[HashIndex | SortedIndex | VectorIndex, ...] = ()
    options: WriteOptions = field(default_factory=WriteOptions)
    target_bytes: int = _TARGET_BYTES
    layout: Layout | None = None
    rows_before: int = 0
    space: str | None = None
    weighted: bool = False
    whole: Whole | None = None
    planned: Planned | None = None
    file_rows: int | None = None
    vectors: bool = False
    file_names: Mapping[int, str] = field(default_factory=dict)
    lineage: tuple[pa.Field, ...] = ()

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of the files: the columns of the table, those of row lineage, and the weights
        of an OTree.
        """
        return self._with_columns(weighted=self.weighted or isinstance(self.layout, OTree))

    @property
    def row_schema(self) -> pa.Schema:
        """The columns of the rows that are passed to the writer."""
        return self._with_columns(weighted=self.weighted)

    def _with_columns(self, *, weighted: bool) -> pa.Schema:
        if not (self.lineage or weighted):
            return self.schema
        more = [*self.lineage, *([WEIGHT_FIELD] if weighted else ())]
        return pa.schema([*self.schema, *more], self.schema.metadata)

    def new_path(self, kind: str = "data", suffix: str | None = None) -> str:
        """Returns a new, unique path for a file, by default of the data format."""
        name = f"{kind}-{uuid.uuid4().hex}{suffix or SUFFIXES[self.data_format]}"
        path = f"{self.location}/data/{name}"
        place = locate(readable_path(path))
        if place.is_local:
            os.makedirs(os.path.dirname(place.path), exist_ok=True)
        return path


def write_rows(
    data: Any,
    target: Target,
    *,
    presorted: bool = False,
    progress: ProgressArg = None,
    cast: bool = False,
    drop: bool = False,
) -> list[DataFile]:
    """Writes rows to new files, which belong to no table yet.

    Args:
        data: tabular data with the table's columns, in any order. Nullable columns may be missing.
        presorted: rows arrive in the order of the cluster key, which is verified. Ignored with a
            layout, which has its own order.
        cast: round or truncate values that the table's types cannot represent.
        drop: ignore columns that the table does not have.

    Returns:
        The files, none of them empty.

    Raises:
        InvalidArgumentError: the data do not fit the columns.
        KeyOrderError: ``presorted`` rows are not in order.
        OSError: a file cannot be written. After any error all files are removed.

    Cost: holds at most the sort memory of the write options, and a few batches, in memory.
    """
    reader, total = as_reader(data, target.row_schema, cast=cast)
    writing = _Writing(target, presorted and target.layout is None, Progress(progress, total))
    try:
        conform = Conformer(reader.schema, target.row_schema, cast=cast, drop=drop)
        pieces = _pieces(reader, conform)
        memory = target.options.sort_memory_bytes
        if isinstance(target.layout, OTree):
            for cube_rows in in_cubes(
                pieces,
                target.layout,
                memory,
                rows_before=target.rows_before,
                file_bytes=round(target.target_bytes * _LEAST_PACKING),
                space=target.space,
                whole=target.whole,
                planned=target.planned,
            ):
                writing.add_file(cube_rows)
        else:
            if target.layout is not None:
                step = min(_SPLIT_BYTES, target.target_bytes // _STEPS)
                pieces = in_order(pieces, target.layout, memory, step_bytes=step)
            for table in pieces:
                writing.add(table)
        return writing.finish()
    except (pa.ArrowInvalid, OverflowError, UnicodeDecodeError) as error:
        writing.abort()
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(
            f"data: a value does not fit a column, a partition or the statistics: {error}"
        ) from error
    except BaseException:
        writing.abort()
        raise


def _pieces(reader: pa.RecordBatchReader, conform: Conformer) -> Iterator[pa.Table]:
    """Yields the rows in tables of limited size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        if batch.num_rows:
            held.append(conform(batch))
            size += held[-1].nbytes
        if size >= _SPLIT_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


class _Writing:
    """The files that one call writes."""

    def __init__(self, target: Target, presorted: bool, progress: Progress) -> None:
        self._target = target
        self._presorted = presorted
        self._progress = progress
        self._open: OrderedDict[tuple[Any, ...], _NimbleFile | _ParquetFile] = OrderedDict()
        self._done: list[DataFile] = []
        # Arrow bytes per byte of a file, measured on files so far.
        self._packing = 2.0
        self._split = _Splitter(target)

    def add(self, table: pa.Table) -> None:
        for partition, rows in self._split.parts(table):
            self._file(partition).add(rows)
            if self._is_full(self._open[partition]):
                self._close(partition)
        self._progress.advance(table.num_rows)

    def _is_full(self, file: _NimbleFile | _ParquetFile) -> bool:
        if self._target.file_rows is not None:
            return file.rows >= self._target.file_rows
        return file.arrow_bytes >= self._target.target_bytes * self._packing

    def add_file(self, cube_rows: CubeRows) -> None:
        """Writes one separate file."""
        kind = _NimbleFile if self._target.data_format == "nimble" else _ParquetFile
        file = self._open[()] = kind(self._target, False, shared=False, cubes=cube_rows.cubes)
        file.add(cube_rows.rows)
        self._close(())
        self._progress.advance(cube_rows.rows.num_rows)

    def _file(self, partition: tuple[Any, ...]) -> _NimbleFile | _ParquetFile:
        file = self._open.get(partition)
        if file is None:
            while len(self._open) >= _MOST_OPEN:
                self._close(next(iter(self._open)))
            kind = _NimbleFile if self._target.data_format == "nimble" else _ParquetFile
            file = self._open[partition] = kind(
                self._target, self._presorted, shared=self._split.is_partitioned
            )
        self._open.move_to_end(partition)
        return file

    def _close(self, partition: tuple[Any, ...]) -> None:
        file = self._open[partition]
        data_file = file.finish(partition)
        del self._open[partition]
        self._done.append(data_file)
        self._packing = max(0.5, file.arrow_bytes / max(1, data_file.bytes))

    def finish(self) -> list[DataFile]:
        for partition in list(self._open):
            self._close(partition)
        self._progress.finish()
        return self._done

    def abort(self) -> None:
        for file in self._open.values():
            file.abort()
        discard(self._done)
        self._progress.finish()


class _Splitter:
    """Splits rows by partition."""

    def __init__(self, target: Target) -> None:
        by_id = _columns_by_id(target.schema) if target.spec else {}
        self._transforms: list[tuple[Path, Apply]] = []
        for item in target.spec:
            path, kind = by_id[item.source_id]
            self._transforms.append((path, transform(item.transform, kind)))

    @property
    def is_partitioned(self) -> bool:
        return bool(self._transforms)

    def parts(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        """Yields (partition, its rows) for each partition with rows."""
        for partition, rows in self.places(table):
            yield partition, table if rows is None else table.take(rows)

    def places(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Array | None]]:
        """Yields (partition, positions of its rows or ``None`` for all) for each partition with
        rows.
        """
        if not self._transforms:
            yield (), None
            return
        keys = [apply(column_at(table, path).combine_chunks()) for path, apply in self._transforms]
        groups = split_rows([_array(key) for key in keys])
        for scalars, rows in groups:
            values = tuple(internal_value(scalar.type, scalar) for scalar in scalars)
            yield values, None if len(groups) == 1 else rows


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def partition_sources(target: Target) -> list[tuple[Path, str, pa.DataType]]:
    """Returns (column, transform, type of the column) of each partition field."""
    by_id = _columns_by_id(target.schema) if target.spec else {}
    sources = [(by_id.get(item.source_id), item.transform) for item in target.spec]
    return [(column[0], how, column[1]) for column, how in sources if column is not None]


def partition_rows(
    table: pa.Table, target: Target
) -> Iterator[tuple[tuple[Any, ...], RowNumbers | None]]:
    """Yields (partition, positions of its rows or ``None`` for all) for
    each partition with rows.
    """
    for partition, rows in _Splitter(target).places(table):
        yield partition, None if rows is None else rows.to_numpy().astype(np.uint64)


def partition_of(table: pa.Table, target: Target) -> set[tuple[Any, ...]]:
    """Returns the partitions of some rows."""
    return {partition for partition, _ in _Splitter(target).parts(table)}


class _Placed(Protocol):
    @property
    def path(self) -> str: ...


def discard(files: Sequence[_Placed]) -> None:
    """Removes files that belong to no table."""
    for file in files:
        with contextlib.suppress(OSError):
            remove_file(file.path)


def _columns_by_id(schema: pa.Schema) -> dict[int, tuple[tuple[str, ...], pa.DataType]]:
    """Returns (path, type) of all columns and struct fields by field id."""
    from nimblepy.schema.columns import column_paths
    from nimblepy.schema.field_ids import field_id_at

    return {
        field_id_at(schema, path): (path, resolve_column(schema, path).type)
        for path in column_paths(schema)
    }


class _NimbleFile:
    """A nimble file that is being written."""

    def __init__(
        self, target: Target, presorted: bool, *, shared: bool, cubes: FileCubes | None = None
    ) -> None:
        self._target = target
        self._cubes = cubes
        self._path = target.new_path()
        self.arrow_bytes = self.rows = 0
        self._metrics = MetricsCollector(target.schema)
        options = target.options
        if shared:  # in parallel with other files
            least = min(16 << 20, options.sort_memory_bytes)
            options = replace(options, sort_memory_bytes=max(least, options.sort_memory_bytes // 8))
        self._writer = Writer(
            readable_path(self._path),
            target.file_schema,
            cluster_by=list(target.cluster_by) or None,
            unique=target.unique,
            presorted=presorted and bool(target.cluster_by),
            indexes=target.indexes,
            options=options,
            metadata=None if cubes is None else {CUBES: cubes.to_json()},
        )

    def add(self, table: pa.Table) -> None:
        self.arrow_bytes += table.nbytes
        self.rows += table.num_rows
        _collect(self._metrics, table, self._target)
        self._writer.write(table)

    def finish(self, partition: tuple[Any, ...]) -> DataFile:
        # before close(): if this fails, the writer can still be aborted
        metrics = self._metrics.result()
        summary = self._writer.close()
        return DataFile(
            path=self._path,
            format=FILE_FORMATS["nimble"],
            rows=summary.num_rows,
            bytes=summary.size_bytes,
            spec_id=self._target.spec_id,
            partition=partition,
            metrics=metrics,
            sort_order_id=self._target.sort_order_id,
            cubes=self._cubes,
        )

    def abort(self) -> None:
        self._writer.abort()


class _ParquetFile:
    """A Parquet file: collects its rows, sorts them and writes them."""

    def __init__(
        self, target: Target, presorted: bool, *, shared: bool, cubes: FileCubes | None = None
    ) -> None:
        self._target = target
        self._cubes = cubes
        self._presorted = presorted
        self._path = target.new_path()
        self.arrow_bytes = self.rows = 0
        self._metrics = MetricsCollector(target.schema)
        self._tables: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        self.arrow_bytes += table.nbytes
        self.rows += table.num_rows
        _collect(self._metrics, table, self._target)
        self._tables.append(table)

    def finish(self, partition: tuple[Any, ...]) -> DataFile:
        table = sorted_rows(
            pa.concat_tables(self._tables), self._target.cluster_by, presorted=self._presorted
        )
        group_rows = _ROW_GROUP_ROWS
        if self._cubes is not None:
            more = {**(table.schema.metadata or {}), CUBES: self._cubes.to_json()}
            table = table.replace_schema_metadata(more)
            group_rows = min(group_rows, max(_LEAST_GROUP, table.num_rows // _GROUPS_BY_WEIGHT))
        if self._target.file_names:
            names = [name_in_files(item, self._target.file_names) for item in table.schema]
            table = table.rename_columns(names)
        size = write_parquet(table, self._path, group_rows)
        return DataFile(
            path=self._path,
            format=FILE_FORMATS["parquet"],
            rows=table.num_rows,
            bytes=size,
            spec_id=self._target.spec_id,
            partition=partition,
            metrics=self._metrics.result(),
            sort_order_id=self._target.sort_order_id,
            cubes=self._cubes,
        )

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            remove_file(self._path)


def key_table(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """Returns the columns of a key in key order, named by numbers."""
    columns = [column_at(table, resolve_column(table.schema, key.column).path) for key in keys]
    return pa.table(columns, names=[str(i) for i in range(len(keys))])


def _collect(metrics: MetricsCollector, table: pa.Table, target: Target) -> None:
    """Collects statistics of the table's columns, without columns that only files have."""
    for batch in table.to_batches():
        metrics.add(batch.select(range(len(target.schema))))


def sorted_rows(table: pa.Table, keys: Sequence[SortKey], *, presorted: bool = False) -> pa.Table:
    """Sorts rows by a key, stably.

    Raises:
        KeyOrderError: ``presorted`` rows are not in order.
    """
    if not keys or table.num_rows < 2:
        return table
    order = key_order(key_table(table, keys), keys, False)
    ordered = order == np.arange(len(order))
    if ordered.all():
        return table
    if presorted:
        at = int(np.flatnonzero(~ordered)[0])
        raise KeyOrderError(
            f"row {at} of a file is not in the order of the key; sort the rows, or omit "
            "presorted=True"
        )
    return table.take(pa.array(order))


def _with_iceberg_types(table: pa.Table) -> pa.Table:
    """Returns the columns as other Iceberg readers expect them.

    Vectors become lists, times are in UTC, and columns of Iceberg's type ``unknown`` are left out.
    """
    typed = [i for i, field in enumerate(table.schema) if not pt.is_null(field.type)]
    if 0 < len(typed) < table.num_columns:
        table = table.select(typed)
    for i, item in enumerate(table.schema):
        if is_variant(item):
            groups = split(table.column(i).combine_chunks(), item.name)
            table = table.set_column(i, item.with_type(STORED), groups)
    fields = [field.with_type(_iceberg_type(field.type)) for field in table.schema]
    if fields == list(table.schema):
        return table
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))


def _iceberg_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        typed = [item for item in kind if not pt.is_null(item.type)] or kind
        return pa.struct([item.with_type(_iceberg_type(item.type)) for item in typed])
    if pt.is_map(kind):
        key, value = kind.key_field, kind.item_field
        return pa.map_(
            key.with_type(_iceberg_type(key.type)), value.with_type(_iceberg_type(value.type))
        )
    if is_list(kind):
        element = kind.value_field
        return pa.list_(element.with_type(_iceberg_type(element.type)))
    return pa.timestamp(kind.unit, "UTC") if has_zone(kind) else kind


def write_parquet(table: pa.Table, path: str, group_rows: int = _ROW_GROUP_ROWS) -> int:
    """Writes a Parquet file and returns its size in bytes."""
    from pyarrow import parquet

    table = _with_iceberg_types(table)
    return _write_file(
        path,
        lambda sink: parquet.write_table(
            table, sink, compression="zstd", row_group_size=group_rows
        ),
    )


def write_bytes(octets: bytes, path: str) -> None:
    """Writes a file, and syncs it if it is local."""
    _write_file(path, lambda sink: sink.write(octets))


def _write_file(path: str, write: Callable[[Any], object]) -> int:
    """Writes a file and returns its size in bytes."""
    place = locate(readable_path(path))
    if place.is_local:
        try:
            with open(place.path, "wb") as sink:
                write(sink)
                sink.flush()
                os.fsync(sink.fileno())
                return sink.tell()
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(place.path)
            raise
    buffer = pa.BufferOutputStream()
    write(buffer)
    octets = buffer.getvalue()
    sink = place.sink()
    sink.write(memoryview(octets).cast("B"))  # obstore does not accept signed bytes
    sink.commit()
    return int(octets.size)


def write_vectors(files: Sequence[tuple[DataFile, RowNumbers]], target: Target) -> list[DataFile]:
    """Writes one Puffin file of deletion vectors, which belongs to no table yet.

    Args:
        files: (data file, its ascending deleted rows). These include the rows that older delete
            files list, because a data file has at most one vector.
    """
    if not files:
        return []
    path = target.new_path("deletes", ".puffin")
    blobs = [
        Blob(
            kind="deletion-vector-v1",
            payload=deletion_vector(rows),
            fields=(ROW_POSITION_ID,),
            properties={VECTOR_PATH: file.path, "cardinality": str(len(rows))},
        )
        for file, rows in files
    ]
    octets, _ = puffin_bytes(blobs)
    write_bytes(octets, path)
    made = []
    offset = FIRST_BLOB
    for (file, rows), blob in zip(files, blobs, strict=True):
        vector = Vector(data_file=file.path, offset=offset, size=len(blob.payload))
        made.append(
            DataFile(
                path=path,
                format="PUFFIN",
                rows=len(rows),
                bytes=len(octets),
                content="position deletes",
                spec_id=file.spec_id,
                partition=file.partition,
                vector=vector,
            )
        )
        offset += len(blob.payload)
        keep_positions(made[-1].identity, {file.path: rows})
    return made


def write_deletes(rows: dict[str, Any], target: Target, partition: tuple[Any, ...]) -> DataFile:
    """Writes one delete file, which belongs to no table yet. For tables without vectors.

    Args:
        rows: ascending rows of each data file of one partition.
    """
    table = deletes_table(rows)
    path = target.new_path("deletes")
    if target.data_format == "nimble":
        with Writer(readable_path(path), table.schema, options=_DELETES) as writer:
            writer.write(table)
        size = writer.summary.size_bytes
    else:
        # Parquet has its own dictionaries; some readers do not accept Arrow's for text columns.
        paths_of = table.field("file_path").with_type(pa.string())
        plain = table.column("file_path").cast(pa.string())
        size = write_parquet(table.set_column(0, paths_of, plain), path)
    keep_positions(path, rows)
    paths = sorted(path for path, positions in rows.items() if len(positions))
    return DataFile(
        path=path,
        format=FILE_FORMATS[target.data_format],
        rows=table.num_rows,
        bytes=size,
        content="position deletes",
        spec_id=target.spec_id,
        partition=partition,
        metrics=Metrics(
            lower={DELETED_PATH_ID: paths[0].encode()}, upper={DELETED_PATH_ID: paths[-1].encode()}
        ),
    )
