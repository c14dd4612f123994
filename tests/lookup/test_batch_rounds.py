"""Rounds of reads of a batch on a file that is not mapped: distance is paid by the round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.cost

ROWS = 100_000
OPTIONS = nb.WriteOptions(stripe_rows=4096, group_rows=8192)


def table() -> pa.Table:
    generator = np.random.default_rng(1)
    return pa.table(
        {
            "id": np.arange(ROWS) * 3,
            "text": [f"{v:032x}" for v in range(0, ROWS * 7, 7)],
            "v": generator.integers(0, 1 << 40, ROWS),
            "s": [f"name {i % 977}" for i in range(ROWS)],
        }
    )


@pytest.fixture(scope="module")
def data() -> pa.Table:
    return table()


@pytest.fixture(scope="module", params=["id", "text"])
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(data: pa.Table, key: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rounds") / f"{key}.nimble"
    nb.write(data, path, cluster_by=key, presorted=True, options=OPTIONS)
    return path


@pytest.mark.parametrize("count", [2, 10, 300, 1000])
def test_a_cold_lookup_of_many_keys_takes_few_rounds(
    path: Path, data: pa.Table, key: str, count: int
) -> None:
    rows = np.random.default_rng(count).choice(ROWS, count, replace=False)
    wanted = data.take(rows)
    with nb.open(path, mmap=False) as file:
        file.reset_io_stats()
        found = file.lookup(wanted[key])
        assert found.select(data.column_names).equals(wanted)
        # metadata of all groups, all key chunks, (what lies between sampled keys,) all rows
        assert file.io_stats.rounds <= (3 if key == "id" else 4)


def test_rows_by_number_take_two_rounds(path: Path, data: pa.Table) -> None:
    rows = np.sort(np.random.default_rng(3).choice(ROWS, 200, replace=False))
    with nb.open(path, mmap=False) as file:
        file.reset_io_stats()
        assert file.take(rows).equals(data.take(rows))
        assert file.io_stats.rounds <= 2


@pytest.mark.parametrize("cache_bytes", [0, 1 << 16, 1 << 20])
def test_little_cache_means_more_rounds_and_the_same_rows(
    path: Path, data: pa.Table, key: str, cache_bytes: int
) -> None:
    rows = np.random.default_rng(5).choice(ROWS, 500)
    wanted = data.take(rows)
    with nb.open(path, mmap=False, cache_bytes=cache_bytes) as file:
        found = file.lookup(wanted[key], columns=["v", "s"])
        assert found.select(["v", "s"]).equals(wanted.select(["v", "s"]))
        assert file.take(rows).equals(wanted)
