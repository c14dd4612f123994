"""`scan_polars` answers as polars does over the same frame in memory, whatever the query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nimblepy as nb

pytestmark = pytest.mark.model

pl = pytest.importorskip("polars")
testing = pytest.importorskip("polars.testing")

ENUM = pl.Enum(["w", "v", "u", "never"])
TEXTS = ["u", "v", "w", "vw", "", None]
# Each type with the values that columns have, and others that they are compared with.
KINDS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "i64": (pl.Int64, [-1, 0, 1, 2, 2**53 + 1, None], [2**53, 1.5, 2**63 - 1, 2**64]),
    "i8": (pl.Int8, [-128, 0, 1, 127, None], [300, -129, 0.5]),
    "u64": (pl.UInt64, [0, 1, 2**53, 2**64 - 1, None], [-1, 2**53 + 1, 0.5]),
    "f64": (pl.Float64, [-1.5, -0.0, 0.0, 0.1, float("nan"), float("inf"), None], [1, 2**53 + 1]),
    "f32": (pl.Float32, [-1.5, 0.0, 0.1, float("nan"), None], [1]),
    "bool": (pl.Boolean, [True, False, None], []),
    "text": (pl.String, TEXTS, ["x"]),
    "cat": (pl.Categorical, TEXTS, ["x"]),
    "enum": (ENUM, ["u", "v", "w", None], ["never", "x"]),
    "bytes": (pl.Binary, [b"", b"a", b"a\x00", b"\xff", None], [b"b"]),
    "date": (
        pl.Date,
        [dt.date(1969, 1, 1), dt.date(2024, 2, 29), None],
        [dt.datetime(2024, 2, 29)],
    ),
    "us": (
        pl.Datetime("us"),
        [dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 0, 0, 0, 1), None],
        [dt.date(2024, 2, 29)],
    ),
    "ns": (pl.Datetime("ns"), [dt.datetime(2024, 2, 29), dt.datetime(1970, 1, 1), None], []),
    "time": (pl.Time, [dt.time(0), dt.time(1, 2, 3, 4), None], []),
    "span": (pl.Duration("ms"), [dt.timedelta(0), dt.timedelta(1), None], []),
    "decimal": (pl.Decimal(9, 2), [Decimal("0.10"), Decimal(-3), None], [1, 0.1]),
}
ROWS = st.integers(0, 40)


@st.composite
def frames(draw: st.DrawFn) -> Any:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4, unique=True))
    rows = draw(ROWS)
    columns = {}
    for name in names:
        kind, values, _ = KINDS[name]
        drawn = draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))
        columns[name] = pl.Series(drawn, dtype=kind, strict=False)
    return pl.DataFrame({"row": pl.int_range(rows, eager=True), **columns})


@st.composite
def simple(draw: st.DrawFn, names: list[str]) -> Any:
    name = draw(st.sampled_from(names))
    kind, values, others = KINDS[name]
    column = pl.col(name)
    value = st.sampled_from([*values, *others, None])
    match draw(st.integers(0, 11)):
        case 0 | 1 | 2 | 3:
            op = draw(st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]))
            literal = draw(value)
            if draw(st.booleans()):
                return getattr(pl.lit(literal), op)(column)
            return getattr(column, op)(literal)
        case 4:
            members = draw(st.lists(st.sampled_from(values), max_size=3))
            return column.is_in(members, nulls_equal=draw(st.booleans()))
        case 5:
            closed = draw(st.sampled_from(["both", "left", "right", "none"]))
            return column.is_between(draw(value), draw(value), closed=closed)
        case 6:
            return draw(st.sampled_from([column.is_null(), column.is_not_null()]))
        case 7:
            return column.eq_missing(pl.lit(draw(st.sampled_from(values)), dtype=kind))
        case 8:
            return column.cast(pl.String).str.starts_with("v")
        case 9:
            typed = st.sampled_from([pl.Int8, pl.UInt64, pl.Float32, pl.Float64, pl.Int64])
            return column < pl.lit(draw(st.sampled_from([0, 1, 2])), dtype=draw(typed))
        case 10:
            return column.str.starts_with(draw(st.sampled_from(["", "v", "vw"])))
        case _:
            return pl.col("row") % 3 == draw(st.integers(0, 3))


def predicates(names: list[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        simple(names),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
            inner.map(lambda one: ~one),
        ),
        max_leaves=4,
    )


@st.composite
def queries(draw: st.DrawFn, names: list[str]) -> Callable[[Any], Any]:
    """Filters, limits and projections, one after another."""
    steps: list[Callable[[Any], Any]] = []
    for _ in range(draw(st.integers(1, 4))):
        match draw(st.integers(0, 6)):
            case 0 | 1 | 2:
                predicate = draw(predicates(names))
                steps.append(lambda frame, p=predicate: frame.filter(p))
            case 3:
                count = draw(st.integers(0, 12))
                steps.append(lambda frame, n=count: frame.head(n))
            case 4:
                count = draw(st.integers(0, 12))
                steps.append(lambda frame, n=count: frame.tail(n))
            case 5:
                at, count = draw(st.integers(-5, 12)), draw(st.integers(0, 12))
                steps.append(lambda frame, a=at, n=count: frame.slice(a, n))
            case _:
                predicate = draw(predicates(names))
                steps.append(lambda frame, p=predicate: frame.with_columns(passes=p))
    if draw(st.booleans()):
        steps.append(lambda frame: frame.select("row"))
    if draw(st.integers(0, 4)) == 0:
        steps.append(lambda frame: frame.select(pl.len()))

    def run(frame: Any) -> Any:
        for step in steps:
            frame = step(frame)
        return frame

    return run


def outcome(frame: Any, engine: str) -> Any:
    try:
        return frame.collect(engine=engine)
    except (pl.exceptions.PolarsError, OverflowError) as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")  # of polars, of comparisons that mostly are mistakes
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_queries_equal_those_of_the_frame_in_memory(tmp_path: Path, data: st.DataObject) -> None:
    frame = data.draw(frames())
    names = frame.columns[1:]
    key = data.draw(st.sampled_from([None, "row", *names]))
    indexed = data.draw(st.sampled_from([*names, None]))
    path = tmp_path / "f.nimble"
    nb.write(
        frame,
        path,
        cluster_by=key,
        indexes=[] if indexed is None else [nb.SortedIndex([indexed])],
        options=nb.WriteOptions(stripe_rows=8, group_rows=16, zone_rows=4),
    )
    with nb.open(path) as file:
        stored = pl.DataFrame(file.to_table())
        assert stored.schema == frame.schema
        lazy = nb.scan_polars(file)
        for _ in range(4):
            query = data.draw(queries(names))
            engine = data.draw(st.sampled_from(["in-memory", "streaming"]))
            want, got = outcome(query(stored.lazy()), engine), outcome(query(lazy), engine)
            if isinstance(want, type) or isinstance(got, type):
                assert want == got, query(lazy).explain()
            else:
                testing.assert_frame_equal(got, want)


def test_a_limit_below_a_filter_counts_rows_before_it(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": range(10), "v": [i % 3 for i in range(10)]})
    nb.write(frame, tmp_path / "t.nimble", indexes=[nb.HashIndex(["v"])])
    for lazy in (frame.lazy(), nb.scan_polars(tmp_path / "t.nimble")):
        below = lazy.head(5).filter(pl.col("v") == 1).collect()
        assert below["id"].to_list() == [1, 4]
        above = lazy.filter(pl.col("v") == 1).head(3).collect()
        assert above["id"].to_list() == [1, 4, 7]


def test_an_enum_orders_by_its_categories(tmp_path: Path) -> None:
    frame = pl.DataFrame({"e": pl.Series(["u", "v", "w"], dtype=ENUM)})
    nb.write(frame, tmp_path / "t.nimble")
    lazy = nb.scan_polars(tmp_path / "t.nimble")
    assert lazy.filter(pl.col("e") > "v").collect()["e"].to_list() == ["u"]


@pytest.mark.parametrize("terms", [10, 500])
def test_any_number_of_terms(tmp_path: Path, terms: int) -> None:
    """Of 500, Python's JSON reader has enough; polars itself takes seconds."""
    frame = pl.DataFrame({"id": range(100)})
    nb.write(frame, tmp_path / "t.nimble", cluster_by="id")
    predicate = pl.col("id") == -1
    for i in range(terms):
        predicate = predicate | (pl.col("id") == i * 7)
    lazy = nb.scan_polars(tmp_path / "t.nimble")
    assert lazy.filter(predicate).collect().equals(frame.filter(predicate))


