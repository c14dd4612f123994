"""The Bloom filter: bit for bit that of Parquet files.

``tests/cpp/index/bloom_filter_test.cc`` compares the core's bits with bits that a Parquet file had,
and what a filter lets through with theory. Here: Parquet files have these bits still.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.model

RECORDED = Path(__file__).parents[1] / "cpp/index/parquet_bloom.h"
VALUES = {
    "kParquetTexts": pa.array([f"user-{i * i}@example.org" for i in range(100)]),
    "kParquetNumbers": pa.array([i**3 for i in range(100)], pa.int64()),
}


@pytest.mark.parametrize("name", VALUES)
def test_recorded_bits_are_those_of_a_parquet_file(tmp_path: Path, name: str) -> None:
    array = VALUES[name]
    path = tmp_path / "judge.parquet"
    options = {"v": {"ndv": len(array), "fpp": 0.01}}
    pq.write_table(pa.table({"v": array}), path, bloom_filter_options=options)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    begin, length = column.bloom_filter_offset, column.bloom_filter_length
    # A Thrift header of a few bytes, then the bits: a power of two.
    size = 1 << (length.bit_length() - 1)
    bits = path.read_bytes()[begin + length - size : begin + length]
    literal = re.search(rf"{name}\[\] =\s*([^;]*);", RECORDED.read_text())
    assert literal is not None
    assert "".join(re.findall(r'"([0-9a-f]+)"', literal[1])) == bits.hex()
