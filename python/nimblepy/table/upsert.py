"""Upserts: rows that take the place of those with their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from nimblepy.errors import DuplicateKeyError, InvalidArgumentError
from nimblepy.rows.arguments import column_names
from nimblepy.rows.gather import gather_array
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.names import output_name
from nimblepy.schema.types import SortKey
from nimblepy.table import _iceberg as ice
from nimblepy.table.fileset import FileSet
from nimblepy.table.key_positions import KeyPositions, ascending, key_ids, key_names, numbers
from nimblepy.table.keyed_rows import Duplicates, KeyedRows, show_key
from nimblepy.table.model import DataFile
from nimblepy.table.row_changes import FilesOf, Replacement
from nimblepy.table.write import discard, write_rows

WhenMatched: TypeAlias = Literal["update", "ignore", "error"]

_NOWHERE = -1


class Upsert(Replacement):
    """Rows with keys that are new to the table are inserted, others replace those of their keys.

    The new rows are written once, unless they depend on the rows that are there: then again after
    a commit that changed one of these.
    """

    def __init__(
        self,
        source: KeyedRows,
        columns: Sequence[int],
        files_of: FilesOf,
        when_matched: WhenMatched,
        update: Sequence[str] | None,
    ) -> None:
        """``columns``: field ids of the primary key, in the order of the source's key."""
        super().__init__("overwrite", (), files_of)
        self._source = source
        self._positions = KeyPositions(columns, source.keys)
        self._when_matched = when_matched
        self._update = None if update is None else key_ids(source.schema, update)
        self._matches: dict[str, RowSet] | None = None

    @property
    def goes_before_appends(self) -> bool:
        """No: they may have its keys."""
        return False

    def gone(self, rows: FileSet) -> dict[int, RowNumbers | None]:
        found = self._positions.find(rows)
        if self._when_matched == "error" and found:
            self._refuse(rows, found)
        matches = {rows.members[number].file.path: some for number, some in found.items()}
        blind = self._update is None and self._when_matched != "ignore"
        if self._matches is None or not (blind or _same(matches, self._matches)):
            discard(self.added)
            self.added = []
            self.added = self._write(rows, found)
        self._matches = matches
        return {} if self._when_matched == "ignore" else ascending(found)

    def count(self, gone: int) -> None:
        assert self._matches is not None
        probes = [numbers(rows) for rows in self._matches.values()]
        matched = len(np.unique(np.concatenate(probes))) if probes else 0
        self.inserted = self._source.num_rows - matched
        self.updated = 0 if self._when_matched == "ignore" else matched
        self.deleted = gone - self.updated  # of keys that another writer gave to several rows
        self.commit.operation = "overwrite" if gone else "append"

    def _refuse(self, rows: FileSet, found: dict[int, RowSet]) -> None:
        number, some = next(iter(found.items()))
        names = rows.reading.primary_key
        shown = show_key(rows.child(number).read(some.entries(slice(1)), names))
        count = sum(len(rows.begin) for rows in found.values())
        raise DuplicateKeyError(
            f"the key {shown} is in the table already"
            + (f", and {count - 1} more" if count > 1 else "")
        )

    # ------------------------------------------------------------------ new rows

    def _write(self, rows: FileSet, found: dict[int, RowSet]) -> list[DataFile]:
        if not self._source.num_rows:
            return []
        # What its columns are called now; those that were dropped meanwhile are left out.
        now = {field_id_of(field): field.name for field in rows.schema}
        fields = [field for field in self._source.schema if field_id_of(field) in now]
        kept = [field.name for field in fields]
        names = [now[field_id_of(field)] for field in fields]
        schema = rows.schema
        if self._update is None:
            schema = pa.schema([f.with_name(name) for f, name in zip(fields, names, strict=True)])

        def batches() -> Iterator[pa.RecordBatch]:
            for first, chunk in self._source.chunks():
                table = chunk.select(kept).rename_columns(names)
                yield from self._made(rows, found, first, table).cast(schema).to_batches()

        key = key_names(rows.schema, self._positions.columns)
        return write_rows(
            pa.RecordBatchReader.from_batches(schema, batches()),
            self.target,
            presorted=_leads(key, self.target.cluster_by),
        )

    def _made(
        self, rows: FileSet, found: dict[int, RowSet], first: int, chunk: pa.Table
    ) -> pa.Table:
        """What is written for some rows of the source."""
        if self._update is None and self._when_matched != "ignore":
            return chunk
        file, row = _places(found, first, chunk.num_rows)
        is_new = file == _NOWHERE
        if self._update is None:
            return chunk.filter(pa.array(is_new))
        fields = list(rows.schema)
        taken = [field_id_of(field) in self._update for field in fields]
        others = [field for field, is_taken in zip(fields, taken, strict=True) if not is_taken]
        old, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        there = rows.read(
            RowSet(row[old], file=file[old]), tuple(field.name for field in others)
        ).combine_chunks()
        place = np.empty(chunk.num_rows, dtype=np.int64)
        place[old] = np.arange(len(old))
        place[new] = len(old) + np.arange(len(new))
        arrays = []
        for field, is_taken in zip(fields, taken, strict=True):
            given = _given(chunk, field)
            if not is_taken:
                if given is None and len(new) and not field.nullable:
                    raise InvalidArgumentError(
                        f"data: column {field.name!r} is missing, and must have values: "
                        f"{len(new)} of the rows are new"
                    )
                more = (
                    pa.nulls(len(new), field.type)
                    if given is None
                    else gather_array(given, pa.array(new))
                )
                both = pa.concat_arrays([_array(there.column(field.name)), more])
                given = gather_array(both, pa.array(place))
            arrays.append(given)
        return pa.Table.from_arrays(arrays, schema=rows.schema)


