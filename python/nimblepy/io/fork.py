"""Makes the library safe for ``fork()``: renews locks in the child, and delays forks.

A child process has only the forking thread. A lock that another thread held at the fork would never
be released in the child.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Renewable(Protocol):
    """An object with locks, or with work that only the parent process may finish."""

    def renew_after_fork(self) -> None: ...


_all: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_after_fork(renewable: Renewable) -> None:
    """Makes child processes call ``renew_after_fork()`` of an object. References it weakly."""
    _all.add(renewable)


class ForkLock:
    """A lock that is free in a child process, even if another thread held it at the fork.

    Use it as ``with lock.native``. The ``with`` of a class written in Python may be interrupted by
    a signal after it took the lock, or before it released it; then the lock would stay held.

    Args:
        reentrant: a thread that holds the lock may take it again, for example in a finalizer.

    Attributes:
        native: the lock of Python's standard library; another one after a fork.
    """

    def __init__(self, *, reentrant: bool = False) -> None:
        self._new = threading.RLock if reentrant else threading.Lock
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self.native: Any = self._new()


# Maximum seconds that a fork waits for other threads. The limit prevents deadlocks if they wait for
# the forking thread.
_LONGEST_WAIT = 10.0
_mutex = threading.RLock()  # of the following; see ForkLock
_idle = threading.Condition(_mutex)
_busy: dict[object, int] = {}  # threads inside no_fork(), by block
_forking: list[int] = []  # threads that are about to fork


@contextlib.contextmanager
def no_fork() -> Iterator[None]:
    """Delays a ``fork()`` by another thread until the block ends.

    Use it around calls of libraries whose locks a child process could not release. Blocks may be
    nested. If a fork is already waiting, a new block waits for it. Otherwise, busy threads could
    delay the fork forever.
    """
    this_thread = threading.get_ident()
    block = object()
    try:
        with _mutex:
            if _forking and this_thread not in _busy.values():
                _idle.wait_for(lambda: not _forking, timeout=_LONGEST_WAIT)
            _busy[block] = this_thread
        yield
    finally:
        with _mutex:
            _busy.pop(block, None)  # in a child process, _busy was cleared
            if _forking:
                _idle.notify_all()


def without_fork(call: Callable[..., Result], *arguments: Any) -> Result:
    """Calls a function inside :func:`no_fork`."""
    with no_fork():
        return call(*arguments)


def _before() -> None:
    this_thread = threading.get_ident()
    _mutex.acquire()  # released after the fork
    _forking.append(this_thread)
    _idle.wait_for(
        lambda: all(thread == this_thread for thread in _busy.values()), timeout=_LONGEST_WAIT
    )


def _after() -> None:
    _forking.remove(threading.get_ident())
    _idle.notify_all()
    _mutex.release()


def _renew_all() -> None:
    global _mutex, _idle
    _mutex = threading.RLock()
    _idle = threading.Condition(_mutex)
    _busy.clear()
    _forking.clear()
    for renewable in list(_all):
        renewable.renew_after_fork()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_renew_all)
