"""Keeps a limited number of files open per process, and closes the least recently used first.

All datasets and tables share one pool. A file is closed when neither its owner nor a scan refers to
it.
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
_Result = TypeVar("_Result")
# A file's name and its identity: the checksum of its footer, or None if names are never reused.
Key = tuple[str, int | None]

# Maximum number of files that a process keeps open. Each file uses memory, and each local file uses
# a mapping. By default, Linux limits a process to 65,530 mappings.
MOST_OPEN_FILES = 4096
# Maximum number of files that one call keeps open and reads.
_MOST_TOGETHER = 512


def most_descriptors() -> int:
    """Returns how many descriptors open files may use: half of the process's limit.

    The other half is for the program, its sockets and the catalog.
    """
    try:
        import resource
    except ImportError:  # not a POSIX system
        return _MOST_TOGETHER
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    is_limited = allowed != resource.RLIM_INFINITY
    return min(max(allowed // 2, 16), MOST_OPEN_FILES) if is_limited else MOST_OPEN_FILES


def most_together() -> int:
    """Returns how many files one call may read at the same time."""
    return min(_MOST_TOGETHER, max(most_descriptors() // 2, 8))


class _Entry(Generic[Opened]):
    """A file that is kept open.

    Attributes:
        owner: the OpenFiles object that keeps the file open.
        uses_descriptor: whether the file uses a descriptor of the operating system.
    """

    __slots__ = ("__weakref__", "file", "key", "number", "owner", "uses_descriptor")

    def __init__(self, owner: OpenFiles[Opened], key: Key, file: Opened, number: int) -> None:
        self.owner = weakref.ref(owner)
        self.key = key
        self.file = file
        self.number = number
        self.uses_descriptor = owner.use_descriptors


class _Pool:
    """Tracks the order in which the files of all owners were last used.

    Owners keep the files. The pool tells the owners to close the least recently used files.
    ``lock`` guards the pool and the files of all owners.

    A fork, or an exception such as KeyboardInterrupt, can happen between any two steps. Therefore a
    file is removed from its owner before it is removed from the pool, and :meth:`touch` adds
    entries that the pool does not contain.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        # All entries by number, the least recently used first.
        self._used: OrderedDict[int, weakref.ref[_Entry[Any]]] = OrderedDict()
        # The entries that use a descriptor, in the same order.
        self._using: OrderedDict[int, weakref.ref[_Entry[Any]]] = OrderedDict()
        # Numbers of entries that were freed. Weak references append to it without the lock.
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
        """Closes entries until the process is within its limits. Returns the closed entries."""
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
    """Returns how many files this process has open, and how many requests found an open file."""
    return {"open": len(_pool), "hits": _pool.hits}


class OpenFiles(Generic[Opened]):
    """The open files of a dataset or of a table. Thread-safe.

    A caller can continue to use a file that was closed here.

    Attributes:
        opened: number of files opened so far.
    """

    def __init__(
        self, what: str = "dataset", *, most: int | None = None, use_descriptors: bool = False
    ) -> None:
        """
        Args:
            what: what the files belong to, for messages.
            most: maximum number of files kept open; ``None`` for the limit of the process.
            use_descriptors: whether each open file uses a descriptor. Mapped files do not.
        """
        self._what = what
        self._most = None if most is None else max(1, most)
        self.use_descriptors = use_descriptors
        self._files: OrderedDict[Key, _Entry[Opened]] = OrderedDict()
        self._closed = False
        self._holders: set[weakref.WeakMethod[Callable[[], None]]] = set()
        self.opened = 0
        self._left: IoStats = IoStats()  # reads of files that have been closed

    def add_holder(self, release: Callable[[], None]) -> None:
        """Registers a method that makes its object release its references to these files.

        The object is referenced weakly.
        """
        self._holders.add(weakref.WeakMethod(release, self._holders.discard))

    def relieve(self) -> None:
        """Makes the registered objects release their files."""
        for holder in list(self._holders):
            release = holder()
            if release is not None:
                release()

    def check_open(self) -> None:
        """Raises InvalidArgumentError if this object was closed."""
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
        """Returns the file called ``name``. Opens it if it is not open.

        Args:
            open_file: opens the file.
            keep: whether the file remains open after the caller releases it.

        Raises:
            InvalidArgumentError: this object was closed.
            StaleFileError: the file has another identity.
        """
        key = (name, identity)
        with _pool.lock:
            self.check_open()
            entry = self._files.get(key)
            if entry is not None:
                _pool.hits += 1
                self._touch(entry)
                return entry.file
        file = with_descriptors(open_file)
        if identity is not None:
            _check_identity(file, identity)
        with _pool.lock:
            self.check_open()
            self.opened += 1
            other = self._files.get(key)
            if other is not None:  # another thread opened it first
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

    def share_removed(
        self, other: OpenFiles[Opened], exist: Callable[[list[str]], Iterable[bool]]
    ) -> None:
        """Also keeps the removed files of another owner open, because they cannot be opened again.

        Args:
            exist: returns for each name whether the file may exist.
        """
        with _pool.lock:
            keys = list(other._files)
        there = exist([name for name, _ in keys])
        removed = [key for key, exists in zip(keys, there, strict=True) if not exists]
        with _pool.lock:
            for key in removed:
                entry = other._files.get(key)
                if entry is not None:
                    self._files[key] = _pool.new(self, key, entry.file)

    def _touch(self, entry: _Entry[Opened]) -> None:
        _pool.touch(entry)
        self._files.move_to_end(entry.key)

    def _excess(self) -> list[_Entry[Opened]]:
        """Removes files above this owner's limit. The caller frees the result outside the lock."""
        count = 0 if self._most is None else len(self._files) - self._most
        return self._drop(list(itertools.islice(self._files, max(count, 0))))

    def _drop(self, keys: Iterable[Key]) -> list[_Entry[Opened]]:
        entries = [self._files.pop(key) for key in keys]
        for entry in entries:
            self._left += entry.file.io_stats
        return entries

    def close_entry(self, entry: _Entry[Any]) -> None:
        """Closes a file that the pool has chosen."""
        if self._files.get(entry.key) is entry:
            self._drop([entry.key])

    def close_unless(self, wanted: Callable[[list[Key]], Iterable[bool]]) -> None:
        """Closes files. ``wanted`` returns for each key whether to keep the file open."""
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
        """Returns whether a file of this name and identity is open."""
        return file in self._files

    def __len__(self) -> int:
        return len(self._files)

    @property
    def io_stats(self) -> IoStats:
        """The reads of all files that are or were open here."""
        with _pool.lock:
            return sum((entry.file.io_stats for entry in self._files.values()), self._left)

    def reset_io_stats(self) -> None:
        with _pool.lock:
            self._left = IoStats()
            for entry in self._files.values():
                entry.file.reset_io_stats()

    def close(self) -> None:
        """Closes all files. Later calls of :meth:`get` raise."""
        with _pool.lock:
            self._closed = True
            dropped = self._drop(list(self._files))
        del dropped


def with_descriptors(open_file: Callable[[], _Result]) -> _Result:
    """Opens a file. If the process has no free descriptor, closes other files and tries again."""
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
    """Makes the owners of closed entries release their files."""
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
