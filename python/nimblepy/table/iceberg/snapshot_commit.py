"""Commits snapshots: writes manifests and manifest lists; the catalog swaps the metadata."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    construct_partition_summaries,
)
from pyiceberg.table import Table as IceTable
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.snapshots import Snapshot as IceSnapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
)
from pyiceberg.typedef import Record

from nimblepy.io.lru_cache import LruCache
from nimblepy.io.sync import sync_path
from nimblepy.table.base.hooks import around_swap
from nimblepy.table.base.model import (
    BATCH_PREFIX,
    INDEXES,
    MAIN,
    PLAN_INDEX,
    VECTOR_METRICS,
    DataFile,
    Entry,
    Manifest,
    Snapshot,
)
from nimblepy.table.iceberg.applied import STAGED_FILES, batch_records, settled
from nimblepy.table.iceberg.avro import (
    container,
)
from nimblepy.table.iceberg.catalogs import NoSuchTable, SqliteCatalog, TableExists, load_table
from nimblepy.table.iceberg.kept_manifests import keep_manifest
from nimblepy.table.iceberg.local_io import local_path
from nimblepy.table.iceberg.manifest_forms import RECORD_VERSION, Records, ice_file
from nimblepy.table.iceberg.manifests import KEPT_VECTORS, new_files
from nimblepy.table.iceberg.metadata import (
    Metadata,
    kept_entries,
    kept_lists,
    manifest_form,
    plain_manifest,
)
from nimblepy.table.iceberg.statistics import moved_statistics
from nimblepy.table.otree.blocks import (
    BLOBS,
    MOST_BLOBS,
    Blocks,
    blob_names,
    new_blocks,
)

_DELETE_METADATA = "write.metadata.delete-after-commit.enabled"


_KEPT_RECORDS = 4096
# The place of a field in the record of a manifest.
_FIRST_ROW_ID = 15


# Manifests with at most this many files are merged into one when files are removed from them. New
# manifests of this size are cached.
_SHORT_MANIFEST = 64


# Encoded entries of manifest lists, by path, format version and first row id of the manifest.
_encoded: LruCache[bytes] = LruCache(_KEPT_RECORDS)


# The encoders of manifest lists, by format version.
LIST_RECORDS = {
    version: Records(
        "manifest_file",
        MANIFEST_LIST_FILE_SCHEMAS[version],
        MANIFEST_LIST_FILE_SCHEMAS[RECORD_VERSION],
    )
    for version in (2, 3)
}


def _write(output: OutputFile, octets: bytes) -> None:
    with output.create(overwrite=True) as sink:
        sink.write(octets)


# The old entry of a file, and its entry in a new manifest.
_Changed: TypeAlias = tuple[Entry, ManifestEntry]


class SwapLost(Exception):
    """Another commit was first.

    Attributes:
        certain: the swap certainly has not taken effect. If false, the catalog answered so, but may
            be wrong: a client that repeats a request can lose to its own first request.
    """

    def __init__(self, *, certain: bool = True) -> None:
        super().__init__()
        self.certain = certain


class SwapInDoubt(SwapLost):
    """The swap may have taken effect, or may take effect later. Its files must be kept."""

    def __init__(self) -> None:
        super().__init__(certain=False)


@dataclass
class SnapshotCommit:
    """Commits a new snapshot. Writes its files once, and can repeat attempts to commit it.

    Attributes:
        removed: Data files and delete files to remove from the table, by :attr:`DataFile.identity`.
        removed_deletes: The delete files of ``removed``, which data manifests do not list.
        repeated: Removed paths that the previous snapshot lists more than once.
        forget: Omit manifests whose files are all removed. Otherwise this snapshot keeps them as a
            record of the removal.
        summary: Entries of the summary in addition to Iceberg's own counts.
        properties: Table properties to set with the snapshot.
        rebuilt: Cubes of remaining files that are no longer in any blob.
        doubtful: Whether a server may still apply one of the attempts. If so, their files must not
            be removed.
    """

    operation: str
    added: list[DataFile] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    removed_deletes: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    summary: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    forget: bool = False
    rebuilt: Blocks = field(default_factory=lambda: Blocks.of_files(()))

    def __post_init__(self) -> None:
        self.id = uuid.uuid4()
        self.snapshot = int.from_bytes(self.id.bytes[:8], "big") >> 1
        self._manifests = 0
        self._attempts = 0
        self._kept: list[str] = []  # metadata files of all attempts
        # files of the last attempt, and of attempts with unknown outcome
        self._passing: list[str] = []
        self._written: list[Manifest] = []
        # identities of the files in these manifests, and the numbers that their rows inherit
        self._listed: list[tuple[str, int | None, int | None]] = []
        self._files: dict[str, list[DataFile]] = {}  # the data files of each manifest of new files
        self._entries: dict[str, list[ManifestEntry]] = {}  # their entries
        self._blob = ""
        self._unsure = False  # an attempt may have taken effect
        self.doubtful = False

    @property
    def was_attempted(self) -> bool:
        """Whether the catalog may have received an attempt."""
        return self._attempts > 0

    def attempt(self, metadata: Metadata) -> Metadata:
        """Tries to make this the newest snapshot after that of ``metadata``.

        First removes files of the previous attempt that this one does not use again. So the caller
        must call :meth:`has_landed` between two attempts.

        Raises:
            SwapInDoubt: the outcome is unknown, and the swap may take effect later; sets
                ``doubtful``.
            SwapLost: another commit was first.
            FilesGone: files to remove are no longer in the table.
        """
        if not self.doubtful:
            self._forget(metadata.ice.io, self._passing)
        self._sync_names()
        done = self._attempt(metadata)
        self._passing = []
        return done

    def _sync_names(self) -> None:
        """Syncs the names of new Parquet files. Those of nimble files are already synced."""
        paths = [local_path(file.path) for file in self.added if file.format == "PARQUET"]
        for folder in {os.path.dirname(path) for path in paths if path is not None}:
            # if the table was dropped, the swap reports it
            with contextlib.suppress(FileNotFoundError):
                sync_path(folder)

    def _attempt(self, metadata: Metadata) -> Metadata:
        ice = metadata.ice
        parent = metadata.head()
        manifests = self._added_manifests(metadata) + self._existing_manifests(metadata, parent)
        self._attempts += 1
        name = f"snap-{self.snapshot}-{self._attempts}-{self.id}.avro"
        path = f"{metadata.location}/metadata/{name}"
        self._passing.append(path)
        sequence = ice.metadata.last_sequence_number + 1
        numbered = [self._numbered(item, sequence) for item in manifests]
        header = {
            "snapshot-id": str(self.snapshot),
            "parent-snapshot-id": "null" if parent is None else str(parent.id),
            "sequence-number": str(sequence),
            "format-version": str(metadata.format_version),
        }
        row_ids: dict[str, int] = {}
        if metadata.has_row_ids:
            first = metadata.next_row_id
            numbered, following = with_row_ids(numbered, first)
            header["first-row-id"] = str(first)
            row_ids = {"first_row_id": first, "added_rows": following - first}
        version = metadata.format_version
        records = [self._list_record(version, item) for item in numbered]
        _write(ice.io.new_output(path), container(LIST_RECORDS[version].schema, header, records))
        times = [item.timestamp_ms for item in ice.metadata.snapshots]
        last = max([ice.metadata.last_updated_ms, *times])
        snapshot = IceSnapshot(
            snapshot_id=self.snapshot,
            parent_snapshot_id=None if parent is None else parent.id,
            sequence_number=sequence,
            # Later than all snapshots, so that a time identifies one snapshot.
            timestamp_ms=max(int(time.time() * 1000), last + 1),
            manifest_list=path,
            summary=Summary(
                Operation(self.operation),
                **self._summary(metadata, parent),
                **self._cube_blobs(metadata, parent),
            ),
            schema_id=ice.metadata.current_schema_id,
            **row_ids,
        )
        kind = metadata.references.get(metadata.branch)
        requirements: tuple[Any, ...] = ()
        if not metadata.is_staged:
            requirements = (
                AssertTableUUID(uuid=ice.metadata.table_uuid),
                AssertRefSnapshotId(
                    ref=metadata.branch, snapshot_id=None if kind is None else kind.snapshot
                ),
                *same_properties(metadata.committed, _shared(self.properties)),
            )
        updates: tuple[Any, ...] = (
            AddSnapshotUpdate(snapshot=snapshot),
            _reference_at(metadata, metadata.branch, self.snapshot, SnapshotRefType.BRANCH),
        )
        if self.properties:
            updates += (SetPropertiesUpdate(updates=self.properties),)
        try:
            done = swap(
                metadata.committed,
                (*requirements, *metadata.checks),
                (*metadata.updates, *updates),
            )
        except BaseException as error:
            self.doubtful = self.doubtful or may_land_later(metadata, error)
            self._unsure |= not (isinstance(error, SwapLost) and error.certain)
            raise
        kept_lists.put(path, numbered)
        for item in numbered:
            files = self._files.get(item.path, ())
            most = KEPT_VECTORS if item.deletes and metadata.has_row_ids else _SHORT_MANIFEST
            if 0 < len(files) <= most:
                first_id = item.first_row_id
                keep_manifest(done, new_files(files, item.spec_id, item.path, sequence, first_id))
                if item.deletes:
                    raws = _with_sequence(self._entries[item.path], sequence)
                    pairs = zip(files, raws, strict=True)
                    kept = [Entry(file, sequence, item.path, raw) for file, raw in pairs]
                    kept_entries.put(item.path, kept)
        return done

    def _numbered(self, manifest: Manifest, sequence: int) -> Manifest:
        """Gives a manifest of this commit its sequence number in the manifest list.

        Other manifests keep their sequence numbers.
        """
        raw: ManifestFile = manifest.raw
        if UNASSIGNED_SEQ not in (raw.sequence_number, raw.min_sequence_number):
            return manifest
        assert raw.added_snapshot_id == self.snapshot
        made = ManifestFile(*(raw[i] for i in range(len(raw))))
        made.sequence_number = sequence
        if made.min_sequence_number == UNASSIGNED_SEQ:
            made.min_sequence_number = sequence
        return plain_manifest(made)

    def _list_record(self, version: int, manifest: Manifest) -> bytes:
        """Returns a manifest's entry in the list. Manifests of other commits keep their entry."""
        if manifest.raw.added_snapshot_id == self.snapshot:
            return LIST_RECORDS[version].encode(manifest.raw)
        key = f"{manifest.path}#{version}#{manifest.first_row_id}"
        encoded = _encoded.get(key)
        if encoded is None:
            encoded = LIST_RECORDS[version].encode(manifest.raw)
            _encoded.put(key, encoded)
        return encoded

    def has_landed(self, base: Metadata, newest: Metadata) -> bool | None:
        """Returns whether an attempt for ``base`` took effect although it was reported as failed.

        If it did not, and other commits followed the base's snapshot, no attempt can take effect
        any more, because each requires that snapshot to be the newest. Then ``doubtful`` is reset.

        Returns:
            ``None`` if unknown: the snapshots after the base's have expired, maybe this one too,
                and its files may be in use.
        """
        if newest.snapshot(self.snapshot) is not None:
            return True
        before, now = base.head(), newest.head()
        if (before and before.id) == (now and now.id):
            return False
        since = list(newest.ancestors(now))
        if any(snapshot.id == before.id for snapshot in since) if before else _is_whole(since):
            self.doubtful = self._unsure = False
        elif self._unsure:
            self.doubtful = True
            return None
        return False

    def abandon(self, metadata: Metadata) -> None:
        """Removes the files of all attempts, unless they are ``doubtful``."""
        if not self.doubtful:
            self._forget(metadata.ice.io, [*self._passing, *self._kept])

    @staticmethod
    def _forget(io: FileIO, paths: list[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError):
                io.delete(path)
        paths.clear()

    def _new_manifest(self, metadata: Metadata, keep: list[str]) -> OutputFile:
        name = f"{self.id}-m{self._manifests}.avro"
        self._manifests += 1
        path = f"{metadata.location}/metadata/{name}"
        keep.append(path)
        return metadata.ice.io.new_output(path)

    def _added_manifests(self, metadata: Metadata) -> list[Manifest]:
        """Returns one manifest of new files per spec and kind; rewritten if the files changed."""
        listed = [(file.identity, file.first_row_id, file.sequence) for file in self.added]
        if self._listed == listed:
            return self._written
        if not self.doubtful:
            self._forget(metadata.ice.io, self._kept)
        self._written.clear()
        self._files.clear()
        self._entries.clear()
        self._blob = ""
        self._listed = []
        groups: dict[tuple[bool, int], list[DataFile]] = {}
        for file in self.added:
            groups.setdefault((file.content != "data", file.spec_id), []).append(file)
        for (deletes, spec_id), files in sorted(groups.items()):
            entries = [
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self.snapshot,
                    sequence_number=file.sequence,
                    file_sequence_number=None,
                    data_file=ice_file(file),
                )
                for file in files
            ]
            made = self._manifest(metadata, deletes, spec_id, entries, self._kept)
            self._written.append(made)
            self._files[made.path] = files
            self._entries[made.path] = entries
        self._listed = listed
        return self._written

    def _manifest(
        self,
        metadata: Metadata,
        deletes: bool,
        spec_id: int,
        entries: Iterable[ManifestEntry],
        keep: list[str],
    ) -> Manifest:
        schema, spec = metadata.spec_schema(), metadata.ice_spec(spec_id)
        form = manifest_form(metadata, spec_id)
        listed = list(entries)
        octets = container(
            form.records.schema,
            {**form.header, "content": "deletes" if deletes else "data"},
            [form.encode(entry) for entry in listed],
        )
        output = self._new_manifest(metadata, keep)
        _write(output, octets)
        files = dict.fromkeys(ManifestEntryStatus, 0)
        rows = dict.fromkeys(ManifestEntryStatus, 0)
        for entry in listed:
            files[entry.status] += 1
            rows[entry.status] += entry.data_file.record_count
        sequences = [
            entry.sequence_number
            for entry in listed
            if entry.status != ManifestEntryStatus.DELETED and entry.sequence_number is not None
        ]
        made = ManifestFile.from_args(
            _table_format_version=RECORD_VERSION,
            manifest_path=output.location,
            manifest_length=len(octets),
            partition_spec_id=spec_id,
            content=ManifestContent.DELETES if deletes else ManifestContent.DATA,
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=min(sequences, default=UNASSIGNED_SEQ),
            added_snapshot_id=self.snapshot,
            added_files_count=files[ManifestEntryStatus.ADDED],
            existing_files_count=files[ManifestEntryStatus.EXISTING],
            deleted_files_count=files[ManifestEntryStatus.DELETED],
            added_rows_count=rows[ManifestEntryStatus.ADDED],
            existing_rows_count=rows[ManifestEntryStatus.EXISTING],
            deleted_rows_count=rows[ManifestEntryStatus.DELETED],
            partitions=construct_partition_summaries(
                spec, schema, [entry.data_file.partition for entry in listed]
            ),
            key_metadata=None,
        )
        return plain_manifest(made)

    def _existing_manifests(self, metadata: Metadata, parent: Snapshot | None) -> list[Manifest]:
        """Returns the manifests of the previous snapshot, without the removed files."""
        if parent is None:
            return []
        missing = set(self.removed)
        self._removed_files: list[DataFile] = []
        kept: list[Manifest] = []
        # Current entries of short manifests, by kind and spec.
        short: dict[tuple[bool, int], list[tuple[Manifest, bool, list[_Changed]]]] = {}
        for manifest in metadata.manifests(parent):
            if not manifest.files:
                continue
            merge = self.operation == "replace" and manifest.files <= _SHORT_MANIFEST
            left = missing | self.repeated
            if not manifest.deletes:
                left = left - self.removed_deletes
            entries = metadata.entries(manifest) if left or merge else []
            removed_paths = {entry.file.identity for entry in entries} & left
            if not removed_paths and not merge:
                kept.append(manifest)
                continue
            missing -= removed_paths
            if self.forget and all(entry.file.identity in removed_paths for entry in entries):
                self._removed_files += [entry.file for entry in entries]
                continue
            self._removed_files += [e.file for e in entries if e.file.identity in removed_paths]
            changed = [
                (entry, self._existing(entry.raw, entry.file.identity in removed_paths))
                for entry in entries
            ]
            kind = manifest.deletes, manifest.spec_id
            if len(entries) - len(removed_paths) <= _SHORT_MANIFEST:
                short.setdefault(kind, []).append((manifest, bool(removed_paths), changed))
            else:
                kept.append(self._rewritten(metadata, kind, changed))
        if missing:
            raise FilesGone(sorted(missing))
        for kind, parts in short.items():
            if len(parts) == 1 and not parts[0][1]:
                kept.append(parts[0][0])
                continue
            together = [entry for _, _, changed in parts for entry in changed]
            kept.append(self._rewritten(metadata, kind, together))
        return kept

    def _rewritten(
        self, metadata: Metadata, kind: tuple[bool, int], changed: Sequence[_Changed]
    ) -> Manifest:
        """Writes a manifest of earlier files, whose entries are cached if they are delete files.

        Args:
            kind: whether the files are delete files, and their partition spec.
            changed: the old and the new entry of each file.
        """
        made = self._manifest(metadata, *kind, [entry for _, entry in changed], self._passing)
        if kind[0]:
            left = [
                Entry(before.file, before.sequence, made.path, entry)
                for before, entry in changed
                if entry.status != ManifestEntryStatus.DELETED
            ]
            kept_entries.put(made.path, left)
        return made

    def _existing(self, entry: ManifestEntry, removed: bool) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.DELETED if removed else ManifestEntryStatus.EXISTING,
            snapshot_id=self.snapshot if removed else entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )

    def _cube_blobs(self, metadata: Metadata, parent: Snapshot | None) -> dict[str, str]:
        """Returns the summary entries that name the blobs with the cubes of all files.

        The blob of new files is written once.
        """
        names = blob_names(metadata.ancestors(parent))
        added = new_blocks(self.added)
        if (len(added) or len(self.rebuilt)) and not self._blob:
            self._blob = f"otree-{self.id}-{self._attempts}-new.puffin"
            self._write_blob(metadata, self._blob, Blocks.merged([self.rebuilt, added]), self._kept)
        if len(names) >= MOST_BLOBS:
            cubes = metadata.cubes(parent)
            live = {
                entry.file.path
                for manifest in (() if parent is None else metadata.manifests(parent))
                for entry in metadata.entries(manifest)
            }
            merged = Blocks.merged([cubes], live - self.removed)
            names = [f"otree-{self.id}-{self._attempts}.puffin"]
            self._write_blob(metadata, names[0], merged, self._passing)
        names += [self._blob] if self._blob else []
        return {BLOBS: ",".join(names)} if names else {}

    @staticmethod
    def _write_blob(metadata: Metadata, name: str, blocks: Blocks, keep: list[str]) -> None:
        path = metadata.blob_path(name)
        keep.append(path)
        _write(metadata.ice.io.new_output(path), blocks.to_bytes())

    def _summary(self, metadata: Metadata, parent: Snapshot | None) -> dict[str, str]:
        added, removed = self.added, getattr(self, "_removed_files", [])
        before = {} if parent is None else parent.summary
        counts = _figures(added, "added") | _figures(removed, "removed")
        made = {name: str(count) for name, count in counts.items() if count}
        partitions = {(file.spec_id, file.partition) for file in (*added, *removed)}
        made["changed-partition-count"] = str(len(partitions))
        for name, (more, less) in _TOTALS.items():
            # If another writer wrote no count or an invalid one, the count is unknown from now on.
            total = 0 if parent is None else parent.figure(name)
            if total is not None:
                made[name] = str(max(total + counts[more] - counts[less], 0))
        if PLAN_INDEX in before:
            made[PLAN_INDEX] = before[PLAN_INDEX]
        made.update(batch_records(metadata, parent))
        made.update(self.summary)
        indexes = self.properties.get(INDEXES) or metadata.properties.get(INDEXES, "[]")
        metrics = [
            f"{item['columns'][0]}:{item['metric']}"
            for item in json.loads(indexes)
            if item["kind"] == "vector"
        ]
        if metrics:
            made[VECTOR_METRICS] = ",".join(metrics)
        return made


