"""An S3 server that fails when it is asked to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("moto.server")
pytest.importorskip("obstore")

from bench.s3_server import Server, serve


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    with serve() as found:
        yield found


@pytest.fixture
def server(running: Server) -> Server:
    running.faults.reset()
    return running
