"""Rows that are to meet those of a table by key: ordered by it, each key once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy.errors import DuplicateKeyError, InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.file.options import WriteOptions
from nimblepy.file.write import Writer
from nimblepy.files.bounds import EncodedKeys
from nimblepy.files.source import key_order
from nimblepy.input.tabular import as_reader
from nimblepy.rows.rowset import Positions
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.types import SortKey
from nimblepy.table.base.types import Conformer

Duplicates: TypeAlias = Literal["error", "last"]

# Arrow bytes that are held in memory; more are sorted in a file.
MEMORY_BYTES = 128 << 20
# Arrow bytes of one chunk of such a file.
CHUNK_BYTES = 32 << 20
# Of files that are read soon, once or twice.
_SAVED = WriteOptions(compression="fast", statistics=False)


class KeyedRows:
    """Rows in the ascending order of a key, each key once, to be read any number of times.

    Those of more than 128 MiB are sorted in a file that has no name.

    Args:
        data: tabular data; columns of ``schema`` that it does not have are left out.
        schema: the columns that there may be.
        key: names of the key's columns.
        duplicates: what is done where a key comes twice: an error, or its last row is taken.
        numbered: the caller knows the rows by their numbers, so that errors say them.
        cast: round and truncate values that the types of ``schema`` do not have.
        drop: leave out columns that ``schema`` does not have.

    Attributes:
        schema: the columns that there are.

    Raises:
        InvalidArgumentError: a column that ``schema`` does not have, one of the key that is
            missing or has a null, a type or value that does not fit.
        DuplicateKeyError: a key comes twice.
    """

    def __init__(
        self,
        data: Any,
        schema: pa.Schema,
        key: Sequence[str],
        *,
        duplicates: Duplicates = "error",
        numbered: bool = True,
        cast: bool = False,
        drop: bool = False,
    ) -> None:
        if duplicates not in ("error", "last"):
            raise InvalidArgumentError(
                f"duplicates: expected 'error' or 'last', got {duplicates!r}"
            )
        self.key = tuple(key)
        reader, _ = as_reader(data, schema, cast=cast)
        conform = Conformer(reader.schema, schema, partial=True, cast=cast, drop=drop)
        self.schema = conform.schema
        missing = [name for name in self.key if name not in self.schema.names]
        if missing:
            raise InvalidArgumentError(
                f"data: column {missing[0]!r} is missing, and is part of the key"
            )
        batches = map(conform, reader)
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > MEMORY_BYTES:
                self._rows: _Held | _Sorted = _Spilled(self.schema, self.key, held, batches)
                break
        else:
            self._rows = _Held(pa.Table.from_batches(held, self.schema), self.key)
        self._again = self._find_again(duplicates, numbered)

    @classmethod
    def saved(cls, path: str, key: Sequence[str], arrow_bytes: int) -> KeyedRows:
        """The rows that :meth:`save` wrote.

        Args:
            arrow_bytes: what they have in memory, as ``save`` gave it.
        """
        found = cls.__new__(cls)
        found.key = tuple(key)
        file = open_file(path)
        found.schema = file.schema
        found._rows = _Sorted(file, file.schema.names, file.num_rows, arrow_bytes)
        found._again = np.empty(0, dtype=np.int64)
        return found

    def save(self, path: str) -> int:
        """Writes the rows to a file; gives the bytes that they have in memory."""
        size = 0
        with Writer(
            path, self.schema, cluster_by=list(self.key), presorted=True, options=_SAVED
        ) as writer:
            for _, chunk in self.chunks():
                size += chunk.nbytes
                writer.write(chunk)
        return size

    def _find_again(self, duplicates: Duplicates, numbered: bool) -> Positions:
        """Places of rows whose key comes again later."""
        found: list[Positions] = []
        last: pa.Table | None = None
        for first, keys in self._rows.chunks(self.key):
            table = keys if last is None else pa.concat_tables([last, keys])
            at = np.flatnonzero(_same_as_next(table)) + (first if last is None else first - 1)
            if len(at) and duplicates == "error":
                place = int(at[0])
                shown = show_key(self._rows.read(place, place + 1, self.key))
                if not numbered:
                    raise DuplicateKeyError(f"the key {shown} is in two rows of the data")
                one, other = self._rows.origin(place), self._rows.origin(place + 1)
                raise DuplicateKeyError(
                    f"the key {shown} is in row {one} and in row {other} of the data; "
                    'duplicates="last" takes the last of them'
                )
            found.append(at)
            last = keys.slice(keys.num_rows - 1)
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    @property
    def num_rows(self) -> int:
        return self._rows.num_rows - len(self._again)

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """(number of its first row, some neighbouring rows), in the order of the key."""
        number = 0
        for first, table in self._rows.chunks(columns):
            begin, end = np.searchsorted(self._again, (first, first + table.num_rows))
            if begin < end:
                kept = np.ones(table.num_rows, dtype=np.bool_)
                kept[self._again[begin:end] - first] = False
                table = table.filter(pa.array(kept))
            if table.num_rows:
                yield number, table
            number += table.num_rows

    def columns_of(self, schema: pa.Schema) -> tuple[list[str], list[pa.Field]]:
        """The columns that a table of ``schema`` still has: their names here, and their fields.

        Columns with a field id have the name that the table gives them now.
        """
        names = {field_id_of(field): field.name for field in schema}
        kept = [
            (field.name, field if number is None else field.with_name(names[number]))
            for field in self.schema
            if (number := field_id_of(field)) is None or number in names
        ]
        return [name for name, _ in kept], [field for _, field in kept]

    def key_chunks(self) -> Iterator[tuple[int, pa.Table]]:
        """:meth:`chunks` of the key alone, in its order of columns."""
        return self.chunks(self.key)


def _same_as_next(keys: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each key but the last is equal to the next, as a lookup has it; nulls never are."""
    batch = pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in keys.columns], keys.column_names
    )
    same = EncodedKeys(batch, [SortKey(name) for name in keys.column_names]).same_as_next()
    for column in batch.columns:
        if column.null_count:
            same &= column.is_valid().to_numpy(zero_copy_only=False)[:-1]
    return same


