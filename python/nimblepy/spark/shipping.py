"""Task functions as Spark ships them: by value, and with the type hints that it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle as _cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as _functions
from pyspark.sql.types import DataType, StructType

from nimblepy.spark import bootstrap
from nimblepy.spark.errors import own_errors
from nimblepy.spark.schemas import spark_schema

# Without the annotations that PySpark leaves out.
cloudpickle: Any = _cloudpickle
F: Any = _functions

cloudpickle.register_pickle_by_value(bootstrap)


class ShippedByValue:
    """An object whose pickle says so where nimblepy is missing, instead of naming a module."""

    def __reduce__(self) -> Any:
        return bootstrap.unpickle, (cloudpickle.dumps((type(self), self.__dict__)),)


def iterator_function(kind: str, *arguments: Any) -> Callable[[Any], Any]:
    """For ``mapInArrow`` and ``mapPartitions``."""
    return bootstrap.over_items(kind, cloudpickle.dumps(arguments))


def map_in_arrow(df: DataFrame, kind: str, result: StructType | str, *arguments: Any) -> DataFrame:
    """``df.mapInArrow`` with the function ``kind``, whatever the columns are called.

    Spark itself takes a dot in a name for a step into a struct, so they travel by number.
    """
    tasks = iterator_function("named_batches", df.columns, kind, arguments)
    return df.toDF(*(f"c{i}" for i in range(len(df.columns)))).mapInArrow(tasks, result)


def run_numbered(
    spark: SparkSession, kind: str, schema: pa.Schema, count: int, *arguments: Any
) -> pa.Table:
    """The rows that an iterator function gives for the numbers below ``count``, each in a task.

    Raises:
        Errors of ours that a task failed with, and what Spark raises.
    """
    tasks = iterator_function(kind, *arguments)
    numbers = spark.range(0, count, 1, count)
    with own_errors():
        return numbers.mapInArrow(tasks, spark_schema(schema)).toArrow()


def array_udf(kind: str, num_arguments: int, result: DataType, *arguments: Any) -> Any:
    """An iterator ``arrow_udf`` of ``num_arguments`` columns."""
    payload = cloudpickle.dumps(arguments)
    if num_arguments == 1:
        run = bootstrap.over_single_arrays(kind, payload)
        run.__annotations__ = {"arrays": Iterator[pa.Array], "return": Iterator[pa.Array]}
    else:
        run = bootstrap.over_items(kind, payload)
        many = Iterator[tuple[pa.Array, ...]]
        run.__annotations__ = {"items": many, "return": Iterator[pa.Array]}
    run.__name__ = f"nimble_{kind}"
    return F.arrow_udf(run, result)