def _with_sequence(entries: Sequence[ManifestEntry], sequence: int) -> list[ManifestEntry]:
    """Returns new entries as they are read, with the sequence number that they inherit."""
    return [
        ManifestEntry.from_args(
            status=entry.status,
            snapshot_id=entry.snapshot_id,
            sequence_number=sequence if entry.sequence_number is None else entry.sequence_number,
            file_sequence_number=sequence,
            data_file=entry.data_file,
        )
        for entry in entries
    ]


def with_row_ids(manifests: Sequence[Manifest], first: int) -> tuple[list[Manifest], int]:
    """Gives row ids to data manifests without them, in the order of the manifest list.

    Returns:
        The manifests, and the next row id.
    """
    made = []
    for manifest in manifests:
        raw = manifest.raw
        if manifest.deletes or raw[_FIRST_ROW_ID] is not None:
            made.append(manifest)
            continue
        numbered = ManifestFile(*(raw[i] for i in range(len(raw))))
        numbered[_FIRST_ROW_ID] = first
        first += max(0, manifest.rows)
        made.append(plain_manifest(numbered))
    return made, first


@dataclass
class ManifestsCommit(SnapshotCommit):
    """A snapshot with separately written manifests, of existing or added files.

    Attributes:
        replaced: paths of manifests whose files are in the new manifests.
        made: the new manifests, see :meth:`write`.
    """

    replaced: set[str] = field(default_factory=set)
    made: list[Manifest] = field(default_factory=list)

    def write(
        self,
        metadata: Metadata,
        spec_id: int,
        entries: Sequence[bytes],
        *,
        partitions: Sequence[tuple[Any, ...]],
        rows: int,
        sequence: int | None,
    ) -> Manifest:
        """Writes one manifest of data files.

        Args:
            entries: Entries encoded with :func:`entry_schema`, without removed files.
            partitions: Distinct partitions of the files.
            rows: Number of rows of all files.
            sequence: Minimum sequence number of the files; ``None`` if this commit adds them.
        """
        schema, spec = metadata.spec_schema(), metadata.ice_spec(spec_id)
        form = manifest_form(metadata, spec_id)
        octets = container(form.records.schema, {**form.header, "content": "data"}, entries)
        output = self._new_manifest(metadata, self._kept)
        _write(output, octets)
        added = sequence is None
        listed = ManifestFile.from_args(
            _table_format_version=RECORD_VERSION,
            manifest_path=output.location,
            manifest_length=len(octets),
            partition_spec_id=spec_id,
            content=ManifestContent.DATA,
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=UNASSIGNED_SEQ if sequence is None else sequence,
            added_snapshot_id=self.snapshot,
            added_files_count=len(entries) if added else 0,
            existing_files_count=0 if added else len(entries),
            deleted_files_count=0,
            added_rows_count=rows if added else 0,
            existing_rows_count=0 if added else rows,
            deleted_rows_count=0,
            partitions=construct_partition_summaries(
                spec, schema, [Record(*values) for values in partitions]
            ),
            key_metadata=None,
        )
        self.made.append(plain_manifest(listed))
        return self.made[-1]

    def _added_manifests(self, metadata: Metadata) -> list[Manifest]:
        return self.made

    def _existing_manifests(self, metadata: Metadata, parent: Snapshot | None) -> list[Manifest]:
        self._removed_files = []
        there = [] if parent is None else metadata.manifests(parent)
        missing_paths = self.replaced - {manifest.path for manifest in there}
        if missing_paths:
            raise FilesGone(sorted(missing_paths))
        return [item for item in there if item.files and item.path not in self.replaced]


