"""Splits a filter into a part that the core evaluates on encoded data, and a residual.

    native = split(filter.node)
    native.spec       # for _core.RowFilter: the part that the core evaluates exactly
    native.residual   # a node for pyarrow to evaluate, or None

A row passes the filter if it passes both parts. The core evaluates tests of one column with
constants, IS NULL, ``LIKE '%text%'``, formulas, and AND and OR of these. pyarrow and DuckDB
evaluate everything else.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.expr.nodes import (
    NEGATED,
    And,
    Compare,
    Const,
    Formula,
    In,
    IsNull,
    IsValid,
    Like,
    Node,
    Not,
    Opaque,
    Or,
    StartsWith,
    all_of,
)
from nimblepy.schema.columns import Column
from nimblepy.schema.kinds import is_bytes, is_text
from nimblepy.schema.values import is_nan

# Nested tuples; register_filter.cpp defines their meaning.
Spec: TypeAlias = tuple[Any, ...]

# Limit for fixed-size values that the core can test. The core's value_test.h has the same limit.
_MAX_FIXED_BYTES = 64


class NativeFilter(NamedTuple):
    """A filter in two parts. An empty part is ``None``."""

    spec: Spec | None
    residual: Node | None


def split(node: Node) -> NativeFilter:
    """Splits ``node`` into the conjuncts that the core can evaluate, and the others."""
    ours: list[Spec] = []
    rest: list[Node] = []
    for part in node.args if isinstance(node, And) else (node,):
        spec = _spec(part)
        if spec is None:
            rest.append(part)
        else:
            ours.append(spec)
    return NativeFilter(("and", ours) if ours else None, all_of(*rest) if rest else None)


def _spec(node: Node, negated: bool = False) -> Spec | None:
    """Returns the spec of a whole node; ``None`` if the core cannot evaluate a part of it."""
    match node:
        case Compare(column, op, value) if is_nan(value):
            return _nan_test(column, negated != (op != "=="))
        case Compare(column, "!=", value):
            return _test(column, "==", [value], not negated)
        case Compare(column, ">" | ">=" as op, value, True):
            return _test(column, NEGATED[op], [value], not negated)
        case Compare(column, op, value):
            return _test(column, op, [value], negated)
        case In(column, values):
            spec = _test(column, "in", [v for v in values if not is_nan(v)], negated)
            if spec is None or not any(map(is_nan, values)):
                return spec
            return ("and" if negated else "or", [spec, _nan_test(column, negated)])
        case StartsWith(column, prefix):
            if pt.is_fixed_size_binary(column.value_type):
                return None
            return _test(column, "prefix", [pa.scalar(prefix, column.value_type)], negated)
        case Opaque(Like(column, _) as like) if like.substring:
            if pt.is_fixed_size_binary(column.value_type):
                return None
            part = pa.scalar(like.substring, column.value_type)
            return _test(column, "contains", [part], negated)
        case Opaque(formula=Formula(columns, terms, op)):
            negated = negated != (op == "!=")
            paths, zero = [column.steps for column in columns], pa.array([0], pa.int64())
            return ("formula", paths, list(terms), "==" if op == "!=" else op, zero, negated)
        case Not(Compare() | In() | StartsWith() | Opaque() as arg) if not negated:
            return _spec(arg, negated=True)
        case IsNull(column) | IsValid(column) if _has_own_nulls(column.type):
            return ("null" if isinstance(node, IsNull) else "valid", column.steps)
        case And(args) | Or(args) if not negated:
            parts = [_spec(arg) for arg in args]
            specs = [part for part in parts if part is not None]
            if len(specs) < len(parts):
                return None
            return ("and" if isinstance(node, And) else "or", specs)
        case Const(value):
            return ("and" if value else "or", [])
    return None


def _test(column: Column, op: str, values: list[pa.Scalar], negated: bool) -> Spec | None:
    if not is_tested(column.type):
        return None
    return ("test", column.steps, op, pa.array(values, column.value_type), negated)


def _nan_test(column: Column, negated: bool) -> Spec | None:
    """Returns a test that is true only for NaN; if ``negated``, for all other values.

    The test compares with infinity, because only NaN is not <= infinity.
    """
    infinity = pa.scalar(math.inf).cast(column.value_type)
    return _test(column, "<=", [infinity], not negated)


def is_tested(data_type: pa.DataType) -> bool:
    """Returns whether the core can test values of this type."""
    if isinstance(data_type, pa.BaseExtensionType):
        return is_tested(data_type.storage_type)
    if pt.is_dictionary(data_type):
        inner = data_type.value_type
        return not pt.is_dictionary(inner) and is_tested(inner)
    if pt.is_fixed_size_binary(data_type):
        return bool(0 < data_type.byte_width <= _MAX_FIXED_BYTES)
    return bool(
        pt.is_integer(data_type)
        or pt.is_float32(data_type)
        or pt.is_float64(data_type)
        or pt.is_decimal(data_type)
        or pt.is_boolean(data_type)
        or pt.is_date(data_type)
        or pt.is_time(data_type)
        or pt.is_timestamp(data_type)
        or pt.is_duration(data_type)
        or is_text(data_type)
        or is_bytes(data_type)
    )


def _has_own_nulls(data_type: pa.DataType) -> bool:
    """Returns whether the column's validity bitmap marks all its nulls.

    In run-end encoded, dictionary and union columns, the values may contain nulls instead.
    """
    if isinstance(data_type, pa.BaseExtensionType):
        return _has_own_nulls(data_type.storage_type)
    return not (
        pt.is_run_end_encoded(data_type) or pt.is_union(data_type) or pt.is_dictionary(data_type)
    )
