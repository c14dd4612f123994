"""What files and datasets have in common: the same checks, the same answers, the same refusals."""

from __future__ import annotations

import inspect
import itertools
import os
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from dataset_files import make_dataset

import nimblepy as nb
from nimblepy.files import source
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.rows import Rows

pytestmark = pytest.mark.sanitizer

TABLE = pa.table(
    {
        "k": np.arange(100) // 2,
        "s": [f"text {i % 10}" for i in range(100)],
        "i": np.arange(100),
    }
)
INDEXES = [nb.SortedIndex("i"), nb.HashIndex("s")]
KINDS = ["file", "one file", "many files"]


def _store(kind: str, folder: Path, table: pa.Table = TABLE) -> Any:
    if kind == "file":
        nb.write(table, folder / "t.nimble", cluster_by="k", indexes=INDEXES)
        return nb.open(folder / "t.nimble")
    n = 1 if kind == "one file" else 4
    step = max(1, table.num_rows // n)
    parts = [table.slice(i * step, step) for i in range(n)]
    return make_dataset(folder / "d", parts, "k", indexes=INDEXES)


@pytest.fixture(params=KINDS)
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return _store(request.param, tmp_path)


def test_files_and_datasets_share_every_reading_method() -> None:
    for name, method in inspect.getmembers(Rows):
        if name.startswith("_") or name == "close" or not callable(method):
            continue
        for kind in (nb.File, nb.Dataset):
            theirs = getattr(kind, name)
            assert inspect.signature(theirs) == inspect.signature(method), name
    public = "get lookup contains count count_rows range prefix row_ranges take scan to_table"
    for name in [*public.split(), "to_pandas", "head", "explain", "index_join"]:
        assert getattr(nb.File, name) is getattr(nb.Dataset, name), name


# A str where a list of names is meant used to be its letters, in one place or another.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda f, c: f.get(3, c),
    "get absent": lambda f, c: f.get(-3, c),
    "lookup": lambda f, c: f.lookup([3], columns=c),
    "range": lambda f, c: f.range(3, 5, columns=c),
    "prefix": lambda f, c: f.prefix(3, columns=c),
    "take": lambda f, c: f.take([3], c),
    "scan": lambda f, c: f.scan(c),
    "to_table": lambda f, c: f.to_table(c),
    "head": lambda f, c: f.head(3, c),
    "explain": lambda f, c: f.explain([3], columns=c),
    "index_join": lambda f, c: f.index_join(pa.table({"k": [3]}), on="k", columns=c),
}


@pytest.mark.parametrize("call", CALLS)
def test_columns_are_lists_of_names_everywhere(rows: Any, call: str) -> None:
    ask = CALLS[call]
    ask(rows, ["k", "s"] if call != "index_join" else ["s"])
    for columns in ("ks", "k", ["zz"], [3], 3, ["s", "s"]):
        with pytest.raises(nb.InvalidArgumentError):
            ask(rows, columns)


def test_columns_of_an_iterator_are_used_once(rows: Any) -> None:
    def names() -> Any:
        return (name for name in ["i"])

    assert rows.to_table(names()).schema.names == ["i"]
    assert rows.get(3, names()) == {"i": 6}
    assert rows.lookup([3], columns=names()).schema.names == ["i"]
    assert rows.take([3], names()).schema.names == ["i"]
    assert rows.range(3, 4, columns=names()).column("i").to_pylist() == [6, 7]
    assert rows.prefix(3, columns=names()).column("i").to_pylist() == [6, 7]
    assert len(rows.index_join(pa.table({"k": [3]}), on="k", columns=names()).schema) == 2


