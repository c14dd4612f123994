"""The reading methods of a handle over a source, for tests of what Spark's tasks open."""

from __future__ import annotations

from nimblepy.rows.rows import Rows
from nimblepy.rows.source import RowSource


class SourceHandle(Rows):
    """Reads one source; it does not own it."""

    def __init__(self, source: RowSource) -> None:
        super().__init__()
        self._source = source

    @property
    def _current(self) -> RowSource:
        return self._source

    def close(self) -> None:
        """Does nothing: the cache of the worker closes its source."""
