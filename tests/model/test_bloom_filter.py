"""The Bloom filter: bit for bit that of Parquet files, and no worse than theory."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nimblepy import _core

BLOCK = 32


def plain_bytes(array: pa.Array) -> pa.Array:
    """What Parquet hashes: the plain-encoded value, without the length of byte strings."""
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        return array.cast(pa.large_binary())
    raw = array.to_numpy().astype(array.to_numpy().dtype.newbyteorder("<")).tobytes()
    width = array.type.bit_width // 8
    return pa.array([raw[i * width : (i + 1) * width] for i in range(len(array))], pa.binary())


COLUMNS = {
    "int64": pa.array(np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 3000)),
    "int32": pa.array(np.arange(-500, 2500, dtype=np.int32)),
    "double": pa.array(np.random.default_rng(2).normal(size=1000)),
    "float": pa.array(np.random.default_rng(3).normal(size=1000).astype(np.float32)),
    "text": pa.array([f"user-{i * i}@example.org" for i in range(2000)]),
    "empty and zero": pa.array(["", "\0", "a\0b", "ä"]),
    "bytes": pa.array([bytes([i % 256]) * (i % 40) for i in range(1, 300)], pa.binary()),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_bits_equal_those_of_a_parquet_file(tmp_path: Path, name: str) -> None:
    array = COLUMNS[name]
    path = tmp_path / "judge.parquet"
    options = {"v": {"ndv": len(array), "fpp": 0.01}}
    pq.write_table(pa.table({"v": array}), path, bloom_filter_options=options)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    begin, length = column.bloom_filter_offset, column.bloom_filter_length
    # A Thrift header of a few bytes, then the bits: a power of two.
    size = 1 << (length.bit_length() - 1)
    bits = path.read_bytes()[begin + length - size : begin + length]
    values = plain_bytes(array)
    assert _core.bloom_bits(values, size * 8 / len(values)) == bits
    assert _core.bloom_probe(bits, values).all()


def expected_rate(bits_per_key: float) -> float:
    """A block holds a Poisson number of keys, each of which sets one bit in each of 8 words."""
    mean = 256 / bits_per_key
    p, total = math.exp(-mean), 0.0
    for keys in range(500):
        total += p * (1 - (31 / 32) ** keys) ** 8
        p *= mean / (keys + 1)
    return total


def numbered(begin: int, end: int) -> pa.Array:
    raw = np.arange(begin, end, dtype=">u8").tobytes()
    offsets = pa.py_buffer(np.arange(0, len(raw) + 1, 8, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), end - begin, [None, offsets, pa.py_buffer(raw)])


@pytest.mark.parametrize("bits_per_key", [8, 10, 16])
def test_a_million_absent_keys_pass_as_often_as_theory_says(bits_per_key: int) -> None:
    present = numbered(0, 1_000_000)
    bits = _core.bloom_bits(present, float(bits_per_key))
    assert len(bits) == math.ceil(1_000_000 * bits_per_key / 256) * BLOCK
    assert _core.bloom_probe(bits, present).all()
    passed = int(_core.bloom_probe(bits, numbered(1_000_000, 2_000_000)).sum())
    assert passed == pytest.approx(expected_rate(bits_per_key) * 1e6, rel=0.1)
