"""Parts of a segment side by side: wherever they are cut, every way to read gives the values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from exact import assert_same_table, assert_stays_when_indexes_change
from hypothesis import given, settings
from hypothesis import strategies as st

import nimblepy as nb
from second_reader import read_table, verify_file

pytestmark = pytest.mark.model

COMPRESSIONS = ("fast", "balanced", "compact")

Rng = np.random.Generator
# Which rows are null: everywhere, at the ends, in runs, all but the last.
PATTERNS: dict[str, Callable[[Rng, int], Any]] = {
    "none": lambda _, n: np.zeros(n, bool),
    "few": lambda rng, n: rng.random(n) < 0.03,
    "some": lambda rng, n: rng.random(n) < 0.4,
    "most": lambda rng, n: rng.random(n) < 0.97,
    "first half": lambda _, n: np.arange(n) < n // 2,
    "last half": lambda _, n: np.arange(n) >= n // 2,
    "denser": lambda rng, n: rng.random(n) < np.linspace(0, 1, n) ** 3,
    "runs": lambda _, n: np.arange(n) // 3_000 % 2 == 1,
    "all but one": lambda _, n: np.arange(n) != n - 1,
}


def words(rng: Rng, n: int) -> pa.Array:
    return pa.array([f"{a} of {b}" for a, b in rng.integers(0, 10**6, (n, 2)).tolist()])


KINDS: dict[str, Callable[[Rng, int], Any]] = {
    "ints": lambda rng, n: rng.integers(-50, 5_000, n),
    "any ints": lambda rng, n: rng.integers(-(2**62), 2**62, n),
    "bytes": lambda rng, n: rng.integers(-128, 128, n).astype(np.int8),
    "exceptions": lambda rng, n: np.where(rng.random(n) < 0.03, 2**40, 1) * rng.integers(0, 9, n),
    "ids": lambda rng, n: (np.arange(n) << 22) | rng.integers(0, 9, n),
    "times": lambda rng, n: np.cumsum(rng.exponential(1e6, n)).astype("datetime64[us]"),
    "doubles": lambda rng, n: rng.normal(0, 1, n),
    "prices": lambda rng, n: np.round(rng.random(n) * 1e4, 2),
    "floats": lambda rng, n: rng.random(n).astype(np.float32),
    "booleans": lambda rng, n: rng.random(n) < 0.4,
    "text": words,
    "few texts": lambda rng, n: np.array([f"kind {i}" for i in range(40)])[rng.integers(0, 40, n)],
    "sorted text": lambda _, n: np.array([f"/srv/data/{i // 7:07d}/{i:09d}" for i in range(n)]),
}


def column(kind: str, pattern: str, n: int, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    values = pa.array(KINDS[kind](rng, n))
    return pc.if_else(pa.array(PATTERNS[pattern](rng, n)), pa.scalar(None, values.type), values)


def lists(n: int, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n))]).astype(np.int32)
    items = column("doubles", "some", int(ends[-1]), seed)
    return pa.ListArray.from_arrays(ends, items, mask=pa.array(rng.random(n) < 0.2))


def write(path: str, table: pa.Table, compression: str, stripe_rows: int = 131_072) -> None:
    options = nb.WriteOptions(compression=compression, stripe_rows=stripe_rows)
    nb.write(table, path, options=options)


def parts_in_pieces(path: str) -> int:
    """How many parts of the file are cut. The second reader checks the file and counts them."""
    report = verify_file(path)
    assert report.ok, str(report)
    return report.counts.get("parts in pieces", 0)


def check(path: str, table: pa.Table, seed: int) -> None:
    n = table.num_rows
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(0, n, 300))
    begin = int(rng.integers(0, n))
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            assert_same_table(file.take(rows), table.take(rows))
            part = file.scan(row_range=(begin, min(n, begin + 5_000))).to_table()
            assert_same_table(part, table.slice(begin, 5_000))
            assert_same_table(file.to_table(), table)
            for name in table.column_names:
                valid = n - table[name].null_count
                assert file.scan([name], filter=pc.field(name).is_valid()).count() == valid


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_columns_of_every_kind_come_back(path: str, pattern: str, compression: str) -> None:
    n = 40_000
    columns = {kind: column(kind, pattern, n, 7) for kind in KINDS}
    table = pa.table({**columns, "lists": lists(n, 7)})
    write(path, table, compression)
    assert parts_in_pieces(path) > 0
    check(path, table, 3)
    assert_same_table(read_table(path), table)


@settings(max_examples=15)
@given(data=st.data())
def test_columns_of_any_length_come_back(path: str, data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 1_023, 1_025, 3_000, 9_999, 131_073, 140_000]))
    seed = data.draw(st.integers(0, 2**32))
    drawn = data.draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(PATTERNS))),
            min_size=1,
            max_size=4,
        )
    )
    table = pa.table(
        {f"{i}": column(kind, pattern, n, seed) for i, (kind, pattern) in enumerate(drawn)}
    )
    stripe_rows = data.draw(st.sampled_from([2_500, 20_000, 131_072]))
    write(path, table, data.draw(st.sampled_from(COMPRESSIONS)), stripe_rows)
    check(path, table, seed)
    assert verify_file(path).ok


def test_what_is_small_or_alone_stays_whole(path: str) -> None:
    table = pa.table(
        {
            "small": column("ints", "some", 1_500, 1),
            "alone": column("any ints", "none", 1_500, 1),
        }
    )
    write(path, table, "balanced")
    assert parts_in_pieces(path) == 0


def test_it_costs_few_bytes(path: str) -> None:
    """A column with nulls beside the same values without: a bit a row, and 1 % for the pieces."""
    n = 131_072
    whole = nb.write(pa.table({"v": column("ints", "none", n, 1)}), path)
    nulls = nb.write(pa.table({"v": column("ints", "few", n, 1)}), path)
    assert nulls.size_bytes <= 1.01 * (whole.size_bytes + n / 8 * 17 / 16)


def test_values_that_can_be_handed_on_stay_whole(path: str) -> None:
    """Plain values are scanned without a copy, with nulls or without."""
    n = 131_072
    for pattern in ("none", "few"):
        nb.write(pa.table({"v": column("any ints", pattern, n, 1)}), path)
        with nb.open(path) as file:
            batch = next(iter(file.scan(["v"])))
            before = pa.total_allocated_bytes()
            again = next(iter(file.scan(["v"])))
            assert again.equals(batch)
            assert pa.total_allocated_bytes() - before < 4 * n


def test_it_stays_when_indexes_change(path: str) -> None:
    table = pa.table({"v": column("text", "some", 20_000, 1), "w": column("ids", "few", 20_000, 1)})
    write(path, table, "balanced")
    assert_stays_when_indexes_change(path, table, "v")


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_bytes_do_not_depend_on_threads(tmp_path: Path, compression: str) -> None:
    table = pa.table({kind: column(kind, "some", 20_000, 1) for kind in KINDS})
    found = set()
    for threads in (1, 2, 5):
        path = tmp_path / f"{threads}.nimble"
        options = nb.WriteOptions(compression=compression, threads=threads)
        nb.write(table, path, options=options)
        found.add(path.read_bytes())
    assert len(found) == 1
