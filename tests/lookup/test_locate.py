"""Keys of many files in one call of the core: the rows that a search of all rows finds."""

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
from nimblepy.errors import InvalidArgumentError
from nimblepy.files import locate
from nimblepy.rows.compiled import ColumnReader, KeyIndex

pytestmark = pytest.mark.model

_KEYS = st.none() | st.integers(-3, 12)
_ROWS = st.lists(st.tuples(_KEYS, st.sampled_from(["a", "b", "\0", ""])), max_size=30)
INDEXES = {
    "cluster": (["k", "s"], []),
    "hash": ([], [nb.HashIndex(["k", "s"])]),
    "sorted": ([], [nb.SortedIndex(["k", "s"])]),
}
_KEYED = pa.schema({"k": pa.int64(), "s": pa.string()})
SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string(), "file": pa.int64(), "row": pa.int64()})


def probes_of(keys: list[tuple[Any, ...]], width: int) -> pa.RecordBatch:
    columns = {"k": pa.array([k[0] for k in keys], pa.int64())}
    if width == 2:
        columns["s"] = pa.array([k[1] for k in keys], pa.string())
    return pa.record_batch(columns)


@given(
    files=st.lists(_ROWS, min_size=1, max_size=4),
    kind=st.sampled_from(sorted(INDEXES)),
    width=st.integers(1, 2),
    asked=st.lists(st.tuples(_KEYS, st.sampled_from(["a", "b", "\0", "x"])), max_size=12),
    null_equals=st.booleans(),
    mmap=st.booleans(),
)
def test_positions_in_many_files(
    tmp_path_factory: Any,
    files: list[list[tuple[Any, str]]],
    kind: str,
    width: int,
    asked: list[tuple[Any, str]],
    null_equals: bool,
    mmap: bool,
) -> None:
    if kind == "hash":
        width = 2  # it answers whole keys only
    folder = tmp_path_factory.mktemp("files")
    cluster_by, indexes = INDEXES[kind]
    opened = []
    for i, rows in enumerate(files):
        table = pa.table(
            {
                "k": [k for k, _ in rows],
                "s": [s for _, s in rows],
                "file": [i] * len(rows),
                "row": range(len(rows)),
            },
            schema=SCHEMA,
        )
        path = folder / f"{i}.nimble"
        options = nb.WriteOptions(cluster_bloom_bits_per_key=10 if i % 2 else None)
        nb.write(table, path, cluster_by=cluster_by, indexes=indexes, options=options)
        opened.append(nb.open(path, mmap=mmap))
    names = ("k", "s")[:width]
    probes = _core.KeyProbes(probes_of(asked, width), [(False, False)] * width, null_equals)
    found = [file._current.compiled(KeyIndex(names)) for file in opened]
    assert all(probes.fits(index) for index, _ in found)
    gone = [{row for row in range(len(rows)) if row % 3 == i % 4} for i, rows in enumerate(files)]
    deleted = [_core.RowBitmap(np.array(sorted(g), np.uint64)) if g else None for g in gone]
    begin, end, key, of = probes.locate(
        np.arange(len(files), dtype=np.int64), [index for index, _ in found], deleted
    )
    ends = begin + np.uint64(1) if end is None else end
    have = [
        (int(key[i]), int(of[i]), row)
        for i in range(len(key))
        for row in range(int(begin[i]), int(ends[i]))
    ]
    want = []
    for i, probe in enumerate(asked):
        for number, file in enumerate(opened):
            stored = file.to_table(["k", "s"]).to_pylist()
            want += [
                (i, number, row)
                for row, values in enumerate(stored)
                if row not in gone[number]
                and all(
                    values[n] == v and (v is not None or null_equals)
                    for n, v in zip(names, probe, strict=False)
                )
            ]
    assert have == want
    numbers = np.array([file for _, file, _ in have], dtype=np.int64)
    rows_found = np.array([row for _, _, row in have], dtype=np.uint64)
    projections = [file._current.compiled(ColumnReader(("file", "s"))) for file in opened]
    read = _core.take_files(projections, numbers, rows_found, 1)
    assert read is not None
    taken = pa.RecordBatch._import_from_c_capsule(*read)
    taken.validate(full=True)
    assert taken.column("file").to_pylist() == numbers.tolist()
    texts = [opened[f].to_table(["s"])["s"][r].as_py() for _, f, r in have]
    assert taken.column("s").to_pylist() == texts


