"""Finds the rows of files that are nearest to the vectors of a DataFrame."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, FloatType, NumericType, StructField, StructType

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.arguments import Columns, column_names
from nimblepy.rows.nearest import Metric, check_nearest, is_all, search_metric, vector_column
from nimblepy.rows.source import Filter
from nimblepy.schema.protocols import Key
from nimblepy.spark.base.inputs import InputPath, find_input
from nimblepy.spark.base.schemas import arrow_schema, spark_schema
from nimblepy.spark.base.shipping import map_in_arrow
from nimblepy.spark.joins.tasks import NearestSpec, nearest_rows


def nearest(
    df: DataFrame,
    source: InputPath,
    *,
    query: str,
    on: str | None = None,
    metric: Metric | None = None,
    k: int = 10,
    columns: Columns = None,
    filter: Filter = None,
    recall: float = 0.95,
    exact: bool = False,
    prefix: Key = None,
) -> DataFrame:
    """Joins each row of ``df`` with its ``k`` nearest rows of files.

    See :meth:`nimblepy.File.nearest`. A result row has the columns of ``df``, the columns of the
    files, and ``_distance`` (float). Rows without a query vector are dropped. The results of one
    row are adjacent, nearest first.

    Args:
        source: a file, directory or glob that every executor can read; a list of files; or a table.
        query: the column of ``df`` with the query vectors, as arrays of numbers.

    The other arguments are those of :meth:`nimblepy.File.nearest`.

    Raises:
        InvalidArgumentError: as :meth:`nimblepy.File.nearest`; or ``df`` has a column with the name
            of a column of the result. Invalid query vectors fail when the job runs.
        OSError, CorruptFileError: a file does not exist or is damaged; the message names it.

    Cost: reads the files' footers on the driver. Each task searches all files for its rows, and
        neither side is shuffled.
    """
    check_nearest(k, recall, metric)
    files = find_input(source)
    rows = files.dataset
    column, _ = vector_column(rows, on)
    chosen_metric = search_metric(metric, exact or is_all(recall), column, rows)
    rows.where_request(filter)
    if prefix is not None:
        rows.prefix_request(prefix)
    field = next((f for f in df.schema.fields if f.name == query), None)
    if field is None:
        raise InvalidArgumentError(
            f"query={query!r}: the DataFrame has no such column; it has {', '.join(df.columns)}"
        )
    kind = field.dataType
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, NumericType):
        raise InvalidArgumentError(
            f"query={query!r}: column is {kind.simpleString()}; expected an array of numbers"
        )
    chosen = rows.projected(column_names(columns))
    added = [*spark_schema(chosen).fields, StructField("_distance", FloatType(), False)]
    twice = sorted({f.name for f in added} & set(df.columns))
    if twice:
        raise InvalidArgumentError(
            f"column {twice[0]!r} is in the DataFrame and in the result; rename it, or leave it "
            "out of columns="
        )
    result = StructType([*df.schema.fields, *added])
    arguments: dict[str, Any] = {
        "on": column,
        "metric": chosen_metric,
        "filter": filter,
        "recall": recall,
        "exact": exact,
        "prefix": prefix,
    }
    spec = NearestSpec(
        files, df.columns.index(query), k, tuple(chosen.names), arguments, arrow_schema(result)
    )
    return map_in_arrow(df, nearest_rows, result, spec)
