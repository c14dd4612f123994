"""Several indexes on the same columns: `on=` takes sort keys, which say the one that is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

TABLE = pa.table({"a": [1, 2, 1, 1, 2], "b": [3, 9, None, 7, 8], "id": range(5)})
DOWN = nb.SortKey("b", descending=True)
INDEXES = [nb.SortedIndex(["a", "b"]), nb.SortedIndex(["a", DOWN]), nb.HashIndex(["a", "b"])]


def _file(directory: Path) -> nb.File:
    nb.write(TABLE, directory / "one.nimble", indexes=INDEXES)
    return nb.open(directory / "one.nimble")


def _dataset(directory: Path) -> nb.Dataset:
    for i in range(2):
        part = TABLE.filter(pa.array([row % 2 == i for row in range(5)]))
        nb.write(part, directory / f"{i}.nimble", indexes=INDEXES)
    return nb.open_dataset(directory)


@pytest.fixture(params=[_file, _dataset])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Callable[[Path], Any] = request.param
    with made(tmp_path) as found:
        yield found


def test_direction_says_which_index_gives_the_order(rows: Any) -> None:
    def values(found: pa.Table) -> list[int | None]:
        return found["b"].to_pylist()

    up = ["a", nb.SortKey("b")]
    assert values(rows.prefix(1, on=["a", "b"])) == [3, 7, None]
    assert values(rows.prefix(1, on=up)) == [3, 7, None]
    assert values(rows.prefix(1, on=["a", DOWN])) == [7, 3, None]
    assert values(rows.prefix(1, on=["a", DOWN], limit=1)) == [7]
    # bounds are places in the order of that index
    assert values(rows.range((1, 7), (1, 3), on=["a", DOWN], inclusive="[]")) == [7, 3]
    assert rows.range((1, 7), (1, 3), on=up, inclusive="[]").num_rows == 0
    assert values(rows.range(after=(1, 7), on=[nb.SortKey("a"), DOWN], limit=2)) == [3, None]
    found = rows.row_ranges(prefix=1, on=("a", DOWN)).to_pydict()
    assert sum(found["end"]) - sum(found["begin"]) == 3


def test_keys_have_no_direction(rows: Any) -> None:
    assert rows.get((1, 7), on=["a", DOWN])["id"] == 3
    assert rows.count([(2, 8), (2, 1)], on=[nb.SortKey("a", descending=True), "b"]).to_pylist() == [
        1,
        0,
    ]
    assert rows.lookup([2], on=nb.SortKey("a")).num_rows == 2


def test_a_direction_that_no_index_has_is_refused_with_those_that_there_are(rows: Any) -> None:
    with pytest.raises(nb.IndexUnavailableError, match="key order: a, b or a, b desc"):
        rows.range(1, 2, on=[nb.SortKey("a"), nb.SortKey("b", nulls_first=True)])


def test_explain_names_the_index_that_is_used(tmp_path: Path) -> None:
    with _file(tmp_path) as file:
        assert "a, b desc" in str(file.explain(prefix=1, on=["a", DOWN]))
