"""Indexes of existing tables, and the files and partitions of a table."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from processes import CHILDREN

import nimblepy as nb
from nimblepy.table.testing import commit_hooks


@pytest.fixture
def lake(tmp_path: Path) -> nb.Catalog:
    return nb.connect(tmp_path / "lake")


def rows(begin: int, end: int) -> pa.Table:
    keys = range(begin, end)
    return pa.table(
        {
            "id": keys,
            "email": [f"u{i % 50}@x" for i in keys],
            "day": pa.array([i % 3 for i in keys], pa.int32()),
        }
    )


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    table = lake.create_table("a.b", rows(0, 100), primary_key="id", partition_by="day")
    table.append(rows(100, 150))
    table.delete("id % 10 = 0")
    return table


def emails(table: nb.Table, email: str = "u7@x") -> list[int]:
    return sorted(table.lookup([email], on="email")["id"].to_pylist())


def kinds(table: nb.Table) -> list[str]:
    return [str(info.kind) for info in table.indexes]


def test_an_index_is_added_to_every_file(table: nb.Table) -> None:
    before, content = table.at(snapshot=table.snapshot), table.to_table()
    with pytest.raises(nb.IndexUnavailableError):
        emails(table)
    done = table.add_index(nb.HashIndex(["email"]))
    assert (done.rows_inserted, done.rows_deleted, done.rows_updated) == (0, 0, 0)
    assert done.files_removed == 6
    assert kinds(table) == ["cluster", "hash"]
    assert emails(table) == [7, 57, 107]
    assert table.to_table().equals(content)
    assert table.count_rows("id = 10") == 0
    assert table.explain(filter="email = 'u7@x'").index is not None or emails(table)
    assert table.changes(before.snapshot).read_all().num_rows == 0
    table.append(rows(150, 160))
    assert kinds(table) == ["cluster", "hash"]
    assert emails(table.catalog.table("a.b")) == [7, 57, 107, 157]
    assert table.health().index_coverage == {"hash (email)": 1.0}
    assert "hash (email): 100% of the rows" in repr(table.health())
    table.upsert([{"id": 7, "email": "new", "day": 1}])
    assert emails(table) == [57, 107, 157]
    table.compact(where_needed=False)
    assert emails(table, "new") == [7]
    snapshot = table.snapshot
    assert table.add_index(nb.HashIndex(["email"])).snapshot == snapshot  # nothing to add


def test_statistics_and_schema_changes_survive(table: nb.Table) -> None:
    with table.alter() as a:
        a.rename_column("email", "mail").add_column("w", pa.int64())
    done = table.add_index([nb.SortedIndex(["mail", "id"]), nb.HashIndex(["w"])])
    assert done.files_removed == 6
    assert table.range("u7@x", "u7@y", on=["mail", "id"])["id"].to_pylist() == [7, 57, 107]
    assert table.health().index_coverage == {"sorted (mail, id)": 1.0, "hash (w)": 0.0}
    plan = table.explain(filter="id > 140 and day = 0")
    assert plan["files opened"] == 1
    table.append([{"id": 500, "mail": "z", "day": 0, "w": 1}])
    assert 0 < table.health().index_coverage["hash (w)"] < 0.1


def test_an_index_is_dropped(table: nb.Table) -> None:
    table.add_index([nb.HashIndex(["email"]), nb.SortedIndex(["email"])])
    table.drop_index(nb.SortedIndex(["email"]))
    assert kinds(table) == ["cluster", "hash"]
    content = table.to_table()
    assert table.drop_index(["email"]).files_removed == 6
    assert kinds(table) == ["cluster"]
    assert table.to_table().equals(content)
    assert table.health().index_coverage == {}
    with pytest.raises(nb.IndexUnavailableError, match="no secondary index"):
        table.drop_index("email")


def test_an_index_of_an_empty_table(lake: nb.Catalog) -> None:
    table = lake.create_table("a.c", rows(0, 1).schema, cluster_by="day", primary_key="id")
    assert table.health().index_coverage == {"hash (id)": 1.0}
    table.add_index(nb.HashIndex(["email"]))
    table.append(rows(0, 60))
    assert emails(table) == [7, 57]
    with pytest.raises(nb.InvalidArgumentError, match="primary key cannot be dropped"):
        table.drop_index(["id"])


def test_changes_beside_it_are_kept(table: nb.Table, between: Any) -> None:
    other = table.catalog.table("a.b")

    def change() -> None:
        other.delete("id = 57")
        other.append(rows(200, 210))

    between(change)
    table.add_index(nb.HashIndex(["email"]))
    assert emails(table) == [7, 107, 207]
    assert table.health().index_coverage == {"hash (email)": 1.0}


def test_what_is_refused(table: nb.Table) -> None:
    for index, message in (
        (nb.HashIndex(["nope"]), "nope"),
        ([], "at least one"),
        ("email", "expected nb.HashIndex"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            table.add_index(index)  # type: ignore[arg-type]


def test_samples_of_an_otree_survive(lake: nb.Catalog) -> None:
    layout = nb.OTree(["id", "day"], cube_rows=1000)
    table = lake.create_table("a.o", rows(0, 5000), layout=layout)
    drawn = table.sample(0.1, seed=3).sort_by("id")
    table.add_index(nb.HashIndex(["email"]))
    assert table.sample(0.1, seed=3).sort_by("id").equals(drawn)
    assert len(emails(table)) == 100
    assert table.health().boxes_read is not None


def test_files_and_partitions(table: nb.Table) -> None:
    files = table.files()
    assert files.schema.names == ["path", "format", "rows", "bytes", "deleted", "partition"]
    assert (files.num_rows, sum(files["rows"].to_pylist())) == (6, 150)
    assert sum(files["deleted"].to_pylist()) == 15
    assert set(files["format"].to_pylist()) == {"NIMBLEPY"}
    partitions = table.partitions().to_pylist()
    assert [row["partition"] for row in partitions] == ["day=0", "day=1", "day=2"]
    assert [row["files"] for row in partitions] == [2, 2, 2]
    assert np.sum([row["rows"] - row["deleted"] for row in partitions]) == table.num_rows
    past = table.at(snapshot=table.snapshots()["snapshot_id"][0].as_py())
    assert past.files().num_rows == 3
    table.delete("true")
    assert (table.files().num_rows, table.partitions().num_rows) == (0, 0)


def test_files_that_others_replace_during_each_pass(table: nb.Table) -> None:
    """Success was reported although no file had the index, nor would a new one."""
    other = table.catalog.table("a.b")
    calls = 0

    def replace() -> None:
        nonlocal calls
        calls += 1
        other.overwrite(rows(0, 100))

    with commit_hooks(before_swap=replace):
        table.add_index(nb.HashIndex(["email"]))
    assert calls >= 2
    assert kinds(table) == ["cluster", "hash"]
    assert emails(table) == [7, 57]
    assert table.health().index_coverage == {"hash (email)": 1.0}


def test_files_without_the_index_that_never_end(table: nb.Table, tmp_path: Path) -> None:
    """Files of a program that does not know of the index yet."""
    other = table.catalog.table("a.b")
    written = 0

    def replace() -> None:
        nonlocal written
        written += 1
        keys = range(1000 * written, 1000 * written + 10)
        data = pa.table({"id": keys, "email": ["new"] * 10, "day": pa.array([1] * 10, pa.int32())})
        target = tmp_path / f"{written}.nimble"
        nb.write(data, target, cluster_by="id")
        other.delete("true")
        other.add_files([str(target)])

    with (
        commit_hooks(before_swap=replace),
        pytest.raises(nb.ConflictError, match="1 files are unchanged") as caught,
    ):
        table.add_index(nb.HashIndex(["email"]))
    assert caught.value.kind == "files"
    assert table.refresh().health().index_coverage == {"hash (email)": 0.0}
    table.add_index(nb.HashIndex(["email"]))
    assert table.health().index_coverage == {"hash (email)": 1.0}
    assert len(emails(table, "new")) == 10
    snapshot = table.snapshot
    assert table.add_index(nb.HashIndex(["email"])).snapshot == snapshot


def test_indexes_added_on_two_branches_at_once(table: nb.Table) -> None:
    """The later commit overwrote the property of the earlier one, as it did not look at it."""
    table.branch("audit")
    audit = table.at(branch="audit")
    left = [nb.SortedIndex(["email"])]
    with commit_hooks(before_swap=lambda: left and audit.add_index(left.pop())):
        table.add_index(nb.HashIndex(["email"]))
    assert not left
    assert table.health().index_coverage == {"hash (email)": 1.0, "sorted (email)": 0.0}
    table.add_index(nb.SortedIndex(["email"]))  # the other branch has it
    assert table.health().index_coverage == {"hash (email)": 1.0, "sorted (email)": 1.0}


def test_indexes_of_an_empty_table_added_at_once(lake: nb.Catalog) -> None:
    table = lake.create_table("a.c", rows(0, 1).schema)
    other = lake.table("a.c")
    left = [nb.SortedIndex(["email"])]
    with commit_hooks(before_swap=lambda: left and other.add_index(left.pop())):
        table.add_index(nb.HashIndex(["email"]))
    table.append(rows(0, 60))
    assert sorted(kinds(table)) == ["hash", "sorted"]


def _toggle(place: Path, ready: Event) -> None:
    table = nb.connect(place).table("a.b")
    ready.set()
    if table.health().index_coverage:
        table.drop_index(["email"])
    else:
        table.add_index(nb.HashIndex(["email"]))


@pytest.mark.crash
@pytest.mark.no_sanitizer
@pytest.mark.parametrize("times", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_a_process_that_is_killed(tmp_path: Path, times: int) -> None:
    """Killed while it adds or drops an index: all files have the index, or none has it."""
    place = tmp_path / "lake"
    table = nb.connect(place).create_table("a.b", rows(0, 60), primary_key="id", partition_by="day")
    for i in range(1, 8):
        table.append(rows(60 * i, 60 * i + 60))
    table.delete("id % 10 = 0")
    content = table.to_table().sort_by("id")
    moments, seconds = random.Random(3), 0.5
    seen: Counter[bool] = Counter()
    for _ in range(times):
        ready = CHILDREN.Event()
        child = CHILDREN.Process(target=_toggle, args=(place, ready))
        child.start()
        assert ready.wait(60)
        start = time.perf_counter()
        child.join(moments.uniform(0, 1.1 * seconds))
        if child.is_alive():
            child.kill()
            child.join()
        else:
            seconds = time.perf_counter() - start
            assert child.exitcode == 0
        table = nb.connect(place).table("a.b")
        coverage = table.health().index_coverage
        assert coverage in ({}, {"hash (email)": 1.0})
        seen[bool(coverage)] += 1
        assert table.to_table().sort_by("id").equals(content)
        if coverage:
            assert emails(table) == [k for k in range(7, 480, 50) if k % 10]
        table.remove_orphans(older_than=dt.timedelta(0))
        assert all(table.census()["reachable"].to_pylist())
    assert times < 50 or min(seen.values()) > 5


@pytest.mark.parametrize("index", [nb.HashIndex(["cur"]), nb.SortedIndex(["cur", "id"])])
@pytest.mark.parametrize("default", [None, "EUR"])
def test_an_index_on_a_column_that_old_files_lack(
    lake: nb.Catalog, index: Any, default: str | None
) -> None:
    table = lake.create_table("a.n", pa.table({"id": [1, 2, 3]}), primary_key="id")
    with table.alter() as a:
        a.add_column("cur", pa.string(), default=default)
    assert table.get(1) == {"id": 1, "cur": default}  # opens a file before it has the index
    table.add_index(index)
    assert table.count(["EUR"], on="cur").to_pylist() == [3 if default else 0]
    table.append([{"id": 4, "cur": "USD"}, {"id": 5, "cur": "EUR"}])
    table.delete("id = 2")
    for handle in (table, lake.table("a.n")):
        on = "cur"
        euros = [1, 3, 5] if default else [5]
        assert sorted(handle.lookup(["EUR"], on=on)["id"].to_pylist()) == euros
        assert handle.lookup(["USD", "GBP"], on=on)["id"].to_pylist() == [4]
        assert handle.count(["EUR", "USD"], on=on).to_pylist() == [len(euros), 1]
        assert handle.get("USD", on=on) == {"id": 4, "cur": "USD"}
        if isinstance(index, nb.SortedIndex):
            assert handle.prefix("EUR", on=on)["id"].to_pylist() == euros
            assert handle.range("A", "Z", on=on)["id"].to_pylist() == [*euros, 4]
    table.compact(where_needed=False)
    assert sorted(table.lookup(["EUR"], on="cur")["id"].to_pylist()) == euros
