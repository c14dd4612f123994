"""From a comparison to what an index understands: values of the column type, and key ranges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.expr.nodes import (
    UNKNOWN,
    Compare,
    In,
    Node,
    Op,
    always,
    any_of,
    never,
)
from nimblepy.schema.columns import Column
from nimblepy.schema.kinds import value_type
from nimblepy.schema.literals import Place, as_scalar, place


class Bound(NamedTuple):
    """A range of key values; ``None`` leaves that side open, beyond NaN and nulls included."""

    lower: pa.Scalar | None
    lower_inclusive: bool
    upper: pa.Scalar | None
    upper_inclusive: bool


def compare(column: Column, op: Op, literal: object) -> Node:
    """``column op literal`` as a node whose values have exactly the column's type.

    Raises:
        InvalidArgumentError: the two types cannot be compared.
    """
    scalar = as_scalar(literal)
    if not scalar.is_valid:
        return UNKNOWN
    found = place(column.type, scalar)
    if found.is_nan:
        return always(column) if op == "!=" else never(column)
    if found.exact is not None:
        return Compare(column, op, found.exact)
    if op == "==":
        return never(column)
    if op == "!=":
        return always(column)
    return _compare_between(column, op, found)


def _compare_between(column: Column, op: Op, found: Place) -> Node:
    if op in ("<", "<="):
        if found.below is None:
            return never(column)
        # Every value lies below, unless there are values above (or NaN, which no order holds for).
        if found.above is None:
            return always(column)
        return Compare(column, "<=", found.below)
    if found.above is None:
        return never(column)
    if found.below is None:
        return always(column)
    return Compare(column, ">=", found.above)


def one_of(column: Column, literals: Iterable[object]) -> Node:
    """``column IN (literals)`` with SQL's rule for nulls: a null among them makes misses unknown.

    NaN equals nothing, and literals the column type cannot hold match nothing.
    """
    values: list[pa.Scalar] = []
    has_null = False
    for literal in literals:
        scalar = as_scalar(literal)
        if not scalar.is_valid:
            has_null = True
            continue
        found = place(column.type, scalar)
        if found.exact is not None:
            values.append(found.exact)
    node = In(column, tuple(dict.fromkeys(values)))
    return any_of(node, UNKNOWN) if has_null else node


def bounds_for(column_type: pa.DataType, op: Op, value: object) -> list[Bound]:
    """Key ranges that hold exactly the rows where ``column op value`` is true.

    The index orders NaN as one value after +inf, while IEEE comparisons with NaN are false; so a
    float range that would be open is closed at the infinities. An open side of another type may
    take in nulls, which sort there: the caller bounds them or evaluates the filter.

    Args:
        column_type: type of the key column.
        op: ``==``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``.
        value: Python value or Arrow scalar; it need not be representable in the column type.

    Returns:
        Disjoint ranges in ascending order; empty when no row can match.

    Raises:
        InvalidArgumentError: the types cannot be compared.
    """
    node = compare(Column(("key",), column_type, (0,)), op, value)
    if isinstance(node, Compare):
        return _ranges(value_type(column_type), node.op, node.value)
    # What is left is "never" (no values), "unknown" (null literal) or "always" (any value).
    if isinstance(node, In) or node == UNKNOWN:
        return []
    if op == "!=":
        return [Bound(None, True, None, True)]
    lowest, highest = _ends(value_type(column_type))
    return [Bound(lowest, True, highest, True)]


def _ends(data_type: pa.DataType) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    """The least and the greatest value of the IEEE order; ``None`` where nothing needs bounding."""
    if not pt.is_floating(data_type):
        return None, None
    low, high = (as_scalar(bound).cast(data_type) for bound in (-math.inf, math.inf))
    return low, high


def _ranges(data_type: pa.DataType, op: Op, value: pa.Scalar) -> list[Bound]:
    lowest, highest = _ends(data_type)
    match op:
        case "==":
            return [Bound(value, True, value, True)]
        case "!=":
            # NaN differs from every number, so the upper range stays open towards it.
            return [Bound(lowest, True, value, False), Bound(value, False, None, True)]
        case "<":
            return [Bound(lowest, True, value, False)]
        case "<=":
            return [Bound(lowest, True, value, True)]
        case ">":
            return [Bound(value, False, highest, True)]
        case _:
            return [Bound(value, True, highest, True)]