BAD: dict[str, Callable[[Any], Any]] = {
    "negative limit": lambda f: f.range(3, 40, limit=-1),
    "text limit": lambda f: f.range(3, 40, limit="x"),
    "prefix limit": lambda f: f.prefix(3, limit=True),
    "scan limit": lambda f: f.scan(limit=-1),
    "no batch rows": lambda f: f.scan(batch_rows=0),
    "threads": lambda f: f.scan(threads=0),
    "row_range": lambda f: f.scan(row_range=(5, 101)),
    "row_range of a range": lambda f: f.scan(row_range=range(5, 7)),
    "inclusive": lambda f: f.range(3, 4, inclusive="[["),
    "one key of many": lambda f: f.lookup(5),
    "no keys": lambda f: f.lookup(None),
    "contains one": lambda f: f.contains(5),
    "a key of text": lambda f: f.lookup("text"),
    "on a number": lambda f: f.lookup([1], on=5),
    "on a sort key and a number": lambda f: f.lookup([1], on=[nb.SortKey("k"), 5]),
    "on nothing": lambda f: f.lookup([1], on=[]),
    "on twice": lambda f: f.lookup([(1, 1)], on=["k", "k"]),
    "on an unknown column": lambda f: f.lookup([1], on="zz"),
    "probe_row": lambda f: f.lookup([1], probe_row="s"),
    "take beyond": lambda f: f.take([100]),
    "take below": lambda f: f.take([-1]),
    "take text": lambda f: f.take(["1"]),
    "too many values": lambda f: f.range((3, 4), None),
    "keys and bounds": lambda f: f.row_ranges([3], lower=4),
    "bounds and a prefix": lambda f: f.row_ranges(lower=3, prefix=4),
    "explained keys and filter": lambda f: f.explain([3], filter="k = 3"),
    "explained range and filter": lambda f: f.explain(lower=3, filter="k = 3"),
    "explained filter and on": lambda f: f.explain(on="k", filter="k = 3"),
    "sample of a seed below 0": lambda f: f.sample(0.5, seed=-1),
    "sample of half a seed": lambda f: f.sample(0.5, seed=1.5),
    "sample of a text": lambda f: f.sample(0.5, seed="x"),
    "explained keys and rows": lambda f: f.explain([3], row_range=(0, 5)),
}


@pytest.mark.parametrize("case", BAD)
def test_arguments_are_refused_everywhere_alike(rows: Any, case: str) -> None:
    with pytest.raises(nb.InvalidArgumentError):
        BAD[case](rows)


def test_batch_rows_beyond_all_bounds_are_all_rows(rows: Any) -> None:
    assert rows.scan(batch_rows=2**70).to_table().num_rows == 100
    assert rows.range(limit=np.int64(3)).num_rows == 3


def test_limits_and_offsets_beyond_all_rows(rows: Any) -> None:
    for asked in ({}, {"filter": "k >= 0"}):
        assert rows.scan(limit=2**70, **asked).count() == rows.num_rows
        assert rows.scan(limit=2**70, **asked).to_table().num_rows == rows.num_rows
        assert rows.scan(offset=2**70, **asked).to_table().num_rows == 0


def test_unknown_columns_are_refused_after_they_were_a_cache_key(tmp_path: Path) -> None:
    table = pa.table({"k": [1], "a": [2], "b": [3]})
    nb.write(table, tmp_path / "t.nimble", cluster_by="k")
    file = nb.open(tmp_path / "t.nimble")
    assert file.get(1, ["a", "b"]) == {"a": 2, "b": 3}
    with pytest.raises(nb.InvalidArgumentError, match="list of names"):
        file.get(1, "ab")


@pytest.mark.parametrize("kind", KINDS)
def test_handles_of_no_rows_are_true(kind: str, tmp_path: Path) -> None:
    empty = _store(kind, tmp_path, TABLE.slice(0, 0))
    assert len(empty) == 0
    assert bool(empty)
    assert empty.get(3) is None
    assert empty.count_rows() == 0
    assert empty.row_ranges([3]).num_rows == 0
    assert empty.range(on="i").schema == TABLE.schema


