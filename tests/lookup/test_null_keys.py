"""Null keys: where they are stored, when they match, and that they never match by accident."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import key_cases
import pyarrow as pa
import pytest
from answers import check_lookups, clustered
from key_cases import KEY_TYPES, ORDERS, KeyType
from oracle import Order

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]
order_id = "{0.descending:d}{0.nulls_first:d}".format


@pytest.mark.parametrize("order", ORDERS, ids=order_id)
def test_null_keys_are_stored_where_the_order_says(path: str, order: Order) -> None:
    table = key_cases.key_table({"k": (pa.int32(), [2, None, -1, None, 2**31 - 1, -(2**31), 0])})
    file, _ = clustered(path, table, ["k"], [order])
    values = sorted([2, -1, 2**31 - 1, -(2**31), 0], reverse=order.descending)
    want = [None, None, *values] if order.nulls_first else [*values, None, None]
    assert file.to_table(["k"]).column("k").to_pylist() == want


@pytest.mark.parametrize("order", ORDERS, ids=order_id)
@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_null_keys_beside_extremes_of_every_type_are_told_apart(
    path: str, key: KeyType, order: Order
) -> None:
    # the least and the greatest value are where a null marker could collide with a value
    first, last = key.pool[0], key.pool[-1]
    values = [last, None, first, None, last, first, first]
    table = key_cases.key_table({"k": (key.type, values)})
    file, stored = clustered(path, table, ["k"], [order], key_chunk_rows=2, stripe_rows=3)
    check_lookups(file, stored, ["k"], [key], [(None,), (first,), (last,)])


def test_null_keys_composite_null_matches_only_its_own_column(path: str) -> None:
    columns = {
        "a": (pa.int64(), [1, 1, None, None, 2, 1]),
        "b": (pa.utf8(), ["x", None, "x", None, "", None]),
    }
    keys = [next(k for k in KEY_TYPES if k.name == name) for name in ("int64", "string")]
    probes = [(a, b) for a in (1, 2, None) for b in ("x", "", None)]
    for first in ORDERS:
        for second in ORDERS:
            table = key_cases.key_table(columns)
            file, stored = clustered(
                path, table, ["a", "b"], [first, second], stripe_rows=2, key_chunk_rows=1
            )
            check_lookups(file, stored, ["a", "b"], keys, probes)
            check_lookups(file, stored, ["a", "b"], keys, [(1,), (None,), (2,)])


def test_null_key_probe_matches_nothing_unless_asked(store: Store) -> None:
    file = store(pa.table({"k": [1, None, None], "row": [0, 1, 2]}), cluster_by="k")
    assert file.get(None) is None
    assert file.get(None, default="none") == "none"
    assert file.get(None, null_equals=True) == {"k": None, "row": 1}
    assert file.lookup([None]).num_rows == 0
    assert file.lookup([None], null_equals=True).column("row").to_pylist() == [1, 2]
    assert file.contains([None, 1]).to_pylist() == [False, True]
    assert file.contains([None, 1], null_equals=True).to_pylist() == [True, True]
    assert file.count(pa.array([None], pa.int64()), null_equals=True).to_pylist() == [2]
    assert file.count(pa.nulls(1), null_equals=True).to_pylist() == [2]


def test_null_key_absent_from_file_matches_nothing_even_when_asked(store: Store) -> None:
    for values in ([1, 2], []):
        file = store(pa.table({"k": pa.array(values, pa.int64())}), cluster_by="k")
        assert file.contains([None], null_equals=True).to_pylist() == [False]
        assert file.get(None, null_equals=True) is None


@pytest.mark.parametrize("order", ORDERS, ids=order_id)
def test_null_keys_on_the_wrong_end_are_an_order_error(path: str, order: Order) -> None:
    right = key_cases.in_file_order(
        key_cases.key_table({"k": (pa.int64(), [5, None, 7])}), ["k"], [order]
    )
    cluster_by = key_cases.sort_keys(["k"], [order])
    nb.write(right, path, cluster_by=cluster_by, presorted=True)
    other = Order(order.descending, not order.nulls_first)
    with pytest.raises(nb.KeyOrderError):
        nb.write(right, path, cluster_by=key_cases.sort_keys(["k"], [other]), presorted=True)


def test_null_and_empty_string_are_different_keys(store: Store) -> None:
    table = pa.table({"k": ["", None, "\0"], "row": [0, 1, 2]})
    for order in ORDERS:
        file = store(table, cluster_by=key_cases.sort_keys(["k"], [order]))
        assert file.lookup([""]).column("row").to_pylist() == [0]
        assert file.lookup(["\0"]).column("row").to_pylist() == [2]
        assert file.lookup([None], null_equals=True).column("row").to_pylist() == [1]


def test_null_keys_stay_out_of_a_range_with_both_bounds(path: str) -> None:
    for order in ORDERS:
        table = key_cases.key_table({"k": (pa.int64(), [None, 1, 2, 3, None])})
        file, _ = clustered(path, table, ["k"], [order])
        bounds = (3, 1) if order.descending else (1, 3)
        assert sorted(file.range(*bounds, inclusive="[]").column("k").to_pylist()) == [1, 2, 3]
