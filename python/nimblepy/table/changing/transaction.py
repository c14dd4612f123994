"""Transactions: several reads and changes of a table in one commit, serializable by key."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.errors import (
    ConflictError,
    IndexUnavailableError,
    InvalidArgumentError,
)
from nimblepy.expr.filter import Filter as Parsed
from nimblepy.expr.filter import Parameters, parse_filter, with_params
from nimblepy.files.bounds import EncodedKeys
from nimblepy.files.versions import Position, VersionedRows
from nimblepy.io.progress import ProgressArg
from nimblepy.join.joinable import FixedRows
from nimblepy.rows.plan import LayoutNode, Plan
from nimblepy.rows.request import Keys, Ordered, Request, Where
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.rows.source import Filter, OnKeys, Projected
from nimblepy.schema.columns import column_paths, resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.names import ColumnName, Path, show_path
from nimblepy.schema.protocols import ManyKeys, Tabular
from nimblepy.schema.types import IndexInfo, IoStats, SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.key_positions import (
    KeyPositions,
    ascending,
    given_keys,
    key_ids,
    numbers,
)
from nimblepy.table.changing.keyed_rows import Duplicates
from nimblepy.table.changing.row_changes import DeleteWhere, FilesOf, Replacement
from nimblepy.table.changing.upsert import WhenMatched, upsert_change
from nimblepy.table.iceberg.manifests import files_of_no_manifest
from nimblepy.table.reading.changed_rows import ChangedRows, differences, with_rows
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.plan import SnapshotPlan
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import discard, write_rows

_BATCH_ROWS = 1 << 16
# Keys that a ConflictError names.
_SHOWN_KEYS = 10


class _Reads:
    """What a transaction has read: a change of any of it is a conflict."""

    def __init__(self) -> None:
        self._keys: dict[tuple[tuple[ColumnName, ...], bool], list[Keys]] = {}
        self._ordered: list[Ordered | Keys] = []
        self._filters: list[Parsed] = []
        self._everything = False

    def add(self, request: Request) -> None:
        if isinstance(request, Where):
            if request.filter is None:
                self._everything = True
            elif not request.filter.matches_nothing:
                self._filters.append(request.filter)
        elif isinstance(request, Keys) and request.between is None:
            self._keys.setdefault((request.names, request.null_equals), []).append(request)
        else:
            self._ordered.append(request)

    def add_everything(self) -> None:
        self._everything = True

    def __bool__(self) -> bool:
        return bool(self._keys or self._ordered or self._filters or self._everything)

    def changed(self, gone: FileSet, come: FileSet) -> pa.Table | None:
        """Rows that were read, of those that went and came; ``None``: they are the same."""
        for request in self._requests():
            before, after = _answer(gone, request), _answer(come, request)
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


def _answer(rows: FileSet, request: Request) -> pa.Table:
    if not rows.num_files:
        return rows.schema.empty_table()
    if isinstance(request, Where):
        where = Where(request.filter, rows.all_rows())
        batches = rows.scan_batches(where, None, batch_rows=_BATCH_ROWS, threads=0)
        return pa.Table.from_batches(batches, rows.schema)
    return rows.read(rows.find(request), None)


def _same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same rows, in any order."""
    if one.num_rows != other.num_rows:
        return False
    return sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist()))


