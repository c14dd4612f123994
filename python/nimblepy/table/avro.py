"""Avro object container files, of records that are encoded already."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence

_MAGIC = b"Obj\x01"


def _long(value: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte, the low ones first."""
    left = (value << 1) ^ (value >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _octets(value: bytes) -> bytes:
    return _long(len(value)) + value


def container(schema: str, metadata: Mapping[str, str], records: Sequence[bytes]) -> bytes:
    """A whole file, of one compressed block.

    Args:
        schema: the schema of the records, as JSON.
        metadata: what else the header says.
        records: each encoded by the schema.
    """
    said = {**metadata, "avro.schema": schema, "avro.codec": "deflate"}
    pairs = [_octets(name.encode()) + _octets(text.encode()) for name, text in said.items()]
    sync = os.urandom(16)
    parts = [_MAGIC, _long(len(pairs)), *pairs, _long(0), sync]
    if records:
        packer = zlib.compressobj(wbits=-15)
        packed = packer.compress(b"".join(records)) + packer.flush()
        parts += [_long(len(records)), _octets(packed), sync]
    return b"".join(parts)
