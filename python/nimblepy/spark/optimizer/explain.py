"""Explains joins: estimates the costs of one, and lists the optimizer's decisions for a query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from pyspark.sql import DataFrame

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.spark.base.frames import is_connect
from nimblepy.spark.base.inputs import InputPath, find_input
from nimblepy.spark.joins.arguments import JoinArguments, On
from nimblepy.spark.joins.estimate import JoinEstimate, estimate_join
from nimblepy.spark.joins.index_join import prepare
from nimblepy.spark.optimizer.rule import installed_rule

_WORDS = {"exists": "existence"}


@dataclass(frozen=True, kw_only=True)
class JoinDecision:
    """The optimizer's decision about one join over nimble files.

    Attributes:
        converted: whether the join was replaced by a lookup in the index.
        reason: why the optimizer decided so.
        estimate: the costs; ``None`` if they did not matter.
        how: ``"inner"``, ``"left"``, ``"semi"``, ``"anti"``, ``"exists"``, ``"as-of inner"``,
            ``"as-of left"``, or Spark's name of a join that no index can answer.
        files: the path or the table that the join reads.
    """

    converted: bool
    reason: str
    estimate: JoinEstimate | None
    how: str
    files: str

    def __str__(self) -> str:
        made = "through the index" if self.converted else "Spark's own"
        how = _WORDS.get(self.how, self.how)
        lines = [f"{how} join with {self.files}: {made}", f"  {self.reason}"]
        if self.estimate is not None:
            lines += str(self.estimate).splitlines()[1:-1]
        return "\n".join(lines)


class JoinDecisions(list[JoinDecision]):
    """Returns the decisions about the joins of a query, from the leaves up."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no join with nimble files"

    __repr__ = __str__


@overload
def explain_join(probe_df: DataFrame) -> JoinDecisions: ...


@overload
def explain_join(
    probe_df: DataFrame,
    path: InputPath,
    *,
    on: On,
    columns: Sequence[str] | None = None,
    probe_rows: int | None = None,
) -> JoinEstimate: ...


def explain_join(
    probe_df: DataFrame,
    path: InputPath | None = None,
    *,
    on: On | None = None,
    columns: Sequence[str] | None = None,
    probe_rows: int | None = None,
) -> JoinDecisions | JoinEstimate:
    """Explains which joins of a query use the index, or estimates the costs of one join.

    With one argument, returns a :class:`JoinDecision` per join over nimble files, as the optimizer
    decides for this query now. With a path, compares an index join of ``probe_df`` and these files
    with Spark's own join, and recommends one of them. Runs no job.

    Args:
        probe_rows: number of rows of the probe, to use instead of Spark's statistics.

    Raises:
        InvalidArgumentError: the optimizer rule is not installed.
    """
    if path is None:
        if on is not None or columns is not None or probe_rows is not None:
            raise InvalidArgumentError("explain_join: on, columns and probe_rows need a path")
        return _decisions(probe_df)
    if on is None:
        raise InvalidArgumentError("explain_join: a path needs on")
    files = find_input(path)
    join = JoinArguments(on=on, columns=columns)
    estimate = estimate_join(probe_df, files.dataset, join, probe_rows)
    try:
        prepare(probe_df.schema, files, replace(join, columns=()))
    except IndexUnavailableError as error:
        return replace(estimate, strategy="scan", index_seconds=None, reason=str(error))
    return estimate


def _decisions(df: DataFrame) -> JoinDecisions:
    rule = installed_rule(df.sparkSession)
    if rule is None:
        what = "Spark Connect has no optimizer rule" if is_connect(df) else "it is not installed"
        raise InvalidArgumentError(f"explain_join: {what}; call ns.register(spark)")
    # The new DataFrame has a plan that Spark has not optimized yet.
    fresh: Any = df.select("*")
    decisions = json.loads(rule.explain(fresh._jdf.queryExecution()))
    return JoinDecisions(_decision(item) for item in decisions)


def _decision(item: Mapping[str, Any]) -> JoinDecision:
    options = item.get("options") or {}
    estimate = item.get("estimate")
    return JoinDecision(
        converted=item["converted"],
        reason=item["reason"],
        estimate=None if estimate is None else JoinEstimate(**estimate),
        how=item.get("how") or "",
        files=options.get("table") or options.get("path") or "nimble files",
    )
