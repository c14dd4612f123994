"""Properties that are computed once per object, without a lock."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """As in ``functools``, where Python 3.11 and older have a lock that all objects share.

        A child process could never get it if another thread held it at the fork. Threads that ask
        for the first value at the same time may each compute it; all get the same one.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            return vars(instance).setdefault(self.attrname, self.func(instance))
