"""Explains errors of Spark that do not say what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nimblepy import errors
from nimblepy.errors import NimbleMissingOnExecutor

_OWN_ERROR = re.compile(r"^nimblepy\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raises errors of ours that a task failed with as what they are."""
    try:
        yield
    except Exception as error:
        found = _OWN_ERROR.search(str(error))
        kind = getattr(errors, found[1], None) if found is not None else None
        if found is None or kind is None:
            raise
        raise kind(found[2]) from error


@contextmanager
def explain_missing_source() -> Iterator[None]:
    """Explains Spark's "Failed to find the data source": its Python is not the driver's.

    The JVM asks a Python of its own for data sources: the one that PYSPARK_DRIVER_PYTHON names,
    else PYSPARK_PYTHON, else python3. Where an environment was not activated that is another.
    """
    try:
        yield
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise NimbleMissingOnExecutor(
            "the Python that Spark starts (PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else "
            "python3 of the PATH) does not find nimblepy's data source: set PYSPARK_PYTHON="
            f"{sys.executable}, and PYSPARK_DRIVER_PYTHON to it or not at all, before the session "
            "starts, or activate the environment"
        ) from error