_TOTALS = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


def _figures(files: Sequence[DataFile], verb: str) -> dict[str, int]:
    data = [file for file in files if file.content == "data"]
    deletes = [file for file in files if file.content == "position deletes"]
    vectors = [file for file in deletes if file.vector is not None]
    equality = [file for file in files if file.content == "equality deletes"]
    taken = "added" if verb == "added" else "deleted"
    return {
        f"{taken}-data-files": len(data),
        f"{taken}-records": sum(file.rows for file in data),
        f"{verb}-delete-files": len(files) - len(data),
        f"{verb}-position-delete-files": len(deletes) - len(vectors),
        f"{verb}-dvs": len(vectors),
        f"{verb}-position-deletes": sum(file.rows for file in deletes),
        f"{verb}-equality-delete-files": len(equality),
        f"{verb}-equality-deletes": sum(file.rows for file in equality),
        f"{verb}-files-size": sum(
            file.bytes if file.vector is None else file.vector.size for file in files
        ),
    }


def _is_whole(history: Sequence[Snapshot]) -> bool:
    """Returns whether a history goes back to the first snapshot of the table."""
    return bool(history) and history[-1].parent is None


class FilesGone(Exception):
    """The table no longer has files that a commit should remove."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(", ".join(paths))
        self.paths = paths


def who() -> str:
    """Returns the committer, for the history."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def swap(metadata: Metadata, requirements: Any, updates: Any) -> Metadata:
    """Swaps a table's metadata in one compare-and-swap, or adds a staged table to the catalog.

    Raises:
        TableExists: another table has the name of a staged table.
        SwapLost: the newest metadata does not meet the requirements, or the updates do not fit.
        SwapInDoubt: the catalog does not know the outcome; the caller checks the metadata.
    """
    ice = metadata.ice
    own = isinstance(ice.catalog, SqliteCatalog)
    try:
        with around_swap():
            if metadata.is_staged and isinstance(ice.catalog, SqliteCatalog):
                done = ice.catalog.add_table(ice, updates)
            else:
                done = ice.catalog.commit_table(ice, requirements, updates)
    except TableAlreadyExistsError:
        if _is_certain(metadata):
            raise TableExists from None
        raise SwapLost(certain=own) from None
    except CommitFailedException:
        raise SwapLost(certain=own) from None
    except CommitStateUnknownException:
        raise SwapInDoubt from None
    except NoSuchTableError:
        raise NoSuchTable from None
    except (ValueError, ValidationError):
        # Updates are checked against the newest metadata: a snapshot may have expired since. If the
        # answer of a server is not JSON, this raises the same errors.
        if metadata.is_staged:
            raise
        newest = load_table(ice.catalog, metadata.name)
        if newest.metadata_file == metadata.metadata_file:
            raise
        raise SwapLost(certain=own) from None
    newer = Metadata(
        IceTable(
            identifier=ice.name(),
            metadata=done.metadata,
            metadata_location=done.metadata_location,
            io=ice.io,
            catalog=ice.catalog,
        ),
        branch=metadata.branch,
    )
    for path in set(metadata.metadata_files()) - set(newer.metadata_files()):
        if _goes(path, newer):
            with contextlib.suppress(Exception):  # the commit took effect, even if this fails
                ice.io.delete(path)
    return newer


