"""Columns and partitions that change: files of before are read by field id."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table import Table as IceTable

import nimblepy as nb
from nimblepy.table.reading import members

SCHEMA = pa.schema(
    {
        "k": pa.int32(),
        "v": pa.string(),
        "x": pa.float32(),
        "d": pa.decimal128(5, 2),
        "n": pa.struct([("a", pa.int32()), ("b", pa.string())]),
        "l": pa.list_(pa.struct([("p", pa.int32())])),
    }
)
OLD = pa.table(
    {
        "k": [3, 1, 2],
        "v": ["c", "a", "b"],
        "x": [0.5, 1.5, float("nan")],
        "d": [Decimal("1.10"), None, Decimal("-3.00")],
        "n": [{"a": 1, "b": "q"}, None, {"a": 2, "b": None}],
        "l": [[{"p": 1}], None, []],
    },
    schema=SCHEMA,
)
FORMATS = pytest.mark.parametrize("data_format", ["nimble", "parquet"])


@pytest.fixture(params=[False, True], ids=["as it is", "mapped"])
def table(
    lake: nb.Catalog, data_format: Any, request: Any, monkeypatch: pytest.MonkeyPatch
) -> nb.Table:
    """A table whose files are read as they are where they fit, or mapped by field id, all."""
    if request.param:
        monkeypatch.setattr(members, "fits_as_it_is", lambda have, wanted: False)
    return lake.create_table("a.b", OLD, cluster_by="k", data_format=data_format)


@FORMATS
def test_rename_and_read_old_files(table: nb.Table) -> None:
    with table.alter() as a:
        a.rename_column("v", "w").rename_column("k", "key").rename_column("n.a", "z")
    assert table.schema.names == ["key", "w", "x", "d", "n", "l"]
    assert [str(key) for key in table.cluster_by] == ["key"]
    assert table.get(2, ["w"]) == {"w": "b"}
    assert table.lookup([3, 9]).column("w").to_pylist() == ["c"]
    assert table.range(1, 3).column("key").to_pylist() == [1, 2]
    assert table.to_table(["n.z"], filter="w = 'c'").to_pylist() == [{"n.z": 1}]
    assert table.count_rows("n.z = 2") == 1
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'v'"):
        table.to_table(["v"])
    table.append(pa.table({"key": [7], "w": ["n"]}))
    assert table.range(2).column("w").to_pylist() == ["b", "c", "n"]


@FORMATS
def test_drop_and_add_again_is_another_column(table: nb.Table) -> None:
    with table.alter() as a:
        a.drop_column("v")
    with table.alter() as a:
        a.add_column("v", pa.int64())
    assert table.to_table(["v"]).column("v").to_pylist() == [None] * 3
    table.append(pa.table({"k": [9], "v": [4]}))
    assert table.count_rows("v = 4") == 1
    assert table.count_rows("v IS NULL") == 3
    with table.alter() as a:
        a.drop_column("x").add_column("x", pa.string(), first=True)
    assert table.schema.names[0] == "x"
    assert table.schema.field("x").type == pa.string()


@FORMATS
def test_defaults(table: nb.Table) -> None:
    noon = dt.datetime(2024, 1, 1, 12)
    with table.alter() as a:
        a.add_column("n1", pa.int32(), default=7, after="k", doc="a number")
        a.add_column("t", pa.timestamp("us"), default=noon)
        a.add_column("day", pa.date32(), default=dt.date(1969, 1, 1))
        a.add_column("c", pa.decimal128(6, 3), default=Decimal("1.500"))
        a.add_column("n.c", pa.int64())
    assert table.schema.names[:3] == ["k", "n1", "v"]
    table.append(
        pa.table({"k": [5, 6], "n1": [None, 8]}, schema=pa.schema({"k": "i4", "n1": "i4"}))
    )
    assert table.to_table(["k", "n1"]).sort_by("k").column("n1").to_pylist() == [7, 7, 7, None, 8]
    assert table.count_rows("n1 = 7") == 3
    assert table.count_rows("n1 IS NULL") == 1
    row = table.get(3)
    assert (row["t"], row["day"], row["c"]) == (noon, dt.date(1969, 1, 1), Decimal("1.500"))
    assert row["n"] == {"a": 1, "b": "q", "c": None}
    assert table.get(1)["n"] is None
    with pytest.raises(nb.InvalidArgumentError, match="default"), table.alter() as a:
        a.add_column("e", pa.int32(), default="x")


@FORMATS
def test_widen(table: nb.Table) -> None:
    with table.alter() as a:
        a.widen("k", pa.int64()).widen("x", pa.float64()).widen("d", pa.decimal128(9, 2))
        a.widen("n.a", pa.int64())
    table.append(pa.table({"k": [2**40, 2], "x": [0.1, 0.2]}))
    assert table.schema.field("k").type == pa.int64()
    assert table.count([2, 2**40, -(2**40), 3]).to_pylist() == [2, 1, 0, 1]
    assert table.get(2**40)["x"] == 0.1
    assert table.range(2, 2**50).column("k").to_pylist() == [2, 2, 3, 2**40]
    assert table.range(-(2**50), 2).column("k").to_pylist() == [1]
    assert table.prefix(3).num_rows == 1
    assert table.count_rows("k > 2") == 2
    assert table.count_rows("x = 1.5") == 1
    assert table.count_rows("d = -3.00") == 1
    assert table.count_rows("n.a >= 1") == 2
    for name, kind in (("k", pa.int32()), ("v", pa.int64()), ("d", pa.decimal128(20, 3))):
        with pytest.raises(nb.InvalidArgumentError, match="cannot represent"), table.alter() as a:
            a.widen(name, kind)


@FORMATS
def test_move_columns(table: nb.Table) -> None:
    with table.alter() as a:
        a.move_column("x", first=True).move_column("k", after="v").move_column("n.b", first=True)
    assert table.schema.names == ["x", "v", "k", "d", "n", "l"]
    assert [f.name for f in table.schema.field("n").type] == ["b", "a"]
    assert table.get(3)["n"] == {"b": "q", "a": 1}
    assert table.to_table().column("k").to_pylist() == [1, 2, 3]


def _struct_table(lake: nb.Catalog, data_format: Any) -> nb.Table:
    kind = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    schema = pa.schema([("i", pa.int64()), ("s", kind)])
    data = pa.Table.from_pylist([{"i": 1, "s": {"x": 1, "y": 2}}], schema)
    return lake.create_table("a.c", data, primary_key="i", data_format=data_format)


@FORMATS
def test_members_that_are_dropped_and_added_again(lake: nb.Catalog, data_format: Any) -> None:
    """Files whose types were the same were read as they are, whatever the ids of members."""
    table = _struct_table(lake, data_format)
    first = table.snapshot
    with table.alter() as a:
        a.drop_column("s.y")
        a.add_column("s.y", pa.int64())
    expected = {"i": 1, "s": {"x": 1, "y": None}}
    assert table.to_table().to_pylist() == [expected]
    assert table.get(1) == expected
    assert table.lookup([1]).to_pylist() == [expected]
    assert table.count_rows("s.y = 2") == 0
    assert [row["s"] for row in table.changes(None).read_all().to_pylist()] == [expected["s"]]
    table.compact(where_needed=False)
    assert table.to_table().to_pylist() == [expected]
    assert table.at(snapshot=first).to_table().to_pylist() == [{"i": 1, "s": {"x": 1, "y": 2}}]


@FORMATS
def test_members_that_swap_their_names(lake: nb.Catalog, data_format: Any) -> None:
    """Pruning went by ids and reading by names, so that no filter found the row."""
    table = _struct_table(lake, data_format)
    with table.alter() as a:
        a.rename_column("s.x", "z")
    with table.alter() as a:
        a.rename_column("s.y", "x")
    with table.alter() as a:
        a.rename_column("s.z", "y").move_column("s.x", first=True)
    assert table.to_table().to_pylist() == [{"i": 1, "s": {"x": 2, "y": 1}}]
    assert [table.count_rows(f"s.{n} = {v}") for n, v in (("x", 2), ("y", 1))] == [1, 1]
    table.merge(pa.table({"i": [1]}), on="i").when_matched(
        update={"s": "target.s"}, condition="target.s.x = 2"
    ).execute()
    table.compact(where_needed=False)
    assert table.get(1) == {"i": 1, "s": {"x": 2, "y": 1}}


@pytest.mark.parametrize("on", ["added", "renamed", "its old name"])
@FORMATS
def test_merge_on_a_column_that_was_added_or_renamed(
    lake: nb.Catalog, data_format: Any, on: str
) -> None:
    """A file without the index was asked by the table's names, which are others there."""
    data = pa.table({"k": [1, 2], "v": [10, 20]})
    table = lake.create_table("a.c", data, cluster_by="k", data_format=data_format)
    with table.alter() as a:
        a.rename_column("k", "w").add_column("d", pa.int64(), default=7)
    with table.alter() as a:
        a.rename_column("v", "k")  # the name that the cluster key has in the file
    table.append(pa.table({"w": [3], "k": [1], "d": [8]}))
    name, value, hit = {"added": ("d", 8, [3]), "renamed": ("w", 2, [2])}.get(on, ("k", 1, [3]))
    done = (
        table.merge(pa.table({name: [value]}), on=name)
        .when_matched(update={"d": "100"})
        .when_not_matched(insert=True)
        .execute()
    )
    assert (done.rows_updated, done.rows_inserted) == (1, 0)
    assert table.to_table(filter="d = 100")["w"].to_pylist() == hit
    if on != "renamed":  # that is the cluster key
        with pytest.raises(nb.IndexUnavailableError):
            table.lookup([value], on=name)


