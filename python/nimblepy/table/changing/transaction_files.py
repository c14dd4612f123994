"""The files that a transaction has written, and the row ids in them.

A row keeps the id of the row that it replaces, as if the changes of the transaction had been
separate commits. While the transaction runs, its rows have the ids of the rows that they replace in
the snapshot at its beginning. If other commits replaced, added or deleted these rows meanwhile, the
files are written again with the ids of the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.rows.request import Where
from nimblepy.schema.lineage import ROW_ID_FIELD
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.key_positions import (
    KeyPositions,
    ids_of_replaced,
    key_ids,
    key_names,
)
from nimblepy.table.changing.row_change import Effect
from nimblepy.table.changing.transaction_change import Replaced, among
from nimblepy.table.iceberg.manifests import files_of_no_manifest
from nimblepy.table.reading.changed_rows import ChangedRows
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows, SomeRows, member_of
from nimblepy.table.writing.write import Target, discard, write_rows

_BATCH_ROWS = 1 << 16


def settled(
    files: Sequence[DataFile],
    deletions: Mapping[str, _core.RowBitmap],
    base: FileSet,
    target: Target,
) -> list[DataFile]:
    """Returns one new file for each partition, without the rows that were deleted again.

    Removes the given files if it writes others. Rows keep their ids.

    Args:
        deletions: for each path, the deleted rows of the file.
        base: the rows when the transaction began.
    """
    deleted = [deletions.get(file.path) for file in files]
    partitions = {file.partition for file in files}
    if len(partitions) == len(files) and not any(
        rows is not None and len(rows) for rows in deleted
    ):
        return list(files)
    part = files_of_no_manifest(files, target.spec_id)
    members = base.members.take([]).beside(part)
    rows: MemberRows = ChangedRows(base.reading, base.plan, members, deletions)
    if base.reading.has_row_ids and base.reading.primary_key:
        # Rows have the sequence number of the commit, so only their ids are stored.
        rows, target = rows.with_lineage, replace(target, lineage=(ROW_ID_FIELD,))
    batches = rows.scan_batches(
        Where(None, rows.all_rows()), None, batch_rows=_BATCH_ROWS, threads=1
    )
    reader = pa.RecordBatchReader.from_batches(rows.schema, batches)
    made = write_rows(reader, target, drop=True)
    discard(files)
    return made


class OwnFiles:
    """Adds the files that a transaction has written.

    Attributes:
        files: the files. They are written again if other commits changed which rows they replace,
            and rows have lineage.
    """

    def __init__(self, files: Sequence[DataFile], base: FileSet, deleted: Sequence[pa.Table]):
        """Takes the files, whose row ids fit the snapshot at the beginning of the transaction.

        Args:
            base: the rows of that snapshot.
            deleted: primary keys that the transaction deleted. A row that it inserted again under
                such a key has a new id.
        """
        self.files = files
        self._base = base
        self._deleted = deleted
        # The ids of all rows, in the order of the files; None if they were not read yet.
        self._row_ids: pa.Array | None = None
        self._search: tuple[pa.Table, KeyPositions] | None = None
        self._is_added = False

    def write(self, rows: FileSet, matches: Replaced, target: Target) -> Effect:
        """Writes the files again if their row ids do not fit the snapshot."""
        reading = rows.reading
        if rows is not self._base and reading.has_row_ids and reading.primary_key and self.files:
            with closing(SomeRows(reading, [member_of(file) for file in self.files])) as own:
                if self._row_ids is None:
                    stored = own.row_ids({i: own.child(i).all_rows() for i in range(own.num_files)})
                    self._row_ids = pa.concat_arrays(list(stored.values()))
                row_ids = self._ids_in(rows, own)
                if row_ids != self._row_ids:
                    self._write(own, target, row_ids)
        self._is_added = True
        count = sum(file.rows for file in self.files)
        return Effect(
            added=self.files,
            deleted=matches.rows,
            inserted=count - matches.updated,
            updated=matches.updated,
        )

    def _ids_in(self, rows: FileSet, own: SomeRows) -> pa.Array:
        """Returns the ids of the rows that each own row replaces in a snapshot."""
        if self._search is None:
            columns = key_ids(self._base.schema, self._base.reading.primary_key)
            keys = own.read(own.all_rows(), tuple(key_names(rows.schema, columns)))
            self._search = keys, KeyPositions(columns, lambda: iter([(0, keys)]))
        keys, positions = self._search
        row_ids = ids_of_replaced(rows, positions.find(rows), keys.num_rows)
        if row_ids is None:
            return pa.nulls(keys.num_rows, pa.int64())
        if not self._deleted:
            return row_ids
        names, schema = keys.column_names, keys.schema
        deleted = [table.rename_columns(names).cast(schema) for table in self._deleted]
        is_anew = among(keys, pa.concat_tables(deleted))
        return row_ids.take(pa.array(np.arange(keys.num_rows), mask=is_anew))

    def _write(self, own: SomeRows, target: Target, row_ids: pa.Array) -> None:
        """Replaces the files by others with the same rows and these ids."""
        schema = pa.schema([*own.schema, ROW_ID_FIELD], own.schema.metadata)

        def batches() -> Iterator[pa.RecordBatch]:
            first = 0
            for number in range(own.num_files):
                child = own.child(number)
                where = Where(None, child.all_rows())
                for batch in child.scan_batches(where, None, batch_rows=_BATCH_ROWS, threads=1):
                    ids = row_ids.slice(first, batch.num_rows)
                    first += batch.num_rows
                    yield pa.RecordBatch.from_arrays([*batch.columns, ids], schema=schema)

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        made = write_rows(reader, replace(target, lineage=(ROW_ID_FIELD,)))
        if not self._is_added:
            discard(self.files)  # The commit removes only files of earlier attempts.
        self.files, self._row_ids, self._search = made, None, None
