"""Describes indexed Parquet files, and stores the descriptions in the index file's metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from nimblepy import _core
from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.foreign.listing import Paths
from nimblepy.foreign.marker import INDEX_KEY
from nimblepy.foreign.pages import Described, describe
from nimblepy.schema.types import SortKey

_FORMAT = 1
_FILES = "nimblepy.parquet-index.files"
_SCHEMA = "nimblepy.parquet-index.schema"

# Hashes have this many bits more than the row numbers, so that only 1 absent key in 2^16 is read.
_SPARE_HASH_BITS = 16

# The columns of an index file that are not part of the key.
ROW = "_nimble_row"
HASH = "_nimble_hash"


@dataclass(frozen=True)
class FileRecord:
    """An indexed version of a Parquet file.

    Attributes:
        path: absolute path or URI.
        version: text that changes when the file is changed or replaced.
        num_rows: number of rows.
        size_bytes: size of the file.
        footer: the footer, as Thrift bytes.
        page_table: the positions of the pages; empty if pyarrow must read the file.
    """

    path: str
    version: str
    num_rows: int
    size_bytes: int
    footer: bytes
    page_table: bytes

    @property
    def described(self) -> Described | None:
        return (self.footer, self.page_table) if self.page_table else None

    @cached_property
    def metadata(self) -> Any:
        """The footer, as an object of pyarrow."""
        return parquet_metadata(self.footer, self.path)


def parquet_metadata(footer: bytes, path: str) -> Any:
    """Converts the Thrift bytes of a footer to pyarrow's object."""
    import pyarrow.parquet as pq

    size = len(footer).to_bytes(4, "little")
    try:
        return pq.read_metadata(pa.BufferReader(b"PAR1" + footer + size + b"PAR1"))
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"{path}: damaged Parquet footer: {error}") from error


def file_version(paths: Paths, path: str) -> str:
    """Returns a text that changes when the file is changed or replaced.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    return repr(paths.location(path).version())


def record_of(paths: Paths, path: str) -> FileRecord:
    """Describes the current version of a file.

    Raises:
        CorruptFileError: the file is not a Parquet file, is damaged, or changed during the call.
        InvalidArgumentError: the footer is encrypted.

    Cost: reads the footer and the offset indexes, or the header of each page.
    """
    location = paths.location(path)
    version = file_version(paths, path)
    described = describe(location)
    if described is None:
        raise InvalidArgumentError(f"{path}: the footer is encrypted; it cannot be indexed")
    footer, page_table = described
    metadata = parquet_metadata(footer, path)
    size = sum(
        metadata.row_group(g).column(c).total_compressed_size
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    )
    if file_version(paths, path) != version:
        raise CorruptFileError(f"{path}: changed while its footer was read; try again")
    return FileRecord(path, version, metadata.num_rows, size + len(footer), footer, page_table)


def schema_of(record: FileRecord) -> pa.Schema:
    """Returns the columns of a file with pyarrow's types, without metadata."""
    from pyarrow.parquet import ParquetFile

    try:
        # ParquetFile also recognizes UUIDs; it reads nothing, because it has the metadata.
        with ParquetFile(pa.BufferReader(b""), metadata=record.metadata) as file:
            schema = file.schema_arrow
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"{record.path}: {error}") from error
    fields = []
    for field in schema:
        fields.append(pa.field(field.name, field.type).remove_metadata())
    return pa.schema(fields)


def check_same_schema(records: Sequence[FileRecord]) -> pa.Schema:
    """Returns the schema that all files have.

    Raises:
        InvalidArgumentError: the columns or types of two files differ.
    """
    schema = schema_of(records[0])
    for record in records[1:]:
        other = schema_of(record)
        if not other.equals(schema):
            raise InvalidArgumentError(
                f"{record.path}: the columns differ from those of {records[0].path}: "
                f"{_difference(other, schema)}; files of one index have equal columns. A table "
                "that has all columns reads and indexes such files: add_files(), then add_index()"
            )
    return schema


def _difference(schema: pa.Schema, first: pa.Schema) -> str:
    """Returns how the columns of a file differ from those of the first file, in words."""
    parts = []
    for field in schema:
        at = first.get_field_index(field.name)
        if at < 0:
            parts.append(f"{field.name!r} is new")
        elif first.field(at).type != field.type:
            parts.append(f"{field.name!r} is {field.type}, not {first.field(at).type}")
    parts += [f"{name!r} is missing" for name in first.names if name not in schema.names]
    return ", ".join(parts) or f"the order is {', '.join(schema.names)}"


