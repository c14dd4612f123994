"""Which Arrow types the columns of a table have, and rows of the caller's types as those.

A table has Iceberg's types: what they cannot hold exactly is refused by name, what is only another
form of the same values (dictionaries, views, large offsets, narrower integers) is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import match_by_name
from nimblepy.schema.reshape import Convert, converter, repeated
from nimblepy.schema.types import SortKey

_US = "us"


def table_type(kind: pa.DataType, place: str) -> pa.DataType:
    """The type that a table has for values of ``kind``.

    Raises:
        InvalidArgumentError: it has none; ``place`` names the column.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return table_type(kind.storage_type, place)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return table_type(kind.value_type, place)
    if pt.is_struct(kind):
        if not kind.num_fields:
            raise InvalidArgumentError(f"{place} is a struct without fields")
        return pa.struct(
            [f.with_type(table_type(f.type, f"{place}.{f.name}")).remove_metadata() for f in kind]
        )
    if pt.is_map(kind):
        key = table_type(kind.key_type, f"{place}.key")
        value = table_type(kind.item_type, f"{place}.value")
        return pa.map_(key, pa.field("value", value, kind.item_field.nullable))
    if hasattr(kind, "value_field"):
        value = table_type(kind.value_type, f"{place}.element")
        return pa.list_(pa.field("element", value, kind.value_field.nullable))
    found = _plain(kind)
    if found is None:
        raise InvalidArgumentError(f"{place} is {kind}, which tables do not have{_hint(kind)}")
    return found


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
    if pt.is_timestamp(kind):
        return pa.timestamp(_US, None if kind.tz is None else "UTC")
    if pt.is_fixed_size_binary(kind):
        return kind if kind.byte_width else None
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return pa.binary()
    return None


def _hint(kind: pa.DataType) -> str:
    if pt.is_uint64(kind):
        return "; int64 or decimal128(20, 0) would hold its values"
    if pt.is_decimal(kind):
        return "; decimals have at most 38 digits and no negative scale"
    if pt.is_duration(kind):
        return "; int64 would hold its values"
    if pt.is_null(kind):
        return "; say which type its values will have"
    return ""


def table_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a table for data of ``schema``.

    Raises:
        InvalidArgumentError: a type that tables do not have, no column, or a name twice.
    """
    if not len(schema):
        raise InvalidArgumentError("a table needs at least one column")
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InvalidArgumentError(f"column {name!r} is there twice")
        if not name:
            raise InvalidArgumentError("a column without a name")
    return pa.schema(
        [f.with_type(table_type(f.type, f"column {f.name!r}")).remove_metadata() for f in schema]
    )


class Conformer:
    """Brings batches to the columns of a table, by name.

    Args:
        partial: columns that the data do not have are left out.

    Attributes:
        schema: of the batches.

    Raises:
        InvalidArgumentError: an unknown column, one that is missing and must have values, a type
            whose values may not fit, or a value that does not.
    """

    def __init__(self, have: pa.Schema, wanted: pa.Schema, *, partial: bool = False) -> None:
        unknown = [name for name in have.names if name not in wanted.names]
        if unknown:
            raise InvalidArgumentError(
                f"data: unknown column {unknown[0]!r}; the table has {', '.join(wanted.names)}"
            )
        for name in have.names:
            if have.names.count(name) > 1:
                raise InvalidArgumentError(f"data: column {name!r} is there twice")
        self._parts: list[tuple[int | None, Convert | None, pa.Field]] = []
        for field in wanted:
            at = have.get_field_index(field.name)
            place = f"column {field.name!r}"
            if at < 0 and partial:
                continue
            if at < 0:
                _missing(field, place)
                self._parts.append((None, None, field))
                continue
            kind = have.field(at).type
            convert = converter(kind, field.type, match_by_name, _missing, _check, place)
            self._parts.append((at, convert, field))
        self.schema = pa.schema([field for _, _, field in self._parts])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for at, convert, field in self._parts:
            if at is None:
                array = repeated(pa.scalar(None, field.type), batch.num_rows)
            else:
                array = batch.column(at) if convert is None else convert(batch.column(at))
            if not field.nullable and array.null_count:
                raise InvalidArgumentError(
                    f"column {field.name!r} must have values, but has {array.null_count} nulls"
                )
            _refuse_inner_nulls(field.type, array, field.name)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _inner_fields(kind: pa.DataType) -> list[pa.Field]:
    if pt.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pt.is_list(kind):
        return [kind.value_field]
    return list(kind) if pt.is_struct(kind) else []


def _has_required(kind: pa.DataType) -> bool:
    """Whether a value inside a value must not be null; keys of maps never are."""
    inner = _inner_fields(kind)[1:] if pt.is_map(kind) else _inner_fields(kind)
    return any(not item.nullable or _has_required(item.type) for item in inner)


def _refuse_inner_nulls(kind: pa.DataType, array: pa.Array, place: str) -> None:
    """Refuses nulls inside of values, where the table has none; below a null there may be some."""
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
                f"column {inner!r} must have values, but has {column.null_count} nulls"
            )
        _refuse_inner_nulls(item.type, column, inner)


def _missing(field: pa.Field, place: str) -> pa.Scalar:
    if not field.nullable:
        raise InvalidArgumentError(f"data: {place} is missing, and must have values")
    return pa.scalar(None, field.type)


def _check(have: pa.DataType, wanted: pa.DataType, place: str) -> None:
    """Refuses types whose values are others, or might be rounded."""
    if pt.is_null(have):
        return
    form = _plain(have)
    if form is None and pt.is_run_end_encoded(have):
        form = _plain(have.value_type)
    if form is not None and (form.equals(wanted) or widens(form, wanted)):
        return
    if form is not None and pt.is_integer(form) and pt.is_integer(wanted):
        return  # each value is checked
    if form is not None and pt.is_binary(form) and pt.is_fixed_size_binary(wanted):
        return  # each length is checked; Spark has no other form of UUIDs and the like
    raise InvalidArgumentError(f"{place} is {have}, the table has {wanted}")


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether Iceberg allows a column to become this type: every value stays what it is."""
    if pt.is_int32(narrow):
        return bool(pt.is_int64(wide))
    if pt.is_float32(narrow):
        return bool(pt.is_float64(wide))
    if pt.is_decimal128(narrow) and pt.is_decimal128(wide):
        return bool(narrow.scale == wide.scale and narrow.precision <= wide.precision)
    return False


def check_keys(schema: pa.Schema, keys: Sequence[SortKey], what: str) -> None:
    """Refuses key columns that are not there or have no order."""
    for key in keys:
        kind = resolve_column(schema, key.column).type
        if pt.is_nested(kind):
            raise InvalidArgumentError(
                f"{what}: column {key.column!r} is {kind}, which has no order"
            )
