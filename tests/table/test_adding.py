"""Files that exist become part of a table, and tables change their format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import nimblepy as nb

ROWS = pa.table(
    {
        "k": pa.array(range(100), pa.int64()),
        "g": ["a"] * 60 + ["b"] * 40,
        "n": [{"x": i} if i % 3 else None for i in range(100)],
    }
)


def ordered(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_files_without_ids_survive_renames(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", ROWS.schema, cluster_by="k")
    nb.write(ROWS.slice(0, 30), tmp_path / "sorted.nimble", cluster_by="k")
    backwards = ROWS.slice(30, 30).sort_by([("k", "descending")])
    nb.write(backwards, tmp_path / "other.nimble")
    narrow = ROWS.slice(60).select(["n", "k"])
    narrow = narrow.set_column(1, "k", narrow.column("k").cast(pa.int32()))
    pq.write_table(narrow, tmp_path / "more.parquet")
    done = table.add_files(tmp_path)
    assert (done.rows_inserted, done.files_added) == (100, 3)
    with table.alter() as a:
        a.rename_column("k", "key").rename_column("n.x", "y")
    with pytest.raises(nb.InvalidArgumentError, match="without field ids"), table.alter() as a:
        a.add_column("k", pa.int64())
    with pytest.raises(nb.InvalidArgumentError, match="without field ids"), table.alter() as a:
        a.rename_column("g", "k")
    assert table.range(20, 70).column("key").to_pylist() == list(range(20, 70))
    assert table.count([5, 35, 95, 100]).to_pylist() == [1, 1, 1, 0]
    assert table.get(95) == {"key": 95, "g": None, "n": {"y": 95}}
    assert table.count_rows("g IS NULL AND key > 60") == 39
    assert table.count_rows("n.y = 44") == 1
    assert table.delete("key = 31 OR key = 61").rows_deleted == 2
    assert table.num_rows == 98
    assert table.lookup([30, 31, 32]).column("key").to_pylist() == [30, 32]


def test_partitions_of_added_files(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", ROWS.schema, partition_by=["g"])
    nb.write(ROWS, tmp_path / "mixed.nimble")
    with pytest.raises(nb.InvalidArgumentError, match="more than one partition"):
        table.add_files(tmp_path / "mixed.nimble")
    pq.write_table(ROWS.slice(0, 60), tmp_path / "a.parquet")
    table.add_files([tmp_path / "a.parquet"])
    assert table.count_rows("g = 'a'") == 60
    assert "files=1" in str(table.explain(filter="g = 'a'")).replace(" ", "")
    assert table.count_rows("g = 'b'") == 0
    with pytest.raises(nb.InvalidArgumentError, match="already"):
        table.add_files(tmp_path / "a.parquet")


def test_files_that_do_not_fit(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", ROWS, primary_key="k")
    snapshot = table.snapshot
    cases: list[tuple[pa.Table, str]] = [
        (pa.table({"k": [1], "z": [1]}), "unknown column 'z'"),
        (pa.table({"g": ["x"]}), "'k' is missing"),
        (pa.table({"k": ["x"]}), "column 'k' is string"),
        (pa.table({"k": pa.array([None], pa.int64())}), "nulls"),
    ]
    for data, message in cases:
        nb.write(data, tmp_path / "f.nimble")
        with pytest.raises(nb.InvalidArgumentError, match=message):
            table.add_files(tmp_path / "f.nimble")
    nb.write(ROWS.slice(0, 1), tmp_path / "f.nimble")
    with pytest.raises(nb.DuplicateKeyError, match="k=0"):
        table.add_files(tmp_path / "f.nimble")
    assert (tmp_path / "f.nimble").exists()
    (tmp_path / "f.nimble").write_bytes(b"nothing")
    with pytest.raises(nb.InvalidArgumentError, match="add_files"):
        table.add_files(tmp_path / "f.nimble")
    (tmp_path / "empty").mkdir()
    with pytest.raises(nb.InvalidArgumentError, match="no nimble or Parquet"):
        table.add_files(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        table.add_files(tmp_path / "nothing.nimble")
    other = lake.create_table("a.c", pa.schema({"g": pa.string(), "k": pa.int64()}))
    other.append(pa.table({"g": ["q"], "k": [5000]}))
    theirs = next(Path(other.location.removeprefix("file://")).glob("data/*.nimble"))
    with pytest.raises(nb.InvalidArgumentError, match="another table"):
        table.add_files(theirs)
    assert lake.table("a.b").snapshot == snapshot


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("place", ["struct", "list", "map"])
def test_files_of_other_tables_differ_in_nested_ids(
    lake: nb.Catalog, place: str, data_format: Any
) -> None:
    """Only ids of top-level columns were compared: x was read as y, and y as x."""
    made = []
    for name, fields in (("a.one", "xy"), ("a.two", "yx")):
        inner: pa.DataType = pa.struct([(field, pa.int64()) for field in fields])
        if place != "struct":
            inner = pa.list_(inner) if place == "list" else pa.map_(pa.string(), inner)
        schema = pa.schema([("i", pa.int64()), ("s", inner)])
        made.append(lake.create_table(name, schema, data_format=data_format))
    value: Any = {"x": 1, "y": 2}
    value = {"struct": value, "list": [value], "map": [("k", value)]}[place]
    made[0].append(pa.Table.from_pylist([{"i": 1, "s": value}], made[0].schema))
    file = made[0]._current.members[0].file.path
    with pytest.raises(nb.InvalidArgumentError, match=r"'s\..*[xy]'.*file of another table"):
        made[1].add_files(file)


@pytest.mark.parametrize("first", ["nimble", "parquet"])
def test_convert(lake: nb.Catalog, first: Any) -> None:
    second: Any = "parquet" if first == "nimble" else "nimble"
    table = lake.create_table("a.b", ROWS, cluster_by="k", partition_by="g", data_format=first)
    table.append(ROWS.slice(90))
    table.delete("k < 7 OR k = 95")
    with table.alter() as a:
        a.rename_column("g", "group").add_column("d", pa.int32(), default=4)
    before, live = ordered(table.to_table()), table.num_rows
    old = table.snapshot
    done = table.convert(second)
    assert (done.rows_inserted, done.rows_deleted) == (0, 0)
    assert done.files_added == 2
    assert ordered(table.to_table()) == before
    assert table.num_rows == live
    assert table.get(50)["d"] == 4
    formats = {member.file.format for member in table._current.members}
    assert formats == {"PARQUET" if second == "parquet" else "NIMBLEPY"}
    assert not table._current.plan.has_deletes
    if second == "parquet":
        theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow()
        assert ordered(theirs.select(table.schema.names)) == before
        snapshot = table.iceberg.current_snapshot()
        for manifest in snapshot.manifests(table.iceberg.io):
            entries = manifest.fetch_manifest_entry(table.iceberg.io, discard_deleted=False)
            assert {entry.data_file.file_format.value for entry in entries} == {"PARQUET"}
    table.append(pa.table({"k": [1000], "group": ["c"]}))
    assert table.delete("k = 50").rows_deleted == 1
    assert {member.file.format for member in table._current.members} == formats
    assert table.at(snapshot=old).num_rows == live
    with pytest.raises(nb.InvalidArgumentError, match="'nimble' or 'parquet'"):
        table.convert("orc")  # type: ignore[arg-type]


def test_missing_columns_with_a_default(lake: nb.Catalog, tmp_path: Path) -> None:
    """Statistics and partitions say what reads say: the default."""
    table = lake.create_table("a.b", ROWS.select(["k"]).schema)
    with table.alter() as a:
        a.add_column("x", pa.int32(), default=7)
        a.partition_by("x")
    pq.write_table(ROWS.select(["k"]).slice(0, 3), tmp_path / "old.parquet")
    table.add_files(tmp_path / "old.parquet")
    assert table.to_table(["x"]).column("x").to_pylist() == [7, 7, 7]
    assert table.count_rows("x = 7") == 3
    assert table.count_rows("x IS NULL") == 0
    assert table.delete("x IS NULL").rows_deleted == 0


def test_files_of_two_tables_are_warned_of(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.one", pa.table({"k": [1, 2]}), data_format="parquet")
    other = lake.create_table("a.two", table.schema, data_format="parquet")
    (member,) = table._current.members
    path = member.file.path.removeprefix("file://")
    with pytest.warns(UserWarning, match="belongs to the table at"):
        other.add_files(path)
    assert other.num_rows == 2
    copy = tmp_path / "elsewhere.parquet"
    copy.write_bytes(Path(path).read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.add_files(copy)


@pytest.mark.parametrize(
    "order", [nb.SortKey("k", descending=True), nb.SortKey("k", nulls_first=True)]
)
def test_keys_of_files_in_another_order(tmp_path: Path, order: nb.SortKey) -> None:
    """An added file's own index may be in another order than the bounds of the table's files."""
    table = nb.connect(tmp_path / "lake").create_table(
        "s.t", pa.schema([pa.field("k", pa.int64(), nullable=False)]), primary_key=["k"]
    )
    for name, keys, by in (("x", range(30), nb.SortKey("k")), ("y", range(30, 60), order)):
        path = tmp_path / f"{name}.nimble"
        nb.write(pa.table({"k": pa.array(keys, pa.int64())}), path, cluster_by=[by])
        table.add_files(path)
    asked = [5, 31, 35, 40, 59, 100]
    assert table.count(asked).to_pylist() == [1, 1, 1, 1, 1, 0]
    assert table.lookup(asked).column("k").to_pylist() == asked[:-1]
    done = table.upsert({"k": [40, 41]})
    assert (done.rows_inserted, done.rows_updated, table.num_rows) == (0, 2, 60)


def test_rows_of_views_in_parquet_are_gathered(lake: nb.Catalog, tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.int64(), "s": pa.string()})
    table = lake.create_table("a.b", schema, primary_key="k")
    views = pa.array(["a", None, "a text longer than twelve bytes"], pa.string_view())
    pq.write_table(pa.table({"k": [1, 2, 3], "s": views}), tmp_path / "x.parquet")
    table.add_files(tmp_path / "x.parquet")
    assert table.get(3) == {"k": 3, "s": "a text longer than twelve bytes"}
    table.delete(keys=[1])
    assert table.to_table()["s"].to_pylist() == [None, "a text longer than twelve bytes"]
