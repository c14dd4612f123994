"""Numbers, times, decimals, floats, booleans, and patterns of nulls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bench.zoo.registry import Make, Random, Values, add, column

SECOND = 1_000_000  # µs
DAY = 86_400 * SECOND
NOW = 1_700_000_000 * SECOND


def times(values: np.ndarray, unit: str = "us") -> pa.Array:
    return pa.array(values.astype(np.int64), pa.timestamp(unit))


def decimals(values: np.ndarray, precision: int, scale: int) -> pa.Array:
    """Unscaled integers as decimals."""
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    kind = pa.decimal128(precision, scale)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(words)])


def smooth(random: Random, n: int, period: float, noise: float) -> np.ndarray:
    """A daily wave with a slow drift and some noise: what a sensor sees."""
    drift = np.cumsum(random.normal(0, noise / 30, n))
    return np.sin(np.arange(n) * (2 * np.pi / period)) + drift + random.normal(0, noise, n)


def skewed(random: Random, n: int, count: int, power: float = 3) -> np.ndarray:
    """Which of `count` things, the first ones more often."""
    return (count * random.random(n) ** power).astype(np.int64)


# ---- integers ----


def uniform(bits: int, kind: type = np.int64) -> Make:
    return lambda random, n: random.integers(0, 1 << bits, n).astype(kind)


for bits in (4, 10, 20, 40):
    add("ints", f"uniform_{bits}_bits", uniform(bits))
add("ints", "uniform_63_bits", lambda random, n: random.integers(0, 1 << 63, n, np.uint64))
add("ints", "uniform_int32", lambda random, n: random.integers(-(1 << 31), 1 << 31, n, np.int32))
add("ints", "uniform_uint8", lambda random, n: random.integers(0, 256, n, np.uint8))
add("ints", "small_int16", lambda random, n: random.poisson(3, n).astype(np.int16))
add("ints", "geometric", lambda random, n: random.geometric(0.02, n))
add("ints", "normal", lambda random, n: (random.normal(0, 5_000, n)).astype(np.int64))
add("ints", "zipf", lambda random, n: np.minimum(random.zipf(1.4, n), 1 << 40))
add("ints", "log_uniform", lambda random, n: np.exp2(random.random(n) * 50).astype(np.int64))
add("ints", "multiples_of_5", lambda random, n: random.integers(0, 200_000, n) * 5)
add("ints", "multiples_of_1000_plus_7", lambda random, n: random.integers(0, 1 << 20, n) * 1000 + 7)
add("ints", "bytes_in_pages", lambda random, n: skewed(random, n, 1 << 20) * 4096)


@column("ints")
def outliers(random: Random, n: int) -> Values:
    values = random.integers(0, 1_000, n)
    return np.where(random.random(n) < 0.01, random.integers(0, 1 << 40, n), values)


@column("ints")
def magnitudes_by_block(random: Random, n: int) -> Values:
    """Tenants one after the other, each with numbers of its own size."""
    exponents = random.integers(4, 40, n // 5_000 + 1).repeat(5_000)[:n]
    return (random.random(n) * np.exp2(exponents)).astype(np.int64)


for count in (3, 200, 3_000, 60_000):

    def few_distinct(random: Random, n: int, count: int = count) -> Values:
        return random.integers(0, 1 << 62, count)[random.integers(0, count, n)]

    add("ints", f"distinct_{count}_of_64_bits", few_distinct)

    def few_skewed(random: Random, n: int, count: int = count) -> Values:
        return random.integers(0, 1 << 62, count)[skewed(random, n, count)]

    add("ints", f"distinct_{count}_skewed", few_skewed)


# ---- ids ----

add("ids", "row_number", lambda _, n: np.arange(n))
add("ids", "with_gaps", lambda random, n: np.cumsum(random.integers(1, 8, n)))
add("ids", "nearly_sorted", lambda random, n: np.arange(n) * 4 + random.integers(0, 400, n))
add("ids", "shuffled", lambda random, n: random.permutation(n) + 10_000_000)


@column("ids")
def snowflake(random: Random, n: int) -> Values:
    """Time in ms, 10 bits of a machine, 12 bits of a sequence number."""
    ms = np.cumsum(random.poisson(0.4, n)) + 100_000_000_000
    return (ms << 22) | (random.integers(0, 40, n) << 12) | random.integers(0, 6, n)


@column("ids")
def foreign_keys_sorted(random: Random, n: int) -> Values:
    return np.sort(skewed(random, n, n // 20))


@column("ids")
def foreign_keys(random: Random, n: int) -> Values:
    return skewed(random, n, n // 20, 2)


# ---- counters, steps and runs ----


@column("counters")
def counter_with_steps(random: Random, n: int) -> Values:
    """One more a row, and now and then a jump."""
    return np.cumsum(np.where(random.random(n) < 0.001, random.integers(1, 1 << 20, n), 1))


@column("counters")
def packets(random: Random, n: int) -> Values:
    return np.cumsum(random.poisson(1_500, n))


@column("counters")
def bytes_sent(random: Random, n: int) -> Values:
    return np.cumsum(random.choice([64, 128, 576, 1_500], n, p=[0.4, 0.1, 0.1, 0.4]))


@column("counters")
def resets(random: Random, n: int) -> Values:
    """A counter that begins anew."""
    starts = np.flatnonzero(random.random(n) < 0.0005)
    rows = np.arange(n)
    return rows - np.concatenate([[0], starts])[np.searchsorted(starts, rows, "right")]


@column("counters")
def slow_steps(random: Random, n: int) -> Values:
    return np.cumsum(random.random(n) < 0.02)


@column("counters")
def long_runs(random: Random, n: int) -> Values:
    return random.integers(0, 1 << 50, n // 300 + 1).repeat(300)[:n]


@column("counters")
def runs_of_any_length(random: Random, n: int) -> Values:
    lengths = random.geometric(0.1, n)
    return random.integers(0, 1_000_000, n).repeat(lengths)[:n]


@column("counters")
def episodes(random: Random, n: int) -> Values:
    """0, 1, 2, ... for every session, of about forty steps."""
    lengths = random.geometric(1 / 40, n)
    starts = np.cumsum(lengths) - lengths
    return (np.arange(lengths.sum()) - starts.repeat(lengths))[:n]


# ---- times ----

add("times", "random_us", lambda random, n: times(NOW + random.integers(0, 365 * DAY, n)))
add("times", "sorted_us", lambda random, n: times(NOW + np.sort(random.integers(0, 30 * DAY, n))))
add("times", "regular_seconds", lambda _, n: times(NOW + np.arange(n) * SECOND))


@column("times")
def whole_seconds_us(random: Random, n: int) -> Values:
    return times(NOW + random.integers(0, 365 * 86_400, n) * SECOND)


@column("times")
def whole_ms_in_ns(random: Random, n: int) -> Values:
    return times((NOW + random.integers(0, DAY, n) // 1_000 * 1_000) * 1_000, "ns")


@column("times")
def seconds_sorted_us(random: Random, n: int) -> Values:
    return times(NOW + np.cumsum(random.poisson(2, n)) * SECOND)


@column("times")
def midnights_us(random: Random, n: int) -> Values:
    return times((NOW // DAY + random.integers(0, 900, n)) * DAY)


@column("times")
def dates(random: Random, n: int) -> Values:
    return pa.array((19_000 + skewed(random, n, 2_000)).astype(np.int32), pa.date32())


@column("times")
def bursts(random: Random, n: int) -> Values:
    """Many events within milliseconds, then minutes of nothing."""
    gaps = np.where(random.random(n) < 0.01, random.exponential(2e8, n), random.exponential(300, n))
    return times(NOW + np.cumsum(gaps.astype(np.int64)))


@column("times")
def jittered_interval(random: Random, n: int) -> Values:
    """Every ten seconds, give or take some ms."""
    return times(NOW + np.arange(n) * 10 * SECOND + random.integers(-3_000, 3_000, n))


@column("times")
def regular_with_gaps(random: Random, n: int) -> Values:
    steps = np.where(random.random(n) < 0.002, random.integers(2, 5_000, n), 1)
    return times(NOW + np.cumsum(steps) * SECOND)


@column("times")
def late_arrivals(random: Random, n: int) -> Values:
    sorted_times = np.sort(random.integers(0, 7 * DAY, n))
    late = np.where(random.random(n) < 0.03, random.integers(0, DAY, n), 0)
    return times(NOW + sorted_times - late)


@column("times")
def durations_ms(random: Random, n: int) -> Values:
    return pa.array(random.lognormal(6, 1.5, n).astype(np.int64), pa.duration("ms"))


@column("times")
def time_of_day(random: Random, n: int) -> Values:
    return pa.array(random.integers(0, 86_400, n).astype(np.int32), pa.time32("s"))


# ---- decimals ----


@column("decimals")
def prices(random: Random, n: int) -> Values:
    return decimals((random.lognormal(3, 1, n) * 100).astype(np.int64), 15, 2)


@column("decimals")
def prices_in_steps_of_5(random: Random, n: int) -> Values:
    return decimals((random.lognormal(3, 1, n) * 20).astype(np.int64) * 5, 15, 2)


@column("decimals")
def rates(random: Random, n: int) -> Values:
    return decimals(random.choice([0, 5_000, 7_000, 19_000, 25_000], n), 9, 5)


@column("decimals")
def whole_amounts(random: Random, n: int) -> Values:
    return decimals(random.integers(0, 20_000, n) * 1_000_000, 18, 6)


@column("decimals")
def list_prices(random: Random, n: int) -> Values:
    """A catalogue of some thousand prices."""
    catalogue = random.integers(100, 10_000_000, 4_000)
    return decimals(catalogue[skewed(random, n, 4_000)], 15, 2)


@column("decimals")
def balances(random: Random, n: int) -> Values:
    return decimals(random.normal(0, 1e14, n).astype(np.int64), 30, 8)


# ---- floats ----


def rounded(digits: int, kind: type = np.float64) -> Make:
    return lambda random, n: np.round(random.normal(100, 40, n), digits).astype(kind)


for digits in (0, 1, 2, 4, 6):
    add("floats", f"rounded_{digits}", rounded(digits))
for digits in (1, 3):
    add("floats", f"float32_rounded_{digits}", rounded(digits, np.float32))
add("floats", "uniform_double", lambda random, n: random.random(n))
add("floats", "normal_double", lambda random, n: random.normal(0, 1, n))
add("floats", "normal_float32", lambda random, n: random.normal(0, 1, n).astype(np.float32))
add("floats", "uniform_float32", lambda random, n: random.random(n).astype(np.float32))
add("floats", "normal_float16", lambda random, n: random.normal(0, 1, n).astype(np.float16))
add("floats", "float32_as_double", lambda r, n: r.normal(0, 1, n).astype(np.float32).astype(float))
add("floats", "whole_doubles", lambda random, n: random.integers(0, 100_000, n).astype(float))
add("floats", "wide_range", lambda random, n: np.exp(random.normal(0, 20, n)))


@column("floats")
def bfloat16_in_float32(random: Random, n: int) -> Values:
    bits = random.normal(0, 1, n).astype(np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


@column("floats")
def quantized_256_levels(random: Random, n: int) -> Values:
    levels = np.clip(np.round(random.normal(0, 1, n) * 32), -128, 127)
    return (levels * 0.0123).astype(np.float32)


@column("floats")
def quantized_4096_levels(random: Random, n: int) -> Values:
    """What a converter of 12 bits reads, in volts."""
    return np.clip(np.round(random.normal(2_048, 400, n)), 0, 4_095) * (3.3 / 4_096)


@column("floats")
def power_of_two_steps(random: Random, n: int) -> Values:
    return np.round(random.normal(0, 1, n) * 1_024) / 1_024


def few_floats(count: int, kind: type) -> Make:
    def make(random: Random, n: int) -> Values:
        return random.normal(0, 1, count).astype(kind)[skewed(random, n, count)]

    return make


for count, kind in ((5, np.float64), (500, np.float32), (20_000, np.float64)):
    add("floats", f"distinct_{count}_{np.dtype(kind).name}", few_floats(count, kind))


@column("floats")
def probabilities(random: Random, n: int) -> Values:
    """Ratios of small counts."""
    return random.integers(0, 100, n) / random.integers(1, 100, n)


@column("floats")
def coordinates(random: Random, n: int) -> Values:
    """Latitudes as a receiver writes them, seven digits, along walks."""
    return np.round(52.5 + np.cumsum(random.normal(0, 1e-5, n)), 7)


@column("floats")
def mostly_zero(random: Random, n: int) -> Values:
    return np.where(random.random(n) < 0.95, 0.0, random.lognormal(0, 1, n))


@column("floats")
def with_nan(random: Random, n: int) -> Values:
    return np.where(random.random(n) < 0.2, np.nan, np.round(random.normal(20, 5, n), 2))


@column("floats")
def probabilities_float32(random: Random, n: int) -> Values:
    """A model's scores: many near 0, some near 1."""
    return (1 / (1 + np.exp(-random.normal(-3, 3, n)))).astype(np.float32)


