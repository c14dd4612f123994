"""What questions to secondary indexes read, counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.cost

N = 400_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(8)
    table = pa.table(
        {
            "k": rng.permutation(N),
            "s": [f"user {i:09}" for i in rng.permutation(N)],
            "v": rng.integers(0, 1 << 60, N),
            "d": rng.integers(0, 1 << 60, N),
        }
    )
    path = str(tmp_path_factory.mktemp("cost") / "t.nimble")
    nb.write(table, path, indexes=[nb.SortedIndex("k"), nb.SortedIndex("s")])
    return path


def _cold(path: str) -> Any:
    file = nb.open(path, mmap=False)
    assert (file.io_stats.reads, file.io_stats.rounds) == (1, 1)
    file.reset_io_stats()
    return file


@pytest.mark.parametrize(("on", "key"), [("k", 1234), ("s", "user 000001234")])
def test_cold_lookup_is_directory_chunk_group_and_one_round_of_data(
    path: str, on: str, key: Any
) -> None:
    file = _cold(path)
    assert file.lookup([key], on=on, columns=["k", "s", "v", "d"]).num_rows == 1
    stats = file.io_stats
    # The root came with the tail, and so may have the directory.
    assert 1 <= stats.index_reads <= 2
    assert stats.metadata_reads == 1
    assert stats.rounds == stats.index_reads + 2
    file.reset_io_stats()
    assert file.lookup([key], on=on, columns=["v"]).num_rows == 1
    assert file.io_stats.reads == 0


def test_counting_reads_the_index_only_and_few_chunks(path: str) -> None:
    file = _cold(path)
    assert file.count([5, 10, 15], on="k").to_pylist() == [1, 1, 1]
    assert file.contains([N], on="k").to_pylist() == [False]
    stats = file.io_stats
    assert (stats.index_reads, stats.data_reads, stats.metadata_reads) == (2, 0, 0)


def test_limit_reads_the_first_or_last_chunk_only(path: str) -> None:
    for reverse in (False, True):
        file = _cold(path)
        got = file.range(1000, None, on="k", columns=["k"], limit=5, reverse=reverse)
        want = list(range(N - 1, N - 6, -1)) if reverse else list(range(1000, 1005))
        assert got.column("k").to_pylist() == want
        assert file.io_stats.index_reads <= 3


def test_filter_through_an_index_reads_few_blocks(path: str) -> None:
    file = _cold(path)
    assert file.scan(["v"], filter="k = 77 AND v >= 0").count() == 1
    stats = file.io_stats
    assert stats.index_reads == 2
    assert stats.data_reads <= 3
    assert stats.bytes_read < 200_000
