"""Types of columns on the command line: SQL names, or the names that ``nimble schema`` prints."""

from __future__ import annotations

import re

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError

_SQL = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "real": pa.float32(),
    "text": pa.string(),
    "varchar": pa.string(),
    "blob": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "uuid": pa.uuid(),
}


def parse_columns(text: str) -> pa.Schema:
    """Parses ``"id bigint, price decimal(10, 2)"``."""
    return pa.schema([parse_column(part) for part in _split(text)])


def parse_column(text: str) -> pa.Field:
    """Parses ``"price double"``."""
    name, _, kind = text.strip().partition(" ")
    if not name or not kind.strip():
        raise InvalidArgumentError(f"column {text!r}: expected a name and a type: 'price double'")
    return pa.field(name, parse_type(kind))


def parse_type(text: str) -> pa.DataType:
    """Parses a type, such as ``bigint``, ``decimal(10, 2)``, ``timestamp[us, tz=UTC]`` or
    ``list<double>``.
    """
    name = " ".join(text.split()).lower()
    if name in _SQL:
        return _SQL[name]
    if match := re.fullmatch(r"(?:decimal|decimal128|numeric) ?\( ?(\d+) ?, ?(\d+) ?\)", name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]", " ".join(text.split())):
        return pa.timestamp(match[1], match[2])
    if match := re.fullmatch(r"list ?<(?:item: )?(.+)>|(.+)\[\]", " ".join(text.split())):
        return pa.list_(parse_type(match[1] or match[2]))
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise InvalidArgumentError(
            f"type {text.strip()!r}: expected a type such as bigint, double, string, date, "
            "timestamp, decimal(10, 2) or list<double>"
        ) from None


def _split(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts = re.findall(r"(?:[^,(<\[]|\([^)]*\)|<[^>]*>|\[[^\]]*\])+", text)
    if not parts:
        raise InvalidArgumentError("schema: expected columns as in 'id bigint, price double'")
    return parts
