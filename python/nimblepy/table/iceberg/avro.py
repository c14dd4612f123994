"""Avro object container files: headers, blocks, and readers that are built for a schema.

Supports what manifests need: a manifest is read once, into columns, without one object per value.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol

from nimblepy.errors import CorruptFileError
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.iceberg.codecs import decompressed

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16


class Decoder(Protocol):
    """Reads Avro's binary encoding. It does not have to check bounds."""

    def read(self, n: int) -> bytes: ...
    def read_boolean(self) -> bool: ...
    def read_int(self) -> int: ...
    def read_ints(self, count: int) -> Iterable[int]: ...
    def read_float(self) -> float: ...
    def read_double(self) -> float: ...
    def tell(self) -> int: ...


MakeDecoder = Callable[[bytes], Decoder]
# Reads the next value.
Reader = Callable[[], Any]
# Maximum types in a schema, including nested ones. Each is read at most once between two bounds
# checks, and reads at most 16 bytes past the end.
_MOST_TYPES = 1 << 12
# Maximum types in a schema whose values take no bytes. They limit the work per byte of input.
# Manifests have about a dozen, which are records.
_MOST_EMPTY = 1 << 6
# Maximum bytes of decompressed records, unless the file itself has more than a fraction of that.
# Records of manifests rarely compress below a hundredth.
_FREE_BYTES = 1 << 28
_MOST_SHRUNK = 1 << 7
# Number of integers that are read together.
_FEW = 1 << 13


class Source:
    """Bytes for a decoder that does not check bounds.

    pyiceberg's compiled decoder trusts every length, and reads past the end. So lengths are checked
    before the decoder sees them, and the bytes are followed by as many zeros as it can read before
    the next check.
    """

    def __init__(self, data: bytes, decoder: MakeDecoder) -> None:
        self._size = len(data)
        made = decoder(data + bytes(len(data) + _FEW + 16 * _MOST_TYPES))
        self._read, self._read_ints = made.read, made.read_ints
        self.read_int = made.read_int
        self.read_boolean = made.read_boolean
        self.read_float = made.read_float
        self.read_double = made.read_double
        self.tell = made.tell

    def check(self) -> None:
        """Raises if more bytes were read than exist."""
        if self.tell() > self._size:
            raise EOFError(f"the data end at byte {self._size}, within a value")

    def at_end(self) -> None:
        """Raises if unread bytes remain."""
        if self.tell() != self._size:
            raise ValueError(f"{self._size - self.tell()} bytes after the last record")

    @property
    def size(self) -> int:
        """The number of all bytes."""
        return self._size

    def count(self, count: int) -> int:
        """Returns the number of items of a block of an array or map, after its ``count`` was read.

        A byte size may follow.
        """
        if count < 0:
            self.read_int()
            count = -count
        self._has(count)
        return count

    def _has(self, count: int) -> None:
        left = self._size - self.tell()
        if not 0 <= count <= left:
            raise EOFError(
                f"{count} bytes or items at byte {self.tell()}, but the data have only "
                f"{self._size} bytes"
            )

    def ints(self, count: int) -> Iterable[int]:
        """Reads ``count`` numbers."""
        if not 0 <= count <= _FEW:
            self._has(count)
        return self._read_ints(count)

    def pairs_into(self, count: int, keys: list[int], values: list[bytes]) -> None:
        """Reads ``count`` numbers, each followed by bytes."""
        # Checks only the lengths, so numbers may pass the end; reads at most twice the size.
        left = self._size - self.tell() - 2 * count
        if not 0 <= left <= self._size:
            self._has(2 * count)
        read_int, read = self.read_int, self._read
        for _ in range(count):
            keys.append(read_int())
            length = read_int()
            left -= length
            if length < 0 or left < 0:
                raise EOFError(
                    f"{length} bytes at byte {self.tell()}, but the data have only {self._size} "
                    "bytes"
                )
            values.append(read(length))

    def read(self, count: int) -> bytes:
        self._has(count)
        return self._read(count)

    def read_null(self) -> None:
        """Reads nothing."""

    def read_bytes(self) -> bytes:
        return self.read(self.read_int())

    def read_utf8(self) -> str:
        return self.read(self.read_int()).decode()


@dataclass(frozen=True, slots=True)
class Container:
    """The content of one file.

    Attributes:
        metadata: the header's entries, including ``avro.schema`` and ``avro.codec``.
        schema: the schema of a record, without references to names: see :func:`whole_schema`.
        records: all records, decompressed and concatenated.
        count: number of records.
    """

    metadata: dict[str, bytes]
    schema: Any
    records: bytes
    count: int


def read_container(data: bytes, decoder: MakeDecoder, name: str) -> Container:
    """Splits a container file into its parts.

    Raises:
        CorruptFileError: the file is truncated, or not an Avro file.
    """
    try:
        return _container(data, decoder)
    except BAD_BYTES as error:
        raise CorruptFileError(f"{name}: not a whole Avro file: {error!r}") from error


