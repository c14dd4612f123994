"""A bounded number of open files, the least recently used one closed first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Set
from typing import Generic, TypeVar

from nimblepy.errors import InvalidArgumentError, StaleFileError
from nimblepy.file.file import File
from nimblepy.io.fork import renew_after_fork
from nimblepy.join.joinable import FixedRows
from nimblepy.schema.types import IoStats

Opened = TypeVar("Opened", bound=FixedRows)


class OpenFiles(Generic[Opened]):
    """Opens files when they are first asked for. Thread-safe.

    A file that falls out of the cache stays usable for those who hold it. A file is known by its
    name and by its identity, which is the checksum of its footer.
    """

    def __init__(
        self, open_file: Callable[[str], Opened], most: int, what: str = "dataset"
    ) -> None:
        """``what`` has the files, for messages."""
        self._open_file = open_file
        self._what = what
        self._most = max(1, most)
        self._files: OrderedDict[tuple[str, int | None], Opened] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        self.opened = 0
        self._left: IoStats = IoStats()  # of files that fell out of the cache
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()

    def check_open(self) -> None:
        """Raises InvalidArgumentError if this was closed."""
        if self._closed:
            raise InvalidArgumentError(f"this {self._what} is closed")

    def get(self, name: str, identity: int | None) -> Opened:
        """The file called ``name``; ``identity`` is ``None`` where names are given only once.

        Raises:
            InvalidArgumentError: this is closed.
            StaleFileError: the file's identity is another one.
        """
        with self._lock:
            self.check_open()
            file = self._files.get((name, identity))
            if file is not None:
                self._files.move_to_end((name, identity))
                return file
        file = self._open_file(name)
        if identity is not None:
            _check_identity(file, identity)
        with self._lock:
            self.check_open()
            self.opened += 1
            self._files[name, identity] = file
            while len(self._files) > self._most:
                self._drop(next(iter(self._files)))
        return file

    def keep(self, wanted: Set[tuple[str, int | None]]) -> None:
        """Lets go of all files but those with these names and identities."""
        with self._lock:
            for key in [key for key in self._files if key not in wanted]:
                self._drop(key)

    def _drop(self, key: tuple[str, int | None]) -> None:
        self._left += self._files.pop(key).io_stats

    def __contains__(self, file: tuple[str, int | None]) -> bool:
        """Whether a file of this name and identity is open."""
        return file in self._files

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

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._files.clear()


def _check_identity(file: FixedRows, identity: int) -> None:
    assert isinstance(file, File)
    core = file.handle.core
    if int(core.identity) != identity:
        raise StaleFileError(
            f"{core.name}: the file was replaced since the dataset was opened (footer checksum "
            f"{int(core.identity):#x}, expected {identity:#x}). Open the dataset again, or "
            "refresh() it, and give files with new rows new names."
        )
