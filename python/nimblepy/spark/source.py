"""The data source ``nimble``.

It does not accept filters that Spark pushes down: Spark 4.3 reuses the pushed filters of one query
for the next query over the same DataFrame or view, which returns wrong rows. Columns, filters and
keys are passed as options, or through :func:`nimblepy.spark.scan`.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from nimblepy.rows.arguments import column_names
from nimblepy.spark.base.frames import is_connect
from nimblepy.spark.base.options import parse_names
from nimblepy.spark.base.schemas import spark_schema
from nimblepy.spark.optimizer.rule import install, remove
from nimblepy.spark.reading.changes import (
    ChangesReader,
    ChangesStream,
    are_changes,
    changes_columns,
)
from nimblepy.spark.reading.scan import NimbleReader, scan_arguments
from nimblepy.spark.writing.table import TableWriter
from nimblepy.spark.writing.write import NimbleWriter


class NimbleDataSource(DataSource):
    """``spark.read.format("nimble")`` and ``df.write.format("nimble")``.

    Options of a read: ``columns`` ("a, b"), ``filter`` (SQL text), ``parts`` (number of
    partitions). To read a table instead of a path: ``catalog`` (as for :func:`nimblepy.connect`;
    its properties as ``catalog.NAME``), ``table``, and at most one of ``snapshot``, ``tag``,
    ``branch`` and ``time`` (ISO 8601 with a zone).

    With ``since`` (a tag, a snapshot id, or ``beginning``) and optionally ``until``, it reads the
    changes between two snapshots; see :meth:`nimblepy.Table.changes`. A stream also reads changes,
    and continues with each new snapshot.

    Options of a write: see :mod:`nimblepy.spark.write`. For a table: ``catalog``, ``table``, and
    with the mode ``overwrite`` also ``filter`` or ``partition_overwrite``. Others are errors.
    """

    @classmethod
    def name(cls) -> str:
        return "nimble"

    def schema(self) -> StructType:
        if are_changes(self.options):
            return changes_columns(self.options)
        dataset = scan_arguments(self.options)["files"].dataset
        return spark_schema(
            dataset.projected(column_names(parse_names(self.options.get("columns"))))
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        if are_changes(self.options):
            return ChangesReader(schema, dict(self.options))
        return NimbleReader(schema, dict(self.options))

    def streamReader(self, schema: StructType) -> ChangesStream:
        return ChangesStream(schema, dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> NimbleWriter | TableWriter:
        if "table" in self.options:
            return TableWriter(schema, dict(self.options), overwrite)
        return NimbleWriter(schema, dict(self.options), overwrite)


def register(spark: SparkSession, *, optimizer: bool = True) -> None:
    """Registers the data source ``nimble`` and installs the optimizer rule.

    The data source is registered already if ``pyspark_nimble`` is installed. The rule lets Spark's
    optimizer replace joins over ``spark.read.format("nimble")`` by lookups if that costs less.
    ``spark.conf.set("spark.nimblepy.indexJoin", "off")`` turns it off; ``"always"`` ignores costs.

    Args:
        optimizer: ``False`` does not install the rule, and removes it if it is installed. On Spark
            Connect there is no rule; see :func:`optimize`.

    If the rule cannot be installed, this is logged once as a warning.
    """
    spark.dataSource.register(NimbleDataSource)
    if is_connect(spark):
        return
    if optimizer:
        install(spark)
    else:
        remove(spark)
