"""Comparisons of two columns in the order of SQL, where NaN equals itself and is above all numbers.

pyarrow compares as IEEE 754 says, and so do pyarrow expressions used as filters. SQL text follows
DuckDB, Spark and polars; comparisons with a constant say so in their node.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from nimblepy.expr.nodes import FLIPPED, Op


def compare_values(op: Op, left: Any, right: Any) -> Any:
    """``left op right`` of two arrays or two expressions, one of floats; null where either is."""
    if op == "!=":
        return pc.invert(compare_values("==", left, right))
    if op in (">", ">="):
        return compare_values(FLIPPED[op], right, left)
    # A null on either side makes each branch null, as it must be below NOT.
    if op == "==":
        return pc.if_else(pc.is_nan(left), pc.is_nan(right), pc.equal(left, right))
    number = pc.invert(pc.is_nan(left))
    if op == "<":
        return pc.if_else(pc.is_nan(right), number, pc.less(left, right))
    return pc.if_else(pc.is_nan(right), pc.equal(number, number), pc.less_equal(left, right))
