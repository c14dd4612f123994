"""Indexes added to and dropped from files: the bytes are those of a file written that way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from exact import assert_same_table

import nimblepy as nb
from second_reader import verify_file

pytestmark = pytest.mark.model

N = 3_000


def make_table() -> pa.Table:
    rng = np.random.default_rng(4)
    words = np.array(["pear", "apple", "fig", "plum"])
    numbers = rng.integers(-(2**63), 2**63 - 1, N)
    return pa.table(
        {
            "id": rng.permutation(N),
            "n": pa.array(numbers, mask=rng.random(N) < 0.1),
            "t": [f"user-{i % 700}" if i % 11 else None for i in rng.integers(0, N, N)],
            "d": pa.array(words[rng.integers(0, 4, N)]).dictionary_encode(),
            "s": pa.array([{"x": i % 50, "y": str(i)} if i % 7 else None for i in range(N)]),
            "l": [[i] * (i % 3) for i in range(N)],
        }
    )


LAYOUTS: list[dict[str, Any]] = [
    {},
    {"stripe_rows": 500, "group_rows": 1000, "key_chunk_rows": 16},
]
INDEXES = [
    nb.HashIndex("n"),
    nb.SortedIndex([nb.SortKey("t", descending=True), "id"]),
    nb.HashIndex(["s.x", "d"], bloom_bits_per_key=None, load_factor=0.5),
    nb.SortedIndex("d"),
]


def write(path: Path, indexes: list[Any], layout: dict[str, Any], cluster_by: Any) -> bytes:
    bits = 8.0 if cluster_by else None
    options = nb.WriteOptions(**layout, cluster_bloom_bits_per_key=bits)
    nb.write(
        make_table(),
        path,
        cluster_by=cluster_by,
        indexes=indexes,
        options=options,
        metadata={"made": "by a test"},
    )
    return path.read_bytes()


@pytest.mark.parametrize("cluster_by", [None, "id"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=["default", "small"])
def test_added_indexes_give_the_bytes_of_a_file_written_with_them(
    tmp_path: Path, layout: dict[str, Any], cluster_by: Any
) -> None:
    path, judge = tmp_path / "a.nimble", tmp_path / "b.nimble"
    write(path, [], layout, cluster_by)
    options = nb.WriteOptions(**layout)
    calls: list[tuple[int, int | None]] = []
    left = nb.add_index(
        path, INDEXES[:3], options=options, progress=lambda *done: calls.append(done)
    )
    assert calls[-1] == (N, N)
    assert path.read_bytes() == write(judge, INDEXES[:3], layout, cluster_by)
    assert [i.kind for i in left if i.kind != "cluster"] == ["hash", "sorted", "hash"]
    nb.add_index(path, INDEXES[3], options=options)
    assert path.read_bytes() == write(judge, INDEXES, layout, cluster_by)
    assert verify_file(path).problems == []
    nb.open(path).verify()


@pytest.mark.parametrize("cluster_by", [None, "id"])
@pytest.mark.parametrize("gone", [[0], [1], [3], [0, 2], [0, 1, 2, 3]], ids=str)
def test_dropped_indexes_give_the_bytes_of_a_file_written_without_them(
    tmp_path: Path, gone: list[int], cluster_by: Any
) -> None:
    path, judge = tmp_path / "a.nimble", tmp_path / "b.nimble"
    write(path, INDEXES, {"stripe_rows": 900}, cluster_by)
    for i in gone:
        nb.drop_index(path, INDEXES[i])
    rest = [index for i, index in enumerate(INDEXES) if i not in gone]
    assert path.read_bytes() == write(judge, rest, {"stripe_rows": 900}, cluster_by)
    assert verify_file(path).problems == []


def test_lookups_use_what_was_added_and_rows_stay(tmp_path: Path) -> None:
    path, out = tmp_path / "a.nimble", tmp_path / "out.nimble"
    before = write(path, [], {}, None)
    nb.add_index(path, nb.HashIndex("t"), output=out)
    assert path.read_bytes() == before
    with nb.open(path) as old, nb.open(out) as new:
        with pytest.raises(nb.IndexUnavailableError):
            old.lookup(["user-3"], on="t")
        assert_same_table(new.to_table(), old.to_table())
        want = old.to_table(filter="t = 'user-3'")
        assert_same_table(new.lookup(["user-3"], on="t"), want)
        # A handle on a file that is replaced goes on reading it.
        nb.drop_index(out, "t")
        assert new.lookup(["user-3"], on="t").num_rows == want.num_rows
    assert out.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.nimble", "out.nimble"]


def test_files_that_are_not_mapped_get_the_same_bytes(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    path = tmp_path / "a.nimble"
    write(path, [INDEXES[1]], {"stripe_rows": 700}, "id")
    with memory.open("/add/a.nimble", "wb") as f:
        f.write(path.read_bytes())
    nb.add_index("/add/a.nimble", INDEXES[0], filesystem=memory)
    nb.drop_index("/add/a.nimble", INDEXES[1], filesystem=memory)
    nb.add_index(path, INDEXES[0])
    nb.drop_index(path, INDEXES[1])
    assert memory.cat("/add/a.nimble") == path.read_bytes()


def test_an_empty_file_can_have_indexes(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    nb.write(make_table().slice(0, 0), path)
    nb.add_index(path, [nb.HashIndex("n"), nb.SortedIndex("t")])
    assert verify_file(path).problems == []
    assert nb.open(path).lookup([1], on="n").num_rows == 0
    assert nb.drop_index(path, "n")[0].kind == "sorted"


def test_mistakes_name_what_exists(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    write(path, INDEXES[:2], {}, "id")
    before = path.read_bytes()
    with pytest.raises(nb.InvalidArgumentError, match=r"hash \(n\) already.*sorted \(t desc"):
        nb.add_index(path, nb.HashIndex("n"))
    with pytest.raises(nb.InvalidArgumentError, match="given twice"):
        nb.add_index(path, [nb.HashIndex("t"), nb.HashIndex("t")])
    with pytest.raises(nb.InvalidArgumentError, match="nope"):
        nb.add_index(path, nb.HashIndex("nope"))
    with pytest.raises(nb.InvalidArgumentError):
        nb.add_index(path, nb.SortedIndex("l"))
    with pytest.raises(nb.InvalidArgumentError, match="at least one"):
        nb.add_index(path, [])
    with pytest.raises(nb.IndexUnavailableError, match=r"cluster \(id\).*hash \(n\)"):
        nb.drop_index(path, "t")
    with pytest.raises(nb.IndexUnavailableError):
        nb.drop_index(path, nb.SortedIndex("n"))
    with pytest.raises(nb.InvalidArgumentError, match="order of the rows"):
        nb.drop_index(path, "id")
    with pytest.raises(FileNotFoundError):
        nb.add_index(tmp_path / "absent", nb.HashIndex("n"))
    assert path.read_bytes() == before


def test_a_damaged_column_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    data = bytearray(write(path, [], {"stripe_rows": 500}, None))
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(nb.CorruptFileError):
        nb.add_index(path, [nb.HashIndex(c) for c in ("id", "n", "t")])
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["a.nimble"]
