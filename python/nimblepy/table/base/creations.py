"""Records of tables that are being created, by which the files of a killed creation are found.

A table gets its rows before the catalog knows it. The record is a small file beside the table's
directory: ``.creating/events-0123456789ab`` for the directory ``events-0123456789ab``.
"""

from __future__ import annotations

import contextlib
import os

from nimblepy.io.location import locate
from nimblepy.table.base.places import readable_path, remove_file

FOLDER = ".creating"
_ATTEMPTS = 20


def record_of(location: str) -> str:
    """Returns the path of the record for a table's directory."""
    folder, _, name = location.rstrip("/").rpartition("/")
    return f"{folder}/{FOLDER}/{name}"


def record_creation(location: str, owner: str) -> None:
    """Writes the record of a table. ``owner`` identifies the catalog that creates it."""
    path = readable_path(record_of(location))
    place = locate(path)
    if not place.is_local:
        place.write(owner.encode())
        return
    for attempt in range(_ATTEMPTS):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(path, "wb") as sink:
                sink.write(owner.encode())
            return
        except FileNotFoundError:  # another creation has removed the empty directory
            if attempt == _ATTEMPTS - 1:
                raise


def forget_creation(location: str) -> None:
    """Removes the record of a table, if it exists.

    Raises:
        OSError: the record cannot be removed.
    """
    path = record_of(location)
    remove_file(path)
    place = locate(readable_path(path))
    if place.is_local:
        with contextlib.suppress(OSError):  # only an empty directory is removed
            os.rmdir(os.path.dirname(place.path))


def owner_in(path: str) -> str:
    """Returns the catalog that wrote a record; an empty text if the record is gone."""
    place = locate(readable_path(path))
    try:
        if not place.is_local:
            return place.read().decode(errors="replace")
        with open(place.path, "rb") as source:
            return source.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def remove_empty_folders(location: str) -> None:
    """Removes the empty directories of a local table that was not created."""
    place = locate(readable_path(location))
    if place.is_local:
        for folder, _, _ in os.walk(place.path, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
