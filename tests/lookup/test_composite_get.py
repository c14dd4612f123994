"""`get` of keys of several columns: every index, every order of ``on``, in one call to the core."""

from __future__ import annotations

import datetime as dt
import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.rows.compiled import SingleRows

pytestmark = pytest.mark.model

Store = Callable[..., Any]
NAMES = ("a", "b", "c")
INDEXES = {
    "cluster": {"cluster_by": ["a", nb.SortKey("b", descending=True), "c"]},
    "hash": {"indexes": [nb.HashIndex(["a", "b", "c"])]},
    "sorted": {"indexes": [nb.SortedIndex(["a", nb.SortKey("b", nulls_first=True), "c"])]},
}


def _table() -> pa.Table:
    rows = list(itertools.product([1, 2, None], ["x", "xy", "", None], [0.5, -0.0, None]))
    table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=list(NAMES))
    return table.append_column("row", pa.array(range(len(rows))))


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("on", list(itertools.permutations(NAMES)), ids=" ".join)
def test_get_in_any_order_of_columns_finds_the_row(
    store: Store, kind: str, on: tuple[str, ...]
) -> None:
    file = store(_table(), **INDEXES[kind])
    for row in _table().to_pylist():
        key = tuple(row[name] for name in on)
        null = None in key
        assert file.get(key, on=on) == (None if null else row)
        assert file.get(dict(zip(on, key, strict=True)), on=on) == (None if null else row)
        assert file.get(key, on=list(on), null_equals=True) == row
    assert file.get(_absent(on), on=on) is None


def _absent(on: tuple[str, ...]) -> tuple[Any, ...]:
    values = {"a": 7, "b": "x", "c": 0.5}
    return tuple(values[name] for name in on)


@pytest.mark.parametrize("kind", INDEXES)
def test_whole_keys_take_the_prepared_way(store: Store, kind: str) -> None:
    file = store(_table(), **INDEXES[kind])
    for on in (("a", "b", "c"), ("c", "a", "b")):
        assert file.get(_absent(on), ["row"], on=on) is None
        getter = file._current.compiled(SingleRows(("row",), on)).getter()
        first = {"a": 1, "b": "x", "c": 0.5}
        assert getter(tuple(first[name] for name in on)) == {"row": 0}
        # Too few values, too many, of other types: left to Python.
        for key in ((1,), (1, "x", 0.5, 1), 1, "x", [1, "x", 0.5], ("x", "x", "x")):
            assert getter(key) is NotImplemented


@pytest.mark.parametrize("kind", ["cluster", "sorted"])
def test_leading_columns_are_a_prefix(store: Store, kind: str) -> None:
    file = store(_table(), **INDEXES[kind])
    want = {row["row"]: row for row in _table().to_pylist()}
    for on in (["b", "a"], ["a", "b"]):
        key = tuple({"a": 2, "b": "xy"}[name] for name in on)
        found = file.get(key, on=on)
        assert want[found["row"]] == found
        assert (found["a"], found["b"]) == (2, "xy")
    assert file.get(9, on="a") is None
    assert file.get(2, on="a")["a"] == 2


class _Reentrant(io.BytesIO):
    """A file object whose reads look up another key of the same file on the same thread."""

    ask: Callable[[], object] | None = None

    def size(self) -> int:
        return len(self.getbuffer())

    def read_at(self, size: int, offset: int) -> bytes:
        ask, self.ask = self.ask, None
        if ask is not None:
            ask()
            self.ask = ask
        return bytes(self.getbuffer()[offset : offset + size])


@pytest.mark.parametrize("kind", INDEXES)
def test_get_survives_a_get_inside_a_read(store: Store, path: str, kind: str) -> None:
    # The inner get() replaced the outer one's encoded key: it gave the row of another key.
    store(_table(), **INDEXES[kind])
    source = _Reentrant(Path(path).read_bytes())
    file = nb.open(source, cache_bytes=0)
    rows = [row for row in _table().to_pylist() if None not in row.values()]
    other = rows[-1]
    key = tuple(other[name] for name in NAMES)
    assert file.get(key, on=NAMES) == other  # and its group is open
    source.ask = lambda: file.get(key, on=NAMES)
    for row in rows:
        assert file.get(tuple(row[name] for name in NAMES), on=NAMES) == row


def test_a_time_zone_may_get_while_its_key_is_encoded(store: Store) -> None:
    times = [dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (1, 2)]
    table = pa.table({"t": times, "n": [1, 2], "row": [0, 1]})
    file = store(table, cluster_by=["t", "n"])

    class Zone(dt.tzinfo):
        def utcoffset(self, _when: dt.datetime | None) -> dt.timedelta:
            assert file.get((times[1], 2))["row"] == 1
            return dt.timedelta(0)

    assert file.get((times[0].replace(tzinfo=Zone()), 1))["row"] == 0
