"""Dataset: a directory of files, read like one file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.expr.nodes import Node
from nimblepy.file.file import File
from nimblepy.files.bounds import FileBounds
from nimblepy.files.directory import (
    is_directory,
    list_directory,
    open_in,
    resolve_directory,
)
from nimblepy.files.manifest import (
    Manifest,
    describe,
    entries_table,
    manifest_versions,
    read_manifest,
)
from nimblepy.files.open_files import OpenFiles
from nimblepy.files.pruning import files_for
from nimblepy.files.source import FilesSource
from nimblepy.io.location import FileSystem
from nimblepy.rows.rowset import Positions
from nimblepy.schema.types import IoStats, SortKey


def open_dataset(
    directory: str | os.PathLike[str],
    *,
    version: int | None = None,
    filesystem: FileSystem | None = None,
    mmap: bool = True,
    cache_bytes: int = 256 << 20,
    max_open_files: int = 128,
) -> Dataset:
    """Opens a directory of files as one.

    Args:
        directory: path or URI. With a manifest, the files are those it lists; without, all
            ``*.nimble`` in it, each of which is opened now.
        version: a version of the manifest; the default is the newest.
        filesystem, mmap, cache_bytes: see :func:`nimblepy.open`; the cache is that of one file.
        max_open_files: files kept open; the least recently used is closed first.

    Raises:
        OSError: no such directory.
        InvalidArgumentError: no files, files of different schemas or keys, or no such version.
        CorruptFileError: a damaged manifest or file; the message names it.

    Cost: with a manifest one file is read, however many files there are.
    """
    remote, path = resolve_directory(directory, filesystem)
    if not is_directory(path, remote):
        raise FileNotFoundError(f"{path}: no such directory")
    options = {
        "filesystem": filesystem,
        "mmap": mmap,
        "cache_bytes": cache_bytes,
        "max_open_files": max_open_files,
    }
    return Dataset(path, _find_manifest(path, version, remote), remote, options, source=directory)


def _find_manifest(path: str, version: int | None, remote: Any) -> Manifest:
    """A version of the dataset in a directory; ``None`` is the newest."""
    versions = manifest_versions(path, remote)
    if not versions:
        if version is not None:
            raise InvalidArgumentError(f"{path}: no manifest, so no version {version}")
        names = [name for name in list_directory(path, remote) if name.endswith(".nimble")]
        if not names:
            raise InvalidArgumentError(f"{path}: no manifest and no *.nimble files")
        return manifest_of_files(path, names, remote)
    chosen = versions[-1] if version is None else version
    if chosen not in versions:
        raise InvalidArgumentError(
            f"{path}: no version {chosen}; there are {', '.join(map(str, versions))}"
        )
    return read_manifest(path, chosen, remote)


def manifest_of_files(directory: str, names: Sequence[str], filesystem: Any) -> Manifest:
    """The manifest that files have which nobody committed; opens each of them."""
    entries = []
    first: Any = None
    for name in names:
        with open_in(directory, name, filesystem, mmap=False, cache_bytes=1 << 20) as file:
            if first is None:
                first = (name, file.schema, file.cluster_by)
            for what, found, wanted in (
                ("columns", file.schema, first[1]),
                ("cluster key", file.cluster_by, first[2]),
            ):
                if found != wanted:
                    raise InvalidArgumentError(
                        f"{directory}: files do not belong together: {first[0]} and {name} have "
                        f"different {what}: {_shown(wanted)} and {_shown(found)}"
                    )
            entries.append(describe(file, name))
    if first is None:
        raise InvalidArgumentError(f"{directory}: no files")
    return Manifest(
        version=0, schema=first[1], cluster_by=tuple(first[2]), table=entries_table(entries)
    )


def _shown(value: Any) -> str:
    if isinstance(value, pa.Schema):
        return ", ".join(f"{field.name} {field.type}" for field in value)
    return ", ".join(map(str, value)) or "none"


class Dataset(FilesSource):
    """Many files with one schema. Thread-safe; it pickles as directory and version.

    Rows are numbered over all files, in the order of the files' first keys. A handle stays at its
    version until :meth:`refresh`.
    """

    def __init__(
        self,
        directory: str,
        manifest: Manifest,
        filesystem: Any,
        options: dict[str, Any],
        *,
        source: Any,
    ) -> None:
        super().__init__()
        self._directory = directory
        self._remote = filesystem
        self._options = options
        self._source = source
        self._closed = False
        self._use(manifest)

    def _use(self, manifest: Manifest) -> None:
        def open_file(name: str) -> File:
            return open_in(
                self._directory,
                name,
                self._remote,
                mmap=self._options["mmap"],
                cache_bytes=self._options["cache_bytes"],
            )

        self._manifest = manifest
        self.num_files = manifest.num_files
        self.open_files = OpenFiles(open_file, self._options["max_open_files"])

    # ------------------------------------------------------------------ what it says of itself

    @property
    def source(self) -> str | None:
        """Path or URI of the directory; ``None`` in a file system that was passed."""
        if self._options["filesystem"] is not None:
            return None
        return self._directory if self._remote is None else os.fspath(self._source)

    @property
    def manifest(self) -> Manifest:
        """The files of this version.

        Raises:
            InvalidArgumentError: the dataset is closed.
        """
        self._check_open()
        return self._manifest

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError("this dataset is closed")

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of every file."""
        return self.manifest.schema

    @property
    def size_bytes(self) -> int:
        return int(self.manifest.table.column("size_bytes").to_numpy().sum())

    @property
    def files(self) -> list[str]:
        """Paths of the data files relative to the directory, by first key."""
        return list(self.manifest.names)

    @property
    def version(self) -> int:
        """Version of the manifest; 0 where there is none."""
        return self.manifest.version

    @property
    def cluster_by(self) -> list[SortKey]:
        """The cluster key of every file, empty where they have none."""
        return list(self.manifest.cluster_by)

    @property
    def io_stats(self) -> IoStats:
        """What has been read of files since open, those closed again included."""
        self._check_open()
        return self.open_files.io_stats

    def reset_io_stats(self) -> None:
        self._check_open()
        self.open_files.reset_io_stats()

    @property
    def first_rows(self) -> Positions:
        return self.manifest.first_rows

    @property
    def bounds(self) -> FileBounds | None:  # type: ignore[override]
        return self.manifest.bounds if self.manifest.cluster_by else None

    def child(self, file: int) -> File:
        manifest = self.manifest
        found = self.open_files.get(manifest.names[file], manifest.identities[file])
        rows = int(manifest.first_rows[file + 1] - manifest.first_rows[file])
        if found.num_rows != rows:
            raise CorruptFileError(
                f"{self._directory}: {manifest.names[file]} has {found.num_rows} rows, the "
                f"manifest of version {manifest.version} says {rows}"
            )
        return found

    # ------------------------------------------------------------------ finding

    def prune(self, conjuncts: Sequence[Node]) -> Sequence[int]:
        """Files that may pass, by their keys and the statistics of other columns.

        Cost: reads the statistics once, if ``conjuncts`` name other columns than the first of the
            key.
        """
        left = files_for(self.manifest, conjuncts, lambda: self._statistics)
        return range(self.num_files) if left is None else sorted(left)

    @cached_property
    def _statistics(self) -> pa.ChunkedArray | None:
        """Of every file; ``None`` where the manifest has none. Read when first asked for."""
        if not self.version:
            return None
        with_them = read_manifest(self._directory, self.version, self._remote, statistics=True)
        table = with_them.table
        return table.column("statistics") if "statistics" in table.column_names else None

    # ------------------------------------------------------------------ housekeeping

    def refresh(self) -> Dataset:
        """Moves this handle to the newest version, and returns it.

        Scans that were made before are to be made again. Not to be called while other threads ask
        this handle: open another one for them.
        """
        was = self.manifest
        manifest = _find_manifest(self._directory, None, self._remote)
        if manifest.version and manifest.version == was.version:
            return self
        self.release()
        self.__dict__.pop("_statistics", None)
        self.__dict__.pop("_projected", None)
        self._use(manifest)
        return self

    def close(self) -> None:
        """Closes all files; what is asked after that raises an InvalidArgumentError."""
        self._closed = True
        self.release()
        self.open_files.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        version = self.version or None
        source = self._source if self._remote is not None else self._directory
        return _reopen, (source, version, self._options)

    def __repr__(self) -> str:
        if self._closed:
            return "<nimblepy.Dataset, closed>"
        key = f", cluster by {', '.join(map(str, self.cluster_by))}" if self.cluster_by else ""
        return (
            f"<nimblepy.Dataset {self._directory!r}: {self.num_files:,} files, "
            f"{self.num_rows:,} rows, {len(self.schema)} columns{key}>"
        )


def _reopen(directory: Any, version: int | None, options: dict[str, Any]) -> Dataset:
    return open_dataset(directory, version=version, **options)
