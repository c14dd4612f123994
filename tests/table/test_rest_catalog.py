"""Tables of a REST catalog: a small server of the protocol, over pyiceberg's catalog in SQLite."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableRequest

import nimblepy as nb

pytestmark = pytest.mark.no_sanitizer


class _Handler(BaseHTTPRequestHandler):
    catalog: SqlCatalog

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, content: Any) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _table(self) -> tuple[str, ...]:
        _, _, namespace, _, name = self.path.split("?")[0].strip("/").split("/")
        return namespace, name

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/v1/config":
            self._answer(200, {"defaults": {}, "overrides": {}})
            return
        if path == "/v1/namespaces":
            self._answer(200, {"namespaces": [list(n) for n in self.catalog.list_namespaces()]})
            return
        if path.endswith("/tables"):
            namespace = path.split("/")[3]
            names = [
                {"namespace": n[:-1], "name": n[-1]} for n in self.catalog.list_tables(namespace)
            ]
            self._answer(200, {"identifiers": names})
            return
        try:
            table = self.catalog.load_table(self._table())
        except NoSuchTableError as error:
            self._answer(404, {"error": {"message": str(error), "type": "x", "code": 404}})
            return
        self._answer(200, self._state(table))

    @staticmethod
    def _state(table: Any) -> bytes:
        metadata = table.metadata.model_dump_json()
        return (
            f'{{"metadata-location": "{table.metadata_location}", "metadata": {metadata}, '
            '"config": {}}'
        ).encode()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        table = self.catalog.load_table(self._table())
        request = CommitTableRequest.model_validate_json(body)
        try:
            self.catalog.commit_table(table, request.requirements, request.updates)
        except CommitFailedException as error:
            self._answer(409, {"error": {"message": str(error), "type": "x", "code": 409}})
            return
        self._answer(200, self._state(self.catalog.load_table(self._table())))


@pytest.fixture
def catalogs(tmp_path: Path) -> Iterator[tuple[SqlCatalog, RestCatalog]]:
    warehouse = f"file://{tmp_path}/warehouse"
    own = SqlCatalog("own", uri=f"sqlite:///{tmp_path}/own.db", warehouse=warehouse)
    handler = type("Handler", (_Handler,), {"catalog": own})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield own, RestCatalog("rest", uri=f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    thread.join()
    server.server_close()


def test_claims_in_a_rest_catalog(catalogs: tuple[SqlCatalog, RestCatalog]) -> None:
    own, rest = catalogs
    rows = pa.table({"id": range(20), "status": ["P", "X"] * 10})
    own.create_namespace("a")
    own.create_table("a.b", rows.schema).append(rows)
    table = nb.connect(catalog=rest).table("a.b")
    described = {"status": ["code", nb.Values({"P": "placed", "X": "cancelled"})]}
    table.describe("Orders.", columns=described, rows=20)
    assert {check.status for check in table.check(deep=True)} <= {"verified", "unverifiable"}
    plain = own.load_table("a.b")
    assert plain.metadata.properties["comment"] == "Orders."
    assert plain.schema().find_field("status").doc == "code"
    assert plain.scan().to_arrow().num_rows == 20
    again = nb.connect(catalog=rest).table("a.b")
    assert {(c.kind, c.column) for c in again.claims} == {
        ("description", None),
        ("rows", None),
        ("description", "status"),
        ("values", "status"),
    }
    with pytest.raises(nb.InvalidArgumentError, match="contradicted"):
        again.describe(rows=9000)
