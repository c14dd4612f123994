"""Evaluates SQL conditions and values over Arrow batches with DuckDB.

DuckDB runs in this process, without files, network or extensions, and its configuration is locked.
It reads only the given batch. Columns get names such as ``c3``, so names from users are never part
of a query.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.names import Path, show_path
from nimblepy.schema.plain import plain_array
from nimblepy.schema.sql_values import type_name

_SETTINGS = {
    "threads": 1,  # several threads of a scan may call this
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
    # Without this, DuckDB pushes filters into pyarrow, where NaN is not greater than numbers.
    "disabled_optimizers": "filter_pushdown",
}
_MOST_STATEMENTS = 64
_ROW = '"#"'


@dataclass(frozen=True, eq=False)
class SqlCondition:
    """A condition for DuckDB.

    Attributes:
        sql: the condition, over the columns in ``names``.
        names: the path of each column, and its name in ``sql``.
        zone: the time zone of DuckDB's session.
        text: the condition as the user wrote it.
    """

    sql: str
    names: tuple[tuple[Path, str], ...]
    zone: str
    text: str

    def __str__(self) -> str:
        return self.text

    def passing(self, columns: Sequence[pa.Array], rows: int) -> pa.BooleanArray:
        """Returns a mask of the rows for which the condition is true.

        Args:
            columns: one column for each of ``names``.
        """
        numbers = pa.array(np.arange(rows, dtype=np.int32))
        batch = _batch([*columns, numbers], [*(name for _, name in self.names), "#"])
        query = f"SELECT {_ROW} FROM rows WHERE {self.sql}"
        with _translated(self.names):
            passing = _run(self.zone, query, batch).column(0)
        mask = np.zeros(rows, dtype=np.bool_)
        mask[passing.to_numpy()] = True
        return pa.array(mask)


def merge(conditions: Sequence[SqlCondition]) -> SqlCondition:
    """Joins conditions with AND. REQUIRES: all have the same zone."""
    if len(conditions) == 1:
        return conditions[0]
    return SqlCondition(
        " AND ".join(f"({condition.sql})" for condition in conditions),
        tuple(dict.fromkeys(pair for condition in conditions for pair in condition.names)),
        conditions[0].zone,
        " AND ".join(condition.text for condition in conditions),
    )


@dataclass(frozen=True, eq=False)
class SqlValue:
    """An expression for DuckDB. See :class:`SqlCondition` for the attributes."""

    sql: str
    names: tuple[tuple[Path, str], ...]
    zone: str

    def check(self, schema: pa.Schema) -> pa.DataType:
        """Returns the type of the values.

        Args:
            schema: the type of each of ``names``, in this order.

        Raises:
            InvalidArgumentError: DuckDB rejects the expression.
        """
        return self._values([pa.nulls(0, item.type) for item in schema], 0, self.sql).type

    def values(
        self, columns: Sequence[pa.Array], rows: int, target: pa.DataType | None = None
    ) -> pa.Array:
        """Returns the values of some rows, cast to ``target`` as in SQL."""
        name = None if target is None else type_name(target)
        sql = self.sql if name is None else f"CAST(({self.sql}) AS {name})"
        array = self._values(columns, rows, sql)
        if target is None or array.type == target:
            return array
        if isinstance(array, pa.ExtensionArray) and not isinstance(target, pa.BaseExtensionType):
            array = array.storage
        return array.cast(target)

    def _values(self, columns: Sequence[pa.Array], rows: int, sql: str) -> pa.Array:
        numbers = pa.nulls(rows, pa.int8())
        batch = _batch([*columns, numbers], [*(name for _, name in self.names), "#"])
        with _translated(self.names):
            return _whole(_run(self.zone, f"SELECT ({sql}) AS v FROM rows", batch).column(0))


# ------------------------------------------------------------------ batches


def _batch(columns: Sequence[pa.Array], names: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_readable(column) for column in columns], names)


def _readable(array: pa.Array) -> pa.Array:
    """Converts ``array`` to a type that DuckDB can read."""
    data_type = array.type
    if isinstance(data_type, pa.UuidType):
        return array
    if not (pt.is_dictionary(data_type) and pt.is_string(data_type.value_type)):
        array = plain_array(array)
    data_type = array.type
    if pt.is_float16(data_type):
        return array.cast(pa.float32())
    if pt.is_decimal(data_type) and not pt.is_decimal128(data_type):
        if data_type.precision > 38:
            raise InvalidArgumentError(f"DuckDB has no type for {data_type}")
        return array.cast(pa.decimal128(data_type.precision, data_type.scale))
    return array


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


# ------------------------------------------------------------------ sessions


# In DuckDB 2, connections do not have this method, and fetching a table warns about a copy.
_FETCHES = hasattr(duckdb.DuckDBPyConnection, "fetch_arrow_table")
_NEWER = hasattr(duckdb.DuckDBPyConnection, "to_arrow_table")
_TO_ARROW = "to_arrow_table" if _NEWER else "fetch_arrow_table"


def _fetch(connection: duckdb.DuckDBPyConnection, statement: str) -> pa.Table:
    if not _FETCHES:
        return connection.sql(statement).to_arrow_table()
    return getattr(connection.execute(statement), _TO_ARROW)()


class _Source:
    """Returns the table ``rows`` of a statement."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.batch.schema, [self.batch])
        return reader.__arrow_c_stream__(requested_schema)


