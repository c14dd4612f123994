"""Nearest vectors in tables: deleted and changed rows, filters, partitions and old snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.file.write import index_specs

DIMENSIONS = 8
SCHEMA = pa.schema(
    [("id", pa.int64()), ("color", pa.string()), ("v", pa.list_(pa.float32(), DIMENSIONS))]
)
Rows = dict[int, tuple[str, list[float] | None]]


def _table(rows: Rows) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "id": list(rows),
        "color": [group for group, _ in rows.values()],
        "v": [vector for _, vector in rows.values()],
    }
    return pa.table(columns, schema=SCHEMA)


def _nearest(rows: Rows, query: np.ndarray[Any, Any], k: int) -> list[tuple[int, float]]:
    """The oracle: sorts all rows by their distance."""
    distances = [
        (float(((np.float32(vector) - query).astype(np.float64) ** 2).sum()), id)
        for id, (_, vector) in rows.items()
        if vector is not None
    ]
    return [(id, distance) for distance, id in sorted(distances)[:k]]


def _check(table: nb.Table, rows: Rows, rng: np.random.Generator) -> None:
    query = rng.normal(size=DIMENSIONS).astype(np.float32)
    even = {id: row for id, row in rows.items() if id % 2 == 0}
    blue = {id: row for id, row in rows.items() if row[0] == "blue"}
    for expected, arguments in (
        (rows, {}),
        (even, {"filter": "id % 2 = 0"}),
        (blue, {"filter": "color = 'blue'"}),
    ):
        for exact in (False, True):
            hits = table.nearest(query, k=5, columns=["id"], exact=exact, **arguments)
            wanted = _nearest(expected, query, 5)
            assert hits["id"].to_pylist() == [id for id, _ in wanted]
            distances = [distance for _, distance in wanted]
            assert hits["_distance"].to_pylist() == pytest.approx(distances, rel=1e-4, abs=1e-5)


def _random_rows(rng: np.random.Generator, ids: np.ndarray[Any, Any]) -> Rows:
    return {
        int(id): (
            ["red", "blue"][int(rng.integers(2))],
            None if rng.random() < 0.05 else rng.normal(size=DIMENSIONS).astype("f4").tolist(),
        )
        for id in ids
    }


@pytest.mark.parametrize("partitions", [[], ["color"]])
def test_nearest_rows_of_every_snapshot(tmp_path: Path, partitions: list[str]) -> None:
    rng = np.random.default_rng(39)
    lake = nb.connect(tmp_path)
    table = lake.create_table("a.b", SCHEMA, primary_key=["id"], partition_by=partitions)
    rows: Rows = {}
    states: list[tuple[int | None, Rows]] = []
    for step in range(12):
        if step % 4 == 3:
            table.delete(f"id % 7 = {step % 7}")
            rows = {id: row for id, row in rows.items() if id % 7 != step % 7}
        else:
            changed = _random_rows(rng, rng.choice(600, 120, replace=False))
            table.upsert(_table(changed))
            rows = {**rows, **changed}
        if step == 8:
            table.compact()
        states.append((table.snapshot, dict(rows)))
        _check(table, rows, rng)
    for snapshot, old in states[::3]:
        _check(table.at(snapshot=snapshot), old, rng)


WIDE = 512


def _wide(ids: Any, seed: int) -> pa.Table:
    """Enough numbers for lists in a file of 2,100 rows."""
    ids = np.asarray(ids)
    x = np.random.default_rng(seed).normal(size=(len(ids), WIDE)).astype(np.float32)
    return pa.table({"id": ids, "v": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDE)})


def _by_lists(table: nb.Table) -> tuple[int, int]:
    plan = table.explain(nearest=np.ones(WIDE))
    return plan["files by lists"], plan["files compared"]


def test_declared_vector_index_is_written_kept_and_dropped(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    data = _wide(np.arange(2100), 1)
    table = lake.create_table(
        "a.b", data.schema, primary_key="id", indexes=[nb.VectorIndex("v", metric="cosine")]
    )
    query = np.ones(WIDE)
    assert [(i.kind, i.metric) for i in table.indexes if i.kind == "vector"] == [
        ("vector", "cosine")
    ]
    # Also without files the metric is that of the index.
    with pytest.raises(nb.InvalidArgumentError, match="'cosine'"):
        table.nearest(query, metric="l2")
    table.append(data.slice(0, 1050))
    assert _by_lists(table) == (0, 1)  # fewer than 2^20 numbers
    table.append(data.slice(1050))
    assert _by_lists(table) == (2, 0)  # more, together
    table.compact()
    assert _by_lists(table) == (1, 0)
    exact = table.nearest(query, columns=["id"], exact=True, metric="cosine")
    assert table.nearest(query, columns=["id"], exact=True).equals(exact)
    assert table.nearest(query, columns=["id"], recall=0.999)["id"][0] == exact["id"][0]
    assert table.health().index_coverage["vector (v)"] == 1.0
    # A changed vector is found at once, and its old one is not.
    moved = pa.table({"id": [7], "v": pa.array([query.astype("f4")], pa.list_(pa.float32(), WIDE))})
    table.upsert(moved)
    hits = table.nearest(query, k=2100, columns=["id"])
    assert hits["id"].to_pylist().count(7) == 1
    assert hits["id"][0].as_py() == 7
    before = table.snapshot
    same = nb.VectorIndex("v", metric="cosine")
    assert table.add_index(same).snapshot == before  # nothing to add
    assert table.snapshot == before
    table.drop_index("v")
    assert _by_lists(table) == (0, 2)
    assert table.nearest(query, k=1)["_distance"][0].as_py() == 0  # "l2" of an equal vector
    table.add_index(nb.VectorIndex("v", metric="dot", lists=5))
    assert _by_lists(table) == (1, 1)
    assert table.explain(nearest=query)["lists"] == 5
    # Files of the old snapshot have an index of another metric.
    old = table.at(snapshot=before)
    assert old.nearest(query, k=3, columns=["id"]).num_rows == 3
    table.drop_index(nb.VectorIndex("v"))
    assert not [i for i in table.indexes if i.kind == "vector"]


def test_vector_index_follows_a_renamed_column(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    data = _wide(np.arange(2100), 2)
    sample = np.random.default_rng(3).normal(size=(20, WIDE))
    table = lake.create_table("a.b", data.schema, primary_key="id")
    table.append(data)
    table.add_index(nb.VectorIndex("v", queries=sample))
    with table.alter() as change:
        change.rename_column("v", "w")
    table.append(_wide(np.arange(3000, 5100), 4).rename_columns(["id", "w"]))
    assert _by_lists(table) == (2, 0)
    assert table.explain(nearest=sample[0], on="w")["metric"] == "l2"


def test_wrong_vector_indexes_of_tables_are_refused(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    schema = _wide([1], 1).schema
    for index, message in (
        (nb.VectorIndex("id"), "fixed-size lists"),
        (nb.VectorIndex("v", queries=[[1.0]]), "queries have 1"),
        (nb.VectorIndex("v", queries=np.zeros((65, WIDE))), "at most 64"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            lake.create_table("a.b", schema, primary_key="id", indexes=[index])
    with pytest.raises(nb.InvalidArgumentError, match=r'^indexes: Parquet .*data_format="nimble"'):
        lake.create_table("a.b", schema, data_format="parquet", indexes=[nb.VectorIndex("v")])
    assert not lake.tables()


def test_index_of_another_metric_is_not_taken_for_the_declared_one(tmp_path: Path) -> None:
    # The identity of a vector index once lacked its metric: files with an index of another metric
    # counted as covered, and add_index did not replace that index.
    lake = nb.connect(tmp_path)
    data = _wide(np.arange(2100), 6)
    table = lake.create_table("a.b", data.schema, primary_key="id")
    table.append(data)
    table.add_index(nb.VectorIndex("v", metric="cosine"))
    with pytest.raises(nb.InvalidArgumentError, match="metric 'cosine' already; call drop_index"):
        table.add_index(nb.VectorIndex("v", metric="dot"))
    before = table.snapshot
    table.drop_index("v")
    table.add_index([nb.VectorIndex("v", metric="dot"), nb.HashIndex("id")])
    assert table.health().index_coverage["vector (v)"] == 1.0
    table.rollback(before)
    assert table.health().index_coverage["vector (v)"] == 0.0
    query = np.ones(WIDE)
    expected = table.nearest(query, columns=["id"], metric="dot", exact=True)
    assert table.nearest(query, columns=["id"]).equals(expected)
    assert _by_lists(table) == (0, 1)
    # The files lack the index that the table declares, so adding it completes them.
    table.add_index(nb.VectorIndex("v", metric="dot"))
    assert _by_lists(table) == (1, 0)
    assert table.health().index_coverage["vector (v)"] == 1.0
    snapshot = table.snapshot
    assert table.add_index(nb.VectorIndex("v", metric="dot")).snapshot == snapshot


def test_health_says_that_small_files_make_nearest_slow(tmp_path: Path) -> None:
    # It said only that 100 % of the rows have the index, although no file had lists.
    lake = nb.connect(tmp_path)
    data = _wide(np.arange(2100), 9)
    index = nb.VectorIndex("v")
    table = lake.create_table("a.b", data.schema, primary_key="id", indexes=[index])
    for at in range(0, 400, 100):
        table.append(data.slice(at, 100))  # fewer than 2^16 numbers
    assert table.explain(nearest=np.ones(WIDE))["lists"] == 0
    health = table.health()
    assert health.index_coverage["vector (v)"] == 1.0
    assert health.index_files["vector (v)"] == 4
    assert health.files_without_lists == {"vector (v)": 4}
    assert "vector (v): 100% of the rows, 4 files; 4 are too small for lists" in repr(health)
    (advice,) = [item for item in health.advice if item.action == "compact"]
    assert advice.why == (
        "4 of 4 files are small; nearest() compares all rows of 4 files, which are too small for "
        "lists"
    )
    table.compact()
    health = table.health()
    assert (health.files, health.files_without_lists) == (1, {})
    assert "compact" not in {item.action for item in health.advice}
    for at in range(400, 2100, 500):
        table.append(data.slice(at, 500))
    health = table.health()
    assert health.files_without_lists == {}
    (advice,) = [item for item in health.advice if item.action == "compact"]
    assert "nearest() searches lists in each of 5 files" in advice.why
    plain = lake.create_table("a.c", data.schema, primary_key="id")
    for at in range(0, 400, 100):
        plain.append(data.slice(at, 100))
    (advice,) = [item for item in plain.health().advice if item.action == "compact"]
    assert advice.why == "4 of 4 files are small"


def test_old_snapshots_and_branches_keep_their_metric(
    tmp_path: Path,
) -> None:
    # They took the metric that the table declares now: another result of an immutable snapshot.
    lake = nb.connect(tmp_path)
    rng = np.random.default_rng(8)
    rows = _random_rows(rng, np.arange(40)) | {1: ("red", rng.normal(size=DIMENSIONS).tolist())}
    table = lake.create_table("a.b", SCHEMA, primary_key="id")
    table.append(_table({-1: rows[1]}))
    table.tag("none")
    table.add_index(nb.VectorIndex("v", metric="cosine"))
    table.append(_table(rows))
    table.tag("one")
    table.branch("dev")
    query = np.array(rows[1][1]) * 7
    expected = table.nearest(query, k=5, columns=["id"])
    assert {*expected["id"].to_pylist()[:2]} == {1, -1}

    def check_old(table: nb.Table) -> None:
        for old in (table.at(tag="one"), table.at(branch="dev")):
            assert old.nearest(query, k=5, columns=["id"], metric="cosine").equals(expected)
            assert old.nearest(query, k=5, columns=["id"]).equals(expected)
            with pytest.raises(nb.InvalidArgumentError, match="'cosine'; use that metric"):
                old.nearest(query, metric="l2")
            assert [i.metric for i in old.indexes if i.kind == "vector"] == ["cosine"]
        # Files without an index have no metric.
        assert table.at(tag="none").explain(nearest=query)["metric"] == "l2"

    table.drop_index("v")
    check_old(table)
    assert table.explain(nearest=query)["metric"] == "l2"
    table.add_index(nb.VectorIndex("v", metric="dot"))
    check_old(table)
    assert table.explain(nearest=query)["metric"] == "dot"
    with table.alter() as change:
        change.rename_column("v", "w")
    check_old(nb.connect(tmp_path).table("a.b"))
    # The metric is read from the metadata, and not from the files.
    filtered = nb.connect(tmp_path).table("a.b").at(tag="one")
    for path in (tmp_path / "a").rglob("*.nimble"):
        path.unlink()
    assert filtered.nearest(query, filter="id > 1000").num_rows == 0
    with pytest.raises(nb.InvalidArgumentError, match="'cosine'; use that metric"):
        filtered.nearest(query, metric="l2", filter="id > 1000")


def test_search_of_one_partition_opens_its_files_only(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    rng = np.random.default_rng(7)
    index = nb.VectorIndex("v", metric="cosine")
    table = lake.create_table("a.b", SCHEMA, partition_by=["color"], indexes=[index])
    for color in ("red", "blue", "green"):
        rows: Rows = {i: (color, rng.normal(size=DIMENSIONS).tolist()) for i in range(20)}
        table.append(_table(rows))
    paths = sorted((tmp_path / "a").rglob("*.nimble"), key=lambda path: path.stat().st_mtime_ns)
    assert len(paths) == 3
    for path in paths[1:]:
        path.unlink()
    # Not even the metric is read from the other files.
    hits = nb.connect(tmp_path).table("a.b").nearest(np.ones(DIMENSIONS), filter="color = 'red'")
    assert set(hits["color"].to_pylist()) == {"red"}


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_vectors_of_small_integers(lake: nb.Catalog, kind: str) -> None:
    """Tables store them as int32."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 100, (2000, 16)).astype(kind)
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 16)
    rows = pa.table({"id": range(2000), "v": column})
    table = lake.create_table("a.i", rows, primary_key="id", indexes=nb.VectorIndex("v"))
    query = rng.integers(0, 100, 16).astype(np.float64)
    nearest = np.argsort(((x.astype(np.float64) - query) ** 2).sum(axis=1), kind="stable")[:5]
    assert table.nearest(query, k=5)["id"].to_pylist() == nearest.tolist()