def show_key(row: pa.Table) -> str:
    """The first row of some key columns, for a message."""
    return ", ".join(f"{name}={value!r}" for name, value in row.slice(0, 1).to_pylist()[0].items())


class _Held:
    """Rows in memory."""

    def __init__(self, table: pa.Table, key: Sequence[str]) -> None:
        table = table.combine_chunks()
        self._order = key_order(table.select(list(key)), [SortKey(name) for name in key], False)
        ordered = (np.diff(self._order) > 0).all()
        self._table = table if ordered else table.take(pa.array(self._order))
        self.num_rows = table.num_rows

    def chunks(self, columns: Sequence[str] | None) -> Iterator[tuple[int, pa.Table]]:
        if self.num_rows:
            yield 0, self.read(0, self.num_rows, columns)

    def read(self, begin: int, end: int, columns: Sequence[str] | None) -> pa.Table:
        rows = self._table.slice(begin, end - begin)
        return rows if columns is None else rows.select(list(columns))

    def origin(self, place: int) -> int:
        """Where the row was in the data."""
        return int(self._order.item(place))


class _Sorted:
    """Rows in a file in the order of the key, of which some are read at a time."""

    def __init__(self, file: File, names: Sequence[str], count: int, arrow_bytes: int) -> None:
        self._file = file
        self._names = list(names)
        self.num_rows = count
        self._chunk = max(1, min(count, CHUNK_BYTES * count // max(arrow_bytes, 1)))

    def chunks(self, columns: Sequence[str] | None) -> Iterator[tuple[int, pa.Table]]:
        for begin in range(0, self.num_rows, self._chunk):
            yield begin, self.read(begin, min(begin + self._chunk, self.num_rows), columns)

    def read(self, begin: int, end: int, columns: Sequence[str] | None) -> pa.Table:
        names = self._names if columns is None else list(columns)
        return self._file.scan(names, row_range=(begin, end)).to_table()

    def origin(self, place: int) -> int:
        """Where the row was in the data, as far as that is known."""
        return place


class _Spilled(_Sorted):
    """Rows that were sorted in a file, each with its number."""

    def __init__(
        self,
        schema: pa.Schema,
        key: Sequence[str],
        held: list[pa.RecordBatch],
        more: Iterator[pa.RecordBatch],
    ) -> None:
        self._number = "row"
        while self._number in schema.names:
            self._number += "_"
        numbered = schema.append(pa.field(self._number, pa.int64(), False))
        descriptor, path = tempfile.mkstemp(suffix=".nimble", prefix="upsert-")
        os.close(descriptor)
        size = 0
        try:
            with Writer(path, numbered, cluster_by=list(key), options=_SAVED) as writer:
                count = 0
                while held:
                    size += held[0].nbytes
                    count = self._write(writer, held.pop(0), count)
                for batch in more:
                    size += batch.nbytes
                    count = self._write(writer, batch, count)
            file = open_file(path)
        finally:
            os.unlink(path)
        super().__init__(file, schema.names, count, size)

    def _write(self, writer: Writer, batch: pa.RecordBatch, count: int) -> int:
        number = pa.array(np.arange(count, count + batch.num_rows))
        field = pa.field(self._number, pa.int64(), False)
        writer.write(batch.append_column(field, number))
        done: int = count + batch.num_rows
        return done

    def origin(self, place: int) -> int:
        found: int = self._file.take([place], [self._number]).column(0)[0].as_py()
        return found
