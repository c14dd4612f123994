"""Decides which columns and rows of the files a scan reads, while Spark's optimizer plans it.

Spark still evaluates its own filters above the scan, so the filter here may let more rows pass.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from nimblepy.errors import NimbleError
from nimblepy.expr.filter import BoundText, parse_filter
from nimblepy.files.source import FilesSource
from nimblepy.spark.base.schemas import arrow_schema, spark_schema
from nimblepy.spark.reading.scan import NimbleReader, read_arguments, read_now
from nimblepy.spark.reading.splits import ScanSpec, few_rows

_EPOCH = dt.datetime(1970, 1, 1)
_DAY_ZERO = dt.date(1970, 1, 1)


class PlannedScan(DataSource):
    """A data source for one scan that the driver has already planned."""

    def __init__(self, spec: ScanSpec) -> None:
        super().__init__({})
        self._spec = spec

    @classmethod
    def name(cls) -> str:
        return "nimble"

    def reader(self, schema: StructType) -> DataSourceReader:
        return NimbleReader.of(self._spec, schema)


@dataclass(frozen=True)
class ScanAnswer:
    """The replacement of a scan: a source, or the rows themselves if they are few."""

    source: PlannedScan | None = None
    rows: pa.Table | None = None
    schema: StructType | None = None


def decide_scan(question: Mapping[str, Any]) -> ScanAnswer | None:
    """Returns the answer to the rule; ``None`` keeps the scan."""
    options = {name.lower(): value for name, value in question["options"].items()}
    given = read_arguments(options)
    if given is None or given.get("keys") is not None or given.get("key_range") is not None:
        return None
    files = given["files"]
    dataset: FilesSource = files.dataset
    columns = StructType(
        [
            StructField(column["name"], _parse_datatype_json_string(column["type"]))
            for column in question["columns"]
        ]
    )
    stored = spark_schema(dataset.projected(tuple(columns.names)))
    if [field.dataType for field in stored] != [field.dataType for field in columns]:
        return None  # the user declared other types
    own = given.get("filter")
    bound = _pushed(dataset, own, question["filters"])
    if bound is not own:
        files = files.for_filter(bound)
    parts = options.get("parts")
    spec = ScanSpec(
        files=files,
        columns=tuple(columns.names),
        filter=bound,
        parts=None if parts is None else int(parts),
    )
    slices = few_rows(spec, files.dataset) if question["reads_now"] else None
    if slices is None:
        return ScanAnswer(source=PlannedScan(spec))
    return ScanAnswer(
        rows=read_now(spec, files.dataset, slices, arrow_schema(stored)), schema=stored
    )


def _pushed(dataset: FilesSource, own: Any, filters: Sequence[Any]) -> Any:
    """Joins the scan's filter with the parts of Spark's filter that our filters can express."""
    if own is not None and not isinstance(own, str):
        return own
    conditions = [own] if own is not None else []
    params: dict[str, Any] = {}
    for item in filters:
        try:
            text, values = _condition(item, len(params))
            bound = BoundText(text, values)
            parse_filter(bound, dataset.schema)
        except (NimbleError, OverflowError, ValueError):
            continue  # Python or the column's type cannot represent the value
        conditions.append(text)
        params |= values
    if not params and len(conditions) == (own is not None):
        return own
    return BoundText(" AND ".join(f"({text})" for text in conditions), params)


def _condition(node: Sequence[Any], first: int) -> tuple[str, dict[str, Any]]:
    """Returns SQL text and its parameters, numbered from ``first``."""
    what, left, right = node
    if what in ("and", "or"):
        text, params = _condition(left, first)
        other, more = _condition(right, first + len(params))
        return f"({text}) {what.upper()} ({other})", params | more
    column = '"' + left.replace('"', '""') + '"'
    if what in ("null", "not null"):
        return f"{column} IS {what.upper()}", {}
    values = [_value(item) for item in right] if what == "in" else [_value(right)]
    names = [f"spark_{first + i}" for i in range(len(values))]
    if what == "in":
        members = ", ".join(f"${name}" for name in names)
        return f"{column} IN ({members})", dict(zip(names, values, strict=True))
    sign = ">=" if what == "prefix" else what
    return f"{column} {sign} ${names[0]}", {names[0]: values[0]}


def _value(typed: Mapping[str, Any]) -> Any:
    ((kind, value),) = typed.items()
    if kind == "days":
        return _DAY_ZERO + dt.timedelta(days=value)
    if kind == "decimal":
        return Decimal(value)
    if kind == "plain":
        return value
    local = _EPOCH + dt.timedelta(microseconds=value)
    return local if kind == "local" else local.replace(tzinfo=dt.UTC)
