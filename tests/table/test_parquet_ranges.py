"""Ranges, prefixes and as-of searches by the indexes of Parquet tables: the same answers as without
these indexes, with few reads.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.table.reading.members import MemberRows

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("v", pa.int64()),
    ]
)


def some_rows(rng: random.Random, count: int) -> pa.Table:
    """Few distinct keys, with nulls, NaN, infinities and both zeros."""
    numbers = [None, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.5, 1e300, -2.0]
    return pa.table(
        {
            "id": rng.sample(range(400), count),
            "k": [rng.choice([None, -(2**31), 2**31 - 1, *range(6)]) for _ in range(count)],
            "s": [rng.choice([None, "", "a", "ab", "b", "ö"]) for _ in range(count)],
            "x": [rng.choice(numbers) for _ in range(count)],
            "v": [rng.randrange(20) for _ in range(count)],
        },
        SCHEMA,
    )


@pytest.fixture
def lake(tmp_path: Path) -> nb.Catalog:
    return nb.connect(tmp_path / "lake")


def without_index(monkeypatch: pytest.MonkeyPatch, call: Any) -> pa.Table:
    with monkeypatch.context() as patch:
        patch.setattr(MemberRows, "_search", lambda self, request: None)
        return call()


def one_range(rng: random.Random, table: nb.Table) -> Any:
    on = rng.choice([["k"], ["s"], ["s", "k"], ["x"], ["id"]])
    ends: dict[str, list[Any]] = {
        "k": [-(2**31), *range(7), 2**31 - 1],
        "s": ["", "a", "ab", "b", "z"],
        "x": [float("-inf"), -2.0, -0.0, 0.0, 0.7, float("inf")],
        "id": list(range(0, 400, 30)),
    }
    limit = rng.choice([None, 1, 3, 20, 200])
    reverse = rng.random() < 0.5
    width = rng.randint(1, len(on))
    if rng.random() < 0.3:
        prefix = tuple(rng.choice([*ends[name], None]) for name in on[:width])
        return lambda: table.prefix(prefix, on=on, limit=limit, reverse=reverse)
    lower, upper = (
        rng.choice([None, tuple(rng.choice(ends[name]) for name in on[:width])]) for _ in range(2)
    )
    inclusive = rng.choice(["[)", "[]", "()", "(]"])
    return lambda: table.range(
        lower, upper, on=on, inclusive=inclusive, limit=limit, reverse=reverse
    )


def one_asof(rng: random.Random, table: nb.Table) -> Any:
    probe = pa.table(
        {
            "s": [rng.choice([None, "", "a", "ab", "zz"]) for _ in range(15)],
            "k": pa.array([rng.choice([None, -3, *range(8)]) for _ in range(15)], pa.int64()),
            "lim": [rng.choice([None, *range(0, 20, 3)]) for _ in range(15)],
        }
    )
    arguments: dict[str, Any] = {
        "on": "k",
        "by": "s",
        "direction": rng.choice(["backward", "forward", "nearest"]),
        "allow_exact_matches": rng.random() < 0.7,
        "columns": ["k"],
    }
    if rng.random() < 0.3:
        arguments["known_at"] = {"lim": "v"}
    return lambda: table.asof_join(probe, **arguments)


def fresh(rng: random.Random, table: nb.Table) -> pa.Table:
    used = set(table.to_table(columns=["id"])["id"].to_pylist())
    rows = some_rows(rng, 50)
    return rows.filter(pa.array([i not in used for i in rows["id"].to_pylist()]))


def change(rng: random.Random, table: nb.Table) -> None:
    match rng.randrange(6):
        case 0:
            table.append(fresh(rng, table))
        case 1:
            table.upsert(some_rows(rng, rng.randrange(1, 60)))
        case 2:
            table.delete(f"v % 7 = {rng.randrange(7)} AND id % 3 = {rng.randrange(3)}")
        case 3:
            table.add_index([nb.SortedIndex(["s", "k", "v"]), nb.SortedIndex(["x"])])
        case 4:
            table.compact()
        case _:
            table.add_index(nb.SortedIndex(["k"]))


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 200))]
)
def test_random_histories_answer_as_scans_do(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    cluster_by = rng.choice([["id"], ["s"], ["k", "v"]])
    table = lake.create_table(
        "a.b",
        SCHEMA,
        primary_key="id",
        cluster_by=cluster_by,
        data_format="parquet",
        format_version=rng.choice([2, 3]),
        partition_by=rng.choice([None, None, "k"]),
        indexes=[
            nb.SortedIndex(["k"]),
            nb.SortedIndex(["s", "k", "v"]),
            nb.SortedIndex(["x"]),
            nb.SortedIndex(["id"]),
        ],
    )
    for _ in range(4):
        table.append(fresh(rng, table))
    table.add_index([nb.SortedIndex(["k"]), nb.SortedIndex(["s", "k", "v"]), nb.SortedIndex(["x"])])
    for step in range(6):
        change(rng, table)
        if step == 3:
            with table.alter() as alter:
                alter.widen("k", pa.int64())
        for _ in range(12):
            ask = one_range(rng, table)
            found, expected = ask(), without_index(monkeypatch, ask)
            assert repr(found.to_pydict()) == repr(expected.to_pydict())  # NaN equals NaN
        for _ in range(2):
            ask = one_asof(rng, table)
            found, expected = ask(), without_index(monkeypatch, ask)
            assert found.equals(expected), (found, expected)


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    numbers = range(3000)
    rows = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "sensor": [f"s{i % 10}" for i in numbers],
            "at": pa.array([7 * i % 3000 for i in numbers], pa.int64()),
        }
    )
    table = lake.create_table("a.b", rows.schema, primary_key="id", data_format="parquet")
    for begin in range(0, 3000, 1000):
        table.append(rows.slice(begin, 1000))
    table.add_index([nb.SortedIndex(["sensor", "at"]), nb.SortedIndex(["at"])])
    return table


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read without an index."""
    opened: list[str] = []
    make = ParquetRows.__init__

    def counted(self: ParquetRows, path: str, *arguments: Any, **named: Any) -> None:
        opened.append(path)
        make(self, path, *arguments, **named)

    monkeypatch.setattr(ParquetRows, "__init__", counted)
    return opened


