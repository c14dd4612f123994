"""Decompresses blocks of Avro files, up to a maximum number of bytes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable

import pyarrow as pa

_CHUNK = 1 << 20
_CRC_BYTES = 4


def decompressed(codec: str, block: bytes, most: int) -> bytes:
    """Decompresses a block.

    Args:
        codec: as the header of an Avro file names it.

    Raises:
        ValueError: there is no such codec, the block is damaged, or has more than ``most`` bytes.
    """
    undo = _CODECS.get(codec)
    if undo is None:
        raise ValueError(f"unknown codec {codec!r}, expected one of {', '.join(_CODECS)}")
    try:
        content = undo(block, most)
    except (zlib.error, OSError, EOFError) as error:
        raise ValueError(f"a block cannot be decompressed: {error}") from error
    if len(content) > most:
        raise ValueError(f"a block of {len(block)} bytes decompresses to more than {most} bytes")
    return content


def _same(block: bytes, most: int) -> bytes:
    return block


def _deflate(block: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(-15)
    content = unpacker.decompress(block, most + 1)
    if not unpacker.eof and len(content) <= most:
        raise EOFError("the compressed bytes are truncated")
    return content


def _snappy(block: bytes, most: int) -> bytes:
    packed, checksum = block[:-_CRC_BYTES], block[-_CRC_BYTES:]
    size = _snappy_size(packed)
    if size > most:
        raise ValueError(f"a block of {len(block)} bytes claims to decompress to {size} bytes")
    content = bytes(pa.decompress(packed, size, "snappy", asbytes=True))
    if zlib.crc32(content) != int.from_bytes(checksum, "big"):
        raise ValueError("the checksum of a block does not match")
    return content


def _snappy_size(packed: bytes) -> int:
    """Returns the decompressed size, which is stored first: seven bits per byte, low bits first."""
    size = 0
    for i, octet in enumerate(packed[:5]):
        size |= (octet & 0x7F) << 7 * i
        if octet < 0x80:
            return size
    raise ValueError("a block has no valid decompressed size")


def _streamed(name: str) -> Callable[[bytes, int], bytes]:
    def undo(block: bytes, most: int) -> bytes:
        content = bytearray()
        with pa.CompressedInputStream(io.BytesIO(block), name) as source:
            while len(content) <= most and (part := source.read(_CHUNK)):
                content += part
        return bytes(content)

    return undo


# Decompresses a block, given the maximum number of bytes. May return more bytes.
_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _same,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _streamed("zstd"),
    "bzip2": _streamed("bz2"),
}
