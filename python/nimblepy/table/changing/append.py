"""Appends: new rows, or files that exist already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nimblepy.io.progress import ProgressArg
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.new_columns import Fit
from nimblepy.table.changing.new_keys import KeysAreNew, NewKeys
from nimblepy.table.changing.row_change import GivenFiles, NoRows, RowChange, Rows, Rule
from nimblepy.table.changing.row_commit import FilesAreNew, begin
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.adding import describe_files
from nimblepy.table.writing.batches import Batch
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.properties import set_properties
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import discard, write_rows


def append(
    table: TableAccess,
    data: Any,
    *,
    presorted: bool,
    progress: ProgressArg,
    batch: Batch | None,
    fit: Fit,
) -> Commit:
    """See :meth:`nimblepy.Table.append`."""
    call = begin(table, "append", batch)
    if call.is_done:
        return call.nothing()
    call, data = call.widened(data, fit)
    target = target_of(call.metadata)
    files = write_rows(
        data, target, presorted=presorted, progress=progress, cast=fit.cast, drop=fit.drop
    )
    try:
        change = append_change(files, NewKeys.of_files(files, call.reading))
    except BaseException:
        discard(files)
        raise
    return call.commit(change)


def append_change(
    files: Sequence[DataFile],
    keys: NewKeys | None,
    rules: Sequence[Rule] = (),
    *,
    owns_files: bool = True,
) -> RowChange[Rows]:
    """Adds files with new rows.

    Args:
        keys: the primary keys of the new rows. Raises an error if a row of the table has one of
            them.
    """
    return RowChange(
        operation="append",
        plan=NoRows(),
        writer=GivenFiles(files),
        rules=[*rules, *([KeysAreNew(keys)] if keys is not None else [])],
        owns_files=owns_files,
    )


def add_files(table: TableAccess, paths: Sequence[str]) -> Commit:
    """See :meth:`nimblepy.Table.add_files`."""
    call = begin(table, "add_files")
    if call.metadata.name_mapping is None:
        set_properties(table, {ice.NAME_MAPPING: call.metadata.new_name_mapping()})
        call = begin(table, "add_files")
    metadata = call.metadata
    files = describe_files(
        paths, target_of(metadata), metadata.mapped_names(), metadata.defaults(None)
    )
    keys = NewKeys.of_files(files, call.reading)
    rules = [FilesAreNew(files, "add_files")]
    return call.commit(append_change(files, keys, rules, owns_files=False))
