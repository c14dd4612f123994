"""RowSource: what everything above files asks of rows, wherever they lie.

A file is one, and so are many files together, a file with deleted rows, and what comes next. The
methods that people call are written once on top of it, in :class:`nimblepy.rows.rows.Rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from nimblepy.rows.plan import Plan
from nimblepy.rows.request import Request, Where
from nimblepy.rows.rowset import RowSet
from nimblepy.schema.types import SortKey

# Names of columns and paths of fields, checked; ``None`` is all columns.
Names = tuple[str, ...] | None


class Observer(Protocol):
    """Is told of every request and how many rows it found."""

    def found(self, request: Request, columns: Names, rows: int) -> None:
        """``columns``: what is read of the rows; empty where that is nothing."""
        ...

    def taken(self, columns: Names, rows: int) -> None:
        """Rows were read by their numbers."""
        ...

    def flush(self) -> None: ...


class RowSource(Protocol):
    """Rows that can be found and read."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def cluster_by(self) -> list[SortKey]: ...

    def find(
        self,
        request: Request,
        *,
        columns: Names = (),
        limit: int | None = None,
        reverse: bool = False,
    ) -> RowSet:
        """The rows that answer a request, from indexes alone.

        Keys are answered in their order, those of one key in file order; a range or prefix in the
        order of its index. To :class:`Where` the answer is rows that may pass.

        Args:
            columns: what the caller is going to read of them, for whoever observes.
            limit: most rows to find.
            reverse: last first, for a range or prefix.

        Raises:
            IndexUnavailableError: no index on the columns of the request.
        """
        ...

    def read(self, rows: RowSet, columns: Names) -> pa.Table:
        """Some columns of these rows, in their order."""
        ...

    def projected(self, columns: Names) -> pa.Schema:
        """Schema of these columns.

        Raises:
            InvalidArgumentError: there is no such column.
        """
        ...

    def all_rows(self) -> RowSet:
        """Every row, in file order; a row's number is its position in here."""
        ...

    def filtered(
        self, where: Where, columns: Names, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows that pass, batch by batch in file order; ``threads`` 0 is one per processor."""
        ...

    def count_passing(self, where: Where, *, threads: int) -> int:
        """How many rows pass."""
        ...

    def explain_request(self, request: Request, columns: Names) -> Plan:
        """What finding and reading would touch, without reading data."""
        ...
