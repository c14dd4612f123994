"""CAST and TRY_CAST, with DuckDB's conversions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.arrays import NARROW, plain, plain_type
from nimblepy.expr.numbers import as_decimal, as_float, compare, decimal_type, multiply, round_to
from nimblepy.schema.decimals import scaled
from nimblepy.schema.kinds import family, is_bytes, is_text
from nimblepy.schema.text import parse_text
from nimblepy.schema.values import show

_WIDE = Context(prec=100)  # independent of the caller's decimal context
_TYPES: dict[str, pa.DataType] = {
    "boolean bool logical": pa.bool_(),
    "tinyint int1": pa.int8(),
    "smallint int2 int16 short": pa.int16(),
    "integer int int4 int32 signed": pa.int32(),
    "bigint int8 int64 long": pa.int64(),
    "hugeint int128": pa.decimal128(38, 0),
    "utinyint uint8": pa.uint8(),
    "usmallint uint16": pa.uint16(),
    "uinteger uint32": pa.uint32(),
    "ubigint uint64": pa.uint64(),
    "float float4 real": pa.float32(),
    "double float8": pa.float64(),
    "varchar text string char bpchar": pa.string(),
    "blob bytea binary varbinary": pa.binary(),
    "uuid": pa.uuid(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp datetime timestamp_us": pa.timestamp("us"),
    "timestamp_s": pa.timestamp("s"),
    "timestamp_ms": pa.timestamp("ms"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
TYPES = {name: data_type for names, data_type in _TYPES.items() for name in names.split()}


def type_named(name: str) -> pa.DataType | None:
    """The type with this SQL name, such as ``decimal(9,2)``, in lower case; ``None`` if unknown."""
    plain_name, _, sizes = name.partition("(")
    numbers = [int(size) for size in sizes.rstrip(")").split(",") if size.isdigit()]
    if plain_name in ("decimal", "numeric", "dec"):
        precision, scale = (*(numbers or [18, 3]), 0)[:2]
        return (
            decimal_type(precision, scale) if 0 < precision <= 76 and scale <= precision else None
        )
    if numbers and plain_name not in ("varchar", "text", "string", "char", "bpchar"):
        return None
    return TYPES.get(plain_name)


def type_name(data_type: pa.DataType) -> str:
    """The name of a type, for messages."""
    if pt.is_decimal(data_type):
        return f"decimal({data_type.precision}, {data_type.scale})"
    return "uuid" if isinstance(data_type, pa.UuidType) else str(data_type)


def cast(value: pa.Array, source: pa.DataType, target: pa.DataType, lenient: bool) -> pa.Array:
    """Casts ``value`` from the SQL type ``source`` to ``target``.

    Args:
        lenient: convert values that cannot be converted to null, as TRY_CAST does.

    Raises:
        InvalidArgumentError: a value cannot be converted, or the two types do not convert.
    """
    storage = plain_type(target)
    if pt.is_null(value.type):
        return pa.nulls(len(value), storage)
    if source == target or (value.type == storage and _is_uuid(source) == _is_uuid(target)):
        return value
    kind, goal = family(value.type), family(storage)
    if _is_uuid(target):
        if kind == "text" and is_text(value.type):
            return _each(value, lambda text: parse_uuid(text), storage, target, lenient)
    elif _is_uuid(source):
        if is_text(storage):
            return _each(value, show_uuid, storage, target, lenient)
    elif is_text(storage):
        return _to_text(value)
    elif kind == "text" and is_text(value.type):
        return _from_text(value, target, lenient)
    elif goal == "bool" and kind == "number":
        return compare("!=", value, pa.scalar(0))
    elif goal == "number" and kind in ("number", "bool"):
        return _to_number(value, storage, lenient)
    elif {kind, goal} <= {"date", "instant"} or (kind == "instant" and goal == "time"):
        return _to_time(value, storage)
    elif kind == goal == "text":
        return value.cast(storage)
    elif kind == goal == "time":
        return value.cast(storage, safe=False)
    raise InvalidArgumentError(f"cannot cast {type_name(source)} to {type_name(target)}")


def _is_uuid(data_type: pa.DataType) -> bool:
    return getattr(data_type, "extension_name", "") == "arrow.uuid"


def _checked(value: pa.Array, fits: pa.Array, target: pa.DataType, lenient: bool) -> pa.Array:
    """Replaces values that do not fit by null if ``lenient``; otherwise raises an error."""
    fits = pc.fill_null(fits, True)
    if pc.all(fits, min_count=0).as_py():
        return value
    if not lenient:
        first = value.filter(pc.invert(fits))[0]
        raise InvalidArgumentError(f"{show(first)} is no {type_name(target)}")
    return pc.if_else(fits, value, pa.scalar(None, value.type))


# ------------------------------------------------------------------ numbers


def _to_number(value: pa.Array, target: pa.DataType, lenient: bool) -> pa.Array:
    if pt.is_floating(target):
        floats = as_float(value, target)
        overflow = pc.and_(pc.is_inf(floats), pc.invert(pc.is_inf(as_float(value, pa.float64()))))
        return _checked(floats, pc.invert(overflow), target, lenient)
    if pt.is_decimal(target):
        return _to_decimal(value, target, lenient)
    low, high = _limits(target)
    if pt.is_floating(value.type):
        # Unlike ROUND, casts round halves to even.
        value = pc.round(value.cast(pa.float64()), 0, "half_to_even")
        fits = pc.and_(pc.greater_equal(value, float(low)), pc.less(value, float(high + 1)))
        return _checked(value, fits, target, lenient).cast(target)
    if pt.is_boolean(value.type):
        return value.cast(pa.int8()).cast(target)
    if pt.is_decimal(value.type):
        value = as_decimal(round_to(value, 0))
        value = value.cast(decimal_type(max(value.type.precision - value.type.scale, 1), 0))
        fits = _between(value, low, high)
        return _checked(value, fits, target, lenient).cast(target)
    try:
        return value.cast(target)
    except pa.ArrowInvalid:
        fits = _between(value, low, high)
        return _checked(value, fits, target, lenient).cast(target)


def _between(value: pa.Array, low: int, high: int) -> pa.Array:
    ends = pa.scalar(Decimal(low)), pa.scalar(Decimal(high))
    return pc.and_(compare(">=", value, ends[0]), compare("<=", value, ends[1]))


def _limits(data_type: pa.DataType) -> tuple[int, int]:
    bits = data_type.bit_width
    if pt.is_unsigned_integer(data_type):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _to_decimal(value: pa.Array, target: pa.DataType, lenient: bool) -> pa.Array:
    precision, scale = target.precision, target.scale
    most = scaled(10**precision - 1, scale)
    if pt.is_floating(value.type):
        numbers = round_to(pc.multiply(value.cast(pa.float64()), 10.0**scale), 0)
        fits = pc.less(pc.abs(numbers), 10.0**precision)
        numbers = _checked(numbers, fits, target, lenient)
        if precision <= NARROW:
            decimals = numbers.cast(pa.int64()).cast(pa.decimal128(19, 0))
        else:
            texts = [None if n is None else Decimal(int(n)) for n in numbers.to_pylist()]
            decimals = pa.array(texts, pa.decimal256(precision + 1, 0))
        whole = decimal_type(decimals.type.precision + scale, scale)
        decimals = multiply(decimals, pa.scalar(Decimal(1).scaleb(-scale))).cast(whole)
    else:
        decimals = as_decimal(round_to(value, scale) if pt.is_decimal(value.type) else value)
        decimals = _checked(
            decimals, compare("<=", pc.abs(decimals), pa.scalar(most)), target, lenient
        )
        up = decimal_type(
            min(decimals.type.precision + max(scale - decimals.type.scale, 0), 76), scale
        )
        decimals = decimals.cast(up)
    if precision > 38:
        return decimals.cast(target)
    return plain(decimals.cast(pa.decimal128(precision, scale)))


# ------------------------------------------------------------------ time


def _to_time(value: pa.Array, target: pa.DataType) -> pa.Array:
    if pt.is_date(value.type):
        naive = value.cast(pa.timestamp(target.unit))
        return _in_zone(naive, target)
    zone = value.type.tz
    if pt.is_timestamp(target) and target.tz is not None:
        value = value if zone else pc.assume_timezone(
            value, target.tz, ambiguous="earliest", nonexistent="latest"
        )  # fmt: skip
        return value.cast(target, safe=False)
    if zone is not None:
        value = pc.local_timestamp(value)
    if pt.is_date(target):
        return pc.floor_temporal(value, unit="day").cast(target, safe=False)
    if pt.is_time(target):
        return value.cast(pa.timestamp("us"), safe=False).cast(target)
    if ("s", "ms", "us", "ns").index(target.unit) < ("s", "ms", "us").index(
        value.type.unit if value.type.unit != "ns" else "us"
    ):
        value = pc.round_temporal(value, unit={"s": "second", "ms": "millisecond"}[target.unit])
        return value.cast(target, safe=False)
    return value.cast(target, safe=value.type.unit != "ns")


def _in_zone(naive: pa.Array, target: pa.DataType) -> pa.Array:
    if target.tz is None:
        return naive
    return pc.assume_timezone(naive, target.tz, ambiguous="earliest", nonexistent="latest")


# ------------------------------------------------------------------ text


def each_value(
    value: pa.Array, function: Callable[[Any], Any], result_type: pa.DataType
) -> pa.Array:
    """Calls ``function`` once for each distinct value; nulls remain null."""
    encoded = value.dictionary_encode()
    results = [function(item) for item in encoded.dictionary.to_pylist()]
    return pa.array(results, result_type).take(encoded.indices)


def _each(
    value: pa.Array,
    function: Callable[[Any], Any],
    result_type: pa.DataType,
    target: pa.DataType,
    lenient: bool,
) -> pa.Array:
    def convert(item: Any) -> Any:
        try:
            return None if item is None else function(item)
        except (ValueError, KeyError, ArithmeticError, InvalidArgumentError):
            if lenient:
                return None
            raise InvalidArgumentError(f"{show(item)} is no {type_name(target)}") from None

    return each_value(value, convert, result_type)


def parse_uuid(text: str) -> bytes:
    """Parses a UUID, with or without hyphens and braces."""
    digits = text.strip("{}").replace("-", "")
    if len(digits) != 32:
        raise ValueError(text)
    return bytes.fromhex(digits)


def show_uuid(octets: bytes) -> str:
    digits = octets.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def parse_bytes(text: str) -> bytes:
    r"""Parses text to bytes; ``\xff`` stands for one byte.

    Raises:
        ValueError: a backslash is followed by something else, or a character is not ASCII.
    """
    first, *rest = text.split("\\")
    octets = first.encode("ascii")
    for part in rest:
        if part[:1] != "x" or len(part) < 3:
            raise ValueError(text)
        octets += bytes.fromhex(part[1:3]) + part[3:].encode("ascii")
    return octets


_BOOLS = {"true": True, "t": True, "1": True, "yes": True, "y": True,
          "false": False, "f": False, "0": False, "no": False, "n": False}  # fmt: skip


def _from_text(value: pa.Array, target: pa.DataType, lenient: bool) -> pa.Array:
    storage = plain_type(target)
    if pt.is_binary(storage):
        return _each(value, parse_bytes, storage, target, lenient)
    if pt.is_boolean(storage):
        return _each(value, lambda text: _BOOLS[text.strip().lower()], storage, target, lenient)
    if pt.is_floating(storage) or pt.is_integer(storage) or pt.is_date(storage):
        try:
            return value.cast(storage)  # plain numbers and dates
        except pa.ArrowInvalid:
            pass
    if pt.is_floating(storage):
        kind = np.float32 if storage.bit_width == 32 else np.float64
        return _each(value, lambda text: kind(text.strip()), storage, target, lenient)
    if family(storage) == "number":
        numbers = _each(value, _parse_number, pa.decimal256(76, 30), target, lenient)
        return _to_number(numbers, storage, lenient)
    if family(storage) in ("date", "instant", "time"):

        def parse(text: str) -> Any:
            parsed = parse_text(target, text)
            return parsed.cast(target, safe=False) if isinstance(parsed, pa.Scalar) else parsed

        return _each(value, parse, storage, target, lenient)
    raise InvalidArgumentError(f"cannot cast text to {target}")


def _parse_number(text: str) -> Decimal:
    try:
        return Decimal(text.strip()).quantize(Decimal("1e-30"), context=_WIDE)
    except InvalidOperation as error:
        raise ValueError(text) from error


def _to_text(value: pa.Array) -> pa.Array:
    data_type = value.type
    if pt.is_floating(data_type):
        kind = np.float32 if data_type.bit_width == 32 else np.float64
        return each_value(value, lambda n: None if n is None else str(kind(n)), pa.string())
    if is_bytes(data_type):
        return each_value(value, lambda n: None if n is None else _show_bytes(n), pa.string())
    if pt.is_decimal(data_type):
        return each_value(as_decimal(value), lambda n: None if n is None else f"{n:f}", pa.string())
    if pt.is_timestamp(data_type):
        text = (pc.local_timestamp(value) if data_type.tz else value).cast(pa.string())
        text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
        text = pc.replace_substring_regex(text, r"\.$", "")
        if data_type.tz:
            offset = pc.strftime(value.cast(pa.timestamp("s", data_type.tz), safe=False), "%z")
            offset = pc.replace_substring_regex(offset, r"^([+-]\d\d)(\d\d)$", r"\1:\2")
            offset = pc.replace_substring(offset, ":00", "")
            return pc.binary_join_element_wise(text, offset, "")
        return text
    if pt.is_time(data_type):
        text = pc.replace_substring_regex(value.cast(pa.string()), r"(\.\d*?)0+$", r"\1")
        return pc.replace_substring_regex(text, r"\.$", "")
    if is_text(data_type) or family(data_type) in ("number", "bool", "date"):
        return value.cast(pa.string())
    raise InvalidArgumentError(f"cannot cast {data_type} to text")


def _show_bytes(octets: bytes) -> str:
    return "".join(
        chr(b) if 32 <= b < 127 and chr(b) not in "\\'\"" else f"\\x{b:02X}" for b in octets
    )
