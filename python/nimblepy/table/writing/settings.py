"""Settings for writers that are stored in properties of a table: format, indexes and options."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, cast, get_args

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.options import HashIndex, SortedIndex, VectorIndex, WriteOptions
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.lineage import LINEAGE, NAMES
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import IndexInfo, SortKey, as_sort_keys
from nimblepy.table import iceberg as ice
from nimblepy.table.base.arguments import texts_by_name
from nimblepy.table.base.file_names import file_names
from nimblepy.table.base.model import (
    BATCH_PREFIX,
    CLAIMS_PREFIX,
    EXPIRE_ON_COMMIT,
    INDEXES,
    MAIN,
    MAX_AGE,
    MIN_SNAPSHOTS,
    VECTOR_METRICS,
    DataFormat,
    Snapshot,
)
from nimblepy.table.otree.layouts import LAYOUT, OTree, layout_of
from nimblepy.table.reading.parquet_index import PARQUET_INDEXES
from nimblepy.table.writing.write import Target

# The property that stores the format of new files.
DATA_FORMAT = "nimblepy.data-format"
_OPTIONS = "nimblepy.write-options"
_TARGET = "write.target-file-size-bytes"
_TARGET_BYTES = 256 << 20
# Bloom filter bits per primary key, so that one check can exclude a key from a file.
_BLOOM_BITS = 10.0
# Queries of a vector index that the metadata of a table holds.
_MOST_QUERIES = 64
# Properties that are whole numbers, and their minimum.
_NUMBERS = {
    _TARGET: 1,
    MIN_SNAPSHOTS: 1,
    MAX_AGE: 0,
    "write.metadata.previous-versions-max": 1,
    "commit.retry.num-retries": 0,
    "commit.retry.min-wait-ms": 0,
    "commit.retry.max-wait-ms": 0,
    "commit.retry.total-timeout-ms": 0,
    "commit.manifest.target-size-bytes": 1,
    "commit.manifest.min-count-to-merge": 0,
}
# Number of metadata files to keep, and a high number of retries for concurrent writers.
_DEFAULTS = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.retry.num-retries": "20",
}

TableIndex = HashIndex | SortedIndex | VectorIndex
# Identifies an index by its kind and, for each column, field id and order.
IndexIdentity = tuple[str, tuple[tuple[int, bool, bool], ...]]
D = TypeVar("D")


def settings(
    data_format: DataFormat, options: WriteOptions | None, properties: Mapping[str, str] | None
) -> dict[str, str]:
    """Returns the properties of a new table."""
    stored = {**_DEFAULTS, **format_property(data_format)}
    if options is not None:
        stored[_OPTIONS] = json.dumps(_changed(options))
    for name, value in texts_by_name(properties or {}, "properties").items():
        check_property(name, value)
        stored[name] = value
    return stored


def checked_version(number: object, what: str) -> int:
    """Returns a version of Iceberg's format that nimblepy writes."""
    if not isinstance(number, int) or number not in ice.VERSIONS:
        raise InvalidArgumentError(f"{what}: expected a format version of 2 or 3, got {number!r}")
    return int(number)


def check_lineage_names(schema: pa.Schema, what: str) -> None:
    """Raises if a column has a name that format version 3 reserves."""
    taken = sorted(NAMES & {*schema.names})
    if taken:
        raise InvalidArgumentError(
            f"{what}: format version 3 reserves the name {taken[0]!r}; rename the column"
        )


def check_property(name: object, value: object) -> None:
    """Raises for properties that are not text, or that nimblepy itself sets."""
    if not isinstance(name, str) or not isinstance(value, str) or not name:
        raise InvalidArgumentError(f"properties: expected text, got {name!r}: {value!r}")
    check_name(name)
    if name == ice.NAME_MAPPING:
        ice.check_name_mapping(value)
    elif name == EXPIRE_ON_COMMIT and value not in ("true", "false"):
        raise InvalidArgumentError(f"properties: {name}: expected 'true' or 'false', got {value!r}")
    elif name in _NUMBERS:
        try:
            right = int(value) >= _NUMBERS[name]
        except ValueError:
            right = False
        if not right:
            raise InvalidArgumentError(
                f"properties: {name}: expected a whole number of at least {_NUMBERS[name]}, "
                f"got {value!r}"
            )


def check_name(name: str) -> None:
    """Raises for names of properties that nimblepy itself sets."""
    own = (
        *(DATA_FORMAT, INDEXES, _OPTIONS, LAYOUT, ice.STAGED_FILES),
        *(ice.PRIMARY_KEY_ORDER, ice.COLUMN_TYPES, "format-version", PARQUET_INDEXES),
    )
    if name in own or name.startswith((BATCH_PREFIX, CLAIMS_PREFIX)):
        raise InvalidArgumentError(
            f"properties: {name!r} is reserved, because nimblepy itself sets it"
        )


def number_property(properties: Mapping[str, str], name: str, default: D) -> int | D:
    """Returns a property as a whole number; the default if it is missing or invalid."""
    try:
        number = int(properties[name])
    except (KeyError, ValueError):
        return default
    return number if number >= _NUMBERS[name] else default


