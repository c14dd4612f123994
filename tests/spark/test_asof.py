"""As-of joins of DataFrames give the rows of as-of joins in Python."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns

START = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
TIME = pa.timestamp("us", "UTC")


def events(r: random.Random, count: int) -> pa.Table:
    def times() -> pa.Array:
        return pa.array([START + dt.timedelta(hours=r.randrange(40)) for _ in range(count)], TIME)

    users = [None if r.random() < 0.1 else r.randrange(6) for _ in range(count)]
    return pa.table({"u": pa.array(users, pa.int64()), "t": times(), "known": times()})


def test_rows_are_those_of_python(spark: Any, tmp_path: Path) -> None:
    r = random.Random("spark")
    folder = tmp_path / "events"
    folder.mkdir()
    for i in range(2):
        rows = events(r, 60)
        # Without ties, every file order gives the same rows.
        unique = rows.group_by(["u", "t"]).aggregate([("known", "min")])
        unique = unique.rename_columns(["u", "t", "known"])
        shifted = pa.array([t + dt.timedelta(minutes=i) for t in unique["t"].to_pylist()], TIME)
        unique = unique.set_column(1, "t", shifted)
        nb.write(unique, folder / f"{i}.nimble", cluster_by=["u", "t"])
    probe = events(r, 80).append_column("id", pa.array(range(80)))
    df = spark.createDataFrame(probe).repartition(2)
    joined: dict[str, Any] = {}
    wanted: dict[str, pa.Table] = {}
    choices: dict[str, dict[str, Any]] = {
        "left": {},
        "inner": {"how": "inner", "direction": "forward", "columns": ["known"]},
        "nearest": {"direction": "nearest", "tolerance": dt.timedelta(hours=2)},
        "known": {"known_at": {"known": "known"}, "allow_exact_matches": False},
    }
    with nb.open_dataset(folder) as source:
        for name, how in choices.items():
            joined[name] = ns.asof_join(df, str(folder), on="t", by="u", **how)
            wanted[name] = source.asof_join(probe, on="t", by="u", **how)
    for name, result in joined.items():
        assert result.columns == wanted[name].column_names
        got = result.toArrow().sort_by("id").to_pylist()
        assert got == wanted[name].sort_by("id").to_pylist(), name


def test_errors_come_from_the_driver(spark: Any, tmp_path: Path) -> None:
    nb.write(events(random.Random(1), 5), tmp_path / "e.nimble", cluster_by=["u", "t"])
    df = spark.createDataFrame([(1,)], "u long")
    path = str(tmp_path / "e.nimble")
    with pytest.raises(nb.InvalidArgumentError, match="no column 't'"):
        ns.asof_join(df, path, on="t", by="u")
    timed = spark.createDataFrame([(1, START)], "u long, t timestamp")
    with pytest.raises(nb.IndexUnavailableError, match=r"cluster \(u, t\)"):
        ns.asof_join(timed, path, on="t")
