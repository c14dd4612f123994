"""A table and its first rows are one commit: other programs see no table, or the whole one."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from processes import pool_of

import nimblepy as nb

NOW = dt.timedelta(0)
ROWS = pa.table({"k": range(90), "g": [f"g{k % 3}" for k in range(90)]})
KINDS = ["sqlite", "files"]


def connect(root: Path, kind: str) -> nb.Catalog:
    return nb.connect(root, catalog=kind)


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> nb.Catalog:
    return connect(tmp_path / "lake", request.param)


def create(lake: nb.Catalog, data: Any = ROWS, **more: Any) -> nb.Table:
    return lake.create_table(
        "a.b",
        data,
        primary_key="k",
        partition_by=["g"],
        data_format="parquet",
        indexes=[nb.HashIndex("g")],
        **more,
    )


def files_of(root: Path) -> set[str]:
    """All files of tables, and records of creations."""
    return {str(path) for path in root.glob("lake/a/**/*") if path.is_file()} | {
        str(path) for path in root.glob("lake/a/.creating/*")
    }


def needed(table: nb.Table) -> set[str]:
    return {row["path"] for row in table.census().to_pylist() if row["reachable"]}


def check_whole(table: nb.Table) -> None:
    (snapshot,) = table.snapshots().to_pylist()
    assert (snapshot["operation"], snapshot["parent_id"]) == ("append", None)
    assert table.to_table(["k", "g"]).sort_by("k").to_pylist() == ROWS.to_pylist()
    assert [(index.kind, index.num_keys) for index in table.indexes] == [("hash", 90)]
    assert table.lookup(["g1"], on="g").num_rows == 30


@pytest.mark.parametrize("version", [2, 3])
def test_the_first_snapshot_has_the_rows(lake: nb.Catalog, version: int) -> None:
    table = create(lake, format_version=version)
    check_whole(table)
    check_whole(lake.table("a.b"))
    assert table.iceberg.metadata.metadata_log == []
    assert table.remove_orphans(older_than=NOW).files == ()
    table.upsert(pa.table({"k": [5], "g": ["new"]}))
    assert lake.table("a.b").get(5) == {"k": 5, "g": "new"}


def test_no_program_sees_the_table_while_its_rows_are_read(lake: nb.Catalog) -> None:
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in ROWS.to_batches(max_chunksize=30):
            seen.append(lake.tables())
            yield batch

    create(lake, pa.RecordBatchReader.from_batches(ROWS.schema, batches()))
    assert seen == [[], [], []]
    assert lake.tables() == ["a.b"]


def test_an_error_in_the_data_leaves_nothing(lake: nb.Catalog, tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise OSError("the source broke")

    with pytest.raises(OSError, match="the source broke"):
        create(lake, pa.RecordBatchReader.from_batches(ROWS.schema, broken()))
    with pytest.raises(nb.DuplicateKeyError):
        create(lake, pa.concat_tables([ROWS, ROWS]))
    assert lake.tables() == []
    assert list((tmp_path / "lake").glob("a/*")) == []
    check_whole(create(lake))


def test_another_writer_may_take_the_name_meanwhile(lake: nb.Catalog, tmp_path: Path) -> None:
    other = pa.table({"x": [1, 2]})

    def batches() -> Iterator[pa.RecordBatch]:
        lake.create_table("a.b", other)
        yield from ROWS.to_batches()

    rows = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    with pytest.raises(nb.InvalidArgumentError, match=r"table 'a\.b' already exists"):
        create(lake, rows)
    table = lake.table("a.b")
    assert table.to_table().equals(other)
    assert files_of(tmp_path) == needed(table)
    read: list[int] = []
    unread = pa.RecordBatchReader.from_batches(ROWS.schema, (read.append(1) for _ in range(1)))
    assert create(lake, unread, if_exists="ignore").to_table().equals(other)
    assert read == []


@pytest.mark.parametrize("is_made", [False, True])
@pytest.mark.parametrize("rows", [90, 0])
def test_the_catalog_fails(
    lake: nb.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, is_made: bool
) -> None:
    """Before or after it added the table."""
    kind = type(lake.iceberg._rows)
    add = kind.add

    def failing(*arguments: Any, **keywords: Any) -> None:
        if is_made:
            add(*arguments, **keywords)
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "add", failing)
        if is_made:
            table = create(lake, ROWS.slice(0, rows))
            assert table.num_rows == rows
            assert files_of(tmp_path) == needed(table)
            return
        with pytest.raises(OSError, match="no space left"):
            create(lake, ROWS.slice(0, rows))
    assert lake.tables() == []
    assert list((tmp_path / "lake").glob("a/*")) == []
    check_whole(create(lake))


def test_no_rows_make_an_empty_table(lake: nb.Catalog, tmp_path: Path) -> None:
    table = create(lake, ROWS.slice(0, 0))
    assert (table.snapshot, table.num_rows, len(table.indexes)) == (None, 0, 1)
    assert files_of(tmp_path) == needed(table)
    table.append(ROWS)
    assert table.num_rows == 90


def _create(root: Path, kind: str, number: int) -> str:
    rows = pa.table({"k": range(number * 100, number * 100 + 10), "g": ["x"] * 10})
    try:
        create(connect(root, kind), rows)
    except nb.InvalidArgumentError as error:
        return str(error)
    return str(number)


@pytest.mark.parametrize("kind", KINDS)
def test_processes_make_one_table_with_the_rows_of_one(tmp_path: Path, kind: str) -> None:
    with pool_of(3) as pool:
        results = pool.starmap(_create, [(tmp_path / "lake", kind, i) for i in range(3)])
    (won,) = [int(text) for text in results if text.isdigit()]
    assert sum("already exists" in text for text in results) == 2
    table = connect(tmp_path / "lake", kind).table("a.b")
    assert sorted(table.to_table(["k"])["k"].to_pylist()) == [won * 100 + i for i in range(10)]
    assert files_of(tmp_path) == needed(table)


# ---- kills ----

_STEPS = {"open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "sqlite3.connect"}


def _killed_at(step: int, root: Path, kind: str) -> bool:
    """Creates a table in a process that kills itself before one of its steps.

    Returns whether it was killed; false if it has fewer steps.
    """
    pid = os.fork()
    if pid == 0:
        left = step

        def hook(event: str, arguments: Any) -> None:
            nonlocal left
            reads = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
            if event in _STEPS and not reads and str(root) in str(arguments[0]):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            sys.addaudithook(hook)
            create(connect(root / "lake", kind))
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.mark.crash
@pytest.mark.no_sanitizer
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks")
@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_at_any_step_leaves_no_table_or_the_whole(
    tmp_path: Path, kind: str, stride: int
) -> None:
    create(connect(tmp_path / "first", kind))  # imports everything before the forks
    step = KINDS.index(kind) if stride > 1 else 0
    made = left_over = 0
    while _killed_at(step, root := tmp_path / f"{step}", kind):
        lake = connect(root / "lake", kind)
        if "a.b" in lake.tables():
            made += 1
            check_whole(lake.table("a.b"))
        else:
            left_over += bool(files_of(root))
            check_whole(create(lake))
        table = lake.table("a.b")
        assert table.remove_orphans(older_than=dt.timedelta(days=1)).files == ()
        unneeded = files_of(root) - needed(table)
        dry = table.remove_orphans(older_than=NOW, dry_run=True)
        assert {*dry.files} == unneeded
        assert {*table.remove_orphans(older_than=NOW).files} == unneeded
        # The version hint is written last, and the next commit writes it again.
        lost = needed(table) - files_of(root)
        assert {os.path.basename(path) for path in lost} <= {"version-hint.text"}
        assert files_of(root) <= needed(table)
        folders = [path.name for path in root.glob("lake/a/*") if path.name != ".creating"]
        assert folders == [os.path.basename(table.location)]
        check_whole(table)
        step += stride
    assert made >= 1
    assert left_over >= 15 // stride


def test_files_of_other_tables_are_no_orphans_of_a_creation(
    lake: nb.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process was killed just before it removed the record of its creation."""
    from nimblepy.table import create as module

    with monkeypatch.context() as patch:
        patch.setattr(module, "forget_creation", lambda location: None)
        table = create(lake)
    beside = lake.create_table("a.c", ROWS)
    moved = tmp_path / "other" / "lake"
    os.rename(tmp_path / "lake", moved.parent.mkdir() or moved)
    kind = "sqlite" if (moved / "catalog.db").exists() else "files"
    there = connect(moved, kind)
    there.table("a.c").remove_orphans(older_than=NOW)
    check_whole(there.table("a.b"))
    os.rename(moved, tmp_path / "lake")
    record = tmp_path / "lake" / "a" / ".creating" / os.path.basename(table.location)
    assert not record.exists()
    record.parent.mkdir(exist_ok=True)
    record.write_text("another catalog")
    assert beside.remove_orphans(older_than=NOW).files == ()
    path = table.metadata_location
    lake.drop_table("a.b")
    assert not record.exists()
    assert lake.table("a.c").remove_orphans(older_than=NOW).files == ()
    check_whole(lake.register("a.d", path))


