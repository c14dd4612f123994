"""Rows as JSON: exact, readable, and independent of pyarrow's own conversions.

* null is ``null``; booleans and integers are themselves
* floats are ``{"bits": "7ff8..."}``: the IEEE 754 bits, big-endian hexadecimal digits
* dates, times, timestamps and durations are the stored integer; the type tells the unit
* decimals and texts are strings; bytes are ``{"hex": "00ff"}``
* an interval is ``[months, days, nanoseconds]``
* lists are lists; a map is a list of ``[key, value]``
* a struct is ``{"fields": [...]}`` by position
* a union value is ``{"type_code": n, "value": ...}``
* dictionary, run-end encoded and extension values are those that they stand for
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow as pa
from exact import as_bits
from pyarrow import types as pat

Json = Any
FULL_ROWS = 64  # longer columns are written as a digest and every n-th row


def _float_json(type_: pa.DataType, bits: int) -> Json:
    return {"bits": f"{bits:0{type_.bit_width // 4}x}"}


def _scalar_json(scalar: pa.Scalar | None, type_: pa.DataType) -> Json:
    """`scalar` has `bits_type(type_)`: floats come as unsigned integers."""
    if isinstance(type_, pa.BaseExtensionType):
        return _scalar_json(scalar, type_.storage_type)
    if pat.is_run_end_encoded(type_):
        return _scalar_json(scalar.value, type_.value_type)
    if pat.is_dictionary(type_):
        return _scalar_json(scalar.value, type_.value_type)
    if pat.is_union(type_):
        index = type_.type_codes.index(scalar.type_code)
        value = _scalar_json(scalar.value, type_.field(index).type)
        return {"type_code": scalar.type_code, "value": value}
    if scalar is None or not scalar.is_valid:  # pyarrow has None inside null unions and runs
        return None
    if pat.is_floating(type_):
        return _float_json(type_, scalar.as_py())
    if pat.is_map(type_):
        pair = [type_.key_type, type_.item_type]
        return [
            [_scalar_json(entry[i], pair[i]) for i in range(2)] for entry in scalar.values or ()
        ]
    if pat.is_struct(type_):
        return {"fields": [_scalar_json(scalar[i], type_[i].type) for i in range(type_.num_fields)]}
    if pat.is_nested(type_):
        return [_scalar_json(item, type_.value_type) for item in scalar.values]
    if pat.is_interval(type_):
        return list(scalar.as_py())
    if pat.is_temporal(type_):
        return scalar.value
    if pat.is_decimal(type_):
        return str(scalar.as_py())
    value = scalar.as_py()
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def column_json(column: pa.ChunkedArray) -> Json:
    """The rows of a column; of a long one a digest and a sample."""
    rows = [_scalar_json(scalar, column.type) for scalar in as_bits(column)]
    if len(rows) <= FULL_ROWS:
        return {"rows": rows}
    text = json.dumps(rows, ensure_ascii=True, separators=(",", ":"))
    step = len(rows) // 16
    return {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "every": step,
        "sample": rows[::step],
    }


def _metadata_json(metadata: dict[bytes, bytes] | None) -> Json:
    return [[key.hex(), value.hex()] for key, value in (metadata or {}).items()]


def table_json(table: pa.Table) -> Json:
    return {
        "num_rows": table.num_rows,
        "metadata": _metadata_json(table.schema.metadata),
        "columns": [
            {
                "name": field.name,
                "type": str(field.type),
                "nullable": field.nullable,
                "metadata": _metadata_json(field.metadata),
                **column_json(column),
            }
            for field, column in zip(table.schema, table.columns, strict=True)
        ],
    }
