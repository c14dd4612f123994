"""Joins a DataFrame or RDD with files through the files' index, without shuffling the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, StructField, StructType

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.expr.filter import Parameters, with_params
from nimblepy.join.keys import probe_keys
from nimblepy.join.plan import HOWS, JoinPlan, Ranges, plan_join
from nimblepy.rows.arguments import column_names
from nimblepy.spark.base.frames import quoted
from nimblepy.spark.base.inputs import InputPath, SparkInput, find_input
from nimblepy.spark.base.schemas import arrow_schema, spark_schema
from nimblepy.spark.base.shipping import TaskFunction, array_udf, iterator_function
from nimblepy.spark.joins.arguments import Engine, How, JoinArguments, On, Strategy
from nimblepy.spark.joins.estimate import JoinEstimate, estimate_join
from nimblepy.spark.joins.scan_join import OUTER, scan_join
from nimblepy.spark.joins.tasks import (
    JoinSpec,
    exists_arrays,
    joined_rows,
    keyed_rows,
    lookup_arrays,
)


def index_join(
    probe_df: DataFrame,
    path: InputPath,
    *,
    on: On,
    how: How = "inner",
    columns: Sequence[str] | None = None,
    condition: pc.Expression | str | None = None,
    params: Parameters = None,
    between: Ranges | None = None,
    prefix: str | None = None,
    null_equals: bool = False,
    engine: Engine = "arrow",
    strategy: Strategy = "index",
) -> DataFrame:
    """Joins a DataFrame with nimble files: each task looks up the keys of its rows in the index.

    Args:
        path: a file, directory or glob that every executor can read; or a list of files.
        on: equal columns: a name, a list, or ``{probe column: file column}``. Leading columns of
            the cluster key are sufficient.
        how: ``"inner"``, ``"left"``, ``"semi"`` or ``"anti"``.
        columns: columns of the files; the default is all except those of ``on``.
        condition: SQL text, or a pyarrow expression, over the joined row. A left join returns a
            probe row once, with nulls, if no match passes.
        between: ``{file column: (lower, upper)}`` with names of probe columns. Both bounds are
            inclusive; ``None`` means no bound.
        params: values of the condition's parameters: a dict for ``$name``, a list for ``?``.
        prefix: prefix for the names of the files' columns, in the result and in ``condition``.
        null_equals: whether null keys match null keys.
        engine: ``"arrow"`` sends only the columns that the join needs to Python.
            ``"rdd"`` (``RDD.mapPartitions``) sends whole rows.
        strategy: ``"index"`` uses the index. ``"scan"`` uses Spark's own join over a scan of the
            files, and also supports ``"right"`` and ``"full"``. ``"auto"`` uses the cheaper one
            according to :func:`nimblepy.spark.explain_join`, or the only one that supports the
            join.

    Raises:
        InvalidArgumentError: unknown or clashing names (the message lists them), types that cannot
            be compared, or a ``how`` that needs ``strategy="scan"``.
        IndexUnavailableError: no index on the columns of ``on``.
        OSError, CorruptFileError: a file does not exist or is damaged; the message names it.

    Cost: reads the files' footers, or the directory's manifest, on the driver. Does not run a job.
    """
    for name, value, allowed in (("engine", engine, Engine), ("strategy", strategy, Strategy)):
        if value not in get_args(allowed):
            expected = ", ".join(get_args(allowed))
            raise InvalidArgumentError(f"{name}: expected one of {expected}, got {value!r}")
    files = find_input(path)
    join = JoinArguments(
        on=on,
        how=how,
        columns=columns,
        condition=with_params(condition, params),
        between=between,
        prefix=prefix,
        null_equals=null_equals,
    )
    if strategy == "scan":
        return scan_join(probe_df, files, join)
    estimate = None if strategy == "index" else _scan_estimate(probe_df, files, join)
    if estimate is not None:
        return scan_join(probe_df, files, join, broadcast=estimate.broadcasts_files)
    if strategy == "auto" and how in OUTER:
        return scan_join(probe_df, files, join)
    if how in OUTER:
        raise InvalidArgumentError(
            f"how={how!r} returns unmatched rows of the files, which an index cannot find; "
            'use strategy="scan"'
        )
    try:
        prepared = prepare(probe_df.schema, files, join)
    except IndexUnavailableError:
        if strategy == "auto":
            return scan_join(probe_df, files, join)
        raise
    if engine == "rdd":
        return _by_rdd(probe_df, prepared)
    return join_by_arrow_udf(probe_df, prepared)


def index_join_of_files(probe: DataFrame, files: SparkInput, join: JoinArguments) -> DataFrame:
    """Makes an index join with resolved files, using the engine ``arrow``."""
    return join_by_arrow_udf(probe, prepare(probe.schema, files, join))


def index_join_rdd(
    probe_rdd: RDD[Any],
    path: InputPath,
    *,
    key: str | int | Sequence[str | int] | Callable[[Any], Any],
    how: Literal["inner", "left", "semi", "anti"] = "inner",
    columns: Sequence[str] | None = None,
) -> RDD[tuple[Any, dict[str, Any] | None]]:
    """Joins an RDD with nimble files by ``RDD.mapPartitions``; returns pairs (row, match).

    Args:
        key: name or position of the key in a row, several of them, or a function of a row.
        how: ``inner`` and ``left`` return a pair for every match, with the match as a dict;
            ``left`` returns (row, ``None``) for rows without a match. ``semi`` and ``anti`` return
            (row, ``None``).
        columns: columns of the match; the default is all.
    """
    if how not in HOWS:
        raise InvalidArgumentError(f"how: expected one of {', '.join(HOWS)}, got {how!r}")
    files = find_input(path)
    names = column_names(columns)
    files.dataset.projected(names)  # rejects unknown names before a job runs
    return probe_rdd.mapPartitions(iterator_function(keyed_rows, files, key, how, names))


@dataclass(frozen=True)
class PreparedJoin:
    """A join that has been checked on the driver.

    Attributes:
        spec: what is sent to the tasks; its ``probe`` has all columns of the probe.
        reads: the probe columns that the join reads.
        added: the columns that the join adds.
    """

    spec: JoinSpec
    reads: tuple[str, ...]
    probe: StructType
    added: StructType


def _scan_estimate(probe: DataFrame, files: SparkInput, join: JoinArguments) -> JoinEstimate | None:
    """The estimate if ``strategy="auto"`` chooses a scan, assuming that a suitable index exists."""
    if join.how in OUTER or not (join.condition is None or isinstance(join.condition, str)):
        return None  # Spark cannot evaluate a pyarrow expression
    estimate = estimate_join(probe, files.dataset, join)
    return estimate if estimate.strategy == "scan" else None


def prepare(probe: StructType, files: SparkInput, join: JoinArguments) -> PreparedJoin:
    """Checks names and types of a join and prepares the arguments of its tasks."""
    if isinstance(join.condition, Column):
        raise InvalidArgumentError(
            "condition: got a Spark Column, which cannot be evaluated in the lookup; pass SQL text "
            "or a pyarrow expression"
        )
    dataset = files.dataset
    schema = arrow_schema(probe)
    plan = plan_join(
        schema,
        dataset,
        on=join.on,
        how=join.how,
        columns=join.columns,
        condition=join.condition,
        prefix=join.prefix or "",
        null_equals=join.null_equals,
        between=join.between,
        nan_greatest=True,
    )
    if dataset.num_files:  # a search without keys reports a missing index now
        empty = [pa.array([], field.type) for field in schema]
        no_rows = pa.RecordBatch.from_arrays(empty, schema=schema)
        dataset.child(0).find(probe_keys(plan, dataset.schema, no_rows))
    chosen = dataset.projected(tuple(name for name, _ in plan.output))
    added = StructType(
        [
            StructField(shown, field.dataType, field.nullable or join.how == "left")
            for (_, shown), field in zip(plan.output, spark_schema(chosen), strict=True)
        ]
    )
    used = _probe_columns(plan)
    spec = JoinSpec(files, schema, plan, arrow_schema(added))
    return PreparedJoin(spec, tuple(n for n in schema.names if n in used), probe, added)


def _probe_columns(plan: JoinPlan) -> set[str]:
    used = set(plan.probe_keys)
    for item in plan.between:
        used |= {name for name in (item.lower, item.upper) if name is not None}
    if plan.condition is not None:
        used |= {path[0] for path in plan.condition.columns}
    return used


def lookup_column(join: PreparedJoin, make: TaskFunction = lookup_arrays) -> Column:
    """Returns the lookup as a column: ``array<struct>`` of matches, or whether there is a match."""
    matches: Column = lookup_udf(join, make)(*(F.col(quoted(name)) for name in join.reads))
    return matches


def lookup_udf(
    join: PreparedJoin, make: TaskFunction = lookup_arrays, *, name: str | None = None
) -> Any:
    """Returns the function of :func:`lookup_column`. Plans show its name."""
    reads = pa.schema([join.spec.probe.field(name) for name in join.reads])
    shipped = replace(join.spec, probe=reads)
    result = BooleanType() if make is exists_arrays else ArrayType(join.added, False)
    return array_udf(make, len(join.reads), result, shipped, name=name)


def join_by_arrow_udf(probe: DataFrame, join: PreparedJoin) -> DataFrame:
    """Joins with a function that gets only the columns that the join reads."""
    how = join.spec.plan.how
    rows = _row_by_row(probe, join)
    if how in ("semi", "anti"):
        has_match = lookup_column(join, exists_arrays)
        return rows.filter(has_match if how == "semi" else ~has_match)
    explode = F.inline if how == "inner" else F.inline_outer
    # Use one select: with two, the optimizer infers a filter that repeats the lookup.
    return rows.select("*", explode(lookup_column(join)))


def _row_by_row(probe: DataFrame, join: PreparedJoin) -> DataFrame:
    """Adds a filter to the probe that keeps every row that can be in the result.

    Directly above a columnar scan, Spark 4.3 evaluates an Arrow UDF column-wise. It then converts
    each result to columns and back to rows, which is slow. A filter in between produces rows.
    """
    keys = [F.col(quoted(name)) for name in join.spec.plan.probe_keys]
    if not keys:
        return probe
    if join.spec.plan.how in ("inner", "semi") and not join.spec.plan.null_equals:
        return probe.filter(reduce(Column.__and__, (key.isNotNull() for key in keys)))
    return probe.filter(keys[0].isNull() | keys[0].isNotNull())


def _by_rdd(probe: DataFrame, join: PreparedJoin) -> DataFrame:
    result = StructType([*join.probe.fields, *join.added.fields])
    run = iterator_function(
        joined_rows, join.spec, arrow_schema(result), join.probe.json(), result.json()
    )
    rows = probe.rdd.mapPartitions(run)
    return probe.sparkSession.createDataFrame(rows, result, verifySchema=False)
