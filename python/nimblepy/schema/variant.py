"""Variants: values of any type, as Iceberg's and Parquet's type ``variant`` encodes them.

Parquet stores a variant as a group of two binary columns, ``metadata`` with the names of object
fields and ``value``. Columns of tables hold both as one binary value, the metadata first: the
metadata tell their own size. See
https://github.com/apache/parquet-format/blob/master/VariantEncoding.md.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError, UnsupportedVersionError

# The key in the metadata of an Arrow field that is a variant.
VARIANT = b"nimblepy.variant"
# The parts of a variant in a Parquet file. Shredded variants have more.
_PARTS = ("metadata", "value")
_SHREDDED = "typed_value"
STORED = pa.struct([pa.field(name, pa.binary(), nullable=False) for name in _PARTS])

_VERSION = 1
_DEEPEST = 200
# Maximum characters of a JSON text, in addition to a multiple of the encoded bytes.
_FREE_TEXT = 1 << 20
_MOST_TEXT = 64

_EPOCH = dt.datetime(1970, 1, 1)
_UTC_EPOCH = _EPOCH.replace(tzinfo=dt.UTC)


def is_variant(field: pa.Field) -> bool:
    """Returns whether a column of a table is a variant."""
    return VARIANT in (field.metadata or {})


def is_stored(kind: pa.DataType) -> bool:
    """Returns whether a type is that of a variant in a Parquet file."""
    return bool(pt.is_struct(kind)) and {field.name for field in kind} >= {_PARTS[0]}


def check_stored(kind: pa.StructType, place: str) -> None:
    """
    Raises:
        UnsupportedVersionError: the variants are shredded.
        InvalidArgumentError: the type lacks a part of a variant.
    """
    names = sorted(field.name for field in kind)
    if _SHREDDED in names:
        raise UnsupportedVersionError(
            f"{place} is a shredded variant, which nimblepy does not read; write the file again "
            "without shredding"
        )
    if names != sorted(_PARTS) or not all(pt.is_binary(field.type) for field in kind):
        raise InvalidArgumentError(
            f"{place} is {kind}; a variant has the binary fields metadata and value"
        )


def joined(array: pa.StructArray) -> pa.Array:
    """Returns the variants of a Parquet file as values of a column of a table."""
    metadata, value = (array.field(name) for name in _PARTS)
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    pairs = zip(metadata.to_pylist(), value.to_pylist(), is_null.tolist(), strict=True)
    made = [None if null else (head or b"") + (rest or b"") for head, rest, null in pairs]
    return pa.array(made, pa.binary())


def split(array: pa.Array, name: str) -> pa.StructArray:
    """Returns values of a column as Parquet stores variants.

    Raises:
        InvalidArgumentError: a value is not a variant.
    """
    heads, rests = [], []
    for row, octets in enumerate(array.to_pylist()):
        try:
            size = 0 if octets is None else _metadata_size(octets)
        except ValueError as error:
            raise InvalidArgumentError(
                f"column {name!r}, row {row}: not a variant: {error}; expected its metadata, "
                "followed by its value"
            ) from error
        heads.append(b"" if octets is None else octets[:size])
        rests.append(b"" if octets is None else octets[size:])
    is_null = array.is_null()
    parts = [pa.array(heads, pa.binary()), pa.array(rests, pa.binary())]
    return pa.StructArray.from_arrays(parts, fields=list(STORED), mask=is_null)


def variant_json(octets: bytes) -> str:
    """Returns a variant as JSON text.

    Dates, times and UUIDs become text, binary values Base64, and NaN and infinities text.

    Raises:
        ValueError: the bytes are not a variant.
    """
    names, size = _names(octets)
    return _Values(octets[size:], names, _FREE_TEXT + _MOST_TEXT * len(octets)).text()


def _number(octets: bytes, at: int, size: int) -> int:
    if at < 0 or size > len(octets) - at:
        raise ValueError(f"{size} bytes at byte {at}, but there are only {len(octets)}")
    return int.from_bytes(octets[at : at + size], "little")


def _header(octets: bytes) -> tuple[int, int]:
    """Returns the width of the numbers in metadata, and the number of names."""
    head = _number(octets, 0, 1)
    if head & 15 != _VERSION:
        raise ValueError(f"version {head & 15} of the encoding, expected {_VERSION}")
    width = (head >> 6) + 1
    return width, _number(octets, 1, width)


def _metadata_size(octets: bytes) -> int:
    width, count = _header(octets)
    first = 1 + width * (count + 2)
    size = first + _number(octets, 1 + width * (count + 1), width)
    if size >= len(octets):
        raise ValueError(f"metadata of {size} bytes in {len(octets)} bytes leave no value")
    return size


def _names(octets: bytes) -> tuple[list[str], int]:
    """Returns the names in the metadata, and the size of the metadata."""
    size = _metadata_size(octets)
    width, count = _header(octets)
    stored = np.frombuffer(octets, np.uint8, width * (count + 1), 1 + width).reshape(-1, width)
    padded = np.zeros((count + 1, 8), dtype=np.uint8)
    padded[:, :width] = stored
    offsets = padded.view("<u8").reshape(-1).astype(np.int64)
    if offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError("the offsets of names do not ascend from 0")
    first = 1 + width * (count + 2)
    ends = offsets.tolist()
    texts = [octets[first + a : first + b] for a, b in pairwise(ends)]
    return [text.decode() for text in texts], size


class _Values:
    """Converts one value to JSON.

    Every byte belongs to at most one value, so damaged offsets cannot repeat work.
    """

    def __init__(self, octets: bytes, names: list[str], most_text: int) -> None:
        self._octets = octets
        self._names = names
        self._left = len(octets)
        self._text_left = most_text

    def text(self) -> str:
        return self._value(0, 0)

    def _take(self, at: int, size: int) -> bytes:
        if size > len(self._octets) - at:
            raise ValueError(f"{size} bytes at byte {at}, but the value ends before")
        if size > self._left:
            raise ValueError("values overlap")
        self._left -= size
        return self._octets[at : at + size]

    def _checked(self, text: str) -> str:
        self._text_left -= len(text)
        if self._text_left < 0:
            raise ValueError("its JSON is too long")
        return text

    def _value(self, at: int, depth: int) -> str:
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} levels")
        (head,) = self._take(at, 1)
        kind, header = head & 3, head >> 2
        if kind == 1:
            return self._checked(json.dumps(self._take(at + 1, header).decode()))
        if kind == 0:
            return self._checked(self._primitive(header, at + 1))
        is_object = kind == 2
        width = (header & 3) + 1
        id_width = ((header >> 2) & 3) + 1 if is_object else 0
        count_width = 4 if header >> (4 if is_object else 2) & 1 else 1
        count = _number(self._take(at + 1, count_width), 0, count_width)
        at += 1 + count_width
        ids = self._take(at, id_width * count)
        at += len(ids)
        offsets = self._take(at, width * (count + 1))
        at += len(offsets)
        parts = []
        for i in range(count):
            text = self._value(at + _number(offsets, width * i, width), depth + 1)
            if is_object:
                number = _number(ids, id_width * i, id_width)
                if number >= len(self._names):
                    raise ValueError(f"name {number} of {len(self._names)}")
                text = f"{self._checked(json.dumps(self._names[number]))}: {text}"
            parts.append(text)
        together = ", ".join(parts)
        return f"{{{together}}}" if is_object else f"[{together}]"

    def _primitive(self, number: int, at: int) -> str:
        if number in (0, 1, 2):
            return ("null", "true", "false")[number]
        if number in (15, 16):
            size = _number(self._take(at, 4), 0, 4)
            octets = self._take(at + 4, size)
            text = octets.decode() if number == 16 else base64.b64encode(octets).decode()
            return json.dumps(text)
        if number not in _PRIMITIVES:
            raise ValueError(f"the unknown type {number}")
        size, show = _PRIMITIVES[number]
        try:
            return show(self._take(at, size))
        except (OverflowError, ArithmeticError) as error:
            raise ValueError(f"a value of type {number} is out of range: {error}") from error


def _integer(octets: bytes) -> int:
    return int.from_bytes(octets, "little", signed=True)


def _floating(form: str) -> Callable[[bytes], str]:
    def show(octets: bytes) -> str:
        (value,) = struct.unpack(form, octets)
        return repr(value) if math.isfinite(value) else json.dumps(str(value))

    return show


def _decimal(octets: bytes) -> str:
    value = _integer(octets[1:])
    if octets[0] > 38:
        raise ValueError(f"a decimal of scale {octets[0]}")
    digits = tuple(map(int, str(abs(value))))
    return f"{Decimal((value < 0, digits, -octets[0])):f}"


def _moment(zoned: bool, per_second: int) -> Callable[[bytes], str]:
    def show(octets: bytes) -> str:
        seconds, rest = divmod(_integer(octets), per_second)
        moment = (_UTC_EPOCH if zoned else _EPOCH) + dt.timedelta(seconds=seconds)
        digits = f".{rest:0{len(str(per_second)) - 1}}" if rest else ""
        plain = moment.replace(tzinfo=None).isoformat()
        return json.dumps(f"{plain}{digits}{'+00:00' if zoned else ''}")

    return show


def _time(octets: bytes) -> str:
    moment = _EPOCH + dt.timedelta(microseconds=_integer(octets))
    if moment.date() != _EPOCH.date():
        raise ValueError("a time of day above 24 hours")
    return json.dumps(moment.time().isoformat())


def _date(octets: bytes) -> str:
    return json.dumps((_EPOCH + dt.timedelta(days=_integer(octets))).date().isoformat())


def _plain(octets: bytes) -> str:
    return str(_integer(octets))


# Bytes of the primitive types of a fixed size, and how they are shown.
_PRIMITIVES: dict[int, tuple[int, Callable[[bytes], str]]] = {
    3: (1, _plain),
    4: (2, _plain),
    5: (4, _plain),
    6: (8, _plain),
    7: (8, _floating("<d")),
    8: (5, _decimal),
    9: (9, _decimal),
    10: (17, _decimal),
    11: (4, _date),
    12: (8, _moment(True, 10**6)),
    13: (8, _moment(False, 10**6)),
    14: (4, _floating("<f")),
    17: (8, _time),
    18: (8, _moment(True, 10**9)),
    19: (8, _moment(False, 10**9)),
    20: (16, lambda octets: json.dumps(str(uuid.UUID(bytes=octets)))),
}


def plain_json(value: Any) -> Any:
    """Returns a variant as a value of JSON; the bytes themselves if they are not a variant."""
    try:
        return json.loads(variant_json(value))
    except (ValueError, RecursionError):
        return value
