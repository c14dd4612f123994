"""Commits beside commits: nothing is lost, nothing twice, nothing left behind."""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from processes import CHILDREN, pool_of

import nimblepy as nb
from nimblepy.table.distributed import commit_files


def rows(first: int, count: int = 10) -> pa.Table:
    return pa.table({"k": range(first, first + count), "g": [first % 3] * count})


def files(table: nb.Table) -> set[str]:
    root = table.location.removeprefix("file://")
    return {os.path.join(d, name) for d, _, names in os.walk(root) for name in names}


def reachable(table: nb.Table) -> set[str]:
    found = table.census().to_pylist()
    return {row["path"] for row in found if row["reachable"]}


# ---- one handle between another's plan and its swap ----

Step = Callable[[nb.Table], Any]


def alter(table: nb.Table) -> None:
    with table.alter() as a:
        a.add_column("extra", pa.int32(), default=3)


def repartition(table: nb.Table) -> None:
    with table.alter() as a:
        a.partition_by("g")


STEPS: dict[str, Step] = {
    "append": lambda t: t.append(rows(100)),
    "delete rows": lambda t: t.delete("k IN (1, 11)"),
    "delete files": lambda t: t.delete("k < 10"),
    "delete nothing": lambda t: t.delete("k = 5000"),
    "overwrite some": lambda t: t.overwrite(rows(200), filter="k >= 10"),
    "overwrite all": lambda t: t.overwrite(rows(300)),
    "alter": alter,
    "partition": repartition,
    "tag": lambda t: t.tag("now"),
    "compact": lambda t: t.compact(),
}


def keys(table: nb.Table) -> list[int]:
    return sorted(table.to_table(["k"]).column("k").to_pylist())


def after(steps: list[str]) -> list[int]:
    """The keys after some steps, one after the other."""
    found = list(range(20))
    for name in steps:
        if name == "append":
            found += range(100, 110)
        elif name == "delete rows":
            found = [k for k in found if k not in (1, 11)]
        elif name == "delete files":
            found = [k for k in found if k >= 10]
        elif name == "overwrite some":
            found = [k for k in found if k < 10] + list(range(200, 210))
        elif name == "overwrite all":
            found = list(range(300, 310))
    return sorted(found)


