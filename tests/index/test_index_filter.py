"""Filters give the same rows whether secondary indexes answer them or not, and plans say which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import filter_cases
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb
from nimblepy.file import index_match as index_filter

pytestmark = pytest.mark.model

Store = Callable[..., Any]
INDEXES = [
    nb.SortedIndex(["i", nb.SortKey("s", descending=True)]),
    nb.SortedIndex([nb.SortKey("f", descending=True, nulls_first=True)]),
    nb.SortedIndex(["s", "loc.k"]),
    nb.SortedIndex("loc.lat"),
    nb.SortedIndex([nb.SortKey("d", nulls_first=True), "m"]),
    nb.HashIndex("s"),
    nb.HashIndex(["i", "f"]),
]


@pytest.fixture(params=["always", "by cost"])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes are used however little they help."""
    if request.param == "always":
        monkeypatch.setattr(index_filter, "SCANNED_ROW", 1e9)


@given(
    table=filter_cases.tables,
    case=st.one_of(filter_cases.sql_cases, filter_cases.expression_cases),
    data=st.data(),
)
def test_filter_with_and_without_indexes_gives_the_same_rows(
    eager: None, path: str, table: pa.Table, case: Any, data: st.DataObject
) -> None:
    options = nb.WriteOptions(stripe_rows=16, group_rows=32, key_chunk_rows=3, zone_rows=4)
    cluster_by = data.draw(st.sampled_from([None, "i"]))
    nb.write(table, path, cluster_by=cluster_by, indexes=INDEXES, options=options)
    file = nb.open(path)
    without = nb.open(path)
    without._file.handle.indexes = tuple(i for i in file._file.handle.indexes if i.number < 0)
    want = without.to_table(filter=case.filter)
    assert_same_table(file.to_table(filter=case.filter), want)
    assert file.scan(filter=case.filter).count() == want.num_rows
    assert_same_table(file.scan(filter=case.filter, limit=3).to_table(), want.slice(0, 3))
    assert_same_table(file.scan(filter=case.filter, row_range=(0, 0)).to_table(), want.slice(0, 0))


def _people(n: int = 40_000) -> pa.Table:
    rng = np.random.default_rng(6)
    return pa.table(
        {
            "id": np.arange(n),
            "email": [f"user{i}@example.org" for i in rng.permutation(n)],
            "age": rng.integers(0, 100, n),
            "score": rng.random(n),
            "flag": rng.integers(0, 2, n),
        }
    )


def test_filter_on_indexed_column_uses_the_index_and_reads_few_rows(store: Store) -> None:
    table = _people()
    file = store(table, indexes=[nb.SortedIndex("email"), nb.SortedIndex("score")])
    email = table.column("email")[123].as_py()
    text = f"email = '{email}' AND age >= 0"
    plan = file.explain(filter=text)
    assert plan.index == "sorted (email)"
    assert "sorted index: email ==" in str(plan)
    assert file.to_table(["id"], text).column("id").to_pylist() == [123]
    assert file.to_table(["id"], text + " AND age < 0").num_rows == 0
    # two values of an IN list, one absent; a narrow range
    got = file.to_table(["id"], pc.field("email").isin([email, "nobody"]))
    assert got.column("id").to_pylist() == [123]
    narrow = "score BETWEEN 0.5 AND 0.501"
    assert file.explain(filter=narrow).index == "sorted (score)"
    scores = table.column("score").to_numpy()
    want = np.flatnonzero((scores >= 0.5) & (scores <= 0.501)).tolist()
    assert file.to_table(["id"], narrow).column("id").to_pylist() == want


def test_filter_that_many_rows_pass_is_scanned(store: Store) -> None:
    file = store(_people(), indexes=[nb.SortedIndex("flag"), nb.SortedIndex("score")])
    for text in ("flag = 1", "score < 0.5", "score >= 0", "flag <> 0"):
        assert file.explain(filter=text).index is None, text
    assert file.explain(filter="score < 0.5 AND score < 0.001").index == "sorted (score)"


def test_filter_on_two_indexes_intersects_them_where_it_pays(store: Store) -> None:
    table = _people()
    file = store(table, indexes=[nb.SortedIndex("age"), nb.SortedIndex("score")])
    text = "age = 7 AND score < 0.03"  # 1 % and 3 %
    plan = file.explain(filter=text)
    assert "sorted index: age == 7" in str(plan)
    assert "sorted index: score < 0.03" in str(plan)
    mask = pc.and_(pc.equal(table["age"], 7), pc.less(table["score"], 0.03))
    assert_same_table(file.to_table(filter=text), table.filter(mask).combine_chunks())
    assert len(file.scan(filter=text).rows().rows) == pc.sum(mask).as_py()


def test_filter_the_cluster_index_answers_well_leaves_others_alone(store: Store) -> None:
    file = store(_people(), cluster_by="id", indexes=[nb.SortedIndex("score")])
    plan = file.explain(filter="id = 5 AND score < 0.0001")
    assert plan.index == "cluster (id)"
    assert "sorted" not in str(plan)


def test_a_hash_and_a_sorted_index_are_intersected(store: Store) -> None:
    table = _people()
    file = store(table, indexes=[nb.HashIndex("age"), nb.SortedIndex("score")])
    text = "age = 7 AND score < 0.03 AND flag = 1"
    plan = str(file.explain(filter=text))
    assert "hash index: age == 7" in plan
    assert "sorted index: score < 0.03" in plan
    assert "evaluate: age == 7 and score < 0.03 and flag == 1" in plan
    mask = pc.and_(pc.equal(table["age"], 7), pc.less(table["score"], 0.03))
    found = file.scan(filter=text).rows().rows
    assert found.tolist() == np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()
    mask = pc.and_(mask, pc.equal(table["flag"], 1))
    assert_same_table(file.to_table(filter=text), table.filter(mask).combine_chunks())


def test_an_index_that_estimates_have_ruled_out_is_not_searched(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = store(_people(), indexes=[nb.HashIndex("email"), nb.SortedIndex("id")])
    asked: list[str] = []

    class Spy:
        def __init__(self, core: Any) -> None:
            self._core = core

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(self._core, name)

    for index in file._file.handle.indexes:
        opened = file._file.handle.opened(index)
        monkeypatch.setattr(opened, "core", Spy(opened.core))
    ids = ", ".join(map(str, range(0, 40_000, 20)))
    text = f"id IN ({ids}) AND email = 'user5@example.org'"
    assert file.scan(filter=text).count() <= 1
    assert asked == ["candidates"]  # of the email: 2000 searches for the ids cost more
    asked.clear()
    assert file.scan(filter=f"id IN ({ids})").count() == 2000
    assert asked == []
    assert file.scan(filter="id IN (5, 7)").count() == 2
    assert asked == ["places", "rows_at"]
