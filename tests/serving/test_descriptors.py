"""A server with few file descriptors: clients cannot keep it from following new snapshots."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import redis

import nimblepy as nb
from nimblepy.serving.server import _allow_descriptors

_SERVE = """
import logging, resource, sys
logging.basicConfig(level=logging.WARNING)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
import nimblepy as nb
server = nb.serve(sys.argv[1], {"t": "a.t"}, http="127.0.0.1:0", poll=0.02)
print(server.port, server.http_port, resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
sys.stdin.read()
server.stop()
"""


def test_idle_clients_leave_descriptors_for_new_snapshots(tmp_path: Path) -> None:
    table = nb.connect(tmp_path).create_table("a.t", {"id": [1], "n": [0]}, primary_key="id")
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    clients: list[socket.socket] = []
    try:
        assert process.stdout is not None
        port, http_port, limit = map(int, process.stdout.readline().split())
        assert limit == 128  # raised to the hard limit
        with redis.Redis(port=port, socket_timeout=10) as first:
            assert first.hget("t:1", "n") == b"0"
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
            replies = [_reply(client) for client in clients]
            assert replies.count(b"+PONG\r\n") >= 40
            rejected = [reply for reply in replies if reply != b"+PONG\r\n"]
            assert rejected
            assert all(reply.startswith(b"-BUSY") for reply in rejected if reply)
            assert any(rejected)
            for n in range(1, 4):
                table.upsert([{"id": 1, "n": n}])
                deadline = time.monotonic() + 20
                while first.hget("t:1", "n") != str(n).encode():
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
            with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics") as page:
                assert f"nimble_rejected_total {len(rejected)}\n" in page.read().decode()
            with pytest.raises(TimeoutError, match="ulimit -n"):
                nb.connect(f"nimble://127.0.0.1:{port}", timeout=10).tables()
            for client in clients:
                client.close()
            deadline = time.monotonic() + 20
            while True:
                try:
                    with nb.connect(f"nimble://127.0.0.1:{port}", timeout=10) as lake:
                        assert lake.tables() == ["t"]
                    break
                except TimeoutError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
    finally:
        for client in clients:
            client.close()
        _, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    assert log.count("clients are rejected") == 1


def _reply(client: socket.socket) -> bytes:
    client.settimeout(10)
    try:
        client.sendall(b"PING\r\n")
        return client.recv(200)
    except ConnectionError:  # the server closed it before it read
        return b""


def test_the_limit_is_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    _allow_descriptors(1)
    after = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert after[0] >= before[0]
    assert after[1] == before[1]
