"""Rows and keys as bytes, for key-value stores.

A value is a packed row: fixed-width fields in one `struct`, then the strings and lists.  A lookup
decodes it, as every reader of a key-value store must: `get` to the same dict of Python values
that nimblepy gives, batches to tuples of plain numbers and strings (days for a date, cents for a
decimal), which is less work than a Python object for each.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from bench.peers.peer import NoGoodAnswer

EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
SIGN = 1 << 63


class Field:
    """How values of one column are packed, and turned back into Python values."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.raw = kind  # the Arrow type with the packed bits
        self.python: Callable[[Any], Any] | None = None
        self.code = ""
        if pa.types.is_decimal(kind):
            scale = -kind.scale
            self.code, self.raw = "q", pa.int64()
            self.python = lambda v: Decimal(v).scaleb(scale)
        elif pa.types.is_date32(kind):
            self.code, self.raw = "i", pa.int32()
            self.python = lambda v: datetime.date.fromordinal(v + EPOCH_DAY)
        elif pa.types.is_timestamp(kind):
            self.code, self.raw = "q", pa.int64()
            self.python = lambda v: EPOCH + datetime.timedelta(microseconds=v)
        elif pa.types.is_boolean(kind):
            self.code = "?"
        elif pa.types.is_floating(kind):
            self.code = {16: "e", 32: "f", 64: "d"}[kind.bit_width]
        elif pa.types.is_integer(kind):
            self.code = {8: "b", 16: "h", 32: "i", 64: "q"}[kind.bit_width]
        elif not (pa.types.is_string(kind) or pa.types.is_list(kind)):
            raise NoGoodAnswer(f"column of type {kind}")

    @property
    def fixed(self) -> bool:
        return bool(self.code)

    def values(self, column: pa.Array) -> list[Any]:
        """Packed values; None for null."""
        if pa.types.is_decimal(self.kind):
            # totals fit 64 bits: the low word of every pair
            words = np.frombuffer(column.buffers()[1], np.int64)
            low = words[2 * column.offset : 2 * (column.offset + len(column)) : 2].tolist()
            if column.null_count == 0:
                return low
            return [
                v if ok else None for v, ok in zip(low, column.is_valid().to_pylist(), strict=True)
            ]
        return (column if self.raw == self.kind else column.view(self.raw)).to_pylist()


def _read_text(value: bytes, begin: int, end: int) -> str:
    return str(value[begin:end], "utf-8")


def _read_floats(value: bytes, begin: int, end: int) -> list[float]:
    return list(struct.unpack_from(f"<{(end - begin) // 4}f", value, begin))


