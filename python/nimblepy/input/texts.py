"""Converts the columns of CSV and JSON files to the types of a table.

Values in these files are text, so they are converted from the text: through another type, such as
the double that a reader infers, long numbers and time zones would be lost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.input.python_values import converted, typed_array
from nimblepy.input.safe_json import other_row
from nimblepy.schema.convert import stored
from nimblepy.schema.field_ids import match_by_name
from nimblepy.schema.kinds import is_bytes, is_list, is_text
from nimblepy.schema.number_text import exact_numbers
from nimblepy.schema.reshape import UnfitError
from nimblepy.schema.text import is_uuid, is_uuid_size, uuid_of
from nimblepy.schema.values import show

Convert: TypeAlias = Callable[[pa.Array], pa.Array]

# Rows of JSON that are converted in Python at once.
_ROWS = 1 << 14
# Floats that JSON does not have as numbers: `nimble scan --json` prints them as these texts.
_NOT_FINITE = {text: float(text) for text in ("inf", "-inf", "nan")}
_MOST_DIGITS = 38  # of decimals in tables
_LEADING_ZERO = r"^\s*[+-]?0[0-9]"
_INFINITE = r"^\s*[+-]?(?i:inf|infinity)\s*$"


def is_of_text(kind: pa.DataType) -> bool:
    """Returns whether :func:`of_text` converts to this type."""
    return is_uuid(kind) or not (pt.is_nested(kind) or is_text(kind) or _is_other(kind))


def _is_other(kind: pa.DataType) -> bool:
    numbers = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)
    times = pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_time(kind)
    return not (numbers or times or pt.is_boolean(kind))


def is_of_digits(kind: pa.DataType) -> bool:
    """Returns whether text of this type is hexadecimal. Text of 16 bytes may also be a UUID."""
    return is_bytes(kind) and not is_uuid_size(kind)


def of_text(texts: pa.Array, target: pa.DataType, cast: bool) -> pa.Array:
    """Converts the fields of a CSV column.

    Raises:
        UnfitError: a text is not a value of the type.
    """
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(texts)
    if is_of_digits(target):
        values = [
            None if text is None else _bytes_of_digits(row, text)
            for row, text in enumerate(texts.to_pylist())
        ]
        return converted(pa.array(values, pa.binary()), target, cast, "")
    if pt.is_floating(target):
        return _floats(texts, target)
    if pt.is_integer(target) or pt.is_decimal(target):
        return exact_numbers(texts, target, cast)
    rule = stored(cast=cast, literals=True, checked=True)
    return rule(texts.type, target, "")(texts)


def only_nulls(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Returns nulls of a type that CSV does not have.

    Raises:
        UnfitError: the column has a value.
    """
    row = array.is_valid().index(True).as_py()
    if row >= 0:
        raise UnfitError(
            row,
            f"{show(array[row].as_py())} cannot be read as {target}: CSV has no lists, maps or "
            "structs; use JSON lines or Parquet",
        )
    return pa.nulls(len(array), target)


def has_leading_zero(texts: pa.Array) -> bool:
    """Returns whether a text is a number with a leading zero, such as ``00123``."""
    return _first_match(texts, _LEADING_ZERO) >= 0


def are_long_integers(texts: pa.Array) -> bool:
    """Returns whether all texts are whole numbers, and one does not fit int64."""
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(texts, r"^\s*[+-]?[0-9]+\s*$")).as_py():
        return False
    long = texts.filter(pc.match_substring_regex(texts, r"[0-9]{19}"))
    return any(not -(2**63) <= int(text) < 2**63 for text in long.to_pylist())


def loses_digits(text: str) -> bool:
    """Returns whether a float changes a number: it has another value, and is printed otherwise."""
    number = float(text)
    if math.isinf(number):
        return True
    exact = Decimal(text)
    return exact not in (Decimal(number), Decimal(repr(number)))


def inexact_integer(texts: pa.Array) -> int:
    """Returns the first row with a whole number whose digits a float does not keep, or -1."""
    import pyarrow.compute as pc

    is_long = pc.match_substring_regex(texts, r"^\s*[+-]?[0-9]{16,}\s*$")
    if not pc.any(is_long).as_py():
        return -1
    rows = pc.indices_nonzero(pc.fill_null(is_long, False)).to_pylist()
    return next((row for row in rows if loses_digits(texts[row].as_py())), -1)


