"""Nearest rows against an oracle that compares all rows in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

ROWS, WIDTH = 17_000, 64
METRICS = ["l2", "cosine", "dot"]


def distances(metric: str, query: Any, rows: Any) -> np.ndarray[Any, Any]:
    q, x = np.asarray(query, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    if metric == "l2":
        return ((x - q) ** 2).sum(axis=1)
    if metric == "dot":
        return -(x @ q)
    return 1 - (x @ q) / (np.linalg.norm(x, axis=1) * np.linalg.norm(q))


def nearest(metric: str, query: Any, rows: Any, k: int, allowed: Any = None) -> list[int]:
    """Numbers of the nearest rows, ties by row."""
    d = distances(metric, query, rows)
    order = np.argsort(d, kind="stable")
    if allowed is not None:
        order = order[allowed[order]]
    return [int(i) for i in order[:k]]


def vectors(x: Any, value_type: pa.DataType | None = None) -> pa.FixedSizeListArray:
    values = pa.array(np.ascontiguousarray(x).ravel())
    if value_type is not None:
        values = values.cast(value_type)
    return pa.FixedSizeListArray.from_arrays(values, x.shape[1])


def clustered(rows: int, width: int, seed: int) -> np.ndarray[Any, Any]:
    """Vectors around centres that overlap, so that neighbours are in several lists."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(60, width))
    picked = centres[random.integers(0, 60, rows)]
    return (picked + 1.2 * random.normal(size=(rows, width))).astype(np.float32)


@pytest.fixture(scope="module")
def rows() -> np.ndarray[Any, Any]:
    return clustered(ROWS, WIDTH, 1)


@pytest.fixture(scope="module")
def queries() -> np.ndarray[Any, Any]:
    return clustered(60, WIDTH, 2)


@pytest.fixture(scope="module", params=METRICS)
def file(request: Any, rows: Any, tmp_path_factory: Any) -> nb.File:
    path = tmp_path_factory.mktemp("nearest") / f"{request.param}.nimble"
    number = np.arange(ROWS)
    table = pa.table(
        {"tenant": np.sort(number % 9), "id": number, "bucket": number % 100, "v": vectors(rows)}
    )
    index = nb.VectorIndex("v", metric=request.param)
    nb.write(table, path, cluster_by=["tenant", "id"], indexes=[index])
    return nb.open(path)


def metric_of(file: nb.File) -> str:
    return next(i for i in file.indexes if i.kind == "vector") and str(
        file.explain(nearest=np.ones(WIDTH))["metric"]
    )


def test_recall_is_at_least_what_was_asked(file: nb.File, rows: Any, queries: Any) -> None:
    metric = metric_of(file)
    hits = file.nearest(queries, columns=["id"])
    assert hits.column_names == ["_query", "id", "_distance"]
    assert hits.schema.types == [pa.int64(), pa.int64(), pa.float32()]
    ids = hits["id"].to_numpy().reshape(len(queries), 10)
    found = [
        len({*map(int, got)} & {*nearest(metric, q, rows, 10)})
        for got, q in zip(ids, queries, strict=True)
    ]
    assert sum(found) / (10 * len(queries)) >= 0.95
    plan = file.explain(nearest=queries[0])
    assert plan.index == "vector"
    assert 0 < plan["lists probed"] <= plan["lists"] == 261
    assert plan["rows compared"] < plan["rows scored"] <= ROWS


def test_distances_are_exact_ascending_and_of_different_rows(
    file: nb.File, rows: Any, queries: Any
) -> None:
    for recall in (0.3, 0.8, 0.999, 1):
        hits = file.nearest(queries[3], k=40, columns=["id"], recall=recall)
        ids, found = hits["id"].to_numpy(), hits["_distance"].to_numpy()
        assert len(set(ids.tolist())) == 40
        assert (np.diff(found) >= 0).all()
        expected = distances(metric_of(file), queries[3], rows)[ids]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_exact_equals_the_oracle(file: nb.File, rows: Any, queries: Any) -> None:
    for metric in METRICS:
        hits = file.nearest(queries[:5], k=25, columns=["id"], exact=True, metric=metric)
        ids = hits["id"].to_numpy().reshape(5, 25)
        for got, query in zip(ids, queries, strict=False):
            assert got.tolist() == nearest(metric, query, rows, 25)


