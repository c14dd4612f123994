"""Rewrites the core's errors about keys, with timestamps in ISO form."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import DuplicateKeyError, KeyOrderError
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import SortKey

_SAME = re.compile(r"row (\d+) \(key (.*)\) and row (\d+) have the same key in a unique", re.DOTALL)
_ORDER = re.compile(
    r"row (\d+) \(key (.*)\) and row (\d+) \(key (.*)\) are not in the order", re.DOTALL
)
# One value of a key: a quoted text, or everything up to the next comma.
_VALUE = re.compile(r"'(?:\\.|[^'\\])*'(?:\.\.\.)?|[^,']+", re.DOTALL)
_TICKS = re.compile(r"\s*(-?\d+) (s|ms|us|ns)\s*")


def readable(
    error: DuplicateKeyError | KeyOrderError, schema: pa.Schema, keys: Sequence[SortKey]
) -> DuplicateKeyError | KeyOrderError:
    """Returns the error with a clearer message, if the core's message has a known form."""
    text = str(error)
    if found := _SAME.search(text):
        shown = _key(found[2], schema, keys)
        return DuplicateKeyError(
            f"the key {shown} occurs twice, but the cluster key is unique (rows {found[3]} and "
            f"{found[1]} in the order of the key)"
        )
    if found := _ORDER.search(text):
        return KeyOrderError(
            f"row {found[1]} (key {_key(found[2], schema, keys)}) and row {found[3]} (key "
            f"{_key(found[4], schema, keys)}) are not in the order of the key"
        )
    return error


def _key(text: str, schema: pa.Schema, keys: Sequence[SortKey]) -> str:
    """Converts the timestamps in a key, as the core prints it, to ISO form."""
    inner = text[1:-1] if len(keys) > 1 else text
    values = [value.strip() for value in _VALUE.findall(inner)]
    if len(values) != len(keys):
        return text
    for i, key in enumerate(keys):
        kind = resolve_column(schema, key.column).value_type
        ticks = _TICKS.fullmatch(values[i])
        if ticks is not None and pt.is_timestamp(kind):
            zone = "Z" if kind.tz else ""
            values[i] = f"{np.array(int(ticks[1]), f'datetime64[{ticks[2]}]')}{zone}"
    return values[0] if len(values) == 1 else f"({', '.join(values)})"
