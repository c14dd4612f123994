"""Refuses JSON lines that would crash pyarrow's parser: deep values, and nulls among the rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.values import show

# The parser overflows the stack at about 20,000 levels. Types of files nest at most 63 deep.
_MOST_LEVELS = 1000
# Stands for the border of two rows, which no value spans. JSON has no zero bytes.
_BORDER = b"\0"
_OTHER_BYTES = bytes(set(range(256)) - set(b"[]{}" + _BORDER))
_STEPS = np.zeros(256, np.int64)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_ESCAPE = re.compile(rb"\\[^\n]")
# A text without escapes. One that is not closed ends with its line: texts contain no newlines.
_STRING = re.compile(rb'"[^"\n]*"?')
# A null that is a row follows the end of an object, or begins the file. So may a null in a text.
_NULL_ROW = re.compile(rb"\}[ \t\r\n]*null")
_BEGIN_OF_NULL_ROW = re.compile(rb"\}[ \t\r\n]*(?:n(?:u(?:l)?)?)?\Z")
# Within a row, a comma follows an object.
_ROW_BORDER = re.compile(rb"\}[ \t\r]*\n[ \t\r\n]*\{")
_SPACES = re.compile(rb"[ \t\r\n]*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_AFTER_OBJECT = re.compile(rb"\}\s*[^\s,}\]]")
_TOKEN = re.compile(rb"[\[\]{}]|[^\s\[\]{}]+")


class SafeJson:
    """A stream of JSON lines whose rows are objects of at most 1,000 levels.

    Args:
        source: the stream to read.
        name: of the file, for messages.
        lines: opens the file again.

    Raises:
        InvalidArgumentError: from ``read()``, if a value nests deeper, or a row is null.
    """

    def __init__(self, source: Any, name: str, lines: Callable[[], Iterable[bytes]]) -> None:
        self._source = source
        self._name = name
        self._lines = lines
        self._depth = 0
        # The beginning of a text or an escape that the last read cut.
        self._open = b""
        # The end of the last read that may begin a null row. The file begins like a new row.
        self._end = b"}"
        self._is_checked = False

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._source.read(size)
        if not self._is_checked:
            self._refuse_null_rows(data)
        peak, depth = _levels(data, self._depth, self._open)
        if peak > _MOST_LEVELS:
            raise InvalidArgumentError(
                f"{self._name}: a value nests deeper than {_MOST_LEVELS} levels"
            )
        self._depth = depth
        self._open = _open_text(data, self._open)
        return data

    def _refuse_null_rows(self, data: bytes) -> None:
        if self._end == b"}":
            data = data.removeprefix(_BYTE_ORDER_MARK)
        head = self._end + data[: _SPACES.match(data).end() + 4]  # type: ignore[union-attr]
        if _NULL_ROW.search(head) or _NULL_ROW.search(data):
            refuse_other_rows(self._lines(), self._name)
            self._is_checked = True  # the nulls are in texts
        last = data.rfind(b"}")
        end = data[last:] if last >= 0 else self._end + data
        self._end = end if _BEGIN_OF_NULL_ROW.match(end) else b""

    @property
    def closed(self) -> bool:
        return bool(self._source.closed)

    def close(self) -> None:
        self._source.close()


def other_row(name: str, line: int, value: object) -> InvalidArgumentError:
    """Returns the error for a row that is not an object."""
    found = json.dumps(value) if value is None or isinstance(value, bool) else show(value)
    return InvalidArgumentError(
        f"{name}: line {line}: expected an object, got {found}; each line has one row"
    )


def refuse_other_rows(lines: Iterable[bytes], name: str) -> None:
    """Raises InvalidArgumentError if a row of a JSON file is not an object."""
    depth = 0
    for number, line in enumerate(lines, 1):
        line = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        bare = _ESCAPE.sub(b"__", line)
        bare = _STRING.sub(lambda text: b'"' * len(text[0]), bare)
        is_one_row = not depth and bare.startswith(b"{") and bare.count(b"{") == bare.count(b"}")
        if is_one_row and not _AFTER_OBJECT.search(bare):
            continue
        for token in _TOKEN.finditer(bare):
            if not depth and token[0] != b"{":
                text = line[token.start() :].decode(errors="replace")
                value: Any = text.strip()
                with suppress(ValueError, RecursionError):
                    value, _ = json.JSONDecoder().raw_decode(text)
                raise other_row(name, number, value)
            depth += (token[0] in (b"[", b"{")) - (token[0] in (b"]", b"}"))


def _open_text(data: bytes, start: bytes) -> bytes:
    """Returns the quote and the backslash that the data leaves open, if any.

    Args:
        start: the quote and the backslash that the previous data leaves open.
    """
    line = data.rfind(b"\n") + 1
    tail = _ESCAPE.sub(b"", data[line:] if line else start + data)
    quote = b'"' if tail.count(b'"') % 2 else b""
    return quote + b"\\" if tail.endswith(b"\\") else quote


def _levels(data: bytes, depth: int, start: bytes) -> tuple[int, int]:
    """Returns a depth that no value exceeds, and the depth at the end. Each row begins at 0.

    Args:
        depth: the depth at the beginning.
        start: what the previous data leaves open; see :func:`_open_text`.
    """
    marks, ends = _marks(data)
    if depth + _most(marks, ends) > _MOST_LEVELS:  # a row has so many brackets
        marks, ends = _marks(_STRING.sub(b"", _ESCAPE.sub(b"", start + data)))
    if not len(marks):
        return depth, depth
    row = _with_borders(data).rpartition(_BORDER)[2] if len(ends) else start + data
    last, _ = _marks(_STRING.sub(b"", _ESCAPE.sub(b"", row)))
    at_end = max(0, (0 if len(ends) else depth) + int(_STEPS[last].sum()))
    most = depth + _most(marks, ends)
    if most <= _MOST_LEVELS:
        return most, at_end
    depths = depth + np.cumsum(_STEPS[marks])
    before = np.concatenate(([0], depths[ends]))
    depths -= before[np.cumsum(marks == _BORDER[0])]
    return int(depths.max()), at_end


def _with_borders(data: bytes) -> bytes:
    """Returns the data with a zero byte between rows."""
    data = data.replace(b"}\n{", b"}" + _BORDER + b"{")
    if b"\n" in data[:-1]:  # also borders with spaces or empty lines
        data = _ROW_BORDER.sub(b"}" + _BORDER + b"{", data)
    return data


def _marks(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Returns the brackets and the borders of rows, and the positions of the latter among them."""
    marks = np.frombuffer(_with_borders(data).translate(None, _OTHER_BYTES), np.uint8)
    return marks, np.flatnonzero(marks == _BORDER[0])


def _most(marks: np.ndarray, ends: np.ndarray) -> int:
    """Returns the largest number of brackets in a row."""
    return int(np.diff(ends, prepend=-1, append=len(marks)).max())
