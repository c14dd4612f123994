"""Bytes to numbers: a bounded cursor, packed bits, and the two hashes of the format."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from nimblepy.errors import CorruptFileError

Array = npt.NDArray[Any]


def checksum(data: bytes) -> int:
    """XXH3-64, seed 0: every checksum of the format."""
    return int(xxhash.xxh3_64_intdigest(data))


def key_hash(key: bytes) -> int:
    """XXH64, seed 0, of an encoded key: what Bloom filters hold."""
    return int(xxhash.xxh64_intdigest(key))


class Cursor:
    """Reads forward; raises an error at the end of the bytes."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self.at = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self.at

    def take(self, count: int) -> bytes:
        if count > self.remaining:
            raise CorruptFileError(
                f"{self._what}: {count} bytes wanted at {self.at}, {self.remaining} are left"
            )
        self.at += count
        return self._data[self.at - count : self.at]

    def u8(self) -> int:
        return self.take(1)[0]

    def u64(self) -> int:
        return int(struct.unpack("<Q", self.take(8))[0])

    def u32(self) -> int:
        return int(struct.unpack("<I", self.take(4))[0])

    def varint(self) -> int:
        """LEB128: seven bits a byte, the lowest first, bit 7 set on all bytes but the last."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 64:
                    break
                return value
        raise CorruptFileError(f"{self._what}: a varint of more than 64 bits")

    def sized(self) -> bytes:
        return self.take(self.varint())

    def flag(self) -> bool:
        byte = self.u8()
        if byte > 1:
            raise CorruptFileError(f"{self._what}: {byte} where 0 or 1 is expected")
        return byte == 1

    def finish(self) -> None:
        if self.remaining:
            raise CorruptFileError(f"{self._what}: {self.remaining} bytes too many")


def _from_bits(bits: Array) -> Array:
    """Rows of W bits, least significant first, as uint64."""
    count, width = bits.shape
    wide = np.zeros((count, 64), np.uint8)
    wide[:, :width] = bits
    return np.packbits(wide, axis=1, bitorder="little").view("<u8").reshape(count)


def unpack_stream(data: bytes, count: int, width: int) -> Array:
    """Value i is bits [i * width, (i + 1) * width) of a little-endian bit stream."""
    if width == 0 or count == 0:
        return np.zeros(count, "<u8")
    if len(data) * 8 < count * width:
        raise CorruptFileError(f"{count} values of {width} bits in {len(data)} bytes")
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return _from_bits(bits[: count * width].reshape(count, width))


def unpack_block(data: bytes, width: int, word_bits: int) -> Array:
    """A full block of 1024 values. Value i belongs to lane i % lanes and is value i // lanes of
    that lane's bit stream; word w of lane l is word w * lanes + l of the block.
    """
    if width == 0:
        return np.zeros(1024, "<u8")
    lanes = 1024 // word_bits
    words = np.frombuffer(data, f"<u{word_bits // 8}").reshape(width, lanes)
    streams = np.ascontiguousarray(words.T).view(np.uint8)
    bits = np.unpackbits(streams, axis=1, bitorder="little")
    values = _from_bits(bits.reshape(lanes * word_bits, width))
    return np.ascontiguousarray(values.reshape(lanes, word_bits).T).reshape(1024)


def packed_offsets(head: Cursor, count: int) -> Array:
    """Ascending positions: entry i is i * stride + base + deviation i, modulo 2^64."""
    if count == 0:
        return np.zeros(0, "<u8")
    stride = head.varint()
    zigzag = head.varint()
    base = (zigzag >> 1) ^ -(zigzag & 1)
    width = head.u8()
    if width > 56:
        raise CorruptFileError(f"offsets of {width} bits, at most 56 are possible")
    deviations = unpack_stream(head.take((count * width + 7) // 8), count, width)
    line = np.arange(count, dtype="<u8") * np.uint64(stride)
    return line + np.uint64(base % 2**64) + deviations
