"""Where bytes live: local paths, URIs, pyarrow and fsspec file systems."""

from __future__ import annotations

import os
import posixpath
import uuid
from typing import Any

from nimblepy.errors import InvalidArgumentError

# Ranges of a remote file closer than this are one request: a round trip costs more than the bytes.
REMOTE_GAP = 64 * 1024


def is_uri(path: str) -> bool:
    """``s3://bucket/key`` is one; a Windows drive or a plain name is not."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isidentifier()


def as_arrow_filesystem(filesystem: Any) -> Any:
    """A :class:`pyarrow.fs.FileSystem` for one, or for an fsspec file system."""
    import pyarrow.fs as pafs

    if isinstance(filesystem, pafs.FileSystem):
        return filesystem
    if hasattr(filesystem, "open") and hasattr(filesystem, "protocol"):
        return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    raise InvalidArgumentError(
        "filesystem: expected pyarrow.fs.FileSystem or an fsspec file system, "
        f"got {type(filesystem).__name__}"
    )


def resolve(path: str | os.PathLike[str], filesystem: Any) -> tuple[Any, str]:
    """(file system, path in it); the file system is ``None`` for a local path."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidArgumentError(f"path: expected str, got {type(text).__name__}")
    if filesystem is None:
        if not is_uri(text):
            return None, text
        import pyarrow.fs as pafs

        filesystem, text = pafs.FileSystem.from_uri(text)
    else:
        filesystem = as_arrow_filesystem(filesystem)
    if filesystem.type_name == "local":
        return None, text
    return filesystem, text


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
