"""Lookups by many keys take the values of key columns from the keys: as the file has them."""

from __future__ import annotations

import datetime
import gc
import weakref
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

DAY = datetime.date(2026, 11, 21)
STAMP = datetime.datetime(2026, 11, 21, 12, 30, tzinfo=datetime.UTC)


def _file(path: Path, keys: pa.Array, **options: Any) -> nb.File:
    table = pa.table({"k": keys, "row": np.arange(len(keys))})
    nb.write(table, path, cluster_by="k", **options)
    return nb.open(path)


@pytest.mark.parametrize(
    ("stored", "probes"),
    [
        (pa.array([1, 5, 9], pa.int32()), pa.array([9, 5, 5, 2], pa.int64())),
        (pa.array([1, 5, 9], pa.uint8()), [9, 5, 5, 300]),
        (pa.array(["a", "bé", "c"], pa.string()), pa.array(["c", "bé", "bé", "x"])),
        (pa.array(["a", "bé", "c"], pa.large_string()), ["c", "bé", "bé", "x"]),
        (pa.array(["a", "bé", "c"], pa.string_view()), ["c", "bé", "bé", "x"]),
        (pa.array([b"a", b"\0", b"c"], pa.binary()), [b"c", b"\0", b"\0", b"x"]),
        (pa.array([DAY, DAY + datetime.timedelta(9)]), [DAY + datetime.timedelta(9), DAY]),
        (pa.array([STAMP], pa.timestamp("ms", "Europe/Rome")), [STAMP, STAMP]),
        (pa.array([Decimal("1.50"), Decimal("-2.00")]), [Decimal("1.5"), Decimal("7")]),
        (pa.array([True, False]), [False, True, False]),
        (pa.array(["x", "y"]).dictionary_encode(), ["y", "x", "y"]),
    ],
    ids=lambda v: str(v.type) if isinstance(v, pa.Array) else "",
)
def test_lookup_gives_keys_in_the_files_own_type(
    tmp_path: Path, stored: pa.Array, probes: Any
) -> None:
    file = _file(tmp_path / "t.nimble", stored)
    found = file.lookup(probes, probe_row="p")
    rows = file.row_ranges(probes)
    want = file.take(rows["begin"])
    assert found.drop_columns("p").equals(want)
    assert found.schema.field("k").type == stored.type
    assert found["p"].to_pylist() == rows["probe_row"].to_pylist()


def test_lookup_keeps_the_bits_of_floats(tmp_path: Path) -> None:
    file = _file(tmp_path / "t.nimble", pa.array([-0.0, 1.5]))
    found = file.lookup([0.0, 1.5])
    assert [str(v) for v in found["k"].to_pylist()] == ["-0.0", "1.5"]
    assert str(file.get(0.0)["k"]) == "-0.0"


def test_lookup_of_nulls_and_repeats_in_any_order(tmp_path: Path) -> None:
    keys = pa.array([None, None, 1, 2, 2, 3], pa.int64())
    file = _file(tmp_path / "t.nimble", keys)
    probes = pa.array([3, None, 2, 7, 2])
    assert file.lookup(probes)["k"].to_pylist() == [3, 2, 2, 2, 2]
    with_nulls = file.lookup(probes, null_equals=True, probe_row="p")
    assert with_nulls["k"].to_pylist() == [3, None, None, 2, 2, 2, 2]
    assert with_nulls["p"].to_pylist() == [0, 1, 1, 2, 2, 4, 4]


def test_lookup_of_some_columns_of_the_key(tmp_path: Path) -> None:
    table = pa.table(
        {"a": [1, 1, 2, 2], "b": ["p", "q", "p", "q"], "v": [10, 11, 12, 13]},
        schema=pa.schema([("a", pa.int32()), ("b", pa.string()), ("v", pa.int64())]),
    )
    nb.write(table, tmp_path / "t.nimble", cluster_by=["a", "b"])
    file = nb.open(tmp_path / "t.nimble")
    assert file.lookup([2, 1], on="a").equals(table.take([2, 3, 0, 1]))
    assert file.lookup([(2, "q"), (1, "p"), (3, "p")]).equals(table.take([3, 0]))
    assert file.lookup([(2, "q")], columns=["v", "a"]).equals(table.take([3]).select(["v", "a"]))


