"""Random filters, each with the trivial function that says what it means for one row.

A case is SQL text or a pyarrow expression together with ``oracle(row) -> True | False | None``;
None is SQL's unknown. Columns hold few distinct values, so that filters often match.
"""

from __future__ import annotations

import datetime
import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from nimblepy.expr import nodes as ast

Row = dict[str, Any]
Oracle = Callable[[Row], bool | None]

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int64()),
        ("tiny", pa.int8()),
        ("big", pa.uint64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("h", pa.float16()),
        ("s", pa.string()),
        ("view", pa.string_view()),
        ("word", pa.dictionary(pa.int8(), pa.string())),
        ("raw", pa.binary()),
        ("d", pa.date32()),
        ("t", pa.timestamp("ms")),
        ("m", pa.decimal128(6, 2)),
        ("b", pa.bool_()),
        ("loc", pa.struct([("lat", pa.float64()), ("k", pa.int32())])),
    ]
)

_INTS = [-2, -1, 0, 1, 2, 3, 7, 100]
_FLOATS = [-math.inf, -1.5, -0.0, 0.0, 0.5, 1.0, 1.5, 3.0, math.inf, math.nan]
_TEXTS = ["", "a", "ab", "abc", "b", "a%b", "a_b", "a\\b", "é", "ab\n", "A", "'"]
_DATES = [datetime.date(1969, 12, 31), datetime.date(2020, 2, 29), datetime.date(2020, 3, 1)]
_TIMES = [datetime.datetime(1969, 12, 31, 23), datetime.datetime(2020, 3, 1, 0, 0, 0, 5000)]
_MONEY = [Decimal("-1.50"), Decimal("0.00"), Decimal("1.00"), Decimal("1.50"), Decimal("1.51")]
_POOLS: dict[str, list[Any]] = {
    "i": _INTS,
    "j": _INTS,
    "tiny": [-128, -1, 0, 1, 127],
    "big": [0, 1, 2**63, 2**64 - 1],
    "f": _FLOATS,
    "g": _FLOATS,
    "h": _FLOATS,
    "s": _TEXTS,
    "view": _TEXTS,
    "word": _TEXTS,
    "raw": [text.encode() for text in _TEXTS] + [b"\xff", b"\x00"],
    "d": _DATES,
    "t": [datetime.datetime.combine(day, datetime.time()) for day in _DATES] + _TIMES,
    "m": _MONEY,
    "b": [True, False],
}
NUMBERS = ["i", "tiny", "big", "f", "m", "loc.lat", "loc.k"]
TEXTS = ["s", "view", "word"]
_OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Case:
    filter: Any
    oracle: Oracle


def value_of(row: Row, column: str) -> Any:
    value: Any = row
    for part in column.split("."):
        value = None if value is None else value[part]
    return value


def compare_ieee(left: Any, op: str, right: Any) -> bool | None:
    """An exact comparison: Python compares floats, integers and fractions without rounding."""
    if left is None or right is None:
        return None
    return _OPS[op](*(Fraction(v) if isinstance(v, Decimal) else v for v in (left, right)))


def compare(left: Any, op: str, right: Any) -> bool | None:
    """The same in SQL, where NaN equals itself and is above all numbers."""
    if left is not None and right is not None and (left != left or right != right):
        left, right = left != left, right != right
    return compare_ieee(left, op, right)


