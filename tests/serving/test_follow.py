"""Serving manifests on disk, and the commands of the shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import redis
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy import _core
from nimblepy.cli.main import app
from nimblepy.serving.follow import CURRENT, Follower, open_served, read_current, write_manifests

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
            threads=1,
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
    assert "give --table" in wrong.output
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