@FORMATS
@pytest.mark.parametrize("nested", [False, True])
def test_required_members_of_structs_that_are_null(
    lake: nb.Catalog, data_format: Any, nested: bool
) -> None:
    """Below a null struct, a member that must have values was null, which writers refuse."""

    def required(name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, nullable=False)

    inner = pa.struct([required("p", pa.string()), ("q", pa.decimal128(5, 2))])
    fields = [required("x", pa.int64()), required("n", inner), required("l", pa.list_(inner))]
    loose_inner = pa.struct([("p", pa.string()), ("q", pa.decimal128(5, 2))])
    loose = pa.struct([("x", pa.int64()), ("n", loose_inner), ("l", pa.list_(loose_inner))])
    kind, given = pa.struct(fields), loose
    if nested:
        kind, given = pa.list_(kind), pa.list_(loose)
    schema = pa.schema([required("k", pa.int64()), ("s", kind), ("v", pa.int64())])
    value = {"x": 5, "n": {"p": "a", "q": None}, "l": [{"p": "b", "q": Decimal("1.00")}, None]}
    value = [None, value] if nested else value  # type: ignore[assignment]

    def rows(keys: list[int], v: int) -> pa.Table:
        made = [{"k": k, "s": None if k % 2 else value, "v": v} for k in keys]
        return pa.Table.from_pylist(
            made, pa.schema([("k", pa.int64()), ("s", given), ("v", pa.int64())])
        )

    table = lake.create_table("a.c", schema, primary_key="k", data_format=data_format)
    table.append(rows([0, 1, 2], 0))
    table.upsert(rows([2, 3], 1))
    with table.alter() as a:
        a.add_column("dummy" if nested else "s.y", pa.int64())
    table.upsert(rows([0, 1], 2).select(["k", "v"]), update=["v"])
    source = rows([3, 4, 5], 3)
    changed = table.merge(source, on="k").when_matched(update=["v"])
    changed.when_not_matched(insert=True).execute()
    with table.transaction() as tx:
        tx.upsert(rows([2, 3], 4).select(["k", "v"]), update=["v"])
    table.compact(where_needed=False)
    table.convert("parquet" if data_format == "nimble" else "nimble")
    for row in table.to_table().to_pylist():
        shown = row["s"]
        if not nested and shown is not None:
            assert shown.pop("y") is None
        assert shown == (None if row["k"] % 2 else value)
    assert table.num_rows == 6
    bad = rows([8], 0).to_pylist()
    (bad[0]["s"][1] if nested else bad[0]["s"])["x"] = None
    with pytest.raises(nb.InvalidArgumentError):  # a null of its own is refused as before
        table.append(pa.Table.from_pylist(bad, rows([8], 0).schema))


