"""Checks whether the values of a column are keys of another table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy.errors import NimbleError
from nimblepy.schema.plain import plain_array
from nimblepy.table.base.sketch import LARGEST, MOST
from nimblepy.table.claims.checks import Observed, Status
from nimblepy.table.claims.sketches import Grown, NoSketch
from nimblepy.table.claims.subject import Lake, Subject

# Minimum number of keys for a comparison of sketches, and the number of rows whose keys are looked
# up if there are fewer.
_ENOUGH, _LOOKED_UP = 300, 10_000
# A claimed share of orphans is refuted if the observation has a lower probability than this.
_CHANCE = 1e-7
_ERROR = 5 / math.sqrt(MOST)
_FAN_OUT = 0.07

Result: TypeAlias = tuple[Status, Observed | Callable[[], Observed], str | None]


@dataclass(frozen=True)
class Orphans:
    """The keys of a column that another table lacks.

    Attributes:
        missing, compared: number of missing keys, and of compared keys.
        all: whether all keys were compared.
        counts_lost: whether some compared keys may be of deleted rows.
        misses_lost: whether some keys that were counted as present may be missing.
        by_rows: whether the keys are from a sample of rows, which has too many of the frequent
            keys.
    """

    missing: int
    compared: int
    all: bool
    counts_lost: bool = False
    misses_lost: bool = False
    by_rows: bool = False

    @property
    def share(self) -> float:
        return self.missing / max(1, self.compared)


def compare(child: Grown, parent: Grown) -> Orphans:
    """Compares the keys of two sketches below the smaller threshold of both."""
    theta = min(child.sketch.theta, parent.sketch.theta)
    keys = child.sketch.hashes[child.sketch.hashes < np.uint64(theta)]
    missing = int(len(keys) - np.isin(keys, parent.sketch.hashes).sum())
    whole = theta == LARGEST
    return Orphans(missing, len(keys), whole, child.superset, parent.superset)


def is_unlikely(missing: int, compared: int, allowed: float) -> bool:
    """Returns whether this many missing keys are improbable if the true share is ``allowed``."""
    if allowed >= 1 or missing <= allowed * compared:
        return False
    if allowed <= 0:
        return missing > 0
    return _probability(range(missing, compared + 1), compared, allowed) < _CHANCE


def shows_few(missing: int, compared: int, allowed: float) -> bool:
    """Returns whether this few missing keys are improbable if the true share is above ``allowed``.

    A sample cannot show that no key is missing.
    """
    if allowed <= 0 or missing >= allowed * compared:
        return False
    if allowed >= 1:
        return True
    return _probability(range(missing, -1, -1), compared, allowed) < _CHANCE


def _probability(counts: range, compared: int, share: float) -> float:
    """Returns the probability of these numbers of missing keys; the likeliest must be first."""
    log_p, log_q = math.log(share), math.log1p(-share)
    tail = 0.0
    for k in counts:
        log = math.lgamma(compared + 1) - math.lgamma(k + 1) - math.lgamma(compared - k + 1)
        term = math.exp(log + k * log_p + (compared - k) * log_q)
        tail += term
        if term < tail * 1e-12:
            break
    return tail


def parent_column(parent: Subject, name: str | None) -> int | None:
    """Returns the field id of the referenced column, by default the primary key."""
    if name is None:
        key = parent.primary_key
        name = key[0] if len(key) == 1 else None
    return None if name is None else parent.metadata.column_number(name, parent.schema_id)


def check_references(
    child: Subject, number: int, parent: Subject, value: dict[str, Any], lake: Lake, *, deep: bool
) -> Result:
    """Checks a claim that the values of the column ``number`` are keys of another table."""
    key = parent_column(parent, value.get("column"))
    if key is None or parent.column_name(key) is None:
        if value.get("column") is None:
            return "unchecked", (None, None), f"{parent.name} has no primary key of one column"
        observed = f"{parent.name} has no column {value['column']}"
        return "contradicted", (observed, None), None
    kinds = child.column(number).type, parent.column(key).type
    if _family(kinds[0]) != _family(kinds[1]):
        observed = f"{kinds[0]} here, {kinds[1]} in {parent.name}"
        return "contradicted", (observed, None), "the types differ"
    if _is_not_unique(parent, key):
        observed = f"{parent.column_name(key)} of {parent.name} is not unique"
        return "contradicted", (observed, None), None
    allowed = float(value.get("orphans", 0.0))
    orphans = measured(child, number, parent, key, allowed, deep=deep)
    if isinstance(orphans, str):
        return "unchecked", (None, None), orphans
    keys = f"{orphans.compared:,} {'' if orphans.all else 'compared '}keys"
    observed = f"all {keys} are in {parent.name}"
    if orphans.missing:
        observed = f"{orphans.missing:,} of {keys} are not in {parent.name} ({orphans.share:.2%})"
    values = {"orphans": orphans.share, "compared": orphans.compared, "all": orphans.all}
    if refutes(orphans, allowed):

        def observe() -> Observed:
            holding = holding_keys(child, number, lake, parent.name)
            holds = f"; {', '.join(holding)} has them all" if holding else ""
            return observed + holds, {**values, "holds": holding}

        return "contradicted", observe, None
    if not supports(orphans, allowed):
        reason = "some keys were compared; check(deep=True) compares all"
        return "unchecked", (observed, values), reason
    fan_out = _fan_out(child, number)
    claimed = value.get("fan_out")
    if claimed and fan_out and not 1 - _FAN_OUT <= fan_out / claimed <= 1 + _FAN_OUT:
        text = f"{fan_out:.2f} rows for each key"
        return "suspect", (text, {**values, "fan_out": fan_out}), None
    return "verified", (observed, values), None


def refutes(orphans: Orphans, allowed: float) -> bool:
    """Returns whether it is proved that more keys than allowed are missing."""
    if orphans.counts_lost:
        return False
    if orphans.all:
        return orphans.share > allowed + 1e-12
    if orphans.by_rows and allowed > 0:
        return False
    return is_unlikely(orphans.missing, orphans.compared, allowed)


def supports(orphans: Orphans, allowed: float) -> bool:
    """Returns whether it is proved that at most the allowed keys are missing."""
    if orphans.misses_lost or (orphans.counts_lost and orphans.missing):
        return False
    if orphans.all:
        return orphans.share <= allowed + 1e-12
    return not orphans.by_rows and shows_few(orphans.missing, orphans.compared, allowed)


def is_enough(orphans: Orphans) -> bool:
    """Returns whether the compared keys are enough to estimate how many are missing."""
    lost = orphans.misses_lost or (orphans.counts_lost and orphans.missing)
    return orphans.all or (not lost and orphans.compared >= _ENOUGH)


def measured(
    child: Subject, number: int, parent: Subject, key: int, allowed: float, *, deep: bool
) -> Orphans | str:
    """Counts orphans with sketches or by looking up some keys. Returns a reason if it cannot."""
    if child.facts.rows == 0 or child.column(number).least_nulls == child.facts.rows:
        return Orphans(0, 0, all=True)
    child_sketch, parent_sketch = child.sketch(number), parent.sketch(key)
    reason = next(
        (s.reason for s in (child_sketch, parent_sketch) if isinstance(s, NoSketch)), None
    )
    same = child.column(number).type == parent.column(key).type
    if reason is None and same:
        assert isinstance(child_sketch, Grown)
        assert isinstance(parent_sketch, Grown)
        orphans = compare(child_sketch, parent_sketch)
        if refutes(orphans, allowed) or supports(orphans, allowed):
            return orphans
        if is_enough(orphans) and not deep and child.facts.rows > _LOOKED_UP:
            return orphans
    elif reason is not None and not deep:
        return reason
    looked_up = _looked_up(child, number, parent, key, deep=deep)
    return looked_up or reason or "the sketches do not decide it, and there is no index to ask"


def _looked_up(
    child: Subject, number: int, parent: Subject, key: int, *, deep: bool
) -> Orphans | None:
    name, other = str(child.column_name(number)), str(parent.column_name(key))
    if parent.primary_key != [other] and not deep:
        return None
    keys, whole = child.some_values(name, child.facts.rows if deep else _LOOKED_UP)
    try:
        present = parent.handle.contains(keys, on=None if parent.primary_key == [other] else other)
    except NimbleError:
        if not deep:
            return None
        counts, _ = parent.value_counts(other, 1 << 62)
        present = pa.array([v in counts for v in plain_array(keys).to_pylist()])
    missing = len(keys) - sum(present.to_pylist())
    return Orphans(missing, len(keys), whole, by_rows=not whole)


def _family(kind: pa.DataType) -> str:
    """Returns the family of a type. Only values of the same family can be equal."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return f"timestamp[{kind.unit}] with a zone"  # instants are equal in all zones
    return str(kind)


