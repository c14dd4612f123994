"""Converts comparisons to ranges of key values that an index can search."""

from __future__ import annotations

import math
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.expr.nodes import Compare
from nimblepy.schema.values import is_nan


class Bound(NamedTuple):
    """A range of key values. ``None`` means no bound: that side may then include NaN and nulls."""

    lower: pa.Scalar | None
    lower_inclusive: bool
    upper: pa.Scalar | None
    upper_inclusive: bool


def ranges_of(node: Compare) -> list[Bound]:
    """Returns the key ranges for which ``node`` is true, ascending and disjoint.

    The index sorts NaN after +inf, but IEEE comparisons with NaN are false. Float ranges without a
    bound therefore end at an infinity, unless the comparison treats NaN as the greatest value.
    Ranges without a bound may include nulls. The caller must exclude nulls or evaluate the filter.
    """
    value, lowest, highest = node.value, None, None
    if pt.is_floating(value.type):
        lowest = pa.scalar(-math.inf).cast(value.type)
        highest = None if node.nan_greatest else pa.scalar(math.inf).cast(value.type)
    match node.op:
        case "==":
            return [Bound(value, True, value, True)]
        case "!=":
            # NaN differs from every number, so the upper range includes it.
            below = Bound(lowest, True, value, False)
            return [below] if is_nan(value) else [below, Bound(value, False, None, True)]
        case "<":
            return [Bound(lowest, True, value, False)]
        case "<=":
            return [Bound(lowest, True, value, True)]
        case ">":
            return [Bound(value, False, highest, True)]
        case _:
            return [Bound(value, True, highest, True)]
