"""A small client for the Redis protocol."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from nimblepy.errors import (
    CorruptFileError,
    IndexUnavailableError,
    InvalidArgumentError,
    ReplyTooLargeError,
    StaleFileError,
)
from nimblepy.io.fork import ForkLock

# A longer reply is not from a server of nimblepy.
_MOST_BYTES = 1 << 31
_MOST_DEPTH = 8
# Connections that are kept while no command uses them.
_MOST_FREE = 32
# After these errors, the server closes the connection.
_TOO_MANY_WORDS = "ERR Protocol error: invalid multibulk length"
_TOO_MANY_CLIENTS = "ERR max number of clients reached"
_LAST_WORDS = ("ERR Protocol error", _TOO_MANY_CLIENTS, "BUSY the server has too few")


class NoTableError(InvalidArgumentError):
    """The server has no table of this name."""


class VersionChangedError(StaleFileError):
    """The table has another version than a command requires. The next attempt may succeed."""


def checked_token(token: str | None) -> str | None:
    """Returns the token.

    Raises:
        InvalidArgumentError: it is empty, or is not a ``str``.
    """
    if token is not None and not isinstance(token, str):
        raise InvalidArgumentError(f"token: expected a str, got {type(token).__name__}")
    if token is not None and not token:
        raise InvalidArgumentError("token: it is empty")
    return token


class Connection:
    """Connections to a server. Thread-safe: each command has a connection of its own.

    It connects when a command finds no free connection. If a connection that was used before fails
    during a command, the command is sent once more on a new one. This is safe because commands only
    read.

    Args:
        address: ``nimble://HOST:PORT`` or ``nimble+unix:///PATH``.
        timeout: seconds to wait for the server; ``None`` means no limit.

    Raises:
        InvalidArgumentError: ``address`` is not a valid address.
    """

    def __init__(self, address: str, token: str | None, timeout: float | None) -> None:
        self._free: list[_Socket] = []
        self.address = address
        self._token = checked_token(token)
        self._timeout = timeout
        self._lock = ForkLock()
        self._process = os.getpid()
        self._place: str | tuple[str, int] = _place(address)

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        return isinstance(self._place, str) or _is_loopback(self._place[0])

    def ask(self, *arguments: str | bytes | int) -> Any:
        """Sends a command and returns the reply.

        Raises:
            OSError: the server cannot be reached.
            InvalidArgumentError, IndexUnavailableError, CorruptFileError, StaleFileError,
                ReplyTooLargeError: the server answered with an error.
        """
        parts = [a if isinstance(a, bytes) else str(a).encode() for a in arguments]
        sent = _command(parts)
        used = self._take()
        try:
            reply = self._ask(used, sent)
        except (BrokenPipeError, ConnectionError, EOFError) as error:
            if used is None:
                raise ConnectionError(f"{self.address}: {error}") from error
            self.close()  # the others are probably broken too
            try:
                reply = self._ask(None, sent)
            except (ConnectionError, EOFError) as again:
                raise ConnectionError(f"{self.address}: {again}") from again
        if isinstance(reply, _Failure):
            raise self._error_of(reply.message)
        return reply

    def _error_of(self, message: str) -> Exception:
        if message.startswith(_TOO_MANY_CLIENTS):
            return ConnectionError(f"{self.address}: {message.removeprefix('ERR ')}")
        return _error_of(message)

    def _ask(self, used: _Socket | None, sent: bytes) -> Any:
        """Asks on this connection, or on a new one. Keeps it only if the reply was read."""
        connection = used
        try:
            if connection is None:
                connection = self._connected()
            reply = connection.ask(sent)
        except BaseException as error:
            # Otherwise an unread reply would be taken for the reply to the next command.
            if connection is not None:
                connection.close()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"{self.address}: no answer within {self._timeout} s") from None
            if isinstance(error, (PermissionError, InvalidArgumentError, ConnectionError)):
                raise
            if isinstance(error, OSError):
                raise ConnectionError(str(error)) from error
            raise
        if isinstance(reply, _Failure) and reply.message.startswith(_LAST_WORDS):
            connection.close()
        else:
            self._give_back(connection)
        return reply

    def close(self) -> None:
        """Closes the free connections. A later command connects again."""
        with self._lock.native:
            free, self._free = self._free, []
            is_mine = self._process == os.getpid()
            self._process = os.getpid()
        for connection in free:
            connection.close(is_mine=is_mine)

    def __del__(self) -> None:
        # Like a local table, a handle closes its connections when it is garbage collected.
        for connection in self._free:
            connection.close(is_mine=self._process == os.getpid())

    def _take(self) -> _Socket | None:
        if self._process != os.getpid():  # the connections belong to the parent process
            self.close()
        with self._lock.native:
            return self._free.pop() if self._free else None

    def _give_back(self, connection: _Socket) -> None:
        with self._lock.native:
            if len(self._free) < _MOST_FREE:
                self._free.append(connection)
                return
        connection.close()

    def _connected(self) -> _Socket:
        made = _Socket(self._place, self._timeout)
        if self._token is not None:
            try:
                reply = made.ask(_command([b"AUTH", self._token.encode()]))
            except BaseException:
                made.close()
                raise
            if isinstance(reply, _Failure):
                made.close()
                raise self._error_of(reply.message)
        return made


class _Socket:
    """One connection. Not thread-safe."""

    def __init__(self, place: str | tuple[str, int], timeout: float | None) -> None:
        if isinstance(place, str):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(timeout)
            try:
                self._socket.connect(place)
            except BaseException:
                self._socket.close()
                raise
        else:
            self._socket = socket.create_connection(place, timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")

    def ask(self, sent: bytes) -> Any:
        """Sends a command and returns the reply, which may be a failure."""
        try:
            self._socket.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):
            # A server may refuse a command and close the connection before it has read all of it.
            with suppress(OSError, EOFError):
                return self._read(0)
            raise
        return self._read(0)

    def close(self, *, is_mine: bool = True) -> None:
        """Closes the connection, unless it belongs to the parent process."""
        if is_mine:
            self._reader.close()
            self._socket.close()

    def _line(self) -> bytes:
        line: bytes = self._reader.readline(1 << 16)
        if not line.endswith(b"\r\n"):
            raise EOFError("the server closed the connection")
        return line[:-2]

    def _read(self, depth: int) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode(errors="replace")
        if kind == b"-":
            return _Failure(rest.decode(errors="replace"))
        is_number = len(rest) <= 20 and rest.removeprefix(b"-").isdigit()
        number = int(rest) if is_number else None
        if kind == b":" and number is not None:
            return number
        if number is None or number > _MOST_BYTES or depth > _MOST_DEPTH:
            raise EOFError(f"expected a RESP reply, got {line[:50]!r}")
        if kind == b"$":
            if number < 0:
                return None
            content = self._reader.read(number + 2)
            if len(content) != number + 2:
                raise EOFError("the server closed the connection within a reply")
            return content[:-2]
        if kind == b"*":
            return None if number < 0 else [self._read(depth + 1) for _ in range(number)]
        raise EOFError(f"expected a RESP reply, got {line[:50]!r}")


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
    if code == "CHANGED":
        return VersionChangedError(text)
    if code in ("NOAUTH", "WRONGPASS"):
        return PermissionError(
            f"the server needs a token, and this one is wrong or missing: {text}"
        )
    if code == "NOTABLE":
        return NoTableError(text)
    if code == "TOOBIG" or message == _TOO_MANY_WORDS:
        return ReplyTooLargeError(message)
    if code == "BUSY":
        return TimeoutError(text)
    if "no primary key" in text or "no cluster key" in text:
        return IndexUnavailableError(text)
    return InvalidArgumentError(text if code == "ERR" else message)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
