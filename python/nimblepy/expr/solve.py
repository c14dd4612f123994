"""Solves comparisons for a column, so that indexes and zone maps can answer them.

``n + 1 > 5`` becomes ``n > 4``, and ``year(ts) = 2024`` becomes a range of ``ts``. A comparison of
``CASE`` becomes a comparison of each branch. DuckDB computes constant parts. The result ``None``
means that DuckDB must evaluate the whole comparison.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.bounds import compare
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
    Or,
    StartsWith,
    all_of,
    always,
    any_of,
    negate,
    never,
)
from nimblepy.schema import sql_values
from nimblepy.schema.columns import Column
from nimblepy.schema.kinds import family, is_text
from nimblepy.schema.sql_values import Inexact, fit

COMPARISON_TYPES: dict[type[exp.Expression], Op] = {
    exp.EQ: "==", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
# A solved CASE repeats its conditions; its size grows with the square of the number of branches.
_MOST_BRANCHES = 8


class Solver:
    """Solves comparisons of one filter.

    Args:
        column_of: returns the column that an expression refers to; ``None`` if it is not a column.
        node_of: returns the node of a condition; ``None`` if DuckDB must evaluate the condition.
        value_of: returns the value of a constant expression; ``None`` if it reads columns.
    """

    def __init__(
        self,
        column_of: Callable[[exp.Expression], Column | None],
        node_of: Callable[[exp.Expression], Node | None],
        value_of: Callable[[exp.Expression], pa.Scalar | None],
    ) -> None:
        self._column_of = column_of
        self._node_of = node_of
        self._value_of = value_of

    def solve(self, tree: exp.Expression) -> Node | None:
        """Returns an equivalent node; ``None`` if DuckDB must evaluate the comparison."""
        try:
            return self._solve(tree.unnest())
        except (Inexact, InvalidArgumentError, pa.ArrowException, OverflowError, ValueError):
            return None

    def _solve(self, tree: exp.Expression) -> Node | None:
        op = COMPARISON_TYPES.get(type(tree))
        if op is None:
            return None
        left, right = tree.this.unnest(), tree.expression.unnest()
        value = self._value_of(right)
        if value is None:
            left, right, op = right, left, FLIPPED[op]
            value = self._value_of(right)
        if value is None or pt.is_nested(value.type):
            return None
        quoted = isinstance(right, exp.Literal) and right.is_string
        return self._against(left, op, value, quoted)

    def _against(
        self, tree: exp.Expression, op: Op, value: pa.Scalar, quoted: bool = False
    ) -> Node | None:
        tree = tree.unnest()
        if not value.is_valid:
            return UNKNOWN
        column = self._column_of(tree)
        if column is not None:
            if is_text(value.type) and not quoted and not is_text(column.value_type):
                return None
            if family(column.value_type) == "bool":
                return None
            return compare(column, op, fit(column, sql_values.parameter(value)), nan_greatest=True)
        if isinstance(tree, exp.Case):
            return self._case(tree, op, value, quoted)
        floored = self._floored(tree, op, value)
        if floored is not None or quoted or not _is_exact_number(value):
            return floored
        return self._arithmetic(tree, op, Fraction(value.as_py()))

    # ------------------------------------------------------------------ numbers

    def _arithmetic(self, tree: exp.Expression, op: Op, value: Fraction) -> Node | None:
        """Solves sums, differences and products with exact constants."""
        tree = tree.unnest()
        column = self._column_of(tree)
        if column is not None:
            kind = column.value_type
            exact = pt.is_signed_integer(kind) or pt.is_decimal(kind)
            return compare(column, op, value, nan_greatest=True) if exact else None
        if not isinstance(tree, (exp.Add, exp.Sub, exp.Mul)):
            return None
        left, right = tree.this, tree.expression
        constant = self._value_of(right)
        swapped = constant is None
        if constant is None:
            left, right = right, left
            constant = self._value_of(right)
        if constant is None or not constant.is_valid or not _is_exact_number(constant):
            return None
        number = Fraction(constant.as_py())
        if isinstance(tree, exp.Add):
            return self._arithmetic(left, op, value - number)
        if isinstance(tree, exp.Sub):
            if swapped:
                return self._arithmetic(left, FLIPPED[op], number - value)
            return self._arithmetic(left, op, value + number)
        if number == 0:
            return None
        return self._arithmetic(left, op if number > 0 else FLIPPED[op], value / number)

    # ------------------------------------------------------------------ times

    def _floored(self, tree: exp.Expression, op: Op, value: pa.Scalar) -> Node | None:
        """Solves functions that round a time down: ``year``, ``date_trunc``, a cast to a date."""
        name = tree.name.lower() if isinstance(tree, exp.Anonymous) else ""
        if isinstance(tree, exp.Extract) and tree.name.lower() == "year":
            name, args = "year", [tree.expression]
        elif isinstance(tree, exp.Cast) and tree.to.is_type("date"):
            name, args = "date", [tree.this]
        else:
            args = tree.expressions
        column = self._column_of(args[-1]) if args else None
        if column is None or family(column.value_type) not in ("date", "instant"):
            return None
        if getattr(column.value_type, "tz", None) is not None:
            return None
        if name == "year" and len(args) == 1 and pt.is_integer(value.type):
            year = value.as_py()
            if not 1 < year < 9998:
                return None
            ends = [datetime.datetime(year + more, 1, 1) for more in (0, 1)]
            return _between(column, op, ends[0], ends[1], exact=True)
        unit = args[0].name.lower() if name in ("date_trunc", "datetrunc") else "day"
        if name not in ("date", "date_trunc", "datetrunc") or not unit.isalpha():
            return None
        start = self._timestamp(_quoted(value))
        truncated = exp.Anonymous(
            this="date_trunc", expressions=[exp.Literal.string(unit), _stamp(_quoted(start))]
        )
        low = self._timestamp(truncated)
        step = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this=unit))
        high = self._timestamp(exp.Add(this=_stamp(_quoted(low)), expression=step))
        return _between(column, op, low.as_py(), high.as_py(), exact=low.equals(start))

    def _timestamp(self, tree: exp.Expression) -> pa.Scalar:
        value = self._value_of(_stamp(tree))
        if value is None or not value.is_valid:
            raise Inexact
        return value

    # ------------------------------------------------------------------ CASE

    def _case(self, tree: exp.Case, op: Op, value: pa.Scalar, quoted: bool) -> Node | None:
        """Compares each branch under its condition; ``None`` if a branch cannot be solved."""
        pairs = tree.args.get("ifs") or []
        if tree.this is not None or len(pairs) > _MOST_BRANCHES:
            return None
        node = self._branch(tree.args.get("default") or exp.Null(), op, value, quoted)
        for pair in reversed(pairs):
            condition = self._node_of(pair.this)
            holds = None if condition is None else _holds(condition)
            passes = self._branch(pair.args["true"], op, value, quoted)
            if node is None or holds is None or passes is None:
                return None
            node = any_of(all_of(holds, passes), all_of(negate(holds), node))
        return node

    def _branch(self, tree: exp.Expression, op: Op, value: pa.Scalar, quoted: bool) -> Node | None:
        constant = self._value_of(tree)
        if constant is None:
            node = self._against(tree, op, value, quoted)
            return None if node is None or _holds(node) is None else node
        if not constant.is_valid:
            return UNKNOWN
        if not (_is_exact_number(constant) and _is_exact_number(value)):
            return None
        sides = Fraction(constant.as_py()), Fraction(value.as_py())
        return Const(_holds_of_numbers(op, *sides))


def _quoted(value: pa.Scalar) -> exp.Expression:
    return exp.Literal.string(value.cast(pa.string()).as_py())


def _stamp(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=exp.DataType.build("timestamp", "duckdb"))


def _is_exact_number(value: pa.Scalar) -> bool:
    return isinstance(value.as_py(), (int, Decimal)) and not pt.is_boolean(value.type)


def _holds_of_numbers(op: Op, left: Any, right: Any) -> bool:
    tests = {"==": left == right, "!=": left != right, "<": left < right, "<=": left <= right,
             ">": left > right, ">=": left >= right}  # fmt: skip
    return bool(tests[op])


def _between(column: Column, op: Op, low: Any, high: Any, *, exact: bool) -> Node:
    """Compares a rounded-down time with a constant from ``low`` up to, but not including, ``high``.

    Args:
        exact: whether the constant equals ``low``; otherwise no rounded time equals it.
    """
    if op in ("==", "!="):
        if not exact:
            return never(column) if op == "==" else always(column)
        node = all_of(compare(column, ">=", low), compare(column, "<", high))
        return node if op == "==" else negate(node)
    if op in ("<", ">="):
        return compare(column, op, low if exact else high)
    return compare(column, "<" if op == "<=" else ">=", high)


def _holds(node: Node) -> Node | None:
    """Returns a node that is true if ``node`` is true, else false; ``None`` if not possible."""
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
