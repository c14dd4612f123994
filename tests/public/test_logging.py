"""What is logged, at which level, and that no value of a row is."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.io.retries import Retries

pytestmark = pytest.mark.sanitizer


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == level]


def test_writes_filters_and_indexes_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.nimble"
    with caplog.at_level(logging.DEBUG, "nimblepy"):
        nb.write(pa.table({"k": range(100), "secret": ["s3cret"] * 100}), path, cluster_by="k")
        nb.add_index(path, nb.HashIndex("secret"))
        with nb.open(path) as file:
            file.count_rows("k < 5 AND secret = 's3cret'")
            file.to_table(filter="secret LIKE '%cr%'")
    written = messages(caplog, logging.INFO)
    assert "100 rows" in written[0]
    assert "hash (secret)" in written[1]
    asked = messages(caplog, logging.DEBUG)
    assert any("leaves 5 of 100 rows (cluster index" in text for text in asked)
    assert any("all are read" in text for text in asked)
    assert not any("s3cret" in text for text in written + asked)
    assert all(record.name.startswith("nimblepy.") for record in caplog.records)


def test_requests_that_are_made_again_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    left = [OSError("reset"), OSError("timeout")]

    def request() -> int:
        if left:
            raise left.pop()
        return 7

    assert Retries().run(request, sleep=lambda _: None) == 7
    assert messages(caplog, logging.WARNING) == [
        "attempt 1 of 5 failed: timeout",
        "attempt 2 of 5 failed: reset",
    ]


def test_commits_of_tables_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("pyiceberg")
    rows = pa.table({"k": [1, 2]})
    with caplog.at_level(logging.INFO, "nimblepy"):
        table = nb.connect(tmp_path / "lake").create_table("a.b", rows.schema)
        table.append(rows)
    assert any("a.b: append: snapshot" in t and "rows: 2 inserted" in t for t in caplog.messages)


@pytest.mark.no_sanitizer
def test_each_commit_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("pyiceberg")
    lake = nb.connect(tmp_path / "lake")
    rows = pa.table({"k": [1, 2]})
    table = lake.create_table("a.b", rows.schema, primary_key="k")
    changes: dict[str, Callable[[], object]] = {
        "append": lambda: table.append(rows),
        "upsert": lambda: table.upsert(rows),
        "delete": lambda: table.delete("k = 1"),
        "tag 'x'": lambda: table.tag("x"),
        "rollback from": lambda: table.rollback(table.snapshots()["snapshot_id"][0].as_py()),
        "drop_reference 'x'": lambda: table.drop_reference("x"),
        "compact": lambda: table.compact(where_needed=False),
        "rewrite_manifests": lambda: table.rewrite_manifests(whole=True),
        "analyze": table.analyze,
        "expire": lambda: table.expire(keep=1),
        "alter (set_properties)": lambda: _set_property(table),
    }
    for operation, change in changes.items():
        caplog.clear()
        with caplog.at_level(logging.INFO, "nimblepy.table"):
            change()
        (line,) = [text for text in caplog.messages if "retries" in text]
        assert re.fullmatch(
            rf"a\.b: {re.escape(operation)}.*: snapshot \d+; rows: \d+ inserted, \d+ updated, "
            r"\d+ deleted; files: \d+ added, \d+ removed; 0 retries, \d+\.\d{3} s",
            line,
        ), line
        assert all(text.startswith("a.b: ") for text in caplog.messages)
    caplog.clear()
    with caplog.at_level(logging.INFO, "nimblepy.table"):
        table.expire(keep=1)  # nothing to do
        lake.drop_table("a.b")
    assert caplog.messages == ["a.b: drop_table"]


def _set_property(table: nb.Table) -> None:
    with table.alter() as change:
        change.set_properties({"owner": "me"})


def test_nothing_is_printed_unasked() -> None:
    code = (
        "from nimblepy.io.retries import Retries\n"
        "left = [OSError('reset')]\n"
        "Retries().run(lambda: left and (_ for _ in ()).throw(left.pop()), sleep=print)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