class _ReadRows(FixedRows):
    """Rows that note what is asked of them."""

    def __init__(self, rows: FileSet, reads: _Reads) -> None:
        super().__init__()
        self.rows = rows
        self._reads = reads

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("rows of a transaction do not pickle: it would not note what is read")

    # ---- what is noted ----

    def find_unobserved(self, request: Request, limit: int | None, reverse: bool) -> RowSet:
        if not isinstance(request, Where):  # of which where_request has told
            self._reads.add(request)
        return self.rows.find(request, limit=limit, reverse=reverse)

    def find_and_read(
        self, keys: Keys, columns: Projected, *, first: bool = False
    ) -> tuple[pa.Table, Positions]:
        self._reads.add(keys)
        return self.rows.find_and_read(keys, columns, first=first)

    def count_matches(self, keys: Keys) -> Positions:
        self._reads.add(keys)
        return self.rows.count_matches(keys)

    def where_request(self, filter: Filter, row_range: tuple[int, int] | None = None) -> Where:
        request = self.rows.where_request(filter, row_range)
        self._reads.add(request)
        return request

    @property
    def num_rows(self) -> int:
        self._reads.add_everything()
        return self.rows.num_rows

    # ---- what is passed on ----

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        return self.rows.scan_batches(where, columns, batch_rows=batch_rows, threads=threads)

    def count_passing(self, where: Where, *, threads: int) -> int:
        return self.rows.count_passing(where, threads=threads)

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        return self.rows.index_keys(on, ordered=ordered)

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        return self.rows.read(rows, columns)

    def projected(self, columns: Projected) -> pa.Schema:
        return self.rows.projected(columns)

    def all_rows(self) -> RowSet:
        return self.rows.all_rows()

    def numbered(self, rows: RowSet) -> RowSet:
        return self.rows.numbered(rows)

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        return self.rows.explain_request(request, columns)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @property
    def size_bytes(self) -> int:
        return self.rows.size_bytes

    @property
    def metadata(self) -> dict[str, bytes]:
        return self.rows.metadata

    @property
    def cluster_by(self) -> list[SortKey]:
        return self.rows.cluster_by

    @property
    def unique(self) -> bool:
        return self.rows.unique

    @property
    def indexes(self) -> list[IndexInfo]:
        return self.rows.indexes

    @property
    def io_stats(self) -> IoStats:
        return self.rows.io_stats

    def reset_io_stats(self) -> None:
        self.rows.reset_io_stats()

    def layout(self) -> LayoutNode:
        return self.rows.layout()

    def verify(self) -> None:
        self.rows.verify()

    def close(self) -> None:
        self.release()


