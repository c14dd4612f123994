"""Row ids and sequence numbers after transactions, and after commits that lose a race."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from shared_merges import shared

import nimblepy as nb
from nimblepy.table.testing import commit_hooks

FORMATS = ("nimble", "parquet")
LINEAGE = ["k", "v", "_row_id", "_last_updated_sequence_number"]
# For each key: value, row id, and sequence number of the last update.
Lineage = dict[int, tuple[int, int, int]]


def data(keys: Any, value: int) -> pa.Table:
    keys = list(keys)
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys))})


def lineage_of(table: nb.Table) -> Lineage:
    """The lineage of each row. No two rows have the same key or id."""
    rows = table.to_table(LINEAGE).to_pylist()
    by_key: Lineage = {row["k"]: tuple(list(row.values())[1:]) for row in rows}  # type: ignore[misc]
    assert len(by_key) == len(rows)
    assert len({number for _, number, _ in by_key.values()}) == len(rows)
    return by_key


def check_files(table: nb.Table) -> None:
    """No file is left over that no snapshot names."""
    assert not table.remove_orphans(older_than=dt.datetime.now(dt.UTC)).files


def upgrade(table: nb.Table) -> None:
    with table.alter() as a:
        a.upgrade(3)


def delete_files(table: nb.Table) -> set[str]:
    """Paths of the position delete files that are not deletion vectors."""
    files = [file for member in table._current.members for file in member.deletes]
    return {file.path for file in files if file.vector is None}


def in_a_transaction(table: nb.Table) -> None:
    with table.transaction() as t:
        t.upsert(data([1, 2, 50], 7))


def merge(table: nb.Table) -> Any:
    return table.merge(data([1, 2, 50], 7), on="k").when_matched(update=True)


def shared_merge(table: nb.Table) -> Any:
    merge, _ = shared(table, data([1, 2, 12, 50], 7), cuts=[10])
    merge.when_matched(update=True).when_not_matched(insert=True).execute()


CONVERT = "convert_deletes"
CHANGES: dict[str, Callable[[nb.Table], object]] = {
    "upsert": lambda table: table.upsert(data([1, 2, 50], 7)),
    "update": lambda table: table.upsert(data([1, 2, 50], 7), update=["v"]),
    "merge": lambda table: merge(table).when_not_matched(insert=True).execute(),
    "shared merge": shared_merge,
    "transaction": in_a_transaction,
    "delete": lambda table: table.delete("k IN (1, 12)"),
    "compact": lambda table: table.compact(),
    CONVERT: lambda table: table.convert_deletes(),
    "add_index": lambda table: table.add_index(nb.HashIndex(["v"])),
}


# Without deletes of version 2, convert_deletes has nothing to do.
CASES = [
    (what, is_upgraded, deletes)
    for what in CHANGES
    for is_upgraded in (False, True)
    for deletes in (False, True)
    if what != CONVERT or (is_upgraded and deletes)
]


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("what", "is_upgraded", "deletes"), CASES)
def test_a_commit_that_loses_to_the_first_row_ids_keeps_them(
    lake: nb.Catalog, what: str, is_upgraded: bool, deletes: bool, data_format: Any
) -> None:
    table = lake.create_table("n.t", data(range(10), 0), primary_key="k", data_format=data_format)
    table.append(data(range(10, 15), 0))
    if deletes:
        table.delete("k = 3")
    old_deletes = delete_files(table)
    assert len(old_deletes) == deletes
    if is_upgraded:
        upgrade(table)
    other = lake.table("n.t")
    seen: Lineage = {}

    def overtake() -> None:
        if not seen:
            if not is_upgraded:
                upgrade(other)
            other.delete("k = 11") if deletes else other.append(data([60], 0))
            seen.update(lineage_of(other))

    with commit_hooks(before_swap=overtake):
        CHANGES[what](table)
    after = lineage_of(table.refresh())
    assert seen
    for key in seen.keys() & after.keys():
        assert after[key][1] == seen[key][1], key
        if after[key][0] == seen[key][0]:
            assert after[key][2] == seen[key][2], key
    assert (3 in after) != deletes
    assert (11 in after) != deletes
    # Format version 3 still reads the position deletes of version 2, but must not add to them.
    assert delete_files(table) <= old_deletes
    check_files(table)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("partition_by", [[], ["bucket(3, k)"]])
def test_rows_that_a_transaction_writes_twice_keep_their_ids(
    lake: nb.Catalog, data_format: Any, partition_by: list[str]
) -> None:
    """The files of a transaction were joined without the ids of their rows."""
    table = lake.create_table(
        "n.t",
        data(range(6), 0),
        primary_key="k",
        partition_by=partition_by,
        data_format=data_format,
        format_version=3,
    )
    ids = {key: number for key, (_, number, _) in lineage_of(table).items()}
    with table.transaction() as t:
        t.upsert(data([1, 10], 1))
        t.upsert(data([1, 2], 2))
        t.upsert(data([2, 3], 3), update=["v"])
        t.delete(keys=[4, 10])
        t.append(data([4], 4))
        t.upsert(data([4], 5))
    after = lineage_of(table)
    values = {0: 0, 1: 2, 2: 3, 3: 3, 4: 5, 5: 0}
    assert {key: value for key, (value, _, _) in after.items()} == values
    assert {key: after[key][1] for key in (0, 1, 2, 3, 5)} == {
        key: ids[key] for key in (0, 1, 2, 3, 5)
    }
    # The transaction deleted the row before it inserted another one.
    assert after[4][1] not in ids.values()
    assert [last for _, (_, _, last) in sorted(after.items())] == [1, 2, 2, 2, 2, 1]
    check_files(table)


def replace_row(table: nb.Table) -> None:
    table.delete("k = 1")
    table.append(data([1], 3))


def change_key(table: nb.Table) -> None:
    merge = table.merge(pa.table({"v": [0], "new": [77]}), on="v")
    merge.when_matched(update={"k": "source.new"}, condition="target.k = 1").execute()


OTHERS: dict[str, Callable[[nb.Table], object]] = {
    "replaced": replace_row,
    "key changed": change_key,
    "inserted": lambda table: table.append(data([50], 3)),
    "deleted": lambda table: table.delete("k IN (1, 4)"),
    "updated": lambda table: table.upsert(data([1, 4, 50], 3)),
    "moved": lambda table: table.compact(),
}


EACH = ("replaced", "inserted", "deleted", "updated", "moved")


@pytest.mark.parametrize(("data_format", "early"), [("nimble", False), ("parquet", True)])
@pytest.mark.parametrize("what", [*sorted(OTHERS), "all"])
def test_rows_of_a_transaction_have_the_ids_of_the_newest_snapshot(
    lake: nb.Catalog, what: str, early: bool, data_format: Any
) -> None:
    """They kept the ids that the replaced rows had when the transaction began."""
    table = lake.create_table(
        "n.t", data(range(6), 0), primary_key="k", data_format=data_format, format_version=3
    )
    table.append(data(range(6, 9), 0))
    other = lake.table("n.t")
    todo = [OTHERS[name] for name in EACH] if what == "all" else [OTHERS[what]]
    seen: Lineage = lineage_of(table)

    def overtake() -> None:
        if todo:
            todo.pop(0)(other)
            seen.clear()
            seen.update(lineage_of(other))

    with contextlib.ExitStack() as stack, table.transaction() as t:
        t.upsert(data([1, 2], 7))
        t.upsert(data([2, 50], 8))
        t.delete(keys=[4])
        t.upsert(data([4], 9))
        if early:  # the first attempt is made for a newer snapshot
            overtake()
        stack.enter_context(commit_hooks(before_swap=overtake))
    assert not todo
    after = lineage_of(table.refresh())
    newest = max(number for _, number, _ in seen.values())
    values = {key: value for key, (value, _, _) in seen.items()} | {1: 7, 2: 8, 50: 8, 4: 9}
    assert {key: value for key, (value, _, _) in after.items()} == values
    for key, (_, number, _) in after.items():
        if key in seen and key != 4:
            assert number == seen[key][1], key
        else:
            assert number > newest
    check_files(table)


READS: dict[str, Callable[[Any], object]] = {
    "get": lambda rows: rows.get(1, ["_row_id"]),
    "lookup": lambda rows: rows.lookup([1], columns=["k", "_last_updated_sequence_number"]),
    "range": lambda rows: rows.range(0, 3, columns=["_row_id"]),
    "to_table": lambda rows: rows.to_table(LINEAGE, filter="k = 1"),
    "scan": lambda rows: list(rows.scan(LINEAGE)),
    "filter": lambda rows: rows.to_table(["v"], filter="_last_updated_sequence_number = 1"),
    "count": lambda rows: rows.count_rows("_row_id = 1 AND _last_updated_sequence_number < 2"),
}


@pytest.mark.parametrize("what", sorted(READS))
def test_lineage_that_a_transaction_read_must_not_change(lake: nb.Catalog, what: str) -> None:
    """Only the columns of the schema were compared."""
    table = lake.create_table("n.t", data(range(6), 0), primary_key="k", format_version=3)
    table.append(data(range(6, 9), 0))
    other = lake.table("n.t")
    t = table.transaction()
    READS[what](t)
    t.upsert(data([100], 1))
    other.upsert(data([1], 0))
    with pytest.raises(nb.ConflictError) as caught, t:
        pass
    assert caught.value.kind == "keys"
    assert caught.value.keys == (1,)
    # A compaction keeps the lineage.
    with table.refresh().transaction() as t:
        READS[what](t)
        t.upsert(data([100], 1))
        other.compact()
    # The transaction does not read the lineage.
    with table.refresh().transaction() as t:
        t.to_table()
        t.get(1)
        t.upsert(data([101], 1))
        other.upsert(data([1], 0))
    assert {100, 101} <= lineage_of(table.refresh()).keys()
    check_files(table)


def test_a_transaction_that_read_no_row_ids_conflicts_with_their_assignment(
    lake: nb.Catalog,
) -> None:
    table = lake.create_table("n.t", data(range(6), 0), primary_key="k")
    upgrade(table)
    other = lake.table("n.t")
    t = table.transaction()
    row = t.get(1, ["_row_id"])
    assert row is not None
    assert row["_row_id"] is None
    t.upsert(data([100], 1))
    other.append(data([50], 0))
    with pytest.raises(nb.ConflictError), t:
        pass
    assert lineage_of(table.refresh())[1][1] is not None
