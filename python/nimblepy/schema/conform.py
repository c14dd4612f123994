"""Batches with the columns and types that a schema asks for.

A conversion that keeps every value is made unasked: wider numbers, finer ticks, another way to
write the same text, dictionary or not. Others are only made where the caller says so, and checked
value by value.
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


def keeps_values(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of ``found`` can be written as ``wanted`` without losing anything.

    Ticks of time may still overflow where they become finer, which is an error then.
    """
    found, wanted = plain_type(found), plain_type(wanted)
    if found == wanted or pt.is_null(found):
        return True
    if pt.is_decimal(wanted):
        return _fits_decimal(found, wanted)
    if pt.is_timestamp(found) and pt.is_timestamp(wanted):
        same_clock = (found.tz is None) == (wanted.tz is None)
        return same_clock and _finer(found.unit, wanted.unit)
    for is_kind in (pt.is_duration, pt.is_time):
        if is_kind(found) and is_kind(wanted):
            return _finer(found.unit, wanted.unit)
    if pt.is_struct(found) and pt.is_struct(wanted):
        names = [item.name for item in found]
        return names == [item.name for item in wanted] and all(
            keeps_values(a.type, b.type) for a, b in zip(found, wanted, strict=True)
        )
    if pt.is_map(found) and pt.is_map(wanted):
        return keeps_values(found.key_type, wanted.key_type) and keeps_values(
            found.item_type, wanted.item_type
        )
    if is_list(found) and is_list(wanted):
        same_size = not pt.is_fixed_size_list(wanted) or (
            pt.is_fixed_size_list(found) and found.list_size == wanted.list_size
        )
        return same_size and keeps_values(found.value_type, wanted.value_type)
    if is_bytes(found) and is_bytes(wanted):
        return not pt.is_fixed_size_binary(wanted)
    return widens(found, wanted)


def _fits_decimal(found: pa.DataType, wanted: pa.DecimalType) -> bool:
    if pt.is_decimal(found):
        digits, scale = found.precision - found.scale, found.scale
    elif pt.is_integer(found):
        digits, scale = len(str(2**found.bit_width)), 0
    else:
        return False
    return bool(digits <= wanted.precision - wanted.scale and scale <= wanted.scale)


def _finer(found: str, wanted: str) -> bool:
    return _UNITS.index(found) <= _UNITS.index(wanted)


def conform(batch: pa.RecordBatch, schema: pa.Schema, *, cast: bool = False) -> pa.RecordBatch:
    """``batch`` with the columns of ``schema`` in their order and types; matched by name.

    Args:
        cast: also make conversions that some values may not survive, if these survive them.

    Raises:
        InvalidArgumentError: a column is missing or too many, or has a type or value that the
            schema's does not hold; it is named, with both types.
    """
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    if sorted(names) != sorted(schema.names):
        missing = [name for name in schema.names if name not in names]
        extra = [name for name in names if name not in schema.names]
        raise InvalidArgumentError(
            f"columns do not match the schema: missing {missing}, not in it {extra}"
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
            f"{what}, which does not hold all of its values; pass cast=True to convert those that "
            "it holds and refuse others, or cast the column"
        )
    try:
        there = converted(column, field.type)
        if _may_round(column.type, field.type):
            back = converted(there, plain_type(column.type))
            same = same_values(plain_array(column), back)
            if not pc.all(same).as_py():
                at = pc.index(same, False).as_py()
                raise InvalidArgumentError(f"{what}: {column[at]} of row {at} would be {there[at]}")
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"{what}: {error}") from error
    return there


def _may_round(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether pyarrow's checked cast rounds all the same: between floats and decimals."""
    found, wanted = plain_type(found), plain_type(wanted)
    return bool(
        (pt.is_floating(found) and (pt.is_decimal(wanted) or pt.is_floating(wanted)))
        or (pt.is_decimal(found) and pt.is_floating(wanted))
    )


def same_values(before: pa.Array, after: pa.Array) -> pa.BooleanArray:
    """Where two arrays of one type have the same value; nulls and NaN are the same as themselves.

    Args:
        after: null wherever ``before`` is.
    """
    equal = pc.fill_null(pc.equal(before, after), True)
    if pt.is_floating(before.type):
        both = pc.and_(pc.is_nan(before), pc.is_nan(after))
        equal = pc.or_(equal, pc.fill_null(both, True))
    return equal


def converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values of ``array`` as ``wanted``.

    Raises:
        pyarrow.ArrowException: a value would change, or pyarrow knows no way.
    """
    if array.type == wanted:
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if isinstance(wanted, pa.BaseExtensionType):
        return wanted.wrap_array(converted(plain_array(array), wanted.storage_type))
    if pt.is_dictionary(wanted):
        if pt.is_dictionary(array.type):  # only the values are converted, however many rows
            values = converted(array.dictionary, wanted.value_type)
            indices = array.indices.cast(wanted.index_type)
        else:
            encoded = plain_array(array).dictionary_encode()
            values = converted(encoded.dictionary, wanted.value_type)
            indices = encoded.indices.cast(wanted.index_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=wanted.ordered)
    if pt.is_dictionary(array.type):
        values = converted(plain_array(array.dictionary), plain_type(wanted))
        return converted(values.take(array.indices), wanted)
    if pt.is_run_end_encoded(wanted):
        return pc.run_end_encode(
            converted(array, wanted.value_type), run_end_type=wanted.run_end_type
        )
    array = plain_array(array)
    if pt.is_struct(wanted) and pt.is_struct(array.type):
        fields = [converted(array.field(item.name), item.type) for item in wanted]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=mask)
    return array.cast(wanted)


def common_schema(schemas: Sequence[pa.Schema], names: Sequence[str]) -> pa.Schema:
    """The schema whose columns hold those of all ``schemas``; columns that some lack may be null.

    Args:
        names: of what has each schema, for messages.

    Raises:
        InvalidArgumentError: two types of one column have none in common.
    """
    found = schemas[0]
    for schema, name in zip(schemas[1:], names[1:], strict=True):
        if schema.equals(found):
            continue
        for item in schema:
            at = found.get_field_index(item.name)
            if at < 0:
                found = found.append(item.with_nullable(True))
                continue
            known = found.field(at)
            if known.type != item.type:
                merged = _common_type(known.type, item.type)
                if merged is None:
                    raise InvalidArgumentError(
                        f"column {item.name!r} is {item.type} in {name}, {known.type} in those "
                        "before it, and no type holds both; cast one of them"
                    )
                known = known.with_type(merged)
            found = found.set(at, known.with_nullable(known.nullable or item.nullable))
        for at, known in enumerate(found):
            if schema.get_field_index(known.name) < 0 and not known.nullable:
                found = found.set(at, known.with_nullable(True))
    return found


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
    """``batch`` with nulls for columns of ``schema`` that it lacks."""
    for item in schema:
        if batch.schema.get_field_index(item.name) < 0:
            batch = batch.append_column(item, pa.nulls(batch.num_rows, item.type))
    return batch