# ---- series of sensors ----


@column("sensors")
def temperature(random: Random, n: int) -> Values:
    return np.round(15 + 8 * smooth(random, n, 1_440, 0.02), 1)


@column("sensors")
def temperature_float32(random: Random, n: int) -> Values:
    return (15 + 8 * smooth(random, n, 1_440, 0.02)).astype(np.float32)


@column("sensors")
def pressure_int(random: Random, n: int) -> Values:
    return (101_300 + 400 * smooth(random, n, 5_000, 0.01)).astype(np.int32)


@column("sensors")
def audio(random: Random, n: int) -> Values:
    return (8_000 * np.sin(np.arange(n) * 0.05) + random.normal(0, 300, n)).astype(np.int16)


@column("sensors")
def stuck_then_moving(random: Random, n: int) -> Values:
    moving = np.repeat(random.random(n // 2_000 + 1) < 0.3, 2_000)[:n]
    return np.round(np.cumsum(np.where(moving, random.normal(0, 1, n), 0)), 3)


@column("sensors")
def stock_price(random: Random, n: int) -> Values:
    return np.round(100 * np.exp(np.cumsum(random.normal(0, 1e-4, n))), 2)


# ---- booleans and enums ----

add("bools", "half", lambda random, n: random.random(n) < 0.5)
add("bools", "one_percent", lambda random, n: random.random(n) < 0.01)
add("bools", "all_true", lambda _, n: np.ones(n, bool))


@column("bools")
def switches(random: Random, n: int) -> Values:
    return np.cumsum(random.random(n) < 0.005) % 2 == 1


@column("enums")
def status_codes(random: Random, n: int) -> Values:
    codes = np.array([200, 204, 301, 304, 400, 404, 500, 503], np.int32)
    return random.choice(codes, n, p=[0.8, 0.03, 0.02, 0.08, 0.02, 0.03, 0.01, 0.01])


@column("enums")
def levels(random: Random, n: int) -> Values:
    return random.choice(np.array([1, 2, 3, 4, 5], np.int8), n, p=[0.05, 0.7, 0.2, 0.04, 0.01])


@column("enums")
def bit_flags(random: Random, n: int) -> Values:
    return (random.random((n, 8)) < 0.1) @ (1 << np.array([0, 3, 7, 12, 16, 21, 25, 30]))


@column("enums")
def category_type(random: Random, n: int) -> Values:
    names = pa.array([f"category-{i}" for i in range(40)])
    return pa.DictionaryArray.from_arrays(pa.array(skewed(random, n, 40).astype(np.int8)), names)


# ---- nulls ----

KINDS: dict[str, Callable[[Random, int], np.ndarray]] = {
    "int64": lambda random, n: random.integers(0, 1 << 40, n),
    "small": lambda random, n: random.integers(0, 100, n, np.int32),
    "double": lambda random, n: random.normal(0, 1, n),
    "price": lambda random, n: np.round(random.lognormal(3, 1, n), 2),
}
for kind_name, of_kind in KINDS.items():
    for percent in (1, 50, 99):

        def nulls(random: Random, n: int, of_kind: Make = of_kind, share: int = percent) -> Values:
            return pa.array(of_kind(random, n), mask=random.random(n) * 100 < share)

        add("nulls", f"{kind_name}_{percent}_percent_null", nulls)


@column("nulls")
def times_half_null(random: Random, n: int) -> Values:
    at = np.cumsum(random.poisson(2, n)) * SECOND + NOW
    return pa.array(at, pa.timestamp("us"), mask=random.random(n) < 0.5)


@column("nulls")
def null_stretches(random: Random, n: int) -> Values:
    """Whole stretches of rows without a value."""
    gone = np.repeat(random.random(n // 3_000 + 1) < 0.5, 3_000)[:n]
    return pa.array(random.integers(0, 1 << 30, n), mask=gone)


@column("nulls")
def bool_half_null(random: Random, n: int) -> Values:
    return pa.array(random.random(n) < 0.5, mask=random.random(n) < 0.5)


@column("nulls")
def decimal_90_percent_null(random: Random, n: int) -> Values:
    made = decimals(random.integers(0, 10_000_000, n), 15, 2)
    return pa.compute.if_else(pa.array(random.random(n) < 0.1), made, None)


@column("nulls")
def all_null(_: Random, n: int) -> Values:
    return pa.nulls(n, pa.int64())
