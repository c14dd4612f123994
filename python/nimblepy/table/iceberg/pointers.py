"""Changes small files and objects by compare-and-swap: the pointers of a catalog.

On this machine, a file lock makes comparing and renaming one atomic step. In a store each write is
a conditional put: ``If-None-Match: *`` to create an object and ``If-Match`` to replace one version
of it.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nimblepy.errors import InvalidArgumentError, StaleFileError
from nimblepy.io import object_store
from nimblepy.io.fork import no_fork, renew_after_fork
from nimblepy.io.retries import Retries
from nimblepy.io.sync import sync_path
from nimblepy.io.time_limit import call_within, limit_of

# Attempts of a write whose outcome is unclear, and the longest wait between two in seconds.
_ATTEMPTS = 5
_LONGEST_WAIT = 1.0
# Seconds that a process waits for the lock of a directory.
_LOCK_TIMEOUT = 60.0


# Names of versions that no object has.
_NO_VERSION = {"e_tag": '"00000000000000000000000000000000"', "version": "1"}
# The content of a dropped object in a store. It is shorter than any other object.
_DROPPED = b'{"dropped":"'
_LONGEST_DROPPED = 64


class Lost(Exception):
    """Another writer was first, or this write took effect earlier and has been replaced since."""


class Unknown(Exception):
    """The store did not say whether a write took effect. It may still take effect later."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object.

    Attributes:
        token: the store's name of the version; ``None`` on this machine.
    """

    data: bytes
    token: Any = None

    @property
    def is_dropped(self) -> bool:
        return self.data.startswith(_DROPPED)


class Pointers(ABC):
    """Objects below one directory, by relative path. Thread-safe."""

    # Whether a failed write can still take effect later.
    writes_may_land_later = False

    @abstractmethod
    def read(self, key: str) -> Version | None:
        """Returns the newest version of an object; ``None`` if it does not exist.

        Cost: one request.
        """

    @abstractmethod
    def write(self, key: str, data: bytes, before: Version | None) -> Version:
        """Replaces one version of an object, or creates it if ``before`` is ``None``.

        ``data`` must differ from every other write, because a retry recognizes its own write by it.

        Raises:
            Lost: the object is not ``before``.
            Unknown: the write may have taken effect. OSError: the write did not take effect.

        Cost: one request, unless it fails.
        """

    @abstractmethod
    def drop(self, key: str, before: Version) -> None:
        """Drops one version of an object, so that it can be created again. Raises as `write`."""

    @abstractmethod
    def names(self) -> list[str]:
        """Returns all objects that were not dropped. Cost: one request per 1000 objects."""

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Blocks other writers until this thread has written, if that is possible."""
        yield


