"""Table: a handle on one snapshot of a table, and the changes that move it forward."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Parameters, with_params
from nimblepy.file.options import HashIndex, SortedIndex, VectorIndex
from nimblepy.io.progress import ProgressArg
from nimblepy.rows.arguments import Columns, at_least, checked_fraction, seconds_of
from nimblepy.rows.html import html_rows
from nimblepy.rows.source import Filter
from nimblepy.schema.names import ColumnName
from nimblepy.schema.protocols import ManyKeys, Tabular
from nimblepy.table.base.arguments import paths_of
from nimblepy.table.base.model import MAIN, DataFormat
from nimblepy.table.base.transforms import partition_text
from nimblepy.table.changing.append import add_files, append
from nimblepy.table.changing.delete import convert, delete, overwrite
from nimblepy.table.changing.keyed_rows import Duplicates
from nimblepy.table.changing.merge_plan import Merge, On, merge
from nimblepy.table.changing.new_columns import Fit, NewColumns
from nimblepy.table.changing.transaction import Transaction
from nimblepy.table.changing.upsert import WhenMatched, upsert
from nimblepy.table.claims.checks import Checks
from nimblepy.table.claims.facts import Facts, facts_of
from nimblepy.table.claims.kinds import Claim, ColumnClaim, Reconcile
from nimblepy.table.claims.store import public_claim, read_claims
from nimblepy.table.describe import UNSET, Description, Unset, check_table, confirm, describe
from nimblepy.table.evolve import Alter
from nimblepy.table.handle import TableHandle, TableState, id_of, share_position
from nimblepy.table.otree.blocks import Blocks
from nimblepy.table.otree.estimate import Estimate, estimate, parsed
from nimblepy.table.otree.layouts import Layout, OTree, layout_of
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.holding import data_manifests, files_for_keys
from nimblepy.table.reading.listing import list_files, list_partitions
from nimblepy.table.reading.parquet_index import PARQUET_INDEXES
from nimblepy.table.reading.sample import sample as draw_sample
from nimblepy.table.references import (
    drop_reference,
    fast_forward,
    first_snapshot,
    history,
    refer,
    rollback,
    snapshot_of,
)
from nimblepy.table.requests import analyze_by, requested_changes, requested_keys
from nimblepy.table.upkeep.analyze import Analysis, look
from nimblepy.table.upkeep.compact import Compacting, convert_deletes
from nimblepy.table.upkeep.delta import publish_delta
from nimblepy.table.upkeep.health import Health, health
from nimblepy.table.upkeep.index_parquet import (
    declare_indexes,
    extend_parquet_indexes,
    index_as_declared,
)
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
from nimblepy.table.upkeep.reindex import add_index, drop_index
from nimblepy.table.upkeep.rewrite import ManifestRewrite, rewrite_manifests
from nimblepy.table.watch import Watch
from nimblepy.table.writing.batches import Batch
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.settings import target_of


class Table(TableHandle):
    """A table, read at one snapshot.

    A table has the reading methods of a :class:`nimblepy.File`. The handle moves to a newer
    snapshot when it changes rows or columns itself, and when :meth:`refresh` is called. It never
    moves backwards. Row numbers count over all files in reading order, and are valid in this
    snapshot only. Any number of threads may use one handle.

    Attributes:
        catalog: the catalog of the table.
    """

    @property
    def _state(self) -> TableState:
        return TableState(self)

    # ------------------------------------------------------------------ properties

    @property
    def name(self) -> str:
        """``"namespace.name"``."""
        return ".".join(self._state.shown.metadata.name)

    @property
    def snapshot(self) -> int | None:
        """The id of the snapshot; ``None`` if the table has never had rows."""
        return id_of(self._state.shown.snapshot)

    def _page_state(self) -> str:
        return str(self.snapshot)

    @property
    def primary_key(self) -> list[str]:
        """Columns whose values identify a row; empty if the table has no primary key."""
        return list(self._current.reading.primary_key)

    @property
    def partition_by(self) -> list[str]:
        """How new files are partitioned, in the form that ``create_table`` takes."""
        partitions = []
        metadata = self._state.shown.metadata
        for item in metadata.spec():
            name = metadata.column_name(item.source_id)
            if name is not None and item.transform != "void":
                partitions.append(partition_text(item.transform, name))
        return partitions

    @property
    def layout_by(self) -> Layout | None:
        """How rows are assigned to new files: the ``layout`` of ``create_table``."""
        metadata = self._state.shown.metadata
        return layout_of(metadata.properties, metadata.column_name)

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return self._state.shown.metadata.properties

    @property
    def comment(self) -> str | None:
        """The description of the table, which other engines also show; ``None`` without one."""
        return self._state.shown.metadata.comment

    @property
    def location(self) -> str:
        """The directory or URI of the table's files."""
        return self._state.shown.metadata.location

    @property
    def iceberg(self) -> Any:
        """The pyiceberg table at the version that this handle shows."""
        return self._state.shown.metadata.ice

    @property
    def metadata_location(self) -> str:
        """The metadata file of this handle's version. Any Iceberg reader can open it."""
        return self._state.shown.metadata.metadata_file

    @property
    def num_rows(self) -> int:
        """Number of live rows. Cost: delete files are read, if there are any."""
        plan = self._current.plan
        if not plan.has_deletes and all(manifest.rows >= 0 for manifest in plan.manifests):
            return sum(manifest.rows for manifest in plan.manifests)
        return self._current.num_rows

    # ------------------------------------------------------------------ facts

    def facts(self) -> Facts:
        """Returns what the metadata tells about the rows: counts, nulls, bounds, distinct values.

        Cost: reads the description of every file from the plan index or the manifests, and delete
        files, if there are any. Opens no data file, except for equality deletes of other engines.
        The facts of a snapshot are kept in memory.
        """
        at = self._state.position
        return facts_of(at.rows, at.metadata, at.snapshot, at.schema_id)

    # ------------------------------------------------------------------ claims

    def describe(
        self,
        description: str | Unset | None = UNSET,
        *,
        columns: Mapping[str, ColumnClaim | Sequence[ColumnClaim]] | None = None,
        synonyms: Sequence[str] | Unset | None = UNSET,
        unique: Sequence[str] | Unset | None = UNSET,
        fresh: str | datetime.timedelta | Unset | None = UNSET,
        rows: int | Unset | None = UNSET,
        deprecated_by: str | bool | Unset | None = UNSET,
        rules: Sequence[str] | Unset | None = UNSET,
        reconcile: Sequence[Reconcile] | Unset | None = UNSET,
        allow_contradicted: bool = False,
    ) -> Description:
        """Records what the table and its columns mean, in one commit, after checking it.

        A claim replaces an older one of the same kind, and ``None`` removes it. Texts are stored as
        documentation, which other engines show. All other claims are stored in properties.

        Args:
            description: what a row is, and what the table is for.
            columns: for each column, a claim or a list of claims: a text, :class:`nimblepy.Values`,
                :class:`nimblepy.References`, :class:`nimblepy.Unit`, :class:`nimblepy.Range`,
                :class:`nimblepy.NotNull`, :class:`nimblepy.Samples`, :class:`nimblepy.SnapshotOf`.
                ``None`` removes all claims of the column.
            synonyms: other words for the table.
            unique: columns whose combined values differ in every row.
            fresh: new rows arrive at least this often, such as ``"26h"``.
            rows: the approximate number of rows.
            deprecated_by: the name of the table to use instead; ``False`` states that this table is
                not deprecated.
            rules: SQL conditions that no row breaks.
            reconcile: aggregates that agree with those of other tables.
            allow_contradicted: store claims even if the rows contradict them.

        Raises:
            InvalidArgumentError: a claim is contradicted, does not fit its column, or is too long.
            ConflictError: another commit changed a claim that this one changes.

        Cost: one commit, and the checks of the new claims.

        Example:
            >>> table.describe(  # doctest: +SKIP
            ...     "Orders as placed.",
            ...     columns={"status": nb.Values({"P": "placed", "X": "cancelled"})},
            ...     unique=["order_id"],
            ... )
        """
        given = {
            "description": description,
            "synonyms": synonyms,
            "unique": unique,
            "fresh": fresh,
            "rows": rows,
            "deprecated": deprecated_by,
            "rule": rules,
            "reconcile": reconcile,
        }
        stated = {kind: value for kind, value in given.items() if not isinstance(value, Unset)}
        return describe(self, Alter(self._state), stated, columns or {}, allow_contradicted)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims about the table and its columns, including kinds of newer versions."""
        at = self._state.shown
        stored = read_claims(at.newest)
        return tuple(public_claim(claim, at.newest) for claim in stored)

    def check(self, deep: bool = False) -> Checks:
        """Checks the claims against the metadata of this snapshot.

        Args:
            deep: also scan rows, to check rules and other claims that metadata cannot prove.

        Cost: as :meth:`facts`; also reads the sketches of :meth:`analyze`, and the claimed columns
            of rows that were added since. Otherwise opens data files only if deleted rows or small
            sketches leave a claim in doubt. The result is kept until the table or a table that it
            references changes.
        """
        return check_table(self, deep=deep)

    def confirm(self, kind: str, column: str | None = None) -> Description:
        """Records that a person has reviewed a claim, so that it counts as made now.

        Args:
            kind: such as ``"description"``.
            column: name of its column; ``None``: the claim is about the table.

        Raises:
            InvalidArgumentError: there is no such claim.
        """
        return confirm(self, Alter(self._state), kind, column)

    # ------------------------------------------------------------------ samples

    def sample(
        self,
        fraction: float | None = None,
        *,
        n: int | None = None,
        seed: int | None = None,
        columns: Columns = None,
        filter: Filter = None,
        params: Parameters = None,
    ) -> pa.Table:
        """Draws rows at random, without replacement, each with the same probability.

        Rows of an OTree get random weights when they are written. Without a seed, each call draws
        the same rows: those with the lowest weights. A seed chooses the weight to begin at, and
        drawing wraps around after the largest weight. In other tables, each call draws rows at
        random, or as determined by the seed.

        Args:
            fraction: The probability, from 0 to 1.
            n: The number of rows to draw, instead of ``fraction``; all rows if there are fewer. In
                every layout, they are drawn at random, or as the seed determines.
            seed: The same seed draws the same rows of the same snapshot.
            filter, params: As for :meth:`scan`. Only rows that pass are drawn.

        Cost: With an :class:`nimblepy.OTree` layout without a cluster key, about this fraction of
            the rows is read: from few files without a seed, from every file with a seed. With a
            cluster key, the files are read as for a filter on the weights. With other layouts, the
            cost of :meth:`take` for the same number of rows.
        """
        if n is not None:
            return super().sample(
                fraction, n=n, seed=seed, columns=columns, filter=filter, params=params
            )
        share = checked_fraction(fraction)
        rows, cubes = self._rows_and_cubes()
        predicate = with_params(filter, params)
        return draw_sample(rows, cubes, share, seed, columns, predicate)

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
        """Estimates an aggregate from a sample of the rows, with a confidence interval.

        Args:
            expression: ``"count(*)"``, ``"count(x)"``, ``"sum(x)"`` or ``"avg(x)"`` of a column.
                Nulls are ignored.
            fraction, seed, filter, params: As for :meth:`sample`. The fraction is above 0.
            confidence: The probability that the interval contains the true value.

        Raises:
            InvalidArgumentError: the expression is not supported, or the column is not numeric.

        Example:
            >>> table.estimate("avg(price)", 0.01)  # doctest: +SKIP
            Estimate(expression='avg(price)', value=33.1, low=32.9, high=33.3, ...)
        """
        if not isinstance(confidence, float) or not 0 < confidence < 1:
            raise InvalidArgumentError(
                f"confidence: expected above 0 and below 1, got {confidence!r}"
            )
        if checked_fraction(fraction) == 0:
            raise InvalidArgumentError(
                "estimate: the fraction must be above 0, because an empty sample estimates nothing"
            )
        kind, column = parsed(expression, self.schema)
        names = [] if column is None else [column]
        sampled_rows = self.sample(fraction, seed=seed, columns=names, filter=filter, params=params)
        values = None if column is None else sampled_rows.column(0)
        return estimate(
            expression, kind, values, sampled_rows.num_rows, float(fraction), confidence
        )

    def snapshots(self) -> pa.Table:
        """Returns all snapshots that were not expired, in the order of their commits.

        The columns are ``snapshot_id``, ``parent_id``, ``timestamp``, ``operation``, ``user``,
        ``rows_inserted``, ``rows_updated``, ``rows_deleted``, ``files_added``, ``files_removed``
        and ``bytes_written``. Counts of rows that another writer did not record are null.
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
            data: tabular data with the table's columns in any order; a missing column is null. A
                reader must not reuse the buffers of a batch for a later batch. Values are converted
                to the column's type if that is lossless, so that converting them back gives the
                same values.
            presorted: rows arrive in the order of the cluster key, which is verified.
            progress: ``True`` for a bar, or called as ``progress(rows_done, rows_total)``.
            cast: Round or truncate values that a column cannot store exactly. A value out of range
                is still an error.
            new_columns: How to treat columns that the table lacks. ``"error"`` raises. ``"add"``
                adds them in the same commit. ``"drop"`` ignores them.
            batch: (name, number) of data to add at most once. Numbers of a name must ascend. The
                call does nothing if the table already has this batch or a later one of the name, so
                it can be repeated when the outcome of a commit is unknown. After a rollback that
                undoes the batch, it can be added again.

        Raises:
            InvalidArgumentError: an unknown column, a type that does not fit, or a null in a
                column that is not nullable.
            DuplicateKeyError: a primary key exists already or occurs twice in the data.
            ConflictError: the table was dropped, or every attempt lost to other commits.
            OSError: a file cannot be written. After any error the table is unchanged.

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
        """Deletes the rows that pass a filter, or the rows with the given primary keys.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        A file is removed from the table if all its rows are deleted. For other files, the positions
        of deleted rows are stored in one delete file per partition.

        Args:
            filter, params: a pyarrow expression or SQL text, as for :meth:`scan`.
            keys: primary keys, in the forms that :meth:`lookup` accepts, each with all columns of
                the key.
            batch: see :meth:`append`.

        Raises:
            InvalidArgumentError: neither or both of ``filter`` and ``keys`` are given, or their
                value does not fit.
            ConflictError: see :meth:`append`; or a column of the filter was dropped meanwhile.

        Cost: reads files that may have such rows, as a scan or lookup does.
        """
        filter = with_params(filter, params)
        if (filter is None) == (keys is None):
            raise InvalidArgumentError("delete: give exactly one of filter and keys=")
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
        """Inserts rows with new primary keys, and replaces rows whose keys exist.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        In one commit, old rows are marked as deleted and new rows are written to one file per
        partition. With concurrent commits, the result is as if it had run after them.

        Args:
            data: see :meth:`append`; a missing column is null in every row that is written.
            update: One or more columns of existing rows to replace with values of the data.
                Existing rows keep their values of other columns. New rows take all columns from the
                data.
            when_matched: What to do with a row whose key exists: replace (or update) the existing
                row, ignore the new row, or raise an error.
            duplicates: What to do with a key that occurs twice in the data. ``"error"`` raises;
                ``"last"`` uses its last row.
            cast, new_columns: see :meth:`append`.
            batch: see :meth:`append`.

        Raises:
            InvalidArgumentError: the table has no primary key; a key has a null; as :meth:`append`.
            DuplicateKeyError: a key occurs twice in the data (the message names both rows), or
                exists in the table and ``when_matched="error"``.
            ConflictError, OSError: as :meth:`append`. After any error the table is unchanged.

        Cost: sorts the data (on disk beyond 128 MiB), looks their keys up in the files that can
            have them, and writes the new files. Other columns of matched rows are read only with
            ``update``. Memory in addition to a file that is written: 16 bytes for each replaced
            row.
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
        """Matches rows of the data and the table by key, and applies clauses to the matches.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        With concurrent commits, the result is as if it had run after them.

        Args:
            data: Tabular data, the source. It may have extra columns for conditions.
            on: The columns to compare: a name, several names, or ``{source column: column of the
                table}``. The default is the primary key. Rows with a null in one of them match
                nothing. Without an index on these columns, the merge reads all their values.
            duplicates: see :meth:`upsert`.
            cast, new_columns: see :meth:`append`.
            batch: see :meth:`append`.

        Returns:
            A builder for the clauses. Its ``execute()`` applies them all in one commit.

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
        """Replaces all rows, or the rows that pass a filter, in one commit.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Args:
            data: See :meth:`append`. The new rows need not pass the filter.
            filter, params: As for :meth:`scan`. Without a filter, all rows are replaced.
            cast, new_columns: See :meth:`append`.
            batch: See :meth:`append`.

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
        """Rewrites all rows in another format, which new files will also use.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        After a conversion to Parquet, every Iceberg engine can read the newest snapshot, because
        none of its manifests names a nimble file. Older snapshots do not change. A second commit
        adds the table's hash and sorted indexes to the Parquet files; vector indexes are left out.
        Before a conversion to nimble files, a commit declares the indexes of the Parquet files as
        indexes of new files.

        Raises:
            ConflictError: another commit changed the table during the conversion.

        Cost: reads and writes all rows.
        """
        if data_format == "nimble":
            declare_indexes(self._state)
        done = convert(self._state, data_format, progress)
        if data_format == "parquet":
            index_as_declared(self._state)
        return done

    def convert_deletes(self) -> Commit:
        """Replaces equality deletes, which other engines write, by position deletes.

        Reads then do not have to look up deleted keys, and engines that cannot read equality
        deletes can read the table. No row changes. :meth:`compact` does this too.

        Returns:
            The commit; its ``snapshot`` is unchanged if the table has no equality deletes.

        Raises:
            ConflictError: as :meth:`append`.

        Cost: for each data file to which equality deletes apply, a lookup of their keys, or a read
        of the key columns if the file has no index on them. No data file is rewritten.
        """
        return convert_deletes(self._state)

    def publish_delta(self, *, keep: bool = True) -> int:
        """Publishes the table as a Delta table, in a ``_delta_log`` beside its Parquet files.

        Later commits, of any process, publish themselves after they took effect; if that fails, it
        is logged, and the next commit or call does it. Deleted rows become deletion vectors.
        The Delta table has no partitions, shows ``main``, and is for reading: rows that another
        program adds to it are not in this table. Renamed columns keep their old name in new files.

        Args:
            keep: ``False`` stops publishing after this call. The log is kept.

        Returns:
            The version of the Delta table.

        Raises:
            InvalidArgumentError: the table has nimble files; a type that Delta does not have, such
                as a time of day; or files in which a column has another name.
            ConflictError: another program wrote to the Delta table.

        Cost: the first call lists every file in the log. A commit costs one more conditional
            put; it reads the list of live files and the positions in new delete files.
        """
        return publish_delta(self._state, keep)

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

        Live rows and their values do not change. Deleted rows, unused delete files, and partitions
        from before the last change of ``partition_by`` are removed. Compaction never makes another
        commit fail: concurrent changes are applied to the new files, or the changed files are left
        for another call.

        Files of an :class:`nimblepy.OTree` remain files of cubes, whose size the layout
        determines. Use :meth:`optimize_layout` for them.

        Args:
            filter: Compact only files that may have rows that pass. Whole files are replaced.
            target_bytes: The approximate size of a new file.
            where_needed: Replace only files that are small compared to ``target_bytes``, have a
                tenth of their rows deleted, or overlap many other files in keys. ``False`` replaces
                all files.
            progress: ``True`` for a bar, or called as ``progress(rows_done, rows_total)``.

        Returns:
            The commit, with the files added and removed; no rows were inserted or deleted.

        Raises:
            InvalidArgumentError: ``target_bytes`` is below 1, or the filter does not fit.
            ConflictError: as :meth:`append`.

        Cost: reads and writes the replaced files once. Files that are sorted by the cluster key are
        merged, with a few batches of each in memory. Others are sorted first.
        """
        target_bytes = at_least("target_bytes", target_bytes, 1)
        request = Compacting(
            filter=filter,
            target_bytes=target_bytes,
            where_needed=where_needed,
            progress=progress,
        )
        return compact(self._state, request)

    def optimize_layout(
        self, *, budget_bytes: int | None = None, progress: ProgressArg = None
    ) -> Commit:
        """Rewrites, in one commit, the files for which a new layout helps filters most.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        With an :class:`nimblepy.OTree` layout, it rewrites subtrees whose files overlap, are small,
        or no longer match the distribution of the values. The gain for boxes of typical filters
        is estimated from the bounds of the files. Other tables are compacted. As with
        :meth:`compact`, no other commit fails because of it.

        Args:
            budget_bytes: Maximum bytes of OTree files to rewrite. ``None`` rewrites all files for
                which it pays off. Repeated calls continue after the last one.

        Raises:
            ConflictError: as :meth:`append`.

        Cost: reads a sample of the layout's columns, and reads and writes the replaced files once.
        """
        most = None if budget_bytes is None else at_least("budget_bytes", budget_bytes, 1)
        if not isinstance(self.layout_by, OTree):
            return self.compact(progress=progress)
        return optimize(self._state, budget=most, progress=progress)

    def draw_layout(self, columns: Sequence[ColumnName] | None = None) -> str:
        """Draws the layout of the files as SVG.

        Shows the files by the ranks of two columns, the tree of an OTree, and the fraction of rows
        that boxes read, compared with other layouts.

        Args:
            columns: the columns to draw; the default is the layout's columns.

        Raises:
            InvalidArgumentError: there is no layout and no column is given; or there are no rows.
        """
        layout = self.layout_by
        names = columns or (() if layout is None else layout.names)
        if not names:
            raise InvalidArgumentError(
                f"{self.name} has no layout; name the columns to plot in columns="
            )
        rows, cubes = self._rows_and_cubes()
        return plot(rows, names, cubes)

    def add_files(self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Commit:
        """Adds existing files to the table, without copying or changing them.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        The table then owns the files: it removes them when their rows are deleted and the snapshots
        that use them expire. So a file should not be part of two tables. A warning is logged for
        files in the data directory of another table.

        Args:
            paths: nimble or Parquet files, or directories of them. Columns are matched by name.
                Nullable columns may be missing, and types may be narrower.

        Raises:
            InvalidArgumentError: a file does not fit the columns, or has rows of several
                partitions; or it has the field ids of another table.
            DuplicateKeyError: as :meth:`append`.

        Cost: each file is read once, for its statistics.
        """
        return add_files(self._state, paths_of(paths, "add_files"))

    def transaction(self) -> Transaction:
        """Groups reads and changes into one commit, made when the block ends.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Raises:
            ConflictError: raised at the end of the block, with the kind ``"keys"``, if another
                commit changed rows that the transaction read. Repeat the whole block then.

        Cost: the cost of the reads, the changes and one commit. If other commits were made
        meanwhile, also repeats the reads on the rows that they changed. Holds the keys that are
        read or written in memory.

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
        """Returns the rows that were inserted, updated and deleted between two snapshots.

        Returns the changed rows, commit by commit, with two more columns: ``_change``, which is
        ``insert``, ``delete``, ``update_before`` or ``update_after``, and ``_snapshot``, the id of
        the commit. With a primary key, a row that replaced a row with its key is an update: the old
        row is followed by the new row. Without a primary key, it is a delete and an insert.
        Compaction, conversion, and changes of columns, tags and properties do not count. Rows have
        the columns of this handle.

        Args:
            since: a snapshot id or a tag; changes after it are returned. ``None`` returns all
                changes from the first snapshot on.
            until: the last snapshot whose changes are returned; ``None`` means the snapshot of this
                handle.
            columns: the table's columns to return; ``None`` returns all.

        Raises:
            InvalidArgumentError: ``since`` is unknown, has expired, or is not an ancestor of
                ``until``; or the table has a column ``_change`` or ``_snapshot``.
            StaleFileError: raised by the reader, if a snapshot expires while it reads.

        Cost: reads only the metadata of these commits and the rows that they inserted, deleted or
            replaced. Keys of commits that both insert and delete rows are held in memory.

        Example:
            >>> for batch in table.changes(last_seen):  # doctest: +SKIP
            ...     follow(batch)
        """
        return requested_changes(self, since, until, columns).reader()

    # ------------------------------------------------------------------ columns and partitions

    def alter(self) -> Alter:
        """Changes columns, partitions and properties, in one commit made when the block ends.

        Raises:
            ConflictError: raised at the end of the block, if the changes conflict with a commit
                that was made first.

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
        """Returns a handle on a branch, or a read-only handle on an earlier snapshot.

        A handle on a branch is a handle like any other: its commits are made to the branch, and
        ``refresh()`` follows the branch. Columns and properties belong to the table, so ``alter()``
        changes them for all branches. A read-only handle has the columns from the time of the
        commit.

        ``t.at(snapshot=t.snapshot)`` reads no metadata. It also works after another writer has
        expired the snapshot or dropped the table, as long as the files exist or are open.

        Args:
            time: an aware datetime, or a timedelta before now; the snapshot of ``main`` that was
                the newest then.

        Raises:
            InvalidArgumentError: there is no such snapshot, or it has expired.
            ConflictError: the table was dropped.
        """
        given = {"snapshot": snapshot, "tag": tag, "branch": branch, "time": time}
        named = [(kind, value) for kind, value in given.items() if value is not None]
        if len(named) != 1:
            raise InvalidArgumentError("at: give exactly one of snapshot, tag, branch and time")
        kind, value = named[0]
        own = self._state.position
        is_own = snapshot is not None and own.snapshot is not None and own.snapshot.id == snapshot
        metadata = own.metadata if is_own else self._state.reload()
        past = snapshot_of(metadata, kind, value)
        if branch is not None:
            return Table(self.catalog, metadata, branch=branch)
        schema_id = metadata.schema_id if past.schema_id is None else past.schema_id
        table = Table(self.catalog, metadata, at=(past, schema_id), pinned=f"{kind} {value}")
        if is_own and schema_id == own.schema_id:
            share_position(table, own)
        return table

    @property
    def tags(self) -> dict[str, int]:
        """The tags: each name with the id of its snapshot."""
        return self._references("tag")

    @property
    def branches(self) -> dict[str, int]:
        """The branches: each name with its newest snapshot's id. ``main`` is the table itself."""
        return self._references("branch")

    def _references(self, kind: str) -> dict[str, int]:
        references = self._state.shown.newest.references.items()
        return {name: ref.snapshot for name, ref in sorted(references) if ref.kind == kind}

    def tag(self, name: str, snapshot: int | None = None, replace: bool = False) -> Table:
        """Tags a snapshot, by default the one this handle shows, so that it does not expire.

        Args:
            replace: Moves an existing tag, in one commit.

        Raises:
            InvalidArgumentError: the tag or branch already exists, or the snapshot does not exist.
        """
        return self._refer(name, "tag", snapshot, replace)

    def branch(self, name: str, snapshot: int | None = None) -> Table:
        """Begins a branch at a snapshot. ``at(branch=name)`` reads it and writes to it.

        A table that has never had rows first gets a snapshot without rows, in a commit of its own.

        Raises:
            InvalidArgumentError: as :meth:`tag`.
        """
        return self._refer(name, "branch", snapshot, False)

    def fast_forward(self, branch: str, *, to: str) -> Table:
        """Publishes a branch: moves another branch forward to its newest snapshot.

        Copies no rows. A handle on the moved branch shows the new snapshot.

        Args:
            branch: the branch to move, such as ``"main"``.
            to: the branch or tag whose snapshot ``branch`` is moved to.

        Raises:
            InvalidArgumentError: there is no such branch or tag.
            ConflictError: the branch has commits that ``to`` does not have. The error names both
                snapshots, and nothing is moved.

        Cost: one commit of metadata.
        """
        fast_forward(self._state, branch, to)
        return self

    def _refer(
        self, name: str, kind: Literal["tag", "branch"], snapshot: int | None, replace: bool
    ) -> Table:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise InvalidArgumentError(f"{kind}: expected a name, got {name!r}")
        snapshot_id = self.snapshot if snapshot is None else snapshot
        if snapshot_id is None:
            snapshot_id = first_snapshot(self._state)
        refer(self._state, name, kind, snapshot_id, replace=replace)
        return self

    def drop_reference(self, name: str) -> Table:
        """Removes a tag or branch. Its snapshot may then expire."""
        drop_reference(self._state, name)
        return self

    def rollback(self, snapshot: int | str) -> Table:
        """Makes an earlier snapshot the newest of the branch again. The schema does not change.

        Args:
            snapshot: its id, or the name of a tag.

        Raises:
            InvalidArgumentError: there is no such snapshot or tag; or the table is published as
                Delta, which would misread the snapshot's files.
            ConflictError: another writer committed a snapshot that this handle does not show.
                Call :meth:`refresh` to see it, and roll back again.
        """
        rollback(self._state, snapshot, self.snapshot)
        return self

    # ------------------------------------------------------------------ keeping it small

    def expire(
        self, *, keep: int | None = None, older_than: Age | None = None, dry_run: bool = False
    ) -> Removal:
        """Forgets old snapshots, and removes the files that only they name.

        Keeps tagged snapshots, the newest snapshots of branches, and the snapshots that the
        properties ``history.expire.min-snapshots-to-keep`` and
        ``history.expire.max-snapshot-age-ms`` ask for.

        Args:
            keep: number of newest snapshots to keep in each branch; the default is one.
            older_than: only snapshots older than this: an age, or an aware datetime. The default is
                five days, or no limit if ``keep`` is given.
            dry_run: Only report what would be removed.

        Raises:
            InvalidArgumentError: another table may use the same files, because the catalog has the
                table under another name or is a copy.
            ConflictError: every attempt lost to other commits.
            OSError: files cannot be removed. The snapshots are expired anyway. The next call
                removes these files, even if this call was interrupted.

        Cost: reads the manifest lists of all snapshots, and the manifests that only expired
            snapshots name. If there are such manifests, it also reads the remaining ones or the
            plan index.
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
            older_than: only files that were last changed before: an age, or an aware datetime. No
                snapshot names the files of writers that have not committed yet, so an age of zero
                destroys files that are being written.
            dry_run: Only report these files.

        Files of other tables below the location, and files of the catalog, are kept.

        Raises:
            InvalidArgumentError: the catalog has the table under another name too, or is a copy
                of another one, so that other tables have the same files.
            OSError: files cannot be removed.
        """
        state = self._state
        state.newest()
        return remove_orphans(state.reload, older_than, dry_run)

    def rewrite_manifests(self, *, whole: bool = False) -> ManifestRewrite:
        """Rewrites manifests and the plan index, so that reads are planned faster.

        Replaces manifests that are small, or have the same partitions as others, by few manifests
        of neighbouring partitions. Writes a plan index over all files. Does not touch data files.

        Args:
            whole: Rewrites the plan index for all files. Otherwise parts of it may still contain
                values of removed files.

        Raises:
            ConflictError: every attempt lost to other commits.

        Cost: reads the manifests that it replaces and those that are newer than the last plan
        index, and writes a row for each file of the table.
        """
        state = self._state
        newest, done = rewrite_manifests(state.newest(), state.reload, whole=whole)
        state.show(newest)
        return done

    def health(self) -> Health:
        """Describes the state of the files and metadata of the newest snapshot, with advice.

        The result can be printed, and ``to_svg()`` draws it.

        Cost: describes every file, from the plan index or the manifests. Data files are opened
            only with an OTree layout: a sample of its columns is read.
        """
        metadata = self._state.reload()
        return health(self._state.rows(metadata), metadata)

    def analyze(self, columns: Sequence[ColumnName] | None = None) -> Analysis:
        """Estimates the number of distinct values of columns, and stores it with the table.

        The estimates are theta sketches in a Puffin statistics file of the newest snapshot, as
        Iceberg defines it. Other engines can read them, and sketches of other engines are read.
        :meth:`health` shows them, and ``nimblepy.spark.explain_join`` uses them.

        Args:
            columns: The default is all columns with single values, including members of structs.

        Raises:
            InvalidArgumentError: a column does not exist, or contains lists or maps.
            ConflictError: the snapshot expired meanwhile, or every attempt lost to other commits.

        Cost: reads these columns of all rows, or only of new files if rows were only added since
            the last call for these columns. Takes about 0.1 us of processor time per value, and
            32 KiB per column in the file.
        """
        return analyze_by(self, look, columns)

    def optimize(self, *, budget_bytes: int | None = None) -> dict[str, Any]:
        """Performs the actions that :meth:`health` advises, and returns their results by name.

        Indexes of a Parquet table then cover all data files.

        Args:
            budget_bytes: as for :meth:`optimize_layout`.

        Raises:
            As :meth:`compact`, :meth:`convert_deletes`, :meth:`optimize_layout`,
            :meth:`rewrite_manifests`, :meth:`expire` and :meth:`analyze`.
        """
        target = target_of(self._state.newest()).target_bytes
        actions: dict[str, Callable[[], Any]] = {
            "compact": lambda: self.compact(target_bytes=target),
            "convert_deletes": self.convert_deletes,
            "optimize_layout": lambda: self.optimize_layout(budget_bytes=budget_bytes),
            "rewrite_manifests": self.rewrite_manifests,
            "expire": lambda: self.expire(keep=KEPT_SNAPSHOTS, older_than=YOUNG),
            "analyze": self.analyze,
            "add_index": lambda: extend_parquet_indexes(self._state),
        }
        done: dict[str, Any] = {
            item.action: actions[item.action]() for item in self.health().advice
        }
        if {"compact", "optimize_layout"} & done.keys() and self.properties.get(PARQUET_INDEXES):
            done["add_index"] = extend_parquet_indexes(self._state)  # covers the rewritten files
        return done

    def add_index(
        self,
        index: HashIndex
        | SortedIndex
        | VectorIndex
        | Sequence[HashIndex | SortedIndex | VectorIndex],
    ) -> Commit:
        """Adds indexes to all existing files of a table, in one commit.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        In a nimble table, files are replaced by copies with the index; rows are not encoded again,
        and new files have the index. In a Parquet table, the data files stay as they are, and
        index files below ``metadata/`` cover them. Lookups, upserts and deletes by key search new
        files without the index, until a second call or :meth:`optimize` covers them too.
        Concurrent changes of rows succeed. :meth:`health` says which share of the rows has each
        index. If all files have the indexes already, nothing changes.

        Raises:
            InvalidArgumentError: the table lacks a column, or has a vector index on the column of
                another metric; or the index is of a kind that a Parquet table cannot have: a vector
                index, one on a part of a struct, or one in descending order.
            ConflictError: as :meth:`append`; or other commits kept adding files without the index.
                New files of nimblepy have it, and a second call completes it.

        Cost: copies every file that lacks the index, and decodes its columns. In a Parquet table,
            reads the key columns of files that are not covered, and writes the index again.
        """
        return add_index(self._state, index)

    def drop_index(
        self, index: str | Sequence[ColumnName] | HashIndex | SortedIndex | VectorIndex
    ) -> Commit:
        """Drops secondary indexes from all files of a table, and from its new files.

        The commit also expires old snapshots if the table has too many; the table property
        ``nimblepy.expire-on-commit`` turns that off.

        Args:
            index: The columns in order, which drops all secondary indexes on exactly these
                columns; or the index.

        Raises:
            IndexUnavailableError: there is no such index.
            InvalidArgumentError: writes need the index to find primary keys.

        Cost: copies every file that has the index. In a Parquet table, one commit of metadata;
            :meth:`remove_orphans` removes the index files.
        """
        return drop_index(self._state, index)

    def files_for_keys(self, keys: ManyKeys, *, on: ColumnName | None = None) -> pa.Table:
        """Returns the data files of the newest snapshot that, by their statistics, can hold given
        keys.

        The columns are ``path``, ``rows``, ``bytes``, and the number of ``keys`` that the file can
        hold. Rows are sorted by path. A file without statistics can hold every key. Deleted rows
        are not considered.

        Args:
            keys: Values of one column, as an array or a list. Duplicates count once.
            on: The column; the default is the first column of the cluster key.

        Raises:
            InvalidArgumentError: the column does not exist, or keys are null or of another type.

        Cost: reads the bounds of one column of every file, from the plan index or the manifests.
            Does not open data files.
        """
        metadata, key_values = requested_keys(self, keys, on)
        return files_for_keys(metadata, data_manifests(metadata), key_values)

    def files(self) -> pa.Table:
        """Returns the data files of this handle's snapshot, in reading order.

        The columns are ``path``, ``format``, ``rows``, ``bytes``, ``deleted`` (number of deleted
        rows), and ``partition`` in words, such as ``day_month=2024-05``.

        Cost: plans all files, and reads the delete files.
        """
        return list_files(self._current)

    def partitions(self) -> pa.Table:
        """Returns the partitions of this handle's snapshot.

        The columns are ``partition``, ``files``, ``rows``, ``bytes`` and ``deleted``.

        Cost: as :meth:`files`.
        """
        return list_partitions(self._current)

    def census(self) -> pa.Table:
        """Returns every file below the table's location and every file that its snapshots name.

        The columns are ``path``, ``bytes``, ``kind`` (data, deletes, manifest, manifest list, plan
        index, key index, metadata, version hint, delta log, cubes, statistics, expiry),
        ``reachable``, and the ids of the ``snapshots`` that name the file.
        """
        return census(self._state.reload)

    # ------------------------------------------------------------------ handles

    @overload
    def refresh(self) -> Table: ...
    @overload
    def refresh(self, *, if_older_than: float) -> bool: ...
    def refresh(self, *, if_older_than: float | None = None) -> Table | bool:
        """Moves this handle to the newest snapshot and schema, and returns it.

        With ``if_older_than``, a service may call this before each request. Of several threads that
        share the handle, one reads the metadata, and the others do not wait for it.

        Args:
            if_older_than: Does nothing if a thread has refreshed the handle less than this many
                seconds ago. Returns whether the handle moved to another snapshot or schema.

        Raises:
            InvalidArgumentError: the handle is on an older snapshot, or closed.
            ConflictError: the table or the branch of the handle was dropped or renamed.

        Cost: one read, of the metadata file. In a SQLite catalog, one query if nothing changed.
        """
        if if_older_than is not None:
            seconds = seconds_of("if_older_than", if_older_than, least=0.0)
            return self._state.refresh_if_older(seconds)
        self._state.refresh()
        return self

    def watch(self, callback: Callable[[Table], object], poll: float = 1.0) -> Watch:
        """Follows the table in a thread: moves this handle to new snapshots as they are committed.

        The thread runs until ``close()`` of the result, or of this handle. A child process that is
        forked has a thread of its own.

        Args:
            callback: Called in that thread, with this handle, after it moved to another snapshot or
                schema. Its exceptions are logged, and the thread continues.
            poll: Seconds between two checks for new snapshots.

        Example:
            >>> with table.watch(lambda table: print(table.snapshot)):  # doctest: +SKIP
            ...     serve(table)
        """
        return Watch(self, callback, seconds_of("poll", poll, least=0.001))

    def __repr__(self) -> str:
        state = self._state
        at = f" at {state.pinned}" if state.pinned else ""
        if state.branch != MAIN:
            at = f" at branch {state.branch}"
        shown = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot}"
        rows = "closed" if state.is_closed else f"{len(self.schema)} columns"
        return f"<nimblepy.Table {self.name!r}{at}: {shown}, {rows}>"

    def _repr_html_(self) -> str:
        """Returns the columns and figures from the metadata. Does not open data files."""
        state, snapshot = self._state, self._state.shown.snapshot
        facts: dict[str, object] = {"snapshot": "none" if snapshot is None else str(snapshot.id)}
        if snapshot is not None:
            added, deleted = (
                snapshot.figure(name) for name in ("total-records", "total-position-deletes")
            )
            facts["rows"] = None if added is None else added - (deleted or 0)
            facts["files"] = snapshot.figure("total-data-files")
        facts["branch"] = state.branch if state.branch != MAIN else None
        facts["at"] = state.pinned
        facts["comment"] = self.comment
        facts["primary key"] = ", ".join(self.primary_key) if not state.is_closed else None
        facts["partitions"] = ", ".join(self.partition_by)
        keys = [] if state.is_closed else [str(key.column) for key in self.cluster_by]
        schema = None if state.is_closed else self.schema
        return html_rows(f"Table {self.name}", facts, schema, keys)
