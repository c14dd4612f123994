"""From the filter tree back to a pyarrow expression that evaluates it.

Literals have the column's type already, so pyarrow has nothing to convert. Columns are made plain
first (:mod:`nimblepy.schema.plain`). Where pyarrow has no kernel even then (half floats, narrow
decimals, ...) the column is cast to a type that has one; every such cast keeps equality and order.
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.nodes import (
    NEGATED,
    And,
    Compare,
    Const,
    In,
    IsNull,
    IsValid,
    Node,
    Not,
    Opaque,
    Or,
    StartsWith,
)
from nimblepy.schema.columns import Column
from nimblepy.schema.names import Path
from nimblepy.schema.plain import plain_array, plain_type
from nimblepy.schema.values import is_nan, successor


def build(node: Node, *, keep_unknown: bool = False) -> pc.Expression:
    """A pyarrow expression equal to ``node``.

    Args:
        keep_unknown: tell unknown from false. A filter drops both, and not telling them apart is
            cheaper; below NOT it matters.
    """
    match node:
        case Compare(column, op, value, nan_greatest):
            if is_nan(value):  # the greatest value: nothing is above it, and all else is below
                found = pc.is_nan(field(column))
                return found if op == "==" else ~found
            operand = pc.scalar(value.cast(operand_type(column)))
            if nan_greatest and op in (">", ">="):
                return ~_compare(field(column), NEGATED[op], operand)
            return _compare(field(column), op, operand)
        case In(column, values):
            return _build_in(column, values, keep_unknown)
        case StartsWith(column, prefix):
            return _build_prefix(column, prefix)
        case IsNull(column):
            return pc.field(*column.path).is_null()
        case IsValid(column):
            return pc.field(*column.path).is_valid()
        case Const(value):
            return pc.scalar(pa.scalar(value, type=pa.bool_()))
        case And(args):
            return reduce(lambda a, b: a & b, (build(a, keep_unknown=keep_unknown) for a in args))
        case Or(args):
            return reduce(lambda a, b: a | b, (build(a, keep_unknown=keep_unknown) for a in args))
        case Not(arg):
            return ~build(arg, keep_unknown=True)
        case Opaque(expression):
            return expression


def operand_type(column: Column) -> pa.DataType:
    """The type in which pyarrow can compare the column's values."""
    data_type = plain_type(column.type)
    if pt.is_float16(data_type):
        return pa.float32()
    if pt.is_fixed_size_binary(data_type):
        return pa.large_binary()
    if pt.is_decimal(data_type) and data_type.bit_width < 128:
        return pa.decimal128(data_type.precision, data_type.scale)
    return data_type


def field(column: Column) -> pc.Expression:
    """The column as an expression of :func:`operand_type`."""
    expression = pc.field(*column.path)
    wanted = operand_type(column)
    return expression if plain_type(column.type) == wanted else expression.cast(wanted)


def evaluable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with plain columns, which is what expressions of :func:`build` are about."""
    for position, item in enumerate(batch.schema):
        column = plain_array(batch.column(position))
        if column.type != item.type:
            batch = batch.set_column(position, item.with_type(column.type), column)
    return batch


def evaluate(expression: pc.Expression, batch: pa.RecordBatch) -> pa.ChunkedArray:
    """The value of ``expression`` for every row of ``batch``, which has at least one column."""
    import pyarrow.acero as acero  # with pyarrow.dataset and pandas: not for whom it is not needed

    table = pa.Table.from_batches([batch])
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
        ]
    )
    return plan.to_table(use_threads=False).column(0)


def evaluate_constant(expression: pc.Expression) -> pa.Scalar:
    """The value of an expression that reads no column."""
    one_row = pa.RecordBatch.from_arrays([pa.array([True])], names=["row"])
    try:
        return evaluate(expression, one_row)[0]
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"{expression}: {error}") from error


def opaque(
    expression: pc.Expression, columns: tuple[Path, ...], implies: Node | None = None
) -> Node:
    """An opaque node, or its constant when it reads no column."""
    if columns:
        return Opaque(expression, columns, implies)
    value = evaluate_constant(expression)
    if not pt.is_boolean(value.type):
        raise InvalidArgumentError(f"a filter must be boolean, {expression} is {value.type}")
    return Const(value.as_py())


def _compare(left: pc.Expression, op: str, right: pc.Expression) -> pc.Expression:
    match op:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def _build_in(column: Column, values: tuple[pa.Scalar, ...], keep_unknown: bool) -> pc.Expression:
    operand = operand_type(column)
    if pt.is_floating(operand):
        # is_in hashes bits: it would tell -0.0 from 0.0, which compare equal.
        numbers = [value.as_py() for value in values if not is_nan(value)]
        both_zeros = [0.0, -0.0] if 0.0 in numbers else []
        members = pa.array([*numbers, *both_zeros], type=operand)
    else:
        members = pa.array([value.cast(operand) for value in values], type=operand)
    found = field(column).isin(members) if len(values) else pc.scalar(False)
    if any(map(is_nan, values)):
        found = found | pc.is_nan(field(column))
    if not keep_unknown:
        return found
    unknown = pc.scalar(pa.scalar(None, type=pa.bool_()))
    return pc.if_else(pc.field(*column.path).is_valid(), found, unknown)


def _build_prefix(column: Column, prefix: str | bytes) -> pc.Expression:
    if isinstance(prefix, str):
        return pc.starts_with(field(column), prefix)
    # pyarrow patterns are text; any bytes work as the range [prefix, successor).
    operand = operand_type(column)
    lower = field(column) >= pc.scalar(pa.scalar(prefix, type=operand))
    above = successor(prefix)
    if above is None:
        return lower
    return lower & (field(column) < pc.scalar(pa.scalar(above, type=operand)))
