"""Searches the metadata of a table in parallel tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from nimblepy.schema.names import ColumnName
from nimblepy.spark.base.schemas import spark_schema
from nimblepy.spark.base.shipping import iterator_function
from nimblepy.spark.reading.tasks import holding_files

if TYPE_CHECKING:
    from nimblepy.table.table import Table

# Minimum number of manifests per task: reading fewer takes less time than starting a task.
_LEAST = 16
# Maximum number of tasks: Spark Connect does not tell how many run in parallel.
_MOST = 256


def files_for_keys(
    spark: SparkSession, table: Table, keys: Any, *, on: ColumnName | None = None
) -> pa.Table:
    """:meth:`nimblepy.Table.files_for_keys`, with manifests read in parallel tasks.

    Manifests that a plan index covers are searched on the driver, because that is faster than
    starting tasks. If the index covers all manifests, no task is started.

    Raises:
        InvalidArgumentError: as for ``Table.files_for_keys``.
    """
    from nimblepy.table.reading import holding
    from nimblepy.table.requests import requested_keys

    metadata, wanted = requested_keys(table, keys, on)
    manifests = holding.data_manifests(metadata)
    beside = holding.uncovered(metadata, manifests)
    if len(beside) < 2 * _LEAST:
        return holding.files_for_keys(metadata, manifests, wanted)
    numbers = {item.path: i for i, item in enumerate(manifests)}
    rest = [numbers[item.path] for item in beside]
    tasks = min(len(rest) // _LEAST, _MOST)
    manifest_numbers = spark.createDataFrame(
        [(number,) for number in rest], "manifest int"
    ).repartition(tasks)
    file = holding.MetadataFile(metadata.metadata_file, metadata.io_properties)
    answers_of_tasks = manifest_numbers.mapInArrow(
        iterator_function(holding_files, file, wanted), spark_schema(holding.HOLDING)
    )
    covered = [item for item in manifests if numbers[item.path] not in set(rest)]
    answers_of_driver = holding.files_for_keys(metadata, covered, wanted)
    answers_as_arrow = answers_of_tasks.toArrow().cast(holding.HOLDING)
    return pa.concat_tables([answers_of_driver, answers_as_arrow]).sort_by("path").combine_chunks()
