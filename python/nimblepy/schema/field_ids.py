"""Field ids: numbers that stay with a column when it is renamed or moved.

They are kept in the metadata of Arrow fields, under the name that Parquet files have for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

FIELD_ID = b"PARQUET:field_id"


def field_id_of(field: pa.Field) -> int | None:
    """The field id of an Arrow field; ``None``: it has none."""
    found = (field.metadata or {}).get(FIELD_ID)
    return int(found) if found is not None and found.isdigit() else None


def field_id_at(schema: pa.Schema, path: Sequence[str]) -> int:
    """The field id of the column at a path of struct fields, which has one."""
    field = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    found = field_id_of(field)
    assert found is not None, f"column {'.'.join(path)} has no field id"
    return found


def has_field_ids(schema: pa.Schema) -> bool:
    """Whether any column has one."""
    return any(field_id_of(field) is not None for field in schema)


def with_field_ids(schema: pa.Schema, names: Mapping[tuple[str, ...], int]) -> pa.Schema:
    """The schema with the ids of columns that ``names`` has by their paths.

    The element of a list is called ``element``, and those of a map ``key`` and ``value``.
    """

    def named(field: pa.Field, path: tuple[str, ...]) -> pa.Field:
        number = names.get(path)
        made = field.with_type(inside(field.type, path))
        return made if number is None else made.with_metadata({FIELD_ID: str(number).encode()})

    def inside(kind: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
        if pa.types.is_struct(kind):
            fields = [kind.field(i) for i in range(kind.num_fields)]
            return pa.struct([named(field, (*path, field.name)) for field in fields])
        if pa.types.is_list(kind):
            return pa.list_(named(kind.value_field, (*path, "element")))
        if pa.types.is_map(kind):
            key = named(kind.key_field, (*path, "key"))
            return pa.map_(key, named(kind.item_field, (*path, "value")))
        return kind

    return pa.schema([named(field, (field.name,)) for field in schema])


def match_by_id(field: pa.Field, have: Sequence[pa.Field]) -> int | None:
    """The position of the field with the id of ``field``."""
    number = field_id_of(field)
    return next((i for i, other in enumerate(have) if field_id_of(other) == number), None)


def match_by_name(field: pa.Field, have: Sequence[pa.Field]) -> int | None:
    """The position of the field with the name of ``field``."""
    return next((i for i, other in enumerate(have) if other.name == field.name), None)
