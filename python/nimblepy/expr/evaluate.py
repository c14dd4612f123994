"""Evaluates a filter tree for the rows of a batch.

Tests of columns call pyarrow's kernels. pyarrow also evaluates its own expressions, after columns
are converted to types that it supports. DuckDB evaluates SQL that is more than tests of columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.nodes import (
    FLIPPED,
    And,
    ColumnPair,
    Compare,
    Const,
    In,
    IsNull,
    IsValid,
    Like,
    Node,
    Not,
    Op,
    Opaque,
    Or,
    StartsWith,
)
from nimblepy.schema.kinds import is_text, widens
from nimblepy.schema.names import Path
from nimblepy.schema.plain import plain_array
from nimblepy.schema.values import is_nan, successor

Value: TypeAlias = Any  # pa.Array | pa.Scalar

_KERNELS: dict[Op, Callable[[Value, Value], Value]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class RowBatch:
    """Rows to evaluate a filter over. Each column is converted for the kernels only once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._columns: dict[Path, pa.Array] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def batch(self) -> pa.RecordBatch:
        """All columns, in types that pyarrow's expressions support."""
        batch = self._batch
        for position, item in enumerate(batch.schema):
            column = plain_array(batch.column(position))
            if column.type != item.type:
                batch = batch.set_column(position, item.with_type(column.type), column)
        return batch

    def raw(self, path: Path) -> pa.Array:
        """Returns a column without conversion for kernels. Its type may be the plain type."""
        column = self._batch.column(path[0])
        if isinstance(column, pa.ExtensionArray) and len(path) > 1:
            column = column.storage
        for name in path[1:]:
            column = pc.struct_field(column, column.type.get_field_index(name))
        return column

    def column(self, path: Path) -> pa.Array:
        """Returns a column in a type for which pyarrow has kernels."""
        column = self._columns.get(path)
        if column is None:
            column = self._columns[path] = _comparable(self.raw(path))
        return column

    def where(self, mask: pa.Array) -> RowBatch:
        """Returns the rows that ``mask`` selects."""
        return _SomeRows(self, mask)


class _SomeRows(RowBatch):
    """Selected rows of a batch. Columns are filtered lazily."""

    def __init__(self, rows: RowBatch, mask: pa.Array) -> None:
        self._rows = rows
        self._mask = mask
        self._columns = {}

    def __len__(self) -> int:
        return int(self._mask.true_count)

    @property
    def batch(self) -> pa.RecordBatch:
        return self._rows.batch.filter(self._mask)

    def raw(self, path: Path) -> pa.Array:
        return plain_array(self._rows.raw(path)).filter(self._mask)


def _comparable(array: pa.Array) -> pa.Array:
    array = plain_array(array)
    data_type = array.type
    if pt.is_float16(data_type):
        return array.cast(pa.float32())
    if pt.is_fixed_size_binary(data_type):
        return array.cast(pa.binary())
    if pt.is_decimal(data_type) and data_type.bit_width < 128:
        return array.cast(pa.decimal128(data_type.precision, data_type.scale))
    return array


def passing(node: Node, rows: RowBatch) -> pa.BooleanArray:
    """Returns a mask of the rows where ``node`` is true, without nulls.

    The conjuncts for DuckDB are evaluated last and together, for the rows that passed all others.
    The others are evaluated in order. If few rows are left, or if a conjunct raises an error, it is
    evaluated only for the rows that passed the previous conjuncts.

    Raises:
        InvalidArgumentError: a result cannot be computed for these values.
    """
    parts = node.args if isinstance(node, And) else (node,)
    by_duckdb = [sql for sql in map(_sql_of, parts) if sql is not None]
    passed = None
    for part in parts:
        if _sql_of(part) is not None:
            continue
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
    for condition in _merged(by_duckdb):
        chosen = rows if passed is None else rows.where(passed)
        if not len(chosen):
            break
        columns = [chosen.raw(path) for path, _ in condition.names]
        matches = condition.passing(columns, len(chosen))
        passed = matches if passed is None else pc.replace_with_mask(passed, passed, matches)
    return pa.repeat(pa.scalar(True), len(rows)) if passed is None else passed


def _sql_of(node: Node) -> Any:
    """Returns the condition that DuckDB evaluates, or ``None``."""
    expression = node.expression if isinstance(node, Opaque) else None
    return None if isinstance(expression, (pc.Expression, ColumnPair, Like)) else expression


def _merged(conditions: Sequence[Any]) -> Sequence[Any]:
    """Merges SQL conditions that have the same time zone into one condition."""
    if len(conditions) < 2:
        return conditions
    from nimblepy.duck.evaluate import merge  # imported when the conditions were made

    zones: dict[str, list[Any]] = {}
    for condition in conditions:
        zones.setdefault(condition.zone, []).append(condition)
    return [merge(group) for group in zones.values()]


