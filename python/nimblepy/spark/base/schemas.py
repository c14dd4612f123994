"""Converts Arrow types to types that Spark supports, and batches to exactly these types."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from nimblepy.errors import InvalidArgumentError

# Time zone of timestamps in batches for Spark. The instants do not change.
ZONE = "UTC"
# Spark 4.1 has a flag for this zone instead of its name.
_IN_ZONE: dict[str, Any] = (
    {"timezone": ZONE}
    if "timezone" in inspect.signature(to_arrow_schema).parameters
    else {"timestamp_utc": True}
)
_UNSIGNED = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns the Spark schema of a file's columns.

    Unsigned integers become the next wider signed type (uint64: decimal(20, 0)). float16 becomes
    float. Time units become Spark's. Dictionaries are decoded.

    Raises:
        InvalidArgumentError: Spark does not support a type; the message names the column.
    """
    return StructType(
        [
            StructField(field.name, from_arrow_type(_plain(field.type, field.name)), field.nullable)
            for field in schema
        ]
    )


def arrow_schema(struct: StructType) -> pa.Schema:
    """Returns the Arrow types that Spark uses to exchange rows of this schema."""
    return to_arrow_schema(struct, **_IN_ZONE)


def conform(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Casts ``batch`` to the types and nullability of ``target``. Columns match by position.

    Raises:
        InvalidArgumentError: Spark's type cannot hold a value, such as nanoseconds.
    """
    if batch.schema.equals(target):
        return batch
    arrays = [
        conform_array(column, field) for column, field in zip(batch.columns, target, strict=True)
    ]
    if not arrays:
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def conform_array(column: pa.Array, field: pa.Field) -> pa.Array:
    """Casts one column; see :func:`conform`."""
    if column.type.equals(field.type):
        return column
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pt.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"column {field.name!r}: {column.type} has a value that Spark's {field.type} cannot "
            f"hold: {error}"
        ) from error


def _plain(data_type: pa.DataType, name: str) -> pa.DataType:
    """Returns the closest type that Spark supports and that represents all values."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _plain(data_type.storage_type, name)
    if pt.is_dictionary(data_type) or pt.is_run_end_encoded(data_type):
        return _plain(data_type.value_type, name)
    if pt.is_unsigned_integer(data_type):
        return _UNSIGNED[data_type.bit_width]
    if pt.is_float16(data_type):
        return pa.float32()
    if pt.is_string_view(data_type):
        return pa.string()
    if pt.is_binary_view(data_type):
        return pa.binary()
    if pt.is_date64(data_type):
        return pa.date32()
    if pt.is_time32(data_type):
        return pa.time64("us")
    if pt.is_decimal(data_type):
        return _decimal(data_type, name)
    if pt.is_nested(data_type):
        return _nested(data_type, name)
    try:
        from_arrow_type(data_type)
    except Exception as error:
        raise InvalidArgumentError(
            f"column {name!r}: Spark has no type for {data_type}; leave it out with `columns`"
        ) from error
    return data_type


def _decimal(data_type: pa.DataType, name: str) -> pa.DataType:
    if data_type.precision > 38 or data_type.scale < 0:
        raise InvalidArgumentError(
            f"column {name!r}: Spark has no type for {data_type} (its decimals have at most 38 "
            "digits and no negative scale); leave it out with `columns`"
        )
    return pa.decimal128(data_type.precision, data_type.scale)


def _nested(data_type: pa.DataType, name: str) -> pa.DataType:
    def plain(field: pa.Field) -> pa.Field:
        return field.with_type(_plain(field.type, f"{name}.{field.name}"))

    if pt.is_struct(data_type):
        return pa.struct([plain(field) for field in data_type])
    if pt.is_map(data_type):
        return pa.map_(plain(data_type.key_field), plain(data_type.item_field))
    if hasattr(data_type, "value_field") and not pt.is_union(data_type):
        return pa.list_(plain(data_type.value_field))
    raise InvalidArgumentError(
        f"column {name!r}: Spark has no type for {data_type}; leave it out with `columns`"
    )
