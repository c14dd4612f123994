"""Computes SQL aggregates over batches, in a DuckDB session without access to files."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import pyarrow as pa

from nimblepy.duck.evaluate import locked_session
from nimblepy.errors import InvalidArgumentError


def check_names(names: Iterable[str]) -> None:
    """Raises InvalidArgumentError if SQL cannot tell two columns apart.

    DuckDB ignores the case of names, and would rename one of the columns.
    """
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.casefold(), name)
        if other != name:
            raise InvalidArgumentError(
                f"columns {other!r} and {name!r} differ only in case, which SQL ignores; rename one"
            )


def aggregate(rows: pa.RecordBatchReader, expression: str) -> float:
    """Returns the number that an aggregate such as ``sum(price)`` has over some rows.

    Raises:
        InvalidArgumentError: the expression does not fit the columns, or is not a number.
    """
    check_names(rows.schema.names)
    with locked_session("UTC") as connection:
        connection.register("rows", rows)
        try:
            answer = connection.execute(f"SELECT {expression} FROM rows").fetchall()
            return float(answer[0][0])
        except (duckdb.Error, IndexError, TypeError, ValueError) as error:
            reason = str(error).split("\n\nLINE")[0].strip()
            raise InvalidArgumentError(f"aggregate {expression}: {reason}") from error
