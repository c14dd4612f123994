"""Converts batches to the columns and types of a schema.

Lossless conversions are automatic: to wider numbers, finer time units, and other text or dictionary
types. Other conversions need ``cast=True`` and are checked value by value.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.convert import stored
from nimblepy.schema.field_ids import match_by_name
from nimblepy.schema.kinds import is_bytes, is_list, is_text, widens
from nimblepy.schema.plain import plain_type
from nimblepy.schema.reshape import Rules, UnfitError, converter

_UNITS = ("s", "ms", "us", "ns")


def keeps_values(have: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether the conversion of a column from ``have`` to ``target`` is lossless.

    The conversion to a finer time unit may still overflow. It then raises an error.
    """
    have, target = plain_type(have), plain_type(target)
    if have == target or pt.is_null(have):
        return True
    if pt.is_decimal(target):
        return _fits_decimal(have, target)
    if pt.is_timestamp(have) and pt.is_timestamp(target):
        same_clock = (have.tz is None) == (target.tz is None)
        return same_clock and _finer(have.unit, target.unit)
    for is_kind in (pt.is_duration, pt.is_time):
        if is_kind(have) and is_kind(target):
            return _finer(have.unit, target.unit)
    if pt.is_struct(have) and pt.is_struct(target):
        names = [item.name for item in have]
        return names == [item.name for item in target] and all(
            keeps_values(a.type, b.type) for a, b in zip(have, target, strict=True)
        )
    if pt.is_map(have) and pt.is_map(target):
        return keeps_values(have.key_type, target.key_type) and keeps_values(
            have.item_type, target.item_type
        )
    if is_list(have) and is_list(target):
        same_size = not pt.is_fixed_size_list(target) or (
            pt.is_fixed_size_list(have) and have.list_size == target.list_size
        )
        return same_size and keeps_values(have.value_type, target.value_type)
    if is_bytes(have) and is_bytes(target):
        return not pt.is_fixed_size_binary(target)
    return widens(have, target)


def _fits_decimal(have: pa.DataType, target: pa.DecimalType) -> bool:
    if pt.is_decimal(have):
        digits, scale = have.precision - have.scale, have.scale
    elif pt.is_integer(have):
        digits, scale = len(str(2**have.bit_width)), 0
    else:
        return False
    return bool(digits <= target.precision - target.scale and scale <= target.scale)


def _finer(have: str, target: str) -> bool:
    return _UNITS.index(have) <= _UNITS.index(target)


def conform(batch: pa.RecordBatch, schema: pa.Schema, *, cast: bool = False) -> pa.RecordBatch:
    """Returns ``batch`` with the columns, order and types of ``schema``. Matches columns by name.

    Args:
        cast: also convert to types that cannot represent every value. A value that does not fit
            raises an error.

    Raises:
        InvalidArgumentError: a column is missing or unknown, or its type or a value does not fit.
            The error names the column and both types.
    """
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    if sorted(names) != sorted(schema.names):
        missing = [name for name in schema.names if name not in names]
        extra = [name for name in names if name not in schema.names]
        raise InvalidArgumentError(
            f"columns do not match the schema: missing {missing}, unknown {extra}"
        )
    if names != schema.names:
        batch = batch.select(schema.names)
    if batch.schema.types == schema.types:
        return batch
    arrays = [
        _conform_column(item, column, cast)
        for item, column in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _conform_column(field: pa.Field, column: pa.Array, cast: bool) -> pa.Array:
    if column.type == field.type:
        return column
    what = f"column {field.name!r} is {column.type}, the schema says {field.type}"
    if not cast and not keeps_values(column.type, field.type):
        raise InvalidArgumentError(
            f"{what}, which cannot represent all of its values; pass cast=True to convert the "
            "values that fit and raise for others, or cast the column"
        )
    try:
        return converted(column, field.type, f"column {field.name!r}")
    except UnfitError as error:
        row = "" if error.row is None else f"row {error.row}: "
        raise InvalidArgumentError(f"{what}: {row}{error.text}") from error
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"{what}: {error}") from error


def converted(array: pa.Array, target: pa.DataType, place: str = "the column") -> pa.Array:
    """Returns the values of ``array`` as ``target``.

    Raises:
        UnfitError: a value would change.
        InvalidArgumentError: no value of the array's type can be converted to ``target``.
    """
    convert = converter(array.type, target, _RULES, place)
    return array if convert is None else convert(array)


def _missing(field: pa.Field, place: str) -> pa.Scalar:
    raise InvalidArgumentError(f"{place} is missing")


_RULES = Rules(match_by_name, _missing, stored(checked=True))


def common_schema(schemas: Sequence[pa.Schema], names: Sequence[str]) -> pa.Schema:
    """Returns a schema that can hold the columns of all ``schemas``.

    A column is nullable if one of the schemas does not have it.

    Args:
        names: where each schema comes from, for messages.

    Raises:
        InvalidArgumentError: no type can represent the types that a column has in two schemas.
    """
    common = schemas[0]
    for schema, name in zip(schemas[1:], names[1:], strict=True):
        if schema.equals(common):
            continue
        for item in schema:
            at = common.get_field_index(item.name)
            if at < 0:
                common = common.append(item.with_nullable(True))
                continue
            field = common.field(at)
            if field.type != item.type:
                merged = _common_type(field.type, item.type)
                if merged is None:
                    raise InvalidArgumentError(
                        f"column {item.name!r} is {item.type} in {name} and {field.type} before; "
                        "no type can represent both; cast one of them, or create the table with a "
                        "schema, to which the values are converted"
                    )
                field = field.with_type(merged)
            common = common.set(at, field.with_nullable(field.nullable or item.nullable))
        for at, field in enumerate(common):
            if schema.get_field_index(field.name) < 0 and not field.nullable:
                common = common.set(at, field.with_nullable(True))
    return common


def _common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    for wider, other in ((a, b), (b, a)):
        if keeps_values(other, wider):
            return wider
    if is_text(plain_type(a)) and is_text(plain_type(b)):
        return pa.large_string()
    try:
        merged = pa.unify_schemas(
            [pa.schema([("c", plain_type(a))]), pa.schema([("c", plain_type(b))])],
            promote_options="permissive",
        )
    except pa.ArrowException:
        return None
    return merged.field(0).type


def with_missing(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns ``batch`` with nulls for the columns of ``schema`` that it does not have."""
    for item in schema:
        if batch.schema.get_field_index(item.name) < 0:
            batch = batch.append_column(item, pa.nulls(batch.num_rows, item.type))
    return batch
