"""How a caller's rows are fitted to a table: conversion of values, and new columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.input.foreign import CountedReader
from nimblepy.input.tabular import as_reader
from nimblepy.schema.field_ids import field_id_at
from nimblepy.table import iceberg as ice
from nimblepy.table.base.types import table_type
from nimblepy.table.delta.publish import check_columns
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Reading
from nimblepy.table.writing.access import TableAccess

NewColumns: TypeAlias = Literal["error", "add", "drop"]


@dataclass(frozen=True, slots=True)
class Fit:
    """How rows are made to fit a table.

    Attributes:
        cast: round or truncate values that the table's types cannot represent.
        new_columns: what to do with columns that the table lacks: ``"error"`` raises, ``"add"``
            adds them to the table, ``"drop"`` ignores them.
    """

    cast: bool = False
    new_columns: NewColumns = "error"

    @property
    def drop(self) -> bool:
        """Whether columns that the table lacks are left out."""
        return self.new_columns == "drop"


def with_new_columns(
    table: TableAccess, data: Any, metadata: ice.Metadata, fit: Fit, known: Sequence[str] = ()
) -> tuple[TableAccess, Any]:
    """Returns the table widened by the data's new columns, and the data, which can be read once.

    Args:
        metadata: has the schema, which gives types to Python values.
        known: columns of the data that are not added.

    Raises:
        InvalidArgumentError: ``fit.new_columns`` has another value.
    """
    if fit.new_columns not in get_args(NewColumns):
        raise InvalidArgumentError(
            f"new_columns: expected 'error', 'add' or 'drop', got {fit.new_columns!r}"
        )
    if fit.new_columns != "add":
        return table, data
    schema = metadata.schema()
    reader, total = as_reader(data, schema, cast=fit.cast)
    names = {*schema.names, *known}

    def column(item: pa.Field) -> pa.Field:
        place, exact = f"column {item.name!r}", metadata.has_row_ids
        return pa.field(item.name, table_type(item.type, place, nanoseconds=exact))

    columns = [column(item) for item in reader.schema if item.name not in names]
    given = CountedReader(reader, total)
    return (WiderTable(table, columns), given) if columns else (table, given)


@dataclass(frozen=True, eq=False)
class WiderTable:
    """A table with columns that the next commit adds. A :class:`TableAccess`.

    Attributes:
        ids: field ids and types of the new columns that written files use.
    """

    table: TableAccess
    columns: Sequence[pa.Field]
    ids: dict[str, tuple[int, pa.DataType]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def location(self) -> str:
        return self.table.location

    def newest(self) -> ice.Metadata:
        metadata = ice.with_columns(self.table.newest(), self.columns)
        check_columns(metadata.schema(), metadata.properties)
        return metadata

    def reload(self) -> ice.Metadata:
        """Returns the newest metadata without new columns if another commit made them impossible.
        Then :meth:`check` raises the error.
        """
        newest = self.table.reload()
        try:
            return ice.with_columns(newest, self.columns)
        except InvalidArgumentError:
            return newest

    def rows(self, metadata: ice.Metadata) -> FileSet:
        return self.table.rows(metadata)

    def reading(self, metadata: ice.Metadata) -> Reading:
        return self.table.reading(metadata)

    def show(self, metadata: ice.Metadata) -> None:
        self.table.show(metadata.committed)

    def show_commit(self, metadata: ice.Metadata) -> None:
        self.table.show_commit(metadata.committed)

    def check(self, metadata: ice.Metadata, rows: FileSet) -> None:
        """Raises ConflictError if another commit's columns do not fit the written files."""
        try:
            schema = ice.with_columns(metadata, self.columns).schema()
        except InvalidArgumentError as error:
            raise ConflictError(
                f"{self.name}: another commit was first: {error}", kind="schema"
            ) from error
        for item in self.columns:
            column = field_id_at(schema, (item.name,)), schema.field(item.name).type
            if self.ids.setdefault(item.name, column) != column:
                raise ConflictError(
                    f"{self.name}: another commit changed columns while {item.name!r} was added; "
                    "write the rows again",
                    kind="schema",
                )
