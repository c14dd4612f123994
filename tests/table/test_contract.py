"""The details that the contract of tables promises, one by one."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

DAY = dt.timedelta(days=1)


def rows(*keys: int | None, **columns: Any) -> pa.Table:
    groups = pa.array([f"g{(k or 0) % 3}" for k in keys], pa.string())
    made = {"k": pa.array(keys, pa.int64()), "g": groups}
    return pa.table(made | {name: [value] * len(keys) for name, value in columns.items()})


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    return lake.create_table("a.b", rows(1, 2, 3, 4, 5, 6), cluster_by="k", partition_by="g")


# ---- snapshots and handles


def test_snapshot_ids(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", rows().schema)
    assert table.snapshot is None
    assert table.snapshots().num_rows == 0
    done = table.append(rows(1))
    assert type(done.snapshot) is int
    assert done.snapshot == table.snapshot
    history = table.snapshots()
    assert isinstance(history, pa.Table)
    assert history.column_names[:4] == ["snapshot_id", "parent_id", "timestamp", "operation"]
    assert history.column("snapshot_id").to_pylist() == [table.snapshot]
    assert {"rows_inserted", "rows_updated", "rows_deleted"} <= set(history.column_names)
    assert {"files_added", "files_removed", "bytes_written"} <= set(history.column_names)


def test_handles(lake: nb.Catalog, table: nb.Table) -> None:
    other = lake.table("a.b")
    table.append(rows(7))
    assert other.num_rows == 6
    assert other.refresh() is other
    assert other.num_rows == 7
    assert lake.tables() == ["a.b"]
    assert lake.tables("a") == ["a.b"]
    assert lake.namespaces() == ["a"]


def test_commits_are_frozen(table: nb.Table) -> None:
    done = table.append(rows(9))
    names = [field.name for field in dataclasses.fields(nb.Commit)]
    expected = "snapshot rows_inserted rows_updated rows_deleted files_added files_removed "
    assert names == [*expected.split(), "bytes_written", "retries", "seconds"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        done.rows_inserted = 3  # type: ignore[misc]


# ---- columns and partitions


def test_places_of_columns(table: nb.Table) -> None:
    with table.alter() as a:
        a.add_column("x", pa.int32(), after="k")
        a.add_column("y", pa.int32(), first=True)
        a.move_column("g", first=True)
        a.move_column("k", after="x")
    assert table.schema.names == ["g", "y", "x", "k"]
    for given, expected in (
        (("bucket(2, k)", "g"), ["bucket(2, k)", "g"]),
        ((["truncate(2, g)"],), ["truncate(2, g)"]),
        ((), []),
    ):
        with table.alter() as a:
            a.partition_by(*given)
        assert sorted(table.partition_by) == sorted(expected)
        assert table.append(rows(*range(10, 20))).files_added
    assert table.num_rows == 36


def test_defaults_and_nulls(table: nb.Table) -> None:
    with table.alter() as a:
        a.add_column("x", pa.int32(), default=7)
        a.add_column("y", pa.int32())
    table.append(pa.table({"k": [10], "g": ["g1"], "x": pa.array([None], pa.int32())}))
    assert table.lookup([(1,), (10,)], columns=["k", "x", "y"]).to_pylist() == [
        {"k": 1, "x": 7, "y": None},
        {"k": 10, "x": None, "y": None},
    ]
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'z'"):
        table.append(rows(11, z=1))


def test_missing_columns(lake: nb.Catalog) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
    table = lake.create_table("a.b", schema)
    table.append(pa.table({"k": [1]}))
    assert table.to_table().to_pylist() == [{"k": 1, "v": None}]
    with pytest.raises(nb.InvalidArgumentError, match="'k'"):
        table.append(pa.table({"v": [1]}))


@pytest.mark.parametrize("column", ["k", "c", "g"])
def test_columns_that_cannot_be_dropped(lake: nb.Catalog, column: str) -> None:
    data = rows(1, 2).append_column("c", pa.array([1, 2]))
    table = lake.create_table("a.b", data, primary_key="k", cluster_by="c", partition_by="g")
    with pytest.raises(nb.InvalidArgumentError, match=column), table.alter() as a:
        a.drop_column(column)
    assert column in table.refresh().schema.names


def test_schemas_of_the_past(table: nb.Table) -> None:
    first = table.snapshot
    assert first is not None
    with table.alter() as a:
        a.rename_column("g", "h").add_column("x", pa.int32())
    table.append(pa.table({"k": [9]}))
    assert table.at(snapshot=first).schema.names == ["k", "g"]
    table.rollback(first)
    assert table.schema.names == ["k", "h", "x"]
    assert table.num_rows == 6


# ---- deletes and keys


def test_deletes_say_what_goes(lake: nb.Catalog, table: nb.Table) -> None:
    keyed = lake.create_table("a.keyed", rows(1, 2), primary_key="k")
    before = table.snapshot, keyed.snapshot
    for made, arguments in (
        (table, {}),
        (keyed, {}),
        (keyed, {"filter": "k = 1", "keys": [1]}),
        (table, {"keys": [1]}),
    ):
        with pytest.raises(nb.InvalidArgumentError):
            made.delete(**arguments)
    with pytest.raises(nb.DuplicateKeyError, match="k=2"):
        keyed.append(rows(2, 3))
    with pytest.raises(nb.InvalidArgumentError, match="'k'"):
        keyed.append(rows(4, None))
    assert (table.refresh().snapshot, keyed.refresh().snapshot) == before


def test_which_key_is_meant(lake: nb.Catalog) -> None:
    data = pa.table({"c": [3, None, 1, 2], "k": [1, 2, 3, 4]})
    table = lake.create_table("a.b", data, primary_key="k", cluster_by="c")
    assert table.get(4) == {"c": 2, "k": 4}
    assert table.lookup([3, 1]).column("c").to_pylist() == [1, 3]
    assert table.contains([4, 5]).to_pylist() == [True, False]
    assert table.count([4, 5]).to_pylist() == [1, 0]
    assert table.range().column("c").to_pylist() == [1, 2, 3, None]
    assert table.range(2, 4).column("k").to_pylist() == [4, 1]
    assert table.prefix(2).column("k").to_pylist() == [4]
    plain = lake.create_table("a.plain", data, cluster_by="c")
    assert plain.get(2) == {"c": 2, "k": 4}
    assert table.at(snapshot=table.snapshot).primary_key == ["k"]


def test_orders(table: nb.Table) -> None:
    assert table.range(2, 6).column("k").to_pylist() == [2, 3, 4, 5]
    assert table.range(2, 6, reverse=True).column("k").to_pylist() == [5, 4, 3, 2]
    assert table.lookup([5, 1, 5]).column("k").to_pylist() == [5, 1, 5]


# ---- plans


def test_plans_list_files(lake: nb.Catalog, table: nb.Table) -> None:
    table.delete("k = 4")  # one of the two rows of g1
    plan = lake.table("a.b").explain(filter="g = 'g1'")
    files = plan["files"]
    assert isinstance(files, tuple)
    (file,) = files
    assert {name: file[name] for name in ("rows", "deleted_rows")} == {"rows": 2, "deleted_rows": 1}
    path = Path(str(file["path"]).removeprefix("file://"))
    assert path.stat().st_size == file["bytes"]
    reads = plan["metadata_reads"]
    assert isinstance(reads, int)
    assert 1 <= reads <= 1 + 1 + 2  # metadata, list, a manifest of data and one of deletes
    assert "files=1" in str(plan)
    assert plan.to_dict()["details"]
    every = table.explain()["files"]
    assert isinstance(every, tuple)
    assert len(every) == 3
    found = table.explain([2])["files"]
    assert isinstance(found, tuple)
    assert 1 <= len(found) <= 3


# ---- keeping it small


def test_ages(table: nb.Table) -> None:
    for age in (DAY, dt.datetime.now(dt.UTC) - DAY):
        assert table.expire(keep=1, older_than=age).snapshots == ()
        assert table.remove_orphans(older_than=age).files == ()
    for wrong in (dt.datetime.now(), 3, "3 days", -DAY):
        with pytest.raises(nb.InvalidArgumentError, match="older_than"):
            table.remove_orphans(older_than=wrong)  # type: ignore[arg-type]
    for keep in (0, -1, "3", 1.5, True):
        with pytest.raises(nb.InvalidArgumentError, match="keep"):
            table.expire(keep=keep)  # type: ignore[arg-type]
    default = inspect.signature(nb.Table.remove_orphans).parameters["older_than"].default
    assert default == 3 * DAY


def test_history_that_properties_keep(lake: nb.Catalog) -> None:
    table = lake.create_table(
        "a.b", rows(0).schema, properties={"history.expire.min-snapshots-to-keep": "3"}
    )
    for key in range(5):
        table.append(rows(key))
    table.expire(keep=1)
    assert table.snapshots().num_rows == 3
    with table.alter() as a:
        a.set_properties({"history.expire.max-snapshot-age-ms": str(10**9)})
    table.append(rows(9))
    table.expire(keep=1)
    assert table.snapshots().num_rows == 4


def test_census(table: nb.Table) -> None:
    found = table.census()
    assert {"path", "bytes", "kind", "reachable", "snapshots"} <= set(found.column_names)
    assert all(found.column("reachable").to_pylist())


# ---- names and places

NAMES = [
    "with space",
    'it\'s "quoted"',
    "größe 表",
    "100%",
    "a#b",
    "what?",
    "semi;colon",
    "back`tick",
    "%2F",
    "new\nline",
    "..",
    "a/b",
    "a\\b",
    " space",
    "x" * 300,
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_work_as_a_whole_or_are_refused(lake: nb.Catalog, name: str) -> None:
    whole = f"n.{name}"
    try:
        table = lake.create_table(whole, rows(1, 2), cluster_by="k")
    except nb.InvalidArgumentError:
        assert lake.tables() == []
        assert name not in NAMES[:9], "a name that should work"
        return
    assert "/" not in name
    table.append(rows(3))
    table.delete("k = 2")
    table.tag(name[:50])
    assert lake.tables() == [whole]
    again = pickle.loads(pickle.dumps(lake)).table(whole)
    assert again.lookup([1, 2, 3]).column("k").to_pylist() == [1, 3]
    assert again.at(tag=name[:50]).num_rows == 2
    assert again.remove_orphans(older_than=dt.timedelta(0)).files == ()
    moved = lake.rename_table(whole, "n.other")
    fresh = lake.create_table(whole, rows(1))
    assert fresh.location != moved.location
    lake.drop_table(whole, purge=True)
    assert lake.table("n.other").num_rows == 2


# Characters after which none comes: the last of all, and the last before the surrogates.
@pytest.mark.parametrize("last", ["\U0010ffff", "\ud7ff", "a\U0010ffff", "é" * 15 + "\U0010ffff"])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_bounds_that_cannot_be_raised(lake: nb.Catalog, last: str, data_format: Any) -> None:
    texts = [last * 20, last * 20 + "b", last * 17, "a"]
    table = lake.create_table(
        "a.b", pa.table({"s": texts}), cluster_by="s", data_format=data_format
    )
    for text in texts:
        assert table.to_table(filter=pa.compute.field("s") == text).num_rows == 1
        assert table.contains([text]).to_pylist() == [True]
    assert table.count_rows(pa.compute.field("s") >= last * 17) == 3


# ---- what is given


WRONG: dict[str, Callable[[nb.Catalog, nb.Table], Any]] = {
    "tables": lambda lake, t: lake.tables(5),  # type: ignore[arg-type]
    "table": lambda lake, t: lake.table(5),  # type: ignore[arg-type]
    "table of one name": lambda lake, t: lake.table("b"),
    "drop_table": lambda lake, t: lake.drop_table(None),  # type: ignore[arg-type]
    "drop_namespace": lambda lake, t: lake.drop_namespace(5),  # type: ignore[arg-type]
    "rename_table": lambda lake, t: lake.rename_table("a.b", 5),  # type: ignore[arg-type]
    "register": lambda lake, t: lake.register("a.c", 5),  # type: ignore[arg-type]
    "connect": lambda lake, t: nb.connect(5),  # type: ignore[arg-type]
    "create: schema": lambda lake, t: lake.create_table("a.c", 5),
    "create: key": lambda lake, t: lake.create_table("a.c", rows(1), primary_key=5),  # type: ignore[arg-type]
    "create: cluster": lambda lake, t: lake.create_table("a.c", rows(1), cluster_by=5),  # type: ignore[arg-type]
    "create: partition": lambda lake, t: lake.create_table("a.c", rows(1), partition_by=5),  # type: ignore[arg-type]
    "create: indexes": lambda lake, t: lake.create_table("a.c", rows(1), indexes=[5]),  # type: ignore[list-item]
    "create: format": lambda lake, t: lake.create_table("a.c", rows(1), data_format="orc"),  # type: ignore[arg-type]
    "create: options": lambda lake, t: lake.create_table("a.c", rows(1), options={}),  # type: ignore[arg-type]
    "create: properties": lambda lake, t: lake.create_table("a.c", rows(1), properties={"a": 1}),  # type: ignore[dict-item]
    "create: comment": lambda lake, t: lake.create_table("a.c", rows(1), comment=5),  # type: ignore[arg-type]
    "append": lambda lake, t: t.append(5),
    "overwrite": lambda lake, t: t.overwrite(5),
    "overwrite: filter": lambda lake, t: t.overwrite(rows(1), filter=5),  # type: ignore[arg-type]
    "delete": lambda lake, t: t.delete(5),  # type: ignore[arg-type]
    "delete: column": lambda lake, t: t.delete("nothing = 1"),
    "convert": lambda lake, t: t.convert("orc"),  # type: ignore[arg-type]
    "add_files": lambda lake, t: t.add_files(5),  # type: ignore[arg-type]
    "at": lambda lake, t: t.at(),
    "at: snapshot": lambda lake, t: t.at(snapshot="x"),  # type: ignore[arg-type]
    "at: tag": lambda lake, t: t.at(tag=5),  # type: ignore[arg-type]
    "at: time": lambda lake, t: t.at(time="2024-01-01"),  # type: ignore[arg-type]
    "at: naive time": lambda lake, t: t.at(time=dt.datetime(2024, 1, 1)),
    "tag": lambda lake, t: t.tag(5),  # type: ignore[arg-type]
    "tag: snapshot": lambda lake, t: t.tag("x", snapshot="y"),  # type: ignore[arg-type]
    "branch": lambda lake, t: t.branch(""),
    "drop_reference": lambda lake, t: t.drop_reference(5),  # type: ignore[arg-type]
    "rollback": lambda lake, t: t.rollback("x"),  # type: ignore[arg-type]
    "rollback to nothing": lambda lake, t: t.rollback(True),
    "alter: add": lambda lake, t: t.alter().add_column("x", int),  # type: ignore[arg-type]
    "alter: name": lambda lake, t: t.alter().add_column(5, pa.int32()),  # type: ignore[arg-type]
    "alter: default": lambda lake, t: t.alter().add_column("x", pa.int32(), default="text"),
    "alter: rename": lambda lake, t: t.alter().rename_column("k", 5),  # type: ignore[arg-type]
    "alter: drop": lambda lake, t: t.alter().drop_column(5),  # type: ignore[arg-type]
    "alter: widen": lambda lake, t: t.alter().widen("k", "long"),  # type: ignore[arg-type]
    "alter: move": lambda lake, t: t.alter().move_column("k", after=5),  # type: ignore[arg-type]
    "alter: partition": lambda lake, t: t.alter().partition_by(5),  # type: ignore[arg-type]
    "alter: properties": lambda lake, t: t.alter().set_properties({"a": 1}),  # type: ignore[dict-item]
    "alter: no dict": lambda lake, t: t.alter().set_properties(5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("step", WRONG.values(), ids=WRONG.keys())
def test_wrong_kinds_of_arguments(
    lake: nb.Catalog, table: nb.Table, step: Callable[[nb.Catalog, nb.Table], Any]
) -> None:
    before = table.metadata_location
    with pytest.raises((nb.InvalidArgumentError, TypeError)) as raised:
        step(lake, table)
    text = str(raised.value)
    # Ours, and not what some line of the inside stumbled over.
    for stumbled in ("object has no attribute", "object is not", "unsupported operand", "NoneType"):
        assert stumbled not in text
    assert len(text) > 10
    assert lake.table("a.b").metadata_location == before
    assert lake.tables() == ["a.b"]


def test_indexes_of_a_table_are_advised_on(lake: nb.Catalog) -> None:
    """By its largest file; a table without rows has none."""
    rows = pa.table({"k": range(5000), "s": [f"s{i % 997}" for i in range(5000)]})
    table = lake.create_table("a.advised", rows.schema, primary_key="k")
    with pytest.raises(nb.InvalidArgumentError, match="no nimble file to advise on"):
        nb.advise_indexes(table, ["s = 's7'"])
    table.append(rows)
    assert nb.advise_indexes(table, ["s = 's7'"])[0].index is not None


@pytest.mark.parametrize("primary", [None, "id"])
def test_declared_indexes_answer_where_there_are_no_rows(
    lake: nb.Catalog, primary: str | None
) -> None:
    """They were said not to be there: "there are no files"."""
    schema = pa.schema({"id": pa.int64(), "mail": pa.string(), "age": pa.int64()})
    table = lake.create_table(
        "a.b",
        schema,
        primary_key=primary,
        indexes=[nb.HashIndex("mail"), nb.SortedIndex(["mail", "age"]), nb.SortedIndex("age")],
    )
    rows = pa.table({"id": [1], "mail": ["m"], "age": [3]})

    def check() -> None:
        assert table.get("m", on="mail") is None
        assert table.lookup(["m"], on="mail").num_rows == 0
        assert table.contains(["m"], on="mail").to_pylist() == [False]
        assert table.count(["m", "n"], on="mail").to_pylist() == [0, 0]
        assert table.range("a", "z", on="mail").num_rows == 0
        assert table.prefix("m", on=["mail", "age"]).num_rows == 0
        joined = table.index_join(pa.table({"mail": ["m"]}), on="mail", how="left")
        assert joined.to_pylist() == [{"mail": "m", "id": None, "age": None}]
        with table.transaction() as tx:
            assert tx.get("m", on="mail") is None
        with pytest.raises(nb.IndexUnavailableError, match=r"no index on \(id, age\)"):
            table.lookup([(1, 3)], on=["id", "age"])
        with pytest.raises(nb.IndexUnavailableError, match="order"):
            table.range((3, "a"), None, on=["age", "mail"])

    check()
    declared = [(info.kind, info.columns) for info in table.indexes]
    table.append(rows)
    assert [(info.kind, info.columns) for info in table.indexes] == declared
    assert table.get("m", on="mail") == {"id": 1, "mail": "m", "age": 3}
    table.delete("id = 1")
    check()
    assert [(info.kind, info.columns) for info in table.indexes] == declared
    with table.alter() as a:
        a.rename_column("age", "years")
    assert table.get(3, on="years") is None
    assert table.at(snapshot=table.snapshot).get(3, on="age") is None


def test_a_parquet_table_without_rows_has_its_indexes(lake: nb.Catalog) -> None:
    schema = pa.schema({"id": pa.int64(), "mail": pa.string()})
    table = lake.create_table(
        "a.b", schema, cluster_by="id", indexes=[nb.HashIndex("mail")], data_format="parquet"
    )
    assert [(index.kind, index.columns[0].column) for index in table.indexes] == [("hash", "mail")]
    assert table.get("m", on="mail") is None
