"""Functions of dates, timestamps and intervals. Zoned timestamps use the zone of their column."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.arrays import Value, full, rows_of
from nimblepy.expr.numbers import add, as_float, multiply

INTERVAL = pa.month_day_nano_interval()
_DAY = 86_400_000_000  # microseconds
# Months, days and microseconds of each unit.
UNITS = {
    "millennium": (12_000, 0, 0), "century": (1200, 0, 0), "decade": (120, 0, 0),
    "year": (12, 0, 0), "quarter": (3, 0, 0), "month": (1, 0, 0),
    "week": (0, 7, 0), "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000), "minute": (0, 0, 60_000_000), "second": (0, 0, 1_000_000),
    "millisecond": (0, 0, 1000), "microsecond": (0, 0, 1),
}  # fmt: skip
_ALIASES = {
    "years": "year", "yr": "year", "y": "year", "mon": "month", "mons": "month",
    "centuries": "century", "millennia": "millennium", "decades": "decade",
    "d": "day", "h": "hour", "hr": "hour", "hours": "hour", "m": "minute", "min": "minute",
    "mins": "minute", "s": "second", "sec": "second", "secs": "second", "ms": "millisecond",
    "msec": "millisecond", "us": "microsecond", "usec": "microsecond", "w": "week",
    "dayofmonth": "day", "weekday": "dow", "dayofweek": "dow", "dayofyear": "doy",
    "weekofyear": "week", "milliseconds": "millisecond", "microseconds": "microsecond",
}  # fmt: skip


def unit_named(name: str) -> str:
    name = name.lower()
    name = _ALIASES.get(name, name)
    return name[:-1] if name.endswith("s") and name[:-1] in UNITS else name


# ------------------------------------------------------------------ parts


def _micros(value: Value) -> Value:
    unit = value.type.unit if not pt.is_date(value.type) else "s"
    per = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    if pt.is_time(value.type):
        raw = value.cast(pa.int64())
    else:
        local = pc.local_timestamp(value) if getattr(value.type, "tz", None) else value
        second = pc.floor_temporal(local, unit="minute") if per > 1 else local
        raw = local.cast(pa.timestamp(unit)).cast(pa.int64())
        raw = pc.subtract(raw, second.cast(pa.timestamp(unit)).cast(pa.int64()))
        return _divided(raw, per)
    return _divided(_mod(raw, 60 * per), per)


def _divided(raw: Value, per: int) -> Value:
    if per >= 10**6:
        return pc.divide(raw, per // 10**6)
    return pc.multiply(raw, 10**6 // per)


def _mod(value: Value, by: int) -> Value:
    return pc.subtract(value, pc.multiply(pc.divide(value, by), by))


def _epoch(value: Value) -> Value:
    if pt.is_time(value.type):
        return pc.divide(as_float(value.cast(pa.int64()), pa.float64()),
                         1e9 if value.type.unit == "ns" else 1e6)  # fmt: skip
    micros = value.cast(pa.timestamp("us", getattr(value.type, "tz", None)), safe=False)
    return pc.divide(as_float(micros.cast(pa.int64()), pa.float64()), 1e6)


def _years(by: int, offset: int = 0) -> Callable[[Value], Value]:
    return lambda value: pc.floor(
        pc.divide(pc.add(pc.year(value), offset).cast(pa.float64()), float(by))
    ).cast(pa.int64())


def _clock(kernel: Callable[..., Value]) -> Callable[..., Value]:
    """Makes a kernel for times of day support dates, which count as midnight."""

    def compute(value: Value) -> Value:
        return kernel(value.cast(pa.timestamp("us")) if pt.is_date(value.type) else value)

    return compute


PARTS: dict[str, Callable[[Value], Value]] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "decade": _years(10),
    "century": _years(100, 99),
    "millennium": _years(1000, 999),
    "quarter": pc.quarter,
    "week": pc.iso_week,
    "isoyear": pc.iso_year,
    "dow": lambda value: pc.day_of_week(value, count_from_zero=True, week_start=7),
    "isodow": lambda value: pc.day_of_week(value, count_from_zero=False, week_start=1),
    "doy": pc.day_of_year,
    "hour": _clock(pc.hour),
    "minute": _clock(pc.minute),
    "second": _clock(pc.second),
    "millisecond": _clock(lambda value: pc.divide(_micros(value), 1000)),
    "microsecond": _clock(_micros),
    "epoch": _clock(_epoch),
}
_OF_TIME = ("hour", "minute", "second", "millisecond", "microsecond", "epoch")


def part(name: str, value: Value) -> Value:
    """``EXTRACT``: returns an integer, or a float for ``epoch``."""
    kernel = PARTS.get(unit_named(name))
    if kernel is None:
        raise InvalidArgumentError(f"unknown part {name!r}; there are {', '.join(PARTS)}")
    if pt.is_time(value.type) and unit_named(name) not in _OF_TIME:
        raise InvalidArgumentError(f"a time of day has no {name}")
    return kernel(value)


def part_of(name: str) -> Callable[[Value], Value]:
    return lambda value: part(name, value)


# ------------------------------------------------------------------ truncation and differences

_TRUNCATED = {
    "decade": (10, "year"), "year": (1, "year"), "quarter": (1, "quarter"), "month": (1, "month"),
    "week": (1, "week"), "day": (1, "day"), "hour": (1, "hour"), "minute": (1, "minute"),
    "second": (1, "second"), "millisecond": (1, "millisecond"), "microsecond": (1, "microsecond"),
}  # fmt: skip


def truncate(name: str, value: Value) -> Value:
    """``date_trunc``: returns a timestamp in microseconds, in the zone of ``value``."""
    truncation = _TRUNCATED.get(unit_named(name))
    if truncation is None:
        units = ", ".join(_TRUNCATED)
        raise InvalidArgumentError(f"cannot truncate to {name!r}; there are {units}")
    stamp = value.cast(pa.timestamp("us", getattr(value.type, "tz", None)), safe=False)
    return pc.floor_temporal(stamp, truncation[0], truncation[1])


_BETWEEN = {
    "year": pc.years_between, "quarter": pc.quarters_between,
    "week": pc.weeks_between, "day": pc.days_between, "hour": pc.hours_between,
    "minute": pc.minutes_between, "second": pc.seconds_between,
    "millisecond": pc.milliseconds_between, "microsecond": pc.microseconds_between,
}  # fmt: skip


def difference(name: str, start: Value, end: Value) -> Value:
    """``date_diff``: the number of boundaries of the unit between two times."""
    unit = unit_named(name)
    if unit == "month":
        months = [add(multiply(pc.year(v), pa.scalar(12)), pc.month(v)) for v in (start, end)]
        return pc.subtract(months[1], months[0])
    kernel = _BETWEEN.get(unit)
    if kernel is None:
        raise InvalidArgumentError(
            f"no date_diff of {name!r}; there are month, {', '.join(_BETWEEN)}"
        )
    stamps = [v.cast(pa.timestamp("us", getattr(v.type, "tz", None)), safe=False)
              for v in (start, end)]  # fmt: skip
    return kernel(*stamps)


# ------------------------------------------------------------------ intervals

_PIECE = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)")
_HOURS = re.compile(r"\s*([+-]?)(\d+):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?\s*$")


def interval(months: int, days: int, micros: int) -> pa.Scalar:
    return pa.scalar(pa.MonthDayNano([months, days, micros * 1000]), INTERVAL)


def parse_interval(text: str, unit: str | None = None) -> pa.Scalar:
    """Parses a SQL interval: ``1 day 2 hours``, ``01:02:03``, or a number of ``unit``.

    Raises:
        ValueError: the text is not an interval.
    """
    if unit is not None:
        text = f"{text} {unit}"
    total, at = [0, 0, 0], 0
    while match := _PIECE.match(text, at):
        parts = UNITS.get(unit_named(match[2]))
        if parts is None:
            raise ValueError(text)
        for i, size in enumerate(parts):
            amount = Decimal(match[1]) * size  # exact: 4.1 seconds are 4,100,000 microseconds
            if amount != int(amount):
                raise ValueError(f"{text}: only whole months, days and microseconds")
            total[i] += int(amount)
        at = match.end()
    if (match := _HOURS.match(text, at)) is not None:
        seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4] or 0)
        micros = seconds * 10**6 + int((match[5] or "0").ljust(6, "0"))
        total[2] += -micros if match[1] == "-" else micros
        at = match.end()
    if at == 0 or text[at:].strip():
        raise ValueError(text)
    return interval(*total)


def _as_parts(value: Value) -> tuple[Any, Any, Any]:
    """Months, days and microseconds, as numbers for a scalar or as arrays for an array."""
    if isinstance(value, pa.Scalar) and pt.is_interval(value.type):
        months, days, nanos = value.as_py()
        return months, days, nanos // 1000
    if pt.is_duration(value.type):
        micros = value.cast(pa.duration("us"), safe=False).cast(pa.int64())
        if isinstance(micros, pa.Scalar):
            return 0, 0, micros.as_py()
        return 0, 0, np.asarray(micros.fill_null(0))
    layout = np.dtype([("months", np.int32), ("days", np.int32), ("nanos", np.int64)])
    rows = np.frombuffer(value.buffers()[1], layout)[value.offset :][: len(value)]
    return rows["months"].astype(np.int64), rows["days"].astype(np.int64), rows["nanos"] // 1000


def comparable_interval(value: Value) -> Value:
    """Converts an interval to microseconds; as in DuckDB's comparisons, a month has 30 days."""
    months, days, micros = _as_parts(value)
    total = (months * 30 + days) * _DAY + micros
    if isinstance(value, pa.Scalar):
        return pa.scalar(int(total), pa.int64())
    return pa.array(total, mask=np.asarray(value.is_null()))


