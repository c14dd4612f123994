"""get, lookup, contains, count and row_ranges equal the oracle, whatever the key, its order and
the layout.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import key_cases
import numpy as np
import oracle
import pyarrow as pa
import pytest
from answers import check_gets, check_lookups, clustered, expand, pick
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st
from key_cases import KEY_TYPES, LAYOUTS, ORDERS, KeyType
from oracle import Order

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]
order_id = "{0.descending:d}{0.nulls_first:d}".format


@pytest.mark.parametrize("order", ORDERS, ids=order_id)
@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_lookup_every_key_type_and_order_equals_oracle(
    path: str, key: KeyType, order: Order
) -> None:
    table = key_cases.one_column_case(key, 130, seed=3)
    layout = LAYOUTS[(KEY_TYPES.index(key) + ORDERS.index(order)) % len(LAYOUTS)]
    file, stored = clustered(path, table, ["k"], [order], **layout)
    assert_same_table(file.to_table(), stored)
    probes = [
        (value,) for value in [*key.pool, None, *reversed(key.pool)]
    ]  # every pool value, each twice
    check_lookups(file, stored, ["k"], [key], probes)
    check_gets(file, stored, ["k"], [key], probes[: len(key.pool)])


@given(case=key_cases.composite_cases(), layout=st.sampled_from(LAYOUTS), data=st.data())
def test_lookup_composite_keys_and_prefixes_equal_oracle(
    path: str, case: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    table, columns, orders, keys = case
    file, stored = clustered(path, table, columns, orders, **layout)
    assert_same_table(file.to_table(), stored)
    present = oracle.table_keys(stored, columns)
    width = data.draw(st.integers(1, len(columns)))
    made = st.tuples(*[st.sampled_from([*key.pool, None]) for key in keys[:width]])
    probe = made | st.sampled_from(present).map(lambda key: key[:width]) if present else made
    probes = data.draw(st.lists(probe, max_size=12))
    check_lookups(file, stored, columns, keys, probes)


@given(case=key_cases.composite_cases(max_columns=2), data=st.data())
def test_lookup_same_table_in_two_layouts_and_sources_is_identical(
    path: str, case: Any, data: st.DataObject
) -> None:
    table, columns, orders, keys = case
    probes = data.draw(
        st.lists(st.tuples(*[st.sampled_from(key.pool) for key in keys]), max_size=20)
    )
    probes += oracle.table_keys(table, columns)[::3]
    batch = key_cases.probe_table(columns, keys, probes)
    answers = []
    for layout in data.draw(st.lists(st.sampled_from(LAYOUTS), min_size=2, max_size=2)):
        file, _ = clustered(path, table, columns, orders, **layout)
        content = Path(path).read_bytes()
        how = {
            "mmap": data.draw(st.booleans()),
            "cache_bytes": data.draw(st.sampled_from([0, 4096, 1 << 28])),
        }
        for opened in (
            file,
            nb.open(path, **how),
            nb.open(content),
            nb.open(io.BytesIO(content), **how),
        ):
            answers.append(opened.lookup(batch, probe_row="p"))
    for other in answers[1:]:
        assert_same_table(other, answers[0])


def test_lookup_many_random_keys_equal_a_dict(store: Store) -> None:
    rng = np.random.default_rng(11)
    ids = rng.choice(10_000_000, 50_000, replace=False) * 2
    table = pa.table({"id": ids, "v": rng.random(50_000)})
    options = nb.WriteOptions(stripe_rows=8_000, group_rows=16_000, key_chunk_rows=500)
    file = store(table, cluster_by="id", unique=True, options=options)
    values = dict(zip(ids.tolist(), table.column("v").to_pylist(), strict=True))
    probes = np.concatenate([rng.choice(ids, 5_000), rng.integers(-100, 20_000_100, 5_000)])
    rng.shuffle(probes)
    got = file.lookup(probes, probe_row="p")
    hits = [i for i, probe in enumerate(probes.tolist()) if probe in values]
    assert got.column("p").to_pylist() == hits
    assert got.column("v").to_pylist() == [values[probe] for probe in probes[hits].tolist()]
    assert file.contains(probes).to_pylist() == [probe in values for probe in probes.tolist()]


def test_lookup_neighbours_of_every_key_at_chunk_edges_are_exact(store: Store) -> None:
    # fence keys: the first and last key of every chunk, stripe and group, and the gaps between them
    table = pa.table({"k": pa.array(range(0, 3_000, 3)), "row": pa.array(range(1_000), pa.int64())})
    options = nb.WriteOptions(stripe_rows=32, group_rows=128, key_chunk_rows=8, restart_interval=4)
    file = store(table, cluster_by="k", options=options)
    probes = list(range(-2, 3_002))
    assert file.contains(probes).to_pylist() == [0 <= p < 3_000 and p % 3 == 0 for p in probes]
    want = [p // 3 for p in probes if 0 <= p < 3_000 and p % 3 == 0]
    assert file.lookup(probes).column("row").to_pylist() == want
    for probe in (-1, 0, 1, 23, 24, 25, 95, 96, 97, 2_997, 2_998):
        row = file.get(probe)
        assert row == (
            {"k": probe, "row": probe // 3} if 0 <= probe < 3_000 and probe % 3 == 0 else None
        )


# ---- forms ----
# of keys


@pytest.mark.parametrize(
    "keys",
    [
        [5, 3, 99, 5],
        np.array([5, 3, 99, 5]),
        np.array([5, 3, 99, 5], np.uint8),
        pa.array([5, 3, 99, 5]),
        pa.array([5, 3, 99, 5], pa.int16()),
        pa.chunked_array([[5, 3], [], [99, 5]]),
        pa.table({"k": [5, 3, 99, 5]}),
        pa.record_batch({"k": [5, 3, 99, 5]}),
        pa.array([0, 5, 3, 99, 5]).slice(1),
        pa.array([5, 3, 99, 5]).dictionary_encode(),
        [(5,), (3,), (99,), (5,)],
        (5, 3, 99, 5),
    ],
    ids=lambda k: type(k).__name__,
)
def test_lookup_every_form_of_single_column_keys_is_accepted(store: Store, keys: Any) -> None:
    file = store(pa.table({"k": range(10), "v": [str(i) for i in range(10)]}), cluster_by="k")
    if isinstance(keys, tuple):
        keys = list(keys)
    got = file.lookup(keys, columns=["v"], probe_row="p")
    assert got.to_pydict() == {"p": [0, 1, 3], "v": ["5", "3", "5"]}
    assert file.contains(keys).to_pylist() == [True, True, False, True]


@pytest.mark.parametrize(
    "keys",
    [
        [(1, "b"), (2, "z"), (0, "a")],
        pa.table({"a": [1, 2, 0], "b": ["b", "z", "a"]}),
        pa.record_batch({"b": ["b", "z", "a"], "a": [1, 2, 0]}),
        pa.table(
            {"a": pa.array([1, 2, 0], pa.int8()), "b": pa.array(["b", "z", "a"], pa.large_utf8())}
        ),
    ],
    ids=["tuples", "table", "batch in other column order", "other widths"],
)
def test_lookup_every_form_of_composite_keys_is_accepted(store: Store, keys: Any) -> None:
    table = pa.table({"a": [0, 1, 1, 2], "b": ["a", "a", "b", "c"], "v": [10, 11, 12, 13]})
    file = store(table, cluster_by=["a", "b"])
    got = file.lookup(keys, columns=["v"], probe_row="p")
    assert got.to_pydict() == {"p": [0, 2], "v": [12, 10]}


def test_lookup_polars_and_pandas_keys_are_accepted(store: Store) -> None:
    polars = pytest.importorskip("polars")
    file = store(pa.table({"k": range(10)}), cluster_by="k")
    assert file.lookup(polars.DataFrame({"k": [7, 70]})).to_pydict() == {"k": [7]}
    assert file.lookup(polars.Series([7, 70])).to_pydict() == {"k": [7]}
    pandas = pytest.importorskip("pandas")
    assert file.lookup(pandas.DataFrame({"k": [7, 70]})).to_pydict() == {"k": [7]}


def test_get_key_as_scalar_tuple_or_dict_gives_the_row(store: Store) -> None:
    table = pa.table({"a": [0, 1, 1], "b": ["x", "x", "y"], "v": [[1], None, [2, 3]]})
    file = store(table, cluster_by=["a", "b"])
    want = {"a": 1, "b": "y", "v": [2, 3]}
    assert file.get((1, "y")) == want
    assert file.get({"b": "y", "a": 1}) == want
    assert file.get((1, "y"), columns=["v"]) == {"v": [2, 3]}
    assert file.get((1, "y"), ["v", "a"], on=["a", "b"]) == {"v": [2, 3], "a": 1}
    assert list(file.get((1, "y"), ["v", "a"])) == ["v", "a"]
    assert file.get((1, "z")) is None
    assert file.get((1, "z"), default=want) is want
    assert file.get((1, "x")) == {"a": 1, "b": "x", "v": None}
    assert store(pa.table({"k": [4, 5]}), cluster_by="k").get(5) == {"k": 5}


@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_get_python_value_of_every_key_type_finds_the_row(store: Store, key: KeyType) -> None:
    # what to_pylist() gives back is what a user will probe with
    values = [v for v in key.pool if v == v][len(key.pool) // 3 : len(key.pool) // 3 + 4]
    column = key_cases.array_of(key.type, values)
    try:
        spoken = column.to_pylist()
    except (ValueError, OverflowError, ImportError):
        pytest.skip("pyarrow has no Python value for this")
    if not pa.array(spoken, key.type).equals(column):
        pytest.skip("pyarrow's Python value is rounded to microseconds")
    table = pa.table({"k": column, "row": pa.array(range(len(values)), pa.int64())})
    file = store(table, cluster_by="k")
    assert [file.get(value, ["row"]) for value in spoken] == [
        {"row": i} for i in range(len(values))
    ]
    assert file.lookup(spoken).column("row").to_pylist() == list(range(len(values)))


def test_get_returns_python_values_of_every_column_type(store: Store) -> None:
    row = {
        "k": 1,
        "b": b"\0\xff",
        "d": Decimal("12.50"),
        "t": dt.datetime(2020, 2, 29, 12, 30, tzinfo=dt.UTC),
        "day": dt.date(1969, 12, 31),
        "s": {"x": [1, None], "m": [("key", 1.5)]},
        "none": None,
    }
    schema = pa.schema(
        {
            "k": pa.int64(),
            "b": pa.binary(),
            "d": pa.decimal128(10, 2),
            "t": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "s": pa.struct({"x": pa.list_(pa.int8()), "m": pa.map_(pa.utf8(), pa.float32())}),
            "none": pa.null(),
        }
    )
    table = pa.Table.from_pylist([row], schema=schema)
    got = store(table, cluster_by="k").get(1)
    assert got == table.to_pylist()[0]
    assert [type(v) for v in got.values()] == [type(v) for v in table.to_pylist()[0].values()]


# ---- coercion and errors ----


@pytest.mark.parametrize(
    ("type_", "stored", "probe"),
    [
        (pa.int8(), 7, 300),
        (pa.uint8(), 7, -1),
        (pa.int64(), 7, 2**70),
        (pa.uint64(), 7, -(2**70)),
        (pa.decimal128(5, 2), Decimal("1.50"), Decimal("123456.00")),
    ],
    ids=str,
)
def test_lookup_value_beyond_the_column_type_matches_nothing(
    store: Store, type_: pa.DataType, stored: Any, probe: Any
) -> None:
    file = store(pa.table({"k": pa.array([stored], type_)}), cluster_by="k")
    assert file.contains([stored, probe]).to_pylist() == [True, False]
    assert file.get(probe) is None
    assert file.count([probe]).to_pylist() == [0]


def test_lookup_wider_arrow_type_is_compared_by_value(store: Store) -> None:
    file = store(pa.table({"k": pa.array([1, 100], pa.int8())}), cluster_by="k")
    assert file.contains(pa.array([100, 356, -156], pa.int64())).to_pylist() == [True, False, False]
    assert file.contains(pa.array([1, 2**63], pa.uint64())).to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("type_", "stored", "probe"),
    [
        (pa.int64(), 1, 1.5),  # between two values of the column, as are the next four
        (pa.float32(), 0.5, 0.1),
        (pa.float64(), 1.0, 2**53 + 1),
        (pa.decimal128(5, 2), Decimal("1.50"), Decimal("1.505")),
        (pa.timestamp("ms"), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
        (pa.int64(), 1, "1"),
        (pa.utf8(), "1", 1),
        (pa.date32(), dt.date(2020, 1, 1), "2020-01-01x"),
        (pa.bool_(), True, 2),
        (pa.int64(), 1, object()),
        (pa.int64(), 1, [1]),
    ],
    ids=str,
)
def test_lookup_value_of_wrong_type_is_refused_naming_the_column(
    store: Store, type_: pa.DataType, stored: Any, probe: Any
) -> None:
    file = store(pa.table({"the_key": pa.array([stored], type_)}), cluster_by="the_key")
    with pytest.raises(nb.InvalidArgumentError, match="the_key"):
        file.get(probe)
    with pytest.raises(nb.InvalidArgumentError, match="the_key"):
        file.lookup([stored, probe])


def test_lookup_whole_float_is_an_exact_int_and_int_an_exact_float(store: Store) -> None:
    assert store(pa.table({"k": [7]}), cluster_by="k").get(7.0) == {"k": 7}
    assert store(pa.table({"k": [7.0]}), cluster_by="k").get(7) == {"k": 7.0}


def test_lookup_timestamp_of_other_unit_or_zone_is_the_same_instant(store: Store) -> None:
    noon = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    file = store(pa.table({"k": pa.array([noon], pa.timestamp("ms", "UTC"))}), cluster_by="k")
    zurich = dt.timezone(dt.timedelta(hours=1))
    assert file.get(noon.astimezone(zurich)) is not None
    assert file.get(noon + dt.timedelta(milliseconds=1)) is None
    assert file.contains(pa.array([noon], pa.timestamp("ns", "Asia/Tokyo"))).to_pylist() == [True]


def test_lookup_without_index_names_the_indexes_that_exist(store: Store) -> None:
    plain = store(pa.table({"k": [1], "v": [2]}))
    for call in (plain.get, plain.lookup, plain.contains, plain.count):
        with pytest.raises(nb.IndexUnavailableError):
            call(1 if call == plain.get else [1], on="v")
    with pytest.raises(nb.IndexUnavailableError):
        plain.lookup([1])
    file = store(pa.table({"my_key": [1], "v": [2]}), cluster_by="my_key")
    with pytest.raises(nb.IndexUnavailableError, match="my_key"):
        file.lookup([2], on="v")
    two = store(pa.table({"a": [1], "b": [2]}), cluster_by=["a", "b"])
    with pytest.raises(nb.IndexUnavailableError, match=r"a.*b"):
        two.lookup([2], on="b")  # not a leading prefix


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.lookup([1], on="nope"),
        lambda f: f.lookup([1], columns=["nope"]),
        lambda f: f.get(1, ["nope"]),
        lambda f: f.take([0], ["nope"]),
        lambda f: f.range(1, columns=["nope"]),
    ],
)
def test_lookup_unknown_column_is_refused_by_name(store: Store, call: Callable[[Any], Any]) -> None:
    file = store(pa.table({"k": [1]}), cluster_by="k")
    with pytest.raises(nb.InvalidArgumentError, match="nope"):
        call(file)


def test_lookup_key_with_too_many_values_is_refused(store: Store) -> None:
    file = store(pa.table({"a": [1], "b": [2]}), cluster_by=["a", "b"])
    for bad in ((1, 2, 3), ()):
        with pytest.raises(nb.InvalidArgumentError):
            file.get(bad)
    with pytest.raises(nb.InvalidArgumentError):
        file.lookup([(1, 2), (1, 2, 3)])
    with pytest.raises(nb.InvalidArgumentError):
        file.get({"a": 1, "c": 2})
    assert file.count([(1,)], on=["a"]).to_pylist() == [1]


def test_lookup_probe_row_name_that_exists_is_refused(store: Store) -> None:
    file = store(pa.table({"k": [1]}), cluster_by="k")
    with pytest.raises(nb.InvalidArgumentError, match="'k'"):
        file.lookup([1], probe_row="k")


# ---- special tables ----


def test_lookup_no_keys_gives_an_empty_table_with_schema(store: Store) -> None:
    table = pa.table({"k": [1, 2], "s": ["a", "b"]})
    file = store(table, cluster_by="k")
    assert_same_table(file.lookup([]), table.slice(0, 0))
    assert_same_table(file.lookup(pa.array([], pa.int64())), table.slice(0, 0))
    assert file.contains([]).to_pylist() == []
    assert file.count([]).type == pa.int64()
    assert expand(file.row_ranges([])) == []


def test_lookup_empty_file_and_one_row_file_answer(store: Store) -> None:
    schema = pa.schema({"k": pa.utf8(), "v": pa.int64()})
    empty = store(schema.empty_table(), cluster_by="k")
    assert empty.get("x") is None
    assert empty.contains(["", "x", None]).to_pylist() == [False] * 3
    assert_same_table(empty.lookup(["", "x"]), schema.empty_table())
    one = store(pa.table({"k": [""], "v": [1]}), cluster_by="k")
    assert one.contains(["", "\0", "x"]).to_pylist() == [True, False, False]
    assert one.get("") == {"k": "", "v": 1}


def test_lookup_struct_leaf_key_is_found_by_its_path(store: Store) -> None:
    people = [
        {"id": 3, "name": "c"},
        {"id": 1, "name": "a"},
        None,
        {"id": None, "name": "n"},
        {"id": 2, "name": "b"},
    ]
    table = pa.table({"person": people, "row": pa.array(range(5), pa.int64())})
    file = store(table, cluster_by="person.id")
    stored = key_cases.in_file_order(table, ["person.id"], [Order()])
    assert_same_table(file.to_table(), stored)
    assert file.get(2)["person"] == {"id": 2, "name": "b"}
    assert file.lookup([1, 2], on="person.id").column("row").to_pylist() == [1, 4]
    assert file.cluster_by == [nb.SortKey("person.id")]


def test_lookup_keys_sharing_long_prefixes_do_not_collide(store: Store) -> None:
    # ("0000", 0) and ("00000", 0) need a separator between columns
    rows = [
        ("0" * n + tail, m)
        for n in (0, 1, 4, 5, 300)
        for tail in ("", "\0", "1")
        for m in (0, 1, 256)
    ]
    table = pa.table(
        {"a": [a for a, _ in rows], "b": [b for _, b in rows], "row": range(len(rows))}
    )
    for layout in LAYOUTS:
        file = store(table, cluster_by=["a", "b"], options=nb.WriteOptions(**layout))
        assert file.lookup(rows).column("row").to_pylist() == list(range(len(rows)))
        assert file.count([(a + "\0\0", b) for a, b in rows]).to_pylist() == [0] * len(rows)


def test_lookup_projection_orders_and_nests_columns(store: Store) -> None:
    table = pa.table({"k": [1, 2], "p": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], "v": [0.5, 1.5]})
    file = store(table, cluster_by="k")
    assert_same_table(file.lookup([2], columns=["v", "k"]), table.slice(1).select(["v", "k"]))
    assert_same_table(file.lookup([2], columns=[]), table.slice(1).select([]))
    assert file.get(2, ["p.y"]) in ({"p.y": "b"}, {"p": {"y": "b"}})


def test_lookup_result_is_a_plain_copy_of_the_rows(store: Store) -> None:
    table = pa.table({"k": [1, 1, 2], "v": pa.array([1, None, 3], pa.int8())})
    file = store(table, cluster_by="k")
    got = file.lookup([2, 1])
    assert_same_table(got, pick(table, [2, 0, 1]))
    assert isinstance(got, pa.Table)
    assert isinstance(file.contains([1]), pa.BooleanArray)
    assert isinstance(file.count([1]), pa.Int64Array)
