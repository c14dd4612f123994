"""Pages of Parquet files read by the core, against pyarrow."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_parquet import write_random

from nimblepy import _core
from nimblepy.errors import NimbleError
from nimblepy.foreign.pages import PageReader, describe
from nimblepy.io.location import locate


def open_pages(path: Path, schema: pa.Schema | None = None) -> PageReader:
    location = locate(path)
    described = describe(location)
    assert described is not None
    if schema is None:
        schema = pq.read_schema(path).remove_metadata()
    return PageReader(location, described, schema, _core.ParquetPages(1 << 24))


def check_against_pyarrow(rng: random.Random, path: Path) -> tuple[int, int]:
    """Compares random rows of each column. Returns how many reads pages answered, and all."""
    expected = pq.read_table(path, use_threads=False)
    reader = open_pages(path, expected.schema.remove_metadata())
    n = expected.num_rows
    assert reader.num_rows == n
    answered = asked = 0
    for count in {min(n, 1), n // 10, n}:
        rows = np.array(sorted(rng.sample(range(n), count)), dtype=np.uint64)
        for column in range(expected.num_columns):
            found = reader.read([column], rows)
            asked += 1
            if found is None:
                continue
            answered += 1
            found.validate(full=True)
            assert found.schema.field(0).type == expected.schema.field(column).type
            values = expected.column(column).to_pylist()
            # repr: NaN equals NaN, and 0.0 is not -0.0
            assert repr(found.column(0).to_pylist()) == repr([values[row] for row in rows])
    return answered, asked


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_random_files_read_like_pyarrow(first: int, tmp_path: Path) -> None:
    answered = asked = 0
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        path = tmp_path / "f.parquet"
        if write_random(rng, path):
            ours, all_ = check_against_pyarrow(rng, path)
            answered, asked = answered + ours, asked + all_
    assert answered > asked * 0.7


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 4000, 500))
def test_many_random_files_read_like_pyarrow(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 500):
        rng = random.Random(seed)
        if write_random(rng, tmp_path / "f.parquet"):
            check_against_pyarrow(rng, tmp_path / "f.parquet")


@pytest.mark.sanitizer
def test_damaged_files_give_errors_or_answers(tmp_path: Path) -> None:
    """Truncations and changed bytes: an error, or some answer, but never a crash."""
    rng = random.Random(5)
    path, broken = tmp_path / "f.parquet", tmp_path / "b.parquet"
    errors = answers = 0
    for _ in range(25):
        if not write_random(rng, path, (7, 100)):
            continue
        schema = pq.read_schema(path).remove_metadata()
        whole = path.read_bytes()
        for _ in range(40):
            data = bytearray(whole)
            if rng.random() < 0.2:
                del data[rng.randrange(len(data)) :]
            for _ in range(rng.choice([1, 1, 2, 8])):
                if data:
                    data[rng.randrange(len(data))] = rng.randrange(256)
            broken.write_bytes(data)
            try:
                reader = open_pages(broken, schema)
                n = min(reader.num_rows, 200)
                found = reader.read(range(len(schema)), np.arange(n, dtype=np.uint64))
            except (NimbleError, pa.ArrowInvalid):
                errors += 1
                continue
            if found is not None:
                answers += 1
                # not full: pyarrow's own reader does not check texts and decimals either
                found.validate()
    assert errors > 100
    assert answers > 100


def test_page_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"a": pa.array(range(1000), pa.int64())})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    at = data.index((500).to_bytes(8, "little"))
    data[at] ^= 1
    path.write_bytes(data)
    reader = open_pages(path)
    with pytest.raises(NimbleError, match="checksum"):
        reader.read([0], np.array([3], dtype=np.uint64))


def test_one_row_reads_one_page_of_each_column_in_one_round(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    n = 50_000
    table = pa.table({"a": np.arange(n), "b": np.arange(n) * 2.5, "s": [f"x{i}" for i in range(n)]})
    pq.write_table(table, path, write_page_index=True, data_page_size=8192, use_dictionary=False)
    location = locate(path)
    described = describe(location)
    assert described is not None
    pages = _core.ParquetPages(1 << 24)
    reader = PageReader(location, described, table.schema, pages)
    row = np.array([31_234], dtype=np.uint64)
    first = reader.read([0, 1, 2], row)
    assert first is not None
    assert first.to_pylist() == table.slice(31_234, 1).to_pylist()
    reads, size, rounds, opened = pages.stats
    assert (reads, rounds, opened) == (3, 1, 3)
    assert size < 3 * 16_384
    reader.read([0, 1, 2], row)
    assert pages.stats == (reads, size, rounds, opened)  # from the cache


def test_cache_of_pages_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"a": np.random.default_rng(0).random(200_000)})
    pq.write_table(table, path, data_page_size=8192, use_dictionary=False, write_page_index=True)
    location = locate(path)
    described = describe(location)
    assert described is not None
    pages = _core.ParquetPages(100_000)
    reader = PageReader(location, described, table.schema, pages)
    for row in range(0, 200_000, 997):
        reader.read([0], np.array([row], dtype=np.uint64))
        assert pages.used_bytes <= 100_000
    assert pages.used_bytes > 50_000
