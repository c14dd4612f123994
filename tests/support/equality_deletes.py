"""Equality deletes as another engine writes them, for tests."""

from __future__ import annotations

import math
import os
import struct
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import nimblepy as nb
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import write_rows

FIELD_ID = b"PARQUET:field_id"


def delete_file(
    table: nb.Table,
    keys: pa.Table,
    folder: Path,
    *,
    schema_id: int | None = None,
    spec_id: int | None = None,
    partition: tuple[Any, ...] = (),
    ids: Sequence[int] | None = None,
) -> DataFile:
    """Writes the keys to a Parquet file of equality deletes.

    Args:
        keys: columns of the table, under their names in one of its schemas.
        ids: field ids that the manifest names; by default those of all columns of ``keys``.
    """
    known = table._metadata.schema(schema_id)
    fields = [known.field(name) for name in keys.column_names]
    path = folder / f"eq-{uuid.uuid4()}.parquet"
    pq.write_table(keys.cast(pa.schema(fields)), path)
    numbers = [int(item.metadata[FIELD_ID]) for item in fields]
    return DataFile(
        path=str(path),
        format="PARQUET",
        rows=keys.num_rows,
        bytes=os.path.getsize(path),
        content="equality deletes",
        spec_id=table._metadata.spec_id if spec_id is None else spec_id,
        partition=partition,
        equality_ids=tuple(numbers if ids is None else ids),
    )


def commit(table: nb.Table, deletes: Sequence[DataFile], data: pa.Table | None = None) -> nb.Table:
    """Commits delete files, and new rows in the same snapshot, as another engine."""
    metadata = table._state.newest()
    change = ice.SnapshotCommit("overwrite")
    new = [] if data is None else write_rows(data.to_reader(), target_of(metadata))
    change.added, change.summary = [*new, *deletes], {}
    change.attempt(metadata)
    table.refresh()
    return table


def same_as(value: Any) -> Any:
    """A value that equals another one if Iceberg's own library takes them to be equal."""
    if not isinstance(value, float):
        return value
    return "nan" if math.isnan(value) else struct.pack(">d", value)
