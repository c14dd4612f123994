"""Where bytes live: local paths, URIs, pyarrow and fsspec file systems."""

from __future__ import annotations

import os
import posixpath
import tempfile
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from nimblepy.errors import InvalidArgumentError
from nimblepy.io import object_store
from nimblepy.io.arrow_object import ArrowObject
from nimblepy.io.object_store import ObjectSink, StoredObject
from nimblepy.io.remote_file import RemoteFile, Retries

if TYPE_CHECKING:
    from obstore.store import ObjectStore
    from pyarrow.fs import FileSystem as ArrowFileSystem


class FsspecFileSystem(Protocol):
    """What is asked of a file system of fsspec to know it for one."""

    protocol: Any

    def open(self, path: str, *arguments: Any, **keywords: Any) -> Any: ...


FileSystem: TypeAlias = "ArrowFileSystem | FsspecFileSystem | ObjectStore"


def is_uri(path: str) -> bool:
    """``s3://bucket/key`` is one; a Windows drive or a plain name is not."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isidentifier()


def _as_arrow_filesystem(filesystem: Any) -> Any:
    """A :class:`pyarrow.fs.FileSystem` for one, or for an fsspec file system."""
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
    """(store, path in it); the store is ``None`` for a local path."""
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
        # What comes after these would be left out without a word.
        ends = "#?" if text.startswith("file:") else "#"
        if any(mark in text for mark in ends):
            raise InvalidArgumentError(
                f"path: {text!r}: '#' and '?' end the path of a URI; write %23 and %3F"
            )
        import pyarrow.fs as pafs

        store, text = pafs.FileSystem.from_uri(text)
    elif object_store.is_store(filesystem):
        return filesystem, text
    else:
        store = _as_arrow_filesystem(filesystem)
    return (None if store.type_name == "local" else store), text


@dataclass(frozen=True)
class Location:
    """Where a file or a directory lies."""

    path: str  # a local path, or the path in `store`
    store: Any = None  # a pyarrow file system or an obstore store; None: local

    @property
    def is_local(self) -> bool:
        return self.store is None

    @property
    def core_path(self) -> str:
        """The local path, as the core takes it.

        Raises:
            InvalidArgumentError: it is not UTF-8.
        """
        try:
            self.path.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(
                f"path: {self.path!r} is not UTF-8, as names of files have to be; rename it"
            ) from None
        return self.path

    @property
    def spill_folder(self) -> str:
        """Where what exceeds a memory budget goes while the file is written."""
        if not self.is_local:
            return tempfile.gettempdir()
        return os.path.dirname(os.path.abspath(self.path))

    def exists(self) -> bool:
        """Whether a file is there now. Cost: one request."""
        if self.is_local:
            return os.path.exists(self.path)
        try:
            self.open()
        except FileNotFoundError:
            return False
        return True

    def open(self) -> RemoteFile:
        """Cost: one request (pyarrow file systems: two)."""
        if object_store.is_store(self.store):
            return RemoteFile(StoredObject(self.store, self.path))
        return RemoteFile(ArrowObject(self.store, self.path), self._retries)

    @property
    def _retries(self) -> Retries | None:
        """The clients of obstore and of pyarrow try again themselves; fsspec's may not."""
        return Retries() if self.store.type_name.startswith("py::") else None

    def read(self) -> bytes:
        """All bytes of a file in a store. Cost: one request (pyarrow file systems: two)."""
        if object_store.is_store(self.store):
            return object_store.read(self.store, self.path)

        def request() -> bytes:
            with self.store.open_input_stream(self.path) as source:
                return bytes(source.read())

        return request() if self._retries is None else self._retries.run(request)

    def write(self, data: bytes) -> None:
        """Makes a file in a store, which is seen whole or not at all.

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
        """Names in a directory, sorted; none where there is no such directory."""
        if self.is_local:
            try:
                return sorted(os.listdir(self.path))
            except (FileNotFoundError, NotADirectoryError):
                return []
        if object_store.is_store(self.store):
            return object_store.names(self.store, self.path)
        import pyarrow.fs as pafs

        found = self.store.get_file_info(pafs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def files(self) -> list[tuple[str, int, float]]:
        """(path below this, bytes, seconds since 1970 of the last change) of all files of a store.

        Cost: a request for each thousand of them.
        """
        if object_store.is_store(self.store):
            return object_store.files(self.store, self.path)
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(self.path, allow_not_found=True, recursive=True)
        root = self.path.strip("/") + "/"
        return [
            (info.path.lstrip("/").removeprefix(root), info.size, _seconds(info.mtime_ns))
            for info in self.store.get_file_info(selector)
            if info.type == pafs.FileType.File
        ]

    def is_directory(self) -> bool:
        """Whether a directory is there; in an object store, anything below the path."""
        if self.is_local:
            return os.path.isdir(self.path)
        if object_store.is_store(self.store):
            return object_store.is_prefix(self.store, self.path)
        import pyarrow.fs as pafs

        return bool(self.store.get_file_info(self.path).type == pafs.FileType.Directory)

    def sink(self) -> Any:
        """What the core writes to: the path itself where it is local."""
        if self.is_local:
            return self.core_path
        if object_store.is_store(self.store):
            return ObjectSink(self.store, self.path)
        return RemoteSink(self.store, self.path)


def _seconds(nanoseconds: int | None) -> float:
    """Since 1970; file systems that do not say when a file changed leave it ever young."""
    return time.time() if nanoseconds is None else nanoseconds / 1e9


def locate(path: str | os.PathLike[str], filesystem: FileSystem | None = None) -> Location:
    """The location of a path, a URI, or a path in ``filesystem``, of a file or of a directory."""
    store, inner = _resolve(path, filesystem)
    return Location(inner, store)


class RemoteSink:
    """Bytes to a file system, visible under ``path`` only after :meth:`commit`.

    They are written under a temporary name beside it and moved, because closing an unfinished
    output stream publishes what was written so far.
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
