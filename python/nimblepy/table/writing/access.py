"""The part of a table handle that changes of the table use."""

from __future__ import annotations

from typing import Protocol

from nimblepy.table import iceberg as ice
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Reading


class TableAccess(Protocol):
    """Reads the newest state of a table, and moves its handle."""

    @property
    def name(self) -> str:
        """``"namespace.name"``."""

    @property
    def location(self) -> str:
        """The directory of the table's files."""

    def newest(self) -> ice.Metadata:
        """Reads the newest metadata for a change.

        Raises:
            InvalidArgumentError: the handle is read-only or closed.
            ConflictError: the table was dropped or renamed.
        """

    def reload(self) -> ice.Metadata:
        """Reads the newest metadata again.

        Raises:
            InvalidArgumentError: the table does not exist.
            ConflictError: another table has its name.
        """

    def rows(self, metadata: ice.Metadata) -> FileSet:
        """Returns the rows of the newest snapshot of ``metadata``."""

    def reading(self, metadata: ice.Metadata) -> Reading:
        """Returns how files are read with the current schema of ``metadata``."""

    def show(self, metadata: ice.Metadata) -> None:
        """Moves the handle to the newest snapshot of ``metadata``."""

    def show_commit(self, metadata: ice.Metadata) -> None:
        """Expires old snapshots after a commit, if the table has too many, and moves the handle.

        A failure to expire is logged. The table property ``nimblepy.expire-on-commit`` turns expiry
        off.
        """