def may_land_later(metadata: Metadata, error: BaseException) -> bool:
    """Returns whether a failed swap may still take effect, so that its files must be kept.

    After a timeout or Ctrl-C, a server may have the request and apply it later.
    """
    if isinstance(error, (SwapLost, NoSuchTable)):
        return isinstance(error, SwapInDoubt)
    return not _is_certain(metadata)


def _is_certain(metadata: Metadata) -> bool:
    """Returns whether the catalog's answers say what happened."""
    catalog = metadata.ice.catalog
    return isinstance(catalog, SqliteCatalog) and catalog.is_certain


def _goes(path: str, newer: Metadata) -> bool:
    """Returns whether a metadata file is deleted when the log no longer names it.

    Any engine may have written the log. Therefore only metadata files in the directory of the
    newest one are deleted. If the catalog recognizes its own files, it deletes no others.
    """
    folder, _, name = path.rpartition("/")
    if folder != newer.metadata_file.rpartition("/")[0] or not name.endswith(".metadata.json"):
        return False
    if isinstance(newer.ice.catalog, SqliteCatalog):
        return newer.ice.catalog.has_made(path)
    return newer.properties.get(_DELETE_METADATA, "false").lower() == "true"


def create_staged(metadata: Metadata, properties: Mapping[str, str]) -> Metadata:
    """Creates a staged table without a snapshot, with more properties. Raises as :func:`swap`."""
    more = (SetPropertiesUpdate(updates=dict(properties)),)
    return swap(metadata, metadata.checks, (*metadata.updates, *more))


