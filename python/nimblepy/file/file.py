"""File: the handle on one open file."""

from __future__ import annotations

import os
from typing import Any

from nimblepy.file.record import RecordedSource, WorkloadLog
from nimblepy.file.source import FileSource
from nimblepy.join.joinable import Joinable
from nimblepy.rows.plan import LayoutNode
from nimblepy.rows.source import RowSource


class File(Joinable):
    """An open file. It is thread-safe. Unpickling opens its source again.

    Rows are numbered from 0 in file order. Results are :class:`pyarrow.Table`. ``columns`` is a
    list of names and dotted paths of struct fields (``location.lat``); ``None`` means all columns.
    """

    def __init__(self, source: FileSource, log: WorkloadLog | None = None) -> None:
        super().__init__()
        self._file = source
        self._log = log
        self._rows = source if log is None else RecordedSource(source, log)

    @property
    def _current(self) -> RowSource:
        return self._rows

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

    def close(self) -> None:
        """Closes the file. Existing results remain valid."""
        self._release()
        self._rows.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return File, (self._file, self._log)

    def __repr__(self) -> str:
        return repr(self._file)


def source_of_file(file: File) -> FileSource:
    """The open file of a handle, for other modules of nimblepy."""
    return file._file
