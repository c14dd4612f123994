"""Serves files and tables to clients of Redis, from this process."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import math
import os
import resource
import secrets
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.io.log import logger
from nimblepy.schema.integers import at_least
from nimblepy.serving.follow import Follower
from nimblepy.serving.manifest_files import SERVE_DIRECTORY, last_manifests, write_manifests
from nimblepy.serving.resp_client import checked_token

if TYPE_CHECKING:
    from nimblepy.serving.follow import Open
    from nimblepy.serving.http import StatusPages
    from nimblepy.serving.manifest import Served
    from nimblepy.table.catalog import Catalog

# Number of files to open before a snapshot is served. Requests open further files.
_OPENED_AHEAD = 512
# Number of file descriptors for everything but clients.
_OTHER_DESCRIPTORS = 1024
# The types of the core's options.
_MOST_32_BITS = 2**32 - 1
_MOST_64_BITS = 2**64 - 1
_MOST_THREADS = 1024


def serve(
    source: Catalog | Served | str | os.PathLike[str],
    tables: Mapping[str, str] | str | None = None,
    *,
    unix: str | os.PathLike[str] | None = None,
    port: int | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    http: str | None = None,
    poll: float = 0.1,
    max_keys: int = 10_000,
    max_rows: int = 100_000,
    max_reply_bytes: int = 32 << 20,
    max_clients: int = 10_000,
    idle_seconds: int = 0,
    threads: int = 1,
    raw: bool = True,
    manifests: str | os.PathLike[str] | None = None,
) -> Server:
    """Starts a server in this process that serves rows to Redis clients, with its own threads.

    The keys of rows are ``NAME:KEY``: ``HGETALL users:4711``. docs/reference/serving.md has the
    commands. New snapshots are served as soon as they are found.

    Args:
        source: a lake, a file, a dataset or a table; or a path.
        tables: for a lake, its tables by their names in keys: ``{"users": "shop.users"}``.
            Otherwise the name of the file, dataset or table; the default is the file name.
        unix: path of a Unix socket. Then there is no TCP port, unless ``port`` is given.
        port: TCP port; 0 is any free port. The default is 0 without ``unix``.
        host: address to bind. An address that other machines can reach requires a token.
        token: the token that clients must send with AUTH.
        http: ``"HOST:PORT"`` for ``/healthz``, ``/readyz`` and ``/metrics``. An address that other
            machines can reach requires a token, which ``/metrics`` then needs as
            ``Authorization: Bearer TOKEN``.
        poll: seconds between two checks for new snapshots.
        max_keys, max_rows, max_reply_bytes: limits of one command. Above a limit, the reply is
            ``-TOOBIG``.
        max_clients: maximum number of connections.
        idle_seconds: disconnect clients that send nothing for this long; 0 means never.
        threads: number of threads that handle connections.
        raw: whether clients may get encoded blocks of files (``accept="raw"``). Blocks contain up
            to 1,023 neighbours of the requested rows, and deleted rows.
        manifests: the directory of a lake, to start from the last serving manifests in its
            directory ``serve`` before the catalog is opened, and to write new ones there. Until the
            catalog has been read, the server answers from the last served snapshots, and
            ``/readyz`` fails. Without manifests of all tables, the server starts as usual.

    Raises:
        InvalidArgumentError: the address requires a token, a file cannot be served, or a table does
            not exist.
        OSError: the address is in use.

    Example:
        >>> with nb.serve("lake/", {"users": "shop.users"}) as server:  # doctest: +SKIP
        ...     redis.Redis(port=server.port).hgetall("users:4711")
    """
    limits = {
        "max_keys": _between("max_keys", max_keys, 1, _MOST_64_BITS),
        "max_rows": _between("max_rows", max_rows, 1, _MOST_64_BITS),
        "max_reply_bytes": _between("max_reply_bytes", max_reply_bytes, 1024, _MOST_64_BITS),
        "max_clients": _between("max_clients", max_clients, 1, _MOST_32_BITS),
        "idle_seconds": _between("idle_seconds", idle_seconds, 0, _MOST_32_BITS),
        "threads": _between("threads", threads, 1, _MOST_THREADS),
        "allow_raw": bool(raw),
    }
    checked_token(token)
    if not isinstance(poll, (int, float)) or not 0 < poll <= threading.TIMEOUT_MAX:
        raise InvalidArgumentError(
            f"poll: expected seconds above 0, at most {threading.TIMEOUT_MAX:.0f}, got {poll!r}"
        )
    if port is None and unix is None:
        port = 0
    address = _address("host", host, token) if port is not None else ""
    pages = None if http is None else _pages_address(http, token)
    lake = None if manifests is None else os.fspath(manifests)
    last: dict[str, bytes] = {}
    if lake is not None and isinstance(tables, Mapping):
        last = last_manifests(lake, tables)

    def open_others(opened: Collection[str]) -> tuple[dict[str, Served], set[str]]:
        from nimblepy.serving.sources import open_existing, open_served

        if isinstance(tables, Mapping):
            return open_existing(source, {n: t for n, t in tables.items() if n not in opened})
        return open_served(source, tables), set()

    handles: dict[str, Served] = {}
    if not last:
        from nimblepy.serving.sources import open_served

        handles = open_served(source, tables)
    try:
        return Server(
            open_others if last else handles,
            last,
            None if lake is None else os.path.join(lake, SERVE_DIRECTORY),
            {
                "unix": "" if unix is None else os.path.abspath(unix),
                "host": address,
                "port": _port(port),
                "token": token or "",
                "page_secret": _page_secret(token),
                **limits,
            },
            pages,
            poll,
        )
    except BaseException:
        for handle in handles.values():
            handle.close()
        raise


def _allow_descriptors(clients: int) -> None:
    """Raises the soft limit of file descriptors for this many clients, up to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = clients + _OTHER_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        new_limit = min(new_limit, hard)
    if soft != resource.RLIM_INFINITY and soft < new_limit:
        with contextlib.suppress(OSError, ValueError):  # then fewer clients are accepted
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))


