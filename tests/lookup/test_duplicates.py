"""All rows of one key come back in file order, whatever boundaries they cross."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from answers import expand
from key_cases import LAYOUTS

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("presorted", [False, True])
def test_duplicates_crossing_chunks_stripes_and_groups_all_come_back(
    store: Store, layout: dict[str, Any], presorted: bool
) -> None:
    # a point lookup that stops at the end of a chunk or group loses the rest
    counts = {1: 1, 2: 75, 3: 250, 5: 1, 6: 74}
    keys = [key for key, count in counts.items() for _ in range(count)]
    rows = np.arange(len(keys))
    if not presorted:
        rows = np.random.default_rng(0).permutation(len(keys))
    table = pa.table({"k": np.array(keys)[rows], "row": rows, "input": np.arange(len(keys))})
    file = store(table, cluster_by="k", presorted=presorted, options=nb.WriteOptions(**layout))
    stored = file.to_table().to_pydict()
    assert stored["k"] == keys
    begin = 0
    for key, count in counts.items():
        got = file.lookup([key])
        assert got.column("k").to_pylist() == [key] * count
        assert got.column("row").to_pylist() == stored["row"][begin : begin + count]
        assert got.column("input").to_pylist() == sorted(got.column("input").to_pylist())  # stable
        assert file.get(key, ["row"]) == {"row": stored["row"][begin]}
        assert [row for _, row in expand(file.row_ranges([key]))] == list(
            range(begin, begin + count)
        )
        assert file.range(key, key, inclusive="[]").num_rows == count
        assert file.prefix(key).num_rows == count
        begin += count
    probes = [6, 3, 4, 3, 1, 7, 0, 2]
    assert file.count(probes).to_pylist() == [counts.get(probe, 0) for probe in probes]
    got = file.lookup(probes, probe_row="p")
    assert got.column("p").to_pylist() == [
        i for i, p in enumerate(probes) for _ in range(counts.get(p, 0))
    ]


@pytest.mark.parametrize("value", ["", "same", None])
def test_duplicates_one_key_in_the_whole_file_all_come_back(
    store: Store, value: str | None
) -> None:
    n = 500
    table = pa.table({"k": pa.array([value] * n, pa.utf8()), "row": pa.array(range(n), pa.int64())})
    options = nb.WriteOptions(stripe_rows=16, group_rows=32, key_chunk_rows=4, restart_interval=4)
    file = store(table, cluster_by="k", options=options)
    got = file.lookup([value, "x"], null_equals=True)
    assert got.column("row").to_pylist() == list(range(n))
    assert file.count([value], null_equals=True).to_pylist() == [n]
    assert file.contains(["a", "samee", "sam"]).to_pylist() == [False] * 3


def test_duplicates_of_leading_column_answer_a_prefix_lookup(store: Store) -> None:
    table = pa.table({"a": [i // 100 for i in range(1_000)], "b": [i % 100 for i in range(1_000)]})
    options = nb.WriteOptions(stripe_rows=30, group_rows=60, key_chunk_rows=7)
    file = store(table, cluster_by=["a", "b"], unique=True, options=options)
    assert file.lookup([3], on="a").column("b").to_pylist() == list(range(100))
    assert file.count([9, 0, 10], on=["a"]).to_pylist() == [100, 100, 0]
    assert file.contains([(4, 99), (4, 100)]).to_pylist() == [True, False]


def test_duplicates_in_probe_answer_each_time_in_probe_order(store: Store) -> None:
    file = store(pa.table({"k": [1, 1, 2], "row": [0, 1, 2]}), cluster_by="k")
    got = file.lookup([2, 1, 2, 1, 3], probe_row="p")
    assert got.column("p").to_pylist() == [0, 1, 1, 2, 3, 3]
    assert got.column("row").to_pylist() == [2, 0, 1, 2, 0, 1]
