"""Writes DataFrames as files of a directory; a job publishes its files when all tasks succeeded.

Options of ``df.write.format("nimble")``: ``cluster_by`` ("a, b desc nulls first"), ``hash_index``
and ``sorted_index`` (columns of an index; ``;`` separates indexes), ``write_options`` (JSON of
:class:`nimblepy.WriteOptions`). Each task sorts its own rows; :func:`write` also gives the files
disjoint key ranges.
"""

from __future__ import annotations

import json
import os
import posixpath
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.options import HashIndex, SortedIndex, WriteOptions
from nimblepy.file.write import ClusterBy, Writer
from nimblepy.files.dataset import open_child, resolve_directory
from nimblepy.files.publish import TEMPORARY, data_files, discard, publish, temporary_folder
from nimblepy.io.location import Location, is_uri
from nimblepy.rows.arguments import at_least
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import Path, show_path
from nimblepy.schema.types import SortKey, as_sort_keys, pack_sort_keys
from nimblepy.spark.base.errors import explain_missing_source
from nimblepy.spark.base.frames import quoted
from nimblepy.spark.base.inputs import is_table, local_path
from nimblepy.spark.base.options import (
    INDEXES_OPTION,
    indexes_of,
    pack_indexes,
    parse_keys,
    refuse_others,
)
from nimblepy.spark.base.schemas import arrow_schema, conform
from nimblepy.spark.base.shipping import ShippedByValue
from nimblepy.spark.writing.merge import upsert
from nimblepy.spark.writing.table import write_table

if TYPE_CHECKING:
    from nimblepy.table.changing.staged import PartitionOverwrite
    from nimblepy.table.table import Table
    from nimblepy.table.writing.commit import Commit

_OPTIONS = (
    *("path", "cluster_by", "hash_index", "sorted_index", "write_options"),
    INDEXES_OPTION,
)


@dataclass
class WrittenFile(WriterCommitMessage):
    """The name of the file that a task has written; ``None`` if the task had no rows."""

    name: str | None


