"""Which files of a table can hold keys, as a function of some of its manifests.

One machine calls it for all of them; :mod:`nimblepy.spark.metadata` calls it in tasks.
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
    """Keys that are looked for in the statistics of files.

    Attributes:
        number: field id of the column.
        values: ascending, each once.
    """

    number: int
    kind: pa.DataType
    values: pa.Array


def keys_of(keys: Any, column: ColumnName, schema: pa.Schema) -> KeysOf:
    """Keys as they are looked for.

    Raises:
        InvalidArgumentError: there is no such column, or the keys are not of its type, or null.
    """
    found = resolve_column(schema, column)
    if pa.types.is_nested(found.type):
        raise InvalidArgumentError(f"files_for_keys: {column!r} is {found.type}, not one value")
    (given,) = read_keys(keys).columns_of([output_name(column)])
    values, beyond = exact_keys(output_name(column), found.type, given)
    if beyond is not None:  # what the type does not have is in no file
        values = values.filter(pa.array(~beyond))
    if values.null_count:
        raise InvalidArgumentError(f"files_for_keys: {values.null_count} keys are null")
    return KeysOf(field_id_at(schema, found.path), found.type, pc.unique(values))


def holding(parts: Iterable[FileColumns], keys: KeysOf) -> Iterator[pa.Table]:
    """Of files those that can hold one of the keys, and how many of them."""
    values = SortedValues(keys.kind, keys.values)
    for part in parts:
        hits = key_hits(part, keys.number, values)
        at = np.flatnonzero(hits)
        if len(at):
            columns = [part.paths_of(at), part.rows[at], part.sizes[at], hits[at]]
            yield pa.table([pa.array(item) for item in columns], schema=HOLDING)


def files_for_keys(metadata: ice.Metadata, manifests: Sequence[Manifest], keys: KeysOf) -> pa.Table:
    """Of the files of some manifests those that can hold a key, ordered by path."""
    parts, rest = indexed_files(metadata, metadata.head(), manifests)
    found = [HOLDING.empty_table(), *holding(parts, keys)]
    found += holding(ice.decoded(metadata, rest), keys)
    return pa.concat_tables(found).sort_by("path").combine_chunks()


def uncovered(metadata: ice.Metadata, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Those of some manifests that no part of the plan index covers."""
    return covered(parts_of(metadata, metadata.head()), manifests)[1]


@dataclass(frozen=True)
class MetadataFile:
    """A version of a table's metadata, for processes that have no catalog. It pickles.

    Attributes:
        properties: how its files are read.
    """

    path: str
    properties: dict[str, str]

    def open(self) -> ice.Metadata:
        """Cost: one read, unless the process has it."""
        return ice.metadata_at(self.path, self.properties)


def data_manifests(metadata: ice.Metadata) -> list[Manifest]:
    """Those of the newest snapshot that list files with rows."""
    head = metadata.head()
    found = [] if head is None else metadata.manifests(head)
    return [item for item in found if item.files and not item.deletes]
