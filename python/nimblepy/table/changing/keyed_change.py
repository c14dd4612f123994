"""Changes whose rows meet those of the table by key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.schema.field_ids import field_id_of
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.key_positions import KeyPositions, numbers
from nimblepy.table.changing.keyed_rows import KeyedRows
from nimblepy.table.changing.row_changes import FilesOf, Replacement
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.writing.write import Target

# Rows of the source with a key by number of the file.
Found = dict[int, RowSet]


class KeyedChange(Replacement):
    """New rows are made of those of a source, and of rows of the table that have their keys.

    They are written again only where another commit changed rows that they depend on.
    """

    def __init__(self, source: KeyedRows, columns: Sequence[int], files_of: FilesOf) -> None:
        """``columns``: field ids of the table's columns for the key of the source."""
        super().__init__("overwrite", (), files_of)
        self.source = source
        self.positions = KeyPositions(columns, source.key_chunks)
        self._matches: dict[str, RowSet] | None = None

    @property
    def is_blind(self) -> bool:
        """Whether the new rows are the same whatever the table has."""
        return False

    def plan_in(self, rows: MemberRows, target: Target) -> dict[int, RowNumbers | None]:
        """Writes the new rows for rows that are not committed; gives those that go of them."""
        self.target = target
        return self.gone(rows)

    @abstractmethod
    def gone(self, rows: MemberRows) -> dict[int, RowNumbers | None]: ...

    @abstractmethod
    def written(self, rows: MemberRows, found: Found) -> list[DataFile]:
        """Writes the new rows; ``found``: those of the table that have keys of the source."""

    def match(self, rows: MemberRows) -> Found:
        """Finds the keys, and writes new rows if need be."""
        found = self.positions.find(rows)
        matches = {rows.members[number].file.path: some for number, some in found.items()}
        if self._matches is None or not (self.is_blind or _same(matches, self._matches)):
            self.remove(self.added)
            self.added, self._matches = [], None
            self.added = self.written(rows, found)
        self._matches = matches
        return found

    @property
    def matches(self) -> dict[str, RowSet]:
        """Rows with keys of the source by path of their file, once they were looked for."""
        return self._matches or {}

    def source_fields(self, schema: pa.Schema) -> tuple[list[str], list[pa.Field]]:
        """Columns of the source, and what the table of ``schema`` calls them.

        Those that were dropped from the table meanwhile are left out.
        """
        now = {field_id_of(field): field.name for field in schema}
        known = [
            (field.name, field if number is None else field.with_name(now[number]))
            for field in self.source.schema
            if (number := field_id_of(field)) is None or number in now
        ]
        return [name for name, _ in known], [field for _, field in known]


def _same(one: dict[str, RowSet], other: dict[str, RowSet]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(rows.begin, other[path].begin)
        and np.array_equal(numbers(rows), numbers(other[path]))
        for path, rows in one.items()
    )
