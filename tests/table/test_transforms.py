"""Partition transforms are Iceberg's, value by value, as the library computes them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyiceberg.transforms import parse_transform

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.base.transforms import murmur, parse_partition, split_rows, transform
from nimblepy.table.base.values import internal_value

_I32, _I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_STAMPS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
_DECIMALS = st.integers(-(10**20) + 50, 10**20 - 1).map(lambda v: Decimal(v).scaleb(-3))
_CASES: list[tuple[str, pa.DataType, Any]] = [
    ("bucket[16]", pa.int32(), _I32),
    ("bucket[7]", pa.int64(), _I64),
    ("bucket[1000000]", pa.string(), st.text(max_size=20)),
    ("bucket[5]", pa.binary(), st.binary(max_size=9)),
    ("bucket[5]", pa.binary(3), st.binary(min_size=3, max_size=3)),
    ("bucket[9]", pa.date32(), st.dates()),
    ("bucket[9]", pa.time64("us"), st.times()),
    ("bucket[9]", pa.timestamp("us"), _STAMPS),
    ("bucket[9]", pa.decimal128(20, 3), _DECIMALS),
    ("truncate[10]", pa.int32(), st.integers(-(2**31) + 10, 2**31 - 1)),
    ("truncate[7]", pa.int64(), st.integers(-(2**63) + 7, 2**63 - 1)),
    ("truncate[3]", pa.string(), st.text(max_size=8)),
    ("truncate[3]", pa.binary(), st.binary(max_size=8)),
    ("truncate[50]", pa.decimal128(20, 3), _DECIMALS),
    *((unit, pa.date32(), st.dates()) for unit in ("year", "month", "day")),
    *((unit, pa.timestamp("us"), _STAMPS) for unit in ("year", "month", "day", "hour")),
    ("identity", pa.string(), st.text(max_size=4)),
]


@pytest.mark.parametrize(("text", "kind", "values"), _CASES, ids=lambda v: str(v)[:24])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_transform_is_that_of_the_library(
    text: str, kind: pa.DataType, values: Any, data: st.DataObject
) -> None:
    array = pa.array(data.draw(st.lists(st.none() | values, max_size=12)), kind)
    source = ice.to_iceberg(pa.schema([pa.field("c", kind)])).fields[0].field_type
    one = parse_transform(text).transform(source)
    wanted = [one(internal_value(kind, scalar)) for scalar in array]
    found = transform(text, kind)(array)
    assert [internal_value(found.type, scalar) for scalar in found] == wanted


def test_known_hashes() -> None:
    # From appendix B of Iceberg's specification.
    assert murmur((34).to_bytes(8, "little")) == 2017239379
    assert murmur(b"iceberg") == 1210000089
    assert murmur(bytes([0, 1, 2, 3])) == (-188683207) % 2**32
    assert murmur(bytes([5, 0x8C])) == murmur((1420).to_bytes(2, "big"))


def test_before_1970() -> None:
    stamps = pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us"))
    for unit in ("year", "month", "day", "hour"):
        assert transform(unit, stamps.type)(stamps).to_pylist() == [-1]


def test_rows_are_split_by_all_values() -> None:
    keys = [pa.array([2, None, 2, 1, None]), pa.array(["a", "b", "a", None, "b"])]
    found = {
        tuple(value.as_py() for value in values): rows.to_pylist()
        for values, rows in split_rows(keys)
    }
    assert found == {(2, "a"): [0, 2], (None, "b"): [1, 4], (1, None): [3]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("week(ts)", "unknown transform 'week'"),
        ("bucket(0, id)", "N from 1"),
        ("bucket(id)", "N, column"),
        ("day(id)", "the column is int64"),
        ("hour(d)", "the column is date32"),
        ("price", "the column is double"),
        ("nowhere", "unknown column 'nowhere'"),
        ("truncate(3, price)", "the column is double"),
    ],
)
def test_partitions_that_cannot_be(text: str, message: str) -> None:
    schema = pa.schema(
        {"id": pa.int64(), "ts": pa.timestamp("us"), "d": pa.date32(), "price": pa.float64()}
    )
    with pytest.raises(nb.InvalidArgumentError, match=message):
        parse_partition(text, schema)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_least_integers(lake: nb.Catalog, kind: pa.DataType) -> None:
    """What cannot be rounded down is refused; Iceberg's truncate wraps around and is not found."""
    least = -(2 ** (kind.bit_width - 1))
    first = -(-least // 100) * 100
    table = lake.create_table("a.b", pa.schema([("n", kind)]), partition_by="truncate(100, n)")
    with pytest.raises(nb.InvalidArgumentError, match="cannot be rounded down"):
        table.append(pa.table({"n": pa.array([5, None, least], kind)}))
    with pytest.raises(nb.InvalidArgumentError, match="cannot be rounded down"):
        table.append(pa.table({"n": pa.array([first - 1], kind)}))
    table.append(pa.table({"n": pa.array([first, None, -least - 1], kind)}))
    assert table.count_rows("n < 0") == table.count_rows(f"n = {first}") == 1
    whole = lake.create_table("a.c", pa.schema([("n", kind)]), partition_by="truncate(64, n)")
    whole.append(pa.table({"n": pa.array([least], kind)}))
    assert whole.count_rows(f"n = {least}") == 1


def test_values_that_no_partition_has(lake: nb.Catalog) -> None:
    ends = pa.table({"t": pa.array([2**63 - 1, -(2**63)], pa.timestamp("us"))})
    table = lake.create_table("a.hours", ends.schema, partition_by="hour(t)")
    with pytest.raises(nb.InvalidArgumentError, match="data: a value"):
        table.append(ends)
    text = pa.table({"s": pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())})
    table = lake.create_table("a.text", text.schema)
    with pytest.raises(nb.InvalidArgumentError, match="data: a value"):
        table.append(text)
    assert table.census().num_rows == 1


@pytest.mark.parametrize("transform", ["truncate(7, d)", "truncate(10, d)", "bucket(4, d)", "d"])
def test_long_decimals_are_found_in_their_partitions(lake: nb.Catalog, transform: str) -> None:
    value = Decimal("12345678901234567890123456789012345601")
    data = pa.table({"d": pa.array([value, value.copy_negate()], pa.decimal128(38, 0))})
    table = lake.create_table("a.b", data, partition_by=transform)
    assert table.count_rows(f"d = {value}") == table.count_rows(f"d = -{value}") == 1