def test_answers_are_those_of_the_table(rows: Any) -> None:
    assert rows.count_rows() == 100
    assert rows.count_rows("i < 7") == 7
    assert rows.head(3).equals(TABLE.slice(0, 3))
    assert rows.to_pandas(["i"], "i >= 98")["i"].tolist() == [98, 99]
    assert rows.range(on="i", inclusive="[]", lower=3, upper=6).column("i").to_pylist() == [
        *(3, 4, 5, 6)
    ]
    last = rows.range(on="i", reverse=True, limit=4).column("i").to_pylist()
    assert last == [99, 98, 97, 96]
    assert rows.prefix(50, on="i").column("k").to_pylist() == [25]
    assert rows.get("text 4", ["i"], on="s") == {"i": 4}
    found = rows.lookup(["text 4", "none"], on="s", probe_row="p")
    assert found.column("i").to_pylist() == list(range(4, 100, 10))
    assert rows.count(["text 4", "none"], on="s").to_pylist() == [10, 0]
    ranges = rows.row_ranges([48, -1, 3])
    assert ranges.to_pydict() == {"probe_row": [0, 2], "begin": [96, 6], "end": [98, 8]}
    assert rows.row_ranges(lower=10, upper=40).to_pydict() == {
        "probe_row": [0], "begin": [20], "end": [80],
    }  # fmt: skip
    by_index = rows.row_ranges([97, 50], on="i")
    assert rows.take(by_index.column("begin"), ["i"]).column("i").to_pylist() == [97, 50]
    assert {index.kind for index in rows.indexes} == {"cluster", "sorted", "hash"}
    assert rows.indexes[0].num_keys == 100
    assert not rows.unique
    rows.verify()
    assert rows._current.layout().rows == 100
    assert rows.io_stats.reads > 0
    rows.reset_io_stats()
    assert rows.io_stats.bytes_read == 0


def test_closed_handles_answer_nothing(rows: Any) -> None:
    assert rows.get(3) is not None
    assert rows.range(3, 4).num_rows == 2
    rows.close()
    rows.close()
    asked: list[Callable[[], Any]] = [
        lambda: rows.get(3),
        lambda: rows.get(3, ["k"]),
        lambda: rows.lookup([3]),
        lambda: rows.range(3, 4),
        lambda: rows.prefix(3),
        lambda: rows.to_table(),
        lambda: rows.take([1]),
        lambda: rows.explain([3]),
        lambda: rows.num_rows,
        lambda: rows.indexes,
        lambda: rows.io_stats,
        lambda: rows.reset_io_stats(),
    ]
    for ask in asked:
        with pytest.raises(nb.InvalidArgumentError, match="closed"):
            ask()
    assert "closed" in repr(rows)


def test_dataset_of_apart_unique_files_is_unique(tmp_path: Path) -> None:
    table = pa.table({"k": np.arange(10)})
    for i in range(2):
        nb.write(table.slice(i * 5, 5), tmp_path / f"{i}.nimble", cluster_by="k", unique=True)
    assert nb.open_dataset(tmp_path).unique
    nb.write(table.slice(4, 3), tmp_path / "2.nimble", cluster_by="k", unique=True)
    assert not nb.open_dataset(tmp_path).unique


def test_refresh_moves_a_handle_to_the_newest_version(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [TABLE.slice(0, 50)], "k")
    assert ds.refresh() is ds
    assert ds.count_rows("i >= 0") == 50
    assert ds.get(49) is None
    make_dataset(tmp_path, [TABLE.slice(50, 50)], "k")
    assert ds.get(49) is None
    assert ds.refresh() is ds
    assert len(ds.paths) == 2
    assert ds.get(49, ["i"]) == {"i": 98}
    assert ds.num_rows == 100
    assert ds.count_rows("i >= 0") == 100


@pytest.mark.parametrize("as_text", [True, False])
def test_joins_take_a_file_a_dataset_or_where_one_is(tmp_path: Path, as_text: bool) -> None:
    _store("file", tmp_path)
    _store("many files", tmp_path)
    probe = pa.table({"k": [3, 77]})
    for path in (tmp_path / "t.nimble", tmp_path / "d"):
        where = str(path) if as_text else path
        assert nb.index_join(probe, where, on="k").column("i").to_pylist() == [6, 7]
    with pytest.raises(nb.InvalidArgumentError, match="path or URI"):
        nb.index_join(probe, 3, on="k")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        nb.index_join(probe, tmp_path / "none", on="k")


def test_a_file_of_a_relative_path_is_found_again_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nb.write(TABLE, tmp_path / "t.nimble", cluster_by="k")
    monkeypatch.chdir(tmp_path)
    file = nb.open("t.nimble")
    monkeypatch.chdir(os.sep)
    assert pickle.loads(pickle.dumps(file)).num_rows == 100


