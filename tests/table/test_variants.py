"""Columns of the type ``variant``, as other engines write them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import java_iceberg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.errors import InvalidArgumentError, UnsupportedVersionError
from nimblepy.schema.variant import variant_json
from nimblepy.table.base.places import readable_path
from nimblepy.table.reading.plan import clear_caches


def encoded(value: Any) -> tuple[bytes, bytes]:
    """Returns the metadata and the value of a variant."""
    names: list[str] = []

    def body(item: Any) -> bytes:
        if item is None or isinstance(item, bool):
            return bytes([{None: 0, True: 1, False: 2}[item] << 2])
        if isinstance(item, int):
            return bytes([6 << 2]) + item.to_bytes(8, "little", signed=True)
        if isinstance(item, str):
            text = item.encode()
            if len(text) < 64:
                return bytes([len(text) << 2 | 1]) + text
            return bytes([16 << 2]) + len(text).to_bytes(4, "little") + text
        parts = [body(part) for part in (item.values() if isinstance(item, dict) else item)]
        offsets = [sum(map(len, parts[:i])) for i in range(len(parts) + 1)]
        ends = b"".join(offset.to_bytes(4, "little") for offset in offsets)
        if isinstance(item, dict):
            for name in item:
                if name not in names:
                    names.append(name)
            ids = b"".join(names.index(name).to_bytes(2, "little") for name in item)
            head = bytes([(3 | 1 << 2) << 2 | 2, len(item)]) + ids
        else:
            head = bytes([3 << 2 | 3, len(item)])
        return head + ends + b"".join(parts)

    value = body(value)
    offsets = [sum(len(name.encode()) for name in names[:i]) for i in range(len(names) + 1)]
    numbers = b"".join(n.to_bytes(2, "little") for n in [len(names), *offsets])
    return bytes([1 | 1 << 6]) + numbers + "".join(names).encode(), value


VALUES: list[Any] = [
    None,
    True,
    -(2**63),
    "",
    "é" * 40,
    [],
    {},
    {"a": 1, "b": [None, {"a": "x"}, "ü"], "ä": False},
    [[[]], {"z": {}}],
]


def test_json_of_variants() -> None:
    for value in VALUES:
        assert json.loads(variant_json(b"".join(encoded(value)))) == value


@pytest.mark.parametrize(
    ("number", "octets", "shown"),
    [
        (3, "ff", -1),
        (7, "000000000000f07f", "inf"),
        (7, "000000000000f03f", 1.0),
        (8, "02d6ffffff", -0.42),
        (10, "00" + "ff" * 15 + "7f", 2**127 - 1),
        (11, "00000000", "1970-01-01"),
        (12, "ffffffffffffffff", "1969-12-31T23:59:59.999999+00:00"),
        (13, "0000000000000000", "1970-01-01T00:00:00"),
        (14, "0000c03f", 1.5),
        (15, "02000000ff00", "/wA="),
        (17, "40420f0000000000", "00:00:01"),
        (19, "0100000000000000", "1970-01-01T00:00:00.000000001"),
        (20, "00112233445566778899aabbccddeeff", "00112233-4455-6677-8899-aabbccddeeff"),
    ],
)
def test_primitive_types(number: int, octets: str, shown: Any) -> None:
    value = encoded(None)[0] + bytes([number << 2]) + bytes.fromhex(octets)
    assert json.loads(variant_json(value)) == shown


def test_damaged_variants_are_errors() -> None:
    rng = random.Random(0)
    good = [b"".join(encoded(value)) for value in VALUES]
    for octets in good:
        for size in range(len(octets)):
            with pytest.raises(ValueError):  # noqa: PT011
                variant_json(octets[:size])
    for _ in range(20_000):
        octets = bytearray(rng.choice(good))
        for _ in range(rng.choice([1, 1, 4])):
            octets[rng.randrange(len(octets))] = rng.randrange(256)
        try:
            json.loads(variant_json(bytes(octets)))
        except ValueError:
            continue


def test_values_that_contain_themselves_are_errors() -> None:
    head = encoded(None)[0]
    itself = bytes([0b11, 1]) + b"\0\0"  # an array whose element is at offset 0 of its elements
    deep = bytes([0b11, 1, 0, 4]) * 500
    twice = bytes([0b11, 2, 0, 0, 4]) * 200
    for value in (itself, deep, twice):
        with pytest.raises(ValueError, match=r"levels|overlap|ends before"):
            variant_json(head + value)


def variants(values: list[Any]) -> pa.StructArray:
    pairs = [(b"", b"") if value == "null" else encoded(value) for value in values]
    columns = [pa.array([pair[i] for pair in pairs], pa.binary()) for i in range(2)]
    fields = [pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")]
    mask = pa.array([value == "null" for value in values])
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def stored(table: nb.Table) -> dict[int, tuple[bytes, bytes] | None]:
    """Returns the bytes of all variants, read from the data files, by key."""
    found: dict[int, tuple[bytes, bytes] | None] = {}
    for path in table.files()["path"].to_pylist():
        for row in pq.ParquetFile(readable_path(path)).read().to_pylist():
            value = row["v"]
            found[row["k"]] = None if value is None else (value["metadata"], value["value"])
    return found


@pytest.fixture
def table(lake: nb.Catalog, tmp_path: Path) -> nb.Table:
    """A table with a file of another writer."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.binary()), ("n", pa.int32())])
    made = lake.create_table(
        "a.t", schema, primary_key="k", data_format="parquet", format_version=3
    )
    place = Path(readable_path(made.metadata_location))
    content = json.loads(place.read_bytes())
    assert content["schemas"][0]["fields"][1]["type"] == "binary"
    content["schemas"][0]["fields"][1]["type"] = "variant"
    place.write_text(json.dumps(content))
    clear_caches()
    table = nb.connect(tmp_path / "lake").table("a.t")
    values = [*VALUES, "null"]
    ids = [{b"PARQUET:field_id": str(i).encode()} for i in (1, 2, 3)]
    group = variants(values)
    pq.write_table(
        pa.table(
            [pa.array(range(len(values)), pa.int64()), group, pa.array([0] * len(values), "int32")],
            schema=pa.schema(
                [
                    pa.field("k", pa.int64(), nullable=False, metadata=ids[0]),
                    pa.field("v", group.type, metadata=ids[1]),
                    pa.field("n", pa.int32(), metadata=ids[2]),
                ]
            ),
        ),
        tmp_path / "other.parquet",
    )
    table.add_files([tmp_path / "other.parquet"])
    return table


