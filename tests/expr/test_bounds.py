"""Literals are placed exactly, and key ranges hold exactly the matching values."""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.bounds import compare, one_of
from nimblepy.expr.nodes import UNKNOWN, Compare, In, Op
from nimblepy.file.key_ranges import Bound, ranges_of
from nimblepy.schema.columns import Column
from nimblepy.schema.text import parse_text
from nimblepy.schema.values import place

pytestmark = pytest.mark.no_sanitizer  # Python alone

OPS: dict[Op, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-130, 130),
    st.floats(width=32),
    st.floats(),
    st.sampled_from([0.1, -0.0, 2.0**53, 2**53 + 1, 65504.0, 65520.0, 5e-324, 2.0**63]),
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-99, max_value=99)


def exact(value: Any) -> Any:
    """Python compares int, float and Fraction exactly, but Decimal only with some of them."""
    return Fraction(value) if isinstance(value, Decimal) else value


def order(value: Any) -> tuple[int, Any]:
    """The index's key order: NaN is one value after all numbers."""
    return (1, 0) if value != value else (0, exact(value))


def column_of(data_type: pa.DataType) -> Column:
    return Column(("k",), data_type, (0,))


def bounds_for(
    data_type: pa.DataType, op: Op, literal: object, *, nan_greatest: bool = False
) -> list[Bound]:
    """Key ranges of the values for which ``value op literal`` is true, nulls aside."""
    node = compare(column_of(data_type), op, literal, nan_greatest=nan_greatest)
    if isinstance(node, Compare):
        return ranges_of(node)
    if isinstance(node, In) or node == UNKNOWN:  # never
        return []
    if op == "!=" or nan_greatest or not pa.types.is_floating(data_type):
        return [Bound(None, True, None, True)]
    ends = (pa.scalar(end).cast(data_type) for end in (-math.inf, math.inf))
    return [Bound(next(ends), True, next(ends), True)]


def holds(bound: Bound, value: Any) -> bool:
    if bound.lower is not None:
        lower = order(bound.lower.as_py())
        if order(value) < lower or (order(value) == lower and not bound.lower_inclusive):
            return False
    if bound.upper is not None:
        upper = order(bound.upper.as_py())
        if order(value) > upper or (order(value) == upper and not bound.upper_inclusive):
            return False
    return True