class Transaction(VersionedRows[_ReadRows]):
    """Reads and changes of a table that take effect together, or not at all.

    It reads the newest snapshot of when the block began, with its own changes, by all reading
    methods of a table. When the block ends there is one commit. If other commits changed a row
    that it has read by then, or added one that its keys, ranges or filters would have found, it
    is a :class:`ConflictError`, and nothing was changed: so what it did is what it would have done
    alone after them. What it wrote without reading it is written over what others wrote.

    Attributes:
        commit: what the commit did; ``None`` before the end of the block, and where there was
            nothing to do.
    """

    def __init__(
        self,
        metadata: ice.Metadata,
        files_of: FilesOf,
        commit: Callable[[Replacement, float], Commit],
    ) -> None:
        self._metadata = metadata
        self._files_of = files_of
        self._end = commit
        self._begin = time.perf_counter()
        self._base = files_of(metadata)
        self._target = target_of(metadata)
        self._primary = tuple(self._base.reading.primary_key)
        self._own: list[DataFile] = []  # only changed in place: the finalizer has it, too
        self._finalizer = weakref.finalize(self, _discard_own, self._own, os.getpid())
        self._deletions: dict[str, _core.RowBitmap] = {}
        self._touched: list[pa.Table] = []  # keys that may be in rows of the table, and go
        self._filters: list[Parsed] = []  # the same where there is no key
        self._deletes = False  # rows went that none took the place of
        self._reads = _Reads()
        self._over = False
        self.commit: Commit | None = None
        super().__init__(Position(_ReadRows(self._rows(), self._reads)))

    def _rows(self) -> FileSet:
        """All rows with the changes so far."""
        if not self._own and not self._deletions:
            return self._base
        members = self._base.members
        if self._own:
            members = members.beside(files_of_no_manifest(self._own, self._target.spec_id))
        return ChangedRows(self._base.reading, self._base.plan, members, dict(self._deletions))

    @property
    def current(self) -> _ReadRows:
        if self._over:
            raise InvalidArgumentError("the transaction has ended")
        return super().current

    # ------------------------------------------------------------------ changes

    def upsert(
        self,
        data: Tabular,
        *,
        update: str | Sequence[str] | None = None,
        when_matched: WhenMatched = "update",
        duplicates: Duplicates = "error",
    ) -> None:
        """As ``Table.upsert``. Keys are read with ``update`` and ``when_matched``, and else not."""
        rows = self.current.rows
        change = upsert_change(
            data,
            self._metadata,
            self._files_of,
            update=update,
            when_matched=when_matched,
            duplicates=duplicates,
        )
        keys = [
            table.rename_columns(list(self._primary)) for _, table in change.source.key_chunks()
        ]
        try:
            # Noted before anything is looked up: a caller may catch the error of a refused call,
            # and act on what it says about the table.
            if not change.is_blind or when_matched == "error":
                for table in keys:
                    self._reads.add(rows.keys_request(table, self._primary))
            gone = change.plan_in(rows, self._target)
        except BaseException:
            change.discard()
            raise
        if when_matched != "ignore":
            self._touched += keys
        self._apply(rows, gone, change.added)

    def append(self, data: Tabular, *, progress: ProgressArg = None) -> None:
        """As ``Table.append``. With a primary key, the new keys are read."""
        rows = self.current.rows
        if self._primary:
            self.upsert(data, when_matched="error")
        else:
            self._apply(rows, {}, write_rows(data, self._target, progress=progress))

    def delete(
        self, filter: Filter = None, *, keys: ManyKeys | None = None, params: Parameters = None
    ) -> None:
        """As ``Table.delete``. What passes a filter is read, keys are not."""
        rows = self.current.rows
        filter = with_params(filter, params)
        if (filter is None) == (keys is None):
            raise InvalidArgumentError("delete: give a filter, or keys=, and not both")
        if keys is not None:
            if not self._primary:
                raise InvalidArgumentError("delete: the table has no primary key; give a filter")
            positions = given_keys(rows, keys, self._primary)
            self._deletes = True
            self._touched += [table for _, table in positions.chunks()]
            self._apply(rows, ascending(positions.find(rows)), [])
            return
        parsed = parse_filter(filter, rows.schema)
        self._deletes = True
        self._reads.add(Where(parsed, RowSet.of_range(0, 0)))
        gone = DeleteWhere("delete", (), self._files_of, parsed).gone(rows)
        if not self._primary:
            self._filters.append(parsed)
        for number, positions_of in gone.items():
            if self._primary:
                live = _positions(rows, number, positions_of)
                found = rows.child(number).read(RowSet(live), self._primary)
                self._touched.append(found)
        self._apply(rows, gone, [])

    def _apply(
        self, rows: FileSet, gone: dict[int, RowNumbers | None], added: Sequence[DataFile]
    ) -> None:
        """Reads from here on see these changes."""
        for number, positions in gone.items():
            live = _positions(rows, number, positions)
            self._deletions[rows.name_of(number)] = with_rows(rows.deleted(number), live)
        self._own += added
        if gone or added:
            position = Position(_ReadRows(self._rows(), self._reads))
            self.move(lambda _: position)

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
        self.release()
        self._finalizer.detach()  # the change removes the files from here on
        if not (self._own or self._touched or self._filters):
            return
        try:
            self._own = self._settled()
            change = _TransactionChange(
                self._newest_rows, self._own, self._base, self._metadata, self._reads, self._filters
            )
            if self._primary:
                gone = self._gone_of_base()
                change.meet(self._touched, self._primary, gone, only_updates=not self._deletes)
        except BaseException:
            discard(self._own)
            raise
        self.commit = self._end(change, self._begin)

    def close(self) -> None:
        """Ends it without a commit, as an error in the block does.

        A transaction that is garbage collected, or open when the process exits, ends in this way.
        """
        if not self._over:
            self._over = True
            self.release()
            self._finalizer()

    def _gone_of_base(self) -> dict[int, RowNumbers]:
        """By number of the file, the rows that were there when it began, and are no more."""
        found = {}
        for number, path in enumerate(self._base.members.files.paths.to_pylist()):
            now = self._deletions.get(path)
            if now is not None:
                before = self._base.deleted(number)
                gone = RowSet(now.rows())
                found[number] = (gone if before is None else gone.minus(before)).begin
        return found

    def _newest_rows(self, metadata: ice.Metadata) -> FileSet:
        """Those of the base where there has been no other commit."""
        same = metadata.metadata_file == self._metadata.metadata_file
        return self._base if same else self._files_of(metadata)

    def _settled(self) -> list[DataFile]:
        """The new files, one for each partition, without rows that went again."""
        deleted = [self._deletions.get(file.path) for file in self._own]
        partitions = {file.partition for file in self._own}
        if len(partitions) == len(self._own) and not any(
            rows is not None and len(rows) for rows in deleted
        ):
            return self._own
        part = files_of_no_manifest(self._own, self._target.spec_id)
        members = self._base.members.take([]).beside(part)
        rows = ChangedRows(self._base.reading, self._base.plan, members, self._deletions)
        batches = rows.scan_batches(
            Where(None, rows.all_rows()), None, batch_rows=_BATCH_ROWS, threads=1
        )
        made = write_rows(pa.RecordBatchReader.from_batches(rows.schema, batches), self._target)
        discard(self._own)
        return made