def _changed(options: WriteOptions) -> dict[str, Any]:
    plain = WriteOptions()
    values = {item.name: getattr(options, item.name) for item in fields(options)}
    return {name: value for name, value in values.items() if value != getattr(plain, name)}


def index_property(schema: pa.Schema, indexes: Sequence[TableIndex]) -> dict[str, str]:
    """Returns the property that stores the indexes of every file, by field id."""
    if isinstance(indexes, (HashIndex, SortedIndex, VectorIndex)):
        indexes = (indexes,)
    kept: list[dict[str, Any]] = []
    for index in indexes:
        if isinstance(index, HashIndex):
            kept.append(
                {
                    "kind": "hash",
                    "columns": [_number(schema, name) for name in index.columns],
                    "load_factor": index.load_factor,
                    "bloom_bits_per_key": index.bloom_bits_per_key,
                }
            )
        elif isinstance(index, SortedIndex):
            kept.append(
                {
                    "kind": "sorted",
                    "columns": [
                        [_number(schema, k.column), k.descending, k.nulls_first]
                        for k in index.columns
                    ],
                }
            )
        elif isinstance(index, VectorIndex):
            kept.append(_stored_vector(schema, index))
        else:
            raise InvalidArgumentError(
                f"indexes: expected nb.HashIndex, nb.SortedIndex or nb.VectorIndex, got {index!r}"
            )
    return {INDEXES: json.dumps(kept)} if kept else {}


def _stored_vector(schema: pa.Schema, index: VectorIndex) -> dict[str, Any]:
    queries = index.queries or ()
    if len(queries) > _MOST_QUERIES:
        raise InvalidArgumentError(
            f"VectorIndex: got {len(queries):,} queries; a table stores at most {_MOST_QUERIES}, "
            "because its metadata holds them. Pass a sample of them"
        )
    return {
        "kind": "vector",
        "columns": [_number(schema, index.column)],
        "metric": index.metric,
        "lists": index.lists,
        "queries": [list(query) for query in queries],
    }


def _number(schema: pa.Schema, name: ColumnName) -> int:
    return field_id_at(schema, resolve_column(schema, name).path)


def identity_of(schema: pa.Schema, index: TableIndex | IndexInfo) -> IndexIdentity:
    """Returns the identity of an index.

    Args:
        schema: the columns, with field ids.
    """
    kind = index.kind if isinstance(index, IndexInfo) else _kind_of(index)
    ordered = kind == "sorted"
    return kind, tuple(
        (_number(schema, key.column), ordered and key.descending, ordered and key.nulls_first)
        for key in as_sort_keys(index.columns)
    )


def _kind_of(index: TableIndex) -> str:
    if isinstance(index, VectorIndex):
        return "vector"
    return "sorted" if isinstance(index, SortedIndex) else "hash"


def changed_indexes(
    metadata: ice.Metadata, add: Sequence[TableIndex], drop: Collection[IndexIdentity]
) -> dict[str, str]:
    """Returns the property that lists the indexes of new files, after adding and dropping some."""
    schema = metadata.schema()
    dropped = {*drop, *(identity_of(schema, index) for index in add)}
    kept = [
        index
        for index in asked_indexes(metadata, None)
        if identity_of(schema, index) not in dropped
    ]
    return {INDEXES: "[]"} | index_property(schema, [*kept, *add])


def declared_indexes(
    metadata: ice.Metadata, schema_id: int, snapshot: Snapshot | None = None
) -> list[IndexInfo]:
    """Returns the indexes of new files, without keys.

    Args:
        snapshot: if set, vector indexes are those at the time of this snapshot, because their
            metric decides the result of a search.
    """
    if data_format_of(metadata) != "nimble":
        return []
    cluster = tuple(metadata.cluster_by(schema_id))
    infos = [IndexInfo(kind="cluster", columns=cluster, size_bytes=0, num_keys=0)]
    metrics = _vector_metrics(metadata, schema_id, snapshot)
    for index in _indexes(metadata, schema_id):
        if not isinstance(index, VectorIndex):
            infos.append(_declared(_kind_of(index), as_sort_keys(index.columns)))
        elif metrics is None:
            infos.append(_declared("vector", as_sort_keys(index.columns), index.metric))
    for name, metric in (metrics or {}).items():
        infos.append(_declared("vector", as_sort_keys(name), metric))
    return infos if cluster else infos[1:]


def _declared(kind: str, columns: tuple[SortKey, ...], metric: str | None = None) -> IndexInfo:
    return IndexInfo(kind=kind, columns=columns, size_bytes=0, num_keys=0, metric=metric)


def _vector_metrics(
    metadata: ice.Metadata, schema_id: int, snapshot: Snapshot | None
) -> dict[str, str] | None:
    """Returns the metrics of a snapshot's vector indexes by column.

    ``None`` means those of the table: the snapshot is the newest one of the main branch. Empty if
    the snapshot does not record metrics: then the files must be asked.
    """
    main = metadata.references.get(MAIN)
    if snapshot is None or (main is not None and main.snapshot == snapshot.id):
        return None
    metrics = {}
    for item in snapshot.summary.get(VECTOR_METRICS, "").split(","):
        number, _, metric = item.partition(":")
        name = metadata.column_name(int(number), schema_id) if number.isdecimal() else None
        if name is not None:
            metrics[name] = metric
    return metrics


