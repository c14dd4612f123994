"""Converts arrays between nested types: fields are matched, renamed, widened, added or dropped.

A table's rows are written with the schema of that day and read with today's schema. The caller
decides how fields match: by name when rows are written, by field id when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import is_bytes, is_list, is_text

Convert: TypeAlias = Callable[[pa.Array], pa.Array]
# Returns the position of the existing field that matches the target field, or None.
Match: TypeAlias = Callable[[pa.Field, Sequence[pa.Field]], int | None]
# Returns the value of a missing field; raises if the field must not be missing.
Missing: TypeAlias = Callable[[pa.Field, str], pa.Scalar]
# Raises if values of one type may not become values of the other.
Check: TypeAlias = Callable[[pa.DataType, pa.DataType, str], None]


def converter(
    have: pa.DataType, target: pa.DataType, match: Match, missing: Missing, check: Check, place: str
) -> Convert | None:
    """A function that converts arrays of type ``have`` to ``target``; ``None`` if they are equal.

    Args:
        place: names the column in messages.
    """
    if pt.is_dictionary(have):
        inner = converter(have.value_type, target, match, missing, check, place)
        plain = have.value_type
        return lambda array: _then(array.cast(plain), inner)
    if isinstance(have, pa.BaseExtensionType) and have != target:
        inner = converter(have.storage_type, target, match, missing, check, place)
        return lambda array: _then(array.storage, inner)
    if pt.is_struct(target) and pt.is_struct(have):
        return _struct(have, target, match, missing, check, place)
    if pt.is_list(target) and is_list(have):
        return _list(have, target, match, missing, check, place)
    if pt.is_map(target) and pt.is_map(have):
        return _map(have, target, match, missing, check, place)
    if have.equals(target):
        return None
    if pt.is_nested(target) or pt.is_nested(have):
        if not pt.is_null(have):
            raise InvalidArgumentError(f"{place} is {have}, expected {target}")
    else:
        check(have, target, place)

    def cast(array: pa.Array) -> pa.Array:
        try:
            return array.cast(target)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(f"{place}: {have} to {target}: {error}") from error

    return cast


def _then(array: pa.Array, convert: Convert | None) -> pa.Array:
    return array if convert is None else convert(array)


def repeated(scalar: pa.Scalar, length: int) -> pa.Array:
    """An array that repeats a value for each row."""
    return pa.repeat(scalar, length) if scalar.is_valid else pa.nulls(length, scalar.type)


def _struct(
    have: pa.StructType,
    target: pa.StructType,
    match: Match,
    missing: Missing,
    check: Check,
    place: str,
) -> Convert | None:
    fields = [have.field(i) for i in range(have.num_fields)]
    parts: list[tuple[int | None, Convert | None, pa.Scalar | None]] = []
    for field in (target.field(i) for i in range(target.num_fields)):
        at = match(field, fields)
        inner = f"{place}.{field.name}"
        if at is None:
            parts.append((None, None, missing(field, inner)))
        else:
            convert = converter(fields[at].type, field.type, match, missing, check, inner)
            parts.append((at, convert, None))
    same = [at for at, _, _ in parts] == list(range(len(fields)))
    if same and not any(convert for _, convert, _ in parts):
        names = [field.name for field in fields]
        nullable = [field.nullable for field in fields]
        targets = [target.field(i) for i in range(target.num_fields)]
        if names == [t.name for t in targets] and nullable == [t.nullable for t in targets]:
            return None

    def convert_struct(array: pa.Array) -> pa.Array:
        children = array.flatten()
        arrays = [
            repeated(scalar, len(array)) if scalar is not None else _then(children[at], convert)
            for at, convert, scalar in parts
        ]
        targets = [target.field(i) for i in range(target.num_fields)]
        if array.null_count:
            valid = array.is_valid()
            arrays = [
                child if field.nullable else _filled(child, valid)
                for child, field in zip(arrays, targets, strict=True)
            ]
            made = pa.StructArray.from_arrays(
                arrays, fields=[t.with_nullable(True) for t in targets], mask=array.is_null()
            )
            return pa.Array.from_buffers(
                target, len(made), made.buffers()[:1], made.null_count, children=arrays
            )
        return pa.StructArray.from_arrays(arrays, fields=targets)

    return convert_struct


def _filled(array: pa.Array, valid: pa.Array) -> pa.Array:
    """Replaces nulls of required members below null structs by some value."""
    import pyarrow.compute as pc  # slow to import, and seldom needed

    return pc.if_else(valid, array, pa.scalar(_any_value(array.type), array.type))


def _any_value(kind: pa.DataType) -> Any:
    """A non-null Python value of a type."""
    if pt.is_struct(kind):
        return {field.name: None if field.nullable else _any_value(field.type) for field in kind}
    if is_list(kind) or pt.is_map(kind):
        return []
    if pt.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    if is_text(kind) or is_bytes(kind):
        return "" if is_text(kind) else b""
    if pt.is_decimal(kind):
        return Decimal(0)
    zero = pa.scalar(0, pa.int32() if kind.bit_width <= 32 else pa.int64())
    return zero.cast(kind, safe=False).as_py()


def _list(
    have: pa.DataType, target: pa.ListType, match: Match, missing: Missing, check: Check, place: str
) -> Convert | None:
    convert = converter(
        have.value_type, target.value_type, match, missing, check, f"{place}.element"
    )
    plain = pa.list_(have.value_field)
    if convert is None and pt.is_list(have):
        return None if have.equals(target) else lambda array: array.cast(target)

    def convert_list(array: pa.Array) -> pa.Array:
        lists = array if pt.is_list(have) else array.cast(plain)
        values = _then(lists.values, convert)
        return pa.Array.from_buffers(
            target, len(lists), lists.buffers()[:2], -1, lists.offset, children=[values]
        )

    return convert_list


def _map(
    have: pa.MapType, target: pa.MapType, match: Match, missing: Missing, check: Check, place: str
) -> Convert | None:
    keys = converter(have.key_type, target.key_type, match, missing, check, f"{place}.key")
    items = converter(have.item_type, target.item_type, match, missing, check, f"{place}.value")
    if keys is None and items is None and have.equals(target):
        return None

    def convert_map(array: pa.Array) -> pa.Array:
        entries = pa.StructArray.from_arrays(
            [_then(array.keys, keys), _then(array.items, items)],
            fields=[target.key_field, target.item_field],
        )
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:2], -1, array.offset, children=[entries]
        )

    return convert_map
