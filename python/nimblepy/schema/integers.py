"""Checks integers that callers give. Does not load pyarrow."""

from __future__ import annotations

import operator
from typing import Any

from nimblepy.errors import InvalidArgumentError


def at_least(name: str, value: Any, least: int) -> int:
    """Returns ``value`` as an int.

    Raises:
        InvalidArgumentError: ``value`` is not an integer, or is below ``least``.
    """
    if type(value) is int and value >= least:
        return value
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise InvalidArgumentError(f"{name}: expected an int >= {least}, got {value!r}")
    return number
