"""Source rows of a change by key: sorted by the key, without duplicates."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import DuplicateKeyError, InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.file.options import WriteOptions
from nimblepy.file.write import Writer
from nimblepy.files.bounds import EncodedKeys
from nimblepy.input.tabular import as_reader
from nimblepy.rows.rowset import Positions
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.types import SortKey
from nimblepy.table.base.types import Conformer

Duplicates: TypeAlias = Literal["error", "last"]

# Maximum Arrow bytes of rows to hold in memory; larger sources are sorted in a file.
MEMORY_BYTES = 128 << 20
# Arrow bytes of one chunk that is read from such a file.
CHUNK_BYTES = 32 << 20
# Write options for files that are soon read once or twice.
_SAVED = WriteOptions(compression="fast", statistics=False)


class KeyedRows:
    """Rows in ascending order of a key, without duplicates, which can be read repeatedly.

    Rows above 128 MiB are sorted in an unnamed file.

    Args:
        data: tabular data; columns of ``schema`` may be missing.
        schema: the allowed columns.
        key: names of the key's columns.
        duplicates: ``"error"`` raises for a duplicate key; ``"last"`` uses its last row.
        numbered: errors name the numbers of rows in ``data``.
        cast: round or truncate values that ``schema``'s types cannot represent.
        drop: ignore columns that ``schema`` does not have.

    Attributes:
        schema: the columns of the data.

    Raises:
        InvalidArgumentError: an unknown column; a missing or null column of the key; a type or
            value that does not fit.
        DuplicateKeyError: a key occurs twice.
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
                f"data: column {missing[0]!r} is missing; every column of the key is required"
            )

        def conformed(batch: pa.RecordBatch) -> pa.RecordBatch:
            """Returns the batch with the types of ``schema``.

            Calls ``conform`` only if a value needs conversion, or a column that must not have nulls
            has some.
            """
            if batch.schema.names == self.schema.names and conform.keeps_values:
                columns = zip(self.schema, batch.columns, strict=True)
                if all(field.nullable or not column.null_count for field, column in columns):
                    return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
            return conform(batch)

        batches = map(conformed, reader)
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
        """Opens the rows that :meth:`save` wrote.

        Args:
            arrow_bytes: the bytes of the rows in memory, as ``save`` returned them.
        """
        opened = cls.__new__(cls)
        opened.key = tuple(key)
        file = open_file(path)
        opened.schema = file.schema
        opened._rows = _Sorted(file, file.schema.names, file.num_rows, arrow_bytes)
        opened._again = np.empty(0, dtype=np.int64)
        return opened

    def save(self, path: str) -> int:
        """Writes the rows to a file, and returns their bytes in memory."""
        size = 0
        with Writer(
            path, self.schema, cluster_by=list(self.key), presorted=True, options=_SAVED
        ) as writer:
            for _, chunk in self.chunks():
                size += chunk.nbytes
                writer.write(chunk)
        return size

    def _find_again(self, duplicates: Duplicates, numbered: bool) -> Positions:
        """Returns the positions of rows whose key occurs again in a later row."""
        places: list[Positions] = []
        last: pa.Table | None = None
        for first, keys in self._rows.chunks(self.key):
            table = keys if last is None else pa.concat_tables([last, keys])
            at = np.flatnonzero(_same_as_next(table)) + (first if last is None else first - 1)
            if len(at) and duplicates == "error":
                place = int(at[0])
                shown = show_key(self._rows.read(place, place + 1, self.key))
                if not numbered:
                    raise DuplicateKeyError(
                        f"the key {shown} is in two rows of the data; keys must be unique"
                    )
                one, other = self._rows.origin(place), self._rows.origin(place + 1)
                raise DuplicateKeyError(
                    f"the key {shown} is in row {one} and in row {other} of the data; "
                    'duplicates="last" keeps only the last row of each key'
                )
            places.append(at)
            last = keys.slice(keys.num_rows - 1)
        return np.concatenate(places) if places else np.empty(0, dtype=np.int64)

    @property
    def num_rows(self) -> int:
        return self._rows.num_rows - len(self._again)

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yields (number of the first row, consecutive rows) in key order."""
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
        """Returns the columns that a table with ``schema`` still has: their names in this source,
        and their fields.

        Columns are matched by field id. The fields have the table's current names.
        """
        names = {field_id_of(field): field.name for field in schema}
        kept = [
            (field.name, field if number is None else field.with_name(names[number]))
            for field in self.schema
            if (number := field_id_of(field)) is None or number in names
        ]
        return [name for name, _ in kept], [field for _, field in kept]

    def key_chunks(self) -> Iterator[tuple[int, pa.Table]]:
        """Yields :meth:`chunks` with only the key's columns, in the order of the key."""
        return self.chunks(self.key)


def _same_as_next(keys: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns whether each key except the last equals the next one. Nulls are never equal."""
    batch = pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in keys.columns], keys.column_names
    )
    same = EncodedKeys(batch, [SortKey(name) for name in keys.column_names]).same_as_next()
    for column in batch.columns:
        if column.null_count:
            same &= column.is_valid().to_numpy(zero_copy_only=False)[:-1]
    return same


def show_key(row: pa.Table) -> str:
    """Returns the key of the first row, for a message."""
    return ", ".join(f"{name}={value!r}" for name, value in row.slice(0, 1).to_pylist()[0].items())


class _Held:
    """Rows in memory."""

    def __init__(self, table: pa.Table, key: Sequence[str]) -> None:
        table = table.combine_chunks()
        keys = table.select(list(key)).to_batches()
        self._order = _core.key_order(keys, [(False, False)] * len(key), False)
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
        """Returns the number of the row in the data."""
        return int(self._order.item(place))


class _Sorted:
    """Rows in a file that is sorted by the key. They are read in chunks."""

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
        """Returns the number of the row in the file. Its number in the data is not known."""
        return place


class _Spilled(_Sorted):
    """Rows of the data in a sorted file, each with its number in the data."""

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
        number: int = self._file.take([place], [self._number]).column(0)[0].as_py()
        return number