def set_reference(
    metadata: Metadata, name: str, snapshot: int, kind: str, expected: int | None
) -> Metadata:
    """Points a tag or branch to a snapshot, if it now points to ``expected``."""
    updates: list[Any] = [_reference_at(metadata, name, snapshot, SnapshotRefType(kind))]
    same: list[Any] = []
    if name == MAIN:  # batches and files are undone with their rows
        updates += _settling(metadata, metadata.snapshot(snapshot))
        same = same_properties(metadata, [STAGED_FILES])
    return swap(
        metadata,
        (
            AssertTableUUID(uuid=metadata.ice.metadata.table_uuid),
            AssertRefSnapshotId(ref=name, snapshot_id=expected),
            *same,
        ),
        tuple(updates),
    )


def _settling(metadata: Metadata, head: Snapshot | None, gone: Sequence[int] = ()) -> list[Any]:
    """Returns the updates that write the records of batches and files; see :func:`settled`."""
    changed, removed = settled(metadata, head, gone)
    updates: list[Any] = [SetPropertiesUpdate(updates=changed)] if changed else []
    return [*updates, RemovePropertiesUpdate(removals=removed)] if removed else updates


def _reference_at(metadata: Metadata, name: str, snapshot: int, kind: str) -> SetSnapshotRefUpdate:
    """Returns the update that points a tag or branch to a snapshot and keeps its retention
    settings.
    """
    reference = metadata.references.get(name)
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=kind,
        snapshot_id=snapshot,
        min_snapshots_to_keep=None if reference is None else reference.least_snapshots,
        max_snapshot_age_ms=None if reference is None else reference.snapshot_age_ms,
        max_ref_age_ms=None if reference is None else reference.age_ms,
    )