EXPECTED = {i: encoded(value) for i, value in enumerate(VALUES)} | {len(VALUES): None}


def shown(table: nb.Table) -> dict[int, Any]:
    read = table.to_table(["k", "v"])
    pairs = zip(read["k"].to_pylist(), read["v"].to_pylist(), strict=True)
    return {k: "null" if v is None else json.loads(variant_json(v)) for k, v in pairs}


def test_changes_carry_the_bytes(table: nb.Table, tmp_path: Path) -> None:
    wanted = dict(enumerate([*VALUES, "null"]))
    assert shown(table) == wanted
    assert json.loads(variant_json(table.get(7)["v"])) == VALUES[7]
    table.upsert(pa.table({"k": [2, 7], "n": pa.array([5, 6], "int32")}), update="n")
    assert shown(table) == wanted
    assert table.lookup([7])["n"].to_pylist() == [6]
    assert table.count_rows("v IS NULL") == 1
    table.compact(where_needed=False)
    assert stored(table) == EXPECTED
    added = variants([{"new": 1}])
    table.append(pa.table({"k": pa.array([100]), "v": added, "n": pa.array([1], "int32")}))
    assert stored(table)[100] == encoded({"new": 1})
    table.add_index(nb.SortedIndex(["n"]))
    found = table.lookup([6], on=["n"]).to_pylist()
    assert [(row["k"], json.loads(variant_json(row["v"]))) for row in found] == [(7, VALUES[7])]
    with table.alter() as alter:
        alter.rename_column("v", "w")
    again = nb.connect(tmp_path / "lake").table("a.t")
    assert json.loads(variant_json(again.get(100)["w"])) == {"new": 1}
    content = json.loads(Path(readable_path(again.metadata_location)).read_bytes())
    assert [f["type"] for s in content["schemas"] for f in s["fields"] if f["id"] == 2] == [
        "variant",
        "variant",
    ]


