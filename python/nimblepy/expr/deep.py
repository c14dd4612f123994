"""Recursion without Python's stack: text may nest as deep as memory allows.

A recursive function is written as a generator that yields the calls it makes of itself and of
others like it, and is sent their results; :func:`run` keeps the ones that wait in a list.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Deep: TypeAlias = Generator[Any, Any, T]


def run(first: Deep[T]) -> T:
    """The result of ``first``; an exception of an inner call can be caught around its ``yield``."""
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
