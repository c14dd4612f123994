"""Publishes files in a directory when the job that wrote them has succeeded.

The tasks of a job write under ``_temporary/<job>/``, which readers ignore. :func:`publish` then
gives the files their final names. Each file appears atomically, but not all files of a job at once.
To publish all files in one step, write to a table.
"""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Sequence
from contextlib import suppress

from nimblepy.io.location import Location
from nimblepy.io.log import logger
from nimblepy.io.sync import sync_path

_log = logger(__name__)

TEMPORARY = "_temporary"


def temporary_folder(directory: Location, job: str) -> Location:
    """Returns the folder that the tasks of a job write to."""
    return Location(posixpath.join(directory.path, TEMPORARY, job), directory.store)


def data_files(directory: Location) -> list[str]:
    """Returns the names of the files that readers see now."""
    return [
        name
        for name in directory.names()
        if name.endswith(".nimble") and not name.startswith((".", "_"))
    ]


def publish(directory: Location, job: str, names: Sequence[str], *, overwrite: bool) -> None:
    """Moves files of a job into the directory. If ``overwrite``, then removes all older files.

    Args:
        names: names of the files in the job's folder. Each final name begins with the job's name.

    Raises:
        OSError: a file cannot be moved. The files that were already moved are removed again.
    """
    folder = temporary_folder(directory, job)
    old = data_files(directory) if overwrite else []
    published: list[Location] = []
    try:
        for name in names:
            target = Location(posixpath.join(directory.path, f"{job}-{name}"), directory.store)
            published.append(target)
            Location(posixpath.join(folder.path, name), directory.store).move(target)
        if directory.is_local:
            sync_path(directory.path)
    except BaseException:
        for target in published:
            with suppress(OSError):
                target.remove()
        raise
    for name in old:
        Location(posixpath.join(directory.path, name), directory.store).remove()
    _log.info("%s: %d new files, %d removed", directory.path, len(names), len(old))
    discard(directory, job)


def discard(directory: Location, job: str) -> None:
    """Removes the temporary files that the tasks of a job have written."""
    folder = temporary_folder(directory, job)
    if directory.is_local:
        shutil.rmtree(folder.path, ignore_errors=True)
        with suppress(OSError):  # not empty if other jobs are running
            os.rmdir(posixpath.dirname(folder.path))
        return
    for name in folder.names():
        Location(posixpath.join(folder.path, name), directory.store).remove()
