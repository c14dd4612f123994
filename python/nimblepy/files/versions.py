"""Handles on rows of which there are versions, such as datasets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from nimblepy.io.fork import renew_after_fork
from nimblepy.join.joinable import FixedRows, Joinable
from nimblepy.rows.arguments import On
from nimblepy.rows.plan import LayoutNode
from nimblepy.rows.source import Getter, Projected, RowSource
from nimblepy.schema.types import IndexInfo, IoStats, SortKey

Version = TypeVar("Version", bound=FixedRows)


@dataclass(frozen=True, slots=True, eq=False)
class Position(Generic[Version]):
    """What a handle shows. Immutable: a handle that moves gets another one.

    Attributes:
        rows: the rows of the version.
    """

    rows: Version


Moved = TypeVar("Moved", bound=Position)  # type: ignore[type-arg]


class VersionedRows(Joinable, Generic[Version]):
    """A handle on the current version of some rows, which :meth:`move` replaces.

    Each version is immutable, and each call takes the current one once. So threads may call any
    method while another moves the handle, and no answer mixes two versions.
    """

    def __init__(self, position: Position[Version]) -> None:
        super().__init__()
        self.position = position
        self._moving = threading.Lock()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._moving = threading.Lock()

    @property
    def current(self) -> Version:
        return self.position.rows

    def move(self, following: Callable[[Moved], Moved]) -> None:
        """Replaces the position by ``following(position)``, while no other thread does.

        An interrupt leaves the handle at one of the two.
        """
        with self._moving:
            position = following(self.position)  # type: ignore[arg-type]
            if position.rows is not self.position.rows:
                # First: what is prepared for the old rows must not answer at the new position.
                super().release()
            self.position = position

    def release(self) -> None:
        with self._moving:
            super().release()

    def keep_getter(self, source: RowSource, getter: Getter, columns: Projected, on: On) -> None:
        with self._moving:
            if source is self.current:  # not of a version that was replaced meanwhile
                super().keep_getter(source, getter, columns, on)

    @property
    def schema(self) -> pa.Schema:
        return self.current.schema

    @property
    def num_rows(self) -> int:
        return self.current.num_rows

    @property
    def size_bytes(self) -> int:
        return self.current.size_bytes

    @property
    def metadata(self) -> dict[str, bytes]:
        return self.current.metadata

    @property
    def cluster_by(self) -> list[SortKey]:
        return self.current.cluster_by

    @property
    def unique(self) -> bool:
        return self.current.unique

    @property
    def indexes(self) -> list[IndexInfo]:
        return self.current.indexes

    @property
    def io_stats(self) -> IoStats:
        return self.current.io_stats

    def reset_io_stats(self) -> None:
        self.current.reset_io_stats()

    def layout(self) -> LayoutNode:
        return self.current.layout()

    def verify(self) -> None:
        self.current.verify()
