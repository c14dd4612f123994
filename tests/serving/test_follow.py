"""Serving manifests on disk, and the commands of the shell."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.error import HTTPError
from urllib.request import urlopen

import pyarrow as pa
import pytest
import redis
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy import _core
from nimblepy.cli.main import app
from nimblepy.serving import follow
from nimblepy.serving.follow import Follower
from nimblepy.serving.manifest_files import CURRENT, last_manifests, read_current, write_manifests
from nimblepy.serving.sources import open_served

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


def make_lake(path: Path) -> nb.Table:
    lake = nb.connect(path, create=True)
    table = lake.create_table("a.t", SCHEMA, primary_key=["id"], cluster_by=["id"])
    table.append(pa.table({"id": [1, 2, 3], "v": ["x", "y", None]}, schema=SCHEMA))
    return table


def opened(directory: Path, name: str = "t") -> _core.ServedTable:
    manifest = (directory / read_current(str(directory))[name]).read_bytes()
    return _core.ServedTable(manifest, _core.ServedFiles(), 10)


def test_follower_writes_a_manifest_for_each_snapshot(tmp_path: Path) -> None:
    table = make_lake(tmp_path / "lake")
    out = tmp_path / "out"
    handles = open_served(tmp_path / "lake", {"t": "a.t", "u": "a.t"})
    follower = Follower(handles, lambda manifests: write_manifests(str(out), manifests))
    follower.poll()
    assert follower.last_error is None
    assert (opened(out).snapshot, opened(out).num_rows) == (table.snapshot, 3)
    before = (out / CURRENT).read_bytes()
    follower.poll()
    assert (out / CURRENT).read_bytes() == before  # nothing changed
    for i in range(4):
        table.upsert(pa.table({"id": [i, 10 + i], "v": ["z", "z"]}, schema=SCHEMA))
        follower.poll()
        assert opened(out).snapshot == opened(out, "u").snapshot == table.snapshot
    assert opened(out).num_rows == table.num_rows
    assert len(os.listdir(out)) == 5  # CURRENT, and two manifests of each name


def test_polls_look_at_tables_only_if_their_catalog_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_SECONDS_BETWEEN_LOOKS", 3600.0)
    looks, moved = [], Follower._moved
    monkeypatch.setattr(
        Follower, "_moved", staticmethod(lambda handle: looks.append(handle) or moved(handle))
    )
    table, published = make_lake(tmp_path / "lake"), []
    follower = Follower(open_served(tmp_path / "lake", {"t": "a.t"}), published.append)
    for number in range(1, 5):
        for _ in range(3):
            follower.poll()
        assert len(looks) == len(published) == number
        table.upsert(pa.table({"id": [number], "v": ["z"]}, schema=SCHEMA))
        time.sleep(0.02)  # longer than the ticks of a file's time
    monkeypatch.setattr(follow, "_SECONDS_BETWEEN_LOOKS", 0.0)
    for _ in range(3):
        follower.poll()
    assert (len(looks), len(published)) == (7, 5)
    follower.close()


def test_failed_poll_keeps_the_state_before(tmp_path: Path) -> None:
    table = make_lake(tmp_path / "lake")
    published = []

    def publish(manifests: dict[str, bytes]) -> None:
        if len(published) == 1:
            published.append({})
            raise OSError("disk full")
        published.append(manifests)

    follower = Follower(open_served(tmp_path / "lake", {"t": "a.t"}), publish)
    follower.poll()
    table.append(pa.table({"id": [7], "v": ["q"]}, schema=SCHEMA))
    follower.poll()
    assert (follower.failures, follower.last_error) == (1, "disk full")
    follower.poll()
    assert follower.last_error is None
    assert len(published[2]["t"]) > len(published[0]["t"])


def test_snapshots_that_name_a_missing_file_are_not_served(tmp_path: Path) -> None:
    table = make_lake(tmp_path / "lake")
    data = tmp_path / "lake"
    directory = str(data / "serve")
    before = set(data.rglob("*.nimble"))
    with (
        nb.serve(data, {"t": "a.t"}, poll=60, manifests=data) as server,
        redis.Redis(port=server.port) as client,
    ):
        old, current = table.snapshot, read_current(directory)
        table.upsert(pa.table({"id": [1, 7], "v": ["new", "new"]}, schema=SCHEMA))
        (path,) = set(data.rglob("data-*.nimble")) - before
        path.rename(tmp_path / "kept")
        for number in range(1, 3):
            server._follower.poll()
            stats = server.stats()
            assert stats["follow_failures"] == number
            assert (
                stats["last_error"] == f"t: {path} is missing; the previous snapshot remains served"
            )
            assert (stats["tables"]["t"]["snapshot"], stats["swaps"]) == (old, 0)
            assert client.hget("t:1", "v") == b"x"
            assert client.exists("t:7") == 0
        assert read_current(directory) == current
    done = CliRunner().invoke(app, ["follow", str(data), "--table", "a.t=t", "--once"])
    assert done.exit_code != 0
    assert "is missing; the previous snapshot" in " ".join(done.output.split())
    assert read_current(directory) == current
    with (
        nb.serve(data, {"t": "a.t"}, poll=60, manifests=data) as server,
        redis.Redis(port=server.port) as client,
    ):  # it starts from the last manifest
        server._follower.poll()
        assert server.stats()["tables"]["t"]["snapshot"] == old
        assert path.name in str(server.stats()["last_error"])
        assert client.hget("t:1", "v") == b"x"
        (tmp_path / "kept").rename(path)
        server._follower.poll()
        assert server.stats()["last_error"] is None
        assert client.hmget("t:7", "v", "id") == [b"new", b"7"]
        # A served file that is removed is still mapped, and newer snapshots are served.
        path.unlink()
        table.append([{"id": 8, "v": "newest"}])
        server._follower.poll()
        assert server.stats()["last_error"] is None
        assert client.hget("t:7", "v") == b"new"
        assert client.hget("t:8", "v") == b"newest"


def test_missing_file_is_gone_and_damage_is_corrupt(tmp_path: Path) -> None:
    for name in ("a", "b"):
        rows = pa.table({"k": list(range(50))})
        nb.write(rows, tmp_path / f"{name}.nimble", cluster_by=["k"])
        with (
            nb.serve(tmp_path / f"{name}.nimble", poll=60) as server,
            redis.Redis(port=server.port) as client,
        ):
            assert client.hget(f"{name}:7", "k") == b"7"
            os.unlink(tmp_path / f"{name}.nimble")
            assert client.hget(f"{name}:8", "k") == b"8"  # it is still mapped
    table = make_lake(tmp_path / "lake")
    handles = open_served(tmp_path / "lake", {"t": "a.t"})
    manifests: dict[str, bytes] = {}
    Follower(handles, manifests.update).poll()
    (path,) = (tmp_path / "lake").rglob("*.nimble")
    content = path.read_bytes()
    for damaged, code in ((b"", "GONE"), (content[:-1], "CORRUPT")):
        path.unlink(missing_ok=True)
        if damaged:
            path.write_bytes(damaged)
        served = {"t": _core.ServedTable(manifests["t"], _core.ServedFiles(), 0)}
        server = _core.Server(
            tables=served, unix="", host="127.0.0.1", port=0, token="", page_secret=b"x",
            max_keys=10, max_rows=10, max_reply_bytes=10000, max_clients=10, idle_seconds=0,
            threads=1, allow_raw=True,
        )  # fmt: skip
        with redis.Redis(port=server.port) as client:
            with pytest.raises(redis.ResponseError, match=code):
                client.hgetall("t:1")
            assert client.ping()
        server.stop(1.0)
    assert table.num_rows == 3


def test_commands_of_the_shell(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    run = CliRunner().invoke
    done = run(app, ["follow", str(tmp_path / "lake"), "--table", "a.t=t", "--once"])
    assert done.exit_code == 0, done.output
    assert opened(tmp_path / "lake" / "serve").num_rows == 3
    wrong = run(app, ["serve", str(tmp_path / "lake")])
    assert wrong.exit_code == 2
    assert "pass --table" in wrong.output
    path = tmp_path / "s.sock"
    token = tmp_path / "token"
    token.write_text("secret\n")
    serve = [sys.executable, "-m", "nimblepy", "serve", str(tmp_path / "lake")]
    serve += ["--table", "a.t=t", "--unix", str(path), "--token-file", str(token)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"serving t at nimble+unix://{path}\n"
        with redis.Redis(unix_socket_path=str(path), password="secret") as client:
            assert client.hgetall("t:1") == {b"id": b"1", b"v": b"x"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert not path.exists()


def start(lake: Path, socket: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nimblepy", "serve", str(lake), "--table", "a.t=t"]
    process = subprocess.Popen([*command, "--unix", str(socket)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == f"serving t at nimble+unix://{socket}\n"
    return process


def test_killed_server_starts_from_its_last_manifests(tmp_path: Path) -> None:
    lake, socket = tmp_path / "lake", tmp_path / "s.sock"
    table = make_lake(lake)
    for number in range(2):
        with start(lake, socket) as process, redis.Redis(unix_socket_path=str(socket)) as client:
            try:
                assert client.hgetall("t:1") == {b"id": b"1", b"v": b"x"}
                # The follower has opened the catalog and writes what it finds.
                table.upsert(pa.table({"id": [50 + number], "v": ["new"]}, schema=SCHEMA))
                while client.hget(f"t:{50 + number}", "v") != b"new":
                    time.sleep(0.02)
                while opened(lake / "serve").snapshot != table.snapshot:
                    time.sleep(0.02)
            finally:
                process.kill()
                process.wait()
    assert not [name for name in os.listdir(lake / "serve") if name.startswith(".tmp")]


def test_last_manifests_are_served_before_the_catalog_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    table = make_lake(lake)
    names = {"t": "a.t"}
    with nb.serve(lake, names, manifests=lake) as server:
        assert server.stats()["tables"]["t"]["snapshot"] == table.snapshot
    old = table.snapshot
    table.append(pa.table({"id": [9], "v": ["q"]}, schema=SCHEMA))
    may_open = threading.Event()

    def open_later(*arguments: Any) -> Any:
        assert may_open.wait(60)
        return open_served(*arguments)

    monkeypatch.setattr("nimblepy.serving.sources.open_served", open_later)
    with (
        nb.serve(lake, names, manifests=lake, poll=0.01) as server,
        redis.Redis(port=server.port) as client,
    ):
        assert client.hget("t:1", "v") == b"x"
        assert server.stats()["tables"]["t"]["snapshot"] == old
        assert not server.is_ready()
        may_open.set()
        while client.hget("t:9", "v") != b"q":
            time.sleep(0.01)
        while not server.is_ready():
            time.sleep(0.01)
    # Manifests of another table, or with files of another lake, are not served.
    (path,) = (lake / "serve").glob(read_current(str(lake / "serve"))["t"])
    assert last_manifests(str(lake), names) == {"t": path.read_bytes()}
    assert last_manifests(str(lake), {"t": "a.u"}) == {}
    assert last_manifests(str(lake), {"t": "a.t", "u": "a.t"}) == {}
    shutil.copytree(lake, tmp_path / "copy")
    assert last_manifests(str(tmp_path / "copy"), names) == {}
    path.write_bytes(path.read_bytes()[:-1])
    assert last_manifests(str(lake), names) == {}


def test_two_writers_of_manifests_keep_all_lines(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    manifests: dict[str, bytes] = {}
    Follower(open_served(tmp_path / "lake", {"t": "a.t"}), manifests.update).poll()
    out = str(tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".tmp-left").write_bytes(b"")

    def write(name: str) -> None:
        for _ in range(10):
            write_manifests(out, {name: manifests["t"]})

    threads = [threading.Thread(target=write, args=(f"n{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_current(out)) == ["n0", "n1", "n2", "n3"]
    assert len(os.listdir(out)) == 9  # CURRENT, and two manifests of each name


def test_a_dropped_table_is_not_served(tmp_path: Path) -> None:
    # The server answered from the files of the dropped table until it stopped.
    table = make_lake(tmp_path / "lake")
    lake = nb.connect(tmp_path / "lake")
    directory = str(tmp_path / "lake" / "serve")
    with (
        nb.serve(lake, {"t": "a.t"}, poll=60, manifests=tmp_path / "lake") as server,
        redis.Redis(port=server.port) as client,
    ):
        assert client.hget("t:1", "v") == b"x"
        lake.drop_table("a.t")
        for _ in range(2):
            server._follower.poll()
            assert "a.t: the table was dropped" in str(server.stats()["last_error"])
            assert client.hget("t:1", "v") is None  # as for any name without a table
            with pytest.raises(redis.ResponseError, match="NOTABLE"):
                client.execute_command("NB.META", "t")
        assert read_current(directory) == {}
        lake.create_table("a.t", SCHEMA, primary_key=["id"]).append([{"id": 1, "v": "new"}])
        server._follower.poll()
        assert server.stats()["last_error"] is None
        assert client.hget("t:1", "v") == b"new"
        lake.drop_table("a.t")
        lake.create_table("a.t", SCHEMA, primary_key=["id"]).append([{"id": 1, "v": "newer"}])
        server._follower.poll()  # this poll takes the new table
        assert client.hget("t:1", "v") == b"newer"
        assert list(read_current(directory)) == ["t"]
    assert table.get(1) == {"id": 1, "v": "x"}


def test_a_table_that_was_dropped_while_no_server_ran(tmp_path: Path) -> None:
    # After a quick start, the dropped table was served, and the other one did not move any more.
    make_lake(tmp_path / "lake")
    lake = nb.connect(tmp_path / "lake")
    other = lake.create_table("a.u", SCHEMA, primary_key=["id"])
    other.append([{"id": 1, "v": "x"}])

    def serve() -> Any:
        names = {"t": "a.t", "u": "a.u"}
        return nb.serve(lake, names, poll=60, manifests=tmp_path / "lake")

    with serve() as server:
        server._follower.poll()
    lake.drop_table("a.t")
    other.append([{"id": 2, "v": "y"}])
    with serve() as server, redis.Redis(port=server.port) as client:
        assert client.hget("t:1", "v") == b"x"  # of the last manifest
        for _ in range(2):
            server._follower.poll()
            assert server.stats()["last_error"] == "no such table: t"
            assert client.hget("t:1", "v") is None
            assert client.hget("u:2", "v") == b"y"
        lake.create_table("a.t", SCHEMA, primary_key=["id"]).append([{"id": 1, "v": "new"}])
        server._follower.poll()
        assert server.stats()["last_error"] is None
        assert client.hget("t:1", "v") == b"new"


def test_readiness_follows_the_last_successful_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_lake(tmp_path / "lake")
    with nb.serve(tmp_path / "lake", {"t": "a.t"}, poll=60, http="127.0.0.1:0") as server:

        def page(name: str) -> tuple[int, bytes]:
            try:
                with urlopen(f"http://127.0.0.1:{server.http_port}/{name}") as answer:
                    return answer.status, answer.read()
            except HTTPError as error:
                with error:
                    return error.code, error.read()

        follower = server._follower
        limit = 20 * 60.0
        with monkeypatch.context() as patch:
            patch.setattr(follow, "_SECONDS_BETWEEN_LOOKS", 0.0)
            patch.setattr(follower, "_moved", Mock(side_effect=OSError("the disk is gone")))
            follower.poll()
            assert page("readyz") == (200, b"ready\n")  # the limit is not reached
            follower.checked_at -= limit
            follower.poll()
            assert page("readyz") == (503, b"not ready: t: the disk is gone\n")
            assert page("healthz")[0] == 200
            lines = dict(line.rsplit(" ", 1) for line in page("metrics")[1].decode().splitlines())
            assert float(lines["nimble_seconds_behind"]) >= limit
            assert lines["nimble_follow_failures_total"] == "2"
            with redis.Redis(port=server.port) as client:
                assert client.hget("t:1", "v") == b"x"
        follower.poll()
        assert page("readyz") == (200, b"ready\n")


@pytest.mark.crash
@pytest.mark.no_sanitizer
def test_a_follower_goes_on_after_one_that_was_killed(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    table = make_lake(lake)
    command = [sys.executable, "-m", "nimblepy", "follow", str(lake), "--table", "a.t=t"]
    for number in range(2):
        process = subprocess.Popen([*command, "--poll", "0.01"], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("serving manifests are in")
            assert opened(lake / "serve").snapshot == table.snapshot
            table.append([{"id": 10 + number, "v": "new"}])
            deadline = time.monotonic() + 20
            while opened(lake / "serve").snapshot != table.snapshot:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            process.kill()
            process.communicate()
        last = table.snapshot
        table.append([{"id": 20 + number, "v": "newer"}])
        assert opened(lake / "serve").snapshot == last
    assert opened(lake / "serve").num_rows == 5 + 1


_DIES_BEFORE_ITS_COMMIT = """
import os, signal, sys
import nimblepy as nb
from nimblepy.table.testing import commit_hooks
table = nb.connect(sys.argv[1]).table("a.t")
with commit_hooks(before_swap=lambda: os.kill(os.getpid(), signal.SIGKILL)):
    table.upsert([{"id": 1, "v": "lost"}, {"id": 99, "v": "lost"}])
"""


@pytest.mark.crash
@pytest.mark.no_sanitizer
def test_rows_of_a_writer_that_was_killed_are_never_served(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    table = make_lake(lake)
    with (
        nb.serve(lake, {"t": "a.t"}, poll=60) as server,
        nb.connect(server.address) as served,
    ):
        remote, before = served.table("t"), table.range()
        files = set(lake.rglob("data-*.nimble"))
        done = subprocess.run([sys.executable, "-c", _DIES_BEFORE_ITS_COMMIT, str(lake)])
        assert done.returncode == -signal.SIGKILL
        assert len(set(lake.rglob("data-*.nimble")) - files) == 1  # the rows were written
        server._follower.poll()
        stats = server.stats()
        assert (stats["last_error"], stats["swaps"]) == (None, 0)
        assert remote.range().equals(before)
        assert remote.get(99) is None
        table.upsert([{"id": 99, "v": "kept"}])
        server._follower.poll()
        assert remote.get(99) == {"id": 99, "v": "kept"}
        assert remote.get(1) == {"id": 1, "v": "x"}
