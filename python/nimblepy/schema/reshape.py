"""Arrays of one type as another: fields found by a rule, renamed, widened, added, left out.

A table's rows are written as its schema of that day and read as its schema of today. What belongs
together is said by the caller: names where rows come in, field ids where they are read.
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
# The position of the field, among those that are there, that a wanted field is; None: none is.
Match: TypeAlias = Callable[[pa.Field, Sequence[pa.Field]], int | None]
# What a field that is not there is read as; raises where that must not be.
Missing: TypeAlias = Callable[[pa.Field, str], pa.Scalar]
# Raises where the values of a type may not become those of another; called with their place.
Check: TypeAlias = Callable[[pa.DataType, pa.DataType, str], None]


def converter(
    have: pa.DataType, wanted: pa.DataType, match: Match, missing: Missing, check: Check, place: str
) -> Convert | None:
    """Turns arrays of type ``have`` into such of type ``wanted``; ``None``: they are that.

    Args:
        place: names the column in messages.
    """
    if pt.is_dictionary(have):
        inner = converter(have.value_type, wanted, match, missing, check, place)
        plain = have.value_type
        return lambda array: _then(array.cast(plain), inner)
    if isinstance(have, pa.BaseExtensionType) and have != wanted:
        inner = converter(have.storage_type, wanted, match, missing, check, place)
        return lambda array: _then(array.storage, inner)
    if pt.is_struct(wanted) and pt.is_struct(have):
        return _struct(have, wanted, match, missing, check, place)
    if pt.is_list(wanted) and is_list(have):
        return _list(have, wanted, match, missing, check, place)
    if pt.is_map(wanted) and pt.is_map(have):
        return _map(have, wanted, match, missing, check, place)
    if have.equals(wanted):
        return None
    if pt.is_nested(wanted) or pt.is_nested(have):
        if not pt.is_null(have):
            raise InvalidArgumentError(f"{place} is {have}, expected {wanted}")
    else:
        check(have, wanted, place)

    def cast(array: pa.Array) -> pa.Array:
        try:
            return array.cast(wanted)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(f"{place}: {have} to {wanted}: {error}") from error

    return cast


def _then(array: pa.Array, convert: Convert | None) -> pa.Array:
    return array if convert is None else convert(array)


def repeated(scalar: pa.Scalar, length: int) -> pa.Array:
    """A value as often as there are rows."""
    return pa.repeat(scalar, length) if scalar.is_valid else pa.nulls(length, scalar.type)


def _struct(
    have: pa.StructType,
    wanted: pa.StructType,
    match: Match,
    missing: Missing,
    check: Check,
    place: str,
) -> Convert | None:
    fields = [have.field(i) for i in range(have.num_fields)]
    parts: list[tuple[int | None, Convert | None, pa.Scalar | None]] = []
    for field in (wanted.field(i) for i in range(wanted.num_fields)):
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
        targets = [wanted.field(i) for i in range(wanted.num_fields)]
        if names == [t.name for t in targets] and nullable == [t.nullable for t in targets]:
            return None

    def convert_struct(array: pa.Array) -> pa.Array:
        children = array.flatten()
        arrays = [
            repeated(scalar, len(array)) if scalar is not None else _then(children[at], convert)
            for at, convert, scalar in parts
        ]
        targets = [wanted.field(i) for i in range(wanted.num_fields)]
        if array.null_count:
            valid = array.is_valid()
            arrays = [
                child if target.nullable else _filled(child, valid)
                for child, target in zip(arrays, targets, strict=True)
            ]
            made = pa.StructArray.from_arrays(
                arrays, fields=[t.with_nullable(True) for t in targets], mask=array.is_null()
            )
            return pa.Array.from_buffers(
                wanted, len(made), made.buffers()[:1], made.null_count, children=arrays
            )
        return pa.StructArray.from_arrays(arrays, fields=targets)

    return convert_struct


def _filled(array: pa.Array, valid: pa.Array) -> pa.Array:
    """Members that must have values, with some value below structs that are null."""
    import pyarrow.compute as pc  # slow to import, and seldom needed

    return pc.if_else(valid, array, pa.scalar(_any_value(array.type), array.type))


def _any_value(kind: pa.DataType) -> Any:
    """A Python value of a type that is no null."""
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
    have: pa.DataType, wanted: pa.ListType, match: Match, missing: Missing, check: Check, place: str
) -> Convert | None:
    convert = converter(
        have.value_type, wanted.value_type, match, missing, check, f"{place}.element"
    )
    plain = pa.list_(have.value_field)
    if convert is None and pt.is_list(have):
        return None if have.equals(wanted) else lambda array: array.cast(wanted)

    def convert_list(array: pa.Array) -> pa.Array:
        lists = array if pt.is_list(have) else array.cast(plain)
        values = _then(lists.values, convert)
        return pa.Array.from_buffers(
            wanted, len(lists), lists.buffers()[:2], -1, lists.offset, children=[values]
        )

    return convert_list


def _map(
    have: pa.MapType, wanted: pa.MapType, match: Match, missing: Missing, check: Check, place: str
) -> Convert | None:
    keys = converter(have.key_type, wanted.key_type, match, missing, check, f"{place}.key")
    items = converter(have.item_type, wanted.item_type, match, missing, check, f"{place}.value")
    if keys is None and items is None and have.equals(wanted):
        return None

    def convert_map(array: pa.Array) -> pa.Array:
        entries = pa.StructArray.from_arrays(
            [_then(array.keys, keys), _then(array.items, items)],
            fields=[wanted.key_field, wanted.item_field],
        )
        return pa.Array.from_buffers(
            wanted, len(array), array.buffers()[:2], -1, array.offset, children=[entries]
        )

    return convert_map
