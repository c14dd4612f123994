"""Functions that are pickled by value, so that executors without nimblepy report a clear error.

This module must not import nimblepy, pyarrow or pyspark at the top: an executor without nimblepy
must be able to load it.
"""

import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def imported_tasks() -> Any:
    """Imports nimblepy.spark.tasks, or raises an error that says how to install it."""
    try:
        from nimblepy.spark import tasks
    except ImportError as error:
        # nimblepy.errors.NimbleMissingOnExecutor cannot be imported either; only name it.
        raise ImportError(
            "NimbleMissingOnExecutor: nimblepy cannot be imported on executor "
            f"{socket.gethostname()} by {sys.executable} (Python {sys.version.split()[0]}): "
            f"{error}. Install the nimblepy wheel in the executors' Python environment (same "
            "Python version as the driver; PYSPARK_PYTHON names it, spark.archives can ship it); "
            "--py-files cannot carry the compiled core."
        ) from error
    return tasks


def task_function(kind: str, payload: bytes) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function ``kind`` of nimblepy.spark.tasks, over ``payload``: pickled arguments."""
    tasks = imported_tasks()
    import pickle

    function: Callable[[Iterable[Any]], Iterator[Any]]
    function = getattr(tasks, kind)(*pickle.loads(payload))
    return function


def unpickle(payload: bytes) -> Any:
    """An object from its pickled class and attributes; see ``ShippedByValue`` in shipping.py."""
    imported_tasks()
    import pickle

    cls, attributes = pickle.loads(payload)
    instance = cls.__new__(cls)
    instance.__dict__.update(attributes)
    return instance


def over_items(kind: str, payload: bytes) -> Callable[[Any], Any]:
    """An iterator function of batches, of rows, or of tuples of arrays."""

    def run(items: Any) -> Any:
        yield from task_function(kind, payload)(items)

    return run


def over_single_arrays(kind: str, payload: bytes) -> Callable[[Any], Any]:
    """An iterator function of one array per batch, which Spark does not wrap in a tuple."""

    def run(arrays: Any) -> Any:
        yield from task_function(kind, payload)((array,) for array in arrays)

    return run
