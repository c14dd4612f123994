"""Durable writes: fsync of files and directories."""

from __future__ import annotations

import os


def sync_path(path: str | os.PathLike[str]) -> None:
    """Syncs a file or directory. Syncing a file does not sync its name; its directory does."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
