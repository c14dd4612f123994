"""Commits files that other processes wrote and described."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.log import logger
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Filter
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.base.places import missing, readable_path
from nimblepy.table.changing.append import append_change
from nimblepy.table.changing.delete import overwrite_change
from nimblepy.table.changing.key_positions import KeyPositions, key_ids
from nimblepy.table.changing.keyed_rows import KeyedRows
from nimblepy.table.changing.new_keys import NewKeys
from nimblepy.table.changing.row_change import (
    GivenFiles,
    Matches,
    RowChange,
    Rows,
    RowsWithKeys,
    Rule,
)
from nimblepy.table.changing.row_commit import FilesAreNew, RowCommit, begin, discard_unnamed
from nimblepy.table.changing.upsert import SourceRows
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows, Reading, SomeRows, member_of
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.batches import Batch, were_staged
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import Target, partition_rows, partition_sources

_log = logger(__name__)

Mode: TypeAlias = Literal["append", "overwrite", "upsert"]
PartitionOverwrite: TypeAlias = Literal["static", "dynamic"]

# Number of rows of a file that are processed at once.
_ROWS_AT_ONCE = 1 << 20


def check_mode(mode: Mode, filter: Filter, partition_overwrite: PartitionOverwrite) -> None:
    """Raises InvalidArgumentError for invalid arguments and combinations."""
    if mode not in get_args(Mode):
        expected = ", ".join(map(repr, get_args(Mode)))
        raise InvalidArgumentError(f"mode: expected one of {expected}, got {mode!r}")
    if partition_overwrite not in get_args(PartitionOverwrite):
        raise InvalidArgumentError(
            f"partition_overwrite: expected 'static' or 'dynamic', got {partition_overwrite!r}"
        )
    if mode != "overwrite" and (filter is not None or partition_overwrite != "static"):
        raise InvalidArgumentError(
            f"filter, partition_overwrite: allowed only with mode='overwrite', got mode={mode!r}"
        )
    if filter is not None and partition_overwrite != "static":
        raise InvalidArgumentError("overwrite: give a filter or partition_overwrite, not both")


def check_staged(files: Sequence[object], table: TableAccess) -> None:
    """Raises InvalidArgumentError for values that do not describe files of this table.

    Files of another table must not be committed: their columns have the other table's field ids,
    and each table would remove files that the other one needs.
    """
    for file in files:
        if not isinstance(file, DataFile):
            raise InvalidArgumentError(
                f"commit_files: expected what write_rows() returned, got {file!r}; add_files() "
                "takes paths"
            )
        if not file.path.startswith(f"{table.location.rstrip('/')}/"):
            raise InvalidArgumentError(
                f"commit_files: {file.path} was written for another table; expected a "
                f"file below {table.location}, the location of {table.name}"
            )


def check_present(files: Sequence[DataFile], metadata: ice.Metadata) -> None:
    """Checks that files exist. Expiry removes them if their commit was rolled back.

    Raises:
        FileNotFoundError: a file does not exist.
    """
    removed = missing([file.path for file in files])
    if removed:
        raise FileNotFoundError(
            errno.ENOENT,
            f"{'.'.join(metadata.name)}: {len(removed)} of {len(files)} files to be committed no "
            "longer exist; write their rows again",
            readable_path(removed[0]),
        )


def commit_files(
    table: TableAccess,
    files: Sequence[DataFile],
    *,
    mode: Mode,
    filter: Filter,
    partition_overwrite: PartitionOverwrite,
    batch: Batch | None,
) -> Commit:
    """Commits files that other processes wrote for a table, in one step.

    See :func:`nimblepy.table.distributed.commit_files`.

    Args:
        filter: rows that ``mode="overwrite"`` replaces.
    """
    files = list(files)
    check_staged(files, table)
    if len({file.path for file in files}) < len(files):
        raise InvalidArgumentError(
            "commit_files: the same file is given twice; give each file once"
        )
    try:
        call = begin(table, "commit_files", batch)
        # a later compaction may have removed the files
        if files and were_staged(call.metadata, files):
            return call.nothing()
        if not call.is_done:
            check_present(files, call.metadata)
        change = staged_change(
            files, call.metadata, call.reading, mode, filter, partition_overwrite
        )
    except BaseException:
        discard_unnamed(files, table)
        raise
    row_commit = RowCommit(call, change, staged=files)
    done = call.run(row_commit)
    added = {file.path for file in row_commit.commit.added}
    replaced = [file for file in files if file.path not in added]
    if replaced:
        _discard_replaced(replaced, table)
    return done


def _discard_replaced(files: Sequence[DataFile], table: TableAccess) -> None:
    """Removes files whose rows were committed in other files. Older snapshots may name them."""
    try:
        discard_unnamed(files, table)
    except Exception as error:  # the rows are committed
        _log.warning("%s: %d files could not be removed: %r", table.name, len(files), error)


def staged_change(
    files: Sequence[DataFile],
    metadata: ice.Metadata,
    reading: Reading,
    mode: Mode,
    filter: Filter,
    partition_overwrite: PartitionOverwrite,
) -> RowChange[Any]:
    """Returns the change that makes files part of a table.

    Args:
        reading: how the files are read.
    """
    check_mode(mode, filter, partition_overwrite)
    new_files = FilesAreNew(files, "commit_files")
    if mode == "upsert":
        return _staged_upsert(files, metadata, reading, new_files)
    keys = NewKeys.of_files(files, reading)
    if mode == "append":
        change = append_change(files, keys)
    elif partition_overwrite == "dynamic":
        plan = RowsOfPartitions(files, metadata)
        change = RowChange(operation="overwrite", plan=plan, writer=GivenFiles(files, keys))
    else:
        if filter is not None:
            reading.parsed(filter)
        change = overwrite_change(files, keys, filter, metadata)
    return replace(change, rules=[*change.rules, new_files])


def _staged_upsert(
    files: Sequence[DataFile], metadata: ice.Metadata, reading: Reading, new_files: Rule
) -> RowChange[Matches]:
    """Returns the change that upserts the rows of files."""
    primary, schema = metadata.primary_key(), metadata.schema()
    if not primary:
        raise InvalidArgumentError(
            f"upsert: {'.'.join(metadata.name)} has no primary key to find rows by; merge(data, "
            "on=...) does not need one"
        )
    rows = SomeRows(reading, [member_of(file) for file in files])
    keys = KeyedRows(SourceHandle(rows).scan(primary).to_reader(), schema, primary)
    positions = KeyPositions(key_ids(schema, primary), keys.key_chunks)
    return RowChange(
        operation=None,
        plan=RowsWithKeys(positions),
        writer=StagedRows(
            keys, positions.columns, files, is_written=True, staged=files, staged_rows=rows
        ),
        rules=[new_files],
        keeps_keys=True,
    )


@dataclass(eq=False, kw_only=True)
class StagedRows(SourceRows):
    """Adds the files that workers wrote. If rows have lineage and replace other rows, writes all
    rows again, with the ids of the rows that they replace.

    ``source`` has only the key's columns.

    Attributes:
        staged: the files of the workers.
        staged_rows: the rows of these files.
    """

    staged: Sequence[DataFile]
    staged_rows: SomeRows

    def all_columns(self) -> KeyedRows:
        schema = self.staged_rows.schema
        rows = SourceHandle(self.staged_rows).scan().to_reader()
        return KeyedRows(rows, schema, self.source.key)

    def _write(
        self, rows: MemberRows, target: Target, row_ids: pa.Array | None
    ) -> Sequence[DataFile]:
        return self.staged if row_ids is None else super()._write(rows, target, row_ids)


class RowsOfPartitions:
    """Finds all rows of the partitions that the given files belong to.

    The partitions follow the spec that the files were written with, even if the table now has
    another one. In files of other specs, each row's values determine its partition.
    """

    def __init__(self, files: Sequence[DataFile], metadata: ice.Metadata) -> None:
        """Makes the search.

        Args:
            files: files of the partitions to replace, of any partition spec.
        """
        target = target_of(metadata)
        self._partitions: dict[int, set[tuple[Any, ...]]] = {}
        for file in files:
            self._partitions.setdefault(file.spec_id, set()).add(file.partition)
        self._targets = [
            replace(target, spec_id=spec_id, spec=tuple(metadata.spec(spec_id)))
            for spec_id in self._partitions
        ]

    def find(self, rows: FileSet) -> Rows:
        matches: Rows = {}
        for number, member in enumerate(rows.members):
            spec_id, partition = member.file.spec_id, member.file.partition
            if partition in self._partitions.get(spec_id, ()):
                matches[number] = None
                continue
            others = [target for target in self._targets if target.spec_id != spec_id]
            parts = [some for t in others if len(some := self._by_values(rows, number, t))]
            if parts:
                matches[number] = np.unique(np.concatenate(parts))
        return matches

    def _by_values(self, rows: FileSet, number: int, target: Target) -> RowNumbers:
        """Returns the live rows of one file whose values belong to the replaced partitions of a
        spec.
        """
        target = replace(target, schema=rows.schema)
        partitions = self._partitions[target.spec_id]
        child, deleted = rows.child(number), rows.deleted(number)
        columns = tuple(dict.fromkeys((path[0],) for path, _, _ in partition_sources(target)))
        parts: list[RowSet] = []
        for first in range(0, child.num_rows, _ROWS_AT_ONCE):
            some = RowSet.of_range(first, min(child.num_rows, first + _ROWS_AT_ONCE))
            for partition, places in partition_rows(child.read(some, columns), target):
                if partition in partitions:
                    parts.append(some if places is None else some.expand().entries(places))
        rows_of = RowSet.joined(parts)
        left = rows_of if deleted is None else rows_of.minus(deleted)
        return np.sort(left.expand().begin)