def remove_reference(metadata: Metadata, name: str, expected: int) -> Metadata:
    return swap(
        metadata,
        (
            AssertTableUUID(uuid=metadata.ice.metadata.table_uuid),
            AssertRefSnapshotId(ref=name, snapshot_id=expected),
        ),
        (RemoveSnapshotRefUpdate(ref_name=name),),
    )


class _SameReferences:
    """A requirement that nimblepy checks: no tag or branch was added, removed or moved."""

    def __init__(self, metadata: Metadata) -> None:
        self._refs = metadata.ice.metadata.refs

    def validate(self, base_metadata: Any) -> None:
        if base_metadata is None or base_metadata.refs != self._refs:
            raise CommitFailedException("tags or branches have changed")


def set_statistics(metadata: Metadata, described: Any) -> Metadata:
    """Sets the statistics file of a snapshot, as :func:`write_statistics` describes it.

    Raises:
        SwapLost: another commit was first. It may have removed the snapshot, or set other
            statistics.
    """
    checks: list[Any] = [AssertTableUUID(uuid=metadata.ice.metadata.table_uuid)]
    same = _SameStatistics(metadata, described.snapshot_id)
    if isinstance(metadata.ice.catalog, MetastoreCatalog):
        checks.append(same)
    else:  # REST servers have no such requirement, so check it just before the commit
        if not same.holds(load_table(metadata.ice.catalog, metadata.name).ice.metadata):
            raise SwapLost
        head = metadata.head()
        checks.append(
            AssertRefSnapshotId(ref=metadata.branch, snapshot_id=None if head is None else head.id)
        )
    return swap(metadata, tuple(checks), (SetStatisticsUpdate(statistics=described),))


