"""Directories of files, local or in a file system that pyarrow knows."""

from __future__ import annotations

import os
import posixpath
from typing import Any

from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.io.location import resolve


def list_directory(path: str, filesystem: Any) -> list[str]:
    """Names in a directory, sorted; none where there is no such directory."""
    if filesystem is None:
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
    import pyarrow.fs as pafs

    found = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    return sorted(info.base_name for info in found)


def is_directory(path: str, filesystem: Any) -> bool:
    if filesystem is None:
        return os.path.isdir(path)
    import pyarrow.fs as pafs

    return bool(filesystem.get_file_info(path).type == pafs.FileType.Directory)


def open_in(directory: str, name: str, filesystem: Any, *, mmap: bool, cache_bytes: int) -> File:
    """Opens a file of a directory."""
    path = posixpath.join(directory, name)
    return open_file(path, filesystem=filesystem, mmap=mmap, cache_bytes=cache_bytes)


def resolve_directory(directory: Any, filesystem: Any) -> tuple[Any, str]:
    """(file system or ``None`` for local, path without a slash at its end)."""
    remote, path = resolve(directory, filesystem)
    if remote is None:
        path = os.path.abspath(path)
    return remote, path.rstrip("/") or "/"