def _container(data: bytes, decoder: MakeDecoder) -> Container:
    if data[:4] != _MAGIC:
        raise ValueError(f"it begins with {data[:4]!r}, not with Avro's magic bytes")
    source = Source(data, decoder)
    source.read(4)
    metadata: dict[str, bytes] = {}
    while count := source.read_int():
        for _ in range(source.count(count)):
            key = source.read_utf8()
            metadata[key] = source.read_bytes()
    sync = source.read(_SYNC_BYTES)
    codec = metadata.get("avro.codec", b"null").decode()
    schema = schema_of(metadata["avro.schema"])
    parts = []
    total = 0
    left = max(_FREE_BYTES, _MOST_SHRUNK * len(data))
    while source.tell() < len(data):
        count = source.read_int()
        part = source.read_bytes()
        if count < 0 or source.read(_SYNC_BYTES) != sync:
            raise ValueError(f"a block ends at {source.tell()} without the file's marker")
        parts.append(decompressed(codec, part, left))
        left -= len(parts[-1])
        total += count
    records = b"".join(parts)
    if total > len(records):
        raise ValueError(f"{total} records cannot fit into {len(records)} bytes")
    return Container(metadata, schema, records, total)


@lru_cache(maxsize=32)
def schema_of(text: bytes | str) -> Any:
    """Parses a schema, and resolves its names as :func:`whole_schema` does.

    Do not modify the result.

    Cost: 0.2 ms for the schema of a manifest, unless it is cached. Most files share one.
    """
    return whole_schema(json.loads(text))


def whole_schema(schema: Any) -> Any:
    """Replaces each reference to a name in a schema by its definition.

    Records, enums and fixed types have names. Avro requires that a name is defined only once, but
    many writers repeat definitions. Then a reference means the last definition before it.

    Raises:
        ValueError: a name is not defined, or the schema has too many types, or too many types whose
            values take no bytes. Such schemas would cost memory and time out of proportion to the
            file.
    """
    return _Whole().of(schema, "")[0]


class _Whole:
    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}
        self._types = 0
        self._empty = 0

    def of(self, schema: Any, space: str) -> tuple[Any, int]:
        """Returns a nested schema without references, and the minimum size of a value."""
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            definition = self._named.get(_full_name(schema, space))
            if definition is None:
                raise ValueError(f"the Avro type {schema!r} is not defined")
            return self.of(*definition)
        self._types += 1
        if self._types > _MOST_TYPES:
            raise ValueError(f"the schema has more than {_MOST_TYPES} types")
        if isinstance(schema, list):
            return [s if s == "null" else self.of(s, space)[0] for s in schema], 1
        if isinstance(schema, str):
            return schema, self._counted(0 if schema == "null" else 1)
        kind = schema["type"]
        if kind in ("record", "enum", "fixed") and "name" in schema:
            name = _full_name(schema["name"], schema.get("namespace", space))
            self._named[name] = schema, space
            space = name.rpartition(".")[0]
        if kind == "record":
            self._counted(0)
            fields, least = [], 0
            for item in schema["fields"]:
                whole, size = self.of(item["type"], space)
                fields.append({**item, "type": whole})
                least += size
            return {**schema, "fields": fields}, least
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            whole, size = self.of(schema[inner], space)
            if kind == "array" and size == 0:
                raise ValueError("an array has items that take no bytes")
            return {**schema, inner: whole}, 1
        if kind == "fixed":
            return schema, self._counted(int(schema["size"]))
        if kind == "enum":
            return schema, 1
        whole, size = self.of(kind, space)
        return {**schema, "type": whole}, size

    def _counted(self, size: int) -> int:
        """Counts a type whose values take at least ``size`` bytes, and returns ``size``."""
        if size <= 0:
            self._empty += 1
            if self._empty > _MOST_EMPTY:
                raise ValueError(f"more than {_MOST_EMPTY} types of values that take no bytes")
        return size


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


@lru_cache(maxsize=4096)
def encoded_long(value: int) -> bytes:
    """Encodes a number as Avro does: zigzag, seven bits per byte, low bits first."""
    left = (value << 1) ^ (value >> 63)
    octets = bytearray()
    while left > 0x7F:
        octets.append(left & 0x7F | 0x80)
        left >>= 7
    octets.append(left)
    return bytes(octets)


def encoded_bytes(value: bytes) -> bytes:
    return encoded_long(len(value)) + value


def container(schema: str, metadata: Mapping[str, str], records: Sequence[bytes]) -> bytes:
    """Returns a complete file with one compressed block.

    Args:
        schema: the schema of the records, as JSON.
        metadata: additional entries of the header.
        records: records in Avro's encoding.
    """
    header = {**metadata, "avro.schema": schema, "avro.codec": "deflate"}
    pairs = [
        encoded_bytes(name.encode()) + encoded_bytes(text.encode()) for name, text in header.items()
    ]
    sync = os.urandom(16)
    parts = [_MAGIC, encoded_long(len(pairs)), *pairs, encoded_long(0), sync]
    if records:
        # The fastest level: 4 % more bytes than the default level, in 40 % of the time.
        packer = zlib.compressobj(1, wbits=-15)
        packed = packer.compress(b"".join(records)) + packer.flush()
        parts += [encoded_long(len(records)), encoded_bytes(packed), sync]
    return b"".join(parts)


