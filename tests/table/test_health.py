"""What is wrong with a table is said, and done; old snapshots go with exactly their files."""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from processes import CHILDREN
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.table import iceberg as ice
from nimblepy.table.reading import plan
from nimblepy.table.reading.reachable import reachable_files
from nimblepy.table.table import Table
from nimblepy.table.upkeep import maintain, rewrite
from nimblepy.table.writing import commit
from nimblepy.table.writing.settings import target_of

_ORDER = [("k", "ascending"), ("g", "ascending")]


def _table(lake: nb.Catalog, commits: int, **keywords: Any) -> Table:
    schema = pa.schema([("g", pa.int64()), ("k", pa.int64())])
    table = lake.create_table("a.b", schema, cluster_by=["k"], partition_by=["g"], **keywords)
    for i in range(commits):
        table.append(_rows(i))
    return table


def _reachable(table: Table) -> set[str]:
    found = [item for some in reachable_files(table._metadata) for item in some.to_pylist()]
    return {path.removeprefix("file://") for path in found}


def _rows(i: int) -> pa.Table:
    return pa.table({"g": [i % 2] * 3, "k": [i, i + 5, 100 + i]})


def test_figures(lake: nb.Catalog) -> None:
    table = _table(lake, 12)
    table.delete("k = 5")
    found = table.health()
    assert (found.files, found.rows, found.small_files) == (12, 36, 12)
    assert (found.partitions, found.manifests, found.snapshots) == (2, 12, 13)
    assert found.delete_files == 2
    assert found.deleted_share == pytest.approx(2 / 36)
    assert found.overlap_depth == 6
    spread = found.manifests_per_partition
    assert (spread.min, spread.median, spread.p90, spread.max) == (6, 6, 6, 6)
    assert found.entries_per_manifest.max == 1
    assert found.uncovered_manifests == 12
    assert found.bytes == table._current.size_bytes
    assert found.metadata_bytes > found.next_commit_bytes > 0
    assert [(item.what, item.files) for item in found.plans] == [
        ("all rows", 12),
        ("one partition", 6),
        ("one key", 7),
    ]
    assert [item.action for item in found.advice] == ["compact", "rewrite_manifests"]
    assert "12 of 12 files are small" in repr(found)
    with pytest.raises(AttributeError):
        found.files = 3  # type: ignore[misc]


def test_optimize_does_what_is_advised(lake: nb.Catalog) -> None:
    table = _table(lake, 12)
    before = table.to_table().sort_by(_ORDER)
    done = table.optimize()
    assert list(done) == ["compact", "rewrite_manifests"]
    found = table.health()
    assert found.advice == ()
    assert (found.files, found.overlap_depth, found.uncovered_manifests) == (2, 1, 1)
    assert "nothing to be done" in repr(found)
    assert table.to_table().sort_by(_ORDER).equals(before)
    assert table.optimize() == {}


def test_of_an_empty_table(lake: nb.Catalog) -> None:
    table = _table(lake, 0)
    found = table.health()
    assert (found.files, found.manifests, found.overlap_depth, found.plans) == (0, 0, 0, ())
    assert table.optimize() == {}
    assert found.to_svg().startswith("<svg")


def test_the_command(lake: nb.Catalog, tmp_path: Path) -> None:
    _table(lake, 3)
    name = f"{tmp_path}/lake#a.b"
    run = CliRunner().invoke(app, ["table", "health", name, "--json"])
    assert run.exit_code == 1, run.output
    assert json.loads(run.output)["files"] == 3
    picture = tmp_path / "health.html"
    run = CliRunner().invoke(app, ["table", "health", name, "--plot", str(picture)])
    assert run.exit_code == 1, run.output
    assert "manifests/partition" in run.output
    assert "<svg" in picture.read_text()
    run = CliRunner().invoke(app, ["table", "expire", name, "--keep", "1", "--dry-run"])
    assert run.exit_code == 0, run.output
    assert "2 snapshots" in run.output
    assert nb.connect(tmp_path / "lake").table("a.b").snapshots().num_rows == 3


def _below(table: Table) -> set[str]:
    root = table.location.removeprefix("file://")
    return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names}