def _is_not_unique(parent: Subject, key: int) -> bool:
    """Returns whether it is proved that two rows of the other table have the same key."""
    if parent.primary_key == [parent.column_name(key)]:
        return False
    column, sketch = parent.column(key), parent.sketch(key)
    if column.nulls is None or isinstance(sketch, NoSketch):
        return False
    exact = sketch.sketch.theta == LARGEST
    most = sketch.sketch.estimate * (1 if exact else 1 + _ERROR)
    return most < parent.facts.rows - column.nulls


def _fan_out(child: Subject, number: int) -> float | None:
    """Returns the average number of rows for each distinct value."""
    column, sketch = child.column(number), child.sketch(number)
    if isinstance(sketch, NoSketch) or column.nulls is None or not sketch.sketch.estimate:
        return None
    return (child.facts.rows - column.nulls) / sketch.sketch.estimate


def holding_keys(child: Subject, number: int, lake: Lake, but: str) -> list[str]:
    """Returns keys of other tables that contain all values of a column, according to sketches.

    Many keys contain dense small numbers, so keys with the name of the column are preferred.
    """
    sketch = child.sketch(number)
    if isinstance(sketch, NoSketch) or not len(sketch.sketch.hashes):
        return []
    holding = []
    for name in sorted(lake.names()):
        parent = None if name in (but, child.name) else lake.subject(name)
        key = None if parent is None else parent_column(parent, None)
        if parent is None or key is None or parent.column(key).type != child.column(number).type:
            continue
        parent_sketch = parent.sketch(key)
        if isinstance(parent_sketch, Grown):
            orphans = compare(sketch, parent_sketch)
            if not orphans.missing and (orphans.all or orphans.compared >= _ENOUGH // 3):
                holding.append(f"{name}.{parent.column_name(key)}")
    own_name = child.column_name(number)
    named = [name for name in holding if name.rpartition(".")[2] == own_name]
    return (named or holding)[:5]
