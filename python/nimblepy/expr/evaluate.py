"""Which rows pass: evaluates a filter tree over a batch.

Tests of a column call a kernel each; SQL terms evaluate themselves; pyarrow expressions are
pyarrow's to evaluate, on columns in types that it has kernels for.
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
    """True for the rows where ``node`` is; never null.

    Conjuncts are asked in their order. Where few rows are left the next ones are asked of just
    these, and so is one that fails on others.

    Raises:
        InvalidArgumentError: a kernel cannot compute it for these values.
    """
    parts = node.args if isinstance(node, And) else (node,)
    passed = None
    for part in parts:
        left = len(rows) if passed is None else passed.true_count
        if passed is not None and left == 0:
            break
        if passed is not None and left * 8 < len(rows):
            passed = _narrowed(part, rows, passed)
            continue
        try:
            found = _known(truth(part, rows), len(rows))
            passed = found if passed is None else pc.and_(passed, found)
        except InvalidArgumentError:
            if passed is None or left == len(rows):
                raise
            passed = _narrowed(part, rows, passed)
    return pa.repeat(pa.scalar(True), len(rows)) if passed is None else passed


def _narrowed(part: Node, rows: RowBatch, passed: pa.BooleanArray) -> pa.BooleanArray:
    chosen = rows.where(passed)
    found = _known(truth(part, chosen), len(chosen))
    return pc.replace_with_mask(passed, passed, found)


def _known(answers: Value, rows: int) -> pa.BooleanArray:
    """False where the answer is unknown."""
    found = full(answers, rows)
    return pc.fill_null(found, False) if found.null_count else found


def truth(node: Node, rows: RowBatch) -> Value:
    """True, false or null for each row."""
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
            found = _by_pyarrow(expression, rows.batch)
            if not pt.is_boolean(found.type):
                raise InvalidArgumentError(f"a filter must be boolean, {node} is {found.type}")
            return found
        case Opaque(term):
            return terms.evaluate(term, rows)


def _tested(rows: RowBatch, path: Path, test: Callable[[pa.Array], Value]) -> Value:
    """``test`` of a column, or of the values of its dictionary where these are fewer."""
    array = rows.raw(path)
    if isinstance(array, pa.DictionaryArray) and len(array.dictionary) < len(array):
        return test(plain(array.dictionary)).take(array.indices)
    return test(rows.column(path))


def _compared(rows: RowBatch, path: Path, op: Op, value: pa.Scalar, nan_greatest: bool) -> Value:
    operand = plain_scalar(value)
    if is_nan(value):  # the greatest value: nothing is above it, and all else is below
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
        wanted = array.type
        if pt.is_floating(wanted):
            # is_in hashes bits: it would tell -0.0 from 0.0, which compare equal.
            numbers = [value.as_py() for value in values if not is_nan(value)]
            both_zeros = [0.0, -0.0] if 0.0 in numbers else []
            found = pc.is_in(array, pa.array([*map(float, numbers), *both_zeros], wanted))
            if any(map(is_nan, values)):
                found = pc.or_(found, pc.fill_null(pc.is_nan(array), False))
        elif values:
            members = plain(pa.array(values, values[0].type))
            if pt.is_decimal(wanted) and wanted.bit_width == 64:
                array, members = to_ints(array), to_ints(members)
            found = pc.is_in(array, members)
        else:
            found = pa.repeat(pa.scalar(False), len(array))
        return (
            pc.if_else(pc.is_valid(array), found, pa.scalar(None, pa.bool_()))
            if array.null_count
            else found
        )

    return _tested(rows, path, test)


def _starts_with(array: pa.Array, prefix: str | bytes) -> Value:
    if is_text(array.type):
        return pc.starts_with(array, prefix)
    # pyarrow patterns are text; any bytes work as the range [prefix, successor).
    octets = prefix.encode() if isinstance(prefix, str) else prefix
    found = pc.greater_equal(array, pa.scalar(octets, array.type))
    above = successor(octets)
    if above is None:
        return found
    return pc.and_(found, pc.less(array, pa.scalar(above, array.type)))


# ------------------------------------------------------------------ pyarrow's own


def _by_pyarrow(expression: pc.Expression, batch: pa.RecordBatch) -> pa.Array:
    import pyarrow.acero as acero  # with pyarrow.dataset and pandas: not for whom it is not needed

    table = pa.Table.from_batches([batch])
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
        ]
    )
    try:
        found = plan.to_table(use_threads=False).column(0).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        way = "; SQL text compares numbers by value" if "not in range" in str(error) else ""
        raise InvalidArgumentError(f"{expression}: {error}{way}") from error
    return found


def opaque(
    expression: pc.Expression, columns: tuple[Path, ...], implies: Node | None = None
) -> Node:
    """An opaque node, or its constant when it reads no column."""
    if columns:
        return Opaque(expression, columns, implies)
    one_row = pa.RecordBatch.from_arrays([pa.array([True])], names=["row"])
    value = _by_pyarrow(expression, one_row)[0]
    if not pt.is_boolean(value.type):
        raise InvalidArgumentError(f"a filter must be boolean, {expression} is {value.type}")
    return Const(value.as_py())
