"""What a child of ``fork()`` has to make anew, and what a fork had better wait for.

A thread that held a lock at the fork is not in the child, and nobody lets go of its lock.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Protocol


class Renewable(Protocol):
    """An object with locks, or with something that only the parent may finish."""

    def renew_after_fork(self) -> None: ...


_all: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_after_fork(made: Renewable) -> None:
    """Has a child of ``fork()`` call ``made.renew_after_fork()``, as long as ``made`` lives."""
    _all.add(made)


# Seconds that a fork waits for other threads; one that has what they wait for would wait for ever.
_LONGEST_WAIT = 10.0
_idle = threading.Condition()
_busy: list[int] = []  # threads that are not to be left behind by a fork


@contextlib.contextmanager
def no_fork() -> Iterator[None]:
    """Other threads wait with a ``fork()`` until the block ends.

    It is for locks of libraries that a child cannot let go of.
    """
    me = threading.get_ident()
    with _idle:
        _busy.append(me)
    try:
        yield
    finally:
        with _idle, contextlib.suppress(ValueError):  # a child has forgotten it
            _busy.remove(me)
            _idle.notify_all()


def _before() -> None:
    me = threading.get_ident()
    _idle.acquire()  # until the fork is over
    _idle.wait_for(lambda: all(thread == me for thread in _busy), timeout=_LONGEST_WAIT)


def _renew_all() -> None:
    global _idle
    _idle = threading.Condition()
    _busy.clear()
    for made in list(_all):
        made.renew_after_fork()


os.register_at_fork(
    before=_before, after_in_parent=lambda: _idle.release(), after_in_child=_renew_all
)