class _Session:
    """A connection with prepared statements, for one thread at a time."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._connection = database.cursor()
        self._statements: OrderedDict[object, tuple[str, _Source]] = OrderedDict()
        self._numbers = itertools.count()

    def run(self, query: str, batch: pa.RecordBatch) -> pa.Table:
        key = query, batch.schema
        statement = self._statements.get(key)
        if statement is None:
            statement = self._statements[key] = self._prepare(query, batch)
            if len(self._statements) > _MOST_STATEMENTS:
                _, (oldest, _) = self._statements.popitem(last=False)
                self._connection.execute(f"DEALLOCATE s{oldest}")
                self._connection.unregister(f"rows{oldest}")
        else:
            self._statements.move_to_end(key)
        number, source = statement
        source.batch = batch
        try:
            return _fetch(self._connection, f"EXECUTE s{number}")
        finally:
            source.batch = batch.slice(0, 0)

    def _prepare(self, query: str, batch: pa.RecordBatch) -> tuple[str, _Source]:
        number, source = str(next(self._numbers)), _Source(batch.slice(0, 0))
        self._connection.register(f"rows{number}", source)
        try:
            query = query.replace(" FROM rows", f" FROM rows{number}", 1)
            self._connection.execute(f"PREPARE s{number} AS {query}")
        except BaseException:
            self._connection.unregister(f"rows{number}")
            raise
        return number, source


_databases: dict[str, tuple[duckdb.DuckDBPyConnection, list[_Session]]] = {}
_lock = threading.Lock()


def _forget_after_fork() -> None:
    # Do not close a connection of the parent: this could wait for the parent's threads.
    _abandoned.append(dict(_databases))
    _databases.clear()


_abandoned: list[object] = []
os.register_at_fork(after_in_child=_forget_after_fork)


def _run(zone: str, query: str, batch: pa.RecordBatch) -> pa.Table:
    with _lock:
        database = _databases.get(zone)
        if database is None:
            database = _databases[zone] = locked_session(zone), []
        connection, idle = database
        session = idle.pop() if idle else _Session(connection)
    try:
        return session.run(query, batch)
    finally:
        idle.append(session)


def locked_session(zone: str) -> duckdb.DuckDBPyConnection:
    """Opens an in-memory session that cannot read files or change its settings."""
    connection = duckdb.connect(":memory:")
    for name, value in _SETTINGS.items():
        connection.execute(f"SET {name} = '{value}'")
    quoted = _duckdb_zone(zone).replace("'", "''")
    try:
        # GLOBAL, because cursors do not inherit settings of a connection
        connection.execute(f"SET GLOBAL TimeZone = '{quoted}'")
    except duckdb.Error as error:
        connection.close()
        raise InvalidArgumentError(
            f"a column has the time zone {zone!r}, in which DuckDB cannot evaluate SQL functions; "
            "compare the column with times, or give it a named zone such as Asia/Kolkata"
        ) from error
    connection.execute("SET lock_configuration = true")
    return connection


def _duckdb_zone(zone: str) -> str:
    """Returns DuckDB's name of a time zone. It has names only for offsets of whole hours.

    DuckDB would read UTC+05:30 as +05:00, so other offsets must not be passed by name.
    """
    offset = re.fullmatch(r"([+-])(\d\d):?00", zone)
    if offset is None:
        return zone
    hours = int(offset[2])
    # The sign is reversed, as in POSIX: Etc/GMT-5 is five hours east of Greenwich.
    return f"Etc/GMT{'-' if offset[1] == '+' else '+'}{hours}" if hours else "UTC"


@contextmanager
def _translated(names: Sequence[tuple[Path, str]]) -> Iterator[None]:
    """Raises DuckDB's errors as InvalidArgumentError, with the names of the user's columns."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        shown = {name: show_path(path) for path, name in names}
        reason = str(error).split("\n\nLINE")[0].strip()
        reason = re.sub(r"\bc\d+(?:_\d+)*\b", lambda m: shown.get(m[0], m[0]), reason)
        raise InvalidArgumentError(reason) from error
