"""Converts texts to integers and decimals, without a loss of digits."""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.schema.reshape import UnfitError
from nimblepy.schema.values import show

_MOST_DIGITS = 90
_MOST_SHOWN = 60
_EXACT = Context(prec=300)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
# Numbers that Arrow reads right.
_SIMPLE_INTEGER = r"^[+-]?[0-9]{1,18}$"
_SIMPLE_DECIMAL = r"^[+-]?[0-9]{1,19}(\.[0-9]{1,18})?$"


def exact_numbers(texts: pa.Array, target: pa.DataType, cast: bool) -> pa.Array:
    """Converts texts to integers or decimals. With ``cast``, truncates or rounds.

    Raises:
        UnfitError: a text is not a number of the type.
    """
    # Arrow reads hexadecimal numbers, and long decimals wrongly.
    simple = _SIMPLE_INTEGER if pt.is_integer(target) else _SIMPLE_DECIMAL
    if pc.all(pc.match_substring_regex(texts, simple)).as_py() is not False:
        try:
            return texts.cast(target)
        except pa.ArrowException:
            pass
    scale = 0 if pt.is_integer(target) else target.scale
    numbers = [
        None if text is None else _exact_number(row, text, target, scale, cast)
        for row, text in enumerate(texts.to_pylist())
    ]
    return pa.array(numbers, target)


def _exact_number(row: int, text: str, target: pa.DataType, scale: int, cast: bool) -> Any:
    """Returns a text as an int or a decimal with ``scale`` digits after the point."""
    if _NUMBER.fullmatch(text) is None:
        raise UnfitError(row, f"{show(text)} is not a value of {target}")
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    number = Decimal(text)
    if number and number.adjusted() > _MOST_DIGITS:
        raise UnfitError(row, f"{shown} does not fit {target}")
    if number.adjusted() < -_MOST_DIGITS:  # is cut or refused below
        number = Decimal("1e-99").copy_sign(number) if number else Decimal(0)
    whole = pt.is_integer(target)
    rounding = ROUND_DOWN if whole else ROUND_HALF_EVEN
    made = number.quantize(Decimal(1).scaleb(-scale), rounding, _EXACT)
    if made != number and not cast:
        how = "truncate it" if whole else "round it"
        raise UnfitError(row, f"{shown} does not fit {target}", how)
    if whole:
        limit = 1 << (target.bit_width - pt.is_signed_integer(target))
        if not (-limit if pt.is_signed_integer(target) else 0) <= made < limit:
            raise UnfitError(row, f"{shown} does not fit {target}")
        return int(made)
    if made and made.adjusted() >= target.precision - scale:
        raise UnfitError(row, f"{shown} does not fit {target}")
    return made
