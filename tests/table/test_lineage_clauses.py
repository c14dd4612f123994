"""Columns of row lineage in the clauses of merges and in the filter of compact."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

ROW_ID, UPDATED = "_row_id", "_last_updated_sequence_number"
Between = Callable[[Callable[[], Any]], None]


@pytest.fixture
def lake(tmp_path: Path) -> nb.Catalog:
    return nb.connect(tmp_path)


def data(keys: Any, value: int) -> pa.Table:
    keys = sorted(keys)
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys))})


def rows_of(table: nb.Table) -> dict[int, dict[str, int]]:
    read = table.to_table(["k", "v", ROW_ID, UPDATED]).to_pylist()
    return {row["k"]: row for row in read}


@pytest.fixture(params=["nimble", "parquet"])
def table(request: pytest.FixtureRequest, lake: nb.Catalog) -> nb.Table:
    """Rows whose ids are inherited or stored, in several files with deleted rows."""
    rng = random.Random(3)
    table = lake.create_table(
        "a.b", data(range(40), 0), primary_key="k", format_version=3, data_format=request.param
    )
    for value in range(1, 4):
        table.upsert(data(rng.sample(range(60), 15), value))
        table.delete(keys=rng.sample(range(60), 4))
    return table


def test_conditions_and_values_of_a_merge(table: nb.Table) -> None:
    before = rows_of(table)
    source = data(range(20, 70), 100)
    middle = sorted(row[ROW_ID] for row in before.values())[len(before) // 2]
    merge = table.merge(source)
    merge.when_matched(update=True, condition=f"target.{ROW_ID} < {middle}")
    merge.when_matched(delete=True, condition=f"target.{UPDATED} > 2 AND source.k % 2 = 0")
    merge.when_matched(update={"v": f"1000 * target.{UPDATED} + target.{ROW_ID}"})
    merge.when_not_matched()
    merge.when_not_matched_by_source(condition=f"{UPDATED} = 1 AND v = 0 AND {ROW_ID} % 3 = 0")
    merge.execute()
    expected = {}
    for k, row in before.items():
        if not 20 <= k < 70:
            if not (row[UPDATED] == 1 and row["v"] == 0 and row[ROW_ID] % 3 == 0):
                expected[k] = row["v"], row[ROW_ID]
        elif row[ROW_ID] < middle:
            expected[k] = 100, row[ROW_ID]
        elif not (row[UPDATED] > 2 and k % 2 == 0):
            expected[k] = 1000 * row[UPDATED] + row[ROW_ID], row[ROW_ID]
    after = rows_of(table)
    assert {k: (row["v"], row[ROW_ID]) for k, row in after.items() if k in before} == expected
    new = after.keys() - before.keys()
    assert new == {*range(20, 70)} - before.keys()
    assert min(after[k][ROW_ID] for k in new) > max(row[ROW_ID] for row in before.values())


def test_a_merge_that_loses_a_race_to_a_compaction(table: nb.Table, between: Between) -> None:
    before = rows_of(table)
    middle = sorted(row[ROW_ID] for row in before.values())[len(before) // 2]
    other = nb.connect(table.catalog._target).table("a.b")  # type: ignore[attr-defined]
    between(lambda: other.compact(where_needed=False))
    merge = table.merge(data(range(60), 9))
    merge.when_matched(update=["v"], condition=f"target.{ROW_ID} >= {middle}")
    assert merge.execute().retries == 1
    expected = {
        k: (9 if row[ROW_ID] >= middle else row["v"], row[ROW_ID]) for k, row in before.items()
    }
    assert {k: (row["v"], row[ROW_ID]) for k, row in rows_of(table).items()} == expected


def test_no_clause_sets_a_row_id(table: nb.Table) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=f"unknown column '{ROW_ID}'"):
        table.merge(data([1], 1)).when_matched(update={ROW_ID: "7"}).execute()


def test_tables_of_version_2_have_no_lineage(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", data(range(3), 0), primary_key="k")
    merge = table.merge(data([1], 1)).when_matched(delete=True, condition=f"target.{ROW_ID} = 1")
    with pytest.raises(nb.InvalidArgumentError, match="unknown column"):
        merge.execute()
    with pytest.raises(nb.InvalidArgumentError, match="unknown column"):
        table.compact(filter=f"{ROW_ID} = 1")
    rows = data(range(3), 0).append_column(ROW_ID, pa.array([7, 8, 9]))
    own = lake.create_table("a.c", rows, primary_key="k")
    merge = own.merge(data(range(3), 1)).when_matched(delete=True, condition=f"target.{ROW_ID} = 8")
    assert merge.execute().rows_deleted == 1
    assert sorted(own.to_table(["k"])["k"].to_pylist()) == [0, 2]


def test_compact_rewrites_files_with_passing_rows(table: nb.Table) -> None:
    before = rows_of(table)
    paths = {*table.files()["path"].to_pylist()}
    newest = max(row[UPDATED] for row in before.values())
    done = table.compact(filter=f"{UPDATED} = {newest}", where_needed=False)
    assert (done.files_removed, done.files_added) == (1, 1)
    assert len(paths - {*table.files()["path"].to_pylist()}) == 1
    assert table.compact(filter=f"{ROW_ID} < 0", where_needed=False).files_removed == 0
    assert rows_of(table) == before
    table.compact(filter=f"{ROW_ID} >= 0 AND k >= 0", where_needed=False)
    assert table.files().num_rows == 1
    assert rows_of(table) == before
