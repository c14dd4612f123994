"""Follows the sources of a server: finds new snapshots and creates their serving manifests.

The first poll imports the modules that read tables. A server with manifests answers before that.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias

from nimblepy import _core
from nimblepy.errors import ConflictError, NimbleError
from nimblepy.io.log import logger

if TYPE_CHECKING:
    from nimblepy.serving.manifest import Served

    Open: TypeAlias = Callable[[Collection[str]], tuple[dict[str, Served], set[str]]]

# For this long after a check of all tables, polls only compare the catalogs' files, which takes a
# tenth of the time. Then all tables are checked again, because a commit within the same clock tick
# may leave the size and the time of a catalog's file unchanged.
_SECONDS_BETWEEN_LOOKS = 1.0


def _state_of(path: str) -> tuple[int, ...]:
    """Identifies the content of a file; empty without the file."""
    try:
        state = os.stat(path)
    except OSError:
        return ()
    return state.st_ino, state.st_size, state.st_mtime_ns


def _files_of(manifest: bytes) -> set[str]:
    return set(_core.ServedTable(manifest, _core.ServedFiles(), 0).paths)


class Follower:
    """Polls the sources, and publishes a manifest of each new state. Not thread-safe.

    Args:
        handles: handles that only the follower moves and closes; or a function that opens those
            of the names that it does not get, and also returns the names of tables that do not
            exist. Polls call it until all tables exist.
        publish: receives the manifests of all names that changed.
        withdraw: receives the names of tables that were dropped.
        published: the manifests that were published before, for example by another process.

    Attributes:
        checked_at: time of the last complete check, in seconds of the monotonic clock.
        failures: number of failures to read a source or a manifest.
        last_error: the message of the last failure; ``None`` after a success.
    """

    def __init__(
        self,
        handles: dict[str, Served] | Open,
        publish: Callable[[dict[str, bytes]], None],
        withdraw: Callable[[set[str]], None] | None = None,
        published: Mapping[str, bytes] | None = None,
    ) -> None:
        self._open: Open | None = None
        self._handles: dict[str, Served] = {}
        if callable(handles):
            self._open = handles
        else:
            self._handles = handles
        self._publish = publish
        self._withdraw = withdraw
        self._published: set[str] = set()
        # The files of the last published manifests.
        self._paths = {name: _files_of(manifest) for name, manifest in (published or {}).items()}
        # The files of the catalogs at the last look at all tables, and its time.
        self._last_files: list[tuple[int, ...]] | None = None
        self._looked_at = -math.inf
        self.checked_at = time.monotonic()
        self.failures = 0
        self.last_error: str | None = None

    def poll(self) -> None:
        """Checks all sources once. If a source cannot be read, or if a new file of it is missing,
        its last state remains published.

        A table that was dropped or renamed is withdrawn, until there is a table of its name again.
        """
        now, files = time.monotonic(), self._catalog_files()
        is_recent = now - self._looked_at < _SECONDS_BETWEEN_LOOKS
        if is_recent and files and files == self._last_files:
            self.checked_at = now
            return
        changed: dict[str, bytes] = {}
        paths: dict[str, set[str]] = {}
        dropped: set[str] = set()
        problem = None
        if self._open is not None:
            try:
                opened, missing = self._open(self._handles)
            except Exception as error:  # a catalog may fail in any way
                problem = str(error)
            else:
                self._handles |= opened
                self._published -= missing
                dropped |= missing
                if missing:
                    problem = f"no such table: {', '.join(sorted(missing))}"
                else:
                    self._open = None
        for name in list(self._handles):
            try:
                manifest = self._changed(name, dropped)
                if manifest is not None:
                    paths[name] = self._present_files(name, manifest)
                    changed[name] = manifest
                    dropped.discard(name)
            except Exception as error:  # a source may fail in any way; the server continues
                problem = f"{name}: {error}"
                self._published.discard(name)
        try:
            for name in dropped:
                self._paths.pop(name, None)
            if dropped and self._withdraw is not None:
                self._withdraw(dropped)
            if changed:
                self._publish(changed)
                self._published |= changed.keys()
                self._paths |= paths
        except Exception as error:
            problem = str(error)
            self._published -= changed.keys()
        self._last_files = None
        if problem is None:
            self.checked_at = time.monotonic()
            self._last_files, self._looked_at = files, now
        else:
            self.failures += 1
            if problem != self.last_error:
                logger("nimblepy.serving").warning("serve: update failed: %s", problem)
        self.last_error = problem

    def _catalog_files(self) -> list[tuple[int, ...]] | None:
        """The state of the files that every commit to the tables changes, if all sources are tables
        of local catalogs.
        """
        paths: set[str] = set()
        for handle in self._handles.values():
            catalog = getattr(getattr(handle, "catalog", None), "iceberg", None)
            path: str | None = getattr(catalog, "database", None)
            if path is None:
                return None
            paths.add(path)
        return [_state_of(f"{path}{end}") for path in sorted(paths) for end in ("", "-wal")]

    def _changed(self, name: str, dropped: set[str]) -> bytes | None:
        """Returns the manifest of a source that changed, or adds its name to ``dropped``."""
        from nimblepy.serving.manifest import serving_manifest

        try:
            if not self._moved(self._handles[name]) and name in self._published:
                return None
        except ConflictError as error:
            if error.kind != "table":
                raise
            dropped.add(name)
            if not self._reopen(name):
                raise
        return serving_manifest(self._handles[name])

    def _present_files(self, name: str, manifest: bytes) -> set[str]:
        """Returns the files of a manifest.

        Raises:
            FileNotFoundError: a file that the published manifest does not have is missing.
        """
        paths = _files_of(manifest)
        for path in sorted(paths - self._paths.get(name, paths)):
            if not os.path.exists(path):
                raise FileNotFoundError(f"{path} is missing; the previous snapshot remains served")
        return paths

    def _reopen(self, name: str) -> bool:
        """Opens the table that now has the name of a dropped table, if there is one."""
        from nimblepy.table.catalog import Catalog
        from nimblepy.table.table import Table

        dropped = self._handles[name]
        assert isinstance(dropped, Table)
        assert isinstance(dropped.catalog, Catalog)
        try:
            self._handles[name] = dropped.catalog.table(dropped.name)
        except (OSError, NimbleError):
            return False
        dropped.close()
        return True

    @staticmethod
    def _moved(handle: Served) -> bool:
        from nimblepy.files.dataset import Dataset
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