@FORMATS
def test_nested_lists(table: nb.Table) -> None:
    with table.alter() as a:
        a.rename_column("l", "list")
    table.append(pa.table({"k": [4], "list": [[{"p": 5}, {"p": None}]]}))
    found = table.to_table(["list"]).column("list").to_pylist()
    assert found == [None, [], [{"p": 1}], [{"p": 5}, {"p": None}]]


@FORMATS
def test_partitions_change(lake: nb.Catalog, data_format: Any) -> None:
    first = pa.table({"k": range(40), "g": [f"g{i % 3}" for i in range(40)]})
    table = lake.create_table(
        "a.b", first, cluster_by="k", partition_by=["g"], data_format=data_format
    )
    with table.alter() as a:
        a.partition_by("bucket(2, k)", "truncate(10, k)")
    assert table.partition_by == ["bucket(2, k)", "truncate(10, k)"]
    table.append(pa.table({"k": range(40, 80), "g": ["g1"] * 40}))
    with table.alter() as a:
        a.partition_by()
    assert table.partition_by == []
    table.append(pa.table({"k": range(80, 90), "g": ["g9"] * 10}))
    assert table.num_rows == 90
    assert table.count_rows("g = 'g1'") == 13 + 40
    assert table.range(35, 85).column("k").to_pylist() == list(range(35, 85))
    assert table.count([5, 45, 85]).to_pylist() == [1, 1, 1]
    done = table.delete("k >= 30 AND k < 85")
    assert done.rows_deleted == 55
    assert table.to_table(["k"]).column("k").to_numpy().sum() == sum([*range(30), *range(85, 90)])
    with table.alter() as a:
        a.partition_by(["g"])
    assert table.partition_by == ["g"]
    table.append(first.slice(0, 3))
    assert table.count([1]).to_pylist() == [2]


