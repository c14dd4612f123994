"""A hash index equals the oracle, alone and beside other indexes of the same file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import key_cases
import numpy as np
import oracle
import pyarrow as pa
import pytest
from answers import check_lookups
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st
from key_cases import KEY_TYPES, LAYOUTS, KeyType
from oracle import Order

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]


@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_hash_index_every_key_type_equals_oracle(path: str, key: KeyType, mmap: bool) -> None:
    table = key_cases.one_column_case(key, 130, seed=9)
    layout = LAYOUTS[KEY_TYPES.index(key) % len(LAYOUTS)]
    nb.write(table, path, indexes=[nb.HashIndex("k")], options=nb.WriteOptions(**layout))
    file = nb.open(path, mmap=mmap)
    assert [i.kind for i in file.indexes] == ["hash"]
    probes = [(value,) for value in [*key.pool, None, *reversed(key.pool)]]
    check_lookups(file, table, ["k"], [key], probes)
    file.verify()


@given(case=key_cases.composite_cases(), layout=st.sampled_from(LAYOUTS), data=st.data())
def test_hash_index_composite_keys_equal_oracle_and_the_other_indexes(
    path: str, case: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    table, columns, orders, keys = case
    bits = data.draw(st.sampled_from([None, 8.0]))
    indexes = [
        nb.HashIndex(columns, bloom_bits_per_key=bits),
        nb.SortedIndex(key_cases.sort_keys(columns, orders)),
    ]
    nb.write(table, path, cluster_by="row", indexes=indexes, options=nb.WriteOptions(**layout))
    file = nb.open(path, mmap=data.draw(st.booleans()))
    present = oracle.table_keys(table, columns)
    made = st.tuples(*[st.sampled_from([*key.pool, None]) for key in keys])
    probe = made | st.sampled_from(present) if present else made
    probes = data.draw(st.lists(probe, max_size=12))
    check_lookups(file, table, columns, keys, probes)
    if len(columns) > 1:  # a leading column is the sorted index's
        assert (
            str(file.explain([probes[0][0]] if probes else [], on=columns[0]).index).startswith(
                "sorted"
            )
            or not probes
        )


@pytest.mark.parametrize("copies", [1, 2, 1000, 4000])
def test_hash_index_duplicates_are_all_found_in_file_order(store: Store, copies: int) -> None:
    n = 4000
    keys = np.random.default_rng(1).permutation(np.arange(n) // copies)
    table = pa.table({"k": keys, "row": range(n)})
    file = store(table, indexes=[nb.HashIndex("k")])
    assert file.indexes[0].num_keys == len(set(keys.tolist()))
    for key in (0, (n - 1) // copies, n):
        want = np.flatnonzero(keys == key).tolist()
        assert file.lookup([key, n], on="k").column("row").to_pylist() == want
        assert file.count([key], on="k").to_pylist() == [len(want)]
        assert file.get(key, ["row"], on="k", default=0) == ({"row": want[0]} if want else 0)


def test_hash_index_refuses_prefixes_and_bounds_naming_the_indexes(store: Store) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    file = store(table, indexes=[nb.HashIndex(["a", "b"])])
    assert file.lookup([("x", 1)], on=["b", "a"]).num_rows == 1
    assert file.get({"a": 1, "b": "x"}, on=["a", "b"]) == {"a": 1, "b": "x"}
    assert file.count([(2, None)], on=["a", "b"], null_equals=True).to_pylist() == [1]
    with pytest.raises(nb.IndexUnavailableError, match=r"hash \(a, b\)"):
        file.lookup([1], on="a")
    with pytest.raises(nb.IndexUnavailableError, match="order"):
        file.range((1, "x"), None, on=["a", "b"])


def test_hash_index_filter_uses_it_unasked(store: Store) -> None:
    n = 30_000
    rng = np.random.default_rng(2)
    table = pa.table(
        {"email": [f"u{i}" for i in rng.permutation(n)], "age": rng.integers(0, 99, n)}
    )
    file = store(table, indexes=[nb.HashIndex("email")])
    plan = file.explain(filter="email = 'u77' AND age >= 0")
    assert plan.index == "hash (email)"
    row = table.column("email").to_pylist().index("u77")
    age = table.column("age")[row].as_py()
    assert file.to_table(filter=f"email = 'u77' AND age = {age}").num_rows == 1
    assert file.to_table(filter=f"email = 'u77' AND age <> {age}").num_rows == 0
    assert file.scan(filter="email IN ('u1', 'u2', 'none')").count() == 2
    assert file.explain(filter="email > 'u77'").index is None


def test_hash_index_threads_and_pickles_give_the_same_answers(store: Store) -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 5000, 20_000)
    table = pa.table({"k": keys, "v": rng.random(20_000)})
    want = None
    for mmap in (True, False):
        file = store(table, indexes=[nb.HashIndex("k")], open_with={"mmap": mmap})
        want = want or file.lookup(keys[:500], on="k", probe_row="p")
        with ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(file.lookup, keys[:500], on="k", probe_row="p") for _ in range(16)]
            for job in jobs:
                assert_same_table(job.result(), want)
        copy = pickle.loads(pickle.dumps(file))
        assert_same_table(copy.lookup(keys[:500], on="k", probe_row="p"), want)


def test_hash_index_cold_lookup_is_one_partition_and_one_round_of_data(store: Store) -> None:
    n = 400_000
    rng = np.random.default_rng(4)
    table = pa.table({"k": rng.permutation(n), "v": rng.integers(0, 1 << 60, n)})
    indexes = [nb.HashIndex("k", bloom_bits_per_key=None)]
    file = store(table, indexes=indexes, open_with={"mmap": False})
    file.reset_io_stats()
    assert file.lookup([123], on="k", columns=["v"]).num_rows == 1
    stats = file.io_stats
    assert stats.index_reads <= 2
    assert stats.rounds <= stats.index_reads + stats.metadata_reads + 1
    assert file.get(124, ["v"], on="k") is not None
    assert file.get(n, ["v"], on="k") is None


def test_orders_of_a_hash_index_do_not_matter(path: str) -> None:
    table = key_cases.one_column_case(KEY_TYPES[0], 40, seed=1)
    nb.write(table, path, cluster_by=key_cases.sort_keys(["k"], [Order(True, True)]),
             indexes=[nb.HashIndex("k")])  # fmt: skip
    file = nb.open(path)
    assert str(file.explain([True], on="k").index).startswith("cluster")
    file.verify()
