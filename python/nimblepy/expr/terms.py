"""Terms: the typed tree of a SQL expression, and its evaluation over rows.

=======  ==================================================================================
Lit      a constant
Col      a column
Call     a kernel applied to other terms; the name lets ``lower.py`` recognise comparisons
Case     the value of the first condition that is true
=======  ==================================================================================

Terms without columns are computed once, when the tree is built. Evaluation calls each kernel once
per batch. If a kernel fails, conditions are evaluated one after the other, and guarded terms only
for the rows that reach them, as in ``CASE WHEN s <> '' THEN CAST(s AS INT) END``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.arrays import Value, empty, evaluable, full, plain, plain_type, widened
from nimblepy.expr.deep import Deep, run
from nimblepy.schema.columns import Column
from nimblepy.schema.names import Path

BOOL = pa.bool_()


@dataclass(frozen=True, slots=True, eq=False)
class Lit:
    """A constant. ``quoted`` marks quoted text, which converts to the type of the other side."""

    value: pa.Scalar
    type: pa.DataType
    quoted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Col:
    column: Column
    type: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a kernel. ``text`` is the corresponding part of the filter, for messages."""

    name: str
    kernel: Callable[..., Value]
    args: tuple[Term, ...]
    type: pa.DataType
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A CASE. ``args`` alternates conditions and values; the last is the value of ELSE."""

    args: tuple[Term, ...]
    type: pa.DataType
    text: str


Term: TypeAlias = Lit | Col | Call | Case

_FAULTS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError)


class RowBatch:
    """Rows to evaluate terms over. Each column is converted for the kernels only once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._columns: dict[Path, pa.Array] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def batch(self) -> pa.RecordBatch:
        """All columns, in types that pyarrow's expressions support."""
        return evaluable(self._batch)

    def raw(self, path: Path) -> pa.Array:
        """A column as it is stored, or in its plain type."""
        column = self._batch.column(path[0])
        if isinstance(column, pa.ExtensionArray) and len(path) > 1:
            column = column.storage
        for name in path[1:]:
            column = pc.struct_field(column, column.type.get_field_index(name))
        return column

    def column(self, path: Path) -> pa.Array:
        """A column in its plain type."""
        column = self._columns.get(path)
        if column is None:
            column = self._columns[path] = plain(self.raw(path))
        return column

    def where(self, mask: pa.Array) -> RowBatch:
        """The rows that ``mask`` selects."""
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
        return self._rows.column(path).filter(self._mask)


def call(
    name: str,
    kernel: Callable[..., Value],
    args: tuple[Term, ...],
    text: str,
    *,
    strict: bool = True,
) -> Term:
    """A call term, or a constant if all arguments are constant.

    Args:
        strict: whether the result is null if an argument is null.

    Raises:
        InvalidArgumentError: the kernel does not support these arguments.
    """
    try:
        if all(isinstance(arg, Lit) for arg in args):
            try:
                result = _of_constants(kernel, [arg.value for arg in args if isinstance(arg, Lit)])
                return Lit(result, result.type)
            except (*_FAULTS, InvalidArgumentError):
                if any(isinstance(arg, Lit) and arg.quoted for arg in args):
                    raise
                # Not an error yet: the value may not be needed, as in a CASE branch.
        mixed = not all(isinstance(arg, Lit) for arg in args)
        samples = [
            arg.value if mixed and isinstance(arg, Lit) else empty(plain_type(arg.type))
            for arg in args
        ]
        result = kernel(*samples).type
        if strict and any(isinstance(arg, Lit) and not arg.value.is_valid for arg in args):
            return Lit(pa.scalar(None, result), result)
        return Call(name, kernel, args, result, text)
    except _FAULTS as error:
        raise InvalidArgumentError(f"{text}: {error}") from error
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{text}: {error}") from None


def _of_constants(kernel: Callable[..., Value], values: list[pa.Scalar]) -> pa.Scalar:
    return kernel(*(full(value, 1) for value in values))[0]


def and_(*args: Value) -> Value:
    return reduce(pc.and_kleene, args)


def or_(*args: Value) -> Value:
    return reduce(pc.or_kleene, args)


def paths_of(term: Term) -> tuple[Path, ...]:
    """Paths of the columns that a term reads, without repetition."""
    paths: dict[Path, None] = {}
    waiting: list[Term] = [term]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Col):
            paths[item.column.path] = None
        elif not isinstance(item, Lit):
            waiting.extend(reversed(item.args))
    return tuple(paths)


def evaluate(term: Term, rows: RowBatch) -> Value:
    """The value of ``term`` for each row; a scalar if all rows have the same value.

    Raises:
        InvalidArgumentError: the value cannot be computed for a row, such as a failing cast.
    """
    return run(_evaluate(term, rows))


