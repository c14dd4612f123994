"""The data source ``nimble``: scans of files, directories and globs in Arrow batches.

It does not take Spark's pushed filters: Spark 4.3 keeps those of one query for the next over the
same DataFrame or view, and then returns wrong rows. Columns, filters and keys come as options, or
through :func:`scan`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Parameters, parse_filter, with_params
from nimblepy.files.source import FilesSource
from nimblepy.rows.arguments import Inclusive, column_names
from nimblepy.schema.columns import resolve_column
from nimblepy.spark.errors import explain_missing_source
from nimblepy.spark.inputs import InputPath, SparkInput, find_input, is_table, open_cached
from nimblepy.spark.options import SCAN_OPTION, pack_scan, parse_names, parse_parts, unpack_scan
from nimblepy.spark.sample import sample_table
from nimblepy.spark.schemas import arrow_schema, conform, spark_schema
from nimblepy.spark.shipping import ShippedByValue
from nimblepy.spark.splits import RowSlice, ScanSpec, few_rows, plan_parts, read_slice
from nimblepy.spark.table_changes import (
    ChangesReader,
    ChangesStream,
    are_changes,
    changes_columns,
)
from nimblepy.spark.table_write import TableWriter
from nimblepy.spark.tables import table_of_options
from nimblepy.spark.write import NimbleWriter

if TYPE_CHECKING:
    from nimblepy.table.table import Table

# Rows up to which what the driver has read is a bare local relation, which ``collect`` returns
# without a job. More are one partition, which is grouped, sorted and summed without a shuffle.
COLLECTED_ROWS = 128


class NimbleDataSource(DataSource):
    """``spark.read.format("nimble")`` and ``df.write.format("nimble")``.

    Options of a read: ``columns`` ("a, b"), ``filter`` (SQL text), ``parts`` (how many partitions).
    Of a table instead of a path: ``catalog`` (as for :func:`nimblepy.connect`; its properties as
    ``catalog.NAME``), ``table``, and at most one of ``snapshot``, ``tag``, ``branch`` and ``time``
    (ISO 8601 with its zone). With ``since`` (a tag, a snapshot id, or ``beginning``) and maybe
    ``until`` it is what changed between two snapshots, as :meth:`nimblepy.Table.changes` has it; so
    is a stream, which goes on with each new snapshot.
    Options of a write: see :mod:`nimblepy.spark.write`; to a table ``catalog``, ``table``, and with
    the mode ``overwrite`` also ``filter`` or ``partition_overwrite``. Others are refused.
    """

    @classmethod
    def name(cls) -> str:
        return "nimble"

    def schema(self) -> StructType:
        if are_changes(self.options):
            return changes_columns(self.options)
        dataset = _scanned(self.options)["files"].dataset
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


class NimblePart(InputPartition):
    """Pieces of files that one task reads."""

    def __init__(self, slices: list[RowSlice]) -> None:
        super().__init__(None)
        self.slices = slices


class NimbleReader(ShippedByValue, DataSourceReader):
    """Reads exactly the columns of the schema that it is given."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        given = _scanned(options)
        files = given["files"]
        for field in schema.fields:
            resolve_column(files.dataset.schema, field.name)
        self._target = arrow_schema(schema)
        self._spec = ScanSpec(
            files=files,
            columns=tuple(schema.names),
            filter=given.get("filter"),
            key_range=given.get("key_range"),
            keys=given.get("keys"),
            parts=parse_parts(options.get("parts")),
        )

    def partitions(self) -> Sequence[InputPartition]:
        parts = plan_parts(self._spec, self._spec.files.dataset)
        return [NimblePart(part) for part in parts] or [NimblePart([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, NimblePart)
        dataset = open_cached(self._spec.files)
        for row_slice in partition.slices:
            for batch in read_slice(self._spec, dataset, row_slice):
                if batch.num_rows:
                    yield conform(batch, self._target)


def register(spark: SparkSession) -> None:
    """Registers the data source ``nimble``; not needed where ``pyspark_nimble`` is installed."""
    spark.dataSource.register(NimbleDataSource)


def read_files(spark: SparkSession, spec: ScanSpec) -> DataFrame:
    """A DataFrame of what a scan finds."""
    reader = spark.read.format("nimble").option("columns", json.dumps(list(spec.columns)))
    packed = pack_scan(spec.files, spec.filter, spec.key_range, spec.keys)
    with explain_missing_source():
        return reader.option(SCAN_OPTION, packed).load(spec.files.directory)


def scan(
    spark: SparkSession,
    path: InputPath,
    *,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    params: Parameters = None,
    key_range: tuple[object, object] | tuple[object, object, Inclusive] | None = None,
    keys: object = None,
    sample: float | None = None,
    seed: int | None = None,
) -> DataFrame:
    """A DataFrame over some columns and rows of files; index and zone maps find the rows.

    Args:
        columns: names; the default is all.
        filter: SQL text or a pyarrow expression; only rows that pass are returned.
        params: values of the filter's parameters: a dict for ``$name``, a list for ``?``.
        key_range: (lower, upper), or with ``"[)"``, ``"[]"``, ``"()"``, ``"(]"`` third, as for
            :meth:`nimblepy.File.range`.
        keys: keys to look up, in any form that :meth:`nimblepy.File.lookup` takes; each matching
            row is returned once.
        sample: of a table, the probability with which each row is taken: the rows are those of
            :meth:`nimblepy.Table.sample`, and about that share of an OTree is read.
        seed: of the sample; another one takes other rows.

    Where index and zone maps leave few rows, they are read now, and the DataFrame has them; it
    needs no Python worker. Otherwise tasks read stripes.

    Raises:
        InvalidArgumentError, IndexUnavailableError, OSError, CorruptFileError: now, not in a task.
    """
    asked = with_params(filter, params)
    if sample is not None or seed is not None:
        if not is_table(path) or sample is None:
            raise InvalidArgumentError("seed: of a sample=, and sample: of a table")
        if keys is not None or key_range is not None:
            raise InvalidArgumentError("scan: give a sample or keys, not both")
        return sample_table(spark, cast("Table", path), sample, seed, columns, asked)
    files = find_input(path)
    dataset = files.dataset
    if asked is not None:
        parse_filter(asked, dataset.schema)
        if keys is None and key_range is None:
            files = files.for_filter(asked)
            dataset = files.dataset
    if key_range is not None:
        if len(key_range) not in (2, 3):
            raise InvalidArgumentError(f"key_range: expected (lower, upper), got {key_range!r}")
        lower, upper, inclusive = (*key_range, "[)")[:3]
        dataset.range_request(lower, upper, inclusive=inclusive)  # says what is wrong
        key_range = (lower, upper, inclusive)
    if keys is not None:
        if key_range is not None:
            raise InvalidArgumentError("scan: give keys or a key_range, not both")
        keys = _key_table(dataset, keys)
    schema = spark_schema(dataset.projected(column_names(columns)))
    spec = ScanSpec(
        files=files, columns=tuple(schema.names), filter=asked, key_range=key_range, keys=keys
    )
    slices = few_rows(spec, dataset)
    if slices is None:
        return read_files(spark, spec)
    table = _read_now(spec, dataset, slices, arrow_schema(schema))
    frame = spark.createDataFrame(table, schema)
    return frame if table.num_rows <= COLLECTED_ROWS else frame.coalesce(1)


def _read_now(
    spec: ScanSpec, dataset: FilesSource, slices: Sequence[RowSlice], target: pa.Schema
) -> pa.Table:
    batches = [batch for row_slice in slices for batch in read_slice(spec, dataset, row_slice)]
    return pa.Table.from_batches([conform(batch, target) for batch in batches], target)


def _key_table(dataset: FilesSource, keys: object) -> pa.Table:
    """The keys that are possible at all, in the key's types."""
    request = dataset.keys_request(keys)
    table = pa.Table.from_batches([request.batch(request.names)])
    return table if request.usable is None else table.filter(pa.array(request.usable))


def _scanned(options: Any) -> dict[str, Any]:
    """The arguments of a scan: of :func:`scan`, or of the options that people set."""
    if SCAN_OPTION in options:
        return unpack_scan(options[SCAN_OPTION])
    filter = options.get("filter")
    if "table" in options or "catalog" in options:
        files: SparkInput = table_of_options(options)
        return {"files": files.for_filter(filter), "filter": filter}
    return {"files": find_input(_paths(options)), "filter": filter}


def _paths(options: Any) -> Any:
    if "paths" in options:
        return json.loads(options["paths"])
    if "path" not in options:
        raise InvalidArgumentError('nimble: no path; use .load("...") or OPTIONS (path "...")')
    return options["path"]
