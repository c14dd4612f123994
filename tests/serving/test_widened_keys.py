"""Key columns that became wider after files were written."""

from __future__ import annotations

import math
import random
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb


def float32_of(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


rng = random.Random(4)
FLOATS = [float32_of(rng.uniform(-2, 2)) for _ in range(8)]
CASES: list[tuple[pa.DataType, pa.DataType, list[Any], list[Any]]] = [
    (
        pa.int32(),
        pa.int64(),
        [-(2**31), -1, 1, 3, 5, 5, 2**31 - 1],
        [-(2**40), -(2**31) - 1, 2, 5, 2**31, 2**40],
    ),
    (
        pa.float32(),
        pa.float64(),
        [-math.inf, -1.5, -0.0, 0.5, 2**-149, 3.4e38, math.inf, math.nan, *FLOATS],
        [
            *(-1e300, -1e39, -0.1, -5e-324, 0.0, 5e-324, 0.1, 0.5, 3.5e38, 1e300, math.nan),
            *(math.nextafter(value, rng.choice([-9, 9])) for value in FLOATS),
        ],
    ),
    (
        pa.decimal128(9, 2),
        pa.decimal128(25, 2),
        [Decimal("-9999999.99"), Decimal("1.00"), Decimal("5.50")],
        [Decimal("-123456789012.25"), Decimal("2.00"), Decimal("123456789012.25")],
    ),
]
IDS = ["int", "float", "decimal"]


def table_of(path: Path, case: int, descending: bool, has_new_rows: bool) -> tuple[Any, list[Any]]:
    """A table with a file of the narrow type, and values of the wide type."""
    narrow, wide, old, new = CASES[case]
    lake = nb.connect(path / "lake", create=True)
    schema = pa.schema([("k", narrow), ("v", pa.int64())])
    keys = [nb.SortKey("k", descending=descending)]
    table = lake.create_table("a.t", schema, cluster_by=keys)
    table.append(pa.table({"k": [*old, None], "v": range(len(old) + 1)}, schema=schema))
    with table.alter() as change:
        change.widen("k", wide)
    if has_new_rows:
        table.append(
            pa.table({"k": [*new, None], "v": range(1000, 1001 + len(new))}, schema=table.schema)
        )
    return table, [*old, *new]


def pages_of(table: Any, **options: Any) -> list[Any]:
    rows: list[Any] = []
    token = None
    while True:
        page = table.page(limit=2, token=token, **options)
        rows += page.rows.to_pylist()
        token = page.next
        if token is None:
            return rows


@contextmanager
def remote_of(path: Path, **options: Any) -> Iterator[nb.RemoteTable]:
    with (
        nb.serve(path / "lake", {"t": "a.t"}, **options) as server,
        nb.connect(server.address) as served,
    ):
        yield served.table("t")


@pytest.mark.parametrize("has_new_rows", [False, True], ids=["one file", "two files"])
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("case", range(3), ids=IDS)
def test_ordered_reads_equal_those_of_the_table(
    tmp_path: Path, case: int, descending: bool, has_new_rows: bool
) -> None:
    table, values = table_of(tmp_path, case, descending, has_new_rows)
    with remote_of(tmp_path) as remote:

        def check(read: Any) -> None:
            assert repr(read(remote)) == repr(read(table))

        for options in ({}, {"reverse": True}):
            check(lambda t, o=options: t.range(limit=3, **o).to_pylist())
            check(lambda t, o=options: pages_of(t, **o))
        for value in values:
            check(lambda t, v=value: t.range(lower=v).to_pylist())
            check(lambda t, v=value: t.range(upper=v, reverse=True).to_pylist())
            check(lambda t, v=value: t.range(v, v, inclusive="[]").to_pylist())
            check(lambda t, v=value: t.range(lower=v, inclusive="()", limit=2).to_pylist())
            check(lambda t, v=value: t.range(after=v, limit=3).to_pylist())
            check(lambda t, v=value: pages_of(t, lower=v))
            check(lambda t, v=value: t.prefix(v).to_pylist())


def test_a_page_token_outlives_a_wider_key(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake", create=True)
    schema = pa.schema([("k", pa.int32())])
    table = lake.create_table("a.t", schema, cluster_by=["k"])
    table.append(pa.table({"k": range(10)}, schema=schema))
    with remote_of(tmp_path, poll=0.01) as remote:
        token = remote.page(limit=3).next
        with table.alter() as change:
            change.widen("k", pa.int64())
        until = time.monotonic() + 30
        while remote.refresh().schema.field("k").type != pa.int64():
            assert time.monotonic() < until
        page = remote.page(limit=3, token=token)
        assert page.rows["k"].to_pylist() == [3, 4, 5]
