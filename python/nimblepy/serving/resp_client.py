"""A small client for the Redis protocol: one connection, one command at a time."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from nimblepy.errors import (
    CorruptFileError,
    IndexUnavailableError,
    InvalidArgumentError,
    StaleFileError,
)
from nimblepy.io.fork import ForkLock

# A longer reply is not from a server of nimblepy.
_MOST_BYTES = 1 << 31
_MOST_DEPTH = 8


class ReplyTooLargeError(InvalidArgumentError):
    """A command has more keys, rows or bytes than the server allows for one command."""


class Connection:
    """A connection to a server. Thread-safe: one thread at a time uses it.

    It connects for the first command, and again after a failure. If the connection fails during a
    command, the command is sent once more. This is safe because commands only read.

    Args:
        address: ``nimble://HOST:PORT`` or ``nimble+unix:///PATH``.
        timeout: seconds to wait for the server; ``None`` means no limit.

    Raises:
        InvalidArgumentError: ``address`` is not a valid address.
    """

    def __init__(self, address: str, token: str | None, timeout: float | None) -> None:
        self._socket: socket.socket | None = None
        self.address = address
        self._token = token
        self._timeout = timeout
        self._lock = ForkLock()
        self._reader: Any = None
        self._process = 0
        self._place: str | tuple[str, int] = _place(address)

    def ask(self, *arguments: str | bytes | int) -> Any:
        """Sends a command and returns the reply.

        Raises:
            OSError: the server cannot be reached.
            InvalidArgumentError, IndexUnavailableError, CorruptFileError, StaleFileError: the
                server answered with an error.
        """
        parts = [a if isinstance(a, bytes) else str(a).encode() for a in arguments]
        sent = _command(parts)
        with self._lock:
            for attempt in (0, 1):
                is_new = self._socket is None or self._process != os.getpid()
                try:
                    self._connect()
                    assert self._socket is not None
                    self._socket.sendall(sent)
                    reply = self._read(0)
                    break
                except TimeoutError:
                    self._drop()
                    raise TimeoutError(
                        f"{self.address}: no answer within {self._timeout} s"
                    ) from None
                except (PermissionError, InvalidArgumentError):  # the token was refused
                    self._drop()
                    raise
                except (OSError, EOFError) as error:
                    self._drop()
                    if is_new or attempt:
                        raise ConnectionError(f"{self.address}: {error}") from error
                except BaseException:
                    # Otherwise the unread reply would be taken for the reply to the next command.
                    self._drop()
                    raise
        if isinstance(reply, _Failure):
            raise _error_of(reply.message)
        return reply

    def close(self) -> None:
        """Closes the connection. A later command connects again."""
        with self._lock:
            self._drop()

    def __del__(self) -> None:
        # Like a local table, a handle closes its connection when it is garbage collected.
        if self._socket is not None:
            self._drop()

    def _connect(self) -> None:
        """Connects, unless this process is already connected."""
        if self._process != os.getpid():  # the socket belongs to the parent process
            self._socket = self._reader = None
        if self._socket is not None:
            return
        if isinstance(self._place, str):
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(self._timeout)
            try:
                made.connect(self._place)
            except BaseException:
                made.close()
                raise
        else:
            made = socket.create_connection(self._place, self._timeout)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket, self._reader = made, made.makefile("rb")
        self._process = os.getpid()
        if self._token is not None:
            self._socket.sendall(_command([b"AUTH", self._token.encode()]))
            reply = self._read(0)
            if isinstance(reply, _Failure):
                raise _error_of(reply.message)

    def _drop(self) -> None:
        if self._socket is not None and self._process == os.getpid():
            self._reader.close()
            self._socket.close()
        self._socket = self._reader = None

    def _line(self) -> bytes:
        line: bytes = self._reader.readline(1 << 16)
        if not line.endswith(b"\r\n"):
            raise EOFError("the server closed the connection")
        return line[:-2]

    def _read(self, depth: int) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return _Failure(rest.decode(errors="replace"))
        number = int(rest) if rest.removeprefix(b"-").isdigit() else None
        if kind == b":" and number is not None:
            return number
        if number is None or number > _MOST_BYTES or depth > _MOST_DEPTH:
            raise EOFError(f"not a reply of a server: {line[:50]!r}")
        if kind == b"$":
            if number < 0:
                return None
            content = self._reader.read(number + 2)
            if len(content) != number + 2:
                raise EOFError("the server closed the connection within a reply")
            return content[:-2]
        if kind == b"*":
            return None if number < 0 else [self._read(depth + 1) for _ in range(number)]
        raise EOFError(f"not a reply of a server: {line[:50]!r}")


class _Failure:
    def __init__(self, message: str) -> None:
        self.message = message


def _command(parts: Sequence[bytes]) -> bytes:
    pieces = [b"*%d\r\n" % len(parts)]
    pieces += [b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]
    return b"".join(pieces)


def _error_of(message: str) -> Exception:
    code, _, text = message.partition(" ")
    if code == "CORRUPT":
        return CorruptFileError(text)
    if code == "GONE":
        return StaleFileError(text)
    if code in ("NOAUTH", "WRONGPASS"):
        return PermissionError(
            f"the server needs a token, and this one is wrong or missing: {text}"
        )
    if code == "TOOBIG":
        return ReplyTooLargeError(message)
    if code == "BUSY":
        return TimeoutError(text)
    if "no primary key" in text or "no cluster key" in text:
        return IndexUnavailableError(text)
    return InvalidArgumentError(text if code == "ERR" else message)


def _place(address: str) -> str | tuple[str, int]:
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme == "nimble+unix" and parts.path and not parts.netloc:
        return parts.path
    if parts.scheme == "nimble" and parts.hostname and port and parts.path in ("", "/"):
        return parts.hostname, port
    raise InvalidArgumentError(
        f"{address!r}: expected nimble://HOST:PORT or nimble+unix:///PATH/OF/SOCKET"
    )
