"""Merges DataFrames into tables: tasks find and write rows, and the driver commits once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.arguments import at_least
from nimblepy.spark.base.errors import own_errors
from nimblepy.spark.base.frames import quoted
from nimblepy.spark.base.inputs import InputTable, is_table
from nimblepy.spark.base.schemas import arrow_schema, spark_schema
from nimblepy.spark.base.shipping import TaskFunction, map_in_arrow, run_numbered
from nimblepy.spark.writing.table import checked_target, partition_column
from nimblepy.spark.writing.tasks import merged_parts, parts_with_keys, saved_parts

if TYPE_CHECKING:
    from nimblepy.table.changing.merge_plan import Merge, MergePlan, On
    from nimblepy.table.changing.shared_merge import Outcome, Part
    from nimblepy.table.reading.members import MemberRows
    from nimblepy.table.table import Table
    from nimblepy.table.writing.batches import Batch
    from nimblepy.table.writing.commit import Commit
    from nimblepy.table.writing.write import Target

# Up to this many bytes in memory, the driver merges the source itself: starting tasks takes longer.
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
    """Merges a DataFrame into a table by key.

    It has the same clauses and results as :meth:`nimblepy.Table.merge`; ``execute()`` runs it.

    Args:
        on: equal columns, as for ``Table.merge``; the default is the primary key. Keys of the
            DataFrame must be unique.
        files: maximum number of parts of the DataFrame, each of which writes its own files; the
            default is ``spark.sql.shuffle.partitions``, which Spark may coalesce.
        batch: (name, number), as for :func:`write`: if this or a later batch of that name was
            already committed, nothing is changed.

    Raises:
        As ``Table.merge`` and its ``execute()``.

    Cost: computes the DataFrame once, shuffles it by key ranges, and saves it in the table's
        directory until the commit. The driver merges up to 32 MiB itself. Otherwise each task looks
        up the keys of its part in the files that may contain them, and writes its new rows. The
        driver holds 16 bytes for each matching row, and writes the delete files. If another commit
        was first, only parts with keys that it touched are repeated. The driver searches the rows
        for ``when_not_matched_by_source``.

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
    """Merges with replacement of rows that have the same key. Missing columns become null.

    Raises:
        InvalidArgumentError: the table has no primary key, or the columns do not fit.
    """
    if not table.primary_key:
        raise InvalidArgumentError(
            f"upsert: {table.name} has no primary key to find rows by; merge(data, on=...) "
            "does not need one"
        )
    schema = checked_target(table, df.schema, None).schema
    lacking = [F.lit(None).alias(name) for name in schema.names if name not in df.columns]
    whole = df.select("*", *lacking) if lacking else df
    done = merge(whole, table, files=files, batch=batch).when_matched(update=True)
    return done.when_not_matched().execute()


def _execute(
    df: DataFrame, table: Table, merge: Merge, files: int | None, batch: Batch | None
) -> Commit:
    from nimblepy.table.changing.row_commit import begin
    from nimblepy.table.changing.shared_merge import rehearse, shared_merge_change, whole_of
    from nimblepy.table.handle import TableState
    from nimblepy.table.writing.settings import target_of
    from nimblepy.table.writing.write import discard

    call = begin(TableState(table), "merge", batch)
    if call.is_done:
        return call.nothing()
    metadata = call.metadata
    plan, target, schema = merge.plan(metadata), target_of(metadata), arrow_schema(df.schema)
    rehearse(schema, plan, call.table.rows(metadata), target)
    parts = _saved(df, plan, target, files)
    try:
        if sum(part.bytes for part in parts) <= ALONE_BYTES:
            return call.commit(plan.change(whole_of(parts, schema, plan), metadata))
        workers = _Tasks(df.sparkSession, table.name, plan)
        return call.commit(shared_merge_change(plan, parts, workers, metadata))
    finally:
        discard(parts)


def _saved(df: DataFrame, plan: MergePlan, target: Target, files: int | None) -> list[Part]:
    """Saves the DataFrame in parts. All rows of a key are in the same part."""
    from nimblepy.table.changing.shared_merge import PARTS, parts_of
    from nimblepy.table.writing.write import partition_sources

    # Partition first by the table's partitions, as far as the key determines them, so that a part
    # writes to few partitions. Then partition by key ranges, so that a part searches few files if
    # the table is sorted by the key.
    columns = {(target,): source for source, target in plan.on.items()}
    keys = [
        partition_column((columns[path],), transform, kind)
        for path, transform, kind in partition_sources(target)
        if path in columns
    ]
    keys += [F.col(quoted(name)) for name in plan.on]
    ranged = df.repartitionByRange(files, *keys) if files else df.repartitionByRange(*keys)
    saved = map_in_arrow(ranged, saved_parts, spark_schema(PARTS), plan, target)
    with own_errors():
        return parts_of(saved.toArrow())


@dataclass(frozen=True)
class _Tasks:
    """Processes the parts of a merge, one task per part."""

    spark: SparkSession
    name: str
    plan: MergePlan

    def outcomes(self, parts: Sequence[Part], rows: MemberRows, target: Target) -> list[Outcome]:
        from nimblepy.table.changing.shared_merge import OUTCOMES, outcomes_of

        results = self._run(merged_parts, OUTCOMES, parts, rows, target)
        return outcomes_of(results, len(parts))

    def holding(self, parts: Sequence[Part], rows: MemberRows) -> list[bool]:
        results = self._run(parts_with_keys, _HELD, parts, rows).to_pydict()
        held = dict(zip(results["part"], results["holds"], strict=True))
        return [held[i] for i in range(len(parts))]

    def _run(
        self,
        make: TaskFunction,
        schema: pa.Schema,
        parts: Sequence[Part],
        rows: MemberRows,
        *more: Any,
    ) -> pa.Table:
        files = InputTable(self.name, rows=rows)
        given = (list(parts), self.plan, files, *more)
        return run_numbered(self.spark, make, schema, len(parts), *given)
