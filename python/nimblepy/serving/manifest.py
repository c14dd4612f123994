"""Serving manifests: everything that the core needs to serve one snapshot without Python."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.files.dataset import Dataset, source_of_dataset
from nimblepy.io.location import is_uri
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.types import SortKey
from nimblepy.table.base.places import readable_path
from nimblepy.table.reading.fileset import FileSet, key_ends
from nimblepy.table.table import Table

Served: TypeAlias = File | Dataset | Table

# Bounds of a file that may have any key. Every encoded key begins with 00 or 01.
_BELOW, _ABOVE = b"", b"\xff"

_Bounds: TypeAlias = tuple[list[bytes], list[bytes]]
_Key: TypeAlias = tuple[list[tuple[list[int], bool, bool]], list[bytes], list[bytes]]
_Constants: TypeAlias = tuple[list[int], pa.RecordBatch | None]
_File: TypeAlias = tuple[str, int, int, _Constants, _core.RowBitmap | None]

_NO_CONSTANTS: _Constants = ([], None)


def serving_manifest(rows: Served) -> bytes:
    """Returns the serving manifest of the rows that a handle shows now.

    Raises:
        InvalidArgumentError: the files are not local nimble files.
    """
    if isinstance(rows, Table):
        return _of_table(rows)
    if isinstance(rows, Dataset):
        return _of_dataset(rows)
    return _of_file(rows)


def _of_table(table: Table) -> bytes:
    at = table._position
    files: FileSet = at.rows
    reading, members = files.reading, files.members
    schema = reading.schema
    described: list[_File] = []
    for number in range(len(members)):
        file = members[number].file
        if file.format != "NIMBLEPY":
            raise InvalidArgumentError(
                f"{table.name}: {file.path} is in the format {file.format}; only nimble files are "
                "served. Rewrite it with convert() or compact()"
            )
        constants = _constants(schema, reading.constants(file, schema))
        path = _local(readable_path(file.path))
        described.append((path, file.bytes, file.rows, constants, files.deleted(number)))
    cluster: _Key | None = None
    lookup: _Key | None = None
    if reading.cluster_by:
        cluster = _key(schema, reading.cluster_by, _lists(key_ends(reading, members)))
    if reading.primary_key:
        keys = tuple(SortKey(name) for name in reading.primary_key)
        lookup = _key(schema, keys, _lists(key_ends(reading, members, keys)))
    return _made(
        table.name,
        at.metadata.uuid,
        table.snapshot,
        schema,
        _constants(schema, reading.defaults),
        lookup or cluster,
        cluster,
        bool(reading.primary_key),
        described,
    )


def _of_dataset(dataset: Dataset) -> bytes:
    source = source_of_dataset(dataset)
    if not source.directory.is_local:
        raise InvalidArgumentError(
            f"{source.directory.path}: only files on a local disk can be served"
        )
    count = source.num_files
    sizes = source.files.table.column("size_bytes").to_pylist()
    files: list[_File] = [
        (_local(source.path_of(i)), sizes[i], source.stored_rows(i), _NO_CONSTANTS, None)
        for i in range(count)
    ]
    cluster: _Key | None = None
    if source.cluster_by:
        lower, upper = [_BELOW] * count, [_ABOVE] * count
        if source.bounds is not None:
            lower, upper = _lists(source.bounds.keys)
            # The remaining files have no rows.
            lower += [_ABOVE] * (count - len(lower))
            upper += [_BELOW] * (count - len(upper))
        cluster = _key(source.schema, source.cluster_by, (lower, upper))
    name = os.path.basename(source.directory.path.rstrip("/"))
    none = _NO_CONSTANTS
    path = _local(source.directory.path)
    identity = _uuid_of(path)
    return _made(name, identity, None, source.schema, none, cluster, cluster, False, files)


def _of_file(file: File) -> bytes:
    if file.source is None:
        raise InvalidArgumentError("a file that was opened from bytes or a store cannot be served")
    path = _local(readable_path(file.source))
    anywhere = [_BELOW], [_ABOVE]
    cluster = _key(file.schema, file.cluster_by, anywhere) if file.cluster_by else None
    lookup = cluster
    if lookup is None and file.indexes:
        lookup = _key(file.schema, file.indexes[0].columns, anywhere)
    described: list[_File] = [(path, file.size_bytes, file.num_rows, _NO_CONSTANTS, None)]
    name = os.path.basename(path)
    none = _NO_CONSTANTS
    identity = _uuid_of(path)
    return _made(name, identity, None, file.schema, none, lookup, cluster, False, described)


def _uuid_of(path: str) -> str:
    """Identifies a file or directory, so that page tokens are not valid for one of the same name.

    New rows at the same path keep it, as new snapshots of a table do.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"file://{path}"))


def _made(
    name: str,
    identity: str,
    snapshot: int | None,
    schema: pa.Schema,
    defaults: _Constants,
    lookup: _Key | None,
    cluster: _Key | None,
    has_primary_key: bool,
    files: list[_File],
) -> bytes:
    return _core.serving_manifest(
        name=name,
        uuid=identity,
        snapshot=snapshot,
        created_ms=int(time.time() * 1000),
        schema=_no_rows(schema),
        defaults=defaults,
        lookup_key=lookup,
        cluster_key=cluster,
        has_primary_key=has_primary_key,
        files=files,
    )


def _local(path: str) -> str:
    if is_uri(path):
        raise InvalidArgumentError(f"{path}: only files on a local disk can be served")
    return os.path.abspath(path)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _lists(bounds: tuple[pa.BinaryArray, pa.BinaryArray]) -> _Bounds:
    lower, upper = bounds
    return lower.to_pylist(), upper.to_pylist()


def _key(schema: pa.Schema, keys: Sequence[SortKey], bounds: _Bounds) -> _Key:
    columns = [
        (list(resolve_column(schema, key.column).steps), key.descending, key.nulls_first)
        for key in keys
    ]
    return (columns, *bounds)


def _constants(schema: pa.Schema, values: dict[int, Any]) -> _Constants:
    """Converts values of columns, by field id, to column numbers and a batch of one row."""
    numbers, arrays, names = [], [], []
    for number, field in enumerate(schema):
        value = values.get(field_id_of(field) or -1)
        if value is None:
            continue
        numbers.append(number)
        names.append(field.name)
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, field.type)
        arrays.append(pa.array([scalar.as_py()], field.type))
    return numbers, pa.RecordBatch.from_arrays(arrays, names) if numbers else None
