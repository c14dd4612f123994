"""New snapshots and dying servers under load."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis

import nimblepy as nb

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("v", pa.int64()), ("w", pa.int64())]
)
ROWS = 1500


def state(version: int) -> pa.Table:
    """Every row has the version, and ``w`` depends on it and on the row."""
    values = {
        "id": range(ROWS),
        "v": [version] * ROWS,
        "w": [version * 7 + i for i in range(ROWS)],
    }
    return pa.table(values, schema=SCHEMA)


def version_of(rows: pa.Table) -> int:
    """The version of rows. They must be whole and of one snapshot."""
    (version,) = set(rows["v"].to_pylist())
    expected = [version * 7 + i for i in rows["id"].to_pylist()]
    assert rows["w"].to_pylist() == expected
    return int(version)


@pytest.mark.parametrize(
    ("clients", "snapshots"), [(4, 12), pytest.param(8, 200, marks=pytest.mark.slow)]
)
def test_replies_are_of_one_snapshot_and_never_older(
    tmp_path: Path, clients: int, snapshots: int
) -> None:
    lake = nb.connect(tmp_path / "lake", create=True)
    table = lake.create_table("a.t", SCHEMA, primary_key=["id"], cluster_by=["id"])
    table.append(state(0))
    done = threading.Event()
    problems: list[BaseException] = []

    def use(number: int, address: str, port: int) -> None:
        try:
            with nb.connect(address) as served, redis.Redis(port=port) as client:
                remote = served.table("t")
                reads = [
                    lambda: remote.range(),
                    lambda: remote.range(accept="raw"),
                    lambda: remote.lookup(range(0, ROWS, 7)),
                    lambda: remote.range(limit=200, reverse=True),
                    lambda: remote.page(lower=100, limit=700).rows,
                ]
                seen, turn = 0, number
                while not done.is_set():
                    version = version_of(reads[turn % len(reads)]())
                    assert version >= seen
                    one = client.hgetall(f"t:{turn % ROWS}")
                    assert int(one[b"w"]) == int(one[b"v"]) * 7 + turn % ROWS
                    assert int(one[b"v"]) >= version
                    seen, turn = int(one[b"v"]), turn + 1
        except BaseException as error:
            problems.append(error)
            done.set()

    with nb.serve(lake, {"t": "a.t"}, poll=0.01, port=0, threads=2) as server:
        threads = [
            threading.Thread(target=use, args=(i, server.address, server.port))
            for i in range(clients)
        ]
        for thread in threads:
            thread.start()
        for version in range(1, snapshots + 1):
            table.upsert(state(version))
            if version % 20 == 0:
                table.compact()
        while not done.is_set() and server.stats()["tables"]["t"]["snapshot"] != table.snapshot:
            time.sleep(0.01)
        time.sleep(0.2)
        done.set()
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]


def test_killed_server_gives_errors_and_no_short_replies(tmp_path: Path) -> None:
    path, socket = tmp_path / "t.nimble", tmp_path / "s.sock"
    nb.write(state(3), path, cluster_by=["id"])
    command = [sys.executable, "-m", "nimblepy", "serve", str(path), "--as", "t"]
    counts: list[int] = []
    for attempt in range(2):
        process = subprocess.Popen(
            [*command, "--unix", str(socket)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving t")
        remote = nb.connect(f"nimble+unix://{socket}", timeout=30).table("t")

        def use(remote: Any = remote, attempt: int = attempt) -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    rows = remote.range(accept="raw" if attempt else "arrow")
                    assert version_of(rows) == 3
                    counts.append(rows.num_rows)

        threads = [threading.Thread(target=use) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert set(counts) == {ROWS}
