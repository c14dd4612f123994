"""Lakes that were renamed, copied or downloaded: files are read where they are now."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bench.s3_server import BUCKET, KEYS, Server
from duckdb_extensions import with_extensions

pytest.importorskip("pyiceberg")
from pyiceberg.table import StaticTable
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.io.location import locate
from nimblepy.join.joinable import SourceHandle
from nimblepy.table.base import moved
from nimblepy.table.handle import files_of
from nimblepy.table.iceberg.catalogs import SqliteCatalog
from nimblepy.table.reading.plan import clear_caches
from nimblepy.table.reading.shipped import rows_as_text, rows_of_text
from nimblepy.table.upkeep import maintain

NOW = dt.timedelta(0)


def rows(*keys: int, group: int = 0) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "g": pa.array([group] * len(keys))})


def content(table: nb.Table) -> pa.Table:
    return table.to_table().sort_by(table.schema.names[0])


def row_ids(table: nb.Table) -> dict[int, int]:
    read = table.to_table(["k", "_row_id"])
    return dict(zip(read["k"].to_pylist(), read["_row_id"].to_pylist(), strict=True))


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """The files of a directory with their sizes and times of change."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.name != ".lock":
            facts = path.stat()
            found[str(path.relative_to(folder))] = (facts.st_size, facts.st_mtime_ns)
    return found


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Other tests of this process must not know where lakes were."""
    yield
    moved.forget()


@pytest.fixture(params=["sqlite", "files"])
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def make_lake(folder: Path, kind: str, data_format: str, version: int = 2) -> dict[str, pa.Table]:
    """Tables with all kinds of metadata; gives their rows."""
    lake = nb.connect(folder, catalog=kind)
    table = lake.create_table(
        "shop.events",
        rows(*range(60)),
        primary_key="k",
        partition_by=["g"],
        data_format=data_format,  # type: ignore[arg-type]
        format_version=version,
    )
    for i in range(3):
        table.upsert(rows(*range(5 * i, 5 * i + 8), group=i))
        table.delete(f"k = {50 + i}")
    table.rewrite_manifests()
    table.append(rows(1000))
    table.tag("start")
    table.analyze(["k"])
    cubes = pa.table({"a": list(range(3000)), "b": list(range(3000))})
    lake.create_table(
        "shop.cubes",
        cubes,
        layout=nb.OTree(["a", "b"], cube_rows=500),
        data_format=data_format,  # type: ignore[arg-type]
    )
    return {name: content(lake.table(name)) for name in lake.tables()}


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("how", ["renamed", "copied", "into itself"])
def test_a_lake_moves(tmp_path: Path, kind: str, data_format: str, how: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    before = make_lake(old, kind, data_format)
    snapshots = nb.connect(old).table("shop.events").snapshots()["snapshot_id"].to_pylist()
    if how == "renamed":
        old.rename(new)
    elif how == "copied":
        shutil.copytree(old, new)
    else:
        old.rename(tmp_path / "other")
        old.mkdir()
        new = old / "below"
        (tmp_path / "other").rename(new)
    files_before = tree(old) if how == "copied" else {}
    clear_caches()
    lake = nb.connect(new)
    assert {name: content(lake.table(name)) for name in lake.tables()} == before
    table = lake.table("shop.events")
    assert table.location.startswith(f"file://{new}/")
    for number in snapshots:
        table.at(snapshot=number).to_table()
    assert table.at(tag="start").get(1000) == {"k": 1000, "g": 0}
    assert pickle.loads(pickle.dumps(table)).num_rows == table.num_rows
    assert lake.table("shop.cubes").sample(0.2).num_rows > 0
    assert table.health().distinct

    table.upsert(rows(3, 2000, group=2))
    table.delete("k = 7")
    table.compact()
    table.rewrite_manifests()
    with table.alter() as a:
        a.add_column("n", pa.int32())
    lake.table("shop.cubes").optimize()
    lake.create_table("shop.new", rows(1))
    table.drop_reference("start")
    assert len(table.expire(keep=1).files) > 0
    table.remove_orphans(older_than=NOW)
    census = table.census()
    assert all(census["reachable"].to_pylist())
    assert all(path.startswith(f"{new}/") for path in census["path"].to_pylist())
    clear_caches()
    again = nb.connect(new).table("shop.events")
    assert (again.get(7), again.get(2000)) == (None, {"k": 2000, "g": 2, "n": None})
    assert again.num_rows == len(again.to_table())
    if how == "copied":
        assert tree(old) == files_before
        original = nb.connect(old)
        assert {name: content(original.table(name)) for name in original.tables()} == before
        original.table("shop.events").append(rows(7777))
        assert nb.connect(new).table("shop.events").get(7777) is None
    elif how == "renamed":
        assert not old.exists()

    rows_before = content(again)
    third = tmp_path / "third"  # where metadata of both places is read
    new.rename(third)
    clear_caches()
    moved_again = nb.connect(third)
    assert content(moved_again.table("shop.events")) == rows_before
    moved_again.table("shop.events").delete("k = 2000")
    assert moved_again.table("shop.events").get(2000) is None
    assert moved_again.table("shop.new").num_rows == 1
    moved_again.drop_table("shop.new", purge=True)


def test_a_lake_moves_back(tmp_path: Path, kind: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    nb.connect(first, catalog=kind).create_table("a.b", rows(1), primary_key="k")
    for number, (source, target) in enumerate(((first, second), (second, first)) * 2):
        source.rename(target)
        clear_caches()
        table = nb.connect(target).table("a.b")
        table.upsert(rows(1, 10 + number, group=number))
        table.delete(f"k = {10 + number - 1}")
    clear_caches()
    moved.forget()
    assert content(nb.connect(first).table("a.b")).to_pylist() == [
        {"k": 1, "g": 3},
        {"k": 13, "g": 3},
    ]


def test_two_mounts_of_one_lake(tmp_path: Path, kind: str) -> None:
    """Both places stay valid while both are written, as in a container and on its host."""
    host, container = tmp_path / "host", tmp_path / "container"
    table = nb.connect(host, catalog=kind).create_table("a.b", rows(1))
    container.symlink_to(host)
    other = nb.connect(container).table("a.b")
    if kind == "sqlite":
        assert other.location == table.location  # a link to the same files is no move
    other.append(rows(2))
    nb.connect(container).create_table("a.c", rows(5)).append(rows(6))
    assert nb.connect(host).table("a.b").num_rows == 2
    container.unlink()
    clear_caches()
    assert content(nb.connect(host).table("a.c")).column("k").to_pylist() == [5, 6]


def test_a_copy_keeps_files_outside_of_its_root(tmp_path: Path, kind: str) -> None:
    """The original still needs them."""
    source = nb.connect(tmp_path / "source", catalog=kind).create_table(
        "a.b", rows(1, 2), data_format="parquet"
    )
    outside = str(tmp_path / "outside.parquet")
    shutil.copy(_data_file(source), outside)
    lake = nb.connect(tmp_path / "lake", catalog=kind)
    table = lake.create_table("a.b", rows(5).schema, data_format="parquet")
    table.add_files([outside])
    table.append(rows(9))
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    copy = nb.connect(tmp_path / "copy")
    other = copy.table("a.b")
    other.overwrite(rows(7))
    other.expire(keep=1)
    assert os.path.exists(outside)
    assert content(nb.connect(tmp_path / "lake").table("a.b"))["k"].to_pylist() == [1, 2, 9]
    copy.drop_table("a.b", purge=True)
    assert os.path.exists(outside)


def _data_file(table: nb.Table) -> str:
    census = table.census().to_pylist()
    path: str = next(row["path"] for row in census if row["kind"] == "data")
    return path


def test_an_expiry_that_was_stopped_is_resumed_in_the_new_place(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = nb.connect(tmp_path / "old", catalog=kind).create_table("a.b", rows(1))
    table.overwrite(rows(2))

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(maintain, "_removed", stopped)
    with pytest.raises(KeyboardInterrupt):
        table.expire(keep=1)
    monkeypatch.undo()
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    before = tree(tmp_path / "old")
    copy = nb.connect(tmp_path / "new").table("a.b")
    done = copy.expire(keep=1)
    assert done.files
    assert all(path.startswith(f"{tmp_path}/new/") for path in done.files)
    assert tree(tmp_path / "old") == before


def test_files_of_the_old_place_cannot_be_added(tmp_path: Path, kind: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    nb.connect(old, catalog=kind).create_table("a.b", rows(1), data_format="parquet")
    shutil.copytree(old, new)
    source = _data_file(nb.connect(old).table("a.b"))
    with pytest.raises(nb.InvalidArgumentError, match="at the former location of the table"):
        nb.connect(new).table("a.b").add_files([source])


# ---------------------------------------------------------------- relocate


@pytest.mark.parametrize("version", [2, 3, "upgraded"])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_metadata_is_relocated(tmp_path: Path, kind: str, data_format: str, version: Any) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    before = make_lake(old, kind, data_format, 3 if version == 3 else 2)
    if version == "upgraded":  # its files have position deletes and vectors
        upgraded = nb.connect(old).table("shop.events")
        with upgraded.alter() as a:
            a.upgrade(3)
        upgraded.upsert(rows(30, 31, 1000, group=4))
        before["shop.events"] = content(upgraded)
    ids = None if version == 2 else row_ids(nb.connect(old).table("shop.events"))
    assert nb.connect(old).relocate() == []
    old.rename(new)
    lake = nb.connect(new)
    lake.table("shop.events").append(rows(4444))  # so paths of both places are named
    assert lake.relocate("shop.events") == ["shop.events"]
    assert lake.relocate() == ["shop.cubes"]
    assert nb.connect(new).relocate() == []
    moved.forget()
    clear_caches()
    table = nb.connect(new).table("shop.events")
    numbers = table.snapshots()["snapshot_id"].to_pylist()
    counts = [table.at(snapshot=number).num_rows for number in numbers]
    assert counts[-1] == before["shop.events"].num_rows + 1
    if ids is not None:
        assert row_ids(table).items() >= ids.items()
    newest = Path(table.metadata_location.removeprefix("file://"))
    content_now = json.loads(newest.read_text())
    content_now.pop("metadata-log")
    assert str(old) not in json.dumps(content_now)
    if data_format == "parquet":
        read = StaticTable.from_metadata(table.metadata_location)
        if version == 3:
            place = table.metadata_location.removeprefix("file://")
            with with_extensions("avro", "iceberg") as connection:
                scan = f"SELECT k, _row_id FROM iceberg_scan('{place}')"
                assert dict(connection.sql(scan).fetchall()) == row_ids(table)
        for number, count in zip(numbers, counts, strict=True):
            assert read.scan(snapshot_id=number).to_arrow().num_rows == count
    table.remove_orphans(older_than=NOW)
    assert all(table.census()["reachable"].to_pylist())
    clear_caches()
    again = nb.connect(new)
    assert content(again.table("shop.cubes")) == before["shop.cubes"]
    again.table("shop.events").upsert(rows(1, 2, group=9))
    again.table("shop.events").compact()
    assert again.table("shop.events").get(1) == {"k": 1, "g": 9}


def test_a_commit_beside_a_relocation_stays(tmp_path: Path, kind: str) -> None:
    make_lake(tmp_path / "old", kind, "nimble")
    (tmp_path / "old").rename(tmp_path / "new")
    lake = nb.connect(tmp_path / "new")
    other = nb.connect(tmp_path / "new").table("shop.events")
    left = [rows(5000), rows(5001)]
    write = SqliteCatalog.replace_metadata

    def late(self: SqliteCatalog, *arguments: Any) -> Any:
        if left:
            other.append(left.pop())
        return write(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteCatalog, "replace_metadata", late)
        lake.relocate("shop.events")
    clear_caches()
    table = nb.connect(tmp_path / "new").table("shop.events")
    assert table.lookup([5000, 5001]).num_rows == 2


def test_the_command_relocates(tmp_path: Path, kind: str) -> None:
    nb.connect(tmp_path / "old", catalog=kind).create_table("a.b", rows(1))
    (tmp_path / "old").rename(tmp_path / "new")
    run = CliRunner().invoke
    done = run(app, ["table", "relocate", f"{tmp_path}/new"])
    assert (done.exit_code, done.stdout) == (0, "a.b\n")
    done = run(app, ["table", "relocate", f"{tmp_path}/new#a.b", "--json"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"tables": []})
    assert "a.b" in run(app, ["table", "ls", f"{tmp_path}/new"]).stdout


def test_a_table_of_another_root_is_relocated(tmp_path: Path) -> None:
    """Another engine wrote the table by a path that was never the root of the lake."""
    (tmp_path / "volume").symlink_to(tmp_path / "old")
    nb.connect(tmp_path / "old").create_table("a.x", rows(1))
    nb.connect(tmp_path / "old").iceberg.create_table(
        ("a", "b"),
        nb.connect(tmp_path / "old").table("a.x").iceberg.schema(),
        location=f"file://{tmp_path}/volume/a/b",
    )
    table = nb.connect(tmp_path / "old").table("a.b")
    table.append(rows(2))
    (tmp_path / "volume").unlink()
    (tmp_path / "old").rename(tmp_path / "new")
    lake = nb.connect(tmp_path / "new")
    with pytest.raises(FileNotFoundError):
        lake.table("a.b")
    assert lake.relocate("a.b", old_root=f"{tmp_path}/volume") == ["a.b"]
    moved.forget()
    clear_caches()
    assert content(nb.connect(tmp_path / "new").table("a.b"))["k"].to_pylist() == [2]


@pytest.fixture
def bucket(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.mark.store
def test_a_bucket_is_copied(bucket: str, tmp_path: Path) -> None:
    lake = nb.connect(f"{bucket}/old")
    table = lake.create_table("a.b", rows(1, 2), primary_key="k")
    table.upsert(rows(2, 3, group=1))
    table.delete("k = 1")
    expected = content(table)
    for name, _, _ in locate(f"{bucket}/old").files():
        octets = locate(f"{bucket}/old/{name}").read()
        locate(f"{bucket}/new/{name}").write(octets)
        path = tmp_path / "downloaded" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)
    before = {n: (s, t) for n, s, t in locate(f"{bucket}/old").files()}
    for root in (f"{bucket}/new", str(tmp_path / "downloaded")):
        clear_caches()
        copy = nb.connect(root).table("a.b")
        assert content(copy) == expected
        copy.upsert(rows(3, 4, group=2))
        copy.overwrite(rows(9))
        copy.expire(keep=1)
        assert content(nb.connect(root).table("a.b")).to_pylist() == [{"k": 9, "g": 0}]
    assert {n: (s, t) for n, s, t in locate(f"{bucket}/old").files()} == before
    assert content(nb.connect(f"{bucket}/old").table("a.b")) == expected


def test_translations() -> None:
    found = moved.Translation("file:///new", ["file:///old", "file:///old/deep", "file:///new"])
    assert found.path("file:///old/a/b") == "file:///new/a/b"
    assert found.path("/old/a") == "/new/a"
    assert found.path("file:/old/deep/a") == "file:/new/a"
    assert found.path("file:///older/a") == "file:///older/a"
    assert found.path("file:///new/old/a") == "file:///new/old/a"
    assert found.path("s3://old/a") == "s3://old/a"
    inside = moved.Translation("file:///old/deep", ["file:///old"])
    assert inside.path("file:///old/deep/a") == "file:///old/deep/a"
    assert inside.path("file:///old/a") == "file:///old/deep/a"
    store = moved.Translation("s3://b/new", ["s3://b/old", "file:///x"])
    assert store.path("s3a://b/old/k") == "s3a://b/new/k"
    assert store.path("/x/k") == "s3://b/new/k"
    assert "s3a://b/old/k" in store.former("s3://b/new/k")


def test_rows_for_other_processes(tmp_path: Path, kind: str) -> None:
    """Delete files name data files by their old paths, which a worker process must translate."""
    table = nb.connect(tmp_path / "old", catalog=kind).create_table(
        "a.b", rows(*range(10)), primary_key="k"
    )
    table.delete("k < 5")
    os.rename(tmp_path / "old", tmp_path / "new")
    table = nb.connect(tmp_path / "new").table("a.b")
    text = rows_as_text(files_of(table))
    moved.forget()
    clear_caches()
    handle = SourceHandle(rows_of_text(text))
    assert handle.to_table(["k"]).column("k").to_pylist() == [5, 6, 7, 8, 9]
    assert handle.get(3) is None


def test_a_moved_lake_inside_a_moved_lake() -> None:
    moved.register("file:///new", ["file:///old"])
    moved.register("file:///new/inner", ["file:///elsewhere"])
    found = moved.translation_of("file:///new/inner/a.nimble")
    assert found is not None
    assert found.root == "file:///new/inner"
