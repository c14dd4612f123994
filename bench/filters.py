"""`python -m bench.filters`: SQL filters against DuckDB, for their answers and for their speed.

python -m bench.filters                    50,000 random conditions, answers compared
python -m bench.filters --count 300 --seed 7
python -m bench.filters --speed            ten typical filters, time beside DuckDB's
"""

# ruff: noqa: E501  conditions are longer than lines
from __future__ import annotations

import argparse
import datetime
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import nimblepy as nb
from nimblepy.expr.filter import parse_filter

ROWS = 60
NAN, INF = float("nan"), float("inf")
_DAY = datetime.date(2024, 2, 29)
_TEXTS = ["", "a", "A", "ab", "abc", "b%", "a_b", "  x ", "é", "Éa", "12", "-7", "2024-01-05", "x\ny",
          "aaa", "ba", None]  # fmt: skip
_STAMPS = [
    datetime.datetime(2024, 1, 31, 23, 59, 59, 999999),
    datetime.datetime(2024, 2, 29),
    datetime.datetime(1969, 12, 31, 23, 0, 0, 1),
    datetime.datetime(2023, 12, 31, 12, 30),
    datetime.datetime(2024, 7, 14, 3, 4, 5, 600000),
    datetime.datetime(1900, 3, 1, 0, 0, 1),
    None,
]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, -7, -1, 0, 1, 2, 7, 127, None]),
    "i16": (pa.int16(), [-32768, -3, 0, 5, 100, 32767, None]),
    "i32": (pa.int32(), [-(2**31), -100, -1, 0, 1, 3, 16777217, 2**31 - 1, None]),
    "i64": (pa.int64(), [-(2**63), -(2**53) - 1, -5, 0, 1, 4, 10**12, 2**53 + 1, 2**63 - 1, None]),
    "u8": (pa.uint8(), [0, 1, 3, 200, 255, None]),
    "u32": (pa.uint32(), [0, 1, 7, 2**32 - 1, None]),
    "u64": (pa.uint64(), [0, 1, 5, 2**63, 2**64 - 1, None]),
    "f": (pa.float32(), [-INF, -1.5, -0.0, 0.0, 0.1, 2.5, 16777216.0, INF, NAN, None]),
    "d": (pa.float64(), [-INF, -2.5, -0.5, 0.0, 0.1, 0.5, 1.5, 3.0, 1e300, INF, NAN, None]),
    "p": (pa.decimal128(9, 2), [Decimal("-1234567.89"), Decimal("-0.05"), Decimal("0.00"),
                                Decimal("0.15"), Decimal("1.00"), Decimal("2.50"),
                                Decimal("9999999.99"), None]),
    "q": (pa.decimal128(15, 4), [Decimal("-99999999999.9999"), Decimal("-1.5000"),
                                 Decimal("0.0001"), Decimal("0.1500"), Decimal("7.0000"),
                                 Decimal("12345678901.2345"), None]),
    "r": (pa.decimal128(24, 6), [Decimal("-123456789012345678.123456"),
                                 Decimal("0.500000"), Decimal("3.000000"),
                                 Decimal("123456789012345678.123456"), None]),
    "s": (pa.string(), _TEXTS),
    "w": (pa.string(), _TEXTS[::-1]),
    "b": (pa.bool_(), [True, False, None]),
    "c": (pa.bool_(), [True, True, False, None]),
    "day": (pa.date32(), [_DAY, datetime.date(2024, 1, 1), datetime.date(1969, 12, 31),
                          datetime.date(2023, 12, 31), datetime.date(1900, 3, 1), None]),
    "ts": (pa.timestamp("us"), _STAMPS),
    "tu": (pa.timestamp("us"), _STAMPS[::-1]),
    "tz": (pa.timestamp("us", "UTC"), _STAMPS),
    "at": (pa.time64("us"), [datetime.time(0), datetime.time(1, 2, 3), datetime.time(23, 59, 59, 5),
                             None]),
    "raw": (pa.binary(), [b"", b"\x00", b"a", b"\xff", b"\xff\x00", None]),
    "l": (pa.list_(pa.int32()), [[], [1], [1, 2, None], [3, 3], [-1, 7], None]),
    "st": (pa.struct([("x", pa.int32()), ("y", pa.string())]),
           [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, {"x": 3, "y": None}, None]),
}  # fmt: skip