def _recall(table: nb.Table, queries: np.ndarray[Any, Any]) -> float:
    found = total = 0
    for query in queries:
        exact = table.nearest(query, k=10, columns=["id"], exact=True)["id"].to_pylist()
        hits = table.nearest(query, k=10, columns=["id"])["id"].to_pylist()
        found, total = found + len({*exact} & {*hits}), total + len(exact)
    return found / total


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_compaction_starts_from_the_centroids_of_its_files(
    tmp_path: Path, metric: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, float]] = []  # centroids, and their rows, of each written file

    def specs(schema: pa.Schema, indexes: Any) -> list[dict[str, Any]]:
        made = index_specs(schema, indexes)
        given.extend((len(m["known"][0]), float(m["known"][1].sum())) for m in made if "known" in m)
        return made

    monkeypatch.setattr("nimblepy.file.write.index_specs", specs)
    width, rng = 64, np.random.default_rng(5)
    topics = rng.normal(size=(40, width))

    def vectors(count: int) -> Any:
        return (topics[rng.integers(0, 40, count)] + rng.normal(size=(count, width)) / 2).astype(
            "f4"
        )

    def rows(ids: Any) -> pa.Table:
        x = pa.FixedSizeListArray.from_arrays(pa.array(vectors(len(ids)).ravel()), width)
        return pa.table({"id": ids, "v": x})

    lake = nb.connect(tmp_path)
    table = lake.create_table(
        "a.b",
        rows(np.arange(1)).schema,
        primary_key="id",
        indexes=[nb.VectorIndex("v", metric=metric)],
    )
    for first in range(0, 18000, 6000):
        table.append(rows(np.arange(first, first + 6000)))
    table.append(rows(np.arange(18000, 18500)))  # too few numbers for lists
    table.upsert(rows(np.arange(0, 3000, 3)))
    table.delete("id % 10 = 1")
    assert all(known == (0, 0) for known in given)
    given.clear()
    queries = vectors(60)
    table.compact()
    assert len(given) == 1
    centroids, known_rows = given[0]
    assert centroids >= 3 * 154  # lists of 6,000 rows, less those without rows
    assert known_rows >= 18000
    assert table.explain(nearest=queries[0])["files by lists"] == 1
    assert _recall(table, queries) >= 0.94
    ids = table.to_table()["id"].to_pylist()
    assert len(ids) == len({*ids}) == 18500 - 1850


