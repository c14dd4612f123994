"""Opens files: :func:`open` returns a :class:`nimblepy.File`."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.file.record import WorkloadLog
from nimblepy.file.source import FileSource
from nimblepy.io.core_file import open_core_file
from nimblepy.io.location import FileSystem, is_uri
from nimblepy.io.log import logger
from nimblepy.io.time_limit import checked_timeout
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
    timeout: float | None = None,
) -> File:
    """Opens a nimble file that stores rows. See :func:`nimblepy.open`."""
    if verify not in ("lazy", "full"):
        raise InvalidArgumentError(f"verify: expected 'lazy' or 'full', got {verify!r}")
    if record is not None and not isinstance(record, (str, os.PathLike)):
        raise InvalidArgumentError(f"record: expected a path, got {record!r}")
    opened = open_source(
        source,
        filesystem=filesystem,
        mmap=mmap,
        cache_bytes=cache_bytes,
        timeout=checked_timeout(timeout),
    )
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
    timeout: float | None = None,
) -> FileSource:
    """Opens a file as a FileSource, without a handle. See :func:`open`."""
    if not isinstance(mmap, bool):
        raise InvalidArgumentError(f"mmap: expected True or False, got {mmap!r}")
    cache_bytes = at_least("cache_bytes", cache_bytes, 0)
    core = open_core_file(source, filesystem, mmap=mmap, cache_bytes=cache_bytes, timeout=timeout)
    arguments: dict[str, Any] = {
        "filesystem": filesystem,
        "mmap": mmap,
        "cache_bytes": cache_bytes,
        "timeout": timeout,
    }
    if isinstance(source, (str, os.PathLike)) and filesystem is None:
        source = _absolute(os.fspath(source))
    _log.debug("opened %s: %d rows", core.name, core.num_rows)
    return FileSource(core, (open_source, source, arguments))


def _absolute(path: str) -> str:
    """Returns an absolute path, so that a pickled handle works in another working directory."""
    return path if is_uri(path) else os.path.abspath(path)
