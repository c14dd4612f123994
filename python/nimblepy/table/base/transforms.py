"""Iceberg's partition transforms, applied to whole columns.

=============  ==================================================================
identity       the value
bucket[N]      a hash modulo N (32-bit Murmur 3, as the specification says)
truncate[W]    the first W characters or bytes; integers and decimals rounded down
year, month,   units since 1970-01-01, rounded down
day, hour
=============  ==================================================================
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from itertools import chain, count
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.decimals import decimal_bytes, scaled, unscaled
from nimblepy.schema.names import Path
from nimblepy.schema.plain import plain_array, plain_type
from nimblepy.table.base.values import constant

Apply: TypeAlias = Callable[[pa.Array], pa.Array]

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000
_TIMES = ("year", "month", "day", "hour")
_EXPECTED = (
    '"column", "year(ts)", "month(ts)", "day(ts)", "hour(ts)", "bucket(16, id)" or "truncate(4, s)"'
)


def parse_partition(text: str, schema: pa.Schema) -> tuple[str, str, str]:
    """Parses ``"day(ts)"``, ``"region"`` etc. into (column, Iceberg's transform, field name).

    Raises:
        InvalidArgumentError: the transform or column is unknown, or they do not fit.
    """
    if not isinstance(text, str):
        raise InvalidArgumentError(f"partition_by: expected text such as {_EXPECTED}, got {text!r}")
    whole = schema.get_field_index(text) >= 0
    call = None if whole else _CALL.fullmatch(text)
    if call is None:
        column, transform, suffix = text, "identity", ""
    else:
        column, transform, suffix = _parse_call(text, call[1].lower(), call[2])
    source = resolve_column(schema, column)
    _check_type(text, transform, plain_type(source.type))
    return column, transform, f"{column}_{suffix}" if suffix else column


def free_name(field: tuple[str, str, str], taken: Collection[str]) -> str:
    """Returns a free name for a partition field, similar to ``name``.

    Args:
        taken: names of columns and other fields. An identity of a column may have the column's
            name.
    """
    column, transform, name = field
    _, _, width = transform.partition("[")
    more = (f"{name}_{n}" for n in count(2))
    tried = chain([name, f"{name}_{width[:-1]}"] if width else [name], more)
    own = column if transform == "identity" else None
    return next(text for text in tried if text == own or text not in taken)


def partition_text(transform: str, column: str) -> str:
    """Converts Iceberg's notation of a transform to the notation of :func:`parse_partition`."""
    name, _, width = transform.partition("[")
    if name == "identity":
        return column
    return f"{name}({width[:-1]}, {column})" if width else f"{name}({column})"


def shown_value(transform: str, kind: pa.DataType | None, value: Any) -> str:
    """Returns a partition value in readable form: ``2013-01`` for month 516.

    Args:
        kind: type of the column; ``None`` if it was dropped.
        value: in Iceberg's in-memory form.
    """
    if value is None:
        return "null"
    if transform in _TIMES:
        unit = "h" if transform == "hour" else transform[0].upper()
        return str(np.array(value, f"datetime64[{unit}]"))
    if kind is not None and not transform.startswith("bucket"):
        value = constant(kind, value).as_py()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    is_time = isinstance(value, (datetime.date, datetime.time))
    return value.isoformat() if is_time else str(value)


def _parse_call(text: str, function: str, inside: str) -> tuple[str, str, str]:
    if function in _TIMES:
        return inside.strip(), function, function
    if function not in ("bucket", "truncate"):
        raise InvalidArgumentError(
            f"partition_by {text!r}: unknown transform {function!r}; expected {_EXPECTED}"
        )
    width, comma, column = inside.partition(",")
    if not comma or not width.strip().isdecimal() or not 0 < int(width) < 2**31:
        raise InvalidArgumentError(
            f"partition_by {text!r}: expected {function}(N, column) with N from 1 to 2147483647"
        )
    return (
        column.strip(),
        f"{function}[{int(width)}]",
        "bucket" if function == "bucket" else "trunc",
    )


def _check_type(text: str, transform: str, kind: pa.DataType) -> None:
    name = transform.partition("[")[0]
    date, stamp = pt.is_date32(kind), pt.is_timestamp(kind)
    whole = pt.is_int32(kind) or pt.is_int64(kind)
    words = pt.is_string(kind) or pt.is_binary(kind)
    fits = {
        "identity": not pt.is_nested(kind) and not pt.is_floating(kind),
        "bucket": bool(
            whole
            or words
            or date
            or stamp
            or pt.is_time(kind)
            or pt.is_decimal128(kind)
            or pt.is_fixed_size_binary(kind)
        ),
        "truncate": bool(whole or words or pt.is_decimal128(kind)),
        "hour": bool(stamp),
    }.get(name, bool(date or stamp))
    if not fits:
        why = (
            ": floats are rarely equal, so buckets would not help; use truncate on a decimal"
            * pt.is_floating(kind)
        )
        raise InvalidArgumentError(f"partition_by {text!r}: the column is {kind}{why}")


def transform(text: str, kind: pa.DataType) -> Apply:
    """Returns the function for a transform in Iceberg's notation, for columns of type ``kind``.

    Results are in Iceberg's form: days, months and hours as int32, identities unchanged.
    """
    name, _, width = text.partition("[")
    size = int(width[:-1]) if width else 0
    if name == "identity":
        return plain_array
    if name == "bucket":
        return lambda array: _bucket(plain_array(array), size)
    if name == "truncate":
        return lambda array: _truncate(array, size)
    if name == "void":
        return lambda array: pa.nulls(len(array), kind)
    if name in _TIMES:
        return lambda array: _time(array, name)
    raise InvalidArgumentError(f"partition transform {text!r} is not supported for writing")


def _numbers(array: pa.Array) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Any]:
    """Returns the integers of an array, arbitrary for nulls, and the mask of nulls."""
    if pt.is_date32(array.type):
        array = array.cast(pa.int32())
    mask = array.is_null().to_numpy(zero_copy_only=False)
    whole = array.cast(pa.int64())
    filled = pc.fill_null(whole, 0) if array.null_count else whole
    return filled.to_numpy(zero_copy_only=False).astype(np.int64), mask


