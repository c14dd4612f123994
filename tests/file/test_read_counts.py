"""What a read costs is a promise: numbers of reads and bytes, counted by io_stats and by the
source itself.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

pytestmark = pytest.mark.cost

N = 400_000
PROJECTIONS = [["a"], ["a", "s"], ["k", "a", "s", "price", "maybe"]]


class CountingSource(io.RawIOBase):
    """A seekable binary file object that remembers each read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0
        self.log: list[tuple[int, int]] = []

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: len(self.content)}[whence]
        self.position = base + offset
        return self.position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        piece = self.content[self.position : self.position + len(view)]
        view[: len(piece)] = piece
        self.log.append((self.position, len(piece)))
        self.position += len(piece)
        return len(piece)


def _table() -> pa.Table:
    rng = np.random.default_rng(12)
    keys = np.arange(N, dtype=np.int64) * 3
    return pa.table(
        {
            "k": keys,
            "a": rng.integers(-(2**62), 2**62, N),
            "s": pa.array([f"Customer#{i:09}" for i in rng.integers(0, N, N)]),
            "price": np.round(rng.random(N) * 1e5, 2),
            "maybe": pa.array(rng.random(N), mask=rng.random(N) < 0.3),
            "noise": rng.integers(-(2**62), 2**62, N),
        }
    )