def _given(chunk: pa.Table, field: pa.Field) -> pa.Array | None:
    """A column of the source as the table has it; ``None``: it has none."""
    if field.name not in chunk.column_names:
        return None
    column = _array(chunk.column(field.name))
    return column if column.type.equals(field.type) else column.cast(field.type)


def _array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _places(found: dict[int, RowSet], first: int, count: int) -> tuple[Positions, RowNumbers]:
    """(file or -1, row in it) that each of some neighbouring keys has."""
    file = np.full(count, _NOWHERE, dtype=np.int64)
    row = np.zeros(count, dtype=np.uint64)
    for number, some in found.items():
        begin, end = np.searchsorted(numbers(some), (first, first + count))
        at = numbers(some)[begin:end] - first
        file[at], row[at] = number, some.begin[begin:end]
    return file, row


def _same(one: dict[str, RowSet], other: dict[str, RowSet]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(rows.begin, other[path].begin)
        and np.array_equal(numbers(rows), numbers(other[path]))
        for path, rows in one.items()
    )


def _leads(names: Sequence[str], keys: Sequence[SortKey]) -> bool:
    """Whether rows in the order of unique ``names`` are in that of ``keys``."""
    return all(
        key.column == name and not key.descending for key, name in zip(keys, names, strict=False)
    ) and bool(keys)


def upsert_change(
    data: Any,
    metadata: ice.Metadata,
    files_of: FilesOf,
    *,
    update: Sequence[str] | None,
    when_matched: WhenMatched,
    duplicates: Duplicates,
) -> Upsert:
    """The upsert of some rows into a table; :meth:`Table.upsert` says what it means.

    Raises:
        InvalidArgumentError: the table has no primary key, or the arguments or data do not fit.
        DuplicateKeyError: a key comes twice in the data.
    """
    name, primary = ".".join(metadata.name), metadata.primary_key()
    schema = metadata.schema()
    if not primary:
        raise InvalidArgumentError(f"upsert: {name} has no primary key, which rows are found by")
    if when_matched not in get_args(WhenMatched):
        raise InvalidArgumentError(
            f"when_matched: expected one of {', '.join(map(repr, get_args(WhenMatched)))}, "
            f"got {when_matched!r}"
        )
    taken = None if update is None else [output_name(name) for name in column_names(update) or ()]
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
    return Upsert(source, ids, files_of, when_matched, taken)
