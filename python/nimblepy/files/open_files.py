"""A bounded number of open files, the least recently used one closed first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from nimblepy.errors import StaleFileError
from nimblepy.file.file import File
from nimblepy.io.fork import renew_after_fork
from nimblepy.schema.types import IoStats


class OpenFiles:
    """Opens files when they are first asked for. Thread-safe.

    A file that falls out of the cache stays usable for those who hold it.
    """

    def __init__(self, open_file: Callable[[str], File], most: int) -> None:
        self._open_file = open_file
        self._most = max(1, most)
        self._files: OrderedDict[str, File] = OrderedDict()
        self._lock = threading.Lock()
        self.opened = 0
        self._left: IoStats = IoStats()  # of files that fell out of the cache
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, name: str, identity: int) -> File:
        """The file called ``name``.

        Raises:
            StaleFileError: its footer is not the one with the checksum ``identity``.
        """
        with self._lock:
            file = self._files.get(name)
            if file is not None:
                self._files.move_to_end(name)
                return file
        file = self._open_file(name)
        core = file.handle.core
        if int(core.identity) != identity:
            raise StaleFileError(
                f"{core.name}: this is not the file that was planned with (footer checksum "
                f"{int(core.identity):#x}, expected {identity:#x}). It was replaced since; "
                "plan again, and give new data a new name."
            )
        with self._lock:
            self.opened += 1
            self._files[name] = file
            while len(self._files) > self._most:
                _, oldest = self._files.popitem(last=False)
                self._left += oldest.io_stats
        return file

    def __len__(self) -> int:
        return len(self._files)

    @property
    def io_stats(self) -> IoStats:
        """What has been read of all files, as far as they were in here."""
        with self._lock:
            return sum((file.io_stats for file in self._files.values()), self._left)

    def reset_io_stats(self) -> None:
        with self._lock:
            self._left = IoStats()
            for file in self._files.values():
                file.reset_io_stats()

    def clear(self) -> None:
        with self._lock:
            self._files.clear()
