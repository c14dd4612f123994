"""Metadata that is written without the library's set-up is what the library would have written."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.avro.reader import StructReader
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntryStatus,
    ManifestWriterV2,
    read_manifest_list,
    write_manifest_list,
)
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import update
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import update_table_metadata

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.iceberg import private
from nimblepy.table.iceberg.avro import container
from nimblepy.table.iceberg.metadata_json import SnapshotTexts, with_snapshots

ROWS = pa.table({"k": range(100), "g": [i % 3 for i in range(100)], "t": ["ä\"\\'"] * 100})


def steps(table: nb.Table) -> Iterator[None]:
    for i in range(4):
        table.append(ROWS.slice(i * 20, 20))
        yield
    table.delete("k IN (3, 45)")
    yield
    table.tag('snapshots":[]')
    yield
    with table.alter() as a:
        a.add_column("x", pa.int32(), default=3)
        a.partition_by("g", "truncate(2, t)")
        a.set_properties({"note": '"snapshots":[]} ü'})
    yield
    table.append(ROWS.append_column("x", pa.array([None] * 100, pa.int32())))
    yield
    table.delete("g = 1")
    yield
    table.drop_reference('snapshots":[]')
    yield
    table.expire(keep=2)
    yield
    table.rollback(table.snapshots().column("snapshot_id")[0].as_py())
    yield
    table.append(ROWS.slice(0, 2))
    yield


def test_metadata_is_that_of_the_library(lake: nb.Catalog, monkeypatch: Any) -> None:
    table = lake.create_table("a.b", ROWS.schema, cluster_by="k")
    plain, compared = ice.catalogs._updated, []

    def both(base: Any, updates: Any, location: str) -> Any:
        made = plain(base, updates, location)
        theirs = update_table_metadata(base, updates, metadata_location=location)
        # Where nothing else says when it was, it is now.
        close = abs(made.last_updated_ms - theirs.last_updated_ms) < 60_000
        assert close
        if made != theirs:
            now = {"last_updated_ms": made.last_updated_ms}
            log = [*theirs.snapshot_log[:-1], *made.snapshot_log[-1:]]
            theirs = theirs.model_copy(update={**now, "snapshot_log": log})
        assert made == theirs
        compared.append(1)
        return made

    monkeypatch.setattr(ice.catalogs, "_updated", both)
    before = 0
    for _ in steps(table):
        metadata = table.iceberg.metadata
        location = table.metadata_location
        assert FromInputFile.table_metadata(table.iceberg.io.new_input(location)) == metadata
        text = Path(location.removeprefix("file://")).read_text()
        assert json.loads(text) == json.loads(metadata.model_dump_json())
        assert len(compared) > before
        before = len(compared)


def header_of(octets: bytes) -> dict[str, str]:
    from pyiceberg.avro.decoder_fast import CythonBinaryDecoder
    from pyiceberg.avro.file import META_SCHEMA
    from pyiceberg.avro.resolver import construct_reader

    reader = construct_reader(META_SCHEMA, {-1: AvroFileHeader})
    assert isinstance(reader, StructReader)
    return dict(reader.read(CythonBinaryDecoder(octets)).meta)


def read(location: str) -> bytes:
    return Path(location.removeprefix("file://")).read_bytes()


def values(record: Any) -> list[Any]:
    return [record[i] for i in range(len(record))]


@pytest.mark.usefixtures("library_reads_nimble")
def test_manifests_are_those_of_the_library(lake: nb.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("a.b", ROWS.schema, cluster_by="k", partition_by="g")
    for _ in steps(table):
        metadata = table.iceberg.metadata
        source = table.iceberg.io
        current = metadata.current_snapshot()
        output = source.new_output(f"file://{tmp_path}/list.avro")
        manifests = list(read_manifest_list(source.new_input(current.manifest_list)))
        with write_manifest_list(
            format_version=2,
            output_file=output,
            snapshot_id=current.snapshot_id,
            parent_snapshot_id=current.parent_snapshot_id,
            sequence_number=current.sequence_number,
            avro_compression="deflate",
        ) as writer:
            writer.add_manifests(manifests)
        again = list(read_manifest_list(output.to_input_file()))
        assert [values(item) for item in again] == [values(item) for item in manifests]
        ours, theirs = header_of(read(current.manifest_list)), header_of(read(output.location))
        if ours["parent-snapshot-id"] != theirs["parent-snapshot-id"]:
            assert current.parent_snapshot_id is None  # it has expired since
            theirs["parent-snapshot-id"] = ours["parent-snapshot-id"]
        assert ours == theirs
        for manifest in manifests:
            same_manifest(table, manifest, source.new_output(f"file://{tmp_path}/manifest.avro"))


def same_manifest(table: nb.Table, manifest: Any, output: Any) -> None:
    metadata, source = table.iceberg.metadata, table.iceberg.io
    entries = manifest.fetch_manifest_entry(source, discard_deleted=False)
    header = header_of(read(manifest.manifest_path))
    schema_id = json.loads(header["schema"])["schema-id"]

    class Writer(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent(manifest.content)

        @property
        def _meta(self) -> dict[str, str]:
            kind = "deletes" if manifest.content == ManifestContent.DELETES else "data"
            return {**super()._meta, "content": kind}

    with Writer(
        metadata.specs()[manifest.partition_spec_id],
        metadata.schema_by_id(schema_id),
        output,
        manifest.added_snapshot_id,
        "deflate",
    ) as writer:
        for entry in entries:
            writer.add_entry(entry)
    theirs = writer.to_manifest_file()
    theirs_header = header_of(read(output.location))
    for name in ("schema", "partition-spec", "avro.schema"):
        assert json.loads(header.pop(name)) == json.loads(theirs_header.pop(name))
    assert header == theirs_header
    assert len(read(manifest.manifest_path)) == manifest.manifest_length
    for name in ("content", "partition_spec_id", "added_snapshot_id", "partitions"):
        assert getattr(manifest, name) == getattr(theirs, name), name
    for status in ("added", "existing", "deleted"):
        for what in ("files", "rows"):
            name = f"{status}_{what}_count"
            assert getattr(manifest, name) == getattr(theirs, name), name
    live = [e.sequence_number for e in entries if e.status != ManifestEntryStatus.DELETED]
    assert manifest.min_sequence_number == min(live, default=manifest.sequence_number)
    theirs.sequence_number = manifest.sequence_number
    again = theirs.fetch_manifest_entry(source, discard_deleted=False)
    assert [values(e) for e in again] == [values(e) for e in entries]


def test_a_commit_serialises_its_own_snapshot_alone(lake: nb.Catalog, monkeypatch: Any) -> None:
    table = lake.create_table("a.b", ROWS.schema, cluster_by="k")
    for i in range(5):
        table.append(ROWS.slice(i, 1))
    dumped: list[int] = []
    plain = Snapshot.model_dump_json

    def dump(self: Any, **arguments: Any) -> str:
        dumped.append(self.snapshot_id)
        return str(plain(self, **arguments))

    def parse(*_: Any) -> Any:
        raise AssertionError("a metadata file was read")

    monkeypatch.setattr(Snapshot, "model_dump_json", dump)
    monkeypatch.setattr(FromInputFile, "table_metadata", parse)
    for _ in range(3):
        commit = table.append(ROWS.slice(0, 1))
        assert dumped == [commit.snapshot]
        dumped.clear()


def test_texts_are_kept_by_object() -> None:
    texts = SnapshotTexts(1)
    made: list[Any] = []

    def dump(item: Any) -> str:
        made.append(item)
        return json.dumps(item)

    one, two, three = [1], [2], [3]
    assert texts.of("a", [one, two], dump) == ["[1]", "[2]"]
    assert texts.of("a", [two, three], dump) == ["[2]", "[3]"]
    assert made == [one, two, three]
    assert texts.of("a", [one], dump) == ["[1]"]  # it was forgotten
    assert texts.of("b", [one], dump) == ["[1]"]
    assert len(made) == 5
    with pytest.raises(ValueError, match="not a JSON object"):
        with_snapshots("[]", [])


@pytest.mark.parametrize("count", [0, 1, 200, 70_000])
def test_containers_are_read_by_the_library(count: int) -> None:
    from pyiceberg.avro.encoder import BinaryEncoder
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.io import InputFile
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType, NestedField
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    schema = Schema(NestedField(1, "x", LongType(), required=True))
    records = []
    for i in range(count):
        sink = io.BytesIO()
        BinaryEncoder(sink).write_int(i - count // 2)
        records.append(sink.getvalue())
    text = json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, "r"))
    octets = container(text, {"long": "x" * 300}, records)

    class Input(InputFile):
        def __len__(self) -> int:
            return len(octets)

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True) -> Any:
            return io.BytesIO(octets)

    with AvroFile[Record](Input("memory"), schema) as reader:
        assert reader.header.meta["long"] == "x" * 300
        assert [record[0] for record in reader] == [i - count // 2 for i in range(count)]


def test_a_release_without_private_names_of_the_library(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its public functions do the same."""
    monkeypatch.setattr(private, "NAMES", ((update, "_renamed"),))
    monkeypatch.delattr(Catalog, "_convert_schema_if_needed")
    table = lake.create_table("a.b", ROWS.schema, cluster_by="k", partition_by="g")
    for _ in steps(table):
        location, metadata = table.metadata_location, table.iceberg.metadata
        assert FromInputFile.table_metadata(table.iceberg.io.new_input(location)) == metadata
    with pytest.raises(ValueError, match=r"expected pyiceberg\.schema\.Schema"):
        lake.iceberg.create_table(("a", "c"), ROWS.schema)
