"""The catalog in a SQLite database: alone, beside pyiceberg's own, and asked by many."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from catalog_kinds import needs_sqlite
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import StaticTable

import nimblepy as nb
from nimblepy.table.iceberg.catalog_rows import CatalogRows, NameTaken

SCHEMA = pa.schema({"k": pa.int64()})
ROWS = pa.table({"k": [1, 2]})


def library(folder: Path, **more: str) -> SqlCatalog:
    """pyiceberg's own catalog over the same database."""
    uri = f"sqlite:///{folder}/lake/catalog.db"
    return SqlCatalog("nimble", uri=uri, warehouse=f"file://{folder}/lake", **more)


@needs_sqlite
def test_the_library_works_beside_ours(lake: nb.Catalog, tmp_path: Path) -> None:
    mine = lake.create_table("a.b.mine", ROWS, data_format="parquet")
    theirs = library(tmp_path)
    assert theirs.list_namespaces() == [("a",)]
    assert theirs.load_table(("a", "b", "mine")).scan().to_arrow().num_rows == 2
    theirs.load_table("a.b.mine").append(ROWS)
    assert mine.refresh().num_rows == 4
    theirs.create_namespace("their_s", {"owner": "me"})
    theirs.create_table("their_s.t", SCHEMA).append(ROWS)
    assert lake.tables() == ["a.b.mine", "their_s.t"]
    assert lake.iceberg.load_namespace_properties("their_s") == {"owner": "me"}
    assert lake.table("their_s.t").num_rows == 2
    theirs.rename_table("their_s.t", "a.t")
    assert lake.table("a.t").append(ROWS).rows_inserted == 2
    assert theirs.load_table("a.t").scan().to_arrow().num_rows == 4
    lake.drop_table("a.t")
    assert not theirs.table_exists("a.t")


@needs_sqlite
def test_what_pyiceberg_asks_of_a_catalog(lake: nb.Catalog, tmp_path: Path) -> None:
    made = lake.iceberg
    made.create_namespace("n", {"x": "1", "y": "2"})
    done = made.update_namespace_properties("n", {"x", "z"}, {"y": "3", "w": "4"})
    assert (sorted(done.updated), done.removed, done.missing) == (["w", "y"], ["x"], ["z"])
    assert made.load_namespace_properties("n") == {"y": "3", "w": "4"}
    assert library(tmp_path).load_namespace_properties("n") == {"y": "3", "w": "4"}
    with made.create_table_transaction("n.t", SCHEMA) as transaction:
        transaction.append(ROWS)
    assert lake.table("n.t").num_rows == 2
    with pytest.raises(TableAlreadyExistsError):
        made.create_table("n.t", SCHEMA)
    assert made.table_exists("n.t")
    assert not made.view_exists("n.t")
    assert made.list_views("n") == []
    made.create_table("n.u", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        made.rename_table("n.t", "n.u")
    with pytest.raises(NoSuchTableError):
        made.rename_table("n.v", "n.w")
    for ask in (made.list_tables, made.list_namespaces, made.load_namespace_properties):
        with pytest.raises(NoSuchNamespaceError):
            ask("m")
    with pytest.raises(NoSuchNamespaceError):
        made.create_table("m.t", SCHEMA)
    made.create_namespace("n_.deep")
    assert not made.namespace_exists("n%")
    assert not made.namespace_exists("N")
    assert made.list_namespaces("n_") == [("n_", "deep")]
    left = set(tmp_path.rglob("*.metadata.json"))
    named = {
        Path(str(entry.metadata_location).removeprefix("file://"))
        for entry in (made.load_table("n.t"), made.load_table("n.u"))
    }
    assert left == named  # what lost leaves nothing


def test_databases_without_kinds_of_rows(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    theirs = library(tmp_path)
    with sqlite3.connect(tmp_path / "lake/catalog.db") as database:
        database.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    theirs = library(tmp_path)
    theirs.create_namespace("a")
    theirs.create_table("a.b", SCHEMA).append(ROWS)
    lake = nb.connect(tmp_path / "lake")
    assert lake.table("a.b").num_rows == 2
    lake.create_table("a.c", ROWS)
    assert theirs.list_tables("a") == [("a", "b"), ("a", "c")]


@needs_sqlite
def test_rows_of_views_are_no_tables(lake: nb.Catalog, tmp_path: Path) -> None:
    lake.create_table("a.b", ROWS)
    with sqlite3.connect(tmp_path / "lake/catalog.db") as database:
        database.execute(
            "INSERT INTO iceberg_tables VALUES ('nimble', 'a', 'v', 'file:///v', NULL, 'VIEW')"
        )
    assert lake.tables() == ["a.b"]
    with pytest.raises(nb.InvalidArgumentError, match=r"no table 'a\.v'"):
        lake.drop_table("a.v")
    with pytest.raises(nb.InvalidArgumentError, match="already"):
        lake.create_table("a.v", ROWS)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("sqlite:/x.db", "expected sqlite:///"),
        ("sqlite:///x.db?timeout=soon", "not a number"),
        ("sqlite:///x.db?timeout=1&mode=ro", "unknown parameters mode; only timeout"),
    ],
)
def test_uris_that_cannot_be(tmp_path: Path, uri: str, message: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=message):
        nb.connect(uri, properties={"warehouse": f"file://{tmp_path}"})


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"something else" * 100)
    with pytest.raises(
        nb.CorruptFileError, match=r"catalog\.db: not the database of a catalog.*not a database"
    ):
        nb.connect(tmp_path)
    with pytest.raises(OSError, match="unable to open"):
        nb.connect(f"sqlite:///{tmp_path}/none/x.db", properties={"warehouse": str(tmp_path)})


