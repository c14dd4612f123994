"""Nearest rows in files of unusual sizes and shapes: few rows, repeated rows, many stripes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

WIDE = 2048  # 32 rows have enough numbers for lists, and 512 rows for a search of lists


def _table(x: Any) -> pa.Table:
    values = pa.array(np.ascontiguousarray(x, dtype=np.float32).ravel())
    column = pa.FixedSizeListArray.from_arrays(values, x.shape[1])
    return pa.table({"id": np.arange(len(x)), "v": column})


def _distances(x: Any, query: Any, k: int) -> list[float]:
    """The least squared distances."""
    squares = ((x.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1)
    return sorted(squares.tolist())[:k]


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 31, 32, 33, 511, 512, 513])
def test_every_number_of_rows(tmp_path: Path, rows: int) -> None:
    random = np.random.default_rng(rows)
    x = random.normal(size=(rows, WIDE)).astype(np.float32)
    nb.write(_table(x), tmp_path / "a.nimble", cluster_by="id", indexes=[nb.VectorIndex("v")])
    query = random.normal(size=WIDE).astype(np.float32)
    for mmap in (True, False):
        with nb.open(tmp_path / "a.nimble", mmap=mmap) as file:
            for k in (10, 2 * rows + 1):
                hits = file.nearest(query, k)
                found = hits["_distance"].to_pylist()
                assert len(found) == min(k, rows)
                assert hits["id"].to_pylist() == list(dict.fromkeys(hits["id"].to_pylist()))
                wanted = _distances(x, query, k)
                same = sum(a == pytest.approx(b) for a, b in zip(found, wanted, strict=True))
                assert same == len(wanted) or rows >= 512
                exact = file.nearest(query, k, exact=True)
                assert exact["_distance"].to_pylist() == pytest.approx(wanted)


@pytest.mark.parametrize("kind", ["two", "half"])
def test_repeated_rows(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(3)
    x = random.normal(size=(1_100, 1024)).astype(np.float32)
    if kind == "two":
        x = x[random.integers(0, 2, len(x))]
    else:
        x[1::2] = x[::2]
    nb.write(_table(x), tmp_path / "a.nimble", cluster_by="id", indexes=[nb.VectorIndex("v")])
    with nb.open(tmp_path / "a.nimble") as file:
        for i in (0, 5):
            hits = file.nearest(x[i], 2)
            assert hits["_distance"].to_pylist() == [0, 0]
            equal = np.flatnonzero((x == x[i]).all(axis=1))
            exact = file.nearest(x[i], 2, exact=True)
            assert exact["id"].to_pylist() == equal[:2].tolist()
            assert {*hits["id"].to_pylist()} <= {*equal.tolist()}


@pytest.mark.parametrize("with_nulls", [False, True])
@pytest.mark.parametrize("kind", ["floats", "whole"])
def test_rows_across_segments_and_stripes(tmp_path: Path, kind: str, with_nulls: bool) -> None:
    # A segment has 131,072 values, so it ends within a row of 96 numbers.
    random = np.random.default_rng(4)
    x = random.normal(size=(11_000, 96)).astype(np.float32)
    if kind == "whole":
        x = np.round(9 * x)  # encoded, not plain
    table = _table(x)
    allowed = np.ones(len(x), dtype=bool)
    if with_nulls:
        allowed = np.arange(len(x)) % 50 != 7
        kept = pa.array(
            [v if ok else None for v, ok in zip(x, allowed, strict=True)],
            pa.list_(pa.float32(), 96),
        )
        table = table.set_column(1, "v", kept)
    place = tmp_path / "a.nimble"
    nb.write(
        table,
        place,
        cluster_by="id",
        indexes=[nb.VectorIndex("v")],
        options=nb.WriteOptions(stripe_bytes=1 << 20),
    )
    numbers = np.arange(len(x))
    with nb.open(place) as file, nb.open(place, mmap=False) as read:
        found = 0
        for query in random.normal(size=(20, 96)).astype(np.float32) * (
            9 if kind == "whole" else 1
        ):
            hits = file.nearest(query, 10)
            assert hits.equals(read.nearest(query, 10))
            wanted = _distances(x[allowed], query, 10)
            assert file.nearest(query, 10, exact=True)["_distance"].to_pylist() == pytest.approx(
                wanted, rel=1e-6
            )
            found += sum(d <= wanted[-1] * (1 + 1e-6) for d in hits["_distance"].to_pylist())
            part = allowed & (numbers >= 1_000) & (numbers < 4_000)
            some = file.nearest(query, 10, lower=1_000, upper=4_000)
            assert some["_distance"].to_pylist() == pytest.approx(
                _distances(x[part], query, 10), rel=1e-6
            )
        assert found >= 0.9 * 200  # .95 is promised; 200 rows are a small sample


def test_nearly_all_rows_deleted(tmp_path: Path) -> None:
    x = np.random.default_rng(5).normal(size=(2_200, 512)).astype(np.float32)
    rows = _table(x)
    table = nb.connect(tmp_path).create_table(
        "a.b", rows.schema, primary_key=["id"], indexes=[nb.VectorIndex("v")]
    )
    table.append(rows)
    query = x[0] + 1
    assert table.nearest(query, 10).num_rows == 10
    table.delete("id % 100 <> 3")
    left = np.arange(3, len(x), 100)
    for exact in (False, True):
        hits = table.nearest(query, 10, exact=exact)
        assert {*hits["id"].to_pylist()} <= {*left.tolist()}
        assert hits["_distance"].to_pylist() == pytest.approx(_distances(x[left], query, 10))


def test_a_part_of_the_key_of_two_million_numbers_is_compared(tmp_path: Path) -> None:
    # Lists promise less for rows that are stored together but are not near each other.
    x = np.random.default_rng(6).normal(size=(20_000, 96)).astype(np.float32)
    x = np.tile(x, 10)  # 960 numbers
    table = _table(x).append_column("group", pa.array(np.arange(len(x)) // 1_200))
    nb.write(table, tmp_path / "a.nimble", cluster_by="group", indexes=[nb.VectorIndex("v")])
    with nb.open(tmp_path / "a.nimble") as file:
        plan = file.explain(nearest=x[0], prefix=5)
        assert (plan["rows allowed"], plan["files compared"]) == (1_200, 1)
        assert file.explain(nearest=x[0])["files by lists"] == 1