INTEGERS = [pa.int8(), pa.int64(), pa.uint8(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("data_type", INTEGERS, ids=str)
@settings(max_examples=200)
@given(literal=st.one_of(NUMBERS, DECIMALS), data=st.data())
def test_integer_ranges_hold_exactly_matching_values(
    data_type: pa.DataType, literal: Any, data: st.DataObject
) -> None:
    bits, signed = data_type.bit_width, pa.types.is_signed_integer(data_type)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = [low, high, 0]
    if math.isfinite(literal):
        near += [max(low, min(high, math.floor(literal) + step)) for step in (-1, 0, 1, 2)]
    value = data.draw(st.one_of(st.integers(low, high), st.sampled_from(near)))
    for op, function in OPS.items():
        bounds = bounds_for(data_type, op, literal)
        found = [holds(bound, value) for bound in bounds]
        assert sum(found) == function(value, exact(literal)), (op, bounds)
        assert all(b is None or b.type == data_type for bound in bounds for b in bound[::2])


@pytest.mark.parametrize("data_type", FLOATS, ids=str)
@settings(max_examples=200)
@given(literal=NUMBERS, data=st.data())
def test_float_ranges_hold_exactly_matching_values_with_nan(
    data_type: pa.DataType, literal: Any, data: st.DataObject
) -> None:
    width: Any = data_type.bit_width
    value = data.draw(st.one_of(st.floats(width=width), st.sampled_from([math.nan, 0.0, math.inf])))
    for op, function in OPS.items():
        found = [holds(bound, value) for bound in bounds_for(data_type, op, literal)]
        assert sum(found) == function(value, literal), op
        found = [holds(b, value) for b in bounds_for(data_type, op, literal, nan_greatest=True)]
        assert sum(found) == function(order(value), order(literal)), op


@settings(max_examples=200)
@given(
    literal=st.one_of(DECIMALS, st.integers(-(10**6), 10**6), st.floats(-1e4, 1e4)),
    raw=st.integers(-9999, 9999),
)
def test_decimal_ranges_hold_exactly_matching_values(literal: Any, raw: int) -> None:
    value = Decimal(raw).scaleb(-2)
    for op, function in OPS.items():
        found = [holds(bound, value) for bound in bounds_for(pa.decimal128(4, 2), op, literal)]
        assert sum(found) == function(exact(value), exact(literal)), op


@settings(max_examples=100)
@given(literal=st.datetimes(), value=st.datetimes(), step=st.integers(-1, 1))
def test_second_ranges_hold_exactly_matching_times(
    literal: datetime.datetime, value: datetime.datetime, step: int
) -> None:
    value = (value if step == 0 else literal).replace(microsecond=0)
    for op, function in OPS.items():
        found = [holds(bound, value) for bound in bounds_for(pa.timestamp("s"), op, literal)]
        assert sum(found) == function(value, literal), op


def holds_bytes(bound: Bound, value: bytes) -> bool:
    lower, upper = (side.as_py() if side is not None else None for side in bound[::2])
    above = lower is None or value > lower or (value == lower and bound.lower_inclusive)
    below = upper is None or value < upper or (value == upper and bound.upper_inclusive)
    return above and below


@given(literal=st.binary(max_size=4), value=st.binary(min_size=2, max_size=2))
def test_fixed_size_binary_ranges_hold_exactly_matching_values(
    literal: bytes, value: bytes
) -> None:
    for op, function in OPS.items():
        found = [holds_bytes(bound, value) for bound in bounds_for(pa.binary(2), op, literal)]
        assert sum(found) == function(value, literal), (op, literal, value)


def shown(bounds: list[Bound]) -> list[str]:
    return [
        f"{'(['[b.lower_inclusive]}{b.lower}, {b.upper}{')]'[b.upper_inclusive]}" for b in bounds
    ]


@pytest.mark.parametrize(
    ("data_type", "op", "value", "expected"),
    [
        (pa.float64(), ">", 3, ["(3.0, inf]"]),
        (pa.float64(), "<", 3, ["[-inf, 3.0)"]),
        (pa.float64(), "!=", 3, ["[-inf, 3.0)", "(3.0, None]"]),
        (pa.float64(), "==", math.nan, []),
        (pa.float64(), "!=", math.nan, ["[None, None]"]),
        (pa.float32(), "==", 0.1, []),
        (pa.int64(), ">", 1.5, ["[2, None]"]),
        (pa.int8(), "==", 300, []),
        (pa.int8(), "<", 300, ["[None, None]"]),
        (pa.int64(), "==", None, []),
        (pa.date32(), ">", datetime.datetime(2020, 1, 1, 5), ["[2020-01-02, None]"]),
        (pa.dictionary(pa.int8(), pa.string()), "==", "a", ["[a, a]"]),
        (pa.bool_(), "!=", True, ["[None, True)", "(True, None]"]),
    ],
)
def test_ranges_of_known_comparisons(
    data_type: pa.DataType, op: Op, value: object, expected: list[str]
) -> None:
    assert shown(bounds_for(data_type, op, value)) == expected


@pytest.mark.parametrize(
    ("data_type", "literal"),
    [
        (pa.int64(), "a"),
        (pa.string(), 1),
        (pa.bool_(), 1),
        (pa.timestamp("us"), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        (pa.date32(), 5),
        (pa.list_(pa.int8()), 1),
        (pa.string(), b"\xff"),
    ],
    ids=str,
)
def test_incomparable_literal_is_refused(data_type: pa.DataType, literal: object) -> None:
    with pytest.raises(InvalidArgumentError, match="type mismatch"):
        place(data_type, literal)


def test_in_list_drops_values_the_type_cannot_hold() -> None:
    assert str(one_of(column_of(pa.int8()), [1, 300, 1.5, 1, 2])) == "k in (1, 2)"
    assert str(one_of(column_of(pa.int8()), [1, None])) == "k in (1) or unknown"


@pytest.mark.parametrize(
    ("data_type", "text", "value"),
    [
        (pa.int64(), " 7 ", 7),
        (pa.decimal128(5, 2), "1.5", Decimal("1.5")),
        (pa.float64(), "-inf", -math.inf),
        (pa.bool_(), "true", True),
        (pa.time64("us"), "10:30", datetime.time(10, 30)),
        (pa.string(), "7", "7"),
    ],
    ids=str,
)
def test_text_is_read_as_column_type(data_type: pa.DataType, text: str, value: object) -> None:
    assert parse_text(data_type, text) == value


@pytest.mark.parametrize(
    "data_type", [pa.int64(), pa.date32(), pa.bool_(), pa.timestamp("s")], ids=str
)
def test_text_of_another_type_is_refused(data_type: pa.DataType) -> None:
    with pytest.raises(InvalidArgumentError, match="'perhaps' is not a"):
        parse_text(data_type, "perhaps")
