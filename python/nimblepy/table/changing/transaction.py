"""Transactions: several reads and changes of a table in one commit, serializable by key."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Self

import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Filter as Parsed
from nimblepy.expr.filter import Parameters, with_params
from nimblepy.file.versions import VersionedRows
from nimblepy.io.progress import ProgressArg
from nimblepy.rows.arguments import Projected
from nimblepy.rows.asof import AsofKeys
from nimblepy.rows.nearest import NearestPart, NearestRows
from nimblepy.rows.request import Keys, Request, Where
from nimblepy.rows.rows import Position
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.rows.source import Filter
from nimblepy.rows.wrapper import SourceWrapper
from nimblepy.schema.protocols import ManyKeys, Tabular
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.delete import RowsThatPass
from nimblepy.table.changing.key_positions import ascending, given_keys
from nimblepy.table.changing.keyed_rows import Duplicates
from nimblepy.table.changing.new_columns import Fit, NewColumns
from nimblepy.table.changing.row_change import Plan, RowChange, Rows, Rule
from nimblepy.table.changing.row_commit import RowCommit, begin
from nimblepy.table.changing.transaction_change import (
    Replaced,
    RowsOfFilters,
    RowsOfKeys,
    SameFilterColumns,
    TouchedKeys,
    live_positions,
)
from nimblepy.table.changing.transaction_files import OwnFiles, settled
from nimblepy.table.changing.transaction_reads import Reads, ReadsAreSame
from nimblepy.table.changing.upsert import WhenMatched, upsert_change
from nimblepy.table.iceberg.manifests import files_of_no_manifest
from nimblepy.table.reading.changed_rows import ChangedRows, with_rows
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import discard, write_rows


class _ReadRows(SourceWrapper[FileSet]):
    """Records the reads of the rows that it wraps."""

    def __init__(self, rows: FileSet, reads: Reads) -> None:
        super().__init__(rows)
        self._reads = reads

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "rows of a transaction cannot be pickled: reads in another process would not be "
            "recorded; read them here"
        )

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        if not isinstance(request, Where):  # where_request() records filters
            self._reads.add(request)
        return super().find(request, limit=limit, reverse=reverse)

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        if keys.by:
            self._reads.add(Keys(keys.by, keys.values, keys.usable))
        else:
            self._reads.add_everything()
        return super().find_asof(keys, deleted)

    def nearest_parts(
        self, request: NearestRows, rows: RowSet | None = None
    ) -> Iterator[NearestPart]:
        if request.filter is not None:
            self.where_request(request.filter)
        elif request.within is not None:
            self._reads.add(request.within)
        else:
            self._reads.add_everything()
        self._reads.add_columns((request.column,))
        return super().nearest_parts(request, rows)

    def find_and_read(
        self, keys: Keys, columns: Projected, *, first: bool = False
    ) -> tuple[pa.Table, Positions]:
        self._reads.add(keys)
        self._reads.add_columns(columns)
        return self.wrapped.find_and_read(keys, columns, first=first)

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        self._reads.add_columns(columns)
        return super().read(rows, columns)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        self._reads.add_columns(columns)
        return super().scan_batches(where, columns, batch_rows=batch_rows, threads=threads)

    def count_matches(self, keys: Keys) -> Positions:
        self._reads.add(keys)
        return self.wrapped.count_matches(keys)

    def where_request(self, filter: Filter, row_range: tuple[int, int] | None = None) -> Where:
        request = self.wrapped.where_request(filter, row_range)
        self._reads.add(request)
        return request

    @property
    def num_rows(self) -> int:
        self._reads.add_everything()
        return self.wrapped.num_rows

    def close(self) -> None:
        """Does nothing, because the table owns the files."""


class Transaction(VersionedRows[_ReadRows]):
    """Collects reads and changes of a table, which take effect together or not at all.

    All reading methods of a table see the snapshot that was newest at the beginning of the block,
    and the transaction's own changes. The transaction commits once, at the end of the block. If
    another commit changed a row that the transaction read, or added a row that its keys, ranges or
    filters would have found, the transaction raises :class:`ConflictError` and changes nothing. A
    changed row id or sequence number counts if the transaction read columns of row lineage. So
    the result is the same as if it had run alone after the other commits. Rows that it wrote
    without reading them replace rows of other commits.

    Attributes:
        commit: the result of the commit; ``None`` before the end of the block, or if there was
            nothing to commit.
    """

    def __init__(self, table: TableAccess) -> None:
        self._call = begin(table, "transaction")
        self._metadata = self._call.metadata
        self._base = table.rows(self._metadata)
        self._target = target_of(self._metadata)
        self._primary = tuple(self._base.reading.primary_key)
        # changed in place only, because the finalizer also holds this list
        self._own: list[DataFile] = []
        self._finalizer = weakref.finalize(self, _discard_own, self._own, os.getpid())
        self._deletions: dict[str, _core.RowBitmap] = {}
        self._touched: list[pa.Table] = []  # keys of written and deleted rows
        self._deleted_keys: list[pa.Table] = []  # keys of rows deleted without replacement
        # filters that deleted rows, in a table without a primary key
        self._filters: list[Parsed] = []
        self._deletes = False  # whether rows were deleted without replacement
        self._reads = Reads()
        self._over = False
        self.commit: Commit | None = None
        super().__init__(Position(_ReadRows(self._rows(), self._reads)))

    def _rows(self) -> FileSet:
        """Returns all rows, with the transaction's changes so far."""
        if not self._own and not self._deletions:
            return self._base
        members = self._base.members
        if self._own:
            members = members.beside(files_of_no_manifest(self._own, self._target.spec_id))
        return ChangedRows(self._base.reading, self._base.plan, members, dict(self._deletions))

    @property
    def _current(self) -> _ReadRows:
        if self._over:
            raise InvalidArgumentError("the transaction has ended; begin another one")
        return super()._current

    # ------------------------------------------------------------------ changes

    def upsert(
        self,
        data: Tabular,
        *,
        update: str | Sequence[str] | None = None,
        when_matched: WhenMatched = "update",
        duplicates: Duplicates = "error",
        cast: bool = False,
        new_columns: Literal["error", "drop"] = "error",
    ) -> None:
        """Like ``Table.upsert``.

        Counts as a read of the keys only with ``update`` or ``when_matched``.
        """
        rows = self._current.wrapped
        source, change = upsert_change(
            data,
            self._metadata,
            self._call.reading,
            update=update,
            when_matched=when_matched,
            duplicates=duplicates,
            fit=_fit(cast, new_columns),
        )
        keys = [table.rename_columns(list(self._primary)) for _, table in source.key_chunks()]
        # Record the read before the search, because a caller may catch the error of a failed call
        # and rely on what the error says about the table.
        if update is not None or when_matched != "update":
            for table in keys:
                self._reads.add(rows.keys_request(table, self._primary))
        try:
            effect = change.effect(rows, self._target)
        except BaseException:
            discard(change.writer.files)
            raise
        if when_matched != "ignore":
            self._touched += keys
        self._apply(rows, effect.deleted, effect.added)

    def append(
        self,
        data: Tabular,
        *,
        progress: ProgressArg = None,
        cast: bool = False,
        new_columns: Literal["error", "drop"] = "error",
    ) -> None:
        """Like ``Table.append``.

        If the table has a primary key, this counts as a read of the new keys.
        """
        rows = self._current.wrapped
        if self._primary:
            self.upsert(data, when_matched="error", cast=cast, new_columns=new_columns)
            return
        fit = _fit(cast, new_columns)
        files = write_rows(data, self._target, progress=progress, cast=fit.cast, drop=fit.drop)
        self._apply(rows, {}, files)

    def delete(
        self, filter: Filter = None, *, keys: ManyKeys | None = None, params: Parameters = None
    ) -> None:
        """Like ``Table.delete``. A filter counts as a read of passing rows; ``keys`` do not."""
        rows = self._current.wrapped
        filter = with_params(filter, params)
        if (filter is None) == (keys is None):
            raise InvalidArgumentError("delete: give exactly one of filter and keys=")
        if keys is not None:
            if not self._primary:
                raise InvalidArgumentError(
                    "delete: the table has no primary key, so keys= cannot be used; give a filter"
                )
            positions = given_keys(rows, keys, self._primary)
            self._deletes = True
            self._add_deleted(table for _, table in positions.chunks())
            self._apply(rows, ascending(positions.find(rows)), [])
            return
        parsed = rows.parsed(filter)
        self._deletes = True
        self._reads.add(Where(parsed, RowSet.of_range(0, 0)))
        passing = RowsThatPass(parsed).find(rows)
        if not self._primary:
            self._filters.append(parsed)
        for number, positions_of in passing.items():
            if self._primary:
                live = live_positions(rows, number, positions_of)
                self._add_deleted([rows.child(number).read(RowSet(live), self._primary)])
        self._apply(rows, passing, [])

    def _add_deleted(self, keys: Iterable[pa.Table]) -> None:
        given = list(keys)
        self._touched += given
        self._deleted_keys += given

    def _apply(self, rows: FileSet, deleted: Rows, added: Sequence[DataFile]) -> None:
        """Makes the changes visible to later reads of the transaction."""
        for number, positions in deleted.items():
            live = live_positions(rows, number, positions)
            self._deletions[rows.name_of(number)] = with_rows(rows.deleted(number), live)
        self._own += added
        if deleted or added:
            position = Position(_ReadRows(self._rows(), self._reads))
            self._replace_position(lambda _: position)

    # ------------------------------------------------------------------ the end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._over:
            return
        if any(error):
            self.close()
            return
        self._over = True
        self._release()
        self._finalizer.detach()  # from here on, the commit removes the files if it fails
        if not (self._own or self._touched or self._filters):
            return
        try:
            self._own = settled(self._own, self._deletions, self._base, self._target)
            change = self._change()
        except BaseException:
            discard(self._own)
            raise
        self.commit = self._call.run(RowCommit(self._call, change, rows_of=self._newest_rows))

    def _change(self) -> RowChange[Replaced]:
        """Returns all changes of the transaction as one."""
        rules: list[Rule] = [ReadsAreSame(self._metadata, self._base, self._reads)]
        plan: Plan[Replaced]
        if self._primary:
            keys = TouchedKeys(self._touched, self._own, self._base)
            plan = RowsOfKeys(self._base, keys, self._gone_of_base(), not self._deletes)
        else:
            plan = RowsOfFilters(self._filters)
            rules.append(SameFilterColumns(self._metadata, self._filters))
        return RowChange(
            operation=None,
            plan=plan,
            writer=OwnFiles(self._own, self._base, self._deleted_keys),
            rules=rules,
        )

    def close(self) -> None:
        """Ends the transaction without a commit, as an error in the block does.

        The same happens if the transaction is garbage collected, or the process exits.
        """
        if not self._over:
            self._over = True
            self._release()
            self._finalizer()

    def _gone_of_base(self) -> dict[int, RowNumbers]:
        """Returns, for each file number, the deleted rows that existed at the beginning."""
        deleted_of_base = {}
        for number, path in enumerate(self._base.members.files.paths.to_pylist()):
            now = self._deletions.get(path)
            if now is not None:
                before = self._base.deleted(number)
                deleted = RowSet(now.rows())
                deleted_of_base[number] = (
                    deleted if before is None else deleted.minus(before)
                ).begin
        return deleted_of_base

    def _newest_rows(self, metadata: ice.Metadata) -> FileSet:
        """Returns the newest rows; these are the base's rows if there was no other commit."""
        same = metadata.metadata_file == self._metadata.metadata_file
        return self._base if same else self._call.table.rows(metadata)


def _fit(cast: bool, new_columns: NewColumns) -> Fit:
    if new_columns == "add":
        raise InvalidArgumentError(
            "new_columns='add': a transaction cannot add columns; add them with table.alter() "
            "before it begins"
        )
    if new_columns not in ("error", "drop"):
        raise InvalidArgumentError(f"new_columns: expected 'error' or 'drop', got {new_columns!r}")
    return Fit(cast, new_columns)


def _discard_own(files: list[DataFile], process: int) -> None:
    """Removes the files of a transaction that ends without a commit.

    A forked process does nothing: it has a copy of the transaction, but the parent owns the files.
    """
    if os.getpid() == process:
        discard(files)
