"""Reads files through pyarrow's and fsspec's file systems."""

from __future__ import annotations

import threading
import time
from typing import Any

from nimblepy.errors import StaleFileError
from nimblepy.io.fork import renew_after_fork

# Maximum age of the check that a file was not replaced. These file systems do not support
# conditional reads, so each check is a request.
LOOK_SECONDS = 1.0


class ArrowObject:
    """A :class:`nimblepy.io.remote_file.RangeSource` over a :class:`pyarrow.fs.FileSystem`."""

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._file: Any = None
        self._version: tuple[Any, ...] = ()
        self._looked = 0.0
        self._lock = threading.Lock()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._path

    def tail(self, size: int) -> tuple[int, bytes]:
        try:
            self._version = self._look()
            self._file = self._filesystem.open_input_file(self._path)
            length = self._file.size()
            return length, self._file.read_at(min(size, length), max(0, length - size))
        except OSError as error:
            raise self._translate_error(error) from error

    def read(self, offset: int, size: int) -> Any:
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._check()
        try:
            return self._file.read_at(size, offset)
        except OSError as error:
            self._check()  # if the file was replaced, report that instead
            raise self._translate_error(error) from error

    def _check(self) -> None:
        with self._lock:
            if self._look() != self._version:
                raise StaleFileError(f"{self._path}: replaced since it was opened; open it again")

    def _look(self) -> tuple[Any, ...]:
        try:
            info = self._filesystem.get_file_info(self._path)
        except OSError as error:
            raise self._translate_error(error) from error
        self._looked = time.monotonic()
        return info.type, info.size, info.mtime_ns

    def _translate_error(self, error: OSError) -> OSError:
        if isinstance(error, PermissionError):
            return error
        if "ACCESS_DENIED" in str(error):
            return PermissionError(f"{self._path}: the store refuses access ({error})")
        return error
