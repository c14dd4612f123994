"""RemoteFileObject: a remote file as a Python file object, for libraries that need one."""

from __future__ import annotations

import io
import os
from typing import Any

from nimblepy.io.remote_file import RemoteFile


class RemoteFileObject(io.RawIOBase):
    """A seekable file object over a remote file. Read-only; not thread-safe."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size()}[whence]
        if start + offset < 0:
            raise ValueError(f"seek: position {start + offset} is negative")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer, unless the file ends."""
        view = memoryview(buffer).cast("B")
        size = min(len(view), max(0, self._file.size() - self._at))
        if size:
            view[:size] = self._file.read_at(size, self._at)
        self._at += size
        return size
