"""Converts batches to the columns and types of a schema.

Conversions that keep every value are automatic: wider numbers, finer time units, other text and
dictionary types. Others need ``cast=True`` and are checked value by value.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import is_bytes, is_list, is_text, widens
from nimblepy.schema.plain import plain_array, plain_type

_UNITS = ("s", "ms", "us", "ns")


def keeps_values(have: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column of type ``have`` can be converted to ``target`` without losing anything.

    A finer time unit may still overflow, which raises an error then.
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
    """``batch`` with the columns of ``schema``, matched by name, in their order and types.

    Args:
        cast: also make conversions that may lose values, if no value is lost.

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
        result = converted(column, field.type)
        if _may_round(column.type, field.type):
            back = converted(result, plain_type(column.type))
            same = same_values(plain_array(column), back)
            if not pc.all(same).as_py():
                at = pc.index(same, False).as_py()
                raise InvalidArgumentError(f"{what}: row {at}: {column[at]} would be {result[at]}")
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"{what}: {error}") from error
    return result


def _may_round(have: pa.DataType, target: pa.DataType) -> bool:
    """Whether pyarrow's checked cast may round: between floats and decimals."""
    have, target = plain_type(have), plain_type(target)
    return bool(
        (pt.is_floating(have) and (pt.is_decimal(target) or pt.is_floating(target)))
        or (pt.is_decimal(have) and pt.is_floating(target))
    )


def same_values(before: pa.Array, after: pa.Array) -> pa.BooleanArray:
    """Whether each value is equal in both arrays of one type; nulls and NaN equal themselves.

    Args:
        after: null where ``before`` is null.
    """
    equal = pc.fill_null(pc.equal(before, after), True)
    if pt.is_floating(before.type):
        both = pc.and_(pc.is_nan(before), pc.is_nan(after))
        equal = pc.or_(equal, pc.fill_null(both, True))
    return equal


def converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    """``array`` converted to ``target``.

    Raises:
        pyarrow.ArrowException: a value would change, or pyarrow does not support the conversion.
    """
    if array.type == target:
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), target)
    if isinstance(target, pa.BaseExtensionType):
        return target.wrap_array(converted(plain_array(array), target.storage_type))
    if pt.is_dictionary(target):
        if pt.is_dictionary(array.type):  # converts each distinct value once
            values = converted(array.dictionary, target.value_type)
            indices = array.indices.cast(target.index_type)
        else:
            encoded = plain_array(array).dictionary_encode()
            values = converted(encoded.dictionary, target.value_type)
            indices = encoded.indices.cast(target.index_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=target.ordered)
    if pt.is_dictionary(array.type):
        values = converted(plain_array(array.dictionary), plain_type(target))
        return converted(values.take(array.indices), target)
    if pt.is_run_end_encoded(target):
        return pc.run_end_encode(
            converted(array, target.value_type), run_end_type=target.run_end_type
        )
    array = plain_array(array)
    if pt.is_struct(target) and pt.is_struct(array.type):
        fields = [converted(array.field(item.name), item.type) for item in target]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=mask)
    return array.cast(target)


def common_schema(schemas: Sequence[pa.Schema], names: Sequence[str]) -> pa.Schema:
    """The schema that can hold the columns of all ``schemas``. Columns that some lack are nullable.

    Args:
        names: names of the schemas' origins, for messages.

    Raises:
        InvalidArgumentError: two types of one column have no common type.
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
                        "no type can represent both; cast one of them"
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
    """``batch`` with nulls for the columns of ``schema`` that it does not have."""
    for item in schema:
        if batch.schema.get_field_index(item.name) < 0:
            batch = batch.append_column(item, pa.nulls(batch.num_rows, item.type))
    return batch
