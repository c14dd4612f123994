"""Writes DataFrames as datasets: tasks stage files, and the commit publishes them atomically.

Options of ``df.write.format("nimble")``: ``cluster_by`` ("a, b desc nulls first"), ``hash_index``
and ``sorted_index`` (columns of an index; ``;`` separates indexes), ``write_options`` (JSON of
:class:`nimblepy.WriteOptions`), ``retention_seconds`` (see :func:`write`). Each task sorts its own
rows; :func:`write` also gives the files disjoint key ranges.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.open import open as open_file
from nimblepy.file.options import HashIndex, SortedIndex, WriteOptions
from nimblepy.file.write import ClusterBy, Writer
from nimblepy.files.commit import (
    RETENTION_SECONDS,
    discard,
    newest_manifest,
    publish,
    staging_folder,
)
from nimblepy.files.manifest import FileEntry, describe, manifest_versions
from nimblepy.files.statistics import Collector
from nimblepy.io.location import is_uri
from nimblepy.rows.arguments import at_least
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import Path, show_path
from nimblepy.schema.types import SortKey, as_sort_keys, pack_sort_keys
from nimblepy.spark.arguments import quoted
from nimblepy.spark.errors import explain_missing_source
from nimblepy.spark.inputs import is_table, local_path
from nimblepy.spark.options import (
    BATCH_OPTION,
    INDEXES_OPTION,
    indexes_of,
    pack_indexes,
    parse_keys,
    refuse_others,
)
from nimblepy.spark.schemas import arrow_schema, conform
from nimblepy.spark.shipping import ShippedByValue
from nimblepy.spark.table_merge import upsert
from nimblepy.spark.table_write import write_table

if TYPE_CHECKING:
    from nimblepy.table.changing.staged import PartitionOverwrite
    from nimblepy.table.table import Table
    from nimblepy.table.writing.commit import Commit

_OPTIONS = (
    *("path", "cluster_by", "hash_index", "sorted_index", "write_options", "retention_seconds"),
    *(INDEXES_OPTION, BATCH_OPTION),
)


@dataclass
class StagedFile(WriterCommitMessage):
    """Describes the file that a task has written; ``None`` if the task had no rows."""

    entry: FileEntry | None


class NimbleWriter(ShippedByValue, DataSourceArrowWriter):
    """One write job. It is created on the driver; tasks and the commit get copies of it."""

    def __init__(self, schema: StructType, options: dict[str, str], overwrite: bool) -> None:
        refuse_others(options, _OPTIONS, "a write to a directory")
        self._directory = _target(options)
        self._overwrite = overwrite
        versions = manifest_versions(self._directory, None)
        self._base = versions[-1] if versions else 0
        self._retention = float(options.get("retention_seconds", RETENTION_SECONDS))
        current = None if overwrite else newest_manifest(self._directory)
        self._schema = _adopted(arrow_schema(schema), None if current is None else current.schema)
        if "cluster_by" in options:
            self._keys = parse_keys(options["cluster_by"])
        else:
            self._keys = () if current is None else current.cluster_by
        for key in self._keys:
            _check_collation(schema, resolve_column(self._schema, key.column).path)
        self._indexes = indexes_of(options)
        self._options = _write_options(options.get("write_options"))
        self._batch = json.loads(options[BATCH_OPTION]) if BATCH_OPTION in options else None
        self._job = uuid.uuid4().hex
        # Check schema, key and indexes now, before any task runs, with a temporary file.
        self._probe()

    def _probe(self) -> None:
        folder = staging_folder(self._directory, self._job)
        os.makedirs(folder, exist_ok=True)
        try:
            self._open(os.path.join(folder, "probe.nimble")).abort()
        finally:
            discard(self._directory, self._job)

    def _open(self, path: str) -> Writer:
        return Writer(
            path,
            self._schema,
            cluster_by=list(self._keys) or None,
            indexes=self._indexes,
            options=self._options,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        part, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        name = f"{part:05d}-{attempt}-{uuid.uuid4().hex[:8]}.nimble"
        path = os.path.join(staging_folder(self._directory, self._job), name)
        writer = None
        statistics = Collector(self._schema)
        try:
            for batch in iterator:
                if not batch.num_rows:
                    continue
                if writer is None:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    writer = self._open(path)
                rows = conform(batch, self._schema)
                statistics.add(rows)
                writer.write(rows)
            if writer is None:
                return StagedFile(None)
            writer.close()
        except BaseException:
            if writer is not None:
                writer.abort()
            raise
        with open_file(path, mmap=False, cache_bytes=1 << 20) as file:
            return StagedFile(describe(file, name, statistics.result()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        entries = [m.entry for m in messages if isinstance(m, StagedFile) and m.entry is not None]
        publish(
            self._directory,
            self._job,
            entries,
            schema=self._schema,
            cluster_by=self._keys,
            overwrite=self._overwrite,
            base=self._base,
            retention_seconds=self._retention,
            batch=None if self._batch is None else (self._batch[0], int(self._batch[1])),
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # An attempt may still be writing here. A later commit removes its file.
        discard(self._directory, self._job)


def write(
    df: DataFrame,
    directory: str | os.PathLike[str] | Table,
    *,
    cluster_by: ClusterBy = None,
    files: int | None = None,
    indexes: Sequence[HashIndex | SortedIndex] = (),
    mode: Literal["overwrite", "append", "upsert"] = "overwrite",
    options: WriteOptions | None = None,
    batch: tuple[str, int] | None = None,
    retention_seconds: float | None = None,
    filter: str | pc.Expression | None = None,
    partition_overwrite: PartitionOverwrite = "static",
) -> Commit | None:
    """Writes a DataFrame as files with disjoint key ranges, each sorted and indexed.

    Readers see either the old or the new data. In a directory, all rows of a key are in one file.
    For a :class:`nimblepy.Table`, tasks write and describe files, and the driver commits.

    Args:
        directory: directory of the files, or a table. A table defines its cluster key, indexes and
            options itself.
        cluster_by: the cluster key, as for :func:`nimblepy.write`.
        files: maximum number of files; the default is ``spark.sql.shuffle.partitions``, which Spark
            may coalesce.
        mode: ``"overwrite"`` replaces the data that the dataset has when the job begins;
            ``"append"`` adds to it. ``"upsert"``, only for tables, replaces rows with the same
            primary key and inserts the others; keys of the DataFrame must be unique.
        batch: (name, number): if this or a later batch of that name was already committed, nothing
            is written. For ``foreachBatch``, which may repeat batches.
        retention_seconds: how long to keep replaced versions, and files that only they use, for
            open readers and queries; the default is a day. Later, these readers find files
            missing. The newest two versions are always kept.
        filter: only for tables: ``"overwrite"`` replaces only the rows that match.
        partition_overwrite: only for tables: with ``"dynamic"``, an overwrite replaces only the
            partitions that occur in the DataFrame.

    Returns:
        For a table, the commit; its snapshot is unchanged if the batch was already committed.

    Raises:
        InvalidArgumentError: unknown columns, types without an order, a path that is not local.
        ConflictError, DuplicateKeyError: for a table, as its own methods raise them.
        NimbleMissingOnExecutor: Spark's Python cannot import nimblepy.
        pyspark errors: a task failed, or another commit has changed the data to replace
            (``ConflictError``). The dataset has not changed.

    Cost: one shuffle by key ranges; for a table, by partitions and then key ranges. Each task sorts
        natively and spills to disk if memory is short. An upsert costs as much as :func:`merge`;
        any other write to a table with a primary key reads the new keys on the driver.
    """
    if files is not None:
        files = at_least("files", files, 1)
    if is_table(directory):
        given: dict[str, object] = {
            "cluster_by": cluster_by,
            "indexes": indexes,
            "options": options,
            "retention_seconds": retention_seconds,
        }
        wrong = [name for name, value in given.items() if value not in (None, ())]
        if wrong:
            raise InvalidArgumentError(f"{wrong[0]}: cannot be given; the table defines it")
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
    if filter is not None or partition_overwrite != "static":
        raise InvalidArgumentError("filter, partition_overwrite: only supported for tables")
    if mode not in ("overwrite", "append"):
        raise InvalidArgumentError(f"mode: expected 'overwrite' or 'append', got {mode!r}")
    keys = as_sort_keys(cluster_by)
    if not keys:
        raise InvalidArgumentError("cluster_by: got no column; expected at least one")
    schema = arrow_schema(df.schema)
    order = [_ordered(schema, key) for key in keys]
    ranged = df.repartitionByRange(files, *order) if files else df.repartitionByRange(*order)
    writer = ranged.write.format("nimble").mode(mode)
    writer = writer.option("cluster_by", pack_sort_keys(keys))
    if options is not None:
        writer = writer.option("write_options", json.dumps(asdict(options)))
    if indexes:
        writer = writer.option(INDEXES_OPTION, pack_indexes(indexes))
    if batch is not None:
        writer = writer.option(BATCH_OPTION, json.dumps([batch[0], int(batch[1])]))
    if retention_seconds is not None:
        writer = writer.option("retention_seconds", str(float(retention_seconds)))
    with explain_missing_source():
        writer.save(str(directory))
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
    if is_uri(path):
        raise InvalidArgumentError(
            f"{path}: commits need a directory that every executor has mounted; write there, then "
            "copy the directory"
        )
    return os.path.abspath(path)


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
