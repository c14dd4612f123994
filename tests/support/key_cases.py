"""Key columns of every key type, and probes that sit on, just below, just above, before and after
the keys.

A *pool* is an ascending list of distinct plain values (see oracle.plain_values) that are
neighbours or nasty. Keys take the pool's odd places, probes take all of it: so every present key
has an absent value right before and right after it, and there are probes before the first and
after the last key.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
from hypothesis import strategies as st
from oracle import Order
from pyarrow import types as pat
from strategies import decimal_of

ORDERS = [
    Order(descending, nulls_first) for descending in (False, True) for nulls_first in (False, True)
]

TEXT_POOL = sorted(
    [
        "",
        "\0",
        "\0\0",
        "a",
        "a\0",
        "a\0a",
        "ab",
        "abc",
        "abc ",
        "abd",
        "b",
        "shared/" * 9,
        "shared/" * 9 + "0",
        "shared/" * 9 + "1",
        "z",
        "\x7f",
        "\x80",
        "é",
        "ÿ",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "𝄞",
        "𝄞a",
        "\U0010ffff",
    ]
)
BYTES_POOL = sorted(
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\1",
        b"\0\xff",
        b"\1",
        b"a",
        b"a\0",
        b"a\0\0",
        b"ab",
        b"abc",
        b"b",
        b"\x7f",
        b"\x80",
        b"p" * 40,
        b"p" * 40 + b"\0",
        b"p" * 41,
        b"\xfe",
        b"\xfe\xff",
        b"\xff",
        b"\xff\0",
        b"\xff\xff",
        b"\xff" * 40,
    ]
)


@dataclass(frozen=True)
class KeyType:
    name: str
    type: pa.DataType
    pool: list[Any]


def _integers(low: int, high: int) -> list[int]:
    near = {low, low + 1, low + 2, high - 2, high - 1, high, 0, 1, 2, 3, 5, 8, 100, 127}
    return sorted(v for v in near | {-1, -2, -128} if low <= v <= high)


def _floats(width: int) -> list[float]:
    code, largest, least, eps = {
        16: ("e", 65504.0, 2.0**-24, 2.0**-10),
        32: ("f", 3.4028234663852886e38, 2.0**-149, 2.0**-23),
        64: ("d", 1.7976931348623157e308, 2.0**-1074, 2.0**-52),
    }[width]
    positive = [least, 0.5, 1.0, 1.0 + eps, 1.5, largest, math.inf]
    assert all(struct.unpack(code, struct.pack(code, v))[0] == v for v in positive)
    return [-v for v in reversed(positive)] + [0.0] + positive + [math.nan]


def _decimal_type(make: Any, precision: int, scale: int) -> KeyType:
    top = 10**precision - 1
    unscaled = sorted({-top, 1 - top, -100, -1, 0, 1, 2, 10, 99, 100, 101, top // 3, top - 1, top})
    return KeyType(
        f"{make.__name__}({precision},{scale})",
        make(precision, scale),
        [decimal_of(u, scale) for u in unscaled],
    )


def _temporal(type_: pa.DataType) -> KeyType:
    if pat.is_time(type_):
        pool = _integers(
            0, 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit] - 1
        )
    elif pat.is_date64(type_):
        pool = [day * 86_400_000 for day in _integers(-(2**30), 2**30)]
    else:
        bits = type_.bit_width - 1
        pool = _integers(-(2**bits), 2**bits - 1)
    return KeyType(str(type_), type_, pool)


def _key_types() -> list[KeyType]:
    types = [KeyType("bool", pa.bool_(), [False, True])]
    for bits in (8, 16, 32, 64):
        types.append(
            KeyType(
                f"int{bits}",
                getattr(pa, f"int{bits}")(),
                _integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
            )
        )
        types.append(
            KeyType(f"uint{bits}", getattr(pa, f"uint{bits}")(), _integers(0, 2**bits - 1))
        )
    types += [
        KeyType(f"float{w}", t, _floats(w))
        for w, t in ((16, pa.float16()), (32, pa.float32()), (64, pa.float64()))
    ]
    types += [
        _decimal_type(pa.decimal32, 9, 2),
        _decimal_type(pa.decimal64, 18, 4),
        _decimal_type(pa.decimal128, 38, 10),
        _decimal_type(pa.decimal128, 5, -2),
        _decimal_type(pa.decimal256, 76, 0),
    ]
    units = ["s", "ms", "us", "ns"]
    times = [
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.time32("ms"),
        pa.time64("us"),
        pa.time64("ns"),
    ]
    times += [pa.timestamp(u) for u in units] + [
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns", "Europe/Zurich"),
    ]
    types += [_temporal(t) for t in [*times, *[pa.duration(u) for u in units]]]
    types += [KeyType(str(t), t, TEXT_POOL) for t in (pa.utf8(), pa.large_utf8(), pa.string_view())]
    types += [
        KeyType(str(t), t, BYTES_POOL) for t in (pa.binary(), pa.large_binary(), pa.binary_view())
    ]
    fixed = sorted(
        [
            b"\0\0\0",
            b"\0\0\1",
            b"\0\1\0",
            b"a\0\0",
            b"aa\0",
            b"aaa",
            b"\x7f\xff\xff",
            b"\x80\0\0",
            b"\xff\xff\xfe",
            b"\xff" * 3,
        ]
    )
    types.append(KeyType("fixed_size_binary(3)", pa.binary(3), fixed))
    types.append(KeyType("dictionary(utf8)", pa.dictionary(pa.int8(), pa.utf8()), TEXT_POOL))
    types.append(
        KeyType(
            "dictionary(int64)",
            pa.dictionary(pa.int32(), pa.int64()),
            _integers(-(2**63), 2**63 - 1),
        )
    )
    return types


KEY_TYPES = _key_types()


def array_of(type_: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """An Arrow array of plain values: the inverse of oracle.plain_values."""
    if pat.is_dictionary(type_):
        encoded = array_of(type_.value_type, values).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            encoded.indices.cast(type_.index_type), encoded.dictionary, ordered=type_.ordered
        )
    if pat.is_temporal(type_):
        return pa.array(values, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
    if pat.is_float16(type_):
        return pa.array([None if v is None else np.float16(v) for v in values], type_)
    return pa.array(values, type_)


def key_values(pool: list[Any], n: int, rng: np.random.Generator, null_rate: float) -> list[Any]:
    """`n` keys from the odd places of the pool (all of it when it is tiny), with duplicates and
    nulls.
    """
    present = pool[1::2] if len(pool) > 3 else pool
    return [
        None if rng.random() < null_rate else present[rng.integers(len(present))] for _ in range(n)
    ]


def key_table(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """The key columns, then `row` (position in the input: an answer's identity) and a nullable
    text column.
    """
    arrays: dict[str, pa.Array] = {
        name: array_of(type_, values) for name, (type_, values) in columns.items()
    }
    n = len(next(iter(arrays.values())))
    arrays["row"] = pa.array(range(n), pa.int64())
    arrays["text"] = pa.array([None if i % 7 == 3 else f"text {i}" for i in range(n)], pa.utf8())
    return pa.table(arrays)


def one_column_case(key: KeyType, n: int, seed: int, null_rate: float = 0.15) -> pa.Table:
    rng = np.random.default_rng(seed)
    return key_table({"k": (key.type, key_values(key.pool, n, rng, null_rate))})


def in_file_order(table: pa.Table, columns: Sequence[str], orders: Sequence[Order]) -> pa.Table:
    """The table as a file clustered by the columns stores it."""
    rows = oracle.file_order(oracle.table_keys(table, columns), orders)
    pieces = [table.slice(row, 1) for row in rows]  # take() is not implemented for every type
    if not pieces:
        return table
    return pa.concat_tables(pieces).combine_chunks() if len(pieces) > 1 else pieces[0]


# Layouts for "the result does not depend on the layout": tiny, odd, large and extreme in every
# direction.
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"stripe_rows": 7, "group_rows": 14, "key_chunk_rows": 3, "restart_interval": 1},
    {"stripe_rows": 3, "group_rows": 3, "key_chunk_rows": 1, "restart_interval": 2, "zone_rows": 2},
    {
        "stripe_rows": 100,
        "group_rows": 200,
        "key_chunk_rows": 16,
        "restart_interval": 16,
        "zone_rows": 10,
    },
    {
        "stripe_rows": 50,
        "group_rows": 1 << 40,
        "key_chunk_rows": 1 << 30,
        "restart_interval": 1 << 30,
    },
    {
        "stripe_rows": 20,
        "group_rows": 40,
        "key_chunk_rows": 7,
        "cluster_bloom_bits_per_key": 10.0,
        "threads": 2,
    },
    {
        "stripe_rows": 33,
        "group_rows": 33,
        "key_chunk_rows": 5,
        "restart_interval": 3,
        "statistics": False,
    },
]


@st.composite
def composite_cases(
    draw: st.DrawFn, *, max_columns: int = 3, max_rows: int = 80
) -> tuple[pa.Table, list[str], list[Order], list[KeyType]]:
    """A table in input order, its key column names, their orders and their key types."""
    keys = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=max_columns))
    orders = draw(st.lists(st.sampled_from(ORDERS), min_size=len(keys), max_size=len(keys)))
    n = draw(st.integers(0, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    null_rate = draw(st.sampled_from([0.0, 0.1, 0.5]))
    spread = draw(
        st.sampled_from([3, 100])
    )  # few distinct leading values make long runs of equal prefixes
    columns = {}
    for i, key in enumerate(keys):
        start = int(rng.integers(0, max(1, len(key.pool) - spread)))
        columns[f"k{i}"] = (
            key.type,
            key_values(key.pool[start : start + spread], n, rng, null_rate),
        )
    return key_table(columns), list(columns), orders, keys


def sort_keys(columns: Sequence[str], orders: Sequence[Order]) -> list[Any]:
    import nimblepy as nb

    return [
        nb.SortKey(name, descending=order.descending, nulls_first=order.nulls_first)
        for name, order in zip(columns, orders, strict=True)
    ]


def probe_table(
    columns: Sequence[str], keys: Sequence[KeyType], probes: Sequence[oracle.Key]
) -> pa.Table:
    """Probes as tabular data with the key columns' own names and types."""
    by_column = list(zip(*probes, strict=True)) or [()] * len(columns)
    return pa.table(
        {
            name: array_of(key.type, values)
            for name, key, values in zip(columns, keys, by_column, strict=False)
        }
    )