def test_a_nimble_table_keeps_the_bytes(table: nb.Table) -> None:
    table.convert("nimble")
    table.upsert(pa.table({"k": [2], "n": pa.array([5], "int32")}), update="n")
    assert shown(table) == dict(enumerate([*VALUES, "null"]))
    table.convert("parquet")
    assert stored(table) == EXPECTED


def test_the_command_prints_json(table: nb.Table, tmp_path: Path) -> None:
    read = CliRunner().invoke(app, ["lookup", f"{tmp_path}/lake#a.t", "7", "--json"])
    assert read.exit_code == 0, read.output
    assert json.loads(read.output)["v"] == VALUES[7]
    read = CliRunner().invoke(app, ["scan", f"{tmp_path}/lake#a.t", "--json"])
    rows = [json.loads(line) for line in read.output.splitlines()]
    assert [row["v"] for row in rows] == [*VALUES, None]


@pytest.mark.skipif(java_iceberg.missing() is not None, reason=str(java_iceberg.missing()))
def test_java_reads_what_compaction_wrote(table: nb.Table, tmp_path: Path) -> None:
    table.compact(where_needed=False)
    with java_iceberg.java(tmp_path) as jvm:
        read = java_iceberg.rows_of(jvm, table.metadata_location, ["k", "v"])
        values = {k: None if v is None else v.value().toString() for k, v in read}
    assert values[2] == f"Variant(type=INT64, value={-(2**63)})"
    assert values[5] == "VariantArray([])"
    assert values[7].startswith("VariantObject(fields={a: Variant(type=INT64, value=1), b: ")
    assert values[len(VALUES)] is None
    assert len(values) == len(EXPECTED)


def test_delta_has_no_variants(table: nb.Table) -> None:
    with pytest.raises(InvalidArgumentError, match="'v' is a variant"):
        table.publish_delta()


def test_bytes_that_are_no_variant_are_refused(table: nb.Table) -> None:
    with pytest.raises(InvalidArgumentError, match="column 'v', row 0: not a variant"):
        table.append(pa.table({"k": [1000], "v": [b"abc"], "n": pa.array([1], "int32")}))


def test_shredded_variants_are_refused(table: nb.Table, tmp_path: Path) -> None:
    parts = [pa.array([part], pa.binary()) for part in encoded(1)] + [pa.array([1])]
    group = pa.StructArray.from_arrays(parts, ["metadata", "value", "typed_value"])
    path = tmp_path / "shredded.parquet"
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
            pa.field("v", group.type, metadata={"PARQUET:field_id": "2"}),
        ]
    )
    pq.write_table(pa.table([pa.array([50]), group], schema=schema), path)
    with pytest.raises(UnsupportedVersionError, match="shredded variant"):
        table.add_files([path])


def test_a_nested_variant_is_refused_by_name(lake: nb.Catalog, tmp_path: Path) -> None:
    made = lake.create_table("a.t", pa.table({"s": [{"x": b""}]}), format_version=3)
    place = Path(readable_path(made.metadata_location))
    place.write_text(place.read_text().replace('"type":"binary"', '"type":"variant"'))
    clear_caches()
    with pytest.raises(UnsupportedVersionError, match="variant"):
        nb.connect(tmp_path / "lake").table("a.t").to_table()
