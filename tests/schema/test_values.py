"""Values of Python, numpy, pandas, uuid and Arrow mean what they are in keys, bounds and filters:
nothing is rounded or dropped, and what cannot be used is an InvalidArgumentError."""

from __future__ import annotations

import datetime
import decimal
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from nimblepy.expr.filter import parse_filter
from nimblepy.schema.values import exact_of, is_null, place, successor

pytestmark = pytest.mark.sanitizer

UTC = datetime.UTC
# pyarrow 18 has a type of its own for them.
UUIDS = pa.uuid() if hasattr(pa, "uuid") else pa.binary(16)
needs_uuids = pytest.mark.skipif(not hasattr(pa, "uuid"), reason="pyarrow before 18")
IDS = [uuid.UUID(int=i * 7919) for i in range(4)]
DAYS = [datetime.date(2024, 1, 5 + i) for i in range(4)]
NANOS = pa.array([10**18 + i for i in range(4)], pa.timestamp("ns"))
TIMES = pa.array([10**15 + i for i in range(4)], pa.timestamp("us"))


def written(tmp_path: Path, values: pa.Array) -> nb.File:
    table = pa.table({"k": values, "i": pa.array(range(len(values)))})
    nb.write(table, tmp_path / "f.nimble", cluster_by="k")
    return nb.open(tmp_path / "f.nimble")


def column(data_type: pa.DataType) -> pa.Array:
    if data_type == pa.string():
        return pa.array([str(item) for item in IDS])
    if data_type == UUIDS:
        octets = pa.array([item.bytes for item in IDS], pa.binary(16))
        return octets if octets.type == UUIDS else pa.ExtensionArray.from_storage(UUIDS, octets)
    days = pa.array(DAYS)
    if pa.types.is_timestamp(data_type):
        return days.cast(pa.timestamp(data_type.unit)).cast(data_type)
    return days


@pytest.mark.parametrize(
    ("data_type", "key"),
    [
        (pa.date32(), np.datetime64("2024-01-06")),
        (pa.timestamp("s"), np.datetime64("2024-01-06")),
        (pa.timestamp("us"), np.datetime64("2024-01-06T00", "h")),
        (pa.timestamp("us", "Europe/Berlin"), pd.Timestamp("2024-01-06", tz="UTC")),
        (pa.timestamp("us"), datetime.date(2024, 1, 6)),
        (pa.timestamp("ns"), pd.Timestamp("2024-01-06")),
        (pa.date32(), pd.Timestamp("2024-01-06")),
        (UUIDS, IDS[1]),
        (UUIDS, IDS[1].bytes),
        (UUIDS, pa.scalar(IDS[1].bytes, UUIDS)),
        (pa.string(), IDS[1]),
        (pa.string(), np.str_(IDS[1])),
    ],
    ids=str,
)
def test_natural_values_are_found(tmp_path: Path, data_type: pa.DataType, key: Any) -> None:
    values = column(data_type)
    file = written(tmp_path, values)
    assert file.get(key, ["i"]) == {"i": 1}
    assert file.lookup([key, key], columns=["i"]).column("i").to_pylist() == [1, 1]
    assert file.contains([key]).to_pylist() == [True]
    assert file.range(key, key, inclusive="[]", columns=["i"]).column("i").to_pylist() == [1]
    assert file.prefix(key, columns=["i"]).column("i").to_pylist() == [1]


