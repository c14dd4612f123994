"""Commits: files become part of a dataset in one step, by a new version of its manifest.

Writers put files under ``_staging/<job>/``. :func:`publish` moves them up and then writes the
manifest that names them, which is the only thing readers look at. A job that dies before that
leaves files that nobody sees; :func:`sweep` removes them once they are old.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, takewhile

import pyarrow as pa

from nimblepy.errors import ConflictError, InvalidArgumentError, NimbleError
from nimblepy.file.write import write
from nimblepy.files.dataset import manifest_of_files
from nimblepy.files.manifest import (
    FOLDER,
    FileEntry,
    Manifest,
    entries_table,
    manifest_name,
    manifest_versions,
    read_manifest,
)
from nimblepy.io.log import logger
from nimblepy.io.sync import sync_path
from nimblepy.schema.types import SortKey

_log = logger(__name__)

STAGING = "_staging"
# Seconds for which a version stays readable after it was replaced, unless a commit says otherwise;
# the newest version and the one before it always do. A commit must also be done in this time.
RETENTION_SECONDS = 24 * 3600.0
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
    base: int | None = None,
    batch: tuple[str, int] | None = None,
    retention_seconds: float = RETENTION_SECONDS,
) -> int:
    """Makes staged files part of the dataset, or its only ones, and returns the new version.

    Args:
        job: name of the staging folder; ``files`` are named as in it.
        overwrite: the files replace all that the dataset has.
        base: the version that ``overwrite`` replaces, 0 where there was none; ``None`` is the one
            that is there now.
        batch: (name, number): nothing happens where this or a later batch of that name is in the
            dataset already.
        retention_seconds: versions that were replaced longer ago than this are removed, with the
            files that only they name.

    Raises:
        InvalidArgumentError: columns or cluster key are not the dataset's.
        ConflictError: another commit has changed what ``overwrite`` was to replace.
        OSError: a file is missing, or cannot be moved or written. Readers see what they saw before.
    """
    staged = staging_folder(directory, job)
    entries = [replace(entry, file=f"{job}-{entry.file}") for entry in files]
    moved = False
    while True:
        current = newest_manifest(directory)
        version = 0 if current is None else current.version
        if (
            moved
            and current is not None
            and {entry.file for entry in entries} <= set(current.names)
        ):
            return version  # an earlier attempt took effect, and others committed after it
        if current is None and not overwrite:
            current = _plain_files(directory, entries)
        if current is not None and batch and current.batches.get(batch[0], -1) >= batch[1]:
            shutil.rmtree(staged, ignore_errors=True)
            return version
        if overwrite:
            base = version if base is None else base
            if base != version:
                raise ConflictError(
                    f"{directory}: version {version} was committed after this job began to replace "
                    f"version {base}; run the job again to replace both"
                )
        elif current is not None:
            _check_same(directory, current, schema, cluster_by)
        # The times of the files are set to those of the attempts to commit them, so that another
        # commit's sweep() leaves them alone however long ago they were written.
        if not moved:
            for old, new in zip(files, entries, strict=True):
                os.utime(os.path.join(staged, old.file))
                os.replace(os.path.join(staged, old.file), os.path.join(directory, new.file))
            sync_path(directory)
            moved = True
        else:
            for entry in entries:
                with suppress(FileNotFoundError):  # _check_files() says so with its name
                    os.utime(os.path.join(directory, entry.file))
        batches = {} if current is None else dict(current.batches)
        if batch is not None:
            batches[batch[0]] = batch[1]
        kept = [] if current is None or overwrite else current.entries()
        manifest = Manifest(
            version=version + 1,
            schema=schema,
            cluster_by=tuple(cluster_by),
            table=entries_table([*kept, *entries]),
            batches=batches,
        )
        _check_files(directory, manifest)
        if _put(directory, manifest):
            _log.info("%s: version %d, %d new files", directory, version + 1, len(entries))
            shutil.rmtree(staged, ignore_errors=True)
            # The commit is done. What cannot be removed now, or is being removed by another
            # commit, is left to the next one.
            with suppress(OSError, NimbleError):
                forget_old_versions(directory, older_than=retention_seconds)
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
    unnamed = {
        name
        for name in _names(directory)
        if name.endswith(".nimble") and _changed(os.path.join(directory, name)) < before
    }
    for version in reversed(versions):  # the newest names nearly all of them
        if not unnamed:
            return
        unnamed -= set(read_manifest(directory, version, None).names)
    for name in unnamed:
        _log.info("%s: removing %s, which no version names", directory, name)
        _remove(os.path.join(directory, name))


def forget_old_versions(directory: str, *, older_than: float = RETENTION_SECONDS) -> None:
    """Removes versions that were replaced long ago, and the files that only those name.

    Args:
        older_than: seconds since a version was replaced.
    """
    versions = manifest_versions(directory, None)
    before = time.time() - older_than

    def is_old(pair: tuple[int, int]) -> bool:
        """Whether the version that replaced the first of the pair is that old."""
        return _changed(os.path.join(directory, manifest_name(pair[1]))) < before

    old = [version for version, _ in takewhile(is_old, pairwise(versions[:-1]))]
    if not old:
        return
    # A file that a version leaves out never comes back, so later versions need not be read.
    named = set(read_manifest(directory, versions[len(old)], None).names)
    for version in old:
        for name in read_manifest(directory, version, None).names:
            if name not in named:
                _remove(os.path.join(directory, name))
        _remove(os.path.join(directory, manifest_name(version)))


def _plain_files(directory: str, new: Sequence[FileEntry]) -> Manifest | None:
    """What a directory without a manifest has: an append keeps its files.

    Files of a job that is committing, or died of it, are not among them: its staging folder is
    there until its manifest is.
    """
    mine = {entry.file for entry in new}
    jobs = tuple(f"{job}-" for job in _names(os.path.join(directory, STAGING)))
    names = sorted(
        name
        for name in _names(directory)
        if name.endswith(".nimble") and name not in mine and not name.startswith(jobs)
    )
    return manifest_of_files(directory, names, None) if names else None


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


def _check_files(directory: str, manifest: Manifest) -> None:
    """Refuses a manifest that names a file which is not there."""
    there = set(_names(directory))
    for name in manifest.names:
        if name not in there and not os.path.exists(os.path.join(directory, name)):
            raise FileNotFoundError(
                errno.ENOENT,
                "a file of the dataset is missing, so this commit was given up",
                os.path.join(directory, name),
            )


def _put(directory: str, manifest: Manifest) -> bool:
    """Writes a version that is not there yet; false where somebody else was first."""
    folder = os.path.join(directory, FOLDER)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{uuid.uuid4().hex}.tmp")
    write(manifest.table, temporary, cluster_by="lower_key", metadata=manifest.metadata())
    try:
        sync_path(temporary)
        # A link, unlike a rename, fails where the name is taken.
        os.link(temporary, os.path.join(directory, manifest_name(manifest.version)))
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            _remove(temporary)
    try:
        sync_path(folder)
    except OSError as error:  # readers see the version, so the commit has not failed
        _log.warning("%s: version %d is there, despite %r", directory, manifest.version, error)
    before = os.path.join(directory, manifest_name(manifest.version - 1))
    if manifest.version > 1 and not os.path.exists(before):
        # This commit took longer than versions are kept: others have used the number of this
        # version and removed it again, so it is not the one after the version it was made from.
        _remove(os.path.join(directory, manifest_name(manifest.version)))
        return False
    return True


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
