"""Starts the servers, and sends them commands."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from nimblepy.serving.module import module_path


class Peer:
    """A server, and one connection to it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], path: str) -> None:
        self.name = name
        self.process = process
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def cpu(self) -> int:
        """Nanoseconds of CPU of all threads that exist."""
        root = Path(f"/proc/{self.process.pid}/task")
        return sum(int((t / "schedstat").read_text().split()[0]) for t in root.iterdir())

    def private_bytes(self) -> int:
        """Memory that only this process has. Pages of mapped files are the system's cache."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        lines = dict(line.split(":", 1) for line in text.splitlines()[1:])
        return int(lines["Private_Dirty"].split()[0]) << 10

    def ask(self, request: bytes, size: int) -> None:
        """Sends a request, and reads a reply of `size` bytes."""
        self.socket.sendall(request)
        while size > 0:
            size -= len(self.socket.recv(min(size, 1 << 20)))

    def ask_all(self, commands: list[bytes]) -> None:
        """Sends commands with replies of one line."""
        self.socket.sendall(b"".join(commands))
        left = len(commands)
        while left > 0:
            left -= self.socket.recv(1 << 16).count(b"\r\n")

    def exists(self, key: str) -> bool:
        self.socket.sendall(command("EXISTS", key))
        return self.socket.recv(100) == b":1\r\n"

    def reply(self, request: bytes) -> bytes:
        """The replies to all commands of a request."""
        left = count_values(request)
        self.socket.sendall(request)
        received, at = b"", 0
        while left > 0:
            received += self.socket.recv(1 << 20)
            while left > 0 and (end := end_of_value(received, at)) is not None:
                at, left = end, left - 1
        return received


def end_of_value(data: bytes, at: int) -> int | None:
    """Where a value of RESP ends that begins at a byte; ``None`` if it is incomplete."""
    values = 1
    while values > 0:
        line = data.find(b"\r\n", at)
        if line < 0:
            return None
        kind, size = data[at : at + 1], data[at + 1 : line]
        at = line + 2
        values -= 1
        if kind in (b"*", b"%"):
            values += int(size) * (2 if kind == b"%" else 1)
        elif kind == b"$" and size != b"-1":
            at += int(size) + 2
    return at if at <= len(data) else None


def count_values(data: bytes) -> int:
    count, at = 0, 0
    while at < len(data):
        end = end_of_value(data, at)
        assert end is not None
        count, at = count + 1, end
    return count


def command(*arguments: str | int) -> bytes:
    parts = [str(a).encode() for a in arguments]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


def redis_program() -> str:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise SystemExit("bench.serve: install redis-server or valkey-server")
    return program


def redis_version() -> str:
    done = subprocess.run(
        [redis_program(), "--version"], capture_output=True, text=True, check=True
    )
    return " ".join(done.stdout.split()[:3])


def redis_command(directory: str, path: str) -> list[str]:
    return [
        redis_program(), "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
        "--dir", directory,
    ]  # fmt: skip


@contextmanager
def redis_peer(directory: str, tables: dict[str, pa.Table]) -> Iterator[Peer]:
    path = f"{directory}/redis.sock"
    with subprocess.Popen(redis_command(directory, path), stdout=subprocess.DEVNULL) as p:
        try:
            while not os.path.exists(path):
                time.sleep(0.05)
            peer = Peer("redis", p, path)
            for name, rows in tables.items():
                for batch in rows.to_batches(max_chunksize=1000):
                    sent = [
                        command("HSET", f"{name}:{row['id']}", *(t for f in shown(row) for t in f))
                        for row in batch.to_pylist()
                    ]
                    peer.ask_all(sent)
            yield peer
        finally:
            p.terminate()


def shown(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts that `nimble serve` answers."""
    for name, value in row.items():
        if isinstance(value, bool):
            yield name, "true" if value else "false"
        elif hasattr(value, "isoformat"):
            yield name, value.isoformat(timespec="microseconds")
        else:
            yield name, str(value)


@contextmanager
def nimble_peer(directory: str, tables: list[str]) -> Iterator[tuple[Peer, float]]:
    """A server of the lake, and the seconds from its start to its first answer."""
    path = f"{directory}/nimble.sock"
    named = [word for t in tables for word in ("--table", f"bench.{t}={t}")]
    call = [sys.executable, "-m", "nimblepy", "serve", f"{directory}/lake", *named, "--unix", path]
    with _started("nimble", call, path, tables[0]) as started:
        yield started


@contextmanager
def module_peer(directory: str, tables: list[str]) -> Iterator[tuple[Peer, float]]:
    """Redis with the module, and the seconds from its start to its first answer.

    It reads the manifests that a server of the lake wrote.
    """
    path = f"{directory}/module.sock"
    named = [word for t in tables for word in ("table", f"bench.{t}={t}")]
    options = ["--loadmodule", module_path(), "lake", f"{directory}/lake", *named]
    call = [*redis_command(directory, path), *options]
    with _started("module", call, path, tables[0]) as started:
        yield started


@contextmanager
def _started(name: str, call: list[str], path: str, table: str) -> Iterator[tuple[Peer, float]]:
    if os.path.exists(path):  # of a server that was killed
        os.unlink(path)
    start = time.perf_counter()
    with subprocess.Popen(call, stdout=subprocess.DEVNULL) as p:
        try:
            peer = None
            while peer is None:
                try:
                    peer = Peer(name, p, path)
                except (FileNotFoundError, ConnectionRefusedError):
                    time.sleep(0.002)
            if not peer.exists(f"{table}:1"):
                raise SystemExit(f"bench.serve: {name} does not have {table}:1")
            yield peer, time.perf_counter() - start
        finally:
            p.terminate()
