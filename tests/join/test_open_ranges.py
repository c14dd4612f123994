"""``between=`` of a join with one open side, against a loop over all pairs."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.model

UTC = dt.UTC
DAYS = [dt.date(1900, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 5, 1), None]
STAMPS = [dt.datetime(1677, 9, 22), dt.datetime(1970, 1, 1), dt.datetime(2200, 1, 1), None]
VALUES: dict[str, pa.Array] = {
    "int8": pa.array([-128, 0, 127, None], pa.int8()),
    "uint16": pa.array([0, 1, 65535, None], pa.uint16()),
    "int64": pa.array([-(2**63), 0, 2**63 - 1, None], pa.int64()),
    "uint64": pa.array([0, 1, 2**64 - 1, None], pa.uint64()),
    "float32": pa.array([-math.inf, 0.0, math.inf, math.nan, None], pa.float32()),
    "float64": pa.array([-math.inf, -0.5, math.inf, math.nan, None]),
    "bool": pa.array([False, True, None]),
    "date32": pa.array(DAYS, pa.date32()),
    "date64": pa.array(DAYS, pa.date64()),
    "timestamp": pa.array(STAMPS, pa.timestamp("us")),
    "zoned": pa.array(STAMPS, pa.timestamp("ns", "UTC")),
    "time32": pa.array([dt.time(0), dt.time(23, 59), None], pa.time32("s")),
    "time64": pa.array([dt.time(0), dt.time(23, 59), None], pa.time64("ns")),
    "duration": pa.array([dt.timedelta(-1), dt.timedelta(9), None], pa.duration("ms")),
    "decimal": pa.array([Decimal("-9.99"), Decimal(0), Decimal("9.99"), None], pa.decimal128(3, 2)),
    "decimal256": pa.array([-(10**76) + 1, 0, 10**76 - 1, None], pa.decimal256(76, 0)),
    "text": pa.array(["", "a", "\U0010ffff\U0010ffff", None]),
    "binary": pa.array([b"", b"a", b"\xff\xff\xff", None]),
    "fixed": pa.array([b"\0\0", b"a\0", b"\xff\xff", None], pa.binary(2)),
}


def _inside(value: Any, lower: Any, upper: Any, open_side: str) -> bool:
    if value is None or value != value:
        return False
    ok = True
    if open_side != "lower":
        ok &= lower is not None and lower == lower and lower <= value
    if open_side != "upper":
        ok &= upper is not None and upper == upper and value <= upper
    return bool(ok)


# between={"ts": (None, "t")}, the natural question of an as-of join, was a TypeError of pyarrow.
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("order", ["asc", "desc nulls first", "no index"])
def test_open_sides(tmp_path: Path, kind: str, order: str) -> None:
    values = VALUES[kind]
    rows = pa.table(
        {
            "k": pa.array(np.repeat([1, 2], len(values))),
            "ts": pa.concat_arrays([values, values]),
            "v": range(2 * len(values)),
        }
    )
    cluster: list[Any] = ["k"]
    if order != "no index":
        down = order.startswith("desc")
        cluster.append(nb.SortKey("ts", descending=down, nulls_first=down))
    for part, piece in enumerate((rows.slice(0, 3), rows.slice(3))):
        nb.write(piece, tmp_path / f"{part}.nimble", cluster_by=cluster)
    probe = pa.table({"k": pa.array([2] * len(values) + [1, 9]), "t": pa.concat_arrays(
        [values, values.slice(0, 2)])})  # fmt: skip
    with nb.open_dataset(tmp_path) as source:
        for open_side, bounds in (("lower", (None, "t")), ("upper", ("t", None))):
            found = source.index_join(probe, on="k", between={"ts": bounds}, columns=["v"])
            pairs = sorted(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
            expected = sorted(
                (k, v)
                for k, t in zip(probe["k"].to_pylist(), probe["t"].to_pylist(), strict=True)
                for key, ts, v in zip(*(column.to_pylist() for column in rows.columns), strict=True)
                if key == k and _inside(ts, t, t, open_side)
            )
            assert pairs == expected


def test_a_range_alone_and_tables(tmp_path: Path) -> None:
    rows = pa.table({"ts": [1, 2, 3, None], "v": range(4)})
    nb.write(rows, tmp_path / "t.nimble", cluster_by="ts")
    probe = pa.table({"t": [2, None]})
    with nb.open(tmp_path / "t.nimble") as file:
        found = file.index_join(probe, on=[], between={"ts": (None, "t")})
        assert found["v"].to_pylist() == [0, 1]
        found = file.index_join(probe, on=[], between={"ts": ("t", None)}, how="anti")
        assert found["t"].to_pylist() == [None]
        with pytest.raises(nb.InvalidArgumentError, match="'ts' has no bound"):
            file.index_join(probe, on=[], between={"ts": (None, None)})
    pytest.importorskip("pyiceberg")
    table = nb.connect(tmp_path / "lake").create_table("a.t", rows, cluster_by="ts")
    with table.alter() as change:
        change.rename_column("ts", "at")
    found = table.index_join(probe, on=[], between={"at": (None, "t")})
    assert found["v"].to_pylist() == [0, 1]
