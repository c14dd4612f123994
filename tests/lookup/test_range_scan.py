"""range, prefix and row_ranges(lower, upper, prefix) equal the oracle, forwards, backwards and
limited.

A range is what lies between two bounds in the key's own order: on a descending column `lower` is
the larger value, and a side without a bound reaches to the end of the file, nulls included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import key_cases
import numpy as np
import oracle
import pyarrow as pa
import pytest
from answers import INCLUSIVE, as_bound, check_range, clustered, expand, pick
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st
from key_cases import KEY_TYPES, LAYOUTS, ORDERS, KeyType
from oracle import Order

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]
order_id = "{0.descending:d}{0.nulls_first:d}".format
TEXT_KEYS = [
    key for key in KEY_TYPES if isinstance(key.pool[0], (str, bytes)) and "fixed" not in key.name
]


@pytest.mark.parametrize("order", ORDERS, ids=order_id)
@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_range_every_key_type_and_order_equals_oracle(
    path: str, key: KeyType, order: Order
) -> None:
    table = key_cases.one_column_case(key, 90, seed=5)
    layout = LAYOUTS[(KEY_TYPES.index(key) + 2 * ORDERS.index(order)) % len(LAYOUTS)]
    file, stored = clustered(path, table, ["k"], [order], **layout)
    rng = np.random.default_rng(KEY_TYPES.index(key))
    ends = [key.pool[0], key.pool[-1], key.pool[len(key.pool) // 2]]
    ends += [key.pool[i] for i in rng.integers(0, len(key.pool), 6)]
    ends = ends[::-1] if order.descending else ends
    pairs: list[Any] = [
        (None, None),
        (None, (ends[3],)),
        ((ends[4],), None),
        ((ends[5],), (ends[5],)),
    ]
    pairs += [((ends[i],), (ends[j],)) for i, j in ((0, 1), (0, 2), (2, 1), (6, 7), (7, 6), (8, 3))]
    turn = KEY_TYPES.index(key) + ORDERS.index(order)  # every pair meets every form somewhere
    for i, bounds in enumerate(pairs):
        check_range(file, stored, ["k"], [key], [order], bounds, INCLUSIVE[(i + turn) % 4])


@given(case=key_cases.composite_cases(max_rows=60), layout=st.sampled_from(LAYOUTS), data=st.data())
def test_range_composite_and_short_bounds_equal_oracle(
    path: str, case: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    table, columns, orders, keys = case
    file, stored = clustered(path, table, columns, orders, **layout)
    present = [key for key in oracle.table_keys(stored, columns) if None not in key]
    for _ in range(4):
        bounds = []
        for _ in range(2):
            width = data.draw(st.integers(1, len(keys)))
            bound = st.tuples(*[st.sampled_from(key.pool) for key in keys[:width]])
            if present:
                bound |= st.sampled_from(present).map(lambda key, width=width: key[:width])
            bounds.append(data.draw(st.none() | bound))
        inclusive = data.draw(st.sampled_from(INCLUSIVE))
        check_range(file, stored, columns, keys, orders, (bounds[0], bounds[1]), inclusive)
        ranges = file.row_ranges(lower=as_bound(keys, bounds[0]), upper=as_bound(keys, bounds[1]))
        want = oracle.range_rows(oracle.table_keys(stored, columns), *bounds, "[)", orders)
        assert [row for _, row in expand(ranges)] == want


@given(case=key_cases.composite_cases(), layout=st.sampled_from(LAYOUTS), data=st.data())
def test_prefix_leading_columns_equal_oracle(
    path: str, case: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    table, columns, orders, keys = case
    file, stored = clustered(path, table, columns, orders, **layout)
    present = oracle.table_keys(stored, columns)
    for _ in range(3):
        width = data.draw(st.integers(1, len(keys)))
        made = st.tuples(*[st.sampled_from(key.pool) for key in keys[:width]])
        if present:
            made |= st.sampled_from(present).map(lambda key, width=width: key[:width])
        equal = data.draw(made)
        want = oracle.prefix_rows(present, equal)
        prefix = as_bound(keys, equal)
        assert_same_table(file.prefix(prefix), pick(stored, want))
        assert_same_table(file.prefix(prefix, reverse=True, limit=3), pick(stored, want[::-1][:3]))
        assert [row for _, row in expand(file.row_ranges(prefix=prefix))] == want


@pytest.mark.parametrize("order", ORDERS, ids=order_id)
@pytest.mark.parametrize("key", TEXT_KEYS, ids=lambda k: k.name)
def test_prefix_starts_with_equals_oracle(path: str, key: KeyType, order: Order) -> None:
    lead = next(k for k in KEY_TYPES if k.name == "int16")
    rng = np.random.default_rng(9)
    n = 120
    columns = {
        "a": (
            lead.type,
            [None if rng.random() < 0.1 else int(rng.integers(0, 3)) for _ in range(n)],
        ),
        "b": (key.type, key_cases.key_values(key.pool, n, rng, 0.1)),
    }
    table = key_cases.key_table(columns)
    empty = key.pool[0][:0]
    starts = sorted(
        {empty, *key.pool, *[v[: len(v) // 2] for v in key.pool], *[v[:1] for v in key.pool]}
    )
    layout = LAYOUTS[ORDERS.index(order)]
    file, stored = clustered(path, table, ["a", "b"], [Order(), order], **layout)
    keys = oracle.table_keys(stored, ["a", "b"])
    for start in starts:
        want = oracle.prefix_rows(keys, (1,), start)
        got = file.prefix((1, nb.starts_with(start)), columns=["row", "b"])
        assert_same_table(got, pick(stored.select(["row", "b"]), want))
    file, stored = clustered(path, table, ["b"], [order], **layout)
    keys = oracle.table_keys(stored, ["b"])
    for start in starts:
        want = oracle.prefix_rows(keys, (), start)
        assert_same_table(file.prefix(nb.starts_with(start)), pick(stored, want))
        assert_same_table(
            file.prefix((nb.starts_with(start),), reverse=True), pick(stored, want[::-1])
        )


def test_prefix_bare_string_means_equality_not_starts_with(store: Store) -> None:
    table = pa.table({"k": ["a", "ab", "abc", "b"], "row": [0, 1, 2, 3]})
    file = store(table, cluster_by="k")
    assert file.prefix("ab").column("row").to_pylist() == [1]
    assert file.prefix(("ab",)).column("row").to_pylist() == [1]
    assert file.prefix(nb.starts_with("ab")).column("row").to_pylist() == [1, 2]
    assert file.prefix(nb.starts_with("")).column("row").to_pylist() == [0, 1, 2, 3]


def test_range_scalar_bounds_and_python_values_are_accepted(store: Store) -> None:
    table = pa.table({"k": [1, 2, 2, 3, 4], "v": list("abcde")})
    file = store(table, cluster_by="k")
    assert file.range(2, 4).column("v").to_pylist() == list("bcd")
    assert file.range(2, 4, inclusive="[]").column("v").to_pylist() == list("bcde")
    assert file.range(2, 4, inclusive="()").column("v").to_pylist() == ["d"]
    assert file.range(2, 4, inclusive="(]").column("v").to_pylist() == list("de")
    assert file.range((2,), 3, on="k").column("v").to_pylist() == list("bc")
    assert file.range(lower=3).column("v").to_pylist() == list("de")
    assert file.range(upper=3).column("v").to_pylist() == list("abc")
    assert file.range(reverse=True, limit=2).column("v").to_pylist() == list("ed")
    assert file.range(2, 4, columns=["v"], limit=1).to_pydict() == {"v": ["b"]}


def test_range_bounds_outside_the_column_type_are_unbounded_or_empty(store: Store) -> None:
    table = pa.table({"k": pa.array([-128, 0, 127], pa.int8())})
    file = store(table, cluster_by="k")
    assert file.range(-1000, 1000).num_rows == 3
    assert file.range(0, 1000, inclusive="(]").num_rows == 1
    assert file.range(128, None).num_rows == 0
    assert file.range(None, -129).num_rows == 0
    assert file.range(127, 127, inclusive="[]").num_rows == 1
    assert file.range(-0.5, 126.5).column("k").to_pylist() == [0]
    assert file.range(0.5, 127.5, inclusive="()").column("k").to_pylist() == [127]


def test_range_crossed_or_equal_bounds_are_empty(store: Store) -> None:
    table = pa.table({"k": [1, 2, 3], "s": ["a", "b", "c"]})
    file = store(table, cluster_by="k")
    for lower, upper, inclusive in (
        (3, 1, "[]"),
        (2, 2, "[)"),
        (2, 2, "(]"),
        (2, 2, "()"),
        (9, 10, "[]"),
    ):
        assert_same_table(file.range(lower, upper, inclusive=inclusive), table.slice(0, 0))


def test_range_in_the_middle_of_a_large_file_equals_a_slice(store: Store) -> None:
    n = 30_000
    table = pa.table({"k": pa.array(range(n), pa.int64()), "s": [f"value {i}" for i in range(n)]})
    options = nb.WriteOptions(stripe_rows=4_000, group_rows=8_000, key_chunk_rows=100)
    file = store(table, cluster_by="k", presorted=True, options=options)
    for begin, end in (
        (0, 1),
        (3_999, 4_001),
        (7_990, 16_010),
        (n - 1, n + 5),
        (0, n),
        (12_345, 12_345),
    ):
        assert_same_table(file.range(begin, end), table.slice(begin, max(0, min(end, n) - begin)))
    assert file.range(8_000, reverse=True, limit=3).column("k").to_pylist() == [n - 1, n - 2, n - 3]


def test_range_on_empty_file_is_empty(store: Store) -> None:
    table = pa.table({"k": pa.array([], pa.float64())})
    file = store(table, cluster_by="k")
    assert_same_table(file.range(), table)
    assert_same_table(file.range(1.0, 2.0, reverse=True), table)
    assert_same_table(file.prefix(1.0), table)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.range(1, 2, inclusive="[["),
        lambda f: f.range(1, 2, inclusive=""),
        lambda f: f.range("a"),
        lambda f: f.range((1, "a", 3)),
        lambda f: f.range(limit=-1),
        lambda f: f.prefix(nb.starts_with("a")),  # the first column is no text
        lambda f: f.prefix((1, nb.starts_with(b"a"))),
        lambda f: f.prefix(
            (nb.starts_with("a"), "b")
        ),  # only the last element may be a string prefix
        lambda f: f.prefix((1, "a", "b")),
    ],
)
def test_range_bad_argument_is_refused(store: Store, call: Callable[[Any], Any]) -> None:
    file = store(pa.table({"a": [1], "b": ["x"]}), cluster_by=["a", "b"])
    with pytest.raises(nb.InvalidArgumentError):
        call(file)


def test_range_without_index_on_the_columns_is_refused_by_name(store: Store) -> None:
    file = store(pa.table({"my_key": [1], "v": [1]}), cluster_by="my_key")
    for call in (file.range, file.prefix):
        with pytest.raises(nb.IndexUnavailableError, match="my_key"):
            call(1, on="v")