def test_ranges_and_as_of_searches_scan_no_file(table: nb.Table, scans: list[str]) -> None:
    assert table.range(100, 104, on="at")["at"].to_pylist() == [100, 101, 102, 103]
    assert table.range(None, None, on="at", limit=2, reverse=True)["at"].to_pylist() == [2999, 2998]
    assert table.prefix("s3", on=["sensor", "at"], limit=2)["at"].to_pylist() == [1, 11]
    row = table.asof(("s3", 25), on=["sensor", "at"])
    assert row is not None
    assert row["at"] == 21
    probe = pa.table({"sensor": ["s3", "s3", "none"], "at": [25, 0, 5]})
    joined = table.asof_join(probe, on="at", by="sensor", columns=["at"], suffix="_then")
    assert joined["at_then"].to_pylist() == [21, None, None]
    assert scans == []


def test_explain_tells_which_files_are_covered(table: nb.Table) -> None:
    more = pa.table({"id": [9000, 9001], "sensor": ["s3", "s3"], "at": [101, 9000]})
    table.append(more)
    shown = str(table.explain(lower=100, upper=103, on="at"))
    assert "range in an index of Parquet files" in shown
    assert "files covered=3" in shown
    assert "files searched without the index=1" in shown
    assert table.range(100, 103, on="at")["at"].to_pylist() == [100, 101, 101, 102]
    assert table.asof(("s3", 9500), on=["sensor", "at"])["id"] == 9001


def test_deleted_rows_are_not_returned(table: nb.Table, scans: list[str]) -> None:
    table.delete("at BETWEEN 21 AND 2900")
    scans.clear()
    assert table.range(20, None, on="at", limit=3)["at"].to_pylist() == [20, 2901, 2902]
    assert table.asof(("s3", 2000), on=["sensor", "at"])["at"] == 11
    assert table.asof(("s3", 25), on=["sensor", "at"], direction="forward")["at"] == 2901
    assert scans == []
