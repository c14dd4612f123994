"""Changes of a table between snapshots, as DataFrames and as streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from nimblepy.errors import InvalidArgumentError
from nimblepy.spark.base.inputs import is_table
from nimblepy.spark.base.options import parse_names, refuse_others
from nimblepy.spark.base.schemas import arrow_schema, conform, spark_schema
from nimblepy.spark.base.shipping import ShippedByValue, iterator_function
from nimblepy.spark.base.tables import named_table
from nimblepy.spark.reading.tasks import changed_rows

if TYPE_CHECKING:
    from nimblepy.table.reading.shared_changes import ChangesShare
    from nimblepy.table.table import Table

# Value of the option `since` for all changes from the first snapshot on.
_BEGINNING = "beginning"
_STREAM = ("catalog", "catalog.", "table", "since", "columns")


def changes(
    spark: SparkSession,
    table: Table,
    since: int | str | None,
    until: int | str | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """:meth:`nimblepy.Table.changes` as a DataFrame. Separate tasks read each commit.

    The DataFrame is fixed to these snapshots. Only the rows that one task reads are in the order of
    ``Table.changes``; sort by ``_snapshot`` if you need an order.

    Args:
        since, until, columns: as for ``Table.changes``.

    Raises:
        InvalidArgumentError: as for ``Table.changes``; raised by this call, not in a task.

    Cost: as for ``Table.changes``. Up to 64 tasks read a commit that added many files. A single
        task reads it if the table has a primary key and the commit also removed rows, because the
        old and new rows must be matched.
    """
    from nimblepy.table.requests import requested_changes

    if not is_table(table):
        raise InvalidArgumentError(f"changes: expected a Table, got {table!r}")
    requested = requested_changes(table, since, until, columns)
    shares, schema = requested.shares(), spark_schema(requested.schema)
    tasks = iterator_function(changed_rows, shares, arrow_schema(schema))
    return spark.range(0, len(shares), 1, max(1, len(shares))).mapInArrow(tasks, schema)


def are_changes(options: Mapping[str, str]) -> bool:
    """Whether options of the data source ask for changes."""
    return "since" in options or "until" in options


def changes_columns(options: Mapping[str, str]) -> StructType:
    """The columns of the changes that the options select.

    The snapshots need not exist: a restarted stream continues from its checkpoint, and ``since``
    may have expired.
    """
    from nimblepy.table.requests import changes_schema

    _check_since(options)
    table = named_table(options)
    return spark_schema(changes_schema(table, parse_names(options.get("columns"))))


class _Share(InputPartition):
    """What one task reads."""

    def __init__(self, share: ChangesShare | None) -> None:
        super().__init__(None)
        self.share = share


class _Changes(ShippedByValue):
    """Reads exactly the columns of the schema that it is given."""

    def __init__(self, schema: StructType, options: dict[str, str], known: Sequence[str]) -> None:
        refuse_others(options, known, "a read of changes")
        self._options = options
        self._names = schema.names
        self._target = arrow_schema(schema)

    def shares(
        self, table: Table, since: int | str | None, until: int | str | None
    ) -> list[_Share]:
        from nimblepy.table.reading.changes import CHANGE, SNAPSHOT
        from nimblepy.table.requests import requested_changes

        names = [name for name in self._names if name not in (CHANGE, SNAPSHOT)]
        requested = requested_changes(table, since, until, names)
        return [_Share(share) for share in requested.shares()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Share)
        if partition.share is not None:
            for batch in partition.share.batches():
                yield conform(batch.select(self._names), self._target)


class ChangesReader(_Changes, DataSourceReader):
    """A batch read: ``spark.read`` with the options ``since`` and optionally ``until``."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        super().__init__(schema, options, (*_STREAM, "until"))

    def partitions(self) -> Sequence[InputPartition]:
        return self.shares(*_asked(self._options)) or [_Share(None)]


class ChangesStream(_Changes, DataSourceStreamReader):
    """A stream: ``spark.readStream`` with the option ``since``. An offset is a snapshot.

    The rows of a batch depend only on its two snapshots, so a batch that Spark repeats from its
    checkpoint has the same rows.
    """

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        super().__init__(schema, options, _STREAM)

    def initialOffset(self) -> dict[str, str]:
        table, since, _ = _asked(self._options)
        return _offset(table.at(tag=since).snapshot if isinstance(since, str) else since)

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, str]:
        return _offset(named_table(self._options).snapshot)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        since, until = _snapshot(start), _snapshot(end)
        return [] if since == until else self.shares(named_table(self._options), since, until)


def _offset(snapshot: int | None) -> dict[str, str]:
    return {"snapshot": "" if snapshot is None else str(snapshot)}


def _snapshot(offset: Mapping[str, str]) -> int | None:
    return int(offset["snapshot"]) if offset["snapshot"] else None


def _asked(options: Mapping[str, str]) -> tuple[Table, int | str | None, int | str | None]:
    """The table, and the snapshots in the options ``since`` and ``until``."""
    _check_since(options)
    table = named_table(options)
    since = None if _is_beginning(table, options["since"]) else _named(table, options["since"])
    return table, since, _named(table, options["until"]) if "until" in options else None


def _check_since(options: Mapping[str, str]) -> None:
    if "since" not in options:
        raise InvalidArgumentError(
            "option 'since' is missing; changes need a snapshot id, a tag, or 'beginning'"
        )


def _is_beginning(table: Table, text: str) -> bool:
    return text == _BEGINNING and text not in table.tags


def _named(table: Table, text: str) -> int | str:
    """Parses the option text of a snapshot: a tag or an id."""
    return int(text) if text.isdecimal() and text not in table.tags else text
