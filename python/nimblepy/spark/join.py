"""Joins of a DataFrame or RDD with files, through their index: the files are not shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, StructField, StructType

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.join.matches import find_matches, probe_keys
from nimblepy.join.plan import JoinPlan
from nimblepy.spark.arguments import JoinArguments, On, quoted
from nimblepy.spark.estimate import JoinEstimate, estimate_join
from nimblepy.spark.inputs import InputFiles, build_side, find_input
from nimblepy.spark.scan_join import OUTER, scan_join
from nimblepy.spark.schemas import arrow_schema, selected, spark_schema
from nimblepy.spark.shipping import array_udf, iterator_function
from nimblepy.spark.tasks import JoinSpec

ENGINES = ("arrow", "map_in_arrow", "rdd")
STRATEGIES = ("index", "scan", "auto")


def index_join(
    probe_df: DataFrame,
    path: Any,
    *,
    on: On,
    how: str = "inner",
    columns: Sequence[str] | None = None,
    condition: Any = None,
    between: Mapping[str, tuple[str, str]] | None = None,
    prefix: str | None = None,
    null_equals: bool = False,
    engine: str = "arrow",
    strategy: str = "index",
) -> DataFrame:
    """Joins a DataFrame with nimble files: every task looks its rows' keys up in their index.

    Args:
        path: a file, directory or glob that every executor sees; or a list of files.
        on: equal columns: a name, several, or ``{probe column: file column}``; leading columns of
            the cluster key are enough.
        how: ``"inner"``, ``"left"``, ``"semi"`` or ``"anti"``.
        columns: of the files; the default is all but those of ``on``.
        condition: SQL text, or a pyarrow expression, over the joined row. A left join keeps rows
            none of whose matches pass, once and with nulls.
        between: ``{file column: (lower, upper)}`` with probe columns, both included.
        prefix: put before the names of the files' columns, in the result and in ``condition``.
        null_equals: null keys match null keys.
        engine: ``"arrow"`` sends only the columns that the join reads to Python;
            ``"map_in_arrow"`` and ``"rdd"`` (``RDD.mapPartitions``) send whole rows.
        strategy: ``"index"``; ``"scan"``: Spark's own join over a scan of the files, which also
            takes ``"right"`` and ``"full"``; ``"auto"``: what :func:`explain_join` finds cheaper,
            or the one that can do it where only one can.

    Raises:
        InvalidArgumentError: unknown or clashing names (those are listed), types that do not
            compare, a ``how`` that needs ``strategy="scan"``.
        IndexUnavailableError: no index on the columns of ``on``.
        OSError, CorruptFileError: no such file, or a damaged one; it is named.

    Cost: opens the files' footers (of a directory: its manifest) on the driver; no job.
    """
    for name, value, known in (("engine", engine, ENGINES), ("strategy", strategy, STRATEGIES)):
        if value not in known:
            raise InvalidArgumentError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
    files = find_input(path)
    join = JoinArguments(
        on=on,
        how=how,
        columns=columns,
        condition=condition,
        between=between,
        prefix=prefix,
        null_equals=null_equals,
    )
    if strategy == "auto":
        strategy = _cheaper(probe_df, files, join)
    if strategy == "scan":
        return scan_join(probe_df, path, files.open(), join)
    if how in OUTER:
        raise InvalidArgumentError(
            f"how={how!r} returns rows of the files that nothing matches, which no index finds; "
            'use strategy="scan"'
        )
    prepared = prepare(probe_df.schema, files, join)
    if engine == "map_in_arrow":
        return _map_in_arrow(probe_df, prepared)
    if engine == "rdd":
        return _by_rdd(probe_df, prepared)
    return _by_arrow_udf(probe_df, prepared)


def index_join_rdd(
    probe_rdd: Any, path: Any, *, key: Any, how: str = "inner", columns: Sequence[str] | None = None
) -> Any:
    """Joins an RDD with nimble files by ``RDD.mapPartitions``: pairs (row, match).

    Args:
        key: name or position of the key in a row, several of them, or a function of a row.
        how: inner and left give a pair for every match, its dict second (left: ``None`` without
            one); semi and anti give (row, ``None``).
        columns: of the match; the default is all.
    """
    if how not in ("inner", "left", "semi", "anti"):
        raise InvalidArgumentError(f"how: expected inner, left, semi or anti, got {how!r}")
    files = find_input(path)
    selected(files.open().schema, columns)  # refuses unknown names before a job runs
    wanted = None if columns is None else list(columns)
    return probe_rdd.mapPartitions(iterator_function("keyed_rows", files, key, how, wanted))


def explain_join(
    probe_df: DataFrame,
    path: Any,
    *,
    on: On,
    columns: Sequence[str] | None = None,
    probe_rows: int | None = None,
) -> JoinEstimate:
    """Estimates an index join against Spark's own join over a scan, and says which and why.

    Args:
        probe_rows: rows of the probe, where they are known better than from Spark's statistics.
    """
    join = JoinArguments(on=on, columns=columns)
    return _estimate(probe_df, find_input(path), join, probe_rows)


@dataclass(frozen=True)
class PreparedJoin:
    """A join that has been checked on the driver.

    Attributes:
        reads: the probe columns that the join reads.
        added: the columns it adds.
    """

    spec: JoinSpec
    plan: JoinPlan
    reads: tuple[str, ...]
    probe: StructType
    added: StructType


def _cheaper(probe: DataFrame, files: InputFiles, join: JoinArguments) -> str:
    """``"index"`` or ``"scan"``: what ``strategy="auto"`` means for this join."""
    if join.how in OUTER:
        return "scan"
    if join.condition is not None and not isinstance(join.condition, str):
        return "index"  # Spark cannot evaluate a pyarrow expression
    return _estimate(probe, files, join).strategy


def _estimate(
    probe: DataFrame, files: InputFiles, join: JoinArguments, probe_rows: int | None = None
) -> JoinEstimate:
    """The costs of both ways; of the scan alone where no index has the columns."""
    found = estimate_join(
        probe, files.open(), on=join.on, columns=join.columns, probe_rows=probe_rows
    )
    try:  # of keys alone: what else is wrong with a join is said when it is made
        prepare(probe.schema, files, replace(join, columns=(), condition=None))
    except IndexUnavailableError as error:
        return replace(found, strategy="scan", index_seconds=None, reason=str(error))
    return found


def prepare(probe: StructType, files: InputFiles, join: JoinArguments) -> PreparedJoin:
    """Checks names and types of a join and settles what its tasks get."""
    if isinstance(join.condition, Column):
        raise InvalidArgumentError(
            "condition: pass SQL text or a pyarrow expression; it is evaluated beside the index"
        )
    dataset = files.open()
    schema = arrow_schema(probe)
    spec = JoinSpec(
        files=files,
        probe=schema,
        on=join.pairs,
        how=join.how,
        columns=join.columns_of(dataset.schema),
        target=pa.schema([]),
        condition=join.condition,
        between=None if join.between is None else dict(join.between),
        null_equals=join.null_equals,
        prefix=join.prefix or "",
    )
    # A join without rows: tasks make their own from the batches that arrive.
    plan = spec.plan(schema, build_side(dataset))
    if dataset.num_files:  # a lookup of no keys says now which indexes are missing
        nothing = [pa.array([], field.type) for field in schema]
        none = pa.RecordBatch.from_arrays(nothing, schema=schema)
        find_matches(dataset._file(0), probe_keys(plan, dataset._file(0), none))
    chosen = selected(dataset.schema, [name for name, _ in plan.output])
    added = StructType(
        [
            StructField(shown, field.dataType, field.nullable or join.how == "left")
            for (_, shown), field in zip(plan.output, spark_schema(chosen), strict=True)
        ]
    )
    reads = tuple(name for name in schema.names if name in _probe_columns(plan))
    return PreparedJoin(replace(spec, target=arrow_schema(added)), plan, reads, probe, added)


def _probe_columns(plan: JoinPlan) -> set[str]:
    used = set(plan.probe_keys)
    for item in plan.between:
        used |= {item.lower, item.upper}
    if plan.condition is not None:
        used |= {name.split(".")[0] for name in plan.condition.columns}
        used |= set(plan.condition.columns)
    return used


def lookup_column(join: PreparedJoin, kind: str = "lookup_arrays") -> Column:
    """The lookup as a column: ``array<struct>`` of matches, or boolean whether there is one."""
    found: Column = lookup_udf(join, kind)(*(F.col(quoted(name)) for name in join.reads))
    return found


def lookup_udf(join: PreparedJoin, kind: str = "lookup_arrays") -> Any:
    """The function of :func:`lookup_column`."""
    reads = pa.schema([join.spec.probe.field(name) for name in join.reads])
    shipped = replace(join.spec, probe=reads)
    result = BooleanType() if kind == "exists_arrays" else ArrayType(join.added, False)
    return array_udf(kind, len(join.reads), result, shipped)


def _by_arrow_udf(probe: DataFrame, join: PreparedJoin) -> DataFrame:
    how = join.spec.how
    rows = _row_by_row(probe, join)
    if how in ("semi", "anti"):
        found = lookup_column(join, "exists_arrays")
        return rows.filter(found if how == "semi" else ~found)
    explode = F.inline if how == "inner" else F.inline_outer
    # In one select, or the optimizer would infer a filter that runs the lookup a second time.
    return rows.select("*", explode(lookup_column(join)))


def _row_by_row(probe: DataFrame, join: PreparedJoin) -> DataFrame:
    """The probe behind a filter that every row passes that can be in the result.

    Right above a columnar scan Spark 4.3 evaluates an Arrow UDF column-wise: it turns each result
    into columns and those into rows again, which costs its JVM more than the whole plumbing of
    rows does. A filter gives rows.
    """
    keys = [F.col(quoted(name)) for name in join.plan.probe_keys]
    if not keys:
        return probe
    if join.spec.how in ("inner", "semi") and not join.spec.null_equals:
        return probe.filter(reduce(Column.__and__, (key.isNotNull() for key in keys)))
    return probe.filter(keys[0].isNull() | keys[0].isNotNull())


def _result_type(join: PreparedJoin) -> StructType:
    return StructType([*join.probe.fields, *join.added.fields])


def _map_in_arrow(probe: DataFrame, join: PreparedJoin) -> DataFrame:
    result = _result_type(join)
    run = iterator_function("joined_batches", join.spec, arrow_schema(result))
    return probe.mapInArrow(run, result)


def _by_rdd(probe: DataFrame, join: PreparedJoin) -> DataFrame:
    result = _result_type(join)
    run = iterator_function(
        "joined_rows", join.spec, arrow_schema(result), join.probe.json(), result.json()
    )
    rows = probe.rdd.mapPartitions(run)
    return probe.sparkSession.createDataFrame(rows, result, verifySchema=False)
