"""Locations of files: local paths, URIs, pyarrow and fsspec file systems, obstore stores."""

from __future__ import annotations

import contextlib
import os
import posixpath
import tempfile
import time
import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from nimblepy.errors import InvalidArgumentError
from nimblepy.io import object_store
from nimblepy.io.arrow_object import ArrowObject
from nimblepy.io.object_store import ObjectSink, StoredObject
from nimblepy.io.remote_file import RangeSource, RemoteFile
from nimblepy.io.retries import Retries
from nimblepy.io.time_limit import call_within, limit_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore
    from pyarrow.fs import FileSystem as ArrowFileSystem


class FsspecFileSystem(Protocol):
    """The attributes by which an fsspec file system is recognized."""

    protocol: Any

    def open(self, path: str, *arguments: Any, **keywords: Any) -> Any: ...


T = TypeVar("T")
FileSystem: TypeAlias = "ArrowFileSystem | FsspecFileSystem | ObjectStore"


def is_uri(path: str) -> bool:
    """Returns whether a path is a URI, such as ``s3://bucket/key``; Windows drives are not URIs."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isidentifier()


def _as_arrow_filesystem(filesystem: Any) -> Any:
    """Converts a pyarrow or fsspec file system to a :class:`pyarrow.fs.FileSystem`."""
    import pyarrow.fs as pafs

    if isinstance(filesystem, pafs.FileSystem):
        return filesystem
    if hasattr(filesystem, "open") and hasattr(filesystem, "protocol"):
        return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    raise InvalidArgumentError(
        "filesystem: expected a pyarrow.fs.FileSystem, an fsspec file system or an obstore store, "
        f"got {type(filesystem).__name__}"
    )


def _resolve(path: str | os.PathLike[str], filesystem: FileSystem | None) -> tuple[Any, str]:
    """Returns (store, path in it); the store is ``None`` for a local path."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise InvalidArgumentError(f"path: expected str, got {type(text).__name__}")
    if "\0" in text:
        raise InvalidArgumentError(f"path: {text!r} has a null character")
    if filesystem is None:
        if not is_uri(text):
            return None, text
        if object_store.serves(text):
            return object_store.locate(text)
        # pyarrow would silently ignore the text after these characters.
        ends = "#?" if text.startswith("file:") else "#"
        if any(mark in text for mark in ends):
            raise InvalidArgumentError(
                f"path: {text!r}: '#' and '?' end the path of a URI; write %23 and %3F"
            )
        import pyarrow as pa
        import pyarrow.fs as pafs

        if text.startswith(("nimble://", "nimble+unix://")):
            raise InvalidArgumentError(
                f"{text!r} is the address of a server; open its tables with "
                f"nb.connect({text!r}).table(NAME)"
            )
        try:
            store, text = pafs.FileSystem.from_uri(text)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(
                f"path: {text!r} is not a URI of a supported store: {error}; pass filesystem= for "
                "other stores"
            ) from error
    elif object_store.is_store(filesystem):
        return filesystem, text
    else:
        store = _as_arrow_filesystem(filesystem)
    return (None if store.type_name == "local" else store), text


