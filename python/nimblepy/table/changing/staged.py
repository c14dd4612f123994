"""Commits of files that other processes wrote: they describe their files, and one commits them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import parse_filter
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import Filter
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.base.places import missing, readable_path
from nimblepy.table.changing.key_positions import key_ids
from nimblepy.table.changing.keyed_change import Found
from nimblepy.table.changing.keyed_rows import KeyedRows
from nimblepy.table.changing.row_changes import (
    Append,
    DeleteWhere,
    FilesOf,
    NewKeys,
    RowChange,
)
from nimblepy.table.changing.upsert import Upsert
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows, Reading, SomeRows, member_of
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import Target, partition_rows, partition_sources

Mode: TypeAlias = Literal["append", "overwrite", "upsert"]
PartitionOverwrite: TypeAlias = Literal["static", "dynamic"]

# Rows of a file that are looked at together.
_ROWS_AT_ONCE = 1 << 20


def check_mode(mode: Mode, filter: Filter, partition_overwrite: PartitionOverwrite) -> None:
    """Refuses what does not fit together."""
    if mode not in get_args(Mode):
        expected = ", ".join(map(repr, get_args(Mode)))
        raise InvalidArgumentError(f"mode: expected one of {expected}, got {mode!r}")
    if partition_overwrite not in get_args(PartitionOverwrite):
        raise InvalidArgumentError(
            f"partition_overwrite: expected 'static' or 'dynamic', got {partition_overwrite!r}"
        )
    if mode != "overwrite" and (filter is not None or partition_overwrite != "static"):
        raise InvalidArgumentError(
            f"filter, partition_overwrite: they say what mode='overwrite' replaces; mode={mode!r}"
        )
    if filter is not None and partition_overwrite != "static":
        raise InvalidArgumentError("overwrite: give a filter or partition_overwrite, not both")


def check_staged(files: Sequence[object], metadata: ice.Metadata) -> None:
    """Refuses values that do not describe files which were written for this table.

    Files of another table must not become part of this one: their columns have the field ids of
    the other, and each of the two would remove files that the other needs.
    """
    name = ".".join(metadata.name)
    for file in files:
        if not isinstance(file, DataFile):
            raise InvalidArgumentError(
                f"commit_files: expected what write_rows() returned, got {file!r}; add_files() "
                "takes paths"
            )
        if not file.path.startswith(f"{metadata.location.rstrip('/')}/"):
            raise InvalidArgumentError(
                f"commit_files: {file.path} was written for another table; it is not below "
                f"{metadata.location}, the location of {name}"
            )


def check_present(files: Sequence[DataFile], metadata: ice.Metadata) -> None:
    """Refuses files that were removed, as expiry does after their commit was rolled back.

    Raises:
        FileNotFoundError: one does not exist.
    """
    gone = missing([file.path for file in files])
    if gone:
        raise FileNotFoundError(
            errno.ENOENT,
            f"{'.'.join(metadata.name)}: {len(gone)} of {len(files)} files to be committed no "
            "longer exist; write their rows again",
            readable_path(gone[0]),
        )


def staged_change(
    files: Sequence[DataFile],
    metadata: ice.Metadata,
    files_of: FilesOf,
    new_keys: Callable[[ice.Metadata, Sequence[DataFile]], NewKeys | None],
    reading: Reading,
    mode: Mode,
    filter: Filter,
    partition_overwrite: PartitionOverwrite,
) -> RowChange:
    """The change that makes files part of a table; :meth:`Table.commit_files` says what it means.

    Args:
        reading: how these files are read.
    """
    check_mode(mode, filter, partition_overwrite)
    if mode == "upsert":
        written = SomeRows(reading, [member_of(file) for file in files])
        return staged_upsert(files, written, metadata, files_of)
    keys = new_keys(metadata, files)
    if mode == "append":
        return Append(files, files_of, keys)
    if partition_overwrite == "dynamic":
        targets = {
            number: replace(target_of(metadata), spec_id=number, spec=tuple(metadata.spec(number)))
            for number in {file.spec_id for file in files}
        }
        change: DeleteWhere = ReplacePartitions(files, files_of, list(targets.values()))
    else:
        if filter is not None:
            parse_filter(filter, metadata.schema())
        change = DeleteWhere("overwrite", files, files_of, filter)
    change.keys = keys
    return change


def staged_upsert(
    files: Sequence[DataFile], written: MemberRows, metadata: ice.Metadata, files_of: FilesOf
) -> Upsert:
    """An upsert of the rows of files."""
    primary, schema = metadata.primary_key(), metadata.schema()
    if not primary:
        raise InvalidArgumentError(
            f"upsert: {'.'.join(metadata.name)} has no primary key to find rows by; merge(data, "
            "on=...) needs none"
        )
    keys = KeyedRows(written.scan(primary).to_reader(), schema, primary)
    return StagedUpsert(files, keys, key_ids(schema, primary), files_of)


class StagedUpsert(Upsert):
    """An upsert whose new rows are in files already; the source has their keys."""

    def __init__(
        self,
        files: Sequence[DataFile],
        source: KeyedRows,
        columns: Sequence[int],
        files_of: FilesOf,
    ) -> None:
        super().__init__(source, columns, files_of, refuses=False)
        self._files = list(files)

    def written(self, rows: MemberRows, found: Found) -> list[DataFile]:
        return self._files

    def discard(self) -> None:
        self.added = self._files
        super().discard()


class ReplacePartitions(DeleteWhere):
    """Deletes all rows of the partitions that the new files belong to.

    These are partitions of the spec that the files were written with, also if the table has got
    another one since. Rows in files of other specs go by their values.
    """

    def __init__(
        self, files: Sequence[DataFile], files_of: FilesOf, targets: Sequence[Target]
    ) -> None:
        """``targets``: what files of each spec are like that the new ones have."""
        super().__init__("overwrite", files, files_of, None)
        self._targets = list(targets)
        self._partitions = {
            target.spec_id: {file.partition for file in files if file.spec_id == target.spec_id}
            for target in targets
        }

    def gone(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        found: dict[int, RowNumbers | None] = {}
        for number, member in enumerate(rows.members):
            own = self._partitions.get(member.file.spec_id)
            if own is not None and member.file.partition in own:
                found[number] = None
                continue
            others = [t for t in self._targets if t.spec_id != member.file.spec_id]
            parts = [some for t in others if len(some := self._by_values(rows, number, t))]
            if parts:
                found[number] = np.unique(np.concatenate(parts))
        if self.keys is not None:
            self.keys.refuse_kept(rows, found)
        return found

    def _by_values(self, rows: FileSet, number: int, target: Target) -> RowNumbers:
        """Live rows of one file that would be in one of the partitions of a spec."""
        target = replace(target, schema=rows.schema)
        partitions = self._partitions[target.spec_id]
        child, deleted = rows.child(number), rows.deleted(number)
        columns = tuple(dict.fromkeys((path[0],) for path, _, _ in partition_sources(target)))
        found: list[RowSet] = []
        for begin in range(0, child.num_rows, _ROWS_AT_ONCE):
            some = RowSet.of_range(begin, min(child.num_rows, begin + _ROWS_AT_ONCE))
            for partition, places in partition_rows(child.read(some, columns), target):
                if partition in partitions:
                    found.append(some if places is None else some.expand().entries(places))
        rows_of = RowSet.joined(found)
        left = rows_of if deleted is None else rows_of.minus(deleted)
        return np.sort(left.expand().begin)
