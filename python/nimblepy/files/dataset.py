"""Dataset: a directory of files that is read like one file."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.expr.nodes import Node
from nimblepy.file.open import open_source
from nimblepy.file.source import FileSource
from nimblepy.file.versions import VersionedRows
from nimblepy.file.zones import Ranges, prune_by_zones
from nimblepy.files.listing import FileEntry, FileList, Footers
from nimblepy.files.open_files import OpenFiles, most_together
from nimblepy.files.source import FilesSource
from nimblepy.io.fork import ForkLock
from nimblepy.io.location import FileSystem, Location, locate
from nimblepy.io.lru_cache import LruCache
from nimblepy.io.time_limit import checked_timeout
from nimblepy.rows.html import html_rows
from nimblepy.rows.rows import Position
from nimblepy.rows.rowset import Positions
from nimblepy.schema.types import IoStats, SortKey, format_bytes

# Keyed by the identity of a file and the path steps of a column. Values are 1-tuples, so that a
# cached None is not taken for a miss.
_zone_values: LruCache[tuple[_core.ZoneValues | None]] = LruCache(200_000)


def open_dataset(
    directory: str | os.PathLike[str],
    *,
    filesystem: FileSystem | None = None,
    mmap: bool = True,
    cache_bytes: int = 256 << 20,
    max_open_files: int = 128,
    timeout: float | None = None,
) -> Dataset:
    """Opens the ``*.nimble`` files of a directory as one read-only union.

    All files must have the same columns and the same cluster key. Names that begin with ``.`` or
    ``_`` are ignored.

    Args:
        directory: path or URI.
        filesystem, mmap, timeout: see :func:`nimblepy.open`.
        cache_bytes: limit of the cache of each open file.
        max_open_files: maximum number of files kept open; the least recently used is closed first.

    Raises:
        OSError: the directory does not exist.
        InvalidArgumentError: the directory has no files, or their schemas or cluster keys differ.
        CorruptFileError: a file is damaged; the message names the file.

    Cost: lists the directory and reads each file's footer, first key and last key. The process
        caches them, so opening the directory again reads only new files.
    """
    timeout = checked_timeout(timeout)
    location = resolve_directory(directory, filesystem, timeout)
    if not location.is_directory():
        raise FileNotFoundError(f"{location.path}: no such directory; nb.open opens a file")
    options = {
        "filesystem": filesystem,
        "mmap": mmap,
        "cache_bytes": cache_bytes,
        "max_open_files": max_open_files,
        "timeout": timeout,
    }
    return Dataset(directory, None, options)


def resolve_directory(
    directory: str | os.PathLike[str],
    filesystem: FileSystem | None = None,
    timeout: float | None = None,
) -> Location:
    """Returns the location of a directory: an absolute local path, or a path in a store."""
    location = locate(directory, filesystem, timeout=timeout)
    path = os.path.abspath(location.path) if location.is_local else location.path.rstrip("/")
    return replace(location, path=path)


def open_child(directory: Location, name: str, *, mmap: bool, cache_bytes: int) -> FileSource:
    """Opens a file of a directory."""
    path = posixpath.join(directory.path, name)
    return open_source(
        path,
        filesystem=directory.store,
        mmap=mmap,
        cache_bytes=cache_bytes,
        timeout=directory.timeout,
    )


class DatasetSource(FilesSource):
    """An immutable view of the files that a dataset had at one time.

    Attributes:
        directory: the directory of the files.
        files: the list of files.
        open_files: open files, shared with other sources of the same handle.
    """

    def __init__(
        self,
        directory: Location,
        files: FileList,
        open_files: OpenFiles[FileSource],
        open_file: Callable[[str], FileSource],
        pickled: tuple[Any, ...],
    ) -> None:
        """
        Args:
            open_file: opens a file by its name in the directory.
            pickled: arguments of :class:`Dataset` for another process.
        """
        super().__init__()
        self.directory = directory
        self.files = files
        self.num_files = files.num_files
        self.bounds = files.bounds if files.cluster_by else None
        self.open_files = open_files
        self._open_file = open_file
        self._pickled = pickled

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen_source, self._pickled

    @property
    def keeps_readers(self) -> bool:
        return not self.open_files.use_descriptors or self.num_files <= most_together()

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of every file."""
        return self.files.schema

    @property
    def size_bytes(self) -> int:
        return int(self.files.table.column("size_bytes").to_numpy().sum())

    @property
    def cluster_by(self) -> list[SortKey]:
        """The cluster key that all files have; empty if the files do not have a cluster key."""
        return list(self.files.cluster_by)

    @property
    def io_stats(self) -> IoStats:
        return self.open_files.io_stats

    def reset_io_stats(self) -> None:
        self.open_files.reset_io_stats()

    @property
    def first_rows(self) -> Positions:
        return self.files.first_rows

    def child(self, file: int) -> FileSource:
        files = self.files
        name = files.names[file]
        opened = self.open_files.get(name, files.identities[file], partial(self._open_file, name))
        rows = int(files.first_rows[file + 1] - files.first_rows[file])
        if opened.num_rows != rows:
            raise CorruptFileError(
                f"{self.path_of(file)}: the file has {opened.num_rows} rows; expected {rows}"
            )
        return opened

    def name_of(self, file: int) -> str:
        return self.files.names[file]

    def path_of(self, file: int) -> str:
        """Returns the path of a file in the dataset's file system."""
        return posixpath.join(self.directory.path, self.files.names[file])

    def prune(self, conjuncts: Sequence[Node]) -> Sequence[int]:
        """Returns the files that may have matching rows, by their key bounds and zone maps.

        Cost: checks the key bounds first. From each remaining file, reads the zone map of each
        filtered column. The process caches zone maps, so later filters open fewer files.
        """
        files = self.files.files_for(conjuncts)
        for node in conjuncts:
            ranges = prune_by_zones(node, _FileZones(self, files).prune)
            if ranges is not None:
                files = [files[at] for begin, end in ranges.tolist() for at in range(begin, end)]
        return files

    def zone_values(self, file: int, steps: tuple[int, ...]) -> _core.ZoneValues | None:
        """Returns what a file's zone map says about a column; ``None`` if unknown. Cached."""
        key = self.files.identities[file], steps
        cached = _zone_values.get(key)
        if cached is None:
            cached = (_core.zone_values(self.child(file).handle.core, steps),)
            _zone_values.put(key, cached)
        return cached[0]

    def close(self) -> None:
        self.open_files.close()

    def __repr__(self) -> str:
        key = f", cluster by {', '.join(map(str, self.cluster_by))}" if self.cluster_by else ""
        return (
            f"<nimblepy.Dataset {self.directory.path!r}: {self.num_files:,} files, "
            f"{self.num_rows:,} rows, {len(self.schema)} columns{key}>"
        )