@pytest.mark.parametrize("data_format", ["nimble"])
def test_changes_that_cannot_be(lake: nb.Catalog, table: nb.Table) -> None:
    keyed = lake.create_table("a.k", OLD, primary_key="v", cluster_by="k", partition_by=["d"])
    for name, what in (("v", "primary key"), ("k", "cluster key"), ("d", "partition spec")):
        with pytest.raises(nb.InvalidArgumentError, match=what), keyed.alter() as a:
            a.drop_column(name)
    cases: list[tuple[Any, str]] = [
        (lambda a: a.drop_column("zz"), "unknown column"),
        (lambda a: a.rename_column("v", "x"), "x"),
        (lambda a: a.add_column("v", pa.int32()), "already exists"),
        (lambda a: a.add_column("q", pa.uint64()), "uint64"),
        (lambda a: a.add_column("v.q", pa.int32()), "not a struct"),
        (lambda a: a.partition_by("week(k)"), "unknown transform"),
        (lambda a: a.move_column("v"), "after= and first"),
        (lambda a: a.move_column("v", after="v"), "after itself"),
        (lambda a: a.set_properties({"nimblepy.data-format": "x"}), "nimblepy itself"),
    ]
    before = table.schema
    for change, message in cases:
        with pytest.raises(nb.InvalidArgumentError, match=message), table.alter() as a:
            change(a)
    assert lake.table("a.b").schema.equals(before, check_metadata=True)

    def broken() -> None:
        with table.alter() as a:
            a.drop_column("v")
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert "v" in lake.table("a.b").schema.names


@pytest.mark.parametrize("data_format", ["nimble"])
def test_alters_at_the_same_time(lake: nb.Catalog, table: nb.Table) -> None:
    with table.alter() as a:
        a.add_column("mine", pa.int32())
        with lake.table("a.b").alter() as b:
            b.add_column("theirs", pa.int32())
    assert {"mine", "theirs"} <= set(table.schema.names)

    def both() -> None:
        with table.alter() as a:
            a.add_column("both", pa.int32())
            with lake.table("a.b").alter() as b:
                b.add_column("both", pa.int32())

    with pytest.raises(nb.ConflictError, match="already exists") as caught:
        both()
    assert caught.value.kind == "schema"
    table.refresh()
    table.append(pa.table({"k": [100], "mine": [1]}))
    assert table.count_rows("mine = 1") == 1


