"""Describes files of a table as text, so that processes exchange them without pickles.

A process that writes files describes them to the process that commits. A process that plans a
snapshot describes its files to the processes that read them. The reading processes need neither the
catalog nor the metadata.
"""

from __future__ import annotations

import base64
import copyreg
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any, cast, get_args

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.files.bounds import FileBounds
from nimblepy.schema.types import IndexInfo, pack_sort_keys, unpack_sort_keys
from nimblepy.table.base.model import (
    FILE_FORMATS,
    Content,
    DataFile,
    Entry,
    FileCubes,
    Metrics,
    PartitionField,
    Vector,
)
from nimblepy.table.base.moved import moves_of, register
from nimblepy.table.reading.equality import KeyColumns
from nimblepy.table.reading.members import Member, MemberRows, Reading, SomeRows
from nimblepy.table.reading.parquet_index import (
    ParquetIndexes,
    StoredIndex,
    indexes_of,
    plain_indexes,
)

_COUNTS = ("values", "nulls", "nans", "column_bytes")
_BOUNDS = ("lower", "upper")


def files_as_text(files: Sequence[DataFile]) -> str:
    """Serializes files with their manifest entries."""
    return json.dumps(
        [
            _plain_file(file)
            | _plain_metrics(file.metrics)
            | {"cubes": None if file.cubes is None else file.cubes.to_json()}
            for file in files
        ]
    )


def files_of_text(text: str) -> list[DataFile]:
    """Parses the result of :func:`files_as_text`.

    Raises:
        InvalidArgumentError: the text is not such a result.
    """
    try:
        return [
            replace(
                _file(item, _metrics(item)),
                cubes=None if item["cubes"] is None else FileCubes.from_json(item["cubes"]),
            )
            for item in json.loads(text)
        ]
    except (LookupError, AttributeError, TypeError, ValueError, ArithmeticError) as error:
        raise InvalidArgumentError(
            f"cannot parse the description of files: {error!r}; expected the result of "
            "files_as_text()"
        ) from error


def _plain_file(file: DataFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "format": file.format,
        "rows": file.rows,
        "bytes": file.bytes,
        "content": file.content,
        "spec": file.spec_id,
        "partition": [_plain_value(value) for value in file.partition],
        "order": file.sort_order_id,
        "equality_ids": list(file.equality_ids),
        "vector": None if file.vector is None else asdict(file.vector),
        "row_id": file.first_row_id,
        "sequence": file.sequence,
    }


def _plain_metrics(metrics: Metrics) -> dict[str, Any]:
    counts: dict[str, Any] = {
        name: {str(k): int(v) for k, v in getattr(metrics, name).items()} for name in _COUNTS
    }
    for name in _BOUNDS:
        counts[name] = {str(k): _text(v) for k, v in getattr(metrics, name).items()}
    return counts


def _file(item: Mapping[str, Any], metrics: Metrics) -> DataFile:
    formats = {*FILE_FORMATS.values(), "PUFFIN"}
    if item["format"] not in formats or item["content"] not in get_args(Content):
        raise ValueError(f"unknown kind of file: {item['content']} in {item['format']}")
    rows, size = int(item["rows"]), int(item["bytes"])
    if rows < 0 or size < 0:
        raise ValueError(f"a file has {rows} rows and {size} bytes")
    order = item["order"]
    return DataFile(
        path=str(item["path"]),
        format=str(item["format"]),
        rows=rows,
        bytes=size,
        content=cast(Content, item["content"]),
        spec_id=int(item["spec"]),
        partition=tuple(_value(value) for value in item["partition"]),
        metrics=metrics,
        sort_order_id=None if order is None else int(order),
        equality_ids=tuple(map(int, item["equality_ids"])),
        vector=None if item["vector"] is None else _vector(item["vector"]),
        first_row_id=_int_or_none(item["row_id"]),
        sequence=_int_or_none(item["sequence"]),
    )


def _int_or_none(value: Any) -> int | None:
    return None if value is None else int(value)


