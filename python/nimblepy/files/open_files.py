"""Open files: a process keeps a bounded number, and closes the least recently used ones first.

All datasets and tables share one pool. A file is closed when the pool and the scans that use it
have let go of it.
"""

from __future__ import annotations

import errno
import itertools
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from nimblepy.errors import InvalidArgumentError, StaleFileError
from nimblepy.file.file import File
from nimblepy.io.fork import renew_after_fork
from nimblepy.join.joinable import FixedRows
from nimblepy.schema.types import IoStats

Opened = TypeVar("Opened", bound=FixedRows)
# A file is known by its name and by its identity, which is the checksum of its footer; None where
# names are given only once.
Key = tuple[str, int | None]

# Files that a process keeps open. Each takes memory and, if it is local, a mapping, of which Linux
# allows a process 65,530.
MOST_OPEN_FILES = 4096
# Files that are read from in one call, which keeps them open.
_MOST_TOGETHER = 512


def most_descriptors() -> int:
    """Descriptors that open files may use: half of those that the process may have now.

    The others are for the program, its sockets and the catalog.
    """
    try:
        import resource
    except ImportError:  # not of POSIX
        return _MOST_TOGETHER
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    known = allowed != resource.RLIM_INFINITY
    return min(max(allowed // 2, 16), MOST_OPEN_FILES) if known else MOST_OPEN_FILES


def most_together() -> int:
    """Files that one call may read from at the same time."""
    return min(_MOST_TOGETHER, max(most_descriptors() // 2, 8))


class Holder(Protocol):
    """An object that keeps files of an :class:`OpenFiles` to answer sooner."""

    def release(self) -> None:
        """Lets go of them."""


class _Entry(Generic[Opened]):
    """A file that is kept open.

    Attributes:
        owner: the OpenFiles that keeps it.
        descriptors: of the operating system that it uses.
    """

    __slots__ = ("__weakref__", "descriptors", "file", "key", "number", "owner")

    def __init__(self, owner: OpenFiles[Opened], key: Key, file: Opened, number: int) -> None:
        self.owner = weakref.ref(owner)
        self.key = key
        self.file = file
        self.number = number
        self.descriptors = owner.descriptors


class _Pool:
    """Which files of all owners were used when. Owners keep the files; the pool tells them which
    to close. ``lock`` guards the pool and the files of all owners.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        # By number, the least recently used first: the entry, and its descriptors.
        self._used: OrderedDict[int, tuple[weakref.ref[_Entry[Any]], int]] = OrderedDict()
        self._descriptors = 0
        # Numbers of entries that owners have closed. Appended to at any time, without the lock.
        self._closed: deque[int] = deque()
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self.lock = threading.RLock()

    def new(self, owner: OpenFiles[Opened], key: Key, file: Opened) -> _Entry[Opened]:
        entry = _Entry(owner, key, file, next(self._numbers))
        number, closed = entry.number, self._closed
        ref = weakref.ref(entry, lambda _: closed.append(number))
        self._used[number] = ref, entry.descriptors
        self._descriptors += entry.descriptors
        return entry

    def touch(self, entry: _Entry[Any]) -> None:
        self._used.move_to_end(entry.number)

    def excess(self) -> list[_Entry[Any]]:
        """Entries that are to be closed, so that the process keeps to its limits."""
        self._forget_closed()
        found: list[_Entry[Any]] = []
        if len(self._used) <= MOST_OPEN_FILES and not self._descriptors:
            return found
        limit = most_descriptors()
        while self._used and (len(self._used) > MOST_OPEN_FILES or self._descriptors > limit):
            found += self._taken(next(iter(self._used)))
        return found

    def half(self) -> list[_Entry[Any]]:
        """The less recently used half of the entries that use descriptors."""
        self._forget_closed()
        using = [number for number, (_, descriptors) in self._used.items() if descriptors]
        taken = (self._taken(number) for number in using[: (len(using) + 1) // 2])
        return list(itertools.chain.from_iterable(taken))

    def _taken(self, number: int) -> list[_Entry[Any]]:
        ref, descriptors = self._used.pop(number)
        self._descriptors -= descriptors
        entry = ref()
        return [] if entry is None else [entry]

    def _forget_closed(self) -> None:
        while self._closed:
            number = self._closed.popleft()
            if number in self._used:
                self._taken(number)


_pool = _Pool()


class OpenFiles(Generic[Opened]):
    """The open files of a dataset or of a table. Thread-safe.

    A file that is closed in here stays usable for those who hold it.

    Attributes:
        holders: whoever keeps files that were asked for here.
        opened: how many files were opened.
    """

    def __init__(
        self, what: str = "dataset", *, most: int | None = None, descriptors: int = 0
    ) -> None:
        """
        Args:
            what: has the files, for messages.
            most: files that are kept open; ``None``: as many as the process may.
            descriptors: that each open file uses. A mapped file uses none.
        """
        self._what = what
        self._most = None if most is None else max(1, most)
        self.descriptors = descriptors
        self._files: OrderedDict[Key, _Entry[Opened]] = OrderedDict()
        self._closed = False
        self.holders: weakref.WeakSet[Holder] = weakref.WeakSet()
        self.opened = 0
        self._left: IoStats = IoStats()  # of files that were closed

    def check_open(self) -> None:
        """Raises InvalidArgumentError if this was closed."""
        if self._closed:
            raise InvalidArgumentError(f"this {self._what} is closed")

    def get(
        self,
        name: str,
        identity: int | None,
        open_file: Callable[[], Opened],
        *,
        keep: bool = True,
    ) -> Opened:
        """The file called ``name``.

        Args:
            open_file: opens it.
            keep: whether it stays open when the caller lets go of it.

        Raises:
            InvalidArgumentError: this is closed.
            StaleFileError: the file's identity is another one.
        """
        key = (name, identity)
        with _pool.lock:
            self.check_open()
            entry = self._files.get(key)
            if entry is not None:
                self._touch(entry)
                return entry.file
        file = _opened(open_file)
        if identity is not None:
            _check_identity(file, identity)
        with _pool.lock:
            self.check_open()
            self.opened += 1
            other = self._files.get(key)
            if other is not None:  # another thread was quicker
                return other.file
            if not keep:
                return file
            self._files[key] = _pool.new(self, key, file)
            own = self._excess()
            foreign = [item for item in _pool.excess() if _close(item) is not self]
        _relieve(foreign)
        del own
        return file

    def _touch(self, entry: _Entry[Opened]) -> None:
        _pool.touch(entry)
        self._files.move_to_end(entry.key)

    def _excess(self) -> list[_Entry[Opened]]:
        """Closes files beyond those that this may keep. They are closed outside the lock."""
        count = 0 if self._most is None else len(self._files) - self._most
        return self._drop(list(itertools.islice(self._files, max(count, 0))))

    def _drop(self, keys: Iterable[Key]) -> list[_Entry[Opened]]:
        found = [self._files.pop(key) for key in keys]
        for entry in found:
            self._left += entry.file.io_stats
        return found

    def close_entry(self, entry: _Entry[Any]) -> None:
        """Closes a file that the pool has chosen."""
        if self._files.get(entry.key) is entry:
            self._drop([entry.key])

    def close_unless(self, wanted: Callable[[list[Key]], Iterable[bool]]) -> None:
        """Closes files that are no longer wanted; ``wanted`` tells which of some are."""
        with _pool.lock:
            keys = list(self._files)
        if not keys:
            return
        kept = wanted(keys)
        unwanted = [key for key, keep in zip(keys, kept, strict=True) if not keep]
        with _pool.lock:
            dropped = self._drop([key for key in unwanted if key in self._files])
        del dropped

    def __contains__(self, file: Key) -> bool:
        """Whether a file of this name and identity is open."""
        return file in self._files

    def __len__(self) -> int:
        return len(self._files)

    @property
    def io_stats(self) -> IoStats:
        """What has been read of all files, as far as they were in here."""
        with _pool.lock:
            return sum((entry.file.io_stats for entry in self._files.values()), self._left)

    def reset_io_stats(self) -> None:
        with _pool.lock:
            self._left = IoStats()
            for entry in self._files.values():
                entry.file.reset_io_stats()

    def close(self) -> None:
        """Closes all files. Calls of :meth:`get` raise from then on."""
        with _pool.lock:
            self._closed = True
            dropped = self._drop(list(self._files))
        del dropped


def _opened(open_file: Callable[[], Opened]) -> Opened:
    """Opens a file. Where the process has no descriptor left, others are closed first."""
    try:
        return open_file()
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        with _pool.lock:
            chosen = _pool.half()
            for entry in chosen:
                _close(entry)
        if not chosen:
            raise
    _relieve(chosen)
    del chosen, entry
    return open_file()


def _close(entry: _Entry[Any]) -> OpenFiles[Any] | None:
    """Has the owner of an entry close it: the owner."""
    owner: OpenFiles[Any] | None = entry.owner()
    if owner is not None:
        owner.close_entry(entry)
    return owner


def _relieve(closed: Iterable[_Entry[Any]]) -> None:
    """Has those who keep files let go of them, if another owner needed the room."""
    owners = {owner for entry in closed if (owner := entry.owner()) is not None}
    for owner in owners:
        for holder in list(owner.holders):
            holder.release()


def _check_identity(file: FixedRows, identity: int) -> None:
    assert isinstance(file, File)
    core = file.handle.core
    if int(core.identity) != identity:
        raise StaleFileError(
            f"{core.name}: the file was replaced since the dataset was opened (footer checksum "
            f"{int(core.identity):#x}, expected {identity:#x}). Open the dataset again, or "
            "refresh() it, and give files with new rows new names."
        )
