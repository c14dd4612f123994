"""Converts key values to the text that a server reads. See docs/reference/serving.md."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def key_text(values: Iterable[pa.Scalar], types: Iterable[pa.DataType]) -> bytes:
    """Returns the values of a key as text, joined by ``:``. ``types`` are the columns' types."""
    return b":".join(
        rb"\N" if not value.is_valid else _escaped(_text(value, type))
        for value, type in zip(values, types, strict=True)
    )


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b":", rb"\:")


def _text(value: pa.Scalar, declared: pa.DataType) -> bytes:
    kind = value.type
    if pa.types.is_date(kind):
        days = value.value if pa.types.is_date32(kind) else value.value // 86_400_000
        return str(np.datetime64(days, "D")).encode()
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        return (str(np.datetime64(value.value, kind.unit)) + zone).encode()
    if pa.types.is_time(kind):
        digits = _DIGITS[kind.unit]
        seconds, part = divmod(value.value, 10**digits)
        minutes, second = divmod(seconds, 60)
        fraction = f".{part:0{digits}}" if digits else ""
        return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}{fraction}".encode()
    if pa.types.is_duration(kind):
        return str(value.value).encode()
    if isinstance(declared, pa.UuidType):
        held = value.as_py()
        return str(held if isinstance(held, uuid.UUID) else uuid.UUID(bytes=held)).encode()
    plain = value.as_py()
    if isinstance(plain, bytes):
        return plain
    if isinstance(plain, str):
        return plain.encode()
    if isinstance(plain, bool):
        return b"true" if plain else b"false"
    if pa.types.is_decimal(kind):
        return f"{plain:f}".encode()
    if isinstance(plain, (int, float)):
        return repr(plain).encode()
    raise InvalidArgumentError(f"a key of type {kind} cannot be sent to a server")
