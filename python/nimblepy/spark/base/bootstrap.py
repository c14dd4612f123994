"""Functions that are pickled by value, so that executors without nimblepy report a clear error.

This module must not import nimblepy, pyarrow or pyspark at the top: an executor without nimblepy
must be able to load it.
"""

import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def unpickled(payload: bytes) -> Any:
    """Unpickles an object of nimblepy.

    If nimblepy is missing, raises an error that says how to install it.
    """
    try:
        from nimblepy.spark.base import tasks  # noqa: F401
    except ImportError as error:
        # nimblepy.errors.NimbleMissingOnExecutor cannot be imported here, so use only its name.
        raise ImportError(
            "NimbleMissingOnExecutor: nimblepy cannot be imported on executor "
            f"{socket.gethostname()} by {sys.executable} (Python {sys.version.split()[0]}): "
            f"{error}. Install the nimblepy wheel in the executors' Python environment (same "
            "Python version as the driver; PYSPARK_PYTHON names it, spark.archives can ship it); "
            "--py-files cannot carry the compiled core."
        ) from error
    import pickle

    return pickle.loads(payload)


def task_function(payload: bytes) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Calls a pickled function that makes a task function, with its pickled arguments."""
    make, arguments = unpickled(payload)
    function: Callable[[Iterable[Any]], Iterator[Any]] = make(*arguments)
    return function


def instance(payload: bytes) -> Any:
    """Makes an object from its pickled class and attributes; see ``ShippedByValue``."""
    cls, attributes = unpickled(payload)
    made = cls.__new__(cls)
    made.__dict__.update(attributes)
    return made


def over_items(payload: bytes) -> Callable[[Any], Any]:
    """Returns a task function of batches, of rows, or of tuples of arrays."""

    def run(items: Any) -> Any:
        yield from task_function(payload)(items)

    return run


def over_single_arrays(payload: bytes) -> Callable[[Any], Any]:
    """Returns a task function of one array per batch, which Spark does not wrap in a tuple."""

    def run(arrays: Any) -> Any:
        yield from task_function(payload)((array,) for array in arrays)

    return run
