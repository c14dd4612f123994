"""Converts comparisons of sums, differences and products to formulas that the core computes.

``price * (1 - discount) > 90000`` becomes terms over the unscaled integers of the decimals. The
core computes them exactly, with up to 128 bits. In a formula, a column of text stands for its
number of characters, as in ``length(comment) > 60``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from nimblepy.expr.nodes import Formula, Term
from nimblepy.expr.solve import COMPARISON_TYPES
from nimblepy.schema.columns import Column
from nimblepy.schema.kinds import is_text
from nimblepy.schema.sql_values import Inexact

_OPERATORS: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_MOST_DIGITS = 38  # of 128 bits
_INT_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


class _Value(NamedTuple):
    """Terms that compute an integer of at most ``digits`` digits, times 10 ** -``scale``."""

    terms: tuple[Term, ...]
    scale: int
    digits: int


def read_formula(
    tree: exp.Expression,
    column_of: Callable[[exp.Expression], Column | None],
    value_of: Callable[[exp.Expression], pa.Scalar | None],
) -> Formula | None:
    """Returns the formula of a comparison; ``None`` if ``tree`` is not a comparison.

    Args:
        column_of: returns the column that an expression refers to; ``None`` if it is not a column.
        value_of: returns the value of a constant expression; ``None`` if it reads columns.

    Raises:
        Inexact: the core cannot compute the comparison.
    """
    tree = tree.unnest()
    op = COMPARISON_TYPES.get(type(tree))
    columns: list[Column] = []

    def read(side: exp.Expression) -> _Value:
        side = side.unnest()
        text = _text_of_length(side)
        column = column_of(side if text is None else text)
        if column is not None:
            if is_text(column.type) != (text is not None):
                raise Inexact
            if column not in columns:
                columns.append(column)
            return _column(column, columns.index(column))
        constant = value_of(side)
        if constant is not None:
            return _constant(constant)
        operator = _OPERATORS.get(type(side))
        if operator is None:
            raise Inexact
        return _combined(operator, read(side.this), read(side.expression))

    if op is None:
        return None
    difference = _combined("-", read(tree.this), read(tree.expression))
    return Formula((*columns,), difference.terms, op)


def _text_of_length(side: exp.Expression) -> exp.Expression | None:
    """Returns what ``length()`` is called with; ``None`` if ``side`` does not call it."""
    if not isinstance(side, exp.Anonymous) or str(side.this).lower() not in ("length", "len"):
        return None
    arguments = side.expressions
    return arguments[0].unnest() if len(arguments) == 1 else None


def _column(column: Column, number: int) -> _Value:
    data_type = column.type
    if is_text(data_type):
        return _Value((("column", number),), 0, _INT_DIGITS[64])
    if pt.is_integer(data_type) and not pt.is_uint64(data_type):
        scale, digits = 0, _INT_DIGITS[data_type.bit_width]
    elif pt.is_decimal(data_type) and data_type.bit_width <= 128 and data_type.scale >= 0:
        scale, digits = data_type.scale, data_type.precision
    else:
        raise Inexact
    return _Value((("column", number),), scale, digits)


def _constant(value: pa.Scalar) -> _Value:
    is_decimal = pt.is_decimal(value.type)
    if not value.is_valid or not (is_decimal or pt.is_integer(value.type)):
        raise Inexact
    scale = value.type.scale if is_decimal else 0
    sign, digits, _ = Decimal(value.as_py()).as_tuple()
    unscaled = int(Decimal((sign, digits, 0))) if is_decimal else value.as_py()
    if scale < 0 or abs(unscaled) >= 1 << 63:
        raise Inexact
    return _Value((("constant", unscaled),), scale, len(str(abs(unscaled))))


def _combined(operator: str, left: _Value, right: _Value) -> _Value:
    if operator == "*":
        scale, digits = left.scale + right.scale, left.digits + right.digits
    else:
        scale = max(left.scale, right.scale)
        left, right = _scaled(left, scale), _scaled(right, scale)
        digits = max(left.digits, right.digits) + 1
    if digits > _MOST_DIGITS:
        raise Inexact
    return _Value((*left.terms, *right.terms, (operator, 0)), scale, digits)


def _scaled(value: _Value, scale: int) -> _Value:
    more = scale - value.scale
    if more == 0:
        return value
    if more > 18:
        raise Inexact
    if len(value.terms) == 1 and value.terms[0][0] == "constant":
        number = value.terms[0][1] * 10**more
        if abs(number) < 1 << 63:
            return _Value((("constant", number),), scale, len(str(abs(number))))
    terms = (*value.terms, ("constant", 10**more), ("*", 0))
    return _Value(terms, scale, value.digits + more)