class NimbleWriter(ShippedByValue, DataSourceArrowWriter):
    """One write job. It is created on the driver; tasks and the commit get copies of it."""

    def __init__(self, schema: StructType, options: dict[str, str], overwrite: bool) -> None:
        refuse_others(options, _OPTIONS, "a write to a directory")
        self._path = _target(options)
        self._overwrite = overwrite
        current = None if overwrite else _form_of(self._directory)
        self._schema = _adopted(arrow_schema(schema), None if current is None else current[0])
        if "cluster_by" in options:
            self._keys = parse_keys(options["cluster_by"])
        else:
            self._keys = () if current is None else current[1]
        for key in self._keys:
            _check_collation(schema, resolve_column(self._schema, key.column).path)
        if current is not None:
            _check_same(self._path, current, self._schema, self._keys)
        self._indexes = indexes_of(options)
        self._options = _write_options(options.get("write_options"))
        self._job = uuid.uuid4().hex
        # Check schema, key and indexes now, before any task runs.
        with tempfile.TemporaryDirectory() as folder:
            self._open(os.path.join(folder, "probe.nimble")).abort()

    @property
    def _directory(self) -> Location:
        return resolve_directory(self._path)

    def _open(self, path: str) -> Writer:
        return Writer(
            path,
            self._schema,
            cluster_by=list(self._keys) or None,
            indexes=self._indexes,
            options=self._options,
        )

    def _temporary_path(self, name: str) -> str:
        """Returns the location to which a task writes a file of this job."""
        directory = self._directory
        if directory.is_local:
            folder = temporary_folder(directory, self._job).path
            os.makedirs(folder, exist_ok=True)
            return os.path.join(folder, name)
        return posixpath.join(self._path, TEMPORARY, self._job, name)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        part, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        name = f"{part:05d}-{attempt}-{uuid.uuid4().hex[:8]}.nimble"
        writer = None
        try:
            for batch in iterator:
                if not batch.num_rows:
                    continue
                if writer is None:
                    writer = self._open(self._temporary_path(name))
                writer.write(conform(batch, self._schema))
            if writer is None:
                return WrittenFile(None)
            writer.close()
        except BaseException:
            if writer is not None:
                writer.abort()
            raise
        return WrittenFile(name)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        names = [m.name for m in messages if isinstance(m, WrittenFile) and m.name is not None]
        directory = self._directory
        if not names and (self._overwrite or not data_files(directory)):
            # A file without rows keeps the schema.
            names = ["00000.nimble"]
            self._open(self._temporary_path(names[0])).close()
        publish(directory, self._job, names, overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # An attempt may still be writing there. Readers ignore the folder.
        discard(self._directory, self._job)


def write(
    df: DataFrame,
    directory: str | os.PathLike[str] | Table,
    *,
    cluster_by: ClusterBy = None,
    files: int | None = None,
    indexes: Sequence[HashIndex | SortedIndex] = (),
    mode: Literal["error", "append", "overwrite", "upsert"] = "overwrite",
    options: WriteOptions | None = None,
    batch: tuple[str, int] | None = None,
    filter: str | pc.Expression | None = None,
    partition_overwrite: PartitionOverwrite = "static",
) -> Commit | None:
    """Writes a DataFrame as files with disjoint key ranges, each sorted and indexed.

    In a directory, all rows of a key are in one file. The files get their final names one after
    another when all tasks have succeeded; a job that fails leaves nothing visible. For a
    :class:`nimblepy.Table`, tasks write and describe files, and the driver commits them
    atomically: use a table if readers must see either the old or the new data.

    Args:
        directory: path or URI of a directory, or a table. A table defines its cluster key, indexes
            and options itself.
        cluster_by: the cluster key, as for :func:`nimblepy.write`.
        files: maximum number of files; the default is ``spark.sql.shuffle.partitions``, which Spark
            may coalesce.
        mode: ``"append"`` adds to the data. ``"overwrite"`` publishes the new files and then
            removes the old ones. ``"error"``, only for directories, refuses a directory that has
            files. ``"upsert"``, only for tables, replaces rows with the same primary key and
            inserts the others; keys of the DataFrame must be unique.
        batch: only for tables: (name, number); if this or a later batch of that name was already
            committed, nothing is written. For ``foreachBatch``, which may repeat batches.
        filter: only for tables: ``"overwrite"`` replaces only the rows that match.
        partition_overwrite: only for tables: with ``"dynamic"``, an overwrite replaces only the
            partitions that occur in the DataFrame.

    Returns:
        For a table, the commit; its snapshot is unchanged if the batch was already committed.

    Raises:
        InvalidArgumentError: unknown columns, types without an order, a directory with files if
            ``mode`` is ``"error"``.
        ConflictError, DuplicateKeyError: for a table, as its own methods raise them.
        NimbleMissingOnExecutor: Spark's Python cannot import nimblepy.
        pyspark errors: a task failed, or the directory has other columns or another cluster key.

    Cost: one shuffle by key ranges; for a table, by partitions and then key ranges. Each task sorts
        natively and spills to disk if memory is short. Object stores copy each file once more. An
        upsert costs as much as :func:`merge`; any other write to a table with a primary key reads
        the new keys on the driver.
    """
    if files is not None:
        files = at_least("files", files, 1)
    if is_table(directory):
        given: dict[str, object] = {
            "cluster_by": cluster_by,
            "indexes": indexes,
            "options": options,
        }
        wrong = [name for name, value in given.items() if value not in (None, ())]
        if wrong:
            raise InvalidArgumentError(f"{wrong[0]}: cannot be given; the table defines it")
        if mode == "error":
            raise InvalidArgumentError("mode 'error': only supported for directories")
        from nimblepy.table.changing.staged import check_mode

        check_mode(mode, filter, partition_overwrite)
        table = cast("Table", directory)
        if mode == "upsert":
            return upsert(df, table, files=files, batch=batch)
        return write_table(
            df,
            table,
            mode=mode,
            filter=filter,
            partition_overwrite=partition_overwrite,
            batch=batch,
            files=files,
        )
    if filter is not None or partition_overwrite != "static" or batch is not None:
        raise InvalidArgumentError("filter, partition_overwrite, batch: only supported for tables")
    if mode not in ("error", "append", "overwrite"):
        raise InvalidArgumentError(f"mode: expected 'error', 'append' or 'overwrite', got {mode!r}")
    keys = as_sort_keys(cluster_by)
    if not keys:
        raise InvalidArgumentError("cluster_by: got no column; expected at least one")
    path = os.fspath(cast("str | os.PathLike[str]", directory))
    if mode == "error" and data_files(resolve_directory(local_path(path))):
        raise InvalidArgumentError(
            f"{path}: the directory has files; pass mode='append' or mode='overwrite'"
        )
    schema = arrow_schema(df.schema)
    order = [_ordered(schema, key) for key in keys]
    ranged = df.repartitionByRange(files, *order) if files else df.repartitionByRange(*order)
    writer = ranged.write.format("nimble").mode("overwrite" if mode == "overwrite" else "append")
    writer = writer.option("cluster_by", pack_sort_keys(keys))
    if options is not None:
        writer = writer.option("write_options", json.dumps(asdict(options)))
    if indexes:
        writer = writer.option(INDEXES_OPTION, pack_indexes(indexes))
    with explain_missing_source():
        writer.save(path)
    return None


def _ordered(schema: pa.Schema, key: SortKey) -> Any:
    """The key column in the order of the file. Spark puts nulls first by default, nimble last."""
    column = F.col(quoted(*resolve_column(schema, key.column).path))
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _adopted(schema: pa.Schema, current: pa.Schema | None) -> pa.Schema:
    """The dataset's schema if it can hold rows of ``schema``, otherwise ``schema``.

    The dataset's columns may be nullable where those of ``schema`` are not.
    """
    if current is None or schema.names != current.names:
        return schema
    pairs = list(zip(schema, current, strict=True))
    fits = all(new.type == old.type and (old.nullable or not new.nullable) for new, old in pairs)
    return current if fits else schema


def _target(options: dict[str, str]) -> str:
    if "path" not in options:
        raise InvalidArgumentError("nimble: no path to write to; use .save(directory)")
    path = local_path(options["path"])
    return path.rstrip("/") if is_uri(path) else os.path.abspath(path)


def _form_of(directory: Location) -> tuple[pa.Schema, tuple[SortKey, ...]] | None:
    """The schema and the cluster key of the files; ``None`` if there are no files."""
    names = data_files(directory)
    if not names:
        return None
    with closing(open_child(directory, names[0], mmap=False, cache_bytes=0)) as file:
        return file.schema, tuple(file.cluster_by)


def _check_same(
    path: str,
    current: tuple[pa.Schema, tuple[SortKey, ...]],
    schema: pa.Schema,
    cluster_by: tuple[SortKey, ...],
) -> None:
    """Refuses rows that do not fit the files of the directory."""
    current_schema, current_key = current
    if cluster_by != current_key:
        raise InvalidArgumentError(
            f"{path}: files are clustered by ({', '.join(map(str, current_key))}), not by "
            f"({', '.join(map(str, cluster_by))}); append with the same key, or overwrite"
        )
    if not schema.equals(current_schema):
        raise InvalidArgumentError(
            f"{path}: files have the columns {_columns(current_schema)}; the new rows have "
            f"{_columns(schema)}"
        )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )


def _check_collation(schema: StructType, path: Path) -> None:
    kind: Any = schema
    for name in path:
        kind = kind[name].dataType
    if isinstance(kind, StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        raise InvalidArgumentError(
            f"cluster_by: column {show_path(path)!r} has the collation {kind.collation}; keys are "
            "ordered by their bytes, so cast it to STRING COLLATE UTF8_BINARY"
        )


def _write_options(text: str | None) -> WriteOptions:
    if text is None:
        return WriteOptions(threads=1)
    given = json.loads(text)
    return WriteOptions(**{**given, "threads": given.get("threads") or 1})
