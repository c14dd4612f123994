"""Encodes and decodes deletion vectors: the deleted rows of one data file, in a Puffin file.

A blob has the length of what follows (4 bytes, big-endian), a magic number, a 64-bit Roaring
bitmap in the portable format, and a CRC-32 (big-endian) of magic number and bitmap. See
https://iceberg.apache.org/puffin-spec and https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, TypeAlias

import numpy as np

from nimblepy import _core
from nimblepy.rows.rowset import RowNumbers

_Values: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_MAGIC = b"\xd1\xd3\x39\x64"
_LENGTH = struct.Struct(">I")
_COUNT = struct.Struct("<Q")
_NUMBER = struct.Struct("<I")
# First number of a 32-bit bitmap without run containers; of one with them, its lower 16 bits.
_NO_RUNS, _WITH_RUNS = 12346, 12347
# A bitmap with run containers and fewer containers than this has no offsets.
_FEWEST_WITH_OFFSETS = 4
# Containers with more values than this are bitmaps of 8 KiB.
_MOST_IN_ARRAY = 4096
_BITMAP_BYTES = 8192


def deleted_positions(blob: bytes, count: int) -> RowNumbers:
    """Returns the positions in a deletion vector, ascending.

    Args:
        count: number of positions, which bounds the memory used.

    Raises:
        ValueError: the bytes are damaged, or there is another number of positions.
    """
    least = _LENGTH.size + len(_MAGIC) + _COUNT.size + 4
    if len(blob) < least:
        raise ValueError(f"{len(blob)} bytes; a deletion vector has at least {least}")
    (length,) = _LENGTH.unpack_from(blob)
    if length != len(blob) - _LENGTH.size - 4:
        raise ValueError(f"its length is {length}, expected {len(blob) - _LENGTH.size - 4}")
    content = memoryview(blob)[_LENGTH.size : -4]
    if bytes(content[: len(_MAGIC)]) != _MAGIC:
        raise ValueError(f"it begins with {bytes(content[:4]).hex()}, expected {_MAGIC.hex()}")
    (checksum,) = _LENGTH.unpack_from(blob, len(blob) - 4)
    if zlib.crc32(content) != checksum:
        raise ValueError(f"checksum {zlib.crc32(content):#010x}, stored {checksum:#010x}")
    reader = _Bytes(content[len(_MAGIC) :])
    (bitmaps,) = _COUNT.unpack(reader.take(_COUNT.size))
    parts: list[RowNumbers] = []
    left, before = count, -1
    for _ in range(bitmaps):  # Each takes bytes, so damaged counts end with an error.
        (key,) = _NUMBER.unpack(reader.take(4))
        if key <= before or key >> 31:
            raise ValueError(f"the key {key} of a bitmap follows {before}")
        before = key
        rows = _bitmap(reader, left)
        left -= len(rows)
        parts.append(rows + np.uint64(key << 32))
    if reader.left:
        raise ValueError(f"{reader.left} bytes follow the bitmaps")
    if left:
        raise ValueError(f"{count - left} positions, expected {count}")
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def deletion_vector(rows: RowNumbers) -> bytes:
    """Returns the deletion vector of distinct positions, with the bytes that Java writes."""
    content = _MAGIC + _core.RowBitmap(rows).roaring()
    return _LENGTH.pack(len(content)) + content + _LENGTH.pack(zlib.crc32(content))


class _Bytes:
    """Reads bytes one after the other, with a check of the end."""

    def __init__(self, octets: memoryview) -> None:
        self._octets = octets
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._octets) - self._at

    def take(self, size: int) -> memoryview:
        if size > self.left:
            raise ValueError(f"{size} bytes needed, {self.left} left")
        self._at += size
        return self._octets[self._at - size : self._at]


def _bitmap(reader: _Bytes, most: int) -> RowNumbers:
    """Returns the values of a 32-bit bitmap.

    Raises:
        ValueError: there are more than ``most``.
    """
    (cookie,) = _NUMBER.unpack(reader.take(4))
    if cookie == _NO_RUNS:
        (containers,) = _NUMBER.unpack(reader.take(4))
        if containers > 1 << 16:
            raise ValueError(f"a bitmap has {containers} containers; at most 65536 are possible")
        is_run = np.zeros(containers, dtype=np.bool_)
    elif cookie & 0xFFFF == _WITH_RUNS:
        containers = (cookie >> 16) + 1
        flags = np.frombuffer(reader.take((containers + 7) // 8), dtype=np.uint8)
        is_run = np.unpackbits(flags, bitorder="little")[:containers].astype(np.bool_)
    else:
        raise ValueError(f"a bitmap begins with {cookie}, which is not a Roaring cookie")
    header = np.frombuffer(reader.take(4 * containers), dtype="<u2").reshape(-1, 2).astype(np.int64)
    keys, counts = header[:, 0], header[:, 1] + 1
    if (np.diff(keys) <= 0).any():
        raise ValueError("the keys of containers do not ascend")
    if counts.sum() > most:
        raise ValueError(f"more than {most} positions in a bitmap")
    if cookie == _NO_RUNS or containers >= _FEWEST_WITH_OFFSETS:
        reader.take(4 * containers)  # Containers follow in order, so their offsets are not needed.
    parts = [
        _container(reader, count, run) + (key << 16)
        for key, count, run in zip(keys.tolist(), counts.tolist(), is_run.tolist(), strict=True)
    ]
    values = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    return values.astype(np.uint64)


def _container(reader: _Bytes, count: int, is_run: bool) -> _Values:
    """Returns the ``count`` values of a container, ascending."""
    if is_run:
        (runs,) = struct.unpack("<H", reader.take(2))
        pairs = np.frombuffer(reader.take(4 * runs), dtype="<u2").reshape(-1, 2).astype(np.int64)
        first, last = pairs[:, 0], pairs[:, 0] + pairs[:, 1]
        if (first[1:] <= last[:-1]).any() or (last >> 16).any():
            raise ValueError("the runs of a container overlap or end past its last value")
        lengths = last - first + 1
        if lengths.sum() != count:
            raise ValueError(f"{lengths.sum()} values in a container, expected {count}")
        begin = np.cumsum(lengths) - lengths
        every: _Values = np.arange(count) + np.repeat(first - begin, lengths)
        return every
    if count > _MOST_IN_ARRAY:
        words = np.frombuffer(reader.take(_BITMAP_BYTES), dtype=np.uint8)
        ones: _Values = np.flatnonzero(np.unpackbits(words, bitorder="little"))
        if len(ones) != count:
            raise ValueError(f"{len(ones)} values in a container, expected {count}")
        return ones
    values: _Values = np.frombuffer(reader.take(2 * count), dtype="<u2").astype(np.int64)
    if (np.diff(values) <= 0).any():
        raise ValueError("the values of a container do not ascend")
    return values
