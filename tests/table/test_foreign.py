"""Parquet tables are read equal by DuckDB, polars and pyiceberg, and theirs by us."""

from __future__ import annotations

import datetime as dt
import re
import time
import uuid
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import java_iceberg
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deletion_vectors import version_3
from duckdb_extensions import with_extensions
from equality_deletes import commit, delete_file
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

import nimblepy as nb


def by_duckdb(table: nb.Table, where: str = "TRUE") -> pa.Table:
    with duckdb_with_iceberg() as connection:
        return connection.sql(_select(table, where)).to_arrow_table()


def explained_by_duckdb(table: nb.Table, where: str) -> str:
    with duckdb_with_iceberg() as connection:
        rows = connection.sql(f"EXPLAIN ANALYZE {_select(table, where)}").fetchall()
        return str(rows[0][1])


def duckdb_with_iceberg() -> duckdb.DuckDBPyConnection:
    return with_extensions("avro", "iceberg")


def _select(table: nb.Table, where: str) -> str:
    location = table.metadata_location.removeprefix("file://")
    return f"SELECT * FROM iceberg_scan('{location}') WHERE {where}"


def by_pyiceberg(table: nb.Table) -> pa.Table:
    # As somebody else's: with the library's own reading of files.
    return StaticTable.from_metadata(table.metadata_location).scan().to_arrow()


def by_polars(table: nb.Table) -> pa.Table:
    location = table.metadata_location.removeprefix("file://")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # another package would plan faster
        found: pa.Table = (
            polars.scan_iceberg(location, reader_override="native").collect().to_arrow()
        )
    return found


def ordered(table: pa.Table) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


ROWS = pa.table(
    {
        "k": pa.array(range(60), pa.int64()),
        "g": [None if i % 7 == 0 else f"größe {i % 3}" for i in range(60)],
        "ts": pa.array(
            [dt.datetime(1969, 12, 28) + dt.timedelta(hours=7 * i) for i in range(60)],
            pa.timestamp("us"),
        ),
        "d": [Decimal(i).scaleb(-2) for i in range(60)],
        "n": [{"a": i, "b": [str(i)]} if i % 5 else None for i in range(60)],
        "f": pa.array([i / 4 for i in range(60)], pa.float32()),
        "y": pa.array([dt.date(1960, 1, 1) + dt.timedelta(days=i) for i in range(60)]),
    }
)


def test_others_read_our_parquet_tables(lake: nb.Catalog) -> None:
    table = lake.create_table(
        "a.b",
        ROWS.schema,
        cluster_by="k",
        partition_by=["day(ts)", "bucket(3, k)"],
        data_format="parquet",
    )

    def check(note: str) -> None:
        ours = ordered(table.to_table())
        assert ordered(by_pyiceberg(table)) == ours, note
        assert ordered(by_polars(table)) == ours, note
        assert ordered(by_duckdb(table)) == ours, note

    table.append(ROWS)
    check("append")
    assert table.delete(pc.is_in(pc.field("k"), pa.array(range(1, 60, 4)))).rows_deleted == 15
    check("rows deleted")
    table.append(ROWS.slice(0, 5))
    check("appended after a delete")
    assert table.delete("k = 1").rows_deleted == 1
    check("deleted again")
    with table.alter() as a:
        a.partition_by("truncate(3, g)").rename_column("f", "weight").widen("weight", pa.float64())
        a.drop_column("y").add_column("note", pa.string(), after="k")
        a.add_column("count", pa.int64(), default=7)
    table.append(pa.table({"k": [900], "g": ["größe 9"], "note": ["new"]}))
    check("evolved")
    table.overwrite(pa.table({"k": [901], "weight": [0.1]}), filter="g = 'größe 1'")
    check("overwritten")
    table.delete("ts < TIMESTAMP '1970-01-01'")
    check("days deleted")
    table.analyze()
    assert table.iceberg.metadata.statistics
    check("analyzed")
    table.rollback(table.snapshots().column("snapshot_id")[0].as_py())
    check("rolled back")