def _indexes(metadata: ice.Metadata, schema_id: int | None = None) -> list[TableIndex]:
    """Returns the indexes whose columns all exist, and an index on the primary key if nothing else
    covers it.
    """
    indexes = asked_indexes(metadata, schema_id)
    primary = metadata.primary_key(schema_id)
    names = [key.column for key in metadata.cluster_by(schema_id)]
    if primary and set(names[: len(primary)]) != set(primary):
        hashed = [index.columns for index in indexes if isinstance(index, HashIndex)]
        if tuple(primary) not in hashed:
            indexes.append(HashIndex(primary))
    return indexes


def asked_indexes(metadata: ice.Metadata, schema_id: int | None = None) -> list[TableIndex]:
    """Returns the declared indexes whose columns all exist."""
    indexes: list[TableIndex] = []
    for item in json.loads(metadata.properties.get(INDEXES, "[]")):
        if item["kind"] == "hash":
            names = [metadata.column_name(number, schema_id) for number in item["columns"]]
            if all(names):
                indexes.append(
                    HashIndex(
                        cast(list[str], names),
                        load_factor=item["load_factor"],
                        bloom_bits_per_key=item["bloom_bits_per_key"],
                    )
                )
            continue
        if item["kind"] == "vector":
            name = metadata.column_name(item["columns"][0], schema_id)
            if name:
                indexes.append(
                    VectorIndex(
                        name,
                        metric=item["metric"],
                        lists=item["lists"],
                        queries=item["queries"] or None,
                    )
                )
            continue
        columns = item["columns"]
        keys = [(metadata.column_name(n, schema_id), down, first) for n, down, first in columns]
        if all(name for name, _, _ in keys):
            indexes.append(
                SortedIndex(
                    [
                        SortKey(cast(str, name), descending=down, nulls_first=first)
                        for name, down, first in keys
                    ]
                )
            )
    return indexes


def data_format_of(metadata: ice.Metadata) -> DataFormat:
    """Returns the format of new files; Parquet for tables that other engines created."""
    stored = metadata.properties.get(DATA_FORMAT, "parquet")
    return "nimble" if stored == "nimble" else "parquet"


def format_property(data_format: DataFormat) -> dict[str, str]:
    """Returns the properties that select the format of new files."""
    if data_format not in get_args(DataFormat):
        raise InvalidArgumentError(
            f"data_format: expected 'nimble' or 'parquet', got {data_format!r}"
        )
    return {DATA_FORMAT: data_format, "write.format.default": "parquet"}


def target_of(metadata: ice.Metadata) -> Target:
    """Returns the settings of new files of a table."""
    primary, cluster = metadata.primary_key(), tuple(metadata.cluster_by())
    names = [key.column for key in cluster]
    stored = json.loads(metadata.properties.get(_OPTIONS, "{}"))
    layout = layout_of(metadata.properties, metadata.column_name)
    spaces = metadata.cubes(metadata.head()).spaces if isinstance(layout, OTree) else []
    for name, value in stored.items():
        if isinstance(value, list):
            stored[name] = tuple(value)
    unique = bool(primary) and set(names) == set(primary)
    if unique:  # an upsert looks up all its keys in each file that can hold them
        stored.setdefault("cluster_bloom_bits_per_key", _BLOOM_BITS)
    return Target(
        location=metadata.location,
        schema=metadata.schema(),
        data_format=data_format_of(metadata),
        cluster_by=cluster,
        unique=unique,
        spec_id=metadata.spec_id,
        spec=tuple(metadata.spec()),
        sort_order_id=metadata.sort_order_id,
        indexes=tuple(_indexes(metadata)),
        options=WriteOptions(**stored),
        target_bytes=number_property(metadata.properties, _TARGET, _TARGET_BYTES),
        layout=layout,
        space=spaces[-1] if spaces else None,
        rows_before=_rows_before(metadata),
        vectors=metadata.has_row_ids,
        file_names=file_names(metadata.properties),
    )


def rewriting_target(metadata: ice.Metadata) -> Target:
    """Returns the settings of files to which existing rows are rewritten.

    Rows keep their lineage. They keep their weights, even if the table no longer has an OTree
    layout. New weights would bias samples, because the weights decide which files are rewritten.
    """
    target = target_of(metadata)
    weighted = isinstance(target.layout, OTree) or metadata.has_cubes(metadata.head())
    lineage = LINEAGE if has_lineage(metadata) else ()
    return replace(target, rows_before=0, weighted=weighted, lineage=lineage)


def has_lineage(metadata: ice.Metadata) -> bool:
    """Returns whether rows have lineage that commits must keep."""
    return metadata.has_row_ids and not NAMES & {*metadata.schema().names}


def _rows_before(metadata: ice.Metadata) -> int:
    """Returns the number of rows of the newest snapshot, if known."""
    head = metadata.head()
    return 0 if head is None else head.figure("total-records") or 0