def _vector(item: Mapping[str, Any]) -> Vector:
    return Vector(
        data_file=str(item["data_file"]), offset=int(item["offset"]), size=int(item["size"])
    )


def _metrics(item: Mapping[str, Any]) -> Metrics:
    metrics: dict[str, Any] = {
        name: {int(k): int(v) for k, v in item[name].items()} for name in _COUNTS
    }
    for name in _BOUNDS:
        metrics[name] = {int(k): _octets(v) for k, v in item[name].items()}
    return Metrics(**metrics)


def _plain_value(value: Any) -> Any:
    """Returns a partition value for JSON. Types that JSON does not have become [kind, text]."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, bytes):
        return ["bytes", _text(value)]
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, uuid.UUID):
        return ["uuid", value.hex]
    if isinstance(value, float):
        return ["float", value.hex()]
    raise InvalidArgumentError(
        f"partition value {value!r}: the type {type(value).__name__} cannot be stored as text"
    )


_KINDS: dict[str, Callable[[str], Any]] = {
    "bytes": lambda text: _octets(text),
    "decimal": Decimal,
    "uuid": lambda text: uuid.UUID(hex=text),
    "float": float.fromhex,
}


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        kind, text = plain
        return _KINDS[kind](text)
    if plain is not None and not isinstance(plain, (bool, int, str)):
        raise TypeError(f"cannot parse partition value {plain!r}")
    return plain


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _octets(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def rows_as_text(rows: MemberRows) -> str:
    """Serializes the files of ``rows`` and the settings to read them.

    Cost: the snapshot is planned.
    """
    reading = rows.reading
    deletes: dict[str, int] = {}
    described: list[dict[str, Any]] = []
    for member in rows.members:
        for file in member.deletes:
            if file.identity not in deletes:
                deletes[file.identity] = len(described)
                described.append(_plain_file(file))
    files = [
        _plain_file(member.file)
        | {
            "deletes": [deletes[file.identity] for file in member.deletes],
            "listed": member.entry.sequence,
        }
        for member in rows.members
    ]
    specs = {member.file.spec_id for member in rows.members}
    ends = None if rows.bounds is None else [keys.to_pylist() for keys in rows.bounds.keys]
    return json.dumps(
        {
            "name": reading.name,
            "row_ids": reading.has_row_ids,
            "lineage": reading.lineage,
            "schema": _text(reading.schema.serialize()),
            "cluster_by": pack_sort_keys(reading.cluster_by),
            "primary_key": list(reading.primary_key),
            "defaults": _packed_defaults(reading.defaults),
            "names": [[list(path), number] for path, number in reading.names.items()],
            "indexes": [
                [info.kind, pack_sort_keys(info.columns), info.metric] for info in reading.indexes
            ],
            "specs": {
                str(number): [
                    [item.source_id, item.field_id, item.name, item.transform]
                    for item in reading.specs(number)
                ]
                for number in sorted(specs)
            },
            "files": files,
            "deletes": described,
            "key_columns": [
                [list(ids), _text(columns.schema.serialize()), _packed_defaults(columns.defaults)]
                for ids in sorted({tuple(item["equality_ids"]) for item in described} - {()})
                for columns in [reading.columns_of(ids)]
            ],
            "bounds": None if ends is None else [[_text(key) for key in keys] for keys in ends],
            "parquet": _plain_indexes(reading.parquet),
            "moved": moves_of([*(member.file.path for member in rows.members), *deletes]),
        }
    )


def _plain_indexes(indexes: ParquetIndexes | None) -> dict[str, Any]:
    stored = () if indexes is None else indexes.stored
    return {
        "indexes": plain_indexes(
            [index for index, _ in stored], lambda files: list(map(list, files))
        ),
        "paths": [list(paths) for _, paths in stored],
    }


def _indexes(content: Mapping[str, Any]) -> list[tuple[StoredIndex, list[str]]]:
    """Parses the result of :func:`_plain_indexes`."""
    indexes = indexes_of(
        content["indexes"], lambda files: tuple((str(path), int(size)) for path, size in files)
    )
    return [
        (index, list(map(str, paths)))
        for index, paths in zip(indexes, content["paths"], strict=True)
    ]


def rows_of_text(text: str) -> SomeRows:
    """Parses the result of :func:`rows_as_text` without opening a file.

    Raises:
        InvalidArgumentError: the text is not such a result.
    """
    try:
        description = json.loads(text)
        for root, old in description["moved"]:
            register(str(root), map(str, old))  # delete files name files by old paths
        specs = {
            int(number): [
                PartitionField(
                    source_id=int(source), field_id=int(number_), name=str(name), transform=str(how)
                )
                for source, number_, name, how in items
            ]
            for number, items in description["specs"].items()
        }
        key_columns = {
            tuple(map(int, ids)): KeyColumns(
                pa.ipc.read_schema(pa.py_buffer(_octets(columns))),
                tuple(map(int, ids)),
                _unpacked_defaults(defaults),
            )
            for ids, columns, defaults in description["key_columns"]
        }
        reading = Reading(
            name=str(description["name"]),
            schema=pa.ipc.read_schema(pa.py_buffer(_octets(description["schema"]))),
            cluster_by=unpack_sort_keys(description["cluster_by"]),
            primary_key=tuple(map(str, description["primary_key"])),
            defaults=_unpacked_defaults(description["defaults"]),
            specs=specs.__getitem__,
            names={tuple(map(str, path)): int(number) for path, number in description["names"]},
            indexes=[
                IndexInfo(
                    kind=str(kind),
                    columns=unpack_sort_keys(keys),
                    size_bytes=0,
                    num_keys=0,
                    metric=None if metric is None else str(metric),
                )
                for kind, keys, metric in description["indexes"]
            ],
            columns_of=key_columns.__getitem__,
            has_row_ids=bool(description["row_ids"]),
            lineage=bool(description["lineage"]),
        )
        stored = _indexes(description["parquet"])
        if stored:
            reading.parquet = ParquetIndexes(lambda: stored, reading.schema, reading.names)
        deletes = [_file(item, Metrics()) for item in description["deletes"]]
        members = [
            Member(
                Entry(_file(item, Metrics()), int(item["listed"]), ""),
                tuple(deletes[int(at)] for at in item["deletes"]),
            )
            for item in description["files"]
        ]
        bounds = None
        if description["bounds"] is not None:
            lower, upper = ([_octets(key) for key in keys] for keys in description["bounds"])
            if not len(lower) == len(upper) == len(members):
                raise ValueError("the bounds and the files differ in number")
            bounds = FileBounds(pa.array(lower, pa.binary()), pa.array(upper, pa.binary()))
    except (LookupError, AttributeError, TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidArgumentError(
            f"cannot parse the description of a table's files: {error!r}; expected the result of "
            "rows_as_text()"
        ) from error
    return SomeRows(reading, members, bounds)


def pickled(rows: MemberRows) -> tuple[Callable[[str], SomeRows], tuple[str]]:
    """Returns the result of ``__reduce__`` that pickles rows as their description."""
    return rows_of_text, (rows_as_text(rows),)


copyreg.pickle(SomeRows, pickled)


def _packed_defaults(defaults: Mapping[int, pa.Scalar]) -> str | None:
    if not defaults:
        return None
    arrays = [pa.array([value.as_py()], value.type) for value in defaults.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(number) for number in defaults])
    return _text(batch.schema.serialize()) + " " + _text(batch.serialize())


def _unpacked_defaults(text: str | None) -> dict[int, pa.Scalar]:
    if text is None:
        return {}
    schema_text, batch_text = text.split(" ")
    schema = pa.ipc.read_schema(pa.py_buffer(_octets(schema_text)))
    batch = pa.ipc.read_record_batch(pa.py_buffer(_octets(batch_text)), schema)
    batch.validate(full=True)
    return {int(name): batch.column(i)[0] for i, name in enumerate(schema.names)}
