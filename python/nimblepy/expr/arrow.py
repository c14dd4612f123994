"""Converts a ``pyarrow.compute.Expression`` to a filter tree.

A part that the tree cannot represent becomes an :class:`~nimblepy.expr.nodes.Opaque` node. If
possible, this is a single branch. The result always has pyarrow's semantics.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.bounds import compare, one_of
from nimblepy.expr.evaluate import opaque
from nimblepy.expr.nodes import (
    FLIPPED,
    Const,
    In,
    IsNull,
    IsValid,
    Node,
    Op,
    Opaque,
    StartsWith,
    all_of,
    any_of,
    negate,
)
from nimblepy.schema.columns import Column, column_paths, resolve_column
from nimblepy.schema.expression_tree import (
    Call,
    Lit,
    NotUnderstood,
    Ref,
    Tree,
    read_tree,
    rebuild,
    references,
    value_set,
)
from nimblepy.schema.kinds import is_bytes, is_text, widens
from nimblepy.schema.names import Path
from nimblepy.schema.values import place

_COMPARISONS: dict[str, Op] = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def read_expression(
    expression: pc.Expression, schema: pa.Schema, *, nan_greatest: bool = False
) -> Node:
    """Returns the filter tree of ``expression`` over the columns of ``schema``.

    Args:
        nan_greatest: whether NaN is greater than all numbers, as in SQL, not as in IEEE 754.

    Raises:
        InvalidArgumentError: the expression reads a column that does not exist.
    """
    try:
        return _read(expression, schema, nan_greatest)
    except (NotUnderstood, RecursionError):
        return _whole(expression, schema)


def _whole(expression: pc.Expression, schema: pa.Schema) -> Node:
    """Returns an opaque node for an expression that cannot be analyzed. It may read any column."""
    return Opaque(expression, tuple((name,) for name in schema.names))


def _read(expression: pc.Expression, schema: pa.Schema, nan_greatest: bool) -> Node:
    tree = read_tree(expression)
    # If the rebuilt expression cannot be compared, trust the column names in the tree, unless line
    # breaks in names could have been misread.
    odd_names = any("\n" in name for path in column_paths(schema) for name in path)
    try:
        rebuilt = rebuild(tree)
        # If the value set of is_in is a dictionary, it is rebuilt without its unused values.
        if not rebuilt.equals(expression) and (odd_names or repr(read_tree(rebuilt)) != repr(tree)):
            return _whole(expression, schema)
    except NotUnderstood:
        return _whole(expression, schema) if odd_names else Opaque(expression, _paths(tree, schema))
    return _Lowering(schema, nan_greatest).lower(_with_paths(tree, schema))


def _column(ref: Ref, schema: pa.Schema) -> Column:
    # For pyarrow, pc.field("location.lat") is a plain name; here it may also be a dotted path.
    return resolve_column(schema, ref.path[0] if len(ref.path) == 1 else ref.path)


def _with_paths(tree: Tree, schema: pa.Schema) -> Tree:
    """Returns ``tree`` with every dotted name split into the path that pyarrow needs."""
    if isinstance(tree, Ref):
        return Ref(_column(tree, schema).path)
    if isinstance(tree, Call):
        return replace(tree, args=tuple(_with_paths(arg, schema) for arg in tree.args))
    return tree


def _paths(tree: Tree, schema: pa.Schema) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(_column(ref, schema).path for ref in references(tree)))


class _Lowering:
    """Converts a verified expression tree to filter nodes, one branch at a time."""

    def __init__(self, schema: pa.Schema, nan_greatest: bool) -> None:
        self._schema = schema
        self._nan_greatest = nan_greatest

    def lower(self, tree: Tree) -> Node:
        if isinstance(tree, Lit) and (pt.is_boolean(tree.scalar.type) or not tree.scalar.is_valid):
            return Const(tree.scalar.as_py())
        if isinstance(tree, Ref):
            column = _column(tree, self._schema)
            return compare(column, "==", True) if column.type == pa.bool_() else self._opaque(tree)
        if isinstance(tree, Call):
            node = self._lower_call(tree)
            if node is not None:
                return node
        return self._opaque(tree)

    def _opaque(self, tree: Tree, implies: Node | None = None) -> Node:
        return opaque(rebuild(tree), _paths(tree, self._schema), implies)

    def _lower_call(self, call: Call) -> Node | None:
        match call.name, call.args:
            case "and_kleene", (left, right):
                return all_of(self.lower(left), self.lower(right))
            case "or_kleene", (left, right):
                return any_of(self.lower(left), self.lower(right))
            case "invert", (arg,):
                return negate(self.lower(arg))
            case name, (left, Lit(scalar)) if name in _COMPARISONS:
                return self._lower_compare(left, _COMPARISONS[name], scalar)
            case name, (Lit(scalar), right) if name in _COMPARISONS:
                return self._lower_compare(right, FLIPPED[_COMPARISONS[name]], scalar)
        return self._lower_column_call(call)

    def _lower_compare(self, operand: Tree, op: Op, scalar: pa.Scalar) -> Node | None:
        column = self._exact_column(operand)
        if column is None:
            return None
        try:
            return compare(column, op, scalar, nan_greatest=self._nan_greatest)
        except InvalidArgumentError:
            # pyarrow may be able to compare the two, or has its own error message.
            return None

    def _exact_column(self, operand: Tree) -> Column | None:
        """Returns the column inside lossless casts; ``None`` if the operand is anything else."""
        if isinstance(operand, Call) and operand.name == "cast" and operand.options is not None:
            column = self._exact_column(operand.args[0])
            if column is None or not widens(column.value_type, operand.options["to_type"].type):
                return None
            return column
        return _column(operand, self._schema) if isinstance(operand, Ref) else None

    def _lower_column_call(self, call: Call) -> Node | None:
        if len(call.args) != 1 or not isinstance(call.args[0], Ref):
            return None
        column = _column(call.args[0], self._schema)
        options = call.options
        if call.name == "is_valid":
            return IsValid(column)
        if options is None:
            return None
        if call.name == "is_null":
            may_be_nan = options["nan_is_null"].as_py() and pt.is_floating(column.value_type)
            return None if may_be_nan else IsNull(column)
        if call.name == "starts_with" and not options["ignore_case"].as_py():
            pattern = options["pattern"].as_py()
            return StartsWith(column, pattern) if _has_prefixes(column) else None
        if call.name == "is_in":
            return self._lower_is_in(call, column, options)
        return None

    def _lower_is_in(self, call: Call, column: Column, options: pa.StructScalar) -> Node | None:
        members = value_set(options)
        scalars = [scalar for scalar in members if scalar.is_valid]
        try:
            places = [place(column.type, scalar) for scalar in scalars]
        except InvalidArgumentError:
            return None
        exact = [position.exact for position in places if position.exact is not None]
        matches_null = len(scalars) < len(members) and (
            options["null_matching_behavior"].as_py() == 0
        )
        # Unlike SQL's IN, is_in is never null for a null: it is true if null is a member.
        position: Node = In(column, tuple(dict.fromkeys(exact)))
        if self._nan_greatest:
            position = one_of(column, scalars, nan_greatest=True)
        node = (
            any_of(IsNull(column), position) if matches_null else all_of(IsValid(column), position)
        )
        if self._nan_greatest or (
            len(exact) == len(scalars) and not pt.is_floating(column.value_type)
        ):
            return node
        # pyarrow converts the other members in its own way (rounding, NaN, signed zeros), so only
        # pyarrow can decide what matches. If no member is lossy, an index can still exclude rows.
        if len(exact) < len(scalars):
            return None
        return self._opaque(call, implies=node)


def _has_prefixes(column: Column) -> bool:
    return is_text(column.value_type) or (
        is_bytes(column.value_type) and not pt.is_fixed_size_binary(column.value_type)
    )
