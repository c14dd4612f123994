"""Values of numpy, and values that no Arrow type has: none is lost or changed without a word."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer


def test_strings_of_numpy_are_not_cut_at_a_nul(tmp_path: Path) -> None:
    # pyarrow ends a string of a fixed-width array at its first NUL byte.
    digests = [hashlib.md5(str(i).encode()).digest().rstrip(b"\0") for i in range(400)]
    assert any(b"\0" in digest for digest in digests)
    data = {"k": np.array(digests), "t": np.array([f"a\0{i}" for i in range(400)])}
    with_lists = {"k": digests, "t": [f"a\0{i}" for i in range(400)]}
    nb.write(data, tmp_path / "f.nimble", cluster_by=["k"])
    with nb.open(tmp_path / "f.nimble") as file:
        assert sorted(file.to_table().to_pylist(), key=lambda row: row["t"]) == sorted(
            pa.table(with_lists).to_pylist(), key=lambda row: row["t"]
        )
        assert file.lookup(np.array(digests)).num_rows == 400
        assert file.contains(np.array(digests)).true_count == 400
        found = file.to_table(filter="k IN $k", params={"k": np.array(digests)})
        assert found.num_rows == 400


@pytest.mark.parametrize(
    "data",
    [{"k": [1, 2**64]}, [{"k": 2**64}], [{"k": pd.NaT, "n": 1}]],
    ids=["a column", "rows", "NaT"],
)
def test_values_that_arrow_refuses(tmp_path: Path, data: object) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="data: "):
        nb.write(data, tmp_path / "f.nimble")


@pytest.fixture
def three(tmp_path: Path) -> nb.File:
    nb.write({"a": [1, 2, 3], "b": [10, 20, 30]}, tmp_path / "three.nimble", cluster_by=["a", "b"])
    return nb.open(tmp_path / "three.nimble")


def test_a_stream_that_fails_is_not_empty(three: nb.File) -> None:
    """It was read as no keys, so that NOT IN passed every row."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise RuntimeError("the disk is gone")

    def failing() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())

    for ask in (
        lambda: three.lookup(failing()),
        lambda: three.contains(failing()),
        lambda: three.take(failing()),
        lambda: three.to_table(filter="a NOT IN $k", params={"k": failing()}),
        lambda: three.to_table(filter="a IN $k", params={"k": failing()}),
    ):
        with pytest.raises((RuntimeError, nb.InvalidArgumentError), match="disk is gone"):
            ask()


def test_masked_values_are_no_keys(three: nb.File) -> None:
    keys = np.ma.array([[1, 10], [2, 20]], mask=[[0, 0], [1, 0]])
    assert three.lookup(keys)["a"].to_pylist() == [1]
    fields = np.ma.array(
        [(1, 10), (2, 20)], mask=[(0, 0), (1, 1)], dtype=[("a", "i8"), ("b", "i8")]
    )
    assert three.lookup(fields)["a"].to_pylist() == [1]
    with pytest.raises(nb.InvalidArgumentError, match="masked"):
        three.take(np.ma.array([0, 1], mask=[0, 1]))


def test_names_of_keys_are_text(three: nb.File) -> None:
    for key in ({1: 2}, {"a": 1, 2: 2}, {None: 1}, {}):
        with pytest.raises(nb.NimbleError):
            three.lookup([key])


@pytest.mark.parametrize("value", [[2**70], "\ud800"])
def test_parameters_that_arrow_refuses(three: nb.File, value: object) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"filter .*a = \$p"):
        three.to_table(filter="a = $p", params={"p": value})


@pytest.mark.parametrize("between", [5, {"b": None}, {"b": (5, None)}, ("b", "x", "y"), {"b": "x"}])
def test_ranges_of_a_join_are_names(three: nb.File, between: object) -> None:
    probe = pa.table({"a": [1], "x": [1]})
    with pytest.raises(nb.InvalidArgumentError, match="between: expected"):
        three.index_join(probe, on="a", between=between)  # type: ignore[arg-type]


def test_periods_are_no_integers(three: nb.File) -> None:
    frame = pd.DataFrame({"a": pd.PeriodIndex(["1970-01-02"], freq="D")})
    for ask in (
        lambda: three.lookup(frame),
        lambda: three.take(frame),
        lambda: three.to_table(filter="a IN $p", params={"p": frame}),
    ):
        with pytest.raises(nb.InvalidArgumentError, match="cannot be compared"):
            ask()
