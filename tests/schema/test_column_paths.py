"""A column is a path: the field ``b`` of ``a`` and a column named ``a.b`` are never taken for
each other, in filters, columns, indexes, zone maps, Bloom filters, datasets and joins."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from nimblepy.expr.filter import parse_filter
from nimblepy.schema.columns import Column, resolve_column, resolve_sql

pytestmark = pytest.mark.sanitizer

N = 5000
INSIDE = np.arange(N)  # the field a.b
BESIDE = INSIDE[::-1].copy()  # the column "a.b"
STRUCT = pa.StructArray.from_arrays([pa.array(INSIDE), pa.array(INSIDE.astype(str))], ["b", "s"])
TABLE = pa.table({"k": pa.array(range(N)), "a": STRUCT, "a.b": BESIDE})


@pytest.fixture(scope="module", params=["plain", "blooms", "index of the column", "dataset"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    directory = tmp_path_factory.mktemp("paths")
    options = nb.WriteOptions(stripe_rows=500, zone_rows=100)
    indexes: list[object] = []
    if request.param == "blooms":
        options = nb.WriteOptions(stripe_rows=500, bloom_columns=["a.b"])
    if request.param == "index of the column":
        indexes = [nb.SortedIndex("a.b")]
    if request.param == "dataset":
        for i in range(4):
            part = TABLE.slice(i * N // 4, N // 4)
            nb.write(part, directory / f"{i}.nimble", cluster_by="k", options=options)
        return nb.open_dataset(directory)
    nb.write(TABLE, directory / "f.nimble", cluster_by="k", options=options, indexes=indexes)
    return nb.open(directory / "f.nimble")


INNER = [pc.field("a", "b") == 3, '"a"."b" = 3', "a.b = 3", "a.b IN (3)"]
OUTER = [pc.field("a.b") == 3, '"a.b" = 3', '"a.b" IN (3)', pc.field("a.b").isin([3])]


@pytest.mark.parametrize("filter", INNER)
def test_filter_of_the_field_reads_the_field(source: nb.File, filter: object) -> None:
    assert source.scan(["k"], filter=filter).to_table().column("k").to_pylist() == [3]
    assert source.scan(filter=filter).count() == 1


@pytest.mark.parametrize("filter", OUTER)
def test_filter_of_the_dotted_name_reads_that_column(source: nb.File, filter: object) -> None:
    assert source.scan(["k"], filter=filter).to_table().column("k").to_pylist() == [N - 4]
    assert source.scan(filter=filter).count() == 1


def test_both_in_one_filter(source: nb.File) -> None:
    text = 'a.b < 10 AND "a.b" + 0 >= 4995'
    assert source.scan(["k"], filter=text).to_table().column("k").to_pylist() == [0, 1, 2, 3, 4]
    either = (pc.field("a", "b") == 7) | (pc.field("a.b") == 7)
    assert source.scan(["k"], filter=either).to_table().column("k").to_pylist() == [7, N - 8]


def test_columns_by_name_and_by_path(source: nb.File) -> None:
    assert source.to_table(source.schema.names).equals(source.to_table())
    named = source.take([3], ["a.b"])
    assert named.to_pylist() == [{"a.b": N - 4}]
    path = source.take([3], [("a", "b"), "k"])
    assert path.to_pylist() == [{"a.b": 3, "k": 3}]
    assert source.get(3, [("a", "b")]) == {"a.b": 3}
    assert source.get(3, ["a.b"]) == {"a.b": N - 4}
    with pytest.raises(nb.InvalidArgumentError, match="given twice"):
        source.to_table(["a.b", ("a", "b")])


def test_explain_tells_the_two_apart(source: nb.File) -> None:
    assert '"a.b" == 3' in str(source.scan(filter='"a.b" = 3').explain())
    inner = str(source.scan(filter="a.b = 3").explain())
    assert "a.b == 3" in inner
    assert '"a.b"' not in inner


def test_join_condition_tells_the_two_apart(source: nb.File) -> None:
    probe = pa.table({"k": [3, N - 4]})
    for condition, keys in (("a.b = 3", [3]), ('"a.b" = 3', [N - 4])):
        joined = nb.index_join(probe, source, on="k", condition=condition)
        assert joined.column("k").to_pylist() == keys


def test_on_is_the_column_of_that_name(tmp_path: Path) -> None:
    nb.write(TABLE, tmp_path / "f.nimble", cluster_by="k", indexes=[nb.HashIndex("a.b")])
    file = nb.open(tmp_path / "f.nimble")
    assert file.get(3, ["k"], on="a.b") == {"k": N - 4}


def test_keys_and_on_are_paths(tmp_path: Path) -> None:
    """A SortKey or `on=` could not mean the field where a column has its dotted name."""
    order = nb.SortKey(("a", "b"), descending=True)
    indexes = [nb.HashIndex([("a", "s")]), nb.SortedIndex(["a.b"]), nb.SortedIndex([("a", "b")])]
    for i, rows in enumerate((TABLE.slice(0, 2000), TABLE.slice(2000))):
        nb.write(rows, tmp_path / f"{i}.nimble", cluster_by=[order], indexes=indexes[:2])
    nb.write(TABLE, tmp_path / "one", cluster_by=[("a", "b")], indexes=indexes[:2], unique=True)
    file, ds = nb.open(tmp_path / "one"), nb.open_dataset(tmp_path)
    assert file.cluster_by == [nb.SortKey(("a", "b"))]
    assert ds.cluster_by == [order]
    assert pickle.loads(pickle.dumps(ds)).cluster_by == [order]
    inner = [("a", "b")]
    for rows in (file, ds):
        for on in (None, inner):
            assert rows.get(3, ["k"], on=on) == {"k": 3}
            assert rows.lookup([3, 4], columns=["k"], on=on)["k"].to_pylist() == [3, 4]
            assert rows.count([3, -1], on=on).to_pylist() == [1, 0]
            assert rows.prefix(9, columns=["k"], on=on)["k"].to_pylist() == [9]
            assert "cluster" in rows.explain([3], on=on).index
        assert rows.lookup(pa.table({"a.b": [3]}), columns=["k"])["k"].to_pylist() == [3]
        assert rows.get(3, ["k"], on="a.b") == {"k": N - 4}
        assert rows.range(3, 4, columns=["k"], on="a.b")["k"].to_pylist() == [N - 4]
        assert rows.get("7", ["k"], on=[("a", "s")]) == {"k": 7}
        probe = pa.table({"p": [5]})
        assert rows.index_join(probe, on={"p": ("a", "b")}, columns=["k"])["k"].to_pylist() == [5]
        assert rows.index_join(probe, on={"p": "a.b"}, columns=["k"])["k"].to_pylist() == [N - 6]
        for filter in INNER:
            assert "cluster" in str(rows.scan(filter=filter).explain())
    assert file.range(3, 5, columns=["k"], on=inner)["k"].to_pylist() == [3, 4]
    assert ds.range(5, 3, columns=["k"])["k"].to_pylist() == [5, 4]
    with pytest.raises(nb.InvalidArgumentError, match="has the index"):
        nb.add_index(tmp_path / "one", nb.HashIndex(["a.s"]))
    nb.add_index(tmp_path / "one", indexes[2])
    left = nb.drop_index(tmp_path / "one", [("a", "b")])
    shown = [str(key) for info in left for key in info.columns]
    assert shown == ['"a"."b"', "a.s", "a.b"]
    with pytest.raises(nb.InvalidArgumentError, match="more than once"):
        nb.write(TABLE, tmp_path / "two", cluster_by=["k", ("k",)])
    for wrong in ((), ("a", ""), ("a", 1), ""):
        with pytest.raises(nb.InvalidArgumentError, match="SortKey"):
            nb.SortKey(wrong)  # type: ignore[arg-type]


def test_functions_with_options_take_dotted_names() -> None:
    """pc.round(pc.field("s.x"), 1) was evaluated over a column named "s.x", which is not there."""
    batch = pa.record_batch({"s": [{"x": 1.44, "t": "ab"}, {"x": 1.56, "t": "cd"}]})
    for filter in (
        pc.round(pc.field("s.x"), 1) > 1.5,
        pc.utf8_slice_codeunits(pc.field("s.t"), 1, 2) == "d",
        pc.round_to_multiple(pc.field("s.x"), 0.1) > 1.5,
    ):
        assert parse_filter(filter, batch.schema).mask(batch).to_pylist() == [False, True]


def test_a_field_where_no_column_has_the_dotted_name(tmp_path: Path) -> None:
    table = TABLE.drop_columns(["a.b"])
    nb.write(table, tmp_path / "f.nimble", cluster_by="a.b", indexes=[nb.HashIndex("a.s")])
    file = nb.open(tmp_path / "f.nimble")
    assert file.get(3, ["k"]) == {"k": 3}
    assert file.get("7", ["a.b"], on="a.s") == {"a.b": 7}
    for filter in [*INNER, pc.field("a.b") == 3]:
        assert file.scan(filter=filter).count() == 1
        assert "cluster index" in str(file.scan(filter=filter).explain())


def test_a_dotted_column_where_no_struct_is(tmp_path: Path) -> None:
    nb.write(TABLE.drop_columns(["a"]), tmp_path / "f.nimble", cluster_by="a.b")
    file = nb.open(tmp_path / "f.nimble")
    for filter in [*OUTER, "a.b = 3"]:
        assert file.scan(filter=filter).count() == 1


@pytest.mark.parametrize(("filter", "hint"), [('"a.b" = 1', "'a.b'"), ("c.d = 1", "'\"c.dd\"'")])
def test_what_is_missing_is_told_from_what_is_meant(filter: str, hint: str) -> None:
    schema = pa.schema({"a": pa.struct({"b": pa.int64()}), "c.dd": pa.int64()})
    with pytest.raises(nb.InvalidArgumentError) as error:
        parse_filter(filter, schema)
    wanted, hints = str(error.value).split("did you mean")
    assert hint in hints
    assert hint not in wanted.split("unknown column")[1]


def test_resolution() -> None:
    inner = pa.struct({"b": pa.struct({"c": pa.int8()}), "b.c": pa.int16()})
    schema = pa.schema({"a": inner, "a.b": pa.struct({"c": pa.int32()}), "x": pa.int64()})

    def found(column: Column) -> tuple[tuple[str, ...], tuple[int, ...], pa.DataType]:
        return column.path, column.steps, column.type

    assert found(resolve_column(schema, "a.b.c")) == (("a.b", "c"), (1, 0), pa.int32())
    assert found(resolve_sql(schema, ["a", "b", "c"], quoted=False)) == (
        ("a", "b", "c"),
        (0, 0, 0),
        pa.int8(),
    )
    assert found(resolve_column(schema, ["a", "b.c"])) == (("a", "b.c"), (0, 1), pa.int16())
    assert str(resolve_column(schema, ["a", "b.c"])) == 'a."b.c"'
    for name in (["x", "y"], ["a", "b", "c", "d"], ["a.b.c"], [], "x.y", ""):
        with pytest.raises(nb.InvalidArgumentError, match="unknown column"):
            resolve_column(schema, name)
    for bad in (5, ["a", 1], None):
        with pytest.raises(nb.InvalidArgumentError, match="column name"):
            resolve_column(schema, bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("K = 1", ("k",)),
        ('"K" = 1', ("k",)),
        ("LOC.Lat = 1", ("loc", "lat")),
        ("b = 1", ("b",)),
        ("B = 1", ("B",)),
    ],
)
def test_names_in_sql_fold_case_unless_that_is_ambiguous(text: str, path: tuple[str, ...]) -> None:
    schema = pa.schema(
        {"k": pa.int64(), "loc": pa.struct({"lat": pa.int64()}), "b": pa.int8(), "B": pa.int8()}
    )
    assert parse_filter(text, schema).columns == (path,)
    twice = pa.schema({"ab": pa.int64(), "AB": pa.int64()})
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'Ab'; did you mean"):
        parse_filter("Ab = 1", twice)
