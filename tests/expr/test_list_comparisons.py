"""Lists compare as in DuckDB: element by element, nulls inside as equal and above all else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.model

RNG = np.random.default_rng(7)


def _lists(make: Any, rows: int) -> list[Any]:
    out: list[Any] = []
    for _ in range(rows):
        size = int(RNG.integers(-1, 4))
        out.append(None if size < 0 else [make() for _ in range(size)])
    return out


def _number() -> Any:
    return None if RNG.random() < 0.2 else int(RNG.integers(0, 3))


def _float() -> Any:
    return [None, float("nan"), 0.5, 1.0][RNG.integers(0, 4)]


def _text() -> Any:
    return [None, "a", "b", "ab"][RNG.integers(0, 4)]


ROWS = pa.table(
    {
        "id": range(300),
        "a": pa.array(_lists(_number, 300), pa.list_(pa.int32())),
        "b": pa.array(_lists(_number, 300), pa.large_list(pa.int64())),
        "f": pa.array(_lists(_float, 300), pa.list_(pa.float64())),
        "s": pa.array(_lists(_text, 300), pa.list_(pa.string())),
        "n": pa.array(_lists(lambda: _lists(_number, 1)[0], 300), pa.list_(pa.list_(pa.int64()))),
    }
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> nb.File:
    path = tmp_path_factory.mktemp("lists") / "t.nimble"
    nb.write(ROWS, path, cluster_by="id", options=nb.WriteOptions(stripe_rows=100))
    return nb.open(path)


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.register("t", ROWS)
    return con


# `tags = $x` was refused although both sides were list<string>.
@pytest.mark.parametrize(
    "op", ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
)
@pytest.mark.parametrize("sides", [
    "a {op} [1, 2]", "a {op} [1]", "a {op} []", "a {op} [1, NULL]", "[0, 1] {op} a", "a {op} b",
    "b {op} a", "a {op} NULL", "a {op} [1.0, 2.0]", "f {op} [0.5, 1.0]", "f {op} ['nan'::DOUBLE]",
    "s {op} ['a', 'b']", "s {op} ['ab']", "s {op} s", "n {op} [[1], NULL]", "n {op} n",
    "NOT (s {op} ['a'])",
])  # fmt: skip
def test_as_duckdb(file: nb.File, database: duckdb.DuckDBPyConnection, op: str, sides: str) -> None:
    text = sides.format(op=op)
    expected = database.execute(f"SELECT id FROM t WHERE {text} ORDER BY id").fetchall()
    assert file.to_table(["id"], text)["id"].to_pylist() == [row[0] for row in expected]


@pytest.mark.parametrize(
    "text", ["s IN (['a'], ['a', 'b'])", "s NOT IN (['a'])", "(id, s) <= (20, ['a'])"]
)
def test_members(file: nb.File, database: duckdb.DuckDBPyConnection, text: str) -> None:
    expected = database.execute(f"SELECT id FROM t WHERE {text} ORDER BY id").fetchall()
    assert file.to_table(["id"], text)["id"].to_pylist() == [row[0] for row in expected]


@pytest.mark.parametrize(
    "given",
    [["a", "b"], ("a", "b"), np.array(["a", "b"]), pl.Series(["a", "b"]), pa.array(["a", "b"])],
    ids=lambda value: type(value).__name__,
)
def test_parameters(file: nb.File, given: Any) -> None:
    expected = [i for i, tags in enumerate(ROWS["s"].to_pylist()) if tags == ["a", "b"]]
    assert expected
    assert file.to_table(["id"], "s = $x", {"x": given})["id"].to_pylist() == expected
    assert file.to_table(["id"], "s IN ($x)", {"x": given})["id"].to_pylist() == expected


def test_lists_of_a_table(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    table = nb.connect(tmp_path).create_table("a.t", ROWS, cluster_by="id")
    expected = [i for i, tags in enumerate(ROWS["s"].to_pylist()) if tags == ["a"]]
    assert table.to_table(["id"], "s = $x", {"x": ["a"]})["id"].to_pylist() == expected
    assert table.delete("s = $x", params={"x": ["a"]}).rows_deleted == len(expected)


def test_lists_of_other_kinds_are_refused(file: nb.File) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="cast"):
        file.to_table(filter="id = $x", params={"x": [1]})
