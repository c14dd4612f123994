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
    "double precision": pa.float64(),
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
    """Parses ``"id bigint not null, price decimal(10, 2)"``."""
    if not text.strip():
        raise InvalidArgumentError("schema: expected columns as in 'id bigint, price double'")
    return pa.schema([_parse_column(part) for part in _split(text)])


def parse_column(text: str) -> pa.Field:
    """Parses ``"price double"``, a column of a table that may have rows."""
    field = _parse_column(text)
    if not field.nullable:
        raise InvalidArgumentError(
            f"column {text.strip()!r}: only --schema of create takes 'not null'; leave it out"
        )
    return field


def _parse_column(text: str) -> pa.Field:
    """Parses ``"price double"`` or ``"price double not null"``."""
    name, _, kind = text.strip().partition(" ")
    kind, is_required = re.subn(r"\s+not\s+null\s*$", "", kind, flags=re.IGNORECASE)
    if not name or not kind.strip():
        raise InvalidArgumentError(f"column {text!r}: expected a name and a type: 'price double'")
    return pa.field(name, parse_type(kind), nullable=not is_required)


def parse_type(text: str) -> pa.DataType:
    """Parses a type, such as ``bigint``, ``decimal(10, 2)``, ``timestamp[us, tz=UTC]``,
    ``list<double>``, ``float[384]``, ``struct<a: text, b: bigint>`` or ``map<text, double>``.
    """
    plain = " ".join(text.split())
    name = plain.lower()
    if name in _SQL:
        return _SQL[name]
    if name == "extension<arrow.uuid>":
        return pa.uuid()
    if match := re.fullmatch(r"(?:decimal|decimal128|numeric) ?\( ?(\d+) ?, ?(\d+) ?\)", name):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise InvalidArgumentError(
                f"type {text.strip()!r}: a decimal has 1 to 38 digits, and at most as many after "
                "the point"
            )
        return pa.decimal128(precision, scale)
    if match := re.fullmatch(r"(?:fixed_size_binary|binary) ?\[(\d+)\]", name):
        return pa.binary(_length(match[1]))
    if match := re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]]+))?\]", plain):
        return pa.timestamp(match[1], match[2])
    if match := re.fullmatch(r"fixed_size_list ?<(?:item: |element: )?(.+)> ?\[(\d+)\]", plain):
        return pa.list_(parse_type(match[1]), _length(match[2]))
    if match := re.fullmatch(r"list ?<(?:item: |element: )?(.+)>|(.+)\[\]", plain):
        return pa.list_(parse_type(match[1] or match[2]))
    if match := re.fullmatch(r"(.+) ?\[(\d+)\]", plain):
        return pa.list_(parse_type(match[1]), _length(match[2]))
    if match := re.fullmatch(r"map ?(?:<(.+)>|\((.+)\))", plain, re.IGNORECASE):
        kinds = _split(match[1] or match[2])
        if len(kinds) == 2:
            return pa.map_(parse_type(kinds[0]), parse_type(kinds[1]))
    if match := re.fullmatch(r"struct ?(?:<(.+)>|\((.+)\))", plain, re.IGNORECASE):
        return pa.struct([_parse_field(part) for part in _split(match[1] or match[2])])
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise InvalidArgumentError(
            f"type {text.strip()!r}: expected a type such as bigint, double, string, date, "
            "timestamp, decimal(10, 2), list<double>, float[4], struct<a: text> or map<text, "
            "double>"
        ) from None


def _length(text: str) -> int:
    if len(text) > 9:
        raise InvalidArgumentError(
            f"type: the length {text} is too large; expected at most 999999999"
        )
    return int(text)


def _parse_field(text: str) -> pa.Field:
    """Parses ``"a: text"`` or ``"a text"``."""
    match = re.fullmatch(r"\s*([^\s:]+)(?:\s*:\s*|\s+)(.+)", text)
    if match is None:
        raise InvalidArgumentError(f"field {text.strip()!r}: expected a name and a type: 'a: text'")
    return pa.field(match[1], parse_type(match[2]))


def _split(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        if letter in "(<[":
            depth += 1
        elif letter in ")>]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [*parts, text[begin:]]