@dataclass(frozen=True)
class IndexRecord:
    """Everything that an index file stores in addition to its rows.

    Attributes:
        keys: key columns in order.
        kind: ``"sorted"`` or ``"hash"``.
        hash_bits: number of bits of the hashes, for kind ``"hash"``.
        paths: the paths, patterns and directories to list.
        files: the indexed files, in the order of their row numbers.
        schema: columns of the files.
    """

    keys: tuple[str, ...]
    kind: str
    hash_bits: int
    paths: tuple[str, ...]
    files: tuple[FileRecord, ...]
    schema: pa.Schema

    @property
    def sort_keys(self) -> tuple[SortKey, ...]:
        return tuple(SortKey(name) for name in self.keys)

    def with_files(self, files: Sequence[FileRecord]) -> IndexRecord:
        return replace(self, files=tuple(files))

    def to_metadata(self) -> dict[str, bytes]:
        head = {
            "format": _FORMAT,
            "key": self.keys,
            "kind": self.kind,
            "hash_bits": self.hash_bits,
            "paths": self.paths,
        }
        table = pa.table(
            {
                "path": pa.array([f.path for f in self.files], pa.string()),
                "version": pa.array([f.version for f in self.files], pa.string()),
                "num_rows": pa.array([f.num_rows for f in self.files], pa.int64()),
                "size_bytes": pa.array([f.size_bytes for f in self.files], pa.int64()),
                "footer": pa.array([f.footer for f in self.files], pa.binary()),
                "page_table": pa.array([f.page_table for f in self.files], pa.binary()),
            }
        )
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        return {
            INDEX_KEY: json.dumps(head).encode(),
            _FILES: sink.getvalue().to_pybytes(),
            _SCHEMA: self.schema.serialize().to_pybytes(),
        }

    @classmethod
    def from_metadata(cls, metadata: dict[str, bytes], path: str) -> IndexRecord | None:
        """Returns the record of an index file; ``None`` for a nimble file that is not an index.

        Raises:
            CorruptFileError: a newer version wrote the record, or it is damaged.
        """
        if INDEX_KEY not in metadata:
            return None
        try:
            head = json.loads(metadata[INDEX_KEY])
            if head["format"] != _FORMAT:
                raise CorruptFileError(
                    f"{path}: index of Parquet files in format {head['format']}; "
                    f"this version reads {_FORMAT}"
                )
            with pa.ipc.open_stream(metadata[_FILES]) as reader:
                files = tuple(FileRecord(**row) for row in reader.read_all().to_pylist())
            schema = pa.ipc.read_schema(pa.BufferReader(metadata[_SCHEMA]))
            return cls(
                tuple(head["key"]),
                head["kind"],
                head["hash_bits"],
                tuple(head["paths"]),
                files,
                schema,
            )
        except (KeyError, TypeError, ValueError, pa.ArrowInvalid, OSError) as error:
            raise CorruptFileError(f"{path}: damaged index of Parquet files: {error}") from error


def hash_bits_for(num_rows: int) -> int:
    """Returns the number of bits that a hash index of ``num_rows`` rows stores of each hash."""
    return max(24, min(64, num_rows.bit_length() + _SPARE_HASH_BITS))


def key_hashes(batch: pa.RecordBatch, keys: Sequence[SortKey], bits: int) -> Any:
    """Returns the hash of each key: the upper bits of the hash that nimble files use."""
    return _core.hash_keys(batch, _orders(keys)) >> (64 - bits)


def key_hasher(record: IndexRecord) -> _core.KeyHasher:
    """Returns an object that hashes one key of the index at a time, like :func:`key_hashes`."""
    columns = pa.schema([record.schema.field(name) for name in record.keys])
    empty = pa.RecordBatch.from_pylist([], columns)
    return _core.KeyHasher(empty, _orders(record.sort_keys), record.hash_bits)


def _orders(keys: Sequence[SortKey]) -> list[tuple[bool, bool]]:
    return [(key.descending, key.nulls_first) for key in keys]
