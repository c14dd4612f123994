"""Random values through every kind of data: stored unchanged, or refused with what to do."""

from __future__ import annotations

import datetime as dt
import math
import random
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

ZONE = ZoneInfo("America/New_York")
KINDS = [
    *(pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()),
    *(pa.decimal128(10, 2), pa.decimal128(38, 0), pa.date32(), pa.time64("us"), pa.uuid()),
    *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", str(ZONE))),
    *(pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.list_(pa.int64())),
    pa.struct({"a": pa.int64(), "t": pa.timestamp("us", str(ZONE))}),
]


def number(rng: random.Random) -> Any:
    whole = rng.choice([0, 1, -1, 100, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1, 10**20])
    return rng.choice(
        [
            whole,
            rng.randrange(-1000, 1000),
            float(whole),
            round(rng.uniform(-100, 100), rng.randrange(4)),
            rng.choice([0.1, -0.0, math.inf, 1e300, 0.5]),
            Decimal(rng.randrange(-(10**6), 10**6)).scaleb(-rng.randrange(4)),
        ]
    )


def moment(rng: random.Random) -> Any:
    at = dt.datetime(2024, 1, 1) + dt.timedelta(minutes=rng.randrange(600_000) * 30)
    forms = [at, at.replace(tzinfo=dt.UTC), at.replace(tzinfo=ZONE), at.date(), at.isoformat()]
    return rng.choice([*forms, at.replace(hour=0, minute=0), at.date().isoformat()])


def identity(rng: random.Random) -> Any:
    value = uuid.UUID(int=rng.getrandbits(128))
    return rng.choice([value, str(value), value.hex, value.bytes, "none"])


def text(rng: random.Random) -> Any:
    return rng.choice(["", "007", "1.50", "é", "2024-01-01", "true", "a,b", b"\x00\xff", b"ab"])


def vector(rng: random.Random) -> Any:
    values = [rng.choice([0.5, 1, 0.1, None]) for _ in range(rng.choice([2, 2, 2, 0, 3]))]
    return rng.choice([values, tuple(values), np.array([v or 0 for v in values], np.float32)])


def structure(rng: random.Random) -> Any:
    return rng.choice([{"a": number(rng)}, {"t": moment(rng), "a": 1}, {"a": 1, "extra": 2}])


FAMILIES: list[Callable[[random.Random], Any]] = [
    *(number, moment, identity, text, vector, structure),
    lambda rng: rng.random() < 0.5,
    lambda rng: dt.time(rng.randrange(24), rng.randrange(60), 0, rng.randrange(10**6)),
]


def family_of(kind: pa.DataType) -> Callable[[random.Random], Any]:
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return number
    if types.is_timestamp(kind) or types.is_date(kind):
        return moment
    if kind == pa.uuid():
        return identity
    if types.is_struct(kind):
        return structure
    if types.is_boolean(kind) or types.is_time(kind):
        return FAMILIES[-1 if types.is_time(kind) else -2]
    return text if types.is_string(kind) or types.is_binary(kind) else vector


def csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = str(value).replace('"', '""')
    return f'"{text}"' if isinstance(value, str) else text


def as_data(form: str, values: list[Any], folder: Path) -> tuple[Any, Sequence[Any]]:
    """The values as some data, and what these say the values are."""
    numbers = list(range(len(values)))
    if form == "rows":
        return [{"k": k, "v": v} for k, v in zip(numbers, values, strict=True)], values
    if form == "columns":
        return {"k": numbers, "v": values}, values
    if form == "csv":
        lines = [f"{k},{csv_field(v)}\n" for k, v in zip(numbers, values, strict=True)]
        (folder / "t.csv").write_bytes("".join(["k,v\n", *lines]).encode())
        return folder / "t.csv", values
    if form == "pandas":
        frame = pytest.importorskip("pandas").DataFrame({"k": numbers, "v": values})
        return frame, values if frame["v"].dtype == object else pa.table(frame)["v"].to_pylist()
    if form == "polars":
        frame = pytest.importorskip("polars").DataFrame({"k": numbers, "v": values}, strict=True)
        return frame, frame["v"].to_list()
    table = pa.table({"k": numbers, "v": values})
    if form == "duckdb":
        relation = pytest.importorskip("duckdb").from_arrow(table)
        return relation, pa.table(relation)["v"].to_pylist()
    return table, table["v"].to_pylist()


