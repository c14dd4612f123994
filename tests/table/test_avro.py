"""Avro container files of other writers, and those that are made to keep a reader busy."""

from __future__ import annotations

import bz2
import json
import tracemalloc
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.decoder import new_decoder

import nimblepy as nb
from nimblepy.errors import CorruptFileError
from nimblepy.table import iceberg as ice
from nimblepy.table.iceberg.avro import (
    Source,
    container,
    encoded_bytes,
    encoded_long,
    read_container,
    records_of,
)
from nimblepy.table.reading import plan


def _read(data: bytes) -> list[Any]:
    found = read_container(data, new_decoder, "m.avro")
    return list(records_of(found, Source(found.records, new_decoder)))


def _record(*kinds: Any, name: str = "r", **more: Any) -> dict[str, Any]:
    fields = [{"name": f"f{i}", "type": kind} for i, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields, **more}


def _file(schema: Any, *records: bytes) -> bytes:
    return container(json.dumps(schema), {}, records)


def _coded(codec: str, block: bytes, count: int) -> bytes:
    """A file of numbers with one block as it is stored."""
    head = {"avro.schema": b'"long"', "avro.codec": codec.encode()}
    pairs = b"".join(encoded_bytes(k.encode()) + encoded_bytes(v) for k, v in head.items())
    parts = [b"Obj\x01", encoded_long(2), pairs, b"\0", bytes(16)]
    return b"".join([*parts, encoded_long(count), encoded_bytes(block), bytes(16)])


def _snappy(data: bytes) -> bytes:
    packed = pa.compress(data, "snappy", asbytes=True)
    return bytes(packed) + zlib.crc32(data).to_bytes(4, "big")


_PACKERS = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data)[2:-1],  # as pyiceberg ends them
    "snappy": _snappy,
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
    "bzip2": bz2.compress,
}


