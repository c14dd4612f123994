"""Limits the size of answers, and makes cursors for reading the parts that do not fit.

A token is counted as four bytes of UTF-8, in the form in which an answer is sent.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nimblepy.errors import InvalidArgumentError

LEAST_TOKENS, MOST_TOKENS = 200, 25_000
# Ever stricter limits for a value that does not fit: the fields of Cuts.
_SHORTER = (1_000, 200, 100), (200, 100, 20), (60, 40, 6), (24, 16, 2)
_CUT = re.compile(r"\.\.\. \([0-9,]+ characters\)\Z")
# Tokens reserved for the other parts of an answer and a cursor.
_RESERVED = 60


def as_json(value: Any) -> str:
    """Serializes a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tokens(value: Any) -> int:
    """Returns the number of tokens that a value takes in an answer.

    An answer is JSON text inside a JSON message, so each quote also needs a backslash.
    """
    text = as_json(value)
    return math.ceil(len(json.dumps(text, ensure_ascii=False).encode()) / 4)


@dataclass
class Cuts:
    """Converts values to JSON types, and shortens long ones. Counts the shortened values.

    Attributes:
        longest, kept: a text with more than ``longest`` characters is cut to ``kept`` characters.
        leaves: maximum number of single values to keep from a list, a map or a struct.
    """

    longest: int = 1_000
    kept: int = 200
    leaves: int = 100
    texts: int = field(default=0, init=False)
    lists: int = field(default=0, init=False)
    _left: int = field(default=0, init=False, repr=False)

    def plain(self, value: Any) -> Any:
        """Converts a value to JSON types. Dates, decimals and bytes become text."""
        self._left = self.leaves
        return self._plain(value)

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Converts each value of a row to JSON types."""
        return {name: self.plain(value) for name, value in row.items()}

    def _plain(self, value: Any) -> Any:
        self._left -= 1
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else repr(value)
        if isinstance(value, (dt.datetime, dt.date, dt.time)):
            return value.isoformat()
        if isinstance(value, (decimal.Decimal, uuid.UUID, dt.timedelta)):
            return str(value)
        if isinstance(value, (bytes, memoryview)):
            octets = bytes(value[: self.longest])
            return self._text(octets.hex(), 2 * len(value))
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, (list, tuple)):
            return self._list(value)
        return self._text(str(value))

    def _list(self, values: Sequence[Any]) -> list[Any]:
        plain: list[Any] = []
        for item in values:
            if self._left <= 0:
                self.lists += 1
                plain.append(f"... ({len(values):,} items)")
                break
            plain.append(self._plain(item))
        return plain

    def _dict(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, item in values.items():
            if self._left <= 0:
                self.lists += 1
                plain["..."] = f"({len(values):,} entries)"
                break
            plain[self._text(str(key))] = self._plain(item)
        return plain

    def _text(self, text: str, length: int | None = None) -> str:
        size = len(text) if length is None else length
        before = _CUT.search(text)
        if before is not None and size > self.longest:  # the value was already cut
            return f"{_without_surrogates(text[: self.kept])}{before[0]}"
        text = _without_surrogates(text[: self.longest])
        if size <= self.longest:
            return text
        self.texts += 1
        return f"{text[: self.kept]}... ({size:,} characters)"

    def note(self) -> dict[str, str]:
        """Returns the entries of an answer that report how many values were cut."""
        return cut_note(self.texts, self.lists)


def _without_surrogates(text: str) -> str:
    """Replaces characters that UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def cut_note(texts: int, lists: int) -> dict[str, str]:
    """Returns the entries of an answer for this many cut texts and lists."""
    note = {"cut_texts": f"{texts} texts are longer than shown"} if texts else {}
    return note | ({"cut_lists": f"{lists} lists are longer than shown"} if lists else {})


def checked_tokens(max_tokens: int) -> int:
    """Checks the size of an answer that a client asks for.

    Raises:
        InvalidArgumentError: the size is out of bounds.
    """
    if not LEAST_TOKENS <= max_tokens <= MOST_TOKENS:
        raise InvalidArgumentError(
            f"max_tokens: expected {LEAST_TOKENS} to {MOST_TOKENS:,}, got {max_tokens}"
        )
    return max_tokens


def fitted(
    items: Sequence[Any], head: Any, max_tokens: int, listed: Sequence[int] | None = None
) -> list[Any]:
    """Returns as many items as fit into an answer with ``head``. The first one may be shortened.

    Args:
        listed: for each item, the tokens that the answer needs if the item does not fit, such as
            for its name.

    Raises:
        InvalidArgumentError: the first item does not fit, even if it is shortened.
    """
    names = [0] * len(items) if listed is None else listed
    used = tokens(head) + _RESERVED + sum(names)
    count = 0
    for item, name in zip(items, names, strict=True):
        cost = tokens(item) + 1 - name
        if used + cost > max_tokens:
            break
        used += cost
        count += 1
    if count or not items:
        return list(items[:count])
    first = shrunk(items[0], max_tokens - used + names[0])
    if first is None:
        raise InvalidArgumentError(
            f"max_tokens {max_tokens}: the first row has {tokens(items[0]):,} tokens, and an "
            f"answer without rows has {tokens(head):,}; ask for fewer columns, or for more tokens"
        )
    return [first]


def shrunk(item: Any, most_tokens: int) -> Any:
    """Shortens the values of a dict or list until it fits; ``None`` if it cannot fit."""
    if tokens(item) <= most_tokens:
        return item
    for longest, kept, leaves in _SHORTER:
        cuts = Cuts(longest, kept, leaves)
        short = cuts.row(item) if isinstance(item, dict) else [cuts.plain(v) for v in item]
        if tokens(short) <= most_tokens:
            return short
    return None


@dataclass(frozen=True)
class Cursor:
    """The position at which the next part of an answer begins.

    Attributes:
        offset: number of items in the earlier parts.
        snapshots: ids of the snapshots that the answer describes.
    """

    offset: int = 0
    snapshots: tuple[int, ...] = ()

    def __str__(self) -> str:
        return ".".join(str(number) for number in (self.offset, *self.snapshots))


def read_cursor(text: str | None) -> Cursor:
    """Parses the cursor of an earlier answer. ``None`` means the beginning.

    Raises:
        InvalidArgumentError: the text is not a cursor.
    """
    if text is None:
        return Cursor()
    if re.fullmatch(r"\d{1,18}(\.\d{1,19}){0,64}", text, re.ASCII) is None:
        raise InvalidArgumentError(f"cursor {text[:60]!r}: expected the cursor of an answer")
    offset, *snapshots = (int(part) for part in text.split("."))
    return Cursor(offset, tuple(snapshots))
