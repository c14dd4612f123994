"""Branches: commits to them, publication with fast_forward, and what expiry keeps."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.table.distributed import commit_files, write_rows, write_target

Step = Callable[[nb.Table], Any]


@pytest.fixture
def table(tmp_path: Path) -> nb.Table:
    lake = nb.connect(tmp_path / "lake")
    rows = [{"id": i, "v": i} for i in range(6)]
    table = lake.create_table("a.b", pa.Table.from_pylist(rows), primary_key="id")
    return table.branch("audit")


def values(table: nb.Table) -> dict[int, int]:
    rows = table.to_table().to_pylist()
    return {row["id"]: row["v"] for row in rows}


BEFORE = {i: i for i in range(6)}
MERGED = [{"id": 0, "v": 50}, {"id": 9, "v": 9}]


def _transaction(t: nb.Table) -> None:
    with t.transaction() as tx:
        tx.upsert([{"id": 1, "v": tx.get(1)["v"] + 40}])
        tx.delete(keys=[0])


CHANGES: dict[str, tuple[Step, dict[int, int]]] = {
    "append": (lambda t: t.append([{"id": 7, "v": 7}]), BEFORE | {7: 7}),
    "upsert": (lambda t: t.upsert([{"id": 1, "v": 9}]), BEFORE | {1: 9}),
    "delete": (lambda t: t.delete("id > 0"), {0: 0}),
    "overwrite": (lambda t: t.overwrite([{"id": 3, "v": 4}]), {3: 4}),
    "merge": (
        lambda t: t.merge(MERGED).when_matched(update=True).when_not_matched().execute(),
        BEFORE | {0: 50, 9: 9},
    ),
    "transaction": (_transaction, {1: 41} | {i: i for i in range(2, 6)}),
    "compact": (lambda t: (t.upsert([{"id": 2, "v": 3}]), t.compact()), BEFORE | {2: 3}),
    "new column": (
        lambda t: t.append([{"id": 8, "v": 8, "w": 1}], new_columns="add"),
        BEFORE | {8: 8},
    ),
    "staged": (
        lambda t: commit_files(
            t, write_rows(pa.table({"id": [8], "v": [1]}), write_target(t)), mode="upsert"
        ),
        BEFORE | {8: 1},
    ),
    "manifests": (
        lambda t: (t.append([{"id": 7, "v": 7}]), t.rewrite_manifests()),
        BEFORE | {7: 7},
    ),
    "analyze": (lambda t: (t.append([{"id": 7, "v": 7}]), t.analyze()), BEFORE | {7: 7}),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_branch_takes_every_change_and_main_none(table: nb.Table, kind: str) -> None:
    step, expected = CHANGES[kind]
    audit, before = table.at(branch="audit"), table.snapshot
    step(audit)
    table.refresh()
    assert (table.snapshot, values(table)) == (before, BEFORE)
    assert values(audit) == expected
    assert table.branches == {"main": before, "audit": audit.snapshot}
    assert values(pickle.loads(pickle.dumps(audit))) == expected
    assert "at branch audit" in repr(audit)
    table.fast_forward("main", to="audit")
    assert (table.snapshot, values(table)) == (audit.snapshot, expected)
    assert values(table.catalog.table("a.b")) == expected


def test_branches_do_not_conflict(table: nb.Table) -> None:
    audit = table.at(branch="audit")
    with audit.transaction() as tx:
        assert tx.get(1) == {"id": 1, "v": 1}
        table.upsert([{"id": 1, "v": 100}])
        tx.upsert([{"id": 1, "v": 7}])
    other = table.at(branch="audit")

    def lose() -> None:
        with audit.transaction() as tx:
            tx.get(1)
            other.upsert([{"id": 1, "v": 8}])
            tx.upsert([{"id": 1, "v": 9}])

    with pytest.raises(nb.ConflictError):
        lose()
    audit.refresh()
    assert (values(table)[1], values(audit)[1]) == (100, 8)


def test_fast_forward_names_both_snapshots(table: nb.Table) -> None:
    audit = table.at(branch="audit")
    audit.append([{"id": 7, "v": 7}])
    table.append([{"id": 8, "v": 8}])
    with pytest.raises(nb.ConflictError) as caught:
        table.fast_forward("main", to="audit")
    message = str(caught.value)
    assert str(table.snapshot) in message
    assert str(audit.snapshot) in message
    assert (caught.value.base, caught.value.winner) == (audit.snapshot, table.snapshot)
    table.at(branch="audit").rollback(table.at(branch="main").snapshots()["snapshot_id"][0].as_py())
    audit.refresh().fast_forward("audit", to="main")
    assert values(audit) == values(table) == BEFORE | {8: 8}
    assert audit.fast_forward("audit", to="main").snapshot == table.snapshot  # again
    for names in (("nope", "audit"), ("main", "nope")):
        with pytest.raises(nb.InvalidArgumentError, match="no tag or branch 'nope'; it has audit"):
            table.fast_forward(names[0], to=names[1])
    with pytest.raises(nb.InvalidArgumentError, match="is a tag"):
        table.tag("t").fast_forward("t", to="main")


def test_a_commit_between_keeps_main_from_moving(table: nb.Table, between: Any) -> None:
    table.at(branch="audit").append([{"id": 7, "v": 7}])
    between(lambda: table.catalog.table("a.b").append([{"id": 8, "v": 8}]))
    with pytest.raises(nb.ConflictError):
        table.fast_forward("main", to="audit")
    assert values(table.refresh()) == BEFORE | {8: 8}


def test_a_batch_is_added_once_to_each_branch(table: nb.Table) -> None:
    audit = table.at(branch="audit")
    rows = [{"id": 7, "v": 7}]
    for _ in range(2):
        audit.append(rows, batch=("job", 3))
    assert values(table.refresh()) == BEFORE
    table.append([{"id": 8, "v": 8}], batch=("job", 1))
    table.append([{"id": 9, "v": 9}], batch=("job", 1))
    assert values(table) == BEFORE | {8: 8}
    table.branch("next")
    following = table.at(branch="next")
    following.append([{"id": 10, "v": 1}], batch=("job", 2))
    table.fast_forward("main", to="next").append([{"id": 11, "v": 1}], batch=("job", 2))
    assert values(table) == BEFORE | {8: 8, 10: 1}
    assert int(table.properties["nimblepy.batch.job"].partition("@")[0]) == 2


def test_staged_files_are_added_once_to_each_branch(table: nb.Table) -> None:
    audit = table.at(branch="audit")
    files = write_rows(pa.table({"id": [8], "v": [1]}), write_target(audit))
    commit_files(audit, files)
    audit.compact(where_needed=False)
    commit_files(audit, files)
    assert values(audit) == BEFORE | {8: 1}
    table.refresh().append([{"id": 9, "v": 9}])
    audit.refresh()
    assert commit_files(audit, files).files_added == 0
    assert values(audit) == BEFORE | {8: 1}


def test_staged_files_committed_to_two_branches_at_once(table: nb.Table, between: Any) -> None:
    """The later commit overwrote the record of the earlier one, whose retry added rows again."""
    audit = table.at(branch="audit")
    of_audit = write_rows(pa.table({"id": [8], "v": [1]}), write_target(audit))
    of_main = write_rows(pa.table({"id": [9], "v": [1]}), write_target(table))
    between(lambda: commit_files(audit, of_audit))
    commit_files(table, of_main)
    for handle, files, key in ((audit, of_audit, 8), (table, of_main, 9)):
        handle.refresh().compact(where_needed=False)
        assert commit_files(handle, files).files_added == 0
        assert values(handle) == BEFORE | {key: 1}


def test_staged_files_beside_a_rollback_of_main(table: nb.Table, between: Any) -> None:
    first = table.snapshot
    of_main = write_rows(pa.table({"id": [9], "v": [1]}), write_target(table))
    commit_files(table, of_main)
    audit = table.at(branch="audit")
    of_audit = write_rows(pa.table({"id": [8], "v": [1]}), write_target(audit))
    between(lambda: commit_files(audit, of_audit))
    table.rollback(first)
    audit.refresh().compact(where_needed=False)
    assert commit_files(audit, of_audit).files_added == 0
    assert values(audit) == BEFORE | {8: 1}
    assert values(table) == BEFORE
    assert commit_files(table, of_main, mode="upsert").rows_inserted == 1


def test_changes_of_a_branch(table: nb.Table) -> None:
    audit, since = table.at(branch="audit"), table.snapshot
    audit.upsert([{"id": 1, "v": 5}])
    table.append([{"id": 8, "v": 8}])
    changes = audit.changes(since).read_all().to_pylist()
    assert [(row["_change"], row["v"]) for row in changes] == [
        ("update_before", 1),
        ("update_after", 5),
    ]
    assert table.changes(since).read_all()["id"].to_pylist() == [8]


def test_expiry_keeps_what_branches_need(table: nb.Table) -> None:
    audit = table.at(branch="audit")
    for v in range(4):
        audit.upsert([{"id": 1, "v": 10 + v}])
    table.refresh().expire(keep=1)
    assert table.snapshots().num_rows == 5
    assert values(audit)[1] == values(audit.refresh())[1] == 13
    table.fast_forward("main", to="audit")
    table.expire(keep=1)
    assert table.snapshots().num_rows == 1
    assert values(table) == BEFORE | {1: 13}
    # A branch that main cannot be moved to keeps its newest snapshot only.
    audit.upsert([{"id": 1, "v": 20}])
    audit.upsert([{"id": 1, "v": 21}])
    table.refresh().append([{"id": 8, "v": 8}])
    table.expire(keep=1)
    assert set(table.snapshots()["snapshot_id"].to_pylist()) == set(table.branches.values())
    assert values(audit.refresh())[1] == 21


def test_fast_forward_over_expired_snapshots(table: nb.Table) -> None:
    """It said that the snapshot of the branch is not an ancestor, although it was one."""
    for v in range(4):
        table.upsert([{"id": 1, "v": 10 + v}])
    audit = table.at(branch="audit")
    table.expire(keep=1)
    with pytest.raises(nb.ConflictError, match="the snapshots between them have expired") as caught:
        table.fast_forward("audit", to="main")
    assert (caught.value.base, caught.value.winner) == (table.snapshot, audit.snapshot)
    table.drop_reference("audit")
    assert values(table.branch("audit").at(branch="audit")) == BEFORE | {1: 13}
    # The history of main shows that it does not have these commits.
    table.at(branch="audit").append([{"id": 7, "v": 7}])
    table.refresh().append([{"id": 8, "v": 8}])
    with pytest.raises(nb.ConflictError, match="is not an ancestor"):
        table.fast_forward("audit", to="main")


def test_a_dropped_branch_takes_no_commits(table: nb.Table) -> None:
    audit = table.at(branch="audit")
    table.drop_reference("audit")
    for step in (audit.refresh, lambda: audit.append([{"id": 7, "v": 7}]), audit.compact):
        with pytest.raises(nb.ConflictError, match="branch 'audit' was dropped") as caught:
            step()
        assert caught.value.kind == "reference"
    assert values(audit) == BEFORE
    with pytest.raises(nb.InvalidArgumentError, match="no branch 'audit'"):
        table.at(branch="audit")
    assert "audit" not in table.catalog.table("a.b").branches


def test_a_branch_dropped_during_a_commit(table: nb.Table, between: Any) -> None:
    audit = table.at(branch="audit")
    between(lambda: table.drop_reference("audit"))
    with pytest.raises(nb.ConflictError, match="was dropped"):
        audit.append([{"id": 7, "v": 7}])
    assert "audit" not in table.catalog.table("a.b").branches
    assert table.remove_orphans(older_than=dt.timedelta(0)).files == ()


def test_tags_are_moved(table: nb.Table) -> None:
    first = table.snapshot
    table.tag("seen")
    table.append([{"id": 7, "v": 7}])
    with pytest.raises(nb.InvalidArgumentError, match="replace=True moves it"):
        table.tag("seen")
    assert table.tag("seen", replace=True).tags == {"seen": table.snapshot}
    assert table.tag("seen", first, replace=True).at(tag="seen").snapshot == first
    with pytest.raises(nb.InvalidArgumentError, match="has a branch 'audit' already"):
        table.tag("audit", replace=True)


def test_alter_at_a_branch_changes_the_table(table: nb.Table) -> None:
    audit = table.at(branch="audit")
    with audit.alter() as a:
        a.add_column("w", pa.int64(), default=3)
    audit.append([{"id": 7, "v": 7, "w": 1}])
    assert table.refresh().schema.names == audit.schema.names == ["id", "v", "w"]
    assert set(table.to_table()["w"].to_pylist()) == {3}
    assert audit.get(7) == {"id": 7, "v": 7, "w": 1}
