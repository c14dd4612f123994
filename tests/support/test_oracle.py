"""The oracle is right on cases worked out by hand, and the key cases are what they claim."""

from __future__ import annotations

import math

import key_cases
import numpy as np
import oracle
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from key_cases import KEY_TYPES, KeyType
from oracle import Order

pytestmark = pytest.mark.no_sanitizer  # of what tests are made with

NAN = math.nan


@pytest.mark.parametrize(
    ("order", "want"),
    [
        (Order(), [-math.inf, -1.0, 0.0, 2.0, math.inf, NAN, None]),
        (Order(nulls_first=True), [None, -math.inf, -1.0, 0.0, 2.0, math.inf, NAN]),
        (Order(descending=True), [NAN, math.inf, 2.0, 0.0, -1.0, -math.inf, None]),
        (
            Order(descending=True, nulls_first=True),
            [None, NAN, math.inf, 2.0, 0.0, -1.0, -math.inf],
        ),
    ],
)
def test_file_order_every_sort_order_places_nan_and_null(
    order: Order, want: list[float | None]
) -> None:
    values = [2.0, None, NAN, -math.inf, 0.0, math.inf, -1.0]
    got = [values[row] for row in oracle.file_order([(v,) for v in values], [order])]
    assert repr(got) == repr(want)


def test_file_order_equal_keys_keep_input_order() -> None:
    keys = [(0.0,), (-0.0,), (1.0,), (-0.0,), (0.0,), (NAN,), (-NAN,)]
    assert oracle.file_order(keys, [Order()]) == [0, 1, 3, 4, 2, 5, 6]
    assert oracle.file_order(keys, [Order(descending=True)]) == [5, 6, 2, 0, 1, 3, 4]


def test_file_order_second_column_decides_ties_in_its_own_direction() -> None:
    keys = [(1, "a"), (0, "b"), (1, "c"), (0, None)]
    assert oracle.file_order(keys, [Order(), Order(descending=True)]) == [1, 3, 2, 0]
    assert oracle.file_order(keys, [Order(descending=True), Order(nulls_first=True)]) == [
        0,
        2,
        3,
        1,
    ]


def test_lookup_duplicates_prefixes_and_nulls_answer_as_stated() -> None:
    keys = [(1, "a"), (1, "a"), (1, None), (2, "b"), (None, "c")]
    assert oracle.lookup(keys, [(1, "a"), (2, "b"), (1, "a")]) == [
        (0, 0),
        (0, 1),
        (1, 3),
        (2, 0),
        (2, 1),
    ]
    assert oracle.lookup(keys, [(1,)]) == [(0, 0), (0, 1), (0, 2)]
    assert oracle.lookup(keys, [(1, None), (None, "c")]) == []
    assert oracle.lookup(keys, [(1, None), (None,)], null_equals=True) == [(0, 2), (1, 4)]
    assert oracle.count(keys, [(1,), (3,), (2, "b")]) == [3, 0, 1]


def test_lookup_nan_and_zero_match_whatever_their_bits() -> None:
    keys = [(-0.0,), (0.0,), (NAN,)]
    assert oracle.lookup(keys, [(0.0,), (-0.0,), (-NAN,)]) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 2),
    ]


@pytest.mark.parametrize(
    ("inclusive", "want"), [("[)", [1, 2, 3]), ("[]", [1, 2, 3, 4]), ("()", [3]), ("(]", [3, 4])]
)
def test_range_rows_inclusive_forms_keep_or_drop_ends(inclusive: str, want: list[int]) -> None:
    keys = [(1,), (2,), (2,), (3,), (4,), (5,)]
    assert oracle.range_rows(keys, (2,), (4,), inclusive, [Order()]) == want


def test_range_rows_short_tuple_bounds_whole_prefix() -> None:
    keys = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
    orders = [Order(), Order()]
    assert oracle.range_rows(keys, (2,), None, "[)", orders) == [2, 3, 4]
    assert oracle.range_rows(keys, (1,), (2,), "(]", orders) == [2, 3]
    assert oracle.range_rows(keys, (1, 2), (3,), "[)", orders) == [1, 2, 3]
    assert oracle.range_rows(keys, None, None, "()", orders) == [0, 1, 2, 3, 4]


def test_range_rows_descending_lower_is_the_larger_value() -> None:
    keys = [(5,), (4,), (3,), (2,), (None,)]
    assert oracle.range_rows(keys, (4,), (2,), "[)", [Order(descending=True)]) == [1, 2]
    assert oracle.range_rows(keys, (2,), (4,), "[)", [Order(descending=True)]) == []


def test_prefix_rows_by_columns_and_by_string() -> None:
    keys = [(1, "ab"), (1, "abc"), (1, None), (1, "b"), (2, "ab")]
    assert oracle.prefix_rows(keys, (1,)) == [0, 1, 2, 3]
    assert oracle.prefix_rows(keys, (1,), "ab") == [0, 1]
    assert oracle.prefix_rows(keys, (2,), "") == [4]


def test_filter_rows_unknown_is_not_true() -> None:
    rows = [{"x": 1}, {"x": None}, {"x": 5}]
    assert oracle.filter_rows(rows, lambda r: None if r["x"] is None else r["x"] > 3) == [2]


@given(
    st.lists(st.tuples(st.none() | st.floats(), st.none() | st.text(max_size=2)), max_size=12),
    st.tuples(*[st.sampled_from(key_cases.ORDERS)] * 2),
)
def test_compare_keys_any_keys_is_a_total_order(
    keys: list[oracle.Key], orders: tuple[Order, Order]
) -> None:
    rows = oracle.file_order(keys, orders)
    assert sorted(rows) == list(range(len(keys)))
    ordered = [keys[row] for row in rows]
    for i in range(len(ordered)):
        for j in range(i + 1, len(ordered)):
            assert oracle.compare_keys(ordered[i], ordered[j], orders) <= 0
            assert oracle.compare_keys(ordered[j], ordered[i], orders) >= 0


@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_key_pool_every_type_ascends_and_survives_arrow(key: KeyType) -> None:
    for lower, higher in zip(key.pool, key.pool[1:], strict=False):
        assert oracle.compare_values(lower, higher) < 0
    values = [*key.pool, None]
    array = key_cases.array_of(key.type, values)
    array.validate(full=True)
    assert array.type == key.type
    assert repr(oracle.plain_values(array)) == repr(values)


@pytest.mark.parametrize("key", [k for k in KEY_TYPES if len(k.pool) > 3], ids=lambda k: k.name)
def test_key_values_leave_absent_neighbours_around_every_key(key: KeyType) -> None:
    drawn = key_cases.key_values(key.pool, 400, np.random.default_rng(1), 0.1)
    present = {repr(v) for v in drawn if v is not None}
    assert None in drawn
    assert repr(key.pool[0]) not in present
    assert present == {repr(v) for v in key.pool[1::2]}


def test_in_file_order_table_is_sorted_stably() -> None:
    table = key_cases.key_table({"k": (pa.int64(), [3, 1, None, 3, 2])})
    ordered = key_cases.in_file_order(table, ["k"], [Order(descending=True)])
    assert ordered.column("row").to_pylist() == [0, 3, 4, 1, 2]


def test_table_keys_struct_leaf_is_addressed_with_dots() -> None:
    table = pa.table({"s": pa.array([{"a": {"b": 1}}, None, {"a": None}])})
    assert oracle.table_keys(table, ["s.a.b"]) == [(1,), (None,), (None,)]