def _narrowed(part: Node, rows: RowBatch, passed: pa.BooleanArray) -> pa.BooleanArray:
    chosen = rows.where(passed)
    matches = _known(truth(part, chosen), len(chosen))
    return pc.replace_with_mask(passed, passed, matches)


def _known(answers: Value, rows: int) -> pa.BooleanArray:
    """Converts answers to a mask; null becomes false."""
    mask = pa.repeat(answers, rows) if isinstance(answers, pa.Scalar) else answers
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
        case Opaque(ColumnPair(left, right, op)):
            return _compare_columns(op, rows.column(left), rows.column(right))
        case Opaque(Like(column, parts)):
            return _tested(rows, column.path, lambda array: _like(array, parts))
        case Opaque():
            condition = _sql_of(node)
            columns = [rows.raw(path) for path, _ in condition.names]
            return condition.passing(columns, len(rows))


def _tested(rows: RowBatch, path: Path, test: Callable[[pa.Array], Value]) -> Value:
    """Tests a column. Tests only its dictionary if that has fewer values than the column."""
    array = rows.raw(path)
    if isinstance(array, pa.DictionaryArray) and len(array.dictionary) < len(array):
        return test(_comparable(array.dictionary)).take(array.indices)
    return test(rows.column(path))


def _compared(rows: RowBatch, path: Path, op: Op, value: pa.Scalar, nan_greatest: bool) -> Value:
    if is_nan(value):  # NaN is the greatest value
        return _tested(
            rows, path, lambda a: pc.is_nan(a) if op == "==" else pc.invert(pc.is_nan(a))
        )
    operand = _comparable(pa.array([value], value.type))[0]
    if pt.is_floating(operand.type) and nan_greatest:
        return _tested(rows, path, lambda array: compare_floats(op, array, operand))
    return _tested(rows, path, lambda array: _KERNELS[op](array, operand))


def compare_floats(op: Op, left: Value, right: Value) -> Value:
    """Returns ``left op right`` for floats, with NaN equal to itself and greatest, as in SQL."""
    if op == "!=":
        return pc.invert(compare_floats("==", left, right))
    if op in (">", ">="):
        return compare_floats(FLIPPED[op], right, left)
    result = _KERNELS[op](left, right)
    if isinstance(right, pa.Scalar) and right.as_py() == right.as_py():
        return result  # IEEE and SQL agree unless the right side may be NaN
    # If either side is null, each branch must be null, so that NOT of the result is null.
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if op == "==":
        return pc.or_kleene(result, pc.and_(left_nan, right_nan))
    if op == "<":
        return pc.or_kleene(result, pc.and_(right_nan, pc.invert(left_nan)))
    return pc.or_kleene(result, pc.and_(right_nan, pc.or_(left_nan, pc.invert(left_nan))))


def _compare_columns(op: Op, left: pa.Array, right: pa.Array) -> Value:
    if left.type != right.type:
        target = right.type if widens(left.type, right.type) else left.type
        left, right = left.cast(target), right.cast(target)
    if pt.is_floating(left.type):
        return compare_floats(op, left, right)
    return _KERNELS[op](left, right)


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
            matches = pc.is_in(array, _comparable(pa.array(values, values[0].type)))
        else:
            matches = pa.repeat(pa.scalar(False), len(array))
        return (
            pc.if_else(pc.is_valid(array), matches, pa.scalar(None, pa.bool_()))
            if array.null_count
            else matches
        )

    return _tested(rows, path, test)


def _like(array: pa.Array, parts: Sequence[tuple[str, bool]]) -> Value:
    if not any(character in "%_\\" for character, wild in parts if not wild):
        return pc.match_like(array, "".join(character for character, _ in parts))
    # pyarrow's match_like confuses escapes in patterns such as %text.
    wildcards = {"%": ".*", "_": "."}
    pattern = "".join(wildcards[c] if wild else re.escape(c) for c, wild in parts)
    return pc.match_substring_regex(array, rf"(?s)\A{pattern}\z")


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
    """Returns an opaque node, or a constant if the expression does not read a column."""
    if columns:
        return Opaque(expression, columns, implies)
    one_row = pa.RecordBatch.from_arrays([pa.array([True])], names=["row"])
    value = _by_pyarrow(expression, one_row)[0]
    if not pt.is_boolean(value.type):
        raise InvalidArgumentError(f"a filter must be boolean, {expression} is {value.type}")
    return Const(value.as_py())
