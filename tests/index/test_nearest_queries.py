"""Queries and recalls of every type: those that are not numbers are refused, not misread."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

X = np.random.default_rng(1).normal(size=(200, 4))
MASKED = np.ma.masked_array(X[0], mask=[True, False, False, False])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> nb.File:
    path = tmp_path_factory.mktemp("queries") / "a.nimble"
    column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 4)
    nb.write(pa.table({"id": range(200), "v": column}), path, indexes=[nb.VectorIndex("v")])
    return nb.open(path)


@pytest.mark.parametrize(
    "query",
    [
        [10**400] * 4,
        [[10**400] * 4] * 2,
        ["1"] * 4,
        [b"1"] * 4,
        [1.0, "2", 3.0, 4.0],
        np.array(["1", 2, 3, 4], dtype=object),
        pa.array(["1"] * 4),
        pa.array([["1"] * 4]),
        MASKED,
        MASKED.astype(np.float32),
        [MASKED, MASKED],
        np.ma.masked_array(X[:2], mask=[[0, 0, 0, 0], [0, 1, 0, 0]]),
        np.zeros(4, "M8[s]"),
        np.zeros(4, "m8[s]"),
        np.array([np.datetime64(1, "s")] * 4, dtype=object),
        [datetime.date(2020, 1, 1)] * 4,
        pa.array([1, 2, 3, 4], pa.timestamp("s")),
        X[0] * 1j,
        [1j] * 4,
        np.array([1j, 2, 3, 4], dtype=object),
        [1.0, None, 3.0, 4.0],
        [X[0].tolist(), None],
        {"a": 1},
        "1234",
    ],
    ids=repr,
)
def test_queries_that_are_not_numbers_are_refused(file: nb.File, query: Any) -> None:
    # numpy reads text and times as numbers, and drops masks and imaginary parts. Integers that no
    # double can hold raised an OverflowError.
    for exact in (False, True):
        with pytest.raises(nb.InvalidArgumentError, match="query: "):
            file.nearest(query, k=2, exact=exact)


def test_all_kinds_of_numbers_are_accepted(file: nb.File) -> None:
    for numbers in (
        [1, 2, 3, 10**30],
        [Decimal("1.5"), Fraction(1, 3), np.float32(2), True],
        np.arange(4, dtype=np.uint8),
        np.arange(4, dtype=np.float16),
        np.ma.masked_array(X[0]),
        range(4),
        pa.array([Decimal("1.5")] * 4),
        pa.scalar([1.0, 2.0, 3.0, 4.0]),
    ):
        asked = numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
        if isinstance(asked, pa.Array | pa.Scalar):
            asked = asked.to_pylist() if isinstance(asked, pa.Array) else asked.as_py()
        query = [float(number) for number in asked]
        expected = np.argsort(((X - query) ** 2).sum(axis=1), kind="stable")[:3].tolist()
        assert file.nearest(numbers, k=3)["id"].to_pylist() == expected
        assert file.nearest(query, k=3)["id"].to_pylist() == expected


def test_recalls_of_numpy_are_accepted(file: nb.File) -> None:
    expected = file.nearest(X[3], k=5)
    for recall in (np.float32(0.9), np.float64(0.9), np.float16(0.5), np.float32(1), np.int64(1)):
        assert file.nearest(X[3], k=5, recall=recall).equals(expected)
    for bad in (np.float32("nan"), np.float32(1.5), True, np.True_, "1", 0.5j, np.complex64(0.5)):
        with pytest.raises(nb.InvalidArgumentError, match="recall must be"):
            file.nearest(X[3], recall=bad)


def test_recall_1_is_exact(file: nb.File) -> None:
    # The metric of the index was demanded, although the index is not used.
    for metric in ("l2", "cosine", "dot"):
        exact = file.nearest(X[3], k=5, metric=metric, exact=True)  # type: ignore[arg-type]
        for recall in (1, 1.0):
            found = file.nearest(X[3], k=5, metric=metric, recall=recall)  # type: ignore[arg-type]
            assert found.equals(exact)
            plan = file.explain(nearest=X[3], metric=metric, recall=recall)  # type: ignore[arg-type]
            assert (plan["why"], plan["files by lists"]) == ("recall=1", 0)
    with pytest.raises(nb.InvalidArgumentError, match="exact=True"):
        file.nearest(X[3], metric="cosine", recall=0.999)


def test_recall_1_reads_nothing_of_the_index(tmp_path: Path) -> None:
    column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 4)
    rows, path = pa.table({"id": range(200), "v": column}), tmp_path / "a.nimble"
    nb.write(rows, path, indexes=[nb.VectorIndex("v", metric="dot")])
    bad = bytearray(path.read_bytes())
    bad[bad.rindex(b"NPYV") + 9] ^= 255
    with nb.open(bytes(bad)) as damaged:
        exact = damaged.nearest(X[0], metric="l2", exact=True)
        assert damaged.nearest(X[0], metric="l2", recall=1).equals(exact)
        with pytest.raises(nb.NimbleError):
            damaged.nearest(X[0], metric="l2", recall=0.9)
