"""The tool ``query``: honest questions are answered as DuckDB answers them, attacks are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from agent_lake import CUSTOMERS, ORDERS, PAY, WIDE
from agent_queries import honest, hostile

from nimblepy.errors import InvalidArgumentError
from nimblepy.mcp.answers import Answers
from nimblepy.mcp.budget import Cuts
from nimblepy.mcp.lake import SharedLake
from nimblepy.mcp.sql import checked_query
from nimblepy.mcp.workers import QueryError

_TABLES = {
    "shop.orders": ORDERS,
    "shop.customers": CUSTOMERS,
    "lab.wide": WIDE,
    "staff.pay": PAY,
}


@pytest.fixture(scope="module")
def answers(place: Path) -> Iterator[Answers]:
    answers = Answers(SharedLake(str(place)))
    yield answers
    answers.workers.close()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    """DuckDB over the same rows, which gets the text as it is."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for number, (name, rows) in enumerate(_TABLES.items()):
        namespace, short = name.split(".")
        connection.register(f"r{number}", rows)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {namespace}")
        connection.execute(f"CREATE TABLE {namespace}.{short} AS FROM r{number}")
    return connection


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12) or (left != left and right != right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_honest_queries_are_answered_as_by_duckdb(
    answers: Answers, plain: duckdb.DuckDBPyConnection, step: int
) -> None:
    questions = honest()
    assert len(questions) >= 200
    for sql in questions[::step]:
        cursor = plain.execute(sql)
        names = [column[0] for column in cursor.description]
        expected = [Cuts().plain(row) for row in cursor.fetchall()]
        answer = answers.query(sql, max_rows=1000, max_tokens=25_000)
        assert "cut" not in answer, sql
        assert _same(answer["rows"], expected), sql
        if "(" not in "".join(names):
            assert answer["columns"] == names, sql


def test_rendered_queries_mean_what_was_written(plain: duckdb.DuckDBPyConnection) -> None:
    for sql in honest():
        rendered = checked_query(sql, set(_TABLES)).sql
        assert str(plain.execute(rendered).fetchall()) == str(plain.execute(sql).fetchall()), sql


def test_hostile_queries_are_refused(answers: Answers, folder: Path) -> None:
    attacks = hostile(str(folder / "secret.csv"))
    assert len(attacks) >= 300
    before = sorted(folder.rglob("*"))
    passed = []
    for sql in attacks:
        try:
            checked_query(sql, answers.lake.tables())
        except InvalidArgumentError:
            continue
        try:
            passed.append((sql, answers.query(sql, max_ms=500)))
        except QueryError:
            continue
    assert passed == []
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from shop.orders a, shop.orders b, shop.orders c, shop.orders d",
        "select length(string_agg(concat(a.note, b.note), '')) from shop.orders a, shop.orders b, "
        "shop.orders c",
        "with a as (select replace('aaaaaaaaaa', 'a', 'aaaaaaaaaa') x), b as (select "
        "replace(x, 'a', x) x from a), c as (select replace(x, 'a', x) x from b) "
        "select length(replace(x, 'a', x)) from c",
    ],
)
def test_limits_of_time_and_memory(answers: Answers, sql: str) -> None:
    with pytest.raises(QueryError, match=r"stopped|memory"):
        answers.query(sql, max_ms=600)
    assert answers.query("select 1")["rows"] == [[1]]


def test_limits_of_arguments(answers: Answers) -> None:
    for arguments in ({"max_rows": 1001}, {"max_rows": 0}, {"max_ms": 60_001}, {"max_tokens": 1}):
        with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
            answers.query("select 1", **arguments)


def test_pages_have_all_rows_of_one_snapshot(answers: Answers) -> None:
    sql = "select order_id, note from shop.orders where gift order by order_id"
    rows, cursor, pages = [], None, 0
    while True:
        answer = answers.query(sql, max_rows=40, cursor=cursor)
        rows += [row[0] for row in answer["rows"]]
        pages += 1
        if "cursor" not in answer:
            break
        assert "max_rows 40" in answer["cut"]
        cursor = answer["cursor"]
    assert rows == list(range(0, 600, 4))
    assert pages == 4
    small = answers.query(sql, max_rows=150, max_tokens=400)
    assert "max_tokens 400" in small["cut"]
    assert small["cursor"].startswith(f"{len(small['rows'])}.")
    with pytest.raises(InvalidArgumentError, match="another query"):
        answers.query("select 1", cursor=small["cursor"])
    with pytest.raises(InvalidArgumentError, match="expected the cursor"):
        answers.query(sql, cursor="x")


def test_long_texts_are_cut_and_counted(answers: Answers) -> None:
    answer = answers.query("select string_agg(status, '') from shop.orders a, shop.customers b")
    assert answer["rows"][0][0].endswith("(30,000 characters)")
    assert answer["cut_texts"] == "1 texts are longer than shown"


def test_answers_name_snapshots_and_doubtful_claims(answers: Answers) -> None:
    answer = answers.query("select count(*) from shop.customers, shop.orders")
    notes = answer["tables"]
    assert notes["shop.orders"]["snapshot"] == str(answers.lake.table("shop.orders").snapshot)
    assert "contradicted" not in notes["shop.orders"]
    assert notes["shop.customers"]["contradicted"] == ["city: values"]


def test_names_that_are_close(answers: Answers) -> None:
    with pytest.raises(InvalidArgumentError, match=r"did you mean shop\.orders"):
        answers.query("select 1 from orders")
    with pytest.raises(InvalidArgumentError, match="find_tables"):
        answers.query("select 1 from nothing.at_all")
    with pytest.raises(QueryError, match="nope"):
        answers.query("select nope from shop.orders")
