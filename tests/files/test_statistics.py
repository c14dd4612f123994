"""Statistics of files in the manifest: bounds never too narrow, and files left unopened."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dataset_files import make_dataset

import nimblepy as nb
from nimblepy.expr.filter import parse_filter
from nimblepy.files.statistics import MOST_BYTES, Collector

pytestmark = pytest.mark.sanitizer

DAY = dt.date(2024, 1, 1)
COLUMNS: dict[str, Any] = {
    "i": (pa.int32(), lambda n: n - 20),
    "f": (pa.float64(), lambda n: n / 4 - 3),
    "s": (pa.string(), lambda n: "x" * 40 + f"{n:03d}"),
    "d": (pa.date32(), lambda n: DAY + dt.timedelta(days=n)),
    "c": (pa.decimal128(9, 2), lambda n: decimal.Decimal(n)),
    "t": (pa.timestamp("us", "UTC"), lambda n: dt.datetime(2024, 1, 1, 0, n, tzinfo=dt.UTC)),
}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Five files of ten rows; the key says nothing of the other columns' files."""
    tables = []
    for file in range(5):
        numbers = range(file * 10, file * 10 + 10)
        columns = {
            name: pa.array([None if n % 7 == 3 else make(n) for n in numbers], kind)
            for name, (kind, make) in COLUMNS.items()
        }
        tables.append(pa.table({"k": pa.array([n % 10 for n in numbers]), **columns}))
    directory = tmp_path_factory.mktemp("many") / "d"
    return make_dataset(directory, tables, "k"), pa.concat_tables(tables)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("i = 5", 1),
        ("i < -11", 1),
        ("i >= 15 AND f < 100", 2),
        ("i IN (-15, 25, 1000)", 2),
        ("i != 5", 5),
        ("i = 1000", 0),
        ("f > 8.9", 1),
        (f"s = '{'x' * 40}013'", 5),  # longer than what is kept
        ("s < 'x'", 0),
        ("s > 'y'", 0),
        ("d >= DATE '2024-02-10'", 1),
        ("c = 12", 1),
        ("t < '2024-01-01 00:05:00Z'", 1),
        ("i IS NULL", 5),
        ("i = 5 OR i = 25", 5),
    ],
)
def test_filters_leave_files_out(many: Any, text: str, files: int) -> None:
    ds, table = many
    scan = ds.scan(filter=text)
    assert len(_left(ds, text)) <= files
    passing = parse_filter(text, ds.schema).apply
    want = pa.Table.from_batches(map(passing, table.to_batches()), table.schema)
    assert scan.to_table().sort_by("i").equals(want.select(ds.schema.names).sort_by("i"))


def _left(ds: nb.Dataset, text: str) -> list[int]:
    """Files that a filter leaves."""
    return list(ds.current.candidates(ds.current.where_request(text)))


def test_statistics_wait_until_they_are_asked_for(many: Any) -> None:
    ds = nb.open_dataset(many[0]._directory)
    assert "statistics" not in ds.current.manifest.table.column_names
    ds.get(3)
    ds.scan(filter="k = 3").count()
    assert "_statistics" not in ds.current.__dict__
    ds.scan(filter="i = 5").count()
    assert len(ds.current._statistics) == 5


def test_bounds_of_what_has_none() -> None:
    schema = pa.schema([("f", pa.float64()), ("n", pa.int8()), ("l", pa.list_(pa.int8()))])
    found = Collector(schema)
    assert found.result() == []
    rows = {"f": [1.0, math.nan], "n": [None, None], "l": [[1], None]}
    found.add(pa.record_batch(rows, schema))
    found.add(pa.record_batch({"f": [0.0], "n": [None], "l": [None]}, schema))
    assert found.result() == [
        {"column": "f", "lower": None, "upper": None, "nulls": 0},
        {"column": "n", "lower": None, "upper": None, "nulls": 3},
    ]


def test_long_values_are_cut_outwards() -> None:
    found = Collector(pa.schema([("s", pa.string())]))
    found.add(pa.record_batch({"s": ["b" * 100, "c" * 100]}))
    (entry,) = found.result()
    assert len(entry["lower"]) <= MOST_BYTES
    assert len(entry["upper"]) <= MOST_BYTES
    from nimblepy.files.statistics import encoded

    least, most = encoded(pa.array(["b" * 100, "c" * 100]))
    assert entry["lower"] <= least
    assert most <= entry["upper"]


def test_later_commits_keep_statistics(tmp_path: Path) -> None:
    for i in range(3):
        make_dataset(tmp_path / "d", [pa.table({"k": [i], "v": [i * 10]})], "k")
    ds = nb.open_dataset(tmp_path / "d")
    assert ds.num_files == 3
    assert _left(ds, "v = 20") == [2]
    assert _left(ds, "v = 7") == []
