"""Tables in an object store: one configuration, and few rounds of requests."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from bench.s3_server import BUCKET, KEYS, Rounds, Server

pytest.importorskip("pyiceberg")

import nimblepy as nb
from nimblepy.io.location import locate
from nimblepy.table.distributed import commit_files, write_rows, write_target
from nimblepy.table.reading.plan import clear_caches
from nimblepy.table.upkeep import maintain

pytestmark = pytest.mark.store

MANIFESTS = 10


@pytest.fixture
def connected(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], nb.Catalog]:
    """Connects to a catalog whose tables lie in the store, told of it by the environment alone."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    place = {"warehouse": f"s3://{BUCKET}/{tmp_path.name}"}
    return lambda: nb.connect(f"sqlite:///{tmp_path}/catalog.db", properties=place)


def rows(first: int, count: int) -> pa.Table:
    keys = np.arange(first, first + count)
    noise = np.random.default_rng(first)
    texts = pa.array([f"name {key % 977}" for key in keys], pa.string())
    return pa.table({"id": keys, "a": noise.random(count), "s": texts})


def written(lake: nb.Catalog, count: int, **keywords: Any) -> nb.Table:
    table = lake.create_table("a.b", rows(0, 0).schema, cluster_by="id", **keywords)
    for i in range(MANIFESTS):
        table.append(rows(i * count, count))
    return table


def rounds_of(server: Server, ask: Callable[[], object]) -> list[int]:
    """Requests of each round that something takes."""
    server.faults.reset()
    found = server.faults.rounds = Rounds()
    ask()
    server.faults.reset()
    return found.sizes


def test_an_index_of_parquet_files_in_a_store(connected: Callable[[], nb.Catalog]) -> None:
    table = written(connected(), 10, primary_key="id", data_format="parquet")
    table.add_index(nb.SortedIndex(["s", "id"]))
    table.append(rows(100, 10))
    other = connected().table("a.b")
    assert other.lookup(["name 7", "name 104"], on="s")["id"].to_pylist() == [7, 104]
    assert other.health().index_files == {"sorted (s, id)": MANIFESTS}
    other.optimize()
    assert other.get("name 104", ["id"], on="s") == {"id": 104}
    assert other.upsert(rows(95, 10)).rows_updated == 10
    assert other.remove_orphans(older_than=timedelta(0)).files
    assert connected().table("a.b").count(["name 7", "name 104"], on="s").to_pylist() == [1, 1]


def test_a_table_in_a_store(connected: Callable[[], nb.Catalog]) -> None:
    lake = connected()
    table = written(lake, 10, primary_key="id")
    table.upsert(rows(95, 10))
    table.delete("id < 3")
    with table.alter() as a:
        a.rename_column("s", "text")
    assert table.analyze(["id"]).distinct == {"id": 102}
    table.rewrite_manifests()
    table.expire(keep=1)
    assert connected().table("a.b").health().distinct == {"id": 102}
    other = connected().table("a.b")
    assert other.num_rows == 102
    assert other.to_table(["id"], filter="id < 5").column("id").to_pylist() == [3, 4]
    assert other.get(104)["text"] == "name 104"
    assert other.remove_orphans(older_than=timedelta(0), dry_run=True).files == ()
    census = other.census()
    assert all(census.column("reachable").to_pylist())
    assert {"metadata", "manifest list", "manifest", "data"} <= set(census["kind"].to_pylist())
    place = f"{other.location}/data/left.nimble"
    with other.iceberg.io.new_output(place).create() as sink:
        sink.write(b"of a lost commit")
    assert other.remove_orphans().files == ()  # it is young
    assert other.remove_orphans(older_than=timedelta(0)).files == (place,)
    assert census.column("path").equals(other.census().column("path"))
    lake.drop_table("a.b", purge=True)
    assert connected().tables() == []
    with pytest.raises(nb.StaleFileError):
        other.to_table(filter="id = 50")


def test_an_expiry_in_a_store_counts_bytes(connected: Callable[[], nb.Catalog]) -> None:
    # It said 0 bytes of any file in a store.
    table = written(connected(), 3, primary_key="id")
    sizes = {row["path"]: row["bytes"] for row in table.census().to_pylist()}
    table.overwrite(rows(0, 5))
    planned = table.expire(keep=1, dry_run=True)
    done = table.expire(keep=1)
    assert done == planned
    assert done.bytes == sum(sizes[path] for path in done.files) > 0