def make_table(rows: int = ROWS, seed: int = 1) -> pa.Table:
    """Every type, with the values at which answers change."""
    chance = random.Random(seed)
    columns = {"id": pa.array(range(rows), pa.int64())}
    for name, (data_type, values) in VALUES.items():
        columns[name] = pa.array([chance.choice(values) for _ in range(rows)], data_type)
    return pa.table(columns)


# ------------------------------------------------------------------ random conditions


class Language:
    """Typed random expressions, as text."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def _one(self, *options: Any) -> Any:
        return self._chance.choice(options)

    def _pick(self, depth: int, leaves: list[Any], makers: list[Callable[[int], str]]) -> str:
        if depth <= 0 or self._chance.random() < 0.25:
            return str(self._chance.choice(leaves))
        return self._chance.choice(makers)(depth - 1)

    def condition(self, depth: int = 3) -> str:
        return self._pick(
            depth,
            ["b", "c", "b", "TRUE", "FALSE", "NULL::BOOLEAN", "i32 > 0", "s = 'a'", "day > '2024-01-01'"],
            [self._connective, self._negated, self._compare, self._compare, self._compare,
             self._range, self._test, self._pattern, self._case_of(self.condition), self._row,
             self._member],
        )  # fmt: skip

    def _connective(self, depth: int) -> str:
        word = self._one(" AND ", " OR ")
        parts = [self.condition(depth) for _ in range(self._one(2, 2, 3))]
        return "(" + word.join(parts) + ")"

    def _negated(self, depth: int) -> str:
        return f"(NOT {self.condition(depth)})"

    def _kind(self) -> Callable[[int], str]:
        return self._one(self.integer, self.integer, self.decimal, self.float, self.text, self.text,
                         self.date, self.stamp, self.number)  # fmt: skip

    def _compare(self, depth: int) -> str:
        op = self._one("=", "<>", "<", "<=", ">", ">=", "=", "<", "IS DISTINCT FROM",
                       "IS NOT DISTINCT FROM")  # fmt: skip
        kind = self._kind()
        other = self._one(
            lambda: f"{self._time()} {op} {self._one('at', repr('01:02:03'))}",
            lambda: f"raw {op} {self._blob()}",
            lambda: f"b {op} {self.condition(depth - 1)}",
            lambda: f"tz {op} {self._zoned()}",
            lambda: f"(ts - tu) {op} INTERVAL '{self._one(1, 30, 400)} days'",
            lambda: f"l[{self._one(1, 2, -1)}] {op} {self.integer(depth)}",
        )
        if self._chance.random() < 0.15:
            return f"({other()})"
        return f"({kind(depth)} {op} {kind(depth)})"

    def _range(self, depth: int) -> str:
        kind = self._kind()
        negation = self._one("", "", "NOT ")
        if self._chance.random() < 0.5:
            return f"({kind(depth)} {negation}BETWEEN {kind(0)} AND {kind(depth)})"
        members = ", ".join(kind(self._one(0, 0, depth)) for _ in range(self._one(1, 2, 4)))
        return f"({kind(depth)} {negation}IN ({members}))"

    def _test(self, depth: int) -> str:
        return self._one(
            lambda: f"({self._kind()(depth)} IS {self._one('', 'NOT ')}NULL)",
            lambda: (
                f"({self.condition(depth)} IS {self._one('', 'NOT ')}{self._one('TRUE', 'FALSE')})"
            ),
            lambda: f"{self._one('isnan', 'isinf')}({self.float(depth)})",
            lambda: f"({self._one('l', 'st.x', 'raw', 'tz', 'at')} IS {self._one('', 'NOT ')}NULL)",
        )()

    def _pattern(self, depth: int) -> str:
        text = self.text(depth)
        pattern = self._one(
            "a%", "%a", "%b%", "_b", "a_c", "%", "", "a", "ab", "%a%b%", "é%", "1_", "%_"
        )
        return self._one(
            lambda: (
                f"({text} {self._one('', 'NOT ')}{self._one('LIKE', 'LIKE', 'ILIKE')} '{pattern}')"
            ),
            lambda: f"({text} LIKE 'a!_%' ESCAPE '!')",
            lambda: (
                f"{self._one('starts_with', 'ends_with', 'contains', 'prefix', 'suffix')}({text}, {self.text(0)})"
            ),
            lambda: f"regexp_matches({text}, '{self._one('b', '^a', 'a.*c', '[0-9]+', 'x.y')}')",
            lambda: (
                f"regexp_matches({text}, '{self._one('B', '^A', 'x.y')}', '{self._one('i', 's', 'is')}')"
            ),
            lambda: f"({text} SIMILAR TO '{self._one('a+', 'a.*', '[ab]*')}')",
        )()

    def _member(self, depth: int) -> str:
        return self._one(
            lambda: f"list_contains(l, {self.integer(depth)})",
            lambda: f"({self.integer(depth)} IN ({self._one(1, 2)}, {self._one(3, 'NULL')}))",
            lambda: f"(len(l) {self._one('=', '>')} {self._one(0, 1, 2)})",
        )()

    def _row(self, depth: int) -> str:
        op = self._one("=", "<>", "<", "<=", ">", ">=")
        if self._chance.random() < 0.3:
            rows = ", ".join(
                f"({self.integer(0)}, {self.text(0)})" for _ in range(self._one(1, 2, 3))
            )
            return f"((i32, s) {self._one('', 'NOT ')}IN ({rows}))"
        left, right = (f"({self.integer(0)}, {self.text(0)}, {self.stamp(0)})" for _ in range(2))
        return f"({left} {op} {right})"

    def _case_of(self, kind: Callable[[int], str]) -> Callable[[int], str]:
        def make(depth: int) -> str:
            return self._one(
                lambda: (
                    f"CASE WHEN {self.condition(depth)} THEN {kind(depth)} ELSE {kind(depth)} END"
                ),
                lambda: f"CASE {self.integer(0)} WHEN {self.integer(0)} THEN {kind(depth)} END",
                lambda: f"COALESCE({kind(depth)}, {kind(depth)})",
                lambda: f"NULLIF({kind(depth)}, {kind(0)})",
                lambda: (
                    f"{self._one('GREATEST', 'LEAST')}({kind(depth)}, {kind(depth)})"
                    if kind not in (self.condition,)
                    else "b"
                ),
                lambda: f"IF({self.condition(depth)}, {kind(depth)}, {kind(depth)})",
            )()

        return make

    # ---------------------------------------------------------------- values

    def number(self, depth: int) -> str:
        return self._one(self.integer, self.decimal, self.float)(depth)

    def integer(self, depth: int) -> str:
        return self._pick(
            depth,
            ["i8", "i16", "i32", "i32", "i64", "u8", "u32", "u64", "st.x", 0, 1, -1, 2, 7, 100, 300,
             3000000000, "(-3)", "NULL::INTEGER"],
            [self._arithmetic(self.integer), self._arithmetic(self.integer), self._integer_of,
             self._case_of(self.integer), self._date_part, self._length],
        )  # fmt: skip

    def _integer_of(self, depth: int) -> str:
        value = self.integer(depth)
        return self._one(
            f"(- {self._one('i8', 'i32', 'i64', 'st.x', 3)})", f"abs({value})", f"({value} // {self.integer(0)})", f"sign({value})",
            f"({value} % {self.integer(0)})", f"CAST({self.number(depth)} AS {self._one('BIGINT', 'INTEGER')})",
            f"TRY_CAST({self.text(0)} AS INTEGER)", f"round({value}, {self._one(0, 1)})",
            f"round({self._one('st.x', 'strlen(w)')}, -1)",
            f"CAST({self.condition(depth)} AS INTEGER)", "(day - DATE '2024-01-01')",
        )  # fmt: skip

    def _arithmetic(self, kind: Callable[[int], str]) -> Callable[[int], str]:
        return lambda depth: f"({kind(depth)} {self._one('+', '-', '*')} {kind(depth)})"

    def decimal(self, depth: int) -> str:
        return self._pick(
            depth,
            ["p", "p", "q", "q", "r", "0.5", "1.25", "-0.05", "100.0", "2.5", "90000.00"],
            [self._arithmetic(self.decimal), self._mixed, self._decimal_of,
             self._case_of(self.decimal)],
        )  # fmt: skip

    def _mixed(self, depth: int) -> str:
        return f"({self.decimal(depth)} {self._one('+', '-', '*')} {self.integer(0)})"

    def _decimal_of(self, depth: int) -> str:
        value = self.decimal(depth)
        return self._one(
            f"(- {value})", f"abs({value})", f"round({value}, {self._one(0, 1)})", f"floor({value})",
            f"ceil({value})", f"({value} % {self._one('3', '0.7', 'p', '0')})",
            f"CAST({self.number(0)} AS DECIMAL({self._one('9,2', '18,3', '30,1')}))",
        )  # fmt: skip

    def float(self, depth: int) -> str:
        return self._pick(
            depth,
            ["f", "d", "d", "d", "0.0::DOUBLE", "1e0", "2.5e0", "-1e300", "'NaN'::DOUBLE", "'inf'::FLOAT"],
            [self._arithmetic(self.float), self._float_of, self._float_of, self._case_of(self.float)],
        )  # fmt: skip

    def _float_of(self, depth: int) -> str:
        value = self.float(depth)
        return self._one(
            f"(- {value})", f"abs({value})", f"({value} / {self.number(0)})", f"floor({value})",
            f"ceil({value})", f"round({value})", f"({value} % {self._one('2', 'd')})",
            f"CAST({self.number(depth)} AS DOUBLE)", f"({self.integer(depth)} / {self.integer(0)})",
            f"({value} + {self.number(0)})", f"trunc({value})", f"CAST({self.decimal(0)} AS FLOAT)",
        )  # fmt: skip

    def _length(self, depth: int) -> str:
        return self._one(
            f"length({self.text(depth)})", f"position('b' IN {self.text(depth)})",
            f"strlen({self.text(depth)})", "octet_length(raw)", "len(l)", f"instr({self.text(0)}, 'a')",
        )  # fmt: skip

    def text(self, depth: int) -> str:
        return self._pick(
            depth,
            ["s", "s", "w", "st.y", "''", "'a'", "'ab'", "'B'", "'é'", "'a%'"],
            [self._text_of, self._text_of, self._text_of, self._case_of(self.text)],
        )

    def _text_of(self, depth: int) -> str:
        value = self.text(depth)
        number = self._one("0", "1", "2", "-1", "5", "u8")
        return self._one(
            f"lower({value})", f"upper({value})", f"trim({value})", f"ltrim({value})", f"rtrim({value}, 'a')",
            f"({value} || {self.text(depth)})", f"substr({value}, {number})", f"reverse({value})",
            f"substring({value}, {number}, {self._one('0', '1', '3')})", f"left({value}, {number})",
            f"right({value}, {number})", f"replace({value}, 'a', {self.text(0)})", f"concat({value}, s, 1)",
            f"CAST({self._one('i32', 'p', 'day', 'b', 'ts', 'd', 'i64', 'f', 'at', 'raw')} AS VARCHAR)",
            f"repeat({value}, 2)", f"({value} || {self._one('i8', 'p', 'b', 'day')})",
        )  # fmt: skip

    def _date_part(self, depth: int) -> str:
        part = self._one("year", "month", "day", "quarter", "week", "dow", "isodow", "doy", "hour",
                         "minute", "second", "decade", "century", "isoyear")  # fmt: skip
        value = self._one(self.date, self.stamp)(depth)
        return self._one(
            f"{part}({value})" if part not in ("dow", "doy") else f"date_part('{part}', {value})",
            f"EXTRACT({part} FROM {value})",
            f"EXTRACT({self._one('millisecond', 'microsecond', 'second')} FROM {self.stamp(depth)})",
            f"date_diff('{self._one('day', 'month', 'year', 'hour', 'quarter')}', {self.stamp(0)}, {self.stamp(0)})",
        )

    def date(self, depth: int) -> str:
        return self._pick(
            depth,
            ["day", "day", "DATE '2024-02-29'", "DATE '1969-12-31'"],
            [lambda n: f"CAST({self.stamp(n)} AS DATE)",
             lambda n: f"({self.date(n)} {self._one('+', '-')} {self._one(0, 1, 31)})",
             self._case_of(self.date), lambda n: f"last_day({self.date(n)})"],
        )  # fmt: skip

    def stamp(self, depth: int) -> str:
        unit = self._one("year", "quarter", "month", "week", "day", "hour", "minute", "second",
                         "millisecond", "decade")  # fmt: skip
        # Not of dates: there DuckDB takes <> to be true of what = is true of, and of nulls.
        interval = self._one("INTERVAL 1 DAY", "INTERVAL '1 month'", "INTERVAL '1 year 2 days'",
                             "INTERVAL '-90' MINUTE", "INTERVAL '01:02:03'")  # fmt: skip
        return self._pick(
            depth,
            ["ts", "ts", "tu", "TIMESTAMP '2024-02-29 00:00:00'", "TIMESTAMP '2023-12-31 12:30:00.5'"],
            [lambda n: f"date_trunc('{unit}', {self.stamp(n)})",
             lambda n: f"({self._one(self.date, self.stamp)(n)} {self._one('+', '-')} {interval})",
             lambda n: f"CAST({self.date(n)} AS TIMESTAMP)", self._case_of(self.stamp)],
        )  # fmt: skip

    def _time(self) -> str:
        return self._one("at", "CAST(ts AS TIME)", "(at + INTERVAL 1 HOUR)")

    def _blob(self) -> str:
        return self._one(
            "'a'::BLOB", r"'\xff'::BLOB", r"'\xFF\x00'", "'a'", "raw", r"('\x00'::BLOB || raw)"
        )

    def _zoned(self) -> str:
        return self._one("'2024-02-29 00:00:00+00'::TIMESTAMPTZ", "TIMESTAMPTZ '2024-01-01 05:00:00+02'",
                         "'2023-12-31 12:30:00'", "tz + INTERVAL 1 DAY", "date_trunc('day', tz)",
                         "DATE '2024-02-29'")  # fmt: skip


# ------------------------------------------------------------------ answers


class Difference(NamedTuple):
    text: str
    ours: object
    theirs: object


class Judge:
    """The same filters over a table in memory, a nimble file and DuckDB."""

    def __init__(self, directory: Path, rows: int = ROWS) -> None:
        self.table = make_table(rows)
        self._batch = self.table.combine_chunks().to_batches()[0]
        nb.write(self.table, directory / "f.nimble", cluster_by=["i32", "s"],
                 indexes=[nb.SortedIndex(["ts"]), nb.HashIndex(["s"])],
                 options=nb.WriteOptions(stripe_rows=20))  # fmt: skip
        self._file = nb.open(directory / "f.nimble")
        self._duck = duckdb.connect()
        self._duck.execute("SET TimeZone = 'UTC'; SET threads = 1")
        source = self.table  # noqa: F841  read by name
        self._duck.execute("CREATE TABLE t AS SELECT * FROM source")
        self.refused: Counter[str] = Counter()
        self.compared = 0
        # Answers that are others without DuckDB's optimizer, and ours then.
        self.optimized = 0

    def close(self) -> None:
        self._file.close()
        self._duck.close()

    def duckdb(self, text: str) -> list[int] | str:
        """Rows that pass, or why there is no answer."""
        try:
            found = self._duck.execute(f"SELECT id FROM t WHERE {text} ORDER BY id").fetchall()
        except duckdb.Error as error:
            return str(error).split("\n")[0]
        return [row for (row,) in found]

    def ours(self, text: str) -> list[int] | str:
        try:
            mask = parse_filter(text, self.table.schema).mask(self._batch).to_pylist()
        except nb.InvalidArgumentError as error:
            return f"refused: {error}"
        except Exception as error:  # whatever else is a fault
            return f"FAULT {type(error).__name__}: {error}"
        passing = [i for i, holds in enumerate(mask) if holds]
        try:
            rows = self._file.scan(["id"], filter=text).to_table().column("id").to_pylist()
        except Exception as error:
            return f"FAULT in the file {type(error).__name__}: {error}"
        return passing if sorted(rows) == passing else f"FAULT the file says {sorted(rows)}"

    def judge(self, text: str) -> Difference | None:
        theirs = self.duckdb(text)
        ours = self.ours(text)
        if isinstance(ours, str) and ours.startswith("FAULT"):
            return Difference(text, ours, theirs)
        if isinstance(theirs, str):
            self.refused[theirs.split(":")[0]] += 1
            return None  # overflows and the like, which are widened here
        self.compared += 1
        if ours == theirs:
            return None
        self._duck.execute("PRAGMA disable_optimizer")
        plain = self.duckdb(text)
        self._duck.execute("PRAGMA enable_optimizer")
        refused = isinstance(ours, str) and isinstance(plain, str)
        if plain != theirs and (refused or ours == plain):
            self.optimized += 1
            return None
        return Difference(text, ours, theirs)


def fuzz(count: int, seed: int, report: Callable[[Difference], None]) -> tuple[int, int]:
    """How many conditions both answered, and how many differ."""
    language = Language(seed)
    differences = 0
    with tempfile.TemporaryDirectory() as directory:
        judge = Judge(Path(directory))
        for _ in range(count):
            found = judge.judge(
                language.condition(random.Random(language._chance.random()).choice([2, 3, 3, 4]))
            )
            if found is not None:
                differences += 1
                report(found)
        judge.close()
        print(
            f"{judge.compared} compared, {dict(judge.refused)} refused by DuckDB, "
            f"{judge.optimized} as DuckDB answers without its optimizer only",
            file=sys.stderr,
        )
        return judge.compared, differences


def show(found: Difference) -> None:
    print(f"{found.text}\n  nimblepy: {found.ours}\n  DuckDB:   {found.theirs}")


# ------------------------------------------------------------------ speed

SPEED = {
    "number": "quantity > 45",
    "conjunction": "shipped >= '1994-01-01' AND shipped < '1995-01-01' AND quantity < 24",
    "decimals": "price * (1 - discount) > 90000",
    "year": "year(shipped) = 1995 AND EXTRACT(month FROM shipped) = 3",
    "two columns": "committed < received",
    "list": "mode IN ('MAIL', 'SHIP')",
    "prefix": "comment LIKE 'final%'",
    "contains": "comment LIKE '%special%'",
    "case": "CASE WHEN mode = 'MAIL' THEN quantity ELSE 50 - quantity END > 48",
    "function": "length(comment) > 60 AND upper(mode) = 'RAIL'",
}


def make_lineitem(rows: int) -> pa.Table:
    """Columns like those of TPC-H's lineitem."""
    chance = np.random.default_rng(1)
    words = np.array(
        [
            "final",
            "special",
            "pending",
            "express",
            "regular",
            "silent",
            "careful",
            "bold",
            "even",
            "quick",
        ]
    )
    modes = np.array(["MAIL", "SHIP", "RAIL", "AIR", "TRUCK", "FOB", "REG AIR"])
    shipped = (np.datetime64("1992-01-01") + chance.integers(0, 2500, rows)).astype("datetime64[D]")
    cents = chance.integers(90_000, 10_500_000, rows)
    price = pa.array(cents).cast(pa.decimal128(19, 0))
    comment = words[chance.integers(0, 10, rows)]
    for _ in range(6):
        comment = np.char.add(np.char.add(comment, " "), words[chance.integers(0, 10, rows)])
    return pa.table(
        {
            "quantity": pa.array(chance.integers(1, 51, rows).astype(np.int32)),
            "price": pc.multiply(price, pa.scalar(Decimal("0.01"))).cast(pa.decimal128(15, 2)),
            "discount": pc.multiply(
                pa.array(chance.integers(0, 11, rows)).cast(pa.decimal128(19, 0)),
                pa.scalar(Decimal("0.01")),
            ).cast(pa.decimal128(15, 2)),
            "shipped": pa.array(shipped),
            "committed": pa.array(shipped + chance.integers(-30, 60, rows)),
            "received": pa.array(shipped + chance.integers(1, 31, rows)),
            "mode": pa.array(modes[chance.integers(0, 7, rows)]),
            "comment": pa.array(comment),
        }
    )