def fields_by_id(schema: Any) -> list[tuple[int | None, Any]]:
    """Returns (Iceberg's field id, schema) of each field of a record, in the order of the file."""
    return [(item.get("field-id"), item["type"]) for item in schema["fields"]]


def records_of(container: Container, source: Source) -> Iterator[Any]:
    """Yields the records of a file, each as a tuple of the fields' values.

    Raises:
        CorruptFileError, or one of ``BAD_BYTES``: the bytes do not match the schema.
    """
    read = reader_of(container.schema, source)
    for _ in range(container.count):
        record = read()
        source.check()
        yield record
    source.at_end()


def without_null(schema: Any) -> Any:
    """Returns the schema without the null branch of a union."""
    if isinstance(schema, list):
        others = [item for item in schema if item != "null"]
        return others[0] if len(others) == 1 else schema
    return schema


def reader_of(schema: Any, source: Source) -> Reader:
    """Returns a function that reads the next value of a schema in Iceberg's in-memory form.

    Maps with field ids as keys are dicts, for both of their Avro encodings.

    Args:
        schema: part of the schema of a container, without references to names.
    """
    if isinstance(schema, list):
        return union_reader([reader_of(item, source) for item in schema], schema, source)
    if isinstance(schema, str):
        return _primitive(schema, source)
    kind = schema["type"]
    if kind == "record":
        return _record([reader_of(item["type"], source) for item in schema["fields"]])
    if kind == "array":
        return _array(schema, source)
    if kind == "map":
        item = reader_of(schema["values"], source)
        return _items(lambda: (source.read_utf8(), item()), dict, source)
    if kind == "fixed":
        return _fixed(schema, source)
    if kind == "enum":
        return source.read_int
    if kind == "bytes" and schema.get("logicalType") == "decimal":
        scale = int(schema.get("scale", 0))
        return lambda: _decimal(source.read_bytes(), scale)
    return reader_of(kind, source)


# Avro's types without nested types, and the methods of a source that read them.
_PRIMITIVES = {
    "null": "read_null",
    "boolean": "read_boolean",
    "int": "read_int",
    "long": "read_int",
    "float": "read_float",
    "double": "read_double",
    "bytes": "read_bytes",
    "string": "read_utf8",
}


def _primitive(name: str, source: Source) -> Reader:
    reader: Reader = getattr(source, _PRIMITIVES[name])
    return reader


def union_reader(readers: Sequence[Reader], schema: Sequence[Any], source: Source) -> Reader:
    """Returns a function that reads values of a union."""
    read_int = source.read_int
    if len(readers) == 2 and "null" in schema:
        null = schema.index("null")
        there = 1 - null
        other = readers[there]

        def optional() -> Any:
            branch = read_int()
            if branch == there:
                return other()
            if branch != null:
                raise ValueError(f"union branch {branch}, expected 0 or 1")
            return None

        return optional

    def any_of() -> Any:
        branch = read_int()
        if not 0 <= branch < len(readers):
            raise ValueError(f"union branch {branch}, expected 0 to {len(readers) - 1}")
        return readers[branch]()

    return any_of


def _record(readers: list[Reader]) -> Reader:
    if len(readers) == 1:
        only = readers[0]
        return lambda: (only(),)
    return lambda: tuple([read() for read in readers])


def _array(schema: Any, source: Source) -> Reader:
    items = schema["items"]
    make = list if map_items(schema) is None else dict
    return _items(reader_of(items, source), make, source)


def map_items(schema: Any) -> list[Any] | None:
    """Returns the schemas of keys and values of a map whose keys are not text.

    ``None`` if the schema is not such a map.
    """
    if not isinstance(schema, dict) or schema["type"] != "array":
        return None
    is_map = schema.get("logicalType") == "map" and isinstance(schema["items"], dict)
    return [item["type"] for item in schema["items"]["fields"]] if is_map else None


def _items(read: Reader, make: Callable[[list[Any]], Any], source: Source) -> Reader:
    def items() -> Any:
        values: list[Any] = []
        while count := source.read_int():
            for _ in range(source.count(count)):
                values.append(read())
                source.check()
        return make(values)

    return items


def _fixed(schema: Any, source: Source) -> Reader:
    size = int(schema["size"])
    kind = schema.get("logicalType")
    if kind == "decimal":
        scale = int(schema.get("scale", 0))
        return lambda: _decimal(source.read(size), scale)
    return lambda: source.read(size)


def _decimal(stored: bytes, scale: int) -> Decimal:
    unscaled = int.from_bytes(stored, "big", signed=True)
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
