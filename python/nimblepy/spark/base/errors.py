"""Replaces errors of Spark by errors that say what to do."""

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
    """If a task failed with an error of nimblepy, raises an error of the same type."""
    try:
        yield
    except Exception as error:
        match = _OWN_ERROR.search(str(error))
        kind = getattr(errors, match[1], None) if match is not None else None
        if match is None or kind is None:
            raise
        raise kind(match[2]) from error


@contextmanager
def explain_missing_source() -> Iterator[None]:
    """Explains Spark's "Failed to find the data source".

    The JVM starts a separate Python to find data sources: PYSPARK_DRIVER_PYTHON, else
    PYSPARK_PYTHON, else python3. This is not the driver's Python if its environment is not active.
    """
    try:
        yield
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise NimbleMissingOnExecutor(
            "the Python that Spark starts (PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else "
            "python3 in PATH) does not find nimblepy's data source; before the session starts, set "
            f"PYSPARK_PYTHON={sys.executable} (and PYSPARK_DRIVER_PYTHON, if set, to the same), or "
            "activate the environment"
        ) from error
