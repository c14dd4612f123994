"""Finds columns by name: top-level names, and dotted paths into structs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.nodes import Column


def resolve_column(schema: pa.Schema, name: str | Sequence[str]) -> Column:
    """The column that ``name`` means.

    A top-level column whose name is the whole text wins; otherwise dots separate struct fields,
    and the longest top-level name that fits is taken (names may themselves contain dots).

    Args:
        schema: schema of the file.
        name: text such as ``"k"`` or ``"location.lat"``, or a path that is already split.

    Raises:
        InvalidArgumentError: no such column; the message names the closest ones.
    """
    if isinstance(name, str):
        path = _find(schema, name.split("."))
    else:
        path = _find_exact(schema, tuple(name))
    if path is None:
        shown = name if isinstance(name, str) else ".".join(name)
        raise InvalidArgumentError(unknown_column_message(schema, shown))
    return Column(path, _type_at(schema, path))


def unknown_column_message(schema: pa.Schema, name: str) -> str:
    """Says that ``name`` is missing, with the closest names, or all of them when few."""
    known = list(column_paths(schema))
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    folded = [path for path in known if path.casefold() == name.casefold()]
    hints = list(dict.fromkeys([*folded, *close]))
    if hints:
        return f"unknown column {name!r}; did you mean {' or '.join(map(repr, hints))}?"
    shown = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
    return f"unknown column {name!r}; the file has {shown or 'no columns'}"


def column_paths(schema: pa.Schema) -> list[str]:
    """Dotted paths of all columns and struct fields, parents before children."""
    paths: list[str] = []

    def visit(prefix: str, field: pa.Field) -> None:
        paths.append(prefix + field.name)
        if pa.types.is_struct(field.type):
            for child in field.type:
                visit(f"{prefix}{field.name}.", child)

    for field in schema:
        visit("", field)
    return paths


def _child(fields: pa.Schema | pa.StructType, name: str) -> pa.Field | None:
    """The field called ``name``; ``None`` when there is none, or more than one."""
    if isinstance(fields, pa.Schema):
        found = fields.get_all_field_indices(name)
        if len(found) > 1:
            raise InvalidArgumentError(f"column {name!r} is ambiguous: the file has {len(found)}")
    else:
        found = fields.get_all_field_indices(name)
    return fields.field(found[0]) if len(found) == 1 else None


def _find(fields: pa.Schema | pa.StructType, parts: list[str]) -> tuple[str, ...] | None:
    for taken in range(len(parts), 0, -1):
        name = ".".join(parts[:taken])
        field = _child(fields, name)
        if field is None:
            continue
        if taken == len(parts):
            return (name,)
        if pa.types.is_struct(field.type):
            rest = _find(field.type, parts[taken:])
            if rest is not None:
                return (name, *rest)
    return None


def _find_exact(schema: pa.Schema, path: tuple[str, ...]) -> tuple[str, ...] | None:
    fields: pa.Schema | pa.StructType = schema
    for depth, name in enumerate(path):
        field = _child(fields, name)
        if field is None:
            return None
        if depth + 1 < len(path) and not pa.types.is_struct(field.type):
            return None
        fields = field.type
    return path


def _type_at(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    field = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    return field.type
