"""Faults that a last reading of the house found; each went wrong before."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.rows.rowset import RowSet

pytestmark = pytest.mark.sanitizer


def test_columns_and_on_are_no_key_of_the_same_getter(path: str) -> None:
    """The prepared getter of one call was found by another one: wrong columns, wrong rows."""
    table = pa.table({"k": [1, 2, 3], "a": [10, 20, 30]})
    nb.write(table, path, cluster_by="k", indexes=[nb.HashIndex("a")])
    file = nb.open(path)
    assert file.get(2, columns=["a"], on=["k"]) == {"a": 20}
    assert file.get(2, columns=[("a",), ("k",)]) == {"a": 20, "k": 2}
    assert file.get(20, columns=["k"], on="a") == {"k": 2}
    assert file.get(2, columns=[("k",), ("a",)]) == {"k": 2, "a": 20}
    file.get(20, on="a")
    with pytest.raises(nb.InvalidArgumentError, match="columns"):
        file.get(20, columns=[None, "a"])


def test_rows_past_the_end_are_refused(path: str) -> None:
    """They were read from behind the end of what is in memory."""
    nb.write(pa.table({"k": [1]}), path, cluster_by="k")
    with pytest.raises(nb.InvalidArgumentError, match="outside a file of 1 rows"):
        nb.open(path)._current.read(RowSet.of_range(5, 10), None)


def test_bounds_on_a_secondary_index_of_the_columns_in_another_order(tmp_path: Path) -> None:
    """A dataset took the cluster key for the index that a file answers by."""
    for i in range(2):
        table = pa.table({"a": [1, 2, 3], "b": [i, i, i], "v": [0, 1, 2]})
        nb.write(
            table,
            tmp_path / f"{i}.nimble",
            cluster_by=["b", "a"],
            indexes=[nb.SortedIndex(["a", "b"])],
        )
    with nb.open_dataset(tmp_path) as dataset:
        found = dataset.range((2,), (3,), on=["a", "b"])
        assert found.select(["a", "b"]).to_pylist() == [{"a": 2, "b": 0}, {"a": 2, "b": 1}]


@pytest.mark.parametrize("key", [(), {}, []])
def test_a_key_without_values_is_refused(path: str, key: Any) -> None:
    nb.write(pa.table({"a": [1], "b": [2]}), path, cluster_by=["a", "b"])
    with pytest.raises(nb.InvalidArgumentError):
        nb.open(path).get(key)


def test_get_by_leading_columns_is_the_same_on_a_dataset(tmp_path: Path) -> None:
    for i in range(2):
        table = pa.table({"a": [i, i], "b": [1, 2]})
        nb.write(table, tmp_path / f"{i}.nimble", cluster_by=["a", "b"])
    with nb.open_dataset(tmp_path) as dataset:
        assert dataset.get((1,)) == {"a": 1, "b": 1}
        assert dataset.get({"a": 1}) == {"a": 1, "b": 1}
        assert dataset.get((2,)) is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda f: f.get(1, columns=[["a"]]),
        lambda f: f.range(1, 2, columns=[["a"]]),
        lambda f: f.range(1, 2, on=[["a"]]),
        lambda f: f.lookup([1], probe_row=5),
        lambda f: f.take([[1], [1, 2]]),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused_by_name(path: str, ask: Any) -> None:
    nb.write(pa.table({"a": [1]}), path, cluster_by="a")
    with pytest.raises(nb.InvalidArgumentError):
        ask(nb.open(path))


def test_a_closed_file_says_nothing_of_itself(path: str) -> None:
    nb.write(pa.table({"a": [1]}), path, cluster_by="a")
    file = nb.open(path)
    file.close()
    for name in ("schema", "cluster_by", "num_rows"):
        with pytest.raises(nb.InvalidArgumentError, match="closed"):
            getattr(file, name)


def test_a_buffer_with_strides_is_refused(path: str) -> None:
    """Its bytes were taken as if they lay side by side."""
    nb.write(pa.table({"a": [1]}), path, cluster_by="a")

    class Reversed:
        name = "reversed"

        def __init__(self) -> None:
            self.bytes = Path(path).read_bytes()
            self.at = 0

        def seek(self, offset: int, whence: int = 0) -> int:
            self.at = len(self.bytes) + offset if whence == 2 else offset
            return self.at

        def tell(self) -> int:
            return self.at

        def read(self, size: int = -1) -> Any:
            return memoryview(self.bytes[self.at : self.at + size])[::-1]

    with pytest.raises((BufferError, nb.NimbleError)):
        nb.open(Reversed())


def test_repeats_of_a_key_cost_a_hash_index_no_memory(tmp_path: Path) -> None:
    """Rows of a key were kept, with their keys, once for each time it is asked for."""
    table = pa.table({"k": [7] * 50_000})
    path = tmp_path / "t.nimble"
    nb.write(table, path, indexes=[nb.HashIndex("k")])
    with nb.open(path) as file:
        assert file.count([7], on="k").to_pylist() == [50_000]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert set(file.count([7, 8] * 2_000, on="k").to_pylist()) == {50_000, 0}
        gained = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert gained < 100 << 10  # KiB; 3 GiB
