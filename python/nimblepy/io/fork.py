"""What a child of ``fork()`` has to make anew.

A thread that held a lock at the fork is not in the child, and nobody lets go of its lock.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewable(Protocol):
    """An object with locks, or with something that only the parent may finish."""

    def renew_after_fork(self) -> None: ...


_all: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_after_fork(made: Renewable) -> None:
    """Has a child of ``fork()`` call ``made.renew_after_fork()``, as long as ``made`` lives."""
    _all.add(made)


def _renew_all() -> None:
    for made in list(_all):
        made.renew_after_fork()


os.register_at_fork(after_in_child=_renew_all)
