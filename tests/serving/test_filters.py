"""Filters over key columns that a server evaluates: equal to a filter of the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.expr.filter import parse_filter, with_params

KEYS = pa.schema(
    [
        ("city", pa.string()),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("day", pa.date32()),
        ("cents", pa.decimal128(20, 2)),
        ("ok", pa.bool_()),
        ("id", pa.uuid()),
    ]
)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> nb.Dataset:
    """Three files that overlap. Every key column has nulls."""
    path = tmp_path_factory.mktemp("filters")
    rng = random.Random(5)
    ids = [bytes([i]) * 16 for i in range(4)]
    values: dict[str, list[Any]] = {
        "city": ["", "Oslo", "a:b", "Graz\\", "Łódź"],
        "n": [-(2**31), 0, 1, 5, 2**31 - 1],
        "f": [0.0, -0.0, 0.1, float("nan"), float("inf")],
        "cents": [0, -1, 10**15],
        "ok": [True, False],
        "id": ids,
    }
    for part in range(3):
        count = 400
        columns = {}
        for field in KEYS:
            if field.name == "day":
                picked: list[Any] = [rng.choice([None, -1, 0, 19000]) for _ in range(count)]
                columns["day"] = pa.array(picked, pa.int32()).cast(pa.date32())
                continue
            picked = [rng.choice([None, *values[field.name]]) for _ in range(count)]
            columns[field.name] = pa.array(picked, field.type)
        columns["row"] = pa.array(range(part * count, part * count + count))
        columns["text"] = pa.array([f"t{i}" for i in range(count)])
        nb.write(pa.table(columns), path / f"{part}.nimble", cluster_by=KEYS.names)
    return nb.open_dataset(path)


@pytest.fixture(scope="module")
def remote(local: nb.Dataset) -> Iterator[nb.RemoteTable]:
    with nb.serve(local, "t") as server, nb.connect(server.address) as lake:
        yield lake.table("t")


def filtered(rows: pa.Table, filter: Any, columns: Any = None) -> pa.Table:
    mask = parse_filter(filter, rows.schema).mask(rows.combine_chunks().to_batches()[0])
    kept = rows.filter(mask)
    return kept if columns is None else kept.select(columns)


FILTERS = [
    "n > 0",
    "n <> 5 or city is null",
    "city = 'a:b' and n in (0, 1, 7)",
    "not (city like 'O%') and ok",
    "f < 0.5",
    "f = 0.0",
    "f is not null",
    "day > date '1970-01-01'",
    "cents between -0.01 and 1",
    "ok = false or id is null",
    "id = '01010101-0101-0101-0101-010101010101'",
    "city in ('', 'Graz\\') and (n < 0 or n > 1)",
    "n > 3000000000",
    "n = 1 and n = 5",
    "city like '%d%'",
]


def same(got: pa.Table, expected: pa.Table) -> bool:
    return got.schema.equals(expected.schema) and repr(got.to_pylist()) == repr(
        expected.to_pylist()
    )


@pytest.mark.parametrize("text", FILTERS)
def test_filters_equal_a_filter_of_the_rows(
    local: nb.Dataset, remote: nb.RemoteTable, text: str
) -> None:
    rng = random.Random(text)
    for reverse in (False, True):
        expected = filtered(local.range(reverse=reverse), text)
        assert same(remote.range(filter=text, reverse=reverse), expected)
        columns = rng.choice([["row"], ["text", "n"]])
        got = remote.range(filter=text, reverse=reverse, columns=columns, limit=7, accept="raw")
        assert same(got, expected.slice(0, 7).select(columns))
        parts, token = [], None
        while True:
            page = remote.page(filter=text, reverse=reverse, limit=50, token=token)
            parts.append(page.rows)
            assert page.rows.num_rows == 50 or page.next is None
            token = page.next
            if token is None:
                break
        assert same(pa.concat_tables(parts), expected)
    assert same(remote.prefix("Oslo", filter=text), filtered(local.prefix("Oslo"), text))
    low = ("Oslo", 0)
    assert same(remote.range(low, filter=text), filtered(local.range(low), text))


def test_parameters_and_pyarrow_expressions(local: nb.Dataset, remote: nb.RemoteTable) -> None:
    import pyarrow.compute as pc

    whole = local.range()
    expected = filtered(whole, with_params("n = $n", {"n": 5}))
    assert same(remote.range(filter="n = $n", params={"n": 5}), expected)
    assert same(remote.range(filter=pc.field("n") == 5), expected)
    assert expected.num_rows > 0


def test_rows_are_tested_a_limited_number_at_a_time(local: nb.Dataset) -> None:
    """Pages and ranges go on behind the tested rows."""
    with nb.serve(local, "t", max_rows=100) as server, nb.connect(server.address) as lake:
        table = lake.table("t")
        for text in ("n = 5 and f = 0.1", "n = 1 and n = 5", "n is not null"):
            for reverse in (False, True):
                expected = filtered(local.range(reverse=reverse), text)
                assert same(table.range(filter=text, reverse=reverse), expected)
                assert same(
                    table.range(filter=text, reverse=reverse, limit=3), expected.slice(0, 3)
                )
        first = table.page(filter="n = 5", limit=10)
        assert first.next is not None
        with pytest.raises(nb.InvalidArgumentError, match="other bounds"):
            table.page(filter="n = 1", limit=10, token=first.next)
        with pytest.raises(nb.InvalidArgumentError, match="TOOBIG the filter has to test"):
            table._connection.ask(
                *("NB.RANGE", "t", "-", "+", "FILTER", "6", "TEST", "n", "==", "0", "1", "77")
            )


@pytest.mark.sanitizer
def test_filters_that_a_server_refuses(remote: nb.RemoteTable) -> None:
    for text, message in [
        ("row = 1", "row is not a column of the cluster key"),
        ("n = 1 and text = 'x'", "text is not a column"),
        ("city like 'a_b'", "server cannot"),
        ("contains(city, 'a')", "a server cannot test"),
    ]:
        with pytest.raises(nb.InvalidArgumentError, match=message):
            remote.range(filter=text)
    every = remote.range()["city"].to_pylist()
    with_a = [city for city in every if city is not None and "a" in city]
    assert with_a
    assert remote.range(filter="city like '%a%'")["city"].to_pylist() == with_a
    ask = remote._connection.ask
    range_ = ("NB.RANGE", "t", "-", "+", "FILTER")
    for words in [
        ("1", "AND"),
        ("2", "AND", "1"),
        ("2", "AND", "18446744073709551615"),
        ("3", "TEST", "n", "=="),
        ("6", "TEST", "n", "==", "0", "1", "x"),
        ("6", "TEST", "n", "~", "0", "1", "1"),
        ("6", "TEST", "n", "==", "2", "1", "1"),
        ("5", "TEST", "n", "==", "0", "0"),
        ("7", "TEST", "n", "==", "0", "2", "1", "2"),
        ("6", "TEST", "n", "prefix", "0", "1", "1"),
        ("6", "TEST", "row", "==", "0", "1", "1"),
        ("2", "NULL", "nothing"),
        ("3", "NULL", "n", "n"),
        ("200", *["AND", "1"] * 100),
        ("0",),
        ("9", "AND"),
    ]:
        with pytest.raises(nb.InvalidArgumentError):
            ask(*range_, *words)
    assert ask("NB.RANGE", "t", "-", "+", "LIMIT", "1", "FILTER", "2", "AND", "0")[1]
