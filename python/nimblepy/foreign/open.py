"""Opens files: :func:`open` returns a :class:`nimblepy.File`, or a :class:`ParquetIndex`."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa

from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.files.open_files import with_descriptors
from nimblepy.files.resolve import check_names_no_table
from nimblepy.foreign.marker import is_index
from nimblepy.io.location import FileSystem, locate


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
    """Opens a file for scans and lookups.

    Args:
        source: a path, a URI (``s3://...``), bytes, memoryview, :class:`pyarrow.Buffer`, or a
            seekable binary file object. For an index file of :func:`nimblepy.index_files`, returns
            a :class:`nimblepy.ParquetIndex`.
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
        timeout: time limit of one read call to a store, in seconds, including retries. Local files
            have no limit.

    Raises:
        CorruptFileError: the file is not a nimble file, or is damaged.
        UnsupportedVersionError: a newer version wrote the file.
        OSError: the file is missing or cannot be read.
        StaleFileError: raised by later reads if a remote file was replaced.
        TimeoutError: a store did not answer within ``timeout``; later reads raise it too.

    Cost: one read of the file's last 64 KiB; a second read if the footer is larger.
    """
    if filesystem is None:
        check_names_no_table(source)
    opening = partial(
        open_file,
        source,
        filesystem=filesystem,
        mmap=mmap,
        cache_bytes=cache_bytes,
        verify=verify,
        record=record,
        timeout=timeout,
    )
    file = with_descriptors(opening)
    if not isinstance(source, (str, os.PathLike)) or not is_index(file.metadata):
        return file
    # Import here, because opening a nimble file should be fast.
    from nimblepy.foreign.handle import open_parquet_index
    from nimblepy.foreign.source import absolute

    file.close()
    options: dict[str, Any] = {
        "filesystem": filesystem,
        "mmap": mmap,
        "cache_bytes": cache_bytes,
        "timeout": timeout,
    }
    path = absolute(source, locate(source, filesystem).is_local)
    # Nearly all callers get a File, so declare this type. Both types have the same reading methods.
    return cast(File, open_parquet_index(path, options))
