"""take answers by file row: any order, duplicates kept, any column type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import strategies
from answers import pick
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]


def test_take_of_lists_of_nothing_inside_lists(tmp_path: Path) -> None:
    nothing = pa.list_(pa.utf8(), 0)
    kinds = {
        "lists": pa.list_(nothing),
        "fixed": pa.list_(nothing, 2),
        "structs": pa.list_(pa.struct({"n": nothing})),
        "top": nothing,
    }
    rows = [
        {"lists": [[], []], "fixed": [[], []], "structs": [{"n": []}], "top": []},
        {"lists": None, "fixed": [None, []], "structs": [None, {"n": None}], "top": None},
        {"lists": [None, [], []], "fixed": None, "structs": [], "top": []},
    ]
    table = pa.Table.from_pylist(rows, pa.schema(kinds.items()))
    nb.write(table, tmp_path / "a")
    with nb.open(tmp_path / "a") as file:
        assert file.take([2, 0, 2]).to_pylist() == [rows[2], rows[0], rows[2]]
        assert_same_table(file.to_table(), table)


@given(
    table=strategies.tables(max_rows=60),
    layout=st.sampled_from([{}, {"stripe_rows": 7, "group_rows": 14}, {"stripe_rows": 3}]),
    data=st.data(),
)
def test_take_any_rows_of_any_table_equal_slices(
    store: Store, table: pa.Table, layout: dict[str, Any], data: st.DataObject
) -> None:
    file = store(table, options=nb.WriteOptions(**layout))
    row = st.integers(0, table.num_rows - 1) if table.num_rows else st.nothing()
    rows = data.draw(st.lists(row, max_size=30)) if table.num_rows else []
    assert_same_table(file.take(rows), pick(table, rows))
    names = data.draw(st.lists(st.sampled_from(table.column_names), min_size=1, unique=True))
    assert_same_table(file.take(rows, names), pick(table.select(names), rows))


@pytest.mark.parametrize("type_", strategies.ALL_TYPES, ids=str)
def test_take_scattered_rows_of_every_type_are_exact(store: Store, type_: pa.DataType) -> None:
    table = strategies.table_of(type_, 3_000, seed=8)
    file = store(table, options=nb.WriteOptions(stripe_rows=2_000))
    rows = [2_999, 5, 5, 1_023, 1_024, 1_999, 2_000, 0, 1_500, 5]
    assert_same_table(file.take(rows), pick(table, rows))


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        lambda r: np.array(r, np.uint8),
        pa.array,
        lambda r: pa.array(r, pa.int32()),
        lambda r: pa.chunked_array([r[:1], r[1:]]),
    ],
    ids=["list", "tuple", "numpy", "uint8", "arrow", "int32", "chunked"],
)
def test_take_every_form_of_rows_is_accepted(
    store: Store, make: Callable[[list[int]], Any]
) -> None:
    file = store(pa.table({"v": list("abcd")}))
    assert file.take(make([3, 0, 3])).to_pydict() == {"v": ["d", "a", "d"]}


def test_take_many_rows_equals_numpy(store: Store) -> None:
    rng = np.random.default_rng(3)
    values, words = (
        rng.integers(-(2**60), 2**60, 40_000),
        np.array([f"w{i % 999}" for i in range(40_000)]),
    )
    file = store(pa.table({"v": values, "w": words}), options=nb.WriteOptions(stripe_rows=9_000))
    rows = rng.integers(0, 40_000, 20_000)
    got = file.take(rows)
    assert got.column("v").to_numpy().tolist() == values[rows].tolist()
    assert got.column("w").to_pylist() == words[rows].tolist()


def test_take_nothing_gives_an_empty_table_with_schema(store: Store) -> None:
    table = strategies.table_of(pa.list_(pa.utf8()), 10)
    file = store(table)
    assert_same_table(file.take([]), table.slice(0, 0))
    assert_same_table(file.take(pa.array([], pa.int64())), table.slice(0, 0))
    assert store(table.slice(0, 0)).take([]).num_rows == 0


def test_take_no_columns_keeps_number_of_rows(store: Store) -> None:
    file = store(pa.table({"v": [1, 2, 3]}))
    assert file.take([2, 2], []).num_rows == 2


@pytest.mark.parametrize(
    "rows", [[3], [0, 3], [-1], [2**63], [2**64], [1.5], ["0"], [None], [0, None]]
)
def test_take_row_that_does_not_exist_is_refused(store: Store, rows: list[Any]) -> None:
    file = store(pa.table({"v": [1, 2, 3]}))
    with pytest.raises(nb.InvalidArgumentError):
        file.take(rows)
