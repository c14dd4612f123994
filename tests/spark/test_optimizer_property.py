"""Joins that the optimizer converts return what Spark's own joins return."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
from random_joins import LAYOUTS, Joins

import nimblepy.spark as ns
from nimblepy.spark.optimizer.rule import installed_rule

SETTING = "spark.nimblepy.indexJoin"


@pytest.fixture(scope="module")
def optimized(spark: Any) -> Iterator[Any]:
    ns.register(spark)
    yield spark
    spark.conf.unset(SETTING)
    ns.register(spark, optimizer=False)


def answer(spark: Any, rows: Any, make: Any, setting: str) -> Any:
    spark.conf.set(SETTING, setting)
    try:
        return rows(make())
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0][:60]


def compare(joins: Joins, rows: Any, count: int) -> Counter[str]:
    spark = joins.spark
    rule = installed_rule(spark)
    outcomes: Counter[str] = Counter()
    for _ in range(count):
        text, make = joins.next()
        own = answer(spark, rows, make, "off")
        by_rule = answer(spark, rows, make, "always")
        assert rule.failures() == 0, f"{text}\n{rule.lastFailure()}"
        assert by_rule == own, text
        failed = isinstance(own, tuple)
        if failed:
            outcomes["failed alike"] += 1
            continue
        decisions = ns.explain_join(make())
        converted = any(decision.converted for decision in decisions)
        outcomes["converted" if converted else "kept"] += 1
    return outcomes


@pytest.mark.model
def test_random_joins_are_sparks_own(optimized: Any, rows: Any, tmp_path: Path) -> None:
    joins = Joins(optimized, tmp_path, 1, layouts=(1, 8))
    outcomes = compare(joins, rows, 10)
    assert outcomes["converted"] >= 3, outcomes


@pytest.mark.model
@pytest.mark.slow
def test_many_random_joins_are_sparks_own(optimized: Any, rows: Any, tmp_path: Path) -> None:
    count = int(os.environ.get("NIMBLEPY_RANDOM_JOINS", "700"))
    joins = Joins(optimized, tmp_path, 2, range(len(LAYOUTS)))
    outcomes = compare(joins, rows, count)
    print(outcomes)
    assert outcomes["converted"] >= count // 2, outcomes