def _evaluate(term: Term, rows: RowBatch) -> Deep[Value]:
    if isinstance(term, Lit):
        return term.value
    if isinstance(term, Col):
        return rows.column(term.column.path)
    try:
        values = []
        for arg in term.args:
            if isinstance(arg, Lit):
                values.append(arg.value)
            elif isinstance(arg, Col):
                values.append(rows.column(arg.column.path))
            else:
                values.append((yield _evaluate(arg, rows)))
        if isinstance(term, Case):
            return _chosen(term, values, len(rows))
        if all(isinstance(value, pa.Scalar) for value in values):
            return _of_constants(term.kernel, values)
        return term.kernel(*values)
    except _FAULTS as error:
        raise InvalidArgumentError(f"{term.text}: {error}") from error
    except InvalidArgumentError as error:
        if isinstance(term, Case):
            return (yield _guarded(term, rows))
        if term.name in ("and", "or"):
            return (yield _decided(term, rows))
        if str(error).startswith(term.text):
            raise
        raise InvalidArgumentError(f"{term.text}: {error}") from None


def _chosen(case: Case, values: list[Value], rows: int) -> Value:
    branches = [*values[1::2], values[-1]]
    target = case.type
    if pt.is_integer(target) and any(pt.is_decimal(branch.type) for branch in branches):
        target = pa.decimal256(76, 0)  # an integer overflowed 64 bits
    elif pt.is_decimal(target) and (max(map(_whole, branches)) > _whole(target)):
        target = pa.decimal256(76, target.scale)
    try:
        *rest, last = (settled(branch, target) for branch in branches)
    except pa.ArrowInvalid:
        if not pt.is_decimal(target):
            raise
        *rest, last = (settled(branch, _roomy(target)) for branch in branches)
    chosen = full(last, rows)
    for holds, value in zip(reversed(values[:-1:2]), reversed(rest), strict=True):
        chosen = pc.if_else(pc.fill_null(full(holds, rows), False), value, chosen)
    return chosen


def _roomy(data_type: pa.DataType) -> pa.DataType:
    """A decimal type of maximum precision; kernels may return wider decimals than declared."""
    return pa.decimal256(76, data_type.scale) if pt.is_decimal(data_type) else data_type


def _whole(value: Value | pa.DataType) -> int:
    """Digits before the decimal point."""
    data_type = value if isinstance(value, pa.DataType) else value.type
    return int(data_type.precision - data_type.scale) if pt.is_decimal(data_type) else 0


def settled(value: Value, target: pa.DataType) -> Value:
    """Casts a branch of a CASE to the common type."""
    if pt.is_decimal(value.type) and pt.is_decimal(target):
        value = widened(value)
    if pt.is_integer(value.type) and pt.is_decimal(target):
        value = value.cast(pa.decimal128(20, 0))
    return value if value.type == target else value.cast(target)


def _guarded(case: Case, rows: RowBatch) -> Deep[Value]:
    """Evaluates a CASE whose branches fail for rows that do not satisfy their condition."""
    target = _roomy(case.type)
    result = pa.nulls(len(rows), target)
    undecided = pa.repeat(pa.scalar(True), len(rows))
    for i in range(0, len(case.args), 2):
        last = i + 1 == len(case.args)
        taken = undecided
        if not last:
            part = rows.where(undecided)
            holds = yield _evaluate(case.args[i], part)
            holds = pc.fill_null(full(holds, len(part)), False)
            taken = pc.replace_with_mask(undecided, undecided, holds)
        part = rows.where(taken)
        if len(part):  # a constant branch could fail even without rows
            value = yield _evaluate(case.args[i if last else i + 1], part)
            value = settled(full(value, len(part)), target)
            result = _placed(result, taken, value)
        undecided = pc.and_not(undecided, taken)
    return result


def _placed(into: pa.Array, mask: pa.Array, values: pa.Array) -> pa.Array:
    """Replaces the rows of ``into`` that ``mask`` selects by ``values``, in order."""
    at = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
    return pc.if_else(mask, values.take(pc.if_else(mask, at, None)), into)


def _decided(node: Call, rows: RowBatch) -> Deep[Value]:
    """AND or OR; each argument is evaluated only for rows that earlier ones did not decide."""
    decides = node.name == "or"
    result = pa.repeat(pa.scalar(not decides), len(rows))
    for arg in node.args:
        open_ = pc.fill_null(pc.not_equal(result, decides), True)
        part = rows.where(open_)
        if not len(part):
            break
        value = yield _evaluate(arg, part)
        value = _placed(result, open_, full(value, len(part)))
        result = node.kernel(result, value)
    return result
