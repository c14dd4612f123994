"""Column types of format version 3: nanoseconds and ``unknown``, and defaults inside structs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import java_iceberg
import pyarrow as pa
import pytest
from duckdb_extensions import with_extensions

import nimblepy as nb
from nimblepy.errors import InvalidArgumentError
from nimblepy.table.base.places import readable_path
from nimblepy.table.base.transforms import transform

DAY = 86_400 * 10**9
TIMES = [0, 1, -1, 999, 1000, -999, -1000, -1001, DAY - 1, DAY, -DAY, -DAY - 1, 2**62, -(2**62)]
TIMES += [1_700_000_000_000_000_001, 1_700_000_000_000_000_999, None]
ZONES = [None, "UTC", "Europe/Berlin"]
PARTITIONS: list[tuple[str, ...]] = [(), ("day(t)",), ("bucket(4, t)",), ("hour(t)",), ("t",)]


def stamps(values: Any, zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp("ns", zone))


def rows(zone: str | None = None) -> pa.Table:
    inner = pa.StructArray.from_arrays([stamps(TIMES)], ["x"])
    return pa.table({"k": range(len(TIMES)), "t": stamps(TIMES, zone), "s": inner})


def table_of(lake: nb.Catalog, name: str, data: pa.Table, **options: Any) -> nb.Table:
    return lake.create_table(name, data, primary_key="k", format_version=3, **options)


def document(table: nb.Table) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(Path(readable_path(table.metadata_location)).read_bytes())
    return read


def numbers(table: nb.Table, **options: Any) -> dict[int, int | None]:
    read = table.to_table(["k", "t"], **options)
    return dict(zip(read["k"].to_pylist(), read["t"].cast(pa.int64()).to_pylist(), strict=True))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_nanoseconds_are_kept(
    lake: nb.Catalog, data_format: Any, partition: Any, zone: str | None
) -> None:
    data = rows(zone)
    table = table_of(lake, "a.t", data, partition_by=partition, data_format=data_format)
    assert table.schema.field("t").type == pa.timestamp("ns", zone)
    read = table.to_table().sort_by("k")
    assert read.equals(data.cast(read.schema))
    for value in (1, -1, 999, DAY - 1, 2**62, 1_700_000_000_000_000_001):
        params = {"x": stamps([value], zone)[0]}
        for sign, wanted in (("=", {value}), ("<", {t for t in TIMES if t is not None})):
            below = numbers(table, filter=f"t {sign} $x", params=params)
            assert set(below.values()) == {t for t in wanted if sign == "=" or t < value}
    change = pa.table(
        {"k": [3, 99], "t": stamps([5, -7], zone), "s": data["s"][:2].combine_chunks()}
    )
    table.upsert(change)
    table.compact()
    wanted_rows = dict(enumerate(TIMES)) | {3: 5, 99: -7}
    assert numbers(lake.table("a.t")) == wanted_rows


def test_a_table_of_version_2_gets_them_after_an_upgrade(lake: nb.Catalog) -> None:
    table = lake.create_table("a.t", pa.table({"t": stamps([1000])}))
    assert table.schema.field("t").type == pa.timestamp("us")
    with pytest.raises(InvalidArgumentError, match=r"column 't', row 0: .*000001001"):
        table.append(pa.table({"t": stamps([1001])}))
    with table.alter() as a:
        a.upgrade(3).add_column("n", pa.timestamp("ns"))
    table.append(
        pa.table({name: stamps([1000 if name == "t" else 1001]) for name in "tnm"}),
        new_columns="add",
    )
    read = lake.table("a.t").to_table().sort_by("m")
    assert read.schema.types == [pa.timestamp("us"), *[pa.timestamp("ns")] * 2]
    assert read["m"].cast(pa.int64()).to_pylist() == [1001, None]
    with pytest.raises(InvalidArgumentError, match="can only have the default null"):
        table.alter().add_column("d", pa.timestamp("ns"), default=stamps([1])[0])


@pytest.mark.parametrize("partition", PARTITIONS)
def test_duckdb_reads_nanoseconds(lake: nb.Catalog, partition: Any) -> None:
    table = table_of(lake, "a.t", rows(), partition_by=partition, data_format="parquet")
    table.delete("k IN (2, 5)")
    place = table.metadata_location.removeprefix("file://")
    with with_extensions("avro", "iceberg") as connection:
        found = connection.sql(f"SELECT k, epoch_ns(t) FROM iceberg_scan('{place}')").fetchall()
    assert dict(found) == numbers(table)


@pytest.mark.skipif(java_iceberg.missing() is not None, reason=str(java_iceberg.missing()))
def test_java_has_the_same_partitions_and_values(lake: nb.Catalog, tmp_path: Path) -> None:
    # py4j passes smaller numbers as Integer, where the transforms need a Long.
    values = [t + base for t in TIMES[:12] if t is not None for base in (7 * DAY, -7 * DAY)]
    with java_iceberg.java(tmp_path) as jvm:
        apache = jvm.org.apache.iceberg
        kind = apache.types.Types.TimestampNanoType.withoutZone()
        theirs = {
            "year": apache.transforms.Transforms.year(),
            "month": apache.transforms.Transforms.month(),
            "day": apache.transforms.Transforms.day(),
            "hour": apache.transforms.Transforms.hour(),
            "bucket[16]": apache.transforms.Transforms.bucket(16),
        }
        for text, java in theirs.items():
            bound = java.bind(kind)
            ours = transform(text, pa.timestamp("ns"))(stamps(values)).cast(pa.int32())
            assert ours.to_pylist() == [bound.apply(v) for v in values], text
        table = table_of(lake, "a.t", rows(), partition_by=["day(t)"], data_format="parquet")
        found = java_iceberg.rows_of(jvm, table.metadata_location, ["k", "t"])
        shown = {k: None if t is None else t.toString() for k, t in found}
    assert shown[0] == "1970-01-01T00:00"
    assert shown[14] == "2023-11-14T22:13:20.000000001"
    assert len(shown) == len(TIMES)


@pytest.fixture
def untyped(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, request: Any) -> nb.Table:
    """A table with columns of Iceberg's type ``unknown``, as other writers make them."""
    inner = pa.struct([("x", pa.int32()), ("n", pa.null())])
    schema = pa.schema([("k", pa.int64()), ("u", pa.null()), ("s", inner)])
    with monkeypatch.context() as patched:
        patched.setattr("nimblepy.table.catalog.table_schema", lambda given, nanoseconds: given)
        return table_of(lake, "a.t", schema, data_format=request.param)


