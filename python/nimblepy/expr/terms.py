"""What SQL text computes: a tree of typed values, and its evaluation over rows.

=======  ==================================================================================
Lit      a constant
Col      a column
Call     a kernel of other terms; by its name a filter recognises comparisons and the like
Case     the value of the first condition that holds
=======  ==================================================================================

What reads no column is computed once, when the tree is made. Evaluation calls each kernel once for
a batch; where that fails, conditions are asked one after the other, and what they guard is computed
only for the rows that get there, as in ``CASE WHEN s <> '' THEN CAST(s AS INT) END``.
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
    """``quoted``: a text in quotes, which takes the type of what it is compared with."""

    value: pa.Scalar
    type: pa.DataType
    quoted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Col:
    column: Column
    type: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """``text`` is the part of the filter that it was made of."""

    name: str
    kernel: Callable[..., Value]
    args: tuple[Term, ...]
    type: pa.DataType
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Conditions and values in turn, then the value where none holds."""

    args: tuple[Term, ...]
    type: pa.DataType
    text: str


Term: TypeAlias = Lit | Col | Call | Case

_FAULTS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError)


class RowBatch:
    """Rows to evaluate terms over; a column is converted for kernels once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._columns: dict[Path, pa.Array] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def batch(self) -> pa.RecordBatch:
        """All columns, in types that pyarrow's expressions take."""
        return evaluable(self._batch)

    def raw(self, path: Path) -> pa.Array:
        """A column as it is stored, or as kernels take it."""
        column = self._batch.column(path[0])
        if isinstance(column, pa.ExtensionArray) and len(path) > 1:
            column = column.storage
        for name in path[1:]:
            column = pc.struct_field(column, column.type.get_field_index(name))
        return column

    def column(self, path: Path) -> pa.Array:
        """A column in its plain type."""
        found = self._columns.get(path)
        if found is None:
            found = self._columns[path] = plain(self.raw(path))
        return found

    def where(self, mask: pa.Array) -> RowBatch:
        """Some of the rows."""
        return _SomeRows(self, mask)


class _SomeRows(RowBatch):
    """Rows of a batch; a column is cut when it is asked for."""

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
    """A call, or its value where all arguments are known.

    Args:
        strict: it is null where an argument is.

    Raises:
        InvalidArgumentError: the kernel does not take such arguments.
    """
    try:
        if all(isinstance(arg, Lit) for arg in args):
            try:
                found = _of_constants(kernel, [arg.value for arg in args if isinstance(arg, Lit)])
                return Lit(found, found.type)
            except (*_FAULTS, InvalidArgumentError):
                if any(isinstance(arg, Lit) and arg.quoted for arg in args):
                    raise
                # It may never be asked for, as behind a condition that does not hold.
        known = not all(isinstance(arg, Lit) for arg in args)
        samples = [
            arg.value if known and isinstance(arg, Lit) else empty(plain_type(arg.type))
            for arg in args
        ]
        found = kernel(*samples).type
        if strict and any(isinstance(arg, Lit) and not arg.value.is_valid for arg in args):
            return Lit(pa.scalar(None, found), found)
        return Call(name, kernel, args, found, text)
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
    """Paths of the columns that a term reads, each once."""
    found: dict[Path, None] = {}
    waiting: list[Term] = [term]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Col):
            found[item.column.path] = None
        elif not isinstance(item, Lit):
            waiting.extend(reversed(item.args))
    return tuple(found)


def evaluate(term: Term, rows: RowBatch) -> Value:
    """The value of ``term`` for each row; a scalar where it is the same for all.

    Raises:
        InvalidArgumentError: it has none for some row, such as a cast that fails.
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
    wanted = case.type
    if pt.is_integer(wanted) and any(pt.is_decimal(branch.type) for branch in branches):
        wanted = pa.decimal256(76, 0)  # integers that did not fit theirs
    elif pt.is_decimal(wanted) and (max(map(_whole, branches)) > _whole(wanted)):
        wanted = pa.decimal256(76, wanted.scale)
    try:
        *rest, last = (settled(branch, wanted) for branch in branches)
    except pa.ArrowInvalid:
        if not pt.is_decimal(wanted):
            raise
        *rest, last = (settled(branch, _roomy(wanted)) for branch in branches)
    found = full(last, rows)
    for holds, value in zip(reversed(values[:-1:2]), reversed(rest), strict=True):
        found = pc.if_else(pc.fill_null(full(holds, rows), False), value, found)
    return found


def _roomy(data_type: pa.DataType) -> pa.DataType:
    """A type for numbers of which some have more digits than their type says."""
    return pa.decimal256(76, data_type.scale) if pt.is_decimal(data_type) else data_type


def _whole(value: Value | pa.DataType) -> int:
    """Digits before the point."""
    data_type = value if isinstance(value, pa.DataType) else value.type
    return int(data_type.precision - data_type.scale) if pt.is_decimal(data_type) else 0


def settled(value: Value, wanted: pa.DataType) -> Value:
    """A branch in the type of all; decimals in a type that pyarrow chooses between."""
    if pt.is_decimal(value.type) and pt.is_decimal(wanted):
        value = widened(value)
    if pt.is_integer(value.type) and pt.is_decimal(wanted):
        value = value.cast(pa.decimal128(20, 0))
    return value if value.type == wanted else value.cast(wanted)


def _guarded(case: Case, rows: RowBatch) -> Deep[Value]:
    """A CASE of which some branches have values only where their conditions hold."""
    wanted = _roomy(case.type)
    found = pa.nulls(len(rows), wanted)
    left = pa.repeat(pa.scalar(True), len(rows))
    for i in range(0, len(case.args), 2):
        last = i + 1 == len(case.args)
        taken = left
        if not last:
            part = rows.where(left)
            holds = yield _evaluate(case.args[i], part)
            holds = pc.fill_null(full(holds, len(part)), False)
            taken = pc.replace_with_mask(left, left, holds)
        part = rows.where(taken)
        if len(part):  # what is the same for all rows would fail for none as well
            value = yield _evaluate(case.args[i if last else i + 1], part)
            value = settled(full(value, len(part)), wanted)
            found = _placed(found, taken, value)
        left = pc.and_not(left, taken)
    return found


def _placed(into: pa.Array, mask: pa.Array, values: pa.Array) -> pa.Array:
    """``values`` at the rows of ``mask``."""
    at = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
    return pc.if_else(mask, values.take(pc.if_else(mask, at, None)), into)


def _decided(node: Call, rows: RowBatch) -> Deep[Value]:
    """AND or OR, each side asked only where those before it have not decided."""
    decides = node.name == "or"
    found = pa.repeat(pa.scalar(not decides), len(rows))
    for arg in node.args:
        open_ = pc.fill_null(pc.not_equal(found, decides), True)
        part = rows.where(open_)
        if not len(part):
            break
        value = yield _evaluate(arg, part)
        value = _placed(found, open_, full(value, len(part)))
        found = node.kernel(found, value)
    return found
