"""Computes SQL aggregates over batches, in a DuckDB session without access to files."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from nimblepy.duck.evaluate import locked_session
from nimblepy.errors import InvalidArgumentError


def aggregate(rows: pa.RecordBatchReader, expression: str) -> float:
    """Returns the number that an aggregate such as ``sum(price)`` has over some rows.

    Raises:
        InvalidArgumentError: the expression does not fit the columns, or is not a number.
    """
    with locked_session("UTC") as connection:
        connection.register("rows", rows)
        try:
            answer = connection.execute(f"SELECT {expression} FROM rows").fetchall()
            return float(answer[0][0])
        except (duckdb.Error, IndexError, TypeError, ValueError) as error:
            reason = str(error).split("\n\nLINE")[0].strip()
            raise InvalidArgumentError(f"aggregate {expression}: {reason}") from error
