"""VersionedRows: base of handles that can move to a new version, such as datasets and tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from nimblepy.io.fork import ForkLock
from nimblepy.join.joinable import Joinable
from nimblepy.rows.rows import Getters, Position, keep_getters
from nimblepy.rows.source import RowSource

Version = TypeVar("Version", bound=RowSource)


Moved = TypeVar("Moved", bound=Position)  # type: ignore[type-arg]


class Looks:
    """Remembers when a handle last looked for a new version. Thread-safe."""

    def __init__(self) -> None:
        # Time of the last look, in seconds of the monotonic clock.
        self._last = time.monotonic()
        self._lock = ForkLock()

    def now(self) -> None:
        """Records that the handle looks for a new version now."""
        self._last = time.monotonic()

    def if_older(self, seconds: float, refresh: Callable[[], bool]) -> bool:
        """Calls ``refresh`` and returns its result, if the last look was ``seconds`` ago or more.

        Otherwise returns False. If several threads call this, only one of them calls ``refresh``,
        and the others do not wait for it.
        """
        now = time.monotonic()
        if now - self._last < seconds:
            return False
        with self._lock.native:
            before = self._last
            if now - before < seconds:
                return False
            self._last = now
        try:
            return refresh()
        except BaseException:
            self._last = before
            raise


class VersionedRows(Joinable, Generic[Version]):
    """A handle on the current version of its rows. :meth:`_replace_position` moves it to another.

    Each version is immutable, and each call gets the current version once. Therefore threads may
    call any method while another thread moves the handle, and no answer mixes two versions.
    """

    def __init__(self, position: Position[Version]) -> None:
        super().__init__()
        self._position = position
        self._moving = ForkLock()

    if TYPE_CHECKING:

        @property
        def _current(self) -> Version: ...

    def _replace_position(
        self,
        following: Callable[[Moved], Moved],
        prepared: tuple[RowSource, Getters] | None = None,
    ) -> None:
        """Replaces the position by ``following(position)``, while it blocks other replacements.

        If this is interrupted, the handle has either the old or the new position.

        Args:
            prepared: rows that the handle may move to, with getters for them. They spare the
                threads that share the handle from preparing the same getters again.
        """
        with self._moving.native:
            position = following(self._position)  # type: ignore[arg-type]
            if position.rows is not self._position.rows:
                # Release getters of the old rows first: they must not answer at the new position.
                super()._release()
            self._position = position
            if prepared is not None and prepared[0] is position.rows:
                keep_getters(self, prepared[1])

    def _release(self) -> None:
        with self._moving.native:
            super()._release()

    def _keep(self, source: RowSource, keep: Callable[[], None]) -> None:
        with self._moving.native:
            if source is self._current:  # else the version was replaced in the meantime
                super()._keep(source, keep)