@pytest.fixture(scope="module", params=[None, 10.0], ids=["no bloom", "bloom"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Any]:
    path = str(tmp_path_factory.mktemp("cost") / "t.nimble")
    options = nb.WriteOptions(
        stripe_rows=50_000, group_rows=100_000, cluster_bloom_bits_per_key=request.param
    )
    nb.write(_table(), path, cluster_by="k", presorted=True, unique=True, options=options)
    return path, request.param


@pytest.fixture(params=["mmap=False", "file object"])
def opened(request: pytest.FixtureRequest, written: tuple[str, Any]) -> Any:
    """A freshly opened, cold file."""
    if request.param == "file object":
        return nb.open(CountingSource(Path(written[0]).read_bytes()))
    return nb.open(written[0], mmap=False)


def test_open_any_file_is_one_read(opened: Any) -> None:
    assert opened.io_stats.reads == 1
    assert opened.io_stats.bytes_read <= 64 << 10


def test_open_file_object_is_one_read_of_the_source(written: tuple[str, Any]) -> None:
    source = CountingSource(Path(written[0]).read_bytes())
    file = nb.open(source)
    assert len(source.log) == 1
    assert file.io_stats.bytes_read == source.log[0][1]
    _ = (file.schema, file.num_rows, file.metadata, file.cluster_by, file.unique, file.size_bytes)
    assert len(source.log) == 1


@pytest.mark.parametrize("columns", PROJECTIONS, ids=len)
@pytest.mark.parametrize("row", [0, 1, 123_456, 199_999, 200_000, N - 1])
def test_get_cold_key_costs_two_index_reads_and_one_per_column(
    opened: Any, columns: list[str], row: int
) -> None:
    opened.reset_io_stats()
    assert opened.get(3 * row, columns) is not None
    stats = opened.io_stats
    assert stats.index_reads <= 2
    assert stats.data_reads <= len(columns)
    assert stats.reads <= 2 + len(columns)
    assert stats.rounds <= 3  # index group, key chunk, all data together


@pytest.mark.parametrize("columns", PROJECTIONS, ids=len)
def test_lookup_cold_key_reads_at_most_16_kib_per_column(
    written: tuple[str, Any], columns: list[str]
) -> None:
    source = CountingSource(Path(written[0]).read_bytes())
    file = nb.open(source)
    for row in (7, 150_000, N - 2):
        fresh = nb.open(source)
        source.log.clear()
        assert fresh.lookup([3 * row], columns=columns).num_rows == 1
        stats = fresh.io_stats
        large = [size for _, size in source.log if size > 16 << 10]
        assert len(large) <= stats.index_reads, source.log
        assert sum(size for _, size in source.log) <= (64 << 10) + (16 << 10) * len(columns)
        assert len(source.log) <= 2 + len(columns)
    assert file.num_rows == N


def test_io_stats_equal_what_the_source_saw(written: tuple[str, Any]) -> None:
    source = CountingSource(Path(written[0]).read_bytes())
    file = nb.open(source)
    file.get(3)
    file.lookup([6, 9_000, 600_000])
    file.scan(["a"], row_range=(0, 60_000)).to_table()
    assert file.io_stats.reads == len(source.log)
    assert file.io_stats.bytes_read == sum(size for _, size in source.log)
    file.reset_io_stats()
    assert file.io_stats.reads == 0
    assert file.io_stats.bytes_read == 0


def test_lookup_absent_key_reads_no_data(opened: Any, written: tuple[str, Any]) -> None:
    absent = [1, 2, 3 * 250_000 + 1, 3 * N - 2]
    opened.reset_io_stats()
    for key in absent:
        assert opened.get(key) is None
    assert opened.lookup(absent).num_rows == 0
    assert opened.io_stats.data_reads == 0


def test_lookup_key_outside_the_file_reads_nothing(opened: Any) -> None:
    opened.reset_io_stats()
    assert opened.get(-1) is None
    assert opened.get(3 * N + 10) is None
    assert opened.contains([-5, 2**60]).to_pylist() == [False, False]
    assert opened.io_stats.reads == 0


@pytest.mark.parametrize("written", [10.0], ids=["bloom"], indirect=True)
def test_lookup_absent_keys_with_bloom_read_no_key_chunks(written: tuple[str, Any]) -> None:
    file = nb.open(written[0], mmap=False)
    absent = [3 * row + 1 for row in range(0, N, 4_000)]
    file.reset_io_stats()
    assert not any(file.contains(absent).to_pylist())
    stats = file.io_stats
    # 100 keys, 4 groups: the filters (10 bits a key) and about one false positive; without a
    # filter each key would load its own key chunk
    assert stats.data_reads == 0
    assert stats.index_reads <= 30


def test_contains_count_and_row_ranges_read_no_data_columns(opened: Any) -> None:
    opened.reset_io_stats()
    keys = [0, 1, 300_000, 3 * N - 3]
    assert opened.contains(keys).to_pylist() == [True, False, True, True]
    assert opened.count(keys).to_pylist() == [1, 0, 1, 1]
    assert opened.row_ranges(keys).num_rows == 3
    assert opened.row_ranges(lower=30, upper=60).to_pylist() == [
        {"probe_row": 0, "begin": 10, "end": 20}
    ]
    assert opened.io_stats.data_reads == 0
    assert opened.io_stats.reads > 0


@pytest.mark.parametrize("mmap", [True, False])
def test_lookup_of_key_columns_reads_the_index_alone(written: tuple[str, Any], mmap: bool) -> None:
    file = nb.open(written[0], mmap=mmap)
    keys = [3 * row for row in range(0, N, 1_000)]
    file.reset_io_stats()
    assert file.lookup(keys, columns=["k"])["k"].to_pylist() == keys
    assert file.io_stats.data_reads == 0
    if mmap:
        assert file.get(keys[7], ["k"]) == {"k": keys[7]}
        assert file.io_stats.data_reads == 0


def test_lookup_touches_a_block_once_a_batch(written: tuple[str, Any]) -> None:
    file = nb.open(written[0])
    keys = np.random.default_rng(3).permutation(N)[:20_000] * 3
    file.reset_io_stats()
    file.lookup(keys, columns=["a"])
    blocks = len(np.unique(keys // 3 % 50_000 // 1024 + keys // 3 // 50_000 * 1024))
    assert file.io_stats.data_reads == blocks
    before = file.io_stats.reads
    file.lookup(keys[::-1].copy(), columns=["a", "k"])
    assert file.io_stats.reads == before


def test_lookup_same_key_again_reads_nothing(opened: Any) -> None:
    first = opened.lookup([333_333 * 3])
    got = opened.get(333_333 * 3)
    before = opened.io_stats.reads
    assert opened.lookup([333_333 * 3]).equals(first)
    assert opened.get(333_333 * 3) == got
    assert opened.contains([333_333 * 3]).to_pylist() == [True]
    assert opened.io_stats.reads == before


def test_lookup_with_a_tiny_cache_still_answers(written: tuple[str, Any]) -> None:
    file = nb.open(written[0], mmap=False, cache_bytes=0)
    for row in (5, 399_000, 5):
        assert file.get(3 * row, ["k"]) == {"k": 3 * row}


def test_lookup_of_many_keys_reads_no_byte_twice(written: tuple[str, Any]) -> None:
    source = CountingSource(Path(written[0]).read_bytes())
    file = nb.open(source)
    source.log.clear()
    rows = np.random.default_rng(1).permutation(N)[:20_000]
    assert file.lookup(rows * 3, columns=["a", "s"]).num_rows == 20_000
    total = sum(size for _, size in source.log)
    assert total <= 1.1 * len(source.content)
    assert len(source.log) <= 400, "reads of one batch are coalesced"


def test_scan_of_one_column_reads_about_that_column(
    written: tuple[str, Any], tmp_path: Path
) -> None:
    summary = nb.write(_table(), tmp_path / "t.nimble", cluster_by="k", presorted=True)
    sizes = {column.name: column.size_bytes for column in summary.columns}
    for name in ("a", "s", "price"):
        file = nb.open(tmp_path / "t.nimble", mmap=False)
        file.reset_io_stats()
        assert file.scan([name]).to_table().num_rows == N
        assert sizes[name] * 0.9 <= file.io_stats.bytes_read <= sizes[name] * 1.05 + (64 << 10)
        assert file.io_stats.index_reads == 0


def test_scan_with_limit_or_row_range_reads_about_those_rows(opened: Any) -> None:
    for arguments in ({"limit": 1_000}, {"row_range": (150_000, 151_000)}):
        opened.reset_io_stats()
        assert opened.scan(["noise"], **arguments).to_table().num_rows == 1_000
        assert opened.io_stats.bytes_read <= 128 << 10  # 8 kB of values in 16 kB of blocks


def test_scan_count_without_filter_reads_no_data(opened: Any) -> None:
    opened.reset_io_stats()
    assert opened.scan().count() == N
    assert opened.io_stats.data_reads == 0


def test_range_reads_only_its_rows(opened: Any) -> None:
    opened.reset_io_stats()
    assert opened.range(600_000, 603_000, columns=["a"]).num_rows == 1_000
    assert opened.io_stats.index_reads <= 4
    assert opened.io_stats.data_reads <= 2
    assert opened.io_stats.bytes_read <= 128 << 10


def test_explain_promises_the_reads_that_happen(opened: Any) -> None:
    plan = opened.explain([750_000], columns=["a", "s"])
    opened.reset_io_stats()
    opened.lookup([750_000], columns=["a", "s"])
    assert plan.reads >= opened.io_stats.reads > 0
    assert plan.index is not None
    assert "cluster" in plan.index


def _with_nulls(n: int, share: float) -> pa.Table:
    """Columns of many kinds, of which so many values are null."""
    rng = np.random.default_rng(int(share * 100))

    def column(values: Any, type_: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, type_, mask=rng.random(n) < share)

    ids = (np.arange(n) * 37 + rng.integers(0, 30, n) << 22) | (rng.integers(0, 16, n) << 12)
    kinds = {
        "small ints": column(rng.integers(0, 5_000, n)),
        "any ints": column(rng.integers(-(2**62), 2**62, n)),
        "put together": column(ids | rng.integers(0, 4, n)),
        "times": column(np.sort(rng.integers(0, 2**50, n)), pa.timestamp("us")),
        "prices": column(np.round(rng.random(n) * 1e5, 2)),
        "doubles": column(rng.random(n)),
        "floats": column(rng.normal(0, 1, n).astype(np.float32)),
        "booleans": column(rng.random(n) < 0.5),
        "names": column([f"Customer#{i:09}" for i in rng.integers(0, n, n)]),
        "words": column([f"kind {i}" for i in rng.integers(0, 20, n)]),
        "runs": pa.array(rng.integers(0, 100, n), mask=np.arange(n) // 20_000 % 2 == 0),
    }
    return pa.table({"k": np.arange(n), **kinds})


@pytest.mark.parametrize("n", [20_000, 300_000])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
def test_get_cold_row_of_any_kind_and_nulls_is_one_data_read(
    share: float, n: int, tmp_path: Path
) -> None:
    table = _with_nulls(n, share)
    nb.write(table, tmp_path / "t.nimble", cluster_by="k", presorted=True)
    content = (tmp_path / "t.nimble").read_bytes()
    for name in table.column_names[1:]:
        # plain values are handed on where they lie, so their validity cannot lie between them
        plain = name in ("any ints", "floats") and share == 0.02
        for row in (0, 5_000, n // 3, n - 1):
            file = nb.open(CountingSource(content))
            file.reset_io_stats()
            assert file.get(row, [name]) == {name: table[name][row].as_py()}
            assert file.io_stats.data_reads <= (2 if plain else 1), (name, row)
            assert file.io_stats.rounds <= 3


def test_validity_alone_is_few_reads(tmp_path: Path) -> None:
    """It lies between the values: they are read too, rather than a block of it by each request."""
    n = 300_000
    nb.write(_with_nulls(n, 0.02), tmp_path / "t.nimble")
    for name in ("doubles", "names", "small ints"):
        file = nb.open(tmp_path / "t.nimble", mmap=False)
        file.reset_io_stats()
        assert 0.01 * n < file.scan(["k"], filter=pc.field(name).is_null()).count() < 0.03 * n
        assert file.io_stats.data_reads <= 8, name


def test_text_whose_validity_would_not_be_near_keeps_it_apart(tmp_path: Path) -> None:
    """Scattered rows share what they read of validity."""
    n = 300_000
    rng = np.random.default_rng(3)
    raw = rng.integers(97, 123, (n, 60)).astype(np.uint8).tobytes()
    long = [raw[60 * i : 60 * i + 60].decode() for i in range(n)]
    nb.write(pa.table({"v": pa.array(long, mask=rng.random(n) < 0.03)}), tmp_path / "t.nimble")
    file = nb.open(tmp_path / "t.nimble", mmap=False)
    file.reset_io_stats()
    assert file.take(np.arange(777, n, n // 100)).num_rows == 100
    assert file.io_stats.data_reads <= 103


def _events(n: int) -> pa.Table:
    """Many columns whose blocks' checksums lie in the metadata, as a feature store has."""
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {
        "user": pa.array([f"u{i // 1_000:09d}" for i in range(n)]),
        "ts": pa.array(np.sort(rng.integers(0, 2**50, n)), pa.timestamp("us", "UTC")),
        "ratio": rng.random(n),
        "feature": pa.FixedSizeListArray.from_arrays(
            pa.array(rng.random(n * 8).astype(np.float32)), 8
        ),
    }
    for i in range(8):
        scores = rng.normal(0, 1, n).astype(np.float32)
        columns[f"score_{i}"] = pa.array(scores, mask=rng.random(n) < 0.05)
    return pa.table(columns)


def test_get_cold_key_of_a_wide_file_reads_at_most_64_kib(tmp_path: Path) -> None:
    n = 300_000
    table = _events(n)
    nb.write(table, tmp_path / "t.nimble", cluster_by=["user", "ts"], presorted=True)
    content = (tmp_path / "t.nimble").read_bytes()
    rows = [3, n // 2, n - 3]
    keys = [tuple(row.values()) for row in table.select(["user", "ts"]).take(rows).to_pylist()]
    for key in keys:
        for name in ("ts", "ratio", "score_3", "feature"):
            source = CountingSource(content)
            file = nb.open(source)
            source.log.clear()
            file.reset_io_stats()
            assert file.get(key, [name]) is not None
            assert sum(size for _, size in source.log) <= 64 << 10, (name, source.log)
            assert file.io_stats.rounds <= 3


def _long_keys(n: int) -> dict[str, pa.Table]:
    """Keys of which the index holds samples only."""
    rng = np.random.default_rng(8)
    raw = rng.bytes(16 * n)
    ids = sorted(raw[16 * i : 16 * i + 16].hex() for i in range(n))
    users = [f"user-{u * 7919 % 100_003:06d}" for u in np.sort(rng.zipf(1.3, n) % 5_000)]
    table = pa.table(
        {
            "id": [f"{i[:8]}-{i[8:12]}-{i[12:16]}-{i[16:20]}-{i[20:]}" for i in ids],
            "user": users,
            "at": pa.array(rng.integers(0, 2**50, n), pa.timestamp("us", "UTC")),
            "value": rng.integers(0, 2**62, n),
            "name": [f"name of {v}" for v in rng.integers(0, 10**9, n)],
        }
    )
    return {"id": table, "user,at": table.sort_by([("user", "ascending"), ("at", "ascending")])}


@pytest.fixture(scope="module", params=["id", "user,at"])
def sampled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[bytes, list[Any], pa.Table]:
    n = 300_000
    table, names = _long_keys(n)[request.param], request.param.split(",")
    path = tmp_path_factory.mktemp("sampled") / "t.nimble"
    summary = nb.write(table, path, cluster_by=names, presorted=True)
    assert summary.index_bytes < 4 * n
    rows = [0, 5, n // 2 + 7, n - 1]
    keys = [tuple(row.values()) for row in table.select(names).take(rows).to_pylist()]
    return path.read_bytes(), keys if len(names) > 1 else [key[0] for key in keys], table


@pytest.mark.parametrize("name", ["value", "name"])
def test_get_cold_key_of_a_sampled_index_is_three_rounds_and_64_kib(
    sampled: tuple[bytes, list[Any], pa.Table], name: str
) -> None:
    content, keys, table = sampled
    for key in keys:
        for read in (
            lambda f, k: f.get(k, [name]),
            lambda f, k: f.lookup([k], columns=[name]).num_rows or None,
            lambda f, k: f.prefix(k, columns=[name]).num_rows or None,
        ):
            source = CountingSource(content)
            file = nb.open(source)
            source.log.clear()
            file.reset_io_stats()
            assert read(file, key) is not None
            assert sum(size for _, size in source.log) <= 64 << 10, (name, source.log)
            assert file.io_stats.rounds <= 3
            assert file.io_stats.index_reads <= 2
    assert table.num_rows == 300_000


def test_contains_of_a_sampled_index_reads_key_columns_alone(
    sampled: tuple[bytes, list[Any], pa.Table],
) -> None:
    content, keys, _ = sampled
    file = nb.open(CountingSource(content))
    file.reset_io_stats()
    assert all(file.contains(keys[1:2]).to_pylist())
    assert file.io_stats.rounds <= 3
    assert file.io_stats.bytes_read <= 64 << 10


def test_lookup_of_many_sampled_keys_coalesces_its_reads(
    sampled: tuple[bytes, list[Any], pa.Table],
) -> None:
    content, _, table = sampled
    source = CountingSource(content)
    file = nb.open(source)
    on = [key.column for key in file.cluster_by]
    source.log.clear()
    file.reset_io_stats()
    probes = table.select(on).take(np.random.default_rng(1).permutation(300_000)[:20_000])
    assert file.lookup(probes, columns=["value"]).num_rows >= 20_000
    assert sum(size for _, size in source.log) <= 1.3 * len(content)
    assert len(source.log) <= 600


@pytest.mark.slow
def test_open_15_million_rows_costs_one_read_and_lookup_five(tmp_path: Path) -> None:
    n = 15_000_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "o_orderkey": np.arange(n) * 4 + 1,
            "a": rng.integers(0, 2**40, n),
            "b": np.round(rng.random(n) * 1e5, 2),
        }
    )
    nb.write(table, tmp_path / "t.nimble", cluster_by="o_orderkey", presorted=True, unique=True)
    file = nb.open(tmp_path / "t.nimble", mmap=False)
    assert file.io_stats.reads == 1
    file.reset_io_stats()
    assert file.get(4 * 7_654_321 + 1, ["a", "b"]) is not None
    assert file.io_stats.index_reads <= 2
    assert file.io_stats.data_reads <= 2


def _kinds(n: int) -> dict[str, tuple[Any, int, int]]:
    """A column of each kind, with the data reads and the rounds that one cold row takes at most.

    One data read a leaf: what a row needs of its parts (which rows have a value, high and low bits)
    lies side by side. A struct's validity is one more, and a list's items are, in a round more, as
    their place is known when its ends are. Dictionaries come with the footer.
    """
    rng = np.random.default_rng(5)
    ints = rng.integers(0, 2**40, n)
    words = np.array([f"word-{i:05d}-{i * 7919 % 10007}" for i in range(3_000)])
    texts = pa.array([f"some text {a}" for a in rng.integers(0, 10**9, n)])
    nulls = rng.random(n) < 0.3
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 8, n))]).astype(np.int32)
    vectors = pa.array(rng.random(n * 8).astype(np.float32))
    structs = [pa.array(ints), pa.array(ints[::-1])]
    maybe = pa.array(nulls)
    maybe_items = pa.array(rng.integers(0, 2**40, ends[-1]), mask=rng.random(ends[-1]) < 0.02)
    return {
        "int": (ints, 1, 3),
        "decimal float": (np.round(rng.random(n) * 1e5, 2), 1, 3),
        "bool": (nulls, 1, 3),
        "text": (texts, 1, 3),
        "steps": (np.cumsum(np.where(rng.random(n) < 0.01, 1_000, 1)), 1, 3),
        "int with nulls": (pa.array(ints, mask=nulls), 1, 3),
        "float": (rng.random(n), 1, 3),
        "float with nulls": (pa.array(rng.random(n), mask=nulls), 1, 3),
        "text with nulls": (pa.array(texts.to_pylist(), mask=nulls), 1, 3),
        "few texts": (words[rng.integers(0, len(words), n)], 1, 3),
        "few texts with nulls": (pa.array(words[rng.integers(0, 3_000, n)], mask=nulls), 1, 3),
        "few ints": (ints[:3_000][rng.integers(0, 3_000, n)], 1, 3),
        "struct": (pa.StructArray.from_arrays(structs, ["x", "y"]), 2, 3),
        "struct with nulls": (pa.StructArray.from_arrays(structs, ["x", "y"], mask=maybe), 3, 3),
        "vector": (pa.FixedSizeListArray.from_arrays(vectors, 8), 1, 3),
        "list with null items": (pa.ListArray.from_arrays(ends, maybe_items), 2, 4),
        "list": (pa.ListArray.from_arrays(ends, rng.integers(0, 2**40, ends[-1])), 2, 4),
    }


def test_get_cold_key_takes_a_data_read_for_each_leaf_of_any_kind(tmp_path: Path) -> None:
    n = 300_000
    kinds = _kinds(n)
    table = pa.table({"k": np.arange(n), **{name: kind[0] for name, kind in kinds.items()}})
    nb.write(table, tmp_path / "t.nimble", cluster_by="k", presorted=True, unique=True)
    for name, (_, most_reads, most_rounds) in kinds.items():
        taken = []
        for row in (7, 123_456, n - 5):
            file = nb.open(tmp_path / "t.nimble", mmap=False)
            file.reset_io_stats()
            assert file.get(row, [name]) is not None
            taken.append(file.io_stats.data_reads)
            assert file.io_stats.rounds <= most_rounds, name
            assert file.io_stats.bytes_read <= 64 << 10, name
        assert max(taken) <= most_reads, (name, taken)
