"""Reads the values a SQL condition compares: columns, constants and what is computed of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from sqlglot import exp

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.evaluate import evaluate_constant, field
from nimblepy.schema.columns import Column, resolve_sql
from nimblepy.schema.names import Path
from nimblepy.schema.text import localize, parse_text
from nimblepy.schema.values import as_scalar

_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}


def refuse(tree: exp.Expr, reason: str) -> InvalidArgumentError:
    """The error that ``tree`` cannot be used, quoting it as SQL."""
    return InvalidArgumentError(f"{tree.sql(dialect='duckdb')}: {reason}")


@dataclass(frozen=True, slots=True)
class Constant:
    """``quoted`` marks a bare string literal, which takes the type of what it is compared with."""

    value: object
    quoted: bool = False

    @property
    def columns(self) -> tuple[Path, ...]:
        return ()

    @property
    def expression(self) -> pc.Expression:
        # Exact decimals would make arithmetic with integers fail for want of digits.
        value = float(self.value) if isinstance(self.value, Decimal) else self.value
        try:
            return pc.scalar(value)
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidArgumentError(f"number {value} is too large to compute with") from error


@dataclass(frozen=True, slots=True)
class Operand:
    """Something that differs from row to row; ``column`` when it is a column and nothing more."""

    expression: pc.Expression
    columns: tuple[Path, ...]
    column: Column | None = None


def literal_for(column: Column, constant: Constant) -> object:
    """The constant as SQL compares it with ``column``: quoted text takes the column's type."""
    if constant.quoted and isinstance(constant.value, str):
        return parse_text(column.type, constant.value)
    data_type, value = column.value_type, constant.value
    if pt.is_timestamp(data_type) and data_type.tz and isinstance(value, pa.Scalar):
        if pt.is_date(value.type):
            value = value.cast(pa.timestamp("us"))
        if pt.is_timestamp(value.type) and value.type.tz is None:
            return localize(value, data_type.tz)
    return value


class ValueReader:
    """Turns a sqlglot value into a :class:`Constant` or an :class:`Operand`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def read(self, tree: exp.Expr) -> Constant | Operand:
        if isinstance(tree, exp.Paren):
            return self.read(tree.this)
        if isinstance(tree, exp.Null):
            return Constant(None)
        if isinstance(tree, exp.Boolean):
            return Constant(bool(tree.this))
        if isinstance(tree, exp.Literal):
            return Constant(tree.this, quoted=True) if tree.is_string else _number(tree)
        if isinstance(tree, (exp.Column, exp.Dot)):
            column = self._column(tree)
            return Operand(field(column), (column.path,), column)
        if isinstance(tree, exp.Neg):
            return self._negative(tree)
        if isinstance(tree, exp.Cast) and not isinstance(tree, exp.TryCast):
            return self._cast(tree)
        function = _FUNCTIONS.get(type(tree))
        if function is None:
            raise refuse(tree, "is not supported in a filter")
        parts = [tree.this, tree.expression] if isinstance(tree, exp.Binary) else [tree.this]
        return self._apply(function, [self.read(part) for part in parts])

    def _apply(
        self, function: Callable[..., pc.Expression], operands: list[Constant | Operand]
    ) -> Constant | Operand:
        result = function(*(operand.expression for operand in operands))
        columns = tuple(dict.fromkeys(path for item in operands for path in item.columns))
        if columns:
            return Operand(result, columns)
        return Constant(evaluate_constant(result))

    def _column(self, tree: exp.Expr) -> Column:
        fields: list[exp.Expr] = []
        root = tree
        while isinstance(root, exp.Dot):
            fields.insert(0, root.expression)
            root = root.this
        parts = [*root.parts, *fields] if isinstance(root, exp.Column) else []
        if not parts or not all(isinstance(part, exp.Identifier) for part in parts):
            raise refuse(tree, "is not a column")
        names = [part.name for part in parts]
        # Quotes say where a name ends; without them a dot may after all belong to the name.
        quoted = any(part.args.get("quoted") for part in parts)
        return resolve_sql(self._schema, names, quoted=quoted)

    def _negative(self, tree: exp.Neg) -> Constant | Operand:
        operand = self.read(tree.this)
        if isinstance(operand, Constant) and isinstance(operand.value, (int, Decimal)):
            value = operand.value
            # Decimal's own minus rounds to the caller's decimal context.
            return Constant(value.copy_negate() if isinstance(value, Decimal) else -value)
        return self._apply(pc.negate_checked, [operand])

    def _cast(self, tree: exp.Cast) -> Constant | Operand:
        operand, target = self.read(tree.this), _cast_type(tree)
        if isinstance(operand, Operand):
            return Operand(operand.expression.cast(target), operand.columns)
        if operand.value is None:
            return operand
        if operand.quoted and isinstance(operand.value, str):
            value = as_scalar(parse_text(target, operand.value))
        else:
            value = operand.expression
            return Constant(evaluate_constant(value.cast(target)))
        if pt.is_timestamp(value.type) and pt.is_timestamp(target):
            return Constant(value)  # keeps the digits the literal has, beyond microseconds
        try:
            return Constant(value.cast(target))
        except pa.ArrowException as error:
            raise refuse(tree, f"type mismatch: {error}") from error


def _number(tree: exp.Literal) -> Constant:
    text = str(tree.this).replace("_", "")
    try:
        return Constant(int(text) if text.isdigit() else Decimal(text))
    except (InvalidOperation, ValueError) as error:
        raise refuse(tree, "is not a number") from error


def _cast_type(tree: exp.Cast) -> pa.DataType:
    kind = tree.to.this.value if hasattr(tree.to.this, "value") else str(tree.to.this)
    if kind == "DECIMAL":
        sizes = [int(size.name) for size in tree.to.expressions] or [18, 3]
        precision, scale = (*sizes, 0)[:2]
        return pa.decimal128(precision, scale)
    if kind not in _TYPES:
        raise refuse(tree, f"cannot cast to {tree.to.sql(dialect='duckdb')} in a filter")
    return _TYPES[kind]


def _divide(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    """SQL's ``/`` is a division of doubles, also between integers."""
    return pc.divide(left.cast(pa.float64()), right.cast(pa.float64()))


_FUNCTIONS: dict[type[exp.Expr], Callable[..., pc.Expression]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
    exp.Div: _divide,
    exp.Abs: pc.abs_checked,
    exp.Lower: pc.utf8_lower,
    exp.Upper: pc.utf8_upper,
    exp.Length: pc.utf8_length,
    exp.IsNan: pc.is_nan,
}
