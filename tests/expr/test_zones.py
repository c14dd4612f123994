"""Filters over times with zones. The expected rows are computed with Python's zoneinfo."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import nimblepy as nb

UTC = dt.UTC
ZONES = ["Asia/Tokyo", "America/New_York", "Europe/Berlin", "UTC"]
HOURS = [dt.datetime(2024, 4, 30, tzinfo=UTC) + dt.timedelta(hours=h) for h in range(0, 72, 5)]


def stored(path: Path, zone: str, times: list[dt.datetime]) -> nb.File:
    seen = pa.array(times, pa.timestamp("us", zone))
    nb.write(pa.table({"id": range(len(times)), "s": ["x"] * len(times), "seen": seen}), path)
    return nb.open(path)


@pytest.mark.parametrize("computer", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("zone", ZONES)
def test_functions_read_times_in_the_zone_of_their_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str, computer: str
) -> None:
    monkeypatch.setenv("TZ", computer)
    clocks = [time.astimezone(ZoneInfo(zone)) for time in HOURS]
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=ZoneInfo(zone))
    with stored(tmp_path / "f.nimble", zone, HOURS) as file:
        for text, passes in [
            ("hour(seen) = 7", lambda t: t.hour == 7),
            ("hour(seen) < 12", lambda t: t.hour < 12),
            ("CAST(seen AS DATE) = '2024-05-01'", lambda t: t.date() == dt.date(2024, 5, 1)),
            ("CAST(seen AS VARCHAR) LIKE '2024-05-01%'", lambda t: t.date() == dt.date(2024, 5, 1)),
            ("seen >= '2024-05-01 12:00:00' OR upper(s) = 'Y'", lambda t: t >= noon),
            ("seen >= '2024-05-01 12:00:00'", lambda t: t >= noon),
        ]:
            expected = [i for i, time in enumerate(clocks) if passes(time)]
            assert file.to_table(["id"], filter=text)["id"].to_pylist() == expected, text


def test_times_that_clocks_repeat_or_skip(tmp_path: Path) -> None:
    times = [
        dt.datetime(2024, 10, 27, 0, 30, tzinfo=UTC),  # 2:30 in summer
        dt.datetime(2024, 10, 27, 1, 30, tzinfo=UTC),  # 2:30 in winter
        dt.datetime(2024, 10, 27, 2, 30, tzinfo=UTC),
        dt.datetime(2024, 3, 31, 1, 0, tzinfo=UTC),  # the end of the gap: 3:00
    ]
    with stored(tmp_path / "f.nimble", "Europe/Berlin", times) as file:
        for text, expected in [("2024-10-27 02:30:00", [0]), ("2024-03-31 02:30:00", [3])]:
            for query in (f"seen = '{text}'", f"seen IN ('{text}')", f"seen = TIMESTAMP '{text}'"):
                assert file.to_table(filter=query)["id"].to_pylist() == expected, query
            given = file.to_table(filter="seen = $t", params={"t": text})
            assert given["id"].to_pylist() == expected


def test_a_delete_by_date_removes_the_day_of_the_zone(lake: nb.Catalog) -> None:
    zone = ZoneInfo("Europe/Berlin")
    days = [dt.datetime(2024, 5, day, 0, 30, tzinfo=zone) for day in (1, 2)]
    rows = pa.table({"day": [1, 2], "seen": pa.array(days, pa.timestamp("us", "Europe/Berlin"))})
    table = lake.create_table("a.b", rows)
    table.delete("CAST(seen AS DATE) = '2024-05-01'")
    assert table.to_table()["day"].to_pylist() == [2]
