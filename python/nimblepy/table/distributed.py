"""Commits of files that other processes write: tasks of Spark, workers of other engines.

The process that commits calls :func:`write_target` and sends the result to the workers, which
call :func:`write_rows` and send back what it returns. Then :func:`commit_files` makes all files
part of the table in one commit. Targets and descriptions of files pickle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nimblepy.table.writing.write import write_rows

if TYPE_CHECKING:
    from nimblepy.table.base.model import DataFile
    from nimblepy.table.changing.staged import Mode, PartitionOverwrite
    from nimblepy.table.table import Table
    from nimblepy.table.writing.batches import Batch
    from nimblepy.table.writing.commit import Commit
    from nimblepy.table.writing.write import Target


def write_target(t: Table) -> Target:
    """Describes how files for a table are written: columns, order, partitions, format, place."""
    return t.write_target()


def commit_files(
    t: Table,
    files: Sequence[DataFile],
    *,
    mode: Mode = "append",
    partition_overwrite: PartitionOverwrite = "static",
    batch: Batch | None = None,
) -> Commit:
    """Makes files part of a table in one commit; :meth:`Table.commit_files` has the details.

    Args:
        files: what :func:`write_rows` returned, of all workers together.
        mode: ``"append"``; ``"upsert"``, by the primary key; or ``"overwrite"``, of all rows, or
            with ``partition_overwrite="dynamic"`` of the partitions that the files belong to.
        batch: (name, number): nothing is changed if this or a later batch of that name is part of
            the table.
    """
    return t.commit_files(files, mode=mode, partition_overwrite=partition_overwrite, batch=batch)


__all__ = ["commit_files", "write_rows", "write_target"]