def _serve() -> type[Any]:
    """A catalog that keeps its tables in another one, which it reaches by messages alone."""

    class Server(Catalog):
        def __init__(self, behind: SqlCatalog) -> None:
            super().__init__("server", **behind.properties)
            self.behind = behind

        def load_table(self, identifier: Any) -> IceTable:
            table = self.behind.load_table(identifier)
            location = table.metadata_location
            return IceTable(table.name(), table.metadata, location, table.io, self)

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            *namespace, name = table.name()
            request = CommitTableRequest(
                identifier=TableIdentifier(namespace=namespace, name=name),
                requirements=requirements,
                updates=updates,
            )
            told = CommitTableRequest.model_validate_json(request.model_dump_json())
            return self.behind.commit_table(table, told.requirements, told.updates)

    def refuse(self: Any, *arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError

    others = dict.fromkeys(Catalog.__abstractmethods__ - vars(Server).keys(), refuse)
    return type("Server", (Server,), others)


def _library(lake: nb.Catalog) -> SqlCatalog:
    """The library's own catalog over the same database."""
    if not lake.iceberg.properties["uri"].startswith("sqlite"):
        pytest.skip("the library needs a database")
    return SqlCatalog(lake.iceberg.name, **lake.iceberg.properties)


CATALOGS: dict[str, Callable[[nb.Catalog], nb.Catalog]] = {
    "ours": lambda lake: lake,
    "library": lambda lake: nb.connect(catalog=_library(lake)),
    "server": lambda lake: nb.connect(catalog=_serve()(_library(lake))),
}
NEEDS_X: dict[str, Callable[[Any], Any]] = {
    "partition": lambda a: a.partition_by("x"),
    "partitioned for a while": lambda a: a.partition_by("x").partition_by(),
    "otree": lambda a: a.layout(nb.OTree(["x", "y"])),
    "sorted": lambda a: a.layout(nb.Sorted("x")),
}


@pytest.mark.parametrize("first", ["drop", "need"])
@pytest.mark.parametrize(
    ("catalog", "need"),
    [(c, n) for c in CATALOGS for n in NEEDS_X if c == "ours" or n in ("partition", "otree")],
)
def test_a_column_that_goes_while_it_comes_to_be_needed(
    lake: nb.Catalog, catalog: str, need: str, first: str
) -> None:
    lake.create_table("a.u", pa.schema({"k": pa.int64(), "x": pa.int64(), "y": pa.int64()}))
    table = CATALOGS[catalog](lake).table("a.u")
    other = CATALOGS[catalog](lake).table("a.u")

    def drop(a: Any) -> None:
        a.drop_column("x")

    changes = [drop, NEEDS_X[need]] if first == "drop" else [NEEDS_X[need], drop]

    def both() -> None:
        with table.alter() as late:
            changes[1](late)
            with other.alter() as early:
                changes[0](early)
            other.append(pa.table({"k": [1], "y": [2]}))

    with pytest.raises(nb.ConflictError, match="'x'") as caught:
        both()
    assert caught.value.kind == "schema"
    table.refresh()
    assert ("x" in table.schema.names) == (first == "need")
    with table.alter() as a:
        a.drop_column("k")
    assert table.append(pa.table({"y": [3]})).rows_inserted == 1
    assert sorted(table.to_table()["y"].to_pylist()) == [2, 3]


@pytest.mark.parametrize("catalog", CATALOGS)
def test_alters_that_fit(lake: nb.Catalog, catalog: str) -> None:
    lake.create_table("a.u", pa.schema({"k": pa.int64(), "x": pa.int64()}))
    table = CATALOGS[catalog](lake).table("a.u")
    with table.alter() as a:
        a.drop_column("x").set_properties({"mine": "1"})
        with CATALOGS[catalog](lake).table("a.u").alter() as b:
            b.add_column("y", pa.int32()).set_properties({"theirs": "2"}).partition_by("k")
    assert table.schema.names == ["k", "y"]
    assert table.partition_by == ["k"]
    properties = lake.iceberg.load_table("a.u").properties
    assert (properties["mine"], properties["theirs"]) == ("1", "2")


@pytest.mark.parametrize("catalog", CATALOGS)
def test_old_metadata_files_go_where_they_are_to(lake: nb.Catalog, catalog: str) -> None:
    lake.create_table("a.u", pa.schema({"k": pa.int64()}))
    table = CATALOGS[catalog](lake).table("a.u")
    with table.alter() as a:
        a.set_properties({"write.metadata.previous-versions-max": "1"})
        a.set_properties({"write.metadata.delete-after-commit.enabled": "true"})
    for i in range(3):
        with table.alter() as a:
            a.add_column(f"c{i}", pa.int64())
        table.append(pa.table({"k": [i]}))
    assert table.num_rows == 3
    place = Path(table.location.removeprefix("file://"), "metadata")
    assert len(list(place.glob("*.metadata.json"))) == 2


def test_drop_beside_a_layout_of_columns_that_are_gone(lake: nb.Catalog) -> None:
    """A server may let a layout and a drop pass that came in the same instant."""
    table = lake.create_table("a.u", pa.schema({"k": pa.int64(), "x": pa.int64(), "y": pa.int64()}))
    with table.alter() as a:
        a.layout(nb.OTree(["x", "y"]))
    with lake.iceberg.load_table("a.u").update_schema() as update:
        update.delete_column("x")
    table.refresh()
    assert table.layout_by is None
    with pytest.raises(nb.InvalidArgumentError, match="part of the layout"), table.alter() as a:
        a.drop_column("y")
    with table.alter() as a:
        a.drop_column("k")
    assert table.schema.names == ["y"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema.name-mapping.default", "junk"),
        ("schema.name-mapping.default", '[{"names": ["a"], "field-id": "x"}]'),
        ("write.target-file-size-bytes", "128MB"),
        ("write.target-file-size-bytes", "0"),
        ("history.expire.min-snapshots-to-keep", "five"),
        ("history.expire.max-snapshot-age-ms", "-1"),
    ],
)
def test_properties_that_nothing_could_read(lake: nb.Catalog, name: str, value: str) -> None:
    """They are refused when they are set, not by every call that needs them later."""
    data = pa.table({"k": [1]})
    with pytest.raises(nb.InvalidArgumentError, match=name):
        lake.create_table("a.no", data, properties={name: value})
    table = lake.create_table("a.b", data)
    with pytest.raises(nb.InvalidArgumentError, match=name), table.alter() as a:
        a.set_properties({name: value})
    table.append(data)
    assert lake.table("a.b").num_rows == 2


