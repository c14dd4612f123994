"""Turns: a commit that lost to others some times is not kept from its next attempt."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import nimblepy as nb
from nimblepy.table.changing.row_commit import RowCommit
from nimblepy.table.iceberg.catalog_rows import CatalogRows
from nimblepy.table.testing import commit_hooks
from nimblepy.table.writing import commit

ROWS = pa.table({"k": [1, 2]})


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    return lake.create_table("a.t", ROWS)


def slow_rebases(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Makes what this thread does before each attempt take time."""
    victim = threading.get_ident()
    plain = RowCommit.plan

    def plan(self: RowCommit, metadata: Any) -> bool:
        if threading.get_ident() == victim:
            time.sleep(seconds)
        return plain(self, metadata)

    monkeypatch.setattr(RowCommit, "plan", plan)


class Busy:
    """Another writer that commits without a pause, until the block ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.commits = 0
        self.failed: list[BaseException] = []

    def _work(self) -> None:
        try:
            table = nb.connect(self._directory).table("a.t")
            while not self._stop.is_set():
                table.append(ROWS)
                self.commits += 1
        except BaseException as error:
            self.failed.append(error)

    def __enter__(self) -> Busy:
        self._thread.start()
        while self.commits < 2 and not self.failed:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def test_who_takes_longer_than_others_commits(
    table: nb.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_PATIENCE", 2)
    slow_rebases(monkeypatch, 0.5)
    with Busy(tmp_path / "lake") as other:
        done = table.append(ROWS)
    assert not other.failed
    assert done.retries <= 2
    assert table.refresh().num_rows == 2 * len(table.snapshots())


def test_a_long_attempt_has_no_turn(
    table: nb.Table,
    lake: nb.Catalog,
    between: Callable[[Callable[[], Any]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others would have to wait as long."""
    monkeypatch.setattr(commit, "_PATIENCE", 1)
    monkeypatch.setattr(commit, "_LONGEST_TURN", 0.0)
    monkeypatch.setattr(commit.ice, "MOST_ATTEMPTS", 4)
    plain, other, made = RowCommit.plan, lake.table("a.t"), []
    nested: list[None] = []

    def plan(self: RowCommit, metadata: Any) -> bool:
        done = plain(self, metadata)
        if not nested:
            nested.append(None)
            other.append(ROWS)
            nested.clear()
            made.append(done)
        return done

    monkeypatch.setattr(RowCommit, "plan", plan)
    with pytest.raises(nb.ConflictError, match="4 attempts"):
        table.append(ROWS)
    assert made == [True] * 4
    assert table.refresh().num_rows == 2 * len(table.snapshots()) == 2 * 5


def test_hooks_may_wait_for_commits_of_other_threads(table: nb.Table, tmp_path: Path) -> None:
    # The third attempt had its turn when it called the hook, which then waited for a thread that
    # waited for the turn: a minute, until SQLite gave up.
    committing = threading.get_ident()
    retries: list[int] = []

    def append() -> None:
        retries.append(nb.connect(tmp_path / "lake").table("a.t").append(ROWS).retries)

    def win() -> None:
        if threading.get_ident() == committing and len(retries) < 4:
            thread = threading.Thread(target=append)
            thread.start()
            thread.join(20)
            assert not thread.is_alive()

    with commit_hooks(before_swap=win):
        assert table.append(ROWS).retries == 4
    assert retries == [0] * 4


def test_others_read_and_wait_meanwhile(table: nb.Table, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/lake/catalog.db"
    theirs = SqlCatalog("nimble", uri=database, warehouse=f"file://{tmp_path}/lake")
    rows = CatalogRows(database, "nimble")
    other = nb.connect(tmp_path / "lake").table("a.t")
    results: list[Any] = []
    waiting = [
        threading.Thread(target=lambda: results.append(other.append(ROWS).retries)),
        threading.Thread(target=lambda: results.append(theirs.load_table("a.t").name())),
    ]
    with rows.turn():
        for thread in waiting:
            thread.start()
        waiting[1].join()
        time.sleep(0.2)
        assert results == [("a", "t")]
        before = rows.location("a", "t")
        assert before is not None
        assert rows.swap("a", "t", before, before)  # the turn ends here
        waiting[0].join()
    assert results == [("a", "t"), 0]


def test_a_killed_process_has_no_turn(table: nb.Table, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/lake/catalog.db"
    program = (
        "import sys, time\n"
        "from nimblepy.table.iceberg.catalog_rows import CatalogRows\n"
        "with CatalogRows(sys.argv[1], 'nimble').turn():\n"
        "    print('mine', flush=True)\n"
        "    time.sleep(600)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, database], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == "mine\n"
        other = nb.connect(
            f"{database}?timeout=0.1", properties={"warehouse": f"file://{tmp_path}/lake"}
        )
        with pytest.raises(OSError, match="locked"):
            other.table("a.t").append(ROWS)
        with CatalogRows(f"{database}?timeout=0.1", "nimble").turn():  # goes without
            assert other.table("a.t").num_rows == 2
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert other.table("a.t").append(ROWS).retries == 0
    assert {row["kind"] for row in table.census().to_pylist() if not row["reachable"]} == set()


def test_a_swap_that_is_not_made_durable_is_none(table: nb.Table, tmp_path: Path) -> None:
    """A reader that does not end keeps the database from being written."""
    file = tmp_path / "lake" / "catalog.db"
    rows = CatalogRows(f"sqlite:///{file}?timeout=0.1", "nimble")
    before = rows.location("a", "t")
    assert before is not None
    with closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM iceberg_tables").fetchone()
        with rows.turn(), pytest.raises(OSError, match="locked"):
            rows.swap("a", "t", before, "elsewhere")
        reader.execute("COMMIT")
    assert rows.location("a", "t") == before


def test_a_catalog_in_memory_has_turns() -> None:
    rows = CatalogRows("sqlite://", "nimble")
    rows.add("a", "t", "1")
    done = threading.Event()

    def swap() -> None:
        assert not rows.swap("a", "t", "1", "other")
        done.set()

    thread = threading.Thread(target=swap)
    with rows.turn():
        thread.start()
        assert not done.wait(0.1)
        assert rows.swap("a", "t", "1", "2")
    thread.join()
    assert done.is_set()
    assert rows.location("a", "t") == "2"
