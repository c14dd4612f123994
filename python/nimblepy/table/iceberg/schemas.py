"""Converts schemas, sort orders and values between Arrow and Iceberg."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, cast

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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from nimblepy.errors import (
    InvalidArgumentError,
    UnsupportedVersionError,
)
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import FIELD_ID, doc_of, field_id_at
from nimblepy.schema.kinds import is_list
from nimblepy.schema.names import ColumnName
from nimblepy.schema.text import is_uuid
from nimblepy.schema.types import SortKey
from nimblepy.schema.variant import VARIANT
from nimblepy.schema.zones import has_zone
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.iceberg.version3 import is_variant_type


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


_UUID_BYTES = 16
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
    (TimestampNanoType, pa.timestamp("ns")),
    (TimestamptzNanoType, pa.timestamp("ns", "UTC")),
    (UnknownType, pa.null()),
    (StringType, pa.string()),
    (BinaryType, pa.binary()),
    (UUIDType, pa.binary(_UUID_BYTES)),
]

# The property with type details that Iceberg lacks: JSON that maps field ids to the time zone of a
# timestamp column, or to the vector length of a list column.
COLUMN_TYPES = "nimblepy.column-types"

# Time zones (text) and lengths of vectors (numbers) by field id.
TypeDetails: TypeAlias = Mapping[int, str | int]


def type_details(properties: Mapping[str, str]) -> dict[int, str | int]:
    """Returns the column types that a table's properties declare.

    Ignores malformed declarations of other programs.
    """
    text = properties.get(COLUMN_TYPES)
    if text is None:
        return {}
    try:
        items = json.loads(text).items()
        return {int(number): what for number, what in items if isinstance(what, (str, int))}
    except BAD_BYTES:
        return {}


def type_property(details: TypeDetails) -> dict[str, str]:
    """Returns the property that stores time zones and lengths of vectors; empty without details."""
    return {COLUMN_TYPES: json.dumps({str(k): v for k, v in details.items()})} if details else {}


def details_of(schema: Schema, arrow: pa.Schema) -> dict[int, str | int]:
    """Returns the time zones and vector lengths of ``arrow``, by field id.

    ``schema`` has fields of the same names, with ids.
    """
    details: dict[int, str | int] = {}

    def visit(item: NestedField, kind: pa.DataType) -> None:
        if pt.is_timestamp(kind) and kind.tz not in (None, "UTC"):
            details[item.field_id] = kind.tz
        elif isinstance(item.field_type, StructType):
            for inner in item.field_type.fields:
                visit(inner, kind.field(inner.name).type)
        elif isinstance(item.field_type, ListType):
            if pt.is_fixed_size_list(kind):
                details[item.field_id] = kind.list_size
            visit(item.field_type.element_field, kind.value_type)
        elif isinstance(item.field_type, MapType):
            visit(item.field_type.key_field, kind.key_type)
            visit(item.field_type.value_field, kind.item_type)

    for item in schema.fields:
        visit(item, arrow.field(item.name).type)
    return details


def to_arrow(schema: Schema, details: TypeDetails = MappingProxyType({})) -> pa.Schema:
    """Returns the Arrow schema of a table, with a field id in the metadata of every field.

    Args:
        details: time zones and lengths of vectors.
    """
    fields = [
        _variant_field(item) if is_variant_type(item.field_type) else _arrow_field(item, details)
        for item in schema.fields
    ]
    for i, item in enumerate(schema.fields):
        if isinstance(item.field_type, UUIDType):  # pyarrow cannot make nested values of this type
            fields[i] = fields[i].with_type(pa.uuid())
    return pa.schema(fields)


def _variant_field(item: NestedField) -> pa.Field:
    metadata = {FIELD_ID: str(item.field_id).encode(), VARIANT: b"1"}
    return pa.field(item.name, pa.binary(), nullable=not item.required, metadata=metadata)


def _arrow_field(item: NestedField, details: TypeDetails, name: str | None = None) -> pa.Field:
    kind = _arrow_type(item.field_type, details, item.field_id)
    return pa.field(
        name or item.name,
        kind,
        nullable=not item.required,
        metadata={FIELD_ID: str(item.field_id).encode()},
    )


def arrow_type(kind: IcebergType) -> pa.DataType:
    """Returns the type in which values are compared and hashed: UUIDs are 16 bytes."""
    return pa.binary() if is_variant_type(kind) else _arrow_type(kind, {}, 0)


def _arrow_type(kind: IcebergType, details: TypeDetails, number: int) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(item, details) for item in kind.fields])
    if isinstance(kind, ListType):
        length = details.get(number)
        element = _arrow_field(kind.element_field, details, "element")
        return pa.list_(element, length if isinstance(length, int) else -1)
    if isinstance(kind, MapType):
        key = _arrow_field(kind.key_field, details, "key")
        return pa.map_(key, _arrow_field(kind.value_field, details, "value"))
    if isinstance(kind, (TimestamptzType, TimestamptzNanoType)):
        zone = details.get(number)
        unit = "us" if isinstance(kind, TimestamptzType) else "ns"
        return pa.timestamp(unit, zone if isinstance(zone, str) else "UTC")
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(len(kind))
    if is_variant_type(kind):
        raise UnsupportedVersionError(
            "a struct, list or map contains the Iceberg type variant, which nimblepy reads only as "
            "a column"
        )
    for iceberg_type, arrow in _PRIMITIVES:
        if isinstance(kind, iceberg_type):
            return arrow
    raise UnsupportedVersionError(
        f"a column has the Iceberg type {kind}, which nimblepy does not support"
    )


def to_iceberg(schema: pa.Schema, primary_key: Sequence[str] = ()) -> Schema:
    """Returns the Iceberg schema for an Arrow one, with new field ids."""
    numbers = iter(range(1, 1 << 30))

    def nested(item: pa.Field, required: bool) -> NestedField:
        return NestedField(
            field_id=next(numbers),
            name=item.name,
            field_type=kind_of(item.type),
            required=required,
            doc=doc_of(item),
        )

    def kind_of(kind: pa.DataType) -> IcebergType:
        if pt.is_struct(kind):
            return StructType(*(nested(item, not item.nullable) for item in kind))
        if is_list(kind):
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
    """Returns the schema with the field ids that a new table will have."""
    return cast(Schema, assign_fresh_schema_ids(schema))


def docs_of(schema: Schema) -> dict[int, str]:
    """Returns the documentation of fields, at any depth, by field id."""
    fields = (schema.find_field(number) for number in schema.field_ids)
    return {item.field_id: item.doc for item in fields if item.doc}


def with_doc(schema: Schema, number: int, doc: str | None) -> Schema:
    """Returns the schema with a new documentation of field ``number``; ``None`` removes it."""

    def documented(item: NestedField) -> NestedField:
        if item.field_id == number:
            return item.model_copy(update={"doc": doc})
        if isinstance(item.field_type, StructType):
            inner = StructType(*map(documented, item.field_type.fields))
            return item.model_copy(update={"field_type": inner})
        return item

    fields = map(documented, schema.fields)
    return Schema(*fields, identifier_field_ids=schema.identifier_field_ids)


def primitive(kind: pa.DataType) -> IcebergType:
    if pt.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if is_uuid(kind):
        return UUIDType()
    if has_zone(kind):
        return TimestamptzNanoType() if kind.unit == "ns" else TimestamptzType()
    if pt.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    for iceberg_type, arrow in _PRIMITIVES:
        if kind.equals(arrow):
            return iceberg_type()
    raise InvalidArgumentError(f"{kind}: Iceberg tables do not support this type")


def bound_bytes(kind: pa.DataType, value: Any) -> bytes:
    """Returns a value as Iceberg stores bounds.

    Args:
        value: a Python value, as ``internal_value`` returns it.
    """
    return to_bytes(cast(PrimitiveType, primitive(kind)), value)
