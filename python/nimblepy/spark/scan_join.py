"""Spark's own join over a scan of the files, with the names and semantics of the index join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from nimblepy.dataset.dataset import Dataset
from nimblepy.errors import InvalidArgumentError
from nimblepy.spark.source import read_files

_HOWS = {"semi": "left_semi", "anti": "left_anti", "full": "full_outer", "right": "right_outer"}


def scan_join(
    probe: DataFrame,
    path: Any,
    dataset: Dataset,
    *,
    on: Any,
    how: str,
    columns: Sequence[str] | None,
    condition: Any,
    between: Mapping[str, tuple[str, str]] | None,
    prefix: str | None,
    null_equals: bool,
) -> DataFrame:
    """The join as Spark plans it; it may broadcast or shuffle either side.

    Raises:
        InvalidArgumentError: clashing names; a condition that is not SQL text.
    """
    if condition is not None and not isinstance(condition, str):
        raise InvalidArgumentError('condition: with strategy="scan" it must be SQL text')
    pairs = [(on, on)] if isinstance(on, str) else _items(on)
    keys = [build for _, build in pairs]
    wanted = list(columns) if columns is not None else _others(dataset, keys)
    shown = {name: (prefix or "") + name for name in wanted}
    if how not in ("semi", "anti"):
        clashes = [name for name in shown.values() if name in probe.columns]
        if clashes:
            raise InvalidArgumentError(
                f"columns: {', '.join(map(repr, clashes))} would be in the result twice; choose "
                "other columns, or a prefix"
            )
    files, build_names = _build(probe, path, dataset, keys, shown, between, condition, prefix)
    conditions = [
        (probe[_q(p)].eqNullSafe if null_equals else probe[_q(p)].__eq__)(files[_q(build_names[b])])
        for p, b in pairs
    ]
    for name, (lower, upper) in (between or {}).items():
        value = files[_q(build_names[name])]
        conditions.append(value.between(probe[_q(lower)], probe[_q(upper)]))
    if condition is not None:
        conditions.append(F.expr(f"({condition})"))
    joined = probe.join(files, reduce(Column.__and__, conditions), _HOWS.get(how, how))
    if how in ("semi", "anti"):
        return joined
    result = [probe[_q(name)] for name in probe.columns]
    if how in ("right", "full", "right_outer", "full_outer"):
        # The key is returned once: of whichever side has it.
        of_build = dict(pairs)
        result = [
            F.coalesce(probe[_q(name)], files[_q(build_names[of_build[name]])]).alias(name)
            if name in of_build
            else probe[_q(name)]
            for name in probe.columns
        ]
    return joined.select(*result, *(files[_q(name)] for name in shown.values()))


def _items(on: Any) -> list[tuple[str, str]]:
    return list(on.items()) if isinstance(on, Mapping) else [(name, name) for name in on]


def _others(dataset: Dataset, keys: Sequence[str]) -> list[str]:
    return [name for name in dataset.schema.names if name not in keys]


def _q(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _build(
    probe: DataFrame,
    path: Any,
    dataset: Dataset,
    keys: Sequence[str],
    shown: Mapping[str, str],
    between: Mapping[str, Any] | None,
    condition: str | None,
    prefix: str | None,
) -> tuple[DataFrame, dict[str, str]]:
    """The files' columns that the join needs, and their names: those not returned are hidden."""
    needed = list(dict.fromkeys([*keys, *(between or {}), *shown]))
    if condition is not None:
        needed += [name for name in dataset.schema.names if name not in needed]
    names: dict[str, str] = {}
    for name in needed:
        public = shown.get(name, (prefix or "") + name)
        taken = public in probe.columns
        names[name] = f"__nimble_{name}" if taken else public
    frame = read_files(probe.sparkSession, path, columns=needed)
    return frame.select(*(frame[_q(n)].alias(names[n]) for n in needed)), names