@pytest.mark.parametrize("mmap", [True, False])
def test_get_by_number_and_text(tmp_path: Path, mmap: bool) -> None:
    for keys, other in ((pa.array([3, 4, 70_000]), 5), (pa.array(["a", "b", "ü"]), "c")):
        _file(tmp_path / "t.nimble", keys)
        file = nb.open(tmp_path / "t.nimble", mmap=mmap)
        for i, key in enumerate(keys.to_pylist()):
            assert file.get(key) == {"k": key, "row": i}
            assert file.get(key, ["k"]) == {"k": key}
            assert list(file.get(key, ["row", "k"])) == ["row", "k"]
        assert file.get(other) is None
        assert file.get(other, default=0) == 0


@pytest.mark.parametrize("mmap", [True, False])
def test_get_by_keys_of_other_types_and_several_columns(tmp_path: Path, mmap: bool) -> None:
    table = pa.table(
        {
            "user": ["a", "a", "b", "b"],
            "ts": pa.array([STAMP, STAMP + datetime.timedelta(1), STAMP, None]),
            "day": [DAY, DAY, DAY, DAY],
            "n": [1, 2, 3, 4],
        }
    )
    nb.write(table, tmp_path / "t.nimble", cluster_by=["user", "ts"])
    file = nb.open(tmp_path / "t.nimble", mmap=mmap)
    rows = table.to_pylist()
    for row in rows[:3]:
        assert file.get((row["user"], row["ts"])) == row
    assert file.get(("b", STAMP + datetime.timedelta(1))) is None
    assert file.get(("b", None)) is None
    assert file.get(("b", None), null_equals=True) == rows[3]
    assert file.get({"ts": STAMP, "user": "b"}, ["n"]) == {"n": 3}
    nb.write(table, tmp_path / "d.nimble", cluster_by="day")
    assert nb.open(tmp_path / "d.nimble", mmap=mmap).get(DAY) == rows[0]
    with pytest.raises(nb.InvalidArgumentError):
        file.get("a")


def test_get_twice_gives_dicts_of_their_own(tmp_path: Path) -> None:
    file = _file(tmp_path / "t.nimble", pa.array([1, 2]))
    first = file.get(1)
    first["row"] = "changed"
    assert file.get(1) == {"k": 1, "row": 0}
    assert file.get(2) == {"k": 2, "row": 1}


def test_file_that_is_dropped_is_freed(tmp_path: Path) -> None:
    file = _file(tmp_path / "t.nimble", pa.array([1, 2]))
    assert file.get(1) is not None
    alive = weakref.ref(file)
    del file
    gc.collect()
    assert alive() is None


def test_lookup_of_more_rows_than_one_batch_holds(tmp_path: Path) -> None:
    file = _file(tmp_path / "t.nimble", pa.array(np.repeat([1, 2], 700_000)), presorted=True)
    assert file.lookup([2, 1])["row"].to_numpy()[[0, 700_000]].tolist() == [700_000, 0]
    assert file.lookup([1, 1, 2]).num_rows == 2_100_000


def test_keys_are_a_dict_of_columns(tmp_path: Path) -> None:
    rows = pa.table({"u": [1, 1, 2], "t": [1, 2, 3], "s": ["a", "b", "c"]})
    nb.write(rows, tmp_path / "a.nimble", cluster_by=["u", "t"])
    with nb.open(tmp_path / "a.nimble") as file:
        for u, t in (([1, 2], (2, 3)), (np.array([1, 2]), pa.array([2, 3])), (range(1, 3), [2, 3])):
            assert file.lookup({"t": t, "u": u})["s"].to_pylist() == ["b", "c"]
        assert file.count({"u": [1, 3]}, on="u").to_pylist() == [2, 0]
        with pytest.raises(nb.InvalidArgumentError, match="'u' has 2, 't' has 1"):
            file.lookup({"u": [1, 2], "t": [2]})
        with pytest.raises(nb.InvalidArgumentError, match="'u' has more than one dimension"):
            file.lookup({"u": np.ones((2, 2)), "t": [2, 3]})
        with pytest.raises(nb.InvalidArgumentError, match="expected many keys"):
            file.lookup({"u": 1, "t": 2})
        with pytest.raises(nb.InvalidArgumentError, match="expected the columns u, t"):
            file.lookup({"u": [1], "t": [2], "s": ["b"]})