@pytest.mark.parametrize("indexed", [False, True])
def test_expiry_removes_exactly_what_nothing_names(lake: nb.Catalog, indexed: bool) -> None:
    table = _table(lake, 6)
    if indexed:
        table.rewrite_manifests()
    table.tag("kept", table.snapshots()["snapshot_id"][2].as_py())
    table.delete("g = 1")
    table.overwrite(_rows(0), filter="g = 0 AND k < 104")
    if indexed:
        table.rewrite_manifests()
        table.append(_rows(8))
    plan.clear_caches()
    rows = table.to_table().sort_by(_ORDER)
    planned = table.expire(keep=1, dry_run=True)
    assert len(planned.snapshots) == table.snapshots().num_rows - 2
    before = _below(table)
    done = table.expire(keep=1)
    assert set(done.snapshots) == set(planned.snapshots)
    assert set(planned.files) <= set(done.files)
    gone = before - _below(table)
    assert {path for path in done.files if path in before} == gone
    reachable = _reachable(table)
    assert _below(table) == reachable
    census = table.census()
    assert all(census["reachable"].to_pylist())
    plan.clear_caches()
    again = lake.table("a.b")
    assert again.to_table().sort_by(_ORDER).equals(rows)
    assert again.at(tag="kept").num_rows == 9


def test_files_that_cannot_be_removed_are_found_again(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(lake, 4)
    failing: dict[str, int] = {}
    remove = maintain.remove_file

    def flaky(path: str) -> None:
        failing[path] = failing.get(path, 0) + 1
        if failing[path] < 3 or path.endswith("-m0.avro"):
            raise OSError("the store is busy")
        remove(path)

    table.overwrite(_rows(0))
    monkeypatch.setattr(maintain, "remove_file", flaky)
    monkeypatch.setattr(maintain, "_WAIT", 0.001)
    with pytest.raises(OSError, match="4 files could not be removed"):
        table.expire(keep=1)
    assert set(failing.values()) == {3}
    monkeypatch.undo()
    table.refresh()
    assert table.snapshots().num_rows == 1
    again = table.expire(keep=1)
    assert (again.snapshots, len(again.files)) == ((), 4)
    assert _below(table) == _reachable(table)
    assert table.num_rows == 3


def test_commits_keep_a_hundred_snapshots(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain, "KEPT_SNAPSHOTS", 4)
    monkeypatch.setattr(maintain, "_AT_ONCE", 3)
    monkeypatch.setattr(maintain, "YOUNG", datetime.timedelta(0))
    table = _table(lake, 14)
    assert 4 <= table.snapshots().num_rows < 7
    assert table.num_rows == 42
    reachable = _reachable(table)
    assert _below(table) == reachable
    with table.alter() as a:
        a.set_properties({"history.expire.min-snapshots-to-keep": "9"})
    for i in range(14, 24):
        table.append(_rows(i))
    assert 9 <= table.snapshots().num_rows < 12
    with table.alter() as a:
        a.set_properties({"history.expire.max-snapshot-age-ms": "3600000"})
    for i in range(24, 30):
        table.append(_rows(i))
    assert table.snapshots().num_rows > 12


def test_expiry_of_commits_can_be_turned_off(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain, "KEPT_SNAPSHOTS", 2)
    monkeypatch.setattr(maintain, "_AT_ONCE", 1)
    monkeypatch.setattr(maintain, "YOUNG", datetime.timedelta(0))
    off, on = {"nimblepy.expire-on-commit": "false"}, {"nimblepy.expire-on-commit": "true"}
    table = lake.create_table("a.b", _rows(0), properties=off)
    for i in range(1, 8):
        table.append(_rows(i))
    assert table.snapshots().num_rows == 8
    with table.alter() as a:
        a.set_properties(on)
    table.append(_rows(8))
    assert table.snapshots().num_rows == 2
    with table.alter() as a, pytest.raises(nb.InvalidArgumentError, match="'true' or 'false'"):
        a.set_properties({"nimblepy.expire-on-commit": "no"})


def test_commits_keep_young_snapshots_up_to_a_number(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert datetime.timedelta(hours=1) == maintain.YOUNG
    monkeypatch.setattr(maintain, "KEPT_SNAPSHOTS", 3)
    monkeypatch.setattr(maintain, "_AT_ONCE", 2)
    monkeypatch.setattr(maintain, "_MOST_SNAPSHOTS", 9)
    table = _table(lake, 10)
    assert table.snapshots().num_rows == 10
    assert "expire" not in {item.action for item in table.health().advice}
    table.append(_rows(10))
    assert table.snapshots().num_rows == 9
    monkeypatch.setattr(maintain, "YOUNG", datetime.timedelta(0))
    assert "expire" in {item.action for item in table.health().advice}
    table.append(_rows(11))
    assert table.snapshots().num_rows == 3


def test_links_that_lead_nowhere_are_listed(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"n": [1]}))
    folder = Path(table._current.members[0].file.path.removeprefix("file://")).parent
    links = {str(folder / "loop"): "loop", str(folder / "dangling"): "/nonexistent"}
    for path, target in links.items():
        os.symlink(target, path)
    known = {row["path"]: row for row in table.census().to_pylist()}
    for path, target in links.items():
        assert (known[path]["reachable"], known[path]["bytes"]) == (False, len(target))
    orphan = folder / "orphan"
    orphan.write_bytes(b"")
    assert table.remove_orphans(older_than=datetime.timedelta(0)).files == (str(orphan),)
    assert all(map(os.path.islink, links))  # as all links are left
    assert table.to_table().num_rows == 1


