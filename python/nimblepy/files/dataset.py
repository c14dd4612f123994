"""Dataset: the lookups, ranges and scans of a File over many files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import _is_many
from nimblepy.file.key_probes import _width
from nimblepy.files.directory import (
    is_directory,
    list_directory,
    open_in,
    resolve_directory,
)
from nimblepy.files.keyed import KeyedDataset
from nimblepy.files.manifest import (
    Manifest,
    describe,
    entries_table,
    manifest_versions,
    read_manifest,
)
from nimblepy.files.scan import DatasetScan
from nimblepy.join.index_join import index_join
from nimblepy.rows.keys import key_columns, probe_batch
from nimblepy.rows.plan import Plan


def open_dataset(
    directory: str | os.PathLike[str],
    *,
    version: int | None = None,
    filesystem: Any = None,
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
    versions = manifest_versions(path, remote)
    options = {
        "filesystem": filesystem,
        "mmap": mmap,
        "cache_bytes": cache_bytes,
        "max_open_files": max_open_files,
    }
    if not versions:
        if version is not None:
            raise InvalidArgumentError(f"{path}: no manifest, so no version {version}")
        names = [name for name in list_directory(path, remote) if name.endswith(".nimble")]
        if not names:
            raise InvalidArgumentError(f"{path}: no manifest and no *.nimble files")
        manifest = manifest_of_files(path, names, remote)
    else:
        chosen = versions[-1] if version is None else version
        if chosen not in versions:
            raise InvalidArgumentError(
                f"{path}: no version {chosen}; there are {', '.join(map(str, versions))}"
            )
        manifest = read_manifest(path, chosen, remote)
    return Dataset(path, manifest, remote, options, source=directory)


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


class Dataset(KeyedDataset):
    """Many files with one schema. Thread-safe; it pickles as directory and version.

    Rows are numbered over all files, in the order of the files' first keys.
    """

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        filter: pc.Expression | str | None = None,
        row_range: tuple[int, int] | None = None,
        batch_rows: int = 65536,
        threads: int | None = None,
        limit: int | None = None,
    ) -> DatasetScan:
        """As :meth:`File.scan`, file after file."""
        return DatasetScan(
            self,
            columns=columns,
            filter=filter,
            row_range=row_range,
            batch_rows=batch_rows,
            threads=threads,
            limit=limit,
        )

    def to_table(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | str | None = None
    ) -> pa.Table:
        """All rows, or those that pass ``filter``."""
        return self.scan(columns, filter=filter).to_table()

    def index_join(
        self, probe: Any, *, on: str | Sequence[str] | Mapping[str, str], **keywords: Any
    ) -> pa.Table | pa.RecordBatchReader:
        """:func:`nimblepy.index_join` with this dataset."""
        return index_join(probe, self, on=on, **keywords)

    def explain(
        self,
        keys: Any = None,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        lower: Any = None,
        upper: Any = None,
        inclusive: str = "[)",
        prefix: Any = None,
        filter: pc.Expression | str | None = None,
        row_range: tuple[int, int] | None = None,
    ) -> Plan:
        """What a lookup (``keys``), range, prefix or scan would touch, file by file."""
        if keys is not None:
            many = keys if _is_many(keys) else [keys]
            found = key_columns(self._keys, self._key_types, on, _width(many, on, self._keys))
            probes = probe_batch(many, found)
            _, files = self._files_of(probes.batch, probes.batch)
            chosen = sorted(set(files.tolist()))
            plans = [self._file(i).explain(many, on=on, columns=columns) for i in chosen[:_SHOWN]]
            return self._plan("lookup", chosen, plans)
        if prefix is not None or lower is not None or upper is not None:
            if prefix is not None:
                files_found = self._prefix_files(prefix, on)
                given: dict[str, Any] = {"prefix": prefix}
            else:
                files_found = self._range_files(lower, upper, on)
                given = {"lower": lower, "upper": upper, "inclusive": inclusive}
            chosen = list(files_found)
            plans = [
                self._file(i).explain(on=on, columns=columns, **given) for i in chosen[:_SHOWN]
            ]
            return self._plan("prefix" if prefix is not None else "range", chosen, plans)
        return self.scan(columns, filter=filter, row_range=row_range).explain()

    def __reduce__(self) -> tuple[Any, ...]:
        version = self.version or None
        source = self._source if self._remote is not None else self._directory
        return _reopen, (source, version, self._options)


# Files whose plans are shown one by one.
_SHOWN = 8


def _reopen(directory: Any, version: int | None, options: dict[str, Any]) -> Dataset:
    return open_dataset(directory, version=version, **options)