class LocalPointers(Pointers):
    """Files in a directory. Writers hold a lock on the file ``.lock`` in it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._held = threading.local()

    def read(self, key: str) -> Version | None:
        try:
            with open(self._path(key), "rb") as source:
                return Version(source.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, key: str, data: bytes, before: Version | None) -> Version:
        path = self._path(key)
        with self._locked():
            if self.read(key) != before:
                raise Lost
            new_folders = self._make_folders(os.path.dirname(path))
            temporary = f"{path}.{uuid.uuid4().hex}.tmp"
            try:
                with open(temporary, "xb") as sink:
                    sink.write(data)
                    sink.flush()
                    os.fsync(sink.fileno())
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.remove(temporary)
                raise
            for folder in (os.path.dirname(path), *new_folders):
                sync_path(folder)
        self._end_turn()
        return Version(data)

    def drop(self, key: str, before: Version) -> None:
        path = self._path(key)
        with self._locked():
            if self.read(key) != before:
                raise Lost
            os.remove(path)
            sync_path(os.path.dirname(path))
            with contextlib.suppress(OSError):  # only an empty directory is removed
                os.rmdir(os.path.dirname(path))
        self._end_turn()

    def names(self) -> list[str]:
        keys = []
        for folder, _, files in os.walk(self._directory):
            for name in files:
                if not name.endswith(".tmp"):
                    path = os.path.relpath(os.path.join(folder, name), self._directory)
                    keys.append(path.replace(os.sep, "/"))
        return keys

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._locked())
            except OSError:
                stack.close()
            self._held.turn = stack
            try:
                yield
            finally:
                self._held.turn = None

    def _end_turn(self) -> None:
        held = getattr(self._held, "turn", None)
        if held is not None:
            held.close()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the lock; a thread that holds it may take it again.

        Raises:
            TimeoutError: another process held it for too long.
        """
        import fcntl

        if getattr(self._held, "depth", 0):
            self._held.depth += 1
            try:
                yield
            finally:
                self._held.depth -= 1
            return
        self._make_folders(self._directory)
        path = self._path(".lock")
        # A child that is forked meanwhile would hold the lock as well.
        with no_fork(), open(path, "ab") as file:
            deadline = time.monotonic() + _LOCK_TIMEOUT
            wait = 0.0005
            while True:
                try:
                    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TimeoutError(
                            f"{path}: another process holds the lock for too long; try again, or "
                            "look for a stopped process"
                        ) from None
                time.sleep(random.uniform(0, wait))
                wait = min(0.01, wait * 1.5)
            self._held.depth = 1
            try:
                yield
            finally:
                self._held.depth = 0

    def _make_folders(self, folder: str) -> list[str]:
        """Creates a directory, and returns the directories that got a new entry."""
        changed = []
        missing = os.path.realpath(folder)
        while not os.path.isdir(missing):
            missing = os.path.dirname(missing)
            changed.append(missing)
        if changed:
            os.makedirs(os.path.realpath(folder), exist_ok=True)
        return changed

    def _path(self, key: str) -> str:
        return os.path.join(self._directory, key)


