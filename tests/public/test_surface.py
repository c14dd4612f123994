"""Every way of reading, asked at random, answers as DuckDB and polars do over the same rows.

More: PYTHONPATH=tests/support python -m surface.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.model

pytest.importorskip("duckdb")
pytest.importorskip("polars")
pytest.importorskip("pyiceberg")
surface = pytest.importorskip("surface")  # it needs duckdb and polars


def different(first: int, count: int) -> list[str]:
    found = [question for seen in surface.seeds(first, count) for question in seen.different]
    return [f"{q.by}: {q.text}: {q.ours!r} here, expected {q.theirs!r}" for q in found]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_every_way_of_reading_is_that_of_duckdb_and_polars(seed: int) -> None:
    assert different(seed, 1) == []


def test_the_seeds_ask_files_datasets_and_tables() -> None:
    seen = list(surface.seeds(103, 5))
    assert {examination.form for examination in seen} == {"file", "dataset", "table"}
    assert sum(sum(examination.asked.values()) for examination in seen) > 250


@pytest.mark.slow
def test_two_hundred_seeds() -> None:
    assert different(0, 200) == []
