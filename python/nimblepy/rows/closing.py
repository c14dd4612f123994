"""The shape that files, datasets and writers share: usable in a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Scoped(ABC):
    """Closed at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> object:
        """Gives back what is held; once more does nothing."""

    def _leave(self, failed: bool) -> None:
        """The end of the block; ``failed``: an exception ended it."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(exc_type is not None)
