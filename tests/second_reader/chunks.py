"""Key chunks, and the cluster index that they hang on: docs/format/key_chunks.md and
cluster_index.md.
"""

from __future__ import annotations

import numpy as np

from nimblepy.errors import CorruptFileError
from second_reader.bits import Array, Cursor, checksum, key_hash, unpack_stream
from second_reader.metadata import Chunks, Cluster


def _fixed(c: Cursor, prefix: bytes, count: int) -> list[bytes]:
    """Key i ends in base + (slope * i >> shift) + packed value i."""
    suffix_size, width, shift = c.u8(), c.u8(), c.u8()
    base, slope = c.u64(), c.u64()
    if suffix_size > 8 or width > 64 or shift > 63:
        raise CorruptFileError(f"key chunk: suffix {suffix_size}, width {width}, shift {shift}")
    size = (count * width + 7) // 8
    packed = unpack_stream(c.take(size), count, width)
    if any(c.take(8)):
        raise CorruptFileError("key chunk: the padding is not zero")
    line = (np.arange(count, dtype="<u8") * np.uint64(slope)) >> np.uint64(shift)
    values = packed + line + np.uint64(base)
    if slope * (count - 1) >> 64:
        raise CorruptFileError(f"key chunk: slope {slope} overflows for {count} keys")
    if suffix_size < 8 and (values >> np.uint64(8 * suffix_size)).any():
        raise CorruptFileError(f"key chunk: a value needs more than {suffix_size} bytes")
    raw = values.astype(">u8").tobytes()
    return [prefix + raw[8 * i + 8 - suffix_size : 8 * i + 8] for i in range(count)]


def _prefixed(c: Cursor, prefix: bytes, count: int) -> list[bytes]:
    """Front-coded entries with restart points."""
    interval, offset_size = c.varint(), c.u8()
    if interval == 0 or offset_size not in (2, 4):
        raise CorruptFileError(f"key chunk: interval {interval}, offsets of {offset_size} bytes")
    entries = Cursor(c.take(c.u32()), "key chunk entries")
    restarts = np.frombuffer(
        c.take((count + interval - 1) // interval * offset_size), f"<u{offset_size}"
    )
    keys, last = [], b""
    for i in range(count):
        if i % interval == 0 and int(restarts[i // interval]) != entries.at:
            raise CorruptFileError(f"key chunk: restart {i // interval} is not at {entries.at}")
        token = entries.u8()
        shared, size = token >> 4, token & 15
        shared += entries.varint() if shared == 15 else 0
        size += entries.varint() if size == 15 else 0
        if shared > len(last) or (i % interval == 0 and shared):
            raise CorruptFileError(f"key chunk: entry {i} shares {shared} of {len(last)} bytes")
        before, last = last, last[:shared] + entries.take(size)
        longest = shared == len(before) or before[shared : shared + 1] != last[shared : shared + 1]
        if i % interval and not longest:  # seeks rely on it
            raise CorruptFileError(f"key chunk: entry {i} shares more than {shared} bytes")
        keys.append(prefix + last)
    entries.finish()
    return keys


def held_keys(raw: bytes, count: int, sampled: bool) -> tuple[list[bytes], int]:
    """The keys stored in a chunk of `count` keys, and the step between them (every n-th key)."""
    c = Cursor(raw, "key chunk")
    if c.u64() != checksum(raw[8:]):
        raise CorruptFileError("key chunk: checksum does not match")
    mode, stored, prefix = c.u8(), c.varint(), c.sized()
    if stored != count or count == 0:
        raise CorruptFileError(f"key chunk: {stored} keys, the directory says {count}")
    step = 1
    if mode == 3 and sampled:
        step, mode = c.varint(), c.u8()
        if not 2 <= step <= 1024:
            raise CorruptFileError(f"key chunk: every {step}th key")
    if mode not in (1, 2):
        raise CorruptFileError(f"key chunk: unknown mode {mode}")
    held = (count + step - 1) // step
    keys = _fixed(c, prefix, held) if mode == 1 else _prefixed(c, prefix, held)
    c.finish()
    return keys, step


def read_chunk(raw: bytes, count: int) -> list[bytes]:
    """All keys of a chunk."""
    return held_keys(raw, count, False)[0]


def check_boundaries(chunks: Chunks, keys: list[bytes], what: str) -> None:
    """Checks that keys of a chunk are at most its boundary, and keys of later chunks at least."""
    begin = 0
    for i, (end, boundary) in enumerate(zip(chunks.end_rows, chunks.boundaries, strict=True)):
        if keys[end - 1] > boundary or (end < len(keys) and keys[end] < boundary):
            raise CorruptFileError(f"{what}: boundary {i} {boundary.hex()} divides nothing")
        begin = end
    if begin != len(keys) or chunks.boundaries[-1] != keys[-1]:
        raise CorruptFileError(f"{what}: the last boundary is not the last key")


def check_order(before: bytes | None, keys: list[bytes], cluster: Cluster, first_row: int) -> None:
    """Checks that keys ascend, strictly in a unique index."""
    for row, key in enumerate(keys, first_row):
        if before is not None and (key < before or (cluster.unique and key == before)):
            raise CorruptFileError(f"row {row}: key {key.hex()} after {before.hex()}")
        before = key


_SALTS = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    "<u4",
)


class BloomFilter:
    """Split blocks: 32 bytes each, eight words, one bit of each word a hash."""

    def __init__(self, raw: bytes) -> None:
        if not raw or len(raw) % 32:
            raise CorruptFileError(f"Bloom filter of {len(raw)} bytes")
        self._blocks: Array = np.frombuffer(raw, "<u4").reshape(-1, 8)

    def might_contain(self, key: bytes) -> bool:
        hash_ = key_hash(key)
        block = self._blocks[(hash_ >> 32) * len(self._blocks) >> 32]
        bits = np.uint32(1) << ((np.uint32(hash_ & 0xFFFFFFFF) * _SALTS) >> np.uint32(27))
        return bool(((block & bits) == bits).all())
