"""Lakes without a database: pointers in a directory or in a bucket, swapped by compare-and-swap."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bench.s3_server import BUCKET, KEYS, Server

pytest.importorskip("pyiceberg")
from processes import CHILDREN, pool_of
from pyiceberg.table import StaticTable

import nimblepy as nb
from nimblepy.io import object_store
from nimblepy.table.iceberg.pointers import LocalPointers, Lost, StoredPointers
from nimblepy.table.testing import commit_hooks

pytestmark = [pytest.mark.store, pytest.mark.no_sanitizer]

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
NOW = dt.timedelta(0)


def rows(*keys: int, value: int = 0) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys))})


def keys(table: nb.Table) -> list[int]:
    found: list[int] = table.to_table(["k"]).column("k").to_pylist()
    return sorted(found)


@pytest.fixture
def bucket(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The root of a lake in the store of the test server."""
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture(params=["directory", "bucket"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return str(tmp_path / "lake")
    place: str = request.getfixturevalue("bucket")
    return place


def connect(root: str) -> nb.Catalog:
    return nb.connect(root) if "://" in root else nb.connect(root, catalog="files")


# ---------------------------------------------------------------- the catalog


def test_tables_are_made_listed_registered_and_dropped(root: str) -> None:
    lake = connect(root)
    assert (lake.tables(), lake.namespaces()) == ([], [])
    table = lake.create_table("shop.eu.events", rows(1, 2), primary_key="k")
    lake.create_table("shop.users", SCHEMA)
    assert lake.tables() == ["shop.users", "shop.eu.events"]
    assert lake.namespaces() == ["shop", "shop.eu"]
    assert lake.tables("shop") == ["shop.users"]
    with pytest.raises(nb.InvalidArgumentError, match="already"):
        lake.create_table("shop.users", SCHEMA)
    assert lake.create_table("shop.users", SCHEMA, if_exists="ignore").num_rows == 0
    with pytest.raises(nb.InvalidArgumentError, match="cannot rename"):
        lake.rename_table("shop.users", "new.users")
    assert "new" not in lake.namespaces()
    again = connect(root).table("shop.eu.events")
    assert keys(pickle.loads(pickle.dumps(again))) == [1, 2]
    lake.drop_table("shop.eu.events")
    assert connect(root).tables() == ["shop.users"]
    other = lake.register("shop.more", table.metadata_location)
    other.append(rows(3))
    assert keys(connect(root).table("shop.more")) == [1, 2, 3]
    lake.create_table("shop.eu.events", rows(9))
    assert keys(lake.table("shop.eu.events")) == [9]
    for name in ("shop.eu.events", "shop.users", "shop.more"):
        lake.drop_table(name, purge=True)
    lake.drop_namespace("shop.eu")
    assert (lake.tables(), lake.namespaces()) == ([], [])
    with pytest.raises(nb.InvalidArgumentError, match="no tables"):
        connect(root).table("shop.eu.events")


def test_a_registered_name_keeps_the_files_of_the_other(root: str) -> None:
    few = {"write.metadata.previous-versions-max": "1"}
    lake = connect(root)
    table = lake.create_table("a.b", rows(1), properties=few)
    table.append(rows(2))
    other = lake.register("a.c", table.metadata_location)
    for i in range(4):
        table.append(rows(10 + i))
    assert keys(connect(root).table("a.c")) == [1, 2]
    for name, handle in (("a.b", other), ("a.c", table)):
        with pytest.raises(nb.InvalidArgumentError, match=f"the table {name} has the same files"):
            handle.expire(keep=1)
    lake.drop_table("a.c")
    table.expire(keep=1)
    assert keys(connect(root).table("a.b")) == [1, 2, 10, 11, 12, 13]


def test_a_refused_name_changes_no_table(root: str) -> None:
    """The table of the taken name no longer removed its old metadata files."""
    lake = connect(root)
    table = lake.create_table(
        "a.b", rows(1), properties={"write.metadata.previous-versions-max": "1"}
    )
    with pytest.raises(nb.InvalidArgumentError, match="exists"):
        lake.register("a.b", table.metadata_location)
    for i in range(5):
        table.append(rows(10 + i))
    files = [path for path in table.census()["path"].to_pylist() if ".metadata.json" in path]
    assert len(files) == 2


NAMES = ["catalog.json", "with space", "größe 表", "100%", "a#b", "what?", "it's", "A-_=7"]


def test_names_of_any_characters(root: str) -> None:
    lake = connect(root)
    for i, name in enumerate(NAMES):
        lake.create_table(f"{name}.{name.replace('.', '')}", rows(i))
    assert sorted(connect(root).tables()) == sorted(
        f"{name}.{name.replace('.', '')}" for name in NAMES
    )
    for i, name in enumerate(NAMES):
        assert keys(connect(root).table(f"{name}.{name.replace('.', '')}")) == [i]
    with pytest.raises(nb.InvalidArgumentError, match="too long"):
        lake.create_table(f"a.{'ß' * 100}", SCHEMA)


def test_an_unknown_place(root: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="there is no catalog"):
        nb.connect(root, create=False)
    connect(root)
    assert not os.path.exists(root)
    with pytest.raises(nb.InvalidArgumentError, match="there is no catalog"):
        nb.connect(root, create=False)
    connect(root).create_table("a.b", SCHEMA)
    assert nb.connect(root, create=False).tables() == ["a.b"]


def test_a_directory_has_one_catalog(tmp_path: Path) -> None:
    nb.connect(tmp_path / "files", catalog="files").create_table("a.b", SCHEMA)
    assert nb.connect(tmp_path / "files").tables() == ["a.b"]
    with pytest.raises(
        nb.InvalidArgumentError, match="already has a catalog of the kind 'files', not 'sqlite'"
    ):
        nb.connect(tmp_path / "files", catalog="sqlite")
    nb.connect(tmp_path / "database").create_table("a.b", SCHEMA)
    with pytest.raises(
        nb.InvalidArgumentError, match="already has a catalog of the kind 'sqlite', not 'files'"
    ):
        nb.connect(tmp_path / "database", catalog="files")


def test_everything_works_as_with_a_database(root: str) -> None:
    lake = connect(root)
    table = lake.create_table("a.b", rows(*range(20)), primary_key="k")
    first = table.snapshot
    table.tag("start")
    table.branch("audit")
    table.upsert(rows(3, 30, value=7))
    table.delete("k < 3")
    with table.transaction() as change:
        assert change.get(3) == {"k": 3, "v": 7}
        change.upsert(rows(4, value=8))
    with table.alter() as a:
        a.add_column("w", pa.int32(), default=5)
    assert connect(root).table("a.b").get(4) == {"k": 4, "v": 8, "w": 5}
    table.compact()
    table.rewrite_manifests()
    assert table.at(tag="start").num_rows == 20
    table.drop_reference("start")
    table.drop_reference("audit")
    removed = table.expire(keep=1)
    assert first in removed.snapshots
    if "://" in root:
        time.sleep(1.1)  # the store knows whole seconds
    table.remove_orphans(older_than=NOW)
    census = table.census()
    assert all(census["reachable"].to_pylist())
    assert "version hint" in census["kind"].to_pylist()
    assert connect(root).table("a.b").num_rows == 18
    newest = table.rollback(table.snapshot)
    assert newest is None or table.num_rows == 18


def test_old_metadata_files_are_removed(root: str) -> None:
    few = {"write.metadata.previous-versions-max": "2"}
    table = connect(root).create_table("a.b", rows(1), properties=few)
    for i in range(5):
        table.append(rows(i))
    named = [path.rpartition("/")[2] for path in table.census()["path"].to_pylist()]
    found = sorted(name for name in named if name.endswith(".metadata.json"))
    assert found == ["v4.metadata.json", "v5.metadata.json", "v6.metadata.json"]


def test_engines_read_the_directory(tmp_path: Path) -> None:
    table = nb.connect(tmp_path / "lake", catalog="files").create_table(
        "a.b", rows(1, 2), data_format="parquet"
    )
    table.append(rows(3))
    table.delete("k = 1")
    read = StaticTable.from_metadata(table.location)
    assert sorted(read.scan().to_arrow()["k"].to_pylist()) == [2, 3]
    assert table.metadata_location.endswith("/v3.metadata.json")


# ---------------------------------------------------------------- races


def _create(root: str, number: int) -> str:
    try:
        made = connect(root).create_table("a.b", pa.schema({f"c{number}": pa.int64()}))
    except nb.InvalidArgumentError as error:
        return str(error)
    return made.schema.names[0]


def test_processes_make_one_table(root: str) -> None:
    with pool_of(4) as pool:
        results = pool.starmap(_create, [(root, i) for i in range(4)])
    won = [text for text in results if text.startswith("c")]
    assert len(won) == 1
    assert all("already" in text for text in results if text not in won)
    assert connect(root).table("a.b").schema.names == won


def test_threads_make_and_drop_one_table(root: str) -> None:
    lakes = [connect(root) for _ in range(4)]
    done: Counter[str] = Counter()

    def work(lake: nb.Catalog) -> None:
        for _ in range(6):
            try:
                lake.create_table("a.b", SCHEMA)
                done["made"] += 1
            except nb.InvalidArgumentError:
                pass
            try:
                lake.drop_table("a.b")
                done["dropped"] += 1
            except nb.InvalidArgumentError:
                pass

    threads = [threading.Thread(target=work, args=(lake,)) for lake in lakes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done["made"] - done["dropped"] == len(lakes[0].tables())
    assert done["dropped"] > 0


def _commit(root: str, writer: int, count: int) -> int:
    table = connect(root).table("a.b")
    retries = 0
    for i in range(count):
        if i % 4 == 3:
            retries += table.upsert(rows(-1, value=writer)).retries
        else:
            retries += table.append(rows(writer * 1000 + i)).retries
    return retries


def raced(root: str, writers: int, count: int) -> int:
    connect(root).create_table("a.b", SCHEMA, primary_key="k")
    with pool_of(writers) as pool:
        lost = sum(pool.starmap(_commit, [(root, i + 1, count) for i in range(writers)]))
    expected = [w * 1000 + i for w in range(1, writers + 1) for i in range(count) if i % 4 != 3]
    table = connect(root).table("a.b")
    assert keys(table) == sorted([-1] * (count > 3) + expected)
    assert table.num_rows == len(keys(table))
    time.sleep(1.1 if "://" in root else 0)
    table.remove_orphans(older_than=NOW)
    assert all(table.census()["reachable"].to_pylist())
    return lost


@pytest.mark.parametrize(("writers", "count"), [(2, 12), (4, 5)])
def test_processes_commit(root: str, writers: int, count: int) -> None:
    raced(root, writers, count)


@pytest.mark.slow
@pytest.mark.parametrize(("writers", "count"), [(2, 100), (6, 20)])
def test_many_processes_commit(root: str, writers: int, count: int) -> None:
    print(f"\n{writers} x {count} commits: {raced(root, writers, count)} lost races")


def test_a_commit_that_loses_leaves_no_files(root: str) -> None:
    lake = connect(root)
    table = lake.create_table("a.b", rows(1), primary_key="k")
    other = connect(root).table("a.b")
    left = [rows(2), rows(3)]
    with commit_hooks(before_swap=lambda: left and other.append(left.pop())):
        done = table.upsert(rows(1, value=4))
    assert done.retries >= 1
    assert keys(connect(root).table("a.b")) == [1, 2, 3]
    assert all(table.refresh().census()["reachable"].to_pylist())


def test_a_table_is_dropped_before_the_swap(root: str) -> None:
    lake = connect(root)
    table = lake.create_table("a.b", rows(1))
    left = [connect(root)]
    drop = commit_hooks(before_swap=lambda: left and left.pop().drop_table("a.b"))
    with drop, pytest.raises(nb.ConflictError, match="dropped"):
        table.append(rows(2))
    assert lake.tables() == []


def test_a_number_that_is_taken_is_skipped(root: str) -> None:
    """A stopped commit leaves a metadata file without a pointer to it."""
    lake = connect(root)
    table = lake.create_table("a.b", rows(1))
    folder = table.metadata_location.rpartition("/")[0]
    for version in (2, 3, 4, 5, 6):
        with table.iceberg.io.new_output(f"{folder}/v{version}.metadata.json").create() as sink:
            sink.write(b"left")
    assert keys(connect(root).table("a.b")) == [1]
    table.append(rows(2))
    assert table.metadata_location.endswith("/v7.metadata.json")
    with table.iceberg.io.new_output(f"{folder}/v8.metadata.json").create() as sink:
        sink.write(b"left")
    time.sleep(1.1 if "://" in root else 0)
    removed = table.remove_orphans(older_than=NOW).files
    assert sorted(path.rpartition("/")[2] for path in removed) == [
        f"v{version}.metadata.json" for version in (2, 3, 4, 5, 6, 8)
    ]
    # The number of a removed file is not used again: another process may be about to remove it.
    table.append(rows(3))
    assert table.metadata_location.endswith("/v9.metadata.json")
    assert keys(connect(root).table("a.b")) == [1, 2, 3]


# ---------------------------------------------------------------- answers that are lost


POINTER, METADATA = ".table.json", ".metadata.json"
ANSWERS = [
    "500 Internal Server Error",
    "lost 500 Internal Server Error",
    "409 Conflict",
    "lost 409 Conflict",
    "412 Precondition Failed",
    "lost 412 Precondition Failed",
    "503 Slow Down",
]


def failing(server: Server, answer: str, ending: str, times: int) -> None:
    left = [times]

    def rule(method: str, path: str) -> str | None:
        if method != "PUT" or not path.endswith(ending) or not left[0]:
            return None
        left[0] -= 1
        return answer

    server.faults.rule = rule


@pytest.mark.parametrize("ending", [POINTER, METADATA])
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_lost(server: Server, bucket: str, answer: str, ending: str) -> None:
    lake = nb.connect(bucket)
    table = lake.create_table("a.b", rows(1), primary_key="k")
    for i, times in enumerate((1, 2)):
        failing(server, answer, ending, times)
        done = table.append(rows(10 + i))
        assert (done.retries, done.rows_inserted) == (0, 1)
        failing(server, answer, ending, times)
        with table.alter() as a:
            a.add_column(f"c{i}", pa.int32())
        failing(server, answer, ending, times)
        table.tag(f"t{i}")
        server.faults.rule = None
    other = nb.connect(bucket).table("a.b")
    assert keys(other) == [1, 10, 11]
    assert other.schema.names == ["k", "v", "c0", "c1"]
    assert set(other.tags) == {"t0", "t1"}
    failing(server, answer, ending, 1)
    lake.create_table("a.c", SCHEMA)
    failing(server, answer, ending, 1)
    lake.drop_table("a.c")
    server.faults.rule = None
    assert nb.connect(bucket).tables() == ["a.b"]


def test_an_answer_is_lost_and_others_commit(server: Server, bucket: str) -> None:
    """The client sends the put again, and loses to a commit on top of its own."""
    table = nb.connect(bucket).create_table("a.b", rows(1), primary_key="k")
    other = nb.connect(bucket).table("a.b")
    left = [True]

    def rule(method: str, path: str) -> str | None:
        if method != "PUT" or not path.endswith(POINTER) or not left:
            return None
        left.pop()
        return "lost 412 Precondition Failed"

    read = StoredPointers.read
    first = [True]

    def late(self: StoredPointers, key: str) -> Any:
        if not left and first:
            first.pop()
            other.append(rows(5))
        return read(self, key)

    server.faults.rule = rule
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredPointers, "read", late)
        done = table.append(rows(2))
    assert done.rows_inserted == 1
    assert keys(nb.connect(bucket).table("a.b")) == [1, 2, 5]
    assert keys(table.refresh()) == [1, 2, 5]


@pytest.mark.parametrize("lands", [False, True])
def test_an_unknown_outcome(server: Server, bucket: str, lands: bool) -> None:
    table = nb.connect(bucket).create_table("a.b", rows(1), primary_key="k")
    sent = []

    def rule(method: str, path: str) -> str | None:
        if not path.endswith(POINTER):
            return None
        if method == "PUT":
            sent.append(path)
            return "lost 500 Error" if lands and len(sent) == 1 else "500 Error"
        return "500 Error" if sent else None

    server.faults.rule = rule
    with pytest.raises(nb.ConflictError, match="did not say whether") as caught:
        table.append(rows(2))
    assert caught.value.kind == "unknown"
    server.faults.rule = None
    found = nb.connect(bucket).table("a.b")
    assert keys(found) == ([1, 2] if lands else [1])
    found.append(rows(3))
    assert len(keys(found)) == (3 if lands else 2)


def test_requests_time_out(server: Server, bucket: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(object_store._CLIENT, "timeout", "1s")
        object_store._store.cache_clear()
        table = nb.connect(bucket).create_table("a.b", rows(1), primary_key="k")
        for i, answer in enumerate(("drop", "lost drop")):
            failing(server, answer, POINTER, 1)
            table.append(rows(10 + i))
            failing(server, answer, METADATA, 1)
            table.append(rows(20 + i))
    object_store._store.cache_clear()
    assert keys(nb.connect(bucket).table("a.b")) == [1, 10, 11, 20, 21]


def _commit_anyhow(root: str, writer: int, count: int) -> list[int]:
    """Keys that were committed: after an error the caller looks whether its row is there."""
    table = connect(root).table("a.b")
    made = []
    for i in range(count):
        key = writer * 1000 + i
        while True:
            try:
                if table.refresh().get(key) is None:
                    table.append(rows(key))
                break
            except (nb.ConflictError, OSError):
                continue
        made.append(key)
    return made


@pytest.mark.parametrize(
    ("writers", "count"), [(3, 5), pytest.param(6, 20, marks=pytest.mark.slow)]
)
def test_processes_commit_to_a_store_that_fails(
    server: Server, bucket: str, writers: int, count: int
) -> None:
    nb.connect(bucket).create_table("a.b", SCHEMA, primary_key="k")
    chance = random.Random(3)
    server.faults.rule = lambda method, path: (
        chance.choice(ANSWERS) if method == "PUT" and chance.random() < 0.1 else None
    )
    with pool_of(writers) as pool:
        made = pool.starmap(_commit_anyhow, [(bucket, w + 1, count) for w in range(writers)])
    print(f"\n{server.faults.failed} answers injected")
    server.faults.rule = None
    assert keys(nb.connect(bucket).table("a.b")) == sorted(key for part in made for key in part)


# ---------------------------------------------------------------- what a commit costs


def test_requests_of_a_commit(server: Server, bucket: str) -> None:
    table = nb.connect(bucket).create_table("a.b", rows(*range(50)), primary_key="k")

    def cost(change: Callable[..., object], *arguments: Any) -> Counter[str]:
        server.faults.requests.clear()
        change(*arguments)
        asked = [(m, p) for m, p in server.faults.requests if "/data/" not in p]
        assert all(p.startswith(f"/{BUCKET}/") for _, p in asked)
        return Counter("hint" if p.endswith("version-hint.text") else "other" for _, p in asked)

    for i in range(3):
        assert cost(table.append, rows(1000 + i)) == {"other": 5, "hint": 1}
        assert cost(table.upsert, rows(i, 2000 + i, value=1)) == {"other": 6, "hint": 1}
        assert cost(table.refresh) == {"other": 1}
    assert cost(table.tag, "x") == {"other": 3, "hint": 1}


# ---------------------------------------------------------------- stores without conditional puts


@pytest.mark.parametrize("header", ["HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"])
@pytest.mark.parametrize("made", [False, True])
def test_a_store_that_ignores_conditions(
    server: Server, bucket: str, header: str, made: bool
) -> None:
    if made:
        nb.connect(bucket).create_table("a.b", rows(1))
    server.faults.ignored = (header,)
    with pytest.raises(nb.InvalidArgumentError, match=r"no conditional put: it ignores If-"):
        nb.connect(bucket)
    server.faults.ignored = ()
    assert nb.connect(bucket).tables() == (["a.b"] if made else [])


def test_a_store_that_refuses_conditions(server: Server, bucket: str) -> None:
    nb.connect(bucket).create_table("a.b", rows(1))
    server.faults.rule = lambda method, path: "501 Not Implemented" if method == "PUT" else None
    with pytest.raises(nb.InvalidArgumentError, match="no conditional put"):
        nb.connect(bucket)


def test_a_reader_may_not_write(server: Server, bucket: str) -> None:
    nb.connect(bucket).create_table("a.b", rows(1))
    server.faults.rule = lambda method, path: "403 Forbidden" if method == "PUT" else None
    table = nb.connect(bucket).table("a.b")
    assert keys(table) == [1]
    with pytest.raises(PermissionError):
        table.append(rows(2))


def test_properties_of_a_bucket_are_refused(bucket: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="takes no properties"):
        nb.connect(bucket, properties={"s3.region": "x"})
    with pytest.raises(nb.InvalidArgumentError, match="needs a directory"):
        nb.connect("sqlite:///x.db", catalog="files")


# ---------------------------------------------------------------- kills


def _change(root: str, name: str, number: int, ready: Event, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    table = connect(root).table("a.b")
    assert table.num_rows
    ready.set()
    if name == "append":
        table.append(rows(number * 10, number * 10 + 1, value=1))
    elif name == "upsert":
        table.upsert(pa.table({"k": [0, number * 10], "v": [number, 1]}))
    elif name == "delete":
        table.delete("k > 0")
    else:
        table.compact()


def killed(root: str, times: int) -> Counter[str]:
    """Kills processes in their commits: the table is the old or the new one."""
    moments = random.Random(5)
    connect(root).create_table("a.b", rows(0), primary_key="k")
    now = {0: 0}
    seen: Counter[str] = Counter()
    seconds: dict[str, float] = {}  # how long a change takes; the first of each is not killed
    for number in range(1, times + 1):
        name = ("append", "upsert", "append", "compact", "upsert", "delete")[number % 6]
        after = dict(now)
        if name == "append":
            after |= {number * 10: 1, number * 10 + 1: 1}
        elif name == "upsert":
            after |= {0: number, number * 10: 1}
        elif name == "delete":
            after = {0: now[0]}
        ready = CHILDREN.Event()
        child = CHILDREN.Process(target=_change, args=(root, name, number, ready, dict(os.environ)))
        child.start()
        assert ready.wait(60)
        start = time.perf_counter()
        child.join(moments.uniform(0, 1.4 * seconds[name]) if name in seconds else 60)
        if child.is_alive():
            child.kill()
            child.join()
            seconds[name] *= 1.05  # a busy machine must reach the commit too
        else:
            seconds[name] = time.perf_counter() - start
            assert child.exitcode == 0
        table = connect(root).table("a.b")
        found = {row["k"]: row["v"] for row in table.to_table().to_pylist()}
        assert table.num_rows == len(found)
        assert found in (now, after), f"{name} left neither the old table nor the new"
        seen["new" if found == after != now else "old"] += 1
        now = found
        if number % 10 == 0:
            time.sleep(1.1 if "://" in root else 0)
            table.remove_orphans(older_than=NOW)
            assert all(table.census()["reachable"].to_pylist())
            table.expire(keep=5)
    return seen


@pytest.mark.crash
def test_kills(root: str) -> None:
    assert sum(killed(root, 10).values()) == 10


@pytest.mark.crash
@pytest.mark.slow
def test_two_hundred_kills(root: str) -> None:
    seen = killed(root, 200)
    print(f"\n{dict(seen)}")
    assert min(seen["old"], seen["new"]) > 20


# ---------------------------------------------------------------- the lock of a directory


def test_pointers_of_a_directory(tmp_path: Path) -> None:
    pointers = LocalPointers(str(tmp_path / "pointers"))
    assert pointers.read("a/b") is None
    first = pointers.write("a/b", b"1", None)
    with pytest.raises(Lost):
        pointers.write("a/b", b"2", None)
    second = pointers.write("a/b", b"2", first)
    with pytest.raises(Lost):
        pointers.write("a/b", b"3", first)
    with pytest.raises(Lost):
        pointers.drop("a/b", first)
    assert sorted(pointers.names()) == [".lock", "a/b"]
    with pointers.turn():
        pointers.write("a/c", b"x", None)
        LocalPointers(str(tmp_path / "pointers")).write("a/d", b"y", None)  # the turn has ended
    pointers.drop("a/b", second)
    assert pointers.read("a/b") is None


def test_a_killed_process_lets_go_of_the_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time; from nimblepy.table.iceberg.pointers import LocalPointers\n"
        "with LocalPointers(sys.argv[1]).turn():\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        waited = []

        def write() -> None:
            LocalPointers(str(tmp_path)).write("a", b"1", None)
            waited.append(child.poll())

        thread = threading.Thread(target=write)
        thread.start()
        thread.join(0.3)
        assert not waited
        child.kill()
        thread.join(10)
    assert len(waited) == 1


def test_the_pointer_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path, catalog="files")
    lake.create_table("a.b", SCHEMA)
    path = tmp_path / "nimble.catalog" / "a" / "b.table.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "format-version": 2}))
    with pytest.raises(nb.UnsupportedVersionError, match="format version 2"):
        nb.connect(tmp_path).table("a.b")
    for text in ("{", "[]", '{"format-version": 1}'):
        path.write_text(text)
        with pytest.raises(nb.CorruptFileError):
            nb.connect(tmp_path).table("a.b")


# ---------------------------------------------------------------- another server

SECOND_SERVER = shutil.which(os.environ.get("NIMBLEPY_MINISTACK", "ministack"))


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A lake on MiniStack (``pip install ministack``), another implementation of S3 than moto."""
    if SECOND_SERVER is None:
        pytest.skip("ministack is not installed; NIMBLEPY_MINISTACK=PATH names one elsewhere")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {**os.environ, "GATEWAY_PORT": str(port), "EDGE_PORT": str(port), "SERVICES": "s3"}
    url = f"http://127.0.0.1:{port}"
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([SECOND_SERVER], env=environ, stdout=log, stderr=log)
    try:
        for name, value in KEYS.items():
            monkeypatch.setenv(f"AWS_{name.upper()}", value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        deadline = time.monotonic() + 30
        while True:
            try:
                made = urllib.request.Request(f"{url}/second-lake", method="PUT")
                urllib.request.urlopen(made, timeout=5).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        yield "s3://second-lake/lake"
    finally:
        object_store._store.cache_clear()
        process.terminate()
        process.wait(10)


@pytest.mark.slow
@pytest.mark.parametrize(("writers", "count"), [(2, 100), (6, 20)])
def test_many_processes_commit_to_another_server(second: str, writers: int, count: int) -> None:
    print(f"\n{writers} x {count} commits: {raced(second, writers, count)} lost races")


@pytest.mark.slow
@pytest.mark.crash
def test_kills_at_another_server(second: str) -> None:
    assert sum(killed(second, 100).values()) == 100


@pytest.mark.slow
def test_another_server(second: str) -> None:
    test_tables_are_made_listed_registered_and_dropped(second)
    test_everything_works_as_with_a_database(f"{second}-2")
    test_threads_make_and_drop_one_table(f"{second}-3")
    test_a_number_that_is_taken_is_skipped(f"{second}-4")
