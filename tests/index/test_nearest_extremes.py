"""Nearest rows of data and queries that are hard for floats, against an oracle in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

ROWS, WIDTH = 17_000, 64
METRICS: list[Any] = ["l2", "cosine", "dot"]


def distances(metric: str, query: Any, rows: Any) -> np.ndarray[Any, Any]:
    q, x = np.asarray(query, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    if metric == "l2":
        return ((x - q) ** 2).sum(axis=1)
    if metric == "dot":
        return -(x @ q)
    return 1 - (x @ q) / (np.linalg.norm(x, axis=1) * np.linalg.norm(q))


def nearest(metric: str, query: Any, rows: Any, k: int) -> list[int]:
    return [int(i) for i in np.argsort(distances(metric, query, rows), kind="stable")[:k]]


def write(path: Path, x: Any, index: nb.VectorIndex | None = None) -> nb.File:
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(x).ravel()), len(x[0]))
    table = pa.table({"id": np.arange(len(x)), "v": column})
    nb.write(table, path, cluster_by="id", indexes=[] if index is None else [index])
    return nb.open(path)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6])
def test_exact_selects_by_float64(tmp_path: Path, metric: Any, shift: float) -> None:
    # Selecting by floats lost rows whose distances differ in the last bits.
    if (metric, shift) == ("cosine", 1e6):
        pytest.skip("the oracle rounds more than these cosines differ")
    random = np.random.default_rng(1)
    x = (shift + random.normal(size=(3000, 48))).astype(np.float32)
    query = shift + random.normal(size=48)
    with write(tmp_path / "a.nimble", x) as f:
        for q in (query, query.astype(np.float32).astype(np.float64)):
            hits = f.nearest(q, k=60, columns=["id"], metric=metric, exact=True)
            assert hits["id"].to_pylist() == nearest(metric, q, x, 60)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", ["plain", "shifted", "far clusters"])
def test_recall_of_random_numbers_also_far_from_the_origin(
    tmp_path: Path, metric: Any, kind: str
) -> None:
    # Tables of 7 bits of a long query hid the small differences of near rows. Comparing 200 rows
    # was not enough for plain random numbers.
    random = np.random.default_rng(2)
    count = 40
    if kind != "far clusters":
        centre = np.full(WIDTH, 1000.0 if kind == "shifted" else 0.0)
    else:
        centre = 100 * np.random.default_rng(3).normal(size=(20, WIDTH))
        centre = centre[random.integers(0, 20, ROWS + count)]
    x = (centre + random.normal(size=(ROWS + count, WIDTH))).astype(np.float32)
    rows, queries = x[:ROWS], x[ROWS:]
    with write(tmp_path / "a.nimble", rows, nb.VectorIndex("v", metric=metric)) as f:
        f.verify()
        ids = f.nearest(queries, columns=["id"])["id"].to_numpy().reshape(count, 10)
        shares = [
            len({*map(int, got)} & {*nearest(metric, q, rows, 10)})
            for got, q in zip(ids, queries, strict=True)
        ]
        assert sum(shares) >= 9.4 * count
        assert f.explain(nearest=queries[0])["files by lists"] == 1


@pytest.mark.parametrize("metric", METRICS)
def test_extreme_queries_of_lists(tmp_path: Path, metric: Any) -> None:
    x = np.random.default_rng(4).normal(size=(ROWS, WIDTH)).astype(np.float32)
    direction = np.random.default_rng(5).normal(size=WIDTH)
    with write(tmp_path / "a.nimble", x, nb.VectorIndex("v", metric=metric)) as f:
        usual = f.nearest(direction, k=5, columns=["id"])["id"].to_pylist()
        for scale in (1e-320, 1e-200, 1e-20, 1e20, 1e200, 1e306):
            query = direction * scale
            hits = f.nearest(query, k=5, columns=["id"])
            assert hits.num_rows == 5
            if metric == "cosine":
                # Digits of numbers as small as 1e-320 are lost.
                assert scale == 1e-320 or hits["id"].to_pylist() == usual
                assert (np.abs(hits["_distance"].to_numpy()) <= 2).all()
            elif metric == "dot" and scale != 1e-320:
                assert hits["id"].to_pylist() == nearest("dot", direction, x, 5)
            elif metric == "l2" and scale == 1e20:
                exact = f.nearest(query, k=5, columns=["id"], exact=True)
                assert hits.equals(exact)
        if metric == "dot":
            assert f.nearest(np.zeros(WIDTH), k=3, columns=["id"])["id"].to_pylist() == [0, 1, 2]
            plan = f.explain(nearest=direction * 1e-20)
            assert (plan["rows compared"], plan["rows scored"]) == (ROWS, 0)


def test_cosine_of_extreme_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    x = random.normal(size=(300, 16))
    scale = np.float64(10) ** random.integers(-290, 290, 300)
    x[7], x[8] = 0, -0.0
    stored = x * scale[:, None]
    expected = [i for i in nearest("cosine", x[0], np.where(x == 0, 1, x), 300) if i not in (7, 8)]
    with write(tmp_path / "a.nimble", stored, nb.VectorIndex("v", metric="cosine")) as f:
        for query in (x[0], x[0] * 1e300, x[0] * 1e-300):
            hits = f.nearest(query, k=300, columns=["id"])
            assert hits["id"].to_pylist()[:100] == expected[:100]
            assert {*hits["id"].to_pylist()} == {*expected}
    floats = np.float32([[1e-44, 2e-44], [3e38, 3e38], [1e-30, -1e-30], [0, 0], [0, 1e-45]])
    with write(tmp_path / "b.nimble", floats) as f:
        hits = f.nearest([1, 1], metric="cosine", columns=["id"])
        assert hits["id"].to_pylist() == [1, 0, 4, 2]


def test_the_metric_does_not_depend_on_the_filter(tmp_path: Path) -> None:
    # The metric was that of the files that pruning left, and "l2" without one.
    random = np.random.default_rng(7)
    x = random.normal(size=(100, 4)) * np.arange(1, 101)[:, None]
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 4)
    table = pa.table({"id": np.arange(100), "v": column})
    index = nb.VectorIndex("v", metric="cosine")
    nb.write(table.slice(0, 50), tmp_path / "a.nimble", cluster_by="id", indexes=[index])
    nb.write(table.slice(50), tmp_path / "b.nimble", cluster_by="id")
    with nb.open_dataset(tmp_path) as d:
        for arguments in ({}, {"filter": "id >= 50"}, {"lower": 50}):
            first = 0 if not arguments else 50
            hits = d.nearest(x[60], k=100, columns=["id"], **arguments)  # type: ignore[arg-type]
            assert hits["id"].to_pylist() == [
                first + i for i in nearest("cosine", x[60], x[first:], 100)
            ]
        with pytest.raises(nb.InvalidArgumentError, match="exact=True"):
            d.nearest(x[60], metric="l2", filter="id >= 50")


def test_exact_reads_nothing_of_the_index(tmp_path: Path) -> None:
    x = np.random.default_rng(8).normal(size=(600, 4)).astype(np.float32)
    path = tmp_path / "a.nimble"
    write(path, x, nb.VectorIndex("v", metric="dot")).close()
    good = path.read_bytes()
    at = good.rindex(b"NPYV")
    bad = bytearray(good)
    bad[at + 9] ^= 255
    with nb.open(bytes(bad)) as f:
        exact = f.nearest(x[0], columns=["id"], metric="l2", exact=True)
        assert exact["id"].to_pylist() == nearest("l2", x[0], x, 10)
        with pytest.raises(nb.NimbleError):
            f.nearest(x[0])


@pytest.mark.slow
def test_lists_beyond_64_mib_are_read_in_several_rounds(tmp_path: Path) -> None:
    # A round of lists is at most 64 MiB. Vectors of 65,536 numbers have lists of half a MiB.
    random = np.random.default_rng(9)
    x = random.integers(-100, 100, (320, 65_536)).astype(np.int8)
    with write(tmp_path / "a.nimble", x, nb.VectorIndex("v", lists=160)) as mapped:
        size = next(i.size_bytes for i in mapped.indexes if i.kind == "vector")
        assert size > 80 << 20
        # A search looks at no fewer than 2 k rows.
        assert mapped.explain(nearest=x[3], k=200)["lists probed"] == 160
        hits = mapped.nearest(x[3], k=200, columns=["id"])
        assert hits["id"].to_pylist() == nearest("l2", x[3], x, 200)
    with nb.open(tmp_path / "a.nimble", mmap=False) as f:
        assert f.nearest(x[3], k=200, columns=["id"]).equals(hits)
        rounds = f.io_stats.rounds
    with nb.open(tmp_path / "a.nimble", mmap=False) as f:
        f.nearest(x[3], k=1, columns=["id"])
        # The second query needs one round of lists more.
        assert rounds == f.io_stats.rounds + 1


def test_a_build_that_spills_equals_one_in_memory(tmp_path: Path) -> None:
    # Also with a center that is subtracted, and with rows that are left out.
    random = np.random.default_rng(10)
    topics = 500 + random.normal(size=(40, 512))
    x = (topics[np.arange(2200) % 40] + 0.1 * random.normal(size=(2200, 512))).astype(np.float32)
    x[7, 3], x[2100] = np.nan, np.inf
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 512)
    table = pa.table({"id": np.arange(2200), "v": column})
    for metric in METRICS:
        written = []
        for memory in (1 << 20, 256 << 20):  # 4.5 MB of vectors
            options = nb.WriteOptions(index_memory_bytes=memory)
            path = tmp_path / f"{memory}.nimble"
            index = nb.VectorIndex("v", metric=metric)
            nb.write(table, path, indexes=[index], options=options)
            written.append(path)
            assert not [p for p in tmp_path.iterdir() if p.suffix not in ("", ".nimble")]
        with nb.open(written[0]) as spilled, nb.open(written[1]) as whole:
            spilled.verify()
            query = topics[5] + 0.1 * random.normal(size=512)
            exact = whole.nearest(query, columns=["id"], exact=True)
            for f in (spilled, whole):
                assert f.explain(nearest=query)["files by lists"] == 1
                hits = f.nearest(query, columns=["id"])
                assert len({*hits["id"].to_pylist()} & {*exact["id"].to_pylist()}) >= 8


@pytest.mark.parametrize(("offset", "has_lists"), [(1e4, True), (1e8, False)])
def test_doubles_far_from_the_origin(tmp_path: Path, offset: float, has_lists: bool) -> None:
    """Floats cannot tell the rows apart, so that they are compared as doubles."""
    rng = np.random.default_rng(5)
    vectors = offset + rng.normal(size=(ROWS, WIDTH))
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH)
    index = nb.VectorIndex("e", metric="l2")
    nb.write(pa.table({"i": range(ROWS), "e": column}), tmp_path / "a.nimble", indexes=[index])
    with nb.open(tmp_path / "a.nimble") as file:
        assert ("by lists  (" in str(file.explain(nearest=vectors[0], k=5))) == has_lists
        found = 0
        for query in vectors[:40]:
            exact = np.argsort(((vectors - query) ** 2).sum(axis=1))[:5]
            found += len({*exact.tolist()} & {*file.nearest(query, k=5)["i"].to_pylist()})
    assert found >= (180 if has_lists else 200)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("apart", [2.0, 0.5])
def test_recall_if_a_filter_excludes_the_rows_around_a_query(
    tmp_path: Path, metric: Any, apart: float
) -> None:
    rng = np.random.default_rng(3)
    topics = rng.integers(0, 50, 20_000)
    centers = apart * rng.normal(size=(50, WIDTH))
    x = (centers[topics] + 0.5 * rng.normal(size=(20_000, WIDTH))).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDTH)
    table = pa.table({"id": range(20_000), "topic": topics, "v": column})
    nb.write(table, tmp_path / "a.nimble", indexes=[nb.VectorIndex("v", metric=metric)])
    asked = rng.integers(0, 20_000, 120)
    found = wanted = 0
    with nb.open(tmp_path / "a.nimble") as file:
        for query, topic in zip(x[asked], topics[asked], strict=True):
            options: dict[str, Any] = {"k": 10, "filter": f"topic % 2 <> {topic % 2}"}
            near = file.nearest(query, **options)["id"].to_pylist()
            exact = file.nearest(query, exact=True, **options)["id"].to_pylist()
            found += len({*near} & {*exact})
            wanted += len(exact)
    assert found >= 0.95 * wanted


def recall_of(file: nb.File, queries: Any, k: int, of_rows: dict[str, Any] | None = None) -> float:
    """The share of the nearest rows, counted by `exact`, that `nearest` finds by lists."""
    options: dict[str, Any] = {"k": k, **(of_rows or {})}
    assert file.explain(nearest=queries[0], **options)["files by lists"] == 1
    found = wanted = 0
    for query in queries:
        near = file.nearest(query, **options)["id"].to_pylist()
        exact = file.nearest(query, exact=True, **options)["id"].to_pylist()
        found += len({*near} & {*exact})
        wanted += len(exact)
    return found / wanted


def written(path: Path, x: Any, metric: Any = "l2", **columns: Any) -> Path:
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
    table = pa.table({"id": range(len(x)), "v": column, **columns})
    order = {"cluster_by": [*columns]} if "tenant" in columns else {}
    nb.write(table, path / "a.nimble", indexes=[nb.VectorIndex("v", metric=metric)], **order)
    return path / "a.nimble"


@pytest.mark.parametrize(
    ("metric", "k"), [("l2", 101), ("l2", 1000), ("l2", 3000), ("cosine", 1000), ("dot", 1000)]
)
def test_recall_for_more_neighbours_than_were_calibrated(
    tmp_path: Path, metric: Any, k: int
) -> None:
    """More than a cluster has, so that most are in lists far from the query."""
    rng = np.random.default_rng(5)
    centers = rng.normal(size=(80, WIDTH))
    x = centers[rng.integers(0, 80, 20_000)] + 0.3 * rng.normal(size=(20_000, WIDTH))
    with nb.open(written(tmp_path, x.astype(np.float32), metric)) as file:
        assert recall_of(file, x[:12], k) >= 0.95


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_recall_if_clusters_have_different_widths(tmp_path: Path, metric: Any) -> None:
    """The query is in a narrow cluster, which the filter or the prefix excludes."""
    rng = np.random.default_rng(0)
    n = 50_000
    narrow, label = np.arange(n) < n // 2, rng.integers(0, 50, n)
    centers = rng.normal(size=(2, 50, WIDTH)) * [[[1]], [[3]]]
    noise = rng.normal(size=(n, WIDTH))
    x = np.where(narrow[:, None], centers[0][label] + 0.01 * noise, centers[1][label] + noise)
    tenant = np.where(narrow, 0, 1)
    with nb.open(written(tmp_path, x.astype(np.float32), metric, tenant=tenant)) as file:
        assert recall_of(file, x[:40], 10, {"filter": "tenant = 1"}) >= 0.95
        assert recall_of(file, x[:40], 10, {"prefix": 1}) >= 0.95


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_recall_if_a_filter_excludes_the_copies_of_a_query(tmp_path: Path, metric: Any) -> None:
    """Similar rows, but not of the same group: the calibration found the copies only."""
    rng = np.random.default_rng(7)
    groups, each, inner = 2000, 20, 16
    project = rng.normal(size=(inner, WIDTH))
    group = rng.permutation(np.repeat(np.arange(groups), each))
    x = rng.normal(size=(groups, inner))[group] + 0.05 * rng.normal(size=(len(group), inner))
    x = (x @ project).astype(np.float32)
    path = written(tmp_path, x, metric, owner=group)
    found = 0
    with nb.open(path) as file:
        for i in rng.integers(0, len(x), 60):
            options: dict[str, Any] = {"filter": f"owner <> {group[i]}"}
            near = file.nearest(x[i], **options)["id"].to_pylist()
            exact = file.nearest(x[i], exact=True, **options)["id"].to_pylist()
            found += len({*near} & {*exact})
    assert found >= 0.95 * 600


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_recall_if_rows_beside_the_filter_have_no_vector(tmp_path: Path, metric: Any) -> None:
    rng = np.random.default_rng(1)
    n = 40_000
    topic = rng.integers(0, 20, n)
    x = (rng.normal(size=(20, WIDTH))[topic] + 0.5 * rng.normal(size=(n, WIDTH))).astype("f4")
    has_none = rng.random(n) < 0.5
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDTH, mask=pa.array(has_none))
    table = pa.table({"id": range(n), "v": column, "topic": topic})
    nb.write(table, tmp_path / "a.nimble", indexes=[nb.VectorIndex("v", metric=metric)])
    queries = x[(topic < 8) & ~has_none][:40]
    with nb.open(tmp_path / "a.nimble") as file:
        assert recall_of(file, queries, 10, {"filter": "topic >= 8"}) >= 0.95
        assert recall_of(file, queries, 10, {"filter": "v IS NOT NULL"}) >= 0.95


def test_recall_if_codes_cannot_tell_most_rows_apart(tmp_path: Path) -> None:
    """The large rows decide the centroids, so that the small ones are far from theirs."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30_300, WIDTH))
    x[rng.random(len(x)) < 0.75] *= 3e4
    x = x.astype(np.float32)
    found = 0
    with nb.open(written(tmp_path, x[300:])) as file:
        for query in x[:300]:
            near = file.nearest(query)["id"].to_pylist()
            found += len({*near} & {*file.nearest(query, exact=True)["id"].to_pylist()})
    assert found >= 2850
