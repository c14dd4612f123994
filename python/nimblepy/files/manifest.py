"""The manifest: which files a dataset has, and the first and last key of each.

It is a nimble file with one row per data file, clustered by the first key. A new version is a new
file ``_manifest/<version>.nimble`` that appears in one step; older versions stay as they are, so a
reader never sees a mixture. Paths are relative to the dataset's directory.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, InvalidArgumentError, UnsupportedVersionError
from nimblepy.file.file import File
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.files.directory import list_directory, open_in
from nimblepy.files.statistics import TYPE
from nimblepy.rows.keys import key_batch
from nimblepy.schema.types import SortKey, pack_sort_keys, unpack_sort_keys

FOLDER = "_manifest"
_VERSION = "1"
_SCHEMA = pa.schema(
    [
        pa.field("lower_key", pa.binary()),
        pa.field("upper_key", pa.binary()),
        pa.field("file", pa.string(), nullable=False),
        pa.field("num_rows", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("identity", pa.uint64(), nullable=False),
        pa.field("statistics", TYPE),
    ]
)
# What every opening reads; the statistics wait until a filter asks for them.
_ALWAYS = [name for name in _SCHEMA.names if name != "statistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One data file.

    Attributes:
        file: path relative to the dataset.
        identity: checksum of its footer, which has those of everything else.
        lower_key, upper_key: encoded keys of its first and last row; ``None`` without a cluster
            key, or without rows.
        statistics: statistics of its columns, as ``statistics.Collector`` gives them; ``None``
            where they are not known, or were not read.
    """

    file: str
    num_rows: int
    size_bytes: int
    identity: int
    lower_key: bytes | None = None
    upper_key: bytes | None = None
    statistics: list[dict[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Manifest:
    """One version of a dataset.

    Attributes:
        version: 0 for a directory without a manifest.
        schema: columns and types of every file.
        table: one row per file, with the columns of :class:`FileEntry`, ordered by first key; files
            without a key are last.
        batches: last batch that each named stream of batches has added.
    """

    version: int
    schema: pa.Schema
    cluster_by: tuple[SortKey, ...]
    table: pa.Table
    batches: dict[str, int] = field(default_factory=dict)

    @property
    def num_files(self) -> int:
        return int(self.table.num_rows)

    def entries(self) -> list[FileEntry]:
        return [FileEntry(**row) for row in self.table.to_pylist()]

    @cached_property
    def names(self) -> list[str]:
        """Paths of the files."""
        return list(self.table.column("file").to_pylist())

    @cached_property
    def identities(self) -> list[int]:
        """Checksums of the files' footers."""
        return list(self.table.column("identity").to_pylist())

    @cached_property
    def first_rows(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Rows before each file, and of all of them."""
        counts = self.table.column("num_rows").to_numpy()
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])

    @cached_property
    def bounds(self) -> FileBounds:
        """Of the files that have keys, which are the first."""
        lower, upper = (self.table.column(name).combine_chunks() for name in _SCHEMA.names[:2])
        keyed = len(lower) - lower.null_count
        return FileBounds(lower.slice(0, keyed), upper.slice(0, keyed))

    def metadata(self) -> dict[str, bytes]:
        return {
            "nimble.manifest": _VERSION.encode(),
            "nimble.schema": self.schema.serialize().to_pybytes(),
            "nimble.cluster_by": pack_sort_keys(self.cluster_by).encode(),
            "nimble.batches": json.dumps(self.batches).encode(),
        }


def entries_table(files: Sequence[FileEntry]) -> pa.Table:
    """The table of a manifest: by first key, files without one last."""
    ordered = sorted(files, key=lambda e: (e.lower_key is None, e.lower_key, e.upper_key))
    rows = [{name: getattr(entry, name) for name in _SCHEMA.names} for entry in ordered]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def manifest_name(version: int) -> str:
    return posixpath.join(FOLDER, f"{version:020d}.nimble")


def manifest_versions(directory: str, filesystem: Any) -> list[int]:
    """Versions that are there, oldest first."""
    names = list_directory(posixpath.join(directory, FOLDER), filesystem)
    stems = [name.removesuffix(".nimble") for name in names if name.endswith(".nimble")]
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def read_manifest(
    directory: str, version: int, filesystem: Any, *, statistics: bool = False
) -> Manifest:
    """A version of the dataset in ``directory``.

    Args:
        statistics: read those as well, for a commit that keeps them.

    Raises:
        CorruptFileError: it is no manifest, or a damaged one.
        UnsupportedVersionError: written by a newer nimblepy.

    Cost: one small file is read, whatever the number of data files.
    """
    name = manifest_name(version)
    with open_in(directory, name, filesystem, mmap=False, cache_bytes=1 << 20) as file:
        found = file.metadata.get("nimble.manifest", b"").decode("utf-8", "replace")
        if not found:
            raise CorruptFileError(f"{directory}/{name}: a nimble file, but no manifest")
        if found != _VERSION:
            raise UnsupportedVersionError(
                f"{directory}/{name}: manifest version {found}; this nimblepy reads {_VERSION}"
            )
        # Manifests of before there were statistics have none.
        wanted = _SCHEMA.names if statistics and "statistics" in file.schema.names else _ALWAYS
        try:
            table = file.to_table(wanted)
        except InvalidArgumentError as error:  # a column is missing
            raise CorruptFileError(f"{directory}/{name}: damaged manifest: {error}") from error
        return parse_manifest(file.metadata, table, version, f"{directory}/{name}")


def parse_manifest(
    metadata: Mapping[str, bytes], table: pa.Table, version: int, name: str
) -> Manifest:
    """The manifest that consists of a table and what :meth:`Manifest.metadata` gave.

    Raises:
        CorruptFileError: they are none; the message calls them ``name``.
    """
    try:
        return Manifest(
            version=version,
            schema=pa.ipc.read_schema(pa.py_buffer(metadata["nimble.schema"])),
            cluster_by=unpack_sort_keys(metadata["nimble.cluster_by"]),
            table=table.cast(pa.schema([_SCHEMA.field(n) for n in table.column_names])),
            batches=dict(json.loads(metadata["nimble.batches"])),
        )
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise CorruptFileError(f"{name}: damaged manifest: {error!r}") from error


def describe(file: File, name: str, statistics: list[dict[str, Any]] | None = None) -> FileEntry:
    """The entry of an open file that is called ``name`` in the dataset.

    Args:
        statistics: of its columns, where they were collected while it was written.

    Cost: reads the key of the first and of the last row.
    """
    lower = upper = None
    if file.cluster_by and file.num_rows:
        names = [key.column for key in file.cluster_by]
        ends = file.take([0, file.num_rows - 1], names)
        columns = [column.combine_chunks() for column in ends.columns]
        lower, upper = EncodedKeys(key_batch(names, columns), file.cluster_by).to_list()
    return FileEntry(
        file=name,
        num_rows=file.num_rows,
        size_bytes=file.size_bytes,
        identity=int(file.handle.core.identity),
        lower_key=lower,
        upper_key=upper,
        statistics=statistics,
    )