def test_one_file_is_asked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Get, lookup and range over one file used to cost 220, 2 and 20 times those of the file."""
    ds = _store("one file", tmp_path)
    child = SourceHandle(ds._current.child(0))

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("bounds were searched")

    monkeypatch.setattr(source, "EncodedKeys", fail)
    monkeypatch.setattr(source.FilesSource, "find", fail)
    assert ds.get(3) == child.get(3)
    assert ds._quick is not None
    assert ds.lookup([3, 4]).equals(child.lookup([3, 4]))
    assert ds.range(3, 5).equals(child.range(3, 5))
    assert ds.prefix(3).equals(child.prefix(3))


def test_a_get_goes_to_the_one_file_that_can_have_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = _store("many files", tmp_path)
    monkeypatch.setattr(
        type(ds._current), "find", lambda *_, **__: pytest.fail("searched in all files")
    )
    for k in range(0, 50, 7):
        assert ds.get(k) == TABLE.slice(2 * k, 1).to_pylist()[0]
    assert ds.get(-1) is ds.get(50) is ds.get(2**70) is None
    assert ds.get((3,), ["i"], on=["k"]) == {"i": 6}
    assert ds.range(3, 5).column("i").to_pylist() == [6, 7, 8, 9]
    with pytest.raises(nb.InvalidArgumentError):
        ds.get("3")


def test_explain_counts_the_reads_of_all_files(tmp_path: Path) -> None:
    parts = [TABLE.slice(i * 5, 5) for i in range(20)]
    ds = make_dataset(tmp_path, parts, "k", indexes=INDEXES)
    each = [SourceHandle(ds._current.child(i)).explain(filter="i >= 0") for i in range(20)]
    for plan in (ds.scan(filter="i >= 0").explain(), ds.explain(filter="i >= 0")):
        assert plan.reads == sum(one.reads for one in each)
        assert plan.bytes == sum(one.bytes for one in each)
        assert sum(child.reads for child in plan.children) == plan.reads
        assert len(plan.children) == 9
    assert ds.explain(["text 3"], on="s")["files opened"] == 20
    assert ds.explain(lower=3, on="i").index == "sorted (i)"
    assert ds.explain([0, 49])["files opened"] == 2


def test_what_is_prepared_for_lists_of_columns_is_bounded(tmp_path: Path) -> None:
    """Every list of columns that was ever asked for was kept for as long as the file was open."""
    names = [f"c{i}" for i in range(40)]
    table = pa.table({"k": [1], **{name: [1] for name in names}})
    nb.write(table, tmp_path / "t.nimble", cluster_by="k")
    file = nb.open(tmp_path / "t.nimble")
    for pair in itertools.combinations(names, 2):
        assert file.get(1, list(pair)) == dict.fromkeys(pair, 1)
        assert file.range(1, 2, columns=list(pair)).num_rows == 1
    kept = [
        held for owner in (file, file._file, file._file.handle) for held in vars(owner).values()
    ]
    assert max(len(held) for held in kept if isinstance(held, dict)) <= 257


def test_arguments_say_what_they_take() -> None:
    """No public argument is just anything, but for what is handed back or is another library's."""
    free = {"default", "catalog", "kwargs"}
    found = []
    for name in nb.__all__:
        value = getattr(nb, name)
        methods = {name: value} if inspect.isfunction(value) else {}
        if inspect.isclass(value):
            public = inspect.getmembers(value, inspect.isfunction)
            methods = {f"{name}.{m}": f for m, f in public if not m.startswith("_")}
        for called, method in methods.items():
            found += [
                f"{called}({argument.name})"
                for argument in inspect.signature(method).parameters.values()
                if argument.annotation == "Any" and argument.name not in free
            ]
    assert found == []


def test_arguments_of_another_kind_are_refused() -> None:
    for refused in (nb.connect, nb.open_dataset, nb.open, nb.scan_polars):
        with pytest.raises(nb.InvalidArgumentError, match=r"expected .*(got int|got 5)"):
            refused(5)  # type: ignore[operator]


def test_get_reads_decimals_of_negative_scale(tmp_path: Path) -> None:
    """The compiled getter raised SystemError."""
    values = [Decimal("1200"), Decimal("-300"), Decimal(0)]
    rows = pa.table({"k": [0, 1, 2], "v": pa.array(values, pa.decimal128(9, -2))})
    nb.write(rows, tmp_path / "d.nimble", cluster_by=["k"])
    with nb.open(tmp_path / "d.nimble") as file:
        assert [file.get(k) for k in range(3)] == rows.to_pylist()
