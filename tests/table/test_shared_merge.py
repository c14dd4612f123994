"""Merges whose source is worked on in parts, against merges of one process."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_merges import shared

import nimblepy as nb
from nimblepy.table.changing.merge_plan import Merge

ROWS = pa.table({"k": range(60), "v": [10 * i for i in range(60)], "g": [0, 1, 2] * 20})


def stock(lake: nb.Catalog, name: str, **more: Any) -> nb.Table:
    table = lake.create_table(name, ROWS.schema, **({"primary_key": "k"} | more))
    for at in range(0, 60, 20):
        table.append(ROWS.slice(at, 20))
    return table


def contents(table: nb.Table) -> list[tuple[Any, ...]]:
    rows = table.to_table().to_pylist()
    assert len(rows) == table.num_rows
    return sorted((tuple(row.values()) for row in rows), key=repr)


def clauses(merge: Merge, which: int) -> Merge:
    if which & 1:
        merge.when_matched(delete=True, condition="source.v < 0")
    if which & 2:
        merge.when_matched(update=True, condition="source.v > target.v")
    if which & 4:
        merge.when_matched(update={"v": "target.v + source.v"})
    if which & 8:
        merge.when_not_matched(condition="source.v >= 0")
    if which & 16:
        merge.when_not_matched_by_source(condition="target.g = 1 AND target.k < 30")
    return merge


def orphans(table: nb.Table) -> int:
    return len(table.remove_orphans(older_than=dt.timedelta(0), dry_run=True).files)


@settings(max_examples=25, deadline=None)
@given(
    source=st.dictionaries(st.integers(-5, 70), st.integers(-3, 700), max_size=30),
    cuts=st.lists(st.integers(-5, 70), max_size=3, unique=True).map(sorted),
    which=st.integers(1, 31),
    partition_by=st.sampled_from([(), "g"]),
    data_format=st.sampled_from(["nimble", "parquet"]),
)
def test_parts_do_what_the_whole_does(
    tmp_path_factory: Any,
    source: dict[int, int],
    cuts: list[int],
    which: int,
    partition_by: Any,
    data_format: Any,
) -> None:
    lake = nb.connect(tmp_path_factory.mktemp("merge"))
    one, other = (
        stock(lake, f"a.t{i}", partition_by=partition_by, data_format=data_format) for i in (1, 2)
    )
    data = pa.table({"k": pa.array(source, pa.int32()), "v": pa.array(source.values(), pa.int64())})
    whole = clauses(one.merge(data), which).execute()
    merge, _ = shared(other, data, cuts=cuts)
    if not len(data):
        return
    parts = clauses(merge, which).execute()
    assert contents(one) == contents(other)
    for name in ("rows_inserted", "rows_updated", "rows_deleted"):
        assert getattr(parts, name) == getattr(whole, name)
    assert orphans(other) == 0


DATA = pa.table({"k": [3, 25, 45, 99], "v": [1, 2, 3, 4]})


def upsert(merge: Merge) -> Merge:
    return merge.when_matched(update={"v": "target.v + source.v"}).when_not_matched()


def test_only_parts_that_another_commit_touched_are_worked_on_again(lake: nb.Catalog) -> None:
    table = stock(lake, "a.b")
    beside = lake.table("a.b")

    def new_of(k: int) -> Any:
        return lambda: beside.upsert(pa.table({"k": [k], "v": [1000], "g": [7]}))

    merge, done = shared(table, DATA, cuts=[20, 40, 60], between=[new_of(25), new_of(99)])
    commit = upsert(merge).execute()
    assert [len(parts) for parts in done[0].worked] == [4, 1, 1]
    assert (commit.rows_inserted, commit.rows_updated) == (0, 4)
    wanted = {3: 31, 25: 1002, 45: 453, 99: 1004}
    assert {k: table.get(k)["v"] for k in wanted} == wanted
    assert orphans(table) == 0


@pytest.mark.parametrize("what", ["elsewhere", "delete", "compact", "rollback", "rename", "change"])
def test_commits_that_come_first(lake: nb.Catalog, what: str) -> None:
    table = stock(lake, "a.b")
    beside = lake.table("a.b")
    first = beside.snapshot
    beside.delete("k = 45")

    def rename() -> None:
        with beside.alter() as a:
            a.rename_column("g", "h")
        beside.append(pa.table({"k": [200], "v": [1], "h": [1]}))

    def change() -> None:
        rename()
        beside.upsert(pa.table({"k": [3], "v": [1000], "h": [5]}))
        with beside.alter() as a:
            a.partition_by("bucket(2, k)")

    others: dict[str, Any] = {
        "elsewhere": lambda: beside.append(pa.table({"k": [200], "v": [1], "g": [1]})),
        "delete": lambda: beside.delete("k = 3"),
        "compact": lambda: beside.compact(where_needed=False),
        "rollback": lambda: beside.rollback(first),
        "rename": rename,
        "change": change,
    }
    merge, done = shared(table, DATA, cuts=[20, 40, 60], between=[others[what]])
    upsert(merge).execute()
    worked = [len(parts) for parts in done[0].worked]
    assert worked == {"elsewhere": [4], "rename": [4], "compact": [4, 2]}.get(what, [4, 1]), worked
    found = {k: table.get(k)["v"] for k in (3, 25, 45, 99)}
    wanted = {3: 31, 25: 252, 45: 3, 99: 4}
    wanted |= {"delete": {3: 1}, "rollback": {45: 453}, "change": {3: 1001}}.get(what, {})
    assert found == wanted
    assert orphans(table) == 0


def test_what_does_not_fit_any_more_is_a_conflict(lake: nb.Catalog) -> None:
    table = stock(lake, "a.b")
    beside = lake.table("a.b")

    def drop() -> None:
        with beside.alter() as a:
            a.drop_column("g")
        beside.upsert(pa.table({"k": [3], "v": [1]}))

    merge, _ = shared(table, DATA, cuts=[20], between=[drop])
    merge.when_matched(update={"v": "target.g + source.v"})
    with pytest.raises(nb.ConflictError, match="no longer fits") as raised:
        merge.execute()
    assert raised.value.kind == "schema"
    assert orphans(table) == 0


def test_a_part_that_was_removed_is_a_conflict(lake: nb.Catalog) -> None:
    table = stock(lake, "a.b")
    before = contents(table)

    def remove() -> None:
        lake.table("a.b").append(pa.table({"k": [100], "v": [1], "g": [0]}))
        lake.table("a.b").remove_orphans(older_than=dt.timedelta(0))

    merge, _ = shared(table, pa.table({"k": [1, 100], "v": [5, 6]}), cuts=[50], between=[remove])
    with pytest.raises(nb.ConflictError, match=r"saved source of the merge, .* was removed"):
        merge.when_matched(update=["v"]).execute()
    assert contents(table.refresh()) == sorted([*before, (100, 1, 0)], key=repr)


def test_primary_keys_are_kept_across_parts(lake: nb.Catalog) -> None:
    table = stock(lake, "a.b")
    data = pa.table({"v": [30, 31, 250, 251], "k": [3, 500, 25, 500]})
    before = contents(table)
    for rows in (data, data.slice(0, 2).set_column(1, "k", pa.array([3, 44]))):
        merge, _ = shared(table, rows, on="v", cuts=[31, 100])
        with pytest.raises(nb.DuplicateKeyError, match=r"k=500|k=44"):
            merge.when_not_matched().execute()
    assert contents(table.refresh()) == before
    assert orphans(table) == 0


def test_errors_come_before_rows_are_read(lake: nb.Catalog) -> None:
    table = stock(lake, "a.b")
    for add in (
        lambda m: m.when_matched(update=["w"]),
        lambda m: m.when_matched(delete=True, condition="source.nope = 1"),
        lambda m: m.when_not_matched_by_source(condition="target.nope = 1"),
    ):
        merge, done = shared(table, DATA)
        with pytest.raises(nb.InvalidArgumentError, match=r"nope|'w'"):
            add(merge).execute()
        assert not done
    twice = pa.table({"k": [1, 2, 2], "v": [1, 2, 3]})
    merge, _ = shared(table, twice)
    with pytest.raises(nb.DuplicateKeyError, match="the key k=2 is in two rows of the data"):
        merge.when_not_matched().execute()
