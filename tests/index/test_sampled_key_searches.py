"""Keys of several columns, of which the index keeps every 16th: each search ends in the columns."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

ROWS = 2_500
Random = np.random.Generator
US = pa.timestamp("us", "UTC")

# name -> types of the key's columns, and what makes their values
SHAPES: dict[str, tuple[list[pa.DataType], Callable[[Random, int], list[Any]]]] = {
    "text and time": (
        [pa.string(), US],
        lambda r, n: [[f"u{v:05}" for v in r.zipf(1.3, n) % 400], r.integers(0, 1 << 50, n)],
    ),
    "one text for all": ([pa.string(), pa.int64()], lambda r, n: [["x" * 9] * n, wide(r, n)]),
    "text with escapes": (
        [pa.string(), pa.int64()],
        lambda r, n: [["a\0b\1"[: 1 + v] for v in r.integers(0, 4, n)], wide(r, n)],
    ),
    "integers of every width": (
        [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()],
        lambda r, n: [
            r.integers(-2, 2, n),
            r.integers(0, 3, n) * 30_000,
            r.integers(-1 << 31, 1 << 31, n) // 1000 * 1000,
            r.integers(0, 1 << 64, n, np.uint64),
        ],
    ),
    "one column": ([pa.int64()], lambda r, n: [wide(r, n)]),
    "decimal and date": (
        [pa.decimal128(12, 2), pa.date32(), pa.binary()],
        lambda r, n: [
            [Decimal(int(v)).scaleb(-2) for v in r.integers(-500, 500, n) // 100],
            r.integers(0, 9, n).astype(np.int32),
            [r.bytes(6) for _ in range(n)],
        ],
    ),
    "nulls": (
        [pa.int32(), pa.string(), pa.int64()],
        lambda r, n: [
            pa.array(r.integers(0, 3, n), mask=r.random(n) < 0.3),
            pa.array([f"t{v}" for v in r.integers(0, 3, n)], mask=r.random(n) < 0.3),
            pa.array(wide(r, n), mask=r.random(n) < 0.01),
        ],
    ),
}


def wide(random: Random, n: int) -> np.ndarray[Any, Any]:
    return random.integers(-1 << 62, 1 << 62, n)


def table_of(shape: str, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    kinds, make = SHAPES[shape]
    columns = {}
    for i, (kind, values) in enumerate(zip(kinds, make(random, ROWS), strict=True)):
        made = values if isinstance(values, pa.Array) else pa.array(values)
        columns[f"k{i}"] = made if made.type == kind else made.cast(kind)
    keys = pa.table(columns)
    # some keys more than once
    keys = pa.concat_tables([keys, keys.slice(0, 40), keys.slice(7, 3)])
    return keys.append_column("row", pa.array(np.arange(keys.num_rows)))


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("shape", SHAPES)
def test_keys_between_samples_are_found(tmp_path: Path, shape: str, descending: bool) -> None:
    table = table_of(shape, 3)
    names = table.column_names[:-1]
    orders = [oracle.Order(descending and i != 1, descending) for i in range(len(names))]
    options = nb.WriteOptions(stripe_rows=1024, group_rows=2048)
    keys = [
        nb.SortKey(name, descending=o.descending, nulls_first=o.nulls_first)
        for name, o in zip(names, orders, strict=True)
    ]
    path = tmp_path / "sampled.nimble"
    nb.write(table, path, cluster_by=keys, options=options)
    with nb.open(path) as file:
        stored = file.scan().to_table()
        values = [tuple(row.values()) for row in stored.select(names).to_pylist()]
        rows = stored["row"].to_pylist()
        where: dict[Any, list[int]] = {}
        for value, row in zip(values, rows, strict=True):
            if None not in value:  # a null is no key
                where.setdefault(value, []).append(row)
        plain = oracle.table_keys(stored, names)
        assert oracle.file_order(plain, orders) == list(range(len(plain)))

        random = np.random.default_rng(5)
        asked = [values[i] for i in random.integers(0, len(values), 300)]
        # columns of different rows together: mostly keys that nobody has
        mixed = [
            tuple(values[j][c] for c, j in enumerate(random.integers(0, len(values), len(names))))
            for _ in range(300)
        ]
        for key in asked + mixed:
            found = file.get(key if len(names) > 1 else key[0], on=None)
            expected = where.get(key)
            assert (found is None) == (expected is None)
            if found is not None and expected is not None:
                assert found["row"] == expected[0]
                assert tuple(found[name] for name in names) == key
        batch = pa.table(
            {
                n: pa.array([k[i] for k in asked + mixed], table.schema.field(n).type)
                for i, n in enumerate(names)
            }
        )
        found = file.lookup(batch, columns=["row"])["row"].to_pylist()
        assert found == [row for key in asked + mixed for row in where.get(key, [])]
        if len(names) > 1:
            for first in {key[0] for key in asked[:15]}:
                if first is None:
                    continue
                got = file.prefix(first, columns=["row"])["row"].to_pylist()
                assert got == [r for v, r in zip(values, rows, strict=True) if v[0] == first]
        for low, high in zip(asked[:15], mixed[:15], strict=True):
            if None in low or None in high:
                continue
            bounds = oracle.table_keys(
                pa.table(
                    {
                        n: pa.array([low[i], high[i]], table.schema.field(n).type)
                        for i, n in enumerate(names)
                    }
                ),
                names,
            )
            ends = (low, high) if len(names) > 1 else (low[0], high[0])
            got = file.range(*ends, columns=["row"])["row"].to_pylist()
            wanted = oracle.range_rows(plain, bounds[0], bounds[1], "[)", orders)
            assert got == [rows[i] for i in wanted]