def exact_floats(texts: pa.Array) -> pa.Array:
    """Converts the fields of a new CSV column of floats.

    Raises:
        UnfitError: a text is not a number, or a whole number whose digits a float does not keep.
    """
    row = inexact_integer(texts)
    if row >= 0:
        raise UnfitError(row, inexact_message(texts[row].as_py()))
    return of_text(texts, pa.float64(), cast=False)


def inexact_message(text: str) -> str:
    """Returns the reason why a whole number is refused in a new column of floats."""
    text = text.strip()
    if fits_int64(text):
        why = "is in a column of floats, which lose its last digits"
    elif loses_digits(text):
        why = "does not fit int64; floats lose its last digits"
    else:
        why = "does not fit int64"
    digits = len(text.lstrip("+-"))
    kinds = f"decimal({max(20, digits)}, 0) or string" if digits <= _MOST_DIGITS else "string"
    shown = text if len(text) <= 60 else f"{text[:40]}... ({digits} digits)"
    return f"{shown} {why}; create the table with a schema, for example {kinds}"


def fits_int64(text: str) -> bool:
    return -(2**63) <= Decimal(text) < 2**63


def largest_float(array: pa.Array) -> float:
    """Returns the largest magnitude of the floats in a column, also inside structs and lists."""
    import pyarrow.compute as pc

    if pt.is_struct(array.type):
        return max(map(largest_float, array.flatten()), default=0.0)
    if is_list(array.type):
        return largest_float(array.flatten())
    if not pt.is_float64(array.type):
        return 0.0
    most = pc.max(pc.abs(array)).as_py()
    return 0.0 if most is None else float(most)


def whole_numbers(texts: pa.Array) -> pa.Array:
    """Converts the fields of a CSV column whose first block has numbers without leading zeros.

    Raises:
        UnfitError: a text has a leading zero, or is not a whole number.
    """
    row = _first_match(texts, _LEADING_ZERO)
    if row >= 0:
        raise UnfitError(
            row,
            f"{show(texts[row].as_py())} has a leading zero, and no number at the start of the "
            "column has one; create the table with a schema: int64 drops the zeros, string keeps "
            "them",
        )
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return of_text(texts, pa.int64(), cast=False)


def _first_match(texts: pa.Array, pattern: str) -> int:
    """Returns the first row that matches a regular expression, or -1."""
    import pyarrow.compute as pc

    return int(pc.index(pc.match_substring_regex(texts, pattern), True).as_py())


def _bytes_of_digits(row: int, text: str) -> bytes:
    """Returns the bytes that ``nimble scan`` prints as this text."""
    try:
        made = bytes.fromhex(text)
    except ValueError:
        made = b""
    if 2 * len(made) != len(text):
        raise UnfitError(
            row, f"{show(text)} is not hexadecimal, as bytes are written in JSON and CSV"
        )
    return made


def _floats(texts: pa.Array, target: pa.DataType) -> pa.Array:
    import pyarrow.compute as pc

    made = stored(checked=True)(texts.type, target, "")(texts)
    infinite = pc.is_inf(made)
    if pc.any(infinite).as_py():
        beyond = pc.and_not(infinite, pc.match_substring_regex(texts, _INFINITE))
        row = pc.index(beyond, True).as_py()
        if row >= 0:
            raise UnfitError(row, f"{texts[row].as_py()!r} is out of range of {target}")
    return made


