"""Writes DataFrames to tables: tasks write and describe files, and the driver commits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from nimblepy.expr.filter import parse_filter
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import Path
from nimblepy.spark.base.errors import own_errors
from nimblepy.spark.base.frames import quoted
from nimblepy.spark.base.options import refuse_others
from nimblepy.spark.base.schemas import arrow_schema
from nimblepy.spark.base.shipping import ShippedByValue, array_udf, map_in_arrow
from nimblepy.spark.base.tables import written_table
from nimblepy.spark.writing.layout import by_curve, whole_cubes
from nimblepy.spark.writing.tasks import partition_values, written_files

if TYPE_CHECKING:
    from nimblepy.table.base.model import DataFile
    from nimblepy.table.changing.staged import Mode, PartitionOverwrite
    from nimblepy.table.table import Table
    from nimblepy.table.writing.batches import Batch
    from nimblepy.table.writing.commit import Commit
    from nimblepy.table.writing.write import Target

_OPTIONS = ("catalog", "catalog.", "table", "branch", "filter", "partition_overwrite")


def write_table(
    df: DataFrame,
    table: Table,
    *,
    mode: Mode,
    filter: Any = None,
    partition_overwrite: PartitionOverwrite = "static",
    batch: Batch | None = None,
    files: int | None = None,
) -> Commit:
    """Appends a DataFrame to a table, or overwrites it; see :func:`nimblepy.spark.write`."""
    from nimblepy.table.changing.row_commit import begin
    from nimblepy.table.handle import TableState
    from nimblepy.table.reading.shipped import files_of_text

    call = begin(TableState(table), "write", batch)
    if call.is_done:
        return call.nothing()
    target = checked_target(table, df.schema, filter)
    if mode == "overwrite" and filter is None and partition_overwrite == "static":
        target = replace(target, rows_before=0)
    rows, target = _distributed(df, target, files)
    done = map_in_arrow(rows, written_files, "files string", target)
    with own_errors():
        texts = [row[0] for row in done.collect()]
    new_files = [file for text in texts for file in files_of_text(text)]
    return _commit_files(
        table,
        whole_cubes(df.sparkSession, new_files, target),
        mode=mode,
        filter=filter,
        partition_overwrite=partition_overwrite,
        batch=batch,
    )


def _commit_files(table: Table, files: Sequence[DataFile], **how: Any) -> Commit:
    from nimblepy.table.changing.staged import commit_files
    from nimblepy.table.handle import TableState

    return commit_files(TableState(table), files, **how)


def checked_target(table: Table, schema: StructType, filter: Any) -> Target:
    """The target for new files. Raises an error now, before tasks run, if columns do not fit."""
    from nimblepy.table.base.types import Conformer
    from nimblepy.table.distributed import write_target

    target = write_target(table)
    Conformer(arrow_schema(schema), target.schema)
    if filter is not None:
        parse_filter(filter, target.schema)
    return target


def _distributed(df: DataFrame, target: Target, files: int | None) -> tuple[DataFrame, Target]:
    """Distributes rows over tasks; returns the rows, and the target of the tasks.

    As far as possible, a task gets the rows of one partition, or of one key range.
    """
    from nimblepy.table.otree.layouts import Sorted
    from nimblepy.table.writing.write import partition_sources

    if target.layout is not None and not isinstance(target.layout, Sorted):
        return by_curve(df, target, target.layout, files)
    order: list[Any] = []
    for path, transform, kind in partition_sources(target):
        if path[0] in df.columns:
            order.append(partition_column(path, transform, kind))
    laid_out = () if target.layout is None else target.layout.columns
    for key in (*laid_out, *target.cluster_by):
        path = resolve_column(target.schema, key.column).path
        if path[0] in df.columns:
            column = F.col(quoted(*path))
            order.append(column.desc() if key.descending else column.asc())
    if not order:
        return (df.repartition(files) if files else df), target
    ranged = df.repartitionByRange(files, *order) if files else df.repartitionByRange(*order)
    return ranged, target


def partition_column(path: Path, transform: str, kind: pa.DataType) -> Column:
    """The value of a partition field."""
    from nimblepy.table.base.transforms import transform as transform_of

    column = F.col(quoted(*path))
    if transform in ("identity", "void"):
        return column
    result = transform_of(transform, kind)(pa.array([], kind)).type
    field = pa.field(".".join(path), kind)
    values = array_udf(partition_values, 1, from_arrow_type(result), transform, field)
    value: Column = values(column)
    return value


@dataclass
class WrittenFiles(WriterCommitMessage):
    """Describes the files that a task has written, as text."""

    text: str


class TableWriter(ShippedByValue, DataSourceArrowWriter):
    """``df.write.format("nimble")`` with the options ``catalog`` and ``table``.

    The option ``branch`` names the branch to write to. The others select what an
    overwrite replaces, as in :func:`nimblepy.spark.write`.
    """

    def __init__(self, schema: StructType, options: dict[str, str], overwrite: bool) -> None:
        from nimblepy.table.changing.staged import check_mode

        refuse_others(options, _OPTIONS, "a write to a table")
        self._options = options
        self._mode: Mode = "overwrite" if overwrite else "append"
        self._filter = options.get("filter")
        self._partitions = cast("PartitionOverwrite", options.get("partition_overwrite", "static"))
        check_mode(self._mode, self._filter, self._partitions)
        self._target = checked_target(written_table(options), schema, self._filter)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        (batch,) = written_files(self._target)(iterator)
        return WrittenFiles(batch.column(0)[0].as_py())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit_files(
            written_table(self._options),
            self._files(messages),
            mode=self._mode,
            filter=self._filter,
            partition_overwrite=self._partitions,
            batch=None,
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        from nimblepy.table.writing.write import discard

        # If all messages are present, the commit failed. It has already removed the files, unless
        # it may still take effect.
        if None in messages:
            discard(self._files(messages))  # remove_orphans() removes other files

    @staticmethod
    def _files(messages: list[WriterCommitMessage | None]) -> list[Any]:
        from nimblepy.table.reading.shipped import files_of_text

        texts = [message.text for message in messages if isinstance(message, WrittenFiles)]
        return [file for text in texts for file in files_of_text(text)]