def _page_secret(token: str | None) -> bytes:
    """The key that signs page tokens.

    Servers with the same token accept the page tokens of each other, even after a restart. Without
    a token, page tokens are valid until the server stops.
    """
    if token is None:
        return secrets.token_bytes(32)
    return hmac.digest(token.encode(), b"nimblepy: page tokens", "sha256")


def _between(name: str, value: int, least: int, most: int) -> int:
    number = at_least(name, value, least)
    if number > most:
        raise InvalidArgumentError(f"{name}: expected at most {most}, got {number}")
    return number


def _port(port: int | None) -> int:
    return _between("port", 0 if port is None else port, 0, 65535)


def _pages_address(http: str, token: str | None) -> tuple[str, int, str | None]:
    """Returns the address of the status pages, and the token that they need."""
    from nimblepy.serving.http import page_address

    host, port = page_address(http)
    address = _address("http", host, token)
    return address, port, None if ipaddress.ip_address(address).is_loopback else token


def _address(name: str, host: str, token: str | None) -> str:
    """Returns the address to bind. ``name`` is the argument.

    Raises:
        InvalidArgumentError: other machines could connect without a token.
    """
    text = "127.0.0.1" if host == "localhost" else host
    try:
        is_loopback = ipaddress.ip_address(text).is_loopback
    except ValueError:
        raise InvalidArgumentError(
            f"{name} {host!r}: expected an IPv4 or IPv6 address, or localhost"
        ) from None
    shown = "every row" if name == "host" else "the names and sizes of tables"
    if not is_loopback and token is None:
        raise InvalidArgumentError(
            f"{name} {host}: other machines could read {shown}; give a token, or bind 127.0.0.1"
        )
    return text


