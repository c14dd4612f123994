"""Commits: files become part of a dataset in one step, by a new version of its manifest.

Writers put files under ``_staging/<job>/``. :func:`publish` moves them to their place and then
writes the manifest that names them, which is the only thing readers look at. Whatever dies before
that leaves files that nobody sees; :func:`sweep` removes them once they are old.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.write import write
from nimblepy.files.manifest import (
    FOLDER,
    FileEntry,
    Manifest,
    entries_table,
    manifest_name,
    manifest_versions,
    read_manifest,
)
from nimblepy.schema.types import SortKey

STAGING = "_staging"
# Versions that stay readable: the newest, the one before it, and those replaced within this time
# in seconds. It also bounds how long a commit may take from reading a version to writing the next.
KEPT_VERSIONS = 2
KEPT_SECONDS = 3600.0
# Age in seconds after which files of writers that never finished are removed.
STALE_AFTER = 24 * 3600.0


def staging_folder(directory: str, job: str) -> str:
    """Where the tasks of a job write."""
    return os.path.join(directory, STAGING, job)


def newest_manifest(directory: str) -> Manifest | None:
    """The manifest that readers see now."""
    versions = manifest_versions(directory, None)
    return read_manifest(directory, versions[-1], None, statistics=True) if versions else None


def publish(
    directory: str,
    job: str,
    files: Sequence[FileEntry],
    *,
    schema: pa.Schema,
    cluster_by: Sequence[SortKey],
    overwrite: bool = False,
    batch: tuple[str, int] | None = None,
) -> int:
    """Makes staged files part of the dataset, or its only ones, and returns the new version.

    Args:
        job: name of the staging folder; ``files`` are named as in it.
        overwrite: the files replace all that the dataset has.
        batch: (name, number): nothing happens where this or a later batch of that name is in the
            dataset already.

    Raises:
        InvalidArgumentError: columns or cluster key are not the dataset's.
        OSError: the disk says no; readers see what they saw before.
    """
    staged = staging_folder(directory, job)
    moved = False
    while True:
        current = newest_manifest(directory)
        if current is not None and batch and current.batches.get(batch[0], -1) >= batch[1]:
            shutil.rmtree(staged, ignore_errors=True)
            return current.version
        if current is not None and not overwrite:
            _check_same(directory, current, schema, cluster_by)
        kept = [] if current is None or overwrite else current.entries()
        entries = [replace(entry, file=f"{job}-{entry.file}") for entry in files]
        if not moved:
            for old, new in zip(files, entries, strict=True):
                os.replace(os.path.join(staged, old.file), os.path.join(directory, new.file))
            moved = True
        batches = {} if current is None else dict(current.batches)
        if batch is not None:
            batches[batch[0]] = batch[1]
        manifest = Manifest(
            version=1 if current is None else current.version + 1,
            schema=schema,
            cluster_by=tuple(cluster_by),
            table=entries_table([*kept, *entries]),
            batches=batches,
        )
        if _put(directory, manifest):
            shutil.rmtree(staged, ignore_errors=True)
            forget_old_versions(directory)
            sweep(directory)
            return manifest.version


def discard(directory: str, job: str) -> None:
    """Removes what the tasks of a job have written."""
    shutil.rmtree(staging_folder(directory, job), ignore_errors=True)


def sweep(directory: str, *, older_than: float = STALE_AFTER) -> None:
    """Removes staged files of dead jobs, and files that no manifest names, of some age.

    Args:
        older_than: seconds since the last change.
    """
    before = time.time() - older_than
    staging = os.path.join(directory, STAGING)
    for job in _names(staging):
        folder = os.path.join(staging, job)
        times = [_changed(folder), *(_changed(os.path.join(folder, n)) for n in _names(folder))]
        if max(times) < before:
            shutil.rmtree(folder, ignore_errors=True)
    versions = manifest_versions(directory, None)
    if not versions:
        return  # a plain directory of files
    old = [name for name in _names(directory) if name.endswith(".nimble")]
    old = [name for name in old if _changed(os.path.join(directory, name)) < before]
    named = _named_files(directory, versions) if old else set()
    for name in old:
        if name not in named:
            _remove(os.path.join(directory, name))


def forget_old_versions(directory: str, *, older_than: float = KEPT_SECONDS) -> None:
    """Removes manifests that were replaced so long ago, and the files that only those name."""
    versions = manifest_versions(directory, None)
    before = time.time() - older_than
    replaced = [
        version
        for version, following in pairwise(versions[:-1])
        if _changed(os.path.join(directory, manifest_name(following))) < before
    ]
    if not replaced:
        return
    kept = [version for version in versions if version not in replaced]
    named = _named_files(directory, kept)
    for version in replaced:
        for name in read_manifest(directory, version, None).names:
            if name not in named:
                _remove(os.path.join(directory, name))
        _remove(os.path.join(directory, manifest_name(version)))


def _check_same(
    directory: str, current: Manifest, schema: pa.Schema, cluster_by: Sequence[SortKey]
) -> None:
    if tuple(cluster_by) != current.cluster_by:
        raise InvalidArgumentError(
            f"{directory}: its files are clustered by "
            f"({', '.join(map(str, current.cluster_by))}), not by "
            f"({', '.join(map(str, cluster_by))}); append with the same key, or overwrite"
        )
    if not schema.equals(current.schema):
        raise InvalidArgumentError(
            f"{directory}: its columns are {_columns(current.schema)}; the new files have "
            f"{_columns(schema)}"
        )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )


def _put(directory: str, manifest: Manifest) -> bool:
    """Writes a version that is not there yet; false where somebody else was first."""
    folder = os.path.join(directory, FOLDER)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{uuid.uuid4().hex}.tmp")
    write(manifest.table, temporary, cluster_by="lower_key", metadata=manifest.metadata())
    try:
        _sync(temporary)
        # A link, unlike a rename, fails where the name is taken.
        os.link(temporary, os.path.join(directory, manifest_name(manifest.version)))
    except FileExistsError:
        return False
    finally:
        _remove(temporary)
    _sync(folder)
    before = os.path.join(directory, manifest_name(manifest.version - 1))
    if manifest.version > 1 and not os.path.exists(before):
        # We slept for so long that our version's name was used, and given up, by others.
        _remove(os.path.join(directory, manifest_name(manifest.version)))
        return False
    return True


def _named_files(directory: str, versions: Sequence[int]) -> set[str]:
    return {name for v in versions for name in read_manifest(directory, v, None).names}


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
