"""Converts columns of Python values to the types of a schema.

pyarrow infers one type for all values of a column. That would lose time zones and nanoseconds, and
fails for columns that mix UUIDs and text, or decimals and floats. Values in such columns are
converted one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.convert import each, has_times, mixes_times, stored
from nimblepy.schema.field_ids import match_by_name
from nimblepy.schema.kinds import is_bytes, is_list
from nimblepy.schema.reshape import Rules, UnfitError, converter
from nimblepy.schema.values import show

# float32 represents all integers up to _EXACT. Integers from _BEYOND on are not checked here.
_EXACT, _BEYOND = 1 << 24, 1 << 127


def typed_column(
    name: str, values: Sequence[Any], target: pa.DataType, cast: bool, first_row: int = 0
) -> pa.Array:
    """Converts a column of Python values to the type ``target``.

    Args:
        cast: whether to round or truncate values that the type cannot represent.
        first_row: the number of the first value, for messages.

    Raises:
        InvalidArgumentError: the type cannot represent a value; the message names the column, the
            row and the value.
    """
    try:
        return typed_array(values, target, cast, f"column {name!r}")
    except _ExtraFieldError:
        return pa.array(values)
    except UnfitError as error:
        raise InvalidArgumentError(error.message(f"column {name!r}", first_row)) from None


def typed_array(
    values: Sequence[Any], target: pa.DataType, cast: bool, place: str = ""
) -> pa.Array:
    """Converts Python values as :func:`typed_column` does.

    Raises:
        UnfitError: the type cannot represent a value.
    """
    return _column(values, target, cast, place)


def _column(values: Sequence[Any], target: pa.DataType, cast: bool, place: str) -> pa.Array:
    if pt.is_nested(target) and (has_times(target) or _has_maps(target)):
        return _nested(values, target, cast, place)
    if pt.is_temporal(target) and mixes_times(values):
        return each(values, target)
    _refuse_mixtures(values, target, cast)
    try:
        array = pa.array(values, from_pandas=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return (
            _nested(values, target, cast, place) if pt.is_nested(target) else each(values, target)
        )
    return converted(array, target, cast, place)


def _refuse_mixtures(values: Sequence[Any], target: pa.DataType, cast: bool) -> None:
    """Rejects values that pyarrow would change because of other values in the column."""
    if is_bytes(target):  # pyarrow would encode text among bytes
        for row, value in enumerate(values):
            if isinstance(value, str):
                raise UnfitError(
                    row, f"{show(value)} is text, but the column is {target}; encode it"
                )
    elif (
        pt.is_float32(target) and not cast
    ):  # integers among floats are floats, which may be rounded
        for row, value in enumerate(values):
            large = isinstance(value, int) and _EXACT < abs(value) < _BEYOND
            if large and int(np.float32(value)) != value:
                raise UnfitError(row, f"{value} is not a value of {target}", "round it")


def _has_maps(data_type: pa.DataType) -> bool:
    """Returns whether a type contains maps. pyarrow would infer structs for their values."""
    if pt.is_struct(data_type):
        return any(_has_maps(item.type) for item in data_type)
    if is_list(data_type):
        return _has_maps(data_type.value_type)
    return bool(pt.is_map(data_type))


def converted(array: pa.Array, target: pa.DataType, cast: bool, place: str) -> pa.Array:
    """Converts an array of values of Python code or of text."""
    rules = Rules(match_by_name, _null, stored(cast=cast, literals=True), _extra)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    convert = converter(array.type, target, rules, place)
    return array if convert is None else convert(array)


def _null(field: pa.Field, place: str) -> pa.Scalar:
    if not field.nullable:
        raise InvalidArgumentError(f"data: {place} is missing, and must have values")
    return pa.scalar(None, field.type)


class _ExtraFieldError(Exception):
    """A struct has a field that the table does not have. The later conversion handles it."""


def _extra(field: pa.Field, place: str) -> None:
    raise _ExtraFieldError


def _nested(values: Sequence[Any], target: pa.DataType, cast: bool, place: str) -> pa.Array:
    """Converts Python structs, lists and maps. Their members are converted column by column."""
    missing = np.array([value is None for value in values], dtype=np.bool_)
    mask = pa.array(missing) if missing.any() else None
    if pt.is_struct(target):
        rows = [{} if value is None else _as(Mapping, i, value) for i, value in enumerate(values)]
        names = dict.fromkeys(name for row in rows for name in row)
        fields = {item.name: item for item in target}
        arrays, made = [], []
        for name in names:
            if name not in fields:
                _extra(pa.field(str(name), pa.null()), f"{place}.{name}")
            members = [row.get(name) for row in rows]
            arrays.append(_column(members, fields[name].type, cast, f"{place}.{name}"))
            made.append(pa.field(name, arrays[-1].type))
        array = pa.StructArray.from_arrays(arrays, fields=made, mask=mask)
        return converted(array, target, cast, place)
    lists = [[] if value is None else _items(i, value) for i, value in enumerate(values)]
    offsets = np.concatenate([[0], np.cumsum([len(items) for items in lists])]).astype(np.int32)
    flat = [item for items in lists for item in items]
    try:
        if pt.is_map(target):
            keys = _column([k for k, _ in flat], target.key_type, cast, f"{place}.key")
            items = _column([v for _, v in flat], target.item_type, cast, f"{place}.value")
            pairs = pa.MapArray.from_arrays(pa.array(offsets, mask=_ends(missing)), keys, items)
            return converted(pairs, target, cast, place)
        elements = _column(flat, target.value_type, cast, f"{place}.element")
    except UnfitError as error:
        if error.row is not None:
            error.row = int(np.searchsorted(offsets, error.row, "right")) - 1
        raise
    array = pa.ListArray.from_arrays(pa.array(offsets), elements, mask=mask)
    return converted(array, target, cast, place)


def _ends(missing: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns the null mask of the offsets: a null offset makes the map that begins there null."""
    return np.append(missing, False)


def _as(kind: type, row: int, value: Any) -> Any:
    if not isinstance(value, kind):
        raise UnfitError(row, f"{show(value)} is not a {kind.__name__.lower()}")
    return value


def _items(row: int, value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (str, bytes)):
        raise UnfitError(row, f"{show(value)} is not a list")
    try:
        return list(value)
    except TypeError:
        raise UnfitError(row, f"{show(value)} is not a list") from None