def test_filters_prefixes_and_ranges_equal_the_oracle(
    file: nb.File, rows: Any, queries: Any
) -> None:
    metric, number = metric_of(file), np.arange(ROWS)
    tenant = np.sort(number % 9)
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"filter": "bucket = 3"}, number % 100 == 3),
        ({"filter": "bucket = 3 AND id % 7 = 1"}, (number % 100 == 3) & (number % 7 == 1)),
        ({"filter": "bucket < ?", "params": [5]}, number % 100 < 5),
        ({"filter": "id < 0"}, number < 0),
        ({"filter": "id = 77"}, number == 77),
        ({"prefix": 4}, tenant == 4),
        ({"lower": 2, "upper": 5}, (tenant >= 2) & (tenant < 5)),
        ({"lower": (8, 16_995)}, number >= 16_995),
        ({"prefix": 4, "filter": "bucket > 50"}, (tenant == 4) & (number % 100 > 50)),
        ({"prefix": 400}, tenant == 400),
    ]
    for arguments, allowed in cases:
        hits = file.nearest(queries[7], columns=["id"], **arguments)
        assert hits["id"].to_pylist() == nearest(metric, queries[7], rows, 10, allowed), arguments


def test_large_filters_and_ranges_search_lists(file: nb.File, rows: Any, queries: Any) -> None:
    metric, number = metric_of(file), np.arange(ROWS)
    # The file is a little above the threshold of lists, so only nearly all rows are enough.
    for arguments, allowed in (
        ({"filter": "bucket <> 5"}, number % 100 != 5),
        ({"lower": (0, 500)}, number >= 500),
    ):
        plan = file.explain(nearest=queries[0], **arguments)
        assert plan["files by lists"] == 1
        assert plan["rows allowed"] == allowed.sum()
        whole = file.nearest(queries[:20], columns=["id"], recall=0.999, **arguments)
        ids = whole["id"].to_numpy().reshape(20, 10)
        share = [
            len({*map(int, got)} & {*nearest(metric, q, rows, 10, allowed)})
            for got, q in zip(ids, queries, strict=False)
        ]
        assert sum(share) >= 196  # estimates miss few
        assert allowed[ids].all()


def test_queries_take_many_forms(file: nb.File, queries: Any) -> None:
    one = file.nearest(queries[0], k=3)
    assert one.column_names == ["tenant", "id", "bucket", "v", "_distance"]
    for form in (queries[0].tolist(), pa.array(queries[0]), queries[0].astype(np.float64)):
        assert file.nearest(form, k=3).equals(one)
    many = file.nearest(queries[:2], k=3)
    for form in (
        queries[:2].tolist(),
        vectors(queries[:2]),
        pa.chunked_array([vectors(queries[:2])]),
    ):
        assert file.nearest(form, k=3).equals(many)
    assert many["_query"].to_pylist() == [0, 0, 0, 1, 1, 1]
    assert many.slice(0, 3).drop_columns("_query").equals(one)
    assert file.nearest(np.empty((0, WIDTH)), columns=["id"]).num_rows == 0


