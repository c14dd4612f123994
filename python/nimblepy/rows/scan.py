"""Scan: reads rows in file order, and returns batches of the requested columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError, MissingExtraError
from nimblepy.rows.arguments import Projected
from nimblepy.rows.html import html_rows
from nimblepy.rows.plan import Plan
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import RowSource
from nimblepy.schema.names import output_name


class ReadsArrow(Protocol):
    """A DuckDB connection, or the module ``duckdb``, which uses its default connection."""

    def from_arrow(self, arrow_object: object, /) -> object: ...


class Scan:
    """A scan that has not run yet, created by the method ``scan`` of a file, dataset or table.

    It can be run any number of times. Iterating over it yields batches. polars, DuckDB and pyarrow
    can read it directly through ``__arrow_c_stream__``. It can be pickled if the file, dataset or
    table can be pickled.
    """

    def __init__(
        self,
        source: RowSource,
        where: Where,
        *,
        columns: Projected,
        batch_rows: int,
        threads: int,
        limit: int | None,
        offset: int = 0,
    ) -> None:
        if where.filter is None and (limit is not None or offset):
            end = None if limit is None else offset + limit
            where, limit, offset = Where(None, where.rows.slice(offset, end)), None, 0
        self._source = source
        self._where = where
        self._columns = columns
        self._schema = source.schema if columns is None else source.projected(columns)
        self._batch_rows = batch_rows
        self._threads = threads
        self._limit = limit
        self._offset = offset

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return self._schema

    def to_table(self) -> pa.Table:
        """Returns all rows of the scan."""
        return pa.Table.from_batches(self._batches(self._columns), schema=self._schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns the rows as a stream that decodes while it is read."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches(self._columns))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows batch by batch."""
        yield from self._batches(self._columns)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches(self._columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Returns all rows as a pandas DataFrame."""
        return self.to_table().to_pandas()

    def to_polars(self) -> Any:
        """Returns all rows as a polars DataFrame.

        Raises:
            MissingExtraError: polars is not installed.
        """
        try:
            import polars as pl
        except ImportError as error:
            raise MissingExtraError(
                'to_polars needs polars: pip install "nimblepy[polars]"'
            ) from error
        return pl.from_arrow(self.to_table())

    def to_duckdb(self, con: ReadsArrow | None = None) -> Any:
        """Returns all rows as a DuckDB relation.

        Args:
            con: a DuckDB connection; ``None`` means the default connection of ``duckdb``.

        Raises:
            MissingExtraError: DuckDB is not installed.

        Cost: reads all rows into memory. :func:`nimblepy.duckdb` reads only what a query needs.
        """
        if con is None:
            try:
                import duckdb
            except ImportError as error:
                raise MissingExtraError(
                    "to_duckdb needs duckdb: pip install 'nimblepy[sql]'"
                ) from error
            con = duckdb
        if not hasattr(con, "from_arrow"):
            raise InvalidArgumentError(f"to_duckdb: expected a DuckDB connection, got {con!r}")
        return con.from_arrow(self.to_table())

    def count(self) -> int:
        """Returns the number of rows. Reads only the filter's columns, and decodes only parts."""
        if self._where.filter is None:
            return self._where.rows.num_rows
        if self._limit is not None or self._offset:  # the limit may end the scan early
            return sum(batch.num_rows for batch in self._batches(()))
        return self._source.count_passing(self._where, threads=self._threads)

    def rows(self) -> RowSet:
        """Returns the rows that may pass, according to indexes and statistics. Reads no data."""
        return self._source.find(self._where)

    def explain(self) -> Plan:
        """Returns the plan of the scan, without reading data."""
        return self._source.explain_request(self._where, self._columns)

    def __repr__(self) -> str:
        columns = (
            "all columns"
            if self._columns is None
            else ", ".join(map(output_name, self._columns)) or "no column"
        )
        where = "" if self._where.filter is None else f" where {self._where.filter}"
        return f"<nimblepy.Scan of {columns} of {self._source!r}{where}>"

    def _repr_html_(self) -> str:
        where = self._where.filter
        facts = {"rows of": repr(self._source), "filter": None if where is None else str(where)}
        return html_rows("Scan", facts, self._schema)

    def _batches(self, columns: Projected) -> Iterator[pa.RecordBatch]:
        where = self._where
        if self._limit is not None:
            most = min(self._offset + self._limit, where.rows.num_rows)
            where = Where(where.filter, where.rows, most)
        batches = self._source.scan_batches(
            where, columns, batch_rows=self._batch_rows, threads=self._threads
        )
        return iter(batches) if where.filter is None else self._limited(batches)

    def _limited(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        skip, left = self._offset, self._limit
        while left is None or left > 0:
            batch = next(batches, None)
            if batch is None:
                break
            if skip or left is not None:
                skipped = min(skip, batch.num_rows)
                batch = batch.slice(skipped, None if left is None else min(left, batch.num_rows))
                skip -= skipped
                left = None if left is None else left - batch.num_rows
            if batch.num_rows:
                yield batch
