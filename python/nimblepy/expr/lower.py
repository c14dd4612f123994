"""Converts SQL terms to nodes about columns, which indexes and zone maps can use.

A comparison of a column with a constant becomes a node of ``nodes.py``. So does a comparison that
can be solved for the column: ``d + 1 > 5``, ``CAST(ts AS DATE) = '2024-01-01'``,
``year(ts) >= 2020``. All other terms become :class:`~nimblepy.expr.nodes.Opaque`, with a weaker
condition that they imply, if there is one.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr import times
from nimblepy.expr.bounds import compare, one_of
from nimblepy.expr.nodes import (
    FLIPPED,
    UNKNOWN,
    And,
    Compare,
    Const,
    In,
    IsNull,
    IsValid,
    Node,
    Not,
    Op,
    Opaque,
    Or,
    StartsWith,
    all_of,
    always,
    any_of,
    negate,
    never,
)
from nimblepy.expr.numbers import compare as compare_values
from nimblepy.expr.strings import like_parts
from nimblepy.expr.terms import Call, Case, Col, Lit, Term, paths_of
from nimblepy.schema.columns import Column
from nimblepy.schema.kinds import family, is_text, widens
from nimblepy.schema.values import is_nan
from nimblepy.schema.zones import localize

# Functions over nodes are recursive, so deeper nesting becomes opaque.
_DEEPEST = 40
# A lowered CASE repeats its conditions; its size grows with the square of the branches.
_MOST_BRANCHES = 8


def lower(term: Term, depth: int = 0) -> Node:
    """Converts a boolean term to a node."""
    if isinstance(term, Lit):
        return Const(term.value.as_py())
    if isinstance(term, Col):
        return compare(term.column, "==", True)
    if isinstance(term, Call) and depth < _DEEPEST:
        node = _lower_call(term, depth)
        if node is not None:
            return node
    return _opaque(term)


def _opaque(term: Call | Case, implies: Node | None = None) -> Node:
    return Opaque(term, paths_of(term), implies)


def _lower_call(call: Call, depth: int) -> Node | None:
    match call.name, call.args:
        case "and", args:
            return all_of(*(lower(arg, depth + 1) for arg in args))
        case "or", args:
            return any_of(*(lower(arg, depth + 1) for arg in args))
        case "not", (arg,):
            return negate(lower(arg, depth + 1))
        case "is null", (Col(column),):
            return IsNull(column)
        case "is true" | "is false", (arg,):
            inner = lower(arg, depth + 1)
            if isinstance(inner, (IsNull, IsValid)):
                return inner if call.name == "is true" else negate(inner)
            return _opaque(call, inner if call.name == "is true" else negate(inner))
        case "in", (Col(column), *members):
            literals = [_fitted(column, member) for member in members if isinstance(member, Lit)]
            if None not in literals and family(column.value_type) != "bool":
                return one_of(column, [v for v in literals if v is not None], nan_greatest=True)
        case "==" | "!=" | "<" | "<=" | ">" | ">=" as op, (left, right):
            if isinstance(left, Lit):
                left, right, op = right, left, FLIPPED[op]
            if isinstance(right, Lit):
                return _against(call, left, op, right)
        case "like" | "ilike", (Col(column), Lit(), *_):
            return _like(call, column)
        case "starts_with" | "prefix", (Col(column), Lit(value)) if value.is_valid:
            if is_text(column.value_type):
                return StartsWith(column, value.as_py())
    return None


# ------------------------------------------------------------------ comparisons with a constant


def _against(call: Call, term: Term, op: Op, lit: Lit) -> Node | None:
    if not lit.value.is_valid:
        return UNKNOWN
    if isinstance(term, Call):
        return _solved(term, op, lit)
    if isinstance(term, Case):
        return _of_case(term, op, lit)
    if not isinstance(term, Col):
        return None
    column, kind = term.column, family(term.column.value_type)
    if kind == "bool" or pt.is_boolean(lit.type):
        return _of_bools(column, op, lit) if kind == "bool" else None
    if pt.is_interval(lit.type) or kind == "none":
        return None
    value = _fitted(column, lit)
    if value is None:
        return _opaque(call, _nearly(column, op, lit.value.as_py()))
    return compare(column, op, value, nan_greatest=True)


def _of_bools(column: Column, op: Op, lit: Lit) -> Node:
    """Comparisons such as ``b = 1``: tests which of the two values pass."""
    values = [pa.scalar(False), pa.scalar(True)]
    passing = tuple(v for v in values if compare_values(op, pa.array([v]), lit.value)[0].as_py())
    if len(passing) == 1:
        return compare(column, "==", passing[0])
    return always(column) if passing else never(column)


def _fitted(column: Column, lit: Lit) -> pa.Scalar | None:
    """The constant, converted for an exact comparison with the column; ``None`` if impossible.

    A number compared with a float column becomes a float. Compared with a float constant, values of
    other number columns become floats, which is exact only for small integers.
    """
    value, target = lit.value, column.value_type
    if not value.is_valid or family(target) != "number" or family(value.type) != "number":
        return value
    if pt.is_floating(target):
        if pt.is_floating(value.type):
            return value
        number = value.as_py()
        return pa.scalar(float(number), pa.float64()).cast(target, safe=False)
    if not pt.is_floating(value.type):
        return value
    number = value.as_py()
    most = 2.0**24 if pt.is_float32(value.type) else 2.0**53
    if is_nan(value) or (not pt.is_decimal(target) and abs(number) < most):
        return value
    return None


def _nearly(column: Column, op: Op, number: float) -> Node:
    """A condition that holds for all numbers whose rounded value compares so with a float."""
    parts: list[Node] = []
    around = (np.nextafter(np.float32(number), d) if abs(number) < 3e38 else number
              for d in (np.float32(-np.inf), np.float32(np.inf)))  # fmt: skip
    low, high = (float(bound) for bound in around)
    if op in ("==", ">", ">="):
        parts.append(compare(column, ">=", low))
    if op in ("==", "<", "<="):
        parts.append(compare(column, "<=", high))
    return all_of(*parts) if parts else IsValid(column)


# ------------------------------------------------------------------ choices


def _of_case(case: Case, op: Op, lit: Lit) -> Node | None:
    """``CASE ... END op c``: compares each branch with the constant, under its condition.

    ``None`` unless all conditions and branches can be lowered themselves; they then cannot fail.
    """
    *pairs, last = case.args
    values = [*pairs[1::2], last]
    if len(values) > _MOST_BRANCHES or not all(_keeps_its_value(v, case) for v in values):
        return None
    node = _branch(last, op, lit)
    for condition, value in zip(reversed(pairs[::2]), reversed(pairs[1::2]), strict=True):
        holds, passes = _holds(lower(condition)), _branch(value, op, lit)
        if node is None or holds is None or passes is None:
            return None
        node = any_of(all_of(holds, passes), all_of(negate(holds), node))
    return node


def _keeps_its_value(branch: Term, case: Case) -> bool:
    """Whether the conversion of a branch to the type of the CASE keeps its value."""
    exact = not any(pt.is_floating(t) or family(t) != "number" for t in (branch.type, case.type))
    return branch.type == case.type or exact or pt.is_null(branch.type)


def _branch(value: Term, op: Op, lit: Lit) -> Node | None:
    if isinstance(value, Lit):
        if not (value.value.is_valid and lit.value.is_valid):
            return UNKNOWN
        node = compare_values(op, pa.array([value.value]), lit.value)
        return Const(node[0].as_py())
    if isinstance(value, Case) or pt.is_boolean(value.type):
        return None
    if isinstance(value, Col):
        if pt.is_interval(lit.type) or family(value.column.value_type) == "none":
            return None
        fitted = _fitted(value.column, lit)
        if not lit.value.is_valid or fitted is None:
            return None if lit.value.is_valid else UNKNOWN
        return compare(value.column, op, fitted, nan_greatest=True)
    node = _against(value, value, op, lit) if isinstance(value, Call) else None
    return None if node is None or _holds(node) is None else node


def _holds(node: Node) -> Node | None:
    """A node that is true if ``node`` is true, and otherwise false; ``None`` if not possible."""
    match node:
        case Compare(column) | In(column) | StartsWith(column):
            return all_of(IsValid(column), node)
        case Not(Compare(column) | In(column) | StartsWith(column)):
            return all_of(IsValid(column), node)
        case IsNull() | IsValid():
            return node
        case Const(value):
            return Const(value is True)
        case And(args) | Or(args):
            parts = [_holds(arg) for arg in args]
            converted = [part for part in parts if part is not None]
            if len(converted) < len(parts):
                return None
            return (all_of if isinstance(node, And) else any_of)(*converted)
    return None


# ------------------------------------------------------------------ solved for the column


def _solved(term: Call, op: Op, lit: Lit) -> Node | None:
    if term.name == "cast":
        (inner,) = term.args
        if isinstance(inner, Col):
            return _solved_cast(term, inner, op, lit)
        return None
    if term.name in ("date_trunc", "datetrunc", "year"):
        return _solved_time(term, op, lit)
    kinds = {family(lit.type), *(family(arg.type) for arg in term.args)}
    if kinds != {"number"} or any(pt.is_floating(t.type) for t in (lit, *term.args)):
        return None
    return _solved_number(term, op, lit)


def _solved_number(term: Term, op: Op, lit: Lit) -> Node | None:
    """Solves ``a * x + b op c`` with exact numbers for x."""
    value = Fraction(lit.value.as_py())
    while isinstance(term, Call):
        args = term.args
        if term.name == "negate":
            term, value, op = args[0], -value, FLIPPED[op]
            continue
        if len(args) != 2 or term.name not in ("+", "-", "*", "multiply"):
            return None
        inner, other = args
        if isinstance(inner, Lit):
            inner, other = other, inner
        if not isinstance(other, Lit) or pt.is_floating(other.type) or pt.is_floating(inner.type):
            return None
        if not other.value.is_valid:
            return UNKNOWN
        if {family(inner.type), family(other.type)} != {"number"}:
            return None
        amount = Fraction(other.value.as_py())
        if term.name == "+":
            value -= amount
        elif term.name == "-" and inner is args[0]:
            value += amount
        elif term.name == "-":
            value, op = amount - value, FLIPPED[op]
        elif amount == 0:
            return None
        else:
            value, op = value / amount, FLIPPED[op] if amount < 0 else op
        term = inner
    if not isinstance(term, Col) or family(term.column.value_type) != "number":
        return None
    return compare(term.column, op, value, nan_greatest=True)


def _solved_cast(term: Call, inner: Col, op: Op, lit: Lit) -> Node | None:
    column, target = inner.column, term.type
    source = column.value_type
    if pt.is_date(target) and pt.is_timestamp(source) and pt.is_date(lit.type):
        day = lit.value.cast(pa.int32()).as_py()
        ends = [
            pa.scalar(day + i, pa.int32()).cast(pa.date32()).cast(pa.timestamp("us"))
            for i in (0, 1)
        ]
        return _floored(column, op, ends[0], ends[1], True)
    if family(source) == "number" and widens(source, target) and family(lit.type) == "number":
        if pt.is_floating(target) or pt.is_floating(lit.type):
            return None
        return compare(column, op, lit.value, nan_greatest=True)
    if pt.is_timestamp(target) and pt.is_date(source) and pt.is_timestamp(lit.type):
        return compare(column, op, lit.value) if target.tz is None and lit.type.tz is None else None
    return None


def _solved_time(term: Call, op: Op, lit: Lit) -> Node | None:
    """Solves comparisons of ``year(ts)`` and ``date_trunc(unit, ts)`` for ``ts``."""
    (inner,) = term.args
    if not isinstance(inner, Col) or family(inner.type) not in ("date", "instant"):
        return None
    if term.name == "year":
        if not pt.is_integer(lit.type) and not pt.is_decimal(lit.type):
            return None
        year = Fraction(lit.value.as_py())
        whole = math.floor(year)
        if not 1700 < whole < 2200:
            return None
        ends = [pa.scalar(f"{whole + i}-01-01").cast(pa.timestamp("us")) for i in (0, 1)]
        return _floored(inner.column, op, ends[0], ends[1], year == whole)
    unit = term.kernel.args[0]  # type: ignore[attr-defined]
    parts = times.UNITS.get(times.unit_named(unit))
    if parts is None or not (pt.is_timestamp(lit.type) or pt.is_date(lit.type)):
        return None
    naive = pa.array([lit.value])
    if getattr(lit.type, "tz", None) is not None:
        naive = pc.local_timestamp(naive.cast(pa.timestamp("us", inner.type.tz), safe=False))
    naive = naive.cast(pa.timestamp("us"), safe=False)
    if abs(naive.cast(pa.int64())[0].as_py()) > 2**62:
        return None
    low = times.truncate(unit, naive)
    high = times.add_interval(low, times.interval(*parts))
    return _floored(inner.column, op, low[0], high[0], low.equals(naive))


def _floored(column: Column, op: Op, low: pa.Scalar, high: pa.Scalar, exact: bool) -> Node | None:
    """Compares a rounded-down time with a constant from ``low`` up to, but not including, ``high``.

    Args:
        exact: whether the constant equals ``low``; otherwise no rounded time equals it.
    """
    zone = getattr(column.value_type, "tz", None)
    if zone is not None:
        low, high = localize(low, zone), localize(high, zone)
    try:
        if op in ("==", "!="):
            if not exact:
                return never(column) if op == "==" else always(column)
            node = all_of(compare(column, ">=", low), compare(column, "<", high))
            return node if op == "==" else negate(node)
        if op == "<":
            return compare(column, "<", low if exact else high)
        if op == ">=":
            return compare(column, ">=", low if exact else high)
        return compare(column, op.replace("<=", "<").replace(">", ">="), high)  # type: ignore[arg-type]
    except InvalidArgumentError:
        return None


# ------------------------------------------------------------------ patterns


def _like(call: Call, column: Column) -> Node | None:
    pattern, *escapes = (arg.value.as_py() for arg in call.args[1:] if isinstance(arg, Lit))
    if pattern is None or None in escapes or not is_text(column.value_type):
        return None
    prefix, regex = like_parts(pattern, escapes[0] if escapes else None)
    if call.name == "ilike":
        return _opaque(call, IsValid(column))
    if regex == re.escape(prefix):
        return compare(column, "==", prefix)
    if regex == re.escape(prefix) + ".*":
        return StartsWith(column, prefix) if prefix else always(column)
    return _opaque(call, StartsWith(column, prefix) if prefix else IsValid(column))
