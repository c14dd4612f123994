"""Filters of tests of columns need neither sqlglot nor DuckDB; others ask for the extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb

SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string(), "x": pa.float64(), "ts": pa.timestamp("us")})
PLAIN = [
    "k = 7 AND s LIKE 'ab%' AND s NOT LIKE '%c_'",
    "(k, s) > (1, 'a') OR k IN (1, 2, 3) AND x BETWEEN 0.5 AND 1e3",
    "ts >= '2024-01-01' AND ts < TIMESTAMP '2024-02-01 00:00:00' AND NOT (x IS NULL)",
    "s = $s AND k IN $keys AND k IS DISTINCT FROM 5",
]
PARAMS = {"s": "a", "keys": [1, 2]}
BEYOND = ["k + 1 > 5", "k = 7 AND length(s) > 3", "CASE WHEN k > 1 THEN x END = 2", "s ILIKE 'a%'"]


def test_tests_of_columns_import_no_library(tmp_path: Path) -> None:
    stamps = pa.array([0, 1], SCHEMA[3].type)
    nb.write({"k": [1, 7], "s": ["abx", "b"], "x": [1.0, None], "ts": stamps},
             tmp_path / "a.nimble", cluster_by="k")  # fmt: skip
    code = f"""
import sys
import nimblepy as nb
file = nb.open({str(tmp_path / "a.nimble")!r})
for text in {PLAIN!r}:
    file.to_table(filter=text, params={PARAMS!r} if "$" in text else None)
    file.count_rows(text, params={PARAMS!r} if "$" in text else None)
assert not {{"sqlglot", "duckdb"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("library", ["sqlglot", "duckdb"])
def test_without_the_libraries_other_filters_name_the_extra(library: str) -> None:
    """In a process of its own: other tests import the libraries."""
    code = f"""
import sys
sys.modules[{library!r}] = None
import pyarrow as pa
import nimblepy as nb
from nimblepy.expr.filter import parse_filter
schema = pa.schema({{"k": pa.int64(), "s": pa.string(), "x": pa.float64()}})
for text in {BEYOND!r}:
    try:
        parse_filter(text, schema)
    except nb.MissingExtraError as error:
        assert "at line 1, column" in str(error) and "nimblepy[sql]" in str(error), error
    else:
        raise AssertionError(text)
assert parse_filter("k = 7", schema).exact
try:
    parse_filter("k = 'seven'", schema)
except nb.InvalidArgumentError as error:
    assert "is not a value of type int64" in str(error), error
else:
    raise AssertionError("seven")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