def test_properties_that_another_writer_broke(lake: nb.Catalog) -> None:
    data = pa.table({"k": [1]})
    table = lake.create_table("a.b", data)
    with lake.iceberg.load_table(("a", "b")).transaction() as tx:
        tx.set_properties(
            {"write.target-file-size-bytes": "128MB", "history.expire.max-snapshot-age-ms": "x"}
        )
    table = lake.table("a.b")
    table.append(data)
    table.expire(keep=1)
    assert table.num_rows == 2


def test_uuids_of_tables_as_text(lake: nb.Catalog) -> None:
    """The text of a UUID means that UUID."""
    ids = [uuid.UUID(int=i * 2**100 + 5) for i in range(4)]
    data = pa.table({"id": pa.array([u.bytes for u in ids], pa.uuid()), "v": range(4)})
    table = lake.create_table("a.b", data, primary_key="id", partition_by="bucket(3, id)")
    text = str(ids[2])
    assert table.get(text)["v"] == table.get(ids[2])["v"] == 2
    assert table.lookup([text, str(ids[0])])["v"].to_pylist() == [2, 0]
    assert table.range(text, None).num_rows == 2
    for condition, params, expected in [
        (f"id = '{text}'", None, 1),
        (f"id IN ('{text}', '{ids[1]}')", None, 2),
        (f"id >= '{text}'", None, 2),
        ("id = $u", {"u": text}, 1),
        ("id = $u", {"u": ids[2]}, 1),
        (f"id = CAST('{text}' AS UUID)", None, 1),
        (f"id = X'{ids[2].hex}'", None, 1),
    ]:
        assert table.count_rows(condition, params=params) == expected, condition
    with pytest.raises(nb.InvalidArgumentError, match="is not a UUID"):
        table.count_rows(f"id = '{text[:-1]}'")
    assert table.get(text)["id"] == ids[2]
    assert table.delete(f"id <> '{text}'").rows_deleted == 3