def test_many_files_are_scanned_as_one_and_pushed_into(tmp_path: Path) -> None:
    for day in range(4):
        nb.write(
            pl.DataFrame({"id": range(day * 1000, day * 1000 + 1000), "day": [day] * 1000}),
            tmp_path / f"{day}.nimble",
            cluster_by="id",
        )
    want = pl.DataFrame({"id": range(4000), "day": [i // 1000 for i in range(4000)]})
    with nb.open_dataset(tmp_path) as dataset:
        for source in (dataset, tmp_path, str(tmp_path)):
            lazy = nb.scan_polars(source)
            assert lazy.collect().equals(want)
            assert lazy.head(10).filter(pl.col("id") > 7).collect()["id"].to_list() == [8, 9]
            assert lazy.filter(pl.col("id") == 2500).collect()["day"].to_list() == [2]
    with nb.open_dataset(tmp_path, mmap=False, cache_bytes=0) as dataset:
        lazy = nb.scan_polars(dataset)
        assert lazy.filter(pl.col("id") == 2500).select("day").collect()["day"].to_list() == [2]
        few = dataset.io_stats.bytes_read
        lazy.collect()
        assert 0 < few * 2 < dataset.io_stats.bytes_read


CATEGORIES = {
    "text": pa.array(["a", "b", None], pa.string_view()),
    "bytes": pa.array([b"a", b"b", None], pa.binary_view()),
    "date": pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]),
    "us": pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), None]),
    "decimal": pa.array([Decimal("1.5"), Decimal("2.5"), None], pa.decimal128(5, 2)),
    "plain": pa.array(["a", "b", None]),
}


