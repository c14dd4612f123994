"""Exact SQL arithmetic and comparisons.

Integers, and decimals of up to 18 digits, are computed with 64-bit integers. If a result overflows,
it is computed again as a decimal of up to 38 or 76 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.arrays import (
    NARROW,
    Value,
    from_ints,
    full,
    plain_type,
    rows_of,
    to_ints,
    widened,
)
from nimblepy.schema.kinds import family

Kernel: TypeAlias = Callable[..., Value]
Op: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
FLIPPED: dict[Op, Op] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_EXACT = Context(prec=200)  # independent of the caller's decimal context


def number_type(data_types: list[pa.DataType]) -> pa.DataType:
    """The common type of numbers of these types, as in DuckDB."""
    floats = [t for t in data_types if pt.is_floating(t)]
    if floats:
        return max(floats, key=lambda t: t.bit_width)
    decimals = [t for t in data_types if pt.is_decimal(t)]
    if not decimals:
        ints = [t for t in data_types if pt.is_integer(t)]
        if not ints:
            return pa.bool_()
        unsigned = [t for t in ints if pt.is_unsigned_integer(t)]
        if len(unsigned) < len(ints) and any(t.bit_width == 64 for t in unsigned):
            return pa.decimal128(20, 0)
        if len(unsigned) == len(ints) or not unsigned:
            return max(ints, key=lambda t: t.bit_width)
        return pa.int64()
    scale = max(t.scale for t in decimals)
    whole = max(_digits(t) - getattr(t, "scale", 0) for t in data_types)
    return plain_type(decimal_type(min(whole + scale, 76), scale))


def decimal_type(precision: int, scale: int) -> pa.DataType:
    return (pa.decimal128 if precision <= 38 else pa.decimal256)(max(precision, 1), scale)


def _digits(data_type: pa.DataType) -> int:
    if pt.is_decimal(data_type):
        return int(data_type.precision)
    return 1 if pt.is_boolean(data_type) else _DIGITS[data_type.bit_width]


# ------------------------------------------------------------------ conversions


def as_float(value: Value, target: pa.DataType) -> Value:
    if value.type == target:
        return value
    if pt.is_decimal(value.type):
        return _decimal_to_float(value).cast(target, safe=False)
    if pt.is_boolean(value.type):
        value = value.cast(pa.int8())
    return value.cast(target, safe=False)


def _decimal_to_float(value: Value) -> Value:
    if isinstance(value, pa.Scalar):
        number = value.as_py()
        return pa.scalar(None if number is None else float(number), pa.float64())
    if value.type.bit_width > 64:
        try:  # one division rounds once; pyarrow's cast multiplies by a rounded power of ten
            value = value.cast(pa.decimal64(NARROW, value.type.scale))
        except pa.ArrowInvalid:
            return value.cast(pa.float64())
    ints = to_ints(value).cast(pa.float64(), safe=False)
    return pc.divide(ints, 10.0**value.type.scale)


def as_decimal(value: Value) -> Value:
    """Converts an integer or decimal to a decimal of at least 128 bits."""
    if pt.is_decimal(value.type):
        return widened(value)
    if isinstance(value, pa.Scalar):
        number = value.as_py()
        digits = 1 if number is None else len(str(abs(int(number))))
        return pa.scalar(None if number is None else Decimal(int(number)), decimal_type(digits, 0))
    if pt.is_boolean(value.type):
        value = value.cast(pa.int8())
    return value.cast(pa.decimal128(_DIGITS[value.type.bit_width], 0))


def _as_int64(value: Value) -> Value:
    """Converts integers to int64; raises ``ArrowInvalid`` if one does not fit."""
    if value.type == pa.int64():
        return value
    return (value.cast(pa.int8()) if pt.is_boolean(value.type) else value).cast(pa.int64())


def _is_narrow(data_type: pa.DataType) -> bool:
    if pt.is_decimal(data_type):
        return bool(data_type.bit_width == 64)
    return bool(pt.is_integer(data_type) or pt.is_boolean(data_type))


def _scale(data_type: pa.DataType) -> int:
    return data_type.scale if pt.is_decimal(data_type) else 0


def _scaled_ints(value: Value, scale: int) -> Value:
    """A narrow number times ``10 ** scale``; raises ``ArrowInvalid`` on overflow."""
    ints = to_ints(value) if pt.is_decimal(value.type) else _as_int64(value)
    up = scale - _scale(value.type)
    if up > NARROW:
        raise pa.ArrowInvalid("overflow")
    return pc.multiply_checked(ints, 10**up) if up else ints


def _tightened(value: Value) -> Value:
    """Casts a decimal to the minimal precision for its values."""
    ends = [value] if isinstance(value, pa.Scalar) else pc.min_max(value).values()
    numbers = [end.as_py() for end in ends if end.is_valid]
    most = max((abs(int(n.scaleb(value.type.scale, _EXACT))) for n in numbers), default=0)
    return value.cast(pa.decimal256(max(len(str(most)), 1), value.type.scale))


def _fitting(left: Value, right: Value, digits: Callable[[Value, Value], int]) -> list[Value]:
    """Converts two decimals to a width that can hold a result of ``digits`` digits."""
    left, right = as_decimal(left), as_decimal(right)
    if digits(left, right) > 76:
        left, right = _tightened(left), _tightened(right)
    needed = digits(left, right)
    if needed > 76:
        raise InvalidArgumentError(f"a result of {needed} digits; decimals have 76 at most")
    bits = max(left.type.bit_width, right.type.bit_width, 256 if needed > 38 else 128)
    if bits == 128:
        return [left, right]
    return [v.cast(pa.decimal256(v.type.precision, v.type.scale)) for v in (left, right)]


def _whole(value: Value) -> int:
    return int(value.type.precision - value.type.scale)


def _sum_digits(left: Value, right: Value) -> int:
    scale = int(max(left.type.scale, right.type.scale))
    return max(_whole(left), _whole(right)) + scale + 1


def _product_digits(left: Value, right: Value) -> int:
    return int(left.type.precision + right.type.precision + 1)


# ------------------------------------------------------------------ arithmetic


def _arithmetic(checked: Kernel, quick: Kernel, digits: Callable[[Value, Value], int]) -> Kernel:
    product = digits is _product_digits

    def compute(left: Value, right: Value) -> Value:
        types = [left.type, right.type]
        if any(map(pt.is_floating, types)):
            target = number_type(types)
            return quick(as_float(left, target), as_float(right, target))
        if all(map(_is_narrow, types)):
            scales = [_scale(t) for t in types]
            scale = sum(scales) if product else max(scales)
            try:
                if scale > NARROW:
                    raise pa.ArrowInvalid("overflow")
                places = scales if product else [scale, scale]
                ints = checked(*map(_scaled_ints, (left, right), places))
                if not any(map(pt.is_decimal, types)):
                    return ints
                return from_ints(ints, pa.decimal64(NARROW, scale))
            except pa.ArrowInvalid:
                pass  # overflow of 64 bits
        return quick(*_fitting(left, right, digits))

    return compute


add = _arithmetic(pc.add_checked, pc.add, _sum_digits)
subtract = _arithmetic(pc.subtract_checked, pc.subtract, _sum_digits)
multiply = _arithmetic(pc.multiply_checked, pc.multiply, _product_digits)


def negate(value: Value) -> Value:
    if pt.is_floating(value.type):
        return pc.negate(value)
    return subtract(pa.scalar(0, pa.int8()), value)


def absolute(value: Value) -> Value:
    if pt.is_floating(value.type):
        return pc.abs(value)
    if not pt.is_decimal(value.type):
        try:
            return pc.abs_checked(_as_int64(value))
        except pa.ArrowInvalid:
            pass
    elif value.type.bit_width == 64:
        return from_ints(pc.abs(to_ints(value)), value.type)
    return pc.abs(as_decimal(value))


def divide(left: Value, right: Value) -> Value:
    """``/``: converts its arguments to floats and divides."""
    target = number_type([left.type, right.type])
    if not pt.is_floating(target):
        target = pa.float64()
    return pc.divide(as_float(left, target), as_float(right, target))


def divide_whole(left: Value, right: Value) -> Value:
    """``//`` of integers: rounds towards zero; division by zero gives null."""
    return _by_ints(left, right, lambda a, b: pc.divide_checked(a, b), _whole_quotient)


