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
from typing import Any, Generic, TypeVar

from nimblepy.errors import InvalidArgumentError, StaleFileError
from nimblepy.file.source import FileSource
from nimblepy.io.fork import renew_after_fork
from nimblepy.rows.source import RowSource
from nimblepy.schema.types import IoStats

Opened = TypeVar("Opened", bound=RowSource)
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


class _Entry(Generic[Opened]):
    """A file that is kept open.

    Attributes:
        owner: the OpenFiles that keeps it.
        uses_descriptor: whether it uses a descriptor of the operating system.
    """

    __slots__ = ("__weakref__", "file", "key", "number", "owner", "uses_descriptor")

    def __init__(self, owner: OpenFiles[Opened], key: Key, file: Opened, number: int) -> None:
        self.owner = weakref.ref(owner)
        self.key = key
        self.file = file
        self.number = number
        self.uses_descriptor = owner.use_descriptors


class _Pool:
    """Which files of all owners were used when. Owners keep the files; the pool has them close the
    least recently used ones. ``lock`` guards the pool and the files of all owners.

    An exception, such as KeyboardInterrupt, or a fork can come between any two steps. So a file
    leaves its owner before it leaves the pool, and what the pool does not know is added again.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        # By number, the least recently used first.
        self._used: OrderedDict[int, weakref.ref[_Entry[Any]]] = OrderedDict()
        # Those of them that use a descriptor.
        self._using: OrderedDict[int, weakref.ref[_Entry[Any]]] = OrderedDict()
        # Numbers of entries that owners have closed. Appended to at any time, without the lock.
        self._closed: deque[int] = deque()
        self.hits = 0
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        self.lock = threading.RLock()

    def new(self, owner: OpenFiles[Opened], key: Key, file: Opened) -> _Entry[Opened]:
        entry = _Entry(owner, key, file, next(self._numbers))
        self._add(entry)
        return entry

    def _add(self, entry: _Entry[Any]) -> None:
        number, closed = entry.number, self._closed
        ref = weakref.ref(entry, lambda _: closed.append(number))
        self._used[number] = ref
        if entry.uses_descriptor:
            self._using[number] = ref

    def touch(self, entry: _Entry[Any]) -> None:
        try:
            self._used.move_to_end(entry.number)
            if entry.uses_descriptor:
                self._using.move_to_end(entry.number)
        except KeyError:
            self._add(entry)

    def close_excess(self) -> list[_Entry[Any]]:
        """Closes entries until the process keeps to its limits: the entries."""
        self._forget_closed()
        closed: list[_Entry[Any]] = []
        while len(self._used) > MOST_OPEN_FILES:
            closed += self._close(next(iter(self._used)))
        if self._using:
            limit = most_descriptors()
            while len(self._using) > limit:
                closed += self._close(next(iter(self._using)))
        return closed

    def close_half(self) -> list[_Entry[Any]]:
        """Closes the less recently used half of the entries that use descriptors."""
        self._forget_closed()
        numbers = list(itertools.islice(self._using, (len(self._using) + 1) // 2))
        return list(itertools.chain.from_iterable(map(self._close, numbers)))

    def _close(self, number: int) -> list[_Entry[Any]]:
        ref = self._used.get(number) or self._using[number]
        entry = ref()
        if entry is not None and (owner := entry.owner()) is not None:
            owner.close_entry(entry)
        self._forget(number)
        return [] if entry is None else [entry]

    def _forget(self, number: int) -> None:
        self._used.pop(number, None)
        self._using.pop(number, None)

    def _forget_closed(self) -> None:
        while self._closed:
            self._forget(self._closed[0])
            self._closed.popleft()

    def __len__(self) -> int:
        with self.lock:
            self._forget_closed()
            return len(self._used)


_pool = _Pool()


def file_counts() -> dict[str, int]:
    """Counts of this process: files that are open, and how often a file was open already."""
    return {"open": len(_pool), "hits": _pool.hits}


class OpenFiles(Generic[Opened]):
    """The open files of a dataset or of a table. Thread-safe.

    A file that is closed in here stays usable for those who hold it.

    Attributes:
        opened: how many files were opened.
    """

    def __init__(
        self, what: str = "dataset", *, most: int | None = None, use_descriptors: bool = False
    ) -> None:
        """
        Args:
            what: has the files, for messages.
            most: files that are kept open; ``None``: as many as the process may.
            use_descriptors: whether each open file uses one. A mapped file uses none.
        """
        self._what = what
        self._most = None if most is None else max(1, most)
        self.use_descriptors = use_descriptors
        self._files: OrderedDict[Key, _Entry[Opened]] = OrderedDict()
        self._closed = False
        self._holders: set[weakref.WeakMethod[Callable[[], None]]] = set()
        self.opened = 0
        self._left: IoStats = IoStats()  # of files that were closed

    def add_holder(self, release: Callable[[], None]) -> None:
        """Registers a method of an object that keeps files of this one; it lets them close.

        The object is held weakly.
        """
        self._holders.add(weakref.WeakMethod(release))

    def relieve(self) -> None:
        """Has those who keep files let go of them."""
        for holder in list(self._holders):
            release = holder()
            if release is None:
                self._holders.discard(holder)
            else:
                release()

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
                _pool.hits += 1
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
                self._touch(other)
                return other.file
            if not keep:
                return file
            self._files[key] = _pool.new(self, key, file)
            own = self._excess()
            foreign = [item for item in _pool.close_excess() if item.owner() is not self]
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
            chosen = _pool.close_half()
        if not chosen:
            raise
    _relieve(chosen)
    del chosen
    return open_file()


def _relieve(closed: Iterable[_Entry[Any]]) -> None:
    """Has those who keep files let go of them, if another owner needed the room."""
    owners = {owner for entry in closed if (owner := entry.owner()) is not None}
    for owner in owners:
        owner.relieve()


def _check_identity(file: RowSource, identity: int) -> None:
    assert isinstance(file, FileSource)
    core = file.handle.core
    if int(core.identity) != identity:
        raise StaleFileError(
            f"{core.name}: the file was replaced since the dataset was opened (footer checksum "
            f"{int(core.identity):#x}, expected {identity:#x}). Open the dataset again, or "
            "refresh() it, and give files with new rows new names."
        )