@pytest.mark.parametrize("cluster_by", [None, ["c", "a"]], ids=["by the key", "by other columns"])
def test_the_order_of_a_primary_key_stays(lake: nb.Catalog, cluster_by: Any) -> None:
    """Iceberg's identifier fields are a set, in which the library leaves them in any order."""
    names = list("abcdef")
    place = {"g": pa.struct([("x", pa.int64())])}  # numbered anew, after the columns
    schema = pa.schema([*place.items(), *((name, pa.int64()) for name in names)])
    key = ["f", "b", "e", "a", "d", "c"]
    table = lake.create_table("a.b", schema, primary_key=key, cluster_by=cluster_by)
    row = {name: i for i, name in enumerate(names)}
    found = {"g": None, **row}
    table.append(pa.Table.from_pylist([found], schema=schema))
    for step in range(3):
        with table.alter() as a:
            a.add_column(f"n{step}", pa.int64())
        found[f"n{step}"] = None
        for opened in (table, lake.table("a.b")):
            assert opened.primary_key == key
            assert opened.get(tuple(row[name] for name in key)) == found
            assert opened.get(tuple(row[name] for name in reversed(key))) is None
            assert opened.lookup([tuple(row[name] for name in key)]).num_rows == 1
    with table.alter() as a:
        a.rename_column("e", "renamed")
    assert lake.table("a.b").primary_key == ["f", "b", "renamed", "a", "d", "c"]
    table.upsert(pa.table({("renamed" if n == "e" else n): [row[n]] for n in names}))
    assert table.num_rows == 1
    with lake.iceberg.load_table("a.b").transaction() as other:
        other.set_properties({"nimblepy.primary-key-order": "9,x"})  # of another table, say
    sorted_by = cluster_by or ["f", "b", "renamed", "a", "d", "c"]
    others = [name for name in ["a", "b", "c", "d", "renamed", "f"] if name not in sorted_by]
    assert lake.table("a.b").primary_key == sorted_by + others


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (pa.int64(), 1.9),
        (pa.int64(), Decimal("1.5")),
        (pa.int8(), 300),
        (pa.int64(), True),
        (pa.decimal128(4, 1), Decimal("1.25")),
        (pa.float32(), 0.1),
        (pa.date32(), dt.datetime(2024, 1, 1, 12)),
        (pa.timestamp("us"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        (pa.string(), b"\xff"),
        (pa.int32(), "x"),
    ],
)
def test_a_default_that_the_type_does_not_have(
    lake: nb.Catalog, kind: pa.DataType, default: Any
) -> None:
    """It was rounded, cut or moved by the zone of nobody."""
    table = lake.create_table("a.b", OLD)
    with table.alter() as a, pytest.raises(nb.InvalidArgumentError, match="default") as caught:
        a.add_column("new", kind, default=default)
    for part in ("'new'", str(kind), repr(default)):
        assert part in str(caught.value)
    assert table.schema.names == OLD.schema.names


@pytest.mark.parametrize("default", [math.inf, -math.inf, math.nan, Decimal("-Infinity")], ids=str)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_a_default_that_is_not_finite(lake: nb.Catalog, kind: pa.DataType, default: Any) -> None:
    """JSON has no infinity: other processes read null, or the lowest float32 for -inf."""
    schema = pa.schema([("k", pa.int64()), ("s", pa.struct({"a": pa.int64()}))])
    table = lake.create_table("a.b", schema)
    for name in ("new", "s.new"):
        with (
            table.alter() as a,
            pytest.raises(nb.InvalidArgumentError, match=f"'{name}': default .* is not finite"),
        ):
            a.add_column(name, kind, default=default)
    assert table.schema.names == ["k", "s"]


@pytest.mark.parametrize("default", [-0.0, pa.scalar(-0.0), 0.0, 0, Decimal("-0")], ids=repr)
def test_a_default_of_negative_zero_keeps_its_sign(lake: nb.Catalog, default: Any) -> None:
    table = lake.create_table("a.b", pa.table({"k": [1]}))
    with table.alter() as a:
        a.add_column("x", pa.float32(), default=default)
        a.add_column("y", pa.float64(), default=default)
    plain = default.as_py() if isinstance(default, pa.Scalar) else default
    row = nb.connect(lake._target).table("a.b").to_table().to_pylist()[0]
    signs = [math.copysign(1, row["x"]), math.copysign(1, row["y"])]
    assert signs == [math.copysign(1, float(plain))] * 2


