"""Converts comparisons to nodes whose values have exactly the column's type."""

from __future__ import annotations

import math
from collections.abc import Iterable

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
from nimblepy.schema.values import LiteralPosition, is_null, place


def compare(column: Column, op: Op, literal: object, *, nan_greatest: bool = False) -> Node:
    """Returns ``column op literal`` as a node whose values have exactly the column's type.

    Args:
        literal: a Python, numpy, pandas or Arrow value.
        nan_greatest: whether NaN equals itself and is greater than all numbers, as in SQL.
            Otherwise, comparisons with NaN are false, as in pyarrow.

    Raises:
        InvalidArgumentError: the two types cannot be compared.
    """
    if is_null(literal):
        return UNKNOWN
    position = place(column.type, literal)
    nan_greatest = nan_greatest and (position.is_nan or pt.is_floating(column.value_type))
    if position.is_nan:
        return _compare_nan(column, op) if nan_greatest else _settled(column, op == "!=")
    if position.exact is not None:
        return Compare(column, op, position.exact, nan_greatest)
    if op in ("==", "!="):
        return _settled(column, op == "!=")
    return _compare_between(column, op, position, nan_greatest)


def _settled(column: Column, answer: bool) -> Node:
    return always(column) if answer else never(column)


def _compare_nan(column: Column, op: Op) -> Node:
    """Returns ``column op NaN``, with NaN as the greatest value."""
    if not pt.is_floating(column.value_type):
        return _settled(column, op in ("!=", "<", "<="))
    if op in ("<=", ">"):
        return _settled(column, op == "<=")
    nan = pa.scalar(math.nan).cast(column.value_type)
    return Compare(column, "==" if op in ("==", ">=") else "!=", nan, True)


def _compare_between(column: Column, op: Op, position: LiteralPosition, nan_greatest: bool) -> Node:
    if op in ("<", "<="):
        if position.below is None:
            return never(column)
        # The literal is above all values of the type.
        if position.above is None:
            return always(column)
        return Compare(column, "<=", position.below, nan_greatest)
    if position.above is None:
        return never(column)
    if position.below is None:
        return always(column)
    return Compare(column, ">=", position.above, nan_greatest)


def one_of(column: Column, literals: Iterable[object], *, nan_greatest: bool = False) -> Node:
    """Returns ``column IN (literals)``.

    As in SQL, if one of the literals is null, the result is null for values that do not match.

    Literals that the column's type cannot represent do not match. NaN matches only with
    ``nan_greatest``.
    """
    values: list[pa.Scalar] = []
    has_null = False
    for literal in literals:
        if is_null(literal):
            has_null = True
            continue
        position = place(column.type, literal)
        if position.exact is not None:
            values.append(position.exact)
        elif position.is_nan and nan_greatest and pt.is_floating(column.value_type):
            values.append(pa.scalar(math.nan).cast(column.value_type))
    node = In(column, tuple(dict.fromkeys(values)))
    return any_of(node, UNKNOWN) if has_null else node
