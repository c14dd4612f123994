"""Converts arrays between types: matches, renames, converts, adds and removes fields.

A table's schema can change after a file is written. Readers convert the file's rows to the current
schema. The caller chooses how to match fields: by name when it writes, by field id when it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import is_bytes, is_list, is_text
from nimblepy.schema.plain import plain_array, plain_type
from nimblepy.schema.variant import check_stored, is_stored, joined

Convert: TypeAlias = Callable[[pa.Array], pa.Array]
# Returns the position of the data field that matches a target field; None if it is missing.
Match: TypeAlias = Callable[[pa.Field, Sequence[pa.Field]], int | None]
# Returns the value of a field that the data does not have. Raises if the field is required.
Missing: TypeAlias = Callable[[pa.Field, str], pa.Scalar]
# Returns the conversion of a type that is not nested: (type, target type, place).
# Raises InvalidArgumentError if no value of the type can be converted.
Leaf: TypeAlias = Callable[[pa.DataType, pa.DataType, str], Convert]
# Called with a data field that the target does not have, and its place. May raise an error.
Extra: TypeAlias = Callable[[pa.Field, str], None]


class UnfitError(ValueError):
    """A value cannot be converted.

    Attributes:
        row: the position of the value in the array; ``None`` if unknown.
        text: the value, and why it does not fit.
        cast: what ``cast=True`` would do with the value; empty if it would also fail.
    """

    def __init__(self, row: int | None, text: str, cast: str = "") -> None:
        super().__init__(text)
        self.row = row
        self.text = text
        self.cast = cast

    def message(self, place: str, first_row: int = 0) -> str:
        """Returns a message with the column, the row, the value, and what to do.

        Args:
            first_row: the number of the array's first row.
        """
        where = place if self.row is None else f"{place}, row {first_row + self.row}"
        return f"{where}: {self.text}" + (f"; pass cast=True to {self.cast}" if self.cast else "")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for matching fields and converting values."""

    match: Match
    missing: Missing
    leaf: Leaf
    extra: Extra | None = None


def converter(have: pa.DataType, target: pa.DataType, rules: Rules, place: str) -> Convert | None:
    """Returns a function that converts arrays of type ``have`` to ``target``.

    Returns ``None`` if no conversion is needed. The function raises UnfitError for a value that
    cannot be converted.

    Args:
        place: names the column in messages.
    """
    if pt.is_null(have):
        return lambda array: pa.nulls(len(array), target)
    if _is_nested(target) and (pt.is_dictionary(have) or isinstance(have, pa.BaseExtensionType)):
        plain = plain_type(have)
        inner = converter(plain, target, rules, place)
        return lambda array: _then(plain_array(array), inner)
    if pt.is_struct(target) and pt.is_struct(have):
        return _struct(have, target, rules, place)
    if is_list(target) and is_list(have):
        return _list(have, target, rules, place)
    if pt.is_map(target) and pt.is_map(have):
        return _map(have, target, rules, place)
    if have.equals(target):
        return None
    if pt.is_binary(target) and is_stored(have):
        check_stored(have, place)
        return joined
    if pt.is_dictionary(target) or pt.is_run_end_encoded(target):
        return _encoded(have, target, rules, place)
    if _is_nested(target) or _is_nested(have):
        raise InvalidArgumentError(f"{place} is {have}; the table has {target}")
    return rules.leaf(have, target, place)


def _is_nested(data_type: pa.DataType) -> bool:
    return bool(pt.is_struct(data_type) or pt.is_map(data_type) or is_list(data_type))


def _encoded(have: pa.DataType, target: pa.DataType, rules: Rules, place: str) -> Convert:
    """Returns a conversion to a dictionary or run-end encoded type."""
    inner = converter(plain_type(have), target.value_type, rules, place)
    if pt.is_run_end_encoded(target):
        import pyarrow.compute as pc

        return lambda array: pc.run_end_encode(
            _then(plain_array(array), inner), run_end_type=target.run_end_type
        )

    def convert(array: pa.Array) -> pa.Array:
        if not pt.is_dictionary(array.type):
            array = plain_array(array).dictionary_encode()
        values = _then(plain_array(array.dictionary), inner)  # once per value, not per row
        indices = array.indices.cast(target.index_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=target.ordered)

    return convert


def _then(array: pa.Array, convert: Convert | None) -> pa.Array:
    return array if convert is None else convert(array)


def repeated(scalar: pa.Scalar, length: int) -> pa.Array:
    """Returns an array that repeats a value ``length`` times."""
    return pa.repeat(scalar, length) if scalar.is_valid else pa.nulls(length, scalar.type)


