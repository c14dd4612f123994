"""Rows for notebooks and frames: aligned lookups, samples of a size, pages by row, HTML."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.rows.as_numpy import numpy_columns

Source = Any
ROWS = pa.table(
    {
        "k": range(20),
        "s": [f"<b>{i}</b>" for i in range(20)],
        "v": pa.array([[i, i + 0.5] for i in range(20)], pa.list_(pa.float32(), 2)),
        "p": [{"x": i // 5, "y": i % 5} for i in range(20)],
    },
    schema=pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False),
            pa.field("s", pa.string()),
            pa.field("v", pa.list_(pa.float32(), 2)),
            pa.field("p", pa.struct({"x": pa.int64(), "y": pa.int64()})),
        ]
    ),
)


@pytest.fixture(params=["file", "dataset", "table"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    if request.param == "file":
        nb.write(ROWS, tmp_path / "a.nimble", cluster_by="k")
        return nb.open(tmp_path / "a.nimble")
    if request.param == "dataset":
        for i in range(0, 20, 7):
            nb.write(ROWS.slice(i, 7), tmp_path / f"{i}.nimble", cluster_by="k")
        return nb.open_dataset(tmp_path)
    pytest.importorskip("pyiceberg")
    table = nb.connect(tmp_path / "lake").create_table("a.b", ROWS.slice(0, 12), primary_key="k")
    table.append(ROWS.slice(12))
    return table


def test_missing_rows_are_null(source: Source) -> None:
    rows = source.lookup([3, 99, 1, 3, None], missing="null", probe_row="at")
    assert rows["at"].to_pylist() == [0, 1, 2, 3, 4]
    assert rows["k"].to_pylist() == [3, None, 1, 3, None]
    assert rows["v"].to_pylist() == [[3, 3.5], None, [1, 1.5], [3, 3.5], None]
    assert rows.schema.field("k").nullable
    assert source.lookup([99], missing="null", columns=["s"]).to_pylist() == [{"s": None}]
    assert source.lookup([], missing="null").num_rows == 0
    assert source.lookup([1, 2], missing="null").schema == rows.drop_columns("at").schema
    assert source.lookup([3, 99], missing="drop").num_rows == 1
    with pytest.raises(nb.InvalidArgumentError, match="'drop' or 'null'"):
        source.lookup([3], missing="none")


def test_lookup_as_numpy(source: Source) -> None:
    found = source.lookup([3, 1], columns=["k", "v", "s"], as_numpy=True)
    assert found["k"].tolist() == [3, 1]
    assert (found["v"].shape, found["v"].dtype) == ((2, 2), np.float32)
    assert found["s"].tolist() == ["<b>3</b>", "<b>1</b>"]
    found = source.lookup([3, 99], columns=["k"], missing="null", as_numpy=True)
    assert found["k"].tolist() == [3, None]
    assert found["k"].dtype == np.int64


@pytest.mark.parametrize("filter", [None, "k < 15"])
def test_samples_of_a_size(source: Source, filter: str | None) -> None:
    drawn = source.sample(n=7, seed=1, filter=filter)
    keys = drawn["k"].to_pylist()
    assert len(set(keys)) == 7
    assert drawn.equals(source.sample(n=7, seed=1, filter=filter))
    assert drawn.schema.names == ROWS.schema.names
    assert filter is None or max(keys) < 15
    assert source.sample(n=0, filter=filter).num_rows == 0
    assert source.sample(n=100, filter=filter).num_rows == (20 if filter is None else 15)
    counts = np.zeros(20)
    for seed in range(200):
        counts[source.sample(n=5, seed=seed, filter=filter, columns=["k"])["k"].to_numpy()] += 1
    assert counts[:15].min() > 20
    for arguments in ({}, {"n": -1}, {"fraction": 0.5, "n": 2}):
        with pytest.raises(nb.InvalidArgumentError):
            source.sample(**arguments)


def test_pages_by_the_last_row(source: Source) -> None:
    seen: list[int] = []
    page = source.range(limit=6)
    while page.num_rows:
        seen += page["k"].to_pylist()
        page = source.range(limit=6, after=page.to_pylist()[-1])
    assert seen == list(range(20))
    last = source.range(limit=3, reverse=True).to_pylist()[-1]
    assert source.range(limit=1, reverse=True, after=last)["k"].to_pylist() == [16]
    with pytest.raises(nb.InvalidArgumentError, match="first columns of the key"):
        source.range(after={"s": "x"})


def test_pages_by_a_key_in_a_struct(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    nb.write(ROWS, path, cluster_by=["p.x", "p.y"])
    file = nb.open(path)
    last = file.range(limit=7).to_pylist()[-1]
    assert file.range(after=last, limit=1)["k"].to_pylist() == [7]
    assert file.range(after={"p.x": 1, "p.y": 1}, limit=1)["k"].to_pylist() == [7]


def test_scans_become_frames(source: Source) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    scan = source.scan(["k", "s"], filter="k >= 17")
    frame = scan.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["k"].tolist() == [17, 18, 19]
    other = scan.to_polars()
    assert isinstance(other, polars.DataFrame)
    assert other["k"].to_list() == [17, 18, 19]
    with duckdb.connect() as con:
        relation = scan.to_duckdb(con)
        for _ in range(2):
            assert relation.aggregate("sum(k)").fetchall() == [(54,)]
    with pytest.raises(nb.InvalidArgumentError, match="DuckDB connection"):
        scan.to_duckdb("x")


def test_html_is_escaped_and_cheap(source: Source) -> None:
    html = source._repr_html_()
    assert "<b>0</b>" not in html
    for word in ("fixed_size_list", "not null", "rows"):
        assert word in html
    scan = source.scan(filter="s = '<b>1</b>'")._repr_html_()
    assert "&lt;b&gt;1&lt;/b&gt;" in scan
    assert "<b>1" not in scan
    assert "<pre>" in source.explain(3)._repr_html_()
    source.close()
    assert "closed" in source._repr_html_() or "Table a.b" in source._repr_html_()


def test_html_of_commits_and_health(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    table = nb.connect(tmp_path / "lake").create_table("a.b", pa.schema({"k": pa.int64()}))
    table._repr_html_()
    commit = table.append({"k": [1]})
    assert str(commit.snapshot) in commit._repr_html_()
    assert "1 rows" in table.health()._repr_html_()
    before = table.io_stats
    assert "<th>column</th>" in table._repr_html_()
    assert table.io_stats == before
    assert "branch" in table.branch("x").at(branch="x")._repr_html_()


def test_as_numpy_keeps_integers_beside_nulls(tmp_path: Path) -> None:
    big = 2**62 + 1
    pair = pa.struct([("a", pa.int64())])
    rows = pa.table(
        {
            "k": [1, 2, 3],
            "list": pa.array([[big, None], [big], None], pa.list_(pa.int64())),
            "struct": pa.array([{"a": big}, {"a": None}, None], pair),
            "map": pa.array(
                [[("x", big), ("y", None)], [], None], pa.map_(pa.string(), pa.int64())
            ),
            "pairs": pa.array([[{"a": big}, {"a": None}], [], None], pa.list_(pair)),
            "id": pa.array([uuid.UUID(int=1).bytes, None, None], pa.uuid()),
        }
    )
    nb.write(rows, tmp_path / "a.nimble", cluster_by="k")
    with nb.open(tmp_path / "a.nimble") as file:
        found = file.lookup([1, 2, 3], as_numpy=True)
    for name in rows.column_names:
        values = [v.tolist() if isinstance(v, np.ndarray) else v for v in found[name]]
        assert values == rows[name].to_pylist(), name


def test_as_numpy_gives_matrices_for_vectors_with_nulls(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "k": [1, 2],
            "f": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
            "i": pa.array([[1, 2], None], pa.list_(pa.int16(), 2)),
        }
    )
    nb.write(rows, tmp_path / "a.nimble", cluster_by="k")
    with nb.open(tmp_path / "a.nimble") as file:
        found = file.lookup([2, 1, 9], as_numpy=True, missing="null")
    assert found["f"].shape == found["i"].shape == (3, 2)
    assert np.isnan(found["f"]).tolist() == [[True] * 2, [False] * 2, [True] * 2]
    assert found["i"].tolist() == [[None, None], [1, 2], [None, None]]
    assert found["i"].dtype == np.int16


def test_as_numpy_of_null_vectors_of_any_type() -> None:
    inner = pa.list_(pa.int64(), 1)
    ids = pa.array([uuid.UUID(int=i).bytes for i in range(4)], pa.uuid())
    columns = {
        "nested": pa.array([[[1], [2]], None], pa.list_(inner, 2)),
        "views": pa.FixedSizeListArray.from_arrays(pa.array(list("abcd"), pa.string_view()), 2),
        "ids": pa.FixedSizeListArray.from_arrays(ids, 2, mask=pa.array([False, True])),
    }
    found = numpy_columns(pa.table(columns))
    assert found["nested"].tolist() == [[[1], [2]], [[None], [None]]]
    assert found["views"].tolist() == [["a", "b"], ["c", "d"]]
    assert found["ids"].tolist() == [[uuid.UUID(int=0), uuid.UUID(int=1)], [None, None]]
