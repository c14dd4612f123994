"""Handles on a table: which snapshot and schema they show, and how they move to newer ones."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from nimblepy.errors import (
    ConflictError,
    InvalidArgumentError,
    NimbleError,
    UnsupportedVersionError,
)
from nimblepy.file.versions import Looks, VersionedRows
from nimblepy.rows.rows import Getters, Position, getters_for
from nimblepy.schema.field_ids import without_field_ids
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import MAIN, Snapshot
from nimblepy.table.base.places import exist
from nimblepy.table.reading.fileset import FileSet, Specs, reading_of
from nimblepy.table.reading.members import Reading
from nimblepy.table.reading.parquet_index import PARQUET_INDEXES
from nimblepy.table.reading.plan import SnapshotPlan
from nimblepy.table.upkeep.maintain import expire_by_default
from nimblepy.table.writing.commit import check_branch, dropped
from nimblepy.table.writing.settings import declared_indexes


class Tables(Protocol):
    """The part of a catalog that a table uses."""

    def load(self, parts: tuple[str, ...], newest: ice.Metadata | None = None) -> ice.Metadata:
        """Loads the newest metadata of a table. Returns ``newest`` if it is still the newest."""


@dataclass(frozen=True, slots=True, eq=False)
class TablePosition(Position[FileSet]):
    """Everything that a handle shows, at one point in time.

    Attributes:
        metadata: the version of the table that contains the snapshot and the schema.
        snapshot: the snapshot that the handle reads; ``None`` before the first commit.
        schema_id: the schema of the columns.
        newest: the newest version that the handle knows; tags, branches and the history are read
            from it. It is newer than ``metadata`` if this handle made a tag after another writer
            changed rows or columns.
    """

    metadata: ice.Metadata
    snapshot: Snapshot | None
    schema_id: int
    newest: ice.Metadata

    def shows(self, metadata: ice.Metadata) -> bool:
        """Returns whether the position shows the newest rows and columns of ``metadata``."""
        # Compare ids, because the snapshot objects differ after the parent has expired.
        return (id_of(self.snapshot), self.schema_id, _form_of(self.metadata)) == (
            id_of(metadata.head()),
            metadata.schema_id,
            _form_of(metadata),
        )


def id_of(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.id


def _form_of(metadata: ice.Metadata) -> tuple[object, ...]:
    """Returns the settings that, besides the schema, decide how files are read and written."""
    indexes = metadata.properties.get(PARQUET_INDEXES)
    orders = metadata.sort_order_id, metadata.spec_id
    return *orders, metadata.name_mapping, metadata.has_row_ids, indexes


class TableHandle(VersionedRows[FileSet]):
    """A handle on one snapshot of a table. :class:`TableState` moves it."""

    _position: TablePosition

    def __init__(
        self,
        catalog: Tables,
        metadata: ice.Metadata,
        *,
        at: tuple[Snapshot | None, int] | None = None,
        pinned: str | None = None,
        branch: str = MAIN,
    ) -> None:
        """Opens a handle on the newest snapshot of a branch, or on an older snapshot.

        Args:
            at: the older snapshot and the id of the schema that it is read with.
            pinned: the snapshot or tag that a read-only handle was opened at.
        """
        metadata = metadata.on(branch)
        self.catalog = catalog
        self._closed = False
        self._pinned = pinned
        self._looks = Looks()
        self._readings: dict[Any, Reading] = {}
        self._specs = Specs(metadata)
        snapshot, schema_id = at or (metadata.head(), metadata.schema_id)
        # The schema of the files, and the same schema without field ids.
        self._shown_schema: tuple[pa.Schema | None, pa.Schema] = None, pa.schema([])
        super().__init__(self._position_at(metadata, snapshot, schema_id))

    @property
    def _current(self) -> FileSet:
        self._check_open()
        return super()._current

    @property
    def schema(self) -> pa.Schema:
        """Columns and types. The metadata of a field has its documentation under ``doc``.

        Field ids are in :attr:`iceberg`, not here.
        """
        self._check_open()
        at = self._at
        before, shown = self._shown_schema
        if at.rows.schema is not before:
            docs = at.metadata.docs(at.schema_id)
            shown = without_field_ids(at.rows.schema, docs)
            self._shown_schema = at.rows.schema, shown
        return shown

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError(f"this table is closed: {'.'.join(self._metadata.name)}")

    def _position_at(
        self, metadata: ice.Metadata, snapshot: Snapshot | None, schema_id: int
    ) -> TablePosition:
        reload = partial(self.catalog.load, metadata.name)  # `partial` keeps no reference to `self`
        plan = SnapshotPlan(metadata, snapshot, schema_id, reload)
        rows = FileSet(self._reading(metadata, schema_id, snapshot), plan)
        return TablePosition(rows, metadata, snapshot, schema_id, metadata)

    @property
    def _at(self) -> TablePosition:
        """The position of this handle.

        Read facts that must be consistent from one position, because a thread may move the handle.
        """
        return self._position

    @property
    def _metadata(self) -> ice.Metadata:
        return self._at.metadata

    @property
    def _snapshot(self) -> Snapshot | None:
        return self._at.snapshot

    def _reading(
        self, metadata: ice.Metadata, schema_id: int, snapshot: Snapshot | None
    ) -> Reading:
        # Open files know for which indexes they are searched.
        declared = tuple(declared_indexes(metadata, schema_id, snapshot))
        indexes = declared, metadata.properties.get(PARQUET_INDEXES)
        form = metadata.sort_order_id, metadata.name_mapping, metadata.has_row_ids, indexes
        key = (metadata.uuid, schema_id, *form)
        self._specs.learn(metadata)
        reading = self._readings.get(key)
        schema = metadata.schema(schema_id)
        # Two commits that add different columns may both use this schema id; only one of them wins.
        if reading is None or not (reading.schema is schema or reading.schema.equals(schema, True)):
            reading = self._readings[key] = reading_of(metadata, schema_id, self._specs)
            reading.open_files.add_holder(self._release)
            reading.indexes = declared
        return reading

    def close(self) -> None:
        """Closes its files. Results that were returned remain valid.

        Methods that read or change the table, and ``refresh()``, raise an error from then on. What
        the handle knows is still available: name, snapshot, history, properties, tags.
        """
        self._closed = True
        # A thread that moved the handle may have taken a reading out of `_readings` meanwhile.
        for reading in {*self._readings.copy().values(), self._at.rows.reading}:
            reading.close()
        self._release()

    def __reduce__(self) -> tuple[Any, ...]:
        at = self._at
        name, uuid, snapshot = at.metadata.name, at.metadata.uuid, at.snapshot
        if snapshot is not None:
            snapshot = replace(snapshot, summary=dict(snapshot.summary))
        opened = (self.catalog, name, uuid, snapshot, at.schema_id, self._pinned)
        return _reopen, (type(self), *opened, at.metadata.branch)


def _reopen(
    kind: type[TableHandle],
    catalog: Tables,
    name: tuple[str, ...],
    uuid: str,
    snapshot: Snapshot | None,
    schema_id: int,
    pinned: str | None,
    branch: str,
) -> TableHandle:
    """Returns a handle at the same snapshot with the same columns.

    If the snapshot has expired, reads of the handle raise StaleFileError, as reads of the pickled
    handle do.
    """
    metadata = catalog.load(name)
    if metadata.uuid != uuid:
        raise ConflictError(
            f"{'.'.join(name)}: the table was dropped or renamed, and another table has its name",
            kind="table",
        )
    past = None if snapshot is None else metadata.snapshot(snapshot.id) or snapshot
    return kind(catalog, metadata, at=(past, schema_id), pinned=pinned, branch=branch)


@dataclass(frozen=True, slots=True, eq=False)
class TableState:
    """Gives changes that are made through a handle the newest state of the table.

    A :class:`nimblepy.table.writing.access.TableAccess`, made for each call.
    """

    handle: TableHandle

    @property
    def name(self) -> str:
        return ".".join(self.handle._metadata.name)

    @property
    def location(self) -> str:
        return self.handle._metadata.location

    @property
    def shown(self) -> TablePosition:
        """The position of the handle, even if it is closed."""
        return self.handle._at

    @property
    def position(self) -> TablePosition:
        """The position of the handle. Raises InvalidArgumentError if it is closed."""
        self.handle._check_open()
        return self.handle._at

    @property
    def pinned(self) -> str | None:
        """The snapshot, tag or branch that the handle was opened at."""
        return self.handle._pinned

    @property
    def branch(self) -> str:
        """The branch that the handle follows and writes to."""
        return self.handle._position.metadata.branch

    @property
    def is_closed(self) -> bool:
        return self.handle._closed

    def newest(self) -> ice.Metadata:
        """Reads the newest metadata for a change.

        Raises:
            InvalidArgumentError: the handle is read-only or closed.
            ConflictError: the table was dropped or renamed.
            UnsupportedVersionError: nimblepy does not write this version of Iceberg's format.
        """
        handle = self.handle
        if handle._closed:
            handle._check_open()
        if handle._pinned:
            raise InvalidArgumentError(
                f"{self.name} was opened at {handle._pinned} and is read-only; "
                f"open catalog.table({self.name!r}) to change the table"
            )
        shown = handle._position.metadata
        try:
            metadata = handle.catalog.load(shown.name, shown)
        except InvalidArgumentError:
            raise dropped(shown) from None
        if metadata.uuid != shown.uuid:
            raise self._replaced()
        if shown.branch != MAIN:
            metadata = metadata.on(shown.branch)
            check_branch(metadata)
        if metadata.format_version not in ice.VERSIONS:
            raise UnsupportedVersionError(
                f"{self.name} has version {metadata.format_version} of Iceberg's format; nimblepy "
                "writes the versions 2 and 3"
            )
        return metadata

    def reload(self) -> ice.Metadata:
        """Reads the newest metadata.

        Raises:
            InvalidArgumentError: the handle is closed.
            ConflictError: the table was dropped or renamed.
        """
        handle = self.handle
        handle._check_open()
        shown = handle._metadata
        try:
            newest = handle.catalog.load(shown.name, shown)
        except InvalidArgumentError:
            raise dropped(shown) from None
        if newest.uuid != shown.uuid:
            raise self._replaced()
        return newest.on(self.branch)

    def _replaced(self) -> ConflictError:
        return ConflictError(
            f"{self.name}: the table was dropped or renamed, and another table has its name",
            kind="table",
        )

    def rows(self, metadata: ice.Metadata) -> FileSet:
        """Returns the rows of the newest snapshot, with the newest schema."""
        plan = SnapshotPlan(metadata, metadata.head(), metadata.schema_id, self.reload)
        return FileSet(self.reading(metadata), plan)

    def reading(self, metadata: ice.Metadata) -> Reading:
        at = self.handle._position
        if metadata is at.metadata and at.schema_id == metadata.schema_id:
            return at.rows.reading
        return self.handle._reading(metadata, metadata.schema_id, metadata.head())

    # ------------------------------------------------------------------ moves of the handle

    def refresh(self) -> bool:
        """Moves the handle to the newest snapshot and schema. Returns whether it moved."""
        self.check_follows()
        before = self.shown.rows
        self.handle._looks.now()
        newest = self.reload()
        check_branch(newest)
        if newest.metadata_file != self.shown.metadata.metadata_file:
            self.show(newest, prepare=True)
            self.close_removed_files()
        elif not self.shown.shows(newest):  # an unpickled handle
            self.show(newest)
        return self.shown.rows is not before

    def check_follows(self) -> None:
        """Raises InvalidArgumentError if the handle stays at a snapshot, or is closed."""
        self.handle._check_open()
        if self.pinned:
            raise InvalidArgumentError(
                f"{self.name} was opened at {self.pinned}, so refresh() cannot move it; open the "
                "table again"
            )

    def refresh_if_older(self, seconds: float) -> bool:
        """Refreshes the handle, unless a thread has done so within the last ``seconds``.

        Of several threads one reads the metadata, and the others do not wait for it.
        """
        self.handle._check_open()
        return self.handle._looks.if_older(seconds, self.refresh)

    def show(self, newest: ice.Metadata, *, prepare: bool = False) -> None:
        """Moves the handle to the newest snapshot and schema of some metadata.

        The handle does not move backwards if another thread has moved it further.

        Args:
            prepare: Prepares the plan that ``get`` needs, before the handle moves.
        """
        handle = self.handle
        left: list[TablePosition] = []
        new = None
        getters: Getters = {}
        if prepare and not handle._at.shows(newest):
            new = handle._position_at(newest, newest.head(), newest.schema_id)
            # Ignore errors here: the next call that reads these files raises them.
            with contextlib.suppress(OSError, NimbleError):
                getters = getters_for(handle, new.rows)

        def following(at: TablePosition) -> TablePosition:
            if at.metadata.is_newer_than(newest):
                return at
            # Keep the plan and the open files, unless the table has other indexes now.
            if at.shows(newest) and at.rows.reading is self.reading(newest):
                at.rows.plan.learn(newest)
                moved = replace(at, metadata=newest, snapshot=newest.head())
            else:
                moved = new or handle._position_at(newest, newest.head(), newest.schema_id)
                left.append(at)
            return replace(moved, newest=at.newest if at.newest.is_newer_than(newest) else newest)

        handle._replace_position(following, None if new is None else (new.rows, getters))
        for at in left:
            at.rows.plan.is_past = True
        if left:
            self._close_old_readings()
            # The handle has moved, so ignore errors here: the next move tries to read the metadata
            # again.
            with contextlib.suppress(OSError, NimbleError):
                handle._current.close_left_files()

    def show_commit(self, metadata: ice.Metadata) -> None:
        """Expires old snapshots if the table has too many, and moves the handle."""
        newest = expire_by_default(metadata, self.reload)
        self.show(newest)
        if newest is not metadata:
            self.close_removed_files()

    def learn(self, newest: ice.Metadata) -> None:
        """Records newer metadata, after this handle changed something other than rows and columns.

        If another writer changed rows or columns, the handle keeps showing the old ones.
        """
        left: list[TablePosition] = []

        def following(at: TablePosition) -> TablePosition:
            if at.newest.is_newer_than(newest):
                return at
            if at.shows(newest) and at.rows.reading is self.reading(newest):
                at.rows.plan.learn(newest)
                at = replace(at, metadata=newest, snapshot=newest.head())
            elif at.shows(newest):
                left.append(at)
                at = self.handle._position_at(newest, newest.head(), newest.schema_id)
            return replace(at, newest=newest)

        self.handle._replace_position(following)
        for at in left:
            at.rows.plan.is_past = True
        if left:
            self._close_old_readings()

    def _close_old_readings(self) -> None:
        """Closes files that are read with columns that the handle no longer shows.

        Files that left the table are closed when the files of the new snapshot are planned.
        """
        handle = self.handle
        reading = handle._at.rows.reading
        for key, other in list(handle._readings.items()):
            if other is not reading:
                handle._readings.pop(key, None)
                other.close_unless(lambda paths: [False] * len(paths))

    def close_removed_files(self) -> None:
        """Closes files that were removed, so that the system frees their space."""
        self.handle._at.rows.reading.close_unless(exist)


def files_of(table: TableHandle) -> FileSet:
    """Returns the files that a handle reads now. Used by other modules of nimblepy."""
    return table._current


def share_position(table: TableHandle, position: TablePosition) -> None:
    """Makes a handle use the plan of another handle's position, and its open files that were
    removed.

    REQUIRES: ``table`` was opened at the same snapshot with the same columns.
    """
    reading = table._at.rows.reading
    plan = copy.copy(position.rows.plan)
    plan.is_past = False
    reading.open_files.share_removed(position.rows.reading.open_files, exist)
    table._position = replace(table._at, rows=FileSet(reading, plan))
