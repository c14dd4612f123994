"""Deletes and overwrites: rows that pass a filter, rows with some keys, or all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.io.progress import ProgressArg
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.passing import passing_rows
from nimblepy.rows.request import Where
from nimblepy.rows.rowset import RowNumbers
from nimblepy.rows.source import Filter
from nimblepy.schema.lineage import LINEAGE
from nimblepy.schema.protocols import ManyKeys
from nimblepy.table import iceberg as ice
from nimblepy.table.base.file_names import PUBLISHES_DELTA
from nimblepy.table.base.model import DataFile, DataFormat
from nimblepy.table.changing.key_positions import KeyPositions, ascending, given_keys
from nimblepy.table.changing.new_columns import Fit
from nimblepy.table.changing.new_keys import NewKeys
from nimblepy.table.changing.row_change import (
    AllRows,
    GivenFiles,
    Plan,
    RowChange,
    Rows,
    SameColumns,
    conflict,
)
from nimblepy.table.changing.row_commit import RowCommit, begin
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.reading.parquet_index import PARQUET_INDEXES
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.batches import Batch
from nimblepy.table.writing.commit import Commit
from nimblepy.table.writing.properties import set_properties
from nimblepy.table.writing.settings import format_property, has_lineage, target_of
from nimblepy.table.writing.write import discard, write_rows


class RowsThatPass:
    """Finds the rows that pass a filter.

    After other commits, reads a file again only if rows were deleted from it.
    """

    def __init__(self, filter: Filter) -> None:
        self._filter = filter
        # For each file that was read: the delete files that applied to it, the id of its first row,
        # and the rows that pass.
        self._read: dict[tuple[str, int], tuple[frozenset[str], int | None, RowNumbers]] = {}
        self._schema = pa.schema([])

    def find(self, rows: FileSet) -> Rows:
        """
        Raises:
            ConflictError: a column of the filter was dropped or changed.
        """
        try:
            parsed = rows.parsed(self._filter)
        except InvalidArgumentError as error:
            raise ConflictError(
                f"the filter no longer fits the table: {error}", kind="schema"
            ) from error
        if parsed.matches_nothing:
            return {}
        if not rows.schema.equals(self._schema, check_metadata=True):
            self._read, self._schema = {}, rows.schema
        passing: Rows = {}
        numbers = rows.prune(parsed.conjuncts)
        tested = rows.with_columns_of(parsed)
        all_pass = np.zeros(len(numbers), np.bool_)
        if tested is rows:  # columns of row lineage have no statistics
            all_pass = rows.plan.whole(rows.members.take(numbers), parsed.node)
        for number, is_whole in zip(numbers, all_pass, strict=True):
            if is_whole:
                passing[number] = None
                continue
            member = rows.members[number]
            depends_on = member.delete_ids, member.file.first_row_id
            before = self._read.get(member.identity)
            if before is not None and before[:2] == depends_on:
                positions = before[2]
            else:
                child = tested.child(number)
                live, deleted = child.all_rows(), rows.deleted(number)
                if deleted is not None:
                    live = live.minus(deleted)
                positions = passing_rows(child, Where(parsed, live)).rows
                self._read[member.identity] = *depends_on, positions
            if len(positions):
                passing[number] = positions
        return passing


class RowsOfKeys:
    """Finds the rows to delete by their keys."""

    def __init__(self, positions: KeyPositions) -> None:
        self._positions = positions

    def find(self, rows: MemberRows) -> Rows:
        return ascending(self._positions.find(rows))


def delete(
    table: TableAccess, filter: Filter, keys: ManyKeys | None, batch: Batch | None
) -> Commit:
    """See :meth:`nimblepy.Table.delete`."""
    call = begin(table, "delete", batch)
    if call.is_done:
        return call.nothing()
    metadata = call.metadata
    if keys is None:
        call.reading.parsed(filter)
        return call.commit(
            RowChange(
                operation="delete",
                plan=RowsThatPass(filter),
                writer=GivenFiles(),
                rules=[SameColumns(metadata)],
            )
        )
    primary = metadata.primary_key()
    if not primary:
        raise InvalidArgumentError(
            f"delete: {table.name} has no primary key, so keys= cannot be used; give a filter"
        )
    positions = given_keys(table.rows(metadata), keys, primary)
    return call.commit(
        RowChange(operation="delete", plan=RowsOfKeys(positions), writer=GivenFiles())
    )


def overwrite(
    table: TableAccess,
    data: Any,
    filter: Filter,
    progress: ProgressArg,
    batch: Batch | None,
    fit: Fit,
) -> Commit:
    """See :meth:`nimblepy.Table.overwrite`."""
    call = begin(table, "overwrite", batch)
    if call.is_done:
        return call.nothing()
    call, data = call.widened(data, fit)
    metadata = call.metadata
    target = target_of(metadata)
    if filter is None:  # all rows are replaced, so the table's formats may change as well
        target = replace(target, rows_before=0)
    else:
        call.reading.parsed(filter)
    files = write_rows(data, target, progress=progress, cast=fit.cast, drop=fit.drop)
    try:
        keys = NewKeys.of_files(files, call.reading)
    except BaseException:
        discard(files)
        raise
    return call.commit(overwrite_change(files, keys, filter, metadata))


def overwrite_change(
    files: Sequence[DataFile], keys: NewKeys | None, filter: Filter, begun: ice.Metadata
) -> RowChange[Rows]:
    """Replaces the rows that pass a filter, or all rows, with the rows of new files."""
    plan: Plan[Rows] = AllRows() if filter is None else RowsThatPass(filter)
    return RowChange(
        operation="overwrite",
        plan=plan,
        writer=GivenFiles(files, None if filter is None else keys),
        rules=[] if filter is None else [SameColumns(begun)],
    )


def convert(table: TableAccess, data_format: DataFormat, progress: ProgressArg) -> Commit:
    """See :meth:`nimblepy.Table.convert`."""
    call = begin(table, "convert")
    properties = format_property(data_format)
    if data_format != "parquet" and call.metadata.properties.get(PUBLISHES_DELTA) == "true":
        raise InvalidArgumentError(
            f"{table.name}: convert: the table is published as Delta, which has only Parquet "
            "files; first stop publishing with publish_delta(keep=False)"
        )
    # Other branches and tags may still have Parquet files, which need the indexes.
    is_only = not call.metadata.references.keys() - {ice.MAIN}
    if data_format == "nimble" and is_only and call.metadata.properties.get(PARQUET_INDEXES):
        properties[PARQUET_INDEXES] = ""
    target = replace(target_of(call.metadata), data_format=data_format, rows_before=0)
    source: MemberRows = table.rows(call.metadata)
    if has_lineage(call.metadata):
        source, target = source.with_lineage, replace(target, lineage=LINEAGE)
    rows = SourceHandle(source).scan().to_reader()
    files = write_rows(rows, target, progress=progress)

    def unchanged(metadata: ice.Metadata, rows: FileSet) -> None:
        before, now = call.metadata.head(), metadata.head()
        if (before and before.id) != (now and now.id):
            why = "another commit changed the table during convert(); call convert() again"
            raise conflict(call.metadata, metadata, why, kind="files")

    change = RowChange(
        operation="replace",
        plan=AllRows(),
        writer=GivenFiles(files, are_copies=True),
        rules=[unchanged],
    )
    done = call.run(RowCommit(call, change, properties=properties, replaces=True))
    # the table had no file to replace, so nothing was committed
    if not done.files_added and not done.files_removed:
        set_properties(table, properties)
    return done
