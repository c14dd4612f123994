"""``nimble serve`` and ``nimble follow``."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any

import typer

from nimblepy.cli.catalogs import existing_catalog
from nimblepy.errors import InvalidArgumentError
from nimblepy.serving.follow import Follower
from nimblepy.serving.manifest_files import (
    SERVE_DIRECTORY,
    current_manifests,
    write_manifests,
)
from nimblepy.serving.server import serve
from nimblepy.table.base.places import has_catalog


def run_serve(
    source: str, tables: Sequence[str], name: str | None, token_file: str | None, **options: Any
) -> None:
    """Serves until a signal says to stop."""
    _log_to_stderr()
    _save_memory()
    token = None if token_file is None else _read_token(token_file)
    if tables:
        if name is not None:
            raise InvalidArgumentError(
                "--as names a file or directory; for tables, pass --table TABLE=NAME"
            )
        given: tuple[Any, Any] = existing_catalog(source), _names(tables)
        if os.path.isdir(source):
            options["manifests"] = source
    elif has_catalog(source):
        raise InvalidArgumentError(f"{source} is a catalog; pass --table NAMESPACE.TABLE=NAME")
    else:
        given = source, name
    with _until_signal() as stopped, serve(*given, token=token, **options) as server:
        places = [server.address]
        if server.unix is not None and server.port is not None:
            places.append(f"nimble+unix://{server.unix}")
        typer.echo(f"serving {', '.join(server.stats()['tables'])} at {' and '.join(places)}")
        if server.http_port is not None:
            typer.echo(f"status pages at port {server.http_port}")
        stopped.wait()


def run_follow(
    lake: str, tables: Sequence[str], directory: str | None, *, poll: float, once: bool
) -> None:
    """Writes serving manifests until a signal says to stop."""
    _log_to_stderr()
    _save_memory()
    if directory is None:
        if ":" in lake:
            raise InvalidArgumentError(f"{lake}: not a local directory; pass --dir with one")
        directory = os.path.join(lake, SERVE_DIRECTORY)
    from nimblepy.serving.sources import open_served

    names = _names(tables)
    handles = open_served(existing_catalog(lake), names)
    follower = Follower(
        handles,
        lambda manifests: write_manifests(directory, manifests),
        lambda dropped: write_manifests(directory, {}, dropped),
        current_manifests(directory, names),
    )
    follower.poll()
    if follower.last_error is not None:
        raise InvalidArgumentError(follower.last_error)
    if once:
        return
    with _until_signal() as stopped:
        typer.echo(f"serving manifests are in {directory}")
        follower.run(poll, stopped)


class _WithoutPandas(MetaPathFinder):
    """Makes imports of pandas fail, as if it was not installed."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("nimble serve does not use pandas", name=fullname)


def _save_memory() -> None:
    """Saves memory that this process would not use.

    pyarrow imports pandas to look at any list, which takes 24 MB. Its own memory pool takes 4 MB
    more than the system's.
    """
    if "pyarrow" in sys.modules:  # the caller may use both
        return
    sys.meta_path.insert(0, _WithoutPandas())
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def _log_to_stderr() -> None:
    """Prints warnings, such as those of snapshots that cannot be read."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger("nimblepy").addHandler(handler)


def _names(tables: Sequence[str]) -> dict[str, str]:
    """Returns the table to serve under each name.

    ``TABLE=NAME`` names a table; without ``=NAME`` the name is the last part of the table's name.
    """
    names: dict[str, str] = {}
    for text in tables:
        table, mark, name = text.partition("=")
        if mark and "." in name and "." not in table:
            raise InvalidArgumentError(
                f"--table {text}: expected TABLE=NAME, the table first: --table {name}={table}"
            )
        name = name if mark else table.rpartition(".")[2]
        if name in names:
            raise InvalidArgumentError(f"--table {text}: the name {name!r} is given twice")
        names[name] = table
    return names


def _read_token(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        token = file.readline().strip()
    if not token:
        raise InvalidArgumentError(f"{path}: the first line is empty; it must be the token")
    return token


@contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """Provides an event that SIGTERM and SIGINT set. Restores the old handlers at the end."""
    stopped = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
