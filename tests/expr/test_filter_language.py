"""Random conditions over the whole language, here and in DuckDB; more: python -m bench.filters."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from bench.filters import Judge, Language

pytestmark = pytest.mark.model

SEEDS = range(10)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("filters"))


def differences(judge: Judge, seed: int, count: int) -> list[str]:
    language, chance = Language(seed), random.Random(seed)
    texts = [language.condition(chance.choice([2, 3, 3, 4])) for _ in range(count)]
    found = [judge.judge(text) for text in texts]
    return [f"{d.text}: {d.ours} here, {d.theirs} in DuckDB" for d in found if d is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_conditions_mean_what_they_mean_in_duckdb(judge: Judge, seed: int) -> None:
    before = judge.compared
    assert differences(judge, seed, 30) == []
    assert judge.compared - before > 15  # of the others DuckDB says that a result does not fit


@pytest.mark.slow
def test_many_conditions(tmp_path: Path) -> None:
    assert differences(Judge(tmp_path), 1000, 50_000) == []
