"""SQL filters mean what they mean in DuckDB: rows of several values, and names in any case."""

from __future__ import annotations

import itertools
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.model

ROWS = list(itertools.product([None, 1, 2, 3], [None, "x", "y"]))
TABLE = pa.table(
    {
        "a": pa.array([a for a, _ in ROWS], pa.int64()),
        "b": pa.array([b for _, b in ROWS], pa.string()),
        "row": pa.array(range(len(ROWS)), pa.int64()),
    }
)


@pytest.mark.parametrize(
    "text",
    [
        "(a, b) IN ((1, 'x'))",
        "(a, b) IN ((1, 'x'), (2, 'y'), (9, 'x'))",
        "(a, b) NOT IN ((1, 'x'), (2, 'y'))",
        "(a, b) IN ((1, NULL))",
        "NOT ((a, b) IN ((1, 'x'), (2, NULL)))",
        "(a, b) = (1, 'x')",
        "(1, 'x') = (a, b)",
        "(a, b) <> (1, 'x')",
        "(A, \"B\") = (1, 'x') AND ROW > 0",
    ],
)
def test_filter_passes_the_rows_that_duckdb_finds(tmp_path: Path, text: str) -> None:
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        found = connection.execute(f"SELECT row FROM t WHERE {text} ORDER BY row").fetchall()
    for cluster_by in (None, ["a", "b"]):
        nb.write(TABLE, tmp_path / "f.nimble", cluster_by=cluster_by)
        passing = nb.open(tmp_path / "f.nimble").to_table(["row"], text)
        assert sorted(passing.column("row").to_pylist()) == [row for (row,) in found]


def test_a_composite_key_answers_rows_of_values(tmp_path: Path) -> None:
    nb.write(TABLE, tmp_path / "f.nimble", cluster_by=["a", "b"])
    plan = nb.open(tmp_path / "f.nimble").scan(filter="(a, b) = (1, 'x')").explain()
    assert "cluster index: a == 1 and b == 'x'" in str(plan)
    with pytest.raises(nb.InvalidArgumentError, match="different numbers of values"):
        nb.open(tmp_path / "f.nimble").scan(filter="(a, b) IN ((1, 'x', 2))")
