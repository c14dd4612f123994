"""Puffin files: blobs of bytes with a JSON footer.

See https://iceberg.apache.org/puffin-spec. Blobs are written uncompressed. Blobs that other writers
compressed with zstd can be read.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from nimblepy.table.base.damage import BAD_BYTES

_MAGIC = b"PFA1"
# The property of a deletion vector that names its data file.
VECTOR_PATH = "referenced-data-file"
# The offset of the first blob.
FIRST_BLOB = len(_MAGIC)
_TAIL = struct.Struct("<i4s4s")
# Maximum bytes of a decompressed blob.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob of a Puffin file.

    Attributes:
        fields: ids of the columns that it describes.
        snapshot, sequence: the snapshot that it was computed from; -1 if none.
    """

    kind: str
    payload: bytes
    fields: tuple[int, ...] = ()
    snapshot: int = -1
    sequence: int = -1
    properties: Mapping[str, str] = field(default_factory=dict)


def puffin_bytes(blobs: Sequence[Blob]) -> tuple[bytes, int]:
    """Serializes a Puffin file. Returns its bytes, and the size of the footer.

    The first blob begins at :data:`FIRST_BLOB`, and the others follow it.
    """
    parts = [_MAGIC]
    described = []
    offset = FIRST_BLOB
    for blob in blobs:
        described.append(
            {
                "type": blob.kind,
                "fields": list(blob.fields),
                "snapshot-id": blob.snapshot,
                "sequence-number": blob.sequence,
                "offset": offset,
                "length": len(blob.payload),
                "properties": dict(blob.properties),
            }
        )
        parts.append(blob.payload)
        offset += len(blob.payload)
    footer = _footer_bytes({"blobs": described, "properties": {"created-by": "nimblepy"}})
    return b"".join([*parts, footer]), len(footer)


def read_puffin(octets: bytes) -> list[Blob]:
    """Parses the blobs of a Puffin file.

    Raises:
        ValueError: the file has another format or is damaged.
    """
    try:
        return _blobs(octets)
    except BAD_BYTES as error:
        raise ValueError(f"not a Puffin file, or damaged: {error!r}") from error


def with_paths(octets: bytes, translated: Callable[[str], str]) -> bytes:
    """Returns a Puffin file whose deletion vectors name other data files. Blobs keep their places.

    Raises:
        ValueError: the file has another format or is damaged.
    """
    try:
        first, footer = _footer(octets)
        for blob in footer["blobs"]:
            properties = blob.get("properties", {})
            if VECTOR_PATH in properties:
                properties[VECTOR_PATH] = translated(str(properties[VECTOR_PATH]))
    except BAD_BYTES as error:
        raise ValueError(f"not a Puffin file, or damaged: {error!r}") from error
    return octets[:first] + _footer_bytes(footer)


def _footer_bytes(footer: Mapping[str, Any]) -> bytes:
    payload = json.dumps(footer).encode()
    return b"".join([_MAGIC, payload, _TAIL.pack(len(payload), bytes(4), _MAGIC)])


def _blobs(octets: bytes) -> list[Blob]:
    first, footer = _footer(octets)
    return [_blob(item, octets, first) for item in footer["blobs"]]


def _footer(octets: bytes) -> tuple[int, Any]:
    """Returns the offset of the footer, and its JSON."""
    end = len(octets) - _TAIL.size
    if end < 2 * len(_MAGIC) or not octets.startswith(_MAGIC):
        raise ValueError("not a Puffin file")
    size, flags, magic = _TAIL.unpack(octets[end:])
    if magic != _MAGIC or any(flags) or not 0 <= size <= end - 2 * len(_MAGIC):
        raise ValueError("the footer has a wrong size, flag or magic number")
    first = end - size - len(_MAGIC)
    if octets[first : first + len(_MAGIC)] != _MAGIC:
        raise ValueError("the footer does not begin at its stated offset")
    return first, json.loads(octets[end - size : end])


def _blob(item: Mapping[str, Any], octets: bytes, end: int) -> Blob:
    begin, length = int(item["offset"]), int(item["length"])
    if not len(_MAGIC) <= begin <= end or not 0 <= length <= end - begin:
        raise ValueError(f"blob {item['type']!r} has a wrong offset or length: {begin}, {length}")
    payload = octets[begin : begin + length]
    codec = item.get("compression-codec")
    if codec == "zstd":
        with pa.CompressedInputStream(io.BytesIO(payload), "zstd") as source:
            payload = bytes(source.read(_MOST_BYTES + 1))
        if len(payload) > _MOST_BYTES:
            raise ValueError(f"a blob has more than {_MOST_BYTES} bytes")
    elif codec is not None:
        raise ValueError(f"a blob has the unknown compression {codec!r}")
    return Blob(
        kind=str(item["type"]),
        payload=payload,
        fields=tuple(map(int, item["fields"])),
        snapshot=int(item["snapshot-id"]),
        sequence=int(item["sequence-number"]),
        properties={str(name): str(value) for name, value in item.get("properties", {}).items()},
    )
