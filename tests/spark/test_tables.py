"""Tables in Spark: read as they are at one snapshot, with what is deleted left out."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from source_handle import SourceHandle

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns
from nimblepy.spark.base.inputs import InputTable, find_input
from nimblepy.spark.base.tables import table_of_options
from nimblepy.spark.reading import splits
from nimblepy.table.reading.shipped import files_as_text, files_of_text, rows_as_text, rows_of_text

Rows = Callable[[Any], list[Any]]

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "g": pa.string(),
        "d": pa.decimal128(9, 2),
        "day": pa.date32(),
        "v": pa.float64(),
    }
)


def some(first: int, count: int) -> pa.Table:
    keys = range(first, first + count)
    return pa.table(
        {
            "k": list(keys),
            "g": [None if k % 9 == 0 else f"g{k % 3}" for k in keys],
            "d": [Decimal(k % 2) for k in keys],
            "day": [dt.date(1969, 12, 30) + dt.timedelta(days=k % 4) for k in keys],
            "v": [k / 2 for k in keys],
        },
        schema=SCHEMA,
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> nb.Catalog:
    return nb.connect(tmp_path_factory.mktemp("spark") / "lake")


@pytest.fixture(scope="module")
def changed(lake: nb.Catalog) -> nb.Table:
    """A table with files of both formats, deleted rows, and columns that changed."""
    table = lake.create_table("a.changed", SCHEMA, cluster_by="k", partition_by=["g", "d"])
    table.append(some(0, 3000))
    table.tag("first")
    with table.alter() as a:
        a.rename_column("v", "value").add_column("n", pa.int32(), default=7, after="k")
        a.partition_by("bucket(2, k)")
    more = some(3000, 500).rename_columns(["k", "g", "d", "day", "value"])
    table.append(more.append_column("n", pa.array([None] * 500, pa.int32())))
    folder = Path(table.location.removeprefix("file://")).parent / "added"
    folder.mkdir(exist_ok=True)
    import pyarrow.parquet as pq

    # Rows that are in no order of the key, in row groups.
    extra = some(9000, 40).rename_columns(["k", "g", "d", "day", "value"])
    with table.alter() as a:
        a.partition_by()
    pq.write_table(extra.sort_by([("k", "descending")]), folder / "x.parquet", row_group_size=16)
    table.add_files(folder / "x.parquet")
    table.delete("k % 5 = 0")
    return table


def plain(table: pa.Table) -> list[Any]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def test_descriptions_of_files_and_rows(changed: nb.Table) -> None:
    files = [member.file for member in changed._current.members]
    files += [file for member in changed._current.members for file in member.deletes]
    assert files_of_text(files_as_text(files)) == files
    text = rows_as_text(changed._current)
    read = rows_of_text(text)
    handle = SourceHandle(read)
    assert handle.to_table().equals(changed.to_table())
    assert rows_as_text(read) == text
    keys = [0, 1, 7, 3001, 9001, 9005, 5]
    assert handle.lookup(keys).equals(changed.lookup(keys))
    assert handle.range(2990, 3010).equals(changed.range(2990, 3010))
    for wrong in ("{}", "[]", "null", text[:-9], text.replace('"rows": ', '"rows": -')):
        with pytest.raises(nb.InvalidArgumentError, match="description"):
            rows_of_text(wrong)
    with pytest.raises(nb.InvalidArgumentError, match="description"):
        files_of_text(json.dumps([{"path": "x"}]))
    sent = pickle.loads(pickle.dumps(find_input(changed)))
    assert isinstance(sent, InputTable)
    assert sent == find_input(changed)


def test_scan(spark: Any, rows: Rows, changed: nb.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tasks read what the driver has planned; few rows are read by the driver itself.
    monkeypatch.setattr(splits, "FEW_ROWS", 0)
    everything = ns.scan(spark, changed)
    assert everything.columns == changed.schema.names
    assert rows(everything) == plain(changed.to_table())
    filter = "g = 'g1' AND n = 7"
    assert rows(ns.scan(spark, changed, filter=filter)) == plain(changed.to_table(filter=filter))
    monkeypatch.undo()
    few = ns.scan(spark, changed, columns=["k", "value"], filter="k BETWEEN 9001 AND 9007")
    assert rows(few) == plain(changed.to_table(["k", "value"], "k BETWEEN 9001 AND 9007"))
    ranged = ns.scan(spark, changed, key_range=(2900, 9010, "[)"), columns=["k"])
    assert rows(ranged) == plain(changed.range(2900, 9010, columns=["k"]))
    found = ns.scan(spark, changed, keys=[5, 6, 6, 3001, 9002, 9999], columns=["k"])
    assert [row[0] for row in rows(found)] == [3001, 6, 9002]


def test_options(
    spark: Any, rows: Rows, lake: nb.Catalog, changed: nb.Table, tmp_path: Path
) -> None:
    place = lake.__reduce__()[1][0]

    def named(**options: Any) -> Any:
        return table_of_options({"catalog": place, "table": "a.changed", **options}).dataset

    reader = spark.read.format("nimble").option("catalog", place).option("table", "a.changed")
    frame = reader.options(tag="first", columns="k, v", filter="k >= 2500", parts="2").load()
    old = changed.at(tag="first")
    assert rows(frame) == plain(old.to_table(["k", "v"], "k >= 2500"))
    assert named().num_rows == changed.num_rows
    at = old.snapshots().column("timestamp")[0].as_py().isoformat()
    for past in ({"tag": "first"}, {"snapshot": str(old.snapshot)}, {"time": at}):
        assert SourceHandle(named(**past)).to_table().equals(old.to_table())
    for wrong, message in (
        ({"tag": "none"}, "no tag 'none'"),
        ({"tag": "first", "snapshot": "1"}, "one of snapshot"),
        ({"time": "2024-05-01"}, "expected a time with a zone"),
        ({"snapshot": "x"}, "expected a snapshot id"),
        ({"branch": "x"}, "no branch 'x'"),
        ({"table": "a.b"}, "no table 'a.b'"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            named(**wrong)
    with pytest.raises(nb.InvalidArgumentError, match="'catalog' is missing"):
        table_of_options({"table": "a.changed"})


def test_join_and_lookup(spark: Any, rows: Rows, changed: nb.Table) -> None:
    facts = spark.range(0, 12_000, 7).withColumnRenamed("id", "f")
    probe = pa.table({"f": list(range(0, 12_000, 7))})
    for how in ("inner", "left", "semi", "anti"):
        joined = ns.index_join(facts, changed, on={"f": "k"}, how=how)
        ours = changed.index_join(probe, on={"f": "k"}, how=how)
        assert rows(joined) == plain(ours), how
    scanned = ns.index_join(facts, changed, on={"f": "k"}, columns=["n"], strategy="scan")
    assert rows(scanned) == plain(changed.index_join(probe, on={"f": "k"}, columns=["n"]))
    facts.createOrReplaceTempView("facts")
    ns.register_lookup(spark, "dim", changed, columns=["value"])
    found = spark.sql("SELECT f.f, d.value FROM facts f, LATERAL dim(f.f) d")
    assert rows(found) == plain(changed.index_join(probe, on={"f": "k"}, columns=["value"]))


def test_lookups_are_by_the_primary_key(spark: Any, rows: Rows, lake: nb.Catalog) -> None:
    table = lake.create_table(
        "a.keyed", some(0, 200), primary_key="k", cluster_by=["g", "k"], partition_by=["g"]
    )
    facts = spark.range(190, 210).withColumnRenamed("id", "k")
    ns.register_lookup(spark, "keyed", table, columns=["v"])
    facts.createOrReplaceTempView("keys")
    found = spark.sql("SELECT x.k, d.v FROM keys x, LATERAL keyed(x.k) d")
    assert rows(found) == [(k, k / 2) for k in range(190, 200)]


def test_empty_tables(spark: Any, rows: Rows, lake: nb.Catalog) -> None:
    table = lake.create_table("a.empty", SCHEMA, primary_key="k")
    assert rows(ns.scan(spark, table)) == []
    facts = spark.range(3).withColumnRenamed("id", "k")
    assert rows(ns.index_join(facts, table, on="k", columns=["v"], how="left")) == [
        (0, None),
        (1, None),
        (2, None),
    ]