class _SameStatistics:
    """A requirement that nimblepy checks: a snapshot exists, with unchanged statistics."""

    def __init__(self, metadata: Metadata, number: int) -> None:
        self._number = number
        self._paths = self._paths_in(metadata.ice.metadata)

    def _paths_in(self, metadata: Any) -> list[str]:
        of = [item for item in metadata.statistics if item.snapshot_id == self._number]
        return [item.statistics_path for item in of]

    def holds(self, metadata: Any) -> bool:
        there = metadata.snapshot_by_id(self._number) is not None
        return there and self._paths_in(metadata) == self._paths

    def validate(self, base_metadata: Any) -> None:
        if base_metadata is None or not self.holds(base_metadata):
            raise CommitFailedException("the snapshot has expired, or its statistics have changed")


def remove_snapshots(metadata: Metadata, numbers: Sequence[int]) -> Metadata:
    """Removes snapshots that no reference names. The newest sketches of ``main`` are kept.

    Raises:
        SwapLost: a reference has changed: removing a snapshot also removes its references.
    """
    ice = metadata.ice
    checks: list[Any] = [AssertTableUUID(uuid=ice.metadata.table_uuid)]
    if isinstance(ice.catalog, MetastoreCatalog):
        checks.append(_SameReferences(metadata))
    else:  # servers check each reference; there is no requirement for new references
        for name, reference in metadata.references.items():
            checks.append(AssertRefSnapshotId(ref=name, snapshot_id=reference.snapshot))
    # Record it while the history still shows which batches and files were rolled back.
    updates: list[Any] = _settling(metadata, metadata.head(MAIN), numbers)
    updates.append(RemoveSnapshotsUpdate(snapshot_ids=list(numbers)))
    moved = moved_statistics(metadata, set(numbers))
    if moved is not None:
        updates.append(SetStatisticsUpdate(statistics=moved))
    return swap(metadata, tuple(checks), tuple(updates))


