"""Transactions: reads of own writes, conflicts by what was read, all or nothing."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

FORMATS = pytest.mark.parametrize("data_format", ["nimble", "parquet"])


def rows(keys: Any, value: int = 0) -> pa.Table:
    keys = list(keys)
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys))})


def contents(table: Any) -> dict[int, int]:
    found = table.to_table(["k", "v"]).to_pylist()
    pairs = {row["k"]: row["v"] for row in found}
    assert len(pairs) == len(found) == table.num_rows
    return pairs


def files(table: nb.Table) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    return {str(path) for path in root.rglob("*") if path.is_file()}


def reachable(table: nb.Table) -> set[str]:
    return {row["path"] for row in table.census().to_pylist() if row["reachable"]}


@FORMATS
@pytest.mark.parametrize("partition_by", [(), "bucket(2, k)"])
def test_it_reads_its_own_writes(lake: nb.Catalog, data_format: Any, partition_by: Any) -> None:
    table = lake.create_table(
        "a.b", rows(range(10)), primary_key="k", data_format=data_format, partition_by=partition_by
    )
    other = lake.table("a.b")
    with table.transaction() as tx:
        tx.upsert(rows([3, 20], 1))
        assert tx.get(3) == {"k": 3, "v": 1}
        tx.upsert(pa.table({"k": [3, 4], "v": [7, 7]}), update=["v"])
        assert tx.lookup([3, 4, 20])["v"].to_pylist() == [7, 7, 1]
        tx.delete(keys=[20, 5])
        tx.delete("k < 2")
        tx.append(rows([30], 3))
        tx.upsert(rows([30, 31, 6], 9), when_matched="ignore")
        wanted = {2: 0, 3: 7, 4: 7, 6: 0, 7: 0, 8: 0, 9: 0, 30: 3, 31: 9}
        assert contents(tx) == wanted
        assert tx.range(7, 100)["k"].to_pylist() == [7, 8, 9, 30, 31]
        assert tx.contains([5, 31]).to_pylist() == [False, True]
        assert tx.count_rows("v = 7") == 2
        assert tx.scan(["k"], filter="v > 6 AND k > 3").to_table().num_rows == 2
        assert other.refresh().num_rows == 10
        with pytest.raises(nb.DuplicateKeyError):
            tx.append(rows([30]))
    assert contents(table) == wanted == contents(other.refresh())
    assert tx.commit is not None
    done = tx.commit
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (2, 2, 3)
    assert len(table.snapshots()) == 2
    assert files(table) == reachable(table)
    with pytest.raises(nb.InvalidArgumentError, match="has ended"):
        tx.get(3)


def test_nothing_is_changed_by_an_error(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(range(4)), primary_key="k")
    before = files(table)

    def fail() -> None:
        with table.transaction() as tx:
            tx.upsert(rows([1, 9], 1))
            tx.delete("k = 2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert files(table) == before
    with table.transaction() as tx:
        assert tx.get(1) == {"k": 1, "v": 0}
    assert tx.commit is None
    assert len(table.refresh().snapshots()) == 1
    with table.transaction() as tx:
        with pytest.raises(nb.InvalidArgumentError):
            tx.upsert(pa.table({"k": ["x"]}))
        tx.upsert(rows([1], 5))
    assert contents(table) == {0: 0, 1: 5, 2: 0, 3: 0}
    assert files(table) == reachable(table)


def test_an_error_at_its_end_leaves_nothing(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nimblepy.table.changing import transaction

    table = lake.create_table("a.b", rows(range(4)), primary_key="k")
    before = files(table)

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("disk full")

    monkeypatch.setattr(transaction, "RowChange", fail)
    with pytest.raises(OSError, match="disk full"), table.transaction() as tx:
        tx.upsert(rows([1, 9], 1))
    assert files(table) == before


def test_without_a_primary_key(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(range(4)))
    with table.transaction() as tx:
        tx.append(rows([1, 9], 1))
        tx.delete("k = 1")
        assert tx.num_rows == 4
        lake.table("a.b").overwrite(lake.table("a.b").to_table())
    found = table.to_table().to_pylist()
    assert sorted(row["k"] for row in found) == [0, 2, 3, 9]
    with pytest.raises(nb.InvalidArgumentError, match="no primary key"), table.transaction() as tx:
        tx.upsert(rows([1]))


def _swap_names(table: nb.Table) -> None:
    with table.alter() as a:
        a.rename_column("k", "other").rename_column("v", "k").rename_column("other", "v")


ALTERS: dict[str, tuple[Callable[[nb.Table], Any], bool]] = {
    # Whether the filter of the transaction means something else after it.
    "names": (_swap_names, True),
    "gone": (lambda t: _alter(t, lambda a: a.drop_column("k")), True),
    "again": (lambda t: _alter(t, lambda a: a.drop_column("k").add_column("k", pa.int64())), True),
    "moved": (lambda t: _alter(t, lambda a: a.move_column("k", after="v")), False),
    "more": (lambda t: _alter(t, lambda a: a.add_column("w", pa.int32(), default=1)), False),
    "other": (lambda t: _alter(t, lambda a: a.rename_column("v", "w")), False),
}


def _alter(table: nb.Table, change: Callable[[Any], Any]) -> None:
    with table.alter() as a:
        change(a)


@pytest.mark.parametrize("alter", ALTERS)
def test_a_filter_is_about_the_columns_that_it_was_given_for(lake: nb.Catalog, alter: str) -> None:
    table = lake.create_table("a.b", pa.table({"k": range(10), "v": range(9, -1, -1)}))
    other = lake.table("a.b")
    change, conflicts = ALTERS[alter]

    def delete() -> None:
        with table.transaction() as tx:
            tx.delete("k < 3")
            change(other)

    if conflicts:
        with pytest.raises(nb.ConflictError, match="'k'") as caught:
            delete()
        assert caught.value.kind == "schema"
        assert table.refresh().num_rows == 10
    else:
        delete()
        assert sorted(table.refresh().to_table()["k"].to_pylist()) == list(range(3, 10))
    assert files(table) == reachable(table)


Read = Callable[[Any], Any]
READS: dict[str, tuple[Read, set[str]]] = {
    # Which of the changes below touch what it reads.
    "get": (lambda tx: tx.get(3), {"update 3", "delete 3", "delete all"}),
    "get of a key that is not there": (lambda tx: tx.get(50), {"insert 50"}),
    "lookup": (lambda tx: tx.lookup([1, 3, 50]),
               {"update 3", "delete 3", "insert 50", "delete all"}),
    "contains": (lambda tx: tx.contains([3]), {"update 3", "delete 3", "delete all"}),
    "range": (lambda tx: tx.range(2, 5), {"update 3", "delete 3", "insert 4", "delete all"}),
    "range of nothing": (lambda tx: tx.range(40, 60), {"insert 50"}),
    "scan": (lambda tx: tx.scan(filter="v = 0 AND k < 3").to_table(), {"delete all"}),
    "filter": (lambda tx: tx.count_rows(pc.field("v") == 1), {"update 3", "insert 50", "insert 4"}),
    "all": (lambda tx: tx.to_table(), {"update 3", "delete 3", "insert 50", "insert 4",
                                       "delete all"}),
    "number": (lambda tx: tx.num_rows, {"update 3", "delete 3", "insert 50", "insert 4",
                                        "delete all"}),
    "take": (lambda tx: tx.take([0]), {"update 3", "delete 3", "insert 50", "insert 4",
                                       "delete all"}),
    "join": (lambda tx: tx.index_join(pa.table({"k": [3]}), on="k"),
             {"update 3", "delete 3", "delete all"}),
    "nothing": (lambda tx: None, set()),
    "blind": (lambda tx: tx.upsert(rows([3, 50, 4], 8)), set()),
    "delete of keys": (lambda tx: tx.delete(keys=[3, 50]), set()),
    "update": (lambda tx: tx.upsert(rows([3], 8), update=["v"]),
               {"update 3", "delete 3", "delete all"}),
    "ignore": (lambda tx: tx.upsert(rows([3, 50], 8), when_matched="ignore"),
               {"update 3", "delete 3", "insert 50", "delete all"}),
    "append": (lambda tx: tx.append(rows([50], 8)), {"insert 50"}),
    "delete": (lambda tx: tx.delete("v = 1"), {"update 3", "insert 50", "insert 4"}),
}  # fmt: skip
CHANGES: dict[str, Callable[[nb.Table], Any]] = {
    "update 3": lambda t: t.upsert(rows([3], 1)),
    "delete 3": lambda t: t.delete(keys=[3]),
    "insert 50": lambda t: t.upsert(rows([50], 1)),
    "insert 4": lambda t: t.append(rows([4], 1)),
    "delete all": lambda t: t.delete("k >= 0"),
    "rewrite": lambda t: t.overwrite(t.to_table()),
    "column": lambda t: _add_column(t),
    "other key": lambda t: t.upsert(rows([100], 5)),
}


def _add_column(table: nb.Table) -> None:
    with table.alter() as a:
        a.add_column("w", pa.int32(), default=1)


# The others are slow: each pair makes two tables.
_QUICK = ("update 3", "insert 50", "rewrite")


@pytest.mark.parametrize(
    "change",
    [c if c in _QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CHANGES],
)
@pytest.mark.parametrize("read", READS)
def test_what_was_read_has_changed(
    lake: nb.Catalog, tmp_path: Path, read: str, change: str
) -> None:
    keys = [0, 1, 2, 3, *range(5, 10)]
    table = lake.create_table("a.b", rows(keys), primary_key="k")
    table.upsert(rows([8]))
    other = lake.table("a.b")
    step, touched = READS[read]
    wanted_conflict = change in touched or (
        change == "other key" and read in ("all", "number", "take")
    )
    try:
        with table.transaction() as tx:
            step(tx)
            tx.upsert(rows([7], 42))
            CHANGES[change](other)
        conflict = None
    except nb.ConflictError as error:
        conflict = error
    assert (conflict is not None) == wanted_conflict
    assert files(table) == reachable(table)
    after = contents(table.refresh())
    if conflict is not None:
        assert conflict.kind == "keys"
        assert conflict.winner == table.snapshot
        assert conflict.base is not None
        assert conflict.keys
        assert after == contents(other)
        return
    serial = nb.connect(tmp_path / "serial")
    model = serial.create_table("a.b", rows(keys), primary_key="k")
    CHANGES[change](model)
    with model.transaction() as tx:
        step(tx)
        tx.upsert(rows([7], 42))
    assert after == contents(model)


def test_between_the_plan_and_the_swap(lake: nb.Catalog, between: Any) -> None:
    table = lake.create_table("a.b", rows(range(5)), primary_key="k")
    other = lake.table("a.b")

    def add(*keys: int) -> nb.Commit | None:
        with table.transaction() as tx:
            tx.upsert(rows(keys, tx.get(3)["v"] + 5))
        return tx.commit

    between(lambda: other.upsert(rows([9], 1)))
    done = add(3, 9)
    assert done is not None
    assert (done.retries, done.rows_updated) == (1, 2)
    between(lambda: other.upsert(rows([3], 1)))
    with pytest.raises(nb.ConflictError) as caught:
        add(3)
    assert caught.value.keys == (3,)
    assert contents(table.refresh()) == {0: 0, 1: 0, 2: 0, 3: 1, 4: 0, 9: 5}
    assert files(table) == reachable(table)


def test_rows_written_beside_a_new_column_read_its_default(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": [1]}), primary_key="k")
    with table.transaction() as tx:
        tx.upsert(pa.table({"k": [2]}))
        with lake.table("a.b").alter() as a:
            a.add_column("n", pa.int64(), default=7)
        tx.upsert(pa.table({"k": [3]}))
    assert table.to_table(["n"])["n"].to_pylist() == [7, 7, 7]


def _strict(keys: Any) -> pa.Table:
    return rows(keys).set_column(1, pa.field("n", pa.int64(), nullable=False), [list(keys)])


# Calls that look keys up and are refused; each says that key 1 is there, or that 5 is not.
REFUSED: dict[str, Callable[[Any], Any]] = {
    "append": lambda tx: tx.append(_strict([1])),
    "upsert": lambda tx: tx.upsert(_strict([1]), when_matched="error"),
    "update": lambda tx: tx.upsert(pa.table({"k": [1, 5]}).select(["k"]), update=["k"]),
}


@FORMATS
@pytest.mark.parametrize("call", REFUSED)
def test_what_a_refused_call_has_read_is_a_read(
    lake: nb.Catalog, call: str, data_format: Any
) -> None:
    """It was not noted, so that two transactions read what the other one then changed."""
    table = lake.create_table("a.b", _strict([1]), primary_key="k", data_format=data_format)
    other = lake.table("a.b")
    tx = table.transaction()
    with pytest.raises(nb.NimbleError):
        REFUSED[call](tx)
    tx.upsert(_strict([2]))
    with other.transaction() as second:
        assert second.get(2) is None
        second.delete(keys=[1])
    with pytest.raises(nb.ConflictError) as caught, tx:
        pass
    assert caught.value.kind == "keys"
    assert table.refresh().num_rows == 0
    assert files(table) == reachable(table)


def test_a_transaction_that_is_let_go_leaves_nothing(lake: nb.Catalog) -> None:
    """Its files stayed for days."""
    table = lake.create_table("a.b", rows([1]), primary_key="k")
    tx = table.transaction()
    tx.append(rows([2]))
    tx.upsert(rows([3]))
    assert len(files(table) - reachable(table)) == 2
    del tx
    gc.collect()
    assert files(table) == reachable(table)
    with table.transaction() as tx:
        tx.append(rows([2]))
    del tx
    gc.collect()
    assert lake.table("a.b").to_table().num_rows == 2
    tx = table.transaction()
    tx.append(rows([5]))
    tx.close()
    assert files(table) == reachable(table)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_leaves_the_files_of_a_transaction(lake: nb.Catalog) -> None:
    """The copy of the transaction in the child is collected there."""
    table = lake.create_table("a.b", rows([1]))
    tx = table.transaction()
    tx.append(rows([2]))
    child = os.fork()
    if not child:
        del tx
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with tx:
        pass
    assert lake.table("a.b").to_table().num_rows == 2


@FORMATS
def test_it_reads_files_of_a_newer_partitioning(lake: nb.Catalog, data_format: Any) -> None:
    """What it had read could not be looked at again: a KeyError."""
    table = lake.create_table("a.b", rows([1, 2]), primary_key="k", data_format=data_format)
    other = lake.table("a.b")
    tx = table.transaction()
    assert tx.count_rows("v = 0") == 2
    tx.upsert(rows([5], 1))
    with other.alter() as a:
        a.add_column("x", pa.int32())
        a.partition_by("v")
    other.upsert(rows([7], 3))
    with tx:
        pass
    assert contents(lake.table("a.b")) == {1: 0, 2: 0, 5: 1, 7: 3}


@pytest.mark.parametrize("big", [2, 1 << 40], ids=["small value", "large value"])
@pytest.mark.parametrize("reads", [True, False], ids=["reads", "blind"])
def test_a_column_is_widened_and_written_meanwhile(lake: nb.Catalog, big: int, reads: bool) -> None:
    """New bounds were compared as the old type: a healthy table was called corrupt."""
    schema = pa.schema({"id": pa.int64(), "v": pa.int32()})
    table = lake.create_table("a.wide", schema, primary_key="id")
    table.append({"id": [1], "v": pa.array([1], pa.int32())})
    other = lake.table("a.wide")

    def change() -> None:
        with table.transaction() as tx:
            if reads:
                assert tx.count_rows(filter="v = 7") == 0
            with other.alter() as alter:
                alter.widen("v", pa.int64())
            other.append({"id": [3], "v": [big]})
            tx.upsert({"id": [9], "v": pa.array([0], pa.int32())})

    if reads:
        with pytest.raises(nb.ConflictError, match="widened the column 'v'") as error:
            change()
        assert error.value.kind == "schema"
    else:
        change()
    assert lake.table("a.wide").num_rows == (2 if reads else 3)
