"""Spark's own as-of joins that the optimizer converts return what Spark returns."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
from random_asof import AsofJoins

import nimblepy.spark as ns
from nimblepy.spark.optimizer.rule import installed_rule

SETTING = "spark.nimblepy.indexJoin"
SWITCHES = ("spark.sql.join.asofJoin.enabled", "spark.sql.join.sortMergeAsOfJoin.enabled")


@pytest.fixture(scope="module")
def optimized(spark: Any) -> Iterator[Any]:
    if spark.version < "4.3":
        pytest.skip("ASOF JOIN needs Spark 4.3")
    for switch in SWITCHES:
        spark.conf.set(switch, "true")
    ns.register(spark)
    yield spark
    assert installed_rule(spark).failures() == 0, installed_rule(spark).lastFailure()
    ns.register(spark, optimizer=False)
    for name in (SETTING, *SWITCHES):
        spark.conf.unset(name)


def answers(spark: Any, rows: Any, make: Any) -> tuple[bool, Any, Any]:
    """Whether the rule converted the join; Spark's rows, and those of the rule."""
    spark.conf.set(SETTING, "off")
    own = rows(make())
    spark.conf.set(SETTING, "always")
    frame = make()
    by_rule = rows(frame)
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return "nimble_index_join" in plan, own, by_rule


def compare(spark: Any, rows: Any, joins: AsofJoins, count: int) -> Counter[bool]:
    outcomes: Counter[bool] = Counter()
    for _ in range(count):
        text = joins.next()
        converted, own, by_rule = answers(spark, rows, lambda text=text: spark.sql(text))
        assert by_rule == own, text
        outcomes[converted] += 1
    return outcomes


@pytest.mark.model
def test_random_asof_joins_are_sparks_own(optimized: Any, rows: Any, tmp_path: Path) -> None:
    outcomes = compare(optimized, rows, AsofJoins(optimized, tmp_path, 1), 8)
    assert outcomes[True] >= 4, outcomes


@pytest.mark.model
@pytest.mark.slow
def test_many_random_asof_joins_are_sparks_own(optimized: Any, rows: Any, tmp_path: Path) -> None:
    count = int(os.environ.get("NIMBLEPY_RANDOM_ASOF_JOINS", "200"))
    outcomes = compare(optimized, rows, AsofJoins(optimized, tmp_path, 2), count)
    print(outcomes)
    assert outcomes[True] >= count // 2, outcomes


def test_limits_and_directions_of_dataframes(optimized: Any, rows: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    AsofJoins(optimized, tmp_path, 3)
    probe = optimized.table("probe")

    events = optimized.table("events_big")

    def joined(**arguments: Any) -> Any:
        keys = probe["p_e"] == events["e"]
        frame = probe._joinAsOf(events, "p_big", "big", on=keys, how="left", **arguments)
        return frame.select("p_id", "v")

    tolerance = F.lit(3 * 2**50)
    choices: tuple[tuple[bool, dict[str, Any]], ...] = (
        (True, {"tolerance": tolerance}),
        (True, {"direction": "forward", "allowExactMatches": False}),
        (True, {"direction": "forward", "tolerance": tolerance}),
        (False, {"direction": "nearest"}),
    )
    for expected, arguments in choices:
        frames = functools.partial(joined, **arguments)
        converted, own, by_rule = answers(optimized, rows, frames)
        assert by_rule == own, arguments
        assert converted == expected


def test_decisions_about_asof_joins(optimized: Any, tmp_path: Path) -> None:
    AsofJoins(optimized, tmp_path, 4)
    optimized.conf.set(SETTING, "always")
    text = "SELECT * FROM probe ASOF JOIN events_big MATCH_CONDITION (p_big >= big) ON e = p_e"
    (decision,) = ns.explain_join(optimized.sql(text))
    assert decision.converted
    assert decision.how == "as-of inner"
    (decision,) = ns.explain_join(optimized.sql(f"{text} AND v > 3"))
    assert not decision.converted
    assert "before the nearest" in decision.reason
    (decision,) = ns.explain_join(optimized.sql(text.replace("e = p_e", "v = p_id")))
    assert not decision.converted
    assert "index" in decision.reason
