"""What operators see of tables: the log, full disks, catalogs that may not be written, sizes."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.table.iceberg import catalog_rows, local_io
from nimblepy.table.upkeep import maintain


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(keys, pa.int64())})


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    return lake.create_table("a.b", rows(0, 1, 2), primary_key="k")


def _altered(table: nb.Table) -> None:
    with table.alter() as alter:
        alter.add_column("w", pa.int64())


def _in_transaction(table: nb.Table) -> None:
    with table.transaction() as tx:
        tx.upsert(rows(7))


CHANGES: dict[str, tuple[Callable[[nb.Table], Any], str]] = {
    "append": (lambda t: t.append(rows(5)), r"append: .* 1 inserted.* files: 1 added.* retries"),
    "upsert": (lambda t: t.upsert(rows(1)), r"upsert: .* 1 updated"),
    "delete": (lambda t: t.delete("k = 1"), r"delete: .* 1 deleted"),
    "overwrite": (lambda t: t.overwrite(rows(1)), r"overwrite: .* 1 inserted"),
    "merge": (
        lambda t: t.merge(rows(1)).when_matched(update=True).execute(),
        r"merge: .* 1 updated",
    ),
    "compact": (lambda t: t.compact(where_needed=False), r"compact: .*files: 1 added, 2 removed"),
    "nothing": (lambda t: t.delete("k = 99"), r"delete: nothing to change"),
    "transaction": (_in_transaction, r"transaction: .* 1 inserted"),
    "alter": (_altered, r"alter \(add_column\): snapshot \d+"),
    "tag": (lambda t: t.tag("x"), r"tag 'x': snapshot \d+"),
    "branch": (lambda t: t.branch("y"), r"branch 'y': snapshot \d+"),
    "drop_reference": (
        lambda t: t.tag("x").drop_reference("x"),
        r"drop_reference 'x': snapshot \d+",
    ),
    "rollback": (
        lambda t: t.rollback(t.snapshots()["snapshot_id"][0].as_py()),
        r"rollback from \d+: snapshot \d+",
    ),
    "expire": (lambda t: t.expire(keep=1), r"expire: 1 snapshots, \d+ files, \d+ bytes removed"),
    "remove_orphans": (lambda t: t.remove_orphans(), r"remove_orphans: 0 files"),
    "rewrite_manifests": (lambda t: t.rewrite_manifests(), r"rewrite_manifests: "),
    "analyze": (lambda t: t.analyze(), r"analyze: "),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_change_is_logged(
    table: nb.Table, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    # expire() logged no table; alter, tag and rollback logged nothing; compact, delete and
    # overwrite did not say which of them it was.
    table.append(rows(3))
    change, expected = CHANGES[what]
    with caplog.at_level(logging.INFO, logger="nimblepy"):
        caplog.clear()
        change(table)
    said = [r.getMessage() for r in caplog.records if r.getMessage().startswith("a.b: ")]
    assert any(re.search(expected, text) for text in said), said


class FullDisk:
    """A disk without room for new metadata files, until some file is removed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        self.removed: list[str] = []
        plain, remove = local_io._Synced.write, maintain.remove_file

        def write(sink: Any, data: Any) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return plain(sink, data)

        def removing(path: str) -> None:
            remove(path)
            self.removed.append(path)
            self.full = False

        monkeypatch.setattr(local_io._Synced, "write", write)
        monkeypatch.setattr(maintain, "remove_file", removing)


def test_expire_frees_space_on_a_full_disk(
    table: nb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It failed before it removed anything, as it wrote a list of the files first.
    for i in range(4):
        table.upsert(rows(i))
    disk = FullDisk(monkeypatch)
    done = table.expire(keep=1)
    assert not disk.full
    assert len(done.snapshots) == 4
    assert done.files
    assert not any(map(os.path.exists, done.files))
    assert disk.removed[0].endswith(".metadata.json")
    assert table.metadata_location.removeprefix("file://") not in disk.removed
    assert table.refresh().count_rows() == 4
    assert all(table.census()["reachable"].to_pylist())


def test_a_full_disk_is_said_with_the_file(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "[Errno 28] No space left on device", of which file it was not said.
    table = lake.create_table("a.c", rows(0))
    disk = FullDisk(monkeypatch)
    for change in (lambda: table.tag("x"), lambda: table.append(rows(1))):
        with pytest.raises(OSError, match="No space left") as raised:
            change()
        assert raised.value.errno == errno.ENOSPC
        assert "/a/c-" in str(raised.value.filename)
    assert disk.full
    assert table.refresh().count_rows() == 1


def _fill(path: Path) -> None:
    """Writes a file until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as rest:
        while True:
            rest.write(bytes(512))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounts a small disk")
def test_expire_frees_space_of_a_disk_that_is_full(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if os.system(f"mount -t tmpfs -o size=3m tmpfs '{small}' 2>/dev/null"):
        pytest.skip("mounting is not permitted")
    try:
        table = nb.connect(small / "lake").create_table("a.b", rows(0), primary_key="k")
        for _ in range(5):
            table.upsert(rows(0))
        _fill(small / "rest")
        with pytest.raises(OSError, match=r"No space left|full"):
            table.upsert(rows(0))
        assert len(table.expire(keep=1).snapshots) == 5
        assert table.upsert(rows(0)).rows_updated == 1
        table.close()
    finally:
        os.system(f"umount '{small}'")


def test_a_catalog_that_may_not_be_written_is_a_permission_error(
    lake: nb.Catalog, table: nb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It was an OSError without errno; all else that may not be written is a PermissionError.
    plain = sqlite3.connect

    def connect(path: str, **how: Any) -> sqlite3.Connection:
        return plain(path.replace("?mode=rw", "?mode=ro"), **how)

    monkeypatch.setattr(catalog_rows.sqlite3, "connect", connect)
    assert table.refresh().count_rows() == 3
    for change in (lambda: table.append(rows(5)), lambda: table.tag("x")):
        with pytest.raises(PermissionError, match="readonly") as raised:
            change()
        assert raised.value.filename.endswith("catalog.db")


def test_samples_of_nothing_and_of_all(table: nb.Table, tmp_path: Path) -> None:
    # A table took the fraction 0, a file and a dataset refused it.
    (tmp_path / "d").mkdir()
    nb.write(rows(0, 1, 2), tmp_path / "d" / "a.nimble", cluster_by="k")
    for source in (nb.open(tmp_path / "d" / "a.nimble"), nb.open_dataset(tmp_path / "d"), table):
        for fraction, count in ((0, 0), (0.0, 0), (1, 3), (1.0, 3)):
            assert source.sample(fraction).num_rows == count
            assert source.sample(fraction, filter="k >= 0").num_rows == count
            assert source.sample(fraction).schema.names == ["k", "v"]
        for wrong in (-0.1, 1.1, True, "1", float("nan"), None):
            with pytest.raises(nb.InvalidArgumentError, match="a number from 0 to 1"):
                source.sample(wrong)  # type: ignore[arg-type]
