"""Opens files: :func:`open` returns a :class:`nimblepy.File`."""

from __future__ import annotations

import builtins
import errno
import os
import stat
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.file.record import WorkloadLog
from nimblepy.file.source import FileSource
from nimblepy.io.location import FileSystem, is_uri, locate
from nimblepy.io.log import logger
from nimblepy.io.remote_file import REMOTE_GAP
from nimblepy.rows.arguments import at_least

_log = logger(__name__)


def open(
    source: str | os.PathLike[str] | bytes | memoryview | pa.Buffer | BinaryIO,
    *,
    filesystem: FileSystem | None = None,
    mmap: bool = True,
    cache_bytes: int = 256 << 20,
    verify: Literal["lazy", "full"] = "lazy",
    record: str | os.PathLike[str] | None = None,
) -> File:
    """Opens a file for scans and lookups.

    Args:
        source: a path, a URI (``s3://...``), bytes, memoryview, :class:`pyarrow.Buffer`, or a
            seekable binary file object.
        filesystem: :class:`pyarrow.fs.FileSystem`, fsspec file system or obstore store of
            ``source``.
        mmap: map a local file into memory; otherwise it is read with ``pread``. Do not truncate a
            mapped file in place while it is open (replacing it by renaming is safe).
        cache_bytes: memory limit for cached index groups, and for cached blocks of files that are
            not mapped.
        verify: ``"lazy"`` checks the checksum of each part when it is first used; ``"full"``
            checks the whole file now.
        record: a local file to which the shape of every query is appended, for
            :func:`nimblepy.advise_indexes`: columns, operators and number of rows, but no values.
            It grows to at most 1 MiB; threads and processes may share it.

    Raises:
        CorruptFileError: the file is not a nimble file, or is damaged.
        UnsupportedVersionError: a newer version wrote the file.
        OSError: the file is missing or cannot be read.
        StaleFileError: raised by later reads if a remote file was replaced.

    Cost: one read of the file's last 64 KiB; a second read if the footer is larger.
    """
    if verify not in ("lazy", "full"):
        raise InvalidArgumentError(f"verify: expected 'lazy' or 'full', got {verify!r}")
    if record is not None and not isinstance(record, (str, os.PathLike)):
        raise InvalidArgumentError(f"record: expected a path, got {record!r}")
    opened = open_source(source, filesystem=filesystem, mmap=mmap, cache_bytes=cache_bytes)
    log = None
    if record is not None:
        log = WorkloadLog(os.path.abspath(os.fspath(record)), opened.num_rows)
    file = File(opened, log)
    if verify == "full":
        file.verify()
    return file


def open_source(
    source: str | os.PathLike[str] | bytes | memoryview | pa.Buffer | BinaryIO,
    *,
    filesystem: FileSystem | None = None,
    mmap: bool = True,
    cache_bytes: int = 256 << 20,
) -> FileSource:
    """Opens a file for the engine; see :func:`open`."""
    if not isinstance(mmap, bool):
        raise InvalidArgumentError(f"mmap: expected True or False, got {mmap!r}")
    cache_bytes = at_least("cache_bytes", cache_bytes, 0)
    try:
        core = _open_core(source, filesystem, mmap, cache_bytes)
    except CorruptFileError as error:
        other = _other_format(source, filesystem)
        if other is None:
            raise
        name = source if isinstance(source, (str, os.PathLike)) else type(source).__name__
        raise CorruptFileError(
            f"{name}: not a nimblepy file: this is {other}; nb.convert(source, target) or nb.write "
            "makes a nimble file of it"
        ) from error
    arguments: dict[str, Any] = {
        "filesystem": filesystem,
        "mmap": mmap,
        "cache_bytes": cache_bytes,
    }
    if isinstance(source, (str, os.PathLike)) and filesystem is None:
        source = _absolute(os.fspath(source))
    _log.debug("opened %s: %d rows", core.name, core.num_rows)
    return FileSource(core, (open_source, source, arguments))


def _open_core(source: Any, filesystem: Any, mmap: bool, cache_bytes: int) -> Any:
    if isinstance(source, (str, os.PathLike)):
        location = locate(source, filesystem)
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
    """What a file is that is not a nimble file, by its first bytes."""
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
    except Exception:  # the file is damaged whatever its first bytes are
        return None
    return _MAGIC.get(start)


def _check_regular(path: str) -> None:
    """Raises an error for directories, pipes, devices and sockets; opening a pipe could hang."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(
            errno.EISDIR,
            "it is a directory: nb.open_dataset opens nimble files as one, "
            "nb.convert writes one file of others",
            path,
        )
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise InvalidArgumentError(f"{path} is a device, a pipe or a socket, not a regular file")


def _absolute(path: str) -> str:
    """The absolute path, for pickling: the working directory may change."""
    return path if is_uri(path) else os.path.abspath(path)
