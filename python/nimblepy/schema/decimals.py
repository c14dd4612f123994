"""Conversion between decimals and their unscaled integers, independent of the decimal context."""

from __future__ import annotations

from decimal import Decimal


def unscaled(value: Decimal, scale: int) -> int:
    """Returns ``value * 10**scale``. The value has at most ``scale`` digits after the point."""
    sign, digits, exponent = value.as_tuple()
    whole: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return -whole if sign else whole


def scaled(whole: int, scale: int) -> Decimal:
    """Returns ``whole 10**scale``, with ``scale`` digits after the point."""
    return Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -scale))


def decimal_bytes(value: Decimal, scale: int) -> bytes:
    """Returns the unscaled value in the minimum number of bytes, big-endian."""
    whole = unscaled(value, scale)
    bits = (whole if whole >= 0 else ~whole).bit_length()
    return whole.to_bytes(bits // 8 + 1, "big", signed=True)
