"""File: a handle on one open file."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, overload

from nimblepy.errors import CorruptFileError
from nimblepy.file.record import RecordedSource, WorkloadLog
from nimblepy.file.source import FileSource
from nimblepy.file.versions import Looks, VersionedRows
from nimblepy.io.location import locate
from nimblepy.rows.arguments import seconds_of
from nimblepy.rows.html import html_rows
from nimblepy.rows.plan import LayoutNode
from nimblepy.rows.rows import Position
from nimblepy.rows.source import RowSource
from nimblepy.schema.types import format_bytes


@dataclass(frozen=True, slots=True, eq=False)
class FilePosition(Position[RowSource]):
    """The file that a handle currently reads.

    Attributes:
        file: the open file. ``rows`` is this file, or a wrapper that records queries.
    """

    file: FileSource


class File(VersionedRows[RowSource]):
    """An open file. Thread-safe. Unpickling opens the file again.

    Rows are numbered from 0 in file order. Results are :class:`pyarrow.Table`. ``columns`` is a
    list of names and dotted paths of struct fields (``location.lat``); ``None`` means all columns.
    If the file is replaced, the handle reads the old file until :meth:`refresh`.
    """

    _position: FilePosition

    def __init__(self, source: FileSource, log: WorkloadLog | None = None) -> None:
        self._log = log
        # A version of the path (locate(...).version()) whose content is the open file.
        self._version: Hashable = None
        self._looks = Looks()
        super().__init__(self._position_of(source))

    def _position_of(self, source: FileSource) -> FilePosition:
        rows = source if self._log is None else RecordedSource(source, self._log)
        return FilePosition(rows, source)

    @property
    def _file(self) -> FileSource:
        return self._position.file

    @property
    def source(self) -> str | None:
        """The path or URI of the file; ``None`` if it was opened from bytes or a file system."""
        _, source, arguments = self._file.reopen
        if arguments["filesystem"] is not None or not isinstance(source, (str, os.PathLike)):
            return None
        return os.fspath(source)

    @property
    def metadata(self) -> dict[str, bytes]:
        """The key/value pairs that were stored with the file."""
        return self._file.metadata

    @property
    def format_version(self) -> tuple[int, int]:
        """The (major, minor) version of the file's format."""
        major, minor = self._file.handle.core.version
        return int(major), int(minor)

    def layout(self) -> LayoutNode:
        """Returns stripe groups, stripes, columns and streams as a tree, with encodings and sizes.

        Cost: reads the metadata of every stripe group.
        """
        return self._file.layout()

    # ------------------------------------------------------------------ replaced files

    @property
    def is_stale(self) -> bool:
        """Whether the file at the path was replaced or removed. :meth:`refresh` opens a new file.

        A copy with the same content does not count as a replacement. A file that was opened from
        bytes or from a file object is never stale.

        Cost: one ``stat``, or one request to an object store. If the result differs from that of
            the last call, also reads the end of the file.
        """
        file = self._file
        open_again, source, arguments = file.reopen
        identity = int(file.handle.core.identity)
        if not isinstance(source, (str, os.PathLike)):
            return False
        try:
            version = locate(source, arguments["filesystem"]).version()
            if version == self._version:
                return False
            other = open_again(source, **arguments)
        except (FileNotFoundError, CorruptFileError):
            return True
        if int(other.handle.core.identity) != identity:
            return True
        self._version = version
        return False

    @overload
    def refresh(self) -> File: ...
    @overload
    def refresh(self, *, if_older_than: float) -> bool: ...
    def refresh(self, *, if_older_than: float | None = None) -> File | bool:
        """Opens the new file at the path if the file was replaced, and returns this handle.

        A service can call this with ``if_older_than`` before each request. If several threads share
        the handle, only one of them checks the path, and the others do not wait for it.

        Other threads may use the handle at the same time. Each of their calls reads either the old
        or the new file. Scans that have already started read the old file.

        Args:
            if_older_than: do nothing if the handle was refreshed less than this many seconds ago.
                With this argument, the result is whether the handle now reads another file.

        Raises:
            OSError, CorruptFileError: see :func:`nimblepy.open`. The handle does not change.

        Cost: see :attr:`is_stale`. If the file was replaced, also opens the new file.
        """
        if if_older_than is not None:
            seconds = seconds_of("if_older_than", if_older_than, least=0.0)
            return self._looks.if_older(seconds, self._refresh)
        self._looks.now()
        self._refresh()
        return self

    def _refresh(self) -> bool:
        if not self.is_stale:
            return False
        open_again, source, arguments = self._file.reopen
        position = self._position_of(open_again(source, **arguments))
        self._version = None
        # The old file is closed when the last call that reads it ends.
        self._replace_position(lambda _: position)
        return True

    def close(self) -> None:
        """Closes the file. Existing results remain valid."""
        self._release()
        self._position.rows.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return File, (self._file, self._log)

    def __repr__(self) -> str:
        return repr(self._file)

    def _repr_html_(self) -> str:
        if self._file.handle.is_closed:
            return html_rows(repr(self), {}, None)
        return html_rows(
            f"File {self.source or ''}",
            {"rows": self.num_rows, "size": format_bytes(self.size_bytes)},
            self.schema,
            [str(key.column) for key in self.cluster_by],
            self.take(range(min(5, self.num_rows))),
        )


def source_of_file(file: File) -> FileSource:
    """Returns the open file of a handle, for other modules of nimblepy."""
    return file._file
