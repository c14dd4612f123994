"""Records what a transaction reads, and checks that other commits did not change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nimblepy.errors import IndexUnavailableError, StaleFileError
from nimblepy.expr.filter import Filter
from nimblepy.rows.arguments import Projected
from nimblepy.rows.request import Keys, Ordered, Request, Where
from nimblepy.rows.rowset import RowSet
from nimblepy.schema.lineage import names_lineage
from nimblepy.schema.names import ColumnName
from nimblepy.table import iceberg as ice
from nimblepy.table.changing.row_change import conflict
from nimblepy.table.reading.changed_rows import differences
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.reading.plan import SnapshotPlan

_BATCH_ROWS = 1 << 16
# Maximum number of keys that a ConflictError names.
_SHOWN_KEYS = 10


class Reads:
    """Records what a transaction has read. Changing any of it is a conflict.

    Attributes:
        lineage: a read named columns of row lineage, so changing these is a conflict, too.
    """

    def __init__(self) -> None:
        self._keys: dict[tuple[tuple[ColumnName, ...], bool], list[Keys]] = {}
        self._ordered: list[Ordered | Keys] = []
        self._filters: list[Filter] = []
        self._everything = False
        self.lineage = False

    def add(self, request: Request) -> None:
        if isinstance(request, Where):
            if request.filter is None:
                self._everything = True
            elif not request.filter.matches_nothing:
                self._filters.append(request.filter)
                self.add_columns(request.filter.columns)
        elif isinstance(request, Keys) and request.between is None:
            self._keys.setdefault((request.names, request.null_equals), []).append(request)
        else:
            self._ordered.append(request)

    def add_columns(self, columns: Projected) -> None:
        """Records the columns that a read returns or tests."""
        self.lineage = self.lineage or names_lineage(columns)

    def add_everything(self) -> None:
        self._everything = True

    def __bool__(self) -> bool:
        return bool(self._keys or self._ordered or self._filters or self._everything)

    def changed(self, removed: FileSet, added: FileSet, *, lineage: bool) -> pa.Table | None:
        """Returns the removed and added rows that the transaction's reads find.

        ``None`` means that each read finds the same rows in both.

        Args:
            lineage: whether rows of different lineage are different.
        """
        for request in self._requests():
            before = _answer(removed, request, lineage=lineage)
            after = _answer(added, request, lineage=lineage)
            if not _same_rows(before, after):
                return pa.concat_tables([before, after])
        return None

    def _requests(self) -> Iterator[Request]:
        nothing = RowSet.of_range(0, 0)
        if self._everything:
            yield Where(None, nothing)
            return
        for (names, null_equals), requests in self._keys.items():
            parts = [
                request if request.usable is None else request.take(np.flatnonzero(request.usable))
                for request in requests
            ]
            columns = zip(*(part.values for part in parts), strict=True)
            values = tuple(pa.concat_arrays(arrays) for arrays in columns)
            yield Keys(names, values, None, null_equals)
        yield from self._ordered
        for filter in self._filters:
            yield Where(filter, nothing)


def _answer(rows: FileSet, request: Request, *, lineage: bool) -> pa.Table:
    read: MemberRows = rows.with_lineage if lineage else rows
    if not rows.num_files:
        return read.schema.empty_table()
    if isinstance(request, Where):
        where = Where(request.filter, rows.all_rows())
        batches = read.scan_batches(where, None, batch_rows=_BATCH_ROWS, threads=0)
        return pa.Table.from_batches(batches, read.schema)
    return read.read(rows.find(request), None)


def _same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Returns whether two tables have the same rows, in any order."""
    if one.num_rows != other.num_rows:
        return False
    return sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist()))


@dataclass(frozen=True, eq=False)
class ReadsAreSame:
    """Checks that other commits did not change what a transaction has read.

    Attributes:
        begun: the metadata when the transaction began.
        base: the rows that the transaction read.
    """

    begun: ice.Metadata
    base: FileSet
    reads: Reads

    def __call__(self, metadata: ice.Metadata, rows: FileSet) -> None:
        base, winner = self.begun.head(), metadata.head()
        if (base and base.id) == (winner and winner.id):
            return
        plan = SnapshotPlan(metadata, winner, self.begun.schema_id)
        lineage = self.reads.lineage and self.base.reading.has_row_ids
        newest = FileSet(self.base.reading, plan)
        removed, added = differences(self.base, newest, lineage=lineage)
        widened = metadata.widened_since(self.begun.schema_id) if added.num_files else []
        if widened and self.reads:
            # The new rows may have values that the columns could not hold when they were read.
            why = (
                f"another commit widened the column {widened[0]!r} and rows were written, after a "
                "transaction read rows; begin it again"
            )
            raise conflict(self.begun, metadata, why, kind="schema")
        try:
            changed = self.reads.changed(removed, added, lineage=lineage)
        except (FileNotFoundError, StaleFileError, IndexUnavailableError) as error:
            why = f"what a transaction read cannot be read again to compare it: {error}"
            raise conflict(self.begun, metadata, why, kind="files") from error
        if changed is None:
            return
        primary = list(self.base.reading.primary_key)
        shown = changed.select(primary).slice(0, _SHOWN_KEYS).to_pylist() if primary else []
        # A replaced row occurs twice, with its old and its new values.
        keys = list(
            dict.fromkeys(
                tuple(row.values()) if len(primary) > 1 else row[primary[0]] for row in shown
            )
        )
        example = f", for example the row with the key {keys[0]!r}" if keys else ""
        raise conflict(
            self.begun,
            metadata,
            f"another commit changed rows that a transaction read{example}",
            kind="keys",
            files=added.members.files.paths.to_pylist() if added.num_files else (),
            keys=keys,
        )
