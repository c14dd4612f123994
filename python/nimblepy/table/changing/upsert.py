"""Upserts: rows that take the place of those with their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from nimblepy.errors import DuplicateKeyError, InvalidArgumentError
from nimblepy.rows.arguments import column_names
from nimblepy.rows.rowset import RowNumbers
from nimblepy.schema.names import output_name
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.key_positions import ascending, key_ids, key_names, numbers
from nimblepy.table.changing.keyed_change import Found, KeyedChange
from nimblepy.table.changing.keyed_rows import Duplicates, KeyedRows, show_key
from nimblepy.table.changing.merge import Insert, MergeChange, Update
from nimblepy.table.changing.row_changes import FilesOf
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.writing.write import write_rows

WhenMatched: TypeAlias = Literal["update", "ignore", "error"]


class Upsert(KeyedChange):
    """Rows whose keys are new to the table are inserted, others replace those of their keys."""

    def __init__(
        self, source: KeyedRows, columns: Sequence[int], files_of: FilesOf, *, refuses: bool
    ) -> None:
        """``refuses``: a key that is there is an error."""
        super().__init__(source, columns, files_of)
        self._refuses = refuses
        self._matched = 0

    @property
    def is_blind(self) -> bool:
        return True

    def gone(self, rows: MemberRows) -> dict[int, RowNumbers | None]:
        found = self.match(rows)
        if self._refuses and found:
            self._refuse(rows, found)
        matched = np.zeros(self.source.num_rows, dtype=np.bool_)
        for some in found.values():
            matched[numbers(some)] = True
        self._matched = int(np.count_nonzero(matched))
        return ascending(found)

    def count(self, gone: int) -> None:
        self.updated = self._matched
        self.inserted = self.source.num_rows - self._matched
        self.deleted = gone - self._matched  # of keys that another writer gave to several rows
        self.commit.operation = "overwrite" if gone else "append"

    def _refuse(self, rows: MemberRows, found: Found) -> None:
        number, some = next(iter(found.items()))
        shown = show_key(rows.child(number).read(some.entries(slice(1)), rows.reading.primary_key))
        count = sum(len(rows.begin) for rows in found.values())
        raise DuplicateKeyError(
            f"the key {shown} is in the table already"
            + (f", and {count - 1} more" if count > 1 else "")
        )

    def written(self, rows: MemberRows, found: Found) -> list[DataFile]:
        if not self.source.num_rows:
            return []
        names, fields = self.source_fields(rows.schema)
        schema = pa.schema(fields)

        def batches() -> Iterator[pa.RecordBatch]:
            for _, chunk in self.source.chunks(names):
                yield from chunk.rename_columns(schema.names).cast(schema).to_batches()

        key = key_names(rows.schema, self.positions.columns)
        return write_rows(
            pa.RecordBatchReader.from_batches(schema, batches()),
            self.target,
            presorted=_leads(key, self.target.cluster_by),
        )


def _leads(names: Sequence[str], keys: Sequence[SortKey]) -> bool:
    """Whether rows in the order of unique ``names`` are in that of ``keys``."""
    return bool(keys) and all(
        key.column == name and not key.descending for key, name in zip(keys, names, strict=False)
    )


def upsert_change(
    data: Any,
    metadata: ice.Metadata,
    files_of: FilesOf,
    *,
    update: str | Sequence[str] | None,
    when_matched: WhenMatched,
    duplicates: Duplicates,
) -> KeyedChange:
    """The upsert of some rows into a table; ``Table.upsert`` says what it means.

    Raises:
        InvalidArgumentError: the table has no primary key, or the arguments or data do not fit.
        DuplicateKeyError: a key comes twice in the data.
    """
    name, primary = ".".join(metadata.name), metadata.primary_key()
    schema = metadata.schema()
    if not primary:
        raise InvalidArgumentError(
            f"upsert: {name} has no primary key to find rows by; merge(data, on=...) needs none"
        )
    if when_matched not in get_args(WhenMatched):
        raise InvalidArgumentError(
            f"when_matched: expected one of {', '.join(map(repr, get_args(WhenMatched)))}, "
            f"got {when_matched!r}"
        )
    given = (update,) if isinstance(update, str) else column_names(update, "update")
    taken = None if given is None else [output_name(name) for name in given]
    if taken is not None and when_matched != "update":
        raise InvalidArgumentError(f"update: no row is updated with when_matched={when_matched!r}")
    if taken is not None and not taken:
        raise InvalidArgumentError("update: no column given; when_matched='ignore' updates none")
    source = KeyedRows(data, schema, primary, duplicates=duplicates)
    for column in taken or ():
        if column not in schema.names or column not in source.schema.names:
            where = "the data have" if column in schema.names else f"{name} has"
            raise InvalidArgumentError(f"update: {where} no column {column!r}")
    ids = key_ids(schema, primary)
    if taken is not None or when_matched == "ignore":
        matched = [] if taken is None else [Update(taken)]
        return MergeChange(source, ids, files_of, matched, [Insert()])
    return Upsert(source, ids, files_of, refuses=when_matched == "error")