def is_stored(given: Any, stored: Any, kind: pa.DataType) -> bool:
    """Whether a value is what was given, in the type of its column."""
    if given is None or stored is None:
        return given is None and stored is None
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(stored, list) and isinstance(given, (list, tuple)):
        return len(given) == len(stored) and all(
            is_stored(a, b, kind.value_type) for a, b in zip(given, stored, strict=True)
        )
    if isinstance(stored, dict):
        return all(is_stored(given.get(k), v, kind.field(k).type) for k, v in stored.items())
    if isinstance(stored, uuid.UUID):
        shown = given if isinstance(given, uuid.UUID) else None
        made = uuid.UUID(bytes=given) if isinstance(given, bytes) else shown or uuid.UUID(given)
        return bool(made == stored)
    if isinstance(stored, str):
        return str(given) == stored
    if isinstance(stored, (dt.date, dt.time)) and not isinstance(stored, dt.datetime):
        if isinstance(given, str):
            given = type(stored).fromisoformat(given.removesuffix("T00:00:00"))
        if isinstance(given, dt.datetime):
            return given.tzinfo is None and given == dt.datetime.combine(stored, dt.time())
        return bool(given == stored)
    if isinstance(stored, dt.datetime):
        if isinstance(given, str):
            given = dt.datetime.fromisoformat(given)
        if not isinstance(given, dt.datetime):
            given = dt.datetime.combine(given, dt.time())
        if stored.tzinfo is not None and given.tzinfo is None:
            return bool(stored.replace(tzinfo=None) == given)
        return bool(given == stored)
    if isinstance(stored, bool) or isinstance(given, bool):
        return given is stored
    if isinstance(stored, (int, float, Decimal)):
        return is_number(given, stored, kind)
    return bool((given.bytes if isinstance(given, uuid.UUID) else given) == stored)


def is_number(given: Any, stored: Any, kind: pa.DataType) -> bool:
    if any(isinstance(v, float) and not math.isfinite(v) for v in (given, stored)):
        return bool(float(given) == float(stored))
    if kind == pa.float32() and not isinstance(given, int):  # written in Python: the nearest
        return bool(np.float32(given) == np.float32(stored))
    if {type(given), type(stored)} == {float, Decimal}:
        return bool(float(given) == float(stored))
    return Fraction(given) == Fraction(stored)


def check(lake: nb.Catalog, seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    kind = rng.choice(KINDS)
    family = family_of(kind) if rng.random() < 0.8 else rng.choice(FAMILIES)
    values = [None if rng.random() < 0.1 else family(rng) for _ in range(rng.randrange(1, 5))]
    form = rng.choice(["rows", "rows", "columns", "pandas", "polars", "duckdb", "arrow", "csv"])
    if form == "csv" and family in (vector, structure):
        form = "rows"
    try:
        data, given = as_data(form, values, folder)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # not a column anywhere
        data, given = as_data("rows", values, folder)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("polars", "duckdb", "builtins"):
            raise
        data, given = as_data("rows", values, folder)
    told = f"seed {seed}: {form}, {values!r} as {kind}"
    schema = pa.schema({"k": pa.int64(), "v": kind})
    data_format: Any = rng.choice(["nimble", "parquet"])
    table = lake.create_table(f"r.t{seed}", schema, cluster_by="k", data_format=data_format)
    try:
        table.append(data)
    except nb.InvalidArgumentError as error:
        message = str(error)
        assert "'v'" in message, f"{told}: {message}"
        assert len(message) < 500, f"{told}: {message}"
        assert table.refresh().snapshot is None, told
        return
    stored = table.to_table()["v"].to_pylist()
    assert len(stored) == len(given), told
    for one, other in zip(given, stored, strict=True):
        assert is_stored(one, other, kind), f"{told}: {one!r} became {other!r}"


@pytest.mark.parametrize("block", range(4))
def test_some_random_values(lake: nb.Catalog, tmp_path: Path, block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        check(lake, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_random_values(lake: nb.Catalog, tmp_path: Path, block: int) -> None:
    for seed in range(1000 + block * 50, 1050 + block * 50):
        check(lake, seed, tmp_path)
