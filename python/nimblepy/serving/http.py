"""Status pages of a server: ``/healthz``, ``/readyz`` and ``/metrics`` for Prometheus."""

from __future__ import annotations

import hmac
import http.server
import socket
import threading
from collections.abc import Iterator
from typing import Any, Protocol

from nimblepy.errors import InvalidArgumentError


class Observed(Protocol):
    """The part of a server that the pages use."""

    def stats(self) -> dict[str, Any]: ...
    def is_ready(self) -> bool: ...


class StatusPages:
    """A small HTTP server that runs in its own thread.

    Args:
        host, port: the address to bind.
        token: what ``/metrics`` needs as ``Authorization: Bearer TOKEN``; ``None``: nothing. Checks
            of health have no credentials, so the other pages do not need it.
    """

    def __init__(self, host: str, port: int, server: Observed, token: str | None = None) -> None:
        expected = None if token is None else f"Bearer {token}".encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                given = self.headers.get("Authorization", "").encode("latin-1")
                if expected is None or hmac.compare_digest(given, expected):
                    status, text = _page(path, server)
                else:
                    status, text = _page_without_token(path, server)
                body = text.encode()
                self.send_response(status)
                if status == 401:
                    self.send_header("WWW-Authenticate", "Bearer")
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        class Pages(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        try:
            self._http = Pages((host, port), Handler)
        except OSError as error:
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise OSError(error.errno, error.strerror, shown) from None
        self._thread = threading.Thread(
            target=self._http.serve_forever, name="nimble-status", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def page_address(text: str) -> tuple[str, int]:
    """Returns the host and the port of ``HOST:PORT``; an IPv6 address is in brackets."""
    host, mark, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not mark or not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidArgumentError(
            f"http {text!r}: expected HOST:PORT, such as 127.0.0.1:9105 or [::1]:9105"
        )
    return host, int(port)


def _page_without_token(path: str, server: Observed) -> tuple[int, str]:
    if path == "/readyz":  # without the reason, which may name files
        return (200, "ready\n") if server.is_ready() else (503, "not ready\n")
    if path == "/metrics":
        return 401, "give the server's token: Authorization: Bearer TOKEN\n"
    return _page(path, server)


def _page(path: str, server: Observed) -> tuple[int, str]:
    if path == "/healthz":
        return 200, "ok\n"
    if path == "/readyz":
        if server.is_ready():
            return 200, "ready\n"
        return 503, f"not ready: {server.stats()['last_error']}\n"
    if path == "/metrics":
        return 200, "".join(f"{line}\n" for line in _metrics(server.stats()))
    return 404, "not found: /healthz, /readyz and /metrics are here\n"


_COUNTERS = {
    "accepted": "Connections accepted",
    "rejected": "Connections rejected above max_clients or the limit of file descriptors",
    "errors": "Commands answered with an error",
    "busy": "Commands answered with -BUSY",
    "bytes_in": "Bytes received",
    "bytes_out": "Bytes sent",
    "swaps": "Snapshots that were swapped in",
    "follow_failures": "Failures to find or read the newest snapshot",
}
_GAUGES = {
    "clients": "Connections now",
    "files_open": "Files that are open",
    "seconds_behind": "Seconds since the newest snapshot was last known",
}


def _metrics(stats: dict[str, Any]) -> Iterator[str]:
    for names, kind, suffix in ((_COUNTERS, "counter", "_total"), (_GAUGES, "gauge", "")):
        for name, help_text in names.items():
            yield f"# HELP nimble_{name}{suffix} {help_text}"
            yield f"# TYPE nimble_{name}{suffix} {kind}"
            yield f"nimble_{name}{suffix} {stats[name]}"
    yield "# HELP nimble_commands_total Commands answered"
    yield "# TYPE nimble_commands_total counter"
    for command, count in stats["by_command"].items():
        yield f'nimble_commands_total{{command="{command}"}} {count}'
    yield "# HELP nimble_command_seconds Time to answer a command"
    yield "# TYPE nimble_command_seconds histogram"
    total = 0
    for exponent, count in enumerate(stats["latency"][:-1]):
        total += count
        yield f'nimble_command_seconds_bucket{{le="{2**exponent / 1e6:.6f}"}} {total}'
    total += stats["latency"][-1]
    yield f'nimble_command_seconds_bucket{{le="+Inf"}} {total}'
    yield f"nimble_command_seconds_sum {stats['seconds']}"
    yield f"nimble_command_seconds_count {total}"
    yield "# HELP nimble_rows Rows of a table"
    yield "# TYPE nimble_rows gauge"
    for name, table in stats["tables"].items():
        yield f'nimble_rows{{table="{_escaped(name)}"}} {table["rows"]}'
    yield "# HELP nimble_snapshot_info The snapshot that is served"
    yield "# TYPE nimble_snapshot_info gauge"
    for name, table in stats["tables"].items():
        snapshot = "" if table["snapshot"] is None else table["snapshot"]
        yield f'nimble_snapshot_info{{table="{_escaped(name)}",snapshot="{snapshot}"}} 1'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
