"""NaN in SQL text is the greatest value and equal to itself, as in DuckDB, whatever answers the
filter: indexes, zone maps, the core on encoded data, pyarrow, a dataset of several files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

pytestmark = pytest.mark.model

NAN = float("nan")
VALUES = [None, float("-inf"), -1.0, -0.0, 0.0, 1.5, 2.0, float("inf"), NAN]
ROWS = [*itertools.product(VALUES, VALUES)] * 12
TABLE = pa.table(
    {
        "id": pa.array(range(len(ROWS)), pa.int32()),
        "x": pa.array([x for x, _ in ROWS], pa.float64()),
        "y": pa.array([y for _, y in ROWS], pa.float32()),
        "n": pa.array([None if i % 7 == 0 else i % 5 for i in range(len(ROWS))], pa.int64()),
    }
).sort_by([("x", "ascending"), ("id", "ascending")])
OPTIONS = nb.WriteOptions(stripe_rows=200, zone_rows=64)


def plain(path: Path) -> Any:
    nb.write(TABLE, path / "f.nimble", options=OPTIONS)
    return nb.open(path / "f.nimble")


def clustered(path: Path) -> Any:
    nb.write(TABLE, path / "f.nimble", cluster_by="x", options=OPTIONS)
    return nb.open(path / "f.nimble", mmap=False)


def descending(path: Path) -> Any:
    key = nb.SortKey("x", descending=True, nulls_first=True)
    nb.write(TABLE, path / "f.nimble", cluster_by=[key, "y"], options=OPTIONS)
    return nb.open(path / "f.nimble")


def indexed(path: Path) -> Any:
    options = nb.WriteOptions(stripe_rows=200, bloom_columns=["x", "y"])
    indexes = [nb.SortedIndex("x"), nb.HashIndex("y")]
    nb.write(TABLE, path / "f.nimble", cluster_by="id", indexes=indexes, options=options)
    return nb.open(path / "f.nimble")


def dataset(path: Path) -> Any:
    for i in range(4):
        part = TABLE.slice(i * len(ROWS) // 4, len(ROWS) // 4)
        nb.write(part, path / f"{i}.nimble", cluster_by="x", options=OPTIONS)
    return nb.open_dataset(path)


@pytest.fixture(scope="module", params=[plain, clustered, descending, indexed, dataset])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return request.param(tmp_path_factory.mktemp("nan"))


LITERALS = ["0", "1.5", "1.7", "'NaN'::DOUBLE", "'inf'::DOUBLE", "'-inf'::DOUBLE", "NULL"]
TEXTS = [
    *(f"x {op} {v}" for op in ("=", "<>", "<", "<=", ">", ">=") for v in LITERALS),
    *(f"NOT (x {op} 'NaN'::DOUBLE)" for op in ("=", "<>", "<", "<=", ">", ">=")),
    *(f"y {op} 'NaN'::DOUBLE AND id > 20" for op in ("=", "<", ">=")),
    *(f"x {op} y" for op in ("=", "<>", "<", "<=", ">", ">=")),
    "NOT (x > 1.5)",
    "NOT (x <= 1.5 OR y > 0)",
    "'NaN'::DOUBLE > x",
    "x IN (1.5, 'NaN'::DOUBLE)",
    "x NOT IN (1.5, 'NaN'::DOUBLE)",
    "y IN (0, 'NaN'::FLOAT, NULL)",
    "y NOT IN (0, 'NaN'::FLOAT)",
    "x BETWEEN 1.5 AND 'NaN'::DOUBLE",
    "x BETWEEN 'NaN'::DOUBLE AND 'NaN'::DOUBLE",
    "x NOT BETWEEN 0 AND 2",
    "x IS NOT DISTINCT FROM 'NaN'::DOUBLE",
    "x IS DISTINCT FROM 'NaN'::DOUBLE",
    "x = 'nan'",
    "x > 'nan'",
    "x >= 'nan' OR y = 'nan'",
    "(x > 1) IS TRUE",
    "(x > 1) IS NOT TRUE",
    "x + 1 > 2",
    "n < 'NaN'::DOUBLE",
    "n = 'NaN'::DOUBLE",
    "n IN (1, 'NaN'::DOUBLE)",
    "x > 1 AND x < 'NaN'::DOUBLE",
]


def ids(rows: Any) -> list[int]:
    return sorted(rows.column("id").to_pylist())


@pytest.mark.parametrize("text", TEXTS)
def test_sql_with_nan_is_as_in_duckdb(source: Any, text: str) -> None:
    expected = duck(text)
    assert ids(source.scan(["id"], filter=text).to_table()) == expected
    assert source.scan(filter=text).count() == len(expected)


def duck(text: str) -> list[int]:
    with duckdb.connect() as connection:
        connection.register("given", TABLE)
        # A table of its own: it has pyarrow filter an Arrow one, which knows IEEE's NaN only.
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
        return sorted(i for (i,) in connection.execute(f"SELECT id FROM t WHERE {text}").fetchall())


@pytest.mark.parametrize(
    "expression",
    [
        pc.field("x") > 1.5,
        ~(pc.field("x") <= 1.5),
        pc.field("x") == NAN,
        pc.field("x") != NAN,
        pc.field("x") >= NAN,
        pc.field("y") < pc.field("x"),
    ],
)
def test_expressions_keep_ieee(source: Any, expression: pc.Expression) -> None:
    assert ids(source.scan(["id"], filter=expression).to_table()) == ids(TABLE.filter(expression))


def test_an_index_answers_orders_of_floats(tmp_path: Path) -> None:
    file = clustered(tmp_path)
    for text in ("x > 1.5", "x >= 'NaN'::DOUBLE", "x IN (1.5, 'NaN'::DOUBLE)"):
        assert "cluster index" in str(file.scan(filter=text).explain())
