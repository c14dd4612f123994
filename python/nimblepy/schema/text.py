"""Parses quoted text as a value of a column type, for SQL and the command line."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import family, value_type
from nimblepy.schema.zones import localize

# Maximum number of digits to parse as an integer. The longest decimals have 76.
_MOST_DIGITS = 100


def is_uuid(data_type: pa.DataType) -> bool:
    """Returns whether the type is UUID, and not just 16 bytes."""
    return bool(getattr(data_type, "extension_name", "") == "arrow.uuid")


def uuid_of(text: str) -> uuid.UUID:
    """Parses a UUID in any of the usual forms."""
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise InvalidArgumentError(f"type mismatch: {text!r} is not a UUID") from error


def is_uuid_size(data_type: pa.DataType) -> bool:
    """Returns whether the type is 16 bytes, which is how tables store UUIDs."""
    return bool(pt.is_fixed_size_binary(data_type) and data_type.byte_width == 16)


def spelled_uuid(data_type: pa.DataType, text: str) -> uuid.UUID | None:
    """Parses text for a 16-byte column as a UUID, if it has 32 digits in five groups.

    Other text stands for its bytes.
    """
    if not is_uuid_size(data_type) or len(text) != 36 or text.count("-") != 4:
        return None
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def is_spelled(data_type: pa.DataType) -> bool:
    """Returns whether text in a key is parsed as a value of the type. True for times and UUIDs.

    Text for a column of numbers is rejected, because it is usually a mistake.
    """
    if is_uuid(data_type) or is_uuid_size(data_type):
        return True
    return family(value_type(data_type)) in ("date", "instant", "time")


def parse_text(data_type: pa.DataType, text: str) -> object:
    """Parses a quoted SQL literal to a value comparable with ``data_type``, as SQL casts it.

    A time without an offset is in the column's time zone.

    Raises:
        InvalidArgumentError: the text is not a value of that type.
    """
    if is_uuid(data_type):
        return uuid_of(text)
    if is_uuid_size(data_type):
        value = spelled_uuid(data_type, text)
        if value is None:
            raise InvalidArgumentError(f"type mismatch: {text!r} is neither bytes nor a UUID")
        return value
    data_type = value_type(data_type)
    kind = family(data_type)
    if kind == "text":
        return text
    try:
        if kind == "number":
            stripped = text.strip().lower()
            if pt.is_floating(data_type) and stripped.lstrip("+-") in ("inf", "infinity", "nan"):
                return float(stripped)
            number = Decimal(stripped)
            if not number.is_finite():
                return float(number)
            whole = number.adjusted() <= _MOST_DIGITS and number == number.to_integral_value()
            return int(number) if whole else number
        if kind == "bool":
            return {"true": True, "t": True, "false": False, "f": False}[text.strip().lower()]
        if kind == "time":
            clock = datetime.time.fromisoformat(text.strip())
            if clock.tzinfo is None:  # a time of day has no date, so no offset can be applied
                return clock
        if kind in ("date", "instant"):
            return _parse_instant(data_type, text.strip())
    except (ValueError, KeyError, ArithmeticError, pa.ArrowInvalid):
        pass
    raise InvalidArgumentError(f"type mismatch: {text!r} is not a value of type {data_type}")


def _parse_instant(data_type: pa.DataType, text: str) -> pa.Scalar:
    scalar = pa.scalar(text)
    if pt.is_date(data_type) and len(text) == 10:
        return scalar.cast(pa.date32())
    zone = data_type.tz if pt.is_timestamp(data_type) else None
    units = [data_type.unit] if pt.is_timestamp(data_type) else []
    for unit in [*units, "us", "ns"]:
        try:
            if zone is None:
                return scalar.cast(pa.timestamp(unit))
            try:
                return scalar.cast(pa.timestamp(unit, zone))
            except pa.ArrowInvalid:
                naive = scalar.cast(pa.timestamp(unit))
                return localize(naive, zone)
        except pa.ArrowInvalid:
            continue
    raise ValueError(text)