def _struct(have: pa.StructType, target: pa.StructType, rules: Rules, place: str) -> Convert | None:
    fields = [have.field(i) for i in range(have.num_fields)]
    parts: list[tuple[int | None, Convert | None, pa.Scalar | None]] = []
    for field in (target.field(i) for i in range(target.num_fields)):
        at = rules.match(field, fields)
        inner = f"{place}.{field.name}"
        if at is None:
            parts.append((None, None, rules.missing(field, inner)))
        else:
            parts.append((at, converter(fields[at].type, field.type, rules, inner), None))
    if rules.extra is not None:
        taken = {at for at, _, _ in parts}
        for at, field in enumerate(fields):
            if at not in taken:
                rules.extra(field, f"{place}.{field.name}")
    same = [at for at, _, _ in parts] == list(range(len(fields)))
    if same and not any(convert for _, convert, _ in parts):
        names = [field.name for field in fields]
        nullable = [field.nullable for field in fields]
        targets = [target.field(i) for i in range(target.num_fields)]
        if names == [t.name for t in targets] and nullable == [t.nullable for t in targets]:
            return None

    def convert_struct(array: pa.Array) -> pa.Array:
        children = array.flatten()
        arrays = [
            repeated(scalar, len(array)) if scalar is not None else _then(children[at], convert)
            for at, convert, scalar in parts
        ]
        targets = [target.field(i) for i in range(target.num_fields)]
        if array.null_count:
            valid = array.is_valid()
            arrays = [
                child if target.nullable else _filled(child, valid)
                for child, target in zip(arrays, targets, strict=True)
            ]
            made = pa.StructArray.from_arrays(
                arrays, fields=[t.with_nullable(True) for t in targets], mask=array.is_null()
            )
            return pa.Array.from_buffers(
                target, len(made), made.buffers()[:1], made.null_count, children=arrays
            )
        return pa.StructArray.from_arrays(arrays, fields=targets)

    return convert_struct


def _filled(array: pa.Array, valid: pa.Array) -> pa.Array:
    """Replaces values in null structs by a non-null value, for a field that is not nullable."""
    import pyarrow.compute as pc  # slow to import and rarely needed

    return pc.if_else(valid, array, pa.scalar(_any_value(array.type), array.type))


def _any_value(kind: pa.DataType) -> Any:
    """Returns some Python value of a type that is not null."""
    if pt.is_struct(kind):
        return {field.name: None if field.nullable else _any_value(field.type) for field in kind}
    if is_list(kind) or pt.is_map(kind):
        return []
    if pt.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    if is_text(kind) or is_bytes(kind):
        return "" if is_text(kind) else b""
    if pt.is_decimal(kind):
        return Decimal(0)
    zero = pa.scalar(0, pa.int32() if kind.bit_width <= 32 else pa.int64())
    return zero.cast(kind, safe=False).as_py()


def _list(have: pa.DataType, target: pa.DataType, rules: Rules, place: str) -> Convert | None:
    inner = converter(have.value_type, target.value_type, rules, f"{place}.element")
    if pt.is_fixed_size_list(target):
        return _vectors(have, target, inner)
    if not pt.is_list(target):  # large lists and list views: only files have them
        plain = pa.list_(target.value_field)
        first = _list(have, plain, rules, place)
        return lambda array: _then(array, first).cast(target)
    plain = pa.list_(have.value_field)
    if inner is None and pt.is_list(have):
        return None if have.equals(target) else lambda array: array.cast(target)

    def convert_list(array: pa.Array) -> pa.Array:
        lists = array if pt.is_list(have) else array.cast(plain)
        offsets, values = _elements(lists, inner)
        mask = lists.is_null() if lists.null_count else None
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)

    return convert_list


def _elements(lists: pa.ListArray, inner: Convert | None) -> tuple[pa.Array, pa.Array]:
    """Returns the offsets and the converted elements. Skips elements outside of a sliced array."""
    offsets, values = lists.offsets, lists.values
    begin, end = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    try:
        made = _then(values.slice(begin, end - begin), inner)
    except UnfitError as error:
        if error.row is not None:
            error.row = int(np.searchsorted(offsets.to_numpy(), begin + error.row, "right")) - 1
        raise
    import pyarrow.compute as pc

    return pc.subtract(offsets, offsets[0]) if len(offsets) else offsets, made


def _vectors(
    have: pa.DataType, target: pa.FixedSizeListType, inner: Convert | None
) -> Convert | None:
    """Returns the conversion to lists that all have the same length; ``None`` if not needed."""
    if pt.is_fixed_size_list(have) and have.list_size == target.list_size and inner is None:
        return None if have.equals(target) else lambda array: array.cast(target)
    size = target.list_size

    def convert(array: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        if pt.is_fixed_size_list(have):
            lists = array.cast(pa.list_(have.value_field))
        else:
            lists = array if pt.is_list(have) else array.cast(pa.list_(have.value_field))
        lengths = pc.fill_null(pc.list_value_length(lists), size)
        wrong = pc.not_equal(lengths, size)
        if pc.any(wrong).as_py():
            row = int(pc.index(wrong, True).as_py())
            raise UnfitError(row, f"has {lengths[row].as_py()} elements, but the column has {size}")
        offsets, values = _elements(lists, inner)
        starts = offsets[:-1]
        if lists.null_count or len(values) != size * len(lists):
            first = np.where(lists.is_valid().to_numpy(zero_copy_only=False), starts.to_numpy(), -1)
            at = np.repeat(first, size) + np.tile(np.arange(size), len(first))
            values = values.take(pa.array(at, mask=np.repeat(first < 0, size)))
        mask = lists.is_null() if lists.null_count else None
        return pa.FixedSizeListArray.from_arrays(values, type=target, mask=mask)

    return convert


def _map(have: pa.MapType, target: pa.MapType, rules: Rules, place: str) -> Convert | None:
    keys = converter(have.key_type, target.key_type, rules, f"{place}.key")
    items = converter(have.item_type, target.item_type, rules, f"{place}.value")
    if keys is None and items is None and have.equals(target):
        return None

    def convert_map(array: pa.Array) -> pa.Array:
        try:
            made = [_then(array.keys, keys), _then(array.items, items)]
        except UnfitError as error:
            error.row = None  # it counts entries, not maps
            raise
        entries = pa.StructArray.from_arrays(made, fields=[target.key_field, target.item_field])
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:2], -1, array.offset, children=[entries]
        )

    return convert_map