@pytest.mark.parametrize("name", CATEGORIES)
def test_dictionaries_of_every_type_are_filtered_and_joined(tmp_path: Path, name: str) -> None:
    values = CATEGORIES[name]
    positions = pa.array([0, 1, None, 1, 2, 0], pa.uint32())
    encoded = pa.DictionaryArray.from_arrays(positions, values)
    rows = {"c": encoded, "v": [1, 2, 3, 4, 5, 6], "w": [3] * 6}
    nested = pa.StructArray.from_arrays([encoded], ["c"])
    nb.write(pa.table({**rows, "s": nested}), tmp_path / "t.nimble", cluster_by="v")
    nb.write(
        pa.table({"c": values.slice(0, 2), "n": [10, 20]}),
        tmp_path / "plain.nimble",
        cluster_by="c",
    )
    import pyarrow.compute as pc

    second = values[1].cast(pa.large_string()) if name == "text" else values[1]
    with nb.open(tmp_path / "t.nimble") as file:
        for path in (("c",), ("s", "c")):
            # `v < w` is left to pyarrow, which evaluates the whole then.
            mixed = (pc.field(*path) == second) & (pc.field("v") < pc.field("w"))
            assert file.to_table(["v"], filter=mixed).column("v").to_pylist() == [2]
            either = (pc.field(*path) != second) | (pc.field("v") == pc.field("w"))
            assert file.to_table(["v"], filter=either).column("v").to_pylist() == [1, 3, 6]
        if name in ("text", "plain"):
            for text in ("c LIKE '%b'", "lower(c) = 'b'", "NOT (c = 'a')", "s.c LIKE '%b'"):
                assert file.to_table(["v"], filter=text).column("v").to_pylist() == [2, 4], text
    probe = pa.table({"c": encoded, "v": rows["v"]})
    joined = nb.index_join(probe, tmp_path / "plain.nimble", on="c")
    assert joined.select(["v", "n"]).to_pydict() == {"v": [1, 2, 4, 6], "n": [10, 20, 20, 10]}
    assert joined.schema.field("c").type == encoded.type
    passing = pc.field("v") < pc.field("n") - 17
    joined = nb.index_join(probe, tmp_path / "plain.nimble", on="c", condition=passing)
    assert joined.column("v").to_pylist() == [2]
