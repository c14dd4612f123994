"""Opens a file in the core: from a path, a store, a buffer or a Python file object."""

from __future__ import annotations

import builtins
import errno
import os
import stat
from typing import Any

import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.io.location import FileSystem, locate
from nimblepy.io.remote_file import REMOTE_GAP


def open_core_file(
    source: Any,
    filesystem: FileSystem | None = None,
    *,
    mmap: bool,
    cache_bytes: int,
    timeout: float | None = None,
) -> _core.File:
    """Opens a nimble file; see :func:`nimblepy.open` for the arguments.

    Raises:
        CorruptFileError: the file is damaged, or it is not a nimble file.
    """
    try:
        return _open(source, filesystem, mmap, cache_bytes, timeout)
    except CorruptFileError as error:
        other = _other_format(source, filesystem)
        if other is None:
            raise
        name = source if isinstance(source, (str, os.PathLike)) else type(source).__name__
        raise CorruptFileError(
            f"{name}: not a nimblepy file: this is {other}; nb.convert(source, target) or nb.write "
            "makes a nimble file from it"
        ) from error


def _open(
    source: Any, filesystem: Any, mmap: bool, cache_bytes: int, timeout: float | None
) -> _core.File:
    if isinstance(source, (str, os.PathLike)):
        location = locate(source, filesystem, timeout=timeout)
        if location.is_local:
            _check_regular(location.path)
            return _core.open_path(location.core_path, mmap, cache_bytes)
        return _core.open_python(location.open(), location.path, REMOTE_GAP, cache_bytes)
    if isinstance(source, (bytes, bytearray, memoryview, pa.Buffer)):
        return _core.open_buffer(source, cache_bytes)
    if hasattr(source, "read") and hasattr(source, "seek"):
        name = getattr(source, "name", None)
        shown = name if isinstance(name, str) else f"<{type(source).__name__}>"
        return _core.open_python(source, shown, 4096, cache_bytes)
    raise InvalidArgumentError(
        "source: expected a path, URI, bytes, pyarrow.Buffer or a seekable binary file, "
        f"got {type(source).__name__}"
    )


_MAGIC = {b"PAR1": "a Parquet file", b"ARRO": "an Arrow file", b"Obj\1": "an Avro file"}


def _other_format(source: Any, filesystem: Any) -> str | None:
    """Returns the format of a file by its first bytes, for messages; ``None`` if it is unknown."""
    try:
        if isinstance(source, (str, os.PathLike)):
            location = locate(source, filesystem)
            if location.is_local:
                with builtins.open(location.path, "rb") as file:
                    start = file.read(4)
            else:
                start = bytes(location.open().read_at(4, 0))
        elif hasattr(source, "seek"):
            source.seek(0)
            start = source.read(4)
        else:
            start = bytes(memoryview(source)[:4])
    except Exception:  # the caller then reports a damaged file
        return None
    return _MAGIC.get(start)


def _check_regular(path: str) -> None:
    """Raises an error for directories, pipes, devices and sockets; opening a pipe could hang."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(
            errno.EISDIR,
            "it is a directory: nb.open_dataset opens its nimble files as one source, "
            "nb.convert writes files of other formats to one nimble file",
            path,
        )
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise InvalidArgumentError(f"{path} is a device, a pipe or a socket, not a regular file")
