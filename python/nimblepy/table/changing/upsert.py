"""Upserts: new rows replace the rows that have their primary keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.arguments import column_names
from nimblepy.schema.lineage import ROW_ID_FIELD
from nimblepy.schema.names import output_name
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.key_positions import (
    KeyPositions,
    ascending,
    ids_of_replaced,
    key_ids,
    key_names,
    numbers,
)
from nimblepy.table.changing.keyed_rows import Duplicates, KeyedRows
from nimblepy.table.changing.merge import Insert, Update, merge_change
from nimblepy.table.changing.new_columns import Fit
from nimblepy.table.changing.row_change import Effect, Matches, RowChange, RowsWithKeys
from nimblepy.table.changing.row_commit import begin
from nimblepy.table.reading.members import MemberRows, Reading
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.batches import Batch
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.write import Target, write_rows

WhenMatched: TypeAlias = Literal["update", "ignore", "error"]


def upsert(
    table: TableAccess,
    data: Any,
    *,
    update: str | Sequence[str] | None,
    when_matched: WhenMatched,
    duplicates: Duplicates,
    batch: Batch | None,
    fit: Fit,
) -> Commit:
    """See :meth:`nimblepy.Table.upsert`."""
    call = begin(table, "upsert", batch)
    if call.is_done:
        return call.nothing()
    if fit.new_columns != "error":
        call, data = call.widened(data, fit)
    _, change = upsert_change(
        data,
        call.metadata,
        call.reading,
        update=update,
        when_matched=when_matched,
        duplicates=duplicates,
        fit=fit,
    )
    return call.commit(change)


def upsert_change(
    data: Any,
    metadata: ice.Metadata,
    reading: Reading,
    *,
    update: str | Sequence[str] | None,
    when_matched: WhenMatched,
    duplicates: Duplicates,
    fit: Fit,
) -> tuple[KeyedRows, RowChange[Matches]]:
    """Returns the rows sorted by key, and the change that upserts them.

    With ``update`` or ``when_matched="ignore"`` the change is a merge.

    Args:
        reading: how the current columns of the metadata are read.

    Raises:
        InvalidArgumentError: the table has no primary key, or the arguments or data do not fit.
        DuplicateKeyError: a key occurs twice in the data.
    """
    name, primary, schema = ".".join(metadata.name), reading.primary_key, reading.schema
    if not primary:
        raise InvalidArgumentError(
            f"upsert: {name} has no primary key to find rows by; merge(data, on=...) "
            "does not need one"
        )
    if when_matched not in get_args(WhenMatched):
        raise InvalidArgumentError(
            f"when_matched: expected one of {', '.join(map(repr, get_args(WhenMatched)))}, "
            f"got {when_matched!r}"
        )
    columns = None
    if update is not None:
        given = (update,) if isinstance(update, str) else column_names(update, "update") or ()
        columns = [output_name(name) for name in given]
    if columns is not None and when_matched != "update":
        raise InvalidArgumentError(
            f"update: not allowed with when_matched={when_matched!r}, which updates no row"
        )
    if columns is not None and not columns:
        raise InvalidArgumentError(
            "update: expected at least one column, got none; use when_matched='ignore' to update "
            "no row"
        )
    source = KeyedRows(
        data, schema, primary, duplicates=duplicates, cast=fit.cast, drop=fit.new_columns == "drop"
    )
    for column in columns or ():
        if column not in schema.names or column not in source.schema.names:
            where = "the data have" if column in schema.names else f"{name} has"
            raise InvalidArgumentError(f"update: {where} no column {column!r}")
    positions = KeyPositions(key_ids(schema, primary), source.key_chunks)
    if columns is not None or when_matched == "ignore":
        matched = [] if columns is None else [Update(columns)]
        return source, merge_change(source, positions, metadata, matched, [Insert()])
    return source, RowChange(
        operation=None,
        plan=RowsWithKeys(positions, refuses=when_matched == "error"),
        writer=SourceRows(source, positions.columns),
        keeps_keys=True,
    )


@dataclass(eq=False)
class SourceRows:
    """Writes the rows of a source once. If rows have lineage, writes them again when they replace
    other rows than before.

    Attributes:
        columns: field ids of the table's key columns.
        files: the new files, once they are written.
    """

    source: KeyedRows
    columns: Sequence[int]
    files: Sequence[DataFile] = ()
    is_written: bool = False
    # The id of the row that each row replaces; ``None`` if none of them replaces a row.
    row_ids: pa.Array | None = None

    def write(self, rows: MemberRows, matches: Matches, target: Target) -> Effect:
        """Writes the rows, if needed. Deletes the matching rows."""
        row_ids = ids_of_replaced(rows, matches, self.source.num_rows)
        if not self.is_written or row_ids != self.row_ids:
            self.files, self.row_ids = self._write(rows, target, row_ids), row_ids
            self.is_written = True
        replaced = np.zeros(self.source.num_rows, dtype=np.bool_)
        for some in matches.values():
            replaced[numbers(some)] = True
        updated = int(np.count_nonzero(replaced))
        return Effect(
            added=self.files,
            deleted=ascending(matches),
            inserted=self.source.num_rows - updated,
            updated=updated,
        )

    def all_columns(self) -> KeyedRows:
        """Returns the rows of the source with all columns, in the order of the keys."""
        return self.source

    def _write(
        self, rows: MemberRows, target: Target, row_ids: pa.Array | None
    ) -> Sequence[DataFile]:
        if not self.source.num_rows:
            return []
        source = self.all_columns()
        names, fields = source.columns_of(rows.schema)
        schema = pa.schema(fields)
        if row_ids is not None:
            schema, target = schema.append(ROW_ID_FIELD), replace(target, lineage=(ROW_ID_FIELD,))

        def batches() -> Iterator[pa.RecordBatch]:
            for first, chunk in source.chunks(names):
                if row_ids is not None:
                    ids = row_ids.slice(first, chunk.num_rows)
                    chunk = chunk.append_column(ROW_ID_FIELD, ids)
                yield from chunk.rename_columns(schema.names).cast(schema).to_batches()

        key = key_names(rows.schema, self.columns)
        return write_rows(
            pa.RecordBatchReader.from_batches(schema, batches()),
            target,
            presorted=_is_prefix(key, target.cluster_by),
        )


def _is_prefix(names: Sequence[str], keys: Sequence[SortKey]) -> bool:
    """Returns whether rows that are sorted by the unique ``names`` are also sorted by ``keys``."""
    return bool(keys) and all(
        key.column == name and not key.descending for key, name in zip(keys, names, strict=False)
    )
