"""Combines the changes of a transaction into one change of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.cached import cached_property
from nimblepy.expr.filter import Filter
from nimblepy.files.bounds import EncodedKeys
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.rowset import RowNumbers
from nimblepy.schema.columns import column_paths, resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.names import Path, show_path
from nimblepy.schema.plain import plain_array
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.delete import RowsThatPass
from nimblepy.table.changing.key_positions import KeyPositions, ascending, key_ids, numbers
from nimblepy.table.changing.row_change import Rows, conflict
from nimblepy.table.reading.fileset import FileSet


class Replaced(NamedTuple):
    """Rows to delete, and how many of them have a new row with the same key."""

    rows: Rows
    updated: int


@dataclass(eq=False)
class TouchedKeys:
    """The keys of rows that a transaction writes or deletes.

    Attributes:
        touched: the keys.
        files: the transaction's new rows. They count as updates if an old row has their key.
        base: the rows when the transaction began.
    """

    touched: Sequence[pa.Table]
    files: Sequence[DataFile]
    base: FileSet

    def find(self, rows: FileSet) -> Replaced:
        """Returns the rows that have one of the keys."""
        is_own, positions = self._search
        matches = positions.find(rows)
        probes = [numbers(some) for some in matches.values()]
        matched = np.unique(np.concatenate(probes)) if probes else np.empty(0, np.int64)
        return Replaced(ascending(matches), int(is_own[matched].sum()))

    @cached_property
    def _search(self) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], KeyPositions]:
        """Which of the distinct keys belong to new rows, and a search for all keys."""
        names, schema = list(self.base.reading.primary_key), self.base.schema
        empty = pa.schema([schema.field(name) for name in names]).empty_table()
        keys = pa.concat_tables([empty, *(table.cast(empty.schema) for table in self.touched)])
        keys = _distinct(keys)
        reading = self.base.reading
        sources = [reading.child(file, keep=False) for file in self.files]
        own = [SourceHandle(source).to_table(names) for source in sources]
        is_own = among(keys, pa.concat_tables([empty, *own]))
        return is_own, KeyPositions(key_ids(schema, names), lambda: iter([(0, keys)]))


def _distinct(keys: pa.Table) -> pa.Table:
    """Returns each row once. pyarrow cannot group by UUIDs, so their bytes are compared."""
    plain = [plain_array(column.combine_chunks()) for column in keys.columns]
    names = keys.column_names
    once = pa.table(plain, names=names).group_by(names).aggregate([]).select(names)
    return once.cast(keys.schema).combine_chunks()


@dataclass(frozen=True, eq=False)
class RowsOfKeys:
    """Finds the rows to replace by their keys.

    Attributes:
        base: the rows when the transaction began.
        deleted: rows of the base to delete. If another engine gave a key to several rows, a filter
            may have deleted only some of them.
        only_updates: a new row replaces each deleted row.
    """

    base: FileSet
    keys: TouchedKeys
    deleted: dict[int, RowNumbers]
    only_updates: bool

    def find(self, rows: FileSet) -> Replaced:
        if rows is not self.base:
            return self.keys.find(rows)
        if self.only_updates:
            updated = sum(map(len, self.deleted.values()))
        else:
            updated = self.keys.find(rows).updated
        return Replaced(dict(self.deleted), updated)


@dataclass(frozen=True, eq=False)
class RowsOfFilters:
    """Finds the rows to delete in a table without a primary key."""

    filters: Sequence[Filter]

    def find(self, rows: FileSet) -> Replaced:
        deleted: Rows = {}
        for filter in self.filters:
            for number, positions in RowsThatPass(filter).find(rows).items():
                more = live_positions(rows, number, positions)
                before = deleted.get(number)
                deleted[number] = more if before is None else np.union1d(before, more)
        return Replaced(deleted, 0)


@dataclass(frozen=True, eq=False)
class SameFilterColumns:
    """Checks that the filters' columns have the ids and types that they had when parsed."""

    begun: ice.Metadata
    filters: Sequence[Filter]

    def __call__(self, metadata: ice.Metadata, rows: FileSet) -> None:
        before = self.begun.schema()
        for path in (path for filter in self.filters for path in filter.columns):
            if path not in column_paths(before):
                continue  # a column of row lineage
            if not _same_column(before, rows.schema, path):
                raise conflict(
                    self.begun,
                    metadata,
                    f"another commit changed the column {show_path(path)!r} of a transaction's "
                    "filter; begin the transaction again",
                    kind="schema",
                )


def live_positions(rows: FileSet, number: int, positions: RowNumbers | None) -> RowNumbers:
    """Returns ``positions``, or all live rows of the file if it is ``None``."""
    if positions is not None:
        return positions
    everything, deleted = rows.child(number).all_rows(), rows.deleted(number)
    return (everything if deleted is None else everything.minus(deleted)).rows


def _same_column(before: pa.Schema, now: pa.Schema, path: Path) -> bool:
    """Returns whether a path names the same column, with the same type, in both schemas."""
    if path not in column_paths(now) or field_id_at(now, path) != field_id_at(before, path):
        return False
    kind = resolve_column(now, path).type
    # The metadata contains the field ids of nested fields.
    return bool(kind.equals(resolve_column(before, path).type, check_metadata=True))


def among(keys: pa.Table, others: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns which keys are among others."""

    def encoded(table: pa.Table) -> pa.Array:
        batches = table.combine_chunks().to_batches()
        order = [SortKey(name) for name in table.column_names]
        is_among = EncodedKeys(batches[0], order).to_list() if batches else []
        return pa.array(is_among, pa.large_binary())

    is_among: np.ndarray[Any, np.dtype[np.bool_]] = pc.is_in(
        encoded(keys), encoded(others)
    ).to_numpy(zero_copy_only=False)
    return is_among