class Layout:
    """Null bits, fixed fields, lengths of the others, then their bytes."""

    def __init__(self, schema: pa.Schema) -> None:
        self.names = schema.names
        self.fields = [Field(f.type) for f in schema]
        self.fixed = [i for i, f in enumerate(self.fields) if f.fixed]
        self.loose = [i for i, f in enumerate(self.fields) if not f.fixed]
        codes = "".join(self.fields[i].code for i in self.fixed)
        self.head = struct.Struct("<Q" + codes + "I" * len(self.loose))
        self.readers = [
            _read_text if pa.types.is_string(self.fields[i].kind) else _read_floats
            for i in self.loose
        ]
        self.order = self.fixed + self.loose
        self.convert = [(self.names[i], self.fields[i].python) for i in self.order]

    def pack(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        columns = [f.values(c) for f, c in zip(self.fields, batch.columns, strict=True)]
        pack = self.head.pack
        for row in zip(*columns, strict=True):
            nulls = 0
            if None in row:
                nulls = sum(1 << i for i, value in enumerate(row) if value is None)
            loose = [self.to_bytes(row[i]) for i in self.loose]
            fixed = [0 if row[i] is None else row[i] for i in self.fixed]
            yield pack(nulls, *fixed, *map(len, loose)) + b"".join(loose)

    @staticmethod
    def to_bytes(value: Any) -> bytes:
        if value is None:
            return b""
        if isinstance(value, str):
            return value.encode()
        return np.array(value, np.float32).tobytes()

    def unpack(self, value: bytes) -> list[Any]:
        """Null bits, then plain values in the order of `self.order`."""
        out = list(self.head.unpack_from(value))
        at = self.head.size
        for i, read in enumerate(self.readers, 1 + len(self.fixed)):
            end = at + out[i]
            out[i] = read(value, at, end)
            at = end
        return out

    def row(self, value: bytes) -> dict[str, Any]:
        packed = self.unpack(value)
        nulls = packed[0]
        row = {
            name: made if python is None else python(made)
            for (name, python), made in zip(self.convert, packed[1:], strict=True)
        }
        if nulls:
            for i, name in enumerate(self.names):
                if nulls >> i & 1:
                    row[name] = None
        return row

    def picker(self, columns: list[str]) -> Callable[[bytes], tuple[Any, ...]]:
        """Decodes some columns; strings only where they are asked for."""
        places = [1 + self.order.index(self.names.index(name)) for name in columns]
        if max(places) <= len(self.fixed):
            unpack = self.head.unpack_from

            def only_fixed(value: bytes) -> tuple[Any, ...]:
                packed = unpack(value)
                return tuple([packed[i] for i in places])

            return only_fixed

        first = 1 + len(self.fixed)
        wanted = {place: i for i, place in enumerate(places) if place >= first}
        last = max(wanted)

        def some(value: bytes) -> tuple[Any, ...]:
            packed = self.head.unpack_from(value)
            out = [packed[i] for i in places]
            at = self.head.size
            for place in range(first, last + 1):
                end = at + packed[place]
                if place in wanted:
                    out[wanted[place]] = self.readers[place - first](value, at, end)
                at = end
            return tuple(out)

        return some


class KeyCodec:
    """Bytes that sort as the key does: big-endian numbers, strings ended by a zero byte."""

    def __init__(self, schema: pa.Schema, key: Sequence[str]) -> None:
        self.parts = [self._part(schema.field(name).type) for name in key]
        if len(key) == 1 and pa.types.is_string(schema.field(key[0]).type):
            self.parts = [str.encode]  # needs no end

    @staticmethod
    def _part(kind: pa.DataType) -> Callable[[Any], bytes]:
        if pa.types.is_integer(kind):
            return lambda v: (v + SIGN).to_bytes(8)
        if pa.types.is_timestamp(kind):
            micro = datetime.timedelta(microseconds=1)
            return lambda v: ((v - EPOCH) // micro + SIGN).to_bytes(8)
        if pa.types.is_string(kind):
            return lambda v: v.encode() + b"\0"
        raise NoGoodAnswer(f"key of type {kind}")

    def one(self, key: Any) -> bytes:
        if len(self.parts) == 1:
            return self.parts[0](key)
        return b"".join([part(value) for part, value in zip(self.parts, key, strict=True)])

    def all(self, keys: pa.Table) -> list[bytes]:
        """The same for many, a column at a time."""
        columns = [self._encoded(c.combine_chunks()) for c in keys.columns]
        if len(columns) == 1:
            return columns[0]
        return [b"".join(parts) for parts in zip(*columns, strict=True)]

    def _encoded(self, column: pa.Array) -> list[bytes]:
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0)
        if pa.types.is_string(column.type):
            end = b"" if len(self.parts) == 1 else b"\0"
            return [text.encode() + end for text in column.to_pylist()]
        if pa.types.is_timestamp(column.type):
            column = column.view(pa.int64())
        values = column.cast(pa.int64()).to_numpy()
        big = (values.view(np.uint64) + np.uint64(SIGN)).astype(">u8").tobytes()
        return [big[i : i + 8] for i in range(0, len(big), 8)]

    def prefix(self, first: Any) -> tuple[bytes, bytes]:
        """Half-open range of the keys whose first column is `first`."""
        start = self.parts[0](first)
        return start, (int.from_bytes(start) + 1).to_bytes(len(start))


def as_table(layout: Layout, columns: list[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows of a `Layout.picker` as Arrow, for the comparison of answers."""
    arrays = []
    for i, name in enumerate(columns):
        field = layout.fields[layout.names.index(name)]
        values = [row[i] for row in rows]
        if field.python is not None:
            values = [None if v is None else field.python(v) for v in values]
        arrays.append(pa.array(values, field.kind))
    return pa.table(arrays, names=columns)
