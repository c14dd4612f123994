"""Checks the types of arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from nimblepy.errors import InvalidArgumentError


def text_of(value: object, what: str) -> str:
    """Checks that ``value`` is text."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what}: expected text, got {value!r}")
    return value


def texts_of(value: str | Sequence[str] | None, what: str) -> list[str]:
    """Checks that ``value`` is text or a list of texts; ``None`` means no text."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    if not isinstance(value, Sequence):
        raise InvalidArgumentError(f"{what}: expected text or a list of texts, got {value!r}")
    return [text_of(item, what) for item in value]


def paths_of(value: Any, what: str) -> list[str]:
    """Checks that ``value`` is a path or a list of paths."""
    given = [value] if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(given, Sequence) or not all(isinstance(i, (str, os.PathLike)) for i in given):
        raise InvalidArgumentError(f"{what}: expected a path or a list of paths, got {value!r}")
    return [os.fspath(item) for item in given]


def texts_by_name(value: Any, what: str) -> dict[str, str]:
    """Checks that ``value`` maps texts to texts."""
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{what}: expected a dict of texts, got {value!r}")
    return dict(value)