def measure(rows: int, rounds: int) -> None:
    """Rows that pass, counted by both in turns: medians of elapsed and of processor time."""
    lineitem = make_lineitem(rows)
    with tempfile.TemporaryDirectory() as directory, duckdb.connect() as duck:
        nb.write(lineitem, Path(directory) / "l.nimble")
        file = nb.open(Path(directory) / "l.nimble")
        duck.execute("CREATE TABLE t AS SELECT * FROM lineitem")
        print(f"{rows:,} rows, medians of {rounds}; ratio: nimblepy / DuckDB\n")
        print(
            f"{'filter':<12}{'ms':>9}{'DuckDB':>9}{'ratio':>7}{'cpu ms':>9}{'DuckDB':>9}{'ratio':>7}"
        )
        for name, text in SPEED.items():
            query = f"SELECT count(*) FROM t WHERE {text}"
            ways = [
                lambda text=text: file.count_rows(text),
                lambda query=query: duck.execute(query).fetchone()[0],
            ]
            counts = [way() for way in ways]
            assert counts[0] == counts[1], (name, counts)
            times: list[list[tuple[float, float]]] = [[], []]
            for _ in range(rounds):
                for way, taken in zip(ways, times, strict=True):
                    began, cpu = time.perf_counter(), time.process_time()
                    way()
                    taken.append((time.perf_counter() - began, time.process_time() - cpu))
            cells = []
            for which in (0, 1):
                ours, theirs = (1e3 * statistics.median(t[which] for t in taken) for taken in times)
                cells.append(f"{ours:9.1f}{theirs:9.1f}{ours / theirs:7.2f}")
            print(f"{name:<12}{''.join(cells)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", action="store_true", help="measure ten typical filters")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows to measure over")
    args = parser.parse_args()
    if args.speed:
        measure(args.rows, 7)
        return 0
    began = time.process_time()
    compared, differences = fuzz(args.count, args.seed, show)
    print(f"{args.count} conditions, {compared} answered by both, {differences} differences, "
          f"{time.process_time() - began:.0f} s of processor time")  # fmt: skip
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
