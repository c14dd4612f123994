"""Table: a handle on one snapshot of a table, and the changes that move it forward."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Parameters, with_params
from nimblepy.io.log import logger
from nimblepy.io.progress import ProgressArg
from nimblepy.rows.arguments import Columns, at_least, checked_fraction
from nimblepy.rows.source import Filter
from nimblepy.schema.names import ColumnName
from nimblepy.schema.protocols import ManyKeys, Tabular
from nimblepy.table.base.arguments import paths_of
from nimblepy.table.base.model import DataFormat
from nimblepy.table.base.transforms import partition_text
from nimblepy.table.changing.append import add_files, append
from nimblepy.table.changing.delete import convert, delete, overwrite
from nimblepy.table.changing.keyed_rows import Duplicates
from nimblepy.table.changing.merge_plan import Merge, On, merge
from nimblepy.table.changing.new_columns import Fit, NewColumns
from nimblepy.table.changing.transaction import Transaction
from nimblepy.table.changing.upsert import WhenMatched, upsert
from nimblepy.table.evolve import Alter
from nimblepy.table.handle import TableHandle, TableState, id_of
from nimblepy.table.otree.blocks import Blocks
from nimblepy.table.otree.estimate import Estimate, estimate, parsed
from nimblepy.table.otree.layouts import Layout, OTree, layout_of
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.holding import data_manifests, files_for_keys
from nimblepy.table.reading.sample import sample as draw_sample
from nimblepy.table.references import (
    drop_reference,
    history,
    refer,
    rollback,
    snapshot_of,
)
from nimblepy.table.requests import analyze_by, requested_changes, requested_keys
from nimblepy.table.upkeep.analyze import Analysis, look
from nimblepy.table.upkeep.compact import Compacting
from nimblepy.table.upkeep.health import Health, health
from nimblepy.table.upkeep.maintain import (
    KEPT_SNAPSHOTS,
    YOUNG,
    Age,
    Removal,
    census,
    expire,
    remove_orphans,
)
from nimblepy.table.upkeep.plot_layout import plot
from nimblepy.table.upkeep.recluster import compact, optimize
from nimblepy.table.upkeep.rewrite import ManifestRewrite, rewrite_manifests
from nimblepy.table.writing.batches import Batch
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.settings import target_of

_log = logger(__name__)


class Table(TableHandle):
    """A table, read as it was at one snapshot.

    It has the reading methods of a :class:`nimblepy.File`. A handle stays at its snapshot until it
    changes rows or columns itself, or :meth:`refresh` is called. It never moves backwards. Rows are
    numbered over all files in the order in which they are read, in this snapshot only. Any number
    of threads may use one handle.

    Attributes:
        catalog: the catalog of the table.
    """

    @property
    def _state(self) -> TableState:
        return TableState(self)

    # ------------------------------------------------------------------ what it says of itself

    @property
    def name(self) -> str:
        """``"namespace.name"``."""
        return ".".join(self._state.shown.metadata.name)

    @property
    def snapshot(self) -> int | None:
        """The snapshot that is read; ``None``: the table is empty, and has never had rows."""
        return id_of(self._state.shown.snapshot)

    @property
    def primary_key(self) -> list[str]:
        """Columns of which no two rows have the same values; empty where there is none."""
        return list(self._current.reading.primary_key)

    @property
    def partition_by(self) -> list[str]:
        """How new files are partitioned, as ``create_table`` takes it."""
        found = []
        metadata = self._state.shown.metadata
        for item in metadata.spec():
            name = metadata.column_name(item.source_id)
            if name is not None and item.transform != "void":
                found.append(partition_text(item.transform, name))
        return found

    @property
    def layout_by(self) -> Layout | None:
        """Which rows come into one new file, as ``create_table`` takes it as ``layout``."""
        metadata = self._state.shown.metadata
        return layout_of(metadata.properties, metadata.column_name)

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return self._state.shown.metadata.properties

    @property
    def location(self) -> str:
        """Where its files lie."""
        return self._state.shown.metadata.location

    @property
    def iceberg(self) -> Any:
        """The table as pyiceberg has it, in the version of this handle."""
        return self._state.shown.metadata.ice

    @property
    def metadata_location(self) -> str:
        """The metadata file of this handle's version, which any Iceberg reader takes."""
        return self._state.shown.metadata.metadata_file

    @property
    def num_rows(self) -> int:
        """Number of live rows. Cost: delete files are read, if there are any."""
        plan = self._current.plan
        if not plan.has_deletes and all(manifest.rows >= 0 for manifest in plan.manifests):
            return sum(manifest.rows for manifest in plan.manifests)
        return self._current.num_rows

    # ------------------------------------------------------------------ samples

    def sample(
        self,
        fraction: float,
        *,
        seed: int | None = None,
        columns: Columns = None,
        filter: Filter = None,
        params: Parameters = None,
    ) -> pa.Table:
        """Rows drawn at random, without replacement; each is taken with the same probability.

        Rows of an OTree have random weights from when they were written. Without a seed, the rows
        of the lowest weights are drawn, the same ones each time. A seed chooses the weight at which
        to begin; beyond the largest weight it continues with the lowest. Rows of other tables are
        drawn at random in each call, or as the seed says.

        Args:
            fraction: the probability, from 0 to 1.
            seed: the same one draws the same rows of the same snapshot.
            filter, params: as for :meth:`scan`; rows are drawn among those that pass.

        Cost: where the layout is an :class:`nimblepy.OTree` without a cluster key, about that
            share of the rows is read: without a seed from few files, with one a little of each.
            With a cluster key files that have such weights are read as for a filter on them.
            Elsewhere as :meth:`take` of as many rows.
        """
        share = checked_fraction(fraction)
        rows, cubes = self._rows_and_cubes()
        asked = with_params(filter, params)
        return draw_sample(rows, cubes, share, seed, columns, asked)

    def _rows_and_cubes(self) -> tuple[FileSet, Blocks]:
        at = self._state.position
        return at.rows, at.metadata.cubes(at.snapshot)

    def estimate(
        self,
        expression: str,
        fraction: float,
        *,
        seed: int | None = None,
        filter: Filter = None,
        params: Parameters = None,
        confidence: float = 0.95,
    ) -> Estimate:
        """What an aggregate is about, with an interval, from a sample of the rows.

        Args:
            expression: ``"count(*)"``, ``"count(x)"``, ``"sum(x)"`` or ``"avg(x)"`` of a column;
                nulls have no part in it.
            fraction, seed, filter, params: as for :meth:`sample`; the fraction is above 0.
            confidence: the probability with which the interval has the true value.

        Raises:
            InvalidArgumentError: another expression, or a column without numbers.

        Example:
            >>> table.estimate("avg(price)", 0.01)  # doctest: +SKIP
            Estimate(expression='avg(price)', value=33.1, low=32.9, high=33.3, ...)
        """
        if not isinstance(confidence, float) or not 0 < confidence < 1:
            raise InvalidArgumentError(
                f"confidence: expected above 0 and below 1, got {confidence!r}"
            )
        if checked_fraction(fraction) == 0:
            raise InvalidArgumentError("estimate: a sample of no rows says nothing")
        kind, column = parsed(expression, self.schema)
        names = [] if column is None else [column]
        found = self.sample(fraction, seed=seed, columns=names, filter=filter, params=params)
        values = None if column is None else found.column(0)
        return estimate(expression, kind, values, found.num_rows, float(fraction), confidence)

    def snapshots(self) -> pa.Table:
        """All snapshots that were not expired, in the order of their commits.

        ``snapshot_id``, ``parent_id``, ``timestamp``, ``operation``, ``user``, ``rows_inserted``,
        ``rows_updated``, ``rows_deleted`` (null where another writer did not say), and the
        ``files_added``, ``files_removed`` and ``bytes_written`` of each commit.
        """
        return history(self._state.shown.newest.snapshots)

    # ------------------------------------------------------------------ changes

    def append(
        self,
        data: Tabular,
        *,
        presorted: bool = False,
        progress: ProgressArg = None,
        cast: bool = False,
        new_columns: NewColumns = "error",
        batch: Batch | None = None,
    ) -> Commit:
        """Adds rows, in one commit.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Args:
            data: tabular data with the table's columns in any order; a missing column is null.
                Buffers of a batch may not be used again for a later one. A value is converted if
                the conversion is lossless: converted back, it is the value that was given.
            presorted: rows arrive in the order of the cluster key, which is verified.
            progress: ``True`` for a bar, or called as ``progress(rows_done, rows_total)``.
            cast: round and truncate values that a column cannot store exactly. A value that is out
                of range is an error all the same.
            new_columns: for columns that the table lacks: ``"error"``; ``"add"``, which adds them
                in the same commit; or ``"drop"``, which leaves them out.
            batch: (name, number) of what is added once: if this or a later batch of that name is
                in the table, nothing is done. So a caller who does not know whether a commit was
                made can try again. Numbers ascend. A rollback to before a batch undoes it, and
                the batch can be added again.

        Raises:
            InvalidArgumentError: an unknown column, a type that does not fit, a null where there
                may be none.
            DuplicateKeyError: the table has a primary key, and a key is there already or twice.
            ConflictError: the table was dropped, or every attempt lost to other commits.
            OSError: a file cannot be written. After any error the table is as it was.

        Cost: one file for each partition, and three of metadata. With a primary key, the keys are
            held in memory and looked up.
        """
        return append(
            self._state,
            data,
            presorted=presorted,
            progress=progress,
            batch=batch,
            fit=Fit(cast, new_columns),
        )

    def delete(
        self,
        filter: Filter = None,
        *,
        keys: ManyKeys | None = None,
        params: Parameters = None,
        batch: Batch | None = None,
    ) -> Commit:
        """Removes rows: those that pass a filter, or those with some primary keys.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Files all of whose rows go leave the table; of others the positions of the rows are kept
        in one delete file for each partition.

        Args:
            filter, params: a pyarrow expression or SQL text, as for :meth:`scan`.
            keys: as for :meth:`lookup`, of a table with a primary key; each has all its columns.
            batch: see :meth:`append`.

        Raises:
            InvalidArgumentError: neither or both are given, or what is given does not fit.
            ConflictError: see :meth:`append`; or a column of the filter was dropped meanwhile.

        Cost: files that may have such rows are read as a scan or lookup reads them.
        """
        filter = with_params(filter, params)
        if (filter is None) == (keys is None):
            raise InvalidArgumentError("delete: give a filter, or keys=, and not both")
        return delete(self._state, filter, keys, batch)

    def upsert(
        self,
        data: Tabular,
        *,
        update: str | Sequence[str] | None = None,
        when_matched: WhenMatched = "update",
        duplicates: Duplicates = "error",
        cast: bool = False,
        new_columns: NewColumns = "error",
        batch: Batch | None = None,
    ) -> Commit:
        """Inserts rows whose primary keys are new, and replaces the rows that have the others.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        One commit: old rows are marked as deleted, new ones written to one file for each
        partition. Beside other commits it takes effect as if it had come after them.

        Args:
            data: see :meth:`append`; a missing column is null in every row that is written.
            update: columns, or one, that rows which are there take from the data; they keep the
                others.
                New rows have all columns that are given.
            when_matched: what is done with a row whose key is there: it is replaced (or updated),
                ignored, or an error.
            duplicates: what is done with a key that the data have twice: ``"error"``, or
                ``"last"``, which takes the last row of it.
            cast, new_columns: see :meth:`append`.
            batch: see :meth:`append`.

        Raises:
            InvalidArgumentError: the table has no primary key; a key has a null; as
                :meth:`append`.
            DuplicateKeyError: the data have a key twice, the message names both rows; or
                ``when_matched="error"`` and a key is there.
            ConflictError, OSError: as :meth:`append`. After any error the table is as it was.

        Cost: a sort of the data, on disk beyond 128 MiB, a lookup of their keys in the files that
            can have them, and the files that are written; other columns of matched rows are read
            with ``update`` alone. Memory beyond that of a file being written: 16 bytes for each
            row that is replaced.
        """
        return upsert(
            TableState(self),
            data,
            update=update,
            when_matched=when_matched,
            duplicates=duplicates,
            batch=batch,
            fit=Fit(cast, new_columns),
        )

    def merge(
        self,
        data: Tabular,
        on: On = None,
        *,
        duplicates: Duplicates = "error",
        cast: bool = False,
        new_columns: NewColumns = "error",
        batch: Batch | None = None,
    ) -> Merge:
        """Brings rows together with those of the table that have their keys, clause by clause.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Beside other commits it takes effect as if it had come after them.

        Args:
            data: tabular data, the source; it may have columns of its own for conditions.
            on: equal columns: a name, several, or ``{source column: column of the table}``; the
                default is the primary key. Rows with a null in one match nothing. Where no index
                is on them, all their values are read.
            duplicates: see :meth:`upsert`.
            cast, new_columns: see :meth:`append`.
            batch: see :meth:`append`.

        Returns:
            What clauses are added to, until ``execute()`` does it all in one commit.

        Example:
            >>> done = (  # doctest: +SKIP
            ...     table.merge(changes)
            ...     .when_matched(delete=True, condition="source.op = 'delete'")
            ...     .when_matched(update=True, condition="source.ts > target.ts")
            ...     .when_not_matched(insert=True, condition="source.op <> 'delete'")
            ...     .execute()
            ... )
        """
        return merge(
            self._state,
            data,
            on,
            duplicates=duplicates,
            batch=batch,
            fit=Fit(cast, new_columns),
        )

    def overwrite(
        self,
        data: Tabular,
        *,
        filter: Filter = None,
        params: Parameters = None,
        progress: ProgressArg = None,
        cast: bool = False,
        new_columns: NewColumns = "error",
        batch: Batch | None = None,
    ) -> Commit:
        """Replaces rows in one step: those that pass a filter, or all.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Args:
            data: see :meth:`append`; the new rows need not pass the filter.
            filter, params: as for :meth:`scan`; without a filter all rows are replaced.
            cast, new_columns: see :meth:`append`.
            batch: see :meth:`append`.

        Raises:
            As :meth:`append`.
        """
        return overwrite(
            self._state,
            data,
            with_params(filter, params),
            progress,
            batch,
            Fit(cast, new_columns),
        )

    def convert(self, data_format: DataFormat, *, progress: ProgressArg = None) -> Commit:
        """Writes all rows anew in another format, which new files have from then on.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        After a conversion to Parquet no manifest of the newest snapshot names a nimble file, so
        that every Iceberg engine reads it; snapshots of before stay as they were.

        Raises:
            ConflictError: the table was changed meanwhile.

        Cost: reads and writes all rows.
        """
        return convert(self._state, data_format, progress)

    def compact(
        self,
        *,
        filter: Filter = None,
        target_bytes: int = 256 << 20,
        where_needed: bool = True,
        progress: ProgressArg = None,
    ) -> Commit:
        """Replaces files by fewer and larger ones with the same rows, in one commit.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Rows and their values stay the same; deleted rows, delete files that name nothing any more,
        and partitions of before the last change of ``partition_by`` go. Another commit is never
        refused for it: what was changed meanwhile is changed in the new files as well, or left for
        another time.

        Files of an :class:`nimblepy.OTree` stay those of cubes, which are as large as the layout
        says: what is needed there is what :meth:`optimize_layout` does.

        Args:
            filter: only files that may have rows that pass; they are replaced whole.
            target_bytes: about what a new file has.
            where_needed: only files that are small beside ``target_bytes``, have a tenth of their
                rows deleted, or lie with many others over the same keys. False: all files.
            progress: ``True`` for a bar, or called as ``progress(rows_done, rows_total)``.

        Returns:
            The commit, with the files added and removed; no rows were inserted or deleted.

        Raises:
            InvalidArgumentError: ``target_bytes`` is below 1, or the filter does not fit.
            ConflictError: as :meth:`append`.

        Cost: the files that are replaced are read and written once. Files that are in the order
            of the cluster key are merged, some batches of each in memory; others are sorted.
        """
        target_bytes = at_least("target_bytes", target_bytes, 1)
        wanted = Compacting(
            filter=filter,
            target_bytes=target_bytes,
            where_needed=where_needed,
            progress=progress,
        )
        return compact(self._state, wanted)

    def optimize_layout(
        self, *, budget_bytes: int | None = None, progress: ProgressArg = None
    ) -> Commit:
        """Writes files anew where filters gain the most by it, in one commit.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Where the layout is an :class:`nimblepy.OTree`, these are subtrees whose files overlap, are
        small, or lie where the values no longer do; what boxes of typical filters gain is
        estimated from the bounds of the files. Other tables are compacted. As with
        :meth:`compact`, no other commit is refused for it.

        Args:
            budget_bytes: most bytes of files of an OTree that are written anew; ``None``: as
                many as are worth it. Repeated calls go on where the last one ended.

        Raises:
            ConflictError: as :meth:`append`.

        Cost: a sample of the columns of the layout is read; files that are replaced are read and
            written once.
        """
        most = None if budget_bytes is None else at_least("budget_bytes", budget_bytes, 1)
        if not isinstance(self.layout_by, OTree):
            return self.compact(progress=progress)
        return optimize(self._state, budget=most, progress=progress)

    def draw_layout(self, columns: Sequence[ColumnName] | None = None) -> str:
        """A picture of where the files lie, as SVG: by the ranks of two columns, the tree of an
        OTree, and what part of the rows boxes read, beside other layouts.

        Args:
            columns: of the picture; the default is those of the layout.

        Raises:
            InvalidArgumentError: there is no layout and no column is given; or there are no rows.
        """
        layout = self.layout_by
        names = columns or (() if layout is None else layout.names)
        if not names:
            raise InvalidArgumentError(
                f"{self.name} has no layout; say the columns of which a picture is drawn"
            )
        rows, cubes = self._rows_and_cubes()
        return plot(rows, names, cubes)

    def add_files(self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Commit:
        """Makes files that exist part of the table, as they are and where they are.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        They become the table's own: when their rows are deleted and the snapshots that had them
        expire, they are removed. So no file should be part of two tables; a warning says where one
        lies among the data of another.

        Args:
            paths: nimble or Parquet files, or directories of them. Columns are found by name;
                nullable ones may be missing, and types may be narrower.

        Raises:
            InvalidArgumentError: a file does not fit the columns, or has rows of several
                partitions; or it has the field ids of another table.
            DuplicateKeyError: as :meth:`append`.

        Cost: each file is read once, for its statistics.
        """
        return add_files(self._state, paths_of(paths, "add_files"))

    def transaction(self) -> Transaction:
        """Several reads and changes in one commit, when the block ends.
        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Raises:
            ConflictError: raised at the end of the block where other commits changed what was
                read in it, of the kind ``"keys"``; do it again from the start.

        Cost: as the reads and changes alone, and of a commit; beside other commits, what was read
            is asked once more of the rows that they changed. Keys that are read or written are
            held in memory.

        Example:
            >>> with table.transaction() as tx:  # doctest: +SKIP
            ...     amount = tx.get(7)["amount"]
            ...     tx.upsert(pa.table({"id": [7], "amount": [amount - 5]}), update=["amount"])
        """
        return Transaction(self._state)

    # ------------------------------------------------------------------ what changed

    def changes(
        self, since: int | str | None, until: int | str | None = None, *, columns: Columns = None
    ) -> pa.RecordBatchReader:
        """Rows that were inserted, updated and deleted between two snapshots.

        Commit by commit, the rows with two more columns: ``_change``, which is ``insert``,
        ``delete``, ``update_before`` or ``update_after``, and ``_snapshot``, the id of the commit.
        With a primary key, a row that took the place of one with its key is an update: the old row
        and right after it the new one. Without, it is a delete and an insert. What comes from
        compaction, conversion, and changes of columns, tags and properties is no change. Rows have
        the columns of this handle.

        Args:
            since: the id of a snapshot, or a tag; the changes after it. ``None``: from the very
                first one.
            until: the last snapshot whose changes are wanted; ``None``: that of this handle.
            columns: those of the table that are read; ``None``: all.

        Raises:
            InvalidArgumentError: ``since`` is unknown, has expired, or is no ancestor of ``until``;
                the table has a column ``_change`` or ``_snapshot``.
            FileNotFoundError: raised by the reader, if a snapshot expires while it reads.

        Cost: reads the metadata of these commits, the rows that they inserted, and those that they
            deleted or replaced; nothing else. Keys of commits that have both are held in memory.

        Example:
            >>> for batch in table.changes(last_seen):  # doctest: +SKIP
            ...     follow(batch)
        """
        return requested_changes(self, since, until, columns).reader()

    # ------------------------------------------------------------------ columns and partitions

    def alter(self) -> Alter:
        """Changes columns, partitions and properties, in one commit when the block ends.

        Raises:
            ConflictError: raised at the end of the block where another change came first that
                this one does not fit.

        Example:
            >>> with table.alter() as a:  # doctest: +SKIP
            ...     a.rename_column("what", "kind")
            ...     a.add_column("price", pa.float64(), after="kind")
        """
        return Alter(self._state)

    # ------------------------------------------------------------------ the past

    def at(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        time: Age | None = None,
    ) -> Table:
        """The table as it was, read only.

        It has the columns of when the snapshot was committed, the newest one of a branch too: an
        :meth:`alter` without a commit of rows after it is not seen.

        Args:
            time: an aware datetime, or a timedelta before now; the snapshot that was the newest
                then.

        Raises:
            InvalidArgumentError: there is no such snapshot, or it has expired.
        """
        given = {"snapshot": snapshot, "tag": tag, "branch": branch, "time": time}
        named = [(kind, value) for kind, value in given.items() if value is not None]
        if len(named) != 1:
            raise InvalidArgumentError("at: give one of snapshot, tag, branch and time")
        metadata = self._state.reload()
        kind, value = named[0]
        past = snapshot_of(metadata, kind, value)
        schema_id = metadata.schema_id if past.schema_id is None else past.schema_id
        return Table(self.catalog, metadata, at=(past, schema_id), pinned=f"{kind} {value}")

    @property
    def tags(self) -> dict[str, int]:
        """Snapshots by the names of tags."""
        return self._references("tag")

    @property
    def branches(self) -> dict[str, int]:
        """Newest snapshots by the names of branches; ``main`` is the table itself."""
        return self._references("branch")

    def _references(self, kind: str) -> dict[str, int]:
        found = self._state.shown.newest.references.items()
        return {name: ref.snapshot for name, ref in sorted(found) if ref.kind == kind}

    def tag(self, name: str, snapshot: int | None = None) -> Table:
        """Names a snapshot, so that it does not expire; ``None`` is the one of this handle.

        Raises:
            InvalidArgumentError: there is such a tag or branch, or no such snapshot.
        """
        return self._refer(name, "tag", snapshot)

    def branch(self, name: str, snapshot: int | None = None) -> Table:
        """Begins a branch at a snapshot; engines that write branches may write to it.

        Raises:
            InvalidArgumentError: as :meth:`tag`.
        """
        return self._refer(name, "branch", snapshot)

    def _refer(self, name: str, kind: Literal["tag", "branch"], snapshot: int | None) -> Table:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise InvalidArgumentError(f"{kind}: expected a name, got {name!r}")
        wanted = self.snapshot if snapshot is None else snapshot
        if wanted is None:
            raise InvalidArgumentError(f"{kind} {name!r}: {self.name} has no snapshot yet")
        refer(self._state, name, kind, wanted)
        return self

    def drop_reference(self, name: str) -> Table:
        """Forgets a tag or branch; its snapshot may expire then."""
        drop_reference(self._state, name)
        return self

    def rollback(self, snapshot: int) -> Table:
        """Makes an earlier snapshot the newest again; the schema stays as it is now.

        Args:
            snapshot: its id; that of a tag is ``table.at(tag=...).snapshot``.

        Raises:
            InvalidArgumentError: there is no such snapshot.
            ConflictError: this handle does not show the newest snapshot, which somebody else has
                made; look at it with :meth:`refresh`, and roll back again.
        """
        rollback(self._state, snapshot, self.snapshot)
        return self

    # ------------------------------------------------------------------ keeping it small

    def expire(
        self, *, keep: int | None = None, older_than: Age | None = None, dry_run: bool = False
    ) -> Removal:
        """Forgets old snapshots, and removes the files that only they name.

        What a tag names, and the newest snapshots of branches, stay; so does what the properties
        ``history.expire.min-snapshots-to-keep`` and ``history.expire.max-snapshot-age-ms`` ask for.

        Args:
            keep: snapshots of each branch that stay; the default is one.
            older_than: only snapshots older than this: an age, or an aware datetime. The default
                is five days, and no limit where ``keep`` is given.
            dry_run: only says what would go.

        Raises:
            InvalidArgumentError: the catalog has the table under another name too, or is a copy
                of another one, so that other tables have the same files.
            ConflictError: every attempt lost to other commits.
            OSError: files cannot be removed. The snapshots are forgotten all the same, and the
                next call finds these files again, as it does if this one is stopped.

        Cost: reads the manifest lists of all snapshots; of manifests those that only forgotten
            snapshots name, and if there are any, those that are left or the plan index.
        """
        state = self._state
        done = expire(state.newest(), state.reload, keep, older_than, dry_run=dry_run)
        state.learn(state.reload())
        state.close_removed_files()
        return done

    def remove_orphans(
        self,
        *,
        older_than: Age = datetime.timedelta(days=3),
        dry_run: bool = False,
    ) -> Removal:
        """Removes files below the table's location that neither snapshots nor metadata name.

        Args:
            older_than: only files that were last changed before: an age, or an aware datetime.
                Files of writers that have not committed yet are named by no snapshot, so an age
                of zero destroys what is being written beside this.
            dry_run: only says which these are.

        Files of other tables that lie below the location stay, and those of the catalog.

        Raises:
            InvalidArgumentError: the catalog has the table under another name too, or is a copy
                of another one, so that other tables have the same files.
            OSError: files cannot be removed.
        """
        state = self._state
        state.newest()
        return remove_orphans(state.reload, older_than, dry_run)

    def rewrite_manifests(self, *, whole: bool = False) -> ManifestRewrite:
        """Rewrites the table's metadata so that it is planned faster; no data file is touched.

        Manifests that are small, or have the same partitions as others, are replaced by few that
        have neighbouring partitions each; and a plan index over all files is written.

        Args:
            whole: writes the plan index anew for all files, also where a part of it that describes
                files which are gone would do: nothing is left of their values then.

        Raises:
            ConflictError: every attempt lost to other commits.

        Cost: reads the manifests that are replaced, or new since the last plan index, and writes
            a row for each file of the table.
        """
        state = self._state
        newest, done = rewrite_manifests(state.newest(), state.reload, whole=whole)
        state.show(newest)
        _log.info("%s: rewrite_manifests: %s", self.name, done)
        return done

    def health(self) -> Health:
        """How the files and the metadata of the newest snapshot are, with advice.

        Its text is for people, its fields for programs, and its ``to_svg()`` is a picture.

        Cost: describes every file, from the plan index or the manifests. Data files are opened
            only where the layout is an OTree: a sample of its columns is read.
        """
        metadata = self._state.reload()
        return health(self._state.rows(metadata), metadata)

    def analyze(self, columns: Sequence[ColumnName] | None = None) -> Analysis:
        """Finds out about how many different values columns have, and keeps that with the table.

        The figures are theta sketches in a Puffin file of statistics of the newest snapshot, as
        Iceberg has them: other engines read them, and theirs are read. :meth:`health` shows them,
        and ``nimblepy.spark.explain_join`` counts with them.

        Args:
            columns: the default is all that have single values, members of structs too.

        Raises:
            InvalidArgumentError: an unknown column, or one of lists or maps.
            ConflictError: the snapshot expired meanwhile, or every attempt lost to other commits.

        Cost: reads these columns of all rows; where rows were only added since the last call for
            them, of the new files alone. Some 0.1 us of processor time a value, and 32 KiB a
            column in the file.
        """
        return analyze_by(self, look, columns)

    def optimize(self, *, budget_bytes: int | None = None) -> dict[str, Any]:
        """Does what :meth:`health` advises: each action's name, with what it returned.

        Args:
            budget_bytes: as for :meth:`optimize_layout`.

        Raises:
            As :meth:`compact`, :meth:`optimize_layout`, :meth:`rewrite_manifests`,
            :meth:`expire` and :meth:`analyze`.
        """
        target = target_of(self._state.newest()).target_bytes
        actions: dict[str, Callable[[], Any]] = {
            "compact": lambda: self.compact(target_bytes=target),
            "optimize_layout": lambda: self.optimize_layout(budget_bytes=budget_bytes),
            "rewrite_manifests": self.rewrite_manifests,
            "expire": lambda: self.expire(keep=KEPT_SNAPSHOTS, older_than=YOUNG),
            "analyze": self.analyze,
        }
        return {item.action: actions[item.action]() for item in self.health().advice}

    def files_for_keys(self, keys: ManyKeys, *, on: ColumnName | None = None) -> pa.Table:
        """Which data files of the newest snapshot can hold some keys, as their statistics say.

        ``path``, ``rows``, ``bytes``, and how many of the ``keys`` each can hold, ordered by path.
        What is not known of a file rules nothing out; deleted rows are not looked at.

        Args:
            keys: values of one column, as an array or a list; each counts once.
            on: the column; the first of the cluster key where it is not given.

        Raises:
            InvalidArgumentError: there is no such column, or keys that are null or not of its type.

        Cost: of every file the bounds of one column, from the plan index or the manifests; no data
            file is opened.
        """
        metadata, wanted = requested_keys(self, keys, on)
        return files_for_keys(metadata, data_manifests(metadata), wanted)

    def census(self) -> pa.Table:
        """Every file below the table's location and every file that its snapshots name.

        ``path``, ``bytes``, ``kind`` (data, deletes, manifest, manifest list, plan index, metadata,
        cubes, statistics, expiry), ``reachable``, and the ids of the ``snapshots`` that name it.
        """
        return census(self._state.reload)

    # ------------------------------------------------------------------ handles

    def refresh(self) -> Table:
        """Moves this handle to the newest snapshot and schema, and returns it.

        Raises:
            InvalidArgumentError: the table was dropped, or the handle is one of the past.

        Cost: one read, of the metadata file.
        """
        self._state.refresh()
        return self

    def __repr__(self) -> str:
        state = self._state
        at = f" at {state.pinned}" if state.pinned else ""
        shown = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot}"
        rows = "closed" if state.is_closed else f"{len(self.schema)} columns"
        return f"<nimblepy.Table {self.name!r}{at}: {shown}, {rows}>"
