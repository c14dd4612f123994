"""Filters as pyiceberg has them, to compare what it leaves out with what we leave out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.expressions import visitors as ice_visitors
from pyiceberg.schema import Schema

from nimblepy.expr import nodes
from nimblepy.schema.values import is_nan
from nimblepy.table.base.values import internal_value

_COMPARISONS: dict[str, Callable[..., BooleanExpression]] = {
    "==": EqualTo,
    "!=": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}


def library_expression(schema: Schema, conjuncts: Sequence[nodes.Node]) -> BooleanExpression:
    """All conjuncts; those that the library does not have are true."""
    found: BooleanExpression = AlwaysTrue()
    for node in conjuncts:
        found = And(found, _expression(schema, node))
    return found


def has_infinity(node: nodes.Node) -> bool:
    """Whether a ``float32`` column is compared with an infinity, which the library misreads."""
    match node:
        case nodes.And(args) | nodes.Or(args):
            return any(map(has_infinity, args))
        case nodes.Compare(column, _, value):
            values: Sequence[pa.Scalar] = (value,)
        case nodes.In(column, values):
            pass
        case _:
            return False
    return pt.is_float32(column.type) and any(abs(v.as_py()) == float("inf") for v in values)


def _expression(schema: Schema, node: nodes.Node) -> BooleanExpression:
    match node:
        case nodes.And(args) | nodes.Or(args):
            kind = And if isinstance(node, nodes.And) else Or
            found = _expression(schema, args[0])
            for arg in args[1:]:
                found = kind(found, _expression(schema, arg))
            return found
        case nodes.Opaque() | nodes.Not() | nodes.Const():
            return AlwaysTrue()
    try:
        made = _leaf(node, ".".join(node.column.path))
        ice_visitors.bind(schema, made, True)
        return made
    except (ValueError, TypeError):
        return AlwaysTrue()


def _leaf(node: Any, name: str) -> BooleanExpression:
    match node:
        case nodes.IsNull():
            return IsNull(name)
        case nodes.IsValid():
            return NotNull(name)
        case nodes.StartsWith(_, prefix):
            return StartsWith(name, prefix)
        case nodes.In(column, values):
            rest = [internal_value(column.type, v) for v in values if not is_nan(v)]
            found = In(name, rest)
            return found if len(rest) == len(values) else Or(found, IsNaN(name))
        case nodes.Compare(column, op, value, nan_greatest):
            if is_nan(value):
                return IsNaN(name) if op == "==" else AlwaysTrue()
            made = _COMPARISONS[op](name, internal_value(column.type, value))
            if op == "!=":  # of a null it is true in Iceberg, and null in our filters
                return And(made, NotNull(name))
            above = nan_greatest and op in (">", ">=") and pt.is_floating(column.type)
            return Or(made, IsNaN(name)) if above else made
    return AlwaysTrue()