@pytest.mark.parametrize("second", STEPS)
@pytest.mark.parametrize("first", STEPS)
def test_pairs_of_commits(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    """``second`` is committed after ``first`` was planned: the result is that of some order."""
    table = lake.create_table("a.b", rows(0), cluster_by="k")
    table.append(rows(10))
    other = lake.table("a.b")
    from nimblepy.table import iceberg as ice

    plain = ice.swap
    done: list[int] = []

    def swap(*arguments: Any) -> Any:
        if not done:
            done.append(1)
            STEPS[second](other)
        return plain(*arguments)

    monkeypatch.setattr(ice.snapshot_commit, "swap", swap)
    if first in ("alter", "partition"):
        commit = ice.Evolution.commit

        def evolve(self: Any) -> Any:
            if not done:
                done.append(1)
                STEPS[second](other)
            return commit(self)

        monkeypatch.setattr(ice.Evolution, "commit", evolve)
    try:
        STEPS[first](table)
        refused = False
    except (nb.ConflictError, nb.InvalidArgumentError):
        # Only what is the same change twice.
        assert first == second
        assert first in ("alter", "tag")
        refused = True
    if not done:  # nothing was to be committed
        assert first == "delete nothing"
        return
    table.refresh()
    orders = [after([second])] if refused else [after([first, second]), after([second, first])]
    assert keys(table) in orders
    assert table.num_rows == table.count_rows() == len(keys(table))
    history = table.snapshots().to_pylist()
    parents = [row["parent_id"] for row in history]
    assert parents == [None, *(row["snapshot_id"] for row in history[:-1])]
    assert files(table) == reachable(table)


def _added_column(table: nb.Table) -> None:
    with table.alter() as alter:
        alter.add_column("x", pa.int64())


def _in_transaction(table: nb.Table) -> None:
    with table.transaction() as tx:
        tx.delete(keys=[1])


def _merged(table: nb.Table) -> None:
    table.merge(rows(1)).when_matched(update=True).execute()


CHANGES: dict[str, Callable[[nb.Table], Any]] = {
    "append": lambda t: t.append(rows(10)),
    "upsert": lambda t: t.upsert(rows(1)),
    "delete": lambda t: t.delete("k = 1"),
    "delete keys": lambda t: t.delete(keys=[1]),
    "overwrite": lambda t: t.overwrite(rows(1)),
    "merge": _merged,
    "transaction": _in_transaction,
    "alter": _added_column,
    "convert": lambda t: t.convert("parquet"),
    "compact": lambda t: t.compact(),
    "optimize_layout": lambda t: t.optimize_layout(),
    "optimize": lambda t: t.optimize(),
    "rewrite_manifests": lambda t: t.rewrite_manifests(),
    "analyze": lambda t: t.analyze(),
    "expire": lambda t: t.expire(keep=1),
    "remove_orphans": lambda t: t.remove_orphans(),
    "tag": lambda t: t.tag("x"),
    "branch": lambda t: t.branch("x"),
    "drop_reference": lambda t: t.drop_reference("x"),
    "rollback": lambda t: t.rollback(t.snapshot or 0),
    "commit_files": lambda t: commit_files(t, []),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("gone", ["dropped", "renamed", "replaced"])
def test_a_dropped_table(lake: nb.Catalog, change: str, gone: str) -> None:
    """It was an InvalidArgumentError, which a loop around ConflictError does not catch."""
    table = lake.create_table("a.b", rows(0), primary_key="k")
    if gone == "renamed":
        lake.rename_table("a.b", "a.c")
    else:
        lake.drop_table("a.b")
    if gone == "replaced":
        lake.create_table("a.b", rows(0), primary_key="k")
    with pytest.raises(nb.ConflictError, match="dropped or renamed") as caught:
        CHANGES[change](table)
    assert caught.value.kind == "table"
    assert table.num_rows == 10


def test_a_closed_handle_of_a_dropped_table(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows(0))
    table.close()
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        table.append(rows(1))


def test_a_failing_commit_leaves_nothing(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("a.b", rows(0), cluster_by="k")
    before = files(table)
    from nimblepy.table import iceberg as ice

    def swap(*_: Any) -> Any:
        raise OSError("disk full")

    monkeypatch.setattr(ice.snapshot_commit, "swap", swap)
    for step in ("append", "delete rows", "overwrite all"):
        with pytest.raises(OSError, match="disk full"):
            STEPS[step](table)
        assert files(table) == before, step
    monkeypatch.undo()
    assert keys(table.refresh()) == list(range(10))


# ---- processes ----


def _append(directory: str, writer: int, count: int) -> int:
    table = nb.connect(directory).table("a.b")
    return sum(table.append(rows(writer * 100_000 + i * 10)).retries for i in range(count))


@pytest.mark.parametrize(
    ("writers", "count"),
    [
        (2, 10),
        pytest.param(2, 100, marks=pytest.mark.slow),
        pytest.param(6, 20, marks=pytest.mark.slow),
    ],
)
def test_processes_append(tmp_path: Path, writers: int, count: int) -> None:
    directory = str(tmp_path / "lake")
    table = nb.connect(directory).create_table("a.b", rows(0).schema, cluster_by="k")
    with pool_of(writers) as pool:
        retries = pool.starmap(_append, [(directory, w, count) for w in range(writers)])
    table.refresh()
    wanted = [w * 100_000 + i for w in range(writers) for i in range(count * 10)]
    assert keys(table) == wanted
    history = table.snapshots().to_pylist()
    assert len(history) == writers * count
    assert [row["parent_id"] for row in history] == [
        None,
        *(row["snapshot_id"] for row in history[:-1]),
    ]
    assert files(table) == reachable(table)
    print("retries", retries)


def _change_for_ever(directory: str, seed: int) -> None:
    table = nb.connect(directory).table("a.b")
    chosen = random.Random(seed)
    number = 0
    while True:
        number += 1
        what = chosen.randrange(5)
        if what <= 1:
            table.append(rows(1000 * number))
        elif what == 2:
            table.delete(f"g = {chosen.randrange(3)} AND k < {1000 * chosen.randrange(number + 1)}")
        elif what == 3:
            table.overwrite(rows(7 * number), filter=f"g = {chosen.randrange(3)}")
        else:
            with table.alter() as a:
                a.set_properties({"n": str(number)})


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_writers(tmp_path: Path, kills: int) -> None:
    directory = str(tmp_path / "lake")
    table = nb.connect(directory).create_table("a.b", rows(0), cluster_by="k", partition_by="g")
    chosen = random.Random(5)
    for seed in range(kills):
        process = CHILDREN.Process(target=_change_for_ever, args=(directory, seed))
        before = table.refresh().iceberg.metadata_location
        process.start()
        begin = time.monotonic()
        while table.refresh().iceberg.metadata_location == before:
            assert process.is_alive()
            assert time.monotonic() - begin < 600
            time.sleep(0.01)
        time.sleep(chosen.uniform(0, 0.3))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        table.refresh()
        found = keys(table)
        assert table.num_rows == len(found)
        if seed % 10 == 9:
            table.expire(keep=10)
    table.append(rows(1_000_000))
    table.remove_orphans(older_than=dt.timedelta(0))
    assert files(table) == reachable(table)
    assert table.refresh().num_rows == len(found) + 10


# ---- files that another engine lists twice ----


def _listed_twice(
    lake: nb.Catalog, keys: list[int], more: list[int], between: Callable[[nb.Table], Any]
) -> nb.Table:
    schema = pa.schema({"k": pa.int64()})
    table = lake.create_table("a.b", schema, data_format="parquet")
    table.append(pa.table({"k": keys}, schema=schema))
    (path,) = (row["path"] for row in table.census().to_pylist() if row["kind"] == "data")
    between(table)
    theirs = lake.iceberg.load_table("a.b")
    theirs.add_files([f"file://{path}"], check_duplicate_files=False)
    if more:
        table.append(pa.table({"k": more}, schema=schema))
    return table.refresh()


def only_keys(table: nb.Table) -> list[int]:
    found: list[int] = sorted(
        nb.connect(table.catalog._target).table("a.b").to_table()["k"].to_pylist()
    )
    return found


TWICE: dict[str, tuple[Callable[[nb.Table], Any], list[int]]] = {
    "delete": (lambda t: t.delete("k = 1"), [5, 5, 9]),
    "delete the file": (lambda t: t.delete("k < 9"), [9]),
    "delete all": (lambda t: t.delete("k > 0"), []),
    "overwrite": (lambda t: t.overwrite(pa.table({"k": [2]}), filter="k = 1"), [2, 5, 5, 9]),
    "merge": (
        lambda t: t.merge(pa.table({"k": [1]}), on="k").when_matched(delete=True).execute(),
        [5, 5, 9],
    ),
    "convert": (lambda t: (t.delete("k = 1"), t.convert("nimble")), [5, 5, 9]),
}


@pytest.mark.parametrize("name", TWICE)
def test_rows_of_a_file_that_is_listed_twice(lake: nb.Catalog, name: str) -> None:
    """Only the first listing was removed, and the delete file with it: deleted rows came back."""
    change, wanted = TWICE[name]
    table = _listed_twice(lake, [1, 5], [9], lambda t: None)
    assert only_keys(table) == [1, 1, 5, 5, 9]
    change(table)
    assert only_keys(table) == wanted == sorted(table.to_table()["k"].to_pylist())
    assert table.num_rows == len(wanted)
    table.compact(where_needed=False)
    assert only_keys(table) == wanted
    for i in range(6):
        table.append(pa.table({"k": [20 + i]}))
        table.delete(f"k = {20 + i}")
    table.compact()
    assert only_keys(table) == wanted


def test_listings_that_have_other_deletes(lake: nb.Catalog) -> None:
    """A delete file applies to files that were listed before it, and not to later listings."""
    table = _listed_twice(lake, [1, 5, 7], [9], lambda t: t.delete("k IN (1, 5)"))
    assert only_keys(table) == [1, 5, 7, 7, 9]
    assert table.delete("k = 7").rows_deleted == 2  # all of one listing, not of the other
    assert only_keys(table) == [1, 5, 9]
    table.compact(where_needed=False)
    assert only_keys(table) == [1, 5, 9]
    assert table.delete("k < 9").rows_deleted == 2
    assert only_keys(table) == [9]


# ---- two names of one table ----


@pytest.mark.parametrize("spelled", ["plain", "through a link"])
def test_two_names_of_one_table(lake: nb.Catalog, tmp_path: Path, spelled: str) -> None:
    """What one name removed, the other still needed."""
    table = lake.create_table("a.b", rows(0))
    place = table.metadata_location.removeprefix("file://")
    if spelled != "plain":
        (tmp_path / "linked").symlink_to(tmp_path / "lake")
        place = place.replace(f"{tmp_path}/lake", f"{tmp_path}/linked")
    other = lake.register("a.r", place)
    table.append(rows(100))
    other.delete("k >= 0")
    for step in (
        lambda: other.expire(keep=1),
        lambda: other.remove_orphans(older_than=dt.timedelta(0)),
        lambda: lake.drop_table("a.r", purge=True),
        lambda: lake.drop_table("a.b", purge=True),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=r"the table a\.[br] has the same files"):
            step()
    assert lake.table("a.b").to_table().num_rows == 20
    lake.drop_table("a.r")
    table.expire(keep=1)
    assert lake.table("a.b").to_table().num_rows == 20
