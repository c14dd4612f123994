"""Intervals of SQL as text."""

from __future__ import annotations

import pytest

from nimblepy.expr.times import parse_interval

pytestmark = pytest.mark.sanitizer

SECOND = 1_000_000_000  # in nanoseconds


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1 day 2 hours", (0, 1, 2 * 3600 * SECOND)),
        ("-1 month", (-1, 0, 0)),
        # Products of floats were not whole: 4.1 * 10**6 is 4099999.9999999995.
        ("4.1 seconds", (0, 0, 4_100_000_000)),
        ("1.001 second", (0, 0, 1_001_000_000)),
        ("1.1 hours", (0, 0, 3960 * SECOND)),
        ("-0.1 seconds", (0, 0, -100_000_000)),
        ("01:02:03.5", (0, 0, 3723 * SECOND + SECOND // 2)),
    ],
)
def test_amounts_are_exact(text: str, parts: tuple[int, int, int]) -> None:
    assert parse_interval(text).as_py() == parts


@pytest.mark.parametrize("text", ["0.0000001 seconds", "1.5 months", "1.5 days", "soon", ""])
def test_amounts_that_are_not_whole_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"only whole|^" + text):
        parse_interval(text)
