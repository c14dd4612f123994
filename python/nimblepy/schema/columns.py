"""Finds columns. A column is a path of names, from a top-level column down into structs.

Paths are never joined to text and split again, because names may contain dots: the field ``b`` of
the struct ``a`` and the column ``a.b`` are different columns. This module resolves text from
callers once, and passes positions to the core.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import value_type
from nimblepy.schema.names import ColumnName, Path, show_path

# Metadata of a field that a table lacks: the file that has the column, for messages.
FILE_OF_COLUMN = b"nimblepy.file"


@dataclass(frozen=True, slots=True)
class Column:
    """A top-level column, or a field inside structs, with its type in the file.

    Attributes:
        path: names from the top-level column downwards.
        steps: the same path as positions in the schema and in each struct.
    """

    path: Path
    type: pa.DataType
    steps: tuple[int, ...]

    @property
    def name(self) -> str:
        """The dotted path, as in ``columns=`` and ``on=``."""
        return ".".join(self.path)

    @property
    def value_type(self) -> pa.DataType:
        """The type of one value, without dictionaries and run-end encoding."""
        return value_type(self.type)

    def __str__(self) -> str:
        return show_path(self.path)


def resolve_column(schema: pa.Schema, name: str | Sequence[str]) -> Column:
    """Resolves a name in ``columns=``, ``on=`` or ``pc.field``.

    If a top-level column has the whole text as its name, it wins. Otherwise dots separate struct
    fields, and each step takes the longest name that fits.

    Args:
        schema: schema of the file.
        name: text such as ``"k"`` or ``"location.lat"``, or a path, which is taken exactly.

    Raises:
        InvalidArgumentError: no such column; the message names the closest ones.
    """
    if isinstance(name, str):
        steps = _find(schema, name.split("."), longest_first=True)
    elif isinstance(name, Sequence) and all(isinstance(part, str) for part in name):
        steps = _find_exact(schema, tuple(name))
        name = show_path(tuple(name))
    else:
        raise InvalidArgumentError(f"expected a column name or a path of names, got {name!r}")
    if steps is None:
        raise InvalidArgumentError(unknown_column_message(schema, name))
    return column_at(schema, steps)


def resolve_sql(
    schema: pa.Schema, parts: Sequence[str], *, quoted: bool, sides: Sequence[str] = ()
) -> Column:
    """Resolves a dotted name in SQL. A dot means a field of a struct.

    If no struct has such a field, the dots may belong to a name. Case matters only if several
    columns have the same name in different case.

    Args:
        quoted: the names are quoted, so their dots do not separate anything.
        sides: structs whose fields may be named without the struct if only one of them has the
            field. A name that begins with a side is always a field of that side.

    Raises:
        InvalidArgumentError: there is no such column, or more than one.
    """
    path = tuple(parts)
    if sides and path[0].casefold() not in sides:
        return _of_one_side(schema, path, quoted, sides)
    steps = _find_exact(schema, path) if quoted else _find(schema, list(parts), longest_first=False)
    if steps is not None:
        return column_at(schema, steps)
    folded = [candidate for candidate in column_paths(schema) if _folds(candidate, path)]
    if len(folded) != 1:
        shown = show_path(path) if quoted else ".".join(path)
        raise _UnknownColumn(unknown_column_message(schema, shown))
    return resolve_column(schema, folded[0])


def _of_one_side(schema: pa.Schema, path: Path, quoted: bool, sides: Sequence[str]) -> Column:
    """Resolves a name without its side."""
    columns: list[Column] = []
    fields = [(at, field) for at, field in enumerate(schema) if field.name in sides]
    for at, field in fields:
        with contextlib.suppress(_UnknownColumn):
            column = resolve_sql(pa.schema(list(field.type)), path, quoted=quoted)
            columns.append(Column((field.name, *column.path), column.type, (at, *column.steps)))
    shown = show_path(path) if quoted else ".".join(path)
    if not columns:
        raise _UnknownColumn(unknown_column_message(schema, shown))
    if len(columns) > 1:
        names = [column.name for column in columns]
        raise InvalidArgumentError(
            f"column {shown!r} is ambiguous: {' and '.join(sides)} have it; write "
            f"{' or '.join(names)}"
        )
    return columns[0]


class _UnknownColumn(InvalidArgumentError):
    """The column does not exist."""


def _folds(candidate: Path, path: Path) -> bool:
    return [name.casefold() for name in candidate] == [name.casefold() for name in path]


def column_at(schema: pa.Schema, steps: Sequence[int]) -> Column:
    """Returns the column at a path of positions."""
    field = schema.field(steps[0])
    path = [field.name]
    for step in steps[1:]:
        field = field.type.field(step)
        path.append(field.name)
    return Column(tuple(path), field.type, tuple(steps))


def key_name(schema: pa.Schema, column: Column) -> ColumnName:
    """Returns a unique name of a column: its dotted path, or a tuple if the text is ambiguous."""
    try:
        by_name = resolve_column(schema, column.name)
    except InvalidArgumentError:  # another column has this name
        return column.path
    return column.name if by_name.steps == column.steps else column.path


def unknown_column_message(schema: pa.Schema, name: str) -> str:
    """Returns an error message for a missing column, with similar names or, if few, all names."""
    paths = [show_path(path) for path in column_paths(schema)]
    column, *words = name.split() or [""]
    if column in paths and words and words[0].lower() in ("asc", "desc"):
        down = ", descending=True" * (words[0].lower() == "desc")
        return f"unknown column {name!r}; did you mean nimblepy.SortKey({column!r}{down})?"
    close = get_close_matches(name, paths, n=3, cutoff=0.5)
    folded = [path for path in paths if path.casefold() == name.casefold()]
    # fields whose name matches without the struct
    fields = [path for path in paths if path.casefold().endswith("." + name.casefold())]
    hints = list(dict.fromkeys([*folded, *fields[:3], *close]))
    if hints:
        return f"unknown column {name!r}; did you mean {' or '.join(map(repr, hints))}?"
    shown = ", ".join(map(repr, paths[:20])) + (", ..." if len(paths) > 20 else "")
    return f"unknown column {name!r}; there are {shown or 'no columns'}"


def column_paths(schema: pa.Schema) -> list[Path]:
    """Returns the paths of all columns and struct fields, parents before children."""
    paths: list[Path] = []

    def visit(above: Path, field: pa.Field) -> None:
        path = (*above, field.name)
        paths.append(path)
        if pa.types.is_struct(field.type):
            for child in field.type:
                visit(path, child)

    for field in schema:
        visit((), field)
    return paths


def _child(fields: pa.Schema | pa.StructType, name: str) -> int | None:
    """Returns the position of the field ``name``; ``None`` unless exactly one field has it."""
    positions = fields.get_all_field_indices(name)
    if len(positions) > 1 and isinstance(fields, pa.Schema):
        raise InvalidArgumentError(f"column {name!r} is ambiguous: the file has {len(positions)}")
    return positions[0] if len(positions) == 1 else None


def _find(
    fields: pa.Schema | pa.StructType, parts: list[str], *, longest_first: bool
) -> tuple[int, ...] | None:
    lengths = range(1, len(parts) + 1)
    for taken in reversed(lengths) if longest_first else lengths:
        step = _child(fields, ".".join(parts[:taken]))
        if step is None:
            continue
        if taken == len(parts):
            return (step,)
        inner = fields.field(step).type
        if pa.types.is_struct(inner):
            rest = _find(inner, parts[taken:], longest_first=longest_first)
            if rest is not None:
                return (step, *rest)
    return None


def _find_exact(schema: pa.Schema, path: Path) -> tuple[int, ...] | None:
    steps: list[int] = []
    fields: pa.Schema | pa.DataType = schema
    for name in path:
        if fields is not schema and not pa.types.is_struct(fields):
            return None
        step = _child(fields, name)
        if step is None:
            return None
        steps.append(step)
        fields = fields.field(step).type
    return tuple(steps) or None
