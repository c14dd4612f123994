"""FileList: the files of a directory, with the number of rows and the key bounds of each file.

These are read from each file's footer, first row and last row. The process caches them per file, so
a directory can be opened again without reading unchanged files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.expr.nodes import Compare, In, Node
from nimblepy.file.source import FileSource
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.io.location import Location
from nimblepy.io.lru_cache import LruCache
from nimblepy.io.remote_file import at_once, openers
from nimblepy.rows.keys import key_batch
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import SortKey, pack_sort_keys, unpack_sort_keys

_COLUMNS = pa.schema(
    [
        pa.field("lower_key", pa.binary()),
        pa.field("upper_key", pa.binary()),
        pa.field("file", pa.string(), nullable=False),
        pa.field("num_rows", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("identity", pa.uint64(), nullable=False),
    ]
)
# Number of files whose descriptions a process caches.
_CACHED_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a directory.

    Attributes:
        file: path relative to the directory.
        identity: checksum of the footer, which contains the checksums of all other parts.
        lower_key, upper_key: encoded keys of the first and last row; ``None`` if the file has no
            cluster key or no rows.
    """

    file: str
    num_rows: int
    size_bytes: int
    identity: int
    lower_key: bytes | None = None
    upper_key: bytes | None = None


# The description of a file: its schema, its cluster key, and its entry.
_Description = tuple[pa.Schema, tuple[SortKey, ...], FileEntry]


