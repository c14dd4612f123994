"""Index joins on Spark Connect, which does not let us install an optimizer rule.

A DataFrame of Connect holds the plan that it sends to the server. Joins in it are replaced here.
"""

from __future__ import annotations

import copy
from typing import Any, cast

from pyspark.sql import DataFrame

from nimblepy.errors import NimbleError
from nimblepy.spark.base.frames import is_connect, quoted
from nimblepy.spark.base.inputs import SparkInput
from nimblepy.spark.joins.arguments import How, JoinArguments
from nimblepy.spark.joins.index_join import index_join_of_files
from nimblepy.spark.reading.scan import read_arguments

# Join types by their number in Connect's protocol.
_HOWS: dict[int, How] = {1: "inner", 3: "left", 5: "anti", 6: "semi"}
_WITHOUT_JOINS = ("Aggregate", "Filter", "Limit", "Project", "Sort", "WithColumns")
_OPTIONS = {"path", "catalog", "table", "snapshot", "tag", "branch", "time"}


def optimize(df: DataFrame) -> DataFrame:
    """Replaces plain joins with nimble files by index joins, on Spark Connect.

    A join is replaced if it is inner, left, semi or anti, if ``on`` is a column name or a list of
    names, and if its right side is ``spark.read.format("nimble").load(...)`` without options that
    change rows or columns. It may be below selections, filters, aggregates and limits, and on the
    left side of other joins. Other joins are not changed. Costs are not estimated.

    In a classic session, returns the DataFrame unchanged, because the optimizer rule replaces such
    joins and others (see :func:`register`).

    Cost: asks the server for the schemas of the DataFrame and of each joined side.
    """
    if not is_connect(df):
        return df
    plan: Any = cast(Any, df)._plan
    replaced = _replaced(df, plan)
    if replaced is plan:
        return df
    made = _frame(df, replaced)
    try:
        same = made.schema.simpleString() == df.schema.simpleString()
    except Exception:  # the query names a column through the DataFrame of the files
        return df
    return made if same else df


def _frame(df: DataFrame, plan: Any) -> DataFrame:
    made: DataFrame = cast(Any, type(df))(plan, df.sparkSession)
    return made


def _replaced(df: DataFrame, plan: Any) -> Any:
    kind = type(plan).__name__
    if kind == "Join":
        return _replaced_join(df, plan)
    if kind not in _WITHOUT_JOINS:
        return plan
    child = _replaced(df, plan._child)
    if child is plan._child:
        return plan
    parent = copy.copy(plan)
    parent._child = child
    return parent


def _replaced_join(df: DataFrame, join: Any) -> Any:
    left = _replaced(df, join.left)
    names = [join.on] if isinstance(join.on, str) else join.on
    by_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    how = _HOWS.get(int(join.how))
    files = _files_of(df, join.right) if by_names and how is not None else None
    if how is not None and files is not None:
        try:
            joined = index_join_of_files(_frame(df, left), files, JoinArguments(on=names, how=how))
        except NimbleError:
            pass  # no index, or names that clash
        else:
            others = [name for name in joined.columns if name not in names]
            # A join by names returns the keys first.
            plan: Any = cast(Any, joined.select(*(quoted(n) for n in (*names, *others))))._plan
            plan._root_plan_id = join._root_plan_id  # columns may name the join by its id
            return plan
    if left is join.left:
        return join
    made = copy.copy(join)
    made.left = made._child = left
    return made


def _files_of(df: DataFrame, plan: Any) -> SparkInput | None:
    """Returns the files of a read that has no options that change columns or rows."""
    if type(plan).__name__ != "DataSource":
        return None
    client = cast(Any, df.sparkSession).client
    read = plan.plan(client).read
    source = read.data_source
    if source.format.lower() != "nimble" or source.schema or read.is_streaming:
        return None
    options = {name.lower(): value for name, value in source.options.items()}
    if len(source.paths) == 1:
        options["path"] = source.paths[0]
    others = [name for name in options if name not in _OPTIONS and name[:8] != "catalog."]
    if others or len(source.paths) > 1:
        return None
    given = read_arguments(options)
    return None if given is None else cast("SparkInput", given["files"])