class _FileZones:
    """Evaluates one node of a filter with each file as one zone."""

    def __init__(self, source: DatasetSource, files: Sequence[int]) -> None:
        self._source = source
        self._files = files
        self._values: dict[tuple[int, ...], list[_core.ZoneValues | None]] = {}

    def prune(self, steps: tuple[int, ...], *question: Any) -> Ranges:
        """Returns the ranges of positions in ``files`` that may have matching rows.

        Args:
            question: further arguments of ``_core.prune_files``.
        """
        values = self._values.get(steps)
        if values is None:
            values = [self._source.zone_values(file, steps) for file in self._files]
            self._values[steps] = values
        return _core.prune_files(values, *question)


class Dataset(VersionedRows[DatasetSource]):
    """A read-only union of files that have the same schema. Thread-safe.

    Rows are numbered across all files, in the order of the files' first keys. A handle reads the
    same list of files until :meth:`refresh`. A pickled handle contains the directory and this list.
    A table (:meth:`nimblepy.Catalog.create_table`) also has commits, snapshots and deletes.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        files: FileList | None,
        options: dict[str, Any],
    ) -> None:
        filesystem = options["filesystem"]
        location = resolve_directory(directory, filesystem, options["timeout"])
        self._directory = location
        self._options = options
        # Path or URI of the directory; None if the caller passed a remote file system object.
        self._root: str | None = None
        if location.is_local:
            self._root = location.path
        elif filesystem is None:
            self._root = os.fspath(directory).rstrip("/")
        self._open_file = partial(
            open_child, location, mmap=options["mmap"], cache_bytes=options["cache_bytes"]
        )
        mapped = options["mmap"] or not location.is_local
        self._open_files: OpenFiles[FileSource] = OpenFiles(
            most=options["max_open_files"], use_descriptors=not mapped
        )
        self._footers = Footers(location, self._root, self._open_file, self._keep_open)
        self._refreshing = ForkLock()
        self._open_files.add_holder(self._release)
        super().__init__(Position(self._source_of(files or self._footers.listed())))

    def _keep_open(self, file: FileSource, entry: FileEntry) -> None:
        self._open_files.get(entry.file, entry.identity, lambda: file)

    def _source_of(self, files: FileList) -> DatasetSource:
        directory = self._directory.path if self._root is None else self._root
        pickled = directory, files, self._options
        return DatasetSource(self._directory, files, self._open_files, self._open_file, pickled)

    @property
    def _current(self) -> DatasetSource:
        self._open_files.check_open()
        return super()._current

    @property
    def paths(self) -> list[str]:
        """Paths or URIs of the files, in the order of their rows."""
        directory = self._directory.path if self._root is None else self._root
        return [posixpath.join(directory, name) for name in self._current.files.names]

    def _page_state(self) -> str:
        names = "\n".join(self._current.files.names)
        return hashlib.sha256(names.encode()).hexdigest()[:16]

    @property
    def stale(self) -> list[str]:
        """Paths or URIs of files that were added, removed or replaced since the last refresh.

        It is empty if :meth:`refresh` would change nothing.

        Cost: lists the directory and opens the files that may have been replaced.
        """
        directory = self._directory.path if self._root is None else self._root
        changed = self._footers.changed(self._current.files)
        return [posixpath.join(directory, name) for name in changed]

    def refresh(self) -> Dataset:
        """Moves this handle to the files that the directory has now, and returns it.

        Other threads may use the handle at the same time. Each of their calls reads either the old
        or the new list of files. Scans that have already started read the old files.

        Raises:
            OSError, CorruptFileError, InvalidArgumentError: see :func:`nimblepy.open_dataset`. The
                handle does not change.

        Cost: lists the directory and reads the footers of new files. Files that are still in the
            list remain open.
        """
        with self._refreshing.native:
            before = self._current.files
            files = self._footers.listed()
            if (files.names, files.identities) == (before.names, before.identities):
                return self
            source = self._source_of(files)
            self._replace_position(lambda _: Position(source))
        kept = {*zip(files.names, files.identities, strict=True)}
        self._open_files.close_unless(lambda keys: [key in kept for key in keys])
        return self

    def close(self) -> None:
        """Closes all files. Later calls raise an InvalidArgumentError."""
        self._open_files.close()
        self._release()

    def __reduce__(self) -> tuple[Any, ...]:
        _, arguments = self._current.__reduce__()
        return Dataset, arguments

    def __repr__(self) -> str:
        try:
            return repr(self._current)
        except InvalidArgumentError:
            return "<nimblepy.Dataset, closed>"

    def _repr_html_(self) -> str:
        try:
            rows = self._current
        except InvalidArgumentError:
            return html_rows(repr(self), {}, None)
        return html_rows(
            f"Dataset {self._directory.path}",
            {"files": rows.num_files, "rows": rows.num_rows, "size": format_bytes(rows.size_bytes)},
            rows.schema,
            [str(key.column) for key in rows.cluster_by],
            self.take(range(min(5, rows.num_rows))),
        )


def source_of_dataset(dataset: Dataset) -> DatasetSource:
    """Returns the current source of a handle, for other modules of nimblepy."""
    return dataset._current


def path_of_dataset(dataset: Dataset) -> str | None:
    """Returns the path or URI of the directory; ``None`` for a remote file system object."""
    return dataset._root


def _reopen_source(directory: str, files: FileList, options: dict[str, Any]) -> DatasetSource:
    return source_of_dataset(Dataset(directory, files, options))
