"""RowSet against lists of numbers, and sources of sources with deleted rows against a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from dataset_files import make_dataset
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb
from nimblepy import _core
from nimblepy.file.file import File
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.files.source import FilesSource, key_order
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.rows import source_of
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.source import RowSource
from nimblepy.schema.types import as_sort_keys

pytestmark = pytest.mark.model

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=8)


def _set(ranges: list[tuple[int, int]], single: bool) -> tuple[RowSet, list[tuple[int, int]]]:
    """A set with a probe for each range, and its (probe, row) pairs."""
    pairs = [(i, row) for i, (begin, n) in enumerate(ranges) for row in range(begin, begin + n)]
    array = np.array([(begin, begin + n) for begin, n in ranges], dtype=np.uint64).reshape(-1, 2)
    rows = RowSet.of_ranges(array, np.arange(len(ranges)), len(ranges))
    return (rows.expand() if single else rows), pairs


def _pairs(rows: RowSet) -> list[tuple[int, int]]:
    single = rows.expand()
    assert single.probe is not None
    return list(zip(single.probe.tolist(), single.begin.tolist(), strict=True))


@given(ranges=RANGES, other=RANGES, single=st.booleans(), first=st.integers(0, 30), data=st.data())
def test_row_sets_are_lists_of_rows(
    ranges: Any, other: Any, single: bool, first: int, data: Any
) -> None:
    rows, pairs = _set(ranges, single)
    deleted, gone = _set(other, False)
    there = {row for _, row in gone}
    assert rows.num_rows == len(pairs)
    assert _pairs(rows) == pairs
    assert rows.counts.tolist() == [n for _, n in ranges]
    last = data.draw(st.integers(first, 40))
    assert _pairs(rows.slice(first, last)) == pairs[first:last]
    assert _pairs(rows.slice(first, None)) == pairs[first:]
    assert _pairs(rows.backwards()) == pairs[::-1]
    assert _pairs(rows.minus(deleted)) == [p for p in pairs if p[1] not in there]
    bitmap = _core.RowBitmap(deleted.expand().begin)
    assert _pairs(rows.minus(bitmap)) == [p for p in pairs if p[1] not in there]
    assert len(bitmap) == len(there)
    assert bitmap.rows().tolist() == sorted(there)
    assert _pairs(rows.intersect(deleted)) == [p for p in pairs if p[1] in there]
    assert deleted.merged().rows.tolist() == sorted(there)
    if pairs:
        numbers = data.draw(st.lists(st.integers(0, len(pairs) - 1), max_size=10))
        picked = rows.pick(np.array(numbers, dtype=np.uint64))
        assert _pairs(picked) == [pairs[n] for n in numbers]


def _files(folder: Path, tables: list[pa.Table], key: Any, **how: Any) -> list[File]:
    files = []
    for i, table in enumerate(tables):
        nb.write(table, folder / f"{i}.nimble", cluster_by=key, **how)
        files.append(nb.open(folder / f"{i}.nimble"))
    return files


def _bounds(files: list[File], keys: Any) -> FileBounds:
    ends = []
    for file in files:
        names = [key.column for key in keys]
        batch = file.take([0, file.num_rows - 1], names).combine_chunks().to_batches()[0]
        ends.append(EncodedKeys(batch, keys).to_list())
    lower, upper = (pa.array(side, pa.binary()) for side in zip(*ends, strict=True))
    return FileBounds(lower, upper)


class Sources(FilesSource):
    """Files that are open already, some of their rows deleted."""

    def __init__(
        self,
        files: list[File],
        keys: Any,
        *,
        bounds: FileBounds | None = None,
        deleted: dict[int, _core.RowBitmap] | None = None,
    ) -> None:
        super().__init__()
        self._files, self._keys, self._deleted = files, keys, deleted or {}
        self.num_files, self.bounds = len(files), bounds

    schema = property(lambda self: self._files[0].schema)
    cluster_by = property(lambda self: list(self._keys))
    size_bytes = property(lambda self: sum(file.size_bytes for file in self._files))
    io_stats = property(lambda self: self._files[0].io_stats)

    @property
    def first_rows(self) -> Any:
        gone = [len(self._deleted.get(i, ())) for i in range(self.num_files)]
        counts = [f.num_rows - g for f, g in zip(self._files, gone, strict=True)]
        return np.cumsum([0, *counts])

    def child(self, file: int) -> RowSource:
        return source_of(self._files[file])

    def deleted(self, file: int) -> _core.RowBitmap | None:
        return self._deleted.get(file)

    def reset_io_stats(self) -> None:
        for file in self._files:
            file.reset_io_stats()

    def close(self) -> None:
        for file in self._files:
            file.close()


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("with_bounds", [False, True])
def test_deleted_rows_are_in_no_answer(tmp_path: Path, overlap: bool, with_bounds: bool) -> None:
    rng = np.random.default_rng(5)
    k = np.sort(rng.integers(0, 60, 300))
    table = pa.table({"k": k, "s": [f"t{i % 7}" for i in range(300)], "i": np.arange(300)})
    at = [np.arange(p, 300, 3) for p in range(3)] if overlap else np.split(np.arange(300), 3)
    tables = [table.take(a) for a in at]
    keys = as_sort_keys("k")
    files = _files(tmp_path, tables, "k", indexes=[nb.HashIndex("s"), nb.SortedIndex("i")])
    dead = {0: [0, 5, 6, 7, 99], 2: list(range(10, 60))}
    deleted = {i: _core.RowBitmap(np.array(rows, dtype=np.uint64)) for i, rows in dead.items()}
    bounds = _bounds(files, keys) if with_bounds and not overlap else None
    many = SourceHandle(Sources(files, keys, bounds=bounds, deleted=deleted))
    left = [
        [row for j, row in enumerate(part.to_pylist()) if j not in dead.get(i, [])]
        for i, part in enumerate(tables)
    ]
    live = [row for part in left for row in part]

    assert many.num_rows == len(live) == many.count_rows()
    assert many.to_table().to_pylist() == live
    assert many.scan(limit=100).to_table().to_pylist() == live[:100]
    assert many.scan(row_range=(30, 77)).to_table().to_pylist() == live[30:77]
    for text, test in (("i < 130", lambda r: r["i"] < 130), ("s = 't3'", lambda r: r["s"] == "t3"),
                       ("i * 2 > 400", lambda r: r["i"] > 200)):  # fmt: skip
        assert many.to_table(filter=text).to_pylist() == [r for r in live if test(r)]
        assert many.count_rows(text) == sum(map(test, live))
    probes = [3, 59, -1, 20, 3]
    want = [r for p in probes for r in live if r["k"] == p]
    assert many.lookup(probes).to_pylist() == want
    assert many.count(probes).to_pylist() == [sum(r["k"] == p for r in live) for p in probes]
    assert many.contains([3, -1]).to_pylist() == [any(r["k"] == 3 for r in live), False]
    assert many.lookup(["t3"], on="s").to_pylist() == [r for r in live if r["s"] == "t3"]
    for row in (table.slice(j, 1).to_pylist()[0] for j in range(0, 300, 37)):
        alive = row in live
        assert many.get(row["i"], on="i") == (row if alive else None)
    ordered = sorted(live, key=lambda r: r["k"])
    inside = [r for r in ordered if 5 <= r["k"] < 40]
    assert many.range(5, 40).to_pylist() == inside
    assert many.range(5, 40, limit=9).to_pylist() == inside[:9]
    assert many.range(5, 40, reverse=True).to_pylist() == inside[::-1]
    assert many.range(5, 40, reverse=True, limit=70).to_pylist() == inside[::-1][:70]
    by_i = sorted((r for r in live if 50 <= r["i"] < 250), key=lambda r: r["i"])
    assert many.range(50, 250, on="i").to_pylist() == by_i
    joined = many.index_join(pa.table({"k": probes}), on="k", how="left", columns=["i"])
    assert joined.column("i").drop_null().to_pylist() == [r["i"] for r in want]
    numbers = many.row_ranges([3, 20])
    rows = [n for r in numbers.to_pylist() for n in range(r["begin"], r["end"])]
    assert many.take(rows).to_pylist() == [r for p in (3, 20) for r in live if r["k"] == p]
    assert many.take([0, len(live) - 1, 7]).to_pylist() == [live[0], live[-1], live[7]]


def test_what_is_left_of_a_file_is_numbered_anew(tmp_path: Path) -> None:
    files = _files(tmp_path, [pa.table({"k": np.arange(20)})], "k")
    gone = _core.RowBitmap(np.arange(5, 10, dtype=np.uint64))
    left = SourceHandle(Sources(files, as_sort_keys("k"), deleted={0: gone}))
    assert left.num_rows == 15
    assert left.take([4, 5]).column("k").to_pylist() == [4, 10]
    assert left.row_ranges([12, 7, 3]).to_pydict() == {
        "probe_row": [0, 2], "begin": [7, 3], "end": [8, 4],
    }  # fmt: skip
    assert left.get(7) is None
    assert left.get(12) == {"k": 12}
    assert left.range(3, 12, limit=3).column("k").to_pylist() == [3, 4, 10]
    assert left.count([7, 12]).to_pylist() == [0, 1]


@pytest.mark.parametrize("key", ["k", nb.SortKey("k", descending=True)])
@pytest.mark.parametrize("text", [False, True])
def test_backwards_is_exactly_reversed_over_overlapping_files(
    tmp_path: Path, key: Any, text: bool
) -> None:
    """Equal keys of several files used to keep their order, so limit=1 was not the last row."""
    rng = np.random.default_rng(7)
    tables = []
    for i in range(3):
        k = rng.integers(0, 6, 20)
        values = pa.array([f"{'x' * int(v)}" for v in k]) if text else pa.array(k)
        tables.append(pa.table({"k": values, "id": np.arange(20) + 100 * i}))
    ds = make_dataset(tmp_path, tables, [key], indexes=[nb.SortedIndex("id")])
    forward = ds.range().column("id").to_pylist()
    assert sorted(forward) == sorted(ds.to_table().column("id").to_pylist())
    for limit in (None, 1, 7, 59, 60, 100):
        back = ds.range(reverse=True, limit=limit).column("id").to_pylist()
        assert back == forward[::-1][:limit]
        assert ds.range(limit=limit).column("id").to_pylist() == forward[:limit]
    value = tables[0].column("k")[3].as_py()
    same = ds.prefix(value).column("id").to_pylist()
    assert ds.prefix(value, reverse=True).column("id").to_pylist() == same[::-1]
    by_id = ds.range(50, 215, on="id").column("id").to_pylist()
    assert by_id == [*range(100, 120), *range(200, 215)]
    back = ds.range(50, 215, on="id", reverse=True, limit=18).column("id").to_pylist()
    assert back == by_id[::-1][:18]


def test_limits_of_overlapping_files_are_applied_before_keys_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [pa.table({"k": np.arange(1000), "id": np.arange(1000) + i}) for i in range(3)]
    ds = make_dataset(tmp_path, tables, "k")
    read: list[int] = []
    real = type(ds._current).read

    def counted(self: Any, rows: RowSet, names: Any) -> pa.Table:
        read.append(rows.num_rows)
        return real(self, rows, names)

    monkeypatch.setattr(type(ds._current), "read", counted)
    assert ds.range(limit=5).column("k").to_pylist() == [0, 0, 0, 1, 1]
    assert max(read) <= 15


def test_keys_in_several_chunks_are_all_ordered() -> None:
    """Rows whose keys did not fit in one array used to be lost."""
    keys = as_sort_keys("k")
    numbers = pa.table({"k": pa.chunked_array([[3, 1], [2], [], [0, 1]])})
    assert key_order(numbers, keys, False).tolist() == [3, 1, 4, 2, 0]
    assert key_order(numbers, keys, True).tolist() == [0, 2, 1, 4, 3]
    texts = pa.table({"k": pa.chunked_array([["c", "aa"], ["b", "aa"]])})
    assert key_order(texts, keys, False).tolist() == [1, 3, 2, 0]
    assert key_order(texts, keys, True).tolist() == [0, 2, 1, 3]


def test_an_index_of_another_order_is_not_mixed_in(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2], "v": [1, 2]})
    down = nb.SortedIndex(nb.SortKey("v", descending=True))
    nb.write(table, tmp_path / "0.nimble", cluster_by="k", indexes=[nb.SortedIndex("v")])
    nb.write(table, tmp_path / "1.nimble", cluster_by="k", indexes=[down])
    ds = nb.open_dataset(tmp_path)
    assert ds.lookup([2], on="v").num_rows == 2
    with pytest.raises(nb.IndexUnavailableError, match="order"):
        ds.range(on="v")


def test_an_index_in_some_files_only_is_no_index_of_the_dataset(tmp_path: Path) -> None:
    """The error used to say "indexes of this file", of a dataset."""
    table = pa.table({"k": [1, 2], "v": [1, 2]})
    for i in range(4):
        nb.write(table, tmp_path / f"{i}.nimble", cluster_by="k")
    nb.add_index(tmp_path / "2.nimble", nb.SortedIndex("v"))
    ds = nb.open_dataset(tmp_path)
    missing = r"no index on \(v\) in 3 of 4 files: 0.nimble, 1.nimble, 3.nimble; nimblepy.add_index"
    for ask in (
        lambda: ds.get(1, on="v"),
        lambda: ds.lookup([1], on="v"),
        lambda: ds.count([1], on="v"),
        lambda: ds.range(1, 2, on="v"),
        lambda: ds.prefix(1, on="v"),
        lambda: ds.explain([1], on="v"),
        lambda: ds.index_join(pa.table({"v": [1]}), on="v"),
    ):
        with pytest.raises(nb.IndexUnavailableError, match=missing):
            ask()
    assert [info.kind for info in ds.indexes] == ["cluster"]
    for i in (0, 1, 3):
        nb.add_index(tmp_path / f"{i}.nimble", nb.HashIndex("v"))
    ds.refresh()
    assert ds.count([1], on="v").to_pylist() == [4]
    with pytest.raises(nb.IndexUnavailableError, match="in 3 of 4 files"):
        ds.range(1, 2, on="v")
    nb.drop_index(tmp_path / "2.nimble", "v")
    for i in (0, 1, 3):
        nb.drop_index(tmp_path / f"{i}.nimble", "v")
    with pytest.raises(nb.IndexUnavailableError, match=r"v\); indexes: cluster \(k\)"):
        nb.open_dataset(tmp_path).lookup([1], on="v")
