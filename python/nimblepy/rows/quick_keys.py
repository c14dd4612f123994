"""Single keys of common types as byte strings in the order of the key, without Arrow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.schema.types import SortKey

# The encoded key; None: it has to be made in the general way.
Encode = Callable[[Any], bytes | None]


def quick_encoder(kind: pa.DataType, key: SortKey) -> Encode | None:
    """Encodes plain ``int`` or ``str`` keys of one column as the core does.

    ``None``: there is no quick way for this type and order.
    """
    marker = b"\1" if key.nulls_first else b"\0"
    if pt.is_signed_integer(kind):
        return _integers(kind.bit_width, key.descending, marker)
    if pt.is_string(kind) and not key.descending:
        return _texts(marker)
    return None


def quick_numbers(kind: pa.DataType, key: SortKey) -> Callable[[bytes], float] | None:
    """Takes encoded keys of one column back to numbers in the same order, nulls at the ends.

    ``None``: the keys are no integers, or descend. Shorter keys are below all, others above.
    """
    if not pt.is_signed_integer(kind) or key.descending:
        return None
    marker = 1 if key.nulls_first else 0
    width: int = kind.bit_width // 8
    middle = 1 << (8 * width - 1)

    def number(encoded: bytes) -> float:
        if len(encoded) == 1 + width and encoded[0] == marker:
            return int.from_bytes(encoded[1:], "big") - middle
        below = not encoded or (key.nulls_first and encoded[0] < marker)
        return -math.inf if below else math.inf

    return number


def _integers(bits: int, descending: bool, marker: bytes) -> Encode:
    middle, width = 1 << (bits - 1), bits // 8

    def encode(key: Any) -> bytes | None:
        if type(key) is not int:
            return None
        try:
            return marker + (middle - 1 - key if descending else key + middle).to_bytes(
                width, "big"
            )
        except OverflowError:
            return None

    return encode


def _texts(marker: bytes) -> Encode:
    def encode(key: Any) -> bytes | None:
        if type(key) is not str or "\0" in key or "\1" in key:
            return None
        try:
            return marker + key.encode() + b"\0"
        except UnicodeEncodeError:
            return None

    return encode
