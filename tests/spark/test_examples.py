"""The examples run, at a small scale, and say what they should."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_daily_load(spark: Any, tmp_path: Path) -> None:
    sales = example("daily_load").main(spark, str(tmp_path), days=3, rows=500)
    assert sales.num_rows == 1500


def test_user_history(spark: Any, tmp_path: Path) -> None:
    found = example("user_history").main(spark, str(tmp_path), rows=2000, users=50)
    times = found["latest"].column("at").to_pylist()
    assert times == sorted(times, reverse=True)
    assert found["seen"].num_rows == 4


def test_tpch_join(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tables = {
        "customer": pa.table(
            {
                "c_custkey": range(50),
                "c_nationkey": [i % 7 for i in range(50)],
                "c_mktsegment": [f"segment {i % 3}" for i in range(50)],
            }
        ),
        "orders": pa.table({"o_orderkey": range(300), "o_custkey": rng.integers(0, 60, 300)}),
        "lineitem": pa.table(
            {"l_orderkey": rng.integers(0, 300, 900), "l_extendedprice": rng.random(900)}
        ),
    }
    paths = {}
    for name, table in tables.items():
        paths[name] = str(tmp_path / f"{name}.parquet")
        pq.write_table(table, paths[name])
    results = example("tpch_join").main(spark, paths, str(tmp_path), [100])
    answers = {repr(answer) for _, _, answer in results}
    assert len(results) == 3
    assert len(answers) == 1
