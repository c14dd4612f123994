"""Arguments of as-of joins: errors that say what to do, names, readers, empty sides, and reads."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

START = datetime.datetime(2026, 5, 1)


def at(hour: int) -> datetime.datetime:
    return START + datetime.timedelta(hours=hour)


EVENTS = pa.table(
    {
        "user": [1, 1, 2],
        "ts": pa.array([at(0), at(2), at(1)], pa.timestamp("us")),
        "name": ["a", "b", "c"],
        "seen": pa.array([at(1), at(9), None], pa.timestamp("us")),
    }
)
PROBE = pa.table({"user": [2, 1, 1], "ts": pa.array([at(1), at(5), at(-1)], pa.timestamp("us"))})


@pytest.fixture
def file(tmp_path: Path) -> Iterator[nb.File]:
    indexes = [nb.HashIndex(["name"])]
    nb.write(EVENTS, tmp_path / "e.nimble", cluster_by=["user", "ts"], indexes=indexes)
    with nb.open(tmp_path / "e.nimble") as opened:
        yield opened


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"on": "no"}, nb.InvalidArgumentError, "no column 'no'"),
        ({"by": "no"}, nb.InvalidArgumentError, "no column 'no'"),
        ({"on": ["ts"]}, nb.InvalidArgumentError, "on: expected one column"),
        ({"on": {"ts": "ts", "user": "user"}}, nb.InvalidArgumentError, "on: expected one column"),
        ({"on": {"ts": "no"}}, nb.InvalidArgumentError, "no"),
        ({"by": 7}, nb.InvalidArgumentError, "by: expected"),
        ({"by": ["user", "user"]}, nb.InvalidArgumentError, "occurs twice"),
        ({"by": "ts"}, nb.InvalidArgumentError, "occurs twice"),
        ({"by": None}, nb.IndexUnavailableError, r"\(ts\).*cluster \(user, ts\), hash \(name\)"),
        ({"on": {"ts": "seen"}}, nb.IndexUnavailableError, r"begins with \(user, seen\)"),
        ({"on": {"user": "ts"}, "by": None}, nb.InvalidArgumentError, "cast the probe"),
        ({"direction": "back"}, nb.InvalidArgumentError, "'backward', 'forward', 'nearest'"),
        ({"how": "right"}, nb.InvalidArgumentError, "'left' or 'inner'"),
        ({"tolerance": 5}, nb.InvalidArgumentError, "a timedelta"),
        ({"tolerance": True}, nb.InvalidArgumentError, "a timedelta"),
        ({"tolerance": datetime.timedelta(-1)}, nb.InvalidArgumentError, ">= 0"),
        ({"allow_exact_matches": "no"}, nb.InvalidArgumentError, "True or False"),
        ({"columns": "name"}, nb.InvalidArgumentError, "columns: expected a list"),
        ({"columns": ["no"]}, nb.InvalidArgumentError, "no"),
        ({"suffix": ""}, nb.InvalidArgumentError, "'ts'.*suffix"),
        ({"suffix": None}, nb.InvalidArgumentError, "suffix: expected text"),
        ({"known_at": "seen"}, nb.InvalidArgumentError, "known_at: expected {probe column"),
        ({"known_at": {"ts": "name"}}, nb.InvalidArgumentError, "cast the probe"),
        ({"known_at": {}}, nb.InvalidArgumentError, "known_at: expected one column"),
    ],
)
def test_errors_say_what_to_do(
    file: nb.File, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        file.asof_join(PROBE, **{"on": "ts", "by": "user", **arguments})


@pytest.mark.parametrize(
    ("key", "arguments", "error", "message"),
    [
        (1, {}, nb.InvalidArgumentError, "2 columns"),
        ((), {}, nb.InvalidArgumentError, "no value"),
        ((1, at(0), 3), {}, nb.InvalidArgumentError, "3 values"),
        (("a", at(0)), {}, nb.InvalidArgumentError, "'a'"),
        ((1, "then"), {}, nb.InvalidArgumentError, "then"),
        ({"user": 1, "no": 2}, {}, nb.InvalidArgumentError, "user, ts"),
        ("a", {"on": "name"}, nb.IndexUnavailableError, r"begins with \(name\)"),
        ((at(0), 1), {"on": ["ts", "user"]}, nb.IndexUnavailableError, r"\(ts, user\)"),
        ((1, at(0)), {"known_at": "seen"}, nb.InvalidArgumentError, "known_at: expected"),
        ((1, at(0)), {"columns": ["no"]}, nb.InvalidArgumentError, "no"),
        ((1, at(0)), {"direction": "up"}, nb.InvalidArgumentError, "direction"),
        # The nearest user at or before 2 is another user.
        ((2,), {}, nb.InvalidArgumentError, r"cluster key \(user, ts\); .* name them in on="),
        ({"user": 2}, {}, nb.InvalidArgumentError, r"cluster key \(user, ts\)"),
    ],
)
def test_errors_of_single_keys(
    file: nb.File, key: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        file.asof(key, **arguments)


def test_wrong_keywords_name_the_method(file: nb.File) -> None:
    with pytest.raises(TypeError, match=r"asof_join\(\) needs the argument 'on'"):
        file.asof_join(PROBE, by="user")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"asof_join\(\) has no argument 'know_at'.*'known_at'"):
        file.asof_join(PROBE, on="ts", know_at={"ts": "ts"})  # type: ignore[call-arg]


def test_columns_of_the_result(file: nb.File) -> None:
    joined = file.asof_join(PROBE, on="ts", by="user")
    assert joined.column_names == ["user", "ts", "ts_right", "name", "seen"]
    assert joined["name"].to_pylist() == ["c", "b", None]
    inner = nb.asof_join(PROBE, file, on="ts", by="user", how="inner", columns=["ts"], suffix="_e")
    assert inner.to_pydict() == {
        "user": [2, 1],
        "ts": [at(1), at(5)],
        "ts_e": [at(1), at(2)],
    }
    renamed = PROBE.rename_columns(["u", "t"])
    joined = file.asof_join(renamed, on={"t": "ts"}, by={"u": "user"})
    assert joined.column_names == ["u", "t", "ts", "name", "seen"]
    nothing = file.asof_join(PROBE, on="ts", by="user", columns=[], how="inner")
    assert nothing.num_rows == 2


def test_a_reader_gives_a_reader(file: nb.File) -> None:
    for probe in (PROBE, PROBE.slice(0, 0)):
        reader = file.asof_join(probe.to_reader(max_chunksize=1), on="ts", by="user")
        assert isinstance(reader, pa.RecordBatchReader)
        assert reader.read_all().equals(file.asof_join(probe, on="ts", by="user"))


def test_empty_sources(tmp_path: Path) -> None:
    nb.write(EVENTS.slice(0, 0), tmp_path / "e.nimble", cluster_by=["user", "ts"])
    for source in (nb.open(tmp_path / "e.nimble"), nb.open_dataset(tmp_path)):
        with source:
            for direction in ("backward", "nearest"):
                joined = source.asof_join(PROBE, on="ts", by="user", direction=direction)
                assert joined["name"].to_pylist() == [None] * 3
                assert source.asof((1, at(3)), direction=direction) is None


def test_recorded_searches_are_advice(tmp_path: Path) -> None:
    nb.write(EVENTS, tmp_path / "e.nimble", cluster_by=["user", "ts"])
    with nb.open(tmp_path / "e.nimble", record=tmp_path / "log") as file:
        file.asof_join(PROBE, on="ts", by="user")
        file.asof((1, at(3)), tolerance=datetime.timedelta(hours=1))
    assert '"user"' in (tmp_path / "log").read_text()


@pytest.mark.cost
def test_reads_only_the_blocks_of_the_rows(tmp_path: Path) -> None:
    """In a file that is not mapped, a few probes read a small part of it."""
    count = 200_000
    rng = np.random.default_rng(1)
    events = pa.table(
        {
            "user": rng.integers(0, 1000, count),
            "ts": rng.integers(0, 10**9, count),
            "value": rng.random(count),
        }
    )
    nb.write(events, tmp_path / "e.nimble", cluster_by=["user", "ts"])
    with nb.open(tmp_path / "e.nimble", mmap=False) as file:
        probe = pa.table({"user": [5, 500, 900], "ts": [10**8, 5 * 10**8, 10**9]})
        file.reset_io_stats()
        file.asof_join(probe, on="ts", by="user", columns=["value"])
        joined = file.io_stats
        file.reset_io_stats()
        file.lookup(probe.select(["user", "ts"]), columns=["value"])
        assert joined.bytes_read < file.size_bytes / 10
        assert joined.reads <= 40


@pytest.mark.cost
def test_opens_only_files_that_may_have_nearer_rows(tmp_path: Path) -> None:
    for i in range(10):
        rows = pa.table({"ts": range(100 * i, 100 * i + 100), "file": [i] * 100})
        nb.write(rows, tmp_path / f"{i}.nimble", cluster_by="ts")
    with nb.open_dataset(tmp_path) as files:
        found = files.asof_join(pa.table({"ts": [455, 1]}), on="ts")
        assert found["file"].to_pylist() == [4, 0]
        assert files.asof(2000, ["ts"]) == {"ts": 999}
        opened = files.io_stats
        found = files.asof_join(pa.table({"ts": [455]}), on="ts", direction="nearest")
        assert found["file"].to_pylist() == [4]
        assert files.io_stats.reads - opened.reads <= 12
