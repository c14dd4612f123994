"""Numbers with nulls, common divisors, steps or repeats: whatever the file stores of them, every
way to read it gives them back, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from second_reader import verify_file

pytestmark = pytest.mark.model

ROWS = 6_000


def nullable(values: np.ndarray, share: float, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, kind, mask=np.random.default_rng(7).random(ROWS) < share)


def random() -> np.random.Generator:
    return np.random.default_rng(1)


def jumps() -> pa.Array:
    steps = np.where(random().random(ROWS) < 0.01, random().integers(1, 1 << 20, ROWS), 1)
    return pa.array(np.cumsum(steps))


def prices() -> pa.Array:
    return pa.array(
        [Decimal(int(v) * 5) / 100 for v in random().integers(0, 10**6, ROWS)], pa.decimal128(12, 2)
    )


def specials() -> pa.Array:
    """NaN with payloads, both zeros and infinities, as float32 kept in doubles."""
    values = random().normal(0, 1, ROWS).astype(np.float32).astype(np.float64)
    values[::7] = -0.0
    values[1::7] = np.inf
    values[2::700] = np.array(0x7FF8_0000_2000_0000, np.uint64).view(np.float64)
    return pa.array(values)


def whole_floats() -> pa.Array:
    """Mostly the floats from -40 to 100, but also some with gaps, -0.0 and NaN."""
    values = np.rint(random().normal(30, 15, ROWS)).clip(-40, 100).astype(np.float32)
    values[::50] = random().choice(
        np.array([-0.0, np.nan, 131, 140.5, -99], np.float32), ROWS // 50
    )
    return pa.array(values)


CASES: dict[str, tuple[Callable[[], pa.Array], str]] = {
    "int64 half null": (lambda: nullable(random().integers(0, 1 << 40, ROWS), 0.5), "present"),
    "int8 half null": (
        lambda: nullable(random().integers(0, 100, ROWS).astype(np.int8), 0.5),
        "present",
    ),
    "double mostly null": (lambda: nullable(random().normal(0, 1, ROWS), 0.98), "present"),
    "decimal some null": (
        lambda: pc.if_else(pa.array(random().random(ROWS) < 0.7), prices(), None),
        "present",
    ),
    "all but one null": (lambda: pa.array(np.arange(ROWS), mask=np.arange(ROWS) != 5_000), ""),
    "seconds": (
        lambda: pa.array(random().integers(0, 10**7, ROWS) * 10**6, pa.timestamp("us")),
        "scaled by 1000000",
    ),
    "negative multiples": (lambda: pa.array(random().integers(-900, 900, ROWS) * 12), "scaled"),
    "prices": (prices, "narrow scaled"),
    "rows": (lambda: pa.array(np.arange(ROWS, dtype=np.int32) * -3), "scaled step=-3"),
    "jumps": (jumps, "differences"),
    "ids": (lambda: composite(22, 240), "split int low=22"),
    "negative ids": (lambda: pa.array(-1 - composite(22, 240).to_numpy()), "split int low=22"),
    "whole floats": (whole_floats, "dictionary"),
    "halves": (lambda: composite(32, 1_000), "split int low="),
    "unsigned halves": (
        lambda: pa.array(composite(40, 60).to_numpy().astype(np.uint64) + np.uint64(2**63)),
        "split int low=",
    ),
    "int32 ids": (lambda: pa.array(composite(12, 9).to_numpy() % 2**31, pa.int32()), "split int"),
    "float32 as double": (specials, ""),
    "thousands of values": (
        lambda: pa.array(random().integers(0, 1 << 60, 300)[random().integers(0, 300, ROWS)]),
        "shared dictionary",
    ),
}


def composite(low_bits: int, low: int) -> pa.Array:
    """Ids of a number and, below it, one of few."""
    high = random().integers(0, 1 << 20, ROWS)
    return pa.array(high << low_bits | np.random.default_rng(2).integers(0, low, ROWS))


def bits(column: pa.ChunkedArray) -> list[object]:
    """Values that compare by their bits."""
    if pa.types.is_floating(column.type):
        return [None if v is None else np.float64(v).tobytes() for v in column.to_pylist()]
    return column.to_pylist()


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_numbers_come_back_every_way(path: str, name: str, mmap: bool) -> None:
    make, encoding = CASES[name]
    table = pa.table({"v": make(), "row": range(ROWS)})
    summary = nb.write(table, path)
    assert summary.columns[0].encoding.startswith(encoding)
    report = verify_file(path)
    assert report.ok, str(report)
    wanted = bits(table["v"])
    with nb.open(path, mmap=mmap) as file:
        file.verify()
        assert bits(file.to_table()["v"]) == wanted
        chosen = Random(5)
        rows = [chosen.randrange(ROWS) for _ in range(300)]
        assert bits(file.take(rows)["v"]) == [wanted[r] for r in rows]
        for row in rows[:20]:
            assert bits(file.take([row])["v"]) == [wanted[row]]
        valid = pc.drop_null(table["v"])
        some = valid[len(valid) // 2]
        field = pc.field("v")
        for test in (field == some, field < some, field >= some, field.is_null(), field != some):
            expected = table.filter(test)["row"]
            assert file.scan(filter=test).to_table()["row"].equals(expected), str(test)


def test_a_null_takes_its_bit_only(path: str) -> None:
    n = 100_000
    mask = random().random(n) < 0.5
    nb.write(pa.table({"v": pa.array(random().integers(0, 1 << 40, n), mask=mask)}), path)
    assert Path(path).stat().st_size < n * (1 + 20) / 8 * 1.03