def test_expiry_beside_writers(lake: nb.Catalog) -> None:
    table = _table(lake, 6)
    failures: list[BaseException] = []

    def write() -> None:
        try:
            mine = lake.table("a.b")
            for i in range(5):
                mine.append(_rows(20 + i))
                mine.delete(f"k = {20 + i}")
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    cleaner = lake.table("a.b")
    while writer.is_alive():
        time.sleep(0.05)
        cleaner.expire(keep=2)
    writer.join()
    assert not failures
    plan.clear_caches()
    again = lake.table("a.b")
    assert again.to_table().num_rows == 6 * 3 + 5 * 3 - 5
    again.expire(keep=1)
    reachable = _reachable(lake.table("a.b"))
    assert _below(table) == reachable


def _expire_and_die(directory: str, moment: str, removals: int) -> None:
    """Expires, and is killed: before or after the snapshots go, or while files are removed."""
    die = partial(os.kill, os.getpid(), signal.SIGKILL)
    plain, swap = maintain.remove_file, ice.remove_snapshots
    left = [removals]

    def remove(path: str) -> None:
        if not left[0]:
            die()
        left[0] -= 1
        plain(path)

    def swapped(*arguments: Any) -> Any:
        if moment == "before":
            die()
        done = swap(*arguments)
        if moment == "after":
            die()
        return done

    maintain.remove_file, ice.remove_snapshots = remove, swapped  # type: ignore[assignment]
    maintain._REMOVED_AT_ONCE = 1  # type: ignore[misc]
    nb.connect(directory).table("a.b").expire(keep=1)


