"""Services that follow a table: refresh(if_older_than=) and watch()."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.file.source import FileSource
from nimblepy.rows.compiled import RowsOfFile
from nimblepy.table import iceberg as ice
from nimblepy.table.watch import _running


@pytest.fixture
def table(tmp_path: Path) -> nb.Table:
    return nb.connect(tmp_path / "lake").create_table("a.b", pa.table({"k": [1]}), primary_key="k")


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_refresh_if_older_than(table: nb.Table) -> None:
    reader = table.catalog.table("a.b")
    assert reader.refresh(if_older_than=0) is False
    table.append({"k": [2]})
    assert reader.refresh(if_older_than=60) is False
    assert reader.num_rows == 1
    time.sleep(0.02)
    assert reader.refresh(if_older_than=0.01) is True
    assert (reader.refresh(if_older_than=0), reader.num_rows) == (False, 2)
    table.tag("t")  # moves no rows
    assert reader.refresh(if_older_than=0) is False
    assert reader.tags == {"t": table.snapshot}
    assert reader.refresh() is reader
    for value in (-1, "1", True, float("nan"), float("inf")):
        with pytest.raises(nb.InvalidArgumentError, match="if_older_than: expected seconds"):
            reader.refresh(if_older_than=value)  # type: ignore[arg-type]
    with pytest.raises(nb.InvalidArgumentError, match="cannot move it"):
        table.at(tag="t").refresh(if_older_than=0)


def test_one_of_many_threads_reads_the_metadata(
    table: nb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = table.catalog.table("a.b")
    table.append({"k": [2]})
    calls, plain = [], ice.load_table

    def load(*arguments: Any) -> Any:
        calls.append(1)
        time.sleep(0.05)
        return plain(*arguments)

    monkeypatch.setattr(ice, "load_table", load)
    reader._looks._last -= 60
    answers: list[bool] = []

    def refresh() -> None:
        answers.append(reader.refresh(if_older_than=30))

    threads = [threading.Thread(target=refresh) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(calls), sorted(answers)) == (1, [False] * 7 + [True])


def test_one_of_many_threads_opens_a_file(table: nb.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a move, all threads that share the handle need the same file at once."""
    reader = table.catalog.table("a.b")
    reader.get(1)
    table.append({"k": [0, 2]})
    table.append({"k": [3]})
    reader.refresh()
    made, plain = [], FileSource.compiled

    def compiled(self: FileSource, kind: Any) -> Any:
        if isinstance(kind, RowsOfFile):
            made.append(kind)
            time.sleep(0.05)
        return plain(self, kind)

    monkeypatch.setattr(FileSource, "compiled", compiled)
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(reader.get(3))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), answers) == (1, [{"k": 3}] * 8)


def test_a_failed_refresh_is_tried_again(table: nb.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = table.catalog.table("a.b")
    table.append({"k": [2]})
    time.sleep(0.02)
    with monkeypatch.context() as patch:
        patch.setattr(ice, "load_table", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            reader.refresh(if_older_than=0.01)
    assert reader.refresh(if_older_than=0.01) is True


def test_watch_follows_and_survives_errors(
    table: nb.Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = table.catalog.table("a.b")
    seen: list[int] = []

    def callback(handle: nb.Table) -> None:
        assert handle is reader
        seen.append(handle.num_rows)
        raise ValueError("of the callback")

    with caplog.at_level(logging.WARNING), reader.watch(callback, poll=0.005) as watch:
        assert isinstance(watch, nb.Watch)
        table.append({"k": [2]})
        until(lambda: seen == [2])
        with monkeypatch.context() as patch:
            patch.setattr(ice, "load_table", lambda *_: 1 / 0)
            until(lambda: "refresh failed: ZeroDivisionError" in caplog.text)
        table.append({"k": [3]})
        until(lambda: seen == [2, 3])
        assert watch.is_running
    assert not watch.is_running
    assert caplog.text.count("the callback failed") == 2
    assert "of the callback" in caplog.text
    assert caplog.text.count("refresh failed") == 1
    table.append({"k": [4]})
    time.sleep(0.02)
    assert (seen, reader.num_rows) == ([2, 3], 3)
    watch.close()


def test_a_callback_may_close_its_watch_and_the_handle_ends_it(table: nb.Table) -> None:
    watches: list[nb.Watch] = []
    watches.append(table.watch(lambda _: watches[0].close(), poll=0.005))
    table.append({"k": [2]})
    until(lambda: not watches[0].is_running)
    reader = table.catalog.table("a.b")
    other = reader.watch(print, poll=0.005)
    reader.close()
    until(lambda: not other.is_running)
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        reader.watch(print)
    with pytest.raises(nb.InvalidArgumentError, match="cannot move it"):
        table.at(snapshot=table.snapshot).watch(print)
    for poll in (0, -1, "1", True):
        with pytest.raises(nb.InvalidArgumentError, match="poll: expected seconds"):
            table.watch(print, poll)  # type: ignore[arg-type]


def test_a_child_of_fork_follows_too(table: nb.Table) -> None:
    reader = table.catalog.table("a.b")
    with reader.watch(lambda _: None, poll=0.005):
        child = os.fork()
        if child == 0:
            end = time.monotonic() + 20
            while reader.num_rows < 2 and time.monotonic() < end:
                time.sleep(0.005)
            os._exit(reader.num_rows)
        table.append({"k": [2]})
        until(lambda: reader.num_rows == 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_ends_its_thread(table: nb.Table) -> None:
    """The watch stayed in the set of running watches, and kept its handle alive."""
    watch = table.catalog.table("a.b").watch(lambda _: sys.exit(), poll=0.005)
    assert watch in _running
    table.append({"k": [2]})
    until(lambda: not watch.is_running)
    assert watch not in _running
    assert "closed" in repr(watch)
    watch.close()
