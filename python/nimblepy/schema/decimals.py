"""Decimals and the whole numbers they are stored as, exact whatever the context of the caller."""

from __future__ import annotations

from decimal import Decimal


def unscaled(value: Decimal, scale: int) -> int:
    """``value * 10**scale`` of a finite value that has at most ``scale`` digits after the point."""
    sign, digits, exponent = value.as_tuple()
    whole: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return -whole if sign else whole


def scaled(whole: int, scale: int) -> Decimal:
    """``whole / 10**scale``, with ``scale`` digits after the point."""
    return Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -scale))


def decimal_bytes(value: Decimal, scale: int) -> bytes:
    """The unscaled value in as few bytes as it needs, big-endian."""
    whole = unscaled(value, scale)
    bits = (whole if whole >= 0 else ~whole).bit_length()
    return whole.to_bytes(bits // 8 + 1, "big", signed=True)