@dataclass(frozen=True, eq=False)
class FileList:
    """The files that a directory had when it was listed.

    Attributes:
        schema: columns and types of every file.
        cluster_by: the cluster key of every file.
        table: one row per file with the fields of :class:`FileEntry`, ordered by first key; files
            without a key are last.
    """

    schema: pa.Schema
    cluster_by: tuple[SortKey, ...]
    table: pa.Table

    def __reduce__(self) -> tuple[Any, ...]:
        return FileList, (self.schema, self.cluster_by, self.table)

    @property
    def num_files(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def names(self) -> list[str]:
        """Paths of the files, relative to the directory."""
        return list(self.table.column("file").to_pylist())

    @cached_property
    def identities(self) -> list[int]:
        """Checksums of the files' footers."""
        return list(self.table.column("identity").to_pylist())

    @cached_property
    def first_rows(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of rows before each file, followed by the total."""
        counts = self.table.column("num_rows").to_numpy()
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])

    @cached_property
    def bounds(self) -> FileBounds:
        """Bounds of the files that have keys. These files precede all others in the list."""
        lower, upper = (self.table.column(name).combine_chunks() for name in _COLUMNS.names[:2])
        keyed = len(lower) - lower.null_count
        return FileBounds(lower.slice(0, keyed), upper.slice(0, keyed))

    def files_for(self, conjuncts: Sequence[Node]) -> Sequence[int]:
        """Returns the files, ascending, whose key bounds do not contradict the ``conjuncts``."""
        files: set[int] | None = None
        first = self.cluster_by and resolve_column(self.schema, self.cluster_by[0].column).path
        for node in conjuncts:
            if isinstance(node, (Compare, In)) and node.column.path == first:
                possible = self._files_with(node)
                files = possible if files is None else files & possible
        return range(self.num_files) if files is None else sorted(files)

    def _files_with(self, node: Compare | In) -> set[int]:
        """Returns the files whose first key column may have a value for which ``node`` is true."""
        if isinstance(node, In):
            keys = [self._encoded(value) for value in node.values]
            return {i for key in keys for i in self.bounds.between(key, key)}
        if node.op == "!=":
            return set(range(self.num_files))
        key = self._encoded(node.value)
        # With a descending key, small values are in the last files.
        descending = self.cluster_by[0].descending
        is_upper_bound = node.op in (">", ">=") if descending else node.op in ("<", "<=")
        low = None if is_upper_bound and node.op != "==" else key
        high = None if not is_upper_bound and node.op != "==" else key
        return set(self.bounds.between(low, high))

    def _encoded(self, value: pa.Scalar) -> bytes:
        """Encodes a value of the first key column."""
        batch = pa.RecordBatch.from_arrays([pa.array([value], value.type)], names=["k"])
        return EncodedKeys(batch, self.cluster_by).to_list()[0]

    def to_arrow(self) -> pa.Table:
        """Returns the list as one table that :meth:`from_arrow` can read."""
        return self.table.replace_schema_metadata(
            {
                "nimble.schema": self.schema.serialize().to_pybytes(),
                "nimble.cluster_by": pack_sort_keys(self.cluster_by),
            }
        )

    @classmethod
    def from_arrow(cls, table: pa.Table) -> FileList:
        """Returns the list that :meth:`to_arrow` converted to ``table``.

        Raises:
            KeyError, TypeError, ValueError, pa.ArrowException: ``to_arrow`` did not make the table.
        """
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        return cls(
            pa.ipc.read_schema(pa.py_buffer(metadata[b"nimble.schema"])),
            unpack_sort_keys(metadata[b"nimble.cluster_by"]),
            table.replace_schema_metadata(None).cast(_COLUMNS),
        )


_descriptions: LruCache[_Description] = LruCache(_CACHED_FILES)


class Footers:
    """Reads the descriptions of the files of one directory.

    Args:
        directory: the directory of the files.
        root: identifies the directory in the cache of the process. If it is ``None``, this object
            has its own cache.
        open_file: opens a file by its name in the directory.
        opened: called with each opened file and its entry. If it is ``None``, the file is closed.
    """

    def __init__(
        self,
        directory: Location,
        root: str | None,
        open_file: Callable[[str], FileSource],
        opened: Callable[[FileSource, FileEntry], None] | None = None,
    ) -> None:
        self._directory = directory
        self._root = root
        self._open_file = open_file
        self._opened = opened
        self._cache = LruCache(_CACHED_FILES) if root is None else _descriptions

    def listed(self) -> FileList:
        """Returns the ``*.nimble`` files that are in the directory now.

        Raises:
            InvalidArgumentError: no file exists, or two files have different columns or keys.
            CorruptFileError: a file is damaged.
        """
        versions = self._versions()
        if not versions:
            raise InvalidArgumentError(f"{self._directory.path}: no *.nimble files")
        return self.of_files(sorted(versions), versions)

    def _versions(self) -> dict[str, Hashable]:
        """Returns the version of each ``*.nimble`` file in the directory, by name."""
        return {
            name: version
            for name, version in self._directory.versions()
            if name.endswith(".nimble") and not name.startswith((".", "_"))
        }

    def changed(self, files: FileList) -> list[str]:
        """Returns the names of files that were added, removed or replaced since ``files``.

        Cost: lists the directory and opens the files that may have been replaced.
        """
        versions = self._versions()
        identities = dict(zip(files.names, files.identities, strict=True))
        return sorted(
            name
            for name in {*versions, *identities}
            if name not in versions
            or name not in identities
            or self._identity(name, versions[name]) != identities[name]
        )

    def _identity(self, name: str, version: Hashable) -> int | None:
        """Returns the checksum of a file's footer; ``None`` if it cannot be read."""
        description = self._cache.get((self._root, name, version))
        if description is None:
            try:
                description = self._describe(name)
            except (CorruptFileError, FileNotFoundError):
                return None
            self._cache.put((self._root, name, version), description)
        return description[2].identity

    def of_files(
        self, names: Sequence[str], versions: Mapping[str, Hashable] | None = None
    ) -> FileList:
        """Returns the list of the named files.

        Args:
            versions: a value for each file that changes when the file is replaced. Without it,
                descriptions are not cached.

        Cost: opens every file whose description is not cached, in parallel if the directory is in
            an object store.
        """
        keys = {} if versions is None else {name: (name, versions[name]) for name in names}
        cached = {
            name: description
            for name, key in keys.items()
            if (description := self._cache.get((self._root, *key))) is not None
        }
        missing = [name for name in names if name not in cached]
        for name, description in zip(missing, self._described(missing), strict=True):
            cached[name] = description
            if versions is not None:
                self._cache.put((self._root, *keys[name]), description)
        return self._combined([cached[name] for name in names])

    def _described(self, names: Sequence[str]) -> Iterator[_Description]:
        if self._directory.is_local or len(names) < 2:
            return map(self._describe, names)
        return at_once(self._describe, names, openers())

    def _describe(self, name: str) -> _Description:
        file = self._open_file(name)
        entry = _entry(file, name)
        description = file.schema, tuple(file.cluster_by), entry
        if self._opened is None:
            file.close()
        else:
            self._opened(file, entry)
        return description

    def _combined(self, descriptions: Sequence[_Description]) -> FileList:
        schema, cluster_by, first = descriptions[0]
        for other_schema, other_key, entry in descriptions:
            for what, expected, actual in (
                ("columns", schema, other_schema),
                ("cluster keys", cluster_by, other_key),
            ):
                if actual is not expected and actual != expected:
                    raise InvalidArgumentError(
                        f"{self._directory.path}: {first.file} and {entry.file} have different "
                        f"{what}: {_shown(expected)}; {_shown(actual)}"
                    )
        entries = [entry for _, _, entry in descriptions]
        entries.sort(key=lambda e: (e.lower_key is None, e.lower_key, e.upper_key))
        columns = [[getattr(entry, name) for entry in entries] for name in _COLUMNS.names]
        return FileList(schema, cluster_by, pa.table(columns, schema=_COLUMNS))


def _entry(file: FileSource, name: str) -> FileEntry:
    """Returns the entry of an open file. Cost: reads the keys of the first and last row."""
    lower = upper = None
    if file.cluster_by and file.num_rows:
        columns = [key.column for key in file.cluster_by]
        ends = file.take(np.array([0, file.num_rows - 1], dtype=np.uint64), tuple(columns))
        arrays = [column.combine_chunks() for column in ends.columns]
        lower, upper = EncodedKeys(key_batch(columns, arrays), file.cluster_by).to_list()
    return FileEntry(
        file=name,
        num_rows=file.num_rows,
        size_bytes=file.size_bytes,
        identity=int(file.handle.core.identity),
        lower_key=lower,
        upper_key=upper,
    )


def _shown(value: Any) -> str:
    if isinstance(value, pa.Schema):
        return ", ".join(f"{field.name} {field.type}" for field in value)
    return ", ".join(map(str, value)) or "no cluster key"
