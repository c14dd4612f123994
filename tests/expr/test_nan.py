"""Conditions that find NaN equal to itself and above all numbers, against the oracle's order."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import oracle
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nimblepy.expr.filter import parse_filter

pytestmark = pytest.mark.sanitizer

NAN = float("nan")
VALUES = [None, float("-inf"), -1.0, -0.0, 0.0, 1.5, float("inf"), NAN]
PAIRS = list(product(VALUES, VALUES))
OPS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
LITERALS = {
    "1.5": 1.5,
    "0": 0.0,
    "CAST('NaN' AS DOUBLE)": NAN,
    "CAST('inf' AS DOUBLE)": float("inf"),
}
FLOATS = [pa.float16(), pa.float32(), pa.float64()]


def holds(op: str, a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else OPS[op](oracle.compare_values(a, b), 0)


def batch(data_type: pa.DataType) -> pa.RecordBatch:
    columns = zip(*PAIRS, strict=True)
    arrays = [pa.array(column, pa.float32()).cast(data_type) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=["a", "b"])


def passing(text: str, data_type: pa.DataType) -> list[bool]:
    rows = batch(data_type)
    return parse_filter(text, rows.schema).mask(rows).to_pylist()


@pytest.mark.parametrize("data_type", FLOATS, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_comparisons_are_in_the_order_of_the_oracle(op: str, data_type: pa.DataType) -> None:
    two = [holds(op, a, b) for a, b in PAIRS]
    assert passing(f"a {op} b", data_type) == [found is True for found in two]
    assert passing(f"NOT (a {op} b)", data_type) == [found is False for found in two]
    assert passing(f"a + 0 {op} b", data_type) == [found is True for found in two]
    for text, value in LITERALS.items():
        one = [holds(op, a, value) for a, _ in PAIRS]
        assert passing(f"a {op} {text}", data_type) == [found is True for found in one], text
        assert passing(f"NOT (a {op} {text})", data_type) == [found is False for found in one]
        other_way = [holds(op, value, a) for a, _ in PAIRS]
        assert passing(f"{text} {op} a", data_type) == [found is True for found in other_way]


@pytest.mark.parametrize("data_type", FLOATS, ids=str)
def test_what_is_made_of_comparisons(data_type: pa.DataType) -> None:
    above = [holds(">=", a, 0.0) is True and holds("<=", a, b) is True for a, b in PAIRS]
    assert passing("a BETWEEN 0 AND b", data_type) == above
    nan = "CAST('NaN' AS DOUBLE)"
    one_of = [a is not None and (a != a or a == 0) for a, _ in PAIRS]
    assert passing(f"a IN (0, {nan})", data_type) == one_of
    assert passing(f"a NOT IN (0, {nan})", data_type) == [
        a is not None and not found for (a, _), found in zip(PAIRS, one_of, strict=True)
    ]
    assert passing(f"a IS NOT DISTINCT FROM {nan}", data_type) == [a != a for a, _ in PAIRS]


def test_other_types_and_expressions_are_as_ever() -> None:
    rows = pa.record_batch({"a": [1, None, 3], "x": [NAN, 1.0, NAN]})
    schema = rows.schema
    assert parse_filter("a > 1", schema).mask(rows).to_pylist() == [False, False, True]
    assert parse_filter("a < CAST('nan' AS DOUBLE)", schema).mask(rows).to_pylist() == [
        True,
        False,
        True,
    ]
    assert parse_filter(pc.field("x") > 1, schema).mask(rows).to_pylist() == [False] * 3
    assert parse_filter("a < x", schema).mask(rows).to_pylist() == [True, False, True]
