"""Refuses integers in JSON that a new column of floats would change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.input.texts import fits_int64, inexact_message, loses_digits
from nimblepy.schema.kinds import is_list

# An integer in JSON that floats may not keep.
_LONG_INTEGER = re.compile(rb"(?<![0-9.eE+])[1-9][0-9]{15,}(?![0-9.eE])")
# Between two rows of JSON. Texts contain no newlines, and within a row a comma follows an object.
_ROW_BORDER = re.compile(rb"\}[ \t\r]*\n[ \t\r\n]*(?=\{)")
# pyarrow reads at most two blocks of 128 MiB without a newline.
_MOST_ROW_BYTES = 256 << 20
_SPACES = re.compile(r"[ \t\r\n]*")


def check_integers_of_json(
    read: Callable[[int], bytes], size: int, schema: pa.Schema, name: str
) -> None:
    """Checks the integers in JSON that columns of floats would store.

    A row may have several lines, and a line several rows.

    Args:
        read: returns at most this number of the next bytes of the file.
        size: bytes to read at once.
        schema: the columns with floats, also inside structs and lists.
        name: of the file, for messages.

    Raises:
        InvalidArgumentError: an integer does not fit int64, or a float does not keep its digits.
    """
    for text in _rows_with_long_integers(read, size, name):
        for row in _rows_in(text, name):
            for field in schema:
                for path, number in _integers_in(row.get(field.name), field.type, field.name):
                    if not fits_int64(number) or loses_digits(number):
                        raise InvalidArgumentError(
                            f"{name}: column {path!r}: {inexact_message(number)}"
                        )


def _rows_with_long_integers(read: Callable[[int], bytes], size: int, name: str) -> Iterator[str]:
    """Yields the texts of rows that have long integers, and of other rows in their lines."""
    rest = b""
    while data := read(size):
        block = rest + data
        begin = 0
        # The rest has no border, but its last object may end at one.
        for border in _ROW_BORDER.finditer(block, max(rest.rfind(b"}"), 0)):
            if _LONG_INTEGER.search(block, begin, border.end()):
                yield block[begin : border.end()].decode(errors="replace")
            begin = border.end()
        rest = block[begin:]
        if len(rest) > _MOST_ROW_BYTES:
            rest = rest.rstrip(b" \t\r\n") + b"\n"
            if len(rest) > _MOST_ROW_BYTES:
                raise InvalidArgumentError(
                    f"{name}: a row or a line has more than {_MOST_ROW_BYTES >> 20} MiB"
                )
    if _LONG_INTEGER.search(rest):
        yield rest.decode(errors="replace")


def _rows_in(text: str, name: str) -> Iterator[dict[str, Any]]:
    """Yields the rows in a text of JSON.

    Raises:
        InvalidArgumentError: the text is not JSON.
    """
    decoder = json.JSONDecoder(parse_int=_Integer)
    text = text.removeprefix("\ufeff")
    at = _SPACES.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        try:
            row, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            why = getattr(error, "msg", error)
            raise InvalidArgumentError(f"{name}: it cannot be read as json: {why}") from error
        if isinstance(row, dict):
            yield row
        at = _SPACES.match(text, at).end()  # type: ignore[union-attr]


def _integers_in(value: Any, kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    """Yields (path, text) of the integers in a value that are read as floats."""
    if isinstance(value, _Integer):
        if pt.is_float64(kind):
            yield path, value
    elif isinstance(value, dict) and pt.is_struct(kind):
        for item in kind:
            yield from _integers_in(value.get(item.name), item.type, f"{path}.{item.name}")
    elif isinstance(value, list) and is_list(kind):
        for item in value:
            yield from _integers_in(item, kind.value_type, path)


class _Integer(str):
    """The text of an integer."""
