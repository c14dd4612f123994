"""Serializes groups of files as text, so that one process chooses and others compact them."""

from __future__ import annotations

import pyarrow as pa

from nimblepy.files.bounds import FileBounds
from nimblepy.io.progress import Progress
from nimblepy.table.base.model import DataFile
from nimblepy.table.reading.members import MemberRows, SomeRows
from nimblepy.table.reading.shipped import rows_as_text, rows_of_text
from nimblepy.table.upkeep.compact import Group, write
from nimblepy.table.writing.write import Target


def group_as_text(group: Group, rows: MemberRows) -> str:
    """Serializes the files of a group, their deleted rows, and how to read them."""
    bounds = None
    if rows.cluster_by and group.lower:
        bounds = FileBounds(pa.array(group.lower, pa.binary()), pa.array(group.upper, pa.binary()))
    return rows_as_text(SomeRows(rows.reading, group.members, bounds))


def written_group(text: str, target: Target) -> list[DataFile]:
    """Writes the new files of a group that :func:`group_as_text` serialized.

    Raises:
        InvalidArgumentError: the text was not made by ``group_as_text``.

    Cost: as for :func:`write`.
    """
    rows = rows_of_text(text)
    members = list(rows.members)
    lower = upper = [b""] * len(members)
    if rows.bounds is not None:
        lower, upper = (keys.to_pylist() for keys in rows.bounds.keys)
    group = Group(members, lower, upper)
    try:
        write(group, rows, target, Progress(None, None))
    finally:
        rows.reading.close()
    return group.added
