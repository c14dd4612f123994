"""Files and datasets as views of a DuckDB connection."""

from __future__ import annotations

from typing import Protocol, TypeVar

from nimblepy.errors import InvalidArgumentError
from nimblepy.files.resolve import Source
from nimblepy.interop.arrow_dataset import arrow_dataset


class Registers(Protocol):
    """A DuckDB connection, or the module ``duckdb`` for its default one."""

    def register(self, view_name: str, python_object: object, /) -> object: ...


Connection = TypeVar("Connection", bound=Registers)


def duckdb(connection: Connection, **views: Source) -> Connection:
    """Makes files, datasets and tables views of a DuckDB connection, which pushes columns and
    filters into them.

    What is pushed, and what DuckDB does itself: :func:`nimblepy.arrow_dataset`.

    Args:
        connection: of DuckDB; the module ``duckdb`` is its default connection.
        views: for each name of a view a :class:`File`, :class:`Dataset` or :class:`Table`; or the
            path or URI of a file or dataset. The view of a table follows ``table.refresh()``.

    Returns:
        ``connection``.

    Cost: opens the sources that are paths; they stay open as long as the connection has the view.

    Example:
        >>> con = nb.duckdb(duckdb.connect(), orders="orders.nimble")          # doctest: +SKIP
        >>> con.sql("SELECT total FROM orders WHERE id = 7").fetchall()        # doctest: +SKIP
    """
    if not hasattr(connection, "register"):
        raise InvalidArgumentError(
            f"duckdb: expected a connection of DuckDB, got {type(connection).__name__}; "
            "without one, DuckDB reads nb.arrow_dataset(...) by the name of its variable"
        )
    for name, source in views.items():
        connection.register(name, arrow_dataset(source))
    return connection