def test_files_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    nb.write(pa.table({"k": [1, 2], "x": [1, 2]}), tmp_path / "a.nimble", cluster_by="k")
    narrow = pa.table({"k": pa.array([1, 2], pa.int32()), "x": ["a", "b"]})
    nb.write(narrow, tmp_path / "b.nimble", cluster_by="k")
    a, b = nb.open(tmp_path / "a.nimble"), nb.open(tmp_path / "b.nimble")
    probes = _core.KeyProbes(pa.record_batch({"k": pa.array([2], pa.int64())}), [(False, False)])
    first, second = (f._current.compiled(KeyIndex(("k",)))[0] for f in (a, b))
    assert probes.fits(first)
    assert not probes.fits(second)
    with pytest.raises(InvalidArgumentError, match="the index is over other columns"):
        probes.locate(np.array([0, 1]), [first, second], [None] * 2)
    with pytest.raises(InvalidArgumentError, match="expected one index for each file"):
        probes.locate(np.array([0, 1]), [first], [None])
    bounds = _core.KeyBounds(
        pa.record_batch({"l": pa.array([b""], pa.binary()), "u": pa.array([b"\xff"], pa.binary())})
    )
    assert probes.files(bounds).tolist() == [0]
    with pytest.raises(InvalidArgumentError, match="there are no bounds for file 1"):
        probes.locate(np.array([1]), [first], [None], bounds)
    readers = [a._current.compiled(ColumnReader(("x",))), b._current.compiled(ColumnReader(("x",)))]
    one = np.array([0]), np.array([1], dtype=np.uint64)
    assert _core.take_files(readers, *one, 1) is None  # numbers and text
    with pytest.raises(InvalidArgumentError, match="no file 1 among 1 files"):
        _core.take_files(readers[:1], np.array([1]), one[1], 1)
    with pytest.raises(InvalidArgumentError, match="row 2 is outside a file of 2 rows"):
        _core.take_files(readers[:1], one[0], np.array([2], dtype=np.uint64), 1)


def test_dictionaries_of_many_files(tmp_path: Path) -> None:
    """Each file has a dictionary of its own: rows of several come back with one."""
    parts = [
        pa.table({"k": [0, 2], "d": pa.array(["x", "y"]).dictionary_encode()}),
        pa.table({"k": [1, 3], "d": pa.array(["z", "x"]).dictionary_encode()}),
    ]
    rows = make_dataset(tmp_path, parts, ["k"])
    found = rows.lookup([3, 2, 1, 0, 3])
    assert found.column("d").to_pylist() == ["x", "y", "z", "x", "x"]
    assert rows.get(1) == {"k": 1, "d": "z"}


@given(
    files=st.lists(_ROWS, min_size=1, max_size=6),
    asked=st.lists(st.tuples(_KEYS, st.sampled_from(["a", "b", "\0", "x"])), max_size=6),
    descending=st.booleans(),
    width=st.integers(1, 2),
    null_equals=st.booleans(),
)
def test_few_keys_are_searched_for_among_bounds(
    tmp_path_factory: Any,
    files: list[list[tuple[Any, str]]],
    asked: list[tuple[Any, str]],
    descending: bool,
    width: int,
    null_equals: bool,
) -> None:
    tables = [
        pa.table({"k": [k for k, _ in rows], "s": [s for _, s in rows]}, schema=_KEYED)
        for rows in files
    ]
    order = [nb.SortKey("k", descending=descending), "s"]
    folder = str(tmp_path_factory.mktemp("dataset"))
    data = make_dataset(folder, tables, order)
    keys = probes_of(asked, width)
    found = []
    for few in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(locate, "_FEW", few)
            rows = data.lookup(keys, on=["k", "s"][:width], null_equals=null_equals, probe_row="at")
            found.append(rows)
    assert found[0].equals(found[1])
