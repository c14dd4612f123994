"""Random tables behind a server: each method of RemoteTable equals the method of Table."""

from __future__ import annotations

import datetime
import math
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

_NAN = float("nan")
_ZONE = datetime.timezone(datetime.timedelta(hours=5))

KEY_TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, -1, 0, 1, 127]),
    (pa.int64(), [-(2**63), -1, 0, 7, 2**63 - 1]),
    (pa.uint32(), [0, 1, 2**32 - 1]),
    (pa.float64(), [0.0, -0.0, _NAN, math.inf, -math.inf, 0.1, 5e-324, -1e300]),
    (pa.float32(), [0.0, -0.0, _NAN, math.inf, 0.5, -2.25]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["", "a", "ab", "a:b", "\\", "\\N", "-", "+", "é\0", "a" * 300]),
    (pa.binary(), [b"", b"\0", b"\0\1", b"\xff\xff", b":", b"\\:"]),
    (pa.binary(2), [b"\0\0", b"::", b"\xff\xff"]),
    (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99")]),
    (pa.decimal128(20, 0), [Decimal(0), Decimal(10**19), Decimal(-(10**19))]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(2024, 5, 1, 1, 2, 3, 4)]),
    (
        pa.timestamp("us", tz="+05:00"),
        [datetime.datetime(2024, 5, 1, tzinfo=_ZONE), datetime.datetime(1900, 1, 1, tzinfo=_ZONE)],
    ),
    (pa.time64("us"), [datetime.time(0), datetime.time(23, 59, 59, 999999)]),
    (pa.uuid(), [uuid.UUID(int=0).bytes, uuid.UUID(int=2**128 - 1).bytes, uuid.UUID(int=7).bytes]),
]


def random_dataset(rng: random.Random, path: Path) -> tuple[nb.Dataset, list[str]]:
    """1 to 4 files that overlap, with a key of 1 to 3 columns in random directions."""
    chosen = rng.sample(KEY_TYPES, rng.randrange(1, 4))
    names = [f"k{i}" for i in range(len(chosen))]
    order = [
        nb.SortKey(name, descending=rng.random() < 0.5, nulls_first=rng.random() < 0.5)
        for name in names
    ]
    path.mkdir()
    row = 0
    for part in range(rng.randrange(1, 5)):
        count = rng.choice([1, 5, 60, 300])
        columns: dict[str, Any] = {
            name: pa.array([rng.choice([None, *values]) for _ in range(count)], type)
            for name, (type, values) in zip(names, chosen, strict=True)
        }
        columns["row"] = pa.array(range(row, row + count), pa.int64())
        columns["text"] = pa.array(
            [rng.choice([None, "", f"t{i}"]) for i in range(count)], pa.string()
        )
        row += count
        nb.write(pa.table(columns), path / f"{part}.nimble", cluster_by=order)
    return nb.open_dataset(path), names


def random_key(rng: random.Random, rows: pa.Table, names: list[str], width: int) -> Any:
    """Some first values of the key: of one row, or of several."""
    values = []
    for name in names[:width]:
        values.append(rows[name][rng.randrange(rows.num_rows)])
    if rng.random() < 0.5:
        at = rng.randrange(rows.num_rows)
        values = [rows[name][at] for name in names[:width]]
    plain = [value.as_py() for value in values]
    return plain[0] if width == 1 and rng.random() < 0.5 else tuple(plain)


def outcome(call: Any) -> Any:
    """The result of a call, or the class of its error."""
    try:
        return call()
    except nb.InvalidArgumentError as error:
        return type(error)


def same(got: Any, expected: Any) -> bool:
    if isinstance(expected, pa.Table):
        if not isinstance(got, pa.Table) or not got.schema.equals(expected.schema):
            return False
        return repr(got.to_pylist()) == repr(expected.to_pylist())  # NaN and -0.0 too
    if isinstance(expected, pa.Array):
        return isinstance(got, pa.Array) and got.equals(expected)
    return repr(got) == repr(expected)


def walk(table: Any, **asked: Any) -> pa.Table:
    parts, token = [], None
    while True:
        page = table.page(token=token, **asked)
        assert page.rows.num_rows <= asked["limit"]
        assert not page.moved
        parts.append(page.rows)
        token = page.next
        if token is None:
            return pa.concat_tables(parts)
        assert page.rows.num_rows > 0


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 30))]
)
def test_random_datasets(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    local, names = random_dataset(rng, tmp_path / "d")
    with nb.serve(local, "t") as server, nb.connect(server.address) as lake:
        remote = lake.table("t")
        rows = local.to_table()
        everything = local.range()
        assert same(remote.range(), everything)
        for _ in range(20):
            lower, upper = (
                rng.choice([None, random_key(rng, rows, names, rng.randrange(1, len(names) + 1))])
                for _ in range(2)
            )
            asked: dict[str, Any] = {
                "inclusive": rng.choice(["[)", "[]", "()", "(]"]),
                "columns": rng.choice([None, ["row"], ["text", *names]]),
                "reverse": rng.random() < 0.4,
            }
            limit = rng.choice([None, 0, 1, 7, 100])
            expected = outcome(lambda: local.range(lower, upper, limit=limit, **asked))  # noqa: B023
            got = outcome(lambda: remote.range(lower, upper, limit=limit, **asked))  # noqa: B023
            assert same(got, expected), (lower, upper, limit, asked)
            page = {"lower": lower, "upper": upper, "limit": rng.choice([1, 3, 64, 1000]), **asked}
            expected = outcome(lambda: local.range(lower, upper, **asked))  # noqa: B023
            if isinstance(expected, pa.Table) and expected.num_rows > 40 * page["limit"]:
                page["limit"] = 64
            assert same(outcome(lambda: walk(remote, **page)), expected), page  # noqa: B023
            assert same(outcome(lambda: walk(local, **page)), expected), page  # noqa: B023
            prefix = random_key(rng, rows, names, rng.randrange(1, len(names) + 1))
            del asked["inclusive"]
            expected = outcome(lambda: local.prefix(prefix, limit=limit, **asked))  # noqa: B023
            got = outcome(lambda: remote.prefix(prefix, limit=limit, **asked))  # noqa: B023
            assert same(got, expected), (prefix, limit, asked)
        whole = len(names)
        keys = [random_key(rng, rows, names, whole) for _ in range(50)]
        keys = [key if isinstance(key, tuple) or whole == 1 else (key,) for key in keys]
        keys = [key[0] if whole == 1 and isinstance(key, tuple) else key for key in keys]
        for missing in ("drop", "null"):
            got = outcome(lambda: remote.lookup(keys, missing=missing))  # noqa: B023
            assert same(got, outcome(lambda: local.lookup(keys, missing=missing)))  # noqa: B023
        assert same(outcome(lambda: remote.count(keys)), outcome(lambda: local.count(keys)))
        for key in keys[:10]:
            assert repr(outcome(lambda: remote.get(key))) == repr(outcome(lambda: local.get(key)))  # noqa: B023
