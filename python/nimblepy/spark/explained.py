"""Errors of Spark's that do not say what to do, explained on the driver."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nimblepy.spark.bootstrap import NimbleMissingOnExecutor


@contextmanager
def source_is_found() -> Iterator[None]:
    """Explains Spark's "Failed to find the data source": its Python is not the driver's.

    The JVM asks a Python of its own for data sources: the one PYSPARK_PYTHON names, else python3.
    Where an environment was not activated that is another, and Spark says no more than that.
    """
    try:
        yield
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise NimbleMissingOnExecutor(
            "the Python that Spark starts (PYSPARK_PYTHON, else python3 of the PATH) cannot import "
            f"nimblepy; the driver's can: set PYSPARK_PYTHON={sys.executable} before the session "
            "starts, or activate the environment"
        ) from error
