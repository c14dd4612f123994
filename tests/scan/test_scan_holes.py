"""Ranges of rows with few rows between them are read across these, and give just their rows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy import _core

pytestmark = pytest.mark.model

ROWS = 3000


def scanned(
    file: Any, ranges: np.ndarray[Any, Any], columns: Any, batch_rows: int, threads: int = 1
) -> pa.Table:
    """Some columns of the rows in some ranges, as the core scans them."""
    part = _core.ScanPart(file._file.handle.projection(columns), ranges)
    schema = file._file.projected(columns)
    return pa.Table.from_batches(_core.scan([part], schema, batch_rows, threads), schema)


def wide_table() -> pa.Table:
    """Rows of every layout, with nulls and without."""
    rng = np.random.default_rng(1)
    number = rng.integers(-5, 1 << 40, ROWS)
    holes = rng.random(ROWS) < 0.2
    texts = ["" if n % 7 == 0 else f"text {n}" for n in number.tolist()]
    lists = [None if n % 11 == 0 else list(range(n % 4)) for n in number.tolist()]
    return pa.table(
        {
            "number": number,
            "nullable": pa.array(number, mask=holes),
            "bool": number % 3 == 0,
            "nullable_bool": pa.array(number % 2 == 0, mask=holes),
            "text": texts,
            "nullable_text": pa.array(texts, mask=holes),
            "list": pa.array(lists, pa.list_(pa.int32())),
            "texts": pa.array([[f"{i}"] * (i % 3) for i in range(ROWS)], pa.list_(pa.string())),
            "fixed": pa.array([[i, None] for i in range(ROWS)], pa.list_(pa.int16(), 2)),
            "struct": pa.array(
                [None if i % 5 == 0 else {"a": i, "b": f"{i}"} for i in range(ROWS)],
                pa.struct({"a": pa.int64(), "b": pa.string()}),
            ),
            "dictionary": pa.array(texts[:40] * (ROWS // 40)).dictionary_encode(),
            "map": pa.array([[(f"{i}", i)] * (i % 3) for i in range(ROWS)],
                            pa.map_(pa.string(), pa.int64())),
            "no_texts": pa.array([[]] * ROWS, pa.list_(pa.string())),
            "null_texts": pa.array([None] * ROWS, pa.list_(pa.string())),
            "no_map": pa.array([[]] * ROWS, pa.map_(pa.string(), pa.string())),
            "late_texts": pa.array([["x"] * (i > 2500) for i in range(ROWS)],
                                   pa.list_(pa.string())),
            "null": pa.nulls(ROWS),
            "view": pa.array(texts, pa.string_view()),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory: Any) -> tuple[Path, pa.Table]:
    table = wide_table()
    path = tmp_path_factory.mktemp("holes") / "f.nimble"
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=700, group_rows=1400))
    return path, table


def some_ranges(kind: str, rng: np.random.Generator) -> list[tuple[int, int]]:
    if kind == "few holes":
        cuts = np.sort(rng.choice(ROWS, 40, replace=False)).tolist()
        return [(a + 1, b) for a, b in itertools.pairwise([-1, *cuts, ROWS]) if a + 1 < b]
    if kind == "every other row":
        return [(i, i + 1) for i in range(0, ROWS, 2)]
    cuts = np.sort(rng.choice(ROWS, 61, replace=False)).tolist()
    return list(zip(cuts[:-1:2], cuts[1::2], strict=False))


@pytest.mark.parametrize("kind", ["few holes", "every other row", "anything"])
@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_layout(stored: Any, kind: str, mmap: bool, threads: int) -> None:
    path, table = stored
    rng = np.random.default_rng(7)
    with nb.open(path, mmap=mmap) as file:
        for columns in (None, *[(name,) for name in table.column_names]):
            ranges = some_ranges(kind, rng)
            found = scanned(file, np.array(ranges, dtype=np.uint64), columns, 500, threads)
            found.validate(full=True)
            wanted = table if columns is None else table.select(list(columns))
            all_rows = wanted.to_pylist()
            assert found.to_pylist() == [r for a, b in ranges for r in all_rows[a:b]], columns


LONG = 30_000


@pytest.fixture(scope="module")
def long_stored(tmp_path_factory: Any) -> tuple[nb.File, pa.Table]:
    """Stripes of several pieces, which end at multiples of 4,096 where there are holes."""
    rng = np.random.default_rng(3)
    number = rng.integers(0, 1 << 20, LONG)
    gone = rng.random(LONG) < 0.1
    table = pa.table(
        {
            "number": number,
            "double": rng.random(LONG),
            "nullable": pa.array(number, mask=gone),
            "bool": pa.array(number % 3 == 0, mask=gone),
            "text": pa.array([f"{n:x}" * (n % 3) for n in number.tolist()], mask=gone),
        }
    )
    path = tmp_path_factory.mktemp("holes") / "long.nimble"
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=13_000, group_rows=26_000))
    return nb.open(path), table


def _cuts() -> list[np.ndarray[Any, Any]]:
    """Rows that are left out."""
    rng = np.random.default_rng(5)
    at_pieces = [4096 * i + d + s for i in range(7) for d in (-1, 0, 1) for s in (0, 13_000)]
    found = [rng.choice(LONG, count, replace=False) for count in (1, 2, 7, 60, 3000)]
    found += [rng.choice(at_pieces, count) for count in (1, 2, 5, len(at_pieces))]
    found.append(np.concatenate([np.arange(a, a + 5000) for a in (100, 6000, 20_000)]))
    found.append(np.concatenate([np.arange(a, a + 40) for a in range(30, 29_000, 97)]))
    return [np.unique(rows[(rows >= 0) & (rows < LONG)]) for rows in found]


@pytest.mark.parametrize("batch_rows", [700, 5000, 65_536])
def test_pieces_of_stripes(long_stored: Any, batch_rows: int) -> None:
    file, table = long_stored
    for gone in _cuts():
        left = np.delete(np.arange(LONG), gone)
        edges = np.flatnonzero(np.diff(left) != 1) + 1
        parts = np.split(left, edges)
        ranges = np.array([(part[0], part[-1] + 1) for part in parts], dtype=np.uint64)
        wanted = table.take(pa.array(left))
        for columns in (None, ("number",), ("double",), ("bool", "text")):
            found = scanned(file, ranges, columns, batch_rows)
            found.validate(full=True)
            assert found.equals(wanted if columns is None else wanted.select(list(columns)))
            nulls = [column.null_count for column in found.columns]
            assert nulls == [column.null_count for column in wanted.select(found.column_names)]


SEGMENT, BLOCK = 131_072, 1024
LONGEST = 2 * SEGMENT + 5 * BLOCK + 77


@pytest.fixture(scope="module")
def one_stripe(tmp_path_factory: Any) -> tuple[nb.File, pa.Table]:
    """Columns of three segments, the last one with a short block, each in another encoding."""
    rng = np.random.default_rng(9)
    number = rng.integers(0, 1 << 20, LONGEST)
    rare = np.where(rng.random(LONGEST) < 0.001, number << 30, number % 100)
    table = pa.table(
        {
            "packed": number,
            "small": (number % 700).astype(np.int16),
            "patched": rare,
            "rising": np.cumsum(number),
            "few": (number % 7).astype(np.int64) << 40,
            "money": np.round(number / 100, 2),
            "price": np.round(number / 100, 2).astype(np.float32),
            "cents": np.where(rare > 100, np.pi, np.round(number / 100, 2)),
            "random": rng.random(LONGEST),
            "flag": number % 3 == 0,
            "runs": np.repeat(number, 300)[:LONGEST],
            "same": np.full(LONGEST, 5),
            "nullable": pa.array(number, mask=rng.random(LONGEST) < 0.01),
        }
    )
    path = tmp_path_factory.mktemp("holes") / "longest.nimble"
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=1 << 20, group_rows=1 << 20))
    return nb.open(path), table


def _deleted() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(11)
    ends = np.array([BLOCK, 128 * BLOCK, SEGMENT, SEGMENT + BLOCK, 2 * SEGMENT, LONGEST - 77])
    blocks = np.concatenate([np.arange(i * BLOCK, (i + 1) * BLOCK) for i in (0, 7, 127, 128, 256)])
    return {
        "at random": rng.choice(LONGEST, LONGEST // 363, replace=False),
        "at ends": np.concatenate([ends - 1, ends, ends + 1, [0, LONGEST - 1]]),
        "blocks": blocks,
        "around blocks": np.concatenate([blocks - 1, blocks + 1, rng.choice(LONGEST, 2000)]),
        "a segment": np.arange(SEGMENT - 3, 2 * SEGMENT + 3),
        "all but a few": np.setdiff1d(np.arange(LONGEST), rng.choice(LONGEST, 500)),
        "all but ends": np.setdiff1d(np.arange(LONGEST), [0, SEGMENT - 1, SEGMENT, LONGEST - 1]),
        "runs": np.concatenate([np.arange(i, i + i % 97) for i in range(31, LONGEST - 99, 409)]),
    }


@pytest.mark.parametrize("kind", _deleted())
def test_ends_of_blocks_and_segments(one_stripe: Any, kind: str) -> None:
    file, table = one_stripe
    gone = _deleted()[kind]
    left = np.delete(np.arange(LONGEST), gone[(gone >= 0) & (gone < LONGEST)])
    edges = np.flatnonzero(np.diff(left) != 1) + 1
    begin, end = left[np.concatenate([[0], edges])], left[np.append(edges - 1, len(left) - 1)] + 1
    ranges = np.column_stack((begin, end)).astype(np.uint64)
    wanted = table.take(pa.array(left))
    for batch_rows in (10_000, LONGEST):
        for columns in (None, *[(name,) for name in table.column_names]):
            found = scanned(file, ranges, columns, batch_rows)
            assert found.equals(wanted if columns is None else wanted.select(list(columns)))