@pytest.mark.parametrize(
    ("kind", "default", "read"),
    [
        (pa.int8(), -128, -128),
        (pa.int64(), 2.0, 2),
        (pa.float32(), Decimal("0.1"), pa.scalar(0.1, pa.float32()).as_py()),
        (pa.date32(), dt.datetime(2024, 1, 1), dt.date(2024, 1, 1)),
        (pa.timestamp("s"), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1)),
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None),
        (pa.dictionary(pa.int8(), pa.string()), "x", "x"),
        (pa.large_binary(), b"x", b"x"),
        (pa.uuid(), uuid.UUID(int=5), uuid.UUID(int=5)),
        (pa.time64("us"), dt.time(12), dt.time(12)),
        (pa.bool_(), True, True),
    ],
)
def test_a_default_that_the_type_has(
    lake: nb.Catalog, kind: pa.DataType, default: Any, read: Any
) -> None:
    table = lake.create_table("a.b", OLD)
    with table.alter() as a:
        a.add_column("new", kind, default=default)
    (found,) = set(map(str, table.to_table(["new"])["new"].to_pylist()))
    assert found == str(default if read is None else read)


def _as_version_3(table: nb.Table, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrites the metadata of a table as a writer of version 3 leaves it."""
    path = Path(table.metadata_location.removeprefix("file://"))
    said = json.loads(path.read_text())
    said["format-version"], said["next-row-id"] = 3, 0
    for snapshot in said["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 1}
    for schema in said["schemas"]:
        change(schema)
    path.write_text(json.dumps(said))


@FORMATS
def test_defaults_of_nested_fields(lake: nb.Catalog, tmp_path: Path, data_format: Any) -> None:
    """They were read as null; version 3 has them."""
    leaf = pa.struct([("x", pa.int64())])
    schema = pa.schema(
        [("s", leaf), ("l", pa.list_(leaf)), ("m", pa.map_(pa.string(), pa.struct([("n", leaf)])))]
    )
    row: dict[str, Any] = {"s": {"x": 1}, "l": [{"x": 2}, None], "m": [("k", {"n": {"x": 3}})]}
    table = lake.create_table(
        "a.c", pa.Table.from_pylist([row, {}], schema), data_format=data_format
    )

    def change(schema: dict[str, Any]) -> None:
        by_name = {item["name"]: item["type"] for item in schema["fields"]}
        structs = [by_name["s"], by_name["l"]["element"]]
        structs += [by_name["m"]["value"]["fields"][0]["type"]]
        for i, struct in enumerate(structs):
            day = {"id": 100 + i, "name": "d", "required": False, "type": "date"}
            struct["fields"].append(day | {"initial-default": "2024-01-02"})

    _as_version_3(table, change)
    day = dt.date(2024, 1, 2)
    opened = nb.connect(tmp_path / "lake").table("a.c")
    assert opened.to_table().to_pylist() == [
        {
            "s": {"x": 1, "d": day},
            "l": [{"x": 2, "d": day}, None],
            "m": [("k", {"n": {"x": 3, "d": day}})],
        },
        {"s": None, "l": None, "m": None},
    ]
    assert opened.count_rows("s.d = DATE '2024-01-02'") == 1
    assert opened.count_rows("s.d IS NULL") == 1
    opened.delete("s.x = 1")
    assert opened.to_table().to_pylist() == [{"s": None, "l": None, "m": None}]


def test_types_of_version_3_are_refused_by_name(lake: nb.Catalog, tmp_path: Path) -> None:
    """A type that the library cannot parse was called a damaged file."""
    table = lake.create_table("a.c", pa.table({"k": [1]}))

    def change(schema: dict[str, Any]) -> None:
        schema["fields"].append({"id": 9, "name": "j", "required": False, "type": "geometry"})

    _as_version_3(table, change)
    with pytest.raises(nb.UnsupportedVersionError, match=r"geometry"):
        nb.connect(tmp_path / "lake").table("a.c")
