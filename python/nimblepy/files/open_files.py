"""A bounded number of open files, the least recently used one closed first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from nimblepy.errors import StaleFileError
from nimblepy.file.file import File
from nimblepy.io.fork import renew_after_fork


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
        if int(file._open.identity) != identity:
            raise StaleFileError(
                f"{file._open.name}: this is not the file that was planned with (footer checksum "
                f"{int(file._open.identity):#x}, expected {identity:#x}). It was replaced since; "
                "plan again, and give new data a new name."
            )
        with self._lock:
            self.opened += 1
            self._files[name] = file
            while len(self._files) > self._most:
                self._files.popitem(last=False)
        return file

    def __len__(self) -> int:
        return len(self._files)

    def clear(self) -> None:
        with self._lock:
            self._files.clear()