def test_bad_arguments_are_refused_by_name(file: nb.File, queries: Any) -> None:
    q = queries[0].astype(np.float64)
    bad = q.copy()
    bad[3] = np.nan
    for arguments, message in (
        ({"query": q[:10]}, "vectors of 64 numbers"),
        ({"query": bad}, "NaN"),
        ({"query": [*q[1:].tolist(), None]}, "null"),
        ({"query": q, "k": 0}, "k must be"),
        ({"query": q, "k": 10_001}, "k must be"),
        ({"query": q, "recall": 0}, "recall must be"),
        ({"query": q, "metric": "manhattan"}, "metric must be"),
        ({"query": q, "on": "bucket"}, "fixed-size lists"),
        ({"query": q, "prefix": 1, "lower": 2}, "not both"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            file.nearest(**arguments)  # type: ignore[arg-type]
    other = "l2" if metric_of(file) != "l2" else "dot"
    with pytest.raises(nb.InvalidArgumentError, match="exact=True"):
        file.nearest(q, metric=other)  # type: ignore[arg-type]
    with pytest.raises(nb.InvalidArgumentError, match="only zeros"):
        file.nearest(np.zeros(WIDTH), metric="cosine", exact=True)


@pytest.mark.parametrize("width", [1, 2, 15, 64, 65, 384, 4096])
def test_every_width(tmp_path: Path, width: int) -> None:
    random = np.random.default_rng(width)
    # Below the threshold of lists, or above the threshold of searches by lists.
    count = min(4000, (1 << 20) // width + 50) if width > 300 else 200
    x = random.integers(-100, 100, (count, width)).astype(np.int8)
    table = pa.table({"id": np.arange(count), "v": vectors(x)})
    nb.write(table, tmp_path / "a.nimble", indexes=[nb.VectorIndex("v")])
    with nb.open(tmp_path / "a.nimble") as f:
        f.verify()
        lists = f.explain(nearest=x[5])["lists"]
        assert (lists > 0) == (count * width >= 1 << 20)
        hits = f.nearest(x[5], k=5, columns=["id"], recall=0.999)
        assert hits["id"][0].as_py() == nearest("l2", x[5], x, 1)[0]
        exact = f.nearest(x[5], k=5, columns=["id"], exact=True)
        assert exact["id"].to_pylist() == nearest("l2", x[5], x, 5)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "uint8", "int32"])
def test_every_type_with_nulls_and_values_that_are_not_finite(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(3)
    count, width = 2200, 512
    x = random.integers(0, 100, (count, width)).astype(kind)
    left_out = set(range(0, count, 13))
    if kind.startswith("float"):
        x[5, 3], x[6, 0], x[7, 511] = np.nan, np.inf, -np.inf
        left_out |= {5, 6, 7}
    x[8] = 0
    valid = np.ones(count, dtype=bool)
    valid[::13] = False
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), width, mask=pa.array(~valid))
    path = tmp_path / "a.nimble"
    for metric in METRICS:
        nb.write(
            pa.table({"id": np.arange(count), "v": column}),
            path,
            indexes=[nb.VectorIndex("v", metric=metric)],  # type: ignore[arg-type]
        )
        never = left_out | ({8} if metric == "cosine" else set())
        allowed = np.array([i not in never for i in range(count)])
        rows = np.where(allowed[:, None], x, 1).astype(np.float64)
        query = random.integers(0, 100, width).astype(np.float64)
        with nb.open(path) as f:
            f.verify()
            assert f.indexes[0].num_keys == allowed.sum()
            for k in (10, 10_000):
                hits = f.nearest(query, k=k, columns=["id"], exact=True)
                assert hits["id"].to_pylist() == nearest(metric, query, rows, k, allowed)
            by_lists = f.nearest(query, k=10_000, columns=["id"], recall=0.999)
            assert not never & {*by_lists["id"].to_pylist()}
            assert by_lists.num_rows == allowed.sum()


def test_equal_rows_are_ordered_by_row(tmp_path: Path) -> None:
    x = np.ones((2100, 512), dtype=np.int8)
    x[1000:] = 2
    table = pa.table({"id": np.arange(2100), "v": vectors(x)})
    nb.write(table, tmp_path / "a.nimble", indexes=[nb.VectorIndex("v")])
    with nb.open(tmp_path / "a.nimble") as f:
        hits = f.nearest(np.full(512, 2), k=4, columns=["id"], exact=True)
        assert hits["id"].to_pylist() == [1000, 1001, 1002, 1003]
        assert f.nearest(np.full(512, 2), k=4)["_distance"].to_pylist() == [0, 0, 0, 0]


def test_values_beyond_floats_are_compared_exactly(tmp_path: Path) -> None:
    x = np.full((2100, 512), 1e200)
    x[:, 0] = np.arange(2100) * 1e198
    table = pa.table({"id": np.arange(2100), "v": vectors(x)})
    for metric in ("l2", "cosine"):
        index = nb.VectorIndex("v", metric=metric)  # type: ignore[arg-type]
        nb.write(table, tmp_path / "a.nimble", indexes=[index])
        with nb.open(tmp_path / "a.nimble") as f:
            assert f.explain(nearest=x[9])["lists"] == 0
            assert (
                f.nearest(x[9], k=1, columns=["id"], metric="cosine", exact=True)["id"][0].as_py()
                == 9
            )


