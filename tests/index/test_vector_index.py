"""The stored vector index: writing, adding, dropping, moving, verifying, and damaged bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from second_reader import verify_file

COUNT, WIDTH = 300, 4096


def table(seed: int = 0) -> pa.Table:
    """Rows with few lists: 300 vectors of 4,096 bytes."""
    random = np.random.default_rng(seed)
    x = random.integers(-100, 100, (COUNT, WIDTH)).astype(np.int8)
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDTH)
    return pa.table({"id": np.arange(COUNT), "v": column})


def query() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(-100, 100, WIDTH).astype(np.float64)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_the_bytes_do_not_depend_on_threads(tmp_path: Path, threads: int) -> None:
    index = nb.VectorIndex("v", metric="cosine")
    for name, options in (
        ("a", nb.WriteOptions(threads=1, index_memory_bytes=1 << 20)),
        ("b", nb.WriteOptions(threads=threads, index_memory_bytes=1 << 20)),
    ):
        nb.write(table(), tmp_path / name, indexes=[index], options=options)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_added_index_is_the_written_one(tmp_path: Path) -> None:
    nb.write(table(), tmp_path / "plain.nimble")
    indexes = [nb.HashIndex("id"), nb.VectorIndex("v", metric="dot", lists=7)]
    nb.write(table(), tmp_path / "written.nimble", indexes=indexes)
    done = nb.add_index(tmp_path / "plain.nimble", indexes, output=tmp_path / "added.nimble")
    assert [(i.kind, i.num_keys) for i in done] == [("hash", COUNT), ("vector", COUNT)]
    written = (tmp_path / "written.nimble").read_bytes()
    assert (tmp_path / "added.nimble").read_bytes() == written
    with pytest.raises(nb.InvalidArgumentError, match="already"):
        nb.add_index(tmp_path / "added.nimble", nb.VectorIndex("v"))
    # Adding another index moves the lists.
    with nb.open(tmp_path / "added.nimble") as f:
        before = f.nearest(query(), k=20)
    nb.drop_index(tmp_path / "added.nimble", ["id"])
    nb.add_index(tmp_path / "added.nimble", nb.SortedIndex("id"))
    with nb.open(tmp_path / "added.nimble") as f:
        f.verify()
        assert f.explain(nearest=query())["lists"] == 7
        assert f.nearest(query(), k=20).equals(before)
    left = nb.drop_index(tmp_path / "added.nimble", nb.VectorIndex("v"))
    assert [i.kind for i in left] == ["sorted"]
    with pytest.raises(nb.IndexUnavailableError):
        nb.drop_index(tmp_path / "added.nimble", "v")


def test_a_file_without_the_index_has_the_same_bytes(tmp_path: Path) -> None:
    nb.write(table(), tmp_path / "plain.nimble")
    nb.write(table(), tmp_path / "indexed.nimble", indexes=[nb.VectorIndex("v")])
    nb.drop_index(tmp_path / "indexed.nimble", "v")
    plain = (tmp_path / "plain.nimble").read_bytes()
    assert (tmp_path / "indexed.nimble").read_bytes() == plain


def test_layout_shows_it(tmp_path: Path) -> None:
    nb.write(table(), tmp_path / "a.nimble", indexes=[nb.VectorIndex("v")])
    with nb.open(tmp_path / "a.nimble") as f:
        info = next(i for i in f.indexes if i.kind == "vector")
        assert info.size_bytes > 32 * WIDTH
        part = next(node for node in f.layout().walk() if node.name == "vector (v)")
        assert (part.kind, part.size_bytes) == ("index", info.size_bytes)


def test_wrong_specifications_are_refused(tmp_path: Path) -> None:
    for make, message in (
        (lambda: nb.VectorIndex("v", metric="x"), "metric must be"),  # type: ignore[arg-type]
        (lambda: nb.VectorIndex("v", lists=0), "lists must be"),
        (lambda: nb.VectorIndex("v", queries=[1.0, 2.0]), "matrix"),
        (lambda: nb.VectorIndex("v", queries=[[1.0, float("nan")]]), "finite"),
        (lambda: nb.VectorIndex(["v"]), "name of a column"),  # type: ignore[arg-type]
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            make()
    for index, message in (
        (nb.VectorIndex("id"), "fixed-size lists"),
        (nb.VectorIndex("nope"), "nope"),
        (nb.VectorIndex("v", queries=[[1.0, 2.0]]), "queries have 2 numbers"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            nb.write(table(), tmp_path / "a.nimble", indexes=[index])
        assert not (tmp_path / "a.nimble").exists()


def test_queries_calibrate(tmp_path: Path) -> None:
    sample = np.random.default_rng(5).normal(size=(20, WIDTH))
    nb.write(table(), tmp_path / "a.nimble", indexes=[nb.VectorIndex("v", queries=sample)])
    with nb.open(tmp_path / "a.nimble") as f:
        f.verify()
        # Random queries have neighbours everywhere, so nearly all lists are needed.
        plan = f.explain(nearest=sample[0])
        assert plan["lists probed"] > plan["lists"] / 2


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_the_second_reader_agrees(tmp_path: Path, metric: Any) -> None:
    for name, shift, width, kind in (("a", 0.0, 513, "f4"), ("b", 300.0, 512, "f8")):
        x = (shift + np.random.default_rng(3).normal(size=(2200, width))).astype(kind)
        x[5, 1], x[6] = np.nan, 0
        valid = np.arange(2200) % 100 != 9
        column = pa.FixedSizeListArray.from_arrays(
            pa.array(x.ravel(), from_pandas=False), width, mask=pa.array(~valid)
        )
        rows = pa.table({"id": np.arange(2200), "v": column})
        indexes = [nb.VectorIndex("v", metric=metric, lists=12), nb.HashIndex("id")]
        nb.write(rows, tmp_path / name, indexes=indexes)
        report = verify_file(tmp_path / name)
        assert report.ok, str(report)
        assert report.counts["vector lists"] == 12
    # A small file has no lists.
    nb.write(table(), tmp_path / "c", indexes=[nb.VectorIndex("v", metric=metric)])
    assert verify_file(tmp_path / "c").ok


@pytest.mark.sanitizer
def test_damaged_bytes_give_an_error_or_the_right_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    nb.write(table(), path, indexes=[nb.VectorIndex("v", lists=9)])
    good = path.read_bytes()
    with nb.open(good) as f:
        expected = f.nearest(query(), columns=["id"], recall=0.999)
        size = next(i.size_bytes for i in f.indexes if i.kind == "vector")
    random = np.random.default_rng(7)
    # The index, the footer and the postscript are the last bytes.
    begin = len(good) - size - 2000
    wrong = 0
    for at in [*random.integers(begin, len(good), 150), *range(len(good) - 1100, len(good), 9)]:
        bad = bytearray(good)
        bad[at] ^= 1 << int(random.integers(8))
        try:
            with nb.open(bytes(bad)) as f:
                hits = f.nearest(query(), columns=["id"], recall=0.999)
                assert hits.equals(expected)
        except (nb.NimbleError, NotImplementedError):
            wrong += 1
    assert wrong > 100
    for cut in (1, 100, 2000, size // 2, size + 500):
        with pytest.raises(nb.NimbleError), nb.open(good[:-cut]) as f:
            f.nearest(query())
