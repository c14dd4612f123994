"""Registers files and datasets as views of a DuckDB connection."""

from __future__ import annotations

from typing import Protocol, TypeVar

from nimblepy.errors import InvalidArgumentError
from nimblepy.files.resolve import Source
from nimblepy.interop.arrow_dataset import arrow_dataset


class Registers(Protocol):
    """A DuckDB connection, or the module ``duckdb``, which uses its default connection."""

    def register(self, view_name: str, python_object: object, /) -> object: ...


Connection = TypeVar("Connection", bound=Registers)


def duckdb(connection: Connection, **views: Source) -> Connection:
    """Registers files, datasets and tables as views of a DuckDB connection.

    DuckDB pushes columns and filters into the views: see :func:`nimblepy.arrow_dataset`.

    Args:
        connection: a DuckDB connection; the module ``duckdb`` is its default connection.
        views: for each view name a :class:`File`, :class:`Dataset` or :class:`Table`; or the path
            or URI of a file or dataset. The view of a table follows ``table.refresh()``.

    Returns:
        ``connection``.

    Cost: opens sources that are given as paths. They remain open while the connection has the view.

    Example:
        >>> con = nb.duckdb(duckdb.connect(), orders="orders.nimble")          # doctest: +SKIP
        >>> con.sql("SELECT total FROM orders WHERE id = 7").fetchall()        # doctest: +SKIP
    """
    if not hasattr(connection, "register"):
        raise InvalidArgumentError(
            f"duckdb: expected a DuckDB connection, got {type(connection).__name__}; "
            "without a connection, use nb.arrow_dataset(...), which DuckDB reads by variable name"
        )
    for name, source in views.items():
        connection.register(name, arrow_dataset(source))
    return connection
