"""Directories of files, local or in a store."""

from __future__ import annotations

import os
import posixpath
from typing import Any

from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.io.location import Location, locate


def list_directory(path: str, store: Any) -> list[str]:
    """Names in a directory, sorted; none where there is no such directory."""
    return Location(path, store).names()


def is_directory(path: str, store: Any) -> bool:
    return Location(path, store).is_directory()


def open_in(directory: str, name: str, filesystem: Any, *, mmap: bool, cache_bytes: int) -> File:
    """Opens a file of a directory."""
    path = posixpath.join(directory, name)
    return open_file(path, filesystem=filesystem, mmap=mmap, cache_bytes=cache_bytes)


def resolve_directory(directory: Any, filesystem: Any) -> tuple[Any, str]:
    """(store or ``None`` for local, path without a slash at its end)."""
    location = locate(directory, filesystem)
    if location.is_local:
        return None, os.path.abspath(location.path)
    return location.store, location.path.rstrip("/")