def test_an_expiry_in_a_store_is_resumed(
    connected: Callable[[], nb.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = written(connected(), 3, primary_key="id")
    table.overwrite(rows(0, 5))

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(maintain, "_removed", stopped)
    with pytest.raises(KeyboardInterrupt):
        table.expire(keep=1)
    monkeypatch.undo()
    again = connected().table("a.b")
    assert not all(again.census()["reachable"].to_pylist())
    done = again.expire(keep=1)
    assert done.files
    assert done.bytes > 0
    assert done.snapshots == ()
    assert all(again.census()["reachable"].to_pylist())
    assert again.num_rows == 5


@pytest.mark.parametrize("count", [100, 150_000])
def test_cold_rounds(server: Server, connected: Callable[[], nb.Catalog], count: int) -> None:
    table = written(connected(), count)
    far, near = 5 * count + 7, 2 * count + 7

    def cold_get() -> nb.Table:
        clear_caches()
        opened = connected().table("a.b")
        assert opened.get(far)["id"] == far  # type: ignore[index]
        return opened

    # Metadata, manifest list, all manifests, the end of the file, key chunk and columns.
    data = 2 if count > 100 else 1
    sizes = rounds_of(server, cold_get)
    assert sizes[:4] == [1, 1, MANIFESTS, 1]
    assert len(sizes) <= 3 + data <= 6
    opened = cold_get()
    assert len(rounds_of(server, lambda: opened.get(near))) <= data <= 3
    assert rounds_of(server, lambda: opened.get(near)) == []

    table.delete(f"id = {far + 1}")  # its manifest and its file are read beside the others
    sizes = rounds_of(server, cold_get)
    assert sizes[:4] == [1, 1, MANIFESTS + 1, 2]
    assert len(sizes) <= 3 + data

    table.rewrite_manifests()
    sizes = rounds_of(server, cold_get)
    assert sizes[:2] == [1, 2]  # the plan index is opened while the manifest list is read
    assert sum(sizes) <= 5 + (4 if count > 100 else 0) + 2
    assert len(sizes) <= 3 + data


def test_cold_rounds_of_a_large_file(server: Server, connected: Callable[[], nb.Catalog]) -> None:
    """The end of such a file has no group's metadata; key chunks come with these."""
    count = 1_200_000
    keys = np.arange(count)
    table = pa.table({"id": keys, "a": np.random.default_rng(1).random(count)})
    connected().create_table("a.b", table, primary_key="id")

    def cold_get(at: int) -> nb.Table:
        clear_caches()
        opened = connected().table("a.b")
        assert opened.get(at)["id"] == at  # type: ignore[index]
        return opened

    # Metadata, manifest list, manifest, the end of the file, group and key chunk, columns.
    assert len(rounds_of(server, partial(cold_get, 100_000))) == 6
    clear_caches()
    opened = connected().table("a.b")
    assert opened._current.num_files == 1
    assert len(rounds_of(server, lambda: opened.get(7))) == 3
    assert len(rounds_of(server, lambda: opened.get(100_000))) == 1


def test_files_of_one_question_are_opened_together(
    server: Server, connected: Callable[[], nb.Catalog]
) -> None:
    written(connected(), 100)
    keys = np.arange(0, 100 * MANIFESTS, 50)
    for ask in (
        lambda table: table.lookup(keys).num_rows == len(keys),
        lambda table: table.to_table().num_rows == 100 * MANIFESTS,
        lambda table: table.range(0, 10**6).num_rows == 100 * MANIFESTS,
        lambda table: table.count(keys).to_pylist() == [1] * len(keys),
    ):
        table = connected().table("a.b")
        assert table._current.num_files == MANIFESTS
        assert rounds_of(server, partial(ask, table)) == [MANIFESTS]
        assert ask(table)


def test_a_file_that_was_not_finished_is_not_there(connected: Callable[[], nb.Catalog]) -> None:
    table = connected().create_table("a.b", rows(0, 0).schema)
    io, place = table.iceberg.io, f"{table.location}/metadata/half"
    with contextlib.suppress(KeyError), io.new_output(place).create() as sink:
        sink.write(b"half")
        raise KeyError
    assert not io.new_input(place).exists()
    with io.new_output(place).create() as sink:
        sink.write(b"whole")
    assert io.new_input(place).exists()
    assert (len(io.new_input(place)), io.new_input(place).open().read()) == (5, b"whole")
    io.delete(place)
    assert not io.new_input(place).exists()
    with pytest.raises(FileNotFoundError, match="half"):
        io.new_input(place).open()


@pytest.mark.parametrize("kind", ["obstore", "pyarrow", "fsspec"])
def test_whole_files_of_any_store(server: Server, tmp_path: Path, kind: str) -> None:
    folder = tmp_path.name
    if kind == "fsspec":
        place = locate(f"/{folder}/a/b", fsspec.filesystem("memory"))
    else:
        store = server.obstore() if kind == "obstore" else server.arrow()
        place = locate(f"{folder}/a/b", store)
    assert replace(place, path=f"{folder}/none").files() == []
    for content in (b"first", b"second " * 1000):
        place.write(content)
        assert place.read() == content
    (found,) = replace(place, path=folder).files()
    assert found[:2] == ("a/b", 7000)
    assert abs(found[2] - time.time()) < 3600
    with pytest.raises(FileNotFoundError):
        replace(place, path=f"{folder}/a/c").read()


def test_a_location_by_another_scheme(connected: Callable[[], nb.Catalog]) -> None:
    """All files were orphans of a table whose location says s3a, and whose files say s3."""
    lake = connected()
    table = written(lake, 5)
    text = json.loads(locate(table.metadata_location).read())
    text["location"] = text["location"].replace("s3://", "s3a://")
    other = table.metadata_location.rpartition("/")[0] + "/00099-other.metadata.json"
    locate(other).write(json.dumps(text).encode())
    moved = lake.register("a.c", other)
    time.sleep(1.1)  # the store knows whole seconds
    removed = moved.remove_orphans(older_than=timedelta(0), dry_run=True)
    # The newest metadata file of the table that it was is none of its own.
    assert [path.rpartition("/")[2] for path in removed.files] == [
        table.metadata_location.rpartition("/")[2]
    ]
    census = moved.census().to_pylist()
    assert len(census) == len({row["path"].partition("://")[2] for row in census})


def test_files_that_are_gone_are_not_committed(connected: Callable[[], nb.Catalog]) -> None:
    """They became part of the table, and no row of it could be read any more."""
    table = connected().create_table("a.b", rows(0, 10))
    before = table.snapshot
    assert before is not None
    files = write_rows(rows(20, 5), write_target(table))
    assert commit_files(table, files).rows_inserted == 5
    table.rollback(before)
    assert commit_files(table, files).rows_inserted == 5
    table.rollback(before)
    table.append(rows(30, 1))
    table.expire(older_than=timedelta(0))
    with pytest.raises(FileNotFoundError, match="write their rows again"):
        commit_files(table, files)
    assert table.to_table().num_rows == 11


def test_a_table_in_a_store_is_published_as_delta(connected: Callable[[], nb.Catalog]) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = written(connected(), 100, data_format="parquet")
    assert table.publish_delta() == 0
    table.delete("id < 150")
    options = {
        "AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"],
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": os.environ["AWS_REGION"],
        "AWS_ACCESS_KEY_ID": os.environ["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_ACCESS_KEY": os.environ["AWS_SECRET_ACCESS_KEY"],
    }
    opened = deltalake.DeltaTable(table.location, storage_options=options)
    assert opened.version() == 1
    paths = {uri.rpartition("/")[2] for uri in opened.file_uris()}
    assert paths == {path.rpartition("/")[2] for path in table.files()["path"].to_pylist()}
    with table.alter() as change:
        change.rename_column("s", "t")
    connected().table("a.b").append({"id": [2000], "a": [0.5], "t": ["x"]})
    assert table.publish_delta() == 3


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_deletion_vectors_in_a_store(connected: Callable[[], nb.Catalog], data_format: Any) -> None:
    table = connected().create_table(
        "a.b", rows(0, 500), primary_key="id", data_format=data_format, format_version=3
    )
    ids = dict(zip(*table.to_table(["id", "_row_id"]).to_pydict().values(), strict=True))
    for first in (10, 300, 15):
        table.upsert(rows(first, 20))
        table.delete(f"id = {first + 1}")
    clear_caches()
    again = connected().table("a.b")
    assert any(path.endswith(".puffin") for path in again.census()["path"].to_pylist())
    left = set(range(500)) - {11, 301, 16}
    found = again.to_table(["id", "_row_id"]).to_pydict()
    assert dict(zip(found["id"], found["_row_id"], strict=True)) == {key: ids[key] for key in left}
    again.compact()
    assert connected().table("a.b").to_table(["id", "_row_id"]).num_rows == len(left)
