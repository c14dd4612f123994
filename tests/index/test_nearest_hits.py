"""Hits among equal rows and nulls, and hits that other libraries read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

ROWS, WIDTH = 2100, 512  # enough numbers to search by lists


def _column(x: Any, mask: Any = None) -> pa.FixedSizeListArray:
    values = pa.array(np.ascontiguousarray(x, dtype=np.float32).ravel())
    null = None if mask is None else pa.array(mask)
    return pa.FixedSizeListArray.from_arrays(values, x.shape[1], mask=null)


def _write(path: Path, column: pa.Array) -> nb.File:
    rows = pa.table({"id": np.arange(len(column)), "v": column})
    nb.write(rows, path, cluster_by="id", indexes=[nb.VectorIndex("v")])
    return nb.open(path)


def test_equal_rows_of_lists_are_ordered_by_row(tmp_path: Path) -> None:
    with _write(tmp_path / "a.nimble", _column(np.ones((ROWS, WIDTH)))) as file:
        for query in (np.ones(WIDTH), np.arange(float(WIDTH))):
            for exact in (False, True):
                hits = file.nearest(query, k=5, columns=["id"], exact=exact)
                assert hits["id"].to_pylist() == [0, 1, 2, 3, 4]
                assert len({*hits["_distance"].to_pylist()}) == 1


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> nb.File:
    path = tmp_path_factory.mktemp("nulls") / "a.nimble"
    return _write(path, _column(_vectors(), np.arange(ROWS) % 50 == 3))


def _vectors() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)


@pytest.mark.parametrize(
    ("filter", "passing", "is_whole"),
    [
        ("v IS NULL", 0, False),
        ("v IS NOT NULL", ROWS, True),
        (pc.field("v").is_valid(), ROWS, True),
        ("id >= 0", ROWS, True),
        (pc.field("id") < ROWS, ROWS, True),
        ("id IS NOT NULL", ROWS, True),
        ("v IS NULL OR id < 2000", 2000, False),
        ("v IS NOT NULL AND id < 100", 100, False),
    ],
    ids=str,
)
def test_filters_of_nulls_and_of_all_rows(
    file: nb.File, filter: Any, passing: int, is_whole: bool
) -> None:
    x, number = _vectors(), np.arange(ROWS)
    query = x[0] + 1
    allowed = (number < passing) & (number % 50 != 3)
    order = np.argsort(((x - query) ** 2).sum(axis=1, dtype=np.float64), kind="stable")
    expected = order[allowed[order]][:5].tolist()
    exact = file.nearest(query, k=5, columns=["id"], filter=filter, exact=True)
    assert exact["id"].to_pylist() == expected
    hits = file.nearest(query, k=5, columns=["id"], filter=filter)
    plan = file.explain(nearest=query, k=5, filter=filter)
    assert plan["files by lists"] == int(is_whole)
    if is_whole:
        # The same rows are allowed, so the search is the one without a filter.
        assert hits.equals(file.nearest(query, k=5, columns=["id"]))
    else:
        assert hits.equals(exact)
    assert allowed[hits["id"].to_numpy()].all()


def test_polars_and_duckdb_read_the_hits(file: nb.File) -> None:
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    x = _vectors()
    hits = file.nearest(x[[10, 20]], k=3, exact=True)
    frame = pl.from_arrow(hits)
    assert frame.columns == ["_query", "id", "v", "_distance"]
    assert frame["_query"].to_list() == [0, 0, 0, 1, 1, 1]
    assert frame["id"].to_list() == hits["id"].to_pylist()
    assert frame["id"][0] == 10
    assert frame["v"][0].to_list() == x[10].tolist()
    with duckdb.connect() as connection:
        connection.register("hits", hits)
        nearest = connection.sql(
            "SELECT _query, arg_min(id, _distance), min(_distance) FROM hits GROUP BY 1 ORDER BY 1"
        )
        assert nearest.fetchall() == [(0, 10, 0.0), (1, 20, 0.0)]


def test_vectors_of_another_length_are_refused(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake")
    four, eight = (
        pa.table({"id": [i], "v": _column(np.ones((1, width)))}) for i, width in ((1, 4), (2, 8))
    )
    table = lake.create_table("a.b", four.schema, primary_key="id", indexes=[nb.VectorIndex("v")])
    table.append(four)
    snapshot = table.snapshot
    for write in (table.append, table.upsert):
        with pytest.raises(nb.InvalidArgumentError, match="'v'"):
            write(eight)
    ragged = pa.table({"id": [2], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))})
    with pytest.raises(nb.NimbleError, match="v"):
        table.append(ragged)
    assert table.snapshot == snapshot
    assert table.nearest(np.ones(4), columns=["id"])["id"].to_pylist() == [1]
    # Files of a dataset, too.
    folder = tmp_path / "files"
    folder.mkdir()
    for i, rows in enumerate((four, eight)):
        nb.write(rows, folder / f"{i}.nimble", cluster_by="id")
    with pytest.raises(nb.InvalidArgumentError, match=r"fixed_size_list.*\[8\]"):
        nb.open_dataset(folder).nearest(np.ones(4), k=2)
