"""The command ``sql``: a query of DuckDB over a file, a directory of files or a table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import typer

import nimblepy as nb
from nimblepy.cli.arguments import OutputFormat, Version
from nimblepy.cli.output import TABLE_ROWS, print_rows
from nimblepy.cli.sources import open_rows
from nimblepy.errors import InvalidArgumentError, MissingExtraError


def run_sql(
    path: str,
    version: Version,
    text: str,
    params: Mapping[str, str] | None,
    output: OutputFormat,
    *,
    explain: bool,
) -> bool:
    """Prints the result of a query over the view ``t``, or DuckDB's plan of it.

    Returns whether anything was printed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("nimble sql needs duckdb: pip install 'nimblepy[sql]'") from error
    with open_rows(path, version) as rows, duckdb.connect() as connection:
        source: Any = rows
        nb.duckdb(connection, t=source)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            result = connection.execute(f"EXPLAIN {text}" if explain else text, params or None)
            if result is None or result.description is None:
                raise InvalidArgumentError("sql: expected a query, such as SELECT count(*) FROM t")
            if explain:
                typer.echo(result.fetchall()[0][1])
                return True
            return _print(_reader(result), output)
        except (duckdb.Error, pa.ArrowException) as error:
            raise InvalidArgumentError(f"sql: {error}") from error


def _print(reader: pa.RecordBatchReader, output: OutputFormat) -> bool:
    """Prints all rows for programs, and one page of them for people.

    Returns whether there are rows.
    """
    if output != "table":
        return print_rows(reader, reader.schema, output)
    table = reader.read_all()
    note = "" if table.num_rows else "no row"
    if table.num_rows > TABLE_ROWS:
        note = f"first {TABLE_ROWS} of {table.num_rows:,} rows; --json and --csv print all"
    page = table.slice(0, TABLE_ROWS)
    return print_rows(page.to_batches(), table.schema, output, chosen=False, note=note)


def _reader(result: Any) -> pa.RecordBatchReader:
    fetch = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
    with warnings.catch_warnings():
        # DuckDB 2 recommends another call, which cannot tell a query from a statement.
        warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
        return fetch()
