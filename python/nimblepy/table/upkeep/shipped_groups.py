"""Groups of files as text: one process chooses what is compacted, others write the new files."""

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
    """The files of a group, with what is deleted of them, and how they are read."""
    bounds = None
    if rows.cluster_by and group.lower:
        bounds = FileBounds(pa.array(group.lower, pa.binary()), pa.array(group.upper, pa.binary()))
    return rows_as_text(SomeRows(rows.reading, group.members, bounds))


def written_group(text: str, target: Target) -> list[DataFile]:
    """The new files of a group of :func:`group_as_text`.

    Raises:
        InvalidArgumentError: the text is none of its results.

    Cost: as of :func:`write`.
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
