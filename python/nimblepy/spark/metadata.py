"""Questions about all metadata of a table, shared out over tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from nimblepy.schema.names import ColumnName
from nimblepy.spark.schemas import spark_schema
from nimblepy.spark.shipping import iterator_function

if TYPE_CHECKING:
    from nimblepy.table.table import Table

# Manifests of a task at least: fewer are read in less time than a task takes to begin.
_LEAST = 16
# Tasks at most, as Spark Connect does not say how many run.
_MOST = 256


def files_for_keys(
    spark: SparkSession, table: Table, keys: Any, *, on: ColumnName | None = None
) -> pa.Table:
    """:meth:`nimblepy.Table.files_for_keys`, with the manifests shared out over tasks.

    What a plan index covers one machine answers faster than tasks begin, so where it covers all
    this starts none.

    Raises:
        InvalidArgumentError: as there.
    """
    from nimblepy.table.reading import holding

    metadata, wanted = table.asked_for_keys(keys, on)
    manifests = holding.data_manifests(metadata)
    beside = holding.uncovered(metadata, manifests)
    if len(beside) < 2 * _LEAST:
        return holding.files_for_keys(metadata, manifests, wanted)
    numbers = {item.path: i for i, item in enumerate(manifests)}
    rest = [numbers[item.path] for item in beside]
    tasks = min(len(rest) // _LEAST, _MOST)
    asked = spark.createDataFrame([(number,) for number in rest], "manifest int").repartition(tasks)
    file = holding.MetadataFile(metadata.metadata_file, metadata.io_properties)
    found = asked.mapInArrow(
        iterator_function("holding_files", file, wanted), spark_schema(holding.HOLDING)
    )
    covered = [item for item in manifests if numbers[item.path] not in set(rest)]
    mine = holding.files_for_keys(metadata, covered, wanted)
    theirs = found.toArrow().cast(holding.HOLDING)
    return pa.concat_tables([mine, theirs]).sort_by("path").combine_chunks()
