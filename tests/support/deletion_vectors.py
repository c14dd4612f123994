"""Deletion vectors and tables of format version 3, as other engines write them, for tests."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.typedef import Record
from pyiceberg.types import StructType

import nimblepy as nb
from nimblepy.table.base.puffin import Blob, puffin_bytes
from nimblepy.table.iceberg.avro import container
from nimblepy.table.iceberg.manifest_forms import Records
from nimblepy.table.iceberg.snapshot_commit import LIST_RECORDS


def vector_bytes(rows: Sequence[int], *, runs: bool = False) -> bytes:
    """Serializes a deletion vector.

    Args:
        runs: use run containers.
    """
    by_key: dict[int, list[int]] = {}
    for row in sorted(set(rows)):
        by_key.setdefault(row >> 32, []).append(row & 0xFFFFFFFF)
    bitmaps = [
        struct.pack("<I", key) + _bitmap(np.array(low, dtype=np.int64), runs)
        for key, low in by_key.items()
    ]
    return framed(struct.pack("<Q", len(bitmaps)) + b"".join(bitmaps))


def framed(bitmap: bytes) -> bytes:
    """Adds the length, magic number and checksum to a 64-bit bitmap."""
    content = b"\xd1\xd3\x39\x64" + bitmap
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def _bitmap(values: np.ndarray[Any, Any], runs: bool) -> bytes:
    keys = sorted(set((values >> 16).tolist()))
    containers = [(values[values >> 16 == key] & 0xFFFF).tolist() for key in keys]
    header = b"".join(
        struct.pack("<HH", key, len(some) - 1) for key, some in zip(keys, containers, strict=True)
    )
    parts = [_run(some) if runs else _plain(some) for some in containers]
    if runs:
        flags = np.packbits(np.ones(len(keys), dtype=np.uint8), bitorder="little").tobytes()
        start = struct.pack("<I", 12347 | (len(keys) - 1) << 16) + flags
    else:
        start = struct.pack("<II", 12346, len(keys))
    offsets, at = b"", len(start) + len(header) + 4 * len(keys)
    if not runs or len(keys) >= 4:
        for part in parts:
            offsets += struct.pack("<I", at)
            at += len(part)
    return start + header + offsets + b"".join(parts)


def _plain(values: list[int]) -> bytes:
    if len(values) <= 4096:
        return np.array(values, dtype="<u2").tobytes()
    bits = np.zeros(1 << 16, dtype=np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _run(values: list[int]) -> bytes:
    cuts = np.flatnonzero(np.diff(values) != 1) + 1
    parts = np.split(np.array(values), cuts)
    pairs = [(part[0], len(part) - 1) for part in parts]
    return struct.pack("<H", len(parts)) + np.array(pairs, dtype="<u2").tobytes()


def version_3(table: nb.Table, deleted: dict[str, list[int]], folder: Path, **changes: Any) -> str:
    """Writes metadata of version 3 with the files of a table, and a snapshot of deletion vectors.

    Args:
        deleted: rows by the path of the data file. All vectors are in one file.
        changes: replaces fields of the vectors in the manifest.

    Returns:
        The path of the metadata file.
    """
    metadata = table._metadata
    document = json.loads(metadata.read(metadata.metadata_file))
    head = metadata.head()
    assert head is not None
    puffin, blobs, at = folder / f"{uuid.uuid4()}.puffin", [], 4
    snapshot, sequence = uuid.uuid4().int >> 65, document["last-sequence-number"] + 1
    spec, entries = metadata.ice_spec(metadata.spec_id), []
    for path, rows in deleted.items():
        blob = vector_bytes(rows)
        places = {"referenced-data-file": path, "cardinality": str(len(set(rows)))}
        blobs.append(Blob(kind="deletion-vector-v1", payload=blob, properties=places))
        arguments = {
            "content": DataFileContent.POSITION_DELETES,
            "file_path": str(puffin),
            "file_format": "PUFFIN",
            "partition": Record(),
            "record_count": len(set(rows)),
            "file_size_in_bytes": at + len(blob),
            "referenced_data_file": path,
            "content_offset": at,
            "content_size_in_bytes": len(blob),
        }
        file = DataFile.from_args(_table_format_version=3, **(arguments | changes))
        at += len(blob)
        entries.append(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=snapshot,
                sequence_number=sequence,
                file_sequence_number=sequence,
                data_file=file,
            )
        )
    puffin.write_bytes(puffin_bytes(blobs)[0])
    schema = manifest_entry_schema_with_data_file(3, data_file_with_partition(StructType(), 3))
    records = Records("manifest_entry", schema, schema)
    header = {
        "schema": metadata.ice_schema(None).model_dump_json(),
        "partition-spec": "[]",
        "partition-spec-id": str(spec.spec_id),
        "format-version": "3",
        "content": "deletes",
    }
    manifest = folder / f"{uuid.uuid4()}-m0.avro"
    listed = container(records.schema, header, [records.encode(item) for item in entries])
    manifest.write_bytes(listed)
    raw = ManifestFile.from_args(
        _table_format_version=3,
        manifest_path=str(manifest),
        manifest_length=len(listed),
        partition_spec_id=spec.spec_id,
        content=ManifestContent.DELETES,
        sequence_number=sequence,
        min_sequence_number=sequence,
        added_snapshot_id=snapshot,
        added_files_count=len(entries),
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=sum(len(rows) for rows in deleted.values()),
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=[],
        key_metadata=None,
    )
    raws = [*(item.raw for item in metadata.manifests(head)), raw]
    manifest_list = folder / f"snap-{uuid.uuid4()}.avro"
    manifest_list.write_bytes(
        container(
            LIST_RECORDS[3].schema,
            {"snapshot-id": str(snapshot), "sequence-number": str(sequence), "format-version": "3"},
            [LIST_RECORDS[3].encode(item) for item in raws],
        )
    )
    for item in document["snapshots"]:
        item |= {"first-row-id": 0, "added-rows": 0}
    document["snapshots"].append(
        document["snapshots"][-1]
        | {
            "snapshot-id": snapshot,
            "parent-snapshot-id": head.id,
            "sequence-number": sequence,
            "timestamp-ms": document["last-updated-ms"] + 1,
            "manifest-list": str(manifest_list),
            "summary": {"operation": "delete"},
        }
    )
    document |= {
        "format-version": 3,
        "next-row-id": table.num_rows,
        "last-sequence-number": sequence,
        "last-updated-ms": document["last-updated-ms"] + 1,
        "current-snapshot-id": snapshot,
        "refs": {"main": {"snapshot-id": snapshot, "type": "branch"}},
    }
    document["snapshot-log"].append(
        {"snapshot-id": snapshot, "timestamp-ms": document["last-updated-ms"]}
    )
    path = folder / f"{document['last-sequence-number']:05}-{uuid.uuid4()}.metadata.json"
    path.write_text(json.dumps(document))
    return str(path)
