"""Lists, maps, structs and vectors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bench.zoo.numbers import NOW, decimals, skewed, times
from bench.zoo.registry import Random, Values, column
from bench.zoo.texts import LATIN, picked, words_of


def lists(random: Random, n: int, mean: float, items: pa.Array | None = None) -> pa.Array:
    """Lists of Poisson-distributed lengths; without items of 20 bits, these."""
    lengths = random.poisson(mean, n)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    if items is None:
        items = pa.array(random.integers(0, 1 << 20, int(ends[-1])))
    return pa.ListArray.from_arrays(pa.array(ends), items.slice(0, int(ends[-1])))


def vectors(values: np.ndarray, size: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), size)


@column("lists")
def ints_short(random: Random, n: int) -> Values:
    return lists(random, n // 2, 3)


@column("lists")
def ints_sorted(random: Random, n: int) -> Values:
    items = np.cumsum(random.integers(1, 50, n * 5))
    return lists(random, n // 4, 10, pa.array(items))


@column("lists")
def tags(random: Random, n: int) -> Values:
    names = words_of(random, 200, LATIN)
    return lists(random, n // 2, 2, picked(random, n * 2, names))


@column("lists")
def mostly_empty_lists(random: Random, n: int) -> Values:
    return lists(random, n, 0.05)


@column("lists")
def fixed_pairs(random: Random, n: int) -> Values:
    return vectors(np.round(random.normal(50, 5, (n // 2, 2)), 5), 2)


@column("lists")
def nullable_lists(random: Random, n: int) -> Values:
    made = lists(random, n // 2, 4)
    return pa.compute.if_else(pa.array(random.random(n // 2) < 0.3), made, None)


@column("lists")
def prices_by_day(random: Random, n: int) -> Values:
    items = np.round(random.lognormal(3, 1, n * 3), 2)
    return lists(random, n // 8, 20, pa.array(items))


@column("maps")
def attributes(random: Random, n: int) -> Values:
    rows = n // 4
    lengths = random.poisson(3, rows)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    count = int(ends[-1])
    keys = picked(random, count, ["color", "size", "brand", "weight", "origin"])
    values = picked(random, count, words_of(random, 500, LATIN))
    return pa.MapArray.from_arrays(pa.array(ends), keys, values)


@column("structs")
def point(random: Random, n: int) -> Values:
    rows = n // 2
    fields = [np.round(random.normal(50, 3, rows), 6), np.round(random.normal(8, 3, rows), 6)]
    return pa.StructArray.from_arrays([pa.array(f) for f in fields], ["lat", "lon"])


@column("structs")
def order_line(random: Random, n: int) -> Values:
    rows = n // 4
    fields = {
        "sku": skewed(random, rows, 20_000),
        "quantity": random.geometric(0.4, rows).astype(np.int16),
        "price": decimals((random.lognormal(3, 1, rows) * 100).astype(np.int64), 12, 2),
        "at": times(NOW + np.cumsum(random.poisson(9e5, rows))),
        "note": picked(random, rows, ["", "", "", "gift", "fragile", "call first"]),
    }
    return pa.StructArray.from_arrays([pa.array(f) for f in fields.values()], list(fields))


@column("vectors")
def embeddings_float32(random: Random, n: int) -> Values:
    return vectors(random.normal(0, 1, (n // 128, 128)).astype(np.float32), 128)


@column("vectors")
def embeddings_quantized(random: Random, n: int) -> Values:
    levels = np.clip(np.round(random.normal(0, 1, (n // 16, 64)) * 40), -127, 127)
    return vectors((levels / np.float32(127)).astype(np.float32), 64)


@column("vectors")
def embeddings_int8(random: Random, n: int) -> Values:
    made = np.clip(np.round(random.normal(0, 1, (n // 32, 128)) * 40), -127, 127)
    return vectors(made.astype(np.int8), 128)


@column("vectors")
def embeddings_float16(random: Random, n: int) -> Values:
    return vectors(random.normal(0, 1, (n // 64, 128)).astype(np.float16), 128)


@column("vectors")
def embeddings_bfloat16(random: Random, n: int) -> Values:
    bits = random.normal(0, 1, (n // 64, 128)).astype(np.float32).view(np.uint32)
    return vectors((bits >> 16).astype(np.uint16), 128)


@column("vectors")
def normalized_768(random: Random, n: int) -> Values:
    made = random.normal(0, 1, (n // 512, 768)).astype(np.float32)
    return vectors(made / np.linalg.norm(made, axis=1, keepdims=True), 768)


@column("vectors")
def sparse_features(random: Random, n: int) -> Values:
    made = np.where(random.random((n // 32, 64)) < 0.05, random.random((n // 32, 64)), 0)
    return vectors(made.astype(np.float32), 64)
