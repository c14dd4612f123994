"""Fixed-size lists of numbers, and lists in rows by key: what is taken of them in any order is what
Arrow takes, bit for bit, whatever nulls and stripes there are; scans hand plain ones on where they
lie in the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from exact import assert_same_table

import nimblepy as nb

pytestmark = pytest.mark.model

ROWS = 3_000
SIZE = 96
NUMBERS = [pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.uint16()]
NULLS = ["none", "rows", "items", "rows of one stripe"]


def vectors(number: pa.DataType, nulls: str, *, size: int = SIZE, rows: int = ROWS) -> pa.Array:
    generator = np.random.default_rng(size)
    dtype = number.to_pandas_dtype()
    if pa.types.is_floating(number):
        values = generator.normal(0, 1, rows * size).astype(dtype)
    else:
        values = generator.integers(0, 200, rows * size).astype(dtype)
    mask = generator.random(rows * size) < 0.01 if nulls == "items" else None
    items = pa.array(values, number, mask=mask)
    row_mask = {
        "rows": generator.random(rows) < 0.1,
        "rows of one stripe": (np.arange(rows) < 100) & (np.arange(rows) % 3 == 0),
    }.get(nulls)
    return pa.FixedSizeListArray.from_arrays(
        items, size, mask=None if row_mask is None else pa.array(row_mask)
    )


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_vectors_are_taken_in_any_order(tmp_path: Path, number: pa.DataType, nulls: str) -> None:
    table = pa.table({"v": vectors(number, nulls), "i": range(ROWS)})
    path = tmp_path / "v.nimble"
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=700, group_rows=1_400))
    generator = np.random.default_rng(1)
    orders = [
        generator.permutation(ROWS),
        generator.integers(0, ROWS, 4_000),
        np.sort(generator.choice(ROWS, 700, replace=False)),
        np.array([5, 5, 5, ROWS - 1, 0, 0]),
        np.arange(ROWS - 1, -1, -1),
        np.array([], np.int64),
    ]
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            for rows in orders:
                assert_same_table(file.take(rows), table.take(rows))
                assert_same_table(file.take(rows, columns=["v"]), table.select(["v"]).take(rows))
            assert_same_table(file.to_table(), table)


@pytest.mark.parametrize("size", [1, 7, 17, 700, 140_000])
def test_vectors_of_every_length(tmp_path: Path, size: int) -> None:
    """Shorter than any that is treated as one, and longer than a segment."""
    rows = max(3, min(ROWS, 300_000 // size))
    table = pa.table({"v": vectors(pa.float32(), "none", size=size, rows=rows)})
    nb.write(table, tmp_path / "v.nimble")
    order = np.random.default_rng(2).permutation(rows)
    with nb.open(tmp_path / "v.nimble") as file:
        assert_same_table(file.take(order), table.take(order))
        assert_same_table(file.to_table(), table)


def test_scans_hand_on_plain_vectors_where_they_lie(tmp_path: Path) -> None:
    """More values than a segment has, and more rows than a stripe: every scan gives the memory of
    the file.
    """
    table = pa.table({"v": vectors(pa.float32(), "none")})
    nb.write(table, tmp_path / "v.nimble", options=nb.WriteOptions(stripe_rows=2_000))
    with nb.open(tmp_path / "v.nimble") as file:
        scans = [list(file.scan().to_reader()) for _ in range(2)]
    places = [[b.column(0).values.buffers()[1].address for b in batches] for batches in scans]
    assert len(places[0]) == 2
    assert places[0] == places[1]
    assert_same_table(pa.Table.from_batches(scans[0]), table)  # also when the file is closed


def test_damaged_vectors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.nimble"
    nb.write(pa.table({"v": vectors(pa.float32(), "none")}), path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with nb.open(path) as file:
        with pytest.raises(nb.CorruptFileError, match=r"column 'v'.*checksum"):
            file.take(np.random.default_rng(3).permutation(ROWS))
        with pytest.raises(nb.CorruptFileError, match=r"column 'v'.*checksum"):
            file.to_table()


def _lists(rows: int) -> dict[str, pa.Array]:
    generator = np.random.default_rng(4)
    lengths = generator.integers(0, 40, rows)
    lengths[rows // 2] = 300_000  # longer than a segment
    ends = np.concatenate([[0], np.cumsum(lengths)])
    count = int(ends[-1])
    floats = pa.array(generator.normal(0, 1, count), mask=generator.random(count) < 0.1)
    null_rows = generator.random(rows) < 0.2
    nullable = [None if null else int(n) for null, n in zip(null_rows, ends[:-1], strict=True)]
    texts = pa.array([f"text {i % 1_000}" for i in range(count)])
    bools = pa.array(generator.random(count) < 0.3, mask=generator.random(count) < 0.1)
    few = pa.array(range(rows * 3), pa.int16())
    return {
        "floats": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), floats),
        "nullable": pa.array([None if n is None else [n, n + 1] for n in nullable]),
        "texts": pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), texts),
        "bools": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), bools),
        "fixed": pa.FixedSizeListArray.from_arrays(few, 3, mask=pa.array(null_rows)),
        "none": pa.array([[]] * rows, pa.list_(pa.int8())),
        "deep": pa.array([[[i], []] for i in range(rows)]),
        "structs": pa.array([[{"a": i}] for i in range(rows)]),
        "map": pa.array([[(i, str(i))] for i in range(rows)], pa.map_(pa.int32(), pa.string())),
    }


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    rows = 3_000
    columns: dict[str, Any] = {"k": pa.array(range(rows)), **_lists(rows)}
    columns |= {f"c{i}": pa.array(range(i, rows + i)) for i in range(40)}
    table = pa.table(columns)
    path = tmp_path_factory.mktemp("lists") / "l.nimble"
    options = nb.WriteOptions(stripe_rows=1_100, group_rows=2_200)
    nb.write(table, path, cluster_by="k", presorted=True, unique=True, options=options)
    return path, table


@pytest.mark.parametrize("mmap", [True, False])
def test_rows_with_lists_are_those_of_the_table(lists: tuple[Path, pa.Table], mmap: bool) -> None:
    path, table = lists
    places = [0, 1, 1_023, 1_024, 1_099, 1_100, 1_500, 2_199, 2_200, 2_999]
    with nb.open(path, mmap=mmap) as file:
        for place in places:
            (row,) = table.slice(place, 1).to_pylist()
            assert file.get(place) == row
            assert file.get(place, ["fixed", "texts"]) == {n: row[n] for n in ("fixed", "texts")}
        assert file.lookup(places).equals(table.take(places))