def test_queries_with_hits_far_and_near_have_fewer_than_k_rows(tmp_path: Path) -> None:
    for count in (0, 1, 31, 33):
        x = np.arange(count * 2, dtype=np.float32).reshape(count, 2)
        table = pa.table({"id": pa.array(np.arange(count)), "v": vectors(x)})
        nb.write(table, tmp_path / "a.nimble", indexes=[nb.VectorIndex("v", metric="dot")])
        with nb.open(tmp_path / "a.nimble") as f:
            assert (
                f.nearest([1, 1], k=50, columns=["id"])["id"].to_pylist() == [*range(count)][::-1]
            )


def test_several_columns_of_vectors(tmp_path: Path) -> None:
    x = np.eye(4, dtype=np.float32)
    table = pa.table({"a": vectors(x), "b": vectors(x[::-1])})
    nb.write(table, tmp_path / "none.nimble")
    with (
        nb.open(tmp_path / "none.nimble") as f,
        pytest.raises(nb.InvalidArgumentError, match="on="),
    ):
        f.nearest([1, 0, 0, 0])
    nb.write(table, tmp_path / "one.nimble", indexes=[nb.VectorIndex("b", metric="dot")])
    with nb.open(tmp_path / "one.nimble") as f:
        assert f.nearest([1, 0, 0, 0], k=1)["b"].to_pylist() == [[1, 0, 0, 0]]
        assert f.nearest([1, 0, 0, 0], k=1)["_distance"].to_pylist() == [-1]
        assert f.nearest([1, 0, 0, 0], k=1, on="a")["_distance"].to_pylist() == [0]


def test_datasets_search_their_files_together(tmp_path: Path, rows: Any, queries: Any) -> None:
    for i in range(3):
        part = slice(i * 6000, min(ROWS, (i + 1) * 6000))
        # One file has no index. Two are too small to be searched by lists alone.
        table = pa.table({"id": np.arange(ROWS)[part], "v": vectors(rows[part])})
        nb.write(
            table,
            tmp_path / f"{i}.nimble",
            cluster_by="id",
            indexes=[nb.VectorIndex("v")] if i else [],
        )
    big = pa.table({"id": np.arange(ROWS, 2 * ROWS), "v": vectors(clustered(ROWS, WIDTH, 5))})
    nb.write(big, tmp_path / "3.nimble", cluster_by="id", indexes=[nb.VectorIndex("v")])
    everything = np.concatenate([rows, clustered(ROWS, WIDTH, 5)])
    with nb.open_dataset(tmp_path) as d:
        plan = d.explain(nearest=queries[0])
        assert (plan["files by lists"], plan["files compared"]) == (3, 1)
        ids = d.nearest(queries, columns=["id"])["id"].to_numpy().reshape(-1, 10)
        share = [
            len({*map(int, got)} & {*nearest("l2", q, everything, 10)})
            for got, q in zip(ids, queries, strict=True)
        ]
        assert sum(share) >= 9.5 * len(queries)
        exact = d.nearest(queries[0], columns=["id"], exact=True, lower=5000, filter="id % 3 = 0")
        number = np.arange(2 * ROWS)
        allowed = (number >= 5000) & (number % 3 == 0)
        assert exact["id"].to_pylist() == nearest("l2", queries[0], everything, 10, allowed)


def test_files_with_indexes_of_another_metric_are_compared(
    tmp_path: Path, rows: Any, queries: Any
) -> None:
    # metric= was asked for, and then refused because one file has an index of the other metric.
    for name, metric, part in (("a", "l2", rows[:8000]), ("b", "dot", rows[8000:])):
        begin = 0 if name == "a" else 8000
        table = pa.table({"id": np.arange(begin, begin + len(part)), "v": vectors(part)})
        index = nb.VectorIndex("v", metric=metric)  # type: ignore[arg-type]
        nb.write(table, tmp_path / f"{name}.nimble", cluster_by="id", indexes=[index])
    with nb.open_dataset(tmp_path) as d:
        with pytest.raises(nb.InvalidArgumentError, match=r"metrics dot, l2; pass metric="):
            d.nearest(queries[0])
        asked: Any
        for asked in ("l2", "dot"):
            for columns in (["id"], None):
                hits = d.nearest(queries, 10, metric=asked, recall=0.99, columns=columns)
                ids = hits["id"].to_numpy().reshape(-1, 10)
                shared = [
                    len({*map(int, got)} & {*nearest(asked, q, rows, 10)})
                    for got, q in zip(ids, queries, strict=True)
                ]
                assert sum(shared) >= 9.7 * len(queries)
            plan = d.explain(nearest=queries[0], metric=asked)
            assert plan["files compared"] >= 1
        with pytest.raises(nb.InvalidArgumentError, match="the vector index has 'dot' and 'l2'"):
            d.nearest(queries[0], metric="cosine")