@dataclass(frozen=True)
class Location:
    """The location of a file or directory."""

    path: str  # a local path, or the path in `store`
    store: Any = None  # a pyarrow file system or an obstore store; None: local
    timeout: float | None = None  # limit of one read call of the store, in seconds

    @property
    def is_local(self) -> bool:
        return self.store is None

    @property
    def core_path(self) -> str:
        """The local path, for the core.

        Raises:
            InvalidArgumentError: the path is not UTF-8.
        """
        try:
            self.path.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(
                f"path: {self.path!r} is not UTF-8; rename the file or directory"
            ) from None
        return self.path

    @property
    def spill_folder(self) -> str:
        """The directory for temporary files while the file is written."""
        if not self.is_local:
            return tempfile.gettempdir()
        return os.path.dirname(os.path.abspath(self.path))

    def exists(self) -> bool:
        """Returns whether the file exists. Cost: one request."""
        if self.is_local:
            return os.path.exists(self.path)
        try:
            self.open()
        except FileNotFoundError:
            return False
        return True

    def open(self) -> RemoteFile:
        """Opens a file in a store. Cost: one request (pyarrow file systems: two)."""
        source: RangeSource
        if object_store.is_store(self.store):
            source = StoredObject(self._reading_store, self.path)
        else:
            source = ArrowObject(self.store, self.path)
        return RemoteFile(source, self._retries, self.timeout)

    @property
    def _reading_store(self) -> Any:
        """The obstore store for reads. With a time limit, it does not retry; ``_retries`` does."""
        if self.timeout is None:
            return self.store
        return object_store.without_retries(self.store, self.timeout)

    @property
    def _retries(self) -> Retries | None:
        """How to retry reads; ``None`` if the client of the store retries by itself."""
        if object_store.is_store(self.store):
            return None if self.timeout is None else Retries()
        return Retries() if self.store.type_name.startswith("py::") else None

    def _read_call(self, request: Callable[[], T]) -> T:
        run = None if self._retries is None else self._retries.run
        return call_within(self.timeout, self.path, request, run)

    def read(self) -> bytes:
        """Returns all bytes of a file in a store. Cost: one request (pyarrow file systems: two)."""
        if object_store.is_store(self.store):
            store = self._reading_store
            return self._read_call(lambda: object_store.read(store, self.path))

        def request() -> bytes:
            with self.store.open_input_stream(self.path) as source:
                return bytes(source.read())

        return self._read_call(request)

    def write(self, data: bytes) -> None:
        """Creates a file in a store atomically.

        Cost: one request (pyarrow file systems: more).
        """
        if object_store.is_store(self.store):
            object_store.write(self.store, self.path, data)
            return
        sink = RemoteSink(self.store, self.path)
        try:
            sink.write(data)
        except BaseException:
            sink.abort()
            raise
        sink.commit()

    def names(self) -> list[str]:
        """Returns the names in a directory, sorted; empty if the directory does not exist."""
        if self.is_local:
            try:
                return sorted(os.listdir(self.path))
            except (FileNotFoundError, NotADirectoryError):
                return []
        if object_store.is_store(self.store):
            store = self._reading_store
            return self._read_call(lambda: object_store.names(store, self.path))
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(self.path, allow_not_found=True)
        infos = self._read_call(lambda: self.store.get_file_info(selector))
        return sorted(info.base_name for info in infos)

    def versions(self) -> list[tuple[str, Hashable]]:
        """Returns (name, version) of the files directly in a directory.

        The version changes when the file is replaced. Cost: one request per 1000 files, or one
        ``stat`` per local file.
        """
        if self.is_local:
            with os.scandir(self.path) as entries:
                return [(e.name, _local_version(e.stat())) for e in entries if e.is_file()]
        if object_store.is_store(self.store):
            store = self._reading_store
            return self._read_call(lambda: object_store.versions(store, self.path))
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(self.path)
        infos = self._read_call(lambda: self.store.get_file_info(selector))
        return [
            (info.base_name, (info.size, info.mtime_ns))
            for info in infos
            if info.type == pafs.FileType.File
        ]

    def version(self) -> Hashable:
        """Returns a value that changes when the file is replaced.

        Raises:
            FileNotFoundError: the file does not exist.

        Cost: one ``stat``, or one request.
        """
        if self.is_local:
            return _local_version(os.stat(self.path))
        if object_store.is_store(self.store):
            return object_store.version(self.store, self.path)
        import pyarrow.fs as pafs

        info = self.store.get_file_info(self.path)
        if info.type != pafs.FileType.File:
            raise FileNotFoundError(f"{self.path}: no such file")
        return info.size, info.mtime_ns

    def files(self) -> list[tuple[str, int, float]]:
        """Returns (relative path, bytes, time of last change) of all files below a directory.

        Only for stores. Times are in seconds since 1970. Cost: one request per 1000 files.
        """
        if object_store.is_store(self.store):
            store = self._reading_store
            return self._read_call(lambda: object_store.files(store, self.path))
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(self.path, allow_not_found=True, recursive=True)
        root = self.path.strip("/") + "/"
        infos = self._read_call(lambda: self.store.get_file_info(selector))
        return [
            (info.path.lstrip("/").removeprefix(root), info.size, _seconds(info.mtime_ns))
            for info in infos
            if info.type == pafs.FileType.File
        ]

    def move(self, target: Location) -> None:
        """Moves a file within its file system. Replaces an existing file at the target.

        Cost: object stores copy the file themselves; other file systems rename it.
        """
        if self.is_local:
            os.replace(self.path, target.path)
        elif object_store.is_store(self.store):
            object_store.move(self.store, self.path, target.path)
        else:
            self.store.move(self.path, target.path)

    def remove(self) -> None:
        """Removes a file. Does nothing if the file does not exist."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if self.is_local:
                os.remove(self.path)
            elif object_store.is_store(self.store):
                object_store.remove(self.store, self.path)
            else:
                self.store.delete_file(self.path)

    def is_directory(self) -> bool:
        """Returns whether a directory exists. In an object store, it must contain an object."""
        if self.is_local:
            return os.path.isdir(self.path)
        if object_store.is_store(self.store):
            store = self._reading_store
            return self._read_call(lambda: object_store.is_prefix(store, self.path))
        import pyarrow.fs as pafs

        info = self._read_call(lambda: self.store.get_file_info(self.path))
        return bool(info.type == pafs.FileType.Directory)

    def sink(self) -> Any:
        """Returns the sink for the core's writer; for local files, the path."""
        if self.is_local:
            return self.core_path
        if object_store.is_store(self.store):
            return ObjectSink(self.store, self.path)
        return RemoteSink(self.store, self.path)


def _local_version(status: os.stat_result) -> Hashable:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _seconds(nanoseconds: int | None) -> float:
    """Converts a time to seconds since 1970. An unknown time becomes the current time."""
    return time.time() if nanoseconds is None else nanoseconds / 1e9


def locate(
    path: str | os.PathLike[str],
    filesystem: FileSystem | None = None,
    *,
    timeout: float | None = None,
) -> Location:
    """Returns the location of a file or directory, from a path, a URI, or a path in ``filesystem``.

    Args:
        timeout: limit of one read call of a store, in seconds; ``None`` means the limit that
            nb.connect() set for the lake, if any.
    """
    store, inner = _resolve(path, filesystem)
    if timeout is None and store is not None and filesystem is None:
        timeout = limit_of(os.fspath(path))
    return Location(inner, store, None if store is None else timeout)


class RemoteSink:
    """Writes a file that becomes visible under ``path`` only after :meth:`commit`.

    The file is written under a temporary name and then moved, because closing an unfinished output
    stream would publish its content.
    """

    def __init__(self, filesystem: Any, path: str) -> None:
        folder, name = posixpath.split(path)
        self._filesystem = filesystem
        self._path = path
        self._temporary = posixpath.join(folder, f".{name}.{uuid.uuid4().hex}.nimble-tmp")
        self._stream = filesystem.open_output_stream(self._temporary)

    def write(self, data: bytes) -> None:
        self._stream.write(data)

    def commit(self) -> None:
        self._stream.close()
        self._filesystem.move(self._temporary, self._path)

    def abort(self) -> None:
        self._stream.close()
        self._filesystem.delete_file(self._temporary)