class Typed:
    """Converts the batches of one file.

    Args:
        name: of the file, for messages.
        columns: conversion and type by column.
    """

    def __init__(self, name: str, columns: Mapping[str, tuple[Convert, pa.DataType]]) -> None:
        self._name = name
        self._columns = columns
        self._rows = 0

    def schema(self, have: pa.Schema) -> pa.Schema:
        return pa.schema(
            [
                field if field.name not in self._columns else pa.field(field.name, kind)
                for field in have
                for _, kind in (self._columns.get(field.name, (None, field.type)),)
            ]
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [
                self._column(name, array)
                for name, array in zip(batch.schema.names, batch.columns, strict=True)
            ]
            self._rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema(batch.schema))

    def _column(self, name: str, array: pa.Array) -> pa.Array:
        if name not in self._columns:
            return array
        try:
            return self._columns[name][0](array)
        except UnfitError as error:
            message = error.message(f"{self._name}: column {name!r}", self._rows)
            raise InvalidArgumentError(message) from None
        except InvalidArgumentError as error:  # of the type, not of a value
            raise InvalidArgumentError(
                f"{self._name}: {error}{_first_value(array, self._rows)}"
            ) from None


def _first_value(array: pa.Array, first_row: int) -> str:
    """Returns the first value of a column that is not null, for messages."""
    import pyarrow.compute as pc

    row = pc.index(array.is_valid(), True).as_py()
    return "" if row < 0 else f"; row {first_row + row} has {show(array[row].as_py())}"


# ------------------------------------------------------------------ JSON


def without_times(kind: pa.DataType) -> pa.DataType:
    """Returns a type that pyarrow inferred from JSON, with text for what looked like times.

    JSON has no times, and pyarrow drops their zones.
    """
    if pt.is_timestamp(kind):
        return pa.string()
    if pt.is_struct(kind):
        return pa.struct([item.with_type(without_times(item.type)) for item in kind])
    if is_list(kind):
        return pa.list_(without_times(kind.value_type))
    return kind


