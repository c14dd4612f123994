"""Field ids: numbers of columns that do not change when a column is renamed or moved.

Fields of structs, elements of lists, and keys and values of maps also have ids. Ids are stored in
the metadata of Arrow fields, under the same key as in Parquet files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.schema.kinds import is_list

FIELD_ID = b"PARQUET:field_id"
# The key of a field's documentation in the metadata of Arrow fields.
DOC = b"doc"


def field_id_of(field: pa.Field) -> int | None:
    """Returns the field id of an Arrow field, or ``None``."""
    text = (field.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None and text.isdigit() else None


def field_id_at(schema: pa.Schema, path: Sequence[str]) -> int:
    """Returns the field id of the column at a path of struct fields, which must have one."""
    field = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    number = field_id_of(field)
    assert number is not None, f"column {'.'.join(path)} has no field id"
    return number


def has_field_ids(schema: pa.Schema) -> bool:
    """Returns whether any column has a field id."""
    return any(field_id_of(field) is not None for field in schema)


def list_of(element: pa.Field, like: pa.DataType) -> pa.DataType:
    """Returns a list type of elements, with the fixed length of ``like`` if it has one."""
    return pa.list_(element, like.list_size if pt.is_fixed_size_list(like) else -1)


def with_field_ids(schema: pa.Schema, names: Mapping[tuple[str, ...], int]) -> pa.Schema:
    """Returns the schema with the ids that ``names`` maps paths to.

    In a path, the element of a list is ``element``, and the parts of a map are ``key`` and
    ``value``.
    """

    def named(field: pa.Field, path: tuple[str, ...]) -> pa.Field:
        number = names.get(path)
        made = field.with_type(inside(field.type, path))
        return made if number is None else made.with_metadata({FIELD_ID: str(number).encode()})

    def inside(kind: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
        if pt.is_struct(kind):
            fields = [kind.field(i) for i in range(kind.num_fields)]
            return pa.struct([named(field, (*path, field.name)) for field in fields])
        if is_list(kind):
            return list_of(named(kind.value_field, (*path, "element")), kind)
        if pt.is_map(kind):
            key = named(kind.key_field, (*path, "key"))
            return pa.map_(key, named(kind.item_field, (*path, "value")))
        return kind

    return pa.schema([named(field, (field.name,)) for field in schema])


def doc_of(field: pa.Field) -> str | None:
    """Returns the documentation of an Arrow field, or ``None``."""
    text = (field.metadata or {}).get(DOC)
    return None if text is None else text.decode(errors="replace")


def only_doc(field: pa.Field) -> pa.Field:
    """Returns the field without its metadata, except its documentation."""
    text = (field.metadata or {}).get(DOC)
    return field.with_metadata(None if text is None else {DOC: text})


def without_field_ids(schema: pa.Schema, docs: Mapping[int, str]) -> pa.Schema:
    """Returns the schema without field ids. Keeps the other metadata of its fields.

    Args:
        docs: documentation by field id, to be added to the metadata of the fields.
    """

    def plain(field: pa.Field) -> pa.Field:
        kept = {k: v for k, v in (field.metadata or {}).items() if k != FIELD_ID}
        number = field_id_of(field)
        if number is not None and number in docs:
            kept[DOC] = docs[number].encode()
        return field.with_type(inside(field.type)).with_metadata(kept or None)

    def inside(kind: pa.DataType) -> pa.DataType:
        if pt.is_struct(kind):
            return pa.struct([plain(field) for field in kind])
        if is_list(kind):
            return list_of(plain(kind.value_field), kind)
        if pt.is_map(kind):
            return pa.map_(plain(kind.key_field), plain(kind.item_field))
        return kind

    return pa.schema([plain(field) for field in schema], metadata=schema.metadata)


class IdDifference(NamedTuple):
    """A field with different ids in two schemas.

    Attributes:
        path: names from the top; the element of a list is ``element``.
    """

    path: tuple[str, ...]
    have: int | None
    expected: int | None


def id_difference(
    have: Iterable[pa.Field], target: Iterable[pa.Field], path: tuple[str, ...] = ()
) -> IdDifference | None:
    """Returns the first field, at any depth, whose id differs in ``target``.

    Skips fields that ``target`` does not have.
    """
    by_name = {field.name: field for field in target}
    for field in have:
        other = by_name.get(field.name)
        if other is None:
            continue
        place = (*path, field.name)
        difference = _difference(field, other, place)
        if difference is not None:
            return difference
    return None


def _difference(have: pa.Field, target: pa.Field, path: tuple[str, ...]) -> IdDifference | None:
    ids = field_id_of(have), field_id_of(target)
    if ids[0] != ids[1]:
        return IdDifference(path, *ids)
    one, other = have.type, target.type
    if pt.is_struct(one) and pt.is_struct(other):
        return id_difference(one, other, path)
    if is_list(one) and is_list(other):
        return _difference(one.value_field, other.value_field, (*path, "element"))
    if pt.is_map(one) and pt.is_map(other):
        return _difference(one.key_field, other.key_field, (*path, "key")) or _difference(
            one.item_field, other.item_field, (*path, "value")
        )
    return None


def match_by_id(field: pa.Field, have: Sequence[pa.Field]) -> int | None:
    """Returns the position of the field with the id of ``field``."""
    number = field_id_of(field)
    if number is None:
        return None
    return next((i for i, other in enumerate(have) if field_id_of(other) == number), None)


def match_by_name(field: pa.Field, have: Sequence[pa.Field]) -> int | None:
    """Returns the position of the field with the name of ``field``."""
    return next((i for i, other in enumerate(have) if other.name == field.name), None)
