"""Bloom filters of columns leave stripes out, and never a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forge
import key_cases
import numpy as np
import pyarrow as pa
import pytest
from exact import assert_same_table
from key_cases import KEY_TYPES, KeyType

import nimblepy as nb
from second_reader import verify_file
from second_reader.column_bloom import read_column_blooms
from second_reader.reader import Container

pytestmark = pytest.mark.model

N, STRIPE = 10_000, 1_000


def ids_table() -> pa.Table:
    rng = np.random.default_rng(8)
    ids = rng.integers(-(2**63), 2**63 - 1, N)
    words = np.array([f"w{i}" for i in range(4000)])
    return pa.table(
        {
            "id": ids,
            "text": pa.array([f"user-{i}" for i in ids.tolist()], mask=rng.random(N) < 0.1),
            "d": pa.array(words[np.sort(rng.integers(0, 4000, N))]).dictionary_encode(),
            "s": pa.array([{"x": i % 3000} if i % 5 else None for i in range(N)]),
            "row": range(N),
        }
    )


COLUMNS = ["id", "text", "d", "s.x"]


def write(path: Path, columns: Any = COLUMNS, **more: Any) -> nb.FileSummary:
    options = nb.WriteOptions(
        stripe_rows=STRIPE, bloom_columns=columns, statistics=False, group_rows=3000, **more
    )
    return nb.write(ids_table(), path, options=options)


@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
def test_only_the_stripe_of_a_value_is_read(tmp_path: Path, mmap: bool) -> None:
    path = tmp_path / "a.nimble"
    write(path, bloom_bits_per_key=16.0)
    table = ids_table()
    with nb.open(path, mmap=mmap) as file:
        for row in (0, 999, 5_678, N - 1):
            for column in ("id", "text"):
                value = table.column(column)[row].as_py()
                if value is None:
                    continue
                text = repr(value)
                scan = file.scan(filter=f"{column} = {text}")
                assert scan.to_table().column("row").to_pylist() == [row]
        # All stripes but one in 100 or so are ruled out for absent values.
        file.scan(filter="id = 17").to_table()
        file.reset_io_stats()
        for absent in range(20):
            assert file.scan(filter=f"id = {absent}").count() == 0
        assert file.io_stats.data_reads <= 12


@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_filters_of_every_type_give_the_rows_of_a_file_without(
    tmp_path: Path, key: KeyType
) -> None:
    import pyarrow.compute as pc

    table = key_cases.one_column_case(key, 300, seed=2)
    with_path, plain_path = tmp_path / "a.nimble", tmp_path / "b.nimble"
    options = nb.WriteOptions(stripe_rows=40, bloom_columns=["k"])
    nb.write(table, with_path, options=options)
    nb.write(table, plain_path, options=nb.WriteOptions(stripe_rows=40, statistics=False))
    assert verify_file(with_path).problems == []
    with nb.open(with_path) as file, nb.open(plain_path) as plain:
        values = pa.array([v for v in key.pool if v is not None], table.schema.field("k").type)
        for value in values:
            want = plain.to_table(filter=pc.field("k") == value)
            assert_same_table(file.to_table(filter=pc.field("k") == value), want)
        if pa.types.is_float16(values.type):
            return  # pyarrow's is_in does not know it
        some = values.slice(0, 5)
        want = plain.to_table(filter=pc.field("k").isin(some))
        assert_same_table(file.to_table(filter=pc.field("k").isin(some)), want)


def test_nested_dictionary_and_combined_filters_equal_those_without(tmp_path: Path) -> None:
    a, b = tmp_path / "a.nimble", tmp_path / "b.nimble"
    write(a)
    write(b, ())
    with nb.open(a) as with_, nb.open(b) as without:
        for text in (
            "d = 'w17'",
            "d IN ('w1', 'w3999', 'nothing')",
            "s.x = 77",
            "s.x = 77 OR d = 'w2000'",
            "s.x IN (1, 2, 2999) AND d = 'w9'",
            "s.x != 77",
            "text IS NULL AND s.x = 12",
        ):
            assert_same_table(with_.to_table(filter=text), without.to_table(filter=text))


def test_plan_names_what_bloom_filters_answered(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    write(path)
    value = ids_table().column("id")[4_321].as_py()
    with nb.open(path) as file:
        scan = file.scan(["row"], filter=f"id = {value} AND row > 5")
        assert f"Bloom filters: id = {value}" in str(scan.explain()).replace("==", "=")
        assert scan.to_table()["row"].to_pylist() == [4_321]
        assert "Bloom" not in str(file.scan(filter=f"id > {value}").explain())
        assert "Bloom" not in str(file.scan(filter="row = 5").explain())


def test_size_is_counted_and_the_second_reader_agrees(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    bytes_ = write(path).index_bytes
    assert write(path, ["id"]).index_bytes < bytes_ < N * len(COLUMNS) * 2
    assert write(path, ()).index_bytes == 0
    write(path)
    assert verify_file(path).problems == []
    nb.open(path).verify()
    before = path.read_bytes()
    nb.add_index(path, nb.HashIndex("row"))
    assert verify_file(path).problems == []
    nb.drop_index(path, "row")
    assert path.read_bytes() == before


def test_a_damaged_filter_is_an_error_for_who_asks_it(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    write(path, ["id"])
    data = path.read_bytes()
    silent = 0
    want = ids_table().column("id").to_pylist()
    for at in range(64, len(data) - 64, len(data) // 60):
        flipped = bytearray(data)
        flipped[at] ^= 4
        try:
            file = nb.open(bytes(flipped))
            for row in range(7, N, 1100):
                got = file.scan(["row"], filter=f"id = {want[row]}").to_table()
                assert got.column(0).to_pylist() == [row]
        except nb.CorruptFileError:
            continue
        silent += 1
    assert silent < 60  # flips elsewhere hurt nobody who asks for ids


def test_verify_notices_a_filter_that_does_not_know_a_value(tmp_path: Path) -> None:
    import xxhash

    path = tmp_path / "a.nimble"
    write(path, ["id"])
    data = bytearray(path.read_bytes())
    footer = forge.read_postscript(bytes(data))
    file = Container(bytes(data))
    root = dict(file.footer.optional_sections)["nimble.column_bloom"]
    listed = read_column_blooms(file.section(root, "root"), file)[0]._filters[3]

    def reseal(offset: int, size: int, checksum: int, within: tuple[int, int]) -> None:
        """Gives bytes that were changed the checksum that is right now."""
        now = xxhash.xxh3_64_intdigest(bytes(data[offset : offset + size]))
        begin, end = within[0], within[0] + within[1]
        at = data.index(checksum.to_bytes(8, "little"), begin, end)
        data[at : at + 8] = now.to_bytes(8, "little")

    data[listed.offset : listed.offset + listed.size] = bytes(listed.size)
    footer_at = (footer["footer_offset"], footer["footer_size"])
    reseal(listed.offset, listed.size, listed.checksum, (root.offset, root.size))
    reseal(root.offset, root.size, root.checksum, footer_at)
    whole = xxhash.xxh3_64_intdigest(bytes(data[footer_at[0] : sum(footer_at)]))
    forged = forge.with_postscript(bytes(data), footer_checksum=whole)
    with pytest.raises(nb.CorruptFileError, match="row 3000: the stripe's Bloom filter"):
        nb.open(forged).verify()
    path.write_bytes(forged)
    assert "lacks value" in verify_file(path).problems[0]


@pytest.mark.parametrize("columns", ["id", ["nope"], ["id", 3], None])
def test_bad_columns_are_refused(tmp_path: Path, columns: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError):
        write(tmp_path / "a.nimble", columns)
    assert list(tmp_path.iterdir()) == []


def test_columns_without_keys_are_refused(tmp_path: Path) -> None:
    table = pa.table({"l": [[1]]})
    with pytest.raises(nb.NimbleError):
        nb.write(table, tmp_path / "a", options=nb.WriteOptions(bloom_columns=["l"]))
    assert list(tmp_path.iterdir()) == []