def test_two_metrics_of_a_column_are_refused(tmp_path: Path) -> None:
    table = pa.table({"v": vectors(np.eye(4, dtype=np.float32))})
    two = [nb.VectorIndex("v"), nb.VectorIndex("v", metric="dot")]
    with pytest.raises(nb.InvalidArgumentError, match=r"two vector indexes, of .*'l2' and 'dot'"):
        nb.write(table, tmp_path / "a.nimble", indexes=two)
    with pytest.raises(nb.InvalidArgumentError, match="given twice"):
        nb.write(table, tmp_path / "a.nimble", indexes=two[:1] * 2)
    with pytest.raises(nb.InvalidArgumentError, match="complex"):
        nb.VectorIndex("v", queries=np.full((2, 4), 1j))


def test_reads_are_few_rounds(tmp_path: Path, rows: Any, queries: Any) -> None:
    table = pa.table({"id": np.arange(ROWS), "v": vectors(rows)})
    nb.write(table, tmp_path / "a.nimble", indexes=[nb.VectorIndex("v")])
    with nb.open(tmp_path / "a.nimble", mmap=False) as f, nb.open(tmp_path / "a.nimble") as mapped:
        f.nearest(queries[1], columns=["id"])  # the index' directory and the group's metadata
        f.reset_io_stats()
        hits = f.nearest(queries[0], columns=["id"])
        assert f.io_stats.rounds <= 3
        assert f.io_stats.bytes_read < 3_000_000
        assert hits.equals(mapped.nearest(queries[0], columns=["id"]))


def test_many_small_files_keep_the_recall(tmp_path: Path, queries: Any) -> None:
    # Each file has a few of the neighbours, so fewer of its rows are needed than for ten. The lists
    # of small files fill blocks of 32 rows.
    files, each = 40, 1_100
    x = clustered(files * each, WIDTH, 11)
    for i in range(files):
        part = slice(i * each, (i + 1) * each)
        table = pa.table({"id": np.arange(len(x))[part], "v": vectors(x[part])})
        nb.write(table, tmp_path / f"{i:02}.nimble", indexes=[nb.VectorIndex("v")])
    with nb.open_dataset(tmp_path) as d:
        plan = d.explain(nearest=queries[0])
        assert plan["files by lists"] == files
        assert plan["lists"] == files * (each // 32)
        assert plan["rows scored"] < 0.6 * len(x)
        ids = d.nearest(queries, columns=["id"])["id"].to_numpy().reshape(-1, 10)
        found = [
            len({*map(int, got)} & {*nearest("l2", q, x, 10)})
            for got, q in zip(ids, queries, strict=True)
        ]
        assert sum(found) >= 9.5 * len(queries)


def test_filters_of_many_small_files_keep_the_recall(tmp_path: Path) -> None:
    # A filter that keeps whole clusters: a list may have far more rows that pass than expected,
    # and the next list may still have nearer ones.
    files, each, topics = 40, 1_100, 40
    rng = np.random.default_rng(1)
    centers = rng.normal(size=(topics, WIDTH))
    topic = rng.integers(0, topics, files * each)
    x = (centers[topic] + 0.6 * rng.normal(size=(len(topic), WIDTH))).astype(np.float32)
    for i in range(files):
        part = slice(i * each, (i + 1) * each)
        columns = {"id": np.arange(len(x))[part], "topic": topic[part], "v": vectors(x[part])}
        nb.write(pa.table(columns), tmp_path / f"{i:02}.nimble", indexes=[nb.VectorIndex("v")])
    kept = np.flatnonzero(topic < 16)
    with nb.open_dataset(tmp_path) as d:
        for recall, k in ((0.3, 1), (0.95, 10)):
            found = 0
            for q in centers[rng.integers(0, 16, 30)] + 0.6 * rng.normal(size=(30, WIDTH)):
                rows = d.nearest(q, k=k, columns=["id"], filter="topic < 16", recall=recall)
                nearest_kept = kept[nearest("l2", q, x[kept], k)]
                found += len({*rows["id"].to_pylist()} & {*map(int, nearest_kept)})
            assert found >= recall * 30 * k
