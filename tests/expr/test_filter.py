"""Filters keep exactly the rows they should: Arrow expressions (judge: pa.Table.filter) and SQL
(judge: a for-loop).

Stripes and zones are tiny, so that every wrong proof from a zone map or an index loses rows here.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from answers import pick
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]
Row = dict[str, Any]
N = 300


def _table() -> pa.Table:
    rng = np.random.default_rng(21)

    def some(values: list[Any], nulls: float = 0.15) -> list[Any]:
        return [
            None if rng.random() < nulls else values[rng.integers(len(values))] for _ in range(N)
        ]

    floats = [-math.inf, -1.5, -0.0, 0.0, 0.5, 3.0, math.inf, math.nan]
    days = [dt.date(2020, 1, d) for d in range(1, 29)]
    return pa.table(
        {
            "k": pa.array(sorted(rng.integers(0, 60, N).tolist()), pa.int64()),
            "i": pa.array(some(list(range(-5, 15))), pa.int32()),
            "u": pa.array(some([0, 1, 2**63, 2**64 - 1]), pa.uint64()),
            "f": pa.array(some(floats), pa.float64()),
            "s": pa.array(
                some(["", "a", "ab", "abc", "b", "it's", "100%", "x_y", "é", "𝄞"]), pa.utf8()
            ),
            "b": pa.array(some([True, False]), pa.bool_()),
            "day": pa.array(some(days), pa.date32()),
            "dec": pa.array(
                some([Decimal("0.50"), Decimal("-1.25"), Decimal("99.99")]), pa.decimal128(10, 2)
            ),
            "cat": pa.array(some(["red", "green"]), pa.utf8()).dictionary_encode(),
            "loc": pa.array(
                some([{"lat": 1.5, "n": 1}, {"lat": None, "n": 2}, {"lat": -2.0, "n": 3}])
            ),
            "nothing": pa.array([None] * N, pa.int64()),
            "row": pa.array(range(N), pa.int64()),
        }
    )


TABLE = _table()
ROWS = TABLE.to_pylist()
LAYOUTS = [
    {"stripe_rows": 16, "group_rows": 48, "zone_rows": 4, "key_chunk_rows": 3},
    {"stripe_rows": 1_000, "zone_rows": 8},
    {"stripe_rows": 50, "statistics": False},
]


@pytest.fixture(params=range(len(LAYOUTS)), ids=["tiny", "one stripe", "no statistics"])
def file(store: Store, request: pytest.FixtureRequest) -> Any:
    options = nb.WriteOptions(**LAYOUTS[request.param])
    return store(TABLE, cluster_by="k", presorted=True, options=options)


def known(test: Callable[..., bool], *names: str) -> Callable[[Row], bool | None]:
    """A comparison that is unknown (None) when one of its columns is null."""
    return lambda r: None if any(r[n] is None for n in names) else test(*[r[n] for n in names])


SQL: list[tuple[str, Callable[[Row], bool | None]]] = [
    ("i > 3", known(lambda i: i > 3, "i")),
    ("i >= 3 and i <= 5", known(lambda i: 3 <= i <= 5, "i")),
    ("3 < i", known(lambda i: i > 3, "i")),
    ("i = -5", known(lambda i: i == -5, "i")),
    ("i <> 7", known(lambda i: i != 7, "i")),
    ("i != 7", known(lambda i: i != 7, "i")),
    ("NOT (i > 3)", known(lambda i: not i > 3, "i")),
    ("i > 3 AND k = 7", lambda r: r["i"] is not None and r["i"] > 3 and r["k"] == 7),
    ("i > 3 OR s = 'ab'", lambda r: (r["i"] is not None and r["i"] > 3) or r["s"] == "ab"),
    ("i IN (1, 2, 99)", known(lambda i: i in (1, 2, 99), "i")),
    ("i NOT IN (1, 2)", known(lambda i: i not in (1, 2), "i")),
    ("i NOT IN (1, NULL)", lambda r: None if r["i"] != 1 else False),
    ("i IN (1, NULL)", known(lambda i: i == 1, "i")),
    ("i BETWEEN 2 AND 4", known(lambda i: 2 <= i <= 4, "i")),
    ("i NOT BETWEEN 2 AND 4", known(lambda i: not 2 <= i <= 4, "i")),
    ("i IS NULL", lambda r: r["i"] is None),
    ("i IS NOT NULL", lambda r: r["i"] is not None),
    ("i = NULL", lambda r: None),
    ("nothing IS NULL", lambda r: True),
    ("nothing = 1 OR nothing <> 1", lambda r: None),
    ("s LIKE 'ab%'", known(lambda s: s.startswith("ab"), "s")),
    ("s LIKE '%b'", known(lambda s: s.endswith("b"), "s")),
    ("s LIKE '_b%'", known(lambda s: len(s) >= 2 and s[1] == "b", "s")),
    ("s LIKE 'a'", known(lambda s: s == "a", "s")),
    ("s LIKE '%'", known(lambda s: True, "s")),
    ("s LIKE '_'", known(lambda s: len(s) == 1, "s")),
    ("s NOT LIKE 'a%'", known(lambda s: not s.startswith("a"), "s")),
    ("s = 'it''s'", known(lambda s: s == "it's", "s")),
    ("s > 'ab'", known(lambda s: s > "ab", "s")),
    ("s = ''", known(lambda s: s == "", "s")),
    ("s IN ('a', '𝄞')", known(lambda s: s in ("a", "𝄞"), "s")),
    ("f > 0.25", known(lambda f: f > 0.25 or f != f, "f")),  # NaN is greatest
    ("f = 0", known(lambda f: f == 0, "f")),
    ("f <= 3", known(lambda f: f <= 3, "f")),
    ("i > 2.5", known(lambda i: i > 2.5, "i")),
    ("i = 2.5", known(lambda i: False, "i")),
    ("i < 10000000000", known(lambda i: True, "i")),
    ("u > 9223372036854775808", known(lambda u: u > 2**63, "u")),
    ("u >= -1", known(lambda u: True, "u")),
    ("b", known(lambda b: b, "b")),
    ("NOT b", known(lambda b: not b, "b")),
    ("b = true", known(lambda b: b, "b")),
    ("dec > 0.49", known(lambda d: d > Decimal("0.49"), "dec")),
    ("dec = 99.99", known(lambda d: d == Decimal("99.99"), "dec")),
    ("day >= DATE '2020-01-15'", known(lambda d: d >= dt.date(2020, 1, 15), "day")),
    ("cat = 'red'", known(lambda c: c == "red", "cat")),
    (
        "loc.lat > 0",
        lambda r: r["loc"] is not None and r["loc"]["lat"] is not None and r["loc"]["lat"] > 0,
    ),
    ("loc.lat IS NULL", lambda r: r["loc"] is None or r["loc"]["lat"] is None),
    ('"i" > 3', known(lambda i: i > 3, "i")),
    ("k = 7", lambda r: r["k"] == 7),
    ("k >= 10 AND k < 20 AND s IS NOT NULL", lambda r: 10 <= r["k"] < 20 and r["s"] is not None),
    ("k IN (3, 50, 1000)", lambda r: r["k"] in (3, 50, 1000)),
    ("k < 0", lambda r: False),
    ("(i > 3 AND (k = 7 OR k = 8)) OR NOT (b OR i IS NULL)", lambda r: _parenthesised(r)),
]


def _parenthesised(r: Row) -> bool:
    left = r["i"] is not None and r["i"] > 3 and r["k"] in (7, 8)
    return left or (r["b"] is False and r["i"] is not None)


@pytest.mark.parametrize(("sql", "predicate"), SQL, ids=[sql for sql, _ in SQL])
def test_filter_sql_equals_a_loop_over_the_rows(
    file: Any, sql: str, predicate: Callable[[Row], bool | None]
) -> None:
    want = oracle.filter_rows(ROWS, predicate)
    assert file.scan(["row"], filter=sql).to_table().column("row").to_pylist() == want
    assert file.scan(filter=sql).count() == len(want)
    assert_same_table(file.to_table(filter=sql), pick(TABLE, want))


I, F, S, K = (pc.field(name) for name in "ifsk")  # noqa: E741
EXPRESSIONS = [
    I > 3,
    I == 2,
    I != 2,
    ~(I > 3),
    (I > 3) & (K < 30),
    (I > 3) | (S == "ab"),
    I.isin([1, 2, 99]),
    ~I.isin([1, 2]),
    I.is_null(),
    I.is_valid(),
    ~I.is_null(),
    pc.field("nothing").is_null(),
    pc.field("nothing") > 1,
    F > 0,
    F < 0,
    F == 0,
    F != 3.0,
    -math.inf <= F,
    math.inf >= F,
    math.inf < F,
    math.nan == F,
    math.nan != F,
    F.is_nan(),
    F.is_null(nan_is_null=True),
    F.isin([0.5, math.nan]),
    ~(F > 0),
    S > "ab",
    S <= "",
    S.isin(["it's", "𝄞"]),
    pc.starts_with(S, "a"),
    pc.match_substring(S, "b"),
    pc.field("u") == pa.scalar(2**64 - 1, pa.uint64()),
    pc.field("b"),
    ~pc.field("b"),
    pc.field("day") < dt.date(2020, 1, 5),
    pc.field("dec") >= Decimal("0.50"),
    pc.field("cat") == "green",
    pc.field("loc", "lat") > 0,
    pc.field(("loc", "n")) == 2,
    K == 7,
    (K >= 7) & (K <= 9),
    (K == 7) & (I > 0),
    K.isin([3, 4, 59]),
    I + 1 > K,
    pc.utf8_length(S) == 3,
    I.cast(pa.float64()) < 0.5,
    pc.scalar(True),
    pc.scalar(False),
    pc.scalar(None) == I,
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_filter_arrow_expression_equals_pyarrow(file: Any, expression: pc.Expression) -> None:
    want = TABLE.filter(expression).column("row").to_pylist()
    assert file.scan(["row"], filter=expression).to_table().column("row").to_pylist() == want
    assert file.scan(filter=expression).count() == len(want)
    limited = file.scan(["s", "row"], filter=expression, limit=3, row_range=(10, 290)).to_table()
    assert limited.column("row").to_pylist() == [row for row in want if 10 <= row < 290][:3]


_leaves = st.one_of(
    st.builds(
        lambda name, op, value: getattr(pc.field(name), op)(value),
        st.sampled_from("ik"),
        st.sampled_from(["__lt__", "__le__", "__eq__", "__ne__", "__ge__", "__gt__"]),
        st.integers(-6, 61),
    ),
    st.builds(
        lambda op, value: getattr(pc.field("f"), op)(value),
        st.sampled_from(["__lt__", "__le__", "__eq__", "__ne__", "__ge__", "__gt__"]),
        st.sampled_from([-math.inf, -1.5, 0.0, -0.0, 0.3, 3.0, math.inf, math.nan]),
    ),
    st.builds(
        lambda op, value: getattr(pc.field("s"), op)(value),
        st.sampled_from(["__lt__", "__le__", "__eq__", "__ne__", "__ge__", "__gt__"]),
        st.sampled_from(["", "a", "aa", "ab", "zz", "é", "\0"]),
    ),
    st.builds(lambda name: pc.field(name).is_null(), st.sampled_from("ifs")),
    st.builds(
        lambda values: pc.field("k").isin(values),
        st.lists(st.integers(-1, 61), min_size=1, max_size=4),
    ),
)
_expressions = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(lambda e: ~e),
    ),
    max_leaves=6,
)


@given(
    expressions=st.lists(_expressions, min_size=10, max_size=10), layout=st.sampled_from(LAYOUTS)
)
def test_filter_any_expression_and_layout_equals_pyarrow(
    store: Store, expressions: list[pc.Expression], layout: dict[str, Any]
) -> None:
    file = store(TABLE, cluster_by="k", presorted=True, options=nb.WriteOptions(**layout))
    for expression in expressions:
        want = TABLE.filter(expression).column("row").to_pylist()
        got = file.scan(["row"], filter=expression).to_table().column("row").to_pylist()
        assert got == want, str(expression)


def test_filter_skips_stripes_it_can_rule_out(store: Store, path: str) -> None:
    n = 100_000
    table = pa.table({"t": pa.array(range(n), pa.int64()), "v": np.random.default_rng(0).random(n)})
    store(table, options=nb.WriteOptions(stripe_rows=5_000, zone_rows=1_000))
    file = nb.open(path, mmap=False)
    file.reset_io_stats()
    assert file.scan(["v"], filter="t >= 50010 AND t < 50020").to_table().num_rows == 10
    assert file.io_stats.bytes_read < file.size_bytes / 5


@pytest.mark.parametrize(
    "bad",
    [
        "nope > 3",
        "i >",
        "i > 'text'",
        "s > 3",
        "",
        "i",
        "SELECT 1",
        "i > 3; DROP",
        "unknown_function(i) > 1",
        pc.field("nope") > 1,
        5,
        "loc.nope = 1",
    ],
    ids=str,
)
def test_filter_that_makes_no_sense_is_refused(file: Any, bad: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError):
        file.scan(filter=bad).to_table()


def test_filter_error_names_the_unknown_column(file: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="nope"):
        file.to_table(filter="nope = 1")