def keeps_json(have: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether a column that pyarrow inferred from JSON has the exact values."""
    if pt.is_null(have):
        return True
    if pt.is_struct(have) and pt.is_struct(target):
        fields = [target.field(i) for i in range(target.num_fields)]
        pairs = [(item, match_by_name(item, fields)) for item in have]
        return all(at is None or keeps_json(item.type, fields[at].type) for item, at in pairs)
    if is_list(have) and is_list(target):
        return keeps_json(have.value_type, target.value_type)
    if pt.is_nested(have) or pt.is_nested(target):
        return not pt.is_map(target)  # an object for a map
    if is_text(have):
        return not (pt.is_floating(target) or is_of_digits(target))
    return not pt.is_floating(have) or pt.is_floating(target)


def read_type(have: pa.DataType, target: pa.DataType) -> pa.DataType:
    """Returns the type in which pyarrow reads a column of JSON: inferred, or that of the floats,
    so that each number means the nearest one.
    """
    if pt.is_struct(have) and pt.is_struct(target):
        kinds = {item.name: item.type for item in target}
        return pa.struct(
            [item.with_type(read_type(item.type, kinds.get(item.name, item.type))) for item in have]
        )
    if is_list(have) and is_list(target):
        return pa.list_(read_type(have.value_type, target.value_type))
    is_number = pt.is_floating(have) or pt.is_integer(have)
    return target if is_number and (pt.is_float32(target) or pt.is_float64(target)) else have


def of_json(array: pa.Array, target: pa.DataType, cast: bool, place: str) -> pa.Array:
    """Converts a column that pyarrow read from JSON.

    Raises:
        UnfitError: a value is not a value of the type.
    """
    _refuse_infinities(array)
    return converted(array, target, cast, place)


def _refuse_infinities(array: pa.Array) -> None:
    """Raises for floats that were out of range: JSON has no numbers for infinities."""
    import pyarrow.compute as pc

    if pt.is_struct(array.type):
        for i in range(array.type.num_fields):
            _refuse_infinities(array.field(i))
    elif is_list(array.type):
        _refuse_infinities(array.flatten())
    elif pt.is_floating(array.type) and pc.any(pc.is_inf(array)).as_py():
        raise UnfitError(
            None,
            f"a value is out of range of {array.type}; in JSON, an infinity is the text 'inf' or "
            "'-inf'",
        )


def rows_of_json(
    source: Iterable[bytes], target: pa.Schema, cast: bool, name: str
) -> Iterator[pa.RecordBatch]:
    """Reads JSON lines value by value.

    Args:
        target: all columns, and their types.
        name: of the file, for messages.

    Raises:
        InvalidArgumentError: a line is not an object, or a value does not fit.
    """
    rows: list[Mapping[str, Any]] = []
    done = 0
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_float=_Number)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"{name}: line {number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise other_row(name, number, row)
        rows.append(row)
        if len(rows) == _ROWS:
            yield _batch(rows, target, cast, name, done)
            done += len(rows)
            rows = []
    yield _batch(rows, target, cast, name, done)


def first_names(source: Iterable[bytes]) -> list[str]:
    """Returns the columns of the first lines of a JSON file. Ignores lines that are not JSON."""
    names: dict[str, None] = {}
    for line in islice(source, _ROWS):
        with suppress(ValueError):
            row = json.loads(line)
            names |= dict.fromkeys(row if isinstance(row, dict) else ())
    return list(names)


class _Number(str):
    """The text of a number with a point or an exponent."""


def _batch(
    rows: Sequence[Mapping[str, Any]], target: pa.Schema, cast: bool, name: str, done: int
) -> pa.RecordBatch:
    unknown = {name for row in rows for name in row} - set(target.names)
    if unknown:
        raise InvalidArgumentError(
            f"{name}: column {min(unknown)!r} is in rows {done} to {done + len(rows) - 1}, but not "
            "in the rows before; put a row with all columns first"
        )
    arrays = []
    for field in target:
        try:
            values = [
                _valued(number, row.get(field.name), field.type) for number, row in enumerate(rows)
            ]
            arrays.append(typed_array(values, field.type, cast))
        except UnfitError as error:
            message = error.message(f"{name}: column {field.name!r}", done)
            raise InvalidArgumentError(message) from None
        except Exception as error:
            why = str(error).strip() or "an object has a field that the first ones do not have"
            raise InvalidArgumentError(
                f"{name}: column {field.name!r}, rows {done} to {done + len(rows) - 1}: cannot be "
                f"stored as {field.type}: {why}"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def merged_type(have: pa.DataType, target: pa.DataType) -> pa.DataType:
    """Returns a table's type, with the additional fields that JSON objects have."""
    if pt.is_struct(have) and pt.is_struct(target):
        extra = {item.name: item for item in have}
        fields = [
            item.with_type(merged_type(extra.pop(item.name).type, item.type))
            if item.name in extra
            else item
            for item in target
        ]
        return pa.struct([*fields, *extra.values()])
    if is_list(have) and is_list(target):
        element = target.value_field
        return pa.list_(element.with_type(merged_type(have.value_type, element.type)))
    return target


def _valued(row: int, value: Any, kind: pa.DataType) -> Any:
    """Converts the numbers and the hexadecimal text in a JSON value, as a type needs them.

    Numbers become floats for a float type, and otherwise exact decimals.
    """
    if isinstance(value, _Number) and not pt.is_floating(kind):
        return Decimal(value)
    if pt.is_floating(kind) and isinstance(value, (_Number, int)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise UnfitError(row, f"{value} is out of range of {kind}")
        return number
    if isinstance(value, str) and pt.is_floating(kind):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, str) and is_of_digits(kind):
        return _bytes_of_digits(row, value)
    if isinstance(value, str) and is_uuid_size(kind) and not is_uuid(kind):
        try:
            return uuid_of(value).bytes
        except InvalidArgumentError as error:
            raise UnfitError(row, f"{show(value)} is neither a UUID nor 16 bytes") from error
    if isinstance(value, list) and is_list(kind):
        return [_valued(row, item, kind.value_type) for item in value]
    if isinstance(value, dict) and pt.is_struct(kind):
        kinds = {item.name: item.type for item in kind}
        return {name: _valued(row, v, kinds.get(name, pa.null())) for name, v in value.items()}
    if isinstance(value, dict) and pt.is_map(kind):
        value = list(value.items())
    if isinstance(value, list) and pt.is_map(
        kind
    ):  # `nimble scan --json` prints maps as lists of pairs
        if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value):
            raise UnfitError(row, f"{show(value)} is not an object, and not a list of pairs")
        return [(_valued(row, k, kind.key_type), _valued(row, v, kind.item_type)) for k, v in value]
    return value