class StoredPointers(Pointers):
    """Objects of a store, through obstore."""

    writes_may_land_later = True

    def __init__(self, uri: str) -> None:
        """
        Raises:
            InvalidArgumentError: obstore does not serve the URI, or is not installed.
        """
        self.uri = uri
        if not object_store.serves(uri):
            why = "" if object_store.available() else "; install nimblepy[cloud]"
            raise InvalidArgumentError(
                f"connect {uri!r}: conditional puts need a store that obstore serves: s3, gs, az, "
                f"abfs or adl{why}"
            )

    def _at(self, key: str) -> tuple[Any, str]:
        """Returns the store of this process, and a path in it."""
        store, path = object_store.locate(self.uri)
        return store, f"{path.rstrip('/')}/{key}"

    def read(self, key: str) -> Version | None:
        limit = limit_of(self.uri)
        if limit is None:
            return self._read(*self._at(key))
        store, path = self._at(key)
        once = object_store.without_retries(store, limit)
        name = f"{self.uri.rstrip('/')}/{key}"
        return call_within(limit, name, lambda: self._read(once, path), Retries().run)

    def _read(self, store: Any, path: str) -> Version | None:
        import obstore

        try:
            answer = obstore.get(store, path)
            return Version(bytes(answer.bytes()), _token(answer.meta))
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise object_store.translate_error(error, store, path) from error
            return None
        except Exception as error:
            raise object_store.translate_error(error, store, path) from error

    def write(self, key: str, data: bytes, before: Version | None) -> Version:
        for attempt in range(_ATTEMPTS):
            if attempt:
                longest = min(_LONGEST_WAIT, 0.05 * 2**attempt)
                time.sleep(random.uniform(0, longest))
            try:
                return self.write_once(key, data, before)
            except (Lost, Unknown) as error:
                lost, cause = isinstance(error, Lost), error.__cause__
            try:
                now = self.read(key)
            except OSError as unread:
                if attempt < _ATTEMPTS - 1:
                    continue
                raise Unknown(f"{self.uri}/{key}: {unread}") from (cause or unread)
            if now is not None and now.data == data:
                return now  # an earlier attempt took effect, but its answer was lost
            unchanged = now is None if before is None else now is not None and _same(now, before)
            # S3 may answer 409 because of a concurrent write that fails in the end, so try again.
            if not unchanged or (lost and attempt == _ATTEMPTS - 1):
                raise Lost
        raise Unknown(f"{self.uri}/{key}: {cause}") from cause

    def write_once(self, key: str, data: bytes, before: Version | None) -> Version:
        """Sends one conditional put.

        Raises:
            Lost: the store says that the condition is not met. The client may have sent the put
                twice, and the first one may have taken effect.
            Unknown: the put may have taken effect. OSError: the store refuses the put.
        """
        import obstore
        from obstore import exceptions

        store, path = self._at(key)
        mode: Any = "create" if before is None else before.token
        try:
            answer = obstore.put(store, path, data, mode=mode, use_multipart=False)
            return Version(data, _token(answer))
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            raise Lost from error
        except exceptions.NotModifiedError as error:
            raise Lost from error
        except (
            FileNotFoundError,
            exceptions.PermissionDeniedError,
            exceptions.UnauthenticatedError,
            exceptions.NotSupportedError,
            exceptions.UnknownConfigurationKeyError,
            NotImplementedError,
        ) as error:
            raise object_store.translate_error(error, store, path) from error
        except Exception as error:
            translated = object_store.translate_error(error, store, path)
            if _is_refused(str(error)):
                raise translated from error
            raise Unknown(str(translated)) from translated

    def drop(self, key: str, before: Version) -> None:
        # A delete has no condition: it could remove what another writer has just created.
        self.write(key, _DROPPED + uuid.uuid4().hex.encode() + b'"}', before)

    def names(self) -> list[str]:
        store, path = object_store.locate(self.uri)
        objects = object_store.files(store, path)
        return [name for name, size, _ in objects if size > _LONGEST_DROPPED]

    def _remove(self, key: str) -> None:
        import obstore

        store, path = self._at(key)
        with contextlib.suppress(Exception):
            obstore.delete(store, path)

    # ---------------------------------------------------------------- the test at connect

    def check(self, known: tuple[str, Version] | None) -> None:
        """Tests that the store compares before it writes.

        Args:
            known: an existing object, with its content. The test writes the same content, so
                nothing changes if a write succeeds that must fail. Without ``known``, the test
                creates an object and removes it.

        Raises:
            InvalidArgumentError: the store has no conditional put, or ignores the condition.

        Cost: two requests, or five without ``known``. Credentials without write permission pass the
        test.
        """
        try:
            if known is not None:
                self._check(*known)
                return
            key = f"test-{uuid.uuid4().hex}"
            made = self.write(key, b"a test of conditional puts", None)
            try:
                self._check(key, made)
                try:
                    self.write_once(key, b"the end of the test", made)
                except (Lost, Unknown) as error:
                    raise self._refusal("refuses a put with a matching If-Match") from error
            finally:
                self._remove(key)
        except PermissionError:
            return
        except (Lost, Unknown, StaleFileError) as error:
            raise OSError(f"connect {self.uri}: conditional puts cannot be tested: {error}") from (
                error.__cause__ or error
            )

    def _check(self, key: str, version: Version) -> None:
        wrong = {name: _NO_VERSION[name] for name in version.token}
        for before, condition in ((None, "If-None-Match"), (Version(b"", wrong), "If-Match")):
            try:
                self.write_once(key, version.data, before)
            except Lost:
                continue
            except PermissionError:
                raise
            except OSError as error:
                raise self._refusal(f"refuses puts with {condition} ({error})") from error
            raise self._refusal(f"ignores {condition}")

    def _refusal(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"connect {self.uri.rpartition('/')[0]!r}: the store has no conditional put: it "
            f"{what}, so two writers would overwrite each other's commits. Keep the catalog in a "
            "database: nb.connect('sqlite:///catalog.db', properties={'warehouse': ...})"
        )


def _token(meta: Any) -> dict[str, str]:
    token = {name: meta[name] for name in ("e_tag", "version")}
    return {name: value for name, value in token.items() if value is not None}


def _same(one: Version, other: Version) -> bool:
    return one.data == other.data


def _is_refused(text: str) -> bool:
    """Returns whether the store answered that it does not support conditional puts."""
    return any(mark in text for mark in ("501 Not Implemented", "NotImplemented", "400 Bad"))