@pytest.mark.parametrize(
    ("moment", "removals"), [("before", 0), ("after", 0), *(("while", n) for n in (0, 1, 15))]
)
def test_an_expiry_that_was_killed_is_resumed(
    lake: nb.Catalog, tmp_path: Path, moment: str, removals: int
) -> None:
    table = _table(lake, 8)
    table.analyze()
    table.tag("kept", table.snapshots()["snapshot_id"][2].as_py())
    table.overwrite(_rows(0))
    expected = table.expire(keep=1, dry_run=True)
    process = CHILDREN.Process(
        target=_expire_and_die, args=(str(tmp_path / "lake"), moment, removals)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    table.refresh()
    stopped = table.snapshots().num_rows
    assert stopped == (10 - 1 if moment == "before" else 2)
    left = [path for path in expected.files if os.path.exists(path)]
    assert len(left) >= len(expected.files) - removals
    (noted,) = [r for r in table.census().to_pylist() if r["kind"] == "expiry"]
    table.append(_rows(30))  # others need not wait
    if moment == "before":
        table.expire(keep=9)  # it may still be about to go on; later it is known not to be
        assert os.path.exists(noted["path"])
        os.utime(noted["path"], (0, 0))
    table.expire(keep=2)
    assert not os.path.exists(noted["path"])
    assert _below(table) == _reachable(table)
    assert (table.num_rows, table.at(tag="kept").num_rows) == (6, 9)


def test_what_became_part_of_the_table_again_is_not_removed(lake: nb.Catalog) -> None:
    table = _table(lake, 2)
    paths = [
        path.removeprefix("file://") for path in table._current.members.files.paths.to_pylist()
    ]
    table.overwrite(_rows(0))
    newest = table._metadata
    listed = maintain._write_list(newest, [1], [*paths, *newest.metadata_files()])
    listed = listed.removeprefix("file://")
    os.utime(listed, (time.time() - 60,) * 2)
    os.utime(paths[0], (time.time() - 120,) * 2)
    table.expire(keep=1, dry_run=True)
    assert os.path.exists(listed)
    done = table.expire(keep=10)
    assert done.files == ()  # all is named, or younger than the list
    assert not os.path.exists(listed)
    for text in ("", "{}", '{"snapshots": 3, "files": []}', '{"snapshots": [], "files": [3]}'):
        Path(listed).write_text(text)
        assert table.expire(keep=10).files == ()
    assert table.num_rows == 3


def test_a_list_names_files_of_its_table_only(lake: nb.Catalog, tmp_path: Path) -> None:
    """It lies where anybody may have put it."""
    table = _table(lake, 2)
    other = lake.create_table("a.c", _rows(0))
    mine = tmp_path / "mine.txt"
    below = Path(ice.local_path(table.location) or "") / "data" / "below.nimble"
    outside = [str(mine), *other._current.members.files.paths.to_pylist()]
    metadata = table._metadata
    for files in ([*outside, f"{table.location}/../{mine.name}"], [str(below), "s3://x/y"], 3):
        mine.write_text("mine")
        below.write_text("")
        os.utime(below, (0, 0))
        listed = Path(ice.local_path(maintain._write_list(metadata, [1], ["x"])) or "")
        said = json.loads(listed.read_text()) | {"files": files}
        for wrong in ({}, {"table": "x"}, {"snapshots": []}, {"snapshots": ["1"]}):
            listed.write_text(json.dumps(said | wrong))
            table.expire(keep=10)
            assert mine.exists()
            assert lake.table("a.c").num_rows == 3
        assert below.exists() == (files != [str(below), "s3://x/y"])


def test_a_file_that_cannot_be_removed(lake: nb.Catalog) -> None:
    """The others are, snapshots are forgotten, and after a week it is an orphan like others."""
    table = _table(lake, 1)
    (path,) = (ice.local_path(p) or "" for p in table._current.members.files.paths.to_pylist())
    table.overwrite(_rows(0))
    os.remove(path)
    os.mkdir(path)
    for _ in range(2):
        with pytest.raises(OSError, match="could not be removed; the next call tries again"):
            table.expire(keep=1)
        assert table.refresh().snapshots().num_rows == 1
        table.overwrite(_rows(0))
    (noted,) = [r for r in table.census().to_pylist() if r["kind"] == "expiry"]
    os.utime(noted["path"], (0, 0))
    table.expire(keep=1)
    assert not os.path.exists(noted["path"])


@pytest.mark.parametrize("error", [CommitStateUnknownException("?"), OSError("reset")])
def test_an_expiry_in_doubt(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    table = _table(lake, 3)
    table.overwrite(_rows(0))
    plain = type(lake.iceberg).commit_table

    def doubtful(*arguments: Any) -> Any:
        plain(*arguments)
        raise error

    monkeypatch.setattr(type(lake.iceberg), "commit_table", doubtful)
    done = table.expire(keep=1)
    assert len(done.snapshots) == 3
    assert _below(table) == _reachable(table)


def test_an_expiry_that_stays_in_doubt_ends(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on for ever, with a list on the disk for each attempt."""
    table = _table(lake, 3)
    asked = []

    def doubtful(*_: Any) -> Any:
        asked.append(1)
        raise CommitStateUnknownException("500 Internal Server Error")

    monkeypatch.setattr(type(lake.iceberg), "commit_table", doubtful)
    monkeypatch.setattr(commit.time, "sleep", lambda _: None)
    with pytest.raises(nb.ConflictError, match="attempts lost"):
        table.expire(keep=1)
    assert len(asked) == ice.MOST_ATTEMPTS
    assert len([row for row in table.census().to_pylist() if row["kind"] == "expiry"]) == 1
    monkeypatch.undo()
    assert len(table.expire(keep=1).snapshots) == 2


def test_an_expiry_leaves_metadata_of_others_alone(lake: nb.Catalog, tmp_path: Path) -> None:
    """It removed whatever its own commit dropped from the log."""
    few = {"write.metadata.previous-versions-max": "1"}
    table = lake.create_table("a.b", _rows(0), properties=few)
    table.append(_rows(1))
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    newest = Path(ice.local_path(table.metadata_location) or "")
    text = json.loads(newest.read_text())
    text["metadata-log"][0]["metadata-file"] = str(mine)
    given = newest.with_name("00009-a.metadata.json")
    given.write_text(json.dumps(text))
    nb.connect(tmp_path / "other").register("c.d", given).expire(keep=1)
    assert mine.read_text() == "mine"
    another = nb.connect(tmp_path / "another").register("c.d", table.metadata_location)
    another.append(_rows(2))
    another.expire(keep=2)
    assert nb.connect(tmp_path / "lake").table("a.b").metadata_location == table.metadata_location


def test_an_expiry_of_files_that_cannot_be_looked_at(lake: nb.Catalog, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    nb.write(_rows(1), outside / "x.nimble")
    table = lake.create_table("a.b", _rows(0))
    table.add_files(outside / "x.nimble")
    table.overwrite(_rows(2))
    (outside / "x.nimble").unlink()
    outside.rmdir()
    outside.write_text("a file where there was a directory")
    assert len(table.expire(keep=1).snapshots) == 2
    assert _below(table) == _reachable(table)


@pytest.mark.parametrize("kind", ["directory", "sqlite", "pyiceberg"])
def test_orphans_of_a_table_above_others(tmp_path: Path, kind: str) -> None:
    """The files of the others were removed, and the catalog with them."""
    (tmp_path / "lake").mkdir()
    uri, warehouse = f"sqlite:///{tmp_path}/lake/catalog.db", f"file://{tmp_path}/lake"

    def connected() -> nb.Catalog:
        if kind == "pyiceberg":
            return nb.connect(catalog=SqlCatalog("x", uri=uri, warehouse=warehouse))
        return nb.connect(uri if kind == "sqlite" else tmp_path / "lake")

    lake = connected()
    table = lake.create_table("a.b", _rows(0))
    above = lake.iceberg.create_table(("a", "above"), table.iceberg.schema(), location=warehouse)
    orphan = tmp_path / "lake" / "data" / "x.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"x")
    os.utime(orphan, (0, 0))
    removed = lake.table("a.above").remove_orphans(older_than=datetime.timedelta(0))
    assert removed.files == (str(orphan),)
    again = connected()
    assert again.table("a.b").to_table().equals(table.to_table())
    assert again.table("a.above").metadata_location == above.metadata_location


def _optimized(table: Table) -> int:
    """How often it is optimized until there is no advice."""
    before = sorted(map(str, table.to_table().to_pylist()))
    for times in range(8):
        found = table.health()
        if not found.advice:
            assert table.compact(target_bytes=target_of(table._metadata).target_bytes) is not None
            assert sorted(map(str, table.to_table().to_pylist())) == before
            return times
        table.optimize()
    raise AssertionError(f"advised for ever: {found}")


def test_what_compaction_leaves_is_not_advised(lake: nb.Catalog) -> None:
    """One small file beside a large one was advised to be merged, and was not."""
    table = lake.create_table("a.b", pa.table({"k": range(20_000)}), primary_key="k")
    table.upsert(pa.table({"k": [5]}))
    assert table.health().advice == ()
    assert table.optimize() == {}


def test_what_is_advised_is_done_and_over(lake: nb.Catalog) -> None:
    """Of two files of little more than one was made, and then of these two again."""
    size = 20_000
    sized = {"write.target-file-size-bytes": str(size)}
    table = lake.create_table("a.b", pa.schema({"k": pa.int64(), "t": pa.string()}), cluster_by="k")
    with table.alter() as a:
        a.set_properties(sized)
    rng = random.Random(3)
    for i in range(2):
        texts = [rng.randbytes(500).hex() for _ in range(30)]
        table.append(pa.table({"k": range(i, 60, 2), "t": texts}))
    sizes = [member.file.bytes for member in table._current.members]
    with table.alter() as a:
        a.set_properties({"write.target-file-size-bytes": str(round(max(sizes) / 0.7))})
    assert table.health().advice == ()
    assert table.compact(target_bytes=round(max(sizes) / 0.7)).files_added == 0


def test_files_of_one_key_do_not_overlap(lake: nb.Catalog) -> None:
    tiny = {"write.target-file-size-bytes": "10"}
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), cluster_by="k", properties=tiny)
    for _ in range(9):
        table.append(pa.table({"k": [7] * 20}))
    table.append(pa.table({"k": [7] * 20 + [8]}))
    assert table.health().overlap_depth == 10
    assert "compact" not in {item.action for item in table.health().advice}


def test_files_of_a_layout_are_not_merged_by_the_key(lake: nb.Catalog) -> None:
    """All of them have keys of everywhere, and those that took their place had, too."""
    rows = pa.table({"k": range(2000), "v": [n * 7919 % 2000 for n in range(2000)]})
    small = {"write.target-file-size-bytes": "1000"}
    layout = nb.ZOrder(["v"])
    table = lake.create_table("a.b", rows, cluster_by="k", layout=layout, properties=small)
    assert table.health().overlap_depth > 8
    assert "compact" not in {item.action for item in table.health().advice}


def test_manifests_that_are_full_are_not_rewritten(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a partition of many files there are many; rewriting them was advised for ever."""
    monkeypatch.setattr(rewrite, "MOST_ENTRIES", 2)
    monkeypatch.setattr(rewrite, "_ENOUGH", 1)
    tiny = {"write.target-file-size-bytes": "10"}
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), cluster_by="k", properties=tiny)
    for i in range(12):
        table.append(pa.table({"k": [i]}))
    table.rewrite_manifests()
    assert table.health().manifests_per_partition.max > 4
    assert table.health().advice == ()


def test_long_texts_that_begin_alike_do_not_overlap(lake: nb.Catalog) -> None:
    """Their bounds are those of the first characters, which all of them have."""
    tiny = {"write.target-file-size-bytes": "10"}
    schema = pa.schema({"k": pa.string()})
    table = lake.create_table("a.b", schema, cluster_by="k", properties=tiny)
    for i in range(10):
        table.append(pa.table({"k": [f"https://example.org/{i}/{n}" for n in range(50)]}))
    assert table.health().overlap_depth == 10
    assert "compact" not in {item.action for item in table.health().advice}
    for _ in range(10):
        table.append(pa.table({"k": [f"https://example.org/{n}" for n in range(50)]}))
    assert "compact" in {item.action for item in table.health().advice}
    assert _optimized(table)


def test_expiry_is_not_advised_of_what_is_kept(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain, "KEPT_SNAPSHOTS", 2)
    monkeypatch.setattr(maintain, "YOUNG", datetime.timedelta(0))
    table = _table(lake, 2)
    table.tag("one").append(_rows(2))
    table.append(_rows(3))
    with table.alter() as a:
        a.set_properties({"history.expire.min-snapshots-to-keep": "4"})
    time.sleep(0.01)
    assert "expire" not in {item.action for item in table.health().advice}


@pytest.mark.parametrize("seed", range(6))
def test_advice_ends(lake: nb.Catalog, seed: int) -> None:
    rng = random.Random(seed)
    partitions = [rng.choice([[], ["g"], ["bucket(4, k)"], ["truncate(100, k)"]])] * 2
    table = lake.create_table(
        "a.b",
        pa.schema({"k": pa.int64(), "g": pa.int64(), "t": pa.string()}),
        primary_key="k",
        cluster_by=rng.choice([None, "g"]),
        partition_by=partitions[0],
        data_format=rng.choice(["nimble", "parquet"]),
        properties={"write.target-file-size-bytes": str(rng.choice([10, 3000, 9000, 1 << 28]))},
    )
    for _ in range(5):
        for _ in range(rng.randrange(1, 8)):
            keys = rng.sample(range(3000), rng.choice([1, 30, 300, 2000]))
            texts = [rng.randbytes(rng.choice([0, 20])).hex() for _ in keys]
            table.upsert(pa.table({"k": keys, "g": [k % 3 for k in keys], "t": texts}))
            if rng.random() < 0.3:
                table.delete(f"k % 10 < {rng.randrange(1, 10)}")
        if rng.random() < 0.3:
            with table.alter() as a:
                a.partition_by(*rng.choice([[], ["g"], ["bucket(3, k)"]]))
        assert _optimized(table) < 5


def test_live_rows_and_data_files_with_deletes_are_counted(lake: nb.Catalog) -> None:
    """It said 4 rows, and 50 % of them deleted in 2 files, of a table of 2 rows in 1 file."""
    table = lake.create_table("a.b", pa.table({"k": range(4)}), primary_key="k")
    table.append(pa.table({"k": [9]}))
    table.delete(keys=[0])
    table.delete(keys=[1])
    found = table.health()
    assert (found.rows, found.live_rows, table.num_rows) == (5, 3, 3)
    assert (found.delete_files, found.files_with_deletes, found.deleted_share) == (2, 1, 0.4)
    assert "2 files, " in repr(found)
    assert " 3 rows\n" in repr(found)
    assert "deleted rows         2, 40.0%, in 1 files; 2 delete files" in repr(found)