@pytest.mark.parametrize("codec", _PACKERS)
def test_every_codec_is_undone(codec: str) -> None:
    data = b"".join(encoded_long(i) for i in range(5000))
    packed = _PACKERS[codec](data)
    assert _read(_coded(codec, packed, 5000)) == list(range(5000))
    for octets in (packed[: len(packed) // 2], b"\xff" * 40, b""):
        with pytest.raises(CorruptFileError, match=r"m\.avro"):
            _read(_coded(codec, octets, 5000))


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2"])
def test_no_more_is_decompressed_than_a_manifest_has(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nimblepy.table.iceberg.avro._FREE_BYTES", 1 << 20)
    # A hundred times more than is allowed, except where such a file cannot be so small.
    bomb = _PACKERS[codec](bytes((1 << 25) if codec == "snappy" else 100 << 20))
    if codec == "snappy":  # what says how many bytes there are, and some of these
        bomb = bomb[:20_000]
    tracemalloc.start()
    with pytest.raises(CorruptFileError, match=r"m\.avro.*bytes"):
        _read(_coded(codec, bomb, 1))
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_types_within_types_are_counted_before_their_bytes_are_read() -> None:
    inner = [_record(*["double"] * 4096, name=f"r{i}") for i in range(8)]
    with pytest.raises(CorruptFileError, match="types"):
        _read(_file(_record(*inner), b"\0"))
    doubled: Any = "long"
    kinds = []
    for i in range(40):  # 2^40 numbers, by names
        kinds.append(_record(doubled, doubled, name=f"d{i}"))
        doubled = f"d{i}"
    with pytest.raises(CorruptFileError, match="types"):
        _read(_file(_record(*kinds), b"\0"))


def test_a_record_behind_the_end_is_no_record() -> None:
    found = read_container(_file(_record("double"), b"\0"), new_decoder, "m.avro")
    with pytest.raises(EOFError):
        next(records_of(found, Source(found.records, new_decoder)))


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": _record(name="empty")},
        {"type": "array", "items": {"type": "fixed", "size": 0, "name": "nothing"}},
        _record(*["null"] * 4000, name="nulls"),
    ],
)
def test_values_that_take_no_bytes_are_few(kind: Any) -> None:
    with pytest.raises(CorruptFileError, match="no bytes"):
        _read(_file(_record("long", kind), b"\x02\0"))


def test_a_few_values_may_take_no_bytes() -> None:
    schema = _record("null", _record(name="empty"), "long")
    assert _read(_file(schema, b"\x02")) == [(None, (), 1)]


def test_named_types_are_used_by_name() -> None:
    small = {"type": "fixed", "size": 2, "name": "small"}
    pair = _record(small, ["null", "small"], name="pair")
    schema = _record(pair, "pair", {"type": "map", "values": "pair"})
    octets = b"ab\0" + b"cd\x02ef" + encoded_long(1) + encoded_bytes(b"k") + b"gh\0\0"
    assert _read(_file(schema, octets)) == [
        ((b"ab", None), (b"cd", b"ef"), {"k": (b"gh", None)}),
    ]
    spaced = _record({**small, "namespace": "a.b"}, "a.b.small", name="x.r")
    assert _read(_file(spaced, b"abcd")) == [(b"ab", b"cd")]
    inherited = _record({**small}, "x.small", "small", name="x.r")
    assert _read(_file(inherited, b"abcdef")) == [(b"ab", b"cd", b"ef")]
    for unknown in (_record("small", small), _record(_record("s", name="s")), "large"):
        with pytest.raises(CorruptFileError):
            _read(_file(unknown, b"abcd"))


def _partitioned(lake: nb.Catalog) -> tuple[nb.Table, Path]:
    kind = pa.decimal128(9, 2)
    schema = pa.schema([("a", kind), ("b", kind), ("v", pa.int64())])
    table = lake.create_table("n.t", schema, partition_by=["a", "b"])
    one = pa.array([Decimal("1.00")], kind)
    table.append(pa.table({"a": one, "b": pa.array([Decimal("2.00")], kind), "v": [1]}))
    head = table._metadata.head()
    assert head is not None
    path = ice.local_path(table._metadata.manifests(head)[0].path)
    assert path is not None
    return table, Path(path)


def _stored_schema(path: Path) -> tuple[dict[str, str], Any, bytes]:
    found = read_container(path.read_bytes(), new_decoder, path.name)
    header = {k: v.decode() for k, v in found.metadata.items() if not k.startswith("avro.")}
    return header, json.loads(found.metadata["avro.schema"]), found.records


def _partition_fields(schema: Any) -> list[Any]:
    file = next(item for item in schema["fields"] if item["name"] == "data_file")["type"]
    partition = next(item for item in file["fields"] if item["name"] == "partition")["type"]
    fields: list[Any] = partition["fields"]
    return fields


def test_a_manifest_that_uses_a_name_again_is_read(lake: nb.Catalog) -> None:
    table, path = _partitioned(lake)
    header, schema, records = _stored_schema(path)
    first, second = _partition_fields(schema)
    second["type"][1] = first["type"][1]["name"]  # as Iceberg in Java writes it
    path.write_bytes(container(json.dumps(schema), header, [records]))
    plan.clear_caches()
    assert lake.table("n.t").to_table(filter="b = 2")["v"].to_pylist() == [1]
    metadata = table._metadata
    head = metadata.head()
    assert head is not None
    (entry,) = metadata.entries(metadata.manifests(head)[0])
    assert entry.file.partition == (Decimal("1.00"), Decimal("2.00"))


@pytest.mark.usefixtures("library_reads_nimble")
def test_no_name_is_defined_twice(lake: nb.Catalog) -> None:
    table, path = _partitioned(lake)
    _, schema, _ = _stored_schema(path)
    names = [item["type"][1]["name"] for item in _partition_fields(schema)]
    assert names == ["decimal_9_2", "decimal_9_2_2"]
    (task,) = table._metadata.ice.scan().plan_files()
    assert list(task.file.partition) == [Decimal("1.00"), Decimal("2.00")]


def test_partition_fields_are_found_by_their_ids(lake: nb.Catalog) -> None:
    table, path = _partitioned(lake)
    header, schema, records = _stored_schema(path)
    fields = _partition_fields(schema)
    fields.reverse()
    values = [b"\x02" + value.to_bytes(4, "big") for value in (100, 200)]
    assert records.count(b"".join(values)) == 1
    records = records.replace(b"".join(values), b"".join(reversed(values)))
    path.write_bytes(container(json.dumps(schema), header, [records]))
    plan.clear_caches()
    again = lake.table("n.t")
    assert again.to_table(filter="a = 1")["v"].to_pylist() == [1]
    assert again.to_table(filter="a = 2")["v"].to_pylist() == []
    (member,) = again._current.members
    assert member.file.partition == (Decimal("1.00"), Decimal("2.00"))
    again.rewrite_manifests()
    assert lake.table("n.t").to_table(filter="b = 2")["v"].to_pylist() == [1]
    fields[0]["field-id"] = 77
    path.write_bytes(container(json.dumps(schema), header, [records]))
    plan.clear_caches()
    with pytest.raises(CorruptFileError, match="avro"):
        table.to_table(filter="a = 1")
