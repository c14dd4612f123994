"""What get() gives: values as pyarrow's as_py() does, and a method like any other."""

from __future__ import annotations

import datetime as dt
import gc
import inspect
import weakref
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.model

NESTED = {
    "list": (pa.list_(pa.float32()), [[1.5, None], [], None, [2.5]]),
    "large list": (pa.large_list(pa.utf8()), [["a", ""], None, [None], []]),
    "fixed list": (pa.list_(pa.int16(), 2), [[1, 2], None, [None, 4], [5, 6]]),
    "lists": (pa.list_(pa.list_(pa.bool_())), [[[True], None, []], None, [[False, None]], []]),
    "struct": (
        pa.struct({"x": pa.binary(), "y": pa.struct({"d": pa.date32()})}),
        [
            {"x": b"", "y": {"d": dt.date(1, 1, 1)}},
            None,
            {"x": None, "y": None},
            {"x": b"\0", "y": {"d": None}},
        ],
    ),
    "map": (pa.map_(pa.utf8(), pa.int8()), [[("a", 1), ("b", None)], [], None, [("c", 3)]]),
    "structs": (
        pa.list_(pa.struct({"t": pa.timestamp("ms", "Asia/Tokyo")})),
        [[{"t": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}, None], None, [], [{"t": None}]],
    ),
    "zone": (
        pa.timestamp("us", "America/New_York"),
        [dt.datetime(2026, 11, 1, h, 30, 0, 1, tzinfo=dt.UTC) for h in (4, 5, 6)] + [None],
    ),
    "offset": (pa.timestamp("s", "+05:30"), [dt.datetime(1969, 1, 1, tzinfo=dt.UTC)] + [None] * 3),
    "left to pyarrow": (pa.list_(pa.time64("ns")), [[dt.time(1)], None, [], [None]]),
    "dictionaries": (pa.list_(pa.dictionary(pa.int8(), pa.utf8())), [["a", "b"], None, ["a"], []]),
    "dictionary": (pa.dictionary(pa.int16(), pa.utf8()), ["b", None, "a", "b"]),
    "duration": (pa.duration("s"), [dt.timedelta(1), None, dt.timedelta(0), dt.timedelta(2)]),
    "uuid": (pa.uuid(), [UUID(int=1), None, UUID(int=2), UUID(int=1)]),
}


@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
def test_get_gives_nested_and_zoned_values_as_pyarrow_does(tmp_path: Path, mmap: bool) -> None:
    columns = {name: pa.array(values, kind) for name, (kind, values) in NESTED.items()}
    table = pa.table(
        {"k": range(4), **columns, "a.b": range(4), "a": [{"b": [i]} for i in range(4)]}
    )
    for name, kind in (("dates", pa.date32()), ("times", pa.time64("ns"))):
        codes = pa.array([1, None, 0, 1], pa.uint8())
        values = pa.DictionaryArray.from_arrays(
            codes, pa.array([7, 8], pa.int32() if name == "dates" else pa.int64()).cast(kind)
        )
        table = table.append_column(f"dictionary of {name}", values)
    nb.write(table, tmp_path / "a", cluster_by="k", options=nb.WriteOptions(stripe_rows=3))
    with nb.open(tmp_path / "a", mmap=mmap) as file:
        for key, want in enumerate(table.to_pylist()):
            got = file.get(key)
            assert got == want
            assert list(got) == table.column_names
            assert str(got) == str(want)  # types and zones too
            assert file.get(key, ["a", "structs"]) == {n: want[n] for n in ("a", "structs")}


def test_get_of_a_struct_with_one_name_twice_is_pyarrows_error(tmp_path: Path) -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    nb.write(pa.table({"k": [1], "s": twice}), tmp_path / "a", cluster_by="k")
    with pytest.raises(ValueError, match="duplicate field names"):
        nb.open(tmp_path / "a").get(1)


def test_get_as_a_method_has_its_name_signature_and_documentation(tmp_path: Path) -> None:
    assert nb.File.get.__name__ == "get"
    assert nb.File.get.__doc__.startswith("Returns one row as a dict")
    assert list(inspect.signature(nb.File.get).parameters)[:3] == ["self", "key", "columns"]
    nb.write(pa.table({"k": [1, 2]}), tmp_path / "a", cluster_by="k")
    file = nb.open(tmp_path / "a")
    assert list(inspect.signature(file.get).parameters)[:2] == ["key", "columns"]
    assert [file.get(k) for k in (1, 3, None)] == [{"k": 1}, None, None]
    bound = file.get
    assert (bound(2), nb.File.get(file, 2), file.get(key=2)) == ({"k": 2},) * 3
    file.close()
    for get in (file.get, bound):
        with pytest.raises(nb.InvalidArgumentError, match="closed"):
            get(1)
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        file.get(key=1)
    with pytest.raises(TypeError, match="key"):
        file.get()
    with pytest.raises(TypeError):
        nb.File.get()
    alive = weakref.ref(file)
    del file, bound, get
    gc.collect()
    assert alive() is None


def test_get_gives_the_files_values_whatever_the_key_is(tmp_path: Path) -> None:
    # The caller's own object was put into the row: json refused numpy's integer.
    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"k": [1, 2], "s": ["a", "b"], "v": [3, 4]}), path, cluster_by=["k", "s"])
    for options in ({}, {"mmap": False}):
        with nb.open(path, **options) as file:
            for key in ((1, "a"), (np.int64(1), np.str_("a")), (np.uint8(1), "a")):
                row = file.get(key)
                assert row == {"k": 1, "s": "a", "v": 3}
                assert [type(value) for value in row.values()] == [int, str, int]
    nb.write(pa.table({"k": [0, 1], "v": [3, 4]}), path, cluster_by="k")
    with nb.open(path) as file:
        for one in (1, np.int16(1), np.array([1])[0]):
            assert {type(value) for value in file.get(one).values()} == {int}
