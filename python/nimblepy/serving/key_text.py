"""Converts key values to the text that a server reads. See docs/reference/serving.md."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FIRST_DAY = -719_162  # 0001-01-01, in days since 1970
_DAYS_OF_CYCLE = 146_097


class NoKeyTextError(InvalidArgumentError):
    """The value has no text, and no value of a server's column equals it."""


def key_text(values: Iterable[pa.Scalar], types: Iterable[pa.DataType]) -> bytes:
    """Returns the values of a key as text, joined by ``:``. ``types`` are the columns' types."""
    return b":".join(
        rb"\N" if not value.is_valid else _escaped(value_text(value, type))
        for value, type in zip(values, types, strict=True)
    )


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b":", rb"\:")


def value_text(value: pa.Scalar, declared: pa.DataType) -> bytes:
    """Returns the text of one value. ``declared`` is the type of the column."""
    kind = value.type
    if pa.types.is_date(kind):
        days, rest = divmod(value.value, 1 if pa.types.is_date32(kind) else 86_400_000)
        if rest:
            raise NoKeyTextError(
                f"key {value.value} ms cannot be sent to a server: a {kind} must be a whole day"
            )
        return _date_text(days).encode()
    if pa.types.is_timestamp(kind):
        days, time = divmod(value.value, 86_400 * 10 ** _DIGITS[kind.unit])
        zone = "" if kind.tz is None else "Z"
        return f"{_date_text(days)}T{_time_text(time, kind.unit)}{zone}".encode()
    if pa.types.is_time(kind):
        return _time_text(value.value, kind.unit).encode()
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
        if not -256 <= kind.scale <= 256:
            raise InvalidArgumentError(
                f"a key of type {kind} cannot be sent to a server: its scale is outside [-256, 256]"
            )
        return f"{plain:f}".encode() if plain else f"{abs(plain):.{max(kind.scale, 0)}f}".encode()
    if isinstance(plain, (int, float)):
        return repr(plain).encode()
    raise InvalidArgumentError(f"a key of type {kind} cannot be sent to a server")


def _date_text(days: int) -> str:
    """ISO 8601 of any number of days since 1970, in the proleptic Gregorian calendar."""
    # Python's dates have years from 1 to 9999. The calendar repeats every 400 years.
    cycles, rest = divmod(days - _FIRST_DAY, _DAYS_OF_CYCLE)
    date = datetime.date(1, 1, 1) + datetime.timedelta(days=rest)
    year = date.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{date.month:02}-{date.day:02}"


def _time_text(value: int, unit: str) -> str:
    digits = _DIGITS[unit]
    seconds, part = divmod(value, 10**digits)
    minutes, second = divmod(seconds, 60)
    fraction = f".{part:0{digits}}" if digits else ""
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}{fraction}"
