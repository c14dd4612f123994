"""Finds the files that can hold given keys, from manifests or the plan index.

One machine calls it for all manifests; :mod:`nimblepy.spark.reading.metadata` calls it in tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.keys import read_keys
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.key_values import exact_keys
from nimblepy.schema.names import ColumnName, output_name
from nimblepy.schema.plain import plain_array
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Manifest
from nimblepy.table.iceberg.manifests import FileColumns
from nimblepy.table.iceberg.pruning import SortedValues, key_hits
from nimblepy.table.reading.plan_index import covered, indexed_files, parts_of

HOLDING = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("keys", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class KeysOf:
    """Keys to compare with the statistics of files.

    Attributes:
        number: field id of the column.
        values: distinct and ascending.
    """

    number: int
    kind: pa.DataType
    values: pa.Array


def keys_of(keys: Any, column: ColumnName, schema: pa.Schema) -> KeysOf:
    """Converts keys for the comparison with statistics.

    Raises:
        InvalidArgumentError: the column does not exist, or a key is null or has the wrong type.
    """
    key_column = resolve_column(schema, column)
    if pa.types.is_nested(key_column.type):
        raise InvalidArgumentError(
            f"files_for_keys: column {column!r} is {key_column.type}; expected a column of single "
            "values"
        )
    (given,) = read_keys(keys).columns_of([output_name(column)])
    values, beyond = exact_keys(output_name(column), key_column.type, given)
    if beyond is not None:  # A key that the type cannot represent is in no file.
        values = values.filter(pa.array(~beyond))
    if values.null_count:
        raise InvalidArgumentError(
            f"files_for_keys: {values.null_count} keys are null; expected keys without nulls"
        )
    distinct = pc.unique(plain_array(values))  # pyarrow cannot compare UUIDs
    return KeysOf(field_id_at(schema, key_column.path), key_column.type, distinct)


def holding(parts: Iterable[FileColumns], keys: KeysOf) -> Iterator[pa.Table]:
    """Yields (file, number of keys it can hold) for each file that can hold at least one key."""
    values = SortedValues(keys.kind, keys.values)
    for part in parts:
        hits = key_hits(part, keys.number, values)
        at = np.flatnonzero(hits)
        if len(at):
            columns = [part.paths_of(at), part.rows[at], part.sizes[at], hits[at]]
            yield pa.table([pa.array(item) for item in columns], schema=HOLDING)


def files_for_keys(metadata: ice.Metadata, manifests: Sequence[Manifest], keys: KeysOf) -> pa.Table:
    """Returns the files of some manifests that can hold a key, ordered by path."""
    parts, rest = indexed_files(metadata, metadata.head(), manifests)
    tables = [HOLDING.empty_table(), *holding(parts, keys)]
    tables += holding(ice.decoded(metadata, rest), keys)
    return pa.concat_tables(tables).sort_by("path").combine_chunks()


def uncovered(metadata: ice.Metadata, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Returns the manifests that no part of the plan index covers."""
    return covered(parts_of(metadata, metadata.head()), manifests)[1]


@dataclass(frozen=True)
class MetadataFile:
    """A version of a table's metadata, for processes without a catalog. It can be pickled.

    Attributes:
        properties: settings to read its files.
    """

    path: str
    properties: dict[str, str]

    def open(self) -> ice.Metadata:
        """Opens the metadata. Cost: one read, unless the process has it in memory."""
        return ice.metadata_at(self.path, self.properties)


def data_manifests(metadata: ice.Metadata) -> list[Manifest]:
    """Returns the manifests of the newest snapshot that list data files."""
    head = metadata.head()
    manifests = [] if head is None else metadata.manifests(head)
    return [item for item in manifests if item.files and not item.deletes]