def all_of(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def any_of(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def invert(value: bool | None) -> bool | None:
    return None if value is None else not value


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def _table(seed: int, size: int) -> pa.Table:
    chance = random.Random(seed)

    def column(name: str) -> list[Any]:
        return [chance.choice([None, *_POOLS[name]]) for _ in range(size)]

    plain = [field for field in SCHEMA if field.name != "loc"]
    arrays = [pa.array(column(field.name), _inferred(field.type)) for field in plain]
    arrays = [array.cast(field.type) for array, field in zip(arrays, plain, strict=True)]
    rows = [
        {"lat": lat, "k": k} if here is not None else None
        for lat, k, here in zip(column("f"), column("i"), column("b"), strict=True)
    ]
    arrays.append(pa.array(rows, type=SCHEMA.field("loc").type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _inferred(data_type: pa.DataType) -> pa.DataType:
    """The type to make Python values of: old pyarrows take only numpy's half floats for halves."""
    return pa.float32() if data_type == pa.float16() else data_type


# From a seed, not value by value: drawing hundreds of values would take most of the test's time.
tables = st.builds(_table, st.integers(0, 10_000), st.sampled_from([0, 1, 40, 40, 40]))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _is_float(column: str) -> bool:
    return column in ("f", "g", "h", "loc.lat")


@st.composite
def _sql_literals(draw: st.DrawFn, column: str) -> tuple[str, Any]:
    """SQL text and the value it has when compared with ``column``."""
    if draw(st.integers(0, 9)) == 0:
        return "NULL", None
    if column in TEXTS:
        text = draw(st.sampled_from(_TEXTS))
        return _quote(text), text
    if column == "d":
        day = draw(st.sampled_from(_DATES))
        return draw(st.sampled_from([f"DATE '{day}'", f"'{day}'"])), day
    if column == "t":
        time = draw(st.sampled_from(_POOLS["t"]))
        return draw(st.sampled_from([f"TIMESTAMP '{time}'", f"'{time}'"])), time
    text = draw(st.sampled_from(["0", "1", "-1", "1.5", "-1.5", "1.505", "300", "1e2", "9" * 20]))
    # SQL compares a float with a decimal literal as floats, but with an integer exactly.
    whole = text.lstrip("-").isdigit()
    return text, float(text) if _is_float(column) and not whole else Decimal(text)


@st.composite
def _sql_leaves(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(["compare", "in", "between", "null", "like", "columns", "bool"]))
    column = draw(st.sampled_from([*NUMBERS, *TEXTS, "d", "t"]))
    if kind == "compare":
        op = draw(st.sampled_from(list(_OPS)))
        text, value = draw(_sql_literals(column))
        if draw(st.booleans()):
            return Case(f"{column} {op} {text}", lambda r: compare(value_of(r, column), op, value))
        return Case(f"{text} {op} {column}", lambda r: compare(value, op, value_of(r, column)))
    if kind == "in":
        members = draw(st.lists(_sql_literals(column), min_size=1, max_size=4))
        texts = ", ".join(text for text, _ in members)
        return Case(
            f"{column} IN ({texts})",
            lambda r: any_of([compare(value_of(r, column), "=", v) for _, v in members]),
        )
    if kind == "between":
        (low, a), (high, b) = draw(_sql_literals(column)), draw(_sql_literals(column))
        return Case(
            f"{column} BETWEEN {low} AND {high}",
            lambda r: all_of(
                [compare(value_of(r, column), ">=", a), compare(value_of(r, column), "<=", b)]
            ),
        )
    if kind == "null":
        column = draw(st.sampled_from([field.name for field in SCHEMA] + ["loc.lat"]))
        return Case(f"{column} IS NULL", lambda r: value_of(r, column) is None)
    if kind == "like":
        column = draw(st.sampled_from(TEXTS))
        pattern = draw(st.text(st.sampled_from(list("ab%_\\é")), max_size=4))
        return Case(
            f"{column} LIKE {_quote(pattern)}",
            lambda r: None if value_of(r, column) is None else like(value_of(r, column), pattern),
        )
    if kind == "columns":
        op, added = draw(st.sampled_from(list(_OPS))), draw(st.integers(-2, 2))
        return Case(
            f"i + {added} {op} j",
            lambda r: compare(None if r["i"] is None else r["i"] + added, op, r["j"]),
        )
    return Case("b", lambda r: r["b"])


def _joined(children: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    pairs = st.tuples(children, children)

    def conjunction(pair: tuple[Case, Case]) -> Case:
        a, b = pair
        return Case(f"({a.filter}) AND ({b.filter})", lambda r: all_of([a.oracle(r), b.oracle(r)]))

    def disjunction(pair: tuple[Case, Case]) -> Case:
        a, b = pair
        return Case(f"({a.filter}) OR ({b.filter})", lambda r: any_of([a.oracle(r), b.oracle(r)]))

    def negation(a: Case) -> Case:
        return Case(f"NOT ({a.filter})", lambda r: invert(a.oracle(r)))

    return st.one_of(pairs.map(conjunction), pairs.map(disjunction), children.map(negation))


sql_cases = st.recursive(_sql_leaves(), _joined, max_leaves=5)

_EXPRESSION_OPS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "=": operator.eq,
    "<>": operator.ne,
    **{op: function for op, function in _OPS.items() if op not in ("=", "<>")},
}


def _field(column: str) -> pc.Expression:
    return pc.field(*column.split("."))


@st.composite
def _expression_leaves(draw: st.DrawFn) -> Case:
    column = draw(st.sampled_from(["i", "tiny", "f", "g", "s", "d", "m", "loc.lat", "loc.k"]))
    pool = _POOLS.get(column, _FLOATS if column == "loc.lat" else _INTS)
    literal = draw(st.sampled_from(pool))
    if column in ("i", "tiny", "f", "g", "loc.k") and draw(st.booleans()):
        literal = draw(st.sampled_from([0.5, 1.5, 0.1, 300, 3.0, -129, float("nan")]))
    kind = draw(st.sampled_from(["compare", "compare", "in", "null", "valid", "prefix"]))
    if kind == "compare":
        op = draw(st.sampled_from(list(_OPS)))
        expression = _EXPRESSION_OPS[op](_field(column), pc.scalar(literal))
        return Case(expression, lambda r: compare_ieee(value_of(r, column), op, literal))
    if kind == "in":
        members = draw(st.lists(st.one_of(st.none(), st.sampled_from(pool)), max_size=4))
        field = SCHEMA.field(column.split(".")[0])
        member_type = pa.float64() if column == "loc.lat" else field.type
        member_type = pa.int32() if column == "loc.k" else member_type
        expression = _field(column).isin(pa.array(members, type=member_type))
        return Case(expression, lambda r: _is_in(value_of(r, column), members))
    if kind == "null":
        return Case(_field(column).is_null(), lambda r: value_of(r, column) is None)
    if kind == "valid":
        return Case(_field(column).is_valid(), lambda r: value_of(r, column) is not None)
    prefix = draw(st.sampled_from(["", "a", "ab", "é"]))
    return Case(
        pc.starts_with(pc.field("s"), prefix),
        lambda r: None if r["s"] is None else r["s"].startswith(prefix),
    )


def _is_in(value: Any, members: list[Any]) -> bool:
    """pyarrow's is_in: null and NaN equal themselves, and signed zeros differ."""

    def key(item: Any) -> Any:
        if isinstance(item, float):
            return "nan" if math.isnan(item) else (item, math.copysign(1, item))
        return item

    return key(value) in [key(member) for member in members]


def _joined_expressions(children: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    pairs = st.tuples(children, children)

    def conjunction(pair: tuple[Case, Case]) -> Case:
        a, b = pair
        return Case(a.filter & b.filter, lambda r: all_of([a.oracle(r), b.oracle(r)]))

    def disjunction(pair: tuple[Case, Case]) -> Case:
        a, b = pair
        return Case(a.filter | b.filter, lambda r: any_of([a.oracle(r), b.oracle(r)]))

    def negation(a: Case) -> Case:
        return Case(~a.filter, lambda r: invert(a.oracle(r)))

    return st.one_of(pairs.map(conjunction), pairs.map(disjunction), children.map(negation))


expression_cases = st.recursive(_expression_leaves(), _joined_expressions, max_leaves=5)


def evaluate(node: ast.Node, row: Row) -> bool | None:
    """What a node of the filter tree says of one row; opaque nodes do not occur in conjuncts."""
    match node:
        case ast.And(args):
            return all_of([evaluate(arg, row) for arg in args])
        case ast.Or(args):
            return any_of([evaluate(arg, row) for arg in args])
        case ast.IsNull(column):
            return value_of(row, column.name) is None
        case ast.IsValid(column):
            return value_of(row, column.name) is not None
        case ast.Compare(column, op, value, nan_greatest):
            sql_op = {"==": "=", "!=": "<>"}.get(op, op)
            comparison = compare if nan_greatest else compare_ieee
            return comparison(value_of(row, column.name), sql_op, value.as_py())
        case ast.In(column, values):
            found = value_of(row, column.name)
            return any_of([compare(found, "=", value.as_py()) for value in values])
        case ast.StartsWith(column, prefix):
            text = value_of(row, column.name)
            return None if text is None else text.startswith(prefix)
    raise AssertionError(f"{node!r} is not a conjunct")
