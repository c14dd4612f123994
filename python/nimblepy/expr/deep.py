"""Recursion without Python's call stack, so that nesting is limited only by memory.

A recursive function is written as a generator. It yields recursive calls and receives their
results. :func:`run` keeps the suspended generators in a list.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Deep: TypeAlias = Generator[Any, Any, T]


def run(first: Deep[T]) -> T:
    """Runs ``first`` and returns its result. Exceptions of inner calls are raised at ``yield``."""
    waiting: list[Deep[Any]] = [first]
    value: Any = None
    error: Exception | None = None
    while waiting:
        try:
            last = waiting[-1]
            inner = last.send(value) if error is None else last.throw(error)
        except StopIteration as done:
            waiting.pop()
            value, error = done.value, None
        except Exception as raised:
            waiting.pop()
            value, error = None, raised
        else:
            waiting.append(inner)
            value, error = None, None
    if error is not None:
        raise error
    result: T = value
    return result
