"""Filters mean what SQL and pyarrow say, for every row, and their conjuncts are implied."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from filter_cases import SCHEMA, Case, evaluate, expression_cases, sql_cases, tables
from hypothesis import example, given, settings

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Filter, parse_filter
from nimblepy.expr.nodes import Compare, In, IsValid, Opaque, StartsWith

pytestmark = pytest.mark.no_sanitizer  # Python alone

EXAMPLES = settings.get_profile(settings._current_profile).max_examples * 5  # type: ignore[attr-defined]


def check(table: pa.Table, case: Case) -> Filter:
    """The filter keeps exactly the oracle's rows, and every conjunct holds on each of them."""
    parsed = parse_filter(case.filter, table.schema)
    batch = table.combine_chunks().to_batches()[0] if table.num_rows else empty(table.schema)
    expected = [case.oracle(row) is True for row in table.to_pylist()]
    assert parsed.mask(batch).to_pylist() == expected, str(parsed)
    for row, passes in zip(table.to_pylist(), expected, strict=True):
        held = [evaluate(conjunct, row) is True for conjunct in parsed.conjuncts]
        if passes:
            assert all(held), (parsed.conjuncts, row)
            assert not parsed.matches_nothing
        elif parsed.exact and not parsed.matches_nothing:
            assert not all(held), (parsed.conjuncts, row)
    return parsed


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


@settings(max_examples=EXAMPLES)
@given(tables, sql_cases)
def test_sql_filter_equals_three_valued_oracle(table: pa.Table, case: Case) -> None:
    check(table, case)


@settings(max_examples=EXAMPLES)
@given(tables, expression_cases)
@example(pa.Table.from_pylist([{"f": 0.0}, {"f": -0.0}], schema=SCHEMA), None)
def test_expression_filter_equals_oracle_and_pyarrow(table: pa.Table, case: Case | None) -> None:
    if case is None:
        case = Case(pc.field("f").isin([0.0]), lambda r: str(r["f"]) == "0.0")
    check(table, case)
    # string_view columns cannot be filtered by pyarrow itself
    plain = table.drop_columns(["view"])
    try:
        expected = plain.filter(case.filter)
    except pa.ArrowException:
        return  # pyarrow refuses, such as an int64 too large to compare as a float
    parsed = parse_filter(case.filter, table.schema)
    kept = [row for row, keep in zip(plain.to_pylist(), masks(parsed, table), strict=True) if keep]
    assert str(kept) == str(expected.to_pylist())  # as text, for NaN


def masks(parsed: Filter, table: pa.Table) -> list[bool]:
    return [keep for batch in table.to_batches() for keep in parsed.mask(batch).to_pylist()]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("i > 1.5", "i >= 2"),
        ("i < -1.5", "i <= -2"),
        ("i = 1.5", "i in ()"),
        ("tiny = 300", "tiny in ()"),
        ("tiny < 300", "not (tiny in ())"),
        ("m > 1.501", "m >= 1.51"),
        ("d < TIMESTAMP '2020-01-01 05:00:00'", "d <= 2020-01-01"),
        ("d = '2020-01-01'", "d == 2020-01-01"),
        ("i + 1 > 5", "i > 4"),
        ("2 * (i - 1) <= 7", "i <= 4"),
        ("3 - i < 1", "i > 2"),
        ("year(d) = 2020", "d >= 2020-01-01 and d < 2021-01-01"),
        ("CAST(t AS DATE) = '2020-01-01'", "t >= 2020-01-01 00:00:00 and t < 2020-01-02 00:00:00"),
        ("date_trunc('month', t) >= '2020-01-02'", "t >= 2020-02-01 00:00:00"),
        ("t >= TIMESTAMP '2020-01-01' + INTERVAL 1 DAY", "t >= 2020-01-02 00:00:00"),
        ("b", "b == True"),
        ("NOT b", "b == False"),
        ("NOT (i < 3)", "i >= 3"),
        ("NOT (f < 3)", "f >= 3.0"),
        ("NOT (i = 1 OR j = 2)", "i != 1 and j != 2"),
        ("i NOT BETWEEN 1 AND 2", "i < 1 or i > 2"),
        ("s LIKE 'ab%'", "s starts with 'ab'"),
        ("s LIKE 'ab'", "s == 'ab'"),
        ("s NOT LIKE 'a!%' ESCAPE '!'", "s != 'a%'"),
        ("starts_with(s, 'ab')", "s starts with 'ab'"),
        ("loc.lat >= 1", "loc.lat >= 1.0"),
        ("loc.k = 1 + 2", "loc.k == 3"),
        ("1 = 1", "true"),
        ("i = NULL", "unknown"),
        ("i IS NOT DISTINCT FROM 3", "i is not null and i == 3"),
        ("i = -(-3)", "i == 3"),
        ("CAST('2020-01-01' AS DATE) = d", "d == 2020-01-01"),
        ("g = 0.1", "g == 0.10000000149011612"),
        ("f = 'NaN'", "f == nan"),
        ("raw = 'a'", "raw == b'a'"),
    ],
)
def test_sql_becomes_exact_tree(text: str, tree: str) -> None:
    assert str(parse_filter(text, SCHEMA)) == tree


