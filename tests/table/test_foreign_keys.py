"""Keys that another engine has given to several rows: Iceberg does not look whether they are."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.handle import TableState
from nimblepy.table.writing.properties import set_properties

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.int64())])


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table(list(zip(*pairs, strict=True)), schema=SCHEMA)


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    """(1, 1) and (1, 2) lie in two files, with others."""
    made = lake.create_table("a.b", SCHEMA, primary_key="id", data_format="parquet")
    for value in (1, 2):
        lake.iceberg.load_table("a.b").append(rows((1, value), (5 + value, 9)))
    return made.refresh()


def found(table: nb.Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in table.to_table().to_pylist())


def test_a_transaction_deletes_the_rows_that_it_found(table: nb.Table) -> None:
    with table.transaction() as tx:
        tx.delete("v = 1")
        assert tx.count_rows() == 3
    assert found(table) == [(1, 2), (6, 9), (7, 9)]
    assert tx.commit is not None
    assert (tx.commit.rows_deleted, tx.commit.rows_updated) == (1, 0)
    with table.transaction() as tx:
        tx.delete("id = 6")
        tx.upsert(rows((6, 10), (7, 10), (8, 10)))
    assert found(table) == [(1, 2), (6, 10), (7, 10), (8, 10)]
    assert (tx.commit.rows_inserted, tx.commit.rows_updated, tx.commit.rows_deleted) == (1, 2, 0)


def test_a_compaction_beside_a_delete_leaves_other_rows_of_the_key(
    table: nb.Table, lake: nb.Catalog
) -> None:
    other, done = lake.table("a.b"), []

    def progress(_: int, __: int | None) -> None:
        if not done:
            done.append(other.delete("v = 1").rows_deleted)

    table.compact(where_needed=False, progress=progress)
    assert done == [1]
    assert found(table.refresh()) == [(1, 2), (6, 9), (7, 9)]


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_such_files_are_compacted(table: nb.Table, data_format: Any) -> None:
    set_properties(TableState(table), {"nimblepy.data-format": data_format})
    assert table.compact(where_needed=False).files_added == 1
    assert found(table) == [(1, 1), (1, 2), (6, 9), (7, 9)]
    assert table.lookup([1]).num_rows == 2
    table.upsert(rows((1, 3)))
    assert found(table) == [(1, 3), (6, 9), (7, 9)]


def test_a_delete_file_that_cannot_be_written_leaves_no_half_file(
    table: nb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(table.location.removeprefix("file://"))
    before, sync = sorted(folder.rglob("*")), os.fsync

    def full(descriptor: int) -> None:
        if "deletes-" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        table.delete("v = 1")
    assert sorted(folder.rglob("*")) == before


def test_a_conversion_is_one_commit(table: nb.Table, lake: nb.Catalog) -> None:
    with pytest.raises(nb.NimbleError):  # nimble files of the table are unique by key
        table.convert("nimble")
    assert table.refresh().iceberg.metadata.properties["nimblepy.data-format"] == "parquet"
    table.upsert(rows((1, 3)))
    versions = len(table.iceberg.metadata.metadata_log)
    table.convert("nimble")
    assert len(table.iceberg.metadata.metadata_log) == versions + 1
    table.append(rows((9, 9)))
    assert {entry["format"] for entry in _files(lake.table("a.b"))} == {"NIMBLEPY"}
    empty = lake.create_table("a.c", SCHEMA)
    empty.convert("parquet")
    empty.append(rows((1, 1)))
    assert {entry["format"] for entry in _files(empty)} == {"PARQUET"}


def _files(table: nb.Table) -> list[dict[str, Any]]:
    return [{"format": member.file.format} for member in table._current.members]


def test_the_order_of_a_primary_key_is_not_for_others_to_set(lake: nb.Catalog) -> None:
    made = lake.create_table("a.b", pa.table({"a": [1], "b": [2]}), primary_key=["b", "a"])
    name = ice.PRIMARY_KEY_ORDER
    with pytest.raises(nb.InvalidArgumentError, match="nimblepy itself sets it"), made.alter() as a:
        a.set_properties({name: "0,1"})
    for value in ("9" * 5000, "x", "0", "1,1", ""):
        with lake.iceberg.load_table("a.b").transaction() as tx:
            tx.set_properties({name: value})
        assert set(lake.table("a.b").primary_key) == {"a", "b"}
