"""Samples of tables as DataFrames: the driver plans which files to read, and tasks read them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from nimblepy.expr.filter import parse_filter
from nimblepy.rows.arguments import column_names
from nimblepy.rows.rows import source_of
from nimblepy.spark.base.inputs import InputTable
from nimblepy.spark.base.schemas import arrow_schema, spark_schema
from nimblepy.spark.base.shipping import iterator_function
from nimblepy.spark.reading.splits import PART_BYTES, processors
from nimblepy.spark.reading.tasks import SampleSpec, sampled_parts

if TYPE_CHECKING:
    from nimblepy.table.reading.sample import SamplePlan
    from nimblepy.table.table import Table


def sample_table(
    spark: SparkSession,
    table: Table,
    fraction: float,
    seed: int | None,
    columns: Sequence[str] | None,
    filter: Any,
) -> DataFrame:
    """The rows that ``table.sample`` returns, as a DataFrame.

    Without a seed, a random one is chosen now, so the DataFrame has the same rows each time it is
    computed.
    """
    from nimblepy.table.reading.members import SomeRows
    from nimblepy.table.requests import plan_sample

    if filter is not None:
        parse_filter(filter, table.schema)
    schema = spark_schema(source_of(table).projected(column_names(columns)))
    plan = plan_sample(table, fraction, seed=seed, filter=filter)
    spec = SampleSpec(
        files=InputTable(table.name, rows=SomeRows(plan.reading, list(plan.members))),
        fraction=plan.fraction,
        window=plan.window,
        seed=secrets.randbits(63) if plan.seed is None else plan.seed,
        taking=tuple(plan.taking),
        parts=_parts(plan),
        columns=tuple(schema.names),
        filter=filter,
        target=arrow_schema(schema),
    )
    if not spec.parts:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(spec.parts), 1, len(spec.parts))
    return numbers.mapInArrow(iterator_function(sampled_parts, spec), schema)


def _parts(plan: SamplePlan) -> tuple[tuple[int, ...], ...]:
    """Distributes the files over tasks, with about the same number of bytes to read."""
    shares = [1.0 if taking == "all" else plan.fraction for taking in plan.taking]
    sizes = [member.file.bytes * share for member, share in zip(plan.members, shares, strict=True)]
    count = max(processors(), math.ceil(sum(sizes) / PART_BYTES))
    parts: list[list[int]] = [[] for _ in range(min(count, len(sizes)))]
    held = [0.0] * len(parts)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        least = held.index(min(held))
        parts[least].append(i)
        held[least] += sizes[i]
    return tuple(tuple(sorted(part)) for part in parts)
