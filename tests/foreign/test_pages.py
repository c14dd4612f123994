"""Pages of Parquet files read by the core, against pyarrow."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_parquet import write_random

from nimblepy import _core
from nimblepy.errors import NimbleError
from nimblepy.foreign.pages import PageReader, decompress, describe
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
            for row in rows[:2]:
                single = reader.row((column,), int(row))
                assert repr(single) == repr({found.column_names[0]: values[row]})
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


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def _varints(*values: int) -> bytes:
    out = bytearray()
    for value in values:
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)


def _list_page(starts: list[int], values: list[int]) -> bytes:
    """A v1 page of lists of int64. Rows begin at the entries ``starts``."""
    n = len(values)
    bits = sum(1 << i for i in range(n) if i not in starts)
    groups = -(-n // 8)
    repetition = _varints(groups << 1 | 1) + bits.to_bytes(groups, "little")
    definition = _varints(n << 1) + b"\x03"
    body = b"".join(len(part).to_bytes(4, "little") + part for part in (repetition, definition))
    body += np.array(values, dtype="<i8").tobytes()
    size = _varints(len(body) * 2)
    head = b"\x15\x00\x15" + size + b"\x15" + size
    return head + b"\x2c\x15" + _varints(n * 2) + b"\x15\x00\x15\x06\x15\x06\x00\x00" + body


def test_row_that_goes_on_in_the_next_page_is_not_cut(tmp_path: Path) -> None:
    """Some writers of v1 pages cut lists; the page where a row begins is not all of it."""
    path = tmp_path / "f.parquet"
    table = pa.table({"l": [list(range(i, i + 5)) for i in range(0, 20, 5)]})
    pq.write_table(table, path, compression="none", use_dictionary=False)
    described = describe(locate(path))
    assert described is not None
    # Row 2 begins at entry 10. The offset index says which row is the first to begin in a page.
    pages = [_list_page([0, 5, 10], list(range(12))), _list_page([3], list(range(12, 20)))]
    path.write_bytes(b"PAR1" + b"".join(pages))
    places = [4, len(pages[0]), 0, 4 + len(pages[0]), len(pages[1]), 3]
    reader = PageReader(
        locate(path),
        (described[0], _varints(0, 0, 2, *places)),
        table.schema,
        _core.ParquetPages(1 << 24),
    )

    def read(*rows: int) -> list[list[int]] | None:
        found = reader.read([0], np.array(rows, dtype=np.uint64))
        return None if found is None else found.column(0).to_pylist()

    assert read(0, 1) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert read(2) is None
    assert read(2, 3) is None


def test_pages_with_fewer_bytes_than_their_headers_say_are_damaged() -> None:
    """pyarrow would fill the rest of the page with anything."""
    packed = gzip.compress(b"a" * 1000)
    assert decompress(2, memoryview(packed), 1000) == b"a" * 1000
    assert decompress(2, memoryview(zlib.compress(b"a" * 1000)), 1000) == b"a" * 1000
    for size in (1, 999, 1001, 4000):
        assert decompress(2, memoryview(packed), size) is None
    for end in (0, 10, len(packed) - 1):
        assert decompress(2, memoryview(packed[:end]), 1000) is None
    changed = packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]
    assert decompress(2, memoryview(changed), 1000) is None


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "zstd"])
def test_page_that_is_shorter_than_its_header_says_is_refused(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"a": np.arange(1000) % 7})
    pq.write_table(table, path, compression=codec, use_dictionary=False, write_statistics=False)
    data = bytearray(path.read_bytes())
    begin = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    # Field 2 of the header is the uncompressed size; a larger one of as many bytes.
    size, end = _varint(data, begin + 3)
    assert data[begin + 2] == 0x15
    data[begin + 3 : end] = _varints(size + 2 * 64)
    path.write_bytes(data)
    with pytest.raises(NimbleError, match="page"):
        open_pages(path).read([0], np.array([999], dtype=np.uint64))