def _whole_micros(kind: pa.DataType, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rounds nanoseconds down to microseconds, from which Iceberg computes times and buckets."""
    return values // 1000 if pt.is_timestamp(kind) and kind.unit == "ns" else values


def _array(values: Any, mask: Any, kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=mask if mask.any() else None).cast(kind)


def _time(array: pa.Array, unit: str) -> pa.Array:
    values, mask = _numbers(array)
    values = _whole_micros(array.type, values)
    if unit == "hour":
        return _array(values // _HOUR_US, mask, pa.int32())
    days = values if pt.is_date32(array.type) else values // _DAY_US
    if unit == "day":
        return _array(days, mask, pa.int32())
    step = "M" if unit == "month" else "Y"
    periods = days.astype("datetime64[D]").astype(f"datetime64[{step}]").astype(np.int64)
    return _array(periods, mask, pa.int32())


def _truncate(array: pa.Array, width: int) -> pa.Array:
    kind = array.type
    if pt.is_string(kind):
        return pc.utf8_slice_codeunits(array, 0, width)
    if pt.is_binary(kind):
        return pc.binary_slice(array, 0, width)
    if pt.is_decimal128(kind):
        cut = [_truncate_decimal(v, width, kind) for v in array.to_pylist()]
        try:
            return pa.array(cut, kind)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(f"truncate({width}) of {kind}: {error}") from error
    values, mask = _numbers(array)
    least = np.iinfo(kind.to_pandas_dtype()).min
    if len(values) and int(values.min()) < least - least % width + (width if least % width else 0):
        # Iceberg's result would wrap around, and filters would search the wrong partition.
        raise InvalidArgumentError(
            f"truncate({width}) of {kind}: {int(values.min())} cannot be rounded down"
        )
    return _array(values - values % width, mask, kind)


def _truncate_decimal(value: Decimal | None, width: int, kind: pa.DataType) -> Decimal | None:
    if value is None:
        return None
    whole = unscaled(value, kind.scale)
    return scaled(whole - whole % width, kind.scale)


# ------------------------------------------------------------------ buckets


def _bucket(array: pa.Array, count: int) -> pa.Array:
    kind = array.type
    if pt.is_integer(kind) or pt.is_date32(kind) or pt.is_time(kind) or pt.is_timestamp(kind):
        values, mask = _numbers(array)
        values = _whole_micros(kind, values)
        return _array(_modulo(_murmur_longs(values), count), mask, pa.int32())
    if pt.is_decimal128(kind):
        octets = [None if v is None else decimal_bytes(v, kind.scale) for v in array.to_pylist()]
        array = pa.array(octets, pa.binary())
    elif pt.is_string(kind) or pt.is_fixed_size_binary(kind):
        array = array.cast(pa.binary())
    mask = array.is_null().to_numpy(zero_copy_only=False)
    # Few distinct values are common: hashes each one once.
    coded = array.dictionary_encode()
    hashes = np.array([murmur(v) for v in coded.dictionary.to_pylist()] or [0], dtype=np.uint32)
    codes = pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)
    return _array(_modulo(hashes[codes], count), mask, pa.int32())


def _modulo(hashes: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


_C1, _C2 = 0xCC9E2D51, 0x1B873593


def _murmur_longs(values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, Any]:
    """Returns 32-bit Murmur 3 of every number as its eight little-endian bytes."""
    with np.errstate(over="ignore"):
        halves = np.ascontiguousarray(values.astype("<i8")).view("<u4").reshape(-1, 2)
        state = np.zeros(len(values), dtype=np.uint32)
        for part in (halves[:, 0], halves[:, 1]):
            mixed = part.astype(np.uint32) * np.uint32(_C1)
            mixed = (mixed << np.uint32(15)) | (mixed >> np.uint32(17))
            state ^= mixed * np.uint32(_C2)
            state = (state << np.uint32(13)) | (state >> np.uint32(19))
            state = state * np.uint32(5) + np.uint32(0xE6546B64)
        state ^= np.uint32(8)
        state ^= state >> np.uint32(16)
        state = state * np.uint32(0x85EBCA6B)
        state ^= state >> np.uint32(13)
        state = state * np.uint32(0xC2B2AE35)
        return state ^ (state >> np.uint32(16))


def murmur(data: bytes) -> int:
    """Returns 32-bit Murmur 3 with seed 0."""
    state = 0
    for at in range(0, len(data) & ~3, 4):
        state = _step(state, int.from_bytes(data[at : at + 4], "little"))
        state = ((state << 13) | (state >> 19)) & 0xFFFFFFFF
        state = (state * 5 + 0xE6546B64) & 0xFFFFFFFF
    tail = data[len(data) & ~3 :]
    if tail:
        state = _step(state, int.from_bytes(tail, "little"))
    state ^= len(data)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return state ^ (state >> 16)


def _step(state: int, word: int) -> int:
    mixed = (word * _C1) & 0xFFFFFFFF
    mixed = ((mixed << 15) | (mixed >> 17)) & 0xFFFFFFFF
    return state ^ ((mixed * _C2) & 0xFFFFFFFF)


# ------------------------------------------------------------------ splitting rows


def column_at(table: pa.Table, path: Path) -> pa.ChunkedArray:
    """Returns the column of a table at a path of struct fields."""
    column = table.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def split_rows(keys: Sequence[pa.Array]) -> list[tuple[tuple[Any, ...], pa.Array]]:
    """Yields (values, positions of their rows) for each distinct tuple of values.

    Args:
        keys: results of the transforms, one array per partition field.
    """
    if len(keys) == 1:
        coded = keys[0].dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        dictionaries = [coded.dictionary]
        per_key = [codes]
    else:
        encoded = [key.dictionary_encode(null_encoding="encode") for key in keys]
        dictionaries = [item.dictionary for item in encoded]
        per_key = [item.indices.to_numpy(zero_copy_only=False).astype(np.int64) for item in encoded]
    order = np.lexsort(per_key[::-1])
    if not len(order):
        return []
    changes = np.zeros(len(order), dtype=np.bool_)
    for codes in per_key:
        ordered = codes[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    firsts = np.flatnonzero(changes).tolist()
    groups = []
    for begin, end in zip([0, *firsts], [*firsts, len(order)], strict=True):
        row = order[begin]
        scalars = [d[int(c[row])] for d, c in zip(dictionaries, per_key, strict=True)]
        groups.append((tuple(scalars), pa.array(order[begin:end])))
    return groups
