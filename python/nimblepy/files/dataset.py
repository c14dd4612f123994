"""Dataset: a directory of files, read like one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.expr.nodes import Node
from nimblepy.file.file import File
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
from nimblepy.files.open_files import OpenFiles, most_together
from nimblepy.files.pruning import files_for
from nimblepy.files.source import FilesSource
from nimblepy.files.versions import Position, VersionedRows
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
        filesystem, mmap, cache_bytes: see :func:`nimblepy.open`; ``cache_bytes`` bounds the cache
            of each open file.
        max_open_files: files kept open; the least recently used is closed first.

    Raises:
        OSError: no such directory.
        InvalidArgumentError: no files, files of different schemas or keys, or no such version.
        CorruptFileError: a damaged manifest or file; the message names it.

    Cost: with a manifest one file is read, however many files there are.
    """
    remote, path = resolve_directory(directory, filesystem)
    if not is_directory(path, remote):
        raise FileNotFoundError(f"{path}: no such directory; nb.open opens a file")
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


class DatasetVersion(FilesSource):
    """One version of a dataset, which does not change.

    Attributes:
        manifest: the files of this version.
        open_files: shared with other versions of the same handle.
    """

    def __init__(
        self,
        directory: str,
        manifest: Manifest,
        filesystem: Any,
        open_files: OpenFiles[File],
        open_file: Callable[[str], File],
        pickled: tuple[Any, ...],
    ) -> None:
        """
        Args:
            open_file: opens a file by its name in the directory.
            pickled: what another process opens the version by.
        """
        super().__init__()
        self._directory = directory
        self._remote = filesystem
        self.manifest = manifest
        self.num_files = manifest.num_files
        self.bounds = manifest.bounds if manifest.cluster_by else None
        self.open_files = open_files
        self._open_file = open_file
        self._pickled = pickled

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen_version, self._pickled

    @property
    def keeps_readers(self) -> bool:
        return not self.open_files.use_descriptors or self.num_files <= most_together()

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of every file."""
        return self.manifest.schema

    @property
    def size_bytes(self) -> int:
        return int(self.manifest.table.column("size_bytes").to_numpy().sum())

    @property
    def cluster_by(self) -> list[SortKey]:
        """The cluster key of every file, empty where they have none."""
        return list(self.manifest.cluster_by)

    @property
    def io_stats(self) -> IoStats:
        return self.open_files.io_stats

    def reset_io_stats(self) -> None:
        self.open_files.reset_io_stats()

    @property
    def first_rows(self) -> Positions:
        return self.manifest.first_rows

    def child(self, file: int) -> File:
        manifest = self.manifest
        name, identity = manifest.names[file], manifest.identities[file]
        found = self.open_files.get(name, identity, partial(self._open_file, name))
        rows = int(manifest.first_rows[file + 1] - manifest.first_rows[file])
        if found.num_rows != rows:
            raise CorruptFileError(
                f"{self._directory}: {manifest.names[file]} has {found.num_rows} rows, the "
                f"manifest of version {manifest.version} says {rows}"
            )
        return found

    def name_of(self, file: int) -> str:
        return self.manifest.names[file]

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
        version = self.manifest.version
        if not version:
            return None
        table = read_manifest(self._directory, version, self._remote, statistics=True).table
        return table.column("statistics") if "statistics" in table.column_names else None

    def close(self) -> None:
        self.release()
        self.open_files.close()

    def __repr__(self) -> str:
        key = f", cluster by {', '.join(map(str, self.cluster_by))}" if self.cluster_by else ""
        return (
            f"<nimblepy.Dataset {self._directory!r}: {self.num_files:,} files, "
            f"{self.num_rows:,} rows, {len(self.schema)} columns{key}>"
        )


class Dataset(VersionedRows[DatasetVersion]):
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
        self._directory = directory
        self._remote = filesystem
        self._options = options
        self._source = source

        def open_file(name: str) -> File:
            how = {name: options[name] for name in ("mmap", "cache_bytes")}
            return open_in(directory, name, filesystem, **how)

        self._open_file = open_file
        mapped = options["mmap"] or filesystem is not None
        self._open_files: OpenFiles[File] = OpenFiles(
            most=options["max_open_files"], use_descriptors=not mapped
        )
        self._open_files.holders.add(self)
        super().__init__(Position(self._version(manifest)))

    def _version(self, manifest: Manifest) -> DatasetVersion:
        return DatasetVersion(
            self._directory,
            manifest,
            self._remote,
            self._open_files,
            self._open_file,
            self._pickled(manifest),
        )

    def _pickled(self, manifest: Manifest) -> tuple[Any, ...]:
        source = self._source if self._remote is not None else self._directory
        return source, manifest.version or None, self._options

    @property
    def current(self) -> DatasetVersion:
        self._open_files.check_open()
        return super().current

    @property
    def source(self) -> str | None:
        """Path or URI of the directory; ``None`` in a file system that was passed."""
        if self._options["filesystem"] is not None:
            return None
        return self._directory if self._remote is None else os.fspath(self._source)

    @property
    def num_files(self) -> int:
        """Number of data files."""
        return self.current.num_files

    @property
    def files(self) -> list[str]:
        """Paths of the data files relative to the directory, by first key."""
        return list(self.current.manifest.names)

    @property
    def version(self) -> int:
        """Version of the manifest; 0 where there is none."""
        return self.current.manifest.version

    def refresh(self) -> Dataset:
        """Moves this handle to the newest version, and returns it.

        Other threads may use the handle meanwhile: each of their calls is answered by one version,
        the one that was current when it began. Scans keep the version that they were made of.

        Raises:
            OSError, CorruptFileError: the newest manifest cannot be read; the handle stays as it
                was.

        Cost: lists the manifests and reads the newest; files that it still names stay open.
        """
        was = self.current
        manifest = _find_manifest(self._directory, None, self._remote)

        def following(position: Position[DatasetVersion]) -> Position[DatasetVersion]:
            there = position.rows.manifest.version
            # Another thread may have moved the handle further after this one found the manifest.
            if manifest.version and (
                manifest.version == there or (position.rows is not was and manifest.version < there)
            ):
                return position
            return Position(self._version(manifest))

        self.move(following)
        now = self.current.manifest
        named = {*zip(now.names, now.identities, strict=True)}
        self._open_files.close_unless(lambda keys: [key in named for key in keys])
        return self

    def close(self) -> None:
        """Closes all files. Calls after that raise an InvalidArgumentError."""
        self._open_files.close()
        self.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, self._pickled(self.current.manifest)

    def __repr__(self) -> str:
        try:
            return repr(self.current)
        except InvalidArgumentError:
            return "<nimblepy.Dataset, closed>"


def _reopen(directory: Any, version: int | None, options: dict[str, Any]) -> Dataset:
    return open_dataset(directory, version=version, **options)


def _reopen_version(directory: Any, version: int | None, options: dict[str, Any]) -> DatasetVersion:
    return _reopen(directory, version, options).current