def test_a_locked_database_says_so(lake: nb.Catalog, tmp_path: Path) -> None:
    lake.create_table("a.t", pa.schema([("x", pa.int64())]))
    impatient = CatalogRows(f"sqlite:///{tmp_path}/lake/catalog.db?timeout=0.1", "nimble")
    impatient.add("a", "b", "here")
    with sqlite3.connect(tmp_path / "lake/catalog.db", isolation_level=None) as database:
        database.execute("BEGIN EXCLUSIVE")
        with pytest.raises(OSError, match=r"catalog\.db: database is locked"):
            impatient.swap("a", "b", "here", "there")
        database.execute("ROLLBACK")
    assert impatient.location("a", "b") == "here"


@pytest.mark.parametrize("place", ["file", "memory"])
def test_one_swap_of_many_wins(tmp_path: Path, place: str) -> None:
    uri = "sqlite://" if place == "memory" else f"sqlite:///{tmp_path}/c.db"
    rows = CatalogRows(uri, "x")
    rows.add("a", "b", "0")
    with pytest.raises(NameTaken):
        rows.add("a", "b", "1")
    with ThreadPoolExecutor(8) as threads:
        for i in range(20):
            won = threads.map(lambda n, i=i: rows.swap("a", "b", f"{i}", f"{i + 1}"), range(8))
            assert sum(won) == 1
    assert rows.location("a", "b") == "20"
    # Another catalog of the database has its own names.
    if place == "file":
        assert CatalogRows(uri, "y").location("a", "b") is None


def test_a_child_goes_on_after_a_fork(tmp_path: Path) -> None:
    rows = CatalogRows(f"sqlite:///{tmp_path}/c.db", "x")
    rows.add("a", "b", "0")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if rows.swap("a", "b", "0", "1") else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert rows.location("a", "b") == "1"


def test_a_fork_waits_for_the_turn_of_another_thread(tmp_path: Path) -> None:
    """SQLite takes a lock that a thread held at the fork for the child's, for ever."""
    uri = f"sqlite:///{tmp_path}/c.db?timeout=1"
    rows = CatalogRows(uri, "x")
    rows.add("a", "b", "0")
    has_turn = threading.Event()

    def turn() -> None:
        with rows.turn():
            has_turn.set()
            time.sleep(0.3)

    thread = threading.Thread(target=turn)
    thread.start()
    has_turn.wait()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if CatalogRows(uri, "x").swap("a", "b", "0", "1") else 1)
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()
    with rows.turn():  # of the thread that forks: it does not wait for itself
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    assert rows.swap("a", "b", "1", "2")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("call", ["location", "swap", "add_namespace", "original"])
def test_a_fork_waits_for_the_connection_of_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    # A child that was forked meanwhile waited for ever for a mutex of SQLite.
    rows = CatalogRows(f"sqlite:///{tmp_path}/c.db", "x")
    rows.add("a", "b", "0")
    assert rows.original() is None
    (tmp_path / "d.db").write_bytes((tmp_path / "c.db").read_bytes())
    copy = CatalogRows(f"sqlite:///{tmp_path}/d.db", "x")
    calls: dict[str, Callable[[], object]] = {
        "location": lambda: copy.location("a", "b"),
        "swap": lambda: copy.swap("a", "b", "0", "1"),
        "add_namespace": lambda: copy.add_namespace("c", {"d": "e"}),
        "original": copy.original,
    }
    connect, connected, over = sqlite3.connect, threading.Event(), threading.Event()

    def slow(path: str, **options: Any) -> sqlite3.Connection:
        made = connect(path, **options)
        if threading.current_thread() is thread and (call == "original") == ("c.db" in path):
            connected.set()
            time.sleep(0.2)
            over.set()
        return made

    thread = threading.Thread(target=calls[call])
    monkeypatch.setattr(sqlite3, "connect", slow)
    thread.start()
    assert connected.wait(20)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if over.is_set() and copy.catalogs() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()