def _positions(rows: FileSet, number: int, positions: RowNumbers | None) -> RowNumbers:
    """Rows of a file; ``None``: all that are left of it."""
    if positions is not None:
        return positions
    everything, gone = rows.child(number).all_rows(), rows.deleted(number)
    return (everything if gone is None else everything.minus(gone)).rows


def _discard_own(files: list[DataFile], process: int) -> None:
    """Removes the files of a transaction that ends without a commit.

    A forked process has a copy of the transaction, whose files belong to the parent.
    """
    if os.getpid() == process:
        discard(files)


class _TransactionChange(Replacement):
    """What a transaction did, if what it read is still so."""

    def __init__(
        self,
        files_of: FilesOf,
        own: Sequence[DataFile],
        base: FileSet,
        metadata: ice.Metadata,
        reads: _Reads,
        filters: Sequence[Parsed],
    ) -> None:
        super().__init__("overwrite", own, files_of)
        self._base = base
        self._begun = metadata
        self._reads = reads
        self._filters = filters
        self._keys: Sequence[pa.Table] = ()
        self._primary: list[str] = []
        self._gone: dict[int, RowNumbers] | None = None
        self._only_updates = False
        self._touched: KeyPositions | None = None
        self._is_own: np.ndarray[Any, np.dtype[np.bool_]] = np.empty(0, dtype=np.bool_)
        self._updated = 0

    def meet(
        self,
        keys: Sequence[pa.Table],
        primary: Sequence[str],
        gone: dict[int, RowNumbers],
        *,
        only_updates: bool,
    ) -> None:
        """Rows with these keys go, if there are any; new ones of the same key are updates.

        Args:
            gone: the rows of the base that go. Those are not all of a key where another engine has
                given it to several rows and a filter found some.
            only_updates: each of them is an update.
        """
        self._keys = keys
        self._primary = list(primary)
        self._gone = gone
        self._only_updates = only_updates

    def _look_up(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        """The rows that have one of the keys."""
        names, schema = self._primary, self._base.schema
        if self._touched is None:
            empty = pa.schema([schema.field(name) for name in names]).empty_table()
            touched = pa.concat_tables([empty, *(t.cast(empty.schema) for t in self._keys)])
            touched = touched.group_by(names).aggregate([]).select(names).combine_chunks()
            own = [
                self._base.reading.child(file, keep=False).to_table(names) for file in self.added
            ]
            self._is_own = _among(touched, pa.concat_tables([empty, *own]))
            ids = key_ids(schema, names)
            self._touched = KeyPositions(ids, lambda: iter([(0, touched)]))
        found = self._touched.find(rows)
        probes = [numbers(some) for some in found.values()]
        matched = np.unique(np.concatenate(probes)) if probes else np.empty(0, np.int64)
        self._updated = int(self._is_own[matched].sum())
        return ascending(found)

    def plan(self, metadata: ice.Metadata) -> bool:
        before, now = self._begun.head(), metadata.head()
        if (before and before.id) != (now and now.id):
            self.rows_of(metadata)  # so that new partition specs are known
            self._check(metadata)
        return super().plan(metadata)

    def _check(self, newest: ice.Metadata) -> None:
        """Raises ConflictError if anything that was read has changed."""
        plan = SnapshotPlan(newest, newest.head(), self._begun.schema_id)
        base, winner = self._begun.head(), newest.head()
        name = self._base.reading.name
        gone, come = differences(self._base, FileSet(self._base.reading, plan))
        widened = newest.widened_since(self._begun.schema_id) if come.num_files else []
        if widened and self._reads:
            # The new rows may have values that the columns could not hold when they were read.
            raise ConflictError(
                f"{name}: the column {widened[0]!r} was widened, and rows were written, since a "
                "transaction read rows; begin it again",
                kind="schema",
                base=None if base is None else base.id,
                winner=None if winner is None else winner.id,
            )
        try:
            changed = self._reads.changed(gone, come)
        except (FileNotFoundError, IndexUnavailableError) as error:
            raise ConflictError(
                f"{name}: what a transaction read cannot be looked at again: {error}",
                base=None if base is None else base.id,
                winner=None if winner is None else winner.id,
            ) from error
        if changed is None:
            return
        primary = list(self._base.reading.primary_key)
        found = changed.select(primary).slice(0, _SHOWN_KEYS).to_pylist() if primary else []
        # A row that was replaced is there twice, as it was and as it is.
        keys = tuple(
            dict.fromkeys(
                tuple(row.values()) if len(primary) > 1 else row[primary[0]] for row in found
            )
        )
        shown = f", among them that of the key {keys[0]!r}" if keys else ""
        raise ConflictError(
            f"{name}: rows that a transaction read were changed{shown}",
            kind="keys",
            base=None if base is None else base.id,
            winner=None if winner is None else winner.id,
            files=tuple(come.members.files.paths.to_pylist()) if come.num_files else (),
            keys=keys,
        )

    def gone(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        if rows is self._base and self._gone is not None:
            if self._only_updates:
                self._updated = sum(map(len, self._gone.values()))
            else:
                self._look_up(rows)  # of which are updates
            return dict(self._gone)
        if self._primary:
            return self._look_up(rows)
        going: dict[int, RowNumbers | None] = {}
        for filter in self._filters:
            self._check_columns(filter, rows)
            found_now = DeleteWhere("delete", (), self.files_of, filter).gone(rows)
            for number, positions in found_now.items():
                more = _positions(rows, number, positions)
                known = going.get(number)
                going[number] = more if known is None else np.union1d(known, more)
        return going

    def _check_columns(self, filter: Parsed, rows: FileSet) -> None:
        """Raises ConflictError if a filter's columns are others than when it was parsed."""
        for path in filter.columns:
            if not _same_column(self._base.schema, rows.schema, path):
                base, winner = self._begun.head(), self.metadata.head()
                raise ConflictError(
                    f"{self._base.reading.name}: the column {show_path(path)!r} of a "
                    "transaction's filter was changed meanwhile",
                    kind="schema",
                    base=None if base is None else base.id,
                    winner=None if winner is None else winner.id,
                )

    def count(self, gone: int) -> None:
        self.updated = self._updated
        self.inserted = sum(file.rows for file in self.added) - self._updated
        self.deleted = gone - self._updated
        self.commit.operation = "overwrite" if gone else "append"


def _same_column(before: pa.Schema, now: pa.Schema, path: Path) -> bool:
    """Whether a path of one schema means the same column, of the same type, in another."""
    if path not in column_paths(now) or field_id_at(now, path) != field_id_at(before, path):
        return False
    kind = resolve_column(now, path).type
    # The metadata has the field ids of what is inside.
    return bool(kind.equals(resolve_column(before, path).type, check_metadata=True))


def _among(keys: pa.Table, others: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which keys are among others."""

    def encoded(table: pa.Table) -> pa.Array:
        batches = table.combine_chunks().to_batches()
        order = [SortKey(name) for name in table.column_names]
        found = EncodedKeys(batches[0], order).to_list() if batches else []
        return pa.array(found, pa.large_binary())

    found: np.ndarray[Any, np.dtype[np.bool_]] = pc.is_in(encoded(keys), encoded(others)).to_numpy(
        zero_copy_only=False
    )
    return found