def test_compaction_ignores_centroids_of_another_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def specs(schema: pa.Schema, indexes: Any) -> list[dict[str, Any]]:
        made = index_specs(schema, indexes)
        given.extend(len(m["known"][0]) for m in made if m["kind"] == "vector")
        return made

    lake = nb.connect(tmp_path)
    data = _wide(np.arange(2100), 3)
    table = lake.create_table("a.b", data.schema, indexes=[nb.VectorIndex("v", metric="dot")])
    table.append(data.slice(0, 1050))
    before = table.snapshot
    table.drop_index("v")
    table.add_index(nb.VectorIndex("v", metric="l2"))
    table.rollback(before)
    table.append(data.slice(1050))
    monkeypatch.setattr("nimblepy.file.write.index_specs", specs)
    table.compact()
    assert given in ([31], [32])  # lists with rows of the second file
    assert table.explain(nearest=np.ones(WIDE), recall=0.9)["files by lists"] == 1


@pytest.mark.parametrize("error", [nb.CorruptFileError, NotImplementedError])
def test_compaction_replaces_an_index_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    lake = nb.connect(tmp_path)
    data = _wide(np.arange(2100), 3)
    table = lake.create_table("a.b", data.schema, indexes=[nb.VectorIndex("v")])
    table.append(data.slice(0, 1050))
    table.append(data.slice(1050))

    def refuse(handle: object, column: str) -> None:
        raise error("damaged")

    with monkeypatch.context() as patch:
        patch.setattr("nimblepy.file.handle.FileHandle.vector_index", refuse)
        table.compact()
    assert _by_lists(table) == (1, 0)
    assert table.nearest(np.ones(WIDE), columns=["id"]).num_rows == 10
