"""Sorted, ZOrder and OTree: which rows come into one file, and that all of them do."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nimblepy as nb
from nimblepy.expr.filter import parse_filter
from nimblepy.table.otree.arrange import in_cubes, in_order
from nimblepy.table.otree.layouts import WEIGHT
from nimblepy.table.otree.space import fit, interleaved, interpolated, space_columns
from nimblepy.table.otree.tree import BITS, LEAST_WEIGHT, WEIGHTS, Estimate, Tree, grow

ROWS = 10_000
SMALL = {"write.target-file-size-bytes": "40000"}


def skewed(rows: int = ROWS, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    price = pa.array(rng.lognormal(3, 1, rows), mask=rng.random(rows) < 0.05)
    return pa.table(
        {
            "id": rng.permutation(rows),
            "price": price,
            "rating": rng.beta(5, 2, rows) * 5,
            "name": pa.array([f"https://a.b/{i % 611:x}" for i in range(rows)]),
        }
    )


def ids(table: pa.Table) -> pa.Table:
    return table.sort_by("id")


def planned(table: nb.Table, filter: str) -> int:
    """Rows of the files that a filter leaves."""
    found = table._current.plan.members(parse_filter(filter, table.schema).conjuncts)
    return sum(member.file.rows for member in found)


LAYOUTS = [
    nb.Sorted(["price"]),
    nb.Sorted([nb.SortKey("name", descending=True), "price"]),
    nb.ZOrder(["price", "rating", "name"]),
    nb.OTree(["price", "rating"], cube_rows=500),
    nb.OTree("name", cube_rows=500, transforms={"name": "hash"}),
    nb.OTree(["rating", "name", "id"], cube_rows=1000, transforms={"rating": "linear"}),
]


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_every_row_is_written_once(tmp_path: Any, layout: Any, data_format: Any) -> None:
    lake = nb.connect(tmp_path)
    data = skewed()
    table = lake.create_table(
        "a.b", data.schema, layout=layout, data_format=data_format, properties=SMALL
    )
    table.append(data)
    assert table.layout_by == layout
    assert table.schema.names == data.schema.names
    assert ids(table.to_table()).cast(data.schema).equals(ids(data))
    assert len(table._current.members) > 2
    assert lake.table("a.b").layout_by == layout


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_rows_beyond_the_memory_come_from_files(tmp_path: Any, layout: Any) -> None:
    data = skewed(30_000)
    table = nb.connect(tmp_path).create_table(
        "a.b",
        data.schema,
        layout=layout,
        properties=SMALL,
        options=nb.WriteOptions(sort_memory_bytes=1 << 20),
    )
    table.append(data.to_reader(max_chunksize=7000))
    assert ids(table.to_table()).cast(data.schema).equals(ids(data))


def test_sorted_files_follow_each_other(tmp_path: Any) -> None:
    data = skewed().drop_columns("name")
    table = nb.connect(tmp_path).create_table(
        "a.b", data.schema, layout=nb.Sorted("rating"), properties=SMALL
    )
    table.append(data)
    files = [
        table._current.child(i).read(table._current.child(i).all_rows(), None)
        for i in range(table._current.num_files)
    ]
    assert len(files) > 2
    files.sort(key=lambda file: file["rating"][0].as_py())
    assert pa.concat_tables(files)["rating"].equals(data.sort_by("rating")["rating"])


@pytest.mark.parametrize("memory", [1 << 30, 1 << 16])
def test_order_is_the_same_in_memory_and_from_files(memory: int) -> None:
    data = skewed(5000)
    pieces = [data.slice(at, 700) for at in range(0, 5000, 700)]
    keys = [nb.SortKey("name", descending=True), nb.SortKey("price", nulls_first=True)]
    found = pa.concat_tables(
        list(in_order(pieces, nb.Sorted(keys), memory, step_bytes=10_000))
    ).to_pylist()
    texts = [row["name"] for row in found]
    assert texts == sorted(texts, reverse=True)
    for a, b in pairwise(found):
        if a["name"] == b["name"]:
            least = (a["price"] is not None, a["price"] or 0)
            assert least <= (b["price"] is not None, b["price"] or 0)


def test_boxes_read_a_part(tmp_path: Any) -> None:
    data = skewed(30_000)
    price, rating = np.nanquantile(data["price"].to_numpy(), [0.4, 0.5]), (3.5, 3.7)
    box = f"price between {price[0]} and {price[1]} and rating between {rating[0]} and {rating[1]}"
    lake = nb.connect(tmp_path)
    read = {}
    for name, layout in (
        ("none", None),
        ("zorder", nb.ZOrder(["price", "rating"])),
        ("otree", nb.OTree(["price", "rating"], cube_rows=1000)),
    ):
        properties = {"write.target-file-size-bytes": "15000"}
        table = lake.create_table(f"a.{name}", data.schema, layout=layout, properties=properties)
        table.append(data)
        read[name] = planned(table, box)
        assert table.scan(filter=box).count() == len(data.filter(_box(data, price, rating)))
    assert read["zorder"] < read["none"] / 2
    assert read["otree"] < read["none"] / 3


def _box(data: pa.Table, price: Any, rating: Any) -> Any:
    p, r = data["price"].to_numpy(), data["rating"].to_numpy()
    return pa.array((p >= price[0]) & (p <= price[1]) & (r >= rating[0]) & (r <= rating[1]))


# ------------------------------------------------------------------ with keys, and changes


def test_keys_hold_inside_files(tmp_path: Any) -> None:
    data = skewed(3000).set_column(0, "id", pa.array(range(3000)))
    table = nb.connect(tmp_path).create_table(
        "a.b",
        data.schema,
        primary_key="id",
        layout=nb.OTree(["price", "rating"], cube_rows=400),
    )
    table.append(data)
    assert table.get(1234)["id"] == 1234
    for i in range(table._current.num_files):
        child = table._current.child(i)
        found = child.read(child.all_rows(), ("id",))["id"].to_pylist()
        assert found == sorted(found)
    with pytest.raises(nb.DuplicateKeyError):
        table.append(data.slice(5, 1))
    table.delete(keys=[5])
    table.append(data.slice(5, 1))
    assert ids(table.to_table()).cast(data.schema).equals(ids(data))


def test_a_layout_can_be_changed(tmp_path: Any) -> None:
    data = skewed(2000)
    table = nb.connect(tmp_path).create_table("a.b", data.schema)
    assert table.layout_by is None
    table.append(data)
    with table.alter() as a:
        a.layout(nb.OTree(["price"], cube_rows=100))
    assert table.append(data).files_added > 5
    with table.alter() as a:
        a.rename_column("price", "cost")
    assert table.layout_by == nb.OTree(["cost"], cube_rows=100)
    with (
        pytest.raises(nb.InvalidArgumentError, match="'cost' is part of the layout"),
        table.alter() as a,
    ):
        a.drop_column("cost")
    with pytest.raises(nb.InvalidArgumentError, match="cannot have partitions"), table.alter() as a:
        a.partition_by("name")
    with pytest.raises(nb.InvalidArgumentError, match=WEIGHT), table.alter() as a:
        a.add_column(WEIGHT, pa.int32())
    with table.alter() as a:
        a.layout(None)
        a.drop_column("cost")
    assert table.append(data.drop_columns("price")).files_added == 1
    assert table.num_rows == 6000


def test_pickled_and_equal() -> None:
    import pickle

    for layout in LAYOUTS:
        assert pickle.loads(pickle.dumps(layout)) == layout
        assert hash(layout) == hash(pickle.loads(pickle.dumps(layout)))
        assert eval(repr(layout), vars(nb)) == layout


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: nb.Sorted([]), "at least one column"),
        (lambda: nb.ZOrder([]), "one to 8 columns, got 0"),
        (lambda: nb.ZOrder(list("abcdefghi")), "one to 8 columns, got 9"),
        (lambda: nb.ZOrder(["a", "a"]), "'a' is given more than once"),
        (lambda: nb.ZOrder([nb.SortKey("a")]), "got a SortKey"),
        (lambda: nb.OTree(["a"], cube_rows=3), "at least 16, got 3"),
        (lambda: nb.OTree(["a"], cube_rows="3"), "must be a number, got '3'"),
        (lambda: nb.OTree(["a"], transforms={"b": "hash"}), "expected one of a"),
        (lambda: nb.OTree(["a"], transforms={"a": "rank"}), "got 'rank'"),
        (lambda: nb.OTree(["a"], transforms=["a"]), "must be a dict"),
        (lambda: nb.OTree([3]), "expected a column name, got 3"),
    ],
)
def test_what_is_wrong_is_said(make: Any, match: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=match):
        make()


def test_what_does_not_fit_the_table_is_said(tmp_path: Any) -> None:
    lake = nb.connect(tmp_path)
    schema = pa.schema({"a": pa.int64(), "l": pa.list_(pa.int32())})

    def create(layout: Any, **more: Any) -> None:
        lake.create_table("a.b", schema, layout=layout, **more)

    for layout, match in [
        (nb.Sorted("z"), "z"),
        (nb.ZOrder(["l"]), "no order"),
        (nb.OTree(["l"], transforms={"l": "linear"}), "use the transform 'hash'"),
        (nb.OTree(["a"], transforms={"a": "identity"}), "numbers from 0 to 1"),
        ("a", "expected nb.Sorted"),
    ]:
        with pytest.raises(nb.InvalidArgumentError, match=match):
            create(layout)
    with pytest.raises(nb.InvalidArgumentError, match="cannot be combined with partition_by"):
        create(nb.Sorted("a"), partition_by="a")
    assert lake.tables() == []


# ------------------------------------------------------------------ all types


VALUES: dict[str, list[Any]] = {
    "bool": [True, False, None] * 200,
    "int32": [None, -5, 7, 2**31 - 1] * 150,
    "int64": [-(2**63), 2**63 - 1, 0, None] * 150,
    "float64": [float("nan"), float("inf"), -float("inf"), -0.0, 3.5, None] * 100,
    "string": ["", "é", "same", "same prefix", "\U0010ffff", None] * 100,
    "binary": [b"", b"\xff" * 20, b"\x00", None] * 150,
    "date32[day]": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None] * 200,
    "timestamp[us]": [dt.datetime(1969, 1, 1), dt.datetime(2030, 1, 1), None] * 200,
    "time64[us]": [dt.time(0), dt.time(23, 59, 59), None] * 200,
    "decimal128(38, 2)": [Decimal("-1e30"), Decimal("0.01"), None] * 200,
    "list<element: int32>": [[1, 2], [], None] * 200,
    "struct<a: int64>": [{"a": 1}, {"a": None}, None] * 200,
    "all null": [None] * 600,
}
TYPES = {
    "decimal128(38, 2)": pa.decimal128(38, 2),
    "list<element: int32>": pa.list_(pa.field("element", pa.int32())),
    "struct<a: int64>": pa.struct({"a": pa.int64()}),
    "all null": pa.string(),
    "time64[us]": pa.time64("us"),
    "timestamp[us]": pa.timestamp("us"),
    "date32[day]": pa.date32(),
}


@pytest.mark.parametrize("kind", VALUES)
def test_columns_of_any_type(tmp_path: Any, kind: str) -> None:
    values = pa.array(VALUES[kind], TYPES.get(kind) or pa.type_for_alias(kind))
    data = pa.table({"id": range(600), "v": values})
    table = nb.connect(tmp_path).create_table(
        "a.b", data, layout=nb.OTree(["v", "id"], cube_rows=100)
    )
    found = ids(table.to_table())
    assert repr(found["v"].to_pylist()) == repr(data["v"].to_pylist())
    assert len(table._current.members) >= 6


# ------------------------------------------------------------------ trees


def test_eight_columns_and_one(tmp_path: Any) -> None:
    rng = np.random.default_rng(3)
    data = pa.table({f"c{i}": rng.normal(size=4000) for i in range(8)} | {"id": range(4000)})
    lake = nb.connect(tmp_path)
    for count in (1, 8):
        table = lake.create_table(
            f"a.c{count}", data, layout=nb.OTree([f"c{i}" for i in range(count)], cube_rows=300)
        )
        assert ids(table.to_table()).cast(data.schema).equals(ids(data))


def test_order_of_values_is_kept() -> None:
    """Greater values never have a lesser coordinate."""
    data = skewed(4000)
    schema = pa.schema(
        [f.with_metadata({"PARQUET:field_id": str(i)}) for i, f in enumerate(data.schema)]
    )
    layout = nb.OTree(["price", "rating", "name"])
    columns = space_columns(data.cast(schema), [("price",), ("rating",), ("name",)])
    space = fit(layout, columns.slice(0, 500), schema)
    assert type(space).from_json(space.to_json()).to_json() == space.to_json()
    for found, name in zip(space.coordinates(columns), layout.columns, strict=True):
        values = data[name].to_pylist()
        order = sorted(
            range(len(values)),
            key=lambda i: (values[i] is not None, values[i]) if values[i] is not None else (False,),
        )
        assert (np.diff(found[order]) >= 0).all()
        assert found.min() >= 0
        assert found.max() <= 1
        assert len(np.unique((found * 64).astype(int))) > 50


@example([0.0, 5e-324, 1.0], [0.5])
@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40, unique=True),
    st.lists(st.floats(), min_size=1, max_size=60),
)
def test_interpolation_is_that_of_numpy(knots: list[float], asked: list[float]) -> None:
    """Of many numbers too, which a table of stretches answers."""
    ends = np.sort(np.array(knots))
    ranks = np.linspace(0.0, 1.0, len(ends))
    few = np.array([*asked, *ends, *np.nextafter(ends, np.inf), *np.nextafter(ends, -np.inf)])
    many = np.tile(few, (1 << 15) // len(few) + 1)
    found, wanted = interpolated(many, ends, ranks), np.interp(many, ends, ranks)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-15)


@given(st.lists(st.integers(0, (1 << 60) - 1), min_size=1, max_size=60), st.integers(0, 60))
def test_leaves_of_places(edges: list[int], shift: int) -> None:
    leaves = np.unique(np.array([0, *edges], np.uint64) >> np.uint64(shift))
    some = np.concatenate([leaves, leaves + np.uint64(1), leaves - np.uint64(1), leaves * 3])
    places = np.tile(some & np.uint64((1 << 60) - 1), (1 << 15) // len(some) + 1)
    weights = np.zeros(len(places), np.int32)
    found = Tree([], leaves).assign(places, weights)
    assert found.tolist() == (np.searchsorted(leaves, places, side="right") - 1).tolist()


@pytest.mark.parametrize("columns", range(1, 9))
def test_interleaved_digits(columns: int) -> None:
    rng = np.random.default_rng(columns)
    points = [rng.random(50) for _ in range(columns)]
    bits = min(30, BITS // columns)
    for row, place in enumerate(interleaved(points).tolist()):
        text = ""
        for bit in range(bits):
            for axis in points:
                text += str(int(axis[row] * 2**bits) >> (bits - 1 - bit) & 1)
        assert place == int(text.ljust(BITS, "0"), 2)


def test_inner_cubes_hold_what_they_should() -> None:
    rng = np.random.default_rng(5)
    rows, cube = 400_000, 4000
    places = interleaved([rng.random(rows) ** 4, rng.random(rows)])
    weights = rng.integers(LEAST_WEIGHT, LEAST_WEIGHT + WEIGHTS, rows, dtype=np.int32)
    estimate = Estimate()
    estimate.add(places, weights)
    tree = grow(estimate, 2, cube, cube)
    assigned = tree.assign(places, weights)
    counts = np.bincount(assigned, minlength=tree.cubes)
    inner = sum(len(prefixes) for _, prefixes, _ in tree.inner)
    assert inner > 1
    assert abs(counts[:inner] / cube - 1).max() < 0.1
    assert counts.max() < 2 * cube
    assert counts[inner:].min() > cube / 10
    # Every row is in a cube whose prefix is the place's own.
    for number in range(tree.cubes):
        bits, prefix = tree.prefix(number)
        mine = places[assigned == number]
        assert (mine >> np.uint64(BITS - bits) == prefix).all()


def test_estimates_are_merged_in_any_order() -> None:
    rng = np.random.default_rng(6)
    places = rng.integers(0, 1 << BITS, 50_000, dtype=np.uint64)
    weights = rng.integers(LEAST_WEIGHT, LEAST_WEIGHT + WEIGHTS, 50_000, dtype=np.int32)
    parts = []
    for part in np.array_split(np.arange(50_000), 7):
        parts.append(Estimate(3000))
        parts[-1].add(places[part], weights[part])
    found = []
    for order in (range(7), reversed(range(7))):
        whole = Estimate(3000)
        for i in order:
            whole.merge(parts[i])
        found.append(whole.found())
    assert found[0][0].tolist() == found[1][0].tolist()
    assert found[0][1].tolist() == found[1][1].tolist()
    assert len(found[0][0]) * found[0][2] == 50_000
    assert 1000 < len(found[0][0]) <= 3000


def test_many_equal_rows_are_cut_by_weight() -> None:
    data = pa.table({"k": pa.array([1] * 3000 + list(range(1000)))})
    data = data.cast(pa.schema([pa.field("k", pa.int64(), metadata={"PARQUET:field_id": "1"})]))
    found = list(
        in_cubes([data], nb.OTree("k", cube_rows=100), 1 << 30, rows_before=0, file_bytes=1 << 20)
    )
    assert sum(item.rows.num_rows for item in found) == 4000
    assert max(item.rows.num_rows for item in found) <= 200
    for item in found:
        weights = item.rows[WEIGHT].to_pylist()
        assert weights == sorted(weights)
        assert (item.cubes.cubes[0].least, item.cubes.cubes[0].most) == (weights[0], weights[-1])
