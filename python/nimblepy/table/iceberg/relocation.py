"""Rewrites the metadata of a table whose lake was moved, so that other engines can read it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Summary

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.io.log import logger
from nimblepy.table.base.model import PLAN_INDEX, DataFile, Manifest, Snapshot
from nimblepy.table.base.moved import translation_of
from nimblepy.table.base.puffin import with_paths
from nimblepy.table.iceberg.avro import container
from nimblepy.table.iceberg.catalogs import SqliteCatalog, load_table
from nimblepy.table.iceberg.locations import has_old_locations
from nimblepy.table.iceberg.manifest_forms import ice_file
from nimblepy.table.iceberg.metadata import Metadata, decoding, manifest_form, plain_file
from nimblepy.table.iceberg.snapshot_commit import LIST_RECORDS
from nimblepy.table.otree.blocks import BLOBS, named_blobs

_log = logger(__name__)
_MOST_ATTEMPTS = 20


class Relocation:
    """Rewrites manifests, manifest lists and the metadata file of one table.

    Args:
        deletes: returns a new file of position deletes with current paths; ``None`` if the old
            file's paths are current.
    """

    def __init__(self, metadata: Metadata, deletes: Callable[[DataFile], DataFile | None]) -> None:
        self._metadata = metadata
        self._deletes = deletes
        # by path and first row id, which older snapshots lack; None means that the manifest is kept
        self._manifests: dict[tuple[str, int | None], ManifestFile | None] = {}
        self._lists: dict[str, str] = {}
        self._blobs: dict[str, str] = {}
        self._files: dict[str, DataFile | None] = {}
        self._puffins: dict[str, tuple[str, int]] = {}  # new path and size

    def run(self) -> Metadata | None:
        """Commits the rewritten metadata.

        Returns ``None`` if the lake was not moved since the table was written.

        Raises:
            InvalidArgumentError: the catalog cannot do this.
            ConflictError: every attempt lost.
        """
        catalog = self._metadata.ice.catalog
        name = ".".join(self._metadata.name)
        if not isinstance(catalog, SqliteCatalog):
            raise InvalidArgumentError(
                f"relocate {name}: the catalog does not record where its lake was; only nimblepy's "
                "own catalogs do"
            )
        if translation_of(self._metadata.metadata_file) is None:
            return None
        for _ in range(_MOST_ATTEMPTS):
            metadata = self._metadata
            snapshots = [self._snapshot(item) for item in metadata.ice.metadata.snapshots]
            made = metadata.ice.metadata.model_copy(update={"snapshots": snapshots})
            if made == metadata.ice.metadata and not self._is_old(metadata):
                return None
            try:
                catalog.replace_metadata(metadata.ice, made)
            except CommitFailedException:
                self._metadata = load_table(catalog, metadata.name)
                continue
            catalog.forget_roots(metadata.name)
            _log.debug("%s: relocate: %d manifests, %d delete files rewritten", name, *self._counts)
            return load_table(catalog, metadata.name)
        raise ConflictError(
            f"relocate {name}: {_MOST_ATTEMPTS} attempts lost to other commits", kind="attempts"
        )

    @property
    def _counts(self) -> tuple[int, int]:
        manifests = sum(item is not None for item in self._manifests.values())
        return manifests, sum(item is not None for item in self._files.values())

    @staticmethod
    def _is_old(metadata: Metadata) -> bool:
        path = metadata.metadata_file
        return has_old_locations(metadata.read(path), path)

    def _snapshot(self, snapshot: Any) -> Any:
        plain = self._metadata.snapshot(snapshot.snapshot_id)
        assert plain is not None
        summary = snapshot.summary
        path = self._list(plain)
        if path == plain.manifest_list:
            return snapshot
        if summary is not None:
            # Drop the plan index, which contains paths. rewrite_manifests() makes a new one.
            texts = {k: v for k, v in summary.additional_properties.items() if k != PLAN_INDEX}
            names = [self._blob(name) for name in named_blobs(plain)]
            if names:
                texts[BLOBS] = ",".join(names)
            summary = Summary(summary.operation, **texts)
        return snapshot.model_copy(update={"manifest_list": path, "summary": summary})

    def _list(self, snapshot: Snapshot) -> str:
        rewritten = self._lists.get(snapshot.manifest_list)
        if rewritten is not None:
            return rewritten
        manifests = self._metadata.manifests(snapshot)
        listed = [self._manifest(item) for item in manifests]
        same = all(made is item.raw for made, item in zip(listed, manifests, strict=True))
        if same and not self._metadata.list_names_old_places(snapshot):
            self._lists[snapshot.manifest_list] = snapshot.manifest_list
            return snapshot.manifest_list
        header = {
            "snapshot-id": str(snapshot.id),
            "parent-snapshot-id": "null" if snapshot.parent is None else str(snapshot.parent),
            "sequence-number": str(snapshot.sequence),
            "format-version": str(self._metadata.format_version),
        }
        form = LIST_RECORDS[self._metadata.format_version]
        records = [form.encode(item) for item in listed]
        path = self._write(
            f"snap-{snapshot.id}-0-{uuid.uuid4()}.avro",
            container(form.schema, header, records),
        )
        self._lists[snapshot.manifest_list] = path
        return path

    def _manifest(self, manifest: Manifest) -> ManifestFile:
        key = manifest.path, manifest.first_row_id
        if key not in self._manifests:
            self._manifests[key] = self._rewritten(manifest)
        made = self._manifests[key]
        return manifest.raw if made is None else made

    def _rewritten(self, manifest: Manifest) -> ManifestFile | None:
        entries = self._metadata.all_entries(manifest)
        changed = self._metadata.names_old_places(manifest)
        if manifest.deletes:
            replaced = [self._entry(entry) for entry in entries]
            changed |= any(a is not b for a, b in zip(entries, replaced, strict=True))
            entries = replaced
        if not changed:
            return None
        form = manifest_form(self._metadata, manifest.spec_id)
        content = "deletes" if manifest.deletes else "data"
        octets = container(
            form.records.schema,
            {**form.header, "content": content},
            [form.encode(entry) for entry in entries],
        )
        raw = manifest.raw
        made = ManifestFile(*(raw[i] for i in range(len(raw))))
        made[0] = self._write(f"{uuid.uuid4()}-m0.avro", octets)
        made[1] = len(octets)
        return made

    def _entry(self, entry: ManifestEntry) -> ManifestEntry:
        """Returns the entry of a delete file, or of its rewritten copy."""
        file = plain_file(entry.data_file)
        if entry.status == ManifestEntryStatus.DELETED or file.content != "position deletes":
            return entry
        made = self._new_vector(file) if file.vector is not None else self._new_deletes(file)
        if made is None:
            return entry
        made = replace(made, spec_id=file.spec_id, partition=file.partition)
        return ManifestEntry.from_args(
            status=entry.status,
            snapshot_id=entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=ice_file(made),
        )

    def _new_deletes(self, file: DataFile) -> DataFile | None:
        if file.path not in self._files:
            self._files[file.path] = self._deletes(file)
        return self._files[file.path]

    def _new_vector(self, file: DataFile) -> DataFile | None:
        """Returns a vector in a copy of its Puffin file, whose footer has current paths."""
        translation = translation_of(file.path)
        if translation is None:
            return None
        if file.path not in self._puffins:
            octets = self._metadata.read(file.path)
            with decoding(file.path, "Puffin file"):
                moved = with_paths(octets, translation.path)
            path = file.path if moved == octets else self._write(f"{uuid.uuid4()}.puffin", moved)
            self._puffins[file.path] = path, len(moved)
        path, size = self._puffins[file.path]
        return None if path == file.path else replace(file, path=path, bytes=size)

    def _blob(self, name: str) -> str:
        if name not in self._blobs and not self._metadata.blob_names_old_places(name):
            self._blobs[name] = name
        if name not in self._blobs:
            made = f"otree-{uuid.uuid4()}.puffin"
            blocks = self._metadata.cubes_in([name])
            self._write(made, blocks.to_bytes())
            self._blobs[name] = made
        return self._blobs[name]

    def _write(self, name: str, octets: bytes) -> str:
        path = self._metadata.blob_path(name)
        with self._metadata.ice.io.new_output(path).create() as sink:
            sink.write(octets)
        return path
