"""One Spark session for all tests here; without PySpark or Java they are skipped and say so."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = str(Path(__file__).parent)
# What PySpark itself does on import and start; nothing of ours is silenced.
PYSPARK_WARNINGS = [
    "ignore:PySpark does not yet fully support pandas:FutureWarning",
    "ignore:unclosed:ResourceWarning",
    # sockets of the gateway that are closed by the garbage collector
    "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning",
]


def _missing() -> str | None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "PySpark is not installed: pip install 'nimblepy[spark]'"
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and Path(home, "bin", "java").exists()):
        return "there is no Java runtime: apt-get install openjdk-17-jre-headless"
    return None


MISSING = _missing()
collect_ignore_glob = ["test_*.py"] if MISSING and "PySpark" in MISSING else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not str(item.path).startswith(HERE):
            continue
        item.add_marker(pytest.mark.spark)
        if MISSING:
            item.add_marker(pytest.mark.skip(reason=f"Spark: {MISSING}"))
        for warning in PYSPARK_WARNINGS:
            item.add_marker(pytest.mark.filterwarnings(warning))


# Small partitions, no user interface, and a JVM that starts fast.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.log.level": "ERROR",
    "spark.sql.warehouse.dir": "/nonexistent-warehouse",
    # compiling a plan costs more than running it on rows as few as here
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def builder(master: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    made = SparkSession.builder.master(master).appName("nimblepy tests")
    for name, value in SETTINGS.items():
        made = made.config(name, value)
    return made


@pytest.fixture
def spark_settings() -> dict[str, str]:
    """For sessions of other processes."""
    return SETTINGS


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder("local[2]").getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def rows() -> Callable[[Any], list[Any]]:
    """Rows of a DataFrame in an order that does not depend on partitions; NaN equals NaN."""

    def plain(row: Any) -> Any:
        return tuple("NaN" if value != value else value for value in row)

    def collected(frame: Any) -> list[Any]:
        return sorted((plain(row) for row in frame.collect()), key=repr)

    return collected