def test_duckdb_leaves_out_files_of_a_layout(tmp_path: Path) -> None:
    """An OTree governs writing only: whoever reads the bounds of files leaves out the same ones."""
    rng = np.random.default_rng(1)
    data = pa.table({"x": rng.lognormal(3, 1, 4000), "y": rng.random(4000), "i": range(4000)})
    table = nb.connect(tmp_path).create_table(
        "a.b", data, layout=nb.OTree(["x", "y"], cube_rows=150), data_format="parquet"
    )
    table.append(data.slice(0, 500))
    table.delete("i < 100")
    box = "x BETWEEN 20 AND 25 AND y BETWEEN 0.5 AND 0.6"
    assert ordered(by_duckdb(table)) == ordered(table.to_table())
    assert ordered(by_duckdb(table, box)) == ordered(table.to_table(filter=box))
    found = explained_by_duckdb(table, box)
    files = re.search(r"Total Files Read: (\d+)", found)
    assert files is not None, found
    assert 0 < int(files[1]) < table._current.num_files / 3


def test_we_read_their_tables(tmp_path: Path) -> None:
    theirs = load_catalog(
        "x", type="sql", uri=f"sqlite:///{tmp_path}/x.db", warehouse=f"file://{tmp_path}/wh"
    )
    theirs.create_namespace("n")
    made = theirs.create_table("n.t", ROWS.schema)
    made.append(ROWS)
    made.append(ROWS.slice(0, 10))
    made.delete("k < 5")
    with made.update_schema() as update:
        update.rename_column("g", "group")
    lake = nb.connect(catalog=theirs)
    table = lake.table("n.t")
    assert ordered(table.to_table()) == ordered(made.refresh().scan().to_arrow())
    assert table.count_rows("k = 7") == 2
    # And change them: with the format that they have.
    assert table.append(pa.table({"k": [1000], "group": ["x"]})).files_added == 1
    assert table.delete("k = 7").rows_deleted == 2
    assert ordered(made.refresh().scan().to_arrow()) == ordered(table.to_table())
    assert len(made.scan(row_filter="k = 7").to_arrow()) == 0


def test_duckdb_reads_a_parquet_table_with_indexes(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, data_format="parquet")
    table.add_index([nb.SortedIndex(["k"]), nb.HashIndex(["k"])])
    assert ordered(by_duckdb(table)) == ordered(ROWS)


