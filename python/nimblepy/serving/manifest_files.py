"""The directory of serving manifests. Loads only the core, because a quick start begins here."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from nimblepy import _core
from nimblepy.errors import NimbleError

# File names in the directory of serving manifests.
CURRENT = "CURRENT"
_SUFFIX = ".nsm"
_TEMPORARY = ".tmp-"
# The directory of the serving manifests in a lake.
SERVE_DIRECTORY = "serve"
# Number of manifests to keep for each table, because readers may still open the previous one.
_KEPT = 2


def write_manifests(
    directory: str, names: Mapping[str, bytes], dropped: Iterable[str] = ()
) -> None:
    """Writes serving manifests, then makes ``CURRENT`` name them.

    ``CURRENT`` has a line ``NAME FILE`` for each name. Files are renamed into place, so that
    readers never see a partial file. Older manifests of these names are removed, except the
    previous one.

    Args:
        dropped: names to remove from ``CURRENT``.
    """
    os.makedirs(directory, exist_ok=True)
    with _only_writer(directory):
        for file in os.listdir(directory):
            if file.startswith(_TEMPORARY):  # of a process that was killed
                os.unlink(os.path.join(directory, file))
        current = read_current(directory)
        for name in dropped:
            current.pop(name, None)
        for name, manifest in names.items():
            file = f"{name}-{time.time_ns():020d}{_SUFFIX}"
            _write(os.path.join(directory, file), manifest)
            current[name] = file
        lines = "".join(f"{name} {file}\n" for name, file in sorted(current.items()))
        _write(os.path.join(directory, CURRENT), lines.encode())
        for name in names:
            of_name = [
                file
                for file in os.listdir(directory)
                if file.endswith(_SUFFIX) and file[: -len(_SUFFIX)].rpartition("-")[0] == name
            ]
            for file in sorted(of_name)[:-_KEPT]:
                os.unlink(os.path.join(directory, file))


@contextmanager
def _only_writer(directory: str) -> Iterator[None]:
    """Blocks other writers of manifests, because two writers would lose lines of ``CURRENT``."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def last_manifests(lake: str, names: Mapping[str, str]) -> dict[str, bytes]:
    """Returns the last manifests that were written into ``lake/serve``, for a quick start.

    Args:
        names: the tables, by their names in keys.

    Returns:
        Nothing, unless there is a manifest of each of these tables with files in the lake only. A
        copy of a lake has manifests with the files of the original.
    """
    root = os.path.abspath(lake) + os.sep
    read = _read(os.path.join(lake, SERVE_DIRECTORY), names)
    in_lake = (path.startswith(root) for _, served in read.values() for path in served.paths)
    if len(read) < len(names) or not all(in_lake):
        return {}
    return {name: manifest for name, (manifest, _) in read.items()}


def current_manifests(directory: str, names: Mapping[str, str]) -> dict[str, bytes]:
    """Returns the current manifests that can be read.

    Args:
        names: the tables, by their names in keys.
    """
    return {name: manifest for name, (manifest, _) in _read(directory, names).items()}


def _read(directory: str, names: Mapping[str, str]) -> dict[str, tuple[bytes, _core.ServedTable]]:
    current, read = read_current(directory), {}
    for name, table in names.items():
        try:
            with open(os.path.join(directory, current[name]), "rb") as file:
                manifest = file.read()
            served = _core.ServedTable(manifest, _core.ServedFiles(), 0)
        except (KeyError, OSError, NimbleError):
            continue
        if served.name == table:
            read[name] = manifest, served
    return read


def read_current(directory: str) -> dict[str, str]:
    """Returns the current manifest of each name; empty without ``CURRENT``."""
    try:
        with open(os.path.join(directory, CURRENT), encoding="utf-8") as file:
            return dict(line.split() for line in file if len(line.split()) == 2)
    except FileNotFoundError:
        return {}


def _write(path: str, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=_TEMPORARY)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
