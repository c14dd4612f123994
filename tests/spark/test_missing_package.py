"""Executors whose Python has no nimblepy: the error names host, interpreter and fix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """A Python that cannot import nimblepy.

    A finder refuses it, not a package of that name on the path: an editable
    install finds nimblepy before the path is looked at.
    """
    missing = tmp_path / "without"
    missing.mkdir()
    (missing / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'nimblepy':\n"
        "            raise ModuleNotFoundError(\"No module named 'nimblepy'\", name='nimblepy')\n"
        "sys.meta_path.insert(0, Absent)\n"
    )
    python = tmp_path / "bare-python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{missing}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    return str(python)


@pytest.mark.parametrize("engine", ["arrow", "rdd"])
def test_join_says_what_to_do(
    spark: Any, tmp_path: Path, bare_python: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python)
    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1], "v": [1]}), path, cluster_by="k")
    probe = spark.range(2).withColumnRenamed("id", "k")
    with pytest.raises(Exception, match="NimbleMissingOnExecutor") as caught:
        ns.index_join(probe, path, on="k", engine=engine).count()
    assert "Install the nimblepy wheel in the executors' Python environment" in str(caught.value)
    assert "No module named 'nimblepy'" in str(caught.value)


def test_reader_and_writer_say_what_to_do(tmp_path: Path) -> None:
    # Spark asks the driver's Python to plan, so here both are loaded as a task would load them.
    from pyspark.sql.types import LongType, StructField, StructType

    from nimblepy.spark.base.shipping import cloudpickle
    from nimblepy.spark.reading.scan import NimbleReader
    from nimblepy.spark.writing.write import NimbleWriter

    path = str(tmp_path / "dim.nimble")
    nb.write(pa.table({"k": [1, 2]}), path, cluster_by="k")
    schema = StructType([StructField("k", LongType())])
    reader = NimbleReader(schema, {"path": path})
    writer = NimbleWriter(schema, {"path": str(tmp_path / "out")}, True)
    code = (
        "import pickle, sys\n"
        "if sys.argv[1] == 'without':\n"
        "    sys.modules['nimblepy'] = None\n"
        "print(type(pickle.loads(sys.stdin.buffer.read())).__name__)\n"
    )
    for shipped in (reader, writer):
        payload = cloudpickle.dumps(shipped)
        done = [
            subprocess.run(
                [sys.executable, "-c", code, how], input=payload, capture_output=True, check=False
            )
            for how in ("with", "without")
        ]
        assert done[0].stdout.decode() == f"{type(shipped).__name__}\n", done[0].stderr
        assert "NimbleMissingOnExecutor: nimblepy cannot be imported" in done[1].stderr.decode()
    ((part,), again) = reader.partitions(), cloudpickle.loads(cloudpickle.dumps(reader))
    assert sum(batch.num_rows for batch in again.read(part)) == 2


WHERE_NOT_ACTIVATED = """
import json, sys
from pyspark.sql import SparkSession
import nimblepy.spark as ns

session = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[2]).items():
    session = session.config(name, value)
session = session.getOrCreate()
rows = session.range(3).withColumnRenamed("id", "k")
path = sys.argv[1]
for ask in (
    lambda: ns.write(rows, path + "/out", cluster_by="k"),
    lambda: ns.scan(session, path + "/dim.nimble"),
):
    try:
        ask()
    except ImportError as error:
        print(f"{type(error).__name__}: {error}")
"""


def test_python_of_spark_that_is_not_the_drivers_is_explained(
    tmp_path: Path, bare_python: str, spark_settings: dict[str, str]
) -> None:
    # as where `.venv/bin/python job.py` is run and the PATH has another python3
    nb.write(pa.table({"k": list(range(100_000))}), tmp_path / "dim.nimble", cluster_by="k")
    environment = {**os.environ, "PYSPARK_PYTHON": bare_python, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYSPARK_DRIVER_PYTHON", None)  # Spark would ask it for data sources
    done = subprocess.run(
        [sys.executable, "-c", WHERE_NOT_ACTIVATED, str(tmp_path), json.dumps(spark_settings)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()
    assert len(said) == 2, done.stderr
    for line in said:
        assert line.startswith("NimbleMissingOnExecutor: the Python that Spark starts")
        assert f"set PYSPARK_PYTHON={sys.executable}" in line
