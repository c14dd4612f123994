"""Names of columns in Parquet files that differ from the names in the table.

Iceberg finds columns by field id, so a column may have another name in each file. Delta finds them
by one name. So a table that is published as Delta keeps the names that columns had first: files are
written with these names. The property :data:`FILE_NAMES` stores the names that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.schema.field_ids import field_id_of
from nimblepy.schema.kinds import is_list
from nimblepy.table.base.damage import BAD_BYTES

# The property of tables whose commits are published as Delta.
PUBLISHES_DELTA = "nimblepy.publish-delta"
# The directory of a Delta log, below the directory of its table.
DELTA_LOG = "_delta_log"
# The property with the names in files: a JSON object of field ids and names.
FILE_NAMES = "nimblepy.delta-names"


def file_names(properties: Mapping[str, str]) -> dict[int, str]:
    """Returns the names in files that differ from the table's, by field id.

    Raises:
        CorruptFileError: the property was changed to something else.
    """
    text = properties.get(FILE_NAMES, "{}")
    try:
        return {int(number): str(name) for number, name in json.loads(text).items()}
    except BAD_BYTES as error:
        raise CorruptFileError(f"the property {FILE_NAMES} has no names: {text!r}") from error


def names_property(names: Mapping[int, str]) -> dict[str, str]:
    return {FILE_NAMES: json.dumps({str(number): name for number, name in sorted(names.items())})}


def name_in_files(field: pa.Field, names: Mapping[int, str]) -> str:
    """Returns the name of a top-level column in files."""
    number = field_id_of(field)
    return str(field.name) if number is None else names.get(number, field.name)


def names_after(
    before: pa.Schema, after: pa.Schema, names: Mapping[int, str], earlier: Iterable[pa.Schema]
) -> dict[int, str]:
    """Returns the names in files after a change of a published table's columns.

    A renamed column keeps its name in files. A new column gets another name in files if a dropped
    column had its name.

    Args:
        names: the names in files that differ before the change.
        earlier: all schemas that the table has had.

    Raises:
        InvalidArgumentError: a field inside a column got another name or takes a former one.
    """
    old = {field_id_of(field): name_in_files(field, names) for field in before}
    # Some readers ignore case.
    taken = {name.lower(): number for name, number in _former(earlier).items()}
    taken |= {name.lower(): number for number, name in names.items()}
    taken |= {name.lower(): number for number, name in old.items() if number is not None}
    made: dict[int, str] = {}
    for field in after:
        number = field_id_of(field)
        if number is None:
            continue
        name = old.get(number, field.name)
        while taken.get(name.lower(), number) != number:
            name = f"{name}-{number}"
        taken[name.lower()] = number
        if name != field.name:
            made[number] = name
    _check_inner_names(before, after, earlier)
    # Names of dropped columns are kept, because files still have these columns.
    return {**names, **made} | {
        number: name
        for number, name in old.items()
        if number is not None and name in names.values()
    }


def _former(schemas: Iterable[pa.Schema]) -> dict[str, int]:
    """Returns the field id that had each name first."""
    numbers: dict[str, int] = {}
    for schema in schemas:
        for field in schema:
            number = field_id_of(field)
            if number is not None:
                numbers.setdefault(field.name, number)
    return numbers


def _check_inner_names(before: pa.Schema, after: pa.Schema, earlier: Iterable[pa.Schema]) -> None:
    earlier_numbers: dict[str, int] = {}
    for schema in (*earlier, before):
        for path, number in inner_fields(schema).items():
            earlier_numbers.setdefault(path, number)
    names = {number: path for path, number in earlier_numbers.items()}
    for path, number in inner_fields(after).items():
        is_renamed = names.get(number, path) != path
        if not is_renamed and earlier_numbers.get(path, number) == number:
            continue
        number_text, _, inner = path.partition(".")
        column = next(field.name for field in after if str(field_id_of(field)) == number_text)
        shown = f"{column}.{inner}"
        why = (
            "a field inside a column must keep its name"
            if is_renamed
            else "a field inside a column cannot take the name of a dropped one"
        )
        raise InvalidArgumentError(
            f"column {shown!r}: this table is published as Delta, so {why}; use another name, or "
            "stop publishing with publish_delta(keep=False)"
        )


def check_case(fields: Iterable[pa.Field]) -> None:
    """Raises InvalidArgumentError for names that differ only in case, which Delta refuses."""
    names: dict[str, str] = {}
    for field in fields:
        if pt.is_nested(field.type):
            check_case([field.type.field(i) for i in range(field.type.num_fields)])
        other = names.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise InvalidArgumentError(
                f"columns {other!r} and {field.name!r} differ only in case, which Delta refuses; "
                "rename one of them"
            )


def inner_fields(schema: pa.Schema) -> dict[str, int]:
    """Returns the field ids of fields inside columns. A path begins with the column's field id."""
    numbers: dict[str, int] = {}

    def visit(kind: pa.DataType, path: str) -> None:
        if pt.is_struct(kind):
            for i in range(kind.num_fields):
                field = kind.field(i)
                number = field_id_of(field)
                if number is not None:
                    numbers[f"{path}.{field.name}"] = number
                visit(field.type, f"{path}.{field.name}")
        elif is_list(kind):
            visit(kind.value_type, f"{path}.element")
        elif pt.is_map(kind):
            visit(kind.key_type, f"{path}.key")
            visit(kind.item_type, f"{path}.value")

    for field in schema:
        visit(field.type, str(field_id_of(field)))
    return numbers
