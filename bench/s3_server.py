"""A real S3 server on loopback (moto), behind a door that delays, fails and cuts answers short.

It also counts rounds, which are what a distant store costs: how often a client waits, whatever it
asks for at once.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

BUCKET = "nimble-tests"
KEYS = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1"}


class Rounds:
    """Answers requests together once no other has come for a while, and counts how often.

    So what depends on an answer is a round of its own, and what is asked at once is one, however
    late its threads are.
    """

    # A while is this many looks without a new request: on a busy machine looks take longer, too.
    LOOKS, SECONDS = 12, 0.015

    def __init__(self) -> None:
        self.sizes: list[int] = []  # requests of each round
        self._waiting = 0
        self._changed = threading.Condition()

    def wait(self) -> None:
        """Returns when the round of this request is over."""
        with self._changed:
            mine = len(self.sizes)
            self._waiting += 1
            self._changed.notify_all()
            seen, looks = self._waiting, 0
            while len(self.sizes) == mine:
                self._changed.wait(self.SECONDS)
                looks = looks + 1 if seen == self._waiting else 0
                seen = self._waiting
                if looks >= self.LOOKS and len(self.sizes) == mine:
                    self.sizes.append(self._waiting)
                    self._waiting = 0
                    self._changed.notify_all()


@dataclass
class Faults:
    """What happens to requests for objects, and what has happened so far."""

    app: Any
    delay: float = 0.0  # seconds
    fail: float = 0.0  # share of answers that are 503
    cut: float = 0.0  # share of answers whose body ends early
    forbid: bool = False
    rounds: Rounds | None = None
    # Headers with conditions that the server does not look at, such as HTTP_IF_MATCH.
    ignored: tuple[str, ...] = ()
    # Asked for each request (method, path): a status to answer with, "lost 500" to carry the
    # request out before, "drop" or "lost drop" to close the connection, or nothing.
    rule: Callable[[str, str], str | None] | None = None
    random: random.Random = field(default_factory=lambda: random.Random(7))
    methods: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)  # methods and paths
    most_at_once: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self._now = 0
        self._lock = threading.Lock()
        # moto tests the condition of a put and stores the object in two steps.
        self._writing = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            self.methods.append(environ["REQUEST_METHOD"])
            self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            draw = self.random.random()
        try:
            return self._answer(environ, start, draw)
        finally:
            with self._lock:
                self._now -= 1

    def _answer(
        self, environ: dict[str, Any], start: Callable[..., Any], draw: float
    ) -> Iterable[bytes]:
        time.sleep(self.delay)
        if self.rounds is not None:
            self.rounds.wait()
        if self.forbid:
            return self._error(start, "403 Forbidden", "AccessDenied")
        if draw < self.fail:
            self.failed += 1
            return self._error(start, "503 Slow Down", "SlowDown")
        for name in self.ignored:
            environ.pop(name, None)
        asked = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        what = None if self.rule is None else self.rule(*asked)
        if what is not None:
            self.failed += 1
            if what.startswith("lost"):
                self._carry_out(environ, lambda *_: None)
            if what.endswith("drop"):
                raise ConnectionAbortedError("injected")
            return self._error(start, what.removeprefix("lost "), "Injected")
        body = self._carry_out(environ, start)
        if draw < self.fail + self.cut and environ["REQUEST_METHOD"] == "GET":
            self.failed += 1
            return [body[: len(body) // 2]]  # the header names the whole length
        return [body]

    def _carry_out(self, environ: dict[str, Any], start: Callable[..., Any]) -> bytes:
        with self._writing if environ["REQUEST_METHOD"] != "GET" else nullcontext():
            return b"".join(self.app(environ, start))

    @staticmethod
    def _error(start: Callable[..., Any], status: str, code: str) -> list[bytes]:
        body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    def reset(self) -> None:
        self.delay = self.fail = self.cut = 0.0
        self.forbid = False
        self.rounds = self.rule = None
        self.ignored = ()
        self.requests.clear()
        self.methods.clear()
        self.most_at_once = self.failed = 0


@dataclass(frozen=True)
class Server:
    url: str
    faults: Faults

    def obstore(self) -> Any:
        from obstore.store import S3Store

        return S3Store(BUCKET, endpoint=self.url, client_options={"allow_http": True}, **KEYS)

    def arrow(self) -> Any:
        from pyarrow import fs

        return fs.SubTreeFileSystem(
            BUCKET,
            fs.S3FileSystem(
                access_key="test",
                secret_key="test",
                region="us-east-1",
                scheme="http",
                allow_bucket_creation=True,
                endpoint_override=self.url.removeprefix("http://"),
            ),
        )


@contextmanager
def serve() -> Iterator[Server]:
    """A server of this process, on a free port of loopback, with an empty bucket."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    faults = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, faults, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found = Server(f"http://127.0.0.1:{server.server_port}", faults)
    found.arrow().base_fs.create_dir(BUCKET)
    yield found
    server.shutdown()
    thread.join()
    server.server_close()
