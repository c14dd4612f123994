"""Properties that are computed once per object, without a lock."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """Like ``functools.cached_property``, but without the lock of Python 3.11 and older.

        All objects share that lock, and a child process could never acquire it if another thread
        held it at the fork. Without the lock, several threads may compute the first value at the
        same time, but all of them get the same object.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            return vars(instance).setdefault(self.attrname, self.func(instance))
