"""The files and partitions of a snapshot as tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from nimblepy.schema.columns import column_paths, resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.table.base.transforms import shown_value
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Member

_FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("format", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("deleted", pa.int64(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
    ]
)
_PARTITIONS = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("files", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("deleted", pa.int64(), nullable=False),
    ]
)


def list_files(rows: FileSet) -> pa.Table:
    """See :meth:`nimblepy.Table.files`."""
    shown = _Partitions(rows)
    listed = [
        {
            "path": member.file.path,
            "format": member.file.format,
            "rows": member.file.rows,
            "bytes": member.file.bytes,
            "deleted": 0 if (deleted := rows.deleted(number)) is None else len(deleted),
            "partition": shown(member),
        }
        for number, member in enumerate(rows.members)
    ]
    return pa.Table.from_pylist(listed, schema=_FILES)


def list_partitions(rows: FileSet) -> pa.Table:
    """See :meth:`nimblepy.Table.partitions`."""
    files = list_files(rows)
    sums = files.group_by("partition", use_threads=False).aggregate(
        [("path", "count"), ("rows", "sum"), ("bytes", "sum"), ("deleted", "sum")]
    )
    return sums.rename_columns(_PARTITIONS.names).cast(_PARTITIONS).sort_by("partition")


class _Partitions:
    """The partition of a file in words: ``month(day)=2024-05``."""

    def __init__(self, rows: FileSet) -> None:
        schema = rows.schema
        self._specs = rows.reading.specs
        self._kinds = {
            field_id_at(schema, path): resolve_column(schema, path).type
            for path in column_paths(schema)
        }
        self._shown: dict[tuple[Any, ...], str] = {}

    def __call__(self, member: Member) -> str:
        file = member.file
        key = (file.spec_id, file.partition)
        shown = self._shown.get(key)
        if shown is None:
            parts = []
            for field, value in zip(self._specs(file.spec_id), file.partition, strict=True):
                text = shown_value(field.transform, self._kinds.get(field.source_id), value)
                parts.append(f"{field.name}={text}")
            shown = self._shown[key] = ", ".join(parts)
        return shown
