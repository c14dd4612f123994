"""Tables of a REST catalog: a small server of the protocol, over pyiceberg's catalog in SQLite."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
from pyiceberg.catalog.rest import CreateTableRequest, RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest

import nimblepy as nb

pytestmark = pytest.mark.no_sanitizer


class _Handler(BaseHTTPRequestHandler):
    catalog: SqlCatalog
    refuses = 0  # status of answers to requests for tables that a commit creates
    lost: ClassVar[list[int]] = []  # status of answers that replace those of made commits
    requests: ClassVar[list[str]] = []

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

    def _error(self, status: int, error: Exception) -> None:
        self._answer(status, {"error": {"message": str(error), "type": "x", "code": status}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append(self.path)
        if self.path == "/v1/namespaces":
            self.catalog.create_namespace_if_not_exists(tuple(json.loads(body)["namespace"]))
            self._answer(200, json.loads(body))
            return
        if self.path.endswith("/tables"):
            self._create(CreateTableRequest.model_validate({"location": None, **json.loads(body)}))
            return
        request = CommitTableRequest.model_validate_json(body)
        try:
            table = self.catalog.load_table(self._table())
        except NoSuchTableError:
            namespace, name = self._table()
            table = self.catalog._create_staged_table((namespace, name), Schema())
        try:
            self.catalog.commit_table(table, request.requirements, request.updates)
        except (CommitFailedException, TableAlreadyExistsError) as error:
            self._error(409, error)
            return
        if self.lost:
            self._error(self.lost.pop(), OSError("lost"))
            return
        self._answer(200, self._state(self.catalog.load_table(self._table())))

    def _create(self, request: CreateTableRequest) -> None:
        name = (self.path.split("/")[3], request.name)
        arguments = (
            name,
            request.table_schema,
            request.location,
            request.partition_spec,
            request.write_order,
            dict(request.properties),
        )
        if self.catalog.table_exists(name):
            self._error(409, OSError("it exists"))
        elif not request.stage_create:
            self._answer(200, self._state(self.catalog.create_table(*arguments)))
        elif not self.refuses:
            staged = self.catalog._create_staged_table(*arguments)
            metadata = staged.metadata.model_dump_json()
            self._answer(200, f'{{"metadata": {metadata}, "config": {{}}}}'.encode())
        else:
            self._error(self.refuses, OSError("stage-create is not supported"))


@pytest.fixture
def catalogs(tmp_path: Path) -> Iterator[tuple[SqlCatalog, RestCatalog]]:
    warehouse = f"file://{tmp_path}/warehouse"
    own = SqlCatalog("own", uri=f"sqlite:///{tmp_path}/own.db", warehouse=warehouse)
    handler = type("Handler", (_Handler,), {"catalog": own, "lost": [], "requests": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    rest = RestCatalog("rest", uri=f"http://127.0.0.1:{server.server_port}")
    rest.handler = handler
    yield own, rest
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


# ---- tables that are created with their first rows ----

ROWS = pa.table({"id": range(20), "status": ["P", "X"] * 10})


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_failed_request_creates_no_table_in_two_commits(
    catalogs: tuple[SqlCatalog, RestCatalog], status: int
) -> None:
    own, rest = catalogs
    rest.handler.refuses = status
    with pytest.raises(RESTError, match="stage-create is not supported"):
        nb.connect(catalog=rest).create_table("a.b", ROWS)
    assert not own.table_exists("a.b")


@pytest.mark.parametrize("refuses", [0, 400, 405, 406, 422, 501])
def test_a_table_is_created_with_its_rows(
    catalogs: tuple[SqlCatalog, RestCatalog], refuses: int
) -> None:
    own, rest = catalogs
    rest.handler.refuses = refuses
    lake = nb.connect(catalog=rest)
    table = lake.create_table(
        "a.b",
        ROWS,
        primary_key="id",
        partition_by=["status"],
        data_format="parquet",
        indexes=[nb.HashIndex("status")],
    )
    # Server without staging: one request fails, then the table, its rows and its index.
    kinds = [path.partition("/tables")[2] for path in rest.handler.requests[1:]]
    assert kinds == (["", "", "/b", "/b"] if refuses else ["", "/b"])
    (snapshot,) = table.snapshots().to_pylist()
    assert snapshot["operation"] == "append"
    for handle in (table, lake.table("a.b")):
        assert handle.num_rows == 20
        assert [index.num_keys for index in handle.indexes] == [20]
    plain = own.load_table("a.b")
    assert plain.scan().to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()
    with pytest.raises(nb.InvalidArgumentError, match="already exists"):
        lake.create_table("a.b", ROWS)
    assert lake.create_table("a.b", ROWS, if_exists="ignore").num_rows == 20
    table.upsert(pa.table({"id": [3], "status": ["X"]}))
    assert own.load_table("a.b").scan().to_arrow().num_rows == 20
    assert lake.create_table("a.c", ROWS.slice(0, 0)).snapshot is None


def test_an_answer_may_be_lost(catalogs: tuple[SqlCatalog, RestCatalog]) -> None:
    _, rest = catalogs
    lake = nb.connect(catalog=rest)
    rest.handler.lost += [500]
    table = lake.create_table("a.b", ROWS, data_format="parquet")
    assert (table.num_rows, table.snapshots().num_rows) == (20, 1)


def test_another_writer_is_first(catalogs: tuple[SqlCatalog, RestCatalog], tmp_path: Path) -> None:
    own, rest = catalogs
    other = pa.table({"x": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        nb.connect(catalog=own).create_table("a.b", other, data_format="parquet")
        yield from ROWS.to_batches()

    rows = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    with pytest.raises(nb.InvalidArgumentError, match="already exists"):
        nb.connect(catalog=rest).create_table("a.b", rows, data_format="parquet")
    table = nb.connect(catalog=own).table("a.b")
    assert table.to_table().equals(other)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
