"""Prepares task functions for Spark: pickled by value, with the type hints that Spark reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle as _cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as _functions
from pyspark.sql.types import DataType, StructType

from nimblepy.spark.base import bootstrap
from nimblepy.spark.base.errors import own_errors
from nimblepy.spark.base.schemas import spark_schema
from nimblepy.spark.base.tasks import named_batches

# Typed as Any, because PySpark does not annotate them.
cloudpickle: Any = _cloudpickle
F: Any = _functions

cloudpickle.register_pickle_by_value(bootstrap)

# Its module must be importable on executors; see tasks.py.
TaskFunction: TypeAlias = Callable[..., Callable[[Iterable[Any]], Iterator[Any]]]


class ShippedByValue:
    """Base class of objects that report clearly if an executor lacks nimblepy to unpickle them."""

    def __reduce__(self) -> Any:
        return bootstrap.instance, (cloudpickle.dumps((type(self), self.__dict__)),)


def iterator_function(make: TaskFunction, *arguments: Any) -> Callable[[Any], Any]:
    """Returns the task function of ``make``, for ``mapInArrow`` and ``mapPartitions``."""
    return bootstrap.over_items(cloudpickle.dumps((make, arguments)))


def map_in_arrow(
    df: DataFrame, make: TaskFunction, result: StructType | str, *arguments: Any
) -> DataFrame:
    """``df.mapInArrow`` with the task function ``make``, for any column names.

    Spark interprets a dot in a column name as access to a struct field, so columns are temporarily
    renamed to numbers.
    """
    tasks = iterator_function(named_batches, df.columns, make, arguments)
    return df.toDF(*(f"c{i}" for i in range(len(df.columns)))).mapInArrow(tasks, result)


def run_numbered(
    spark: SparkSession, make: TaskFunction, schema: pa.Schema, count: int, *arguments: Any
) -> pa.Table:
    """Runs a task function for each number below ``count``, in separate tasks. Returns all rows.

    Raises:
        Errors of nimblepy that a task failed with, and errors of Spark.
    """
    tasks = iterator_function(make, *arguments)
    numbers = spark.range(0, count, 1, count)
    with own_errors():
        return numbers.mapInArrow(tasks, spark_schema(schema)).toArrow()


def array_udf(
    make: TaskFunction,
    num_arguments: int,
    result: DataType,
    *arguments: Any,
    name: str | None = None,
) -> Any:
    """An iterator ``arrow_udf`` of ``num_arguments`` columns; plans show its name."""
    payload = cloudpickle.dumps((make, arguments))
    if num_arguments == 1:
        run = bootstrap.over_single_arrays(payload)
        run.__annotations__ = {"arrays": Iterator[pa.Array], "return": Iterator[pa.Array]}
    else:
        run = bootstrap.over_items(payload)
        many = Iterator[tuple[pa.Array, ...]]
        run.__annotations__ = {"items": many, "return": Iterator[pa.Array]}
    run.__name__ = name or f"nimble_{make.__name__}"
    return F.arrow_udf(run, result)
