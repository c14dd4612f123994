"""The nearest rows of files to the vectors of a DataFrame are those of Python."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns
from nimblepy.spark.base.inputs import find_input

WIDTH = 6


def rows(begin: int, count: int) -> pa.Table:
    x = np.random.default_rng(begin).normal(size=(count, WIDTH)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDTH)
    number = np.arange(begin, begin + count)
    return pa.table({"tenant": number // 50, "id": number, "v": vectors})


def test_hits_are_those_of_python(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    index = nb.VectorIndex("v", metric="cosine")
    for i in range(2):
        path = folder / f"{i}.nimble"
        nb.write(rows(100 * i, 100), path, cluster_by=["tenant", "id"], indexes=[index])
    lake = nb.connect(tmp_path / "lake")
    table = lake.create_table("a.b", rows(0, 1).schema, primary_key="id", indexes=[index])
    table.append(rows(0, 200))
    table.delete("id % 3 = 0")
    queries = np.random.default_rng(9).normal(size=(9, WIDTH))
    probe = [(i, None if i == 4 else q.tolist()) for i, q in enumerate(queries)]
    df = spark.createDataFrame(probe, "n int, q array<double>").repartition(3)
    asked = np.delete(queries, 4, axis=0)
    cases: list[tuple[Any, dict[str, Any]]] = [
        (folder, {"columns": ["id", "tenant"]}),
        (folder, {"columns": ["id"], "filter": "id % 2 = 0", "k": 3}),
        (folder, {"columns": ["id"], "prefix": 2, "metric": "l2", "exact": True}),
        (table, {"columns": ["id"], "k": 4}),
    ]
    for source, arguments in cases:
        path = source if isinstance(source, nb.Table) else str(source)
        found = ns.nearest(df, path, query="q", **arguments)
        handle = source if isinstance(source, nb.Table) else nb.open_dataset(source)
        wanted = handle.nearest(asked, **arguments)
        assert found.columns == ["n", "q", *wanted.column_names[1:]]
        got = found.drop("q").toArrow().sort_by([("n", "ascending"), ("_distance", "ascending")])
        number = np.delete(np.arange(9), 4)[wanted["_query"].to_numpy()]
        assert got["n"].to_pylist() == number.tolist()
        for name in wanted.column_names[1:]:
            assert got[name].to_pylist() == wanted[name].to_pylist()


def test_errors_come_from_the_driver(spark: Any, tmp_path: Path) -> None:
    # Metrics, filters and prefixes once failed in the job.
    nb.write(rows(0, 5), tmp_path / "a.nimble", indexes=[nb.VectorIndex("v")])
    path = str(tmp_path / "a.nimble")
    df = spark.createDataFrame([(1, [1.0])], "id long, q array<double>")
    for arguments, message in (
        ({"query": "x"}, "no such column"),
        ({"query": "id"}, "array of numbers"),
        ({"query": "q"}, "'id' is in the DataFrame"),
        ({"query": "q", "k": 0}, "k must be"),
        ({"query": "q", "on": "id"}, "fixed-size lists"),
        ({"query": "q", "metric": "dot"}, "index has 'l2'"),
        ({"query": "q", "filter": "nosuch > 1"}, "nosuch"),
        ({"query": "q", "filter": "id >"}, "id >"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            ns.nearest(df, path, **arguments)  # type: ignore[arg-type]
    with pytest.raises(nb.IndexUnavailableError, match="no cluster key"):
        ns.nearest(df, path, query="q", prefix=3)
    nb.write(rows(0, 5), tmp_path / "b.nimble", cluster_by="id")
    with pytest.raises(nb.InvalidArgumentError, match="'x'"):
        ns.nearest(df, str(tmp_path / "b.nimble"), query="q", prefix="x")


def test_workers_search_an_old_snapshot_by_its_metric(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    index = nb.VectorIndex("v", metric="cosine")
    table = lake.create_table("a.b", rows(0, 1).schema, primary_key="id", indexes=[index])
    table.append(rows(0, 50))
    table.tag("one")
    table.drop_index("v")
    table.add_index(nb.VectorIndex("v", metric="dot"))
    for handle, metric in ((table, "dot"), (table.at(tag="one"), "cosine")):
        shipped = pickle.loads(pickle.dumps(find_input(handle)))
        assert shipped.dataset.vector_metrics("v") == {metric}
