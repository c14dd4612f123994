"""Translates polars predicates to filters, as far as both languages agree.

Polars evaluates the whole predicate afterwards. So a translation must keep every passing row, and
may leave out parts that it does not support or that polars evaluates differently. The languages
differ in comparisons of mixed types, which polars converts first, and in the order of an Enum,
which polars orders by category. In polars, as in SQL, NaN equals itself and is larger than all
numbers.
"""

from __future__ import annotations

import io
import json
import warnings
from typing import TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.bounds import compare, one_of
from nimblepy.expr.nodes import (
    FLIPPED,
    TRUE,
    IsNull,
    IsValid,
    Node,
    Op,
    StartsWith,
    all_of,
    any_of,
)
from nimblepy.schema.columns import Column, resolve_column
from nimblepy.schema.kinds import is_bytes, is_text

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

_OPS: dict[str, Op] = {
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
}


def pushed_filter(predicate: pl.Expr, schema: pa.Schema) -> Node | None:
    """Returns a filter that ``predicate`` implies; ``None`` if no useful filter is known."""
    try:
        with warnings.catch_warnings():
            # Polars warns that its JSON may change. Unknown nodes are not pushed.
            warnings.simplefilter("ignore")
            tree = json.loads(predicate.meta.serialize(format="json"))
            node = _Translation(schema).implied(tree)
    except (ValueError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError):
        return None
    except RecursionError:  # hundreds of nested terms
        return None
    return None if node == TRUE else node


class _Translation:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def implied(self, tree: Json) -> Node:
        """Returns a node that is true if ``tree`` is true; TRUE if nothing better is known."""
        if not isinstance(tree, dict):
            return TRUE
        if isinstance(parts := tree.get("BinaryExpr"), dict):
            return self._binary(parts["left"], str(parts["op"]), parts["right"])
        if isinstance(call := tree.get("Function"), dict):
            inputs, function = call["input"], call["function"]
            if isinstance(inputs, list) and isinstance(function, dict):
                return self._call(function, inputs)
        return TRUE

    def _binary(self, left: Json, op: str, right: Json) -> Node:
        if op in ("And", "LogicalAnd"):
            return all_of(self.implied(left), self.implied(right))
        if op in ("Or", "LogicalOr"):
            return any_of(self.implied(left), self.implied(right))
        if op not in _OPS:
            return TRUE
        if _is_literal(left):
            return self._compare(right, FLIPPED[_OPS[op]], left)
        return self._compare(left, _OPS[op], right)

    def _compare(self, operand: Json, op: Op, other: Json) -> Node:
        column = self._column(operand)
        if column is None or not _is_literal(other):
            return TRUE
        values = _literal(other)
        if len(values) != 1 or not _comparable(column, values[0]):
            return TRUE
        if op not in ("==", "!=") and pt.is_dictionary(column.type) and column.type.ordered:
            return TRUE  # an Enum is ordered by its categories
        try:
            return compare(column, op, values[0], nan_greatest=True)
        except InvalidArgumentError:
            return TRUE

    def _call(self, function: dict[str, Json], inputs: list[Json]) -> Node:
        column = self._column(inputs[0])
        if column is None:
            return TRUE
        match function:
            case {"Boolean": "IsNull"}:
                return IsNull(column)
            case {"Boolean": "IsNotNull"}:
                return IsValid(column)
            case {"Boolean": {"IsIn": {"nulls_equal": False}}}:
                return self._is_in(column, inputs[1])
            case {"Boolean": {"IsBetween": {"closed": closed}}} if len(inputs) == 3:
                lower: Op = ">=" if closed in ("Both", "Left") else ">"
                upper: Op = "<=" if closed in ("Both", "Right") else "<"
                low = self._compare(inputs[0], lower, inputs[1])
                return all_of(low, self._compare(inputs[0], upper, inputs[2]))
            case {"StringExpr": "StartsWith"} if is_text(column.value_type):
                if not _is_literal(inputs[1]):
                    return TRUE
                prefix = _literal(inputs[1])[0].as_py()
                return StartsWith(column, prefix) if isinstance(prefix, str) else TRUE
        return TRUE

    def _is_in(self, column: Column, members: Json) -> Node:
        if not _is_literal(members):
            return TRUE
        scalars = list(_literal(members))
        if len(scalars) == 1 and pt.is_nested(scalars[0].type):
            scalars = list(scalars[0].values) if scalars[0].is_valid else []
        scalars = [scalar for scalar in scalars if scalar.is_valid]
        if not all(_comparable(column, scalar) for scalar in scalars):
            return TRUE
        return one_of(column, scalars, nan_greatest=True) if scalars else TRUE

    def _column(self, tree: Json) -> Column | None:
        if isinstance(tree, dict) and isinstance(name := tree.get("Column"), str):
            return resolve_column(self._schema, [name])
        return None


def _is_literal(tree: Json) -> bool:
    return isinstance(tree, dict) and set(tree) == {"Literal"}


def _literal(tree: Json) -> pa.Array:
    """Returns the values of a literal, decoded by polars itself."""
    expression = pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")
    return pl.select(expression).to_series().to_arrow()


def _comparable(column: Column, literal: pa.Scalar) -> bool:
    """Returns whether polars compares the two by their exact values, as nimblepy does."""
    kind, other = column.value_type, literal.type
    if not literal.is_valid:
        return False
    if pt.is_floating(kind):
        return bool(pt.is_float64(kind) and pt.is_float64(other))
    if pt.is_integer(kind) and pt.is_integer(other):
        # Signed and unsigned integers may be compared as doubles, which are exact up to this
        # number.
        alike = pt.is_signed_integer(kind) == pt.is_signed_integer(other)
        return bool(alike or abs(literal.as_py()) < 1 << 53)
    if is_text(kind):
        return is_text(other)
    if is_bytes(kind):
        return is_bytes(other)
    return bool(kind == other)
