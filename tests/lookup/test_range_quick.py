"""The prepared way of range and prefix (core reads the Python values) answers as the general way
(keys.py coerces them to Arrow scalars) does: the same rows, the same refusals.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from exact import assert_same_table

import nimblepy as nb
from nimblepy.file.file import File

pytestmark = pytest.mark.model

Store = Callable[..., Any]
N = 300
ZURICH = zoneinfo.ZoneInfo("Europe/Zurich")


class Colour(enum.IntEnum):
    RED = 3


class Text(str):
    """Not a plain str: its bytes are not for core to assume."""


INTS: list[Any] = [
    *(
        None,
        -1,
        0,
        3,
        150,
        299,
        2**63,
        -(2**70),
        True,
        1.5,
        3.0,
        "3",
        b"3",
        np.int64(7),
        np.uint8(9),
    ),
    *(Colour.RED, decimal.Decimal(7), pa.scalar(12, pa.int8()), dt.date(1970, 1, 1), (), (3,), [4]),
    *((None,), (3, 4), {"k": 3}, float("nan"), np.uint64(2**63 + 1), np.bool_(True)),
    *(np.int8(-3), (np.int32(5),), np.float64(3.0), np.timedelta64(3, "s"), np.array(3)),
]
FLOATS: list[Any] = [None, 0.0, -0.0, 1.5, 0.1, 3, True, 2**60 + 1, float("nan"), float("inf")]
FLOATS += [
    np.float64(2.5),
    np.float64("nan"),
    np.int64(3),
    np.bool_(True),
    -float("inf"),
    np.float32(0.5),
    decimal.Decimal("0.1"),
    "x",
    (1.5,),
    (float("nan"),),
]
DAYS: list[Any] = [None, dt.date(1970, 1, 5), dt.datetime(1970, 1, 5), dt.date(1, 1, 1), 7]
DAYS += [dt.date(9999, 12, 31), dt.date(1970, 3, 1), np.datetime64("1970-01-09"), "1970-01-01"]
TIMES: list[Any] = [
    *(None, dt.datetime(1970, 1, 1, 0, 0, 50), dt.datetime(1970, 1, 1, 0, 0, 50, 500_000)),
    *(
        dt.datetime(1970, 1, 1, 0, 1, 40, 1),
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59),
    ),
    *(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), 150, dt.date(1970, 1, 1)),
]
ZONED: list[Any] = [
    None if t is None else t.replace(tzinfo=zone)
    for zone in (dt.UTC, zoneinfo.ZoneInfo("UTC"), ZURICH, dt.timezone(dt.timedelta(hours=-1)))
    for t in (None, dt.datetime(1970, 1, 1, 1, 0, 30), dt.datetime(1970, 1, 1, 0, 1, 40))
]
TEXTS: list[Any] = ["", "a", "k100", "k1", Text("k100"), "\ud800", "é\0", b"k1", None, 5]
TEXTS += [nb.starts_with("k1"), (nb.starts_with(""),), nb.starts_with(b"k1"), ("k100", "k200")]
BYTES: list[Any] = [b"", b"k100", "k100", bytearray(b"k1"), None, nb.starts_with(b"k1")]
BYTES += [nb.starts_with("k")]


def _numbers(type_: pa.DataType) -> pa.Array:
    return pa.array([None, *range(N - 1)], pa.int64()).cast(type_)


def _ticks(type_: pa.DataType) -> pa.Array:
    return pa.array([None, *range(N - 1)], pa.int64()).view(type_)


def _texts(type_: pa.DataType) -> pa.Array:
    return pa.array([None, "", *[f"k{i}" for i in range(N - 2)]], pa.string()).cast(type_)


CASES: dict[str, tuple[pa.Array, list[Any]]] = {
    "int64": (_numbers(pa.int64()), INTS),
    "uint16": (_numbers(pa.uint16()), INTS),
    "dictionary": (_numbers(pa.int64()).dictionary_encode(), INTS),
    "float64": (_numbers(pa.float64()), FLOATS),
    "float32": (_numbers(pa.float32()), FLOATS),
    "float16": (_numbers(pa.float16()), FLOATS),
    "date32": (_numbers(pa.int32()).view(pa.date32()), DAYS),
    "date64": (_numbers(pa.int32()).view(pa.date32()).cast(pa.date64()), DAYS),
    "timestamp[s]": (_ticks(pa.timestamp("s")), TIMES),
    "timestamp[ms]": (_ticks(pa.timestamp("ms")), TIMES),
    "timestamp[us]": (_ticks(pa.timestamp("us")), TIMES),
    "timestamp[ns]": (_ticks(pa.timestamp("ns")), TIMES),
    "timestamp[s, UTC]": (_ticks(pa.timestamp("s", "UTC")), [*ZONED, TIMES[1]]),
    "timestamp[s, Europe/Zurich]": (_ticks(pa.timestamp("s", "Europe/Zurich")), ZONED),
    "bool": (pa.array([None, *[i % 2 == 0 for i in range(N - 1)]]), [True, False, 1, None, "t"]),
    "decimal": (_numbers(pa.decimal128(21, 2)), [3, decimal.Decimal("3.5"), 1.5, None, "3"]),
    "string": (_texts(pa.string()), TEXTS),
    "large_string": (_texts(pa.large_string()), TEXTS),
    "binary": (_texts(pa.binary()), BYTES),
    "fixed": (
        pa.array([None, *[b"%03d" % i for i in range(N - 1)]], pa.binary(3)),
        [b"007", b"07", b"0070", "007", None, nb.starts_with(b"00")],
    ),
}


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (nb.NimbleError, TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)


def _check(file: Any, call: Callable[[Any], Any]) -> None:
    quick = _outcome(lambda: call(file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(File, "_range_reader", lambda *_: None)
        slow = _outcome(lambda: call(file))
    if isinstance(slow, pa.Table):
        assert isinstance(quick, pa.Table), quick
        assert_same_table(quick, slow)
    else:
        assert quick == slow


def _pairs(values: list[Any]) -> Iterator[tuple[Any, Any]]:
    for i, value in enumerate(values):
        yield value, None
        yield None, value
        yield value, values[(i * 7 + 3) % len(values)]


def _file(store: Store, table: pa.Table, keys: list[Any], kind: str) -> Any:
    """A file whose rows are in the order of the keys, or in another one with a sorted index."""
    if kind == "cluster":
        return store(table, cluster_by=keys)
    order = np.random.default_rng(1).permutation(table.num_rows)
    return store(table.take(pa.array(order)), indexes=[nb.SortedIndex(keys)])


@pytest.mark.parametrize("kind", ["cluster", "sorted"])
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("name", CASES)
def test_range_of_plain_values_equals_the_general_way(
    store: Store, name: str, descending: bool, kind: str
) -> None:
    keys, values = CASES[name]
    key = nb.SortKey("k", descending=descending, nulls_first=descending)
    table = pa.table({"k": keys, "row": pa.array(range(N))})
    file = _file(store, table, [key], kind)
    first = None if kind == "cluster" else "k"  # a sorted index has to be named
    inclusive = ["[)", "[]", "()", "(]"]
    for i, (lower, upper) in enumerate(_pairs(values)):
        how: dict[str, Any] = {"inclusive": inclusive[i % 4], "on": first}
        _check(file, lambda f, lo=lower, up=upper, how=how: f.row_ranges(lower=lo, upper=up, **how))
        how |= {
            "reverse": i % 3 == 0,
            "limit": [None, 5, 0][i % 3],
            "on": [first, "k", ["k"]][i % 3],
        }
        _check(file, lambda f, lo=lower, up=upper, how=how: f.range(lo, up, **how))
    for value in values:
        on: dict[str, Any] = {"on": first}
        _check(file, lambda f, v=value, on=on: f.prefix(v, **on))
        how = {"reverse": True, "limit": 4, "columns": ["row"]}
        _check(file, lambda f, v=value, how=how, on=on: f.prefix((v,), **how, **on))
        _check(file, lambda f, v=value, on=on: f.row_ranges(prefix=v, **on))


@pytest.mark.parametrize("kind", ["cluster", "sorted"])
def test_composite_bounds_equal_the_general_way(store: Store, kind: str) -> None:
    table = pa.table(
        {
            "a": [i // 100 for i in range(N)],
            "b": [f"t{i % 100 // 10}" for i in range(N)],
            "c": [None if i % 10 == 9 else float(i % 10) for i in range(N)],
        }
    )
    file = _file(store, table, ["a", nb.SortKey("b", descending=True), "c"], kind)
    whole = ["a", "b", "c"]
    tuples: list[Any] = [
        *(None, 1, (1,), (1, "t5"), (1, "t5", 3.0), (1, "t5", None), (1, None), (None, "t5")),
        *((1.5, "t5"), (1, "t5", 3), (2**65, "t5"), (1, "t", 0.0), (3,), (-1,), (1, "t5", 3.0, 4)),
    ]
    for lower in tuples:
        for upper in tuples:
            _check(file, lambda f, lo=lower, up=upper: f.range(lo, up, on=whole, inclusive="[]"))
            _check(file, lambda f, lo=lower, up=upper: f.range(lo, up, inclusive="[]"))
        for on in (["a"], ["a", "b"], ["b", "a"], ["b"], "c", ["nothing"]):
            _check(file, lambda f, lo=lower, on=on: f.range(lo, on=on))
            _check(file, lambda f, lo=lower, on=on: f.prefix(lo, on=on))
    for start in ("t", "t5", "", "u"):
        _check(file, lambda f, s=start: f.prefix((1, nb.starts_with(s))))
        _check(file, lambda f, s=start: f.prefix((nb.starts_with(s), 1)))


@pytest.mark.parametrize(
    "how",
    [
        {"limit": -1},
        {"limit": True},
        {"limit": 2**70},
        {"limit": 1.5},
        {"limit": np.int64(3)},
        {"inclusive": "[["},
        {"inclusive": "][", "limit": 3},
        {"inclusive": None},
        {"columns": "k"},
        {"columns": ["k", "k"]},
        {"columns": ["nothing"]},
        {"columns": []},
        {"columns": ("v.x", "k")},
        {"reverse": 1},
        {"on": []},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["cluster", "sorted"])
def test_other_arguments_equal_the_general_way(
    store: Store, how: dict[str, Any], kind: str
) -> None:
    table = pa.table({"k": range(10), "v": [{"x": i} for i in range(10)]})
    file = _file(store, table, ["k"], kind)
    how = how if kind == "cluster" else {"on": "k", **how}
    file.range(2, 8, on="k", columns=["k"])  # prepared already: "k" is not ["k"]
    _check(file, lambda f: f.range(2, 8, **how))
    if "inclusive" not in how:
        _check(file, lambda f: f.prefix(2, **how))


def test_every_way_to_store_values_equals_the_general_way(store: Store) -> None:
    i = np.arange(N)
    table = pa.table(
        {
            "k": i,
            "dictionary": pa.array([f"v{x % 3}" for x in i]).dictionary_encode(),
            "list": pa.array([None if x % 7 == 0 else [int(x)] * (x % 4) for x in i]),
            "struct": pa.array([None if x % 5 == 0 else {"a": int(x), "b": "x"} for x in i]),
            "view": pa.array([f"some text longer than a view {x}" for x in i], pa.string_view()),
            "bool": pa.array([None if x % 11 == 0 else x % 2 == 0 for x in i]),
            "null": pa.nulls(N),
            "runs": pa.RunEndEncodedArray.from_arrays(pa.array([100, N], pa.int32()), [1, 2]),
            "uuid": pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([b"%016d" % x for x in i], pa.binary(16))
            ),
            "noise": np.random.default_rng(1).random(N),
        }
    ).replace_schema_metadata({"a": "b"})
    file = store(table, cluster_by="k", options=nb.WriteOptions(stripe_rows=70))
    for how in ({}, {"reverse": True}, {"limit": 50}, {"reverse": True, "limit": 90}):
        _check(file, lambda f, how=how: f.range(30, 260, **how))
        got = file.range(30, 260, **how)
        got.validate(full=True)
        assert got.schema.equals(table.schema, check_metadata=True)


def test_ranges_of_many_rows_come_as_batches(store: Store) -> None:
    n = 200_000
    file = store(pa.table({"k": range(n)}), cluster_by="k", presorted=True)
    for how in ({}, {"reverse": True}, {"limit": 66_000}, {"limit": 70_000, "reverse": True}):
        _check(file, lambda f, how=how: f.range(10, n - 10, **how))
        _check(file, lambda f, how=how: f.prefix((), **how))


def test_range_after_close_is_refused(store: Store) -> None:
    file = store(pa.table({"k": [1, 2]}), cluster_by="k")
    assert file.range(1, 2).num_rows == 1
    file.close()
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        file.range(1, 2)


@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"limit": 66_000}, {"limit": 5}], ids=str)
def test_ranges_of_many_scattered_rows_are_in_key_order(store: Store, how: dict[str, Any]) -> None:
    n = 200_000
    keys = np.random.default_rng(2).permutation(n)
    file = store(pa.table({"k": keys, "row": range(n)}), indexes=[nb.SortedIndex("k")])
    want = np.arange(10, n)[:: -1 if "reverse" in how else 1][: how.get("limit")]
    got = file.range(10, None, on="k", **how)
    assert got.column("k").to_pylist() == want.tolist()
    assert keys[got.column("row").to_numpy()].tolist() == want.tolist()
