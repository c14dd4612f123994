"""Puffin files: blobs of bytes, and a footer in JSON that says what they are.

As https://iceberg.apache.org/puffin-spec has them. Blobs are written as they are; what others
write compressed with zstd is read too.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from nimblepy.table.base.damage import BAD_BYTES

_MAGIC = b"PFA1"
_TAIL = struct.Struct("<i4s4s")
# What a blob may have once it is decompressed.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob of a Puffin file.

    Attributes:
        fields: ids of the columns that it is about.
        snapshot, sequence: of the snapshot that it was made from; -1: of none.
    """

    kind: str
    payload: bytes
    fields: tuple[int, ...] = ()
    snapshot: int = -1
    sequence: int = -1
    properties: Mapping[str, str] = field(default_factory=dict)


def puffin_bytes(blobs: Sequence[Blob]) -> tuple[bytes, int]:
    """A Puffin file, and how many bytes of it are the footer."""
    parts = [_MAGIC]
    described = []
    offset = len(_MAGIC)
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
    said = json.dumps({"blobs": described, "properties": {"created-by": "nimblepy"}}).encode()
    footer = b"".join([_MAGIC, said, _TAIL.pack(len(said), bytes(4), _MAGIC)])
    return b"".join([*parts, footer]), len(footer)


def read_puffin(octets: bytes) -> list[Blob]:
    """The blobs of a Puffin file.

    Raises:
        ValueError: it is something else, or damaged.
    """
    try:
        return _blobs(octets)
    except BAD_BYTES as error:
        raise ValueError(f"no Puffin file, or damaged: {error!r}") from error


def _blobs(octets: bytes) -> list[Blob]:
    end = len(octets) - _TAIL.size
    if end < 2 * len(_MAGIC) or not octets.startswith(_MAGIC):
        raise ValueError("not a Puffin file")
    size, flags, magic = _TAIL.unpack(octets[end:])
    if magic != _MAGIC or any(flags) or not 0 <= size <= end - 2 * len(_MAGIC):
        raise ValueError("its footer is not as expected")
    first = end - size - len(_MAGIC)
    if octets[first : first + len(_MAGIC)] != _MAGIC:
        raise ValueError("its footer does not begin where it says")
    return [_blob(item, octets, first) for item in json.loads(octets[end - size : end])["blobs"]]


def _blob(item: Mapping[str, Any], octets: bytes, end: int) -> Blob:
    begin, length = int(item["offset"]), int(item["length"])
    if not len(_MAGIC) <= begin <= end or not 0 <= length <= end - begin:
        raise ValueError(f"a blob of type {item['type']!r} that lies at {begin}")
    payload = octets[begin : begin + length]
    codec = item.get("compression-codec")
    if codec == "zstd":
        with pa.CompressedInputStream(io.BytesIO(payload), "zstd") as source:
            payload = bytes(source.read(_MOST_BYTES + 1))
        if len(payload) > _MOST_BYTES:
            raise ValueError(f"a blob of more than {_MOST_BYTES} bytes")
    elif codec is not None:
        raise ValueError(f"a blob that is compressed with {codec!r}")
    return Blob(
        kind=str(item["type"]),
        payload=payload,
        fields=tuple(map(int, item["fields"])),
        snapshot=int(item["snapshot-id"]),
        sequence=int(item["sequence-number"]),
        properties={str(name): str(value) for name, value in item.get("properties", {}).items()},
    )