def test_register(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", ROWS, cluster_by="k", partition_by=["g"])
    other = nb.connect(tmp_path / "other")
    same = other.register("c.d", table.metadata_location.removeprefix("file://"))
    assert ordered(same.to_table()) == ordered(ROWS)
    with pytest.raises(nb.InvalidArgumentError, match="already"):
        other.register("c.d", table.metadata_location)
    with pytest.raises(nb.InvalidArgumentError, match="does not exist"):
        other.register("c.e", tmp_path / "nothing.json")


def test_others_refuse_nimble_tables(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, cluster_by="k")
    with pytest.raises(Exception, match="NIMBLEPY"):
        by_duckdb(table)


@pytest.mark.parametrize("upgraded", [False, True])
def test_what_expired_of_version_1(tmp_path: Path, upgraded: bool) -> None:
    """Its snapshots have no numbers, so that one which is missing shows by nothing else."""
    theirs = load_catalog(
        "x", type="sql", uri=f"sqlite:///{tmp_path}/x.db", warehouse=f"file://{tmp_path}/wh"
    )
    theirs.create_namespace("n")
    made = theirs.create_table("n.t", ROWS.schema, properties={"format-version": "1"})
    for _ in range(4):
        made.append(ROWS)
        time.sleep(0.005)
    if upgraded:
        with made.transaction() as tx:
            tx.upgrade_table_version(2)
    lake = nb.connect(catalog=theirs)
    assert lake.table("n.t").changes(None).read_all().num_rows == 240
    first, second, third, _ = made.metadata.snapshots
    between = dt.datetime.fromtimestamp((second.timestamp_ms + 1) / 1000, dt.UTC)
    assert lake.table("n.t").at(time=between).num_rows == 120
    made.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    with pytest.raises(nb.InvalidArgumentError, match="name a later snapshot in since="):
        lake.table("n.t").changes(None)
    made.maintenance.expire_snapshots().by_id(second.snapshot_id).commit()
    with pytest.raises(nb.InvalidArgumentError):
        lake.table("n.t").at(time=between)
    assert lake.table("n.t").changes(third.snapshot_id).read_all().num_rows == 60


def test_versions_that_are_not_written(tmp_path: Path) -> None:
    theirs = load_catalog(
        "x", type="sql", uri=f"sqlite:///{tmp_path}/x.db", warehouse=f"file://{tmp_path}/wh"
    )
    theirs.create_namespace("n")
    made = theirs.create_table("n.t", ROWS.schema, properties={"format-version": "1"})
    made.append(ROWS)
    table = nb.connect(catalog=theirs).table("n.t")
    assert table.num_rows == 60
    with pytest.raises(nb.UnsupportedVersionError, match="version 1"):
        table.append(ROWS)


def changes_by_key(lake: nb.Catalog) -> Iterator[tuple[str, nb.Table]]:
    """A table of Parquet files after each of some changes."""
    table = lake.create_table(
        "a.b",
        ROWS.schema,
        primary_key="k",
        cluster_by=["g", "k"],
        partition_by=["bucket(3, k)"],
        data_format="parquet",
    )
    table.append(ROWS)
    changed = ROWS.slice(10, 30).set_column(5, "f", pa.array([9.5] * 30, pa.float32()))
    keys = pa.array(range(25, 55), pa.int64())
    assert table.upsert(changed.set_column(0, "k", keys)).rows_updated == 30
    yield "whole rows", table
    table.upsert(pa.table({"k": [3, 70], "g": ["new", "new"]}), update=["g"])
    yield "some columns", table
    table.delete(keys=[4, 30, 70])
    yield "deleted by key", table
    merge = table.merge(pa.table({"k": [5, 6, 80], "f": pa.array([1.5, 2.5, 3.5], pa.float32())}))
    merge.when_matched(update=["f"], condition="source.k = 5").when_matched(delete=True)
    done = merge.when_not_matched().execute()
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (1, 1, 1)
    yield "merged", table
    with table.transaction() as tx:
        tx.upsert(pa.table({"k": [5, 90], "g": ["a", "b"]}))
        tx.delete("k > 50")
    yield "in a transaction", table
    table.upsert(table.to_table())  # every file goes
    yield "all replaced", table


def test_others_read_our_changes_by_key(lake: nb.Catalog) -> None:
    for note, table in changes_by_key(lake):
        ours = ordered(table.to_table())
        assert ordered(by_pyiceberg(table)) == ours, note
        assert ordered(by_duckdb(table)) == ours, note


def test_duckdb_applies_the_same_deletes(lake: nb.Catalog, tmp_path: Path) -> None:
    data = pa.table(
        {"k": range(50_000), "g": [None if i % 7 == 0 else i % 7 for i in range(50_000)]}
    )
    table = lake.create_table("n.t", data, data_format="parquet")
    # DuckDB also deletes (7, null) for the key (7, 1), against Iceberg's specification.
    keys = pa.table({"k": [5, 8, 14, 99_999], "g": [5, 3, None, 1]})
    commit(table, [delete_file(table, keys, tmp_path)])
    table.append(pa.table({"k": [5], "g": [5]}))
    assert table.num_rows == 50_000 - 2 + 1
    assert ordered(by_duckdb(table)) == ordered(table.to_table())
    # A vector has the rows of older position deletes too.
    rows = [0, 5, 9, 14, *range(10_000, 30_000, 3), *range(40_000, 49_000)]
    paths = [member.file.path for member in table._current.members if member.file.rows > 1]
    table.convert_deletes()
    three = lake.register("n.three", version_3(table, {paths[0]: rows}, tmp_path))
    assert ordered(by_duckdb(three)) == ordered(three.to_table())
    assert three.num_rows == 50_000 - len(rows) + 1


@pytest.mark.skipif(java_iceberg.missing() is not None, reason=str(java_iceberg.missing()))
def test_java_reads_our_changes_by_key(lake: nb.Catalog, tmp_path: Path) -> None:
    with java_iceberg.java(tmp_path) as jvm:
        for note, table in changes_by_key(lake):
            ours = [tuple(row.values()) for row in table.to_table(["k", "g", "f"]).to_pylist()]
            theirs = java_iceberg.rows_of(jvm, table.metadata_location, ["k", "g", "f"])
            assert sorted(theirs, key=repr) == sorted(ours, key=repr), note


def test_uuids_of_the_library_at_any_depth(lake: nb.Catalog, tmp_path: Path) -> None:
    """Parquet files of pyiceberg have them as an extension type, which was not unwrapped."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import ListType, LongType, MapType, NestedField, StructType, UUIDType

    one, many = StructType(NestedField(3, "u", UUIDType())), ListType(5, UUIDType(), False)
    pairs = MapType(7, UUIDType(), 8, UUIDType(), False)
    schema = Schema(
        NestedField(1, "id", UUIDType(), required=True),
        NestedField(2, "s", one),
        NestedField(4, "l", many),
        NestedField(6, "m", pairs),
        NestedField(9, "v", LongType()),
        identifier_field_ids=[1],
    )
    lake.create_table("n.other", pa.table({"k": [1]}))
    made = lake.iceberg.create_table("n.t", schema)
    ids = [uuid.UUID(int=i * 2**90 + 3).bytes for i in range(6)]
    rows: list[dict[str, Any]] = [
        {"id": u, "s": {"u": u} if i % 2 else None, "l": [u, None], "m": [(u, u)], "v": i}
        for i, u in enumerate(ids)
    ]
    bare = pa.binary(16)
    kinds = {"s": pa.struct([("u", bare)]), "l": pa.list_(bare), "m": pa.map_(bare, bare)}
    data = pa.Table.from_pylist(
        rows,
        pa.schema([pa.field("id", bare, nullable=False), *kinds.items(), ("v", pa.int64())]),
    )
    made.append(
        data.set_column(0, pa.field("id", pa.uuid(), nullable=False), data["id"].cast(pa.uuid()))
    )
    table = lake.table("n.t")
    for row in rows:  # what they are read as
        u = uuid.UUID(bytes=row["id"])
        row["id"] = u
    assert table.to_table().to_pylist() == rows
    text = str(uuid.UUID(bytes=ids[3]))
    assert [table.count_rows(f"{name} = '{text}'") for name in ("id", "s.u")] == [1, 1]
    assert table.get(ids[3]) == rows[3]
    table.upsert(data.slice(2, 1).set_column(4, "v", pa.array([20])))
    table.merge(pa.table({"id": pa.array([ids[4]], pa.uuid())}), on="id").when_matched(
        delete=True
    ).execute()
    table.compact(where_needed=False)
    table.convert("nimble")
    expected = [row | ({"v": 20} if row["v"] == 2 else {}) for row in rows if row["v"] != 4]
    assert sorted(table.to_table().to_pylist(), key=lambda row: row["id"]) == expected


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_a_column_of_an_old_partition_spec_that_the_library_dropped(
    lake: nb.Catalog, data_format: Any
) -> None:
    """Its partition values had no type any more, and no file of the spec could be changed."""
    data = pa.table({"k": range(6), "p": [1, 1, 2, 2, 3, 3], "q": [0] * 6})
    table = lake.create_table(
        "a.b", data, partition_by=["p"], primary_key="k", data_format=data_format
    )
    table.append(pa.table({"k": [10, 11], "p": [1, 9], "q": [1, 1]}))
    with table.alter() as a:
        a.partition_by("q")
    with lake.iceberg.load_table("a.b").update_schema() as update:
        update.delete_column("p")
    table = lake.table("a.b")
    table.upsert(pa.table({"k": [0], "q": [7]}))
    table.delete("k = 1")
    table.rewrite_manifests()
    old = [m.file.partition for m in table._current.members if m.file.spec_id == 0]
    assert sorted(old) == [(1,), (2,), (3,), (9,)]
    assert table.count_rows("q = 1") == 2
    if data_format == "parquet":
        assert lake.iceberg.load_table("a.b").scan().to_arrow().num_rows == 7
    table.compact(where_needed=False)
    assert sorted(table.to_table()["k"].to_pylist()) == [0, 2, 3, 4, 5, 10, 11]
