"""Answers of limited size: JSON, counted as it is sent, with a cursor to what does not fit.

A token is counted as four bytes of UTF-8.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nimblepy.errors import InvalidArgumentError

# Texts longer than this are cut, and the answer says so.
_LONGEST_TEXT = 1_000
_KEPT_TEXT = 200
LEAST_TOKENS, MOST_TOKENS = 200, 25_000
# What an answer without its rows may need, and a cursor.
_RESERVED = 60


def as_json(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tokens(value: Any) -> int:
    """Tokens of a value as part of an answer.

    An answer is JSON within a JSON message, so its quotes are counted with the backslash that
    they get.
    """
    text = as_json(value)
    return math.ceil(len(json.dumps(text, ensure_ascii=False).encode()) / 4)


@dataclass
class Cuts:
    """Counts the texts that were cut."""

    texts: int = 0

    def plain(self, value: Any) -> Any:
        """A value as JSON has it. Dates, decimals and bytes become text; long texts are cut."""
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
            return self._text(bytes(value).hex())
        if isinstance(value, dict):
            return {str(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(item) for item in value]
        return self._text(str(value))

    def _text(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode()  # lone surrogates
        if len(text) <= _LONGEST_TEXT:
            return text
        self.texts += 1
        return f"{text[:_KEPT_TEXT]}... ({len(text):,} characters)"

    def note(self) -> dict[str, str]:
        """What an answer says about texts that were cut."""
        return {"cut_texts": f"{self.texts} texts are longer than shown"} if self.texts else {}


def checked_tokens(max_tokens: int) -> int:
    """The size of an answer that a client asks for.

    Raises:
        InvalidArgumentError: it is out of bounds.
    """
    if not LEAST_TOKENS <= max_tokens <= MOST_TOKENS:
        raise InvalidArgumentError(
            f"max_tokens: expected {LEAST_TOKENS} to {MOST_TOKENS:,}, got {max_tokens}"
        )
    return max_tokens


def fitting(
    items: Sequence[Any], head: Any, max_tokens: int, listed: Sequence[int] | None = None
) -> int:
    """How many of the first items fit into an answer beside ``head``; at least one.

    Args:
        listed: tokens of what the answer has of an item that does not fit, such as its name.
    """
    names = [0] * len(items) if listed is None else listed
    used = tokens(head) + _RESERVED + sum(names)
    count = 0
    for item, name in zip(items, names, strict=True):
        used += tokens(item) + 1 - name
        if used > max_tokens:
            break
        count += 1
    return max(count, min(1, len(items)))


@dataclass(frozen=True)
class Cursor:
    """Where the next part of an answer begins.

    Attributes:
        offset: number of items that were answered.
        snapshots: ids of the snapshots that the answer is about.
    """

    offset: int = 0
    snapshots: tuple[int, ...] = ()

    def __str__(self) -> str:
        return ".".join(str(number) for number in (self.offset, *self.snapshots))


def read_cursor(text: str | None) -> Cursor:
    """The cursor of an earlier answer; ``None``: the beginning.

    Raises:
        InvalidArgumentError: it is no cursor.
    """
    if text is None:
        return Cursor()
    if re.fullmatch(r"\d{1,18}(\.\d{1,19}){0,64}", text, re.ASCII) is None:
        raise InvalidArgumentError(f"cursor {text[:60]!r}: expected the cursor of an answer")
    offset, *snapshots = (int(part) for part in text.split("."))
    return Cursor(offset, tuple(snapshots))
