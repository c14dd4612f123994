"""Commits files that other processes write: tasks of Spark, workers of other engines.

The process that commits calls :func:`write_target` and sends the result to the workers. They call
:func:`write_rows` and send back what it returns. Then :func:`commit_files` makes all files part of
the table in one commit. Targets and descriptions of files can be pickled.
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
    """Returns how files for a table are written: columns, order, partitions, format, location."""
    from nimblepy.table.handle import TableState
    from nimblepy.table.writing.settings import target_of

    return target_of(TableState(t).newest())


def commit_files(
    t: Table,
    files: Sequence[DataFile],
    *,
    mode: Mode = "append",
    partition_overwrite: PartitionOverwrite = "static",
    batch: Batch | None = None,
) -> Commit:
    """Makes files part of a table in one commit. As with other commits, old snapshots may expire.

    If you do not know whether files were committed, commit exactly the same files again: they are
    added only once. The table recognizes files that it still has. If their rows were moved to other
    files, for example by a compaction, it recognizes them until 32 more commits of files. After a
    rollback to an earlier snapshot, the files can be committed again.

    Args:
        files: everything that :func:`write_rows` returned in all workers.
        mode: ``"append"``; ``"upsert"`` by the primary key; or ``"overwrite"``, which replaces all
            rows, or with ``partition_overwrite="dynamic"`` only the partitions that the files
            belong to.
        batch: (name, number): if this or a later batch of that name is part of the table, nothing
            is changed and the files are removed.

    Raises:
        InvalidArgumentError: the table has some of the files, but not all; or a file was written
            for another table. In the latter case no file is removed.
        FileNotFoundError: a file no longer exists, as after a rollback and an expiry; write its
            rows again.
        The errors of :meth:`nimblepy.Table.append` and :meth:`nimblepy.Table.upsert`. After any
            error the table is unchanged, and files that it does not name are removed.

    Cost: writes three metadata files, and reads the paths of the table's files. With a primary key,
    reads the keys of the committed files. In an object store, checks each file with one request. If
    nothing is committed, reads all manifests before it removes files. In format version 3, an
    upsert that replaces rows reads the files and writes them again, with the ids of these rows.
    Then it removes the given files, for which it reads all manifests.
    """
    from nimblepy.table.changing import staged
    from nimblepy.table.handle import TableState

    return staged.commit_files(
        TableState(t),
        files,
        mode=mode,
        filter=None,
        partition_overwrite=partition_overwrite,
        batch=batch,
    )


__all__ = ["commit_files", "write_rows", "write_target"]