@pytest.mark.parametrize("null", [None, pd.NaT, pd.NA, np.datetime64("NaT"), pa.scalar(None)])
def test_what_pandas_and_numpy_have_for_null_is_null(tmp_path: Path, null: Any) -> None:
    file = written(tmp_path, TIMES)
    assert is_null(null)
    assert file.get(null) is None
    assert file.count([null, TIMES[2], null]).to_pylist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.int64(), Decimal("Infinity")),
        (pa.int64(), Decimal("NaN")),
        (pa.int64(), float("-inf")),
        (pa.int8(), 10**5000),
        (pa.decimal128(9, 2), Decimal("Infinity")),
        (pa.int64(), Decimal("1e5000000")),
        (pa.int64(), Fraction(2**80)),
        (pa.uint8(), np.int64(-1)),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, int) else "int",
)
def test_values_beyond_the_type_match_nothing(
    tmp_path: Path, data_type: pa.DataType, value: Any
) -> None:
    file = written(tmp_path, pa.array([1, 2], data_type))
    assert file.get(value) is None
    assert file.count([value]).to_pylist() == [0]


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), Decimal("1e-5000000")),
        (pa.int64(), "1"),
        (pa.int64(), object()),
        (pa.int64(), 1j),
        (pa.int64(), uuid.UUID(int=1)),
        (pa.string(), 5),
        (pa.string(), "\ud800"),
        (pa.binary(16), "x"),
        (pa.timestamp("us"), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us"), np.timedelta64(1, "s")),
        (pa.duration("us"), np.timedelta64(1, "M")),
        (pa.time64("us"), datetime.time(12, tzinfo=UTC)),
        (pa.bool_(), 1),
    ],
    ids=str,
)
def test_values_of_another_kind_are_refused(
    tmp_path: Path, data_type: pa.DataType, value: Any
) -> None:
    file = written(tmp_path, pa.array([None, None], data_type))
    for ask in (file.get, lambda key: file.lookup([key]), lambda key: file.contains([key, None])):
        with pytest.raises(nb.InvalidArgumentError):
            ask(value)
    if not isinstance(value, (float, Decimal)) and value != "x":  # of these a bound has neighbours
        with pytest.raises(nb.InvalidArgumentError):
            file.range(value, None)


def test_nanoseconds_of_pandas_are_kept_in_bounds(tmp_path: Path) -> None:
    file = written(tmp_path, NANOS)
    last = NANOS[1].as_py()
    assert isinstance(last, pd.Timestamp)
    assert file.range(last, None, inclusive="(]", columns=["i"]).column("i").to_pylist() == [2, 3]
    assert file.prefix(last, columns=["i"]).column("i").to_pylist() == [1]
    assert file.get(last, ["i"]) == {"i": 1}
    assert file.lookup([last], columns=["i"]).column("i").to_pylist() == [1]
    assert file.scan(filter=pc.field("k") > pa.scalar(last, pa.timestamp("ns"))).count() == 2


def test_nanoseconds_of_timedeltas_are_kept(tmp_path: Path) -> None:
    file = written(tmp_path, pa.array(range(4), pa.duration("ns")))
    two = pd.Timedelta(2, "ns")
    assert file.range(two, None, columns=["i"]).column("i").to_pylist() == [2, 3]
    assert file.get(two, ["i"]) == {"i": 2}
    assert file.lookup([two, two], columns=["i"]).column("i").to_pylist() == [2, 2]


def test_a_coarser_column_has_no_nanoseconds(tmp_path: Path) -> None:
    file = written(tmp_path, TIMES)
    near = pd.Timestamp(TIMES[1].value * 1000 + 1)
    for ask in (file.get, lambda key: file.count([key]), lambda key: file.lookup([key, None])):
        with pytest.raises(nb.InvalidArgumentError, match="cannot be converted to column"):
            ask(near)
    assert file.range(near, None, columns=["i"]).column("i").to_pylist() == [2, 3]


@pytest.mark.parametrize("keys", [None, 5, 5.5, object(), np.int64(3), np.array(3)])
def test_keys_that_are_not_many_are_refused(tmp_path: Path, keys: Any) -> None:
    file = written(tmp_path, pa.array([1, 2]))
    for ask in (file.lookup, file.contains, file.count):
        with pytest.raises(nb.InvalidArgumentError):
            ask(keys)