def remainder(left: Value, right: Value) -> Value:
    """``%``: the result has the sign of the dividend. By zero it is null, or NaN for floats."""
    types = [left.type, right.type]
    if any(map(pt.is_floating, types)):
        target = number_type(types)
        rows = rows_of(left, right)
        a, b = (full(as_float(v, target), rows) for v in (left, right))
        with np.errstate(all="ignore"):
            remainders = np.fmod(*(np.asarray(v.fill_null(1.0)) for v in (a, b)))
        return pc.if_else(pc.and_(pc.is_valid(a), pc.is_valid(b)), pa.array(remainders), None)
    if any(map(pt.is_decimal, types)):
        scale = max(map(_scale, types))
        if all(map(_is_narrow, types)):
            try:
                a, b = (_scaled_ints(v, scale) for v in (left, right))
                remainders = _by_ints(a, b, _int_remainder, _exact_remainder)
                return from_ints(remainders, pa.decimal64(NARROW, scale))
            except pa.ArrowInvalid:
                pass
        return _each(_exact_remainder, left, right)
    return _by_ints(left, right, _int_remainder, _exact_remainder)


def _int_remainder(left: Value, right: Value) -> Value:
    # Replace -1 by 1: the remainder is 0 either way, and INT64_MIN / -1 would overflow.
    right = pc.if_else(pc.equal(right, -1), 1, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _by_ints(left: Value, right: Value, quick: Kernel, exact: Kernel) -> Value:
    try:
        a, b = _as_int64(left), _as_int64(right)
        return quick(a, pc.if_else(pc.equal(b, 0), pa.scalar(None, pa.int64()), b))
    except pa.ArrowInvalid:
        return _each(exact, left, right)


def _whole_quotient(left: Decimal, right: Decimal) -> Decimal | None:
    return _EXACT.divide_int(left, right) if right else None


def _exact_remainder(left: Decimal, right: Decimal) -> Decimal | None:
    return _EXACT.remainder(left, right) if right else None


def _each(function: Callable[[Decimal, Decimal], Decimal | None], *values: Value) -> pa.Array:
    """Computes number by number in Python, for numbers that are too long for the kernels."""
    rows = rows_of(*values)
    columns = [full(as_decimal(value), rows).to_pylist() for value in values]
    out = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    scale = max(_scale(value.type) for value in values)
    return pa.array(out, pa.decimal256(76, scale))


def power(left: Value, right: Value) -> Value:
    return pc.power(as_float(left, pa.float64()), as_float(right, pa.float64()))


# ------------------------------------------------------------------ rounding


def _of_floats(kernel: Kernel) -> Kernel:
    return lambda value: kernel(as_float(value, pa.float64()))


def _rounding(kernel: Kernel) -> Kernel:
    """Floor and similar functions: as in DuckDB, integers give floats, and decimals decimals."""

    def compute(value: Value) -> Value:
        if pt.is_floating(value.type):
            return kernel(value)
        if pt.is_decimal(value.type):
            return kernel(_with_room(as_decimal(value)))
        return as_float(value, pa.float64())

    return compute


floor, ceil = _rounding(pc.floor), _rounding(pc.ceil)
truncate = _rounding(pc.trunc)
square_root, logarithm, exponential = (_of_floats(k) for k in (pc.sqrt, pc.ln, pc.exp))


def round_to(value: Value, digits: int = 0) -> Value:
    """Rounds to a number of decimal places; halves are rounded away from zero."""
    if pt.is_floating(value.type):
        factor = 10.0 ** abs(digits)
        if digits < 0:
            return pc.multiply(_round_floats(pc.divide(value, factor)), factor)
        scaled = pc.multiply(value, factor) if digits else value
        rounded = _round_floats(scaled)
        if digits:
            rounded = pc.divide(rounded, factor)
            # If the scaled number overflows, the value is too large to have decimal places.
            rounded = pc.if_else(pc.is_finite(scaled), rounded, value)
        return rounded
    if pt.is_decimal(value.type):
        if digits >= value.type.scale:
            return value
        return pc.round(_with_room(as_decimal(value)), digits, "half_towards_infinity")
    if digits >= 0:
        return value
    ints = pc.round(_with_room(as_decimal(value)), digits, "half_towards_infinity")
    try:
        return ints.cast(pa.int64())
    except pa.ArrowInvalid:
        return ints


def _with_room(value: Value) -> Value:
    """Casts a decimal to one more digit, which rounding may need."""
    precision, scale = min(value.type.precision + 1, 76), value.type.scale
    return value.cast(decimal_type(precision, scale))


def _round_floats(value: Value) -> Value:
    return pc.round(value, 0, "half_towards_infinity")


def sign(value: Value) -> Value:
    if pt.is_floating(value.type):
        return pc.if_else(pc.is_nan(value), 0.0, pc.sign(value)).cast(pa.int8())
    if pt.is_decimal(value.type):
        value = to_ints(value) if value.type.bit_width == 64 else value
    return pc.sign(value).cast(pa.int8())


def _of_kind(kernel: Kernel, otherwise: bool) -> Kernel:
    """A test such as ``isnan``, which has a constant result for numbers that are not floats."""

    def compute(value: Value) -> Value:
        if pt.is_floating(value.type):
            return kernel(value)
        return pc.if_else(pc.is_valid(value), otherwise, pa.scalar(None, pa.bool_()))

    return compute


is_nan, is_inf, is_finite = (
    _of_kind(pc.is_nan, False),
    _of_kind(pc.is_inf, False),
    _of_kind(pc.is_finite, True),
)


# ------------------------------------------------------------------ comparisons

_COMPARED: dict[Op, Kernel] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compare(op: Op, left: Value, right: Value) -> Value:
    """``left op right`` for values of one kind; null if either is null.

    NaN equals itself and is greater than all numbers.
    """
    types = [left.type, right.type]
    if all(family(t) in ("number", "bool") for t in types):
        return _compare_numbers(op, left, right)
    if types[0] != types[1]:
        left, right = _same_type(left, right)
    return _COMPARED[op](left, right)


def _compare_numbers(op: Op, left: Value, right: Value) -> Value:
    types = [left.type, right.type]
    kernel = _COMPARED[op]
    if any(map(pt.is_floating, types)):
        target = number_type(types)
        return compare_floats(op, as_float(left, target), as_float(right, target))
    if types[0] == types[1] and not pt.is_decimal(types[0]):
        return kernel(left, right)
    if all(map(_is_narrow, types)):
        try:
            scale = max(map(_scale, types))
            return kernel(_scaled_ints(left, scale), _scaled_ints(right, scale))
        except pa.ArrowInvalid:
            pass  # more than 64 bits
    left, right = _fitting(left, right, lambda a, b: _sum_digits(a, b) - 1)
    target = (pa.decimal128 if left.type.bit_width == 128 else pa.decimal256)(
        max(_sum_digits(left, right) - 1, 1), max(left.type.scale, right.type.scale)
    )
    return kernel(left.cast(target), right.cast(target))


def compare_floats(op: Op, left: Value, right: Value) -> Value:
    """``left op right`` for floats in SQL's order: NaN equals itself and is the greatest value."""
    if op == "!=":
        return pc.invert(compare_floats("==", left, right))
    if op in (">", ">="):
        return compare_floats(FLIPPED[op], right, left)
    for side in (left, right):
        if isinstance(side, pa.Scalar) and not side.is_valid:
            return pc.equal(left, right)
    result = _COMPARED[op](left, right)
    if isinstance(right, pa.Scalar) and right.as_py() == right.as_py():
        return result  # IEEE and SQL agree unless the right side may be NaN
    # If either side is null, each branch must be null, so that NOT of the result is null.
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if op == "==":
        return pc.or_kleene(result, pc.and_(left_nan, right_nan))
    if op == "<":
        return pc.or_kleene(result, pc.and_(right_nan, pc.invert(left_nan)))
    return pc.or_kleene(result, pc.and_(right_nan, pc.or_(left_nan, pc.invert(left_nan))))


def _same_type(left: Value, right: Value) -> tuple[Value, Value]:
    a, b = left.type, right.type
    if pt.is_date(a) or pt.is_date(b):
        zoned = a if pt.is_timestamp(a) else b
        left, right = (v.cast(zoned) if pt.is_date(v.type) else v for v in (left, right))
    elif pt.is_timestamp(a) or pt.is_time(a) or pt.is_duration(a):
        finer = max(a, b, key=lambda t: ("s", "ms", "us", "ns").index(t.unit))
        left, right = left.cast(finer), right.cast(finer)
    elif pt.is_string(a) or pt.is_large_string(a):
        left, right = left.cast(pa.large_string()), right.cast(pa.large_string())
    else:
        left, right = left.cast(pa.large_binary()), right.cast(pa.large_binary())
    return left, right


def compared(op: Op) -> Kernel:
    return lambda left, right: compare(op, left, right)


def same(left: Value, right: Value) -> Value:
    """``IS NOT DISTINCT FROM``: equality in which nulls are equal. The result is never null."""
    neither = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(compare("==", left, right), False), neither)
