"""Defines how times with and without a time zone are compared and converted.

For a column with a zone, a naive time is wall-clock time in that zone. For a column without a zone,
a time with a zone is an error. This applies to rows, keys, parameters and filters.
"""

from __future__ import annotations

import datetime
import zoneinfo

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# The end of 2037. Arrow ignores later changes of UTC offsets.
_FAR = 2_145_830_400


def has_zone(data_type: pa.DataType) -> bool:
    """Returns whether the type is a timestamp with a time zone."""
    return bool(pt.is_timestamp(data_type) and data_type.tz is not None)


def check_zone(zone: str, place: str) -> None:
    """Raises an error if this computer does not know a time zone.

    Raises:
        InvalidArgumentError: the zone is unknown. ``place`` names the column.
    """
    import pyarrow.compute as pc  # slow to import

    try:
        pc.assume_timezone(pa.scalar(0, pa.timestamp("us")), zone)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"{place}: unknown time zone {zone!r}") from error


def localize(naive: pa.Array | pa.Scalar, zone: str) -> pa.Array | pa.Scalar:
    """Interprets naive timestamps as wall-clock times in ``zone``.

    If a time occurs twice because clocks are set back, returns the first instant. If clocks skip a
    time, returns the end of the gap.

    Raises:
        InvalidArgumentError: the zone is unknown on this computer.
    """
    import pyarrow.compute as pc  # slow to import

    try:
        made = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"time zone {zone!r}: {error}") from error
    return _with_far_times(naive, made, zone, to_wall_clock=False)


def wall_clock(instants: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Converts timestamps to naive wall-clock times in their zone."""
    import pyarrow.compute as pc  # slow to import

    made = pc.local_timestamp(instants)
    return _with_far_times(instants, made, instants.type.tz, to_wall_clock=True)


def _with_far_times(
    given: pa.Array | pa.Scalar, made: pa.Array | pa.Scalar, zone: str, *, to_wall_clock: bool
) -> pa.Array | pa.Scalar:
    """Corrects times after 2037, because Arrow ignores daylight saving time there."""
    per_second = _PER_SECOND[given.type.unit]
    if isinstance(given, pa.Scalar):
        if not given.is_valid or given.value < _FAR * per_second:
            return made
        moved = _moved(given.value, per_second, zone, to_wall_clock)
        return made if moved is None else pa.scalar(moved, made.type)
    import pyarrow.compute as pc

    greatest = pc.max(given).value if len(given) else None
    if greatest is None or greatest < _FAR * per_second:
        return made
    numbers, values = given.cast(pa.int64()).to_pylist(), made.cast(pa.int64()).to_pylist()
    for i, number in enumerate(numbers):
        if number is not None and number >= _FAR * per_second:
            moved = _moved(number, per_second, zone, to_wall_clock)
            values[i] = values[i] if moved is None else moved
    return pa.array(values, pa.int64()).cast(made.type)


def _moved(number: int, per_second: int, zone: str, to_wall_clock: bool) -> int | None:
    """Returns a time moved by the UTC offset of its zone; ``None`` if Python does not know it."""
    try:
        seconds = datetime.timedelta(seconds=number // per_second)
        if to_wall_clock:
            offset = (_EPOCH + seconds).astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()
        else:
            at = _EPOCH.replace(tzinfo=None) + seconds
            offset = at.replace(tzinfo=zoneinfo.ZoneInfo(zone)).utcoffset()
    except (ValueError, OverflowError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None
    if offset is None:
        return None
    ticks = offset // datetime.timedelta(seconds=1) * per_second
    return number + ticks if to_wall_clock else number - ticks


def skipped(naive: pa.Array, instants: pa.Array) -> pa.BooleanArray:
    """Returns which naive times the clocks of the zone of ``instants`` skip."""
    import pyarrow.compute as pc  # slow to import

    return pc.fill_null(pc.not_equal(naive, wall_clock(instants)), False)
