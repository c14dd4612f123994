"""Scans files, directories and globs in Arrow batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Parameters, parse_filter, with_params
from nimblepy.files.source import FilesSource
from nimblepy.rows.arguments import Inclusive, column_names
from nimblepy.schema.columns import resolve_column
from nimblepy.spark.base.errors import explain_missing_source
from nimblepy.spark.base.inputs import InputPath, SparkInput, find_input, is_table, open_cached
from nimblepy.spark.base.options import (
    JOIN_OPTION,
    SCAN_OPTION,
    pack_scan,
    parse_parts,
    unpack_scan,
)
from nimblepy.spark.base.schemas import arrow_schema, conform, spark_schema
from nimblepy.spark.base.shipping import ShippedByValue
from nimblepy.spark.base.tables import table_of_options
from nimblepy.spark.reading.changes import are_changes
from nimblepy.spark.reading.sample import sample_table
from nimblepy.spark.reading.splits import RowSlice, ScanSpec, few_rows, plan_parts, read_slice

if TYPE_CHECKING:
    from nimblepy.table.table import Table

# Up to this many rows, the driver's result stays a local relation, which ``collect`` returns
# without a job. Larger results become one partition, which Spark groups and sorts without a
# shuffle.
COLLECTED_ROWS = 128
_READ_OPTIONS = {
    *("branch", "catalog", "columns", "filter", "parts", "path", "paths", "snapshot", "table"),
    *("tag", "time", SCAN_OPTION, JOIN_OPTION),
}


class NimblePart(InputPartition):
    """The slices of files that one task reads."""

    def __init__(self, slices: list[RowSlice]) -> None:
        super().__init__(None)
        self.slices = slices


class NimbleReader(ShippedByValue, DataSourceReader):
    """Reads exactly the columns of the given schema."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        given = scan_arguments(options)
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

    @classmethod
    def of(cls, spec: ScanSpec, schema: StructType) -> NimbleReader:
        """A reader of a planned scan."""
        reader = cls.__new__(cls)
        reader._target = arrow_schema(schema)
        reader._spec = spec
        return reader

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


def read_files(spark: SparkSession, spec: ScanSpec, *, own_join: bool = False) -> DataFrame:
    """A DataFrame with the rows of a scan.

    Args:
        own_join: whether the optimizer must leave joins with it to Spark.
    """
    reader = spark.read.format("nimble").option("columns", json.dumps(list(spec.columns)))
    if own_join:
        reader = reader.option(JOIN_OPTION, "scan")
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
    """A DataFrame with some columns and rows of files, selected with the index and zone maps.

    Args:
        columns: names; the default is all.
        filter: SQL text or a pyarrow expression; only matching rows are returned.
        params: values of the filter's parameters: a dict for ``$name``, a list for ``?``.
        key_range: (lower, upper), or (lower, upper, inclusive) with ``"[)"``, ``"[]"``, ``"()"`` or
            ``"(]"``, as for :meth:`nimblepy.File.range`.
        keys: keys to look up, in any form that :meth:`nimblepy.File.lookup` accepts; each matching
            row is returned once.
        sample: only for tables: the probability of each row to be returned, as for
            :meth:`nimblepy.Table.sample`. Of an OTree, about this fraction is read.
        seed: seed of the sample.

    If the index and zone maps leave few rows, the driver reads them immediately, and the DataFrame
    needs no Python worker. Otherwise tasks read stripes.

    Raises:
        InvalidArgumentError, IndexUnavailableError, OSError, CorruptFileError: raised by this call,
            not in a task.
    """
    bound_filter = with_params(filter, params)
    if sample is not None or seed is not None:
        if not is_table(path) or sample is None:
            raise InvalidArgumentError("seed needs sample=, and sample= needs a table")
        if keys is not None or key_range is not None:
            raise InvalidArgumentError("scan: give a sample or keys, not both")
        return sample_table(spark, cast("Table", path), sample, seed, columns, bound_filter)
    files = find_input(path)
    dataset = files.dataset
    if bound_filter is not None:
        parse_filter(bound_filter, dataset.schema)
        if keys is None and key_range is None:
            files = files.for_filter(bound_filter)
            dataset = files.dataset
    if key_range is not None:
        if len(key_range) not in (2, 3):
            raise InvalidArgumentError(f"key_range: expected (lower, upper), got {key_range!r}")
        lower, upper, inclusive = (*key_range, "[)")[:3]
        dataset.range_request(lower, upper, inclusive=inclusive)  # raises if the bounds are invalid
        key_range = (lower, upper, inclusive)
    if keys is not None:
        if key_range is not None:
            raise InvalidArgumentError("scan: give keys or a key_range, not both")
        keys = _key_table(dataset, keys)
    schema = spark_schema(dataset.projected(column_names(columns)))
    spec = ScanSpec(
        files=files,
        columns=tuple(schema.names),
        filter=bound_filter,
        key_range=key_range,
        keys=keys,
    )
    slices = few_rows(spec, dataset)
    if slices is None:
        return read_files(spark, spec)
    table = read_now(spec, dataset, slices, arrow_schema(schema))
    return local_rows(spark, table, schema)


def local_rows(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """A DataFrame of rows that the driver has read."""
    frame = spark.createDataFrame(table, schema)
    return frame if table.num_rows <= COLLECTED_ROWS else frame.coalesce(1)


def read_now(
    spec: ScanSpec, dataset: FilesSource, slices: Sequence[RowSlice], target: pa.Schema
) -> pa.Table:
    """The rows of some slices, read by this process."""
    batches = [batch for row_slice in slices for batch in read_slice(spec, dataset, row_slice)]
    return pa.Table.from_batches([conform(batch, target) for batch in batches], target)


def _key_table(dataset: FilesSource, keys: object) -> pa.Table:
    """The keys in the key's types, without keys that no row can have."""
    request = dataset.keys_request(keys)
    table = pa.Table.from_batches([request.batch(request.names)])
    return table if request.usable is None else table.filter(pa.array(request.usable))


def scan_arguments(options: Any) -> dict[str, Any]:
    """The arguments of a scan, from :func:`scan` or from options that users set."""
    if SCAN_OPTION in options:
        return unpack_scan(options[SCAN_OPTION])
    filter = options.get("filter")
    if "table" in options or "catalog" in options:
        files: SparkInput = table_of_options(options)
        return {"files": files.for_filter(filter), "filter": filter}
    return {"files": find_input(_paths(options)), "filter": filter}


def asks_for_own_join(options: Mapping[str, str]) -> bool:
    """Whether Spark itself must join the files of these options."""
    return JOIN_OPTION in options


def read_arguments(options: Mapping[str, str]) -> dict[str, Any] | None:
    """The arguments of a scan; ``None`` if the options are not only those of a scan.

    Args:
        options: with lower-case names.
    """
    others = [name for name in options if name not in _READ_OPTIONS and name[:8] != "catalog."]
    return None if others or are_changes(options) else scan_arguments(options)


def _paths(options: Any) -> Any:
    if "paths" in options:
        return json.loads(options["paths"])
    if "path" not in options:
        raise InvalidArgumentError('nimble: no path; use .load("...") or OPTIONS (path "...")')
    return options["path"]
