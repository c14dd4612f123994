"""Follows the sources of a server: finds new snapshots and creates their serving manifests."""

from __future__ import annotations

import copy
import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError, NimbleError
from nimblepy.file.file import File
from nimblepy.files.dataset import Dataset, source_of_dataset
from nimblepy.files.resolve import as_rows
from nimblepy.io.log import logger
from nimblepy.table.base.places import has_catalog
from nimblepy.table.catalog import Catalog, connect

# Tables load pyiceberg, which takes longer than to start from the last manifests.
if TYPE_CHECKING:
    from nimblepy.serving.manifest import Served

# File names in the directory of serving manifests.
CURRENT = "CURRENT"
_SUFFIX = ".nsm"
_TEMPORARY = ".tmp-"
# The directory of the serving manifests in a lake.
SERVE_DIRECTORY = "serve"
# Number of manifests to keep for each table, because readers may still open the previous one.
_KEPT = 2


def open_served(
    source: Catalog | Served | str | os.PathLike[str], tables: Mapping[str, str] | str | None
) -> dict[str, Served]:
    """Opens separate handles on everything to serve, by the names that keys use.

    Args:
        source: a lake, a file, a dataset or a table; or a path.
        tables: for a lake, its tables by the names that keys use. Otherwise the name of the file,
            dataset or table.
    """
    if isinstance(source, (str, os.PathLike)) and isinstance(tables, Mapping):
        source = connect(source, create=False)
    elif isinstance(source, (str, os.PathLike)) and has_catalog(source):
        named = tables if isinstance(tables, str) else "NAMESPACE.TABLE"
        name = named.rpartition(".")[2]
        raise InvalidArgumentError(
            f"serve: {os.fspath(source)!r} is a lake; pass its tables by the names that keys use: "
            f"serve({os.fspath(source)!r}, {{{name!r}: {named!r}}})"
        )
    if isinstance(source, Catalog):
        if not isinstance(tables, Mapping) or not tables:
            raise InvalidArgumentError(
                'serve: a lake needs the tables to serve, as in {"users": "shop.users"}'
            )
        return {_checked(name): source.table(table) for name, table in tables.items()}
    from nimblepy.table.table import Table

    if isinstance(tables, Mapping):
        raise InvalidArgumentError(
            "serve: a file, a dataset or a table takes one name, as in serve(source, 'users')"
        )
    if isinstance(source, Table):
        name = tables or source.name.rpartition(".")[2]
        lake = source.catalog
        assert isinstance(lake, Catalog)
        return {_checked(name): lake.table(source.name)}
    if isinstance(source, Dataset):
        directory = source_of_dataset(source).directory.path
        return {_checked(tables or _name_of(directory)): copy.copy(source)}
    if not isinstance(source, (str, os.PathLike)):
        if source.source is None:
            raise InvalidArgumentError("serve: a file that was opened from bytes is not served")
        source = source.source
    rows = as_rows(source)
    assert isinstance(rows, (File, Dataset))
    return {_checked(tables or _name_of(os.fspath(source))): rows}


def _name_of(path: str) -> str:
    return os.path.basename(path.rstrip("/")).removesuffix(".nimble")


def _checked(name: str) -> str:
    # A key is NAME:KEY, and CURRENT has file names separated by spaces.
    if not name or any(c.isspace() or ord(c) <= 32 or c in ":/\\" for c in name):
        raise InvalidArgumentError(
            f"serve: the name {name!r} is empty, or has a space, a colon, a slash or a backslash"
        )
    return name


class Follower:
    """Polls the sources, and publishes a manifest of each new state. Not thread-safe.

    Args:
        handles: handles that only the follower moves and closes; or a function that opens them,
            which the first poll calls.
        publish: receives the manifests of all names that changed.

    Attributes:
        checked_at: time of the last complete check, in seconds of the monotonic clock.
        failures: number of failures to read a source or a manifest.
        last_error: the message of the last failure; ``None`` after a success.
    """

    def __init__(
        self,
        handles: dict[str, Served] | Callable[[], dict[str, Served]],
        publish: Callable[[dict[str, bytes]], None],
    ) -> None:
        self._open: Callable[[], dict[str, Served]] | None = None
        self._handles: dict[str, Served] = {}
        if callable(handles):
            self._open = handles
        else:
            self._handles = handles
        self._publish = publish
        self._published: set[str] = set()
        self.checked_at = time.monotonic()
        self.failures = 0
        self.last_error: str | None = None

    def poll(self) -> None:
        """Checks all sources once. If a source cannot be read, its last state remains published."""
        changed: dict[str, bytes] = {}
        problem = None
        if self._open is not None:
            try:
                self._handles, self._open = self._open(), None
            except Exception as error:  # a catalog may fail in any way
                problem = str(error)
        from nimblepy.serving.manifest import serving_manifest

        for name, handle in self._handles.items():
            try:
                if self._moved(handle) or name not in self._published:
                    changed[name] = serving_manifest(handle)
            except Exception as error:  # a source may fail in any way; the server continues
                problem = f"{name}: {error}"
                self._published.discard(name)
        if changed:
            try:
                self._publish(changed)
                self._published |= changed.keys()
            except Exception as error:
                problem = str(error)
                self._published -= changed.keys()
        if problem is None:
            self.checked_at = time.monotonic()
        else:
            self.failures += 1
            if problem != self.last_error:
                logger("nimblepy.serving").warning("serve: the state before is kept: %s", problem)
        self.last_error = problem

    @staticmethod
    def _moved(handle: Served) -> bool:
        from nimblepy.table.table import Table

        if isinstance(handle, Table):
            before = handle._position
            handle.refresh()
            return handle._position is not before
        if isinstance(handle, Dataset):
            return bool(handle.stale) and handle.refresh() is handle
        return handle.is_stale and handle.refresh() is handle

    def run(self, poll: float, stop: threading.Event) -> None:
        """Polls until ``stop`` is set."""
        while not stop.wait(poll):
            self.poll()

    def close(self) -> None:
        """Closes the handles."""
        for handle in self._handles.values():
            handle.close()


def write_manifests(directory: str, names: Mapping[str, bytes]) -> None:
    """Writes serving manifests, then makes ``CURRENT`` name them.

    ``CURRENT`` has a line ``NAME FILE`` for each name. Files are renamed into place, so that
    readers never see a partial file. Older manifests of these names are removed, except the
    previous one.
    """
    os.makedirs(directory, exist_ok=True)
    with _only_writer(directory):
        for file in os.listdir(directory):
            if file.startswith(_TEMPORARY):  # of a process that was killed
                os.unlink(os.path.join(directory, file))
        current = read_current(directory)
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
    """Keeps other processes from writing manifests: they would lose lines of ``CURRENT``."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def last_manifests(lake: str, names: Mapping[str, str]) -> dict[str, bytes]:
    """Returns the last manifests that were written into ``lake/serve``, for a quick start.

    Args:
        names: the table of each name that keys use.

    Returns:
        Nothing, unless there is a manifest of each of these tables with files in the lake only. A
        copy of a lake has manifests with the files of the original.
    """
    directory, root = os.path.join(lake, SERVE_DIRECTORY), os.path.abspath(lake) + os.sep
    current, manifests = read_current(directory), {}
    for name, table in names.items():
        try:
            with open(os.path.join(directory, current[name]), "rb") as file:
                manifest = file.read()
            served = _core.ServedTable(manifest, _core.ServedFiles(), 0)
        except (KeyError, OSError, NimbleError):
            return {}
        if served.name != table or not all(path.startswith(root) for path in served.paths):
            return {}
        manifests[name] = manifest
    return manifests


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
