"""Defines the Arrow types of table columns, and converts rows to them.

A table has Iceberg's types. Time zones and vector lengths, which Iceberg's types lack, are stored
in a table property. Types whose values Iceberg cannot store exactly are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import FILE_OF_COLUMN, resolve_column
from nimblepy.schema.field_ids import match_by_name, only_doc
from nimblepy.schema.kinds import is_list
from nimblepy.schema.reshape import Convert, Rules, UnfitError, converter, repeated
from nimblepy.schema.text import is_uuid
from nimblepy.schema.types import SortKey
from nimblepy.schema.zones import check_zone, has_zone

_US = "us"


def table_type(
    kind: pa.DataType, place: str, *, nested: bool = False, nanoseconds: bool = False
) -> pa.DataType:
    """Returns the type that a table has for values of ``kind``.

    Args:
        nanoseconds: timestamps with nanoseconds keep them, as format version 3 of Iceberg allows.
        nested: the column is a field of a struct. In structs UUIDs are 16 bytes, because pyarrow
            cannot make nested values of its UUID type.

    Raises:
        InvalidArgumentError: tables do not support the type. ``place`` names the column.
    """

    def inner(item: pa.DataType, name: str) -> pa.DataType:
        return table_type(item, f"{place}.{name}", nested=True, nanoseconds=nanoseconds)

    if is_uuid(kind) and not nested:
        return pa.uuid()
    if isinstance(kind, pa.BaseExtensionType):
        return table_type(kind.storage_type, place, nested=nested, nanoseconds=nanoseconds)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return table_type(kind.value_type, place, nested=nested, nanoseconds=nanoseconds)
    if pt.is_struct(kind):
        if not kind.num_fields:
            raise InvalidArgumentError(
                f"{place} is a struct without fields; a struct needs at least one field"
            )
        return pa.struct([only_doc(f.with_type(inner(f.type, f.name))) for f in kind])
    if pt.is_map(kind):
        key, value = inner(kind.key_type, "key"), inner(kind.item_type, "value")
        return pa.map_(key, pa.field("value", value, kind.item_field.nullable))
    if hasattr(kind, "value_field"):
        value = inner(kind.value_type, "element")
        element = pa.field("element", value, kind.value_field.nullable)
        return pa.list_(element, kind.list_size if pt.is_fixed_size_list(kind) else -1)
    if has_zone(kind):
        check_zone(kind.tz, place)
    if pt.is_timestamp(kind):
        return pa.timestamp("ns" if nanoseconds and kind.unit == "ns" else _US, kind.tz)
    plain = _plain(kind)
    if plain is None:
        raise InvalidArgumentError(
            f"{place} has type {kind}, which tables do not support{_hint(kind)}"
        )
    return plain


def _plain(kind: pa.DataType) -> pa.DataType | None:
    if pt.is_boolean(kind) or pt.is_int32(kind) or pt.is_int64(kind):
        return kind
    if pt.is_int8(kind) or pt.is_int16(kind) or pt.is_uint8(kind) or pt.is_uint16(kind):
        return pa.int32()
    if pt.is_uint32(kind):
        return pa.int64()
    if pt.is_float16(kind) or pt.is_float32(kind):
        return pa.float32()
    if pt.is_float64(kind):
        return kind
    if pt.is_decimal(kind) and kind.precision <= 38 and kind.scale >= 0:
        return pa.decimal128(kind.precision, kind.scale)
    if pt.is_date(kind):
        return pa.date32()
    if pt.is_time(kind):
        return pa.time64(_US)
    if pt.is_fixed_size_binary(kind):
        return kind if kind.byte_width else None
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return pa.binary()
    return None


def _hint(kind: pa.DataType) -> str:
    if pt.is_uint64(kind):
        return "; convert it to int64 or decimal128(20, 0)"
    if pt.is_decimal(kind):
        return "; decimals have at most 38 digits and no negative scale"
    if pt.is_duration(kind):
        return "; convert it to int64"
    if pt.is_null(kind):
        return "; give it a type"
    return ""


def table_schema(schema: pa.Schema, *, nanoseconds: bool = False) -> pa.Schema:
    """Returns the columns of a table for data with ``schema``.

    Args:
        nanoseconds: as for ``table_type``.

    Raises:
        InvalidArgumentError: a type is not supported, there is no column, or a name occurs twice.
    """
    if not len(schema):
        raise InvalidArgumentError("a table needs at least one column")
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InvalidArgumentError(f"column {name!r} occurs twice")
        if not name:
            raise InvalidArgumentError("a column has no name")

    def column(item: pa.Field) -> pa.Field:
        kind = table_type(item.type, f"column {item.name!r}", nanoseconds=nanoseconds)
        return only_doc(item.with_type(kind))

    return pa.schema([column(item) for item in schema])


class Conformer:
    """Converts batches to the columns of a table, by name.

    Args:
        partial: the data may lack columns, which are then left out.
        cast: round or truncate values that the table's types cannot represent.
        drop: leave out columns that the table does not have.

    Attributes:
        schema: of the converted batches.
        keeps_values: no column is converted or added, and no column is nested.

    Raises:
        InvalidArgumentError: an unknown column, a missing column that must not be null, or a value
            that a column cannot store. The message names the column, the row and the value.
    """

    def __init__(
        self,
        have: pa.Schema,
        wanted: pa.Schema,
        *,
        partial: bool = False,
        cast: bool = False,
        drop: bool = False,
    ) -> None:
        from nimblepy.schema.convert import stored  # loads pyarrow.compute

        unknown = [name for name in have.names if name not in wanted.names]
        if unknown and not drop:
            field = have.field(have.names.index(unknown[0]))
            file = (field.metadata or {}).get(FILE_OF_COLUMN, b"data").decode()
            _unknown(file, f"unknown column {unknown[0]!r}", wanted.names)
        for name in have.names:
            if have.names.count(name) > 1:
                raise InvalidArgumentError(f"data: column {name!r} occurs twice")
        self._rows = 0  # number of rows in earlier batches
        self._parts: list[tuple[int | None, Convert | None, pa.Field]] = []
        rules: Rules | None = None
        self.keeps_values = True
        for field in wanted:
            at = have.get_field_index(field.name)
            place = f"column {field.name!r}"
            if at < 0 and partial:
                continue
            if at < 0:
                _missing(field, place)
                self._parts.append((None, None, field))
                self.keeps_values = False
                continue
            if not pt.is_nested(field.type) and have.field(at).type.equals(field.type):
                self._parts.append((at, None, field))
                continue
            self.keeps_values = False
            if rules is None:
                unknown_field = None if drop else _unknown_field
                rules = Rules(match_by_name, _missing, stored(cast=cast), unknown_field)
            convert = converter(have.field(at).type, field.type, rules, place)
            self._parts.append((at, convert, field))
        self.schema = pa.schema([field for _, _, field in self._parts])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for at, convert, field in self._parts:
            if at is None:
                array = repeated(pa.scalar(None, field.type), batch.num_rows)
            elif convert is None:
                array = batch.column(at)
            else:
                try:
                    array = convert(batch.column(at))
                except UnfitError as error:
                    message = error.message(f"column {field.name!r}", self._rows)
                    raise InvalidArgumentError(message) from None
            if not field.nullable and array.null_count:
                row = self._rows + array.is_null().index(True).as_py()
                raise InvalidArgumentError(
                    f"column {field.name!r} has {array.null_count} nulls, which the table does not "
                    f"allow; the first is in row {row}"
                )
            _refuse_inner_nulls(field.type, array, field.name)
            arrays.append(array)
        self._rows += batch.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _unknown(place: str, what: str, names: Sequence[str]) -> NoReturn:
    raise InvalidArgumentError(
        f"{place}: {what}; the table has {', '.join(names)}; new_columns='add' adds it, "
        "new_columns='drop' leaves it out"
    )


def _unknown_field(field: pa.Field, place: str) -> None:
    raise InvalidArgumentError(
        f"data: {place} is not a field of the table; table.alter() adds it, "
        "new_columns='drop' leaves it out"
    )


def _inner_fields(kind: pa.DataType) -> list[pa.Field]:
    if pt.is_map(kind):
        return [kind.key_field, kind.item_field]
    if is_list(kind):
        return [kind.value_field]
    return list(kind) if pt.is_struct(kind) else []


def _has_required(kind: pa.DataType) -> bool:
    """Returns whether any nested value must not be null.

    Keys of maps do not count: they are never null.
    """
    inner = _inner_fields(kind)[1:] if pt.is_map(kind) else _inner_fields(kind)
    return any(not item.nullable or _has_required(item.type) for item in inner)


def _refuse_inner_nulls(kind: pa.DataType, array: pa.Array, place: str) -> None:
    """Raises for nested nulls that the table does not allow, unless a parent is null."""
    if not _has_required(kind):
        return
    if pt.is_struct(kind):
        columns = (array.drop_null() if array.null_count else array).flatten()
    elif pt.is_map(kind):
        entries = array.cast(pa.list_(pa.struct(_inner_fields(kind)))).flatten()
        columns = entries.flatten()
    else:
        columns = [array.flatten()]
    for item, column in zip(_inner_fields(kind), columns, strict=True):
        inner = f"{place}.{item.name}"
        if not item.nullable and column.null_count:
            raise InvalidArgumentError(
                f"column {inner!r} has {column.null_count} nulls, which the table does not allow"
            )
        _refuse_inner_nulls(item.type, column, inner)


def _missing(field: pa.Field, place: str) -> pa.Scalar:
    if not field.nullable:
        raise InvalidArgumentError(
            f"data: {place} is missing, and the table does not allow nulls in it"
        )
    return pa.scalar(None, field.type)


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Returns whether Iceberg allows widening a column from ``narrow`` to ``wide``, which keeps all
    values.
    """
    if pt.is_null(narrow):
        return not pt.is_nested(wide)
    if pt.is_int32(narrow):
        return bool(pt.is_int64(wide))
    if pt.is_float32(narrow):
        return bool(pt.is_float64(wide))
    if pt.is_decimal128(narrow) and pt.is_decimal128(wide):
        return bool(narrow.scale == wide.scale and narrow.precision <= wide.precision)
    return False


def check_keys(schema: pa.Schema, keys: Sequence[SortKey], what: str) -> None:
    """Raises for key columns that do not exist or whose type has no order."""
    for key in keys:
        kind = resolve_column(schema, key.column).type
        if pt.is_nested(kind):
            raise InvalidArgumentError(
                f"{what}: column {key.column!r} is {kind}, which has no order"
            )
