"""Joins a DataFrame with the nearest rows at or before a time, through the index of files."""

from __future__ import annotations

from typing import Unpack

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from nimblepy.join.asof import AsofKeywords, plan_asof
from nimblepy.rows.arguments import check_keywords, passes_on_to
from nimblepy.spark.base.inputs import InputPath, SparkInput, find_input
from nimblepy.spark.base.schemas import arrow_schema, spark_schema
from nimblepy.spark.joins.index_join import PreparedJoin, join_by_arrow_udf
from nimblepy.spark.joins.tasks import JoinSpec


@passes_on_to(plan_asof)
def asof_join(df: DataFrame, source: InputPath, **join: Unpack[AsofKeywords]) -> DataFrame:
    """Joins each row with the nearest row at or before a time. Each task searches the index.

    Neither side is shuffled or sorted. The order of rows is not kept.

    Args:
        source: a file, directory or glob that every executor can read; a list of files; or a table.

    The other arguments are those of :meth:`nimblepy.File.asof_join`.

    Raises:
        IndexUnavailableError, InvalidArgumentError: as :meth:`nimblepy.File.asof_join`.
        OSError, CorruptFileError: a file does not exist or is damaged; the message names it.

    Cost: reads the files' footers on the driver. Does not run a job.
    """
    check_keywords(asof_join, join)
    return join_by_arrow_udf(df, prepare_asof(df.schema, find_input(source), join))


def prepare_asof(probe: StructType, files: SparkInput, keywords: AsofKeywords) -> PreparedJoin:
    """Checks names and types of an as-of join and prepares the arguments of its tasks."""
    schema = arrow_schema(probe)
    plan = plan_asof(schema, files.dataset, **keywords)
    chosen = files.dataset.projected(tuple(name for name, _ in plan.join.output))
    is_left = plan.join.how == "left"
    added = StructType(
        [
            StructField(shown, field.dataType, field.nullable or is_left)
            for (_, shown), field in zip(plan.join.output, spark_schema(chosen), strict=True)
        ]
    )
    reads = tuple(name for name in schema.names if name in plan.probe_columns)
    spec = JoinSpec(files, schema, plan.join, arrow_schema(added), plan)
    return PreparedJoin(spec, reads, probe, added)
