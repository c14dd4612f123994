"""``nimble mcp``: tables for agents."""

from __future__ import annotations

from nimblepy.cli.sources import existing_catalog
from nimblepy.errors import InvalidArgumentError, MissingExtraError


def run_mcp(lake: str, http: str | None, allow: list[str], token_file: str | None) -> None:
    """Serves a catalog until the client leaves or the process is interrupted."""
    catalog = existing_catalog(lake)
    try:
        from nimblepy.mcp import server
    except ImportError as missing:
        raise MissingExtraError(
            f"nimble mcp needs the package {missing.name}: pip install 'nimblepy[mcp]'"
        ) from missing
    if http is None:
        if token_file is not None:
            raise InvalidArgumentError("--token-file: only allowed with --http")
        server.run_stdio(server.make_server(catalog, allow))
        return
    host, port = _address(http)
    token = None if token_file is None else server.read_token(token_file)
    server.run_http(server.make_server(catalog, allow), host, port, token, server.announce)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InvalidArgumentError(f"--http {text}: expected PORT or ADDRESS:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)