BOTH = pytest.mark.parametrize("untyped", ["nimble", "parquet"], indirect=True)


@BOTH
def test_columns_without_a_type_are_null(lake: nb.Catalog, untyped: nb.Table) -> None:
    untyped.append({"k": [1, 2]})
    untyped.append([{"k": 3, "u": None, "s": {"x": 1, "n": None}}])
    untyped.append(pa.table({"k": [4], "u": pa.nulls(1, pa.string())}))
    with pytest.raises(InvalidArgumentError, match="column 'u', row 1: 'x' is not null"):
        untyped.append(pa.table({"k": [5, 6], "u": [None, "x"]}))
    untyped.upsert({"k": [1]})
    untyped.compact()
    table = lake.table("a.t")
    assert str(document(table)["schemas"]).count("'unknown'") == 2
    assert table.get(3) == {"k": 3, "u": None, "s": {"x": 1, "n": None}}
    assert table.to_table(filter="u IS NULL").num_rows == 4
    assert table.to_table(filter="u = 1").num_rows == 0
    assert table.to_table().schema.types[1] == pa.null()


@BOTH
def test_a_column_without_a_type_gets_one(lake: nb.Catalog, untyped: nb.Table) -> None:
    untyped.append([{"k": 3, "u": None, "s": {"x": 1, "n": None}}])
    with untyped.alter() as a:
        a.widen("u", pa.string()).widen("s.n", pa.int64())
    untyped.append([{"k": 4, "u": "b", "s": {"x": 2, "n": 7}}])
    table = lake.table("a.t")
    assert table.to_table(["u", "s"], filter="u = 'b' AND s.n = 7").num_rows == 1
    assert table.get(3) == {"k": 3, "u": None, "s": {"x": 1, "n": None}}