def test_negative_decimals_do_not_depend_on_the_callers_context(tmp_path: Path) -> None:
    number = Decimal("-12345678901234567890123456789.5")
    table = pa.table({"d": pa.array([number], pa.decimal128(38, 1)), "x": pa.array([-1234567.89])})
    nb.write(table, tmp_path / "f.nimble")
    file = nb.open(tmp_path / "f.nimble")
    with decimal.localcontext(prec=6):
        for text in (
            f"d = {number}",
            f"d IN ({number})",
            f"d BETWEEN {number} AND {number}",
            "x = -1234567.89",
            "x IN (-1234567.89)",
            "x >= -1234567.89 AND x <= -1234567.89",
        ):
            assert file.scan(filter=text).count() == 1, text


FIXED = pa.array([b"ab\0\0", b"abzz", b"b\xff\xff\xff", None], pa.binary(4))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("k LIKE 'ab%'", [0, 1]),
        ("k NOT LIKE 'ab%'", [2]),
        ("starts_with(k, 'b')", [2]),
        ("k LIKE '%'", [0, 1, 2]),
        ("k LIKE 'abzz'", [1]),
        ("k LIKE 'ab'", []),
        ("k LIKE 'abzzz%'", []),
        ("k LIKE 'ab%z'", [1]),
        ("NOT (k LIKE 'a%')", [2]),
    ],
)
def test_prefixes_of_fixed_size_binary(tmp_path: Path, text: str, found: list[int]) -> None:
    for indexed in (True, False):
        table = pa.table({"k": FIXED, "i": range(4)})
        nb.write(table, tmp_path / "f.nimble", cluster_by="k" if indexed else None)
        file = nb.open(tmp_path / "f.nimble")
        assert sorted(file.to_table(["i"], text).column("i").to_pylist()) == found


def test_prefix_expression_of_fixed_size_binary_says_what_is_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, FIXED.drop_null())
    with pytest.raises(nb.InvalidArgumentError):
        file.to_table(filter=pc.starts_with(pc.field("k"), "ab"))


SCHEMA = pa.schema(
    {
        "a": pa.int64(),
        "x": pa.float64(),
        "m": pa.decimal128(9, 2),
        "t": pa.time64("us"),
        "ts": pa.timestamp("us"),
        "u": UUIDS,
    }
)
BATCH = pa.record_batch(
    [
        pa.array([1, 5]),
        pa.array([1.5, 2.5]),
        pa.array([1, 2], SCHEMA.field("m").type),
        pa.array([datetime.time(11), datetime.time(13)]),
        pa.array([datetime.datetime(2024, 1, 1, 5), datetime.datetime(2024, 1, 2)]),
        column(UUIDS)[:2],
    ],
    schema=SCHEMA,
)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("a < " + "9" * 5000, [True, True]),
        ("a = '1e0'", [True, False]),
        ("x > '1e-999999999'", [True, True]),
        ("t > '12:00'", [False, True]),
        ("CAST(ts AS DATE) = '2024-01-01'", [True, False]),
        ("ts::DATE IN ('2024-01-02', '2025-01-01')", [False, True]),
        ("CAST(ts AS DATE) BETWEEN '2024-01-01' AND '2024-01-01'", [True, False]),
        ("'2024-01-01' < CAST(ts AS DATE)", [False, True]),
        ("a + 1 = '6'", [False, True]),
        pytest.param(f"u = '{IDS[1]}'", [False, True], marks=needs_uuids),
        pytest.param(f"u IN ('{IDS[0]}', '{IDS[2]}')", [True, False], marks=needs_uuids),
    ],
)
def test_quoted_text_takes_the_type_beside_it(text: str, passes: list[bool]) -> None:
    assert parse_filter(text, SCHEMA).mask(BATCH).to_pylist() == passes


@pytest.mark.parametrize(
    "text",
    [
        "t > '12:00+02:00'",
        pytest.param("u = 'no uuid'", marks=needs_uuids),
        "CAST(ts AS DATE) = 'yesterday'",
        "a + 1 = 'x'",
        "CAST('1e5000' AS BIGINT) = a",
    ],
)
def test_text_that_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(nb.InvalidArgumentError):
        parse_filter(text, SCHEMA).mask(BATCH)