def add_interval(value: Value, by: Value, sign: int = 1) -> Value:
    """Adds an interval to a date or timestamp; the day is limited to the length of the month."""
    rows = rows_of(value, by)
    stamp = full(value, rows)
    nulls = np.asarray(pc.or_(full(pc.is_null(stamp), rows), full(pc.is_null(by), rows)))
    if isinstance(by, pa.Scalar) and not by.is_valid:
        by = interval(0, 0, 0)
    months, days, micros = (sign * item for item in _as_parts(by))
    if pt.is_time(stamp.type):
        ticks = np.asarray(stamp.cast(pa.time64("us"), safe=False).cast(pa.int64()).fill_null(0))
        return pa.array((ticks + micros) % _DAY, pa.int64(), mask=nulls).cast(pa.time64("us"))
    zone = getattr(stamp.type, "tz", None)
    stamp = stamp.cast(pa.timestamp("us", zone), safe=False)
    calendar = np.any(months != 0) or np.any(days != 0)
    if zone and calendar:
        stamp = pc.local_timestamp(stamp)
    ticks = np.asarray(stamp.cast(pa.int64()).fill_null(0))
    if np.any(months != 0):
        day, clock = np.divmod(ticks, _DAY)
        dates = day.astype("datetime64[D]")
        month = dates.astype("datetime64[M]")
        of_month = (dates - month).astype(np.int64)
        month = month + months
        last = ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(
            np.int64
        )
        day = month.astype("datetime64[D]").astype(np.int64) + np.minimum(of_month, last - 1)
        ticks = day * _DAY + clock
    ticks = ticks + days * _DAY
    if zone and calendar:
        naive = pa.array(ticks, pa.timestamp("us"))
        moved = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")
        ticks = np.asarray(moved.cast(pa.int64()))
    return pa.array(ticks + micros, pa.int64(), mask=nulls).cast(pa.timestamp("us", zone))


def add_days(value: Value, days: Value) -> Value:
    days_since_epoch = add(value.cast(pa.int32()), days)
    return days_since_epoch.cast(pa.int32()).cast(pa.date32())


def subtract_times(left: Value, right: Value) -> Value:
    """The number of days between dates, or the duration between timestamps."""
    if pt.is_date(left.type) and pt.is_date(right.type):
        return pc.subtract(left.cast(pa.int32()).cast(pa.int64()), right.cast(pa.int32()))
    ticks = [v.cast(pa.timestamp("us", getattr(v.type, "tz", None)), safe=False).cast(pa.int64())
             for v in (left, right)]  # fmt: skip
    return pc.subtract(*ticks).cast(pa.duration("us"))


def last_day(value: Value) -> Value:
    first = truncate("month", value)
    return add_interval(first, interval(1, -1, 0)).cast(pa.date32())