@pytest.mark.parametrize(
    ("filter", "conjuncts"),
    [
        ("i = 1 OR i IN (2, 3)", ["i in (1, 2, 3)"]),
        ("i = 1 AND s LIKE 'a%b'", ["i == 1", "s starts with 'a'"]),
        ("i = 1 AND i + j > 3", ["i == 1"]),
        ("i = 1 OR i + j > 3", []),
        ("NOT (f < 3)", ["f >= 3.0"]),
        (~(pc.field("f") < 3), ["f is not null"]),
        ("b IS TRUE", ["b is not null", "b == True"]),
        (pc.field("i").isin([1, 2]), ["i is not null", "i in (1, 2)"]),
        (pc.field("i").isin([1, None]), ["i is null or i in (1)"]),
        (pc.field("tiny").cast(pa.int64()) > 3, ["tiny > 3"]),
        (pc.field("i").cast(pa.int8()) > 3, []),
        (pc.field("f").isin([1.0]), ["f is not null", "f in (1.0)"]),
        (pc.field("loc.lat") > 1, ["loc.lat > 1.0"]),
        (pc.scalar(3) < pc.field("i"), ["i > 3"]),
        (pc.starts_with(pc.field("s"), "ab"), ["s starts with 'ab'"]),
        (pc.starts_with(pc.field("s"), "ab", ignore_case=True), []),
    ],
)
def test_conjuncts_are_what_an_index_can_use(
    filter: str | pc.Expression, conjuncts: list[str]
) -> None:
    assert [str(part) for part in parse_filter(filter, SCHEMA).conjuncts] == conjuncts


def test_long_is_in_list_is_understood_whole() -> None:
    parsed = parse_filter(pc.field("i").isin(list(range(1000))), SCHEMA)
    (members,) = [part for part in parsed.conjuncts if isinstance(part, In)]
    assert [value.as_py() for value in members.values] == list(range(1000))


@pytest.mark.parametrize("name", ["a'b", "a\nb", "x'\nliteral: '0", "end: 'call'", " ", "é"])
def test_odd_column_names_do_not_confuse_expression_reading(name: str) -> None:
    schema = pa.schema([(name, pa.int64()), ("other", pa.int64())])
    parsed = parse_filter((pc.field(name) > 3) & (pc.field("other") == 1), schema)
    batch = pa.RecordBatch.from_pylist([{name: 4, "other": 1}, {name: 3, "other": 1}], schema)
    assert parsed.mask(batch).to_pylist() == [True, False]


def test_opaque_filter_needs_only_columns_it_reads() -> None:
    expression = pc.if_else(pc.field("b"), pc.field("i"), pc.field("loc", "k")) > 1
    parsed = parse_filter(expression, SCHEMA)
    assert set(parsed.columns) == {("b",), ("i",), ("loc", "k")}
    rounded = parse_filter(pc.round(pc.field("f"), ndigits=1) > 1, SCHEMA)  # options not rebuilt
    assert rounded.columns == (("f",),)
    assert isinstance(rounded.node, Opaque)


def test_run_end_encoded_and_nested_columns_are_evaluated() -> None:
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", None]))
    batch = pa.record_batch({"r": runs, "n": [{"x": 1}, None, {"x": None}]})
    assert parse_filter("r = 'a'", batch.schema).mask(batch).to_pylist() == [True, True, False]
    assert parse_filter("n.x IS NULL", batch.schema).mask(batch).to_pylist() == [False, True, True]