def test_parsing_is_done_once_for_files_of_one_schema() -> None:
    first = parse_filter("a = 1 AND x > 2", SCHEMA)
    assert parse_filter("a = 1 AND x > 2", pa.schema(list(SCHEMA))) is first
    other = pa.schema({"a": pa.int8(), "x": pa.float64()})
    assert parse_filter("a = 1 AND x > 2", other) is not first
    assert parse_filter(first, SCHEMA) is first
    assert str(parse_filter(first.node, SCHEMA)) == str(first)


def test_exact_values() -> None:
    assert exact_of(np.longdouble(1.5)).value == Fraction(3, 2)
    assert exact_of(np.float16(0.1)).value == Fraction(float(np.float16(0.1)))
    assert exact_of(np.timedelta64(3, "D")).value == 3 * 86_400 * 10**9
    assert exact_of(np.datetime64("1970-02", "M")).value == 31 * 86_400 * 10**9
    assert exact_of(pa.scalar("x", pa.dictionary(pa.int8(), pa.string()))).value == "x"
    assert exact_of(bytearray(b"x")).value == b"x"
    berlin = datetime.timezone(datetime.timedelta(hours=1, microseconds=5))
    shifted = exact_of(datetime.datetime(1970, 1, 1, 1, tzinfo=berlin))
    assert (shifted.value, shifted.has_zone) == (-5000, True)
    assert place(pa.int8(), 1.5).below == pa.scalar(1, pa.int8())
    for value in (object(), [1], 1j, {}, pa.scalar([1])):
        with pytest.raises(nb.InvalidArgumentError):
            exact_of(value)


@pytest.mark.parametrize(
    ("key", "above"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"", None)]
)
def test_successor(key: bytes, above: bytes | None) -> None:
    assert successor(key) == above


def test_views_of_text_are_exported_whole(tmp_path: Path) -> None:
    # pyarrow before 24 crashes when it exports what it has cast to views.
    file = written(tmp_path, pa.array(["a", "b"], pa.string_view()))
    assert file.count(pa.array(["b", "c"])).to_pylist() == [1, 0]
    assert file.count(["a", "a"]).to_pylist() == [1, 1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_bounds_beyond_the_type_are_places_in_the_order_of_the_key(
    tmp_path: Path, descending: bool, nulls_first: bool
) -> None:
    """Nulls lie beyond every value, also beyond those that the type does not have."""
    answers = []
    for kind in (pa.int8(), pa.int64()):
        table = pa.table({"a": [1] * 4 + [2], "k": pa.array([None, -1, 5, None, 7], kind)})
        key = nb.SortKey("k", descending=descending, nulls_first=nulls_first)
        for keys, leading in (([key], ()), (["a", key], (1,))):
            path = tmp_path / f"{kind}{len(leading)}.nimble"
            nb.write(table, path, cluster_by=keys)
            with nb.open(path) as file:
                bounds = [None, *((*leading, value) for value in (300, -300, 5))]
                answers.append(
                    [
                        file.range(lower, upper, inclusive=sides)["k"].to_pylist()
                        for lower in bounds
                        for upper in bounds
                        for sides in ("[]", "()")
                    ]
                )
    assert answers[:2] == answers[2:]


def test_heavy_tails_are_exceptions_whose_exceptions_are_few_bytes(tmp_path: Path) -> None:
    part = (np.random.default_rng(5).integers(0, 1 << 40, 400_000) + 1) * 2.0**-40
    values = np.minimum(part**-3, 1e15).astype(np.int64)
    summary = nb.write(pa.table({"a": values}), tmp_path / "a.nimble")
    # As two splits of the high bits it takes 774,000.
    assert summary.size_bytes < 750_000
    assert nb.open(tmp_path / "a.nimble").to_table()["a"].to_numpy().tolist() == values.tolist()
