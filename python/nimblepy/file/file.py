"""File: the handle on one open file."""

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
    """What a handle shows.

    Attributes:
        file: the open file; ``rows`` reads it, and may record queries.
    """

    file: FileSource


class File(VersionedRows[RowSource]):
    """An open file. It is thread-safe. Unpickling opens its source again.

    Rows are numbered from 0 in file order. Results are :class:`pyarrow.Table`. ``columns`` is a
    list of names and dotted paths of struct fields (``location.lat``); ``None`` means all columns.
    If another file gets its path, a handle still reads the old file until :meth:`refresh`.
    """

    _position: FilePosition

    def __init__(self, source: FileSource, log: WorkloadLog | None = None) -> None:
        self._log = log
        # A version of the path that is known to be the open file.
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
        """Stripe groups, stripes, columns, streams, encodings and bytes, as a tree.

        Cost: reads the metadata of every stripe group.
        """
        return self._file.layout()

    # ------------------------------------------------------------------ a file that is replaced

    @property
    def is_stale(self) -> bool:
        """Whether the path of the file now has another file, or none. :meth:`refresh` opens it.

        A copy with the same content is not another file. A file that was opened from bytes or from
        a file object is never stale.

        Cost: one ``stat``; in a store, one request. If these differ from the last call, also reads
            the end of the file.
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
        """Opens the file that its path has now, if it was replaced, and returns this handle.

        With ``if_older_than``, a service may call this before each request. Of several threads that
        share the handle, one looks at the path, and the others do not wait for it.

        Other threads may use the handle meanwhile: each of their calls is answered from one file.
        Scans continue with the file that they were made with.

        Args:
            if_older_than: Does nothing if a thread has refreshed the handle less than this many
                seconds ago. Returns whether the handle moved to another file.

        Raises:
            OSError, CorruptFileError: as :func:`nimblepy.open`; the handle is unchanged.

        Cost: as :attr:`is_stale`. If the file was replaced, that of :func:`nimblepy.open`.
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
        # Files close when the last call that reads them ends.
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
