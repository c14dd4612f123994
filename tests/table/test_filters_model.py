"""Random filters over extreme values find, and delete, the rows that plain Python finds."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dataset_files import make_dataset

import nimblepy as nb

INF, NAN = math.inf, math.nan
UTC = dt.UTC
_INTS = [0, 1, -1, 7, 300]
_FLOATS = [0.0, -0.0, 1.0, -2.5, INF, -INF, NAN, 5e-324, 1.5]


def _ints(bits: int) -> list[Any]:
    half = 1 << (bits - 1)
    return [*(v for v in _INTS if -half <= v < half), half - 1, -half, half - 2]


def _float_literals(most: float) -> list[Any]:
    """An integer means the nearest float, as in SQL, so each is less than the largest."""
    return [most, -most, 1e39, -1e39, 1e300, 30000, -(2**14), 0.1, 65520.0]


@dataclass(frozen=True)
class Kind:
    """A type, values of it, and literals that compare with it but are not among its values."""

    type: pa.DataType
    values: list[Any]
    beyond: list[Any]
    partitions: tuple[str, ...] = ()


_BEYOND = [2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 2**200, 1.5, INF, -INF, NAN, Decimal("0.5")]
_DAYS = [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
_STAMPS = [dt.datetime(d.year, d.month, d.day) for d in _DAYS]
_STAMPS += [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime.max, dt.datetime(2024, 5, 6)]
_TICK = dt.timedelta(microseconds=1)
_TEXTS = ["", "a", "ab", "b", "\x00", "é", "\U0010ffff", "\U0010ffff" * 20, "abcdefghijklmnopqrst"]
KINDS = {
    "bool": Kind(pa.bool_(), [True, False], [], ("{}",)),
    "int32": Kind(pa.int32(), _ints(32)[:-2], _BEYOND, ("{}", "bucket(3, {})", "truncate(10, {})")),
    "int64": Kind(pa.int64(), _ints(64)[:-2], _BEYOND, ("{}", "bucket(3, {})", "truncate(10, {})")),
    "all of int64": Kind(pa.int64(), _ints(64), _BEYOND, ("{}", "bucket(3, {})")),
    "int8": Kind(pa.int8(), _ints(8), _BEYOND),
    "int16": Kind(pa.int16(), _ints(16), _BEYOND),
    "uint8": Kind(pa.uint8(), [0, 1, 255], [-1, 256, INF, 0.5]),
    "uint16": Kind(pa.uint16(), [0, 1, 2**16 - 1], [-1, 2**16, -INF, 0.5]),
    "uint32": Kind(pa.uint32(), [0, 1, 2**32 - 1], [-1, 2**32, INF, 0.5]),
    "uint64": Kind(pa.uint64(), [0, 1, 2**63, 2**64 - 1], [-1, 2**64, INF, 0.5]),
    "float16": Kind(
        pa.float16(), [0.0, -0.0, 1.5, 65504.0, INF, -INF, NAN], _float_literals(65504.0)
    ),
    "float32": Kind(
        pa.float32(), [*_FLOATS[:7], 3.4028234663852886e38, 1.5], _float_literals(3.4e38)
    ),
    "float64": Kind(pa.float64(), [*_FLOATS, 1.7e308], _float_literals(1.7e308)),
    "decimal": Kind(
        pa.decimal128(9, 2),
        [Decimal(t) for t in ("0.00", "-0.01", "9999999.99", "-9999999.99", "1.50")],
        [Decimal("10000000"), Decimal("-1e30"), Decimal("0.005"), 7, 2**100, INF, -INF],
        ("{}", "bucket(3, {})"),
    ),
    "long decimal": Kind(
        pa.decimal128(38, 0),
        [Decimal(v) for v in (0, 10**38 - 1, -(10**37), 10**37 + 1)],
        [Decimal(10**38), Decimal("0.5"), -(10**50), 10**37, INF],
        ("{}", "truncate(10, {})"),
    ),
    "all decimals": Kind(
        pa.decimal128(38, 3),
        [Decimal((sign, (9,) * 38, -3)) for sign in (0, 1)],
        [Decimal(0), -(10**35), 10**40],
        ("{}", "bucket(3, {})"),
    ),
    "date": Kind(
        pa.date32(), _DAYS, _STAMPS, ("{}", "bucket(3, {})", "day({})", "month({})", "year({})")
    ),
    "time": Kind(
        pa.time64("us"), [dt.time(), dt.time.max, dt.time(12, 30)], [], ("{}", "bucket(3, {})")
    ),
    "timestamp": Kind(
        pa.timestamp("us"),
        _STAMPS,
        [*_DAYS, dt.datetime(2024, 5, 6, 1)],
        ("{}", "bucket(3, {})", "hour({})", "day({})", "month({})", "year({})"),
    ),
    "instant": Kind(
        pa.timestamp("us", "UTC"),
        [v.replace(tzinfo=UTC) for v in _STAMPS],
        [dt.datetime(2024, 5, 6, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
        ("{}", "day({})", "year({})"),
    ),
    "text": Kind(
        pa.string(), _TEXTS, ["c" * 40, "\U0010fffe"], ("{}", "bucket(3, {})", "truncate(1, {})")
    ),
    "binary": Kind(
        pa.binary(),
        [b"", b"\x00", b"\xff", b"\xff" * 20, b"a" * 17, b"a" * 16],
        [b"\xff" * 30, b"a" * 18],
        ("{}", "bucket(3, {})", "truncate(1, {})"),
    ),
    "fixed": Kind(
        pa.binary(4),
        [b"\x00" * 4, b"\xff" * 4, b"abcd", b"\x80\x00\x00\x00"],
        [b"", b"abc", b"abcde", b"\xff" * 5, b"\x00" * 3],
        ("{}", "bucket(3, {})"),
    ),
}

# What a filter says of a row: true, false or unknown.
Verdict = Callable[[Any], bool | None]


def _place(value: Any) -> tuple[bool, Any]:
    """Values in the order of SQL: NaN equals itself and is above all numbers."""
    if isinstance(value, float) and value != value:
        return True, 0
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        value = value.encode()
    return False, value


_OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Filters:
    """Makes filters over a column ``v`` as SQL text with parameters, and as a function."""

    def __init__(self, kind: Kind, rng: random.Random) -> None:
        self._kind, self._rng = kind, rng
        self.params: dict[str, Any] = {}

    def _literal(self, *, listed: bool = False) -> tuple[str, tuple[bool, Any]]:
        beyond = self._kind.beyond
        if listed and not pa.types.is_floating(self._kind.type):
            # With a float among them, all values and the column become floats, as in DuckDB.
            beyond = [value for value in beyond if not isinstance(value, float)]
        chosen = beyond if beyond and self._rng.random() < 0.4 else self._kind.values
        value = self._rng.choice(chosen)
        name = f"p{len(self.params)}"
        self.params[name] = value
        return f"${name}", _place(value)

    def make(self, depth: int = 0) -> tuple[str, Verdict]:
        roll = self._rng.random()
        if depth < 2 and roll < 0.4:
            (a, first), (b, second) = self.make(depth + 1), self.make(depth + 1)
            if roll < 0.2:
                return f"({a} AND {b})", lambda v: _and(first(v), second(v))
            return f"({a} OR {b})", lambda v: _not(_and(_not(first(v)), _not(second(v))))
        if depth < 3 and roll < 0.5:
            a, first = self.make(depth + 1)
            return f"NOT ({a})", lambda v: _not(first(v))
        return self._test()

    def _test(self) -> tuple[str, Verdict]:
        roll = self._rng.random()
        if roll < 0.08:
            return "v IS NULL", lambda v: v is None
        if roll < 0.16:
            return "v IS NOT NULL", lambda v: v is not None
        if roll < 0.35:
            found = [self._literal(listed=True) for _ in range(self._rng.randrange(1, 4))]
            places = [place for _, place in found]
            word = self._rng.choice(["IN", "NOT IN"])
            text = f"v {word} ({', '.join(name for name, _ in found)})"
            return text, lambda v: None if v is None else (_place(v) in places) == (word == "IN")
        if roll < 0.5:
            (a, low), (b, high) = self._literal(listed=True), self._literal(listed=True)
            word = self._rng.choice(["BETWEEN", "NOT BETWEEN"])
            text = f"v {word} {a} AND {b}"
            return (
                text,
                lambda v: None if v is None else (low <= _place(v) <= high) == (word == "BETWEEN"),
            )
        op = self._rng.choice(list(_OPS))
        name, place = self._literal()
        return f"v {op} {name}", lambda v: None if v is None else _OPS[op](_place(v), place)


def _not(a: bool | None) -> bool | None:
    return None if a is None else not a


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _files(kind: Kind, rng: random.Random) -> list[pa.Table]:
    """Files whose values are few, one alone, all null, or any."""
    found, first = [], 0
    for _ in range(6):
        pool = rng.choice([kind.values, [rng.choice(kind.values)], [*kind.values, None], [None]])
        values = rng.choices(pool, k=rng.randrange(1, 5))
        ids = range(first, first + len(values))
        first += len(values)
        found.append(pa.table({"id": pa.array(ids, pa.int64()), "v": _array(values, kind)}))
    return found


def _array(values: list[Any], kind: Kind) -> pa.Array:
    if pa.types.is_float16(kind.type):
        import numpy as np

        values = [None if v is None else np.float16(v) for v in values]
    return pa.array(values, kind.type)


def _check(source: Any, rows: dict[int, Any], kind: Kind, rng: random.Random, count: int) -> None:
    for _ in range(count):
        filters = Filters(kind, rng)
        text, verdict = filters.make()
        params = filters.params or None
        expected = sorted(i for i, v in rows.items() if verdict(v) is True)
        found = sorted(source.to_table(["id"], filter=text, params=params)["id"].to_pylist())
        assert found == expected, (text, params)
        assert source.count_rows(text, params=params) == len(expected), (text, params)


def _rows(files: list[pa.Table]) -> dict[int, Any]:
    found = {}
    for file in files:
        for i, v in zip(file["id"].to_pylist(), file["v"].to_pylist(), strict=True):
            found[i] = float(v) if type(v).__name__ == "float16" else v
    return found


_SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("name", KINDS)
def test_filters_of_files_and_datasets(tmp_path: Path, name: str, seed: int) -> None:
    rng, kind = random.Random(f"{name}{seed}"), KINDS[name]
    files = _files(kind, rng)
    rows = _rows(files)
    keys: list[Any] = ["id", "v"] if not pa.types.is_boolean(kind.type) else ["id"]
    cluster = rng.choice(keys)
    path = str(tmp_path / "one.nimble")
    nb.write(pa.concat_tables(files), path, cluster_by=cluster)
    count = 25 if seed else 8
    with nb.open(path) as file:
        _check(file, rows, kind, rng, count)
    folder = str(tmp_path / "many")
    with make_dataset(folder, files, cluster) as dataset:
        _check(dataset, rows, kind, rng, count)


TABLES = [name for name, kind in KINDS.items() if kind.partitions or name in ("float32", "float64")]


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("name", TABLES)
def test_filters_of_tables(lake: nb.Catalog, name: str, data_format: Any, seed: int) -> None:
    rng, kind = random.Random(f"{name}{seed}{data_format}"), KINDS[name]
    for partition in rng.sample(
        ["", *kind.partitions], k=min(2 if seed else 1, 1 + len(kind.partitions))
    ):
        files = _files(kind, rng)
        rows = _rows(files)
        table = lake.create_table(
            f"a.t{len(lake.tables())}",
            files[0].schema,
            cluster_by=rng.choice(["id", "v"]),
            partition_by=[partition.format("v")] if partition else [],
            data_format=data_format,
        )
        for file in files:
            table.append(file)
        for _ in range(2):
            _check(table, rows, kind, rng, 12 if seed else 4)
            table.rewrite_manifests()  # now by the plan index
        for _ in range(6 if seed else 2):
            filters = Filters(kind, rng)
            text, verdict = filters.make()
            passing = [i for i, v in rows.items() if verdict(v) is True]
            params = filters.params or None
            how = rng.randrange(3)
            if how == 0:
                table.delete(text, params=params)
            elif how == 1:
                table.overwrite(files[0].slice(0, 0), filter=text, params=params)
            else:
                with table.transaction() as tx:
                    tx.delete(text, params=params)
            rows = {i: v for i, v in rows.items() if i not in passing}
            assert sorted(table.to_table(["id"])["id"].to_pylist()) == sorted(rows), text
