"""Rows of a file with the columns of row lineage, which they inherit or store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.files.mapped import MappedRows
from nimblepy.rows.arguments import Projected
from nimblepy.rows.compiled import Compiled
from nimblepy.rows.passing import passing_rows
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Reader
from nimblepy.schema.columns import Column
from nimblepy.schema.lineage import LAST_UPDATED, NAMES, ROW_ID, names_lineage
from nimblepy.schema.names import ColumnName


class NumberedRows(MappedRows):
    """Presents a file with a schema that has the columns of row lineage.

    A row inherits the values that the file does not store: its id from its position, and the
    sequence number from the file.
    """

    def __init__(
        self, *arguments: Any, first_row_id: int | None, sequence: int, **options: Any
    ) -> None:
        """Takes the arguments of :class:`MappedRows`.

        Args:
            first_row_id: the id of the first row; ``None`` if the rows have no ids yet.
            sequence: the sequence number of the file.
        """
        super().__init__(*arguments, **options)
        self._first_row_id = first_row_id
        self._sequence = sequence

    @property
    def inherited(self) -> tuple[int | None, int]:
        """The id of the first row, and the sequence number of the file."""
        return self._first_row_id, self._sequence

    def _asks(self, columns: Projected) -> bool:
        return names_lineage(self.schema.names if columns is None else columns)

    def compiled(self, reader: Compiled[Reader]) -> Reader | None:
        columns = getattr(reader, "columns", ())
        return None if self._asks(columns) else super().compiled(reader)

    def _column(self, column: Column) -> Column | None:
        # Rows without a stored value inherit one, so the file cannot test these columns.
        return None if column.path[0] in NAMES else super()._column(column)

    def _names_in_child(self, names: Any) -> tuple[ColumnName, ...] | None:
        return None if names_lineage(names) else super()._names_in_child(names)

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        table = super().read(rows, columns)
        if not self._asks(columns):
            return table
        positions = rows.expand().begin
        for i, name in enumerate(table.column_names):
            if name in NAMES:
                values = self._filled(name, table.column(i), positions)
                table = table.set_column(i, table.field(i), values)
        return table

    def _filled(self, name: str, stored: pa.ChunkedArray, positions: RowNumbers) -> Any:
        if self._first_row_id is None or not stored.null_count:
            return stored
        if name == LAST_UPDATED:
            return pc.fill_null(stored, self._sequence)
        assert name == ROW_ID
        inherited = pa.array(positions.astype(np.int64) + self._first_row_id)
        if stored.null_count == len(stored):
            return inherited
        return pc.coalesce(stored.combine_chunks(), inherited)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        if not self._asks(columns):
            yield from super().scan_batches(where, columns, batch_rows=batch_rows, threads=threads)
            return
        rows = where.rows if where.filter is None else passing_rows(self, where)
        for at in range(0, rows.num_rows, batch_rows):
            yield from self.read(rows.slice(at, at + batch_rows), columns).to_batches()
