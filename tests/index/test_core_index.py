"""The core's Index: the cluster index, a hash index and a sorted one answer the same questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy import _core
from nimblepy.errors import IndexUnavailableError, InvalidArgumentError

pytestmark = pytest.mark.model

Store = Callable[..., Any]

KEYS = [7, 3, None, 3, 9, 3, None, -1, 7, 3]
TABLE = pa.table({"k": pa.array(KEYS, pa.int64()), "row": range(len(KEYS))})
KINDS: dict[str, dict[str, Any]] = {
    "cluster": {"cluster_by": "k"},
    "hash": {"indexes": [nb.HashIndex("k")]},
    "sorted": {"indexes": [nb.SortedIndex("k")]},
}
PROBES = [3, 8, None, 7, 3, -1]


def batch(values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(values, pa.int64())})


@pytest.fixture(params=[(kind, mmap) for kind in KINDS for mmap in (True, False)], ids=str)
def asked(request: Any, store: Store) -> tuple[Any, Any, list[Any]]:
    """A file, its index, and the keys of its rows in file order."""
    kind, mmap = request.param
    file = store(TABLE, open_with={"mmap": mmap}, **KINDS[kind])
    index = _core.Index(file._file.handle.core, None if kind == "cluster" else 0)
    assert index.ordered == (kind != "hash")
    return file, index, file.to_table(["k"])["k"].to_pylist()


@pytest.mark.parametrize("null_equals", [False, True])
@pytest.mark.parametrize("impossible", [None, [False, False, False, True, True, False]])
def test_every_index_finds_the_rows_of_each_key(
    asked: Any, null_equals: bool, impossible: list[bool] | None
) -> None:
    file, index, keys = asked
    marks = None if impossible is None else np.array(impossible)
    want = [
        []
        if (probe is None and not null_equals) or (impossible and impossible[i])
        else [row for row, key in enumerate(keys) if key == probe]
        for i, probe in enumerate(PROBES)
    ]
    pairs = [(row, i) for i, rows in enumerate(want) for row in rows]
    rows, numbers = index.rows(batch(PROBES), null_equals, marks)
    assert list(zip(rows.tolist(), numbers.tolist(), strict=True)) == pairs
    ranges, of_key = index.find(batch(PROBES), null_equals, marks)
    spelled = [
        (row, i)
        for (begin, end), i in zip(ranges.tolist(), of_key.tolist(), strict=True)
        for row in range(begin, end)
    ]
    assert spelled == pairs
    assert (ranges[:, 0] < ranges[:, 1]).all()
    assert index.count(batch(PROBES), null_equals, marks).tolist() == [len(w) for w in want]

    projection = _core.Projection(
        file._file.handle.core,
        [([file.schema.get_field_index(name)], name) for name in ("row", "k")],
    )
    schema, array, found = index.lookup(projection, batch(PROBES), null_equals, marks, 100)
    table = pa.RecordBatch._import_from_c_capsule(schema, array)
    assert found.tolist() == [i for _, i in pairs]
    assert table["k"].to_pylist() == [keys[row] for row, _ in pairs]
    all_rows = file.to_table(["row"])["row"].to_pylist()
    assert table["row"].to_pylist() == [all_rows[row] for row, _ in pairs]
    few = index.lookup(projection, batch(PROBES), null_equals, marks, len(pairs) - 1)
    assert few is None


def test_find_first_is_the_first_row_of_the_file(asked: Any) -> None:
    _, index, keys = asked
    for probe in (3, 8, 7, -1):
        want = keys.index(probe) if probe in keys else None
        assert index.find_first(batch([probe])) == want
    assert index.find_first(batch([None])) is None
    assert index.find_first(batch([None]), null_equals=True) == keys.index(None)
    with pytest.raises(InvalidArgumentError, match="one key"):
        index.find_first(batch([1, 2]))


def test_candidates_are_rows_ascending_and_none_is_missing(asked: Any) -> None:
    _, index, keys = asked
    rows = index.candidates(batch([7, 3, 3])).tolist()
    assert rows == sorted(set(rows))
    assert {row for row, key in enumerate(keys) if key in (7, 3)} <= set(rows)


def test_places_are_positions_in_key_order(asked: Any) -> None:
    _, index, keys = asked
    if not index.ordered:
        for ask in (
            lambda: index.places(batch([3])),
            lambda: index.range(None, True, None, True),
            lambda: index.prefix(batch([3])),
            lambda: index.rows_at(np.array([[0, 1]], np.uint64)),
        ):
            with pytest.raises(IndexUnavailableError, match="order"):
                ask()
        return
    order = sorted(range(len(keys)), key=lambda row: (keys[row] is None, keys[row] or 0, row))
    everything = np.array([[0, len(keys)]], np.uint64)
    assert index.rows_at(everything).tolist() == order
    places = index.places(batch([3, 8, -5])).tolist()
    ordered = [keys[row] for row in order]
    assert places[0] == [ordered.index(3), ordered.index(3) + ordered.count(3)]
    assert places[1] == [ordered.index(9)] * 2
    assert places[2][0] == places[2][1]
    assert index.prefix(batch([3])) == tuple(places[0])
    assert index.range(batch([3]), True, batch([9]), False) == (
        ordered.index(3),
        ordered.index(9),
    )
    with pytest.raises(InvalidArgumentError, match="places"):
        index.rows_at(everything + np.uint64(1))


def test_an_index_that_a_file_lacks_is_refused(store: Store) -> None:
    file = store(TABLE)
    for number in (None, 0):
        with pytest.raises(IndexUnavailableError):
            _core.Index(file._file.handle.core, number)
    other = store(TABLE, cluster_by="k")
    index = _core.Index(other._file.handle.core)
    with pytest.raises(InvalidArgumentError, match="another file"):
        index.lookup(_core.Projection(file._file.handle.core, None), batch([3]), False, None, 10)
    with pytest.raises(InvalidArgumentError, match="columns"):
        index.find(pa.record_batch({"a": [1], "b": [2]}))