def same_properties(metadata: Metadata, names: Collection[str] | None = None) -> list[Any]:
    """Requirements that properties have not changed; ``names=None`` means all properties.

    Servers have no such requirement, so it is checked just before.

    Raises:
        SwapLost: a property has changed.
    """
    if names is not None and not names:
        return []
    same = _SameProperties(metadata, names)
    if isinstance(metadata.ice.catalog, MetastoreCatalog):
        return [same]
    if not same.holds(load_table(metadata.ice.catalog, metadata.name).properties):
        raise SwapLost
    return []


def same_version(metadata: Metadata) -> list[Any]:
    """Requirements that the format version has not changed. Servers have no such requirement."""
    if isinstance(metadata.ice.catalog, MetastoreCatalog):
        return [_SameVersion(metadata.format_version)]
    return []


class _SameVersion:
    """A requirement that nimblepy checks: the table has not been upgraded."""

    def __init__(self, version: int) -> None:
        self._version = version

    def validate(self, base_metadata: Any) -> None:
        if base_metadata is None or base_metadata.format_version != self._version:
            raise CommitFailedException("the format version has changed")


def _shared(names: Iterable[str]) -> list[str]:
    """The properties that commits to all branches set. Only commits to ``main`` record batches."""
    return [name for name in names if not name.startswith(BATCH_PREFIX)]


class _SameProperties:
    """A requirement that is checked here: properties have not changed."""

    def __init__(self, metadata: Metadata, names: Collection[str] | None) -> None:
        self._names = names
        self._properties = self._chosen(metadata.properties)

    def _chosen(self, properties: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in properties.items() if self._names is None or k in self._names}

    def holds(self, properties: Mapping[str, str]) -> bool:
        return self._chosen(properties) == self._properties

    def validate(self, base_metadata: Any) -> None:
        if base_metadata is None or not self.holds(base_metadata.properties):
            raise CommitFailedException("properties have changed")
