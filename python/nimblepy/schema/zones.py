"""The one rule for times with and without a zone.

A naive time that is given for a column with a zone is wall-clock time in that zone. A time with a
zone is never taken for a column without one. Rows, keys, parameters and filters all follow this.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError


def has_zone(data_type: pa.DataType) -> bool:
    """Whether the type is a timestamp with a time zone."""
    return bool(pt.is_timestamp(data_type) and data_type.tz is not None)


def check_zone(zone: str, place: str) -> None:
    """Refuses a time zone that this computer does not know.

    Raises:
        InvalidArgumentError: it is unknown; ``place`` names the column.
    """
    import pyarrow.compute as pc  # slow to import

    try:
        pc.assume_timezone(pa.scalar(0, pa.timestamp("us")), zone)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"{place}: unknown time zone {zone!r}") from error


def localize(naive: pa.Array | pa.Scalar, zone: str) -> pa.Array | pa.Scalar:
    """Naive timestamps as wall-clock times of ``zone``.

    A time that occurs twice, when clocks are set back, is the first of both. A time that clocks
    skip is moved to the end of the gap.

    Raises:
        InvalidArgumentError: the zone is unknown on this computer.
    """
    import pyarrow.compute as pc  # slow to import

    try:
        return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"time zone {zone!r}: {error}") from error


def wall_clock(instants: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """The naive wall-clock times of timestamps in their own zone."""
    import pyarrow.compute as pc  # slow to import

    return pc.local_timestamp(instants)


def skipped(naive: pa.Array, instants: pa.Array) -> pa.BooleanArray:
    """Which naive times do not exist in the zone of ``instants``, where clocks skip them."""
    import pyarrow.compute as pc  # slow to import

    return pc.fill_null(pc.not_equal(naive, wall_clock(instants)), False)
