"""Merges of DataFrames into tables: tasks find and write rows, the driver commits once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.arguments import at_least
from nimblepy.spark.arguments import quoted
from nimblepy.spark.errors import own_errors
from nimblepy.spark.inputs import InputTable, is_table
from nimblepy.spark.schemas import arrow_schema, spark_schema
from nimblepy.spark.shipping import map_in_arrow, run_numbered
from nimblepy.spark.table_write import checked_target, partition_column

if TYPE_CHECKING:
    from nimblepy.table import iceberg as ice
    from nimblepy.table.changing.merge_plan import Merge, MergePlan, On
    from nimblepy.table.changing.row_changes import FilesOf, RowChange
    from nimblepy.table.changing.shared_merge import Outcome, Part
    from nimblepy.table.reading.members import MemberRows
    from nimblepy.table.table import Table
    from nimblepy.table.writing.batches import Batch
    from nimblepy.table.writing.commit import Commit
    from nimblepy.table.writing.write import Target

# Bytes in memory of a source up to which the driver merges it alone: tasks take longer to begin.
ALONE_BYTES = 32 << 20

_HELD = pa.schema([pa.field("part", pa.int64(), False), pa.field("holds", pa.bool_(), False)])


def merge(
    df: DataFrame,
    table: Table,
    on: On = None,
    *,
    files: int | None = None,
    batch: Batch | None = None,
) -> Merge:
    """Brings rows of a DataFrame together with those of a table that have their keys.

    As :meth:`nimblepy.Table.merge`, clause by clause, with the same result; ``execute()`` runs it.

    Args:
        on: equal columns, as there; the default is the primary key. No two rows may have the same.
        files: most parts that the DataFrame is cut into, each of which writes files of its own;
            the default is ``spark.sql.shuffle.partitions``, which Spark may coalesce.
        batch: (name, number), as for :func:`write`: nothing is changed where this or a later batch
            of that name has been.

    Raises:
        As ``Table.merge`` and its ``execute()``.

    Cost: the DataFrame is run once, shuffled by ranges of the key, and saved in the table's
        directory until the commit. Where it has at most 32 MiB, the driver then merges it; else
        each task looks the keys of its part up in the files that can have them, and writes its new
        rows. The driver holds 16 bytes for each row that matches, and writes the delete files.
        After another commit only those parts are done again that have keys which it touched. Rows
        for ``when_not_matched_by_source`` are looked for on the driver.

    Example:
        >>> merge = ns.merge(df, table).when_matched(update=True)  # doctest: +SKIP
        >>> merge.when_not_matched().execute()  # doctest: +SKIP
    """
    from nimblepy.table.changing.merge_plan import Merge

    if not is_table(table):
        raise InvalidArgumentError(f"merge: expected a Table, got {table!r}")
    if files is not None:
        files = at_least("files", files, 1)
    return Merge(lambda merge: _execute(df, table, merge, files, batch), on, table.name)


def upsert(df: DataFrame, table: Table, *, files: int | None, batch: Batch | None) -> Commit:
    """A merge in which rows take the place of those with their keys; columns they lack are null.

    Raises:
        InvalidArgumentError: the table has no primary key, or other columns.
    """
    if not table.primary_key:
        raise InvalidArgumentError(
            f"upsert: {table.name} has no primary key to find rows by; merge(data, on=...) needs "
            "none"
        )
    schema = checked_target(table, df.schema, None).schema
    lacking = [F.lit(None).alias(name) for name in schema.names if name not in df.columns]
    whole = df.select("*", *lacking) if lacking else df
    done = merge(whole, table, files=files, batch=batch).when_matched(update=True)
    return done.when_not_matched().execute()


def _execute(
    df: DataFrame, table: Table, merge: Merge, files: int | None, batch: Batch | None
) -> Commit:
    from nimblepy.table.changing.shared_merge import SharedMerge, rehearse, whole_of
    from nimblepy.table.writing.settings import target_of
    from nimblepy.table.writing.write import discard

    parts: list[Part] = []

    def made(metadata: ice.Metadata, files_of: FilesOf) -> RowChange:
        plan, target, schema = merge.plan(metadata), target_of(metadata), arrow_schema(df.schema)
        rehearse(schema, plan, files_of(metadata), target)
        parts.extend(_saved(df, plan, target, files))
        if sum(part.bytes for part in parts) <= ALONE_BYTES:
            change: RowChange = plan.change(whole_of(parts, schema, plan), files_of)
        else:
            workers = _Tasks(df.sparkSession, table.name, plan)
            change = SharedMerge(plan, parts, workers, files_of)
        return change

    try:
        return table.commit_change(made, batch)
    finally:
        discard(parts)


def _saved(df: DataFrame, plan: MergePlan, target: Target, files: int | None) -> list[Part]:
    """The DataFrame in parts, each of which has all rows of its keys."""
    from nimblepy.table.changing.shared_merge import PARTS, parts_of
    from nimblepy.table.writing.write import partition_sources

    # By ranges, so that a part asks few files of a table that is ordered by the key; and first by
    # partitions that the key says, so that it writes to few.
    columns = {(target,): source for source, target in plan.on.items()}
    keys = [
        partition_column((columns[path],), transform, kind)
        for path, transform, kind in partition_sources(target)
        if path in columns
    ]
    keys += [F.col(quoted(name)) for name in plan.on]
    ranged = df.repartitionByRange(files, *keys) if files else df.repartitionByRange(*keys)
    saved = map_in_arrow(ranged, "saved_parts", spark_schema(PARTS), plan, target)
    with own_errors():
        return parts_of(saved.toArrow())


@dataclass(frozen=True)
class _Tasks:
    """Works on the parts of a merge in tasks, each of one part."""

    spark: SparkSession
    name: str
    plan: MergePlan

    def outcomes(self, parts: Sequence[Part], rows: MemberRows, target: Target) -> list[Outcome]:
        from nimblepy.table.changing.shared_merge import OUTCOMES, outcomes_of

        found = self._run("merged_parts", OUTCOMES, parts, rows, target)
        return outcomes_of(found, len(parts))

    def holding(self, parts: Sequence[Part], rows: MemberRows) -> list[bool]:
        found = self._run("parts_with_keys", _HELD, parts, rows).to_pydict()
        held = dict(zip(found["part"], found["holds"], strict=True))
        return [held[i] for i in range(len(parts))]

    def _run(
        self, kind: str, schema: pa.Schema, parts: Sequence[Part], rows: MemberRows, *more: Any
    ) -> pa.Table:
        files = InputTable(self.name, rows=rows)
        given = (list(parts), self.plan, files, *more)
        return run_numbered(self.spark, kind, schema, len(parts), *given)