def test_connecting_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    code = f"""
import sys
import threading
import time
import nimblepy as nb
lake = nb.connect({str(tmp_path / "lake")!r})
print(sorted(lake.tables()), "nimblepy.table.table" in sys.modules)
import pyarrow as pa
lake.create_table("a.b", pa.table({{"k": [1]}})).append(pa.table({{"k": [2]}}))
heavy = [name for name in ("sqlalchemy", "duckdb", "polars") if name in sys.modules]
print(lake.table("a.b").num_rows, heavy)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:2] == ["[] False", "2 []"]


@needs_sqlite
def test_snapshots_are_read_once(lake: nb.Catalog, tmp_path: Path) -> None:
    """A commit of another process makes none of those before it anew."""
    lake.create_table("a.b", ROWS)
    other = nb.connect(tmp_path / "lake").table("a.b")
    other.append(ROWS)
    before = lake.table("a.b").iceberg.metadata.snapshots
    other.append(ROWS)
    after = lake.table("a.b").iceberg.metadata
    assert [item is known for item, known in zip(after.snapshots, before, strict=False)] == [
        True,
        True,
    ]
    assert len(after.snapshots) == 3
    plain = library(tmp_path).load_table("a.b").metadata
    assert after == plain
    assert after.model_dump_json() == plain.model_dump_json()
    # One that is another under the same number, and what is of another form, are read anew.
    other.tag("kept")
    for change in (
        lambda said: said["snapshots"][0]["summary"].update(note="mended"),
        lambda said: said.update({"format-version": 1, "schema": said["schemas"][0]}),
        lambda said: said.pop("snapshots"),
    ):
        said = json.loads(after.model_dump_json())
        change(said)
        path = tmp_path / "lake" / f"{uuid.uuid4()}.metadata.json"
        path.write_text(json.dumps(said))
        found = lake.iceberg.metadata_file_at(str(path))
        assert found == StaticTable.from_metadata(str(path)).metadata


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format-version": 2', "[]", "\udcff", '{"format-version": 2}', "NaN"]
)
def test_what_is_no_metadata_is_damaged(lake: nb.Catalog, tmp_path: Path, text: str) -> None:
    path = tmp_path / "0.metadata.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(nb.CorruptFileError, match="not a metadata file"):
        lake.iceberg.metadata_file_at(str(path))


def test_a_reader_does_not_create_a_moved_database(tmp_path: Path) -> None:
    nb.connect(tmp_path / "lake").create_table("a.b", ROWS)
    database, moved = tmp_path / "lake" / "catalog.db", tmp_path / "moved.db"
    table = nb.connect(tmp_path / "lake", create=False).table("a.b")
    new = nb.connect(tmp_path / "lake")
    os.rename(database, moved)
    reads: list[Callable[[], object]] = [table.refresh, new.tables, lambda: new.table("a.b")]
    for read in reads:
        with pytest.raises((FileNotFoundError, nb.InvalidArgumentError), match=r"catalog|table"):
            read()
        assert not database.exists()
    with pytest.raises(FileNotFoundError, match="the database of the catalog is missing"):
        table.append(ROWS)
    assert not database.exists()
    with pytest.raises(nb.InvalidArgumentError, match="there is no catalog"):
        nb.connect(tmp_path / "lake", create=False)
    os.rename(moved, database)
    assert table.refresh().num_rows == 2


def test_an_empty_database_has_no_catalog(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    with pytest.raises(nb.InvalidArgumentError, match="there is no catalog"):
        nb.connect(tmp_path, create=False)
    assert (tmp_path / "catalog.db").stat().st_size == 0
    assert nb.connect(tmp_path).create_table("a.b", ROWS).num_rows == 2
    assert nb.connect(tmp_path, create=False).tables() == ["a.b"]


@pytest.mark.parametrize("place", range(0, 20_000, 701))
def test_a_damaged_database_raises_errors_of_the_library(tmp_path: Path, place: int) -> None:
    nb.connect(tmp_path).create_table("a.b", ROWS)
    path = tmp_path / "catalog.db"
    content = bytearray(path.read_bytes())
    for at in range(place % len(content), min(place % len(content) + 300, len(content)), 3):
        content[at] ^= 0xC1
    path.write_bytes(content)
    with contextlib.suppress(nb.NimbleError, OSError):
        nb.connect(tmp_path, create=False).table("a.b").to_table()
