"""Catalogs: connecting, names, creating, renaming, dropping."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from catalog_kinds import needs_sqlite
from processes import pool_of
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import TableAlreadyExistsError

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.iceberg.catalog_rows import CatalogRows

ROWS = pa.table({"id": pa.array([3, 1, 2], pa.int64()), "v": ["c", "a", "b"]})


def test_a_directory_is_a_catalog(lake: nb.Catalog, tmp_path: Path) -> None:
    made = lake.create_table("shop.items", ROWS, cluster_by="id")
    assert made.to_table().column("id").to_pylist() == [1, 2, 3]
    again = nb.connect(str(tmp_path / "lake"))
    assert again.tables() == ["shop.items"]
    assert again.namespaces() == ["shop"]
    assert again.table("shop.items").get(2) == {"id": 2, "v": "b"}


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_a_directory_by_its_uri(tmp_path: Path, kind: str) -> None:
    """A URI of a directory was taken for a catalog of pyiceberg."""
    place = tmp_path / "a lake"
    nb.connect(place, catalog=kind).create_table("a.b", pa.table({"k": [1]}))
    again = nb.connect(place.as_uri().replace("%20", " "))
    assert again.table("a.b").num_rows == 1
    assert nb.connect(place).tables() == again.tables() == ["a.b"]


def test_an_empty_table(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS.schema, primary_key="id")
    assert table.snapshot is None
    assert (table.num_rows, table.count_rows(), len(table)) == (0, 0, 0)
    assert table.get(1) is None
    assert table.lookup([1]).num_rows == 0
    assert table.range(1, 2).num_rows == 0
    assert table.scan(filter="id > 1").to_table().schema.names == ["id", "v"]
    assert table.snapshots().num_rows == 0
    assert table.primary_key == ["id"]
    assert [key.column for key in table.cluster_by] == ["id"]


def test_a_pyiceberg_catalog_is_taken(tmp_path: Path) -> None:
    theirs = SqlCatalog("x", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    lake = nb.connect(catalog=theirs)
    lake.create_table("n.t", ROWS)
    assert theirs.load_table("n.t").metadata.current_snapshot() is not None
    assert nb.connect(f"sqlite:///{tmp_path}/d.db").tables() == []


@pytest.mark.parametrize(
    "name",
    ["items", "", "a..b", "a.b/c", "a.b\\c", "a.", " a.b", "a.b\n", "a.b\0", "a." + "x" * 300],
)
def test_names_that_cannot_be(lake: nb.Catalog, name: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="name"):
        lake.create_table(name, ROWS)
    assert lake.tables() == []


@pytest.mark.parametrize(
    "name", ["my shop.the 'best' \"items\"", "größe.日本", "a%20b.50%", "n#1.t?x=1", "a.b.c", "_.%"]
)
def test_names_that_are_odd(lake: nb.Catalog, tmp_path: Path, name: str) -> None:
    table = lake.create_table(name, ROWS, cluster_by="id")
    table.append(ROWS)
    assert lake.tables() == [name]
    assert nb.connect(tmp_path / "lake").table(name).count([1]).to_pylist() == [2]
    lake.drop_table(name, purge=True)
    assert lake.tables() == []


def test_directories_that_metadata_cannot_name(tmp_path: Path) -> None:
    for name in ("a#b", "a?b", "a%20b"):
        with pytest.raises(nb.InvalidArgumentError, match="URI"):
            nb.connect(tmp_path / name)
    (tmp_path / "file").write_text("x")
    with pytest.raises(nb.InvalidArgumentError, match="not a directory"):
        nb.connect(tmp_path / "file")
    spaced = nb.connect(tmp_path / "größe of a lake")
    assert spaced.create_table("a.b", ROWS).num_rows == 3


def test_existing_tables(lake: nb.Catalog) -> None:
    first = lake.create_table("a.b", ROWS)
    with pytest.raises(nb.InvalidArgumentError, match="already"):
        lake.create_table("a.b", ROWS)
    same = lake.create_table("a.b", ROWS.schema, if_exists="ignore")
    assert same.snapshot == first.snapshot


@pytest.mark.parametrize("interrupt", [False, True], ids=["an error", "Ctrl-C"])
def test_a_table_of_rows_that_cannot_be_written_is_not_made(
    lake: nb.Catalog, tmp_path: Path, interrupt: bool
) -> None:
    rows = pa.record_batch({"k": [1, 1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows
        raise KeyboardInterrupt if interrupt else OSError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(rows.schema, batches())
    with pytest.raises(KeyboardInterrupt if interrupt else OSError):
        lake.create_table("a.b", reader)
    with pytest.raises(nb.DuplicateKeyError):
        lake.create_table("a.b", pa.table(rows.to_pydict()), primary_key="k")
    assert lake.tables() == []
    of_catalog = ("catalog.db", "nimble.catalog")
    files = [p.relative_to(tmp_path / "lake") for p in tmp_path.rglob("*") if p.is_file()]
    assert {path.parts[0] for path in files} <= {*of_catalog}
    assert lake.create_table("a.b", pa.table(rows.to_pydict())).num_rows == 2


def test_rename_drop_and_purge(lake: nb.Catalog, tmp_path: Path) -> None:
    old = lake.create_table("a.b", ROWS)
    new = lake.rename_table("a.b", "c.d")
    assert lake.tables() == ["c.d"]
    assert new.to_table().equals(old.to_table())
    other = lake.create_table("a.b", ROWS)
    assert other.location != new.location
    with pytest.raises(nb.InvalidArgumentError, match="already"):
        lake.rename_table("a.b", "c.d")
    lake.drop_table("a.b")
    with pytest.raises(nb.InvalidArgumentError, match=r"no table 'a\.b'"):
        lake.table("a.b")
    with pytest.raises(nb.InvalidArgumentError, match=r"'c\.x'; its namespace has c\.d"):
        lake.table("c.x")
    where = new.location.removeprefix("file://")
    lake.drop_table("c.d", purge=True)
    assert [name for _, _, names in os.walk(where) for name in names] == []


@pytest.mark.parametrize("landed", [False, True])
@needs_sqlite
def test_a_database_that_fails_in_a_commit(
    lake: nb.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    """The metadata file of a commit that was not made was left behind."""
    table = lake.create_table("a.b", ROWS)
    for name in ("swap", "add"):
        plain = getattr(CatalogRows, name)

        def failing(*arguments: Any, plain: Any = plain) -> None:
            if landed:
                plain(*arguments)
            raise OSError("disk I/O error")

        monkeypatch.setattr(CatalogRows, name, failing)
    changes = (lambda: table.append(ROWS), lambda: lake.create_table("a.c", ROWS.schema))
    for change in changes:
        with contextlib.nullcontext() if landed else pytest.raises(OSError, match="disk I/O error"):
            change()
    again = nb.connect(tmp_path / "lake")
    assert again.tables() == (["a.b", "a.c"] if landed else ["a.b"])
    assert again.table("a.b").num_rows == ROWS.num_rows * (1 + landed)
    assert again.table("a.b").remove_orphans(older_than=dt.timedelta(0)).files == ()
    assert len(list(tmp_path.glob("lake/a/c-*/metadata/*"))) == landed


def test_purge_goes_on_after_a_file_that_stays(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS)
    table.append(ROWS)
    first = Path(ice.local_path(table.iceberg.metadata.metadata_log[0].metadata_file) or "")
    first.unlink()
    first.mkdir()
    with pytest.raises(OSError, match=r"a\.b was dropped, but 1 of its files"):
        lake.drop_table("a.b", purge=True)
    assert [names for _, _, names in os.walk(first.parent.parent) if names] == []


@pytest.mark.parametrize(
    "columns",
    [
        {"s.k": pa.int64(), "s": pa.struct({"k": pa.int64()})},
        {"s": pa.struct([("k", pa.int64()), ("k", pa.int32())])},
        {"l": pa.list_(pa.int64()), "l.element": pa.int64()},
    ],
)
def test_names_that_iceberg_cannot_tell_apart(
    lake: nb.Catalog, columns: dict[str, pa.DataType]
) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"rename one: .* multiple fields for name"):
        lake.create_table("a.b", pa.schema(columns))
    assert lake.namespaces() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"primary_key": "x"}, "no column 'x'"),
        ({"primary_key": "f"}, "cannot be a key"),
        ({"cluster_by": "s"}, "no order"),
        ({"cluster_by": "x"}, "unknown column"),
        ({"partition_by": ["day(v)"]}, "day"),
        ({"partition_by": "f"}, "double"),
        ({"data_format": "orc"}, "'nimble' or 'parquet'"),
        ({"if_exists": "replace"}, "'error' or 'ignore'"),
        ({"indexes": [nb.HashIndex("x")]}, "unknown column"),
        ({"properties": {"a": 1}}, "expected text"),
    ],
)
def test_tables_that_cannot_be(
    lake: nb.Catalog, arguments: dict[str, object], message: str
) -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "v": pa.string(),
            "f": pa.float64(),
            "s": pa.struct([("a", pa.int32())]),
        }
    )
    with pytest.raises(nb.InvalidArgumentError, match=message):
        lake.create_table("a.b", schema, **arguments)  # type: ignore[arg-type]
    assert lake.tables() == []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.uint64(), "int64"),
        (pa.duration("s"), "duration"),
        (pa.null(), "null"),
        (pa.struct([]), "without fields"),
        (pa.list_(pa.struct([("x", pa.uint64())])), r"column 'c'.element.x has type uint64"),
        (pa.decimal256(50, 2), "38 digits"),
    ],
)
def test_types_that_tables_do_not_have(lake: nb.Catalog, kind: pa.DataType, message: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=message):
        lake.create_table("a.b", pa.schema({"c": kind}))


def _create(directory: str, number: int) -> str:
    try:
        made = nb.connect(directory).create_table("a.b", pa.schema({f"c{number}": pa.int64()}))
    except nb.InvalidArgumentError as error:
        return str(error)
    return made.schema.names[0]


def test_two_processes_make_one_table(tmp_path: Path) -> None:
    directory = str(tmp_path / "lake")
    with pool_of(4) as pool:
        results = pool.starmap(_create, [(directory, i) for i in range(4)])
    won = [text for text in results if text.startswith("c")]
    assert len(won) == 1
    assert all("already" in text for text in results if text not in won)
    assert nb.connect(directory).table("a.b").schema.names == won


def test_pickles(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, cluster_by="id")
    copy = pickle.loads(pickle.dumps(table))
    assert copy.get(1) == {"id": 1, "v": "a"}
    table.append(ROWS)
    assert pickle.loads(pickle.dumps(table)).num_rows == 6


def test_importing_nimblepy_imports_no_pyiceberg() -> None:
    code = "import nimblepy, sys; nimblepy.File; print('pyiceberg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_metadata_is_registered_again(lake: nb.Catalog) -> None:
    """As pyiceberg's catalogs do it: instead of the table's metadata, where that is asked for."""
    table = lake.create_table("a.b", ROWS)
    old = lake.iceberg.load_table(("a", "b")).metadata_location
    table.append(ROWS)
    with pytest.raises(TableAlreadyExistsError):
        lake.iceberg.register_table(("a", "b"), old)
    lake.iceberg.register_table(("a", "b"), old, overwrite=True)
    assert lake.table("a.b").num_rows == ROWS.num_rows


@needs_sqlite
def test_metadata_files_of_others_stay(lake: nb.Catalog, tmp_path: Path) -> None:
    """Those that the log names are deleted as it grows; it used to be whatever it named."""
    few = {"write.metadata.previous-versions-max": "2"}
    theirs = lake.create_table("a.b", ROWS, properties=few)
    theirs.append(ROWS)
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    newest = Path(ice.local_path(theirs.metadata_location) or "")
    newest = Path(ice.local_path(theirs.metadata_location) or "")
    text = json.loads(newest.read_text())
    text["metadata-log"][0]["metadata-file"] = str(mine)
    given = newest.with_name(f"00009-{uuid.uuid4()}.metadata.json")
    given.write_text(json.dumps(text))
    other = nb.connect(tmp_path / "other")
    table = other.register("c.d", given)
    for _ in range(5):
        table.append(ROWS)
    assert mine.read_text() == "mine"
    assert lake.table("a.b").num_rows == 2 * ROWS.num_rows
    # Of its own, but for the newest, only the two that the log still names.
    made = [path.name for path in given.parent.glob("*.metadata.json")]
    assert sorted(name[:5] for name in made if name > given.name) == ["00012", "00013", "00014"]


@pytest.mark.parametrize("copied", [True, False])
def test_metadata_that_a_copy_names_stays(lake: nb.Catalog, tmp_path: Path, copied: bool) -> None:
    few = {"write.metadata.previous-versions-max": "1"}
    table = lake.create_table("a.b", ROWS, properties=few)
    table.append(ROWS)
    if copied:
        shutil.copytree(tmp_path / "lake", tmp_path / "copy")
        other = nb.connect(tmp_path / "copy").table("a.b")
    else:
        other = lake.register("a.c", table.metadata_location)
    for _ in range(4):
        other.append(ROWS)
    assert nb.connect(tmp_path / "lake").table("a.b").num_rows == 2 * ROWS.num_rows


def copied_database(lake: Path, copy: Path) -> Path:
    """A directory with a copy of the database of a lake, and of no other file."""
    copy.mkdir()
    shutil.copy(lake / "catalog.db", copy / "catalog.db")
    return copy


@needs_sqlite
def test_a_copied_database_removes_no_files(lake: nb.Catalog, tmp_path: Path) -> None:
    """Its tables are in the original lake, which still needs their files."""
    table = lake.create_table("a.b", ROWS)
    table.append(ROWS)
    copy = nb.connect(copied_database(tmp_path / "lake", tmp_path / "copy"))
    other = copy.table("a.b")
    other.overwrite(ROWS.slice(0, 1))
    table.append(ROWS)
    now = dt.timedelta(0)
    for remove in (
        lambda: other.expire(keep=1),
        lambda: other.remove_orphans(older_than=now),
        lambda: copy.drop_table("a.b", purge=True),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=r"is a copy of .*lake/catalog\.db"):
            remove()
    assert other.expire(keep=1, dry_run=True).snapshots
    assert copy.tables() == ["a.b"]
    assert nb.connect(tmp_path / "lake").table("a.b").to_table().num_rows == 3 * ROWS.num_rows
    table.expire(keep=1)
    copy.drop_table("a.b")
    # A database that was moved does not count as a copy, nor one whose original is gone.
    os.rename(tmp_path / "lake", tmp_path / "moved")
    os.rename(tmp_path / "copy", tmp_path / "lake")
    os.rename(tmp_path / "moved", tmp_path / "copy")
    for name in ("lake", "copy", "copy"):
        rows = CatalogRows(f"sqlite:///{tmp_path}/{name}/catalog.db", "nimble")
        rows.mark  # noqa: B018
        assert (rows.original() is None) == (name == "lake"), name
    shutil.rmtree(tmp_path / "lake")
    assert CatalogRows(f"sqlite:///{tmp_path}/copy/catalog.db", "nimble").original() is None


@needs_sqlite
def test_a_copied_database_whose_original_is_busy_removes_no_files(
    lake: nb.Catalog, tmp_path: Path
) -> None:
    table = lake.create_table("a.b", ROWS)
    first = table.snapshot
    table.overwrite(ROWS.slice(0, 1))
    copied_database(tmp_path / "lake", tmp_path / "copy")
    copy = nb.connect(f"sqlite:///{tmp_path}/copy/catalog.db?timeout=0.1").table("a.b")
    original = tmp_path / "lake" / "catalog.db"
    with contextlib.closing(sqlite3.connect(original, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(OSError, match="It may be the original of"):
            copy.expire(keep=1)
        other.execute("ROLLBACK")
    with pytest.raises(nb.InvalidArgumentError, match="is a copy of"):
        copy.expire(keep=1)
    assert table.at(snapshot=first).num_rows == ROWS.num_rows
    for octets in (b"no database", b""):
        original.write_bytes(octets)
        assert copy.expire(keep=1, dry_run=True).snapshots == (first,)
        rows = CatalogRows(f"sqlite:///{tmp_path}/copy/catalog.db", "nimble")
        assert rows.original() is None


@needs_sqlite
def test_metadata_is_read_with_the_credentials_that_are_given(lake: nb.Catalog) -> None:
    path = lake.create_table("a.b", ROWS).metadata_location
    for token in ("old", "new"):
        found = ice.metadata_at(path, {"s3.session-token": token})
        assert found.ice.io.properties["s3.session-token"] == token


def test_snapshots_by_numbers_of_numpy(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS)
    table.append(ROWS)
    first = table.snapshots()["snapshot_id"].to_numpy()[0]
    assert table.at(snapshot=first).num_rows == ROWS.num_rows
    assert table.tag("first", first).tags == {"first": first}
    assert table.rollback(first).num_rows == ROWS.num_rows


def test_a_rollback_by_who_has_seen_no_snapshot(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS.schema)
    other = lake.table("a.b")
    first = other.append(ROWS).snapshot
    assert first is not None
    other.append(ROWS)
    with pytest.raises(nb.ConflictError, match="this handle shows none") as caught:
        table.rollback(first)
    assert (caught.value.base, caught.value.winner) == (None, other.snapshot)


def test_what_is_no_metadata_gets_no_name(lake: nb.Catalog, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.metadata.json"
    wrong.write_bytes(b"no metadata")
    with pytest.raises(nb.CorruptFileError, match=r"wrong\.metadata\.json: not a metadata file"):
        lake.register("a.b", wrong)
    assert lake.tables() == []
    table = lake.create_table("a.b", ROWS)
    Path(ice.local_path(table.metadata_location) or "").write_bytes(b"no metadata")
    again = nb.connect(tmp_path / "lake")
    with pytest.raises(nb.CorruptFileError, match="not a metadata file"):
        again.table("a.b")
    Path(ice.local_path(table.metadata_location) or "").unlink()
    with pytest.raises(FileNotFoundError):
        again.table("a.b")
    again.drop_table("a.b")
    assert again.tables() == []


# ------------------------------------------------------------------ which catalog of a database


def _theirs(tmp_path: Path, name: str, table: str = "a.b") -> str:
    """A database in which pyiceberg has made a catalog of this name, with a table."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    uri = f"sqlite:///{tmp_path}/c.db"
    catalog = sql.SqlCatalog(name, uri=uri, warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace_if_not_exists(table.partition(".")[0])
    catalog.create_table(table, pa.schema([("x", pa.int64())])).append(pa.table({"x": [1, 2]}))
    catalog.close()
    return uri


def test_a_catalog_of_pyiceberg_is_found_by_its_uri(tmp_path: Path) -> None:
    # tables() was empty, without a word: the name of the catalog was not the one looked for.
    uri = _theirs(tmp_path, "prod")
    lake = nb.connect(uri)
    assert lake.tables() == ["a.b"]
    assert lake.table("a.b").num_rows == 2
    assert pickle.loads(pickle.dumps(lake)).tables() == ["a.b"]
    assert nb.connect(uri, name="prod").tables() == ["a.b"]
    assert nb.connect(uri, properties={"name": "prod"}).tables() == ["a.b"]
    assert nb.connect(uri, name="other").tables() == []
    table = lake.table("a.b")
    table.append(pa.table({"x": [3]}))
    assert pickle.loads(pickle.dumps(table)).num_rows == 3
    assert nb.connect("sqlite+pysqlite" + uri.removeprefix("sqlite")).tables() == ["a.b"]


def test_a_database_with_several_catalogs(tmp_path: Path) -> None:
    uri = _theirs(tmp_path, "prod")
    _theirs(tmp_path, "test", "a.c")
    with pytest.raises(nb.InvalidArgumentError, match="'prod', 'test'; choose one with name="):
        nb.connect(uri)
    assert nb.connect(uri, name="test").tables() == ["a.c"]
    made = nb.connect(uri, name="nimble").create_table("a.d", pa.schema([("x", pa.int64())]))
    made.append({"x": [1]})
    assert nb.connect(uri).tables() == ["a.d"]  # nimblepy's own comes first


def test_the_catalog_of_a_directory_has_a_name(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake", name="mine")
    lake.create_table("a.b", pa.schema([("x", pa.int64())]))
    assert nb.connect(tmp_path / "lake").tables() == ["a.b"]
    assert pickle.loads(pickle.dumps(lake)).tables() == ["a.b"]
    assert nb.connect(tmp_path / "lake", name="nimble").tables() == []
    with pytest.raises(nb.InvalidArgumentError, match="name"):
        nb.connect(tmp_path / "lake", name=7)  # type: ignore[arg-type]


# ------------------------------------------------------------------ what a typo makes


@pytest.mark.parametrize("kind", ["directory", "uri"])
def test_nothing_is_made_before_the_first_write(tmp_path: Path, kind: str) -> None:
    # A typo in the name made a directory with a database.
    place = str(tmp_path / "lakke" if kind == "directory" else f"sqlite:///{tmp_path}/c.db")
    lake = nb.connect(place)
    assert lake.tables() == lake.namespaces() == []
    with pytest.raises(nb.InvalidArgumentError, match=r"'a\.b': the catalog .* has no tables"):
        lake.table("a.b")
    for change in (
        lambda: lake.drop_table("a.b"),
        lambda: lake.rename_table("a.b", "a.c"),
        lambda: lake.register("a.b", tmp_path / "no.json"),
    ):
        with pytest.raises(nb.InvalidArgumentError):
            change()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(nb.InvalidArgumentError, match="there is no catalog; create=True makes one"):
        nb.connect(place, create=False)
    again = nb.connect(place)  # which sees what the other makes
    lake.create_table("a.b", pa.table({"x": [1]}))
    assert again.tables() == ["a.b"]
    assert nb.connect(place, create=False).table("a.b").num_rows == 1


def test_schemas_are_shown_without_field_ids(tmp_path: Path) -> None:
    # They made three lines of each column.
    rows = pa.table({"x": [1], "s": [{"a": [1]}]})
    table = nb.connect(tmp_path).create_table("a.b", rows)
    assert "field_id" not in str(table.schema)
    assert table.schema is table.schema
    with table.alter() as change:
        change.add_column("y", pa.int64())
    assert table.schema.names == ["x", "s", "y"]
    assert table.iceberg.schema().find_field("y").field_id > 0
