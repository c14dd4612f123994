"""Schemas, sort orders and values between Arrow and Iceberg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.sorting import (
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from nimblepy.errors import (
    InvalidArgumentError,
    UnsupportedVersionError,
)
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import FIELD_ID, field_id_at
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import SortKey


def new_sort_order(schema: Schema, keys: Sequence[SortKey]) -> SortOrder:
    return SortOrder(
        *(
            SortField(
                source_id=field_id(schema, key.column),
                transform=IdentityTransform(),
                direction=SortDirection.DESC if key.descending else SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST if key.nulls_first else NullOrder.NULLS_LAST,
            )
            for key in keys
        )
    )


def field_id(schema: Schema, name: ColumnName) -> int:
    column = resolve_column(to_arrow(schema), name)
    return field_id_at(to_arrow(schema), column.path)


_PRIMITIVES: list[tuple[type[PrimitiveType], pa.DataType]] = [
    (BooleanType, pa.bool_()),
    (IntegerType, pa.int32()),
    (LongType, pa.int64()),
    (FloatType, pa.float32()),
    (DoubleType, pa.float64()),
    (DateType, pa.date32()),
    (TimeType, pa.time64("us")),
    (TimestampType, pa.timestamp("us")),
    (TimestamptzType, pa.timestamp("us", "UTC")),
    (StringType, pa.string()),
    (BinaryType, pa.binary()),
    (UUIDType, pa.binary(16)),
]


def to_arrow(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table, with a field id in the metadata of every field."""
    return pa.schema([_arrow_field(item) for item in schema.fields])


def _arrow_field(item: NestedField, name: str | None = None) -> pa.Field:
    return pa.field(
        name or item.name,
        arrow_type(item.field_type),
        nullable=not item.required,
        metadata={FIELD_ID: str(item.field_id).encode()},
    )


def arrow_type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(item) for item in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_arrow_field(kind.element_field, "element"))
    if isinstance(kind, MapType):
        return pa.map_(_arrow_field(kind.key_field, "key"), _arrow_field(kind.value_field, "value"))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(len(kind))
    for known, arrow in _PRIMITIVES:
        if isinstance(kind, known):
            return arrow
    raise UnsupportedVersionError(f"a table with the type {kind}, which nimblepy does not read")


def to_iceberg(schema: pa.Schema, primary_key: Sequence[str] = ()) -> Schema:
    """The Iceberg schema for an Arrow one, with new field ids."""
    numbers = iter(range(1, 1 << 30))

    def nested(item: pa.Field, required: bool) -> NestedField:
        return NestedField(
            field_id=next(numbers),
            name=item.name,
            field_type=kind_of(item.type),
            required=required,
            doc=_doc(item),
        )

    def kind_of(kind: pa.DataType) -> IcebergType:
        if pt.is_struct(kind):
            return StructType(*(nested(item, not item.nullable) for item in kind))
        if pt.is_list(kind):
            element = nested(kind.value_field.with_name("element"), not kind.value_field.nullable)
            return ListType(element.field_id, element.field_type, element.required)
        if pt.is_map(kind):
            key, value = nested(kind.key_field, True), nested(kind.item_field, False)
            return MapType(
                key.field_id,
                key.field_type,
                value.field_id,
                value.field_type,
                not kind.item_field.nullable,
            )
        return primitive(kind)

    fields = [nested(item, not item.nullable or item.name in primary_key) for item in schema]
    ids = [item.field_id for item in fields if item.name in primary_key]
    return Schema(*fields, identifier_field_ids=ids)


def fresh(schema: Schema) -> Schema:
    """The schema with the field ids that a new table will have."""
    return cast(Schema, assign_fresh_schema_ids(schema))


def _doc(item: pa.Field) -> str | None:
    found = (item.metadata or {}).get(b"doc")
    return None if found is None else found.decode()


def primitive(kind: pa.DataType) -> IcebergType:
    if pt.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pt.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    for known, arrow in _PRIMITIVES:
        if kind.equals(arrow):
            return known()
    raise InvalidArgumentError(f"{kind}: no type of a table")


def bound_bytes(kind: pa.DataType, value: Any) -> bytes:
    """A value as Iceberg stores bounds.

    Args:
        value: a Python value as ``internal_value`` gives it.
    """
    return to_bytes(cast(PrimitiveType, primitive(kind)), value)