def killed_creation(root: Path, owner: str) -> set[Path]:
    """Makes the files of a creation that was killed before its commit."""
    files = {root / "a" / "x-0123456789ab" / "data.parquet", root / "a/.creating/x-0123456789ab"}
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(owner)
    return files


@pytest.fixture
def owner(lake: nb.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The text in the records of a lake with the table a.b."""
    from nimblepy.table import create as module

    with monkeypatch.context() as patch:
        patch.setattr(module, "forget_creation", lambda location: None)
        create(lake)
    (record,) = tmp_path.glob("lake/a/.creating/*")
    text = record.read_text()
    record.unlink()
    return text


def test_a_killed_creation_is_kept_while_a_table_cannot_be_read(
    lake: nb.Catalog, tmp_path: Path, owner: str
) -> None:
    """The unreadable table may be the one that the creation made."""
    path = Path(lake.create_table("c.d", ROWS).metadata_location.removeprefix("file://"))
    files = killed_creation(tmp_path / "lake", owner)
    hidden = path.rename(f"{path}.hidden")
    kind = "sqlite" if (tmp_path / "lake" / "catalog.db").exists() else "files"
    # A new handle has no metadata in memory.
    assert connect(tmp_path / "lake", kind).table("a.b").remove_orphans(older_than=NOW).files == ()
    assert all(map(Path.exists, files))
    hidden.rename(path)
    removed = connect(tmp_path / "lake", kind).table("a.b").remove_orphans(older_than=NOW).files
    assert {*removed} == {*map(str, files)}


def test_killed_creations_are_removed_from_a_moved_lake(
    lake: nb.Catalog, tmp_path: Path, owner: str
) -> None:
    killed_creation(tmp_path / "lake", owner)
    moved = (tmp_path / "lake").rename(tmp_path / "moved")
    kind = "sqlite" if (moved / "catalog.db").exists() else "files"
    removed = connect(moved, kind).table("a.b").remove_orphans(older_than=NOW).files
    assert {*removed} == {str(path) for path in killed_creation(moved, owner)}
