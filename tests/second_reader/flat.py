"""Reads FlatBuffers: just the few shapes that the schemas of this format use.

A buffer begins with the offset of its root table and four bytes of identifier. A table begins
with the distance back to its vtable; the vtable holds its own size, the table's size and, for each
field in the order of the schema, the field's place in the table (0: absent). Strings, vectors and
tables are reached by an offset relative to where it stands; structs lie in the table itself.

Every access is checked against the buffer: the bytes may be anything.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from nimblepy.errors import CorruptFileError

# Fields of every table in the order of schemas/*.fbs, which is their numbering.
FIELDS: dict[str, list[str]] = {
    "KeyValue": ["key", "value"],
    "SchemaNode": ["name", "format", "flags", "metadata", "children", "dictionary"],
    "KeyColumn": ["path", "descending", "nulls_first"],
    "ClusterRoot": [
        "columns",
        "unique",
        "key_bytes",
        "key_ends",
        "first_key",
        "bloom",
        "num_keys",
    ],
    "OptionalSection": ["name", "section"],
    "Footer": [
        "num_rows",
        "schema",
        "groups",
        "cluster",
        "zones",
        "dictionaries",
        "metadata",
        "optional_sections",
        "node_bytes",
        "key_stream_bytes",
        "index_bytes",
        "num_stripes",
        "writer",
        "indexes",
        "phrases",
        "shared_dictionaries",
    ],
    "SecondaryIndex": ["kind", "columns", "root", "num_keys", "size_bytes", "has_bloom"],
    "SortedGroup": ["chunks"],
    "SortedRoot": [
        "row_width",
        "num_entries",
        "groups",
        "key_bytes",
        "key_ends",
        "first_entry",
    ],
    "VectorIndexRoot": [
        "metric",
        "bits",
        "rotation",
        "row_width",
        "dimensions",
        "padded",
        "num_lists",
        "num_rows",
        "left_out",
        "lists_offset",
        "lists_bytes",
        "directory",
        "curve10",
        "curve100",
    ],
    "Stripe": ["rows", "values", "segment_offsets", "segment_sizes", "head_ends", "heads"],
    "ChunkDirectory": [
        "chunk_end_rows",
        "chunk_ends",
        "key_stream_offset",
        "key_bytes",
        "key_ends",
    ],
    "Group": ["stripes", "chunks"],
    "ColumnBloom": ["node", "end_rows", "filters"],
    "ColumnBlooms": ["columns"],
    "HashIndex": ["num_rows", "num_entries", "num_keys", "partitions", "bloom_parts"],
    "ZoneMap": [
        "end_rows",
        "null_counts",
        "nan_counts",
        "value_counts",
        "min_bytes",
        "min_ends",
        "max_bytes",
        "max_ends",
        "max_exact",
    ],
}


class Table:
    """One table of a buffer. Absent fields read as zero, empty or None."""

    def __init__(self, data: bytes, at: int, name: str) -> None:
        self._data = data
        self._at = at
        self._names = FIELDS[name]
        self._name = name
        self._vtable = at - self._unpack("<i", at)
        self._vtable_size = self._unpack("<H", self._vtable)

    def _unpack(self, code: str, at: int) -> Any:
        if at < 0 or struct.calcsize(code) > len(self._data) - at:
            raise CorruptFileError(f"FlatBuffer {self._name}: byte {at} is outside of it")
        return struct.unpack_from(code, self._data, at)[0]

    def _place(self, field: str) -> int | None:
        slot = 4 + 2 * self._names.index(field)
        if slot + 2 > self._vtable_size:
            return None
        inside = self._unpack("<H", self._vtable + slot)
        return self._at + inside if inside else None

    def _target(self, field: str) -> int | None:
        """The target of the offset in a field."""
        at = self._place(field)
        return None if at is None else at + int(self._unpack("<I", at))

    def _vector(self, field: str, width: int) -> tuple[int, int]:
        """The offset of a vector's elements, and their number."""
        at = self._target(field)
        if at is None:
            return 0, 0
        count = int(self._unpack("<I", at))
        if count * width > len(self._data) - (at + 4):
            raise CorruptFileError(f"FlatBuffer {self._name}.{field}: {count} elements do not fit")
        return at + 4, count

    def number(self, field: str, code: str = "<Q") -> int:
        at = self._place(field)
        return 0 if at is None else int(self._unpack(code, at))

    def raw(self, field: str) -> bytes:
        """A string or a vector of bytes."""
        at, count = self._vector(field, 1)
        return self._data[at : at + count]

    def text(self, field: str) -> str:
        return self.raw(field).decode("utf-8", "surrogateescape")

    def numbers(self, field: str, dtype: str = "<u8") -> npt.NDArray[Any]:
        at, count = self._vector(field, np.dtype(dtype).itemsize)
        return np.frombuffer(self._data, dtype, count, at)

    def struct(self, field: str, code: str) -> tuple[Any, ...] | None:
        at = self._place(field)
        if at is None:
            return None
        if struct.calcsize(code) > len(self._data) - at:
            raise CorruptFileError(f"FlatBuffer {self._name}.{field} is outside of the buffer")
        return struct.unpack_from(code, self._data, at)

    def structs(self, field: str, code: str) -> list[tuple[Any, ...]]:
        size = struct.calcsize(code)
        at, count = self._vector(field, size)
        return [struct.unpack_from(code, self._data, at + i * size) for i in range(count)]

    def table(self, field: str, name: str) -> Table | None:
        at = self._target(field)
        return None if at is None else Table(self._data, at, name)

    def tables(self, field: str, name: str) -> list[Table]:
        at, count = self._vector(field, 4)
        places = [at + 4 * i for i in range(count)]
        return [Table(self._data, p + int(self._unpack("<I", p)), name) for p in places]


def root(data: bytes, identifier: bytes, name: str) -> Table:
    """The root table of a buffer with this identifier."""
    if len(data) < 16 or data[4:8] != identifier:
        raise CorruptFileError(f"not a FlatBuffer {identifier.decode()!r}: {data[:8].hex()}")
    return Table(data, struct.unpack_from("<I", data)[0], name)


def unnamed_root(data: bytes, name: str) -> Table:
    """The root table of a buffer without an identifier."""
    if len(data) < 16:
        raise CorruptFileError(f"not a FlatBuffer: {data.hex()}")
    return Table(data, struct.unpack_from("<I", data)[0], name)