@BOTH
def test_a_column_without_a_type_gets_one_with_a_zone(lake: nb.Catalog, untyped: nb.Table) -> None:
    zoned = pa.timestamp("us", "Europe/Zurich")
    with untyped.alter() as a:
        a.widen("u", zoned)
    assert lake.table("a.t").schema.field("u").type == zoned


@pytest.mark.parametrize("untyped", ["parquet"], indirect=True)
@pytest.mark.skipif(java_iceberg.missing() is not None, reason=str(java_iceberg.missing()))
def test_java_reads_columns_without_a_type(untyped: nb.Table, tmp_path: Path) -> None:
    untyped.append([{"k": 3, "u": None, "s": {"x": 1, "n": None}}])
    with java_iceberg.java(tmp_path) as jvm:
        assert java_iceberg.rows_of(jvm, untyped.metadata_location, ["k", "u"]) == [(3, None)]


STRUCTS = [{"x": 1, "in": {"y": 1}}, None, {"x": None, "in": None}]
FILLED = [
    {"x": 1, "in": {"y": 1, "e": "é"}, "d": 7},
    None,
    {"x": None, "in": None, "d": 7},
    {"x": 4, "in": {"y": 2, "e": "z"}, "d": None},
]


def with_inner_defaults(lake: nb.Catalog, version: int, data_format: Any) -> nb.Table:
    table = lake.create_table(
        "a.t",
        pa.table({"k": [0, 1, 2], "s": STRUCTS}),
        primary_key="k",
        format_version=version,
        data_format=data_format,
    )
    with table.alter() as a:
        a.add_column("s.d", pa.int32(), default=7).add_column("s.in.e", pa.string(), default="é")
    table.append([{"k": 3, "s": FILLED[3]}])
    return table


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_fields_of_structs_have_defaults(
    lake: nb.Catalog, data_format: Any, version: int, tmp_path: Path
) -> None:
    table = with_inner_defaults(lake, version, data_format)
    assert table.to_table().sort_by("k")["s"].to_pylist() == FILLED
    assert [table.get(k) for k in range(4)] == [{"k": k, "s": s} for k, s in enumerate(FILLED)]
    for condition, keys in (("s.d = 7", [0, 2]), ("s.d IS NULL", [1, 3]), ("s.in.e = 'é'", [0])):
        assert sorted(table.to_table(["k"], filter=condition)["k"].to_pylist()) == keys
    if data_format == "parquet":
        with pytest.raises(InvalidArgumentError, match=r"lacks the field '(in\.e|d)', which has a"):
            table.publish_delta()
        place = table.metadata_location.removeprefix("file://")
        with with_extensions("avro", "iceberg") as connection:
            found = connection.sql(f"SELECT k, s FROM iceberg_scan('{place}')").fetchall()
        assert dict(found) == dict(enumerate(FILLED))
    table.compact()
    assert lake.table("a.t").to_table().sort_by("k")["s"].to_pylist() == FILLED


def test_published_tables_refuse_defaults_inside_structs(lake: nb.Catalog) -> None:
    table = lake.create_table("a.t", pa.table({"s": STRUCTS}), data_format="parquet")
    table.publish_delta()
    change = table.alter().add_column("s.d", pa.int32(), default=7)
    with (
        pytest.raises(InvalidArgumentError, match=r"column 's\.d': this table is published"),
        change,
    ):
        pass
