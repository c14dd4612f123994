"""Reads rows of a Parquet file by their numbers, page by page."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.io.location import Location
from nimblepy.io.remote_file import REMOTE_GAP
from nimblepy.rows.source import MAX_PREPARED

# Codecs that pyarrow decompresses, by their numbers in Parquet. The core itself decompresses zstd,
# and checks sizes first: if a page is too short, pyarrow leaves the other bytes uninitialized.
_CODECS = {1: "snappy", 7: "lz4_raw"}
_GZIP = 2
# zlib's code for detecting gzip or zlib by the header.
_ANY_HEADER = 32 + 15
_made: dict[int, pa.Codec] = {}

# Footer and page table of a file, as bytes; see cpp/nimble/parquet/parquet_file.h.
Described = tuple[bytes, bytes]


def decompress(codec: int, data: memoryview, size: int) -> Any:
    """Decompresses a page to ``size`` bytes; ``None`` if it is damaged."""
    if codec == _GZIP:
        return _gunzip(data, size)
    made = _made.get(codec)
    if made is None:
        made = _made[codec] = pa.Codec(_CODECS[codec])
    try:
        return made.decompress(data, decompressed_size=size)
    except (OSError, pa.ArrowInvalid):
        return None


def _gunzip(data: memoryview, size: int) -> bytes | None:
    """Returns exactly ``size`` bytes; ``None`` if the size or the checksum is wrong."""
    if size == 0:  # zlib interprets 0 as no limit
        return b""
    stream = zlib.decompressobj(_ANY_HEADER)
    try:
        found = stream.decompress(data, size)
        if not stream.eof:  # only the trailer may follow, no further data
            rest = stream.decompress(stream.unconsumed_tail, 1)
            if rest or not stream.eof:
                return None
    except zlib.error:
        return None
    return found if len(found) == size else None


def _core_file(location: Location) -> Any:
    return location.core_path if location.is_local else location.open()


def describe(location: Location) -> Described | None:
    """Returns the footer and page table of a file; ``None`` if only pyarrow can read it.

    Raises:
        CorruptFileError: the file is not a Parquet file, or is damaged.

    Cost: reads the footer and the offset indexes, or the header of each page.
    """
    described: Described | None = _core.describe_parquet(
        _core_file(location), location.path, REMOTE_GAP
    )
    return described


def stored_type(type_: pa.DataType) -> pa.DataType:
    """Returns the type in which the core reads a column: without extensions and dictionaries."""
    if isinstance(type_, pa.BaseExtensionType):
        return stored_type(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return stored_type(type_.value_type)
    return type_


def _as_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, _as_type(array, type_.storage_type))
    encoded = array.dictionary_encode()
    return encoded.cast(type_)


class PageReader:
    """Reads some rows of some columns. Thread-safe.

    Attributes:
        schema: top-level columns with pyarrow's types.
    """

    def __init__(
        self,
        location: Location,
        described: Described,
        schema: pa.Schema,
        pages: _core.ParquetPages,
    ) -> None:
        self.schema = schema
        footer, page_table = described
        stored = pa.schema([pa.field(f.name, stored_type(f.type), f.nullable) for f in schema])
        self._core = _core.ParquetFile(
            _core_file(location),
            location.path,
            REMOTE_GAP,
            footer,
            page_table,
            stored,
            pages,
            decompress,
        )
        # Readers of single rows by their columns; None if the core cannot convert their values.
        self._rows: dict[tuple[int, ...], Any] = {}

    @property
    def num_rows(self) -> int:
        return self._core.num_rows

    def unsupported(self, column: int) -> str:
        """Returns why the core cannot read a column; empty if the metadata shows no reason."""
        return self._core.unsupported(column)

    def read(self, columns: Sequence[int], rows: np.ndarray[Any, Any]) -> pa.Table | None:
        """Reads columns of ascending, distinct rows; ``None`` if pyarrow must read them.

        Raises:
            CorruptFileError: a page is damaged; the message has its offset.
        """
        capsules = self._core.read(columns, np.ascontiguousarray(rows, dtype=np.uint64))
        if capsules is None:
            return None
        batch = pa.RecordBatch._import_from_c_capsule(*capsules)
        fields = [self.schema.field(i) for i in columns]
        arrays = [
            _as_type(array, field.type) for array, field in zip(batch.columns, fields, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def row(self, columns: tuple[int, ...], row: int) -> dict[str, Any] | None:
        """Reads columns of one row as Python values; ``None`` if pyarrow must read them."""
        rows = self._rows.get(columns, self)
        if rows is self:
            # Values of dictionaries are converted like other values.
            plain = all(_is_plain(self.schema.field(i).type) for i in columns)
            if len(self._rows) > MAX_PREPARED:
                self._rows.clear()
            rows = self._rows[columns] = self._core.rows(columns) if plain else None
        if rows is not None:
            values: dict[str, Any] | None = rows.read(row)
            return values
        table = self.read(columns, np.array((row,), dtype=np.uint64))
        return None if table is None else table.to_pylist()[0]


def _is_plain(type_: pa.DataType) -> bool:
    """Whether stored values have the Python values of the type."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return not isinstance(type_, pa.BaseExtensionType)
