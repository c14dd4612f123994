"""Manifests and their lists: read as the library reads them, and refused where they are damaged."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.manifest import read_manifest_list
from tests.table.test_pruning import random_table

import nimblepy as nb
from nimblepy.errors import CorruptFileError
from nimblepy.expr.filter import parse_filter
from nimblepy.table import iceberg as ice
from nimblepy.table.iceberg.avro import container, encoded_bytes, encoded_long, read_container
from nimblepy.table.reading import plan
from nimblepy.table.table import Table


def _history(lake: nb.Catalog) -> Table:
    rows = pa.table({"k": range(60), "g": [i % 3 for i in range(60)], "t": ["ä\"\\'"] * 60})
    table = lake.create_table("a.b", rows.schema, cluster_by="k", partition_by=["g"])
    for i in range(3):
        table.append(rows.slice(i * 20, 20))
    table.delete("k IN (3, 45)")
    with table.alter() as a:
        a.partition_by("g", "truncate(2, t)", "bucket(4, k)")
    table.append(rows.slice(0, 5))
    table.delete("g = 1")
    return table


@pytest.mark.parametrize("make", [_history, lambda lake: random_table(lake, random.Random(3))])
@pytest.mark.usefixtures("library_reads_nimble")
def test_they_are_read_as_by_the_library(
    lake: nb.Catalog, make: Callable[[nb.Catalog], Table]
) -> None:
    metadata = make(lake)._metadata
    io = metadata.ice.io
    for snapshot in metadata.snapshots:
        plan.clear_caches()
        found = metadata.manifests(snapshot)
        theirs = list(read_manifest_list(io.new_input(snapshot.manifest_list)))
        # We read the fields of format version 3, too.
        assert [item.raw._data for item in found] == [[*item._data, None] for item in theirs]
        for item, manifest in zip(found, theirs, strict=True):
            entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
            mine = metadata.all_entries(item)
            assert len(mine) == len(entries)
            for one, other in zip(mine, entries, strict=True):
                assert one._data[:4] == other._data[:4]
                assert one.data_file._data == [*other.data_file._data, *[None] * 4]
                assert one.data_file.spec_id == other.data_file.spec_id


@pytest.mark.parametrize("make", [_history, lambda lake: random_table(lake, random.Random(3))])
def test_what_a_commit_wrote_is_kept_as_it_would_be_read(
    lake: nb.Catalog, make: Callable[[nb.Catalog], Table]
) -> None:
    metadata = make(lake)._metadata
    head = metadata.head()
    assert head is not None
    manifests = [item for item in metadata.manifests(head) if item.files]
    before = metadata.reads
    kept = list(ice.decoded(metadata, manifests))
    told = metadata.reads - before
    plan.clear_caches()
    read = list(ice.decoded(metadata, manifests))
    assert told < metadata.reads - before - told
    kinds, partitions = metadata.leaf_types(), metadata.partition_types()
    for mine, other in zip(kept, read, strict=True):
        assert mine.spec_id == other.spec_id
        assert mine.sequences.tolist() == other.sequences.tolist()
        for i in range(other.num_files):
            one, two = mine.entry(i), other.entry(i)
            assert one.file == two.file
            assert (one.sequence, one.manifest) == (two.sequence, two.manifest)
        for number, kind in kinds.items():
            assert str(mine.bound("lower", number, kind)) == str(other.bound("lower", number, kind))
            assert mine.counts("nulls", number) == other.counts("nulls", number)
        for place, (_, kind) in enumerate(partitions[mine.spec_id]):
            assert str(mine.partition(place, kind)) == str(other.partition(place, kind))


def _local(location: str) -> Path:
    path = ice.local_path(location)
    assert path is not None
    return Path(path)


def _damaged(whole: bytes, rng: random.Random) -> Iterator[bytes]:
    for cut in sorted({*rng.sample(range(len(whole)), 40), len(whole) - 1, 0}):
        yield whole[:cut]
    for _ in range(300):
        damaged = bytearray(whole)
        for at in rng.sample(range(len(whole)), rng.choice([1, 1, 4])):
            damaged[at] ^= 1 << rng.randrange(8)
        yield bytes(damaged)


def _unpacked(whole: bytes) -> tuple[dict[str, str], str, bytes, int]:
    """Header, schema, records and their number: damage behind the compression."""
    found = read_container(whole, new_decoder, "")
    header = {k: v.decode() for k, v in found.metadata.items() if not k.startswith("avro.")}
    return header, found.metadata["avro.schema"].decode(), found.records, found.count


def _packed(header: dict[str, str], schema: str, records: bytes, count: int) -> bytes:
    """``count`` records, whatever the bytes are."""
    return container(schema, header, [records, *[b""] * (count - 1)])


@pytest.mark.parametrize("part", ["list", "manifest"])
def test_damage_is_an_error(lake: nb.Catalog, part: str) -> None:
    table = _history(lake)
    metadata = table._metadata
    head = metadata.head()
    assert head is not None
    manifest = metadata.manifests(head)[0]
    path = _local(head.manifest_list if part == "list" else manifest.path)

    def read() -> None:
        plan.clear_caches()
        if part == "list":
            found = metadata.manifests(head)
            pruner = ice.Pruner(
                metadata, parse_filter("g > 1 AND t < 'b'", table.schema).conjuncts, None
            )
            for item in found:
                pruner.manifests([item])
                metadata.first_partition_range(item)
        else:
            for step in (metadata.entries, metadata.encoded_entries):
                with contextlib.suppress(CorruptFileError):
                    step(manifest)
            list(metadata.columns([manifest]))

    whole = path.read_bytes()
    rng = random.Random(part)
    for octets in _damaged(whole, rng):
        path.write_bytes(octets)
        with contextlib.suppress(CorruptFileError):
            read()
    header, schema, records, count = _unpacked(whole)
    for octets in _damaged(records, rng):
        path.write_bytes(_packed(header, schema, octets, count))
        with contextlib.suppress(CorruptFileError):
            read()
    path.write_bytes(_packed(header, schema, records, count))
    read()


def _field(schema: str, number: int, change: Callable[[dict[str, Any]], None]) -> str:
    """The schema of a list with one field changed."""
    found = json.loads(schema)
    change(next(item for item in found["fields"] if item["field-id"] == number))
    return json.dumps(found)


def _deep(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


def test_lists_that_lie_are_refused(lake: nb.Catalog) -> None:
    metadata = _history(lake)._metadata
    head = metadata.head()
    assert head is not None
    path = _local(head.manifest_list)
    header, schema, records, count = _unpacked(path.read_bytes())
    length = (records[0] & 0x7F) >> 1 | (records[1] & 0x7F) << 6
    rest = records[2 + length :]

    def renumbered(old: int, new: int) -> str:
        return _field(schema, old, lambda item: item.update({"field-id": new}))

    lies = {
        "a path of 2^62 bytes": (schema, encoded_long(1 << 62) + rest, count),
        "a path of less than no bytes": (schema, encoded_long(-5) + rest, count),
        "more manifests than bytes": (schema, records, count + 9),
        "fewer manifests": (schema, records, count - 1),
        "no path": (renumbered(500, 9999), records, count),
        "a length for a path": (_swapped(schema, 500, 501), records, count),
        "another spec": (_swapped(schema, 502, 501), records, count),
        "no such type": (_field(schema, 500, lambda f: f.update(type="text")), records, count),
        "a type within itself": (
            schema.replace('"int"', _deep(5000), 1),
            records,
            count,
        ),
        "no fields": ('{"type":"record","name":"r","fields":[]}', b"", 1 << 4),
        "no record": ('"long"', b"\x02", 1),
        "no schema": ("}", records, count),
    }
    for what, (said, octets, number) in lies.items():
        path.write_bytes(_packed(header, said, octets, number))
        plan.clear_caches()
        with pytest.raises(CorruptFileError, match="snap-"):
            metadata.manifests(head)
        print(what, "is refused")
    path.write_bytes(_packed(header, schema, encoded_bytes(b"/x") + rest, count))
    assert metadata.manifests(head)[0].path == "/x"


def _swapped(schema: str, one: int, other: int) -> str:
    found = json.loads(schema)
    numbers = {one: other, other: one}
    for item in found["fields"]:
        item["field-id"] = numbers.get(item["field-id"], item["field-id"])
    return json.dumps(found)