def test_zoned_column_reads_text_in_its_own_zone() -> None:
    schema = pa.schema([("z", pa.timestamp("us", "Europe/Paris"))])
    (node,) = parse_filter("z >= '2020-07-01'", schema).conjuncts
    assert isinstance(node, Compare)
    assert node.value.cast(pa.timestamp("us", "UTC")).as_py() == datetime.datetime(
        2020, 6, 30, 22, tzinfo=datetime.UTC
    )
    with pytest.raises(InvalidArgumentError, match="time zone"):
        parse_filter("t >= TIMESTAMPTZ '2020-07-01 00:00:00+00'", SCHEMA)


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("", "empty"),
        ("i >", r"syntax error near '>' at line 1, column 3"),
        ("i > 3 ORDER BY i", "near 'ORDER BY' at"),
        ("i > 3; DROP TABLE t", "near ';' at"),
        ("loc.lta > 1", "unknown column 'loc.lta'; did you mean 'loc.lat'"),
        ("tinyy > 1", "did you mean 'tiny'"),
        ("s > 3", "cannot compare a string column with 3"),
        ("i = 'abc'", "'abc' is not a value of type int64"),
        ("d > '2020-13-01'", "'2020-13-01' is not a value of type date32"),
        ("i IN (SELECT 1)", "not a query"),
        ("count(*) > 1", "not supported in a filter"),
        ("s ~ 'a'", "use regexp_matches or regexp_full_match"),
        ("s !~ 'a'", "use regexp_matches or regexp_full_match"),
        ("i", "not a condition"),
        ("i + 1", "must be boolean"),
        ("s = i", "cannot compare a string column with a int64 column"),
        ("i + 1 > 'x' || s", "Cannot compare"),
        ("i IN (1, 2) AND regexp_nothing(s)", "function regexp_nothing is not supported"),
        ("i + (SELECT 1) > 2", "not a query"),
        ("list_transform([i], x -> x) = [1]", "not supported in a filter"),
        ("now() > t", "give the time as a parameter"),
        ("sum(i) OVER () > 1", "not supported in a filter"),
        ("read_text(s) = 'x'", "function read_text is not supported"),
        ("getenv(s) = 'x'", "function getenv is not supported"),
        ("abs(" * 60 + "i" + ")" * 60 + " = 1", "nested too deep"),
        ("(" * 101 + "i = 1" + ")" * 101, "nested more than 100 levels deep"),
        ("abs(i) = " + "1" * 100_001, "more than 100000 characters"),
        ("abs(i) = 1 +", r"at line 1, column"),
        ("i LIKE 'a%'", "LIKE needs a string"),
        (pc.field("nope") > 1, "unknown column 'nope'"),
        (pc.field("i") + 1, "must be boolean"),
        (pc.field("s") > 1, "no kernel"),
        (42, "expected a pyarrow.compute.Expression or SQL text, got int"),
    ],
)
def test_bad_filter_is_refused_with_reason(filter: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_filter(filter, SCHEMA)  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [20, 3000])
def test_text_may_be_long_and_nest(length: int) -> None:
    """Long chains of operators have no limit; brackets nest to a limit."""
    table = pa.RecordBatch.from_pylist([{"i": 1, "s": "a"}, {"i": 2, "s": "b"}], SCHEMA)
    depth = min(length, 20)
    either = "i = 1"
    for n in range(depth):
        either = f"({either} {'OR' if n % 2 else 'AND'} i <> {n + 10})"
    texts = [
        "(" * depth + "i = 1" + ")" * depth,
        "abs(" * depth + "i" + ")" * depth + " = 1",
        "CASE WHEN i = 1 THEN 1 ELSE " * depth + "2" + " END" * depth + " = 1",
        " + ".join(["i"] * min(length, 500)) + f" = {min(length, 500)}",
        "NOT " * (2 * (length // 2)) + "i = 1",
        " OR ".join(f"i = {n}" for n in range(3, length)) + " OR i = 1",
    ]
    for text in texts:
        assert parse_filter(text, SCHEMA).mask(table).to_pylist() == [True, False], text[:50]
    assert parse_filter(either, SCHEMA).mask(table).to_pylist() == [True, True]


def test_nodes_name_column_type_and_value() -> None:
    (node,) = parse_filter("word LIKE 'a%'", SCHEMA).conjuncts
    assert isinstance(node, StartsWith)
    assert node.column.value_type == pa.string()
    (valid,) = parse_filter("word IS NOT NULL", SCHEMA).conjuncts
    assert isinstance(valid, IsValid)
