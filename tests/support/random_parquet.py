"""Random Parquet files: types, nulls, encodings, codecs, page sizes and versions."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FLAT: list[pa.DataType] = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.binary(7), pa.binary(16)),
    *(pa.decimal128(5, 2), pa.decimal128(15, 2), pa.decimal128(38, 10), pa.decimal256(50, 3)),
    *(pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns")),
    *(pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.duration("us")),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
]
_ELEMENTS = FLAT[:-2]


def random_type(rng: random.Random) -> pa.DataType:
    """Mostly flat; also structs, lists, maps, and lists of lists, which pages are not read of."""
    choice = rng.random()

    def element() -> pa.DataType:
        return rng.choice(_ELEMENTS)

    if choice < 0.7:
        return rng.choice(FLAT)
    if choice < 0.8:
        return pa.struct([("a", element()), ("b", element())])
    if choice < 0.87:
        return pa.list_(element())
    if choice < 0.9:
        return pa.large_list(pa.struct([("x", element()), ("y", pa.struct([("z", element())]))]))
    if choice < 0.93:
        return pa.map_(pa.string(), element())
    if choice < 0.97:
        return pa.struct([("l", pa.list_(element())), ("m", element())])
    return pa.list_(pa.list_(element()))


def random_array(rng: random.Random, n: int, kind: pa.DataType) -> pa.Array:
    """Values of a type, with extreme ones; some arrays have few distinct values or nulls."""
    types = pa.types
    if types.is_struct(kind):
        children = [random_array(rng, n, field.type) for field in kind]
        mask = pa.array([rng.random() < 0.2 for _ in range(n)], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _random_lists(rng, n, kind)
    value = _value_maker(rng, kind)
    if rng.random() < 0.5:
        pool = [value() for _ in range(5)]
        values = [rng.choice(pool) for _ in range(n)]
    else:
        values = [value() for _ in range(n)]
    if rng.random() < 0.6:
        values = [None if rng.random() < 0.2 else value for value in values]
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if types.is_temporal(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def _random_lists(rng: random.Random, n: int, kind: pa.DataType) -> pa.Array:
    lengths = [rng.choice([0, 0, 1, 2, 5]) for _ in range(n)]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if pa.types.is_map(kind):
        keys = pa.array([f"k{i}" for i in range(sum(lengths))], pa.string())
        items = random_array(rng, sum(lengths), kind.item_type)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items).cast(kind)
    values = random_array(rng, sum(lengths), kind.value_type)
    mask = pa.array([rng.random() < 0.2 for _ in range(n)], pa.bool_())
    if pa.types.is_large_list(kind):
        starts = pa.array(offsets, pa.int64())
        return pa.LargeListArray.from_arrays(starts, values, type=kind, mask=mask)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind, mask=mask)


def _value_maker(rng: random.Random, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_boolean(kind):
        return lambda: rng.random() < 0.5
    if types.is_integer(kind):
        bits = kind.bit_width
        low, high = (0, 2**bits - 1)
        if types.is_signed_integer(kind):
            low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        return lambda: rng.choice([low, high, 0, 1, rng.randint(low, high), rng.randint(0, 100)])
    if types.is_floating(kind):
        special = [0.0, -0.0, float("nan"), float("inf"), -float("inf")]
        return lambda: float(np.float16(rng.choice([*special, rng.random()])))
    if types.is_decimal(kind):
        most = 10**kind.precision - 1
        return lambda: Decimal(rng.randint(-most, most)).scaleb(-kind.scale)
    if types.is_fixed_size_binary(kind):
        return lambda: rng.randbytes(kind.byte_width)
    if types.is_binary(kind):
        return lambda: rng.randbytes(rng.randint(0, 20))
    if types.is_temporal(kind):
        return lambda: rng.randint(0, 80_000)
    return lambda: rng.choice(["", "a", "ä" * rng.randint(0, 30), f"prefix{rng.randint(0, 10**6)}"])


def _encodings(kind: pa.DataType) -> list[str]:
    types = pa.types
    found = ["PLAIN"]
    if types.is_integer(kind) or types.is_date32(kind) or types.is_timestamp(kind):
        found += ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
    if types.is_string(kind) or types.is_binary(kind):
        found += ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
    if types.is_fixed_size_binary(kind):
        found += ["DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"]
    if types.is_float32(kind) or types.is_float64(kind):
        found += ["BYTE_STREAM_SPLIT"]
    if types.is_boolean(kind):
        found += ["RLE"]
    return found


def write_random(
    rng: random.Random, path: Path, sizes: tuple[int, ...] = (0, 1, 7, 100, 1000, 3000)
) -> bool:
    """Writes a random file; ``False`` if pyarrow cannot write what was chosen."""
    n = rng.choice(sizes)
    names = [f"c{i}" for i in range(rng.randint(1, 5))]
    kinds = [random_type(rng) for _ in names]
    table = pa.table([random_array(rng, n, kind) for kind in kinds], names=names)
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        flat = [(n, k) for n, k in zip(names, kinds, strict=True) if not pa.types.is_nested(k)]
        options["use_dictionary"] = False
        options["column_encoding"] = {name: rng.choice(_encodings(kind)) for name, kind in flat}
    try:
        pq.write_table(
            table,
            path,
            compression=rng.choice(["none", "snappy", "gzip", "zstd", "lz4"]),
            data_page_size=rng.choice([100, 1000, 1 << 20]),
            data_page_version=rng.choice(["1.0", "2.0"]),
            write_page_index=rng.random() < 0.6,
            row_group_size=rng.choice([37, 1000, 1 << 20]),
            version=rng.choice(["1.0", "2.4", "2.6"]),
            write_page_checksum=rng.random() < 0.3,
            store_schema=rng.random() < 0.8,
            write_batch_size=rng.choice([1, 10, 1024]),
            dictionary_pagesize_limit=rng.choice([100, 1 << 20]),
            use_compliant_nested_type=rng.random() < 0.9,
            **options,
        )
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError):
        return False
    return True
