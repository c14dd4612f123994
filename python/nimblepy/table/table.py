"""Table: a handle on one snapshot of a table, and the changes that move it forward."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Protocol

import pyarrow as pa

from nimblepy.errors import (
    ConflictError,
    InvalidArgumentError,
    NimbleError,
    UnsupportedVersionError,
)
from nimblepy.expr.filter import Parameters, parse_filter, with_params
from nimblepy.files.versions import Position, VersionedRows
from nimblepy.io.log import logger
from nimblepy.io.progress import ProgressArg
from nimblepy.rows.arguments import Columns, at_least, checked_fraction, column_names
from nimblepy.rows.source import Filter
from nimblepy.schema.field_ids import without_field_ids
from nimblepy.schema.names import ColumnName
from nimblepy.schema.protocols import ManyKeys, Tabular
from nimblepy.table import iceberg as ice
from nimblepy.table.base.arguments import paths_of
from nimblepy.table.base.model import DataFile, DataFormat, Snapshot
from nimblepy.table.base.places import exist
from nimblepy.table.base.transforms import partition_text
from nimblepy.table.changing.key_positions import given_keys
from nimblepy.table.changing.keyed_rows import Duplicates
from nimblepy.table.changing.merge_plan import Merge, On
from nimblepy.table.changing.row_changes import (
    Append,
    Conversion,
    DeleteKeys,
    DeleteWhere,
    FilesOf,
    NewKeys,
    RowChange,
)
from nimblepy.table.changing.staged import (
    Mode,
    PartitionOverwrite,
    check_present,
    check_staged,
    staged_change,
)
from nimblepy.table.changing.transaction import Transaction
from nimblepy.table.changing.upsert import WhenMatched, upsert_change
from nimblepy.table.evolve import Alter
from nimblepy.table.otree.blocks import Blocks
from nimblepy.table.otree.estimate import Estimate, estimate, parsed
from nimblepy.table.otree.layouts import Layout, OTree, layout_of
from nimblepy.table.reading.changes import changes_schema, steps
from nimblepy.table.reading.fileset import FileSet, Specs, reading_of
from nimblepy.table.reading.holding import KeysOf, data_manifests, files_for_keys, keys_of
from nimblepy.table.reading.members import Reading
from nimblepy.table.reading.plan import SnapshotPlan
from nimblepy.table.reading.sample import SamplePlan, plan_sample
from nimblepy.table.reading.sample import sample as draw_sample
from nimblepy.table.reading.shared_changes import WantedChanges
from nimblepy.table.upkeep.analyze import Analysis, Looking, analyze, look
from nimblepy.table.upkeep.compact import Compacting
from nimblepy.table.upkeep.health import Health, health
from nimblepy.table.upkeep.maintain import (
    KEPT_SNAPSHOTS,
    YOUNG,
    Age,
    Removal,
    census,
    expire,
    expire_by_default,
    instant_ms,
    remove_orphans,
)
from nimblepy.table.upkeep.plot_layout import plot
from nimblepy.table.upkeep.reachable import reachable_files
from nimblepy.table.upkeep.recluster import compact, optimize
from nimblepy.table.upkeep.rewrite import ManifestRewrite, rewrite_manifests
from nimblepy.table.writing.adding import describe_files
from nimblepy.table.writing.batches import Batch, batch_is_done, checked_batch, were_staged
from nimblepy.table.writing.commit import Commit, reloaded, run, swapped
from nimblepy.table.writing.settings import declared_indexes, format_property, target_of
from nimblepy.table.writing.write import Target, discard, write_rows

_log = logger(__name__)


class Tables(Protocol):
    """What a table asks of its catalog."""

    def load(self, parts: tuple[str, ...]) -> ice.Metadata: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Position(Position[FileSet]):
    """What a handle on a table shows, all of it as of one time.

    Attributes:
        metadata: the version of the table that has the snapshot and the schema.
        snapshot: the one that is read; ``None`` before the first.
        schema_id: of the columns.
        newest: the newest version that the handle knows, for tags, branches and the history. It is
            newer than ``metadata`` where this handle made a tag after others changed the table.
    """

    metadata: ice.Metadata
    snapshot: Snapshot | None
    schema_id: int
    newest: ice.Metadata

    def shows(self, metadata: ice.Metadata) -> bool:
        """Whether these are the newest rows of some metadata, and its columns."""
        # Not whole snapshots: one whose parent expires is changed by that.
        return (_id_of(self.snapshot), self.schema_id, _form_of(self.metadata)) == (
            _id_of(metadata.head()),
            metadata.schema_id,
            _form_of(metadata),
        )


def _id_of(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.id


def _form_of(metadata: ice.Metadata) -> tuple[object, ...]:
    """What of a table, beside its schema, decides how its files are read and new ones written."""
    return metadata.sort_order_id, metadata.spec_id, metadata.name_mapping


class Table(VersionedRows[FileSet]):
    """A table, read as it was at one snapshot.

    It has the reading methods of a :class:`nimblepy.File`. A handle stays at its snapshot until it
    changes rows or columns itself, or :meth:`refresh` is called. It never moves backwards. Rows are
    numbered over all files in the order in which they are read, in this snapshot only. Any number
    of threads may use one handle.

    Attributes:
        catalog: where the table is.
    """

    def __init__(
        self,
        catalog: Tables,
        metadata: ice.Metadata,
        *,
        at: tuple[Snapshot | None, int] | None = None,
        pinned: str | None = None,
    ) -> None:
        """A handle on the newest snapshot, or one at an older one.

        Args:
            at: the older snapshot and the id of the schema that it is read with.
            pinned: what the handle was opened at. It is read only then.
        """
        self.catalog = catalog
        self._closed = False
        self._pinned = pinned
        self._readings: dict[Any, Reading] = {}
        self._specs = Specs(metadata)
        snapshot, schema_id = at or (metadata.head(), metadata.schema_id)
        # That of the files, and the same without field ids.
        self._shown_schema: tuple[pa.Schema | None, pa.Schema] = None, pa.schema([])
        super().__init__(self._position_at(metadata, snapshot, schema_id))

    @property
    def current(self) -> FileSet:
        self._check_open()
        return super().current

    @property
    def schema(self) -> pa.Schema:
        """Columns and types. Field ids are in :attr:`iceberg`, not here."""
        known, shown = self._shown_schema
        schema = super().schema
        if schema is not known:
            shown = without_field_ids(schema)
            self._shown_schema = schema, shown
        return shown

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError(f"this table is closed: {self.name}")

    def _position_at(
        self, metadata: ice.Metadata, snapshot: Snapshot | None, schema_id: int
    ) -> _Position:
        reload = partial(self.catalog.load, metadata.name)  # not of `self`, which would keep it
        plan = SnapshotPlan(metadata, snapshot, schema_id, reload)
        rows = FileSet(self._reading(metadata, schema_id), plan)
        return _Position(rows, metadata, snapshot, schema_id, metadata)

    @property
    def _at(self) -> _Position:
        """Where this handle is: whoever needs two facts of it takes both from one position."""
        return self.position  # type: ignore[return-value]

    @property
    def _metadata(self) -> ice.Metadata:
        return self._at.metadata

    @property
    def _snapshot(self) -> Snapshot | None:
        return self._at.snapshot

    def _reading(self, metadata: ice.Metadata, schema_id: int) -> Reading:
        key = (metadata.uuid, schema_id, metadata.sort_order_id, metadata.name_mapping)
        self._specs.learn(metadata)
        known = self._readings.get(key)
        if known is None:
            known = self._readings[key] = reading_of(metadata, schema_id, self._specs)
            known.open_files.holders.add(self)
        known.indexes = declared_indexes(metadata, schema_id)
        return known

    # ------------------------------------------------------------------ what it says of itself

    @property
    def name(self) -> str:
        """``"namespace.name"``."""
        return ".".join(self._metadata.name)

    @property
    def snapshot(self) -> int | None:
        """The snapshot that is read; ``None``: the table is empty, and has never had rows."""
        return _id_of(self._snapshot)

    @property
    def primary_key(self) -> list[str]:
        """Columns of which no two rows have the same values; empty where there is none."""
        return list(self.current.reading.primary_key)

    @property
    def partition_by(self) -> list[str]:
        """How new files are partitioned, as ``create_table`` takes it."""
        found = []
        metadata = self._metadata
        for item in metadata.spec():
            name = metadata.column_name(item.source_id)
            if name is not None and item.transform != "void":
                found.append(partition_text(item.transform, name))
        return found

    @property
    def layout_by(self) -> Layout | None:
        """Which rows come into one new file, as ``create_table`` takes it as ``layout``."""
        metadata = self._metadata
        return layout_of(metadata.properties, metadata.column_name)

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return self._metadata.properties

    @property
    def location(self) -> str:
        """Where its files lie."""
        return self._metadata.location

    @property
    def iceberg(self) -> Any:
        """The table as pyiceberg has it, in the version of this handle."""
        return self._metadata.ice

    @property
    def metadata_location(self) -> str:
        """The metadata file of this handle's version, which any Iceberg reader takes."""
        return self._metadata.metadata_file

    @property
    def num_rows(self) -> int:
        """Number of live rows. Cost: delete files are read, if there are any."""
        plan = self.current.plan
        if not plan.has_deletes and all(manifest.rows >= 0 for manifest in plan.manifests):
            return sum(manifest.rows for manifest in plan.manifests)
        return self.current.num_rows

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
        self._check_open()
        at = self._at
        return at.rows, at.metadata.cubes(at.snapshot)

    def plan_sample(
        self, fraction: float, *, seed: int | None = None, filter: Filter = None
    ) -> SamplePlan:
        """Which rows of which files :meth:`sample` takes, for other processes that read them."""
        rows, cubes = self._rows_and_cubes()
        return plan_sample(rows, cubes, checked_fraction(fraction), seed, filter)

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
        rows = [_history_row(item) for item in self._at.newest.snapshots]
        return pa.Table.from_pylist(rows, schema=_HISTORY)

    # ------------------------------------------------------------------ changes

    def append(
        self,
        data: Tabular,
        *,
        presorted: bool = False,
        progress: ProgressArg = None,
        batch: Batch | None = None,
    ) -> Commit:
        """Adds rows.

        Args:
            data: tabular data with the table's columns in any order; a missing column is null.
                Buffers of a batch may not be used again for a later one.
            presorted: rows arrive in the order of the cluster key, which is verified.
            progress: ``True`` for a bar, or called as ``progress(rows_done, rows_total)``.
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

        def made(metadata: ice.Metadata, files_of: FilesOf) -> RowChange:
            files = write_rows(data, target_of(metadata), presorted=presorted, progress=progress)
            try:
                return Append(files, files_of, self._new_keys(metadata, files))
            except BaseException:
                discard(files)
                raise

        return self.commit_change(made, batch, what="append")

    def _new_keys(self, metadata: ice.Metadata, files: Sequence[DataFile]) -> NewKeys | None:
        primary = metadata.primary_key()
        if not primary:
            return None
        reading = self._reading(metadata, metadata.schema_id)
        tables = [reading.child(file, keep=False).to_table(primary) for file in files]
        return NewKeys(primary, pa.concat_tables(tables)) if tables else None

    def delete(
        self,
        filter: Filter = None,
        *,
        keys: ManyKeys | None = None,
        params: Parameters = None,
        batch: Batch | None = None,
    ) -> Commit:
        """Removes rows: those that pass a filter, or those with some primary keys.

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

        def made(metadata: ice.Metadata, files_of: FilesOf) -> RowChange:
            if keys is None:
                parse_filter(filter, metadata.schema())
                return DeleteWhere("delete", (), files_of, filter)
            primary = metadata.primary_key()
            if not primary:
                raise InvalidArgumentError(f"delete: {self.name} has no primary key; give a filter")
            return DeleteKeys(files_of, given_keys(files_of(metadata), keys, primary))

        return self.commit_change(made, batch, what="delete")

    def upsert(
        self,
        data: Tabular,
        *,
        update: str | Sequence[str] | None = None,
        when_matched: WhenMatched = "update",
        duplicates: Duplicates = "error",
        batch: Batch | None = None,
    ) -> Commit:
        """Inserts rows whose primary keys are new, and replaces the rows that have the others.

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
        return self.commit_change(
            lambda metadata, files_of: upsert_change(
                data,
                metadata,
                files_of,
                update=update,
                when_matched=when_matched,
                duplicates=duplicates,
            ),
            batch,
            what="upsert",
        )

    def merge(
        self,
        data: Tabular,
        on: On = None,
        *,
        duplicates: Duplicates = "error",
        batch: Batch | None = None,
    ) -> Merge:
        """Brings rows together with those of the table that have their keys, clause by clause.

        Beside other commits it takes effect as if it had come after them.

        Args:
            data: tabular data, the source; it may have columns of its own for conditions.
            on: equal columns: a name, several, or ``{source column: column of the table}``; the
                default is the primary key. Rows with a null in one match nothing. Where no index
                is on them, all their values are read.
            duplicates: see :meth:`upsert`.
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

        def execute(merge: Merge) -> Commit:
            def made(metadata: ice.Metadata, files_of: FilesOf) -> RowChange:
                plan = merge.plan(metadata)
                return plan.change(plan.keyed(data, duplicates), files_of)

            return self.commit_change(made, batch, what="merge")

        return Merge(execute, on, self.name)

    def overwrite(
        self,
        data: Tabular,
        *,
        filter: Filter = None,
        params: Parameters = None,
        progress: ProgressArg = None,
        batch: Batch | None = None,
    ) -> Commit:
        """Replaces rows in one step: those that pass a filter, or all.

        Args:
            data: see :meth:`append`; the new rows need not pass the filter.
            filter, params: as for :meth:`scan`; without a filter all rows are replaced.
            batch: see :meth:`append`.

        Raises:
            As :meth:`append`.
        """
        filter = with_params(filter, params)

        def made(metadata: ice.Metadata, files_of: FilesOf) -> RowChange:
            target = target_of(metadata)
            if filter is None:  # none of the rows before stays
                target = replace(target, rows_before=0)
            else:
                parse_filter(filter, metadata.schema())
            files = write_rows(data, target, progress=progress)
            try:
                change = DeleteWhere("overwrite", files, files_of, filter)
                change.keys = self._new_keys(metadata, files)
            except BaseException:
                discard(files)
                raise
            return change

        return self.commit_change(made, batch, what="overwrite")

    def convert(self, data_format: DataFormat, *, progress: ProgressArg = None) -> Commit:
        """Writes all rows anew in another format, which new files have from then on.

        After a conversion to Parquet no manifest of the newest snapshot names a nimble file, so
        that every Iceberg engine reads it; snapshots of before stay as they were.

        Raises:
            ConflictError: the table was changed meanwhile.

        Cost: reads and writes all rows.
        """
        begin = time.perf_counter()
        metadata = self._newest()
        property = format_property(data_format)
        rows = self._current_files(metadata)
        target = replace(target_of(metadata), data_format=data_format, rows_before=0)
        files = write_rows(rows.scan().to_reader(), target, progress=progress)
        change = Conversion(files, self._current_files, metadata, property)
        done = self._commit(change, begin, "convert")
        if not property.items() <= self._metadata.properties.items():  # there were no rows
            self._set_property(property)
        return done

    def _set_property(self, properties: dict[str, str]) -> None:
        def attempt(metadata: ice.Metadata) -> ice.Metadata:
            evolution = ice.Evolution(metadata)
            evolution.set_properties(properties)
            return evolution.commit()

        def is_made(metadata: ice.Metadata) -> bool:
            return properties.items() <= metadata.properties.items()

        self._move(swapped(self._reload(), self._reload, attempt, is_made))
        _log.info("%s: properties set: %s", self.name, ", ".join(properties))

    def compact(
        self,
        *,
        filter: Filter = None,
        target_bytes: int = 256 << 20,
        where_needed: bool = True,
        progress: ProgressArg = None,
    ) -> Commit:
        """Replaces files by fewer and larger ones with the same rows, in one commit.

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
        return compact(wanted, partial(self.commit_change, what="compact"))

    def optimize_layout(
        self, *, budget_bytes: int | None = None, progress: ProgressArg = None
    ) -> Commit:
        """Writes files anew where filters gain the most by it, in one commit.

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
        commit = partial(self.commit_change, what="optimize_layout")
        return optimize(commit, budget=most, progress=progress)

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
        begin = time.perf_counter()
        given = paths_of(paths, "add_files")
        metadata = self._newest()
        if metadata.name_mapping is None:
            self._set_property({ice.NAME_MAPPING: metadata.new_name_mapping()})
            metadata = self._newest()
        defaults = metadata.defaults(None)
        files = describe_files(given, target_of(metadata), metadata.mapped_names(), defaults)
        change = Append(files, self._current_files, self._new_keys(metadata, files))
        change.owned = False
        return self._commit(change, begin, "add_files")

    def write_target(self) -> Target:
        """What files are like that other processes write for this table; it pickles.

        They write them with :func:`nimblepy.table.distributed.write_rows`, describe them, and
        :meth:`commit_files` makes them part of the table.
        """
        return target_of(self._newest())

    def commit_files(
        self,
        files: Sequence[DataFile],
        *,
        mode: Mode = "append",
        filter: Filter = None,
        partition_overwrite: PartitionOverwrite = "static",
        batch: Batch | None = None,
    ) -> Commit:
        """Commits files that other processes have written for this table, in one step.

        A caller who does not know whether they were committed may commit exactly the same files
        again: they become part of the table once. That holds as long as it has them, and after
        their rows were moved to other files, by a compaction for example, until 32 more commits of
        files. After a rollback to before their commit they can be committed again.

        Args:
            files: what :func:`nimblepy.table.distributed.write_rows` gave there.
            mode: ``"append"``; ``"overwrite"``, of the rows that pass ``filter``, or of all;
                ``"upsert"``, by the primary key.
            partition_overwrite: ``"dynamic"`` overwrites the partitions that the files have rows
                of, and no others.
            batch: (name, number): nothing is changed where this or a later batch of that name is
                part of the table; the files are removed.

        Raises:
            InvalidArgumentError: the table has some of the files, but not all; or some were written
                for another table, and none is removed.
            FileNotFoundError: a file does not exist any more, as after a rollback and an expiry:
                write its rows again.
            As :meth:`append` and :meth:`upsert`. After any error the table is as it was, and the
            files that it does not name are removed.

        Cost: three files of metadata, and the paths of the table's files are looked at; with a
            primary key, the keys of the files are read. Of files in a store, a request each tells
            whether they exist. If nothing is committed, all manifests are
            read before files are removed.
        """
        begin = time.perf_counter()
        files = list(files)
        check_staged(files, self._metadata)
        if len({file.path for file in files}) < len(files):
            raise InvalidArgumentError("commit_files: a file is given twice")
        try:
            metadata = self._newest()
            if files and were_staged(metadata, files):  # they may be gone, as after a compaction
                return self._nothing_done(metadata, begin, "commit_files")
            named = None if batch is None else checked_batch(batch)
            if named is None or not batch_is_done(metadata, named):
                check_present(files, metadata)
            change = staged_change(
                files,
                metadata,
                self._current_files,
                self._new_keys,
                self._reading(metadata, metadata.schema_id),
                mode,
                filter,
                partition_overwrite,
            )
            change.batch, change.begun = named, metadata
            change.staged, change.named = files, self._named_files
        except BaseException:
            # If the table is gone, it may have been renamed, and have the files.
            with contextlib.suppress(ConflictError):
                known = self._named_files()
                discard([file for file in files if file.path not in known])
            raise
        return self._commit(change, begin, "commit_files")

    def _named_files(self) -> set[str]:
        """Paths of all that the newest metadata names."""
        newest = reloaded(self._metadata, self._reload)
        return {path for part in reachable_files(newest) for path in part.to_pylist()}

    def has_batch(self, batch: Batch) -> bool:
        """Whether this batch, or a later one of its name, is part of the newest snapshot."""
        return batch_is_done(self._newest(), checked_batch(batch))

    def _current_files(self, metadata: ice.Metadata) -> FileSet:
        """The rows of the newest snapshot, with the newest schema."""
        reading = self._reading(metadata, metadata.schema_id)
        return FileSet(reading, SnapshotPlan(metadata, metadata.head(), metadata.schema_id))

    def _newest(self) -> ice.Metadata:
        """The newest metadata, to be changed.

        Raises:
            InvalidArgumentError: this handle is one of the past, or was closed.
            ConflictError: the table was dropped or renamed.
            UnsupportedVersionError: the table is in a version of Iceberg that is not written.
        """
        self._check_open()
        if self._pinned:
            raise InvalidArgumentError(
                f"{self.name} was opened at {self._pinned}, and is read only; "
                f"catalog.table({self.name!r}) gives the table itself"
            )
        metadata = reloaded(self._metadata, self._reload)
        if metadata.format_version != 2:
            raise UnsupportedVersionError(
                f"{self.name} has version {metadata.format_version} of Iceberg's format; nimblepy "
                "writes version 2"
            )
        return metadata

    def _reload(self) -> ice.Metadata:
        self._check_open()
        newest = self.catalog.load(self._metadata.name)
        if newest.uuid != self._metadata.uuid:
            raise ConflictError(
                f"{self.name}: it was dropped or renamed, and another made of its name",
                kind="table",
            )
        return newest

    def transaction(self) -> Transaction:
        """Several reads and changes in one commit, when the block ends.

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
        commit = partial(self._commit, what="transaction")
        return Transaction(self._newest(), self._current_files, commit)

    def commit_change(
        self,
        make: Callable[[ice.Metadata, FilesOf], RowChange],
        batch: Batch | None = None,
        *,
        what: str = "change",
    ) -> Commit:
        """Makes a change for the newest metadata, and commits it.

        Args:
            make: gets the metadata, and what gives the rows of the newest snapshot of any.
            batch: what it adds; where that is there already, nothing is made.
            what: what the log calls it.
        """
        begin = time.perf_counter()
        named = None if batch is None else checked_batch(batch)
        metadata = self._newest()
        if named is not None and batch_is_done(metadata, named):
            return self._nothing_done(metadata, begin, what)
        change = make(metadata, self._current_files)
        change.batch, change.begun = named, metadata
        return self._commit(change, begin, what)

    def _commit(self, change: RowChange, begin: float, what: str) -> Commit:
        """Commits a change, planned for what is the newest now: its files may have taken long."""
        try:
            metadata = self._newest()
            if change.is_done(metadata):
                change.discard()
                something = False
            else:
                something = change.needed(metadata)
        except BaseException:
            change.discard()
            raise
        done = run(change, metadata, self._reload) if something else None
        if done is None:
            return self._nothing_done(reloaded(self._metadata, self._reload), begin, what)
        newest, retries = done
        expired = expire_by_default(newest, self._reload)
        self._move(expired)
        if expired is not newest:
            self._close_removed_files()
        made = Commit(
            snapshot=change.commit.snapshot,
            rows_inserted=change.inserted,
            rows_updated=change.updated,
            rows_deleted=change.deleted,
            files_added=len(change.commit.added),
            files_removed=change.files_removed,
            bytes_written=sum(file.bytes for file in change.commit.added),
            retries=retries,
            seconds=time.perf_counter() - begin,
        )
        _log.info(
            "%s: %s: snapshot %s; rows: %d inserted, %d updated, %d deleted; files: %d added, "
            "%d removed; %d retries, %.3f s",
            self.name,
            what,
            made.snapshot,
            made.rows_inserted,
            made.rows_updated,
            made.rows_deleted,
            made.files_added,
            made.files_removed,
            made.retries,
            made.seconds,
        )
        return made

    def _nothing_done(self, newest: ice.Metadata, begin: float, what: str) -> Commit:
        self._move(newest)
        _log.info("%s: %s: nothing to change", self.name, what)
        return Commit(snapshot=_id_of(newest.head()), seconds=time.perf_counter() - begin)

    def _move(self, newest: ice.Metadata) -> None:
        """Moves this handle to the newest snapshot and schema of some metadata.

        If another thread has moved it further meanwhile, it stays there.
        """
        left: list[_Position] = []

        def following(at: _Position) -> _Position:
            if at.metadata.is_newer_than(newest):
                return at
            if at.shows(newest):  # then what is planned and open stays so
                self._reading(newest, newest.schema_id)
                at.rows.plan.learn(newest)
                moved = replace(at, metadata=newest, snapshot=newest.head())
            else:
                moved = self._position_at(newest, newest.head(), newest.schema_id)
                left.append(at)
            return replace(moved, newest=at.newest if at.newest.is_newer_than(newest) else newest)

        self.move(following)
        for at in left:
            at.rows.plan.is_past = True
        if left:
            self._close_old_readings()
            # The handle has moved; if metadata cannot be read, the next move looks again.
            with contextlib.suppress(OSError, NimbleError):
                self.current.close_left_files()

    def _close_old_readings(self) -> None:
        """Closes the files that are read with columns that this handle no longer shows.

        Files that left the table are closed when the files of the new snapshot are planned.
        """
        reading = self._at.rows.reading
        for key, other in list(self._readings.items()):
            if other is not reading:
                self._readings.pop(key, None)
                other.close_unless(lambda paths: [False] * len(paths))

    def _close_removed_files(self) -> None:
        """Closes files that were removed, so that the system frees their space."""
        self._at.rows.reading.close_unless(exist)

    def _learn(self, newest: ice.Metadata) -> None:
        """Moves this handle to metadata in which it has changed neither rows nor columns.

        If somebody else has changed these, the handle goes on showing the rows and columns that it
        shows.
        """

        def following(at: _Position) -> _Position:
            if at.newest.is_newer_than(newest):
                return at
            if at.shows(newest):
                at.rows.plan.learn(newest)
                at = replace(at, metadata=newest, snapshot=newest.head())
            return replace(at, newest=newest)

        self.move(following)

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
        return self.asked_for_changes(since, until, columns).reader()

    def asked_for_changes(
        self, since: int | str | None, until: int | str | None, columns: Columns
    ) -> WantedChanges:
        """What :meth:`changes` reads; nothing is read of it yet."""
        self._check_open()
        at = self._at
        metadata = at.newest
        given = [name for name in (since, until) if name is not None]
        if any(metadata.named(name) is None for name in given):
            metadata = self._reload()
        names = column_names(columns)
        return WantedChanges(
            metadata,
            at.schema_id,
            at.rows.reading,
            steps(metadata, since, _id_of(at.snapshot) if until is None else until),
            names,
            changes_schema(at.rows.reading, at.rows.projected(names)),
        )

    def changes_schema(self, columns: Columns = None) -> pa.Schema:
        """The columns that :meth:`changes` has, whatever the snapshots."""
        rows = self.current
        return changes_schema(rows.reading, rows.projected(column_names(columns)))

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
        return Alter(self._newest(), self._reload, self._altered)

    def _altered(self, newest: ice.Metadata) -> None:
        self._move(newest)
        columns = len(newest.schema())
        _log.info("%s: alter: schema %d, %d columns", self.name, newest.schema_id, columns)

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
        metadata = self._reload()
        kind, value = named[0]
        found = self._snapshot_of(metadata, kind, value)
        schema_id = metadata.schema_id if found.schema_id is None else found.schema_id
        return Table(self.catalog, metadata, at=(found, schema_id), pinned=f"{kind} {value}")

    def _snapshot_of(self, metadata: ice.Metadata, kind: str, value: Any) -> Snapshot:
        if kind == "snapshot":
            return self._known(metadata, value)
        if kind == "time":
            found = metadata.snapshot_at(instant_ms(value, "at(time=)"))
            if found is None:
                raise InvalidArgumentError(
                    f"{self.name} had no rows yet at {value}, or they expired"
                )
            return found
        reference = metadata.references.get(value)
        if reference is None or reference.kind != kind:
            there = [name for name, ref in metadata.references.items() if ref.kind == kind]
            raise InvalidArgumentError(
                f"{self.name} has no {kind} {value!r}; it has {', '.join(sorted(there)) or 'none'}"
            )
        return self._known(metadata, reference.snapshot)

    def _known(self, metadata: ice.Metadata, number: Any) -> Snapshot:
        found = metadata.snapshot(int(number)) if isinstance(number, Integral) else None
        if isinstance(number, str) and number in (names := self.tags | self.branches):
            raise InvalidArgumentError(
                f"{self.name}: expected the id of a snapshot, got the name {number!r}, which "
                f"stands for {names[number]}"
            )
        if found is None:
            raise InvalidArgumentError(
                f"{self.name} has no snapshot {number!r}: it has expired, or never was; "
                "snapshots() lists those that there are"
            )
        return found

    @property
    def tags(self) -> dict[str, int]:
        """Snapshots by the names of tags."""
        return self._references("tag")

    @property
    def branches(self) -> dict[str, int]:
        """Newest snapshots by the names of branches; ``main`` is the table itself."""
        return self._references("branch")

    def _references(self, kind: str) -> dict[str, int]:
        found = self._at.newest.references.items()
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

    def _refer(self, name: str, kind: str, snapshot: int | None) -> Table:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise InvalidArgumentError(f"{kind}: expected a name, got {name!r}")
        wanted = self.snapshot if snapshot is None else snapshot
        if wanted is None:
            raise InvalidArgumentError(f"{kind} {name!r}: {self.name} has no snapshot yet")

        def change(metadata: ice.Metadata) -> ice.Metadata:
            known = metadata.references.get(name)
            if known is not None:
                raise InvalidArgumentError(
                    f"{self.name} has a {known.kind} {name!r} already, at {known.snapshot}"
                )
            return ice.set_reference(metadata, name, self._known(metadata, wanted).id, kind, None)

        def is_made(metadata: ice.Metadata) -> bool:
            known = metadata.references.get(name)
            return known is not None and (known.kind, known.snapshot) == (kind, wanted)

        self._learn(swapped(self._newest(), self._reload, change, is_made))
        _log.info("%s: %s %r names snapshot %s", self.name, kind, name, wanted)
        return self

    def drop_reference(self, name: str) -> Table:
        """Forgets a tag or branch; its snapshot may expire then."""

        def change(metadata: ice.Metadata) -> ice.Metadata:
            known = metadata.references.get(name)
            if name == ice.MAIN:
                raise InvalidArgumentError(
                    f"{self.name}: {name!r} cannot be dropped: it is the table itself"
                )
            if known is None:
                raise InvalidArgumentError(f"{self.name} has no tag or branch {name!r} to drop")
            return ice.remove_reference(metadata, name, known.snapshot)

        def is_made(metadata: ice.Metadata) -> bool:
            return name not in metadata.references

        self._learn(swapped(self._newest(), self._reload, change, is_made))
        _log.info("%s: tag or branch %r dropped", self.name, name)
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
        metadata = self._newest()
        snapshot = self._known(metadata, snapshot).id
        seen = self.snapshot

        def change(newest: ice.Metadata) -> ice.Metadata:
            winner = newest.head()
            if winner is None or winner.id != seen:
                newer = "none" if winner is None else winner.id
                raise ConflictError(
                    f"{self.name}: the newest snapshot is {newer}, and this handle shows "
                    f"{'none' if seen is None else seen}; "
                    "refresh() shows the newest",
                    kind="reference",
                    base=seen,
                    winner=None if winner is None else winner.id,
                )
            self._known(newest, snapshot)
            return ice.set_reference(newest, ice.MAIN, snapshot, "branch", seen)

        def is_made(newest: ice.Metadata) -> bool:
            winner = newest.head()
            return winner is not None and winner.id == snapshot

        self._move(swapped(metadata, self._reload, change, is_made))
        _log.info("%s: rollback: from snapshot %s to %s", self.name, seen, snapshot)
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
        done = expire(self._newest(), self._reload, keep, older_than, dry_run=dry_run)
        self._learn(self._reload())
        self._close_removed_files()
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
        self._newest()
        return remove_orphans(self._reload, older_than, dry_run)

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
        newest, done = rewrite_manifests(self._newest(), self._reload, whole=whole)
        self._move(newest)
        _log.info("%s: rewrite_manifests: %s", self.name, done)
        return done

    def health(self) -> Health:
        """How the files and the metadata of the newest snapshot are, with advice.

        Its text is for people, its fields for programs, and its ``to_svg()`` is a picture.

        Cost: describes every file, from the plan index or the manifests. Data files are opened
            only where the layout is an OTree: a sample of its columns is read.
        """
        metadata = self._reload()
        return health(self._current_files(metadata), metadata)

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
        return self.analyze_by(look, columns)

    def analyze_by(self, looking: Looking, columns: Sequence[ColumnName] | None) -> Analysis:
        """:meth:`analyze`, whose values others look at."""
        metadata = self._newest()
        rows = self._current_files(metadata)
        newest, found = analyze(rows, metadata, self._reload, columns, looking)
        self._move(newest)
        _log.info("%s: analyze: snapshot %s", self.name, _id_of(newest.head()))
        return found

    def optimize(self, *, budget_bytes: int | None = None) -> dict[str, Any]:
        """Does what :meth:`health` advises: each action's name, with what it returned.

        Args:
            budget_bytes: as for :meth:`optimize_layout`.

        Raises:
            As :meth:`compact`, :meth:`optimize_layout`, :meth:`rewrite_manifests`,
            :meth:`expire` and :meth:`analyze`.
        """
        target = target_of(self._newest()).target_bytes
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
        metadata, wanted = self.asked_for_keys(keys, on)
        return files_for_keys(metadata, data_manifests(metadata), wanted)

    def asked_for_keys(self, keys: ManyKeys, on: ColumnName | None) -> tuple[ice.Metadata, KeysOf]:
        """The newest metadata, and what :meth:`files_for_keys` looks for in it."""
        if on is None and not self.cluster_by:
            raise InvalidArgumentError(f"{self.name}: no cluster key; say which column with on=")
        metadata = self._reload()
        column = self.cluster_by[0].column if on is None else on
        return metadata, keys_of(keys, column, metadata.schema())

    def census(self) -> pa.Table:
        """Every file below the table's location and every file that its snapshots name.

        ``path``, ``bytes``, ``kind`` (data, deletes, manifest, manifest list, plan index, metadata,
        cubes, statistics, expiry), ``reachable``, and the ids of the ``snapshots`` that name it.
        """
        return census(self._reload)

    # ------------------------------------------------------------------ handles

    def refresh(self) -> Table:
        """Moves this handle to the newest snapshot and schema, and returns it.

        Raises:
            InvalidArgumentError: the table was dropped, or the handle is one of the past.

        Cost: one read, of the metadata file.
        """
        if self._pinned:
            raise InvalidArgumentError(f"{self.name} was opened at {self._pinned}, and stays there")
        newest = self._reload()
        if newest.metadata_file != self._metadata.metadata_file:
            self._move(newest)
            self._close_removed_files()
        elif not self._at.shows(newest):  # an unpickled handle
            self._move(newest)
        return self

    def close(self) -> None:
        """Lets go of open files; results that were handed out stay valid.

        Whatever reads or changes the table, and :meth:`refresh`, raises from then on. What the
        handle knows is still said: name, snapshot, :meth:`snapshots`, properties, tags.
        """
        self._closed = True
        for reading in self._readings.values():
            reading.close()
        self.release()

    def __reduce__(self) -> tuple[Any, ...]:
        at = self._at
        name, uuid, snapshot = at.metadata.name, at.metadata.uuid, _id_of(at.snapshot)
        return _reopen, (self.catalog, name, uuid, snapshot, at.schema_id, self._pinned)

    def __repr__(self) -> str:
        at = f" at {self._pinned}" if self._pinned else ""
        shown = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot}"
        rows = "closed" if self._closed else f"{len(self.schema)} columns"
        return f"<nimblepy.Table {self.name!r}{at}: {shown}, {rows}>"


def _reopen(
    catalog: Tables,
    name: tuple[str, ...],
    uuid: str,
    snapshot: int | None,
    schema_id: int,
    pinned: str | None,
) -> Table:
    """The table at the same snapshot, with the same columns, as long as it is not expired."""
    metadata = catalog.load(name)
    if metadata.uuid != uuid:
        raise ConflictError(
            f"{'.'.join(name)}: it was dropped or renamed, and another made of its name",
            kind="table",
        )
    found = None if snapshot is None else metadata.snapshot(snapshot)
    if snapshot is not None and found is None:
        raise InvalidArgumentError(f"{'.'.join(name)}: snapshot {snapshot} has expired")
    return Table(catalog, metadata, at=(found, schema_id), pinned=pinned)


_HISTORY = pa.schema(
    [
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("parent_id", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("user", pa.string()),
        pa.field("rows_inserted", pa.int64()),
        pa.field("rows_updated", pa.int64()),
        pa.field("rows_deleted", pa.int64()),
        pa.field("files_added", pa.int64()),
        pa.field("files_removed", pa.int64()),
        pa.field("bytes_written", pa.int64()),
    ]
)
# pandas has nullable integers for these columns; it would make floats of ids, which lose digits.
_HISTORY = _HISTORY.with_metadata(
    {
        "pandas": json.dumps(
            {
                "index_columns": [],
                "column_indexes": [],
                "columns": [
                    {
                        "name": item.name,
                        "field_name": item.name,
                        "pandas_type": "int64",
                        "numpy_type": "Int64",
                        "metadata": None,
                    }
                    for item in _HISTORY
                    if pa.types.is_int64(item.type)
                ],
            }
        )
    }
)


def _history_row(snapshot: Snapshot) -> dict[str, Any]:
    summary = snapshot.summary

    def number(*names: str) -> int | None:
        found = [count for name in names if (count := snapshot.figure(name)) is not None]
        return sum(found) if found else None

    return {
        "snapshot_id": snapshot.id,
        "parent_id": snapshot.parent,
        "timestamp": datetime.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, datetime.UTC),
        "operation": snapshot.operation,
        "user": summary.get("nimblepy.user"),
        "rows_inserted": number("nimblepy.rows-inserted"),
        "rows_updated": number("nimblepy.rows-updated"),
        "rows_deleted": number("nimblepy.rows-deleted"),
        "files_added": number("added-data-files", "added-delete-files") or 0,
        "files_removed": number("deleted-data-files", "removed-delete-files") or 0,
        "bytes_written": number("added-files-size") or 0,
    }
