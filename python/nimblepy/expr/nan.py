"""Comparisons in the order of SQL engines that find NaN equal to itself and above all numbers.

Filters compare as IEEE 754 says, like pyarrow and DuckDB's files; Spark does not, and a join that
Spark may run either by itself or by the index must not depend on which.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.expr.bounds import compare
from nimblepy.expr.evaluate import field, opaque
from nimblepy.expr.nodes import (
    FLIPPED,
    Node,
    Not,
    Op,
    always,
    any_of,
    never,
)
from nimblepy.schema.columns import Column
from nimblepy.schema.literals import as_scalar, place


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


def compare_constant(column: Column, op: Op, literal: object) -> Node:
    """``column op literal``; a column of other types than floats compares as always."""
    node = compare(column, op, literal)
    scalar = as_scalar(literal)
    if not pt.is_floating(column.value_type) or not scalar.is_valid:
        return node
    is_nan = opaque(pc.is_nan(field(column)), (column.path,))
    if not place(column.type, scalar).is_nan:
        return any_of(node, is_nan) if op in (">", ">=") else node
    if op in ("==", ">="):
        return is_nan
    if op in ("!=", "<"):
        return Not(is_nan)
    return always(column) if op == "<=" else never(column)
