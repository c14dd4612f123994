"""Refuses JSON that nests so deep that pyarrow's parser would overflow the stack."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nimblepy.errors import InvalidArgumentError

# The parser overflows the stack at about 20,000 levels. Types of files nest at most 63 deep.
_MOST_LEVELS = 1000
_OTHER_BYTES = bytes(set(range(256)) - set(b"[]{}\n"))
_STEPS = np.zeros(256, np.int64)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class ShallowJson:
    """A stream of JSON lines whose values may not nest deeper than 1,000 levels.

    Args:
        source: the stream to read.
        name: of the file, for messages.

    Raises:
        InvalidArgumentError: from ``read()``, if a value nests deeper.
    """

    def __init__(self, source: Any, name: str) -> None:
        self._source = source
        self._name = name
        self._depth = 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._source.read(size)
        peak, depth = _levels(data, self._depth)
        if peak > _MOST_LEVELS:
            raise InvalidArgumentError(
                f"{self._name}: a value nests deeper than {_MOST_LEVELS} levels"
            )
        self._depth = depth
        return data

    @property
    def closed(self) -> bool:
        return bool(self._source.closed)

    def close(self) -> None:
        self._source.close()


def _levels(data: bytes, depth: int) -> tuple[int, int]:
    """Returns a depth that no value exceeds, and the depth at the end. Each line begins at 0.

    Args:
        depth: the depth at the beginning.
    """
    marks, ends = _marks(data)
    if depth + _most(marks, ends) > _MOST_LEVELS:  # a line has so many brackets
        marks, ends = _marks(_STRING.sub(b"", data))
    if not len(marks):
        return depth, depth
    last = marks[ends[-1] + 1 :] if len(ends) else marks
    at_end = max(0, (0 if len(ends) else depth) + int(_STEPS[last].sum()))
    most = depth + _most(marks, ends)
    if most <= _MOST_LEVELS:
        return most, at_end
    depths = depth + np.cumsum(_STEPS[marks])
    before = np.concatenate(([0], depths[ends]))
    depths -= before[np.cumsum(marks == ord("\n"))]
    return int(depths.max()), at_end


def _marks(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Returns the brackets and the ends of lines, and the positions of the latter among them."""
    marks = np.frombuffer(data.translate(None, _OTHER_BYTES), np.uint8)
    return marks, np.flatnonzero(marks == ord("\n"))


def _most(marks: np.ndarray, ends: np.ndarray) -> int:
    """Returns the largest number of brackets in a line."""
    return int(np.diff(ends, prepend=-1, append=len(marks)).max())
