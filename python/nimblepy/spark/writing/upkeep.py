"""Maintenance of tables in parallel tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from nimblepy.errors import InvalidArgumentError
from nimblepy.rows.arguments import at_least
from nimblepy.rows.source import Filter
from nimblepy.schema.names import ColumnName, Path
from nimblepy.spark.base.inputs import is_table
from nimblepy.spark.base.shipping import run_numbered
from nimblepy.spark.writing.tasks import column_sketches, written_groups

if TYPE_CHECKING:
    from nimblepy.io.progress import Progress
    from nimblepy.table.base.sketch import Sketch
    from nimblepy.table.reading.members import MemberRows
    from nimblepy.table.table import Table
    from nimblepy.table.upkeep.analyze import Analysis
    from nimblepy.table.upkeep.compact import Group
    from nimblepy.table.writing.commit import Commit
    from nimblepy.table.writing.write import Target

# Up to this many bytes of files, the driver does the work itself: starting tasks takes longer.
ALONE_BYTES = 64 << 20
# Target bytes of files per task, and the maximum number of tasks: Spark Connect does not tell how
# many run in parallel.
PART_BYTES = 64 << 20
_MOST_PARTS = 1024

_SKETCHES = pa.schema(
    [
        pa.field("sketches", pa.list_(pa.binary()), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
    ]
)
_WRITTEN = pa.schema([pa.field("part", pa.int64(), False), pa.field("files", pa.string(), False)])


def compact(
    spark: SparkSession,
    table: Table,
    *,
    filter: Filter = None,
    target_bytes: int = 256 << 20,
    where_needed: bool = True,
) -> Commit:
    """:meth:`nimblepy.Table.compact`, with tasks that write the groups of files.

    The driver chooses the groups and commits; each task writes the new files of a group. As with
    ``Table.compact``, other commits never fail because of it: groups that another commit changed in
    the meantime are dropped, and the others are committed.

    Args:
        filter, target_bytes, where_needed: as for ``Table.compact``.

    Raises:
        As ``Table.compact``, and errors of Spark if tasks fail. Then the table is not changed, and
        ``remove_orphans()`` removes files of finished tasks.

    Cost: as for ``Table.compact``. A group has up to eight times ``target_bytes``, or all files
        with overlapping keys. The driver itself rewrites up to 64 MiB of files.
    """
    from nimblepy.table.handle import TableState
    from nimblepy.table.upkeep.compact import Compacting
    from nimblepy.table.upkeep.recluster import compact

    if not is_table(table):
        raise InvalidArgumentError(f"compact: expected a Table, got {table!r}")
    options = Compacting(
        filter=filter,
        target_bytes=at_least("target_bytes", target_bytes, 1),
        where_needed=where_needed,
        write=_Tasks(spark),
    )
    return compact(TableState(table), options)


def analyze(
    spark: SparkSession, table: Table, columns: Sequence[ColumnName] | None = None
) -> Analysis:
    """:meth:`nimblepy.Table.analyze`, with tasks that read the values. The result is the same.

    Args:
        columns: as for ``Table.analyze``.

    Raises:
        As ``Table.analyze``, and errors of Spark if tasks fail. Then the table is not changed.

    Cost: as for ``Table.analyze``. Each task sends 32 KiB per column to the driver. The driver
        itself reads up to 64 MiB of files.
    """
    from nimblepy.table.requests import analyze_by

    if not is_table(table):
        raise InvalidArgumentError(f"analyze: expected a Table, got {table!r}")

    def looking(rows: MemberRows, paths: Sequence[Path]) -> tuple[list[Sketch], int]:
        from nimblepy.table.base.sketch import Sketch
        from nimblepy.table.reading.shipped import rows_as_text
        from nimblepy.table.upkeep.analyze import look

        if rows.size_bytes <= ALONE_BYTES:
            return look(rows, paths)
        most = min(rows.size_bytes // PART_BYTES + 1, _MOST_PARTS)
        parts = [rows_as_text(rows.part(files)) for files in _cut(rows, most)]
        results = run_numbered(spark, column_sketches, _SKETCHES, len(parts), parts, list(paths))
        columns_of = zip(*results.column("sketches").to_pylist(), strict=True)
        sketches = [Sketch.merged(list(map(Sketch.from_bytes, octets))) for octets in columns_of]
        return sketches, sum(results.column("rows").to_pylist())

    return analyze_by(table, looking, columns)


def _cut(rows: MemberRows, most: int) -> list[list[int]]:
    """Splits the file numbers into at most ``most`` parts of about the same number of bytes."""
    sizes = np.array([member.file.bytes for member in rows.members], dtype=np.int64)
    before = np.cumsum(sizes) - sizes
    part = before * most // max(1, int(sizes.sum()))
    return [files.tolist() for files in np.split(np.arange(len(sizes)), _steps(part))]


def _steps(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the positions at which ascending numbers increase."""
    return np.flatnonzero(np.diff(numbers)) + 1


@dataclass(frozen=True)
class _Tasks:
    """Writes each group in a task, the largest group first."""

    spark: SparkSession

    def __call__(
        self, groups: Sequence[Group], rows: MemberRows, target: Target, progress: Progress
    ) -> None:
        from nimblepy.table.reading.shipped import files_of_text
        from nimblepy.table.upkeep.compact import write_each
        from nimblepy.table.upkeep.shipped_groups import group_as_text

        if sum(group.bytes for group in groups) <= ALONE_BYTES:
            write_each(groups, rows, target, progress)
            return
        ordered = sorted(groups, key=lambda group: -group.bytes)
        texts = [group_as_text(group, rows) for group in ordered]
        results = run_numbered(
            self.spark, written_groups, _WRITTEN, len(texts), texts, target
        ).to_pydict()
        for number, text in zip(results["part"], results["files"], strict=True):
            ordered[number].added = files_of_text(text)
