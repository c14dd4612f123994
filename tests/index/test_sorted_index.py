"""A sorted index equals the oracle: lookups, ranges, prefixes, order, limits, nulls, duplicates,
whatever the key types, the layout and how the rows themselves are ordered.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import key_cases
import numpy as np
import oracle
import pyarrow as pa
import pytest
from answers import INCLUSIVE, check_lookups, check_range, pick
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st
from key_cases import KEY_TYPES, LAYOUTS, ORDERS, KeyType
from oracle import Order

import nimblepy as nb
from second_reader import verify_file

pytestmark = pytest.mark.model

Store = Callable[..., Any]
order_id = "{0.descending:d}{0.nulls_first:d}".format


def indexed(
    path: str, table: pa.Table, columns: list[str], orders: list[Order], **layout: Any
) -> Any:
    """The table in its own order, with a sorted index on the columns."""
    index = nb.SortedIndex(key_cases.sort_keys(columns, orders))
    nb.write(table, path, indexes=[index], options=nb.WriteOptions(**layout))
    return nb.open(path)


@pytest.mark.parametrize("order", ORDERS, ids=order_id)
@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_sorted_index_every_key_type_and_order_equals_oracle(
    path: str, key: KeyType, order: Order
) -> None:
    table = key_cases.one_column_case(key, 130, seed=5)
    layout = LAYOUTS[(KEY_TYPES.index(key) + ORDERS.index(order)) % len(LAYOUTS)]
    file = indexed(path, table, ["k"], [order], **layout)
    assert_same_table(file.to_table(), table)
    assert [i.kind for i in file.indexes] == ["sorted"]
    probes = [(value,) for value in [*key.pool, None, *reversed(key.pool)]]
    check_lookups(file, table, ["k"], [key], probes)
    in_order = key_cases.in_file_order(table, ["k"], [order])
    pool: list[Any] = [None, *((value,) for value in key.pool[:: max(1, len(key.pool) // 4)])]
    for i, lower in enumerate(pool):
        bounds = (lower, pool[-1 - i])
        inclusive = INCLUSIVE[i % 4]
        check_range(file, in_order, ["k"], [key], [order], bounds, inclusive)


@given(case=key_cases.composite_cases(), layout=st.sampled_from(LAYOUTS), data=st.data())
def test_sorted_index_composite_keys_and_prefixes_equal_oracle(
    path: str, case: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    table, columns, orders, keys = case
    file = indexed(path, table, columns, orders, **layout)
    present = oracle.table_keys(table, columns)
    width = data.draw(st.integers(1, len(columns)))
    made = st.tuples(*[st.sampled_from([*key.pool, None]) for key in keys[:width]])
    probe = made | st.sampled_from(present).map(lambda key: key[:width]) if present else made
    check_lookups(file, table, columns, keys, data.draw(st.lists(probe, max_size=12)))
    in_order = key_cases.in_file_order(table, columns, orders)
    bound = st.none() | probe
    bounds = (data.draw(bound), data.draw(bound))
    inclusive = data.draw(st.sampled_from(INCLUSIVE))
    check_range(file, in_order, columns, keys, orders, bounds, inclusive)
    file.verify()
    assert verify_file(path).problems == []


@pytest.mark.parametrize("copies", [1, 2, 1000, 5000])
@pytest.mark.parametrize("memory", ["sorted in memory", "spilled"])
def test_sorted_index_duplicates_over_chunks_and_groups_are_all_found(
    store: Store, copies: int, memory: str
) -> None:
    n = 5000
    keys = np.random.default_rng(1).permutation(np.arange(n) // copies)
    texts = [f"key {k:09d}" * 20 for k in keys.tolist()]
    table = pa.table({"k": keys, "t": texts, "row": range(n)})
    # 1 MiB holds some 3,000 of the text keys
    options = nb.WriteOptions(
        key_chunk_rows=3, index_memory_bytes=1 << 20 if memory == "spilled" else 1 << 28
    )
    indexes = [nb.SortedIndex("k"), nb.SortedIndex(["t", "row"])]
    file = store(table, indexes=indexes, options=options)
    for key in (0, (n - 1) // copies, n):
        want = np.flatnonzero(keys == key).tolist()
        assert file.lookup([key], on="k").column("row").to_pylist() == want
        assert file.count([key, key], on="k").to_pylist() == [len(want)] * 2
        text = f"key {key:09d}" * 20
        assert file.lookup([text], on="t", columns=["row"]).column(0).to_pylist() == want
    order = sorted(range(n), key=lambda row: (keys[row], row))
    assert file.range(on="k", columns=["row"]).column(0).to_pylist() == order
    assert file.range(on="t", columns=["row"]).column(0).to_pylist() == order
    assert verify_file(file._file.handle.core.name).problems == []


def test_sorted_index_beside_a_cluster_key_after_sorting_finds_final_rows(store: Store) -> None:
    rng = np.random.default_rng(2)
    table = pa.table({"k": rng.integers(0, 500, 3000), "s": rng.integers(0, 50, 3000)})
    file = store(
        table,
        cluster_by="k",
        indexes=nb.SortedIndex([nb.SortKey("s", descending=True), "k"]),
        options=nb.WriteOptions(sort_memory_bytes=1 << 20, stripe_rows=512, group_rows=1024),
    )
    stored = file.to_table()
    s, k = stored.column("s").to_numpy(), stored.column("k").to_numpy()
    assert (np.diff(k) >= 0).all()
    found = file._current.find(file._current.keys_request(list(range(-1, 51)), "s")).expand()
    for probe in range(52):
        assert found.begin[found.probe == probe].tolist() == np.flatnonzero(s == probe - 1).tolist()
    want = np.lexsort((np.arange(3000), k, -s))
    assert_same_table(file.range(on="s"), pick(stored, want.tolist()))
    assert_same_table(
        file.range(on=["s", "k"], reverse=True, limit=7), pick(stored, want[::-1][:7].tolist())
    )
    # the cluster index stays the one for its own columns
    assert str(file.explain([3], on="k").index).startswith("cluster")
    assert str(file.explain([3], on="s").index) == "sorted (s desc, k)"
    rows = file._current.find(file._current.keys_request([3, 4], "k")).rows
    assert rows.tolist() == np.flatnonzero((k == 3) | (k == 4)).tolist()


def test_sorted_index_dictionary_text_and_struct_leaf_columns_are_indexed(store: Store) -> None:
    words = ["pear", "apple", None, "fig", "apple"]
    table = pa.table(
        {
            "d": pa.array(words).dictionary_encode(),
            "p": pa.array([{"name": w, "n": i} for i, w in enumerate(words)]),
            "v": pa.array(words, pa.string_view()),
            "t": [dt.datetime(2024, 1, day) for day in (5, 4, 3, 2, 1)],
        }
    )
    indexes = [nb.SortedIndex(c) for c in ("d", "p.name", "v", "t")]
    file = store(table, indexes=indexes)
    for on in ("d", "p.name", "v"):
        assert file._current.find(
            file._current.keys_request(["apple", "none"], on)
        ).rows.tolist() == [1, 4]
        got = file.prefix(nb.starts_with("a"), on=on, columns=["p.n"]).column(0).to_pylist()
        assert got == [1, 4]
        assert file._current.find(file._current.keys_request([None], on)).rows.tolist() == []
        assert file._current.find(file._current.keys_request([None], on, True)).rows.tolist() == [2]
    assert file.range(on="t", columns=["p.n"]).column(0).to_pylist() == [4, 3, 2, 1, 0]
    assert file.get("fig", ["p.n"], on="d") == {"p.n": 3}
    assert file.get("none", on="d", default=7) == 7


def test_sorted_index_no_rows_one_row_and_no_matches(store: Store) -> None:
    for n in (0, 1):
        table = pa.table({"k": pa.array(range(n), pa.int32())})
        file = store(table, indexes=[nb.SortedIndex("k")])
        file.verify()
        assert file.indexes[0].num_keys == n
        assert file.lookup([0, 1], on="k").num_rows == n
        assert file.range(on="k").num_rows == n
        assert file.row_ranges(lower=1, on="k").num_rows == 0
        assert file.count([300, 2**40], on="k").to_pylist() == [0, 0]


def test_index_of_other_columns_error_names_the_indexes(store: Store) -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4], "c": [5, 6]})
    file = store(table, cluster_by="a", indexes=[nb.SortedIndex(["b", "c"])])
    with pytest.raises(nb.IndexUnavailableError, match=r"cluster \(a\), sorted \(b, c\)"):
        file.lookup([1], on="c")
    with pytest.raises(nb.IndexUnavailableError, match="key order: b, c"):
        file.range(1, 2, on=["c", "b"])
    assert file.lookup([(6, 4)], on=["c", "b"]).num_rows == 1
    with pytest.raises(nb.InvalidArgumentError, match="'x'"):
        file.lookup([1], on="x")
    with pytest.raises(nb.InvalidArgumentError, match="given twice"):
        store(table, indexes=[nb.SortedIndex("a"), nb.SortedIndex("a")])
    with pytest.raises(nb.InvalidArgumentError, match=r"no order|cannot"):
        store(pa.table({"l": [[1]]}), indexes=[nb.SortedIndex("l")])


def test_sorted_index_row_ranges_join_neighbours_of_a_key(store: Store) -> None:
    file = store(pa.table({"k": [7, 7, 1, 7, 1, 1]}), indexes=[nb.SortedIndex("k")])
    assert file.row_ranges([1, 9, 7], on="k").to_pydict() == {
        "probe_row": [0, 0, 2, 2],
        "begin": [2, 4, 0, 3],
        "end": [3, 6, 2, 4],
    }
    assert file.row_ranges(lower=2, on="k").to_pydict() == {
        "probe_row": [0, 0],
        "begin": [0, 3],
        "end": [2, 4],
    }


def test_sorted_index_threads_and_pickles_give_the_same_answers(store: Store) -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 5000, 20_000)
    table = pa.table({"k": keys, "v": rng.random(20_000)})
    store(table, indexes=[nb.SortedIndex("k")], options=nb.WriteOptions(key_chunk_rows=100))
    want = None
    for mmap in (True, False):
        file = store(table, indexes=[nb.SortedIndex("k")], open_with={"mmap": mmap})
        if want is None:
            want = file.lookup(keys[:500], on="k", probe_row="p")
        with ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(file.lookup, keys[:500], on="k", probe_row="p") for _ in range(16)]
            for job in jobs:
                assert_same_table(job.result(), want)
        copy = pickle.loads(pickle.dumps(file))
        assert_same_table(copy.lookup(keys[:500], on="k", probe_row="p"), want)


def test_sorted_index_same_input_gives_the_same_bytes(path: str) -> None:
    rng = np.random.default_rng(4)
    table = pa.table({"k": rng.integers(0, 100, 40_000), "v": rng.random(40_000)})
    files = []
    for memory in (1 << 20, 1 << 28):  # spilled or not
        options = nb.WriteOptions(index_memory_bytes=memory)
        nb.write(table, path, indexes=[nb.SortedIndex(["k", "v"])], options=options)
        with open(path, "rb") as f:
            files.append(f.read())
    assert files[0] == files[1]
