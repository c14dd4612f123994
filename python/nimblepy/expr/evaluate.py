"""Evaluates a filter tree over a batch.

Tests of a column call one kernel each. SQL terms are evaluated by ``terms.py``. pyarrow evaluates
its own expressions, on columns converted to types that it supports.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr import terms
from nimblepy.expr.arrays import Value, full, plain, plain_scalar, to_ints
from nimblepy.expr.nodes import (
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
from nimblepy.expr.numbers import Op, compare
from nimblepy.expr.terms import RowBatch
from nimblepy.schema.kinds import is_text
from nimblepy.schema.names import Path
from nimblepy.schema.values import is_nan, successor


def passing(node: Node, rows: RowBatch) -> pa.BooleanArray:
    """A mask of the rows where ``node`` is true, without nulls.

    Conjuncts are evaluated in order. If few rows are left, or if a conjunct raises an error, it is
    evaluated only for the rows that passed the previous conjuncts.

    Raises:
        InvalidArgumentError: a kernel cannot compute a result for these values.
    """
    parts = node.args if isinstance(node, And) else (node,)
    passed = None
    for part in parts:
        num_left = len(rows) if passed is None else passed.true_count
        if passed is not None and num_left == 0:
            break
        if passed is not None and num_left * 8 < len(rows):
            passed = _narrowed(part, rows, passed)
            continue
        try:
            matches = _known(truth(part, rows), len(rows))
            passed = matches if passed is None else pc.and_(passed, matches)
        except InvalidArgumentError:
            if passed is None or num_left == len(rows):
                raise
            passed = _narrowed(part, rows, passed)
    return pa.repeat(pa.scalar(True), len(rows)) if passed is None else passed


def _narrowed(part: Node, rows: RowBatch, passed: pa.BooleanArray) -> pa.BooleanArray:
    chosen = rows.where(passed)
    matches = _known(truth(part, chosen), len(chosen))
    return pc.replace_with_mask(passed, passed, matches)


def _known(answers: Value, rows: int) -> pa.BooleanArray:
    """Converts answers to a mask; null becomes false."""
    mask = full(answers, rows)
    return pc.fill_null(mask, False) if mask.null_count else mask


def truth(node: Node, rows: RowBatch) -> Value:
    """Evaluates ``node`` to true, false or null for each row."""
    match node:
        case Compare(column, op, value, nan_greatest):
            return _compared(rows, column.path, op, value, nan_greatest)
        case In(column, values):
            return _is_in(rows, column.path, values)
        case StartsWith(column, prefix):
            return _tested(rows, column.path, lambda array: _starts_with(array, prefix))
        case IsNull(column):
            return pc.is_null(rows.column(column.path))
        case IsValid(column):
            return pc.is_valid(rows.column(column.path))
        case Const(value):
            return pa.scalar(value, pa.bool_())
        case And(args):
            return reduce(pc.and_kleene, (truth(arg, rows) for arg in args))
        case Or(args):
            return reduce(pc.or_kleene, (truth(arg, rows) for arg in args))
        case Not(arg):
            return pc.invert(truth(arg, rows))
        case Opaque(pc.Expression() as expression):
            result = _by_pyarrow(expression, rows.batch)
            if not pt.is_boolean(result.type):
                raise InvalidArgumentError(f"a filter must be boolean, {node} is {result.type}")
            return result
        case Opaque(term):
            return terms.evaluate(term, rows)


def _tested(rows: RowBatch, path: Path, test: Callable[[pa.Array], Value]) -> Value:
    """Tests a column, or its dictionary if that has fewer values."""
    array = rows.raw(path)
    if isinstance(array, pa.DictionaryArray) and len(array.dictionary) < len(array):
        return test(plain(array.dictionary)).take(array.indices)
    return test(rows.column(path))


def _compared(rows: RowBatch, path: Path, op: Op, value: pa.Scalar, nan_greatest: bool) -> Value:
    operand = plain_scalar(value)
    if is_nan(value):  # NaN is the greatest value
        return _tested(
            rows, path, lambda a: pc.is_nan(a) if op == "==" else pc.invert(pc.is_nan(a))
        )
    if pt.is_floating(operand.type) and not nan_greatest:
        kernel = {"==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal,
                  ">": pc.greater, ">=": pc.greater_equal}[op]  # fmt: skip
        return _tested(rows, path, lambda array: kernel(array, operand))
    return _tested(rows, path, lambda array: compare(op, array, operand))


def _is_in(rows: RowBatch, path: Path, values: tuple[pa.Scalar, ...]) -> Value:
    def test(array: pa.Array) -> Value:
        data_type = array.type
        if pt.is_floating(data_type):
            # is_in compares bits, so it distinguishes -0.0 and 0.0, which are equal.
            numbers = [value.as_py() for value in values if not is_nan(value)]
            both_zeros = [0.0, -0.0] if 0.0 in numbers else []
            matches = pc.is_in(array, pa.array([*map(float, numbers), *both_zeros], data_type))
            if any(map(is_nan, values)):
                matches = pc.or_(matches, pc.fill_null(pc.is_nan(array), False))
        elif values:
            members = plain(pa.array(values, values[0].type))
            if pt.is_decimal(data_type) and data_type.bit_width == 64:
                array, members = to_ints(array), to_ints(members)
            matches = pc.is_in(array, members)
        else:
            matches = pa.repeat(pa.scalar(False), len(array))
        return (
            pc.if_else(pc.is_valid(array), matches, pa.scalar(None, pa.bool_()))
            if array.null_count
            else matches
        )

    return _tested(rows, path, test)


def _starts_with(array: pa.Array, prefix: str | bytes) -> Value:
    if is_text(array.type):
        return pc.starts_with(array, prefix)
    # pyarrow's patterns must be text; the range [prefix, successor) works for all bytes.
    octets = prefix.encode() if isinstance(prefix, str) else prefix
    matches = pc.greater_equal(array, pa.scalar(octets, array.type))
    above = successor(octets)
    if above is None:
        return matches
    return pc.and_(matches, pc.less(array, pa.scalar(above, array.type)))


# ------------------------------------------------------------------ pyarrow expressions


def _by_pyarrow(expression: pc.Expression, batch: pa.RecordBatch) -> pa.Array:
    import pyarrow.acero as acero  # slow: it also imports pyarrow.dataset and pandas

    table = pa.Table.from_batches([batch])
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
        ]
    )
    try:
        result = plan.to_table(use_threads=False).column(0).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        hint = "; SQL text compares numbers by value" if "not in range" in str(error) else ""
        raise InvalidArgumentError(f"{expression}: {error}{hint}") from error
    return result


def opaque(
    expression: pc.Expression, columns: tuple[Path, ...], implies: Node | None = None
) -> Node:
    """An opaque node, or a constant if the expression does not read a column."""
    if columns:
        return Opaque(expression, columns, implies)
    one_row = pa.RecordBatch.from_arrays([pa.array([True])], names=["row"])
    value = _by_pyarrow(expression, one_row)[0]
    if not pt.is_boolean(value.type):
        raise InvalidArgumentError(f"a filter must be boolean, {expression} is {value.type}")
    return Const(value.as_py())