class Server:
    """A running server, started by :func:`serve`. As a context manager, it stops the server.

    Attributes:
        host, port: the TCP address; ``None`` without one.
        unix: the path of the Unix socket; ``None`` without one.
    """

    def __init__(
        self,
        handles: dict[str, Served] | Open,
        last: dict[str, bytes],
        directory: str | None,
        options: dict[str, Any],
        pages: tuple[str, int, str | None] | None,
        poll: float,
    ) -> None:
        # If there are last manifests, the directory already has them.
        self._directory = None if last else directory
        self._files = _core.ServedFiles()
        self._tables: dict[str, _core.ServedTable] = {}
        self._core: _core.Server | None = None
        self._swapped_at = time.monotonic()
        self._process = os.getpid()
        self._poll = poll
        self._follower = Follower(handles, self._publish, self._withdraw, last)
        if last:
            self._follower.checked_at = -math.inf
            self._publish(last)
        else:
            self._follower.poll()
        if self._follower.last_error is not None:
            raise InvalidArgumentError(f"serve: {self._follower.last_error}")
        self._directory = directory
        self._has_warned = False
        self._max_clients: int = options["max_clients"]
        _allow_descriptors(options["max_clients"])
        try:
            self._core = _core.Server(tables=self._tables, **options)
        except OSError as error:
            address = str(error.filename).removesuffix(f": {error.strerror}")
            raise OSError(error.errno, error.strerror, address) from None
        self.unix: str | None = options["unix"] or None
        self.host: str | None = options["host"] or None
        self.port: int | None = self._core.port or None
        self._pages: StatusPages | None = None
        try:
            if pages is not None:
                from nimblepy.serving.http import StatusPages

                address, port, token = pages
                self._pages = StatusPages(address, port, self, token)
        except BaseException:
            self._core.stop(0.0)
            raise
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._follow, args=(poll,), name="nimble-follow", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """``nimble://HOST:PORT``, or ``nimble+unix://PATH`` without TCP."""
        if self.port is None:
            return f"nimble+unix://{self.unix}"
        host = f"[{self.host}]" if ":" in str(self.host) else self.host
        return f"nimble://{host}:{self.port}"

    @property
    def http_port(self) -> int | None:
        """The port of the status pages; ``None`` without them."""
        return None if self._pages is None else self._pages.port

    def _publish(self, manifests: dict[str, bytes]) -> None:
        made = {
            name: _core.ServedTable(manifest, self._files, _OPENED_AHEAD)
            for name, manifest in manifests.items()
        }
        self._tables = {**self._tables, **made}
        self._write(manifests)
        self._swapped_at = time.monotonic()
        if self._core is not None:
            self._core.swap(self._tables)

    def _withdraw(self, dropped: set[str]) -> None:
        """Ends the service of dropped tables, so that clients get NOTABLE."""
        left = {name: table for name, table in self._tables.items() if name not in dropped}
        if len(left) == len(self._tables):
            return
        self._tables = left
        self._write({}, dropped)
        if self._core is not None:
            self._core.swap(left)

    def _follow(self, poll: float) -> None:
        while not self._stop.wait(poll):
            self._follower.poll()
            if not self._has_warned and self.stats()["rejected"]:
                self._has_warned = True
                logger("nimblepy.serving").warning(
                    "serve: clients are rejected: max_clients (%d) or the limit of file descriptors"
                    " is reached; raise them, or set idle_seconds",
                    self._max_clients,
                )

    def _write(self, manifests: dict[str, bytes], dropped: Iterable[str] = ()) -> None:
        """Writes manifests for the next start. The server does not need them."""
        if self._directory is None:
            return
        try:
            write_manifests(self._directory, manifests, dropped)
        except OSError as error:
            logger("nimblepy.serving").warning(
                "serve: cannot write manifests, so the next start will be slower: %s", error
            )

    def stats(self) -> dict[str, Any]:
        """Returns counts since the start, the state of the follower, and the served tables."""
        assert self._core is not None
        follower = self._follower
        return {
            **self._core.stats(),
            "seconds_behind": time.monotonic() - follower.checked_at,
            "follow_failures": follower.failures,
            "last_error": follower.last_error,
            "files_open": len(self._files),
            "tables": {
                name: {"snapshot": table.snapshot, "rows": table.num_rows}
                for name, table in self._tables.items()
            },
        }

    def is_ready(self) -> bool:
        """Whether all sources were checked successfully a moment ago."""
        behind = time.monotonic() - self._follower.checked_at
        return behind < max(5.0, 20 * self._poll)

    def stop(self, timeout: float = 5.0) -> None:
        """Stops the server, after it has replied to the commands that it received.

        Args:
            timeout: seconds to wait for these replies before connections are closed.
        """
        if self._core is None or os.getpid() != self._process:
            return
        self._stop.set()
        self._thread.join()
        if self._pages is not None:
            self._pages.close()
        self._core.stop(float(timeout))
        self._follower.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<nimblepy.Server {self.address}: {', '.join(self._tables)}>"
