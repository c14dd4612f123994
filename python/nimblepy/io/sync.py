"""What is still there after a loss of power."""

from __future__ import annotations

import os


def sync_path(path: str | os.PathLike[str]) -> None:
    """Puts a file on the disk, or the names in a directory, which syncing its files does not."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
