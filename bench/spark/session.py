"""A local Spark session, and the processor time of everything it runs."""

from __future__ import annotations

import os
import sys
from typing import Any

import psutil


def start() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("nimblepy bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def processor_seconds() -> float:
    """User and system time of this process and all below it, the dead that were waited for too."""
    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
