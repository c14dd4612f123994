"""Converts a table's columns to the schema of a Delta table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.kinds import is_list
from nimblepy.schema.plain import plain_type
from nimblepy.schema.variant import is_variant
from nimblepy.schema.zones import has_zone
from nimblepy.table.base.file_names import name_in_files

_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "integer",
    pa.int16(): "integer",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
}


def schema_text(schema: pa.Schema, names: Mapping[int, str]) -> str:
    """Returns the schema as Delta's metadata stores it.

    Args:
        schema: columns with field ids.
        names: names of fields in files, if they differ, by field id.

    Raises:
        InvalidArgumentError: Delta has no such type.
    """
    return json.dumps({"type": "struct", "fields": _fields(schema, names, "", mapped=bool(names))})


def has_naive_times(schema: pa.Schema) -> bool:
    """Returns whether a column has times without a zone, which is a feature of Delta."""

    def inside(kind: pa.DataType) -> bool:
        if pt.is_timestamp(kind):
            return not has_zone(kind)
        return any(inside(kind.field(i).type) for i in range(kind.num_fields))

    return any(inside(field.type) for field in schema)


def _fields(
    fields: Any, names: Mapping[int, str], above: str, *, mapped: bool
) -> list[dict[str, Any]]:
    made = []
    for field in fields:
        metadata: dict[str, Any] = {}
        if mapped:
            metadata = {
                "delta.columnMapping.id": field_id_of(field),
                "delta.columnMapping.physicalName": name_in_files(field, names),
            }
        place = f"{above}{field.name}"
        if is_variant(field):
            raise InvalidArgumentError(
                f"column {place!r} is a variant, which cannot be published as Delta"
            )
        kind = _type(field.type, names, place, mapped)
        made.append({"name": field.name, "type": kind, "nullable": True, "metadata": metadata})
    return made


def _type(kind: pa.DataType, names: Mapping[int, str], place: str, mapped: bool) -> Any:
    kind = plain_type(kind)
    if kind in _NAMES:
        return _NAMES[kind]
    if pt.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pt.is_timestamp(kind) and kind.unit == "us":
        return "timestamp" if has_zone(kind) else "timestamp_ntz"
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return "string"
    if (
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_binary_view(kind)
        or pt.is_fixed_size_binary(kind)
    ):
        return "binary"
    if pt.is_struct(kind):
        inner = [kind.field(i) for i in range(kind.num_fields)]
        return {"type": "struct", "fields": _fields(inner, names, f"{place}.", mapped=mapped)}
    if is_list(kind):
        element = _type(kind.value_type, names, f"{place}.element", mapped)
        return {"type": "array", "elementType": element, "containsNull": True}
    if pt.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type, names, f"{place}.key", mapped),
            "valueType": _type(kind.item_type, names, f"{place}.value", mapped),
            "valueContainsNull": True,
        }
    raise InvalidArgumentError(
        f"column {place!r} of type {kind} cannot be published as Delta, which has no such type"
    )
