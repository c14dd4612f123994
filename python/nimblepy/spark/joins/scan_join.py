"""Spark's own join over a scan of the files, with the names and semantics of the index join."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.names import ColumnName
from nimblepy.spark.base.frames import quoted
from nimblepy.spark.base.inputs import SparkInput
from nimblepy.spark.joins.arguments import JoinArguments
from nimblepy.spark.reading.scan import read_files
from nimblepy.spark.reading.splits import ScanSpec

# The joins that return unmatched rows of the files, by all names that Spark accepts.
OUTER = {
    **dict.fromkeys(("right", "rightouter", "right_outer"), "right_outer"),
    **dict.fromkeys(("full", "outer", "fullouter", "full_outer"), "full_outer"),
}
_HOWS = {**OUTER, "semi": "left_semi", "anti": "left_anti"}


def scan_join(
    probe: DataFrame, inputs: SparkInput, join: JoinArguments, *, broadcast: bool = False
) -> DataFrame:
    """Joins with Spark's own operators.

    Args:
        broadcast: whether Spark must broadcast the files. Otherwise it may broadcast or shuffle
            either side.

    Raises:
        InvalidArgumentError: clashing names; a condition that is not SQL text.
    """
    if join.condition is not None and not isinstance(join.condition, str):
        raise InvalidArgumentError(
            'condition: with strategy="scan" it must be SQL text without params'
        )
    shown = join.added(probe.columns, inputs.dataset.schema)
    pairs = [(of_probe, _named(of_files)) for of_probe, of_files in join.pairs]
    files, build_names = _build(probe, inputs, join, [*dict(pairs).values()], shown)
    conditions: list[Any] = []
    for of_probe, of_files in pairs:
        key, other = probe[quoted(of_probe)], files[quoted(build_names[of_files])]
        conditions.append(key.eqNullSafe(other) if join.null_equals else key == other)
    for name, (lower, upper) in (join.between or {}).items():
        value = files[quoted(build_names[name])]
        if lower is not None:
            conditions.append(value >= probe[quoted(lower)])
        if upper is not None:
            conditions.append(value <= probe[quoted(upper)])
    if join.condition is not None:
        conditions.append(F.expr(f"({join.condition})"))
    how = _HOWS.get(join.how, join.how)
    files = F.broadcast(files) if broadcast else files
    joined = probe.join(files, reduce(Column.__and__, conditions), how)
    if how in ("left_semi", "left_anti"):
        return joined
    result = [probe[quoted(name)] for name in probe.columns]
    if join.how in OUTER:
        # Return the key only once, from a side that has the row.
        of_build = dict(pairs)
        result = [
            F.coalesce(probe[quoted(name)], files[quoted(build_names[of_build[name]])]).alias(name)
            if name in of_build
            else probe[quoted(name)]
            for name in probe.columns
        ]
    return joined.select(*result, *(files[quoted(name)] for name in shown.values()))


def _named(column: ColumnName) -> str:
    if isinstance(column, tuple):
        raise InvalidArgumentError(f'on: strategy="scan" takes names, not the path {column!r}')
    return column


def _build(
    probe: DataFrame,
    inputs: SparkInput,
    join: JoinArguments,
    keys: list[str],
    shown: Mapping[str, str],
) -> tuple[DataFrame, dict[str, str]]:
    """Returns the columns of the files that the join needs, and their names.

    A column whose name clashes with a probe column gets a hidden name.
    """
    needed = list(dict.fromkeys([*keys, *(join.between or {}), *shown]))
    if join.condition is not None:
        needed += [name for name in inputs.dataset.schema.names if name not in needed]
    names: dict[str, str] = {}
    for name in needed:
        public = shown.get(name, join.shown_as(name))
        taken = public in probe.columns
        names[name] = f"__nimble_{name}" if taken else public
    frame = read_files(
        probe.sparkSession, ScanSpec(files=inputs, columns=tuple(needed)), own_join=True
    )
    return frame.select(*(frame[quoted(n)].alias(names[n]) for n in needed)), names
