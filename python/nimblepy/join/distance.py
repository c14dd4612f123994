"""Distances between values of an ordered column, exact except for floats."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.kinds import family, value_type
from nimblepy.schema.plain import plain_array
from nimblepy.schema.values import exact_of, show, tick_of

# Distances between two types. All of them have the same numpy type, which can be ordered.
Distances = np.ndarray[Any, np.dtype[Any]]

_TIMES = ("date", "instant", "time", "duration")
_MOST_UNSIGNED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Metric:
    """Measures distances between values of two types.

    Attributes:
        unit: distances are multiples of this unit, which is a fraction of 1 or of a nanosecond.
            ``None`` for floats.
        exact: whether both types have the same unit. Then the stored integers are subtracted.
    """

    left: pa.DataType
    right: pa.DataType
    unit: Fraction | None
    exact: bool

    def between(self, left: pa.Array, right: pa.Array) -> Distances:
        """Returns the distance between the values of each row. No value is null."""
        if self.unit is None:
            return _float_distances(_floats(left), _floats(right))
        if self.exact:
            return _integer_distances(_integers(left), _integers(right))
        scales = tick_of(self.left) / self.unit, tick_of(self.right) / self.unit
        counts = [
            np.array([int(scale) * value for value in _counts(array)], dtype=object)
            for scale, array in zip(scales, (left, right), strict=True)
        ]
        distances: Distances = np.abs(counts[0] - counts[1])
        return distances

    def from_exact(self, value: Fraction | float, right: pa.Array) -> Distances:
        """Returns the distance of each value in ``right`` to ``value``, a number or nanoseconds."""
        if self.unit is None:
            return _float_distances(np.full(len(right), _nearest_float(value)), _floats(right))
        counts = np.array(_counts(right), dtype=object) * tick_of(self.right)
        distances: Distances = np.abs(counts - value) / self.unit
        return distances

    def exact_limit(self, tolerance: Fraction | float) -> Any:
        """Converts a tolerance for :meth:`from_exact`. The result need not be a whole number."""
        if self.unit is None:
            return _nearest_float(tolerance)
        return tolerance if isinstance(tolerance, float) else tolerance / self.unit

    def limit(self, tolerance: Fraction | float) -> Any:
        """Returns the greatest result of :meth:`between` that is within a tolerance."""
        if self.unit is None:
            return _nearest_float(tolerance)
        if isinstance(tolerance, float):  # infinity
            return _MOST_UNSIGNED if self.exact else math.inf
        count = math.floor(tolerance / self.unit)
        return min(count, _MOST_UNSIGNED) if self.exact else count


def metric(left: pa.DataType, right: pa.DataType, what: str) -> Metric:
    """Returns the metric of two comparable types.

    Args:
        what: the argument that needs distances, for messages.

    Raises:
        InvalidArgumentError: values of the types, such as text, have no distance.
    """
    left, right = value_type(left), value_type(right)
    kind = family(right)
    if kind != "number" and kind not in _TIMES:
        raise InvalidArgumentError(
            f"{what}: values of {right} have an order but no distance; use numbers or times"
        )
    if pt.is_null(left):
        left = right
    if pt.is_floating(left) or pt.is_floating(right):
        return Metric(left, right, None, exact=False)
    units = tick_of(left), tick_of(right)
    is_exact = units[0] == units[1] and not pt.is_decimal(left) and not pt.is_decimal(right)
    is_exact &= pt.is_unsigned_integer(left) == pt.is_unsigned_integer(right)
    return Metric(left, right, _common_unit(*units), exact=is_exact)


def exact_tolerance(tolerance: Any, data_type: pa.DataType) -> Fraction | float | None:
    """Returns a tolerance as a number; a duration as a number of nanoseconds.

    Raises:
        InvalidArgumentError: the tolerance is negative or NaN, or has the wrong type.
    """
    if tolerance is None:
        return None
    expected_kind = "duration" if family(value_type(data_type)) in _TIMES else "number"
    name = "a timedelta" if expected_kind == "duration" else "a number"
    exact = None
    if not isinstance(tolerance, bool):
        with suppress(InvalidArgumentError):
            exact = exact_of(tolerance)
    if exact is None or exact.kind != expected_kind:
        raise InvalidArgumentError(
            f"tolerance: expected {name} for a column of {data_type}, got {show(tolerance)}"
        )
    value = exact.value
    assert isinstance(value, (Fraction, float))
    if not value >= 0:  # also NaN
        raise InvalidArgumentError(f"tolerance: expected {name} >= 0, got {show(tolerance)}")
    return value


def _common_unit(a: Fraction, b: Fraction) -> Fraction:
    """Returns the greatest common divisor of two units."""
    down = math.lcm(a.denominator, b.denominator)
    return Fraction(math.gcd(int(a * down), int(b * down)), down)


def _nearest_float(value: Fraction | float) -> float:
    """Returns the nearest finite float; values beyond the largest float are clamped to it."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def _floats(array: pa.Array) -> Distances:
    plain = plain_array(array)
    values: Distances = plain.to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def _float_distances(left: Distances, right: Distances) -> Distances:
    with np.errstate(all="ignore"):
        distances = np.abs(left - right)
    is_equal = (left == right) | (np.isnan(left) & np.isnan(right))
    # The distance between NaN and a number is infinite.
    distances = np.where(np.isnan(distances), np.inf, distances)
    equal_or_not: Distances = np.where(is_equal, 0.0, distances)
    return equal_or_not


def _integers(array: pa.Array) -> Distances:
    """Returns the stored integers of an array, as 64-bit integers."""
    plain = plain_array(array)
    if not pt.is_integer(plain.type):
        plain = plain.view(f"int{plain.type.bit_width}")
    wide = np.uint64 if pt.is_unsigned_integer(plain.type) else np.int64
    values: Distances = plain.to_numpy(zero_copy_only=False).astype(wide)
    return values


def _integer_distances(left: Distances, right: Distances) -> Distances:
    is_greater = left >= right
    a, b = left.view(np.uint64), right.view(np.uint64)
    distances: Distances = np.where(is_greater, a - b, b - a)
    return distances


def _counts(array: pa.Array) -> list[int]:
    """Returns the values as integers: multiples of the unit of their type."""
    plain = plain_array(array)
    if pt.is_decimal(plain.type):
        return [_count_of(value, plain.type.scale) for value in plain.to_pylist()]
    return [int(value) for value in _integers(plain).tolist()]


def _count_of(value: Decimal, scale: int) -> int:
    return int(Fraction(value) * Fraction(10) ** scale)
